//! The graph of a collection: equal vectors share a node, because a large group of copies would seal
//! itself off, and a build takes no thread from searches.

use std::collections::HashMap;
use std::ops::Range;

use dehub_graph::{BuildOptions, Points, Segment, build_unless, fit_projection};
use dehub_normalize::BankKind;
use dehub_vector::Chunked;

use crate::{BankInfo, Quantization, Snapshot};

/// Below this many nodes the build is on one thread, which makes it reproducible.
const PARALLEL_FROM: usize = 4096;

/// Builds a graph over the points of `snapshot` with these rows, for the collection `identity`; nothing if it
/// is stopped before.
pub(crate) fn build_graph(
    snapshot: &Snapshot,
    rows: Range<u32>,
    identity: u64,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Option<Segment> {
    let (vectors, config) = (&snapshot.vectors, snapshot.config());
    let covered = rows.end;
    let groups = group_equal(vectors, snapshot.live.within(rows));
    let vector = |row: u32| vectors.row(row as usize);
    let points = Points { metric: config.metric, dim: vectors.width(), groups: &groups, vector: &vector };
    let threads = match std::thread::available_parallelism() {
        Ok(threads) if groups.len() >= PARALLEL_FROM => threads.get(),
        _ => 1,
    };
    let projection = match config.graph.quantization {
        Quantization::Reduced => fit_projection(&points, &bank_queries(snapshot)),
        Quantization::F32 | Quantization::Bf16 | Quantization::Int8 => None,
    };
    let options = BuildOptions {
        m: config.graph.m,
        ef_construction: config.graph.ef_construction,
        code: config.graph.quantization.code(),
        projection,
        threads,
        identity,
        covered,
        sequence: snapshot.sequence(),
        ..BuildOptions::default()
    };
    build_unless(&points, &options, is_stopped)
}

/// The entries of all query banks: the queries that are known.
fn bank_queries(snapshot: &Snapshot) -> Vec<&[f32]> {
    let is_of_queries = |bank: &&BankInfo| bank.kind == BankKind::Query;
    let mut entries = Vec::new();
    for bank in snapshot.banks().filter(is_of_queries) {
        entries.extend(snapshot.live_entries(bank.name.as_str()).map(|(_, vector, _)| vector));
    }
    entries
}

/// The rows of each distinct vector, in the order of the first.
fn group_equal(vectors: &Chunked, rows: impl Iterator<Item = u32>) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut group_of: HashMap<&[u8], usize> = HashMap::new();
    for row in rows {
        let bytes = bytemuck::cast_slice(vectors.row(row as usize));
        let group = *group_of.entry(bytes).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(row);
    }
    groups
}
