//! Readers, a writer, fits, freezes and long views at once: every answer is of one moment.
//!
//! `DEHUB_STRESS_SECONDS` says how long; a few if it does not.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dehub_index::{
    Collection, Durability, EntryInput, HubRule, Payload, PointInput, Question, Snapshot, Variant,
};
use dehub_store::Faults;
use dehub_vector::{Candidate, Metric, PointId, Vector};

use crate::made::{Numbers, config_with_graph, fit, ids, name, queries};
use crate::model_places::{Place, Site};
use crate::reference::{log_sum_exp, score_error, similarity, top_mean};

const DIM: usize = 8;
const READERS: u64 = 8;
const GROUPS: u64 = 6;
/// Points of a group, which are written and deleted together.
const GROUP: u64 = 32;
const LABELS: [&str; 2] = ["IS(beta=2)", "NNN(alpha=0.5,k=2)"];
const BETA: f64 = 2.0;
const LIMIT: usize = 10;
const EFFORT: usize = 64;
const SECONDS: u64 = 3;
/// Fits and freezes there are in any case, however slow the machine.
const ROUNDS_MIN: u64 = 4;

/// The vector of a point in the version that write number `write` made.
fn vector(id: u64, write: u64) -> Vec<f32> {
    Numbers(id << 32 | write).vector(DIM)
}

fn group(group: u64) -> Vec<u64> {
    (group * GROUP..(group + 1) * GROUP).collect()
}

/// What the writer has begun and what was acknowledged, by group: numbers of writes.
#[derive(Default)]
struct Ledger {
    begun: [AtomicU64; GROUPS as usize],
    acknowledged: [AtomicU64; GROUPS as usize],
    answers: AtomicU64,
    walks: AtomicU64,
    /// Fits and freezes.
    rounds: AtomicU64,
    is_over: AtomicBool,
}

fn of(numbers: &[AtomicU64], group: u64) -> &AtomicU64 {
    &numbers[usize::try_from(group).expect("there are few groups")]
}

/// Whether a write takes its group away.
fn deletes(write: u64) -> bool {
    (write / GROUPS) % 4 == 3
}

/// Write `write`: the points of a group in a new version, or none of them.
fn write(collection: &Collection, write: u64) {
    let ids_of = group(write % GROUPS);
    if deletes(write) {
        _ = collection.delete(&ids(ids_of)).expect("a delete");
        return;
    }
    let point = |id: u64| PointInput {
        id: id.into(),
        vector: vector(id, write).into(),
        named: Vec::new(),
        payload: Some(Payload::parse(&format!("{{\"write\":{write}}}")).expect("an object")),
        text: None,
    };
    _ = collection.upsert(&ids_of.into_iter().map(point).collect::<Vec<_>>()).expect("good points");
}

