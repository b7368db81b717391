//! A collection's life, from its making to its end.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served};

/// A hub between two points, and a bank of queries that all look at it.
fn fill(client: &Client) {
    let config = json!({"vectors": {"size": 2, "distance": "Cosine"}});
    assert_eq!(client.did("PUT", "/collections/c", &config), true);
    let points = json!({"points": [
        {"id": "a", "vector": [1, 0], "payload": {"name": "left"}, "text": "an a"},
        {"id": 7, "vector": [0, 1]},
        {"id": "hub", "vector": [0.7, 0.7], "payload": {"name": "hub", "deep": [1, {"x": null}]}},
    ]});
    let written = client.did("PUT", "/collections/c/points?wait=true", &points);
    assert_eq!(written, json!({"operation_id": 1, "status": "completed", "added": 3, "replaced": 0}));
    let bank =
        json!({"kind": "query", "vectors": [[0.75, 0.65], [0.65, 0.75], [0.7, 0.7]], "ids": [1, "1", 2]});
    let written = client.did("PUT", "/collections/c/banks/queries", &bank);
    assert_eq!(written, json!({"operation_id": 2, "status": "completed", "added": 3}));
    let fit = json!({"method": "IS", "parameters": {"beta": 20}, "query_bank": "queries"});
    let fitted = client.did("PUT", "/collections/c/corrections/is", &fit);
    assert_eq!(fitted["method"], "IS(beta=20)");
    assert_eq!(fitted["version"], 1);
    assert_eq!(fitted["statistics"], json!({"computed": 1, "shared": 0}));
}

fn ids(result: &Value) -> Vec<Value> {
    result["points"].as_array().expect("points").iter().map(|point| point["id"].clone()).collect()
}

fn ask(client: &Client, query: &Value) -> Value {
    client.did("POST", "/collections/c/points/query", query)
}

#[test]
fn the_server_says_what_it_is_and_that_it_is_well() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let about = served.send("GET", "/", None, None);
    assert_eq!(about.body["title"], "dehub");
    assert_eq!(about.body["version"], "1.20.0", "that of Qdrant's interface");
    assert_eq!(about.body["dehub_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(about.body["limits"]["body_bytes"], 32 * 1024 * 1024);
    for path in ["/healthz", "/livez"] {
        assert_eq!(served.text(path).0, 200, "{path}");
    }
    let ready = served.send("GET", "/readyz", None, None);
    assert_eq!((ready.status, &ready.body), (200, &json!({"status": "ok", "collections": {}})));
    assert_eq!(served.get("/collections"), json!({"collections": []}));
}

#[test]
fn a_filter_says_which_ids_may_be_answers() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let query = |filter: &Value| json!({"query": [0.8, 0.6], "limit": 3, "filter": filter});
    let cases = [
        (json!(null), json!(["hub", "a", 7])),
        (json!({}), json!(["hub", "a", 7])),
        (json!({"must": [], "must_not": null}), json!(["hub", "a", 7])),
        (json!({"must": [{"has_id": [7, "a", "absent", 8]}]}), json!(["a", 7])),
        (json!({"must": {"has_id": ["7"]}}), json!([])),
        (json!({"must": [{"has_id": [7, "a"]}, {"has_id": ["hub", 7]}]}), json!([7])),
        (json!({"must_not": [{"has_id": ["hub"]}, {"has_id": ["absent"]}]}), json!(["a", 7])),
        (json!({"must": [{"has_id": ["hub", "a"]}], "must_not": [{"has_id": ["a"]}]}), json!(["hub"])),
        (json!({"must": [{"has_id": []}]}), json!([])),
    ];
    for (filter, wanted) in &cases {
        let found = ask(&served, &query(filter));
        assert_eq!(json!(ids(&found)), *wanted, "{filter}");
    }
    let searches: Vec<Value> = cases.iter().map(|(filter, _)| query(filter)).collect();
    let batch =
        served.did("POST", "/collections/c/points/query/batch?timeout=60", &json!({"searches": searches}));
    for (found, (filter, wanted)) in batch.as_array().expect("answers").iter().zip(&cases) {
        assert_eq!(json!(ids(found)), *wanted, "{filter}");
    }
    let search = json!({"query": [0.8, 0.6], "limit": 2, "filter": {"must_not": [{"has_id": ["a"]}]},
        "hubness": {"correction": "is", "explain": true}});
    let found = served.did("POST", "/collections/c/points/query?timeout=60.5", &search);
    assert_eq!(ids(&found), [json!("hub"), json!(7)]);
    assert_eq!(found["explain"]["raw_ranks"], json!([1, 2]));
    let plan = found["explain"]["plan"].as_str().expect("a plan");
    assert!(plan.starts_with("exact scan of the 2 of 3 points that the filter allows ("), "{plan}");
}

