//! The live bank's policy and drift by command, and a server that is killed while it keeps queries.

use serde_json::{Value, json};

use crate::serving::Server;
use crate::{Dehub, testdata};

const POLICY: [&str; 11] = [
    "live",
    "x",
    "--bank",
    "live",
    "--rate",
    "0.5",
    "--capacity",
    "50",
    "--retention",
    "7d",
    "--per-client=9",
];

#[test]
fn a_policy_is_set_shown_and_ended() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2"]);
    assert_eq!(dehub.json(&["live", "x"])["policy"], Value::Null);
    assert!(dehub.ok(&["live", "x"]).stdout.contains("are not kept"));
    let policy =
        json!({ "bank": "live", "rate": 0.5, "capacity": 50, "retention_seconds": 604_800, "per_client": 9 });
    assert_eq!(dehub.json(&POLICY)["policy"], policy);
    assert_eq!(dehub.state()["live"], policy);
    for part in ["bank live", "their vectors and the time", "7 d", "50 %", "at most 50", "9 of one client"] {
        assert!(dehub.ok(&["info", "x"]).stdout.contains(part), "{part}");
    }
    let before = dehub.state();
    for (arguments, says) in [
        (
            &["live", "x", "--bank", "live", "--rate", "2"][..],
            "rate is 2, wanted a number above 0, at most 1",
        ),
        (&["live", "x", "--bank", "live", "--capacity", "0"], "capacity is 0, wanted a whole number from 1"),
        (&["bank", "x", "live", "--drop"], "dehub live COLLECTION --off"),
    ] {
        let ended = dehub.run(arguments);
        assert!(ended.code == 1 && ended.stderr.contains(says), "{}", ended.stderr);
    }
    let usage = dehub.run(&["live", "x", "--bank", "live", "--retention", "7"]);
    assert!(usage.code == 2 && usage.stderr.contains("7d, 12h"), "{}", usage.stderr);
    assert_eq!(dehub.run(&["live", "x", "--rate", "0.5"]).code, 2, "a rate of nothing");
    assert_eq!(dehub.state(), before);
    assert_eq!(dehub.json(&["live", "x", "--off"])["policy"], Value::Null);
    dehub.ok(&["bank", "x", "live", "--drop"]);
}

#[test]
fn drift_is_told_in_words_and_numbers() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "128"]);
    dehub.ok(&["bank", "x", "glosses", &testdata("wordnet/queries_bank.npy"), "--limit", "1000"]);
    let queries = testdata("wordnet/queries_test.npy");
    let alike = dehub.json(&["drift", "x", "--bank", "glosses", "--queries", &queries]);
    assert_eq!((&alike["likeness"], &alike["entries"]), (&json!("alike"), &json!(1000)), "{alike}");
    dehub.ok(&["bank", "x", "names", &testdata("wordnet/gallery.npy")]);
    let against = ["drift", "x", "--bank", "glosses", "--against", "names"];
    let moved = dehub.json(&against);
    assert_ne!(moved["likeness"], "alike", "{moved}");
    let text = dehub.ok(&against).stdout;
    for part in [moved["report"].as_str(), moved["advice"].as_str(), Some("bank names: mean similarity")] {
        assert!(part.is_some_and(|part| text.contains(part)), "{part:?}: {text}");
    }
    for (arguments, says) in [
        (
            &["drift", "x", "--bank", "nobody", "--against", "names"][..],
            "there is no bank `nobody`; the collection has: glosses, names",
        ),
        (&["drift", "x", "--bank", "names", "--against", "nobody"], "there is no bank `nobody`"),
        (&["drift", "x", "--bank", "names", "--against", "names"], "compared with itself"),
    ] {
        let ended = dehub.run(arguments);
        assert!(ended.code == 1 && ended.stderr.contains(says), "{}", ended.stderr);
    }
    assert_eq!(dehub.run(&["drift", "x", "--bank", "names"]).code, 2);
}

#[test]
fn a_server_that_is_killed_loses_only_what_was_not_written() {
    let dehub = Dehub::new();
    dehub.ok(&["create", "x", "--dim", "2", "--metric", "dot"]);
    let policy = ["live", "x", "--bank", "live", "--rate", "1", "--per-client", "10000"];
    dehub.ok(&policy);
    let mut server = Server::start(&dehub);
    server.put("/collections/x/points", &json!({ "points": [{ "id": 1, "vector": [1, 0] }] }));
    // The sample goes on from the bank before it takes the first query.
    let flush = |server: &Server| server.post("/collections/x/live/flush", &json!({}))["result"].clone();
    flush(&server);
    let ask = |server: &Server, first: u32| {
        for number in first..first + 20 {
            server.post("/collections/x/points/query", &json!({ "query": [number, 1] }));
        }
    };
    ask(&server, 0);
    assert_eq!(flush(&server), json!({ "added": 20, "removed": 0 }));
    ask(&server, 20);
    assert_eq!(server.signal("-KILL"), None);
    assert_eq!(dehub.state()["banks"][0]["entries"], 20);
    let mut server = Server::start(&dehub);
    flush(&server);
    ask(&server, 40);
    assert_eq!(server.signal("-TERM"), Some(0));
    assert_eq!(dehub.state()["banks"][0]["entries"], 40, "a server that is stopped writes what waits");
}
