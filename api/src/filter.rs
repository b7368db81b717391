//! Filters: conditions on the points of an answer, in Qdrant's form.

use std::sync::Arc;

use dehub_index::{GeoPoint, PayloadPath, moment};
use dehub_query::{
    Area, Bounds, Condition, Exact, Filter, FilterTextError, Match, MinShould, OneOf, Slice, Test, Words,
};
use serde_json::Value;

use crate::decode::{self, Fields, Place};
use crate::errors::{BATCH_TOO_LARGE, INVALID_VALUE};
use crate::problem::Problem;

/// Ids of one condition: all are looked up in one read of the store.
const IDS_MAX: usize = 1_000_000;

/// What a condition may be, for a message.
const CONDITIONS: &str = "a condition: the field `key` with a test, or one of `is_empty`, `is_null`, `has_id`, \
    `has_vector`, `slice`, `nested`, `must`, `should`, `must_not` and `min_should`";

const TESTS: &str = "one test: `match`, `range`, `geo_bounding_box`, `geo_radius`, `geo_polygon`, `values_count`, \
    `is_empty` or `is_null`";

const MATCHES: &str =
    "one of `value`, `any`, `except`, `text`, `text_any`, `phrase`, `prefix` and `substring`";

/// `{"must": […], "should": […], "must_not": […], "min_should": {…}}`. `None` if it has no condition, which allows
/// every point.
pub(crate) fn filter(value: Value, place: Place<'_>) -> Result<Option<Arc<Filter>>, Problem> {
    let filter = whole(value, place)?;
    Ok((!filter.is_empty()).then(|| Arc::new(filter)))
}

/// A filter as text: in its readable form, or as JSON if it begins with `{`.
///
/// # Errors
/// What is wrong with it and where, as text.
pub fn read_filter(text: &str) -> Result<Filter, String> {
    if !text.trim_start().starts_with('{') {
        return text.parse().map_err(|error: FilterTextError| error.to_string());
    }
    let read = || whole(decode::body(text.as_bytes())?, Place::Body);
    read().map_err(|problem: Problem| problem.detail().to_owned())
}

/// The same, also if it has no condition.
pub(crate) fn whole(value: Value, place: Place<'_>) -> Result<Filter, Problem> {
    let mut fields = Fields::new(value, place)?;
    let filter = parts(&mut fields)?;
    fields.finish()?;
    Ok(filter)
}

fn parts(fields: &mut Fields<'_>) -> Result<Filter, Problem> {
    Ok(Filter {
        must: fields.optional("must", conditions)?.unwrap_or_default(),
        should: fields.optional("should", conditions)?.unwrap_or_default(),
        must_not: fields.optional("must_not", conditions)?.unwrap_or_default(),
        min_should: fields.optional("min_should", min_should)?,
    })
}

fn min_should(value: Value, place: Place<'_>) -> Result<MinShould, Problem> {
    let mut fields = Fields::new(value, place)?;
    let conditions = fields.required("conditions", |value, place| decode::list(value, place, condition))?;
    let least = fields.required("min_count", |value, place| match decode::count(value, place)? {
        0 => Err(decode::out_of_range(place, 0, "a whole number from 1")),
        least => Ok(least),
    })?;
    fields.finish()?;
    Ok(MinShould { conditions, least })
}

/// A list of conditions, or a single one.
fn conditions(value: Value, place: Place<'_>) -> Result<Vec<Condition>, Problem> {
    match value {
        Value::Array(_) => decode::list(value, place, condition),
        Value::Object(_) => Ok(vec![condition(value, place)?]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(decode::wrong(place, &value, "a list of conditions"))
        }
    }
}

