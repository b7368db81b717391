//! The live bank, drift, and hubness of the queries served.

use std::collections::BTreeMap;

use dehub_index::Catalogue;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Reply, Served, numbers};

const DIM: usize = 8;

/// Vectors about an axis.
fn cone(seed: u64, count: usize, axis: usize) -> Vec<Vec<f64>> {
    let mut vectors: Vec<Vec<f64>> =
        numbers(seed, count * DIM).chunks_exact(DIM).map(<[f64]>::to_vec).collect();
    vectors.iter_mut().for_each(|vector| vector[axis] += 2.0);
    vectors
}

/// 60 points, a bank of 200 queries, and a correction fitted from it.
fn fill(client: &Client) {
    client.did("PUT", "/collections/c", &json!({"vectors": {"size": DIM, "distance": "Cosine"}}));
    let ids: Vec<usize> = (0..60).collect();
    client.did("PUT", "/collections/c/points", &json!({"batch": {"ids": ids, "vectors": cone(1, 60, 0)}}));
    client.did("PUT", "/collections/c/banks/asked", &json!({"kind": "query", "vectors": cone(2, 200, 0)}));
    let fit = json!({"method": "NNN(alpha=1.0,k=8)", "query_bank": "asked"});
    client.did("PUT", "/collections/c/corrections/nnn", &fit);
}

fn ask(client: &Client, vector: &[f64], more: &Value) -> Vec<u64> {
    let mut query = json!({"query": vector});
    query.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let answer = client.did("POST", "/collections/c/points/query", &query);
    let points = answer["points"].as_array().expect("points");
    points.iter().map(|point| point["id"].as_u64().expect("a number")).collect()
}

fn keep(client: &Client, more: Value) -> Value {
    let mut policy = json!({"bank": "live", "rate": 1, "capacity": 1000, "per_client": 1000});
    policy.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    client.did("PUT", "/collections/c/live", &policy)
}

fn entries(client: &Client, bank: &str) -> Value {
    client.get(&format!("/collections/c/banks/{bank}"))["entries"].clone()
}

fn refused(reply: &Reply, status: u16, code: &str, fragment: &str) {
    assert_eq!((reply.status, &reply.body["code"]), (status, &json!(code)), "{}", reply.body);
    assert!(reply.body["detail"].as_str().is_some_and(|it| it.contains(fragment)), "{}", reply.body);
}

#[test]
fn nothing_is_kept_unless_a_policy_says_so() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    for vector in cone(3, 20, 0) {
        ask(&served, &vector, &json!({}));
    }
    let nothing = json!({"policy": null, "kept": 0, "waiting": 0});
    assert_eq!(served.get("/collections/c/live"), nothing);
    assert_eq!(served.get("/collections/c")["live"], Value::Null);
    refused(&served.send("POST", "/collections/c/live/flush", None, None), 409, "not_live", "PUT");
    assert_eq!(served.get("/collections/c/banks")["banks"].as_array().map(Vec::len), Some(1));
}

#[test]
fn queries_by_vector_are_kept_and_nothing_else() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let kept = keep(&served, json!({}));
    let policy = json!({"bank": "live", "rate": 1.0, "capacity": 1000, "retention_seconds": 604_800, "per_client": 1000});
    assert_eq!(kept, json!({"policy": policy, "kept": 0, "waiting": 0}));
    assert_eq!(served.get("/collections/c")["live"], policy);
    let vectors = cone(4, 10, 0);
    ask(&served, &vectors[0], &json!({}));
    ask(&served, &vectors[1], &json!({"hubness": {"correction": "nnn", "explain": true}}));
    served.did("POST", "/collections/c/points/search", &json!({"vector": vectors[2]}));
    let batch: Vec<Value> = vectors[3..].iter().map(|vector| json!({"query": vector})).collect();
    served.did("POST", "/collections/c/points/query/batch", &json!({"searches": batch}));
    served.did("POST", "/collections/c/points/query", &json!({"query": 5}));
    ask(&served, &vectors[0], &json!({"offset": 10}));
    let wrong = served.json("POST", "/collections/c/points/query", &json!({"query": [1.0]}));
    assert_eq!(wrong.status, 422);
    assert_eq!(served.get("/collections/c/live")["waiting"], 10);
    let flushed = served.send("POST", "/collections/c/live/flush", None, None).result();
    assert_eq!(flushed, json!({"added": 10, "removed": 0}));
    assert_eq!(entries(&served, "live"), 10);
    let again = served.send("POST", "/collections/c/live/flush", None, None).result();
    assert_eq!(again, json!({"added": 0, "removed": 0}));
    drop(served);
    let name = "c".parse().expect("a name");
    let snapshot = Catalogue::new(folder.path()).get(&name).expect("it opens").snapshot();
    let mut kept: Vec<Vec<f32>> =
        snapshot.live_entries("live").map(|(_, vector, _)| vector.to_vec()).collect();
    for vector in &vectors {
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        let is_it = |found: &Vec<f32>| {
            found.iter().zip(vector).all(|(&x, wanted)| (f64::from(x) - wanted / length).abs() < 1e-6)
        };
        let place = kept.iter().position(is_it).expect("each query is there");
        kept.swap_remove(place);
    }
}

