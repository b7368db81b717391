//! Verification finds what is not as it should be, says where, and derives again what is derived.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dehub_index::{
    Catalogue, CheckKind, Collection, Quantization, Question, Snapshot, Variant, VerifyReport,
};
use dehub_store::Store;
use dehub_vector::{Metric, Vector};

use crate::damage::{IDS, META, POINTS, SETS, STATES, VECTORS, put, with_store};
use crate::graph_file::sum_anew;
use crate::made::{Home, Numbers, config_with_graph, fit, gallery, ids, name, points, queries};
use crate::reference::bits;

const DIM: usize = 5;
const POINT_COUNT: u64 = 60;
const LABELS: [&str; 6] = [
    "NNN(alpha=0.5,k=2)",
    "DualDIS(b1=20,b2=3,k=1)",
    "SN(tau=0.1,n=3)",
    "DisSimLocal(k=2)",
    "ZScore",
    "GC(k=3)",
];

/// A collection of everything there is, with deleted points in its graph and points in none.
fn fill(made: &Collection, seed: u64) {
    let mut numbers = Numbers(seed);
    made.upsert(&points(0, &numbers.vectors(POINT_COUNT as usize, DIM))).expect("good points");
    made.add_to_bank(&queries("queries", &numbers.vectors(9, DIM))).expect("good entries");
    made.add_to_bank(&gallery("gallery", 1, &numbers.vectors(6, DIM))).expect("good entries");
    made.build_graph_if_due().expect("a graph");
    made.fit(&LABELS.map(fit)).expect("a fit");
    made.scale_bank(&name("queries"), 0.5, 0.0).expect("lighter entries");
    made.add_to_bank(&queries("queries", &numbers.vectors(4, DIM))).expect("good entries");
    made.remove_from_bank(&name("queries"), &dehub_index::EntrySelector::Numbers(vec![1, 10])).expect("gone");
    made.delete(&ids([3, 9])).expect("a delete");
    made.upsert(&points(58, &numbers.vectors(5, DIM))).expect("good points");
}

fn verified(collection: &Collection) -> VerifyReport {
    collection.verify(&mut |_| ())
}

#[test]
fn a_whole_collection_has_no_difference_and_everything_is_looked_at() {
    for metric in [Metric::Cosine, Metric::Euclidean] {
        for quantization in Quantization::ALL {
            let mut home = Home::new(config_with_graph(DIM, metric));
            home.collection().set_quantization(quantization).expect("any kind");
            let mut numbers = Numbers(80);
            home.upsert(&points(0, &numbers.vectors(300, DIM)));
            home.collection().set_prior(&name("p"), &[(70.into(), 0.5)]).expect("a good value");
            home.build_graph();
            home.add(&queries("queries", &numbers.vectors(40, DIM)));
            home.add(&gallery("gallery", 20, &numbers.vectors(30, DIM)));
            let labels = LABELS.into_iter().chain(["CSLS(k=3)"]);
            let labels: Vec<_> = labels.filter(|label| fit(label).method.refuses(metric).is_none()).collect();
            home.fit(&labels);
            home.delete(5..40);
            home.upsert(&points(30, &numbers.vectors(50, DIM)));
            for _ in 0..2 {
                let mut begun = Vec::new();
                let report = home.collection().verify(&mut |kind| begun.push(kind));
                assert!(report.is_whole(), "{metric:?}, {quantization}: {:#?}", report.checks);
                assert_eq!(begun, CheckKind::ALL);
                let looked: Vec<_> =
                    report.checks.iter().map(|check| (check.kind, check.checked > 0)).collect();
                let empty = [CheckKind::Held, CheckKind::Pending, CheckKind::Texts, CheckKind::Calibration];
                let is_empty = |kind| empty.contains(&kind);
                assert!(looked.iter().all(|&(kind, any)| any != is_empty(kind)), "{looked:?}");
                assert_eq!((report.orphans.records, report.set_aside.len()), (0, 0));
                assert!(report.is_calibration_due);
                home.reopen();
            }
        }
    }
}

