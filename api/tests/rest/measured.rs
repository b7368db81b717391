//! What is measured of a collection: recall and judgements, neighbours, and the work on all of it that jobs do.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served};

const DIM: usize = 6;

/// Numbers from −1 to 1 from a seed (SplitMix64).
fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn vectors(seed: u64, count: usize) -> Vec<Value> {
    numbers(seed, count * DIM).chunks(DIM).map(|vector| json!(vector)).collect()
}

/// 600 points with a graph, a bank of queries, and a fitted correction.
fn start(folder: &Path) -> Served {
    let served = Served::start(folder);
    let config =
        json!({"vectors": {"size": DIM, "distance": "Cosine"}, "hnsw_config": {"full_scan_threshold": 5}});
    served.did("PUT", "/collections/c", &config);
    let point = |(id, vector): (usize, Value)| json!({"id": id, "vector": vector});
    let points: Vec<Value> = vectors(1, 600).into_iter().enumerate().map(point).collect();
    served.did("PUT", "/collections/c/points", &json!({"points": points}));
    served.did("PUT", "/collections/c/banks/queries", &json!({"kind": "query", "vectors": vectors(2, 300)}));
    let fit = json!({"method": "IS(beta=20)", "query_bank": "queries"});
    served.did("PUT", "/collections/c/corrections/is", &fit);
    served
}

/// The job when it has ended.
fn ended(client: &Client, job: &Value) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let told = client.get(&format!("/jobs/{job}"));
        if told["state"] != "running" {
            return told;
        }
        assert!(Instant::now() < deadline, "it does not end: {told}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The result of the job that a request begins.
fn result(client: &Client, path: &str, body: &Value) -> Value {
    let reply = client.json("POST", path, body);
    assert_eq!(reply.status, 202, "{}", reply.body);
    let told = ended(client, &reply.body["result"]["job"]);
    assert_eq!(told["state"], "done", "{told}");
    told["result"].clone()
}

fn best(client: &Client, vector: &Value, params: &Value, hubness: &Value, filter: &Value) -> Vec<Value> {
    let body = json!({"query": vector, "params": params, "hubness": hubness, "filter": filter, "limit": 5});
    let answer = client.did("POST", "/collections/c/points/query", &body);
    answer["points"].as_array().expect("a list").iter().map(|hit| hit["id"].clone()).collect()
}

#[test]
fn recall_is_what_searches_find_of_the_exact_answers_on_the_same_filter() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    result(&served, "/collections/c/build", &json!({}));
    let queries = vectors(3, 40);
    let filters =
        [Value::Null, json!({"must_not": [{"has_id": (0..300).map(|n| 2 * n).collect::<Vec<_>>()}]})];
    for filter in &filters {
        let body = json!({
            "queries": queries, "limit": 5, "filter": filter, "corrections": ["is"],
            "searches": [{"hnsw_ef": 6}, {"exact": true}, {}],
        });
        let found = served.did("POST", "/collections/c/evaluate", &body);
        assert_eq!((&found["queries"], &found["limit"]), (&json!(40), &json!(5)));
        assert_eq!(found["points"], if filter.is_null() { 600 } else { 300 });
        assert_eq!(found["judgements"], Value::Null);
        for (ranking, hubness) in
            [json!({"correction": "none"}), json!({"correction": "is"})].iter().enumerate()
        {
            let told = &found["rankings"][ranking];
            let (mut sum, mut least) = (0, 5);
            for vector in &queries {
                let exact = best(&served, vector, &json!({"exact": true}), hubness, filter);
                let walked = best(&served, vector, &json!({"hnsw_ef": 6}), hubness, filter);
                let good = walked.iter().filter(|id| exact.contains(id)).count();
                sum += good;
                least = least.min(good);
            }
            let recall = |place: usize| told["searches"][place]["recall"].as_f64().expect("a number");
            assert!((recall(0) - sum as f64 / 200.0).abs() < 1e-9, "{told} {sum}");
            assert_eq!(told["searches"][0]["least"].as_f64(), Some(f64::from(least as u8) / 5.0));
            assert_eq!(recall(1), 1.0);
            let plan = told["searches"][0]["plan"].as_str().expect("a plan");
            assert!(plan.starts_with("graph walk") || !filter.is_null(), "{plan}");
            assert_eq!(told["searches"][0]["params"], json!({"hnsw_ef": 6}));
            assert!(told["hubness"]["robin_hood"].as_f64() > Some(0.0), "{told}");
        }
        assert_eq!(found["rankings"][1]["correction"], "is@1");
    }
}

