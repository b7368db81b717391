//! Records that are not what was written: opening or reading names them, and never panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use dehub_index::{Blame, Catalogue, CatalogueError, OpenError, Question, Variant};
use dehub_store::{Batch, Durability, Family, Store};
use dehub_vector::{Metric, Vector};

use crate::dump::dump;
use crate::made::{Numbers, config, fit, gallery, name, points, queries, store_folder};

pub(crate) const META: Family = Family::new("meta");
pub(crate) const IDS: Family = Family::new("ids");
pub(crate) const POINTS: Family = Family::new("points");
pub(crate) const VECTORS: Family = Family::new("vectors");
const BANKS: Family = Family::new("banks");
const ENTRIES: Family = Family::new("entries");
const CORRECTIONS: Family = Family::new("corrections");
pub(crate) const SETS: Family = Family::new("sets");
pub(crate) const STATES: Family = Family::new("states");
const POTENTIALS: Family = Family::new("potentials");
const WEIGHTS: Family = Family::new("weights");
const FAMILIES: [Family; 11] =
    [META, IDS, POINTS, VECTORS, BANKS, ENTRIES, CORRECTIONS, SETS, STATES, POTENTIALS, WEIGHTS];

const DIM: usize = 3;

/// A collection of everything there is, closed.
pub(crate) fn make(folder: &Path) {
    let mut numbers = Numbers(1);
    let made = Catalogue::new(folder).create(&name("x"), config(DIM, Metric::Cosine)).expect("free");
    made.upsert(&points(0, &numbers.vectors(4, DIM))).expect("good points");
    made.add_to_bank(&queries("queries", &numbers.vectors(3, DIM))).expect("good entries");
    made.add_to_bank(&gallery("gallery", 1, &numbers.vectors(2, DIM))).expect("good entries");
    let labels =
        ["NNN(alpha=0.5,k=2)", "DualDIS(b1=20,b2=3,k=1)", "SN(tau=0.1,n=3)", "DisSimLocal(k=2)", "ZScore"];
    made.fit(&labels.map(fit)).expect("a fit");
    made.set_prior(&name("p"), &[(1.into(), 0.5), (2.into(), -1.0)]).expect("good values");
}

pub(crate) fn with_store<T>(folder: &Path, change: impl FnOnce(&Store) -> T) -> T {
    change(&Store::open(&store_folder(&folder.join("collections/x")), &FAMILIES).expect("a closed store"))
}

pub(crate) fn put(store: &Store, family: Family, key: &[u8], value: Option<&[u8]>) {
    let mut batch = Batch::default();
    match value {
        Some(value) => batch.put(family, key, value),
        None => batch.delete(family, key),
    }
    store.commit(batch, Durability::Relaxed).expect("writable");
}

type Records = Vec<(Family, Vec<u8>, Vec<u8>)>;

fn records(store: &Store) -> Records {
    let rows = |family| store.scan(family, b"", None).map(move |row| (family, row.expect("whole")));
    FAMILIES
        .into_iter()
        .flat_map(rows)
        .map(|(family, (key, value))| (family, key.into(), value.into()))
        .collect()
}

/// Opens the collection and reads all of it, as far as it goes.
fn read_all(folder: &Path) -> Result<(), Arc<OpenError>> {
    let collection = match Catalogue::new(folder).get(&name("x")) {
        Ok(collection) => collection,
        Err(CatalogueError::Open(error)) => return Err(error),
        Err(other) => panic!("the collection is there: {other}"),
    };
    let snapshot = collection.snapshot();
    let rows: Vec<u32> = snapshot.rows().collect();
    if snapshot.points(&rows).is_err() {
        return Ok(());
    }
    let query = Vector::stored(&[1.0, 0.0, 0.0]);
    for correction in snapshot.corrections() {
        for open in correction.openings() {
            let variants = [Variant::raw(), correction.variant(&open, 1.0)];
            let question = Question { vectors: std::slice::from_ref(&query), limit: 4, targets: &[] };
            let answers = snapshot.scan(&question, &variants);
            assert!(answers[0].iter().all(|answer| answer.best.iter().all(|best| best.score.is_finite())));
        }
    }
    Ok(())
}