#[test]
fn a_thousand_changes_are_written_without_being_asked_for() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    keep(&served, json!({"capacity": 5000, "per_client": 5000}));
    let batch: Vec<Value> = cone(11, 1200, 0).iter().map(|vector| json!({"query": vector})).collect();
    served.did("POST", "/collections/c/points/query/batch", &json!({"searches": batch}));
    let is_written = |_: &usize| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        entries(&served, "live") == 1200
    };
    // Far longer than it takes, and less than the minute after which they are written anyway.
    assert!((0..2000).any(|waited| is_written(&waited)), "{}", served.get("/collections/c/live"));
    assert_eq!(
        served.get("/collections/c/live"),
        keep(&served, json!({"capacity": 5000, "per_client": 5000}))
    );
}

#[test]
fn a_restart_keeps_what_was_kept_and_goes_on() {
    let folder = tempdir().expect("a folder");
    {
        let served = Served::start(folder.path());
        fill(&served);
        keep(&served, json!({"capacity": 30}));
        cone(5, 50, 0).iter().for_each(|vector| _ = ask(&served, vector, &json!({})));
        assert_eq!(served.get("/collections/c/live")["kept"], 30);
    }
    let served = Served::start(folder.path());
    assert_eq!(entries(&served, "live"), 30, "what waited was written when the server stopped");
    served.send("POST", "/collections/c/live/flush", None, None).result();
    assert_eq!(served.get("/collections/c/live")["kept"], 30);
    cone(6, 50, 0).iter().for_each(|vector| _ = ask(&served, vector, &json!({})));
    let flushed = served.send("POST", "/collections/c/live/flush", None, None).result();
    assert_eq!(flushed["added"], flushed["removed"], "the bank stays at its capacity");
    assert_eq!(entries(&served, "live"), 30);
}

#[test]
fn corrections_over_a_live_bank_follow_it() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    keep(&served, json!({}));
    let vectors = cone(7, 40, 0);
    let flush = || served.send("POST", "/collections/c/live/flush", None, None).result();
    vectors[..20].iter().for_each(|vector| _ = ask(&served, vector, &json!({})));
    flush();
    let fit = json!({"method": "IS(beta=20)", "query_bank": "live"});
    assert_eq!(served.did("PUT", "/collections/c/corrections/is", &fit)["version"], 1);
    vectors[20..].iter().for_each(|vector| _ = ask(&served, vector, &json!({})));
    flush();
    served.did("PUT", "/collections/c/banks/fresh", &json!({"kind": "query", "vectors": vectors}));
    let fit = json!({"method": "IS(beta=20)", "query_bank": "fresh"});
    served.did("PUT", "/collections/c/corrections/fresh", &fit);
    let biases = |correction: &str| -> BTreeMap<u64, f64> {
        let query = json!({"query": vectors[0], "limit": 60, "hubness": {"correction": correction}});
        let answer = served.did("POST", "/collections/c/points/query", &query);
        let bias = |point: &Value| Some((point["id"].as_u64()?, point["bias"].as_f64()?));
        answer["points"].as_array().expect("points").iter().map(|it| bias(it).expect("numbers")).collect()
    };
    let (found, wanted) = (biases("is"), biases("fresh"));
    // Each is less its own mean when it was fitted.
    let shift = found[&0] - wanted[&0];
    for (id, bias) in &found {
        assert!((bias - wanted[id] - shift).abs() < 1e-5, "{id}: {bias} and {}", wanted[id]);
    }
    assert_eq!(served.get("/collections/c/corrections/is")["version"], 2);
}

