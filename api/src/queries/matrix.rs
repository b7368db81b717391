//! How near the points of a sample are to each other.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use actix_web::HttpResponse;
use dehub_query::{Kind, MatrixRow, Ranking, Request, Settings};
use dehub_vector::PointId;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::body::{Places, hubness, params, using};
use super::{TIMEOUT, kinds};
use crate::call::{Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors;
use crate::filter::filter;
use crate::openapi::Id;
use crate::problem::Problem;
use crate::slow::Searched;

/// Points of a sample unless the body says how many.
const SAMPLE_DEFAULT: usize = 10;

/// Points of a sample at most: each is compared with each.
const SAMPLE_MAX: usize = 4096;

/// Neighbours of a point unless the body says how many.
const LIMIT_DEFAULT: usize = 3;

/// The matrix as a list of its entries.
#[derive(Serialize, ToSchema)]
#[schema(as = MatrixPairs)]
pub(crate) struct PairsReply {
    pairs: Vec<PairReply>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = MatrixPair)]
struct PairReply {
    #[schema(value_type = Id)]
    a: PointId,
    #[schema(value_type = Id)]
    b: PointId,
    score: f32,
}

/// The matrix as places of its entries.
#[derive(Serialize, ToSchema)]
#[schema(as = MatrixOffsets)]
pub(crate) struct OffsetsReply {
    offsets_row: Vec<usize>,
    offsets_col: Vec<usize>,
    scores: Vec<f32>,
    #[schema(value_type = Vec<Id>)]
    ids: Vec<PointId>,
}

/// `POST /collections/{collection}/points/search/matrix/pairs`
pub(crate) async fn pairs(call: Call) -> HttpResponse {
    call.answer_body(&[TIMEOUT], |task, body| {
        let rows = matrix(&task, body)?;
        let id_of: HashMap<u32, &PointId> = rows.iter().map(|row| (row.row, &row.id)).collect();
        let of_row = |row: &MatrixRow| {
            let pair = |found: &dehub_query::Found| {
                let b = id_of.get(&found.row).copied()?;
                Some(PairReply { a: row.id.clone(), b: b.clone(), score: found.score })
            };
            row.nearest.iter().filter_map(pair).collect::<Vec<_>>()
        };
        task.reply(&PairsReply { pairs: rows.iter().flat_map(of_row).collect() })
    })
    .await
}

/// `POST /collections/{collection}/points/search/matrix/offsets`
pub(crate) async fn offsets(call: Call) -> HttpResponse {
    call.answer_body(&[TIMEOUT], |task, body| {
        let rows = matrix(&task, body)?;
        let place_of: HashMap<u32, usize> =
            rows.iter().zip(0..).map(|(row, place)| (row.row, place)).collect();
        let (mut offsets_row, mut offsets_col, mut scores) = (Vec::new(), Vec::new(), Vec::new());
        for (place, row) in rows.iter().enumerate() {
            for found in &row.nearest {
                let Some(&other) = place_of.get(&found.row) else { continue };
                offsets_row.push(place);
                offsets_col.push(other);
                scores.push(found.score);
            }
        }
        let ids = rows.into_iter().map(|row| row.id).collect();
        task.reply(&OffsetsReply { offsets_row, offsets_col, scores, ids })
    })
    .await
}

fn matrix(task: &Task, body: Value) -> Result<Vec<MatrixRow>, Problem> {
    let snapshot = &task.collection()?.snapshot();
    let mut fields = Fields::new(body, Place::Body)?;
    let filter = fields.optional("filter", filter)?.flatten();
    let sample = fields.optional("sample", |value, place| {
        let found = decode::whole(value, place)?;
        let is_in_range = (2..=SAMPLE_MAX).contains(&found);
        let wanted = format!("a whole number from 2 to {SAMPLE_MAX}");
        if is_in_range { Ok(found) } else { Err(decode::out_of_range(place, found, &wanted)) }
    })?;
    let limit = fields.optional("limit", decode::count)?.unwrap_or(LIMIT_DEFAULT);
    let using = using(&mut fields)?.map(|(name, _)| name);
    let search = fields.optional("params", params)?.unwrap_or_default();
    let hubness = fields.optional("hubness", |value, place| match hubness(value, place)? {
        (ranking, false) => Ok(ranking),
        (_, true) => {
            let pointer = place.field("explain").to_string();
            Err(Problem::new(errors::NOT_SUPPORTED, format!("`{pointer}`: a matrix is not explained"))
                .at(pointer))
        }
    })?;
    fields.finish()?;
    let ranking: Ranking = hubness.unwrap_or_default();
    let settings = Settings { limit: Some(limit), ranking, search, filter, ..Settings::default() };
    let scope = &snapshot.scope().until(task.deadline()?);
    let drawn = (sample.unwrap_or(SAMPLE_DEFAULT), kinds::seed());
    let begun = Instant::now();
    let rows = dehub_query::matrix(snapshot, scope, using.as_deref(), &settings, drawn);
    let searched = begun.elapsed();
    let requests = vec![Request { using, ..Request::new(Kind::Sample { seed: drawn.1 }, settings) }];
    task.searched(Searched { requests, plan: None, searched, read: Duration::ZERO });
    rows.map_err(|error| errors::request(&error, &Places::body()))
}
