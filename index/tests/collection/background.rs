//! Fits that run while others read and write, that are stopped, and that go on later.

use std::env;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use dehub_index::{
    BankUpdate, Catalogue, Collection, EntrySelector, FitInput, FitProgress, Snapshot, WriteError,
};
use dehub_vector::Metric;
use tempfile::TempDir;

use crate::dump::{assert_same_biases, biases, dump};
use crate::made::{Home, Numbers, config, fit, gallery, ids, name, point, points, queries};

const DIM: usize = 12;
/// Three pieces of the smallest size.
const POINTS: usize = 700;
/// So many rows are fitted at a time.
const PIECE: usize = 256;
const LABELS: [&str; 19] = [
    "IS(beta=20)",
    "NNN(alpha=1.0,k=16)",
    "CSLS(k=10)",
    "DualIS(b1=20,b2=5)",
    "DIS(beta=20,k=1)",
    "DIS(beta=50,k=3)",
    "DualDIS(b1=20,b2=5,k=2)",
    "DN(lambda=0.25)",
    "Centring",
    "LocalCentring(k=1,gamma=1.0)",
    "LS(k=5)",
    "NICDM(k=5)",
    "ZScore",
    "GC(k=8)",
    "RatioMargin(k=4)",
    "MP2",
    "DualSoftmax(beta=20)",
    "SN(tau=0.3,n=5)",
    "DBSN(tau=0.3,n=5)",
];
/// The commits of [`fill`].
const FILLING: u64 = 3;
const PLAIN: [&str; 2] = ["IS(beta=20)", "NNN(alpha=1.0,k=16)"];

/// A collection that threads share.
struct Shared {
    folder: TempDir,
    collection: Arc<Collection>,
}

fn inputs(labels: &[&str]) -> Vec<FitInput> {
    labels.iter().map(|label| fit(label)).collect()
}

fn fill(collection: &Collection) {
    let mut numbers = Numbers(7);
    let vectors = numbers.vectors(POINTS, DIM);
    collection.upsert(&points(0, &vectors)).expect("good points");
    let mut entries = queries("queries", &numbers.vectors(60, DIM));
    (0_u64..).zip(&mut entries.entries).for_each(|(id, entry)| entry.id = Some(id.into()));
    collection.add_to_bank(&entries).expect("good entries");
    collection.add_to_bank(&gallery("gallery", 100, &vectors[100..140])).expect("good entries");
}

impl Shared {
    fn new() -> Shared {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let made = Catalogue::new(folder.path()).create(&name("shared"), config(DIM, Metric::Cosine));
        let collection = made.expect("a new collection");
        fill(&collection);
        Shared { folder, collection }
    }

    fn reopened(self) -> Shared {
        let Shared { folder, collection } = self;
        drop(Arc::into_inner(collection).expect("nobody else holds it"));
        let collection = Catalogue::new(folder.path()).get(&name("shared")).expect("it opens again");
        Shared { folder, collection }
    }
}

/// A collection with the same contents, fitted at once.
fn fresh(snapshot: &Snapshot, labels: &[&str]) -> Home {
    let home = Home::new(config(DIM, Metric::Cosine));
    let rows: Vec<u32> = snapshot.rows().collect();
    let kept = snapshot.points(&rows).expect("every row has a record");
    let inputs: Vec<_> = rows.iter().zip(kept).map(|(&row, it)| point(it.id, snapshot.vector(row))).collect();
    home.upsert(&inputs);
    for bank in snapshot.banks() {
        let entries = snapshot.bank_entries(&bank.name).expect("whole entries");
        home.add(&BankUpdate { name: bank.name.clone(), kind: bank.kind, entries, defer: false });
    }
    home.fit(labels);
    home
}

#[track_caller]
fn assert_fresh(snapshot: &Snapshot, labels: &[&str], what: &str) {
    assert!(snapshot.corrections().all(|correction| correction.info().stale == 0), "{what}");
    let fresh = fresh(snapshot, labels);
    assert_same_biases(&biases(snapshot), &biases(&fresh.snapshot()), 1e-6, what);
}

