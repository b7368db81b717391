//! Bodies about points and their payloads.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::filters::Filter;
use crate::openapi::schema::{Id, Name, Payload, PayloadPath, Vector, boolean, list, one, text, union};

union! {
    /// Points to write, one by one or as lists.
    Upsert => one::<UpsertPoints>(), one::<UpsertBatch>()
}

/// Points to write. A point that is there is replaced.
#[derive(ToSchema)]
pub(crate) struct UpsertPoints {
    #[schema(min_items = 1, max_items = 16384)]
    points: Vec<PointStruct>,
    alarm: Option<HubRule>,
}

/// A point.
#[derive(ToSchema)]
pub(crate) struct PointStruct {
    id: Id,
    vector: PointVectors,
    payload: Option<Payload>,
    /// Text of at most 1 MiB that is kept with the point.
    text: Option<String>,
}

union! {
    /// The vector of a point, or the vectors that it has under their names.
    PointVectors => one::<Vector>(), one::<NamedVectors>()
}

/// Vectors under their names.
#[derive(ToSchema)]
pub(crate) struct NamedVectors(BTreeMap<String, Vector>);

union! {
    /// A vector of each point, or lists of them under the names of vectors.
    PointVectorLists => list::<Vector>(), one::<NamedVectorLists>()
}

/// Lists of vectors under their names; `null` where a point has none.
#[derive(ToSchema)]
pub(crate) struct NamedVectorLists(BTreeMap<String, Vec<Option<Vector>>>);

union! {
    /// Whether to answer with vectors, or with those of these names.
    WithVector => boolean(), list::<String>()
}

/// Vectors of points to change.
#[derive(ToSchema)]
pub(crate) struct UpdateVectors {
    #[schema(min_items = 1, max_items = 16384)]
    points: Vec<PointVectorsStruct>,
}

/// A point's new vectors; the others stay.
#[derive(ToSchema)]
pub(crate) struct PointVectorsStruct {
    id: Id,
    vector: PointVectors,
}

union! {
    /// Names of vectors, and the points that they are taken from.
    DeleteVectors => one::<DeleteVectorsOfIds>(), one::<DeleteVectorsOfFilter>()
}

/// Vectors to take from points of a list.
#[derive(ToSchema)]
pub(crate) struct DeleteVectorsOfIds {
    #[schema(min_items = 1, max_items = 16384)]
    points: Vec<Id>,
    #[schema(min_items = 1)]
    vector: Vec<Name>,
}

/// Vectors to take from points that a filter allows.
#[derive(ToSchema)]
pub(crate) struct DeleteVectorsOfFilter {
    filter: Filter,
    #[schema(min_items = 1)]
    vector: Vec<Name>,
}

/// Points to write, as lists of equal length.
#[derive(ToSchema)]
pub(crate) struct UpsertBatch {
    batch: PointBatch,
    alarm: Option<HubRule>,
}

/// Points as lists of equal length.
#[derive(ToSchema)]
pub(crate) struct PointBatch {
    #[schema(min_items = 1, max_items = 16384)]
    ids: Vec<Id>,
    vectors: PointVectorLists,
    #[schema(max_items = 16384)]
    payloads: Option<Vec<Option<Payload>>>,
    #[schema(max_items = 16384)]
    texts: Option<Vec<Option<String>>>,
}

/// The rule to tell hubs by.
#[derive(ToSchema)]
pub(crate) struct HubRule {
    /// Whose bias is tested.
    correction: Name,
    /// The share of false alarms to allow; 0.01 unless given.
    #[schema(exclusive_minimum = 0, exclusive_maximum = 1)]
    rate: Option<f64>,
}

/// Points to read.
#[derive(ToSchema)]
pub(crate) struct RetrievePoints {
    /// Ids that no point has are passed over.
    #[schema(min_items = 1, max_items = 16384)]
    ids: Vec<Id>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
}

union! {
    /// What of payloads to answer with: all or nothing, or what paths lead to.
    WithPayload => boolean(), list::<PayloadPath>(), one::<PayloadInclude>(), one::<PayloadExclude>()
}

/// What paths lead to.
#[derive(ToSchema)]
pub(crate) struct PayloadInclude {
    include: Vec<PayloadPath>,
}

/// All but what paths lead to.
#[derive(ToSchema)]
pub(crate) struct PayloadExclude {
    exclude: Vec<PayloadPath>,
}

/// Which points to count.
#[derive(ToSchema)]
pub(crate) struct CountPoints {
    filter: Option<Filter>,
    /// The count is always exact.
    exact: Option<bool>,
}

union! {
    /// Points: those of a list, or those that a filter allows.
    PointsSelector => one::<PointIds>(), one::<PointsFilter>()
}

/// Points of a list.
#[derive(ToSchema)]
pub(crate) struct PointIds {
    #[schema(min_items = 1, max_items = 16384)]
    points: Vec<Id>,
}

/// Points that a filter allows.
#[derive(ToSchema)]
pub(crate) struct PointsFilter {
    filter: Filter,
}

union! {
    /// A payload, and the points whose payload it is merged into or put in the place of.
    SetPayload => one::<SetPayloadOfIds>(), one::<SetPayloadOfFilter>()
}

/// A payload for points of a list.
#[derive(ToSchema)]
pub(crate) struct SetPayloadOfIds {
    payload: Payload,
    #[schema(min_items = 1, max_items = 16384)]
    points: Vec<Id>,
    /// Where in the payloads it is merged.
    key: Option<PayloadPath>,
}