/// The number of the first set whose record says this.
fn set_of(store: &Store, kind: &str) -> u32 {
    let records = store.scan(SETS, b"", None).map(|item| item.expect("whole"));
    let found =
        records.filter(|(_, value)| String::from_utf8_lossy(value).contains(kind)).map(|(key, _)| key);
    u32::from_be_bytes(found.min().expect("such a set")[..].try_into().expect("a number"))
}

fn key(set: u32, index: u32) -> Vec<u8> {
    [set.to_be_bytes(), index.to_be_bytes()].concat()
}

/// Puts the value of one key under another.
fn copy(store: &Store, family: dehub_store::Family, from: &[u8], to: &[u8]) {
    let value = store.get(family, from).expect("readable").expect("it is there");
    put(store, family, to, Some(&value));
}

/// Exchanges the first two rows of a section of a graph file, and corrects the checksums.
fn swap_rows(file: &Path, section: usize, len: usize) {
    let mut bytes = fs::read(file).expect("it is there");
    let at = 64 + 20 * section;
    let start =
        usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))).expect("small");
    let (first, second) = bytes[start..start + 2 * len].split_at_mut(len);
    first.swap_with_slice(second);
    sum_anew(&mut bytes);
    fs::write(file, &bytes).expect("writable");
}

type Change = fn(&Store, &Path);

/// What is changed, the check that finds it, what it says of the place, and whether it can be derived again.
const PLANTED: [(&str, Change, CheckKind, &str, bool); 13] = [
    (
        "a state of another row",
        |store, _| {
            let set = set_of(store, "LogSumExp");
            copy(store, STATES, &key(set, 2), &key(set, 1));
        },
        CheckKind::Statistics,
        "row 1",
        true,
    ),
    (
        "nearest entries of another row",
        |store, _| {
            let set = set_of(store, "CentroidPull");
            copy(store, STATES, &key(set, 20), &key(set, 21));
        },
        CheckKind::Statistics,
        "row 21",
        true,
    ),
    (
        "moments of another row",
        |store, _| {
            let set = set_of(store, "Deviation");
            copy(store, STATES, &key(set, 30), &key(set, 31));
        },
        CheckKind::Statistics,
        "row 31",
        true,
    ),
    (
        "a sum with potentials of another row",
        |store, _| {
            let set = set_of(store, "Sinkhorn");
            copy(store, STATES, &key(set, 40), &key(set, 41));
        },
        CheckKind::Statistics,
        "row 41",
        true,
    ),
    (
        "largest numbers of another row",
        |store, _| {
            let set = set_of(store, "Largest");
            copy(store, STATES, &key(set, 50), &key(set, 51));
        },
        CheckKind::Statistics,
        "row 51",
        true,
    ),
    (
        "a lost state",
        |store, _| put(store, STATES, &key(set_of(store, "TopMean"), 4), None),
        CheckKind::Statistics,
        "row 4",
        true,
    ),
    (
        "a state of a deleted point",
        |store, _| {
            let set = set_of(store, "TopMean");
            copy(store, STATES, &key(set, 4), &key(set, 3));
        },
        CheckKind::Statistics,
        "row 3",
        true,
    ),
    (
        "a swapped list",
        |store, _| {
            let set = set_of(store, "Activation");
            copy(store, STATES, &key(set, 0), &key(set, 2));
        },
        CheckKind::Gates,
        "entry 2",
        true,
    ),
    (
        "a vector of a deleted point",
        |store, _| copy(store, VECTORS, &4_u32.to_be_bytes(), &3_u32.to_be_bytes()),
        CheckKind::Points,
        "3",
        false,
    ),
    (
        "a record of another point",
        |store, _| copy(store, POINTS, &4_u32.to_be_bytes(), &5_u32.to_be_bytes()),
        CheckKind::Points,
        "5",
        false,
    ),
    (
        "a lost record",
        |store, _| put(store, POINTS, &6_u32.to_be_bytes(), None),
        CheckKind::Points,
        "6",
        false,
    ),
    (
        "swapped codes under a right checksum",
        |_, file| swap_rows(file, 10, 64),
        CheckKind::Graph,
        "row",
        true,
    ),
    (
        "a node without links",
        |_, file| {
            let mut bytes = fs::read(file).expect("it is there");
            let at = 64 + 20 * 2;
            let place =
                |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) as usize;
            let (start, len) = (place(at), place(at + 8));
            bytes[start..start + len].fill(0xff);
            sum_anew(&mut bytes);
            fs::write(file, &bytes).expect("writable");
        },
        CheckKind::Graph,
        "graph-0-60",
        true,
    ),
];

