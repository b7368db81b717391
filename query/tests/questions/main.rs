//! Questions on small collections whose answers can be worked out by hand or by brute force.

mod answers;
mod calibrations;
mod drift;
mod examples;
mod filter_texts;
mod filtered_recall;
mod filters;
mod laws;
mod matrix;
mod measures;
mod pairs;
mod payloads;
mod plans;
mod priors;
mod random_filters;
mod requests;
mod scored;
mod staleness;
mod texts;
mod tuning;
mod words;

use std::sync::Arc;

use dehub_index::{
    BankUpdate, Catalogue, Collection, CollectionConfig, EntryInput, FitInput, GraphConfig, Name, PointInput,
};
use dehub_normalize::BankKind;
use dehub_query::{Query, Ranking, Search, Settings, Source};
use dehub_vector::{Metric, PointId};

/// A collection in a folder that goes away with it.
pub(crate) struct Bed {
    pub(crate) collection: Arc<Collection>,
    _folder: tempfile::TempDir,
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a valid name")
}

/// Numbers in [-1, 1) from a seed (SplitMix64).
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        #[expect(clippy::cast_precision_loss, reason = "24 bits fit a 32-bit float")]
        let number = ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0;
        number
    };
    (0..count).map(|_| next()).collect()
}

impl Bed {
    /// Points `0 …`, a query bank `q`, and the gallery as bank `g`.
    pub(crate) fn new(metric: Metric, dim: usize, points: &[f32], bank: &[f32], with_graph: bool) -> Bed {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let full_scan_threshold = if with_graph { 0 } else { usize::MAX };
        let graph = GraphConfig { full_scan_threshold, ..GraphConfig::default() };
        let config = CollectionConfig::new(dim, metric, graph).expect("valid");
        let collection = Catalogue::new(folder.path()).create(&name("bed"), config).expect("a new folder");
        let points: Vec<PointInput> = points
            .chunks_exact(dim)
            .zip(0..)
            .map(|(vector, id)| PointInput {
                id: PointId::Number(id),
                vector: vector.to_vec().into(),
                named: Vec::new(),
                payload: None,
                text: None,
            })
            .collect();
        collection.upsert(&points).expect("valid points");
        let entry = |vector: &[f32]| EntryInput::new(None, vector.to_vec());
        let entries = bank.chunks_exact(dim).map(entry).collect();
        collection
            .add_to_bank(&BankUpdate { name: name("q"), kind: BankKind::Query, entries, defer: false })
            .expect("valid");
        collection.bank_from_gallery(&name("g")).expect("there are points");
        collection.build_graph_if_due().expect("a writable folder");
        Bed { collection, _folder: folder }
    }

    /// 300 random points and 80 bank queries in 8 dimensions.
    pub(crate) fn random(metric: Metric, with_graph: bool) -> Bed {
        Bed::new(metric, 8, &numbers(1, 300 * 8), &numbers(2, 80 * 8), with_graph)
    }

    /// Fits methods under their own labels.
    pub(crate) fn fit(&self, methods: &[&str]) {
        let input = |method: &&str| FitInput {
            name: name(method),
            method: method.parse().expect("a method"),
            query_bank: Some(name("q")),
            gallery_bank: Some(name("g")),
        };
        self.collection.fit(&methods.iter().map(input).collect::<Vec<_>>()).expect("fitted");
    }
}

/// A query by vector.
pub(crate) fn query(vector: &[f32], limit: usize, correction: Option<&str>, search: Search) -> Query {
    let ranking = correction.map_or(Ranking::Raw, Ranking::corrected);
    Query {
        source: Source::Vector(vector.to_vec().into()),
        settings: Settings { limit: Some(limit), ranking, search, ..Settings::default() },
    }
}
