//! Bodies of queries.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::filters::{Filter, SampleName};
use super::points::{OrderBy, WithPayload, WithVector};
use crate::openapi::schema::{Id, Name, Number32, PayloadPath, Vector, list, one, union};

/// A query.
#[derive(ToSchema)]
pub(crate) struct QueryRequest {
    query: Option<Query>,
    /// Searches whose hits the query ranks or fuses; at most 64, 8 within each other.
    prefetch: Option<Prefetches>,
    /// The name of the vector to search by.
    using: Option<String>,
    lookup_from: Option<LookupFrom>,
    /// Hits of the answer at most; 10 unless given.
    #[schema(minimum = 1, maximum = 65536)]
    limit: Option<usize>,
    /// Hits to leave out before the first.
    #[schema(maximum = 65536)]
    offset: Option<usize>,
    params: Option<SearchParams>,
    /// Hits with a worse score are left out.
    score_threshold: Option<Number32>,
    priors: Option<Priors>,
    filter: Option<Filter>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
    hubness: Option<HubnessParams>,
    highlight: Option<HighlightOrNot>,
}

union! {
    /// What to rank by: a vector, the id of a stored point, or an object of one kind of query. Without a query,
    /// points come in the order of their ids.
    Query => one::<Vector>(), one::<Id>(), one::<WordsQuery>(), one::<QueryOfKind>()
}

union! {
    /// A vector, the id of a stored point that stands for its vector, or words.
    Nearest => one::<Vector>(), one::<Id>(), one::<WordsQuery>()
}

/// Words to find in texts, ranked by BM25.
#[derive(ToSchema)]
pub(crate) struct WordsQuery {
    text: String,
    fields: Option<TextFields>,
    operator: Option<Operator>,
    model: Option<TextModel>,
}

union! {
    /// A vector, or the id of a stored point that stands for its vector.
    Example => one::<Vector>(), one::<Id>()
}

/// A query of one kind: it has one field.
#[derive(ToSchema)]
pub(crate) struct QueryOfKind {
    nearest: Option<Nearest>,
    recommend: Option<Recommend>,
    discover: Option<Discover>,
    context: Option<Context>,
    feedback: Option<Feedback>,
    hybrid: Option<Hybrid>,
    fusion: Option<FusionName>,
    rrf: Option<Rrf>,
    convex: Option<Convex>,
    order_by: Option<OrderBy>,
    sample: Option<SampleName>,
}

/// A query that is moved towards its first answers: to `(alpha q + beta mean) / (alpha + beta)`.
#[derive(ToSchema)]
pub(crate) struct Feedback {
    nearest: Example,
    /// Answers that are taken for relevant; 3 unless given.
    #[schema(minimum = 1, maximum = 65536)]
    depth: Option<usize>,
    /// How much the query counts; 1 unless given. Not both are 0.
    #[schema(minimum = 0)]
    alpha: Option<Number32>,
    /// How much the answers count; 0.5 unless given.
    #[schema(minimum = 0)]
    beta: Option<Number32>,
}

/// Points near a vector and points with words, fused.
#[derive(ToSchema)]
pub(crate) struct Hybrid {
    nearest: Example,
    text: String,
    fields: Option<TextFields>,
    operator: Option<Operator>,
    model: Option<TextModel>,
    fusion: Option<HybridFusion>,
    /// Points of either that are fused; unless given 100, or as many as the answer has if that is more.
    #[schema(minimum = 1, maximum = 65536)]
    depth: Option<usize>,
}

union! {
    /// Fields of texts to look in, with their weights or without; all, each with the weight 1, unless given.
    TextFields => one::<TextWeights>(), list::<String>()
}

/// Weights above 0, at most 1000.
#[derive(ToSchema)]
pub(crate) struct TextWeights(BTreeMap<String, Number32>);

/// Whether a text has to have all words.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Operator {
    Or,
    And,
}

/// What ranks texts, by the name that clients of Qdrant give it.
#[derive(ToSchema)]
pub(crate) enum TextModel {
    #[schema(rename = "qdrant/bm25")]
    Bm25,
}