#[test]
fn a_correction_takes_a_hub_off_the_top() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);

    let raw = ask(&served, &json!({"query": [0.8, 0.6], "limit": 3}));
    assert_eq!(ids(&raw), [json!("hub"), json!("a"), json!(7)]);
    assert_eq!(raw["exact"], true);
    assert_eq!(raw["sequence"], 3);
    let nothing = json!({"correction": null, "method": null, "alpha": null, "gate_open": null});
    assert_eq!(raw["hubness"], nothing);
    assert!(raw["points"][0].get("payload").is_none(), "payloads come when asked for");

    let query = json!({"query": {"nearest": [0.8, 0.6]}, "limit": 3, "with_payload": true,
        "hubness": {"correction": "is", "alpha": 1.0, "explain": true}});
    let corrected = ask(&served, &query);
    assert_eq!(ids(&corrected), [json!("a"), json!("hub"), json!(7)]);
    assert_eq!(corrected["hubness"]["correction"], "is@1");
    assert_eq!(corrected["points"][0]["payload"], json!({"name": "left"}));
    assert_eq!(corrected["points"][0]["text"], "an a");
    assert_eq!(corrected["points"][2]["payload"], json!({}));
    assert_eq!(corrected["explain"]["raw_ranks"], json!([2, 1, 3]));
    assert_eq!(corrected["explain"]["raw"][0]["id"], "hub");
    assert!(corrected["explain"]["plan"].as_str().is_some_and(|plan| plan.contains("IS(beta=20)")));
    for (point, raw_rank) in corrected["points"].as_array().expect("points").iter().zip([2, 1, 3]) {
        let number = |name: &str| point[name].as_f64().expect("a number");
        assert!((number("score") - (number("raw_score") - number("bias"))).abs() < 1e-6, "{point}");
        assert_eq!(point["rank_raw"], raw_rank);
    }

    let weightless =
        ask(&served, &json!({"query": [0.8, 0.6], "limit": 3, "hubness": {"correction": "is", "alpha": 0}}));
    assert_eq!(weightless["points"], raw["points"]);
}

#[test]
fn a_query_may_be_a_point_a_page_or_a_batch() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);

    let by_point = ask(&served, &json!({"query": "hub", "limit": 2}));
    assert_eq!(ids(&by_point), [json!("a"), json!(7)]);
    let by_number = ask(&served, &json!({"query": 7, "limit": 1, "params": {"exact": true}}));
    assert_eq!(ids(&by_number), [json!("hub")]);

    let page = |limit: usize, offset: usize| {
        ids(&ask(&served, &json!({"query": [0.8, 0.6], "limit": limit, "offset": offset})))
    };
    assert_eq!(page(1, 1), [json!("a")]);
    assert_eq!(page(2, 2), [json!(7)], "the last page may be short");
    assert!(page(2, 3).is_empty());

    let above = ask(&served, &json!({"query": [0.8, 0.6], "score_threshold": 0.7}));
    assert_eq!(ids(&above), [json!("hub"), json!("a")]);

    let with_vector = ask(&served, &json!({"query": [0, 3], "limit": 1, "with_vector": true}));
    assert_eq!(with_vector["points"][0]["vector"], json!([0.0, 1.0]));

    let searches = json!({"searches": [
        {"query": [0.8, 0.6], "limit": 1},
        {"query": [0.8, 0.6], "limit": 1, "hubness": {"correction": "is"}},
        {"query": "a", "limit": 1},
    ]});
    let batch = served.did("POST", "/collections/c/points/query/batch", &searches);
    let firsts: Vec<_> = batch.as_array().expect("answers").iter().flat_map(ids).collect();
    assert_eq!(firsts, [json!("hub"), json!("a"), json!("hub")]);

    let search =
        served.did("POST", "/collections/c/points/search", &json!({"vector": [0.8, 0.6], "limit": 1}));
    assert_eq!(search[0]["id"], "hub", "the older paths answer with the points alone");
}