/// Progress that calls `act` with the collection at the `at`-th piece.
fn acting(
    collection: &Arc<Collection>,
    at: usize,
    act: impl Fn(&Collection, &FitProgress) + Send + Sync + 'static,
) -> FitProgress {
    let (weak, count) = (Arc::downgrade(collection), AtomicUsize::new(0));
    FitProgress::watched(PIECE, move |progress| {
        if count.fetch_add(1, Ordering::Relaxed) == at {
            act(&weak.upgrade().expect("the test holds it"), progress);
        }
    })
}

/// What others do to the points and the banks meanwhile.
type Act = fn(&Collection);

const ACTS: [(&str, Act); 6] = [
    ("points come, some in the place of others", |collection| {
        let vectors = Numbers(11).vectors(60, DIM);
        collection.upsert(&points(POINTS as u64 - 40, &vectors)).expect("good points");
        collection.upsert(&points(110, &vectors[..9])).expect("good points");
    }),
    ("points go", |collection| {
        collection.delete(&ids([0, 3, 105, 300, 650])).expect("a delete");
    }),
    ("a query bank grows", |collection| {
        collection.add_to_bank(&queries("queries", &Numbers(12).vectors(9, DIM))).expect("good entries");
    }),
    ("a gallery bank grows", |collection| {
        let vectors = Numbers(13).vectors(5, DIM);
        collection.add_to_bank(&gallery("gallery", 200, &vectors)).expect("good entries");
    }),
    ("entries are removed", |collection| {
        for bank in ["queries", "gallery"] {
            let gone = EntrySelector::Numbers(vec![2, 7]);
            collection.remove_from_bank(&name(bank), &gone).expect("a removal");
        }
    }),
    ("a bank is weakened", |collection| {
        collection.scale_bank(&name("queries"), 0.5, 0.0).expect("a decay");
    }),
];

#[test]
fn a_fit_ends_as_a_fresh_one_whatever_happens_meanwhile() {
    for (what, act) in ACTS {
        for at in [0, 3, 8] {
            let shared = Shared::new();
            let progress = acting(&shared.collection, at, move |collection, _| act(collection));
            let fitted = shared.collection.fit_with(&inputs(&LABELS), &progress).expect("a fit");
            assert_eq!(fitted.len(), LABELS.len());
            assert_eq!((progress.done(), progress.share()), (progress.total(), 1.0), "{what}");
            assert!(shared.collection.pending_fits().is_empty());
            let commits = shared.collection.snapshot().sequence();
            assert!(commits > FILLING + 1, "{what}: it happened during the fit");
            assert_fresh(&shared.collection.snapshot(), &LABELS, &format!("{what}, at piece {at}"));
            let before = dump(&shared.collection.snapshot());
            let reopened = shared.reopened();
            assert_eq!(
                dump(&reopened.collection.snapshot()),
                before,
                "{what}: what serves is what is stored"
            );
        }
    }
}

#[test]
fn a_fit_ends_though_its_bank_never_rests() {
    let shared = Shared::new();
    let (weak, seed) = (Arc::downgrade(&shared.collection), AtomicU64::new(100));
    let progress = FitProgress::watched(PIECE, move |_| {
        let seed = seed.fetch_add(1, Ordering::Relaxed);
        let collection = weak.upgrade().expect("the test holds it");
        collection.add_to_bank(&queries("queries", &Numbers(seed).vectors(1, DIM))).expect("a good entry");
        collection.upsert(&points(seed * 10, &Numbers(seed).vectors(1, DIM))).expect("a good point");
    });
    shared.collection.fit_with(&inputs(&PLAIN), &progress).expect("a fit");
    assert_fresh(&shared.collection.snapshot(), &PLAIN, "a busy bank");
}

#[test]
fn an_absorption_ends_as_a_fresh_fit_whatever_happens_meanwhile() {
    for (what, act) in ACTS {
        let shared = Shared::new();
        shared.collection.fit(&inputs(&LABELS[..17])).expect("a fit");
        let more = BankUpdate { defer: true, ..queries("queries", &Numbers(5).vectors(30, DIM)) };
        shared.collection.add_to_bank(&more).expect("good entries");
        let progress = acting(&shared.collection, 1, move |collection, _| act(collection));
        shared.collection.absorb_with(&name("queries"), &progress).expect("an absorption");
        let commits = shared.collection.snapshot().sequence();
        assert!(commits > FILLING + 3, "{what}: it happened during the absorption");
        assert_fresh(&shared.collection.snapshot(), &LABELS[..17], what);
    }
}