#[test]
fn judgements_give_measures_raw_beside_corrected() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let queries = vectors(4, 3);
    let exact = json!({"exact": true});
    let first =
        |place: usize| best(&served, &queries[place], &exact, &json!({"correction": "none"}), &Value::Null);
    // The best point of the first query, the second best of the other, nothing of the last.
    let (a, b) = (first(0)[0].to_string(), first(1)[1].to_string());
    let labelled: Vec<Value> = ["a", "b", "c"]
        .iter()
        .zip(&queries)
        .map(|(id, vector)| json!({"id": id, "vector": vector}))
        .collect();
    let body = json!({
        "queries": labelled, "qrels": {"a": {a: 1}, "b": {b: 1, "nowhere": 1}, "d": {"1": 1}},
        "measures": ["R@1", "RR@10"],
    });
    let found = served.did("POST", "/collections/c/evaluate", &body);
    let measures = &found["rankings"][0]["measures"];
    assert_eq!((&measures["R@1"], &measures["RR@10"]), (&json!(0.5), &json!(0.75)), "{found}");
    assert!(found["rankings"][1]["measures"]["RR@10"].is_number());
    let covered = json!({"queries": 2, "unjudged": 1, "not_given": 1, "not_found": 1});
    assert_eq!(found["judgements"], covered);
    // Only what the filter allows is a gallery.
    let mut filtered = body.clone();
    filtered["filter"] = json!({"must": [{"has_id": [first(0)[0], first(1)[1]]}]});
    let found = served.did("POST", "/collections/c/evaluate", &filtered);
    assert_eq!(found["rankings"][0]["measures"]["RR@10"].as_f64(), {
        let alone = |place: usize, wanted: &Value| {
            let two =
                best(&served, &queries[place], &exact, &json!({"correction": "none"}), &filtered["filter"]);
            1.0 / (two.iter().position(|id| id == wanted).expect("allowed") + 1) as f64
        };
        Some((alone(0, &first(0)[0]) + alone(1, &first(1)[1])) / 2.0)
    });
}

#[test]
fn banks_and_points_are_queries_and_large_work_is_a_job() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let of_bank = served.did("POST", "/collections/c/evaluate", &json!({"bank": "queries", "sample": 50}));
    assert_eq!((&of_bank["queries"], of_bank["rankings"].as_array().map(Vec::len)), (&json!(50), Some(2)));
    let of_points = served.did("POST", "/collections/c/evaluate", &json!({"corrections": [], "limit": 1}));
    assert_eq!(
        (&of_points["queries"], of_points["rankings"].as_array().map(Vec::len)),
        (&json!(256), Some(1))
    );
    // Were points answers of their own, no point would be found more than once.
    assert!(of_points["rankings"][0]["hubness"]["max"].as_f64() > Some(1.0));
    let body = json!({"bank": "queries", "searches": [{"hnsw_ef": 50}]});
    let later = result(&served, "/collections/c/evaluate?wait=false", &body);
    assert_eq!(later["queries"], 256);
    let cases = [
        (json!({"bank": "no"}), "unknown_bank", "/bank"),
        (json!({"queries": [[1]]}), "dimension_mismatch", "/queries/0"),
        (json!({"queries": []}), "empty_batch", "/queries"),
        (json!({"queries": [[1, 0, 0, 0, 0, 0]], "bank": "queries"}), "invalid_value", "/bank"),
        (json!({"corrections": ["no"]}), "unknown_correction", "/corrections"),
        (json!({"searches": [{"hnsw_ef": 0}]}), "invalid_effort", "/searches"),
        (json!({"searches": [{"hnsw_ef": 5, "recall": 0.9}]}), "invalid_value", "/searches/0/recall"),
        (json!({"qrels": {"a": {"1": 1}}}), "missing_field", "/queries"),
        (json!({"measures": ["R@1"]}), "missing_field", "/qrels"),
        (json!({"queries": [[1, 0, 0, 0, 0, 0]], "qrels": {"0": {"1": -1}}}), "invalid_value", "/qrels/0/1"),
        (json!({"queries": [[1, 0, 0, 0, 0, 0]], "qrels": {"7": {"1": 1}}}), "invalid_value", "/qrels"),
        (json!({"measures": ["best"], "qrels": {"0": {"1": 1}}}), "invalid_value", "/measures/0"),
        (json!({"limit": 0}), "invalid_limit", "/limit"),
        (json!({"filter": {"must": [{"has_id": [9999]}]}}), "no_points", "/filter"),
        (json!({"sample": 0}), "invalid_value", "/sample"),
        (json!({"priors": {"p": 1}}), "unknown_prior", "/priors/p"),
    ];
    for (body, code, pointer) in cases {
        let reply = served.json("POST", "/collections/c/evaluate", &body);
        assert_eq!((reply.status, &reply.body["code"]), (422, &json!(code)), "{body}: {}", reply.body);
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{}", reply.body);
    }
}

