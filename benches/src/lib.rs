//! Data and collections for the benches: seeded, so that every run measures the same thing.
//!
//! Figures are compared within one run only; a bench that claims something measures what it claims
//! it against beside it.

use std::sync::Arc;

use dehub_index::{
    BankUpdate, Catalogue, Collection, CollectionConfig, EntryInput, FitInput, GraphConfig, Name, PointInput,
};
use dehub_normalize::BankKind;
use dehub_vector::{Dim, Metric, Vector};

/// Points written at once.
const BATCH: usize = 4096;

/// A small generator of the SplitMix64 family (Steele, Lea & Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in [-1, 1).
    #[expect(clippy::cast_precision_loss, reason = "24 bits fit a 32-bit float")]
    fn centred(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Unit vectors around a common mean, as those of text encoders are: that is what makes hubs.
    pub fn cone(&mut self, count: usize, dim: usize) -> Vec<Vector> {
        let dim_checked = Dim::new(dim).expect("a bench uses a valid dimension");
        let mut vector = || {
            let numbers: Vec<f32> =
                (0..dim).map(|place| self.centred() + if place < 8 { 0.6 } else { 0.0 }).collect();
            Vector::new(&numbers, dim_checked, Metric::Cosine).expect("finite and not zero")
        };
        (0..count).map(|_| vector()).collect()
    }
}

/// A collection in a folder that goes away with it.
pub struct Bed {
    /// The collection.
    pub collection: Arc<Collection>,
    _folder: tempfile::TempDir,
}

impl Bed {
    /// A collection of `points`, with a bank `b` of `bank`, and a graph if asked for.
    pub fn new(points: &[Vector], bank: &[Vector], with_graph: bool) -> Bed {
        let bed = Bed::with_graph_due(points, bank, with_graph);
        if with_graph {
            bed.collection.build_graph_if_due().expect("a writable folder");
        }
        bed
    }

    /// The same before the graph is built.
    pub fn with_graph_due(points: &[Vector], bank: &[Vector], with_graph: bool) -> Bed {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dim = points[0].as_slice().len();
        let threshold = if with_graph { 0 } else { usize::MAX };
        let graph = GraphConfig { full_scan_threshold: threshold, ..GraphConfig::default() };
        let config = CollectionConfig::new(dim, Metric::Cosine, graph).expect("valid");
        let collection = Catalogue::new(folder.path()).create(&name("bench"), config).expect("a new folder");
        for (batch, first) in points.chunks(BATCH).zip((0..).step_by(BATCH)) {
            let point = |(vector, id): (&Vector, u64)| PointInput {
                id: id.into(),
                vector: vector.as_slice().to_vec(),
                payload: None,
                text: None,
            };
            let batch: Vec<_> = batch.iter().zip(first..).map(point).collect();
            collection.upsert(&batch).expect("valid points");
        }
        let entry = |vector: &Vector| EntryInput::new(None, vector.as_slice().to_vec());
        let entries = bank.iter().map(entry).collect();
        let update = BankUpdate { name: name("b"), kind: BankKind::Query, entries, defer: false };
        collection.add_to_bank(&update).expect("valid entries");
        Bed { collection, _folder: folder }
    }

    /// Fits a correction named as its method.
    pub fn fit(&self, method: &str) {
        let method = method.parse().expect("a method");
        let input = FitInput { name: name("c"), method, query_bank: Some(name("b")), gallery_bank: None };
        self.collection.fit(&[input]).expect("a bank with entries");
    }
}

fn name(text: &str) -> Name {
    text.parse().expect("a valid name")
}
