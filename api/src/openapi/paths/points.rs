//! Points and their payloads.

use serde_json::json;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::{delete, get, post, put};
use crate::facets::FacetReply;
use crate::openapi::bodies::points::{
    CountPoints, CreateFieldIndex, DeletePayload, DeleteVectors, FacetRequest, OverwritePayload,
    PointsSelector, RetrievePoints, ScrollPoints, SetPayload, UpdateBatch, UpdateVectors, Upsert,
};
use crate::openapi::operation::Operation;
use crate::openapi::schema::{list, one};
use crate::points::{Counted, PointReply, WriteReply};
use crate::scroll::ScrollReply;

const POINTS: &str = "Points";
const PAYLOADS: &str = "Payloads";

pub(super) fn operations() -> Vec<Operation> {
    [points(), vectors(), changes(), payloads(), fields()].into_iter().flatten().collect()
}

fn points() -> Vec<Operation> {
    let about = |id, summary| (id, POINTS, summary);
    let string = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["string"])).build();
    vec![
        post("/collections/{collection}/points", about("getPoints", "Points by their ids"))
            .timed()
            .takes::<RetrievePoints>([
                ("whole", json!({ "ids": [1, 2, "three"], "with_payload": true, "with_vector": true })),
                ("some_fields", json!({ "ids": [1], "with_payload": ["genre", "author.name"] })),
                ("without_a_field", json!({ "ids": [1], "with_payload": { "exclude": ["author"] } })),
                ("one_field", json!({ "ids": [1], "with_payload": { "include": ["author"] } })),
            ])
            .gives(list::<PointReply>()),
        get("/collections/{collection}/points/{id}", about("getPoint", "A point"))
            .timed()
            .parameter("id_type", string, "Digits are a string.")
            .gives(one::<PointReply>()),
        post("/collections/{collection}/points/count", about("countPoints", "Counts points"))
            .timed()
            .takes::<CountPoints>([
                ("all", json!({})),
                ("filtered", json!({
                    "exact": true,
                    "filter": { "must": { "key": "year", "range": { "gte": 1900 } } },
                })),
                ("by_place", json!({ "filter": { "should": [
                    { "key": "place", "geo_radius": { "center": { "lat": 51.5, "lon": -0.1 }, "radius": 5000.0 } },
                    { "key": "place", "geo_bounding_box": {
                        "top_left": { "lat": 52.0, "lon": -1.0 }, "bottom_right": { "lat": 51.0, "lon": 1.0 } } },
                    { "key": "place", "geo_polygon": { "exterior": { "points": [
                        { "lat": 0.0, "lon": 0.0 }, { "lat": 0.0, "lon": 9.0 }, { "lat": 9.0, "lon": 9.0 },
                        { "lat": 0.0, "lon": 0.0 }] } } },
                ] } })),
                ("by_structure", json!({ "filter": {
                    "must": [
                        { "has_id": [1, 2, "three"] },
                        { "has_vector": "" },
                        { "slice": { "total": 4, "index": 1 } },
                        { "key": "tags", "values_count": { "gte": 1, "lt": 4 } },
                        { "nested": { "key": "editions", "filter": {
                            "must": [{ "key": "language", "match": { "any": ["en", "de"] } }] } } },
                    ],
                    "must_not": [{ "is_empty": { "key": "genre" } }, { "is_null": { "key": "genre" } }],
                    "min_should": { "min_count": 1, "conditions": [
                        { "key": "genre", "match": { "value": "novel" } },
                        { "should": [{ "key": "title", "match": { "text": "white whale" } }] },
                    ] },
                } })),
            ])
            .optionally()
            .may_refuse(&[408])
            .gives(one::<Counted>()),
        post("/collections/{collection}/points/scroll", about("scrollPoints", "Points page by page"))
            .timed()
            .takes::<ScrollPoints>([
                ("first_page", json!({ "limit": 2, "with_payload": true })),
                ("next_page", json!({ "offset": 2, "limit": 2, "with_payload": false, "with_vector": true })),
                ("by_a_field", json!({
                    "limit": 2,
                    "order_by": { "key": "year", "direction": "desc", "start_from": 1960 },
                    "filter": { "must_not": [{ "key": "genre", "match": { "value": "poem" } }] },
                })),
            ])
            .optionally()
            .may_refuse(&[408])
            .gives(one::<ScrollReply>()),
    ]
}