#[test]
fn neighbours_come_with_what_makes_the_point_a_hub() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let query = |hubness: Value| {
        let body = json!({"query": 7, "limit": 4, "hubness": hubness, "params": {"exact": true}});
        served.did("POST", "/collections/c/points/query", &body)["points"].clone()
    };
    for (parameters, hubness) in [
        ("k=4&exact=true", json!({"correction": "none"})),
        ("k=4&exact=true&correction=is", json!({"correction": "is"})),
    ] {
        let found = served.get(&format!("/collections/c/points/7/neighbours?{parameters}"));
        let list = |hits: &Value| -> Vec<(Value, Value)> {
            let hits = hits.as_array().expect("a list");
            hits.iter().map(|hit| (hit["id"].clone(), hit["score"].clone())).collect()
        };
        assert_eq!(list(&found["neighbours"]), list(&query(hubness)));
        assert!(list(&found["neighbours"]).iter().all(|(id, _)| *id != json!(7)));
    }
    let bias = served.get("/collections/c/points/7/neighbours")["hub"]["biases"][0].clone();
    assert_eq!((&bias["correction"], &bias["method"]), (&json!("is"), &json!("IS(beta=20)")));
    let (rank, quantile) = (bias["rank"].as_f64().expect("a number"), bias["quantile"].as_f64());
    assert_eq!(quantile, Some((600.0 - (rank - 1.0)) / 600.0));
    let served_by = served.get("/collections/c/points/7/neighbours")["hub"]["served"].clone();
    let raw =
        served_by.as_array().expect("a list").iter().find(|it| it["ranking"] == "raw").expect("counted");
    assert_eq!(raw["queries"], 1, "asking for neighbours is no query of a user: {raw}");
    assert_eq!(raw["mean"], json!(10.0 / 600.0));
    for (path, status, code) in [
        ("points/9999/neighbours", 404, "unknown_point"),
        ("points/7/neighbours?k=0", 422, "invalid_value"),
        ("points/7/neighbours?correction=no", 422, "unknown_correction"),
        ("points/7/neighbours?alpha=0.5", 422, "invalid_value"),
        ("points/7/neighbours?correction=is&alpha=101", 422, "invalid_value"),
        ("points/7/neighbours?timeout=0.000000001", 503, "overloaded"),
        ("points/7/neighbours?exact=yes", 422, "invalid_value"),
        ("points/7/neighbours?metric=Dot", 422, "unknown_parameter"),
    ] {
        let reply = served.send("GET", &format!("/collections/c/{path}"), None, None);
        assert_eq!((reply.status, &reply.body["code"]), (status, &json!(code)), "{path}: {}", reply.body);
    }
}

#[test]
fn graphs_are_built_collections_verified_and_disk_given_back_by_jobs() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let whole = result(&served, "/collections/c/build", &json!({"whole": true}));
    assert_eq!((&whole["graph"]["segments"], &whole["graph"]["delta"]), (&json!(1), &json!(0)));
    let again = result(&served, "/collections/c/build", &json!({"whole": true}));
    assert_eq!((&again["frozen"], &again["calibrated"]), (&json!(false), &json!(false)));
    served.did("POST", "/collections/c/points/delete", &json!({"points": (0..60).collect::<Vec<_>>()}));
    for body in [json!({}), json!({"rebuild": true})] {
        let found = result(&served, "/collections/c/verify", &body);
        assert_eq!((&found["whole"], &found["report"]["differences"]), (&json!(true), &json!(0)));
        assert!(found["report"]["checks"].as_array().map(Vec::len) > Some(10), "{found}");
    }
    let found = result(&served, "/collections/c/compact", &json!({}));
    assert_eq!(found["segments_frozen"], 1);
    assert!(found["bytes_after"]["total"].as_u64() > Some(0));
    let kinds: Vec<Value> = served.get("/jobs")["jobs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|job| job["kind"].clone())
        .collect();
    assert_eq!(kinds, ["build", "build", "verify", "verify", "compact"]);
    for path in ["build", "verify", "compact"] {
        let reply = served.json("POST", &format!("/collections/c/{path}"), &json!({"fast": true}));
        assert_eq!((reply.status, &reply.body["code"]), (422, &json!("unknown_field")));
        let reply = served.json("POST", &format!("/collections/no/{path}"), &json!({}));
        assert_eq!((reply.status, &reply.body["code"]), (404, &json!("unknown_collection")));
    }
}

