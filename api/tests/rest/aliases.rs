//! Other names of collections over HTTP.

use std::thread;

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::client::{Client, Served};

fn create(client: &Client, name: &str) {
    client.did("PUT", &format!("/collections/{name}"), &json!({"vectors": {"size": 2, "distance": "Dot"}}));
}

fn set(alias: &str, collection: &str) -> Value {
    json!({"create_alias": {"alias_name": alias, "collection_name": collection}})
}

#[track_caller]
fn change(client: &Client, actions: &Value) {
    assert_eq!(client.did("POST", "/collections/aliases", &json!({"actions": actions})), true);
}

fn listed(reply: &Value) -> Vec<(&str, &str)> {
    let pair = |found| (text(found, "alias_name"), text(found, "collection_name"));
    reply["aliases"].as_array().expect("a list").iter().map(pair).collect()
}

fn text<'a>(found: &'a Value, field: &str) -> &'a str {
    found[field].as_str().expect("a name")
}

#[test]
fn every_path_takes_an_alias_for_its_collection() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, "c");
    change(&served, &json!([set("a", "c")]));
    let points = json!({"points": [{"id": 1, "vector": [1, 0]}, {"id": 2, "vector": [0, 1]}]});
    served.did("PUT", "/collections/a/points", &points);
    assert_eq!(served.did("POST", "/collections/c/points/count", &json!({}))["count"], 2);
    served.did("PUT", "/collections/a/banks/b", &json!({"kind": "query", "vectors": [[1, 1]]}));
    assert_eq!(served.get("/collections/c/banks/b")["entries"], 1);
    // What else is told of a collection may change from one look to the next.
    assert_eq!(served.get("/collections/a")["points_count"], 2);
    for path in ["/banks", "/exists", "/points/1", "/aliases", "/snapshots"] {
        let of = |name: &str| served.get(&format!("/collections/{name}{path}"));
        assert_eq!(of("a"), of("c"), "{path}");
    }
    let query = json!({"query": [1, 0], "limit": 1});
    assert_eq!(served.did("POST", "/collections/a/points/query", &query)["points"][0]["id"], 1);
    // Only collections are listed.
    assert_eq!(served.get("/collections"), json!({"collections": [{"name": "c"}]}));
}

#[test]
fn an_alias_moves_in_one_step_and_outlives_the_server() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, "old");
    create(&served, "new");
    served.did("PUT", "/collections/new/points", &json!({"points": [{"id": 1, "vector": [1, 0]}]}));
    change(&served, &json!([set("now", "old")]));
    assert_eq!(served.get("/collections/now")["points_count"], 0);
    change(
        &served,
        &json!([{"delete_alias": {"alias_name": "now"}}, set("now", "new"), set("before", "old")]),
    );
    assert_eq!(served.get("/collections/now")["points_count"], 1);
    let rename = json!({"rename_alias": {"old_alias_name": "before", "new_alias_name": "then"}});
    change(&served, &json!([rename]));
    drop(served);
    let served = Served::start(folder.path());
    assert_eq!(listed(&served.get("/aliases")), [("now", "new"), ("then", "old")]);
    assert_eq!(listed(&served.get("/collections/old/aliases")), [("then", "old")]);
    assert_eq!(served.get("/collections/now")["points_count"], 1);
}

#[test]
fn who_asks_while_an_alias_moves_finds_the_one_or_the_other() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, "blue");
    create(&served, "green");
    change(&served, &json!([set("now", "blue")]));
    thread::scope(|scope| {
        let client = served.client();
        let mover = scope.spawn(move || {
            for turn in 0..60 {
                let next = if turn % 2 == 0 { "green" } else { "blue" };
                change(&client, &json!([{"delete_alias": {"alias_name": "now"}}, set("now", next)]));
            }
        });
        while !mover.is_finished() {
            assert_eq!(served.did("POST", "/collections/now/points/count", &json!({}))["count"], 0);
        }
        mover.join().expect("no panic");
    });
    assert_eq!(listed(&served.get("/aliases")), [("now", "blue")]);
}

#[test]
fn a_collection_and_an_alias_never_have_one_name() {
    let folder = tempdir().expect("a folder");
    let served = Served::start(folder.path());
    create(&served, "c");
    create(&served, "d");
    change(&served, &json!([set("a", "c")]));
    let body = json!({"vectors": {"size": 2, "distance": "Dot"}});
    let reply = served.json("PUT", "/collections/a", &body);
    assert_eq!((reply.status, &reply.body["code"]), (409, &json!("alias_exists")), "{}", reply.body);
    // As with Qdrant: the name is no collection's, so nothing is deleted.
    assert_eq!(served.delete("/collections/a"), false);
    assert_eq!(served.get("/collections/a/exists")["exists"], true);
    assert_eq!(served.delete("/collections/c"), true);
    assert_eq!(listed(&served.get("/aliases")), []);
    assert_eq!(served.get("/collections/a/exists")["exists"], false);
    create(&served, "a");
    assert_eq!(served.delete("/collections/nobody"), false);
}
