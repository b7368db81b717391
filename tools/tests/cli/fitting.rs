//! Fits that are interrupted, and go on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dehub_index::{
    BankUpdate, Catalogue, CollectionConfig, EntryInput, FitInput, FitProgress, GraphConfig, PointInput,
};
use dehub_normalize::BankKind;
use dehub_vector::Metric;
use serde_json::json;

use crate::{Dehub, ended};

/// Vectors on the unit circle.
fn vectors(count: u32) -> impl Iterator<Item = Vec<f32>> {
    (0..count).map(|n| f64::from(n) * 0.37).map(|angle| {
        #[expect(clippy::cast_possible_truncation, reason = "vectors have 32 bits")]
        let vector = vec![angle.cos() as f32, angle.sin() as f32];
        vector
    })
}

/// The collection `x` with a query bank; `interrupts` begins a fit of IS and leaves it.
fn make(data: &Path, points: u32, interrupts: bool) {
    let config = CollectionConfig::new(2, Metric::Cosine, GraphConfig::default()).expect("a configuration");
    let made = Catalogue::new(data).create(&"x".parse().expect("a name"), config).expect("a collection");
    let point = |(id, vector)| PointInput {
        id: u64::into(id),
        vector: Vec::into(vector),
        named: Vec::new(),
        payload: None,
        text: None,
    };
    made.upsert(&(0..).zip(vectors(points)).map(point).collect::<Vec<_>>()).expect("good points");
    let entries = vectors(500).map(|vector| EntryInput::new(None, vector)).collect();
    let (name, kind) = ("queries".parse().expect("a name"), BankKind::Query);
    made.add_to_bank(&BankUpdate { name, kind, entries, defer: false }).expect("good entries");
    if interrupts {
        let input = FitInput {
            name: "IS(beta=20)".parse().expect("a name"),
            method: "IS(beta=20)".parse().expect("a method"),
            query_bank: Some("queries".parse().expect("a name")),
            gallery_bank: None,
        };
        let progress = FitProgress::watched(256, |progress| progress.interrupt());
        made.fit_with(&[input], &progress).expect_err("it is interrupted");
    }
}

#[test]
fn a_fit_that_was_interrupted_is_shown_and_goes_on_with_the_same_command() {
    let dehub = Dehub::new();
    make(&dehub.path("data"), 512, true);
    let pending =
        json!([{"corrections": [{"correction": "IS(beta=20)", "method": "IS(beta=20)"}], "share": 0.5}]);
    assert_eq!(dehub.json(&["info", "x"])["pending_fits"], pending);
    let shown = dehub.ok(&["info", "x"]).stdout;
    assert!(shown.contains("pending: the fit of IS(beta=20) is at 50 %"), "{shown}");
    dehub.ok(&["fit", "x", "-m", "IS(beta=20)"]);
    let info = dehub.json(&["info", "x"]);
    assert_eq!((&info["pending_fits"], &info["corrections"][0]["name"]), (&json!([]), &json!("IS(beta=20)")));
}

#[test]
fn what_an_interrupted_fit_kept_can_be_dropped() {
    let dehub = Dehub::new();
    make(&dehub.path("data"), 512, true);
    assert_eq!(dehub.ok(&["fit", "x", "--discard"]).stdout, "dropped IS(beta=20)\n");
    assert_eq!(dehub.json(&["info", "x"])["pending_fits"], json!([]));
    assert_eq!(dehub.ok(&["fit", "x", "--discard"]).stdout, "no fit is pending\n");
    assert_ne!(dehub.run(&["fit", "x", "--discard", "-m", "IS(beta=20)"]).code, 0);
}

/// Whether a process catches SIGINT.
fn catches_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0)
}

#[test]
fn an_interrupt_ends_a_fit_and_changes_nothing() {
    let dehub = Dehub::new();
    make(&dehub.path("data"), 5000, false);
    let before = dehub.state();
    // It would take longer than any test.
    let mut command = dehub.command(&["fit", "x", "-m", "SN(tau=0.3,n=1000)"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !catches_interrupts(child.id()) {
        assert!(Instant::now() < deadline, "the fit begins");
        thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let ended = ended(child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("interrupted; nothing was changed"), "{}", ended.stderr);
    assert_eq!(dehub.state(), before);
}