union! {
    /// How the two are fused: `minmax` unless given. `rrf` has k = 60 here.
    HybridFusion => one::<HybridFusionName>(), one::<HybridFusionOf>()
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum HybridFusionName {
    Rrf,
    Dbsf,
    MinMax,
    Distribution,
}

/// A fusion with its parameters: it has one field. Weights are of the vector, then of the words.
#[derive(ToSchema)]
pub(crate) struct HybridFusionOf {
    rrf: Option<Rrf>,
    convex: Option<Convex>,
}

/// How to show words in the texts where they were found.
#[derive(ToSchema)]
pub(crate) struct HighlightParams {
    /// Characters of a part; 160 unless given.
    #[schema(minimum = 1, maximum = 10000)]
    max_chars: Option<usize>,
    /// The fields to show; those that the query asks unless given.
    fields: Option<Vec<String>>,
    /// What is written before a word, as it is; `<em>` unless given.
    #[schema(max_length = 256)]
    pre_tag: Option<String>,
    /// And after it; `</em>` unless given.
    #[schema(max_length = 256)]
    post_tag: Option<String>,
}

union! {
    /// Whether to show the words that were found, and how.
    HighlightOrNot => one::<bool>(), one::<HighlightParams>()
}

/// Points like some examples, and unlike others.
#[derive(ToSchema)]
pub(crate) struct Recommend {
    positive: Option<Examples>,
    negative: Option<Examples>,
    strategy: Option<RecommendStrategy>,
}

union! {
    /// Examples, at most 1024 of a request; one id may stand without a list.
    Examples => list::<Example>(), one::<Id>()
}

/// How examples are weighed against each other.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(crate) enum RecommendStrategy {
    AverageVector,
    BestScore,
    SumScores,
}

/// Points near a target, among those that pairs of examples agree on.
#[derive(ToSchema)]
pub(crate) struct Discover {
    target: Option<Example>,
    context: Option<Context>,
}

union! {
    /// Pairs of examples; one may stand without a list.
    Context => list::<ContextPair>(), one::<ContextPair>()
}

/// Be nearer to the one than to the other.
#[derive(ToSchema)]
pub(crate) struct ContextPair {
    positive: Example,
    negative: Example,
}

/// How lists of prefetches become one.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum FusionName {
    Rrf,
    Dbsf,
}

/// Reciprocal rank fusion.
#[derive(ToSchema)]
pub(crate) struct Rrf {
    #[schema(minimum = 1, maximum = 4294967295.0)]
    k: Option<u64>,
    /// A weight for each prefetch.
    weights: Option<Vec<Number32>>,
}

/// A convex combination of scores that are brought into [0, 1] first.
#[derive(ToSchema)]
pub(crate) struct Convex {
    normalization: Option<NormalizationName>,
    /// A weight from 0 for each prefetch, not all of them 0; they are divided by their sum.
    weights: Option<Vec<Number32>>,
}

/// By the least and the largest score of a list, or by three deviations about its mean.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum NormalizationName {
    MinMax,
    Distribution,
}

union! {
    /// Searches; one may stand without a list.
    Prefetches => list::<Prefetch>(), one::<Prefetch>()
}

/// A search whose hits another query ranks or fuses.
#[derive(ToSchema)]
pub(crate) struct Prefetch {
    query: Option<Query>,
    prefetch: Option<Prefetches>,
    /// The name of the vector to search by.
    using: Option<String>,
    lookup_from: Option<LookupFrom>,
    #[schema(minimum = 1, maximum = 65536)]
    limit: Option<usize>,
    params: Option<SearchParams>,
    score_threshold: Option<Number32>,
    priors: Option<Priors>,
    filter: Option<Filter>,
    hubness: Option<HubnessParams>,
}

/// The collection whose points the ids of examples stand for.
#[derive(ToSchema)]
pub(crate) struct LookupFrom {
    collection: Name,
    /// The name of its vector.
    vector: Option<String>,
}