fn condition(value: Value, place: Place<'_>) -> Result<Condition, Problem> {
    let mut fields = Fields::new(value, place)?;
    if fields.has("key") {
        return field_condition(fields, place);
    }
    let found = if ["must", "should", "must_not", "min_should"].iter().any(|name| fields.has(name)) {
        Some(Condition::Filter(Box::new(parts(&mut fields)?)))
    } else if fields.has("is_empty") {
        fields.optional("is_empty", keyed)?.map(Condition::IsEmpty)
    } else if fields.has("is_null") {
        fields.optional("is_null", keyed)?.map(Condition::IsNull)
    } else if fields.has("has_vector") {
        fields.optional("has_vector", decode::string)?.map(|name| Condition::HasVector(name.into()))
    } else if fields.has("slice") {
        fields.optional("slice", slice)?.map(Condition::Slice)
    } else if fields.has("nested") {
        fields.optional("nested", nested)?
    } else {
        fields.optional("has_id", ids)?.map(Condition::HasId)
    };
    let missing = fields.missing(CONDITIONS);
    // A kind of condition that is not there is named rather than the one that is.
    fields.finish()?;
    found.ok_or(missing)
}

fn ids(value: Value, place: Place<'_>) -> Result<Vec<dehub_vector::PointId>, Problem> {
    let ids = decode::list(value, place, decode::id)?;
    if ids.len() <= IDS_MAX {
        return Ok(ids);
    }
    let detail = format!("`{place}` has {} ids, wanted at most {IDS_MAX}", ids.len());
    Err(Problem::new(BATCH_TOO_LARGE, detail).at(place).wanted(IDS_MAX).found(ids.len()))
}

/// `{"key": path}`
fn keyed(value: Value, place: Place<'_>) -> Result<PayloadPath, Problem> {
    let mut fields = Fields::new(value, place)?;
    let key = fields.required("key", path)?;
    fields.finish()?;
    Ok(key)
}

/// A path into payloads.
pub(crate) fn path(value: Value, place: Place<'_>) -> Result<PayloadPath, Problem> {
    let text = decode::string(value, place)?;
    text.parse().map_err(|error: dehub_index::PathError| {
        Problem::new(INVALID_VALUE, format!("`{place}`: {error}")).at(place).found(error.path)
    })
}

fn slice(value: Value, place: Place<'_>) -> Result<Slice, Problem> {
    let mut fields = Fields::new(value, place)?;
    let total = fields.required("total", |value, place| match decode::count(value, place)? {
        0 => Err(decode::out_of_range(place, 0, "a whole number from 1")),
        total => Ok(total),
    })?;
    let index = fields.required("index", |value, place| match decode::whole(value, place)? {
        index if index < total => Ok(index),
        index => Err(decode::out_of_range(place, index, "a whole number from 0, less than `total`")),
    })?;
    fields.finish()?;
    Ok(Slice { total: total as u64, index: index as u64 })
}

fn nested(value: Value, place: Place<'_>) -> Result<Condition, Problem> {
    let mut fields = Fields::new(value, place)?;
    let key = fields.required("key", path)?;
    let filter = Box::new(fields.required("filter", whole)?);
    fields.finish()?;
    Ok(Condition::Nested { key, filter })
}

/// The one that is given, of what excludes each other.
fn one_of<T>(
    given: impl IntoIterator<Item = Option<T>>,
    fields: &Fields<'_>,
    place: Place<'_>,
    wanted: &str,
) -> Result<T, Problem> {
    let mut given = given.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(fields.missing(wanted)),
        (Some(_), Some(_)) => {
            let detail = format!("`{place}` says more than one thing, wanted {wanted}");
            Err(Problem::new(INVALID_VALUE, detail).at(place).wanted(wanted))
        }
    }
}

