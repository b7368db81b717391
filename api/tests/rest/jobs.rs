//! Jobs: begun, told of, cancelled, and gone on with after a restart.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dehub_index::{Catalogue, Collection, FitInput, FitProgress, WriteError};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served};

/// Vectors on the unit circle, from the angle `first` on.
fn vectors(first: u32, count: u32) -> Vec<Value> {
    (first..first + count)
        .map(|n| f64::from(n) * 0.37)
        .map(|angle| json!([angle.cos(), angle.sin()]))
        .collect()
}

fn fill(client: &Client, points: u32) {
    client.did("PUT", "/collections/c", &json!({"vectors": {"size": 2, "distance": "Dot"}}));
    let point = |(id, vector): (usize, Value)| json!({"id": id, "vector": vector});
    let points: Vec<_> = vectors(0, points).into_iter().enumerate().map(point).collect();
    client.did("PUT", "/collections/c/points", &json!({"points": points}));
    add(client, "", 0, 500);
}

fn add(client: &Client, query: &str, first: u32, count: u32) -> Value {
    let body = json!({"kind": "query", "vectors": vectors(first, count)});
    client.json("PUT", &format!("/collections/c/banks/queries{query}"), &body).body
}

/// Begins a fit as a job, and gives its number.
fn begin(client: &Client, name: &str, method: &str) -> u64 {
    let path = format!("/collections/c/corrections/{name}?wait=false");
    let reply = client.json("PUT", &path, &json!({"method": method, "query_bank": "queries"}));
    assert_eq!(reply.status, 202, "{}", reply.body);
    assert_eq!(reply.body["result"]["name"], name);
    reply.body["result"]["job"].as_u64().expect("a number")
}

/// The job when it has ended.
pub(crate) fn ended(client: &Client, job: u64) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let told = client.get(&format!("/jobs/{job}"));
        if told["state"] != "running" {
            assert!(told["ended"].as_f64() >= told["started"].as_f64(), "{told}");
            return told;
        }
        assert!(Instant::now() < deadline, "it does not end: {told}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A fit that takes longer than any test.
const LONG: &str = "SN(tau=0.3,n=1000)";

#[test]
fn a_fit_that_nobody_waits_for_is_a_job() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, 300);
    let job = begin(&served, "is", "IS(beta=20)");
    let told = ended(&served, job);
    assert_eq!((&told["state"], &told["kind"]), (&json!("done"), &json!("fit")));
    assert_eq!((&told["collection"], &told["name"]), (&json!("c"), &json!("is")));
    assert_eq!((&told["share"], &told["done"]), (&json!(1.0), &told["total"]));
    let correction = served.get("/collections/c/corrections/is");
    assert_eq!(told["result"]["corrections"][0], correction);
    assert_eq!(served.get("/jobs")["jobs"], json!([told]));
    let waited = served.did(
        "PUT",
        "/collections/c/corrections/two?wait=true",
        &json!({"method": "IS(beta=20)", "query_bank": "queries"}),
    );
    assert_eq!(waited["status"], "completed");
    assert_eq!(served.get("/jobs")["jobs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn entries_are_absorbed_by_a_job() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, 300);
    served.did(
        "PUT",
        "/collections/c/corrections/is",
        &json!({"method": "IS(beta=20)", "query_bank": "queries"}),
    );
    let stale = || served.get("/collections/c/corrections/is")["stale"].clone();
    let added = add(&served, "?wait=false", 1000, 20);
    assert_eq!(added["result"]["added"], 20);
    let told = ended(&served, added["result"]["job"].as_u64().expect("a number"));
    assert_eq!((&told["state"], &told["kind"], stale()), (&json!("done"), &json!("absorb"), json!(0)));
    let body = json!({"kind": "query", "vectors": vectors(2000, 10), "defer": true});
    served.did("PUT", "/collections/c/banks/queries", &body);
    assert_eq!(stale(), 10);
    let begun = served.send("POST", "/collections/c/banks/queries/absorb?wait=false", None, None);
    assert_eq!(begun.status, 202);
    let told = ended(&served, begun.body["result"]["job"].as_u64().expect("a number"));
    assert_eq!((&told["result"]["added"], stale()), (&json!(10), json!(0)));
}

#[test]
fn a_running_job_is_cancelled_and_an_ended_one_is_not() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, 5000);
    let (first, second) = (begin(&served, "long", LONG), begin(&served, "waits", LONG));
    assert_eq!(served.get(&format!("/jobs/{first}"))["state"], "running");
    for job in [second, first] {
        assert_eq!(served.send("DELETE", &format!("/jobs/{job}"), None, None).status, 202);
        assert_eq!(ended(&served, job)["state"], "cancelled");
        let again = served.send("DELETE", &format!("/jobs/{job}"), None, None);
        assert_eq!((again.status, &again.body["code"]), (409, &json!("job_ended")));
    }
    assert_eq!(served.get("/collections/c/corrections")["corrections"], json!([]));
}

