//! Collections as Qdrant's clients make them and read them.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served, numbers};

const BODY: &str = "application/json";

fn created(client: &Client, name: &str, settings: &Value) -> Value {
    let mut body = json!({"vectors": {"size": 4, "distance": "Euclid"}});
    let fields = settings.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    assert_eq!(client.did("PUT", &format!("/collections/{name}"), &body), true);
    client.get(&format!("/collections/{name}"))
}

#[test]
fn settings_with_a_meaning_are_honoured_and_harmless_ones_taken() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let plain = created(&served, "plain", &json!({}));
    assert_eq!((&plain["status"], &plain["optimizer_status"]), (&json!("green"), &json!("ok")));
    assert_eq!((&plain["points_count"], &plain["indexed_vectors_count"]), (&json!(0), &json!(0)));
    assert_eq!((&plain["segments_count"], &plain["payload_schema"]), (&json!(1), &json!({})));
    assert_eq!(plain["config"]["params"]["vectors"], json!({"size": 4, "distance": "Euclid"}));
    assert_eq!(plain["config"]["quantization_config"], json!(null));
    assert_eq!(plain["config"]["optimizer_config"]["flush_interval_sec"], 0);
    assert!(
        (plain["config"]["optimizer_config"]["deleted_threshold"].as_f64().expect("a share") - 0.2).abs()
            < 1e-6
    );
    let chosen = created(
        &served,
        "chosen",
        &json!({
            "shard_number": 1, "sharding_method": "auto", "replication_factor": 1, "write_consistency_factor": 1,
            "on_disk_payload": true, "wal_config": {}, "sparse_vectors": {}, "metadata": null,
            "hnsw_config": {"m": 24, "ef_construct": 77, "full_scan_threshold": 123, "on_disk": true},
            "optimizers_config": {"default_segment_number": 0, "max_segment_size": null},
            "quantization_config": {"scalar": {"type": "int8", "always_ram": false}},
            "strict_mode_config": {"enabled": false}, "durability": "relaxed",
        }),
    );
    let config = &chosen["config"];
    let graph = &config["hnsw_config"];
    assert_eq!((&graph["m"], &graph["ef_construct"]), (&json!(24), &json!(77)));
    assert_eq!((&graph["full_scan_threshold"], &graph["quantization"]), (&json!(123), &json!("int8")));
    assert_eq!(config["optimizer_config"]["indexing_threshold"], 123);
    assert_eq!(config["optimizer_config"]["flush_interval_sec"], 1);
    assert_eq!(config["quantization_config"], json!({"scalar": {"type": "int8"}}));
}

/// What Qdrant's client makes of a collection that it is to copy.
fn copied(config: &Value) -> Value {
    let mut body = config["params"].clone();
    body["hnsw_config"] = config["hnsw_config"].clone();
    body["optimizers_config"] = config["optimizer_config"].clone();
    body["wal_config"] = config["wal_config"].clone();
    body["quantization_config"] = config["quantization_config"].clone();
    body
}

#[test]
fn what_a_collection_says_of_itself_makes_another_one_and_changes_nothing() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let named =
        json!({"vectors": {"a": {"size": 2, "distance": "Dot"}, "b": {"size": 3, "distance": "Cosine"}}});
    let cases = [
        json!({}),
        json!({"durability": "relaxed"}),
        json!({"hnsw_config": {"full_scan_threshold": 77, "quantization": "int8"}}),
        named,
    ];
    for (number, settings) in cases.iter().enumerate() {
        let described = created(&served, &format!("c{number}"), settings);
        let config = &described["config"];
        assert!(config["wal_config"]["wal_capacity_mb"].is_u64(), "{config}");
        let mut body = copied(config);
        served.did("PUT", &format!("/collections/copy{number}"), &body);
        let copy = served.get(&format!("/collections/copy{number}"));
        assert_eq!(
            (&copy["config"]["params"], &copy["config"]["hnsw_config"]),
            (&config["params"], &config["hnsw_config"])
        );
        // A change takes no vectors, and what it says of the rest is so already.
        for field in ["vectors", "shard_number", "wal_config", "on_disk_payload", "replication_factor"] {
            body.as_object_mut().expect("an object").remove(field);
        }
        body.as_object_mut().expect("an object").remove("write_consistency_factor");
        assert_eq!(served.did("PATCH", &format!("/collections/c{number}"), &body), true, "{body}");
        let after = served.get(&format!("/collections/c{number}"));
        assert_eq!(after["config"], *config);
    }
}