#[test]
fn points_are_read_counted_replaced_and_deleted() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);

    let some = json!({"ids": ["hub", "absent", 7], "with_payload": false});
    assert_eq!(served.did("POST", "/collections/c/points", &some), json!([{"id": "hub"}, {"id": 7}]));
    let point = json!({"id": 7, "payload": {}, "vector": [0.0, 1.0]});
    assert_eq!(served.get("/collections/c/points/7"), point);

    let batch = json!({"batch": {"ids": ["7", "a b/c", 7], "vectors": [[1, 1], [1, 2], [0, -2]],
        "payloads": [{"kind": "string"}, null, null], "texts": [null, "odd", null]}});
    let written = served.did("PUT", "/collections/c/points", &batch);
    assert_eq!((&written["added"], &written["replaced"]), (&json!(2), &json!(1)));
    assert_eq!(served.get("/collections/c/points/7")["vector"], json!([0.0, -1.0]));
    assert_eq!(served.get("/collections/c/points/7?id_type=string")["payload"], json!({"kind": "string"}));
    assert_eq!(served.get("/collections/c/points/a%20b%2Fc")["text"], "odd");

    assert_eq!(
        served.did("POST", "/collections/c/points/count", &json!({"exact": true})),
        json!({"count": 5})
    );
    let gone = served.did("POST", "/collections/c/points/delete", &json!({"points": ["7", "absent"]}));
    assert_eq!(gone["deleted"], 1);
    let count = served.send("POST", "/collections/c/points/count", None, Some(b"")).result();
    assert_eq!(count, json!({"count": 4}));
}

#[test]
fn banks_and_corrections_are_listed_grown_and_dropped() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);

    let gallery = json!({"kind": "gallery", "from_gallery": true});
    assert_eq!(served.did("PUT", "/collections/c/banks/g", &gallery)["added"], 3);
    let fit = json!({"method": "DualDIS(b1=b2=10,k=1)", "query_bank": "queries", "gallery_bank": "g"});
    let fitted = served.did("PUT", "/collections/c/corrections/dual", &fit);
    assert_eq!(fitted["parameters"], json!({"b1": 10.0, "b2": 10.0, "k": 1.0}));
    let gated = ask(&served, &json!({"query": [0.8, 0.6], "limit": 1, "hubness": {"correction": "dual"}}));
    assert_eq!(gated["hubness"]["gate_open"], true);

    let more = json!({"kind": "query", "vectors": [[1, 0.1]]});
    served.did("PUT", "/collections/c/banks/queries", &more);
    let described = served.get("/collections/c");
    assert_eq!(described["points_count"], 3);
    assert_eq!(described["config"]["params"]["vectors"], json!({"size": 2, "distance": "Cosine"}));
    assert_eq!(described["banks"][1]["entries"], 4);
    assert_eq!(described["banks"], served.get("/collections/c/banks")["banks"]);
    assert_eq!(described["corrections"], served.get("/collections/c/corrections")["corrections"]);
    assert_eq!(served.get("/collections/c/corrections/is")["version"], 2, "a grown bank refits");
    let graph = json!({"nodes": null, "delta": 0, "due": false, "segments": [], "calibration": null});
    assert_eq!(described["graph"], graph);
    assert!(described["bytes_on_disk"].as_u64().is_some_and(|bytes| bytes > 0));

    assert_eq!(served.delete("/collections/c/corrections/dual"), true);
    assert_eq!(served.delete("/collections/c/banks/g"), true);
    assert_eq!(served.get("/collections/c/banks")["banks"].as_array().map(Vec::len), Some(1));
    assert_eq!(served.get("/collections/c/exists"), json!({"exists": true}));
    assert_eq!(served.delete("/collections/c"), true);
    assert_eq!(served.get("/collections/c/exists"), json!({"exists": false}));
    fill(&served);
}