fn answers(snapshot: &Snapshot) -> Vec<Vec<(u32, u32)>> {
    let query = Vector::new(&[1.0, 0.5, -0.5, 0.25, 0.0], snapshot.config().dim, snapshot.config().metric);
    let query = [query.expect("good")];
    let mut variants = vec![Variant::raw()];
    // A balance goes on from where it was, and is another each time.
    let is_balance = |it: &&dehub_index::Correction| it.info().name.as_str().starts_with("SN");
    let others = snapshot.corrections().filter(|it| !is_balance(it));
    variants.extend(others.map(|it| it.variant(&vec![true; it.columns().len()], 1.0)));
    let question = Question { vectors: &query, limit: 70, targets: &[] };
    let found = snapshot.scan(&question, &variants);
    found[0].iter().map(|answer| bits(&answer.best)).collect()
}

#[test]
fn each_planted_difference_is_found_and_what_is_derived_is_derived_again() {
    for (what, change, kind, place, is_derived) in PLANTED {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let at = folder.path().join("collections/x");
        let open = || Catalogue::new(folder.path()).get(&name("x")).expect("it opens");
        let made = Catalogue::new(folder.path()).create(&name("x"), config_with_graph(DIM, Metric::Cosine));
        let made = made.expect("free");
        fill(&made, 81);
        let (whole, right) = (verified(&made), answers(&made.snapshot()));
        assert!(whole.is_whole(), "{:#?}", whole.checks);
        drop(made);
        let file = fs::read_dir(&at).expect("a collection").flatten().map(|entry| entry.path());
        let file = file.filter(|path| path.extension().is_some_and(|it| it == "bin")).min().expect("a graph");
        with_store(folder.path(), |store| change(store, &file));
        let opened = open();
        let report = verified(&opened);
        let check = report.checks.iter().find(|check| check.kind == kind).expect("it was made");
        assert!(check.differences > 0, "{what}: {:#?}", report.checks);
        assert!(check.first.iter().any(|it| it.place.contains(place)), "{what}: {:#?}", check.first);
        let others = report.checks.iter().filter(|check| check.kind != kind);
        assert_eq!(others.map(|check| check.differences).sum::<u64>(), 0, "{what}: {:#?}", report.checks);
        opened.rebuild(&report).expect(what);
        assert_eq!(verified(&opened).is_whole(), is_derived, "{what}: {:#?}", verified(&opened).checks);
        let after = answers(&opened.snapshot());
        for (after, right) in after.iter().zip(&right).filter(|_| is_derived) {
            let rows = |list: &[(u32, u32)]| list.iter().map(|it| it.0).collect::<Vec<_>>();
            assert_eq!(rows(after), rows(right), "{what}");
        }
        drop(opened);
        assert_eq!(answers(&open().snapshot()), after, "{what}");
    }
}

#[test]
fn records_that_nothing_names_are_no_difference_and_go_with_a_rebuild_or_a_compaction() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    crate::damage::make(folder.path());
    let plant = || {
        with_store(folder.path(), |store| {
            (0..3).for_each(|row| put(store, STATES, &key(900, row), Some(&[1; 16])));
            put(store, STATES, &key(u32::MAX, 7), Some(b"x"));
        });
    };
    for compact in [false, true] {
        plant();
        let opened = Catalogue::new(folder.path()).get(&name("x")).expect("it opens");
        let report = verified(&opened);
        assert!(report.is_whole(), "{:#?}", report.checks);
        assert_eq!((report.orphans.records, report.orphans.bytes), (4, 3 * 24 + 9));
        let dropped = if compact {
            opened.compact().expect("compacted").orphans
        } else {
            opened.rebuild(&report).expect("rebuilt").orphans
        };
        assert_eq!(dropped.records, 4);
        assert_eq!(verified(&opened).orphans.records, 0);
    }
    let left = with_store(folder.path(), |store| store.get(STATES, &key(900, 1)).expect("readable"));
    assert_eq!(left, None);
}

