//! Our builder beside hnsw_rs, by the same geometry.

use std::sync::atomic::{AtomicUsize, Ordering};

use dehub_graph::{BuildOptions, Builder, Points, Segment, Width, build_unless};
use dehub_vector::Metric;

use crate::made::{CODES, METRICS, Numbers, Rows, graph, grouped, unit};

fn built(vectors: &[Vec<f32>], metric: Metric, builder: Builder) -> Segment {
    graph(vectors, metric, BuildOptions { builder, ..BuildOptions::default() })
}

/// Clusters of very different sizes, and copies that share a node.
fn clustered(numbers: &mut Numbers, count: usize, metric: Metric) -> Vec<Vec<f32>> {
    let centers = numbers.cone(40, 16, metric);
    (0..count)
        .map(|_| {
            let center = &centers[numbers.below(40).min(numbers.below(40))];
            let near: Vec<f32> = center.iter().map(|x| x + numbers.centred() / 4.0).collect();
            if metric == Metric::Cosine { unit(&near) } else { near }
        })
        .collect()
}

#[test]
fn our_links_find_no_less_than_those_of_hnsw_rs_at_equal_effort() {
    for metric in METRICS {
        let mut numbers = Numbers(110);
        let mut vectors = clustered(&mut numbers, 3000, metric);
        let groups: Vec<Vec<u32>> =
            (0..3000).map(|node| if node < 300 { vec![node, node + 3000] } else { vec![node] }).collect();
        vectors.extend_from_within(..300);
        let queries = clustered(&mut numbers, 100, metric);
        let mut rows = Rows::new(&vectors, metric);
        let segment =
            |builder| grouped(&vectors, &groups, metric, BuildOptions { builder, ..Default::default() });
        let (ours, theirs) = (segment(Builder::Own), segment(Builder::HnswRs));
        let biases: Vec<f32> = vectors.iter().map(|_| numbers.centred() / 10.0).collect();
        for biases in [vec![0.0; vectors.len()], biases] {
            rows.biases = biases;
            for effort in [32, 96] {
                let [ours, theirs] = [&ours, &theirs].map(|segment| rows.recall(segment, &queries, effort));
                assert!(ours >= theirs, "{metric} {effort}: {ours} {theirs}");
                assert!(theirs >= 0.4, "{metric} {effort}: {theirs}");
            }
        }
    }
}

#[test]
fn a_segment_linked_by_hnsw_rs_loses_no_node_and_reads_back() {
    for (metric, threads) in METRICS.iter().flat_map(|&metric| [1, 3].map(|threads| (metric, threads))) {
        let vectors = clustered(&mut Numbers(111), 1500, metric);
        let options = BuildOptions {
            builder: Builder::HnswRs,
            m: 4,
            ef_construction: 10,
            threads,
            ..Default::default()
        };
        let segment = graph(&vectors, metric, options);
        let rows = Rows::new(&vectors, metric);
        let found = segment.walk(&vectors[5], &rows, Width { effort: 1500, keep: 1500 });
        assert_eq!(found.candidates.len(), 1500, "{metric} on {threads} threads");
        assert!(Segment::read(segment.as_bytes()).is_ok());
    }
}

#[test]
fn tiny_galleries_and_copies_are_linked_by_hnsw_rs_too() {
    for count in 0..4 {
        let vectors = Numbers(112).cone(count, 3, Metric::Dot);
        let segment = built(&vectors, Metric::Dot, Builder::HnswRs);
        assert_eq!(segment.node_count(), count);
        let rows = Rows::new(&vectors, Metric::Dot);
        let query = [0.5, 0.25, -0.125];
        assert_eq!(rows.found(&segment, &query, 10, 4), rows.best(&query, 10));
    }
    let copies = vec![unit(&[1.0, 2.0, 3.0]); 300];
    for code in CODES {
        let options = BuildOptions { builder: Builder::HnswRs, code, ..BuildOptions::default() };
        let segment = graph(&copies, Metric::Cosine, options);
        let rows = Rows::new(&copies, Metric::Cosine);
        assert_eq!(segment.walk(&copies[0], &rows, Width { effort: 300, keep: 300 }).candidates.len(), 300);
    }
}

#[test]
fn a_build_that_is_stopped_anywhere_makes_nothing_and_asks_no_longer() {
    let vectors = clustered(&mut Numbers(111), 2500, Metric::Cosine);
    let groups: Vec<Vec<u32>> = (0..2500).map(|row| vec![row]).collect();
    let vector = |row: u32| vectors[row as usize].as_slice();
    let points = Points { metric: Metric::Cosine, dim: 16, groups: &groups, vector: &vector };
    let on = |threads: usize| BuildOptions { threads, covered: 2500, ..BuildOptions::default() };
    for (threads, stopped_at) in [(1, 0), (1, 1000), (2, 500), (2, 2000)] {
        let asked = AtomicUsize::new(0);
        let is_stopped = || asked.fetch_add(1, Ordering::Relaxed) >= stopped_at;
        assert!(build_unless(&points, &on(threads), &is_stopped).is_none(), "at {stopped_at}");
        // Each thread once, and the end.
        assert!(asked.into_inner() <= stopped_at + threads + 2, "on {threads} threads");
    }
    let never = build_unless(&points, &on(1), &|| false).expect("a graph");
    assert_eq!(never.node_count(), 2500);
}
