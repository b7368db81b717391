//! Graphs of every shape: nothing is lost, whatever the vectors, the links and the threads.

use dehub_graph::{BuildOptions, M_MIN, Raw, Width};
use dehub_vector::Metric;
use proptest::prelude::*;

use crate::made::{CODES, METRICS, Numbers, Rows, coded, graph, grouped, unit};

#[test]
fn one_thread_always_makes_the_same_segment() {
    let vectors = Numbers(30).cone(1500, 12, Metric::Cosine);
    let built = |seed| graph(&vectors, Metric::Cosine, BuildOptions { seed, ..BuildOptions::default() });
    assert_eq!(built(1).as_bytes(), built(1).as_bytes());
    assert_ne!(built(1).as_bytes(), built(2).as_bytes());
}

#[test]
fn several_threads_lose_no_node_and_link_as_well() {
    let vectors = Numbers(31).cone(6000, 16, Metric::Cosine);
    let queries = Numbers(32).cone(50, 16, Metric::Cosine);
    let rows = Rows::new(&vectors, Metric::Cosine);
    let segment = graph(&vectors, Metric::Cosine, BuildOptions { threads: 4, ..BuildOptions::default() });
    // Whatever the threads did: a walk of all nodes finds all.
    assert_eq!(segment.walk(&queries[0], &Raw, Width { effort: 6000, keep: 6000 }).candidates.len(), 6000);
    assert_eq!(rows.recall(&segment, &queries[..10], 6000), 1.0);
    // What they did is another graph each time, of which none is far from that of one thread.
    assert!(rows.recall(&segment, &queries, 128) > 0.9);
}

#[test]
fn tiny_galleries_have_graphs() {
    for (metric, code) in METRICS.iter().flat_map(|&metric| CODES.map(|code| (metric, code))) {
        for count in 0..4 {
            let vectors = Numbers(33).cone(count, 3, metric);
            let segment = graph(&vectors, metric, coded(code));
            assert_eq!((segment.node_count(), segment.is_empty()), (count, count == 0));
            let query = [0.5, 0.25, -0.125];
            let found = Rows::new(&vectors, metric).found(&segment, &query, 10, 1.max(count));
            assert_eq!(found, Rows::new(&vectors, metric).best(&query, 10), "{metric} {code:?} {count}");
        }
    }
}

#[test]
fn vectors_of_one_dimension_have_a_graph() {
    for code in CODES {
        let vectors: Vec<Vec<f32>> = (0_u8..200).map(|x| vec![f32::from(x) - 100.0]).collect();
        for metric in [Metric::Dot, Metric::Euclidean] {
            let segment = graph(&vectors, metric, coded(code));
            let rows = Rows::new(&vectors, metric);
            for query in [-3.25, 0.5, 77.25] {
                assert_eq!(
                    rows.found(&segment, &[query], 1, 100),
                    rows.best(&[query], 1),
                    "{metric} {code:?} {query}"
                );
            }
        }
        let two = vec![vec![1.0], vec![-1.0]];
        let segment = graph(&two, Metric::Cosine, coded(code));
        assert_eq!(Rows::new(&two, Metric::Cosine).found(&segment, &[-1.0], 2, 2), [1, 0]);
    }
}

#[test]
fn equal_vectors_are_found_grouped_or_not() {
    let vectors = vec![unit(&[1.0, 2.0, 3.0]); 300];
    let rows = Rows::new(&vectors, Metric::Cosine);
    let one = grouped(&vectors, &[(0..300).collect()], Metric::Cosine, BuildOptions::default());
    assert_eq!(rows.found(&one, &vectors[0], 10, 1), (0..10).collect::<Vec<u32>>());
    let many = graph(&vectors, Metric::Cosine, BuildOptions::default());
    assert_eq!(many.walk(&vectors[0], &Raw, Width { effort: 300, keep: 300 }).candidates.len(), 300);
}

#[test]
fn rows_of_zeros_under_dot_are_found() {
    for code in CODES {
        let mut vectors = Numbers(34).cone(400, 8, Metric::Dot);
        vectors.extend([vec![0.0; 8], vec![0.0; 8]]);
        let segment = graph(&vectors, Metric::Dot, coded(code));
        let rows = Rows::new(&vectors, Metric::Dot);
        let opposite = vec![-1.0; 8];
        let found = segment.walk(&opposite, &rows, Width { effort: 402, keep: 402 });
        assert_eq!(found.candidates.len(), 402);
        for row in [400, 401] {
            let score = found.candidates.iter().find(|best| best.row == row).map(|best| best.score);
            assert_eq!(score, Some(0.0), "{code:?}");
        }
        let zeros = vec![vec![0.0; 8]; 50];
        let segment = graph(&zeros, Metric::Dot, coded(code));
        assert_eq!(segment.walk(&zeros[0], &Raw, Width { effort: 50, keep: 50 }).candidates.len(), 50);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Clusters far from each other, few links, a narrow construction: the hardest to keep together.
    #[test]
    fn a_walk_of_all_nodes_finds_every_live_row(
        seed in any::<u64>(),
        count in 1_usize..300,
        clusters in 1_usize..12,
        metric in prop::sample::select(&METRICS[..]),
        code in prop::sample::select(&CODES[..]),
        fill in any::<bool>(),
    ) {
        let mut numbers = Numbers(seed);
        let centers = numbers.cone(clusters, 6, metric);
        let vectors: Vec<Vec<f32>> = (0..count)
            .map(|_| {
                let center = &centers[numbers.below(clusters)];
                let near: Vec<f32> = center.iter().map(|x| x + numbers.centred() / 1000.0).collect();
                if metric == Metric::Cosine { unit(&near) } else { near }
            })
            .collect();
        let options = BuildOptions { m: M_MIN, ef_construction: 2, fill, code, seed, ..BuildOptions::default() };
        let segment = graph(&vectors, metric, options);
        let mut rows = Rows::new(&vectors, metric);
        rows.live.iter_mut().for_each(|live| *live = numbers.below(3) > 0);
        rows.biases.iter_mut().for_each(|bias| *bias = numbers.centred());
        let found = segment.walk(&vectors[0], &rows, Width { effort: count, keep: count });
        let mut found: Vec<u32> = found.candidates.iter().map(|best| best.row).collect();
        found.sort_unstable();
        let live: Vec<u32> = (0..count as u32).filter(|&row| rows.live[row as usize]).collect();
        prop_assert_eq!(found, live);
    }
}