#[test]
fn a_collection_is_verified_as_of_one_commit_while_it_is_written_to() {
    let home = Home::new(config_with_graph(DIM, Metric::Cosine));
    fill(home.collection(), 82);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut numbers = Numbers(83);
            while !stop.load(Ordering::Relaxed) {
                home.upsert(&points(numbers.below(50) as u64, &numbers.vectors(3, DIM)));
                home.delete([numbers.below(50) as u64]);
                home.add(&queries("queries", &numbers.vectors(1, DIM)));
                home.build_graph();
            }
        });
        for _ in 0..15 {
            let report = verified(home.collection());
            if !report.is_whole() {
                stop.store(true, Ordering::Relaxed);
                panic!("{:#?}", report.checks);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn compaction_gives_back_what_overwritten_points_take_and_changes_no_answer() {
    let mut home = Home::new(config_with_graph(DIM, Metric::Cosine));
    fill(home.collection(), 84);
    for round in 0..30 {
        home.upsert(&points(0, &Numbers(85 + round).vectors(400, DIM)));
    }
    home.build_graph();
    home.delete(0..30);
    let broken = home.path().join("graph-0-99999-f32.bin");
    home.reopen_after(|| fs::write(broken, [7; 5000]).expect("writable"));
    let held = home.snapshot();
    let before = answers(&held);
    assert_eq!((home.broken_files().len(), held.gallery().dead), (1, 30));
    let told = home.collection().compact().expect("compacted");
    assert_eq!((told.before.set_aside, told.after.set_aside, told.frozen), (5000, 0, 1));
    assert!(told.after.total() < told.before.total(), "{told:?}");
    assert_eq!((home.broken_files().len(), home.snapshot().gallery().dead), (0, 0));
    assert_eq!((answers(&home.snapshot()), answers(&held)), (before.clone(), before.clone()));
    assert!(verified(home.collection()).is_whole());
    drop(held);
    home.reopen();
    assert_eq!(answers(&home.snapshot()), before);
    let again = Arc::new(home.collection().compact().expect("compacted"));
    assert_eq!((again.frozen, again.orphans.records), (0, 0));
}

#[test]
fn a_record_that_memory_has_and_the_store_has_lost_is_found_in_an_open_collection() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    crate::damage::make(folder.path());
    let entry = [&[0][..], &2_u64.to_be_bytes()].concat();
    with_store(folder.path(), |store| put(store, IDS, &entry, None));
    let opened = Catalogue::new(folder.path()).get(&name("x")).expect("a point without an id is not there");
    let report = verified(&opened);
    let check = report.checks.iter().find(|check| check.kind == CheckKind::Points).expect("it was made");
    assert!(check.first.iter().any(|it| (it.family, &*it.place) == ("points", "2")), "{:#?}", check.first);
    assert!(check.first.iter().any(|it| (it.family, &*it.place) == ("vectors", "2")), "{:#?}", check.first);
    drop(opened);
    with_store(folder.path(), |store| {
        let low = br#"{"sequence":9,"next_row":4,"next_bank":0,"next_set":0}"#;
        put(store, META, b"counters", Some(low));
    });
    let opened = Catalogue::new(folder.path()).get(&name("x")).expect("it opens");
    let report = verified(&opened);
    let check = report.checks.iter().find(|check| check.kind == CheckKind::Counters).expect("it was made");
    let places: Vec<&str> = check.first.iter().map(|it| &*it.place).collect();
    assert_eq!(places, ["next_bank", "next_set"]);
}
