//! The graph of a collection: equal vectors share a node, because a large group of copies would seal
//! itself off, and a build takes no thread from searches.

use std::collections::HashMap;

use dehub_graph::{BuildOptions, Points, Segment, build};
use dehub_vector::{Chunked, Metric};

use crate::GraphConfig;

/// Below this many nodes the build is on one thread, which makes it reproducible.
const PARALLEL_FROM: usize = 4096;

/// Builds a graph over `rows` of `vectors`, those of the collection `identity`.
pub(crate) fn build_graph(
    vectors: &Chunked,
    rows: impl Iterator<Item = u32>,
    metric: Metric,
    config: GraphConfig,
    identity: u64,
) -> Segment {
    let groups = group_equal(vectors, rows);
    let vector = |row: u32| vectors.row(row as usize);
    let points = Points { metric, dim: vectors.width(), groups: &groups, vector: &vector };
    let threads = match std::thread::available_parallelism() {
        Ok(threads) if groups.len() >= PARALLEL_FROM => threads.get(),
        _ => 1,
    };
    let options = BuildOptions {
        m: config.m,
        ef_construction: config.ef_construction,
        threads,
        identity,
        covered: u32::try_from(vectors.len()).expect("rows are numbered by u32"),
        ..BuildOptions::default()
    };
    build(&points, &options)
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