#[test]
fn a_correction_is_chosen_and_installed_by_a_job() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let base = json!({"query_bank": "queries", "queries": vectors(5, 120), "rounds": 100});
    let with = |more: Value| {
        let mut body = base.clone();
        let fields = body.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        body
    };
    let methods = json!({"methods": ["IS(beta=20)", "CSLS(k=10)"]});
    let verdict = result(&served, "/collections/c/tune", &with(methods));
    assert_eq!(verdict["correction"], Value::Null);
    let rows = verdict["verdict"]["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| &row["method"]).collect::<Vec<_>>(), ["IS(beta=20)", "CSLS(k=10)"]);
    assert_eq!(served.get("/collections/c/corrections")["corrections"].as_array().map(Vec::len), Some(1));
    let install = json!({"correction": "chosen", "force": true, "set_default": true});
    let chosen = result(&served, "/collections/c/tune", &with(install));
    assert!(chosen["verdict"]["rows"].as_array().map(Vec::len) > Some(20), "the grid of methods");
    assert_eq!((&chosen["correction"]["name"], &chosen["is_default"]), (&json!("chosen"), &json!(true)));
    assert_eq!(served.get("/collections/c/default")["correction"], "chosen");
    let cases = [
        (with(json!({"query_bank": "no"})), "unknown_bank", "/query_bank"),
        (with(json!({"methods": ["ISX"]})), "unknown_method", "/methods/0"),
        (with(json!({"methods": []})), "batch_too_large", "/methods"),
        (with(json!({"rounds": 50})), "invalid_value", "/rounds"),
        (with(json!({"set_default": true})), "missing_field", "/correction"),
        (json!({"query_bank": "queries"}), "no_evidence", "/queries"),
        (json!({"query_bank": "queries", "queries": vectors(6, 2)}), "too_few_queries", "/queries"),
    ];
    for (body, code, pointer) in cases {
        let reply = served.json("POST", "/collections/c/tune", &body);
        assert_eq!((reply.status, &reply.body["code"]), (422, &json!(code)), "{}", reply.body);
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{}", reply.body);
    }
}

#[test]
fn every_query_says_how_far_it_is_corrected() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let ask = |hubness: Value| {
        let body =
            json!({"query": vectors(9, 1)[0], "limit": 5, "hubness": hubness, "params": {"exact": true}});
        served.did("POST", "/collections/c/points/query", &body)
    };
    assert_eq!(
        ask(json!({"correction": "auto"}))["hubness"]["correction"],
        Value::Null,
        "there is no default"
    );
    let default = json!({"correction": "is", "force": true});
    served.did("PUT", "/collections/c/default", &default);
    let half = ask(json!({"correction": "auto", "alpha": 0.5}));
    assert_eq!((&half["hubness"]["correction"], &half["hubness"]["alpha"]), (&json!("is@1"), &json!(0.5)));
    assert_eq!(half["points"], ask(json!({"correction": "is", "alpha": 0.5}))["points"]);
    for hit in half["points"].as_array().expect("a list") {
        let number = |name: &str| hit[name].as_f64().expect("a number");
        assert!((number("score") - (number("raw_score") - number("bias"))).abs() < 1e-6, "{hit}");
        assert!(hit.get("rank_raw").is_none(), "a rank costs a scan, and comes when it is asked for");
    }
    let raw = ask(json!({"correction": "none"}));
    assert_eq!(raw["points"], ask(json!({"correction": "is", "alpha": 0}))["points"]);
    let body = json!({"query": [1, 0, 0, 0, 0, 0], "hubness": {"correction": "is", "weight": 0.5}});
    let refused = served.json("POST", "/collections/c/points/query", &body);
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("unknown_field")));
    assert_eq!(refused.body["errors"][0]["wanted"], "correction, alpha, explain");
}

#[test]
fn the_report_of_hubness_has_every_correction_when_all_are_asked_for() {
    let folder = tempdir().expect("a folder");
    let served = start(folder.path());
    let csls = json!({"method": "CSLS(k=10)", "query_bank": "queries"});
    served.did("PUT", "/collections/c/corrections/csls", &csls);
    let report = |correction: &str| {
        served.get(&format!("/collections/c/hubness?bank=queries&k=5&top=3&correction={correction}"))
    };
    let all = report("all");
    let rows = all["corrections"].as_array().expect("a list");
    assert_eq!(rows.iter().map(|row| &row["correction"]).collect::<Vec<_>>(), ["csls@1", "is@1"]);
    assert_eq!((&all["after"], &all["before"]), (&Value::Null, &report("none")["before"]));
    let mut one = report("is")["after"].clone();
    one["correction"] = json!("is@1");
    assert_eq!(rows[1], one);
    for name in
        ["skewness", "robin_hood", "robin_hood_at_random", "hub_share", "antihubs", "antihubs_at_random"]
    {
        assert!(one[name].is_number(), "{name}: {one}");
    }
    assert_eq!((one["hubs"].as_array().map(Vec::len), &one["hubs"][0]["count"]), (Some(3), &one["max"]));
    assert!(report("is").get("corrections").is_none());
}
