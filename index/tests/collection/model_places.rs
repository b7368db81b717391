//! A collection is the maps and sums it stands for, however it is written, closed and cut off, and wherever its store
//! is.

use std::collections::BTreeMap;
use std::sync::Arc;

use dehub_index::{Collection, CollectionConfig, Durability, Name, OpenError};
use dehub_store::{Faults, MemoryDisk, Store};
use dehub_vector::Metric;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use tempfile::TempDir;

use crate::made::{config, config_with_graph};
use crate::model::{DIM, Model, Step, compare, perform, script};

/// Where a collection's store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Folder,
    Memory,
}

/// A collection somewhere, or its remains.
pub(crate) struct Site {
    folder: TempDir,
    pub(crate) disk: Option<MemoryDisk>,
    faults: Faults,
    open: Option<Arc<Collection>>,
}

impl Site {
    /// A place without a collection, on whose store `faults` will act.
    pub(crate) fn new(place: Place, faults: &Faults) -> Site {
        let disk = match place {
            Place::Folder => None,
            Place::Memory => Some(MemoryDisk::new()),
        };
        let folder = tempfile::tempdir().expect("a folder for the test");
        Site { folder, disk, faults: faults.clone(), open: None }
    }

    pub(crate) fn create(&mut self, config: CollectionConfig) -> Result<(), OpenError> {
        let store = self.new_store()?;
        self.open = Some(Arc::new(Collection::create_with(self.folder.path(), store, config)?));
        Ok(())
    }

    pub(crate) fn create_named(
        &mut self,
        spaces: &BTreeMap<Name, CollectionConfig>,
    ) -> Result<(), OpenError> {
        let store = self.new_store()?;
        let made = Collection::create_with_spaces(self.folder.path(), store, spaces, Durability::Strict);
        self.open = Some(Arc::new(made?));
        Ok(())
    }

    fn new_store(&self) -> Result<Store, OpenError> {
        let families = Collection::families();
        let store = match &self.disk {
            None => Store::create(&self.folder.path().join("store"), families),
            Some(disk) => Store::create_in(disk, families),
        };
        Ok(store?.with_faults(&self.faults))
    }

    pub(crate) fn collection(&self) -> &Arc<Collection> {
        self.open.as_ref().expect("it is open")
    }

    /// Closes it in good order, and opens it.
    pub(crate) fn reopen(&mut self) -> Result<(), OpenError> {
        self.open = None;
        let families = Collection::families();
        let store = match &self.disk {
            None => Store::open(&self.folder.path().join("store"), families),
            Some(disk) => Store::open_in(disk, families),
        };
        let store = store?.with_faults(&self.faults);
        self.open = Some(Arc::new(Collection::open_with(self.folder.path(), store)?));
        Ok(())
    }

    /// Cuts the power if it is on a disk that has such a thing, and opens it.
    pub(crate) fn cut_power(&mut self, keep: usize) -> Result<(), OpenError> {
        if let Some(disk) = &self.disk {
            disk.power_cut(keep);
        }
        self.reopen()
    }
}

/// The graph is for all points from the first one on, or never made.
pub(crate) fn configured(has_graph: bool) -> CollectionConfig {
    if has_graph { config_with_graph(DIM, Metric::Dot) } else { config(DIM, Metric::Dot) }
}

/// A collection and what it stands for, after each of its commits.
struct Double {
    site: Site,
    /// How many commits the disk had, and the model.
    history: Vec<(u64, Model)>,
    /// Commits the disk had when the collection was opened.
    earlier: u64,
}

impl Double {
    fn new(place: Place, config: CollectionConfig) -> Double {
        let mut site = Site::new(place, &Faults::none());
        site.create(config).expect("a new collection");
        let commits = site.collection().writer().commits;
        Double { site, history: vec![(commits, Model::default())], earlier: 0 }
    }

    fn commits(&self) -> u64 {
        self.earlier + self.site.collection().writer().commits
    }

    fn model(&self) -> &Model {
        &self.history.last().expect("it begins with one").1
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let mut model = self.model().clone();
        let wanted = model.take(step);
        if let Step::CutPower(keep) = step {
            return self.cut_power(*keep);
        }
        if let Step::Reopen = step {
            self.earlier = self.commits();
            self.site.reopen().expect("it opens again");
        } else {
            let outcome = perform(self.site.collection(), self.model(), step);
            prop_assert_eq!(outcome.is_ok(), wanted.is_ok(), "{:?}", outcome);
            if let (Ok(found), Ok(wanted)) = (outcome, wanted) {
                prop_assert_eq!(found, wanted);
            }
        }
        if model.durability == Durability::Strict {
            let unsynced = self.site.disk.as_ref().map_or(0, MemoryDisk::unsynced);
            prop_assert_eq!(unsynced, 0, "what is acknowledged is synced");
        }
        self.history.push((self.commits(), model));
        Ok(())
    }

    /// What is left is what the newest write left that lost no commit.
    fn cut_power(&mut self, keep: usize) -> Result<(), TestCaseError> {
        let unsynced = self.site.disk.as_ref().map_or(0, MemoryDisk::unsynced);
        let left = self.commits() - (unsynced - keep.min(unsynced)) as u64;
        self.site.cut_power(keep).expect("it opens again");
        self.earlier = left;
        while self.history.last().is_some_and(|(commits, _)| *commits > left) {
            self.history.pop();
        }
        prop_assert!(!self.history.is_empty(), "a collection is durable when it is made");
        Ok(())
    }
}

fn run(place: Place, has_graph: bool, steps: &[Step], query: &[f32]) -> Result<(), TestCaseError> {
    let mut double = Double::new(place, configured(has_graph));
    for step in steps {
        double.take(step)?;
        let snapshot = double.site.collection().snapshot();
        compare(&snapshot, double.model(), query)?;
        prop_assert_eq!(snapshot.config().durability, double.model().durability);
    }
    let report = double.site.collection().verify(&mut |_| ());
    prop_assert!(report.is_whole(), "{:#?}", report.checks);
    Ok(())
}

fn check(place: Place, has_graph: bool, cases: u32, seed: u64) {
    let config =
        Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let outcome =
        TestRunner::new(config).run(&script(), |(steps, query)| run(place, has_graph, &steps, &query));
    if let Err(error) = outcome {
        panic!("{place:?}, graph {has_graph}: {error}");
    }
}

#[test]
fn in_a_folder_a_collection_is_the_maps_and_sums_it_stands_for() {
    check(Place::Folder, false, 60, 1);
}

#[test]
fn in_a_folder_a_collection_with_a_graph_is_the_maps_and_sums_it_stands_for() {
    check(Place::Folder, true, 60, 2);
}

#[test]
fn in_memory_a_collection_is_the_maps_and_sums_it_stands_for() {
    check(Place::Memory, false, 600, 3);
}

#[test]
fn in_memory_a_collection_is_still_what_it_stands_for() {
    check(Place::Memory, false, 600, 4);
}

#[test]
fn in_memory_a_collection_with_a_graph_is_the_maps_and_sums_it_stands_for() {
    check(Place::Memory, true, 500, 5);
}

#[test]
fn in_memory_a_collection_with_a_graph_is_still_what_it_stands_for() {
    check(Place::Memory, true, 500, 6);
}