fn field_condition(mut fields: Fields<'_>, place: Place<'_>) -> Result<Condition, Problem> {
    let key = fields.required("key", path)?;
    let test = |test| Condition::Field { key: key.clone(), test };
    let flagged =
        |holds: bool, condition| if holds { condition } else { Condition::Not(Box::new(condition)) };
    let given = [
        fields.optional("match", matching)?.map(|own| test(Test::Match(own))),
        fields.optional("range", range)?.map(test),
        fields.optional("geo_bounding_box", bounding_box)?.map(|area| test(Test::Geo(area))),
        fields.optional("geo_radius", circle)?.map(|area| test(Test::Geo(area))),
        fields.optional("geo_polygon", polygon)?.map(|area| test(Test::Geo(area))),
        fields.optional("values_count", count)?.map(|bounds| Condition::Count { key: key.clone(), bounds }),
        fields.optional("is_empty", decode::flag)?.map(|it| flagged(it, Condition::IsEmpty(key.clone()))),
        fields.optional("is_null", decode::flag)?.map(|it| flagged(it, Condition::IsNull(key.clone()))),
    ];
    let found = one_of(given, &fields, place, TESTS);
    fields.finish()?;
    found
}

fn matching(value: Value, place: Place<'_>) -> Result<Match, Problem> {
    let mut fields = Fields::new(value, place)?;
    let words = |value, place: Place<'_>| decode::string(value, place).map(|text| Words::of(&text));
    let given = [
        fields.optional("value", exact)?.map(Match::Value),
        fields.optional("any", any)?.map(Match::Any),
        fields.optional("except", any)?.map(Match::Except),
        fields.optional("text", words)?.map(Match::Text),
        fields.optional("text_any", words)?.map(Match::AnyWord),
        fields.optional("phrase", words)?.map(Match::Phrase),
        fields.optional("prefix", decode::string)?.map(|text| Match::Prefix(text.into())),
        fields.optional("substring", decode::string)?.map(|text| Match::Substring(text.into())),
    ];
    let found = one_of(given, &fields, place, MATCHES);
    fields.finish()?;
    found
}

fn any(value: Value, place: Place<'_>) -> Result<OneOf, Problem> {
    Ok(decode::list(value, place, exact)?.into_iter().collect())
}

fn exact(value: Value, place: Place<'_>) -> Result<Exact, Problem> {
    const WANTED: &str = "a string, true, false or a whole number of 64 bits with a sign";
    match value {
        Value::String(text) => Ok(Exact::Text(text.into())),
        Value::Bool(flag) => Ok(Exact::Bool(flag)),
        Value::Number(ref number) => match number.as_i64() {
            Some(number) => Ok(Exact::Integer(number)),
            None => Err(decode::out_of_range(place, number, WANTED)),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => Err(decode::wrong(place, &value, WANTED)),
    }
}

/// A bound of a range: a number, or a moment.
enum Bound {
    Number(f64),
    Moment(i64),
}

fn bound(value: Value, place: Place<'_>) -> Result<Bound, Problem> {
    const WANTED: &str = "a number, or a date and time such as 2024-06-15T12:00:00Z";
    match value {
        Value::Number(_) => decode::number(value, place).map(Bound::Number),
        Value::String(text) => match moment(&text) {
            Some(found) => Ok(Bound::Moment(found)),
            None => Err(decode::out_of_range(place, format_args!("{text:?}"), WANTED)),
        },
        other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            Err(decode::wrong(place, &other, WANTED))
        }
    }
}

fn range(value: Value, place: Place<'_>) -> Result<Test, Problem> {
    let bounds = bounds(value, place, bound)?;
    let all = [&bounds.gt, &bounds.gte, &bounds.lt, &bounds.lte];
    let is_of_moments = all.into_iter().flatten().any(|bound| matches!(bound, Bound::Moment(_)));
    let is_of_numbers = all.into_iter().flatten().any(|bound| matches!(bound, Bound::Number(_)));
    if is_of_moments && is_of_numbers {
        let detail = format!("`{place}` has numbers and moments, wanted bounds of one kind");
        return Err(Problem::new(INVALID_VALUE, detail).at(place));
    }
    let number = |bound| if let Bound::Number(number) = bound { Some(number) } else { None };
    let of_moment = |bound| if let Bound::Moment(found) = bound { Some(found) } else { None };
    let Bounds { gt, gte, lt, lte } = bounds;
    Ok(if is_of_moments {
        let part = |bound: Option<Bound>| bound.and_then(of_moment);
        Test::Moments(Bounds { gt: part(gt), gte: part(gte), lt: part(lt), lte: part(lte) })
    } else {
        let part = |bound: Option<Bound>| bound.and_then(number);
        Test::Range(Bounds { gt: part(gt), gte: part(gte), lt: part(lt), lte: part(lte) })
    })
}