/// A payload for points that a filter allows.
#[derive(ToSchema)]
pub(crate) struct SetPayloadOfFilter {
    payload: Payload,
    filter: Filter,
    /// Where in the payloads it is merged.
    key: Option<PayloadPath>,
}

union! {
    /// A payload in the place of others.
    OverwritePayload => one::<OverwritePayloadOfIds>(), one::<OverwritePayloadOfFilter>()
}

/// A payload for points of a list.
#[derive(ToSchema)]
pub(crate) struct OverwritePayloadOfIds {
    payload: Payload,
    #[schema(min_items = 1, max_items = 16384)]
    points: Vec<Id>,
}

/// A payload for points that a filter allows.
#[derive(ToSchema)]
pub(crate) struct OverwritePayloadOfFilter {
    payload: Payload,
    filter: Filter,
}

union! {
    /// What to take away from payloads.
    DeletePayload => one::<DeletePayloadOfIds>(), one::<DeletePayloadOfFilter>()
}

/// Of points of a list.
#[derive(ToSchema)]
pub(crate) struct DeletePayloadOfIds {
    #[schema(min_items = 1)]
    keys: Vec<PayloadPath>,
    #[schema(min_items = 1, max_items = 16384)]
    points: Vec<Id>,
}

/// Of points that a filter allows.
#[derive(ToSchema)]
pub(crate) struct DeletePayloadOfFilter {
    #[schema(min_items = 1)]
    keys: Vec<PayloadPath>,
    filter: Filter,
}

/// Writes, done one after the other. Each is a commit of its own.
#[derive(ToSchema)]
pub(crate) struct UpdateBatch {
    #[schema(min_items = 1, max_items = 1000)]
    operations: Vec<UpdateOperation>,
}

union! {
    /// One write.
    UpdateOperation => one::<UpsertOperation>(), one::<DeleteOperation>(), one::<SetPayloadOperation>(),
        one::<OverwritePayloadOperation>(), one::<DeletePayloadOperation>(), one::<ClearPayloadOperation>(),
        one::<UpdateVectorsOperation>(), one::<DeleteVectorsOperation>()
}

/// Writes points.
#[derive(ToSchema)]
pub(crate) struct UpsertOperation {
    upsert: Upsert,
}

/// Deletes points.
#[derive(ToSchema)]
pub(crate) struct DeleteOperation {
    delete: PointsSelector,
}

/// Merges a payload into others.
#[derive(ToSchema)]
pub(crate) struct SetPayloadOperation {
    set_payload: SetPayload,
}

/// Puts a payload in the place of others.
#[derive(ToSchema)]
pub(crate) struct OverwritePayloadOperation {
    overwrite_payload: OverwritePayload,
}

/// Takes fields of payloads away.
#[derive(ToSchema)]
pub(crate) struct DeletePayloadOperation {
    delete_payload: DeletePayload,
}

/// Takes payloads away.
#[derive(ToSchema)]
pub(crate) struct ClearPayloadOperation {
    clear_payload: PointsSelector,
}

/// Gives points vectors anew.
#[derive(ToSchema)]
pub(crate) struct UpdateVectorsOperation {
    update_vectors: UpdateVectors,
}

/// Takes vectors from points.
#[derive(ToSchema)]
pub(crate) struct DeleteVectorsOperation {
    delete_vectors: DeleteVectors,
}

/// Which page of points to read.
#[derive(ToSchema)]
pub(crate) struct ScrollPoints {
    /// The `next_page_offset` of the page before; has no meaning beside `order_by`.
    offset: Option<Id>,
    /// 10 unless given.
    #[schema(minimum = 1, maximum = 100000)]
    limit: Option<usize>,
    filter: Option<Filter>,
    order_by: Option<OrderBy>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
}

union! {
    /// The payload field to order points by. It needs an index of numbers or moments.
    OrderBy => one::<PayloadPath>(), one::<OrderByField>()
}

/// The payload field to order points by.
#[derive(ToSchema)]
pub(crate) struct OrderByField {
    key: PayloadPath,
    direction: Option<Direction>,
    start_from: Option<StartFrom>,
}

/// Upwards unless it is `desc`.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Direction {
    Asc,
    Desc,
}

union! {
    /// A number, or a date and time.
    StartFrom => crate::openapi::schema::number(), one::<super::filters::DateTime>()
}

/// Whose values to count.
#[derive(ToSchema)]
pub(crate) struct FacetRequest {
    key: PayloadPath,
    /// Values of the answer at most; 10 unless given.
    #[schema(minimum = 1, maximum = 100000)]
    limit: Option<usize>,
    filter: Option<Filter>,
    /// Counts are always exact.
    exact: Option<bool>,
}

/// An index of a payload field.
#[derive(ToSchema)]
pub(crate) struct CreateFieldIndex {
    field_name: PayloadPath,
    field_schema: FieldSchema,
}

union! {
    /// The type of the values that are indexed.
    FieldSchema => one::<FieldKindName>(), one::<FieldParams>()
}

/// The type of the values that are indexed.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum FieldKindName {
    Keyword,
    Integer,
    Float,
    Bool,
    Geo,
    Datetime,
    Text,
    Uuid,
}

/// The same, with parameters of Qdrant's that cannot be chosen.
#[derive(ToSchema)]
pub(crate) struct FieldParams {
    r#type: FieldKindName,
    tokenizer: Option<Tokenizer>,
}

union! {
    /// How text is cut.
    Tokenizer => text(&["word"])
}
