//! Queries.

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, Type};

use super::post;
use crate::openapi::bodies::queries::{
    DiscoverBatch, DiscoverRequest, QueryBatch, QueryGroups, QueryRequest, RecommendBatch, RecommendGroups,
    RecommendRequest, SearchBatch, SearchGroups, SearchMatrix, SearchRequest,
};
use crate::openapi::operation::Operation;
use crate::openapi::schema::{Shape, list, lists, one};
use crate::queries::groups::GroupsReply;
use crate::queries::matrix::{OffsetsReply, PairsReply};
use crate::queries::reply::{Answer, HitReply, Labelled};

const TAG: &str = "Queries";

pub(super) fn operations() -> Vec<Operation> {
    [queries(), searches(), recommendations(), discoveries(), matrices()].into_iter().flatten().collect()
}

/// A query whose answer is of this shape.
fn asks<T: ToSchema>(
    pattern: &'static str,
    (id, summary): (&'static str, &'static str),
    examples: impl IntoIterator<Item = (&'static str, Value)>,
    shape: Shape,
) -> Operation {
    post(pattern, (id, TAG, summary)).timed().takes::<T>(examples).gives(shape).may_refuse(&[408])
}

fn queries() -> Vec<Operation> {
    let settings = "What the queries of a table have in common: the fields of a query but `query`, as JSON.";
    let rows = "JSON lines have a query each; a table has the column `vector`, or `id` of stored points, and perhaps \
                `query_id` to label answers with.";
    vec![
        asks::<QueryRequest>(
            "/collections/{collection}/points/query",
            ("queryPoints", "The points nearest to something"),
            [query_examples(), other_examples()].concat(),
            one::<Answer>(),
        )
        .gives_arrow(),
        asks::<QueryBatch>(
            "/collections/{collection}/points/query/batch",
            ("queryBatch", "Queries that are answered together"),
            [(
                "two",
                json!({ "searches": [
                    { "query": [0.1, 0.2, 0.3, 0.4], "limit": 3, "with_payload": true },
                    { "query": 1, "limit": 2 },
                ] }),
            )],
            list::<Answer>(),
        )
        .takes_rows(rows)
        .parameter("settings", Object::with_type(Type::String), settings)
        .gives_labelled(list::<Labelled>())
        .gives_arrow(),
        asks::<QueryGroups>(
            "/collections/{collection}/points/query/groups",
            ("queryGroups", "The nearest points, grouped by a payload field"),
            [
                (
                    "by_genre",
                    json!({ "query": [0.1, 0.2, 0.3, 0.4], "group_by": "genre", "group_size": 2, "limit": 4 }),
                ),
                (
                    "looked_up",
                    json!({ "query": [0.1, 0.2, 0.3, 0.4], "group_by": "year",
                    "with_lookup": { "collection": "books", "with_payload": ["genre"], "with_vectors": true } }),
                ),
            ],
            one::<GroupsReply>(),
        ),
    ]
}

fn query_examples() -> Vec<(&'static str, Value)> {
    vec![
        ("a_vector", json!({ "query": [0.1, 0.2, 0.3, 0.4], "limit": 3, "with_payload": true })),
        ("a_stored_point", json!({ "query": 1, "limit": 3, "offset": 1, "with_vector": true })),
        (
            "corrected",
            json!({
                "query": { "nearest": [0.1, 0.2, 0.3, 0.4] },
                "hubness": { "correction": "is", "alpha": 0.5, "explain": true },
            }),
        ),
        (
            "filtered",
            json!({
                "query": [0.1, 0.2, 0.3, 0.4],
                "filter": { "must": [{ "key": "genre", "match": { "except": ["poem"] } }] },
                "params": { "exact": true, "indexed_only": false },
            "priors": { "popularity": 0.2 },
                "score_threshold": -1.0,
            }),
        ),
        (
            "by_examples",
            json!({ "query": { "recommend": {
            "positive": [1, [0.1, 0.2, 0.3, 0.4]], "negative": ["three"], "strategy": "best_score" } } }),
        ),
        (
            "by_target",
            json!({ "query": { "discover": { "target": 1,
            "context": [{ "positive": 2, "negative": "three" }] } } }),
        ),
        ("by_context", json!({ "query": { "context": { "positive": 2, "negative": "three" } } })),
    ]
}

/// Queries made of others, by words and by no vector.
fn other_examples() -> Vec<(&'static str, Value)> {
    vec![
        (
            "fused",
            json!({
                "prefetch": [
                    { "query": [0.1, 0.2, 0.3, 0.4], "limit": 4, "hubness": { "correction": "is" } },
                    { "query": 1, "limit": 4, "params": { "exact": true } },
                ],
                "query": { "fusion": "rrf" },
            }),
        ),
        (
            "fused_with_weights",
            json!({
                "prefetch": [{ "query": 1 }, { "query": 2 }],
                "query": { "rrf": { "k": 60, "weights": [1.0, 0.5] } },
            }),
        ),
        (
            "fused_by_scores",
            json!({
                "prefetch": [{ "query": 1 }, { "query": 2 }],
                "query": { "convex": { "normalization": "distribution", "weights": [2.0, 1.0] } },
            }),
        ),
        (
            "by_feedback",
            json!({ "query": { "feedback": { "nearest": 1, "depth": 2, "alpha": 1.0, "beta": 0.5 } } }),
        ),
        (
            "by_words",
            json!({
                "query": { "text": "call me", "fields": { "text": 2.0, "title": 1.0 }, "operator": "and" },
                "highlight": { "max_chars": 80, "pre_tag": "<b>", "post_tag": "</b>" },
            }),
        ),
        (
            "by_a_vector_and_words",
            json!({
                "query": { "hybrid": { "nearest": [0.1, 0.2, 0.3, 0.4], "text": "experience", "depth": 50,
                    "fusion": { "convex": { "normalization": "minmax", "weights": [0.6, 0.4] } } } },
                "hubness": { "correction": "is", "explain": true },
                "limit": 3,
            }),
        ),
        ("by_a_field", json!({ "query": { "order_by": { "key": "year", "direction": "asc" } } })),
        ("at_random", json!({ "query": { "sample": "random" }, "limit": 2 })),
        ("by_a_point_elsewhere", json!({ "query": 1, "lookup_from": { "collection": "books" }, "limit": 2 })),
    ]
}

fn searches() -> Vec<Operation> {
    let search = || json!({ "vector": [0.1, 0.2, 0.3, 0.4], "limit": 3, "with_payload": true });
    let named = json!({ "vector": { "name": "", "vector": [0.1, 0.2, 0.3, 0.4] }, "limit": 2 });
    vec![
        asks::<SearchRequest>(
            "/collections/{collection}/points/search",
            ("searchPoints", "The points nearest to a vector"),
            [("a_vector", search()), ("by_the_empty_name", named)],
            list::<HitReply>(),
        ),
        asks::<SearchBatch>(
            "/collections/{collection}/points/search/batch",
            ("searchBatch", "Searches that are answered together"),
            [("two", json!({ "searches": [search(), search()] }))],
            lists::<HitReply>(),
        ),
        asks::<SearchGroups>(
            "/collections/{collection}/points/search/groups",
            ("searchGroups", "The points nearest to a vector, grouped"),
            [("by_genre", json!({ "vector": [0.1, 0.2, 0.3, 0.4], "group_by": "genre", "limit": 2 }))],
            one::<GroupsReply>(),
        ),
    ]
}

fn recommendations() -> Vec<Operation> {
    let like = || json!({ "positive": [1], "negative": ["three"], "limit": 3 });
    vec![
        asks::<RecommendRequest>(
            "/collections/{collection}/points/recommend",
            ("recommendPoints", "Points like some examples, and unlike others"),
            [("by_points", like())],
            list::<HitReply>(),
        ),
        asks::<RecommendBatch>(
            "/collections/{collection}/points/recommend/batch",
            ("recommendBatch", "Recommendations that are answered together"),
            [("two", json!({ "searches": [like(), like()] }))],
            lists::<HitReply>(),
        ),
        asks::<RecommendGroups>(
            "/collections/{collection}/points/recommend/groups",
            ("recommendGroups", "Recommendations, grouped"),
            [("by_genre", json!({ "positive": [1], "group_by": "genre", "limit": 2 }))],
            one::<GroupsReply>(),
        ),
    ]
}

fn discoveries() -> Vec<Operation> {
    let near = || json!({ "target": [0.1, 0.2, 0.3, 0.4], "context": [{ "positive": 1, "negative": 2 }], "limit": 3 });
    vec![
        asks::<DiscoverRequest>(
            "/collections/{collection}/points/discover",
            ("discoverPoints", "Points near a target, among those that pairs agree on"),
            [("by_a_target", near())],
            list::<HitReply>(),
        ),
        asks::<DiscoverBatch>(
            "/collections/{collection}/points/discover/batch",
            ("discoverBatch", "Discoveries that are answered together"),
            [("two", json!({ "searches": [near(), near()] }))],
            lists::<HitReply>(),
        ),
    ]
}

fn matrices() -> Vec<Operation> {
    let sample = || [("a_sample", json!({ "sample": 4, "limit": 2 }))];
    vec![
        asks::<SearchMatrix>(
            "/collections/{collection}/points/search/matrix/pairs",
            ("searchMatrixPairs", "How near points of a sample are, as pairs"),
            sample(),
            one::<PairsReply>(),
        ),
        asks::<SearchMatrix>(
            "/collections/{collection}/points/search/matrix/offsets",
            ("searchMatrixOffsets", "How near points of a sample are, as places"),
            sample(),
            one::<OffsetsReply>(),
        ),
    ]
}
