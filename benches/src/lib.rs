//! Data and collections for the benches: seeded, so that every run measures the same thing.
//!
//! Figures are compared within one run only; a bench that claims something measures what it claims
//! it against beside it.

mod curve;
mod runs;
mod served;
mod usage;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use dehub_format::{ReadOptions, open};
use dehub_index::{
    BankUpdate, Catalogue, Collection, CollectionConfig, EntryInput, FitInput, GraphConfig, Name, PointInput,
};
use dehub_normalize::BankKind;
use dehub_vector::{Dim, Metric, Vector};

pub use curve::{Curve, Mark};
pub use runs::append_run;
pub use served::{Connection, Reply, Served, program};
pub use usage::{peak_bytes, peak_bytes_of, process_cpu_seconds, resident_bytes, thread_cpu_seconds};

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

    /// As many numbers in [-1, 1).
    pub fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.centred()).collect()
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

    /// Unit vectors around `centres`, at distances that differ by a factor of up to `(1 + h)/(1 − h)` for a
    /// hubness of `h` from 0 to below 1: those near their centre are near many others.
    pub fn clustered(&mut self, count: usize, centres: &[Vector], hubness: f32) -> Vec<Vector> {
        let mut vector = || {
            let drawn = usize::try_from(self.next() % centres.len() as u64).unwrap_or_default();
            let centre = centres[drawn].as_slice();
            let dim = Dim::new(centre.len()).expect("the dimension of a vector");
            #[expect(clippy::cast_precision_loss, reason = "a dimension is below 2^24")]
            let spread = (1.0 + hubness * self.centred()) * (3.0 / centre.len() as f32).sqrt();
            let numbers: Vec<f32> = centre.iter().map(|&number| number + spread * self.centred()).collect();
            Vector::new(&numbers, dim, Metric::Cosine).expect("finite and not zero")
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
        let bed = Bed::without_graph(points, bank, if with_graph { 0 } else { usize::MAX });
        if with_graph {
            bed.build_graph();
        }
        bed
    }

    /// The same whose graph is still to be built, if it has more than `threshold` points.
    pub fn without_graph(points: &[Vector], bank: &[Vector], threshold: usize) -> Bed {
        Bed::with(points, bank, GraphConfig { full_scan_threshold: threshold, ..GraphConfig::default() })
    }

    /// The same whose graph is to be built as it is configured.
    pub fn with(points: &[Vector], bank: &[Vector], graph: GraphConfig) -> Bed {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dim = points[0].as_slice().len();
        let config = CollectionConfig::new(dim, Metric::Cosine, graph).expect("valid");
        let collection = Catalogue::new(folder.path()).create(&name("bench"), config).expect("a new folder");
        for (batch, first) in points.chunks(BATCH).zip((0..).step_by(BATCH)) {
            let point = |(vector, id): (&Vector, u64)| PointInput {
                id: id.into(),
                vector: vector.as_slice().to_vec().into(),
                named: Vec::new(),
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

    /// Builds the graph if it is due.
    pub fn build_graph(&self) {
        self.collection.build_graph_if_due().expect("a writable folder");
    }

    /// Fits a correction named `c`.
    pub fn fit(&self, method: &str) {
        self.fit_as("c", method);
    }

    /// Fits a correction under a name.
    pub fn fit_as(&self, correction: &str, method: &str) {
        let method = method.parse().expect("a method");
        let input =
            FitInput { name: name(correction), method, query_bank: Some(name("b")), gallery_bank: None };
        self.collection.fit(&[input]).expect("a bank with entries");
    }
}

/// The folder an environment variable names.
pub fn named_folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

/// The vectors of a file, each scaled to length one.
///
/// # Errors
/// If the file cannot be read, or holds a vector that has no direction.
pub fn read_unit(path: &Path) -> Result<Vec<Vector>, Box<dyn Error>> {
    let mut vectors = Vec::new();
    for batch in open(path, ReadOptions::default())? {
        let rows = batch?.vectors;
        let dim = Dim::new(rows.dim())?;
        for row in rows.as_slice().chunks_exact(rows.dim()) {
            vectors.push(Vector::new(row, dim, Metric::Cosine)?);
        }
    }
    Ok(vectors)
}

/// The seconds that some work takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// The upper median.
///
/// # Panics
/// If there is no number.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn name(text: &str) -> Name {
    text.parse().expect("a valid name")
}
