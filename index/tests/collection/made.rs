//! Collections in folders that vanish, and numbers from a seed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dehub_index::{
    BankUpdate, Catalogue, Collection, CollectionConfig, EntryInput, FitInput, GraphConfig, Name, PointInput,
    Snapshot,
};
use dehub_normalize::BankKind;
use dehub_vector::{Metric, PointId, Vector};
use tempfile::TempDir;

/// Numbers that look random and are the same for the same seed (SplitMix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.bits() % end as u64).expect("below a usize")
    }

    /// A number from −1 to 1.
    pub(crate) fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn vector(&mut self, dim: usize) -> Vec<f32> {
        // Off the centre, so that there are hubs and antihubs.
        (0..dim).map(|_| self.signed() + 0.25).collect()
    }

    pub(crate) fn vectors(&mut self, count: usize, dim: usize) -> Vec<Vec<f32>> {
        (0..count).map(|_| self.vector(dim)).collect()
    }

    /// `0..len` in some order.
    pub(crate) fn order(&mut self, len: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        (1..len).rev().for_each(|last| order.swap(last, self.below(last + 1)));
        order
    }
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a good name")
}

pub(crate) fn point(id: impl Into<PointId>, vector: &[f32]) -> PointInput {
    PointInput { id: id.into(), vector: vector.to_vec().into(), named: Vec::new(), payload: None, text: None }
}

/// Points with the ids from `first` on.
pub(crate) fn points(first: u64, vectors: &[Vec<f32>]) -> Vec<PointInput> {
    (first..).zip(vectors).map(|(id, vector)| point(id, vector)).collect()
}

pub(crate) fn ids(ids: impl IntoIterator<Item = u64>) -> Vec<PointId> {
    ids.into_iter().map(PointId::Number).collect()
}

/// An update of a query bank, whose entries have no ids.
pub(crate) fn queries(bank: &str, vectors: &[Vec<f32>]) -> BankUpdate {
    let entries = vectors.iter().map(|vector| EntryInput::new(None, vector.clone())).collect();
    BankUpdate { name: name(bank), kind: BankKind::Query, entries, defer: false }
}

/// An update of a gallery bank, whose entries have the ids from `first` on.
pub(crate) fn gallery(bank: &str, first: u64, vectors: &[Vec<f32>]) -> BankUpdate {
    let entry = |(id, vector): (u64, &Vec<f32>)| EntryInput::new(Some(id.into()), vector.clone());
    BankUpdate {
        name: name(bank),
        kind: BankKind::Gallery,
        entries: (first..).zip(vectors).map(entry).collect(),
        defer: false,
    }
}

/// A correction named as its label, from the banks `queries` and `gallery`.
pub(crate) fn fit(label: &str) -> FitInput {
    let method = label.parse().expect("a label");
    FitInput {
        name: name(label),
        method,
        query_bank: Some(name("queries")),
        gallery_bank: Some(name("gallery")),
    }
}

/// The folder of a collection's store.
pub(crate) fn store_folder(collection: &Path) -> PathBuf {
    let folders = std::fs::read_dir(collection).expect("a collection").flatten().map(|entry| entry.path());
    let is_store = |path: &PathBuf| path.is_dir();
    folders.filter(is_store).min().expect("a store")
}

pub(crate) fn config(dim: usize, metric: Metric) -> CollectionConfig {
    CollectionConfig::new(dim, metric, GraphConfig::default()).expect("a good configuration")
}

/// A configuration with a graph from the first point on.
pub(crate) fn config_with_graph(dim: usize, metric: Metric) -> CollectionConfig {
    let graph = GraphConfig { full_scan_threshold: 0, ..GraphConfig::default() };
    CollectionConfig::new(dim, metric, graph).expect("a good configuration")
}

/// One collection in a folder of its own.
pub(crate) struct Home {
    folder: TempDir,
    open: Option<Arc<Collection>>,
}

const ONLY: &str = "only";

impl Home {
    pub(crate) fn new(config: CollectionConfig) -> Home {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let open = Catalogue::new(folder.path()).create(&name(ONLY), config).expect("a new collection");
        Home { folder, open: Some(open) }
    }

    pub(crate) fn collection(&self) -> &Collection {
        self.open.as_ref().expect("open but for a moment in `reopen`")
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.collection().snapshot()
    }

    /// Closes the collection and opens it again. No snapshot may be held.
    pub(crate) fn reopen(&mut self) {
        self.reopen_after(|| ());
    }

    /// The same, with something done in between.
    pub(crate) fn reopen_after(&mut self, change: impl FnOnce()) {
        let closed = Arc::into_inner(self.open.take().expect("it is open"));
        drop(closed.expect("nobody else holds it"));
        change();
        self.open = Some(Catalogue::new(self.folder.path()).get(&name(ONLY)).expect("it opens again"));
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("collections").join(ONLY)
    }

    /// The files of its segments, in the order of their names.
    pub(crate) fn graph_files(&self) -> Vec<PathBuf> {
        self.files(|name| name.starts_with("graph") && !name.ends_with(".broken"))
    }

    /// Those that were set aside.
    pub(crate) fn broken_files(&self) -> Vec<PathBuf> {
        self.files(|name| name.ends_with(".broken"))
    }

    fn files(&self, is_it: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path()).expect("a collection").flatten();
        let is_it = |entry: &std::fs::DirEntry| is_it(&entry.file_name().to_string_lossy());
        let mut files: Vec<PathBuf> = entries.filter(is_it).map(|entry| entry.path()).collect();
        files.sort();
        files
    }

    /// The file of its only segment.
    pub(crate) fn graph_file(&self) -> PathBuf {
        let mut files = self.graph_files();
        assert_eq!(files.len(), 1, "one segment: {files:?}");
        files.remove(0)
    }

    pub(crate) fn query(&self, vector: &[f32]) -> Vector {
        let snapshot = self.snapshot();
        Vector::new(vector, snapshot.config().dim, snapshot.config().metric).expect("a good vector")
    }

    pub(crate) fn upsert(&self, points: &[PointInput]) {
        self.collection().upsert(points).expect("good points");
    }

    pub(crate) fn delete(&self, gone: impl IntoIterator<Item = u64>) {
        self.collection().delete(&ids(gone)).expect("a delete");
    }

    pub(crate) fn add(&self, update: &BankUpdate) {
        self.collection().add_to_bank(update).expect("good entries");
    }

    pub(crate) fn fit(&self, labels: &[&str]) {
        let inputs: Vec<FitInput> = labels.iter().map(|label| fit(label)).collect();
        self.collection().fit(&inputs).expect("a fit");
    }

    pub(crate) fn build_graph(&self) {
        self.collection().build_graph_if_due().expect("a graph");
    }
}
