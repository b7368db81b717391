//! One walk for several rankings, and walks that are stopped.

use std::cell::Cell;

use dehub_graph::{Found, Ranking, Segment, Width};
use dehub_vector::{Candidate, Metric};

use crate::made::{CODES, METRICS, Numbers, Rows, coded, graph, grouped};

const NODES: usize = 2000;

/// Rankings that differ: raw, corrected, corrected the other way round, and with few live rows.
fn rankings(vectors: &[Vec<f32>], metric: Metric) -> [Rows<'_>; 4] {
    let mut numbers = Numbers(91);
    let raw = Rows::new(vectors, metric);
    let [mut corrected, mut other, mut filtered] = [raw.clone(), raw.clone(), raw.clone()];
    corrected.biases.iter_mut().for_each(|bias| *bias = numbers.centred() / 5.0);
    other.biases = corrected.biases.iter().map(|bias| -bias).collect();
    filtered.live.iter_mut().for_each(|live| *live = numbers.below(20) == 0);
    [raw, corrected, other, filtered]
}

fn hits(rows: &Rows<'_>, query: &[f32], found: &Found) -> usize {
    let best = rows.best(query, 10);
    let found = found.rescored(10, |row| rows.exact(query, row) as f32);
    found.iter().filter(|candidate| best.contains(&candidate.row)).count()
}

#[test]
fn each_ranking_of_one_walk_finds_no_less_than_in_a_walk_of_its_own() {
    let width = Width { effort: 32, keep: 32 };
    for metric in METRICS {
        let vectors = Numbers(90).cone(NODES, 24, metric);
        let rankings = rankings(&vectors, metric);
        for code in CODES {
            let segment = graph(&vectors, metric, coded(code));
            let (mut together, mut alone, mut compared) = ([0; 4], [0; 4], (0, 0));
            for query in Numbers(92).cone(60, 24, metric) {
                let all = segment.walk_all(&query, &rankings.each_ref().map(|rows| (rows, width)), || false);
                compared.0 += all[0].compared;
                for ((place, rows), found) in rankings.iter().enumerate().zip(&all) {
                    let own = segment.walk(&query, rows, width);
                    assert!(!found.is_cut_short && found.compared >= own.compared.min(NODES / 4));
                    together[place] += hits(rows, &query, found);
                    alone[place] += hits(rows, &query, &own);
                    compared.1 += own.compared;
                }
            }
            for (place, (together, alone)) in together.iter().zip(alone).enumerate() {
                assert!(*together >= alone, "{metric} {code:?} {place}: {together} < {alone}");
            }
            assert!(compared.0 < compared.1, "{metric} {code:?}: {compared:?}");
        }
    }
}

#[test]
fn one_walk_of_all_nodes_finds_every_live_row_of_every_ranking() {
    let vectors = Numbers(93).cone(400, 12, Metric::Cosine);
    let rankings = rankings(&vectors, Metric::Cosine);
    let groups: Vec<Vec<u32>> = (0..200).map(|node| vec![node, node + 200]).collect();
    let mut copied = vectors.clone();
    let (first, second) = copied.split_at_mut(200);
    second.clone_from_slice(first);
    let segments = [
        graph(&vectors, Metric::Cosine, coded(CODES[2])),
        grouped(&copied, &groups, Metric::Cosine, coded(CODES[2])),
    ];
    for segment in segments {
        let width = Width { effort: 400, keep: 400 };
        let all = segment.walk_all(&vectors[7], &rankings.each_ref().map(|rows| (rows, width)), || false);
        for (rows, found) in rankings.iter().zip(&all) {
            let live = rows.live.iter().filter(|live| **live).count();
            assert_eq!((found.candidates.len(), found.compared), (live, segment.node_count()));
            assert!(found.candidates.iter().all(|best| rows.live[best.row as usize]));
            assert_eq!(found.candidates, segment.walk(&vectors[7], rows, width).candidates);
        }
    }
}

