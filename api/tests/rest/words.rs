//! Queries by words, alone and beside vectors, over HTTP.

use std::path::Path;
use std::sync::Arc;

use dehub_index::{Catalogue, TextField, TextFields};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Served, config};

/// Five points on a quarter of a circle, with texts and titles.
fn start(folder: &Path) -> Served {
    let catalogue = Arc::new(Catalogue::new(folder));
    let served = Served::start_on(Arc::clone(&catalogue), &config());
    served.did("PUT", "/collections/c", &json!({"vectors": {"size": 2, "distance": "Cosine"}}));
    let name = "c".parse().expect("a name");
    let collection = catalogue.get(&name).expect("there");
    let fields: TextFields =
        ["text", "title"].iter().map(|&name| (name.to_owned(), TextField::default())).collect();
    collection.set_text_fields(&fields).expect("fields");
    let texts = [
        "the fox and the hen",
        "a fox, a fox & <b>another</b> fox",
        "hens lay eggs",
        "nothing of the kind",
        "fox hen goose",
    ];
    let titles = ["Fox", "Tails", "Hen", "Hen", "Geese"];
    let point = |(id, (text, title)): (u32, (&str, &str))| {
        let angle = f64::from(id) * std::f64::consts::FRAC_PI_2 / 4.0;
        json!({"id": id, "vector": [angle.cos(), angle.sin()], "text": text,
            "payload": {"title": title, "even": i32::from(id % 2 == 0)}})
    };
    let points: Vec<Value> = (0..).zip(texts.into_iter().zip(titles)).map(point).collect();
    let done = served.did("PUT", "/collections/c/points?refresh=true", &json!({"points": points}));
    assert_eq!(done["text"]["visible"], true, "{done}");
    assert!(done["text"]["sequence"].as_u64() >= done["operation_id"].as_u64(), "{done}");
    served
}

fn ask(served: &Served, body: &Value) -> Value {
    served.did("POST", "/collections/c/points/query", body)
}

fn ids(points: &Value) -> Vec<u64> {
    points.as_array().expect("points").iter().map(|point| point["id"].as_u64().expect("a number")).collect()
}

#[test]
fn words_are_asked_in_every_form_a_body_has_for_them() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let cases = [
        (json!({"text": "fox", "fields": ["text"]}), vec![1, 4, 0]),
        (json!({"text": "fox hen goose", "operator": "and", "fields": {"text": 1.0}}), vec![4]),
        (json!({"text": "fox", "fields": {"title": 2.0}}), vec![0]),
        (json!({"text": "goose", "model": "qdrant/bm25"}), vec![4]),
        (json!({"nearest": {"text": "goose", "model": "Qdrant/bm25"}}), vec![4]),
        (json!({"text": "unicorn"}), vec![]),
    ];
    let searches: Vec<Value> = cases.iter().map(|(query, _)| json!({"query": query})).collect();
    let batch = served.did("POST", "/collections/c/points/query/batch", &json!({"searches": searches}));
    for ((query, wanted), answer) in cases.iter().zip(batch.as_array().expect("answers")) {
        assert_eq!(&ids(&answer["points"]), wanted, "{query}");
        assert_eq!(ids(&ask(&served, &json!({"query": query}))["points"]), *wanted, "{query}");
        assert_eq!(answer["hubness"]["correction"], Value::Null);
    }
    let filter = json!({"must": [{"key": "even", "match": {"value": 1}}]});
    let filtered = ask(&served, &json!({"query": {"text": "fox"}, "filter": filter, "with_payload": true}));
    assert_eq!(ids(&filtered["points"]).len(), 2, "{filtered}");
    assert_eq!(filtered["points"][0]["payload"]["title"], "Fox");
    let ranked = ask(&served, &json!({"query": [0, 1], "prefetch": {"query": {"text": "fox"}}}));
    assert_eq!(ids(&ranked["points"]), [4, 1, 0]);
    let grouped = json!({"query": {"text": "hen"}, "group_by": "title", "group_size": 1, "highlight": true});
    let grouped = served.did("POST", "/collections/c/points/query/groups", &grouped);
    assert_eq!(grouped["groups"].as_array().expect("groups").len(), 3, "{grouped}");
    assert!(grouped["groups"][0]["hits"][0]["highlights"].is_array(), "{grouped}");
}