#[test]
fn hubness_is_measured_before_and_after() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let measured = served.get("/collections/c/hubness?bank=queries&k=1&top=2&correction=is");
    assert_eq!(measured["before"]["label"], "raw");
    assert_eq!(measured["before"]["max"], 3);
    assert_eq!(measured["before"]["hubs"][0], json!({"id": "hub", "count": 3}));
    assert_eq!(measured["before"]["hubs"].as_array().map(Vec::len), Some(2));
    assert_eq!(measured["after"]["label"], "IS(beta=20)");
    assert_eq!(measured["correction"], "is@1");
    let number = |row: &str, name: &str| measured[row][name].as_f64().expect("a number");
    assert!((number("before", "antihubs") - 2.0 / 3.0).abs() < 1e-12);
    assert!((number("before", "antihubs_at_random") - (-1.0_f64).exp()).abs() < 1e-12);
    assert!(number("after", "skewness") < number("before", "skewness"), "{measured}");
    assert!(served.get("/collections/c/hubness?bank=queries")["after"].is_null());
}

#[test]
fn bank_entries_have_weights_and_go_again() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let bank = || served.get("/collections/c/banks/queries");
    let before = bank();
    assert_eq!((&before["entries"], &before["weight"]), (&json!(3), &json!(3.0)));
    let bias = || {
        served.did(
            "POST",
            "/collections/c/points/query",
            &json!({"query": [1, 0], "limit": 3,
        "hubness": {"correction": "is"}}),
        )["points"]
            .clone()
    };
    let biases = bias();

    let heavy = json!({"kind": "query", "vectors": [[0, 1], [1, 1]], "ids": ["x", "y"], "weights": [2.5, 1]});
    served.did("PUT", "/collections/c/banks/queries", &heavy);
    assert_eq!((&bank()["entries"], &bank()["weight"]), (&json!(5), &json!(6.5)));
    assert_ne!(bias(), biases);
    let gone = json!({"ids": ["x", "y", "absent"]});
    let deleted = served.did("POST", "/collections/c/banks/queries/delete", &gone);
    assert_eq!(deleted, json!({"operation_id": 5, "status": "completed", "deleted": 2}));
    assert_eq!(bank(), before, "they leave no trace");
    assert_eq!(bias(), biases);

    let halved = served.did("POST", "/collections/c/banks/queries/decay", &json!({"factor": 0.5}));
    assert_eq!(halved["deleted"], 0);
    assert_eq!(bank()["weight"], 1.5);
    let drop = json!({"factor": 0.5, "drop_below": 0.3});
    assert_eq!(served.did("POST", "/collections/c/banks/queries/decay", &drop)["deleted"], 3);
    assert_eq!((&bank()["entries"], &bank()["weight"]), (&json!(0), &json!(0.0)));
}

#[test]
fn a_correction_that_is_behind_says_what_that_can_do() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let late =
        json!({"kind": "query", "vectors": [[0, 1], [1, 0]], "weights": [0.001, 0.001], "defer": true});
    served.did("PUT", "/collections/c/banks/queries", &late);
    let correction = || served.get("/collections/c/corrections/is");
    assert_eq!((&correction()["stale"], &correction()["version"]), (&json!(2), &json!(1)));
    let query = json!({"query": [0.8, 0.6], "limit": 2, "hubness": {"correction": "is", "explain": true}});
    let staleness = ask(&served, &query)["explain"]["staleness"].clone();
    assert_eq!((&staleness["entries"], &staleness["certified"]), (&json!(2), &json!(true)));
    assert_eq!(staleness["bounds"].as_array().map(Vec::len), Some(2));
    assert!(staleness["bounds"][0]["fall"].as_f64().is_some_and(|fall| fall > 0.0), "{staleness}");
    let absorbed = served.did("POST", "/collections/c/banks/queries/absorb", &json!({}));
    assert_eq!(absorbed["added"], 2);
    assert_eq!((&correction()["stale"], &correction()["version"]), (&json!(0), &json!(2)));
    assert!(ask(&served, &query)["explain"].get("staleness").is_none());
}

