//! Bodies about banks, corrections, the default, the quarantine and queries that are kept.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::filters::Filter;
use super::queries::{Priors, SearchParams};
use crate::openapi::schema::{Id, Name, Number32, Vector, always, one, text, union};

union! {
    /// Entries of a bank: those of lists, or all points of the collection.
    AddToBank => one::<BankEntries>(), one::<BankFromGallery>()
}

/// Entries of a bank, as lists of equal length.
#[derive(ToSchema)]
pub(crate) struct BankEntries {
    kind: BankKindName,
    vectors: Vec<Vector>,
    ids: Option<Vec<Id>>,
    /// 1 each unless given.
    weights: Option<Vec<Weight>>,
    /// Whether corrections take them in later, when they are asked to absorb them.
    defer: Option<bool>,
    from_gallery: Option<Never>,
}

/// How much an entry counts.
#[derive(ToSchema)]
#[schema(value_type = f64, exclusive_minimum = 0, maximum = 1_000_000)]
pub(crate) struct Weight(f32);

/// What a bank stands for: what users ask, or what is asked for.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum BankKindName {
    Query,
    Gallery,
}

/// A bank of all points of the collection.
#[derive(ToSchema)]
pub(crate) struct BankFromGallery {
    kind: GalleryName,
    from_gallery: Always,
}

union! {
    /// The kind of a bank of points.
    GalleryName => text(&["gallery"])
}

union! {
    /// `true`.
    Always => always()
}

union! {
    /// `false`.
    Never => crate::openapi::schema::never()
}

/// Entries to take out of a bank.
#[derive(ToSchema)]
pub(crate) struct DeleteEntries {
    ids: Vec<Id>,
}

/// How to weaken a bank.
#[derive(ToSchema)]
pub(crate) struct DecayBank {
    /// What weights are multiplied by.
    #[schema(exclusive_minimum = 0, maximum = 1)]
    factor: f64,
    /// Entries of a lesser weight are taken out.
    #[schema(minimum = 0, maximum = 1_000_000)]
    drop_below: Option<f64>,
}

/// Queries to compare with a bank.
#[derive(ToSchema)]
pub(crate) struct DriftQueries {
    vectors: Vec<Vector>,
}

union! {
    /// A correction to fit: a method, or `auto` for the one that does best.
    FitCorrection => one::<FitMethod>(), one::<FitAuto>()
}

/// A correction to fit by a method.
#[derive(ToSchema)]
pub(crate) struct FitMethod {
    /// Its name, such as `IS`, or with parameters, such as `IS(beta=20)`.
    #[schema(pattern = "^[A-Z][A-Za-z0-9-]*(\\(.*\\))?$", example = "IS")]
    method: String,
    /// Parameters of the method, if its name has none.
    #[schema(value_type = Option<BTreeMap<String, f64>>)]
    parameters: Option<BTreeMap<String, f64>>,
    /// The bank of queries, for a method that uses one.
    query_bank: Option<Name>,
    /// The bank of points, for a method that uses one.
    gallery_bank: Option<Name>,
}

/// A correction to choose by what each does to queries.
#[derive(ToSchema)]
pub(crate) struct FitAuto {
    method: AutoName,
    query_bank: Name,
    /// Whether it becomes the default.
    default: Option<bool>,
    /// Whether to install the best even if none passes.
    force: Option<bool>,
    /// Queries to choose by, none of them in the bank.
    queries: Option<Vec<Vector>>,
    /// A bank of such queries.
    bank: Option<Name>,
    /// What is right for the queries.
    qrels: Option<Vec<Judgement>>,
    seed: Option<u64>,
    /// Rounds of the bootstrap.
    #[schema(minimum = 100, maximum = 100000)]
    rounds: Option<usize>,
}

union! {
    /// The word for a choice.
    AutoName => text(&["auto"])
}

/// That a point is right for a query.
#[derive(ToSchema)]
pub(crate) struct Judgement {
    /// The query by its place.
    query: usize,
    point: Id,
    /// 1 unless given.
    #[schema(maximum = 2147483647)]
    relevance: Option<usize>,
}