#[test]
fn a_live_bank_is_not_dropped_and_a_wrong_policy_is_refused() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    keep(&served, json!({}));
    let drop_live = || served.send("DELETE", "/collections/c/banks/live", None, None);
    refused(&drop_live(), 409, "bank_in_use", "DELETE …/live");
    let put = |policy: Value| served.json("PUT", "/collections/c/live", &policy);
    for (field, value) in [
        ("rate", json!(0)),
        ("rate", json!(1.5)),
        ("capacity", json!(0)),
        ("retention_seconds", json!(0)),
        ("per_client", json!(0)),
    ] {
        let reply = put(json!({"bank": "live", field: value}));
        refused(&reply, 422, "invalid_value", field);
        assert_eq!(reply.body["errors"][0]["pointer"], format!("/{field}"));
    }
    refused(&put(json!({"rate": 0.5})), 422, "missing_field", "bank");
    refused(&put(json!({"bank": "live", "address": true})), 422, "unknown_field", "address");
    served.did("PUT", "/collections/c/banks/g", &json!({"kind": "gallery", "from_gallery": true}));
    let reply = put(json!({"bank": "g"}));
    refused(&reply, 422, "bank_kind", "gallery bank");
    assert_eq!(reply.body["errors"][0]["pointer"], "/bank");
    let reply = put(json!({"bank": "asked"}));
    refused(&reply, 409, "bank_in_use", "none of a query that was served");
    assert_eq!(reply.body["errors"][0]["pointer"], "/bank");
    assert_eq!(served.get("/collections/c/live")["policy"]["capacity"], 1000, "nothing has changed");
    // One that was emptied is as good as new.
    served.did("PUT", "/collections/c/banks/empty", &json!({"kind": "query", "vectors": []}));
    put(json!({"bank": "empty"})).result();
    keep(&served, json!({}));
    assert_eq!(served.delete("/collections/c/live"), true);
    assert_eq!(drop_live().result(), true);
    assert_eq!(served.get("/collections/c/live")["policy"], Value::Null);
}

#[test]
fn drift_tells_queries_that_have_moved_on() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    served.did("PUT", "/collections/c/banks/moved", &json!({"kind": "query", "vectors": cone(8, 100, 3)}));
    served.did("PUT", "/collections/c/banks/few", &json!({"kind": "query", "vectors": cone(8, 29, 3)}));
    let path = "/collections/c/banks/asked/drift";
    let moved = served.get(&format!("{path}?against=moved"));
    assert_eq!(
        (&moved["likeness"], &moved["bank"], &moved["against"]),
        (&json!("far"), &json!("asked"), &json!("moved"))
    );
    assert_eq!((&moved["queries"], &moved["entries"]), (&json!(100), &json!(200)));
    assert!(moved["farther"].as_f64() > Some(0.9) && moved["z"].as_f64() > Some(10.0), "{moved}");
    assert!(moved["report"].as_str().is_some_and(|it| it.starts_with("far: in ")), "{moved}");
    assert!(moved["advice"].as_str().is_some_and(|it| it.contains("tune")), "{moved}");
    let alike = served.did("POST", path, &json!({"vectors": cone(9, 100, 0)}));
    assert_eq!((&alike["likeness"], &alike["against"]), (&json!("alike"), &Value::Null), "{alike}");

    let get = |path: &str| served.send("GET", path, None, None);
    refused(&get(path), 422, "invalid_value", "against");
    refused(&get(&format!("{path}?against=asked")), 422, "invalid_value", "another bank");
    refused(&get(&format!("{path}?against=nobody")), 422, "unknown_bank", "asked, few, moved");
    refused(
        &get("/collections/c/banks/nobody/drift?against=moved"),
        404,
        "unknown_bank",
        "asked, few, moved",
    );
    refused(&get(&format!("{path}?against=few")), 422, "too_few_to_compare", "29 queries");
    refused(&get("/collections/c/banks/few/drift?against=moved"), 422, "too_few_to_compare", "29 entries");
    let few = served.json("POST", path, &json!({"vectors": cone(9, 29, 0)}));
    refused(&few, 422, "too_few_to_compare", "29 queries");
    assert_eq!(few.body["errors"][0]["pointer"], "/vectors");
    let wrong = served.json("POST", path, &json!({"vectors": [[1.0]]}));
    refused(&wrong, 422, "dimension_mismatch", "query 0");
    assert_eq!(wrong.body["errors"][0]["pointer"], "/vectors/0");
}