fn vectors() -> Vec<Operation> {
    let about = |id, summary| (id, POINTS, summary);
    vec![
        put("/collections/{collection}/points/vectors", about("updateVectors", "Gives points vectors anew"))
            .timed()
            .writes_points()
            .takes::<UpdateVectors>([(
                "named",
                json!({ "points": [
                { "id": 1, "vector": { "image": [0.1, 0.2, 0.3, 0.4] } },
            ] }),
            )])
            .gives(one::<WriteReply>()),
        post("/collections/{collection}/points/vectors/delete", about("deleteVectors", "Takes vectors away"))
            .timed()
            .writes_points()
            .takes::<DeleteVectors>([
                ("by_id", json!({ "points": [1, 2], "vector": ["image"] })),
                ("by_filter", json!({ "filter": { "must": [{ "has_id": [2] }] }, "vector": ["image"] })),
            ])
            .may_refuse(&[408])
            .gives(one::<WriteReply>()),
    ]
}

fn changes() -> Vec<Operation> {
    let about = |id, summary| (id, POINTS, summary);
    let rows = "JSON lines have a point each; a table has the columns `id`, `vector` or `vector.NAME` for each \
                named vector (null where a point has none), `payload` and `text`, and its other columns become fields \
                of the payload.";
    let ids = "JSON lines have an id each; a table has the column `id`.";
    vec![
        put("/collections/{collection}/points", about("upsertPoints", "Writes points, or replaces them"))
            .timed()
            .writes_points()
            .takes::<Upsert>([
                ("points", json!({ "points": [
                    {
                        "id": 1,
                        "vector": [0.9, 0.1, 0.1, 0.3],
                        "payload": { "genre": "novel", "year": 1851, "author": { "name": "Melville" } },
                        "text": "Call me Ishmael.",
                    },
                    { "id": 2, "vector": [0.1, 0.8, 0.2, 0.1], "payload": { "genre": "novel", "year": 1925 } },
                    { "id": "three", "vector": [0.2, 0.1, 0.7, 0.5], "payload": { "genre": "poem", "year": 1922 } },
                ] })),
                ("batch", json!({ "batch": {
                    "ids": [4, 5],
                    "vectors": [[0.4, 0.4, 0.1, 0.2], [0.3, 0.2, 0.2, 0.9]],
                    "payloads": [{ "genre": "essay", "year": 1580 }, null],
                    "texts": [null, "Of experience."],
                } })),
            ])
            .takes_rows(rows)
            .gives(one::<WriteReply>()),
        post("/collections/{collection}/points/delete", about("deletePoints", "Deletes points"))
            .timed()
            .writes_points()
            .takes::<PointsSelector>([
                ("by_id", json!({ "points": [5] })),
                ("by_filter", json!({ "filter": { "must": [{ "key": "genre", "match": { "value": "essay" } }] } })),
            ])
            .takes_rows(ids)
            .may_refuse(&[408])
            .gives(one::<WriteReply>()),
        post("/collections/{collection}/points/batch", about("batchUpdate", "Several writes, one after the other"))
            .timed()
            .writes_points()
            .takes::<UpdateBatch>([("several", json!({ "operations": [
                { "upsert": { "points": [
                    { "id": 7, "vector": [0.5, 0.5, 0.1, 0.1], "payload": { "genre": "play" } },
                ] } },
                { "set_payload": { "payload": { "year": 1603 }, "points": [7] } },
                { "overwrite_payload": { "payload": { "genre": "tragedy", "year": 1603 }, "points": [7] } },
                { "delete_payload": { "keys": ["year"], "points": [7] } },
                { "clear_payload": { "points": [7] } },
                { "update_vectors": { "points": [{ "id": 7, "vector": [0.1, 0.5, 0.1, 0.1] }] } },
                { "delete": { "points": [7] } },
            ] }))])
            .may_refuse(&[408])
            .gives(list::<WriteReply>()),
    ]
}