/// How to search: one of `hnsw_ef`, `exact`, `recall` and `candidates`; the best way is chosen unless given.
#[derive(ToSchema)]
pub(crate) struct SearchParams {
    /// Candidates that a walk of the graph keeps.
    #[schema(minimum = 1, maximum = 65536)]
    hnsw_ef: Option<usize>,
    /// Whether to score every point.
    exact: Option<bool>,
    /// The part of the exact answer that is to be found, as it was measured.
    #[schema(exclusive_minimum = 0, maximum = 1)]
    recall: Option<f64>,
    /// Points that a scan of codes leaves to be scored by their vectors.
    #[schema(minimum = 1)]
    candidates: Option<usize>,
}

/// Weights of priors by their names: each adds its weight times the value that a point has.
#[derive(ToSchema)]
pub(crate) struct Priors(BTreeMap<String, Number32>);

/// By what correction to rank; the default of the collection unless given.
#[derive(ToSchema)]
pub(crate) struct HubnessParams {
    /// The name of a correction, `none` for the raw ranking, or `auto`.
    correction: Option<String>,
    /// The factor on its bias: from the raw ranking at 0 to the correction as it was fitted at 1, and beyond; needs the
    /// name of a correction, or `auto`.
    #[schema(minimum = 0, maximum = 100)]
    alpha: Option<f64>,
    /// Whether to tell how the answer came about.
    explain: Option<bool>,
}

/// Queries that are answered together.
#[derive(ToSchema)]
pub(crate) struct QueryBatch {
    #[schema(min_items = 1, max_items = 65536)]
    searches: Vec<QueryRequest>,
}

/// A query whose hits are grouped by the values of a payload field.
#[derive(ToSchema)]
pub(crate) struct QueryGroups {
    group_by: PayloadPath,
    /// Hits of a group at most; 3 unless given.
    #[schema(minimum = 1, maximum = 65536)]
    group_size: Option<usize>,
    /// Groups of the answer at most; 10 unless given.
    #[schema(minimum = 1, maximum = 65536)]
    limit: Option<usize>,
    with_lookup: Option<WithLookup>,
    query: Option<Query>,
    prefetch: Option<Prefetches>,
    /// The name of the vector to search by.
    using: Option<String>,
    lookup_from: Option<LookupFrom>,
    params: Option<SearchParams>,
    score_threshold: Option<Number32>,
    priors: Option<Priors>,
    filter: Option<Filter>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
    hubness: Option<HubnessParams>,
    #[schema(maximum = 0)]
    offset: Option<usize>,
    highlight: Option<HighlightOrNot>,
}

union! {
    /// The collection whose point of the id that is a group's value comes with the group.
    WithLookup => one::<Name>(), one::<WithLookupOf>()
}

/// The same, and what of the point.
#[derive(ToSchema)]
pub(crate) struct WithLookupOf {
    collection: Name,
    with_payload: Option<WithPayload>,
    /// The same as `with_vectors`, which counts if both are given.
    with_vector: Option<WithVector>,
    with_vectors: Option<WithVector>,
}

/// A search by a vector.
#[derive(ToSchema)]
pub(crate) struct SearchRequest {
    vector: SearchVector,
    using: Option<String>,
    lookup_from: Option<LookupFrom>,
    #[schema(minimum = 1, maximum = 65536)]
    limit: Option<usize>,
    #[schema(maximum = 65536)]
    offset: Option<usize>,
    params: Option<SearchParams>,
    score_threshold: Option<Number32>,
    priors: Option<Priors>,
    filter: Option<Filter>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
    hubness: Option<HubnessParams>,
}

union! {
    /// A vector, perhaps with its name.
    SearchVector => one::<Vector>(), one::<NamedVector>()
}

/// A vector with its name; the empty one is the unnamed vector.
#[derive(ToSchema)]
pub(crate) struct NamedVector {
    name: String,
    vector: Vector,
}

