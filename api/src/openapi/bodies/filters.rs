//! Filters in bodies.

use utoipa::ToSchema;

use crate::openapi::schema::{Id, PayloadPath, any_text, boolean, integer, list, number, one, text, union};

/// Conditions on points: all of `must`, at least one of `should`, none of `must_not`, and some of `min_should`. One
/// without any condition allows every point.
#[derive(ToSchema)]
pub(crate) struct Filter {
    must: Option<Conditions>,
    should: Option<Conditions>,
    must_not: Option<Conditions>,
    min_should: Option<MinShould>,
}

union! {
    /// Conditions; one may stand without a list.
    Conditions => list::<Condition>(), one::<Condition>()
}

/// Conditions of which at least so many hold.
#[derive(ToSchema)]
pub(crate) struct MinShould {
    conditions: Vec<Condition>,
    #[schema(minimum = 1)]
    min_count: usize,
}

union! {
    /// A condition on a point.
    Condition => one::<FieldCondition>(), one::<IsEmpty>(), one::<IsNull>(), one::<HasId>(), one::<HasVector>(),
        one::<Slice>(), one::<Nested>(), one::<NestedFilter>()
}

/// A filter as a condition. It has at least one field.
#[derive(ToSchema)]
pub(crate) struct NestedFilter {
    must: Option<Conditions>,
    should: Option<Conditions>,
    must_not: Option<Conditions>,
    min_should: Option<MinShould>,
}

/// A test of a payload field, which may have several values: one of them must pass. There is one test beside `key`.
#[derive(ToSchema)]
pub(crate) struct FieldCondition {
    key: PayloadPath,
    r#match: Option<Match>,
    range: Option<Range>,
    geo_bounding_box: Option<GeoBoundingBox>,
    geo_radius: Option<GeoRadius>,
    geo_polygon: Option<GeoPolygon>,
    values_count: Option<ValuesCount>,
    is_empty: Option<bool>,
    is_null: Option<bool>,
}

/// What a value equals or a text has in it: one of these.
#[derive(ToSchema)]
pub(crate) struct Match {
    value: Option<MatchValue>,
    /// One of these.
    any: Option<Vec<MatchValue>>,
    /// None of these.
    except: Option<Vec<MatchValue>>,
    /// A text with all these words.
    text: Option<String>,
    /// A text with one of these words.
    text_any: Option<String>,
    /// A text with these words in this order.
    phrase: Option<String>,
    /// A string that begins so.
    prefix: Option<String>,
    /// A string with this in it.
    substring: Option<String>,
}

union! {
    /// A value that is compared exactly.
    MatchValue => any_text(), boolean(), integer()
}

/// Bounds of numbers, or of moments.
#[derive(ToSchema)]
pub(crate) struct Range {
    gt: Option<RangeBound>,
    gte: Option<RangeBound>,
    lt: Option<RangeBound>,
    lte: Option<RangeBound>,
}

union! {
    /// A number, or a date and time; the bounds of a range are of one kind.
    RangeBound => number(), one::<DateTime>()
}

/// A date and time, such as `2024-06-15T12:00:00Z`.
#[derive(ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2024-06-15T12:00:00Z")]
pub(crate) struct DateTime(String);

/// How many values a field has.
#[derive(ToSchema)]
pub(crate) struct ValuesCount {
    gt: Option<usize>,
    gte: Option<usize>,
    lt: Option<usize>,
    lte: Option<usize>,
}

/// A place on the earth.
#[derive(ToSchema)]
pub(crate) struct GeoPoint {
    #[schema(minimum = -90, maximum = 90)]
    lat: f64,
    #[schema(minimum = -180, maximum = 180)]
    lon: f64,
}

/// Places in a box; it may cross the 180th meridian.
#[derive(ToSchema)]
pub(crate) struct GeoBoundingBox {
    top_left: GeoPoint,
    bottom_right: GeoPoint,
}

/// Places within a distance.
#[derive(ToSchema)]
pub(crate) struct GeoRadius {
    center: GeoPoint,
    /// In metres.
    #[schema(minimum = 0)]
    radius: f64,
}

/// Places within a line, and in none of others within that.
#[derive(ToSchema)]
pub(crate) struct GeoPolygon {
    exterior: GeoLine,
    interiors: Option<Vec<GeoLine>>,
}

/// A closed line: the last point is the first.
#[derive(ToSchema)]
pub(crate) struct GeoLine {
    #[schema(min_items = 4)]
    points: Vec<GeoPoint>,
}

/// The field has no value.
#[derive(ToSchema)]
pub(crate) struct IsEmpty {
    is_empty: PayloadKey,
}

/// The field is `null`.
#[derive(ToSchema)]
pub(crate) struct IsNull {
    is_null: PayloadKey,
}

/// A payload field.
#[derive(ToSchema)]
pub(crate) struct PayloadKey {
    key: PayloadPath,
}

/// The point has one of these ids.
#[derive(ToSchema)]
pub(crate) struct HasId {
    #[schema(max_items = 1000000)]
    has_id: Vec<Id>,
}

/// The point has a vector of this name; the empty one is the unnamed vector.
#[derive(ToSchema)]
pub(crate) struct HasVector {
    has_vector: String,
}

/// The point is in one of several parts of the collection, cut by ids.
#[derive(ToSchema)]
pub(crate) struct Slice {
    slice: SliceOf,
}

/// The part of number `index`, less than `total`.
#[derive(ToSchema)]
pub(crate) struct SliceOf {
    #[schema(minimum = 1)]
    total: usize,
    index: usize,
}

/// One object of an array passes a whole filter.
#[derive(ToSchema)]
pub(crate) struct Nested {
    nested: NestedOf,
}

/// The array, and the filter on its objects.
#[derive(ToSchema)]
pub(crate) struct NestedOf {
    key: PayloadPath,
    filter: Filter,
}

union! {
    /// Whether to sample at random.
    SampleName => text(&["random"])
}