#[test]
fn vectors_and_words_are_fused_as_asked_and_each_hit_tells_its_parts() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let fusions = [
        json!(null),
        json!("rrf"),
        json!("dbsf"),
        json!("minmax"),
        json!("distribution"),
        json!({"rrf": {"weights": [1, 2]}}),
        json!({"convex": {"normalization": "distribution", "weights": [3, 1]}}),
    ];
    for fusion in fusions {
        let query = json!({"hybrid": {"nearest": [1, 0], "text": "goose hen", "fusion": fusion, "depth": 3}});
        let answer = ask(&served, &json!({"query": query, "hubness": {"explain": true}, "limit": 5}));
        let sources = answer["explain"]["sources"].as_array().expect("sources");
        assert_eq!(
            (&sources[0]["kind"], &sources[1]["kind"]),
            (&json!("vector"), &json!("text")),
            "{answer}"
        );
        let points = answer["points"].as_array().expect("points");
        assert!(points.len() >= 4, "{answer}");
        for point in points {
            let parts = point["parts"].as_array().expect("parts");
            let sum: f64 = parts.iter().map(|part| part["contribution"].as_f64().expect("a number")).sum();
            assert!((sum - point["score"].as_f64().expect("a score")).abs() < 1e-6, "{fusion} {point}");
            for part in parts.iter().filter(|part| part["kind"] == "text") {
                let fields = part["fields"].as_object().expect("fields");
                let fields: f64 = fields.values().map(|score| score.as_f64().expect("a number")).sum();
                assert!((fields - part["score"].as_f64().expect("a score")).abs() < 1e-5, "{part}");
            }
        }
    }
    let by_hand = json!({
        "query": {"convex": {}},
        "prefetch": [{"query": [1, 0], "limit": 100}, {"query": {"text": "goose hen"}, "limit": 100}],
    });
    let short = ask(&served, &json!({"query": {"hybrid": {"nearest": [1, 0], "text": "goose hen"}}}));
    assert_eq!(ask(&served, &by_hand)["points"], short["points"]);
    let words = ask(&served, &json!({"query": {"text": "hen"}, "hubness": {"explain": true}}));
    assert!(words["points"][0]["fields"].is_object(), "{words}");
    let without = ask(&served, &json!({"query": {"hybrid": {"nearest": 0, "text": "goose"}}}));
    assert!(without["points"][0].get("parts").is_none() && !ids(&without["points"]).contains(&0));
    // What concerns vectors is asked of them alone.
    let raw = json!({"query": {"hybrid": {"nearest": [1, 0], "text": "hen"}},
        "hubness": {"correction": "none"}, "params": {"exact": true}});
    assert_eq!(ids(&ask(&served, &raw)["points"]).len(), 5);
}

#[test]
fn feedback_and_convex_combinations_are_asked_of_vectors_too() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let feedback = json!({"feedback": {"nearest": [1, 0], "depth": 1, "alpha": 0, "beta": 1}});
    let answer = ask(&served, &json!({"query": feedback, "hubness": {"explain": true}}));
    // The first answer is the point 0, which is where the query moves.
    assert_eq!(ids(&answer["points"]), [0, 1, 2, 3, 4]);
    assert!(answer["explain"]["raw_ranks"].is_array(), "{answer}");
    let convex = json!({"query": {"convex": {"normalization": "minmax", "weights": [1, 0]}},
        "prefetch": [{"query": [0, 1]}, {"query": [1, 0]}]});
    assert_eq!(ids(&ask(&served, &convex)["points"]), [4, 3, 2, 1, 0]);
}

