//! Filters: conditions on the points of an answer, in Qdrant's form.

use std::sync::Arc;

use dehub_query::Filter;
use dehub_vector::PointId;
use serde_json::Value;

use crate::decode::{self, Fields, Place};
use crate::errors::BATCH_TOO_LARGE;
use crate::problem::Problem;

/// Ids of one condition: all are looked up in one read of the store.
const IDS_MAX: usize = 1_000_000;

/// `{"must": [{"has_id": […]}], "must_not": […]}`. `None` if it has no condition, which allows every point.
pub(crate) fn filter(value: Value, place: Place<'_>) -> Result<Option<Arc<Filter>>, Problem> {
    let mut fields = Fields::new(value, place)?;
    let must = fields.optional("must", conditions)?.unwrap_or_default();
    let must_not = fields.optional("must_not", conditions)?.unwrap_or_default();
    fields.finish()?;
    let is_empty = must.is_empty() && must_not.is_empty();
    Ok((!is_empty).then(|| Arc::new(Filter { must, must_not })))
}

/// A list of conditions, or a single one.
fn conditions(value: Value, place: Place<'_>) -> Result<Vec<Vec<PointId>>, Problem> {
    match value {
        Value::Array(_) => decode::list(value, place, condition),
        Value::Object(_) => Ok(vec![condition(value, place)?]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(decode::wrong(place, &value, "a list of conditions"))
        }
    }
}

fn condition(value: Value, place: Place<'_>) -> Result<Vec<PointId>, Problem> {
    let mut fields = Fields::new(value, place)?;
    let ids = fields.optional("has_id", |value, place| {
        let ids = decode::list(value, place, decode::id)?;
        if ids.len() <= IDS_MAX {
            return Ok(ids);
        }
        let detail = format!("`{place}` has {} ids, wanted at most {IDS_MAX}", ids.len());
        Err(Problem::new(BATCH_TOO_LARGE, detail).at(place).wanted(IDS_MAX).found(ids.len()))
    })?;
    let missing = fields.missing("the field `has_id`");
    // A kind of condition that is not there is named rather than the one that is.
    fields.finish()?;
    ids.ok_or(missing)
}