#[test]
fn a_perplexity_is_answered_with_the_beta_it_is_here() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let path = "/collections/c/corrections/p";
    for body in [
        json!({"method": "IS", "parameters": {"perplexity": 2.5}, "query_bank": "queries"}),
        json!({"method": "IS(perplexity=2.5)", "query_bank": "queries"}),
    ] {
        let fitted = served.did("PUT", path, &body);
        let beta = fitted["parameters"]["beta"].as_f64().expect("a beta");
        assert_eq!(fitted["method"], format!("IS(beta={beta})"));
        assert_eq!(fitted["note"], format!("perplexity 2.5 is beta {beta} here"));
    }
    for (parameters, pointer) in [
        (json!({"perplexity": 3}), "/parameters/perplexity"),
        (json!({"perplexity": 0.5}), "/parameters/perplexity"),
        (json!({"perplexity": 2, "beta": 20}), "/parameters/perplexity"),
    ] {
        let body = json!({"method": "IS", "parameters": parameters, "query_bank": "queries"});
        let refused = served.json("PUT", path, &body);
        assert_eq!(
            (refused.status, &refused.body["errors"][0]["pointer"]),
            (422, &json!(pointer)),
            "{}",
            refused.body
        );
        assert_eq!(refused.body["code"], "invalid_parameter");
    }
}

#[test]
fn scores_that_are_no_weighted_sums_are_served_with_their_plan_and_no_bias() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    served.did("PUT", "/collections/c/banks/g", &json!({"kind": "gallery", "from_gallery": true}));
    for (method, more) in
        [("GC", json!({})), ("RatioMargin", json!({"k": 2})), ("MP2", json!({})), ("DualSoftmax", json!({}))]
    {
        let mut fit = json!({"method": method, "parameters": more, "query_bank": "queries"});
        if method == "MP2" {
            fit["gallery_bank"] = json!("g");
        }
        served.did("PUT", &format!("/collections/c/corrections/{method}"), &fit);
        let hubness = json!({"correction": method, "explain": true});
        let found = ask(&served, &json!({"query": [0.9, 0.1], "limit": 3, "hubness": hubness}));
        let hits = found["points"].as_array().expect("points");
        assert_eq!(hits.len(), 3, "{found}");
        assert!(hits.iter().all(|hit| hit["bias"].is_null() && hit["scale"].is_null()), "{found}");
        assert!(hits.iter().all(|hit| hit["score"].is_number() && hit["raw_score"].is_number()), "{found}");
        assert_eq!(hits[0]["id"], "a", "the hub is farther from the query than from its bank: {found}");
        let plan = found["explain"]["plan"].as_str().expect("a plan");
        assert!(plan.contains(&format!("score each by {method}")), "{plan}");
        let hubness = json!({"correction": method, "alpha": 0.5});
        let body = json!({"query": [0.9, 0.1], "hubness": hubness}).to_string();
        let refused = served.send(
            "POST",
            "/collections/c/points/query",
            Some("application/json"),
            Some(body.as_bytes()),
        );
        assert_eq!((refused.status, &refused.body["code"]), (422, &json!("invalid_weight")));
        let detail = refused.body["detail"].as_str().expect("a reason");
        assert!(detail.starts_with(method) && detail.contains("wanted 1"), "{detail}");
    }
    let ranks = ask(&served, &json!({"query": [0.9, 0.1], "limit": 3, "hubness": {"correction": "GC"}}));
    let scores: Vec<_> =
        ranks["points"].as_array().expect("points").iter().map(|it| it["score"].as_f64()).collect();
    assert_eq!(scores, [Some(0.0), Some(-3.0), Some(-3.0)]);
}