#[test]
fn points_are_written_while_a_job_runs_and_the_collection_can_be_dropped() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, 5000);
    let job = begin(&served, "long", LONG);
    served.did("PUT", "/collections/c/points", &json!({"points": [{"id": 9999, "vector": [1, 0]}]}));
    assert_eq!(served.get("/collections/c")["points_count"], 5001);
    assert_eq!(served.get(&format!("/jobs/{job}"))["state"], "running");
    served.delete("/collections/c");
    assert_eq!(served.get(&format!("/jobs/{job}"))["state"], "cancelled");
    assert_eq!(std::fs::read_dir(folder.path().join("collections")).expect("a folder").count(), 0);
}

#[test]
fn a_server_stops_though_a_job_runs() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, 5000);
    begin(&served, "long", LONG);
    drop(served);
    // Whoever opens the collection finds it closed.
    let collection = Catalogue::new(folder.path()).get(&"c".parse().expect("a name")).expect("it opens");
    assert_eq!(collection.snapshot().corrections().len(), 0);
}

/// Leaves fits that were interrupted half-way, one of each vector.
fn interrupt(folder: &Path) {
    let collection = Catalogue::new(folder).get(&"c".parse().expect("a name")).expect("it opens");
    let spaces = collection.all_spaces();
    spaces.iter().for_each(|space| interrupt_fit(space));
    drop(spaces);
    drop(Arc::into_inner(collection));
}

fn interrupt_fit(collection: &Collection) {
    let input = FitInput {
        name: "is".parse().expect("a name"),
        method: "IS(beta=20)".parse().expect("a method"),
        query_bank: Some("queries".parse().expect("a name")),
        gallery_bank: None,
    };
    let progress = FitProgress::watched(256, |progress| progress.interrupt());
    let outcome = collection.fit_with(&[input], &progress);
    assert!(matches!(outcome, Err(WriteError::Interrupted)));
}

/// Makes a job one whose process was killed while it was under way.
fn kill(folder: &Path, job: u64) {
    let file = folder.join(format!("jobs/{job}.json"));
    let text = std::fs::read_to_string(&file).expect("it is kept");
    let mut told: Value = serde_json::from_str(&text).expect("JSON");
    (told["state"], told["ended"], told["result"]) = (json!("running"), Value::Null, Value::Null);
    std::fs::write(&file, told.to_string()).expect("writable");
}

#[test]
fn what_became_of_jobs_is_told_after_a_restart_and_no_number_is_given_twice() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, 5000);
    let done = begin(&served, "is", "IS(beta=20)");
    ended(&served, done);
    let cancelled = begin(&served, "long", LONG);
    assert_eq!(served.send("DELETE", &format!("/jobs/{cancelled}"), None, None).status, 202);
    ended(&served, cancelled);
    let interrupted = begin(&served, "long", LONG);
    let told = served.get("/jobs")["jobs"].as_array().expect("a list").clone();
    drop(served);
    let served = Served::start(folder.path());
    let after = served.get("/jobs")["jobs"].as_array().expect("a list").clone();
    assert_eq!(after[..2], told[..2]);
    assert_eq!((&after[2]["job"], &after[2]["state"]), (&json!(interrupted), &json!("interrupted")));
    assert!(after[2]["ended"].as_f64() >= after[2]["started"].as_f64(), "the server ended in good order");
    let again = served.send("DELETE", &format!("/jobs/{interrupted}"), None, None);
    assert_eq!((again.status, &again.body["code"]), (409, &json!("job_ended")));
    let unknown = served.send("GET", "/jobs/99", None, None);
    assert_eq!((unknown.status, &unknown.body["code"]), (404, &json!("unknown_job")));
    assert!(begin(&served, "more", "IS(beta=10)") > interrupted);
}