/// Searches that are answered together.
#[derive(ToSchema)]
pub(crate) struct SearchBatch {
    #[schema(min_items = 1, max_items = 65536)]
    searches: Vec<SearchRequest>,
}

/// A search whose hits are grouped by the values of a payload field.
#[derive(ToSchema)]
pub(crate) struct SearchGroups {
    group_by: PayloadPath,
    #[schema(minimum = 1, maximum = 65536)]
    group_size: Option<usize>,
    #[schema(minimum = 1, maximum = 65536)]
    limit: Option<usize>,
    with_lookup: Option<WithLookup>,
    vector: SearchVector,
    using: Option<String>,
    lookup_from: Option<LookupFrom>,
    params: Option<SearchParams>,
    score_threshold: Option<Number32>,
    priors: Option<Priors>,
    filter: Option<Filter>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
    hubness: Option<HubnessParams>,
    #[schema(maximum = 0)]
    offset: Option<usize>,
}

/// Points like some examples, and unlike others.
#[derive(ToSchema)]
pub(crate) struct RecommendRequest {
    positive: Option<Examples>,
    negative: Option<Examples>,
    strategy: Option<RecommendStrategy>,
    using: Option<String>,
    lookup_from: Option<LookupFrom>,
    #[schema(minimum = 1, maximum = 65536)]
    limit: Option<usize>,
    #[schema(maximum = 65536)]
    offset: Option<usize>,
    params: Option<SearchParams>,
    score_threshold: Option<Number32>,
    priors: Option<Priors>,
    filter: Option<Filter>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
    hubness: Option<HubnessParams>,
}

/// Recommendations that are answered together.
#[derive(ToSchema)]
pub(crate) struct RecommendBatch {
    #[schema(min_items = 1, max_items = 65536)]
    searches: Vec<RecommendRequest>,
}

/// Recommendations, grouped by the values of a payload field.
#[derive(ToSchema)]
pub(crate) struct RecommendGroups {
    group_by: PayloadPath,
    #[schema(minimum = 1, maximum = 65536)]
    group_size: Option<usize>,
    #[schema(minimum = 1, maximum = 65536)]
    limit: Option<usize>,
    with_lookup: Option<WithLookup>,
    positive: Option<Examples>,
    negative: Option<Examples>,
    strategy: Option<RecommendStrategy>,
    using: Option<String>,
    lookup_from: Option<LookupFrom>,
    params: Option<SearchParams>,
    score_threshold: Option<Number32>,
    priors: Option<Priors>,
    filter: Option<Filter>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
    hubness: Option<HubnessParams>,
    #[schema(maximum = 0)]
    offset: Option<usize>,
}

/// Points near a target, among those that pairs of examples agree on.
#[derive(ToSchema)]
pub(crate) struct DiscoverRequest {
    target: Option<Example>,
    context: Option<Context>,
    using: Option<String>,
    lookup_from: Option<LookupFrom>,
    #[schema(minimum = 1, maximum = 65536)]
    limit: Option<usize>,
    #[schema(maximum = 65536)]
    offset: Option<usize>,
    params: Option<SearchParams>,
    score_threshold: Option<Number32>,
    priors: Option<Priors>,
    filter: Option<Filter>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
    hubness: Option<HubnessParams>,
}

/// Discoveries that are answered together.
#[derive(ToSchema)]
pub(crate) struct DiscoverBatch {
    #[schema(min_items = 1, max_items = 65536)]
    searches: Vec<DiscoverRequest>,
}

/// A sample of points, and how many of them to compare each with.
#[derive(ToSchema)]
pub(crate) struct SearchMatrix {
    filter: Option<Filter>,
    /// Points of the sample at most; 10 unless given.
    #[schema(minimum = 2, maximum = 4096)]
    sample: Option<usize>,
    /// The nearest of each at most; 3 unless given.
    #[schema(minimum = 1, maximum = 65536)]
    limit: Option<usize>,
    using: Option<String>,
    params: Option<SearchParams>,
    hubness: Option<HubnessParams>,
}