#[test]
fn points_are_written_and_read_while_a_fit_waits() {
    let shared = Shared::new();
    let (started, start) = channel();
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let progress = acting(&shared.collection, 0, move |_, _| {
        started.send(()).expect("the test waits");
        let waited = released.lock().expect("one at a time").recv_timeout(Duration::from_secs(60));
        waited.expect("writers and readers do not wait for the fit");
    });
    thread::scope(|scope| {
        let fitting = scope.spawn(|| shared.collection.fit_with(&inputs(&PLAIN), &progress));
        start.recv().expect("the fit begins");
        shared.collection.upsert(&points(5000, &Numbers(3).vectors(2, DIM))).expect("good points");
        let snapshot = shared.collection.snapshot();
        assert_eq!((snapshot.len(), snapshot.corrections().len()), (POINTS + 2, 0));
        assert!(progress.done() > 0 && progress.share() < 1.0);
        release.send(()).expect("the fit waits");
        fitting.join().expect("no panic").expect("a fit");
    });
    assert_fresh(&shared.collection.snapshot(), &PLAIN, "written meanwhile");
}

#[test]
fn a_cancelled_fit_leaves_nothing() {
    for at in [0, 2, 5] {
        let shared = Shared::new();
        let before = dump(&shared.collection.snapshot());
        let progress = acting(&shared.collection, at, |_, progress| progress.cancel());
        let error = shared.collection.fit_with(&inputs(&LABELS), &progress).expect_err("it was cancelled");
        assert!(matches!(error, WriteError::Cancelled), "{error}");
        assert!(shared.collection.pending_fits().is_empty());
        assert_eq!(dump(&shared.collection.snapshot()), before);
        let shared = shared.reopened();
        assert!(shared.collection.pending_fits().is_empty());
        assert_eq!(dump(&shared.collection.snapshot()), before);
        shared.collection.fit(&inputs(&PLAIN)).expect("a fit");
        assert_fresh(&shared.collection.snapshot(), &PLAIN, "after one was cancelled");
    }
}

#[test]
fn a_refused_fit_is_refused_as_it_always_was_and_leaves_nothing() {
    let shared = Shared::new();
    let progress = acting(&shared.collection, 1, |collection, _| {
        collection.drop_bank(&name("queries")).expect("nothing uses it");
    });
    let error = shared.collection.fit_with(&inputs(&PLAIN), &progress).expect_err("its bank is gone");
    assert!(matches!(error, WriteError::UnknownBank { .. }), "{error}");
    assert!(shared.collection.pending_fits().is_empty());
}

/// Interrupts a fit of the plain methods at its second piece.
fn interrupted() -> Shared {
    let shared = Shared::new();
    let progress = acting(&shared.collection, 1, |_, progress| progress.interrupt());
    let error = shared.collection.fit_with(&inputs(&PLAIN), &progress).expect_err("it was interrupted");
    assert!(matches!(error, WriteError::Interrupted), "{error}");
    shared
}

/// Progress that remembers what was done when it was first shown.
fn remembering() -> (FitProgress, Arc<AtomicU64>) {
    let first = Arc::new(AtomicU64::new(u64::MAX));
    let seen = Arc::clone(&first);
    let progress = FitProgress::watched(PIECE, move |progress| {
        seen.fetch_min(progress.done(), Ordering::Relaxed);
    });
    (progress, first)
}