#[test]
fn a_fit_that_was_killed_goes_on_as_a_job_and_each_names_the_other() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, 1000);
    let job = begin(&served, "is", "IS(beta=20)");
    ended(&served, job);
    served.delete("/collections/c/corrections/is");
    drop(served);
    kill(folder.path(), job);
    interrupt(folder.path());
    let served = Served::start(folder.path());
    served.get("/collections/c");
    let resumed = ended(&served, job + 1);
    assert_eq!((&resumed["state"], &resumed["name"]), (&json!("done"), &json!("is")));
    assert_eq!(resumed["resumes"], job);
    assert_eq!(served.get("/collections/c/corrections/is")["method"], "IS(beta=20)");
    drop(served);
    let killed = Served::start(folder.path()).get(&format!("/jobs/{job}"));
    assert_eq!((&killed["state"], &killed["ended"]), (&json!("interrupted"), &Value::Null));
    assert_eq!(killed["resumed_by"], job + 1);
}

#[test]
fn fits_of_one_name_go_on_each_for_its_own_vector() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    let own = json!({"size": 2, "distance": "Dot"});
    served.did("PUT", "/collections/c", &json!({"vectors": {"a": own, "b": own}}));
    let point = |(id, vector): (usize, Value)| json!({"id": id, "vector": {"a": vector, "b": vector}});
    let points: Vec<_> = vectors(0, 1000).into_iter().enumerate().map(point).collect();
    served.did("PUT", "/collections/c/points", &json!({ "points": points }));
    let fit = json!({"method": "IS(beta=20)", "query_bank": "queries"});
    let fitted = |space: &str| {
        add(&served, &format!("?using={space}"), 0, 500);
        let path = format!("/collections/c/corrections/is?wait=false&using={space}");
        let job = served.json("PUT", &path, &fit).body["result"]["job"].as_u64().expect("a number");
        assert_eq!(ended(&served, job)["using"], space);
        served.delete(&format!("/collections/c/corrections/is?using={space}"));
        job
    };
    let killed = [("a", fitted("a")), ("b", fitted("b"))];
    drop(served);
    killed.iter().for_each(|&(_, job)| kill(folder.path(), job));
    interrupt(folder.path());
    let served = Served::start(folder.path());
    served.get("/collections/c");
    for (space, job) in killed {
        let told = served.get(&format!("/jobs/{job}"));
        let resumed = ended(&served, told["resumed_by"].as_u64().expect("it goes on"));
        assert_eq!((&resumed["using"], &resumed["resumes"]), (&json!(space), &json!(job)), "{resumed}");
    }
}

#[test]
fn what_cannot_be_a_job_is_refused_at_once() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    fill(&served, 50);
    let cases = [
        (
            "PUT",
            "corrections/a?wait=false",
            json!({"method": "IS(beta=20)", "query_bank": "no"}),
            "unknown_bank",
        ),
        (
            "PUT",
            "corrections/a?wait=false",
            json!({"method": "CSLS(k=900)", "query_bank": "queries"}),
            "more_than_bank",
        ),
        (
            "PUT",
            "corrections/a?wait=false",
            json!({"method": "auto", "query_bank": "queries"}),
            "not_supported",
        ),
        ("PUT", "corrections/a?wait=no", json!({"method": "IS(beta=20)"}), "invalid_value"),
        ("PUT", "banks/g?wait=false", json!({"kind": "gallery", "from_gallery": true}), "not_supported"),
        ("PUT", "points?wait=false", json!({"points": []}), "empty_batch"),
    ];
    for (method, path, body, code) in cases {
        let reply = served.json(method, &format!("/collections/c/{path}"), &body);
        assert_eq!(
            (reply.status >= 400, &reply.body["code"]),
            (true, &json!(code)),
            "{path} {body}: {}",
            reply.body
        );
    }
    for path in ["/collections/c/banks/no/absorb?wait=false", "/collections/no/banks/no/absorb?wait=false"] {
        assert_eq!(served.send("POST", path, None, None).status, 404);
    }
    assert_eq!(served.send("GET", "/jobs/x", None, None).status, 422);
    assert_eq!(served.get("/jobs")["jobs"], json!([]));
}