#[test]
fn a_narrow_look_at_the_raw_best_costs_little_more_than_the_walk_it_goes_with() {
    let vectors = Numbers(94).cone(4000, 24, Metric::Cosine);
    let [raw, corrected, ..] = rankings(&vectors, Metric::Cosine);
    let segment = graph(&vectors, Metric::Cosine, coded(CODES[1]));
    let (full, narrow) = (Width { effort: 96, keep: 40 }, Width { effort: 12, keep: 1 });
    let (mut alone, mut together, mut right) = (0, 0, 0);
    for query in Numbers(95).cone(100, 24, Metric::Cosine) {
        let own = segment.walk(&query, &corrected, full);
        let both = segment.walk_all(&query, &[(&raw, narrow), (&corrected, full)], || false);
        alone += own.compared;
        together += both[0].compared;
        right += usize::from(both[0].raw_best.map(|best| best.row) == raw.best(&query, 1).first().copied());
        assert_eq!(both[1].candidates.len(), 40);
    }
    assert!(together * 10 <= alone * 13, "{together} {alone}");
    assert!(right >= 98, "{right}");
}

#[test]
fn a_walk_that_is_stopped_says_so_and_gives_what_it_has() {
    let vectors = Numbers(96).cone(NODES, 12, Metric::Cosine);
    let rows = Rows::new(&vectors, Metric::Cosine);
    let segment = graph(&vectors, Metric::Cosine, coded(CODES[1]));
    let width = Width { effort: NODES, keep: NODES };
    let walk = |segment: &Segment, after: usize| {
        let asked = Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == after;
        let found = segment.walk_all(&vectors[3], &[(&rows, width)], stop).pop().expect("one ranking");
        (found, asked.get())
    };
    let mut last = 0;
    for after in [0, 1, 2, 5, 10] {
        let (found, asked) = walk(&segment, after);
        assert!(found.is_cut_short, "{after}");
        assert_eq!(asked, after + 1, "it stops when it is told to");
        assert!(found.compared > last && found.compared < NODES, "{after}: {}", found.compared);
        assert_eq!(found.candidates.len(), found.compared, "what it met it has");
        assert!(found.candidates.is_sorted_by(|a, b| a > b));
        last = found.compared;
    }
    let (found, asked) = walk(&segment, usize::MAX);
    assert!(!found.is_cut_short && asked >= NODES / 128, "{asked}");
    assert_eq!(found.candidates.len(), NODES);
}

/// However few rows are live: as many as the effort, or all there are.
#[test]
fn a_walk_goes_on_until_it_has_as_many_live_rows_as_its_effort() {
    let vectors = Numbers(97).cone(NODES, 16, Metric::Cosine);
    let segment = graph(&vectors, Metric::Cosine, coded(CODES[2]));
    for one_in in [3, 30, 300] {
        let mut numbers = Numbers(98);
        let mut rows = Rows::new(&vectors, Metric::Cosine);
        rows.live.iter_mut().for_each(|live| *live = numbers.below(one_in) == 0);
        let live = rows.live.iter().filter(|live| **live).count();
        for query in Numbers(99).cone(20, 16, Metric::Cosine) {
            let found = segment.walk(&query, &rows, Width { effort: 20, keep: 20 });
            assert_eq!(found.candidates.len(), live.min(20), "1 in {one_in}");
        }
    }
}

#[test]
fn no_ranking_finds_nothing() {
    let vectors = Numbers(100).cone(50, 4, Metric::Dot);
    let segment = graph(&vectors, Metric::Dot, coded(CODES[0]));
    assert_eq!(segment.walk_all::<Rows<'_>>(&vectors[0], &[], || false), []);
}

/// A ranking may be made at run time.
#[test]
fn rankings_of_several_kinds_share_a_walk() {
    let vectors = Numbers(101).cone(500, 8, Metric::Cosine);
    let [raw, corrected, ..] = rankings(&vectors, Metric::Cosine);
    let segment = graph(&vectors, Metric::Cosine, coded(CODES[0]));
    let width = Width { effort: 500, keep: 3 };
    let kinds: [(&dyn Ranking, Width); 2] = [(&dehub_graph::Raw, width), (&corrected, width)];
    let found = segment.walk_all(&vectors[9], &kinds, || false);
    let rows = |found: &Found| found.candidates.iter().map(|best: &Candidate| best.row).collect::<Vec<_>>();
    assert_eq!(rows(&found[0]), raw.best(&vectors[9], 3));
    assert_eq!(rows(&found[1]), corrected.best(&vectors[9], 3));
}