#[test]
fn a_collection_that_nobody_tuned_can_be_copied_from_qdrant() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    for threshold in [10_000, 20_000] {
        let config = json!({
            "params": {"vectors": {"size": 4, "distance": "Cosine"}, "shard_number": 1, "replication_factor": 1,
                       "write_consistency_factor": 1, "on_disk_payload": true, "sparse_vectors": null},
            "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000, "max_indexing_threads": 0},
            "optimizer_config": {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000,
                                 "default_segment_number": 0, "indexing_threshold": threshold,
                                 "flush_interval_sec": 5, "max_optimization_threads": 1},
            "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0, "wal_retain_closed": 1},
            "quantization_config": null,
        });
        served.did("PUT", &format!("/collections/c{threshold}"), &copied(&config));
    }
}

#[test]
fn a_change_says_what_it_changes() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    created(&served, "c", &json!({}));
    let quantization = || served.get("/collections/c")["config"]["hnsw_config"]["quantization"].clone();
    for (body, wanted) in [
        (json!({"quantization_config": {"scalar": {"type": "int8"}}}), "int8"),
        (json!({"quantization_config": "Disabled"}), "f32"),
        (json!({"hnsw_config": {"m": 16, "ef_construct": 200}}), "f32"),
        (json!({"optimizers_config": {}}), "f32"),
        (json!({"params": {"replication_factor": 1}, "vectors": {"": {"on_disk": false}}}), "f32"),
        (json!({"hnsw_config": {"quantization": "bf16"}}), "bf16"),
    ] {
        assert_eq!(served.did("PATCH", "/collections/c", &body), true);
        assert_eq!(quantization(), wanted, "{body}");
    }
}

#[test]
fn the_points_of_the_graph_are_counted_as_indexed() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    created(&served, "c", &json!({"hnsw_config": {"full_scan_threshold": 1}}));
    let vectors: Vec<Vec<f64>> = numbers(7, 4 * 3000).chunks(4).map(<[f64]>::to_vec).collect();
    let batch = json!({"batch": {"ids": (0..3000).collect::<Vec<_>>(), "vectors": vectors}});
    served.did("PUT", "/collections/c/points?wait=false&ordering=strong", &batch);
    loop {
        let found = served.get("/collections/c");
        let (indexed, delta) = (&found["indexed_vectors_count"], &found["graph"]["delta"]);
        assert_eq!(found["points_count"], 3000);
        if found["status"] == "green" {
            assert_eq!(indexed.as_u64().zip(delta.as_u64()).map(|(a, b)| a + b), Some(3000), "{found}");
            assert!(found["segments_count"].as_u64().is_some_and(|count| count >= 2), "{found}");
            break;
        }
        assert_eq!(found["status"], "yellow");
    }
}

#[test]
fn a_problem_begins_with_what_a_person_reads() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    created(&served, "c", &json!({}));
    let points = json!({"points": [{"id": 1, "vector": [1, 2, 3]}]}).to_string();
    let reply = served.send("PUT", "/collections/c/points", Some(BODY), Some(points.as_bytes()));
    // The client shows the first 200 bytes of an error and no more.
    let text = reply.body.to_string();
    assert!(text.starts_with("{\"detail\":"), "{text}");
    assert!(text[..200].contains("dimension_mismatch") && text[..200].contains('4'), "{text}");
}
