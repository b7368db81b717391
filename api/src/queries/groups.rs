//! Answers in groups.

use std::time::Instant;

use actix_web::HttpResponse;
use dehub_index::Snapshot;
use dehub_query::{Group, GroupKey, Grouping, LIMIT_MAX, Request};
use dehub_vector::PointId;
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

use super::body::{Form, part};
use super::reply::{self, FoundBy, HitReply};
use super::{Elsewhere, HITS_MAX, TIMEOUT, search_failed};
use crate::call::{Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, INVALID_LIMIT, NOT_SUPPORTED};
use crate::filter;
use crate::openapi::GroupValue;
use crate::points::{self, PointReply};
use crate::problem::Problem;
use crate::selectors::Selection;
use crate::slow::Searched;
use crate::vectors::VectorSelector;

/// Groups of an answer unless the body says how many.
const GROUPS_DEFAULT: usize = 10;

/// Points of a group unless the body says how many.
const SIZE_DEFAULT: usize = 3;

/// Points in the lists of prefetches that are grouped: these are as long as the collection, and in memory.
const LISTED_MAX: usize = 4_000_000;

/// Points of a request and all its prefetches, if each has so many.
fn hits_of(points: usize, request: &Request) -> usize {
    request.prefetch.iter().fold(points, |hits, prefetch| hits.saturating_add(hits_of(points, prefetch)))
}

/// An answer in groups.
#[derive(Serialize, ToSchema)]
#[schema(as = Groups)]
pub(crate) struct GroupsReply {
    groups: Vec<GroupReply>,
    #[serde(flatten)]
    found_by: FoundBy,
}

/// The best points with one value.
#[derive(Serialize, ToSchema)]
#[schema(as = Group)]
struct GroupReply {
    #[schema(value_type = GroupValue)]
    id: GroupKeyReply,
    hits: Vec<HitReply>,
    /// The point of another collection whose id is the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    lookup: Option<PointReply>,
}

/// A value that points are grouped by.
struct GroupKeyReply(GroupKey);

impl Serialize for GroupKeyReply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            GroupKey::Number(number) => serializer.serialize_i128(*number),
            GroupKey::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// `POST /collections/{collection}/points/query/groups`
pub(crate) async fn query_groups(call: Call) -> HttpResponse {
    answer(call, Form::Query).await
}

/// `POST /collections/{collection}/points/search/groups`
pub(crate) async fn search_groups(call: Call) -> HttpResponse {
    answer(call, Form::Search).await
}

/// `POST /collections/{collection}/points/recommend/groups`
pub(crate) async fn recommend_groups(call: Call) -> HttpResponse {
    answer(call, Form::Recommend).await
}

async fn answer(call: Call, form: Form) -> HttpResponse {
    call.answer_body(&[TIMEOUT], move |task, body| task.reply(&groups(&task, body, form)?)).await
}