fn payloads() -> Vec<Operation> {
    let about = |id, summary| (id, PAYLOADS, summary);
    vec![
        post(
            "/collections/{collection}/points/payload",
            about("setPayload", "Merges a payload into those of points"),
        )
        .timed()
        .writes_points()
        .takes::<SetPayload>([
            ("by_id", json!({ "payload": { "read": true }, "points": [1, 2] })),
            ("deeper", json!({ "payload": { "born": 1819 }, "key": "author", "points": [1] })),
            (
                "by_filter",
                json!({ "payload": { "read": false }, "filter": { "must": [{ "has_id": ["three"] }] } }),
            ),
        ])
        .may_refuse(&[408])
        .gives(one::<WriteReply>()),
        put(
            "/collections/{collection}/points/payload",
            about(
                "overwritePayload",
                "Puts a payload in the place of those \
            of points",
            ),
        )
        .timed()
        .writes_points()
        .takes::<OverwritePayload>([
            ("by_id", json!({ "payload": { "genre": "poem", "year": 1922 }, "points": ["three"] })),
            (
                "by_filter",
                json!({ "payload": { "genre": "poem", "year": 1922 },
                    "filter": { "must": [{ "has_id": ["three"] }] } }),
            ),
        ])
        .may_refuse(&[408])
        .gives(one::<WriteReply>()),
        post(
            "/collections/{collection}/points/payload/delete",
            about("deletePayload", "Takes fields of payloads away"),
        )
        .timed()
        .writes_points()
        .takes::<DeletePayload>([
            ("by_id", json!({ "keys": ["read"], "points": [1] })),
            ("by_filter", json!({ "keys": ["read"], "filter": { "must": [{ "has_id": [2] }] } })),
        ])
        .may_refuse(&[408])
        .gives(one::<WriteReply>()),
        post("/collections/{collection}/points/payload/clear", about("clearPayload", "Takes payloads away"))
            .timed()
            .writes_points()
            .takes::<PointsSelector>([("by_id", json!({ "points": ["three"] }))])
            .may_refuse(&[408])
            .gives(one::<WriteReply>()),
    ]
}

fn fields() -> Vec<Operation> {
    let about = |id, summary| (id, PAYLOADS, summary);
    vec![
        put(
            "/collections/{collection}/index",
            about("createFieldIndex", "Makes an index of a payload field"),
        )
        .timed()
        .writes()
        .takes::<CreateFieldIndex>([
            ("keywords", json!({ "field_name": "genre", "field_schema": "keyword" })),
            (
                "numbers",
                json!({ "field_name": "year", "field_schema": { "type": "integer", "range": true } }),
            ),
            (
                "text",
                json!({ "field_name": "title", "field_schema": { "type": "text", "tokenizer": "word" } }),
            ),
        ])
        .gives(one::<WriteReply>()),
        delete(
            "/collections/{collection}/index/{field}",
            about("deleteFieldIndex", "Drops the index of a payload field"),
        )
        .timed()
        .writes()
        .gives(one::<WriteReply>()),
        post("/collections/{collection}/facet", about("facet", "The values of a payload field, counted"))
            .timed()
            .takes::<FacetRequest>([
                ("all", json!({ "key": "genre" })),
                (
                    "filtered",
                    json!({ "key": "genre", "limit": 5, "exact": true,
                    "filter": { "must": [{ "key": "year", "range": { "lt": 1900 } }] } }),
                ),
            ])
            .may_refuse(&[408])
            .gives(one::<FacetReply>()),
    ]
}