/// The Robin Hood index, the hubs' share and the antihubs' of these counts, from their definitions.
fn measured(counts: &[u64]) -> [f64; 3] {
    let n: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
    let (sum, mean) = (n.iter().sum::<f64>(), n.iter().sum::<f64>() / n.len() as f64);
    let moved: f64 = n.iter().map(|x| (x - mean).max(0.0)).sum();
    let of_hubs: f64 = n.iter().filter(|&&x| x >= 2.0 * mean).sum();
    [moved / sum, of_hubs / sum, n.iter().filter(|&&x| x == 0.0).count() as f64 / n.len() as f64]
}

#[test]
fn answers_are_counted_for_each_ranking_apart() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served);
    let path = "/collections/c/hubness/live";
    assert_eq!(served.get(path)["rankings"], json!([]));
    let (mut raw, mut corrected) = (vec![0_u64; 60], vec![0_u64; 60]);
    let add = |counts: &mut Vec<u64>, ids: Vec<u64>| {
        ids.into_iter().take(10).for_each(|id| counts[usize::try_from(id).expect("small")] += 1);
    };
    for (place, vector) in cone(10, 40, 0).iter().enumerate() {
        // Shorter answers count as they are, longer ones up to the tenth.
        add(&mut raw, ask(&served, vector, &json!({ "limit": ([3, 10, 25][place % 3]) })));
        let hubness = json!({"correction": "nnn", "alpha": if place % 2 == 0 { 1.0 } else { 0.5 }});
        add(&mut corrected, ask(&served, vector, &json!({"hubness": hubness})));
        add(&mut raw, ask(&served, vector, &json!({"hubness": {"correction": "nnn", "alpha": 0}})));
        ask(&served, vector, &json!({"offset": 10}));
    }
    let report = served.get(&format!("{path}?top=60"));
    assert_eq!(
        (&report["k"], &report["points"], &report["queries_not_counted"]),
        (&json!(10), &json!(60), &json!(0))
    );
    let of = |correction: Value| {
        let rankings = report["rankings"].as_array().expect("rankings");
        rankings.iter().find(|ranking| ranking["correction"] == correction).expect("it was counted")
    };
    for (ranking, counts, queries) in [(of(Value::Null), &raw, 80), (of(json!("nnn")), &corrected, 40)] {
        assert_eq!((&ranking["queries"], &ranking["max"]), (&json!(queries), &json!(counts.iter().max())));
        let found = ["robin_hood", "hub_occurrence", "antihubs"].map(|name| ranking[name].as_f64());
        for (found, wanted) in found.into_iter().zip(measured(counts)) {
            assert!((found.expect("a number") - wanted).abs() < 1e-12, "{ranking}");
        }
        let mean = counts.iter().sum::<u64>() as f64 / 60.0;
        let at_random = ranking["antihubs_at_random"].as_f64().expect("a number");
        assert!((at_random - (-mean).exp()).abs() < 1e-12);
        assert!(ranking["robin_hood_at_random"].as_f64() < ranking["robin_hood"].as_f64());
        let mut wanted: Vec<(u64, u64)> = (0..).zip(counts.iter().copied()).filter(|it| it.1 > 0).collect();
        wanted.sort_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
        let hubs: Vec<Value> = wanted.iter().map(|(id, count)| json!({"id": id, "count": count})).collect();
        assert_eq!(ranking["hubs"], json!(hubs));
    }
    assert_eq!(of(json!("nnn"))["method"], "NNN(alpha=1.0,k=8)");

    let hub = of(Value::Null)["hubs"][0]["id"].clone();
    served.did("POST", "/collections/c/points/delete", &json!({"points": [hub]}));
    let after = served.get(path);
    assert_eq!(after["points"], 59);
    assert!(
        after["rankings"].as_array().expect("rankings").iter().all(|ranking| {
            ranking["hubs"].as_array().expect("hubs").iter().all(|found| found["id"] != hub)
        })
    );
    assert_eq!(served.delete(path), true);
    assert_eq!(served.get(path)["rankings"], json!([]));
    refused(&served.send("GET", &format!("{path}?top=10001"), None, None), 422, "invalid_value", "at most");
}