fn groups(task: &Task, body: Value, form: Form) -> Result<GroupsReply, Problem> {
    let collection = task.collection()?;
    let snapshot = &collection.snapshot();
    let mut fields = Fields::new(body, Place::Body)?;
    let grouping = grouping(&mut fields)?;
    let looked_up = fields.optional("with_lookup", |value, place| with_lookup(task, value, place))?;
    let mut asked = part(task, &mut fields, Place::Body, form)?;
    fields.finish()?;
    // The limit is that of the groups.
    asked.request.settings.limit = None;
    let refused = |field, what| {
        let pointer = format!("/{field}");
        Err(Problem::new(NOT_SUPPORTED, format!("`{pointer}`: {what}")).at(pointer))
    };
    if asked.request.offset > 0 {
        return refused("offset", "groups begin with the first");
    }
    if asked.explain {
        return refused("hubness/explain", "groups are not explained");
    }
    let lists = hits_of(snapshot.len(), &asked.request);
    if !asked.request.prefetch.is_empty() && lists > LISTED_MAX {
        let detail = format!(
            "`/prefetch`: groups take every point into the list of each prefetch, which are {lists} together, \
             wanted at most {LISTED_MAX}: group without prefetches"
        );
        return Err(Problem::new(INVALID_LIMIT, detail).at("/prefetch").found(lists));
    }
    let scope = &snapshot.scope().until(task.deadline()?);
    let begun = Instant::now();
    let found = dehub_query::group(snapshot, scope, &asked.request, &grouping);
    let searched = begun.elapsed();
    let (groups, answered) = match found {
        Ok(found) => found,
        Err(error) => {
            search_failed(task, snapshot, vec![asked.request], searched);
            return Err(errors::request(&error, &asked.places));
        }
    };
    if let Some(open) = answered.gate_open
        && let Ok(space) = collection.space(asked.request.using.as_deref())
    {
        task.watched(&space)?.count_gate(open);
    }
    let reply = |Group { key, hits }| {
        let looked_up = looked_up.as_ref().map(|(other, selection)| point(other, &key, selection));
        Ok(GroupReply {
            hits: reply::hits(snapshot, &hits, None, &asked)?,
            lookup: looked_up.transpose()?.flatten(),
            id: GroupKeyReply(key),
        })
    };
    let groups = groups.into_iter().map(reply).collect::<Result<_, _>>()?;
    let found_by = FoundBy::new(&answered);
    let (requests, plan) = (vec![asked.request], answered.plan);
    let read = begun.elapsed().saturating_sub(searched);
    task.searched(Searched { requests, plan, searched, read });
    Ok(GroupsReply { groups, found_by })
}

/// Reads `group_by`, `group_size` and `limit`.
fn grouping(fields: &mut Fields<'_>) -> Result<Grouping, Problem> {
    let count = |value, place: Place<'_>| {
        let found = decode::count(value, place)?;
        if (1..=LIMIT_MAX).contains(&found) {
            return Ok(found);
        }
        let wanted = format!("1 to {LIMIT_MAX}");
        let detail = format!("`{place}` is {found}, wanted {wanted}");
        Err(Problem::new(INVALID_LIMIT, detail).at(place).wanted(wanted).found(found))
    };
    let key = fields.required("group_by", filter::path)?;
    let size = fields.optional("group_size", count)?.unwrap_or(SIZE_DEFAULT);
    let groups = fields.optional("limit", count)?.unwrap_or(GROUPS_DEFAULT);
    if groups.saturating_mul(size) > HITS_MAX {
        let detail = format!("{groups} groups of {size} are too many, wanted at most {HITS_MAX} hits");
        return Err(Problem::new(INVALID_LIMIT, detail).at("/group_size").found(size));
    }
    Ok(Grouping { key, groups, size })
}

/// A collection's name, or `{"collection", "with_payload", "with_vectors"}`.
fn with_lookup(
    task: &Task,
    value: Value,
    place: Place<'_>,
) -> Result<(std::sync::Arc<Snapshot>, Selection), Problem> {
    if value.is_string() {
        let selection = Selection { vector: VectorSelector::Nothing, ..Selection::ALL };
        return Ok((task.snapshot(&decode::name(value, place)?, place)?, selection));
    }
    let mut fields = Fields::new(value, place)?;
    let name = fields.required("collection", decode::name)?;
    let mut selection = Selection::read(&mut fields, true)?;
    // Qdrant's name for it here.
    let vectors = fields.optional("with_vectors", VectorSelector::read)?;
    fields.finish()?;
    let snapshot = task.snapshot(&name, place)?;
    if let Some(vectors) = vectors {
        let unknown = vectors.check(&snapshot);
        unknown.map_err(|unknown| errors::space(&unknown).at(place.field("with_vectors")))?;
        selection.vector = vectors;
    }
    Ok((snapshot, selection))
}

/// The point whose id is a group's value.
fn point(snapshot: &Snapshot, key: &GroupKey, selection: &Selection) -> Result<Option<PointReply>, Problem> {
    let id = match key {
        GroupKey::Number(number) => u64::try_from(*number).ok().map(PointId::Number),
        GroupKey::Text(text) => PointId::text(text).ok(),
    };
    let Some(id) = id else { return Ok(None) };
    Ok(points::found(snapshot, std::slice::from_ref(&id), selection)?.pop())
}