#[test]
fn highlights_escape_what_is_around_them_and_take_tags_as_they_are() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let of = |highlight: Value, query: Value| {
        let body = json!({"query": query, "highlight": highlight, "limit": 1});
        ask(&served, &body)["points"][0]["highlights"].clone()
    };
    let fox = || json!({"text": "fox another", "fields": ["text"]});
    let plain = "a <em>fox</em>, a <em>fox</em> &amp; &lt;b&gt;<em>another</em>&lt;/b&gt; <em>fox</em>";
    assert_eq!(of(json!(true), fox()), json!([{"field": "text", "fragment": plain}]));
    let tagged = of(json!({"pre_tag": "<i class=\"x\">", "post_tag": "</i>", "max_chars": 40}), fox());
    let fragment = tagged[0]["fragment"].as_str().expect("a fragment");
    assert!(fragment.contains("<i class=\"x\">fox</i>") && !fragment.contains("<b>"), "{fragment}");
    assert_eq!(
        of(json!({"fields": ["title"]}), json!({"text": "geese"})),
        json!([{"field": "title", "fragment": "<em>Geese</em>"}])
    );
    assert_eq!(of(json!(false), fox()), Value::Null);
    let hybrid = json!({"hybrid": {"nearest": [0, 1], "text": "goose"}});
    assert_eq!(of(json!(true), hybrid)[0]["field"], "text");
}

#[test]
fn a_write_tells_whether_words_find_it_and_waits_for_that_if_asked() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let found = |words: &str| ids(&ask(&served, &json!({"query": {"text": words}}))["points"]);
    let point = json!({"points": [{"id": 9, "vector": [1, 1], "text": "zebra"}]});
    let told = served.did("PUT", "/collections/c/points", &point);
    assert!(told["text"]["visible"].is_boolean() && told["text"]["sequence"].is_u64(), "{told}");
    let steps = [
        ("PUT", "points", point, "zebra", vec![9]),
        ("POST", "points/payload", json!({"payload": {"title": "Quagga"}, "points": [9]}), "quagga", vec![9]),
        ("POST", "points/payload/clear", json!({"points": [9]}), "quagga", vec![]),
        ("PUT", "points/vectors", json!({"points": [{"id": 9, "vector": [1, 0.5]}]}), "zebra", vec![9]),
        ("POST", "points/delete", json!({"points": [9]}), "zebra", vec![]),
    ];
    for (method, path, body, words, wanted) in steps {
        let told = served.did(method, &format!("/collections/c/{path}?refresh=true"), &body);
        assert_eq!(told["text"]["visible"], true, "{path}: {told}");
        assert_eq!(found(words), wanted, "{path}");
    }
    let operations = json!({"operations": [
        {"upsert": {"points": [{"id": 10, "vector": [1, 1], "text": "okapi"}]}},
        {"delete": {"points": [0]}},
    ]});
    let told = served.did("POST", "/collections/c/points/batch?refresh=true", &operations);
    assert_eq!((&told[0]["text"]["visible"], &told[1]["text"]["visible"]), (&json!(true), &json!(true)));
    assert_eq!(found("okapi"), [10]);
    served.did("PUT", "/collections/d", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let told = served.did(
        "PUT",
        "/collections/d/points?refresh=true",
        &json!({"points": [{"id": 1, "vector": [1, 1]}]}),
    );
    assert!(told.get("text").is_none(), "no text fields: {told}");
    let refused = served.json("PUT", "/collections/c/points?refresh=maybe", &json!({"points": []}));
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("invalid_value")));
}

/// Each body is refused with a code at a pointer.
fn check_refused(served: &Served, cases: &[(Value, &str, &str)]) {
    for (body, code, pointer) in cases {
        let refused = served.json("POST", "/collections/c/points/query", body);
        assert!(matches!(refused.status, 404 | 422), "{body}: {refused:?}");
        let told = (&refused.body["code"], &refused.body["errors"][0]["pointer"]);
        assert_eq!(told, (&json!(code), &json!(pointer)), "{body}");
    }
}