fn bounds<T>(
    value: Value,
    place: Place<'_>,
    read: fn(Value, Place<'_>) -> Result<T, Problem>,
) -> Result<Bounds<T>, Problem> {
    let mut fields = Fields::new(value, place)?;
    let bounds = Bounds {
        gt: fields.optional("gt", read)?,
        gte: fields.optional("gte", read)?,
        lt: fields.optional("lt", read)?,
        lte: fields.optional("lte", read)?,
    };
    fields.finish()?;
    Ok(bounds)
}

fn count(value: Value, place: Place<'_>) -> Result<Bounds<u64>, Problem> {
    bounds(value, place, |value, place| Ok(decode::whole(value, place)? as u64))
}

fn geo_point(value: Value, place: Place<'_>) -> Result<GeoPoint, Problem> {
    let mut fields = Fields::new(value, place)?;
    let within = |least: f64, most: f64, wanted: &'static str| {
        move |value: Value, place: Place<'_>| match decode::number(value, place)? {
            degrees if (least..=most).contains(&degrees) => Ok(degrees),
            degrees => Err(decode::out_of_range(place, degrees, wanted)),
        }
    };
    let lat = fields.required("lat", within(-90.0, 90.0, "-90 to 90"))?;
    let lon = fields.required("lon", within(-180.0, 180.0, "-180 to 180"))?;
    fields.finish()?;
    Ok(GeoPoint { lat, lon })
}

fn bounding_box(value: Value, place: Place<'_>) -> Result<Area, Problem> {
    let mut fields = Fields::new(value, place)?;
    let top_left = fields.required("top_left", geo_point)?;
    let bottom_right = fields.required("bottom_right", geo_point)?;
    fields.finish()?;
    Ok(Area::Box { top_left, bottom_right })
}

fn circle(value: Value, place: Place<'_>) -> Result<Area, Problem> {
    let mut fields = Fields::new(value, place)?;
    let center = fields.required("center", geo_point)?;
    let radius = fields.required("radius", |value, place| match decode::number(value, place)? {
        radius if radius >= 0.0 => Ok(radius),
        radius => Err(decode::out_of_range(place, radius, "a number of metres from 0")),
    })?;
    fields.finish()?;
    Ok(Area::Circle { center, radius })
}

fn polygon(value: Value, place: Place<'_>) -> Result<Area, Problem> {
    let mut fields = Fields::new(value, place)?;
    let exterior = fields.required("exterior", ring)?;
    let interiors = fields.optional("interiors", |value, place| decode::list(value, place, ring))?;
    fields.finish()?;
    Ok(Area::Polygon { exterior, interiors: interiors.unwrap_or_default() })
}

/// `{"points": [{"lat", "lon"}, …]}`: closed, so with its first point at its end.
fn ring(value: Value, place: Place<'_>) -> Result<Vec<GeoPoint>, Problem> {
    const WANTED: &str = "at least 4 points, the last of which is the first";
    let mut fields = Fields::new(value, place)?;
    let points = fields.required("points", |value, place| {
        let points = decode::list(value, place, geo_point)?;
        if points.len() < 4 {
            return Err(decode::out_of_range(place, format_args!("a list of {}", points.len()), WANTED));
        }
        if points.first() != points.last() {
            return Err(decode::out_of_range(place, "a line that is not closed", WANTED));
        }
        Ok(points)
    })?;
    fields.finish()?;
    Ok(points)
}