fn write_on(collection: &Collection, ledger: &Ledger) {
    for number in GROUPS.. {
        let group = number % GROUPS;
        of(&ledger.begun, group).store(number, Ordering::SeqCst);
        write(collection, number);
        of(&ledger.acknowledged, group).store(number, Ordering::SeqCst);
        if ledger.is_over.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// Changes the bank, fits, freezes and chooses in turn.
fn tend(collection: &Collection, ledger: &Ledger) {
    for round in 0.. {
        let entry = |id| EntryInput::new(Some(PointId::Number(id)), vector(id, u64::MAX >> 1));
        let (gone, new) = (ids([2 * round, 2 * round + 1]), [2 * round + 40, 2 * round + 41].map(entry));
        _ = collection.exchange_in_bank(&name("queries"), &gone, new.to_vec()).expect("good entries");
        _ = collection.fit(&LABELS.map(fit)).expect("a fit");
        _ = collection.freeze().expect("a graph");
        let rule = HubRule { correction: name(LABELS[0]), rate: 0.0 };
        collection.set_quarantine((round % 2 == 0).then_some(&rule)).expect("it is fitted");
        let durability = [Durability::Strict, Durability::Relaxed][usize::from(round % 4 == 1)];
        collection.set_durability(durability).expect("a durability");
        ledger.rounds.store(round + 1, Ordering::SeqCst);
        if ledger.is_over.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// The write that made the version of each row, as the store has it.
fn writes(snapshot: &Snapshot, rows: &[u32]) -> Vec<(u64, u64)> {
    let points = snapshot.points(rows).expect("every row has a record");
    let write = |point: &dehub_index::Point| {
        let payload = point.payload.as_ref().expect("each has one").as_json();
        let digits: String = payload.chars().filter(char::is_ascii_digit).collect();
        let PointId::Number(id) = point.id else { panic!("all ids are numbers") };
        (id, digits.parse().expect("a number"))
    };
    points.iter().map(write).collect()
}

/// All points of a group are of one write, which is none that was replaced before the snapshot was taken.
fn check_group(snapshot: &Snapshot, group_number: u64, least: u64, most: u64) {
    let rows = snapshot.find_all(&ids(group(group_number))).expect("ids lead to points");
    let found = writes(snapshot, &rows);
    match found.first() {
        None => assert!((least..=most).any(deletes), "{least}..={most}"),
        Some(&(_, write)) => {
            assert_eq!(found.len() as u64, GROUP, "a group is whole");
            assert!(found.iter().all(|&(_, other)| other == write), "a group is of one write: {found:?}");
            assert!(write >= least && write <= most && !deletes(write), "{write}, wanted {least}..={most}");
        }
    }
    for (row, (id, write)) in rows.into_iter().zip(found) {
        assert_eq!(snapshot.vector(row), vector(id, write), "the vector is that of the record");
    }
}

/// A hit has the score that the formula gives for the vector of its record and the entries of the bank.
fn check_hits(snapshot: &Snapshot, label: Option<&str>, query: &Vector, hits: &[Candidate]) {
    assert!(hits.is_sorted_by(|a, b| a > b));
    let Some(hit) = hits.first() else { return };
    let (id, write) = writes(snapshot, &[hit.row])[0];
    let point = vector(id, write);
    let entries: Vec<&[f32]> = snapshot.live_entries("queries").map(|(_, entry, _)| entry).collect();
    let similarities =
        || -> Vec<f64> { entries.iter().map(|entry| similarity(Metric::Dot, &point, entry)).collect() };
    let bias = match label {
        None => 0.0,
        Some("IS(beta=2)") => log_sum_exp(BETA, &similarities()),
        Some(_) => 0.5 * top_mean(2, &similarities()),
    };
    let weight = if label == Some(LABELS[1]) { 0.5 } else { 1.0 };
    let center = label.map_or(0.0, |label| {
        let correction = snapshot.correction(label).expect("it is fitted");
        assert_eq!(correction.info().stale, 0);
        weight * correction.columns()[0].center()
    });
    let wanted = similarity(Metric::Dot, query.as_slice(), &point) - (bias - center);
    let error = score_error(Metric::Dot, query.as_slice(), &point, bias) + 1e-5;
    assert!((f64::from(hit.score) - wanted).abs() <= error, "{label:?}: {hit:?}, wanted {wanted}");
}

fn ask(snapshot: &Snapshot, label: Option<&str>, query: &Vector, ledger: &Ledger) -> Vec<Candidate> {
    let correction = label.map(|label| snapshot.correction(label).expect("it is fitted"));
    let variant = correction.map_or_else(Variant::raw, |it| it.variant(&it.open(None), 1.0));
    let question = Question { vectors: std::slice::from_ref(query), limit: LIMIT, targets: &[] };
    let scanned = snapshot.scan(&question, std::slice::from_ref(&variant)).remove(0).remove(0).best;
    assert_eq!(scanned.len(), LIMIT.min(snapshot.len()));
    check_hits(snapshot, label, query, &scanned);
    if let Some(walked) = snapshot.walk(query, &variant, LIMIT, EFFORT) {
        check_hits(snapshot, label, query, &walked);
        assert!(walked.len() <= scanned.len());
        ledger.walks.fetch_add(1, Ordering::Relaxed);
    }
    ledger.answers.fetch_add(1, Ordering::Relaxed);
    scanned
}

fn read_on(collection: &Collection, ledger: &Ledger, seed: u64) {
    let mut numbers = Numbers(seed);
    let mut sequence = 0;
    loop {
        let asked = numbers.below(6) as u64;
        let least = of(&ledger.acknowledged, asked).load(Ordering::SeqCst);
        let snapshot = collection.snapshot();
        let most = of(&ledger.begun, asked).load(Ordering::SeqCst);
        assert!(snapshot.sequence() >= sequence, "a reader never goes back");
        sequence = snapshot.sequence();
        check_group(&snapshot, asked, least, most);
        let query = Vector::new(&numbers.vector(DIM), snapshot.config().dim, Metric::Dot).expect("good");
        for label in [None, Some(LABELS[0]), Some(LABELS[1])] {
            let first = ask(&snapshot, label, &query, ledger);
            let again = ask(&snapshot, label, &query, ledger);
            assert_eq!(first, again, "a snapshot does not change");
        }
        let (info, gallery) = (collection.writer(), snapshot.gallery());
        assert!(info.failure.is_none() && info.waiting <= info.waiting_max);
        assert_eq!(gallery.points, snapshot.rows().count());
        assert_eq!(snapshot.bank("queries").map(|bank| bank.entries), Some(40));
        if ledger.is_over.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// Holds a snapshot while others come, as a copy of the collection does, and finds in it what it was.
fn hold_on(collection: &Collection, ledger: &Ledger) {
    loop {
        let held = collection.snapshot();
        let rows: Vec<u32> = held.rows().collect();
        let before = writes(&held, &rows);
        let newest = held.sequence();
        while collection.snapshot().sequence() < newest + 5 && !ledger.is_over.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(writes(&held, &rows), before, "what a snapshot holds stays");
        if ledger.is_over.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// Says what was done.
fn stress(place: Place) -> String {
    let seconds = env::var("DEHUB_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let mut site = Site::new(place, &Faults::none());
    site.create(config_with_graph(DIM, Metric::Dot)).expect("a new collection");
    let collection = site.collection();
    collection.add_to_bank(&queries("queries", &[])).expect("a bank");
    let entry = |id| EntryInput::new(Some(PointId::Number(id)), vector(id, u64::MAX >> 1));
    collection.exchange_in_bank(&name("queries"), &[], (0..40).map(entry).collect()).expect("good entries");
    let ledger = Ledger::default();
    for number in 0..GROUPS {
        write(collection, number);
        for numbers in [&ledger.begun, &ledger.acknowledged] {
            of(numbers, number).store(number, Ordering::SeqCst);
        }
    }
    collection.fit(&LABELS.map(fit)).expect("a fit");
    thread::scope(|scope| {
        scope.spawn(|| write_on(collection, &ledger));
        scope.spawn(|| tend(collection, &ledger));
        scope.spawn(|| hold_on(collection, &ledger));
        let ledger = &ledger;
        (0..READERS).for_each(|seed| _ = scope.spawn(move || read_on(collection, ledger, seed)));
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end || ledger.rounds.load(Ordering::SeqCst) < ROUNDS_MIN {
            thread::sleep(Duration::from_millis(20));
        }
        ledger.is_over.store(true, Ordering::SeqCst);
    });
    let (answers, walks) = (ledger.answers.into_inner(), ledger.walks.into_inner());
    let done = format!("{} commits, {answers} answers, {walks} walks", collection.writer().commits);
    assert!(walks > 0 && answers >= 6 * READERS, "{answers} answers, {walks} walks");
    let before = collection.snapshot().sequence();
    site.reopen().expect("it opens again");
    assert_eq!(site.collection().snapshot().sequence(), before);
    done
}

#[test]
fn in_a_folder_every_answer_is_of_one_moment() {
    println!("{}", stress(Place::Folder));
}

#[test]
fn in_memory_every_answer_is_of_one_moment() {
    println!("{}", stress(Place::Memory));
}