#[test]
fn a_damaged_record_is_named_when_the_collection_is_opened() {
    type Case<'a> = (Family, &'a [u8], Option<&'a [u8]>, &'a str);
    let cases: [Case; 18] = [
        (META, b"config", None, "`meta` is damaged: there is no configuration"),
        (META, b"config", Some(b"{}"), "`meta` is damaged: missing field"),
        (META, b"counters", Some(b"{"), "`meta` is damaged"),
        (META, b"counters", None, "`vectors` is damaged: row 0 was never given"),
        (IDS, b"\x01new", Some(&[0, 0, 0, 9]), "`ids` is damaged: row 9 has no vector"),
        (IDS, b"\x01new", Some(&[0, 0, 0, 1]), "`ids` is damaged: row 1 has no vector or two ids"),
        (IDS, b"\x01new", Some(&[0]), "`ids` is damaged: 1 bytes for a number"),
        (VECTORS, &[0, 0, 0, 2], None, "`ids` is damaged: row 2 has no vector"),
        (VECTORS, &[0, 0, 0, 2], Some(&[0; 13]), "`vectors` is damaged: 13 bytes for a vector of 3"),
        (VECTORS, &[0, 0, 0, 2], Some(&[0xff; 12]), "`vectors` is damaged"),
        (BANKS, b"queries", None, "`sets` is damaged: set 2 is over bank `queries`, which is not there"),
        (
            ENTRIES,
            &[0, 0, 0, 0, 0, 0, 0, 1],
            None,
            "`entries` is damaged: bank `queries` has 2 entries and another hash",
        ),
        (ENTRIES, &[0, 0, 0, 0, 0, 0, 0, 2], None, "`entries` is damaged: bank `queries` has 2 entries"),
        (
            POTENTIALS,
            &[0, 0, 0, 7, 0, 0, 0, 1],
            None,
            "`potentials` is damaged: set 7 lacks a potential before",
        ),
        (
            POTENTIALS,
            &[0, 0, 0, 7, 0, 0, 0, 2],
            None,
            "`potentials` is damaged: set 7 has 2 potentials for 3",
        ),
        (CORRECTIONS, b"a b", Some(b"{}"), "`corrections` is damaged"),
        (SETS, &[0, 0, 0, 0], None, "`corrections` is damaged: correction"),
        (
            STATES,
            &[0, 0, 0, 0, 0, 0, 0, 9],
            Some(&[0; 16]),
            "`states` is damaged: set 0 has a state for row 9",
        ),
    ];
    let folder = tempfile::tempdir().expect("a folder for the test");
    make(folder.path());
    for (family, key, value, says) in cases {
        let before = with_store(folder.path(), |store| {
            let before = store.get(family, key).expect("readable");
            put(store, family, key, value);
            before
        });
        let error = read_all(folder.path()).expect_err(says);
        assert!(error.to_string().contains(says), "wanted `{says}`: {error}");
        assert_eq!(error.blame(), Blame::Environment, "{error}");
        with_store(folder.path(), |store| put(store, family, key, before.as_deref()));
    }
    read_all(folder.path()).expect("whole again");
}

#[test]
fn another_format_is_refused_by_number_and_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    make(folder.path());
    let mut current = "\"format\":5".to_owned();
    for (format, says) in [(6, "update dehub"), (1, "make the collection anew from its data")] {
        with_store(folder.path(), |store| {
            let config = store.get(META, b"config").expect("readable").expect("there");
            let other = format!("\"format\":{format}");
            let config = String::from_utf8(config).expect("JSON").replace(&current, &other);
            put(store, META, b"config", Some(config.as_bytes()));
            current = other;
        });
        let error = read_all(folder.path()).expect_err(says);
        assert!(
            matches!(*error, OpenError::Format { found, supported: 5, .. } if found == format),
            "{error}"
        );
        assert!(error.to_string().ends_with(says), "{error}");
    }
}

/// Every record in turn with a byte changed, cut off or gone. What no reader can tell from a right
/// record is read; nothing panics and no score is infinite.
#[test]
fn no_change_to_any_record_is_a_panic() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    make(folder.path());
    let mut numbers = Numbers(2);
    for (at, (family, key, value)) in with_store(folder.path(), records).into_iter().enumerate() {
        for step in [0, 1 + at % 2] {
            let mut damaged = value.clone();
            match (step, damaged.is_empty()) {
                (1, false) => _ = damaged.pop(),
                (0, false) => {
                    let place = numbers.below(damaged.len());
                    damaged[place] = [b'e', b'9', b'-', 0x7f, 0xff][numbers.below(5)];
                }
                _ => damaged.clear(),
            }
            with_store(folder.path(), |store| put(store, family, &key, Some(&damaged)));
            let outcome = catch_unwind(AssertUnwindSafe(|| read_all(folder.path())));
            let told = || format!("{family} {key:?}: {}", String::from_utf8_lossy(&damaged));
            if let Err(error) = outcome.unwrap_or_else(|_| panic!("a panic after {}", told())) {
                assert_eq!(error.blame(), Blame::Environment, "{}", told());
            }
            with_store(folder.path(), |store| put(store, family, &key, Some(&value)));
        }
    }
    let collection = Catalogue::new(folder.path()).get(&name("x")).expect("whole again");
    assert_eq!(dump(&collection.snapshot()).sequence, 5);
}
