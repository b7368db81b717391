//! Facets: the values of a payload field, counted.

use actix_web::HttpResponse;
use dehub_query::{Exact, FacetCount, facets};
use serde::Serialize;
use utoipa::ToSchema;

use crate::call::Call;
use crate::decode::{self, Fields, Place};
use crate::errors;
use crate::filter::{self, path};
use crate::scroll::{PAGE_DEFAULT, limit};

#[derive(Serialize, ToSchema)]
#[schema(as = Facets)]
pub(crate) struct FacetReply {
    hits: Vec<FacetHitReply>,
}

/// A value, and how many points have it.
#[derive(Serialize, ToSchema)]
#[schema(as = FacetHit)]
struct FacetHitReply {
    value: FacetValueReply,
    count: usize,
}

#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = FacetValue)]
enum FacetValueReply {
    Bool(bool),
    Integer(i64),
    Text(Box<str>),
}

impl FacetHitReply {
    fn new(FacetCount { value, count }: FacetCount) -> FacetHitReply {
        let value = match value {
            Exact::Bool(flag) => FacetValueReply::Bool(flag),
            Exact::Integer(number) => FacetValueReply::Integer(number),
            Exact::Text(text) => FacetValueReply::Text(text),
        };
        FacetHitReply { value, count }
    }
}

/// `POST /collections/{collection}/facet`
pub(crate) async fn facet(call: Call) -> HttpResponse {
    call.answer_body(&["timeout"], |task, body| {
        let snapshot = task.collection()?.snapshot();
        let mut fields = Fields::new(body, Place::Body)?;
        let key = fields.required("key", path)?;
        let limit = fields.optional("limit", limit)?.unwrap_or(PAGE_DEFAULT);
        let filter = fields.optional("filter", filter::whole)?.unwrap_or_default();
        // Counts are always exact, which serves those who do not need it to be as well.
        fields.optional("exact", decode::flag)?;
        fields.finish()?;
        let refused = |error| errors::listing(&error);
        let scope = snapshot.scope().until(task.deadline()?);
        let allowed = filter.within(&snapshot, &scope).map_err(refused)?;
        let found = facets(&snapshot, &allowed, &key, limit).map_err(refused)?;
        task.reply(&FacetReply { hits: found.into_iter().map(FacetHitReply::new).collect() })
    })
    .await
}