/// The correction that ranks queries which name none, and what to judge it by.
#[derive(ToSchema)]
pub(crate) struct SetDefault {
    correction: Name,
    /// Whether it becomes the default against the verdict, or without one.
    force: Option<bool>,
    /// Queries to judge it by, none of them in the bank.
    queries: Option<Vec<Vector>>,
    /// A bank of such queries.
    bank: Option<Name>,
    /// What is right for the queries.
    qrels: Option<Vec<Judgement>>,
    seed: Option<u64>,
    /// Rounds of the bootstrap.
    #[schema(minimum = 100, maximum = 100000)]
    rounds: Option<usize>,
}

/// Points to release.
#[derive(ToSchema)]
pub(crate) struct ReleasePoints {
    #[schema(min_items = 1, max_items = 16384)]
    points: Vec<Id>,
}

/// By what policy to keep a sample of the queries served.
#[derive(ToSchema)]
pub(crate) struct LivePolicyParams {
    /// A bank of queries, which is made if it is not there.
    bank: Name,
    /// The part of the queries to sample; 0.1 unless given.
    #[schema(exclusive_minimum = 0, maximum = 1)]
    rate: Option<f64>,
    /// Queries to keep at most; 10000 unless given.
    #[schema(minimum = 1, maximum = 1000000)]
    capacity: Option<usize>,
    /// For how long to keep them; a week unless given.
    #[schema(minimum = 1, maximum = 316224000)]
    retention_seconds: Option<usize>,
    /// Queries of one client at most; 100 unless given.
    #[schema(minimum = 1)]
    per_client: Option<usize>,
}

/// Values of a prior, as lists of equal length.
#[derive(ToSchema)]
pub(crate) struct SetPrior {
    #[schema(min_items = 1, max_items = 16384)]
    ids: Vec<Id>,
    #[schema(min_items = 1, max_items = 16384)]
    values: Vec<Number32>,
}

/// Points by their ids.
#[derive(ToSchema)]
pub(crate) struct PriorIds {
    #[schema(min_items = 1, max_items = 16384)]
    ids: Vec<Id>,
}

/// What to measure: each ranking by each way of searching.
#[derive(ToSchema)]
pub(crate) struct Evaluate {
    /// Queries to ask; entries of a bank or stored points unless given.
    #[schema(min_items = 1, max_items = 20000)]
    queries: Option<Vec<EvaluatedQuery>>,
    /// The bank whose entries are asked.
    bank: Option<Name>,
    /// Entries of the bank, or points, at most; 256 unless given.
    #[schema(minimum = 1, maximum = 20000)]
    sample: Option<usize>,
    /// Grades of points by the ids of queries: `{query: {point: grade}}`.
    qrels: Option<BTreeMap<String, BTreeMap<String, u32>>>,
    /// What is measured by the grades, such as `nDCG@10`.
    #[schema(min_items = 1, max_items = 32)]
    measures: Option<Vec<String>>,
    /// Corrections beside the raw ranking; all unless given.
    #[schema(max_items = 32)]
    corrections: Option<Vec<String>>,
    /// Ways of searching.
    #[schema(min_items = 1, max_items = 32)]
    searches: Option<Vec<SearchParams>>,
    priors: Option<Priors>,
    /// Hits of a query that are compared; 10 unless given.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    filter: Option<Filter>,
}

union! {
    /// A query, perhaps with the id that grades are under; without one, that is its place.
    EvaluatedQuery => one::<Vector>(), one::<QueryWithId>()
}

/// A query with its id.
#[derive(ToSchema)]
pub(crate) struct QueryWithId {
    id: Option<Id>,
    vector: Vector,
}

/// What to choose a correction from, and by what.
#[derive(ToSchema)]
pub(crate) struct Tune {
    query_bank: Name,
    gallery_bank: Option<Name>,
    /// Methods to choose from; some of each kind unless given.
    #[schema(min_items = 1, max_items = 64)]
    methods: Option<Vec<String>>,
    /// The name to install the choice under.
    correction: Option<Name>,
    /// Whether it becomes the default.
    set_default: Option<bool>,
    /// Whether to install the best even if none passes.
    force: Option<bool>,
    /// Queries to choose by, none of them in the bank.
    queries: Option<Vec<Vector>>,
    /// A bank of such queries.
    bank: Option<Name>,
    /// What is right for the queries.
    qrels: Option<Vec<Judgement>>,
    seed: Option<u64>,
    /// Rounds of the bootstrap.
    #[schema(minimum = 100, maximum = 100000)]
    rounds: Option<usize>,
}