#[test]
fn an_interrupted_fit_goes_on_where_it_was() {
    let shared = interrupted().reopened();
    let pending = shared.collection.pending_fits();
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].inputs, inputs(&PLAIN));
    assert!((pending[0].share - 2.0 * PIECE as f64 / POINTS as f64).abs() < 1e-9, "{}", pending[0].share);
    let (progress, first) = remembering();
    shared.collection.resume_fits(&progress).expect("it goes on");
    // Two pieces of both methods were kept, and one is left.
    assert_eq!((first.load(Ordering::Relaxed), progress.total()), (2 * POINTS as u64, 2 * POINTS as u64));
    let undisturbed = Shared::new();
    undisturbed.collection.fit(&inputs(&PLAIN)).expect("a fit");
    assert_eq!(dump(&shared.collection.snapshot()), dump(&undisturbed.collection.snapshot()));
    assert!(shared.collection.pending_fits().is_empty());
}

#[test]
fn an_interrupted_fit_goes_on_over_what_the_collection_is_by_then() {
    for (what, act) in ACTS {
        let shared = interrupted().reopened();
        act(&shared.collection);
        let (progress, first) = remembering();
        shared.collection.fit_with(&inputs(&PLAIN), &progress).expect("it goes on");
        let starts_over = ["entries are removed", "a bank is weakened"].contains(&what);
        let kept = 4 * PIECE as u64;
        assert!(first.load(Ordering::Relaxed) > kept || starts_over, "{what}: {first:?}");
        assert_fresh(&shared.collection.snapshot(), &PLAIN, what);
        let before = dump(&shared.collection.snapshot());
        assert_eq!(dump(&shared.reopened().collection.snapshot()), before, "{what}");
    }
}

#[test]
fn another_fit_leaves_a_pending_one_alone_and_it_can_be_dropped() {
    let shared = interrupted();
    shared.collection.fit(&inputs(&["CSLS(k=10)"])).expect("another fit");
    assert_eq!(shared.collection.pending_fits().len(), 1);
    assert!(!shared.collection.drop_pending(&name("CSLS(k=10)")).expect("a look"));
    assert!(shared.collection.drop_pending(&name(PLAIN[1])).expect("a drop"));
    let shared = shared.reopened();
    assert!(shared.collection.pending_fits().is_empty());
    assert_fresh(&shared.collection.snapshot(), &["CSLS(k=10)"], "the other one");
}

/// Tells the test that it is the child, and where the collection is.
const CHILD_FOLDER: &str = "DEHUB_INDEX_TEST_FITTING_CHILD";
const TEST: &str = "background::a_killed_fit_is_invisible_and_goes_on";

#[test]
fn a_killed_fit_is_invisible_and_goes_on() {
    if let Some(folder) = env::var_os(CHILD_FOLDER) {
        return fit_and_report(Path::new(&folder));
    }
    let shared = Shared::new();
    let before = dump(&shared.collection.snapshot());
    let Shared { folder, collection } = shared;
    drop(Arc::into_inner(collection).expect("nobody else holds it"));
    let mut command = Command::new(env::current_exe().expect("this test's program"));
    command.args([TEST, "--exact", "--nocapture"]).env(CHILD_FOLDER, folder.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let pieces = lines.map_while(Result::ok).filter(|line| line == "piece").take(2).count();
    child.kill().expect("it runs");
    assert_eq!((pieces, child.wait().expect("it is ours").success()), (2, false));
    let collection = Catalogue::new(folder.path()).get(&name("shared")).expect("it opens after a kill");
    assert_eq!(dump(&collection.snapshot()), before);
    assert_eq!(collection.pending_fits()[0].inputs, inputs(&PLAIN));
    let (progress, first) = remembering();
    collection.resume_fits(&progress).expect("it goes on");
    assert!(first.load(Ordering::Relaxed) > 4 * PIECE as u64, "{first:?}");
    assert_fresh(&collection.snapshot(), &PLAIN, "after a kill");
}

/// Reports each piece, and waits to be killed after the second.
fn fit_and_report(folder: &Path) {
    let collection = Catalogue::new(folder).get(&name("shared")).expect("it opens");
    let count = AtomicUsize::new(0);
    let progress = FitProgress::watched(PIECE, move |_| {
        writeln!(stdout(), "\npiece").expect("the parent reads");
        if count.fetch_add(1, Ordering::Relaxed) == 1 {
            thread::sleep(Duration::from_secs(60));
        }
    });
    _ = collection.fit_with(&inputs(&PLAIN), &progress);
    panic!("nobody killed this process");
}
