//! A store behaves like one ordered map per family, however often it is reopened.

use std::collections::BTreeMap;
use std::ops::Bound;

use dehub_store::{Batch, Durability, Family, Store, prefix_end};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use crate::support::{FAMILIES, Medium, Outcome, Rows, media, rows};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Model = [Map; 2];

const CASES: u32 = 48;
const STEPS_MAX: usize = 16;

#[derive(Debug, Clone)]
enum Step {
    Commit { changes: Vec<Change>, durability: Durability },
    Reopen,
    Compact,
    Scan { family: usize, from: Vec<u8>, to: Option<Vec<u8>> },
    ScanPrefix { family: usize, prefix: Vec<u8> },
}

#[derive(Debug, Clone)]
enum Change {
    Put { family: usize, key: Vec<u8>, value: Vec<u8> },
    Delete { family: usize, key: Vec<u8> },
    DeleteRange { family: usize, from: Vec<u8>, to: Vec<u8> },
}

#[test]
fn store_behaves_like_a_map_per_family_across_reopening() -> Outcome {
    let config =
        Config { cases: CASES, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&vec(step(), 1..=STEPS_MAX), |steps| {
        media()?.iter().try_for_each(|medium| run(medium, &steps))
    })?;
    Ok(())
}

/// Few bytes and short keys, so that steps meet; the extreme bytes, because bounds go wrong there.
fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(select(vec![0x00, 0x01, b'a', 0xfe, 0xff]), 0..=3)
}

fn family() -> impl Strategy<Value = usize> {
    0..FAMILIES.len()
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (family(), key(), vec(any::<u8>(), 0..40))
            .prop_map(|(family, key, value)| Change::Put { family, key, value }),
        2 => (family(), key()).prop_map(|(family, key)| Change::Delete { family, key }),
        1 => (family(), key(), key()).prop_map(|(family, from, to)| Change::DeleteRange { family, from, to }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let durability = select(vec![Durability::Strict, Durability::Relaxed]);
    prop_oneof![
        8 => (vec(change(), 0..12), durability)
            .prop_map(|(changes, durability)| Step::Commit { changes, durability }),
        2 => Just(Step::Reopen),
        1 => Just(Step::Compact),
        3 => (family(), key(), proptest::option::of(key()))
            .prop_map(|(family, from, to)| Step::Scan { family, from, to }),
        3 => (family(), key()).prop_map(|(family, prefix)| Step::ScanPrefix { family, prefix }),
    ]
}

fn run(medium: &Medium, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut store = medium.create().map_err(failed)?;
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Commit { changes, durability } => {
                store.commit(batch(changes), *durability).map_err(failed)?;
                changes.iter().for_each(|change| apply(&mut model, change));
            }
            Step::Reopen => {
                drop(store);
                store = medium.open().map_err(failed)?;
            }
            Step::Compact => {
                store.compact().map_err(failed)?;
            }
            Step::Scan { family, from, to } => {
                let found = rows(store.scan(FAMILIES[*family], from, to.as_deref())).map_err(failed)?;
                prop_assert_eq!(found, range(&model[*family], from, to.as_deref()));
            }
            Step::ScanPrefix { family, prefix } => {
                let found = rows(store.scan_prefix(FAMILIES[*family], prefix)).map_err(failed)?;
                let mut wanted = pairs(&model[*family]);
                wanted.retain(|(key, _)| key.starts_with(prefix));
                prop_assert_eq!(found, wanted);
            }
        }
        compare(&store, &model)?;
    }
    Ok(())
}

fn batch(changes: &[Change]) -> Batch {
    let mut batch = Batch::default();
    for change in changes {
        match change {
            Change::Put { family, key, value } => batch.put(FAMILIES[*family], key, value),
            Change::Delete { family, key } => batch.delete(FAMILIES[*family], key),
            Change::DeleteRange { family, from, to } => batch.delete_range(FAMILIES[*family], from, to),
        }
    }
    batch
}

fn apply(model: &mut Model, change: &Change) {
    match change {
        Change::Put { family, key, value } => {
            model[*family].insert(key.clone(), value.clone());
        }
        Change::Delete { family, key } => {
            model[*family].remove(key);
        }
        Change::DeleteRange { family, from, to } => model[*family].retain(|key, _| key < from || key >= to),
    }
}

/// Everything the store holds, by scan, by single and by joint lookup, present and absent keys.
fn compare(store: &Store, model: &Model) -> Result<(), TestCaseError> {
    for (family, map) in FAMILIES.into_iter().zip(model) {
        prop_assert_eq!(rows(store.scan(family, b"", None)).map_err(failed)?, pairs(map));
        let keys: Vec<Vec<u8>> = map.keys().cloned().chain([b"a\xff".to_vec(), b"absent".to_vec()]).collect();
        let wanted: Vec<Option<Vec<u8>>> = keys.iter().map(|key| map.get(key).cloned()).collect();
        prop_assert_eq!(store.get_many(family, &keys).map_err(failed)?, wanted.clone());
        prop_assert_eq!(each(store, family, &keys)?, wanted);
    }
    Ok(())
}

fn each(store: &Store, family: Family, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, TestCaseError> {
    keys.iter().map(|key| store.get(family, key).map_err(failed)).collect()
}

fn pairs(map: &Map) -> Rows {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn range(map: &Map, from: &[u8], to: Option<&[u8]>) -> Rows {
    let mut found = pairs(map);
    found.retain(|(key, _)| key.as_slice() >= from && to.is_none_or(|to| key.as_slice() < to));
    found
}

fn failed(error: impl std::error::Error) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

#[test]
fn prefix_end_is_the_least_key_above_all_keys_with_the_prefix() -> Outcome {
    let config =
        Config { cases: 512, rng_seed: RngSeed::Fixed(2), failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&(key(), key()), |(prefix, other)| {
        let end = prefix_end(&prefix);
        let below = end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let inside = (Bound::Included(&prefix), below);
        prop_assert_eq!(std::ops::RangeBounds::contains(&inside, &other), other.starts_with(&prefix));
        Ok(())
    })?;
    Ok(())
}