#[test]
fn what_cannot_be_asked_of_words_is_refused_at_its_place() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let cases = [
        (json!({"query": {"text": 7}}), "wrong_type", "/query/text"),
        (json!({"query": {"text": "fox", "operator": "xor"}}), "invalid_value", "/query/operator"),
        (
            json!({"query": {"text": "fox", "fields": {"body": 1}}}),
            "unknown_text_field",
            "/query/fields/body",
        ),
        (json!({"query": {"text": "fox", "fields": {"text": 0}}}), "invalid_weight", "/query/fields/text"),
        (json!({"query": {"text": "fox", "fields": ["a/b"]}}), "unknown_text_field", "/query/fields/a~1b"),
        (json!({"query": {"text": "fox", "model": "bert"}}), "not_supported", "/query/model"),
        (json!({"query": {"text": "fox", "nearest": [1, 0]}}), "invalid_value", "/query/text"),
        (json!({"query": {"nearest": {"model": "qdrant/bm25"}}}), "wrong_type", "/query/nearest"),
        (json!({"query": {"text": "fox"}, "using": "v"}), "invalid_value", "/using"),
        (json!({"query": {"text": "fox"}, "params": {"exact": true}}), "invalid_value", "/params"),
        (json!({"query": {"text": "fox"}, "hubness": {"correction": "none"}}), "invalid_value", "/hubness"),
        (json!({"query": [1, 0], "highlight": true}), "invalid_value", "/highlight"),
        (json!({"query": {"text": "fox"}, "highlight": 1}), "wrong_type", "/highlight"),
        (
            json!({"query": {"text": "fox"}, "highlight": {"max_chars": 0}}),
            "invalid_value",
            "/highlight/max_chars",
        ),
        (
            json!({"query": {"text": "fox"}, "highlight": {"fields": ["body"]}}),
            "unknown_text_field",
            "/highlight/fields/body",
        ),
        (
            json!({"query": {"fusion": "rrf"}, "prefetch": [{}, {"query": {"text": "x", "fields": ["body"]}}]}),
            "unknown_text_field",
            "/prefetch/1/query/fields/body",
        ),
    ];
    check_refused(&served, &cases);
    served.did("PUT", "/collections/d", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let refused = served.json("POST", "/collections/d/points/query", &json!({"query": {"text": "fox"}}));
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("no_text_fields")));
}

#[test]
fn what_cannot_be_fused_or_fed_back_is_refused_at_its_place() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let hybrid = |extra: Value| {
        let mut query = json!({"nearest": [1, 0], "text": "fox"});
        query.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        json!({"query": {"hybrid": query}})
    };
    let cases = [
        (hybrid(json!({"depth": 0})), "invalid_limit", "/query/hybrid/depth"),
        (hybrid(json!({"fusion": "sum"})), "invalid_value", "/query/hybrid/fusion"),
        (
            hybrid(json!({"fusion": {"rrf": {}, "convex": {}}})),
            "invalid_value",
            "/query/hybrid/fusion/convex",
        ),
        (hybrid(json!({"fusion": {"rrf": {"weights": [1]}}})), "invalid_value", "/query/hybrid"),
        (hybrid(json!({"fusion": {"convex": {"weights": [0, 0]}}})), "invalid_value", "/query/hybrid"),
        (hybrid(json!({"nearest": 77})), "unknown_point", "/query/hybrid/nearest"),
        (hybrid(json!({"nearest": [1, 2, 3]})), "dimension_mismatch", "/query/hybrid/nearest"),
        (hybrid(json!({"fields": ["body"]})), "unknown_text_field", "/query/hybrid/fields/body"),
        (json!({"query": {"hybrid": {"text": "fox"}}}), "missing_field", "/query/hybrid"),
        (
            json!({"query": {"feedback": {"nearest": [1, 0], "depth": 0}}}),
            "invalid_value",
            "/query/feedback/depth",
        ),
        (
            json!({"query": {"feedback": {"nearest": [1, 0], "alpha": -1}}}),
            "invalid_value",
            "/query/feedback/alpha",
        ),
        (
            json!({"query": {"feedback": {"nearest": [1, 0], "alpha": 0, "beta": 0}}}),
            "invalid_value",
            "/query/feedback",
        ),
        (
            json!({"query": {"convex": {"normalization": "none"}}, "prefetch": [{"query": [1, 0]}]}),
            "invalid_value",
            "/query/convex/normalization",
        ),
    ];
    check_refused(&served, &cases);
    let beside =
        json!({"query": {"hybrid": {"nearest": [1, 0], "text": "fox"}}, "prefetch": [{"query": [1, 0]}]});
    let refused = served.json("POST", "/collections/c/points/query", &beside);
    assert_eq!((refused.status, &refused.body["errors"][0]["pointer"]), (422, &json!("/prefetch")));
}
