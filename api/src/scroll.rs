//! Points page by page: in the order of their ids, or of a payload field.

use actix_web::HttpResponse;
use dehub_index::{Point, Scalar, Scope, Snapshot};
use dehub_query::{Filter, OrderBy, OrderValue, Page, ordered, page};
use dehub_vector::PointId;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::call::Call;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, INVALID_LIMIT, INVALID_VALUE};
use crate::filter::{self, path};
use crate::openapi::Id;
use crate::problem::Problem;
use crate::selectors::{Parts, Selection};

/// Points of a page, and values of a facet, unless a body says otherwise.
pub(crate) const PAGE_DEFAULT: usize = 10;
/// The largest page: an answer is made in memory.
pub(crate) const PAGE_MAX: usize = 100_000;

/// A page.
#[derive(Serialize, ToSchema)]
#[schema(as = Page)]
pub(crate) struct ScrollReply {
    points: Vec<RecordReply>,
    /// The `offset` of the next page; `null` on the last one, and in the order of a field.
    #[schema(value_type = Option<Id>)]
    next_page_offset: Option<PointId>,
}

/// A point, with the parts that were asked for.
#[derive(Serialize, ToSchema)]
#[schema(as = Record)]
struct RecordReply {
    #[schema(value_type = Id)]
    id: PointId,
    #[serde(flatten)]
    parts: Parts,
    /// In the order of a field, the value that puts it here: a moment is in microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    order_value: Option<OrderValueReply>,
}

#[derive(Serialize, Clone, Copy)]
#[serde(untagged)]
pub(crate) enum OrderValueReply {
    Integer(i64),
    Float(f64),
}

impl OrderValueReply {
    pub(crate) fn new(value: OrderValue) -> OrderValueReply {
        match value {
            OrderValue::Integer(number) => OrderValueReply::Integer(number),
            OrderValue::Float(number) => OrderValueReply::Float(number),
        }
    }
}

/// What a body asks for.
struct Asked {
    limit: usize,
    offset: Option<PointId>,
    filter: Filter,
    order: Option<OrderBy>,
    selection: Selection,
}

/// `POST /collections/{collection}/points/scroll`
pub(crate) async fn scroll(call: Call) -> HttpResponse {
    call.answer_optional_body(&["timeout"], |task, body| {
        let snapshot = task.collection()?.snapshot();
        let asked = asked(body)?;
        let scope = snapshot.scope().until(task.deadline()?);
        task.reply(&reply(&snapshot, &scope, &asked)?)
    })
    .await
}

fn asked(body: Value) -> Result<Asked, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let limit = fields.optional("limit", limit)?.unwrap_or(PAGE_DEFAULT);
    let offset = fields.optional("offset", decode::id)?;
    let filter = fields.optional("filter", filter::whole)?.unwrap_or_default();
    let order = fields.optional("order_by", order_by)?;
    let selection = Selection::read(&mut fields, true)?;
    fields.finish()?;
    if offset.is_some() && order.is_some() {
        let detail =
            "`/offset` is an id, and has no meaning in the order of a field: give `start_from` in `order_by`";
        return Err(Problem::new(INVALID_VALUE, detail).at("/offset"));
    }
    Ok(Asked { limit, offset, filter, order, selection })
}

/// From 1 to [`PAGE_MAX`].
pub(crate) fn limit(value: Value, place: Place<'_>) -> Result<usize, Problem> {
    let limit = decode::count(value, place)?;
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(limit);
    }
    let detail = format!("`{place}` is {limit}, wanted 1 to {PAGE_MAX}");
    Err(Problem::new(INVALID_LIMIT, detail).at(place).wanted(format_args!("1 to {PAGE_MAX}")).found(limit))
}

/// A path, or `{"key", "direction", "start_from"}`.
pub(crate) fn order_by(value: Value, place: Place<'_>) -> Result<OrderBy, Problem> {
    if value.is_string() {
        return Ok(OrderBy { key: path(value, place)?, descending: false, start_from: None });
    }
    let mut fields = Fields::new(value, place)?;
    let key = fields.required("key", path)?;
    let descending = fields.optional("direction", |value, place| match &*decode::string(value, place)? {
        "asc" => Ok(false),
        "desc" => Ok(true),
        other => Err(decode::out_of_range(place, format_args!("{other:?}"), "asc or desc")),
    })?;
    let start_from = fields.optional("start_from", |value, place| {
        const WANTED: &str = "a number, or a date and time such as 2024-06-15T12:00:00Z";
        OrderValue::of(Scalar::of(&value)).ok_or_else(|| decode::wrong(place, &value, WANTED))
    })?;
    fields.finish()?;
    Ok(OrderBy { key, descending: descending.unwrap_or(false), start_from })
}

fn reply(snapshot: &Snapshot, scope: &Scope, asked: &Asked) -> Result<ScrollReply, Problem> {
    let refused = |error| errors::listing(&error);
    let (rows, next_page_offset): (Vec<(u32, Option<OrderValue>)>, _) = match &asked.order {
        None => {
            let found = page(snapshot, scope, &asked.filter, asked.offset.as_ref(), asked.limit);
            let Page { rows, next } = found.map_err(refused)?;
            (rows.into_iter().map(|row| (row, None)).collect(), next)
        }
        Some(order) => {
            let allowed = asked.filter.within(snapshot, scope).map_err(refused)?;
            let found = ordered(snapshot, &allowed, order, asked.limit).map_err(refused)?;
            (found.into_iter().map(|(row, value)| (row, Some(value))).collect(), None)
        }
    };
    let numbers: Vec<u32> = rows.iter().map(|&(row, _)| row).collect();
    let points = snapshot.points(&numbers).map_err(|error| errors::read(&error))?;
    let record = |(mut point, (row, value)): (Point, (u32, Option<OrderValue>))| {
        let parts = asked.selection.parts(snapshot, row, &mut point)?;
        Ok(RecordReply { id: point.id, parts, order_value: value.map(OrderValueReply::new) })
    };
    let points = points.into_iter().zip(rows).map(record).collect::<Result<_, Problem>>()?;
    Ok(ScrollReply { points, next_page_offset })
}
