//! A killed process loses no acknowledged write, and no write is there by half.

use std::env;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use dehub_index::{BankUpdate, Catalogue, Collection, EntryInput, EntrySelector, HubRule};
use dehub_vector::{Metric, PointId};

use crate::dump::{assert_same_biases, biases, dump};
use crate::made::{Home, Numbers, config, fit, ids, name, point, points, queries};

/// Tells the test that it is the child, and where the collection is.
const CHILD_FOLDER: &str = "DEHUB_INDEX_TEST_CHILD";
const TEST: &str = "crashing::a_killed_process_loses_no_acknowledged_write";
/// A child that is not killed stops here, so that a broken test ends.
const WRITES_MAX: u64 = 100_000;
const DIM: usize = 8;
const LABELS: [&str; 3] = ["IS(beta=20)", "NNN(alpha=1.0,k=3)", "DIS(beta=20,k=1)"];
/// Points of one batch.
const BATCH: u64 = 5;

fn open(folder: &Path) -> Arc<Collection> {
    Catalogue::new(folder).get(&name("killed")).expect("it opens after a kill")
}

/// The vectors of write `n`, so that the parent knows what the child wrote.
fn vectors(n: u64, count: u64) -> Vec<Vec<f32>> {
    Numbers(n).vectors(usize::try_from(count).expect("few"), DIM)
}

/// Write `n`: a batch of points, of which some are held; every fourth adds entries, and every twelfth takes
/// an early batch away, or releases what is held.
fn write(collection: &Collection, n: u64) {
    match n % 4 {
        1 if n % 8 == 5 => {
            let entry = |(id, vector): (u64, Vec<f32>)| EntryInput::new(Some(PointId::Number(id)), vector);
            let added = (2 * n..).zip(vectors(n, 2)).map(entry).collect();
            let gone = ids((2 * n).saturating_sub(16)..(2 * n).saturating_sub(14));
            _ = collection.exchange_in_bank(&name("queries"), &gone, added).expect("good entries");
        }
        1 => _ = collection.add_to_bank(&queries("queries", &vectors(n, 2))).expect("good entries"),
        2 if n % 8 == 6 => {
            let numbers = EntrySelector::Numbers(vec![u32::try_from(n % 13).expect("small"), 2]);
            _ = collection.remove_from_bank(&name("queries"), &numbers).expect("a removal");
        }
        2 if n % 8 == 2 => {
            let update = BankUpdate { defer: n % 16 == 2, ..queries("queries", &vectors(n, 3)) };
            _ = collection.add_to_bank(&update).expect("good entries");
        }
        3 if n % 12 == 7 => _ = collection.release(&held(collection)).expect("they are held"),
        3 if n % 12 == 3 => _ = collection.delete(&batch_ids(n / 2)).expect("a delete"),
        _ => _ = collection.upsert(&points(n * BATCH, &vectors(n, BATCH))).expect("good points"),
    }
}

fn held(collection: &Collection) -> Vec<PointId> {
    collection.snapshot().quarantined().map(|held| held.point.id.clone()).collect()
}

fn batch_ids(n: u64) -> Vec<PointId> {
    ids(n * BATCH..(n + 1) * BATCH)
}

/// The same writes without a kill, up to `writes`.
fn undisturbed(writes: u64) -> Home {
    let home = Home::new(config(DIM, Metric::Cosine));
    start(home.collection());
    (0..writes).for_each(|n| write(home.collection(), n));
    home
}

/// The first commits, [`START`] of them.
fn start(collection: &Collection) {
    collection.upsert(&[point(u64::MAX, &[1.0; DIM])]).expect("a good point");
    collection.add_to_bank(&queries("queries", &vectors(u64::MAX, 5))).expect("good entries");
    collection.fit(&LABELS.map(fit)).expect("a fit");
    // So many false alarms that some points are held soon.
    let rule = HubRule { correction: name(LABELS[1]), rate: 0.3 };
    collection.set_quarantine(Some(&rule)).expect("it is fitted");
}

const START: u64 = 4;

#[test]
fn the_writes_of_the_next_test_hold_points_and_release_them() {
    let counts: Vec<usize> = (40..64).map(|writes| held(undisturbed(writes).collection()).len()).collect();
    assert!(counts.windows(2).any(|two| two[0] < two[1]), "{counts:?}");
    assert!(counts.windows(2).any(|two| two[0] > 0 && two[1] == 0), "{counts:?}");
}

#[test]
fn a_killed_process_loses_no_acknowledged_write() {
    if let Some(folder) = env::var_os(CHILD_FOLDER) {
        return write_and_report(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let made = Catalogue::new(folder.path()).create(&name("killed"), config(DIM, Metric::Cosine));
    start(&made.expect("a new collection"));
    let mut total = 0;
    for wanted in [1, 9, 60] {
        let acknowledged = acknowledged_before_kill(folder.path(), total + wanted);
        let collection = open(folder.path());
        total = collection.snapshot().sequence() - START;
        assert!(total >= acknowledged, "{acknowledged} were acknowledged, {total} are there");
        // What is there is exactly the first `total` writes: none is missing, none is there by half.
        let undisturbed = undisturbed(total);
        assert_eq!(dump(&collection.snapshot()), dump(&undisturbed.snapshot()));
        // The same contents once more, with nothing left to take in.
        undisturbed.collection().absorb(&name("queries")).expect("it exists");
        let fresh = Home::new(config(DIM, Metric::Cosine));
        let snapshot = undisturbed.snapshot();
        let rows: Vec<u32> = snapshot.rows().collect();
        let kept = snapshot.points(&rows).expect("every row has a record");
        let inputs: Vec<_> =
            rows.iter().zip(kept).map(|(&row, it)| point(it.id, snapshot.vector(row))).collect();
        fresh.upsert(&inputs);
        let entries = snapshot.bank_queries(&name("queries"), usize::MAX);
        fresh.add(&queries(
            "queries",
            &entries.iter().map(|entry| entry.as_slice().to_vec()).collect::<Vec<_>>(),
        ));
        fresh.fit(&LABELS);
        assert_same_biases(&biases(&snapshot), &biases(&fresh.snapshot()), 1e-6, "every point has its bias");
    }
}

/// Continues where the collection ends, and reports the number of writes after each one.
fn write_and_report(folder: &Path) {
    let collection = open(folder);
    let first = collection.snapshot().sequence() - START;
    for n in first..WRITES_MAX {
        write(&collection, n);
        writeln!(stdout(), "\nacknowledged {}", n + 1).expect("the parent reads");
    }
    panic!("nobody killed this process");
}

/// Runs a child until it reports `wanted` writes, kills it, and returns the last number it reported.
fn acknowledged_before_kill(folder: &Path, wanted: u64) -> u64 {
    let mut command = Command::new(env::current_exe().expect("this test's program"));
    command.args([TEST, "--exact", "--nocapture"]).env(CHILD_FOLDER, folder);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let number =
        |line: &str| line.strip_prefix("acknowledged ").and_then(|number| number.parse::<u64>().ok());
    let mut acknowledged = 0;
    while acknowledged < wanted {
        let line = lines.next().expect("the child goes on").expect("text");
        acknowledged = number(&line).unwrap_or(acknowledged);
    }
    child.kill().expect("it runs");
    // Writes that it acknowledged before it died count as well.
    for line in lines {
        acknowledged = number(&line.expect("text")).unwrap_or(acknowledged);
    }
    assert!(!child.wait().expect("it is ours").success());
    acknowledged
}
