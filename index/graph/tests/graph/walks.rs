//! What walks find, beside brute force in 64 bits.

use dehub_graph::{BuildOptions, CodeKind, Raw, Width};
use dehub_vector::{Candidate, Metric};

use crate::made::{CODES, METRICS, Numbers, Rows, coded, graph, grouped, wordnet};

#[test]
fn walks_of_real_vectors_find_the_best_under_every_code() {
    let (vectors, queries, bank) =
        (wordnet("gallery.npy"), wordnet("queries_test.npy"), wordnet("queries_bank.npy"));
    let mut rows = Rows::new(&vectors, Metric::Cosine);
    for code in CODES {
        let segment = graph(&vectors, Metric::Cosine, coded(code));
        rows.biases.fill(0.0);
        let raw = rows.recall(&segment, &queries, 128);
        assert!(raw >= 0.99, "{code:?}: {raw}");
        // Inverted softmax at β = 20.
        let sum = |vector: &Vec<f32>| {
            bank.iter().map(|b| (20.0 * crate::made::product(b, vector)).exp()).sum::<f64>()
        };
        rows.biases = vectors.iter().map(|vector| (sum(vector).ln() / 20.0) as f32).collect();
        let corrected = rows.recall(&segment, &queries, 128);
        assert!(corrected >= 0.99, "{code:?}: {corrected}");
    }
}

#[test]
fn walks_find_the_best_under_every_metric_and_code() {
    for metric in METRICS {
        let vectors = Numbers(1).cone(3000, 24, metric);
        let queries = Numbers(2).cone(60, 24, metric);
        let mut rows = Rows::new(&vectors, metric);
        let mut numbers = Numbers(3);
        let biases: Vec<f32> = vectors.iter().map(|_| numbers.centred() / 10.0).collect();
        for code in CODES {
            let segment = graph(&vectors, metric, coded(code));
            rows.biases.fill(0.0);
            let raw = rows.recall(&segment, &queries, 128);
            assert!(raw >= 0.99, "{metric} {code:?}: {raw}");
            rows.biases.clone_from(&biases);
            let corrected = rows.recall(&segment, &queries, 128);
            assert!(corrected >= 0.99, "{metric} {code:?}: {corrected}");
        }
    }
}

/// Halves and bytes lose most of a number that is far from 0; distances do not change when all move.
#[test]
fn euclidean_vectors_may_lie_far_from_zero() {
    let far = |vectors: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
        vectors.iter().map(|vector| vector.iter().map(|x| x + 100.0).collect()).collect()
    };
    let vectors = far(Numbers(4).cone(2000, 24, Metric::Euclidean));
    let queries = far(Numbers(5).cone(50, 24, Metric::Euclidean));
    for code in CODES {
        let segment = graph(&vectors, Metric::Euclidean, coded(code));
        let recall = Rows::new(&vectors, Metric::Euclidean).recall(&segment, &queries, 128);
        assert!(recall >= 0.99, "{code:?}: {recall}");
    }
}

#[test]
fn scores_of_whole_numbers_are_the_similarity_less_the_bias() {
    for metric in METRICS {
        let vectors = Numbers(6).cone(400, 19, metric);
        let mut rows = Rows::new(&vectors, metric);
        let mut numbers = Numbers(7);
        rows.biases.iter_mut().for_each(|bias| *bias = numbers.centred());
        let segment = graph(&vectors, metric, coded(CodeKind::F32));
        for query in Numbers(8).cone(20, 19, metric) {
            let found = segment.walk(&query, &rows, Width { effort: 400, keep: 400 });
            assert_eq!(found.candidates.len(), 400);
            assert_eq!(found.compared, 400);
            for candidate in &found.candidates {
                let exact = rows.exact(&query, candidate.row);
                assert!((f64::from(candidate.score) - exact).abs() < 2e-4, "{metric}: {candidate:?} {exact}");
            }
            assert!(found.candidates.is_sorted_by(|a, b| a > b));
            let raw = Rows::new(&vectors, metric);
            let best = found.raw_best.expect("a row is live");
            assert_eq!(best.row, raw.best(&query, 1)[0], "{metric}");
        }
    }
}

#[test]
fn every_node_finds_itself() {
    for metric in [Metric::Cosine, Metric::Euclidean] {
        let vectors = Numbers(9).cone(2000, 16, metric);
        let rows = Rows::new(&vectors, metric);
        for code in CODES {
            let segment = graph(&vectors, metric, coded(code));
            for (row, vector) in (0..).zip(&vectors) {
                assert_eq!(rows.found(&segment, vector, 1, 32), [row], "{metric} {code:?}");
            }
        }
    }
}

#[test]
fn copies_of_one_vector_hide_nobody() {
    let mut vectors = Numbers(10).cone(2000, 24, Metric::Cosine);
    let queries = Numbers(11).cone(60, 24, Metric::Cosine);
    let alone = Rows::new(&vectors, Metric::Cosine);
    let without = alone.recall(&graph(&vectors, Metric::Cosine, coded(CodeKind::Bf16)), &queries, 64);
    let copied = vectors[7].clone();
    vectors.extend(std::iter::repeat_n(copied.clone(), 1061));
    let mut groups: Vec<Vec<u32>> = (0..2000).map(|row| vec![row]).collect();
    groups[7].extend(2000..3061);
    let segment = grouped(&vectors, &groups, Metric::Cosine, coded(CodeKind::Bf16));
    assert_eq!((segment.node_count(), segment.rows().len()), (2000, 3061));
    let mut rows = Rows::new(&vectors, Metric::Cosine);
    assert_eq!(rows.found(&segment, &copied, 1062, 64).len(), 1062);
    // Of the others, as many are found as without the copies.
    rows.live[2000..].fill(false);
    let with = rows.recall(&segment, &queries, 64);
    assert!(with >= without, "{with} < {without}");
}

/// Rows of one node differ in their biases, and each counts for itself.
#[test]
fn equal_vectors_are_ranked_by_their_own_biases() {
    let vectors = vec![vec![1.0, 0.0, 0.0], vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![1.0, 0.0, 0.0]];
    let segment = grouped(&vectors, &[vec![0, 1, 3], vec![2]], Metric::Cosine, coded(CodeKind::Bf16));
    let mut rows = Rows::new(&vectors, Metric::Cosine);
    rows.biases = vec![0.25, -0.25, 0.0, 2.0];
    let found = segment.walk(&vectors[0], &rows, Width { effort: 8, keep: 8 });
    let expected = [(1.25, 1), (0.75, 0), (0.0, 2), (-1.0, 3)].map(|(score, row)| Candidate::new(score, row));
    assert_eq!(found.candidates, expected);
    rows.live[1] = false;
    let found = segment.walk(&vectors[0], &rows, Width { effort: 8, keep: 2 });
    assert_eq!(found.candidates, [expected[1], expected[2]]);
    assert_eq!(found.raw_best.map(|best| best.row), Some(0));
}

#[test]
fn a_constant_in_every_bias_changes_no_answer() {
    let vectors = Numbers(12).cone(2000, 24, Metric::Cosine);
    let mut numbers = Numbers(13);
    let mut rows = Rows::new(&vectors, Metric::Cosine);
    rows.biases.iter_mut().for_each(|bias| *bias = numbers.centred() / 8.0);
    let mut shifted = rows.clone();
    shifted.biases.iter_mut().for_each(|bias| *bias += 0.5);
    for code in CODES {
        let segment = graph(&vectors, Metric::Cosine, coded(code));
        for query in Numbers(14).cone(50, 24, Metric::Cosine) {
            let (plain, moved) =
                (rows.found(&segment, &query, 10, 64), shifted.found(&segment, &query, 10, 64));
            assert_eq!(plain, moved, "{code:?}");
        }
    }
}

#[test]
fn biases_of_zero_are_the_raw_ranking_bit_for_bit() {
    for metric in METRICS {
        let vectors = Numbers(15).cone(1500, 24, metric);
        let rows = Rows::new(&vectors, metric);
        for code in CODES {
            let segment = graph(&vectors, metric, coded(code));
            for query in Numbers(16).cone(20, 24, metric) {
                let width = Width { effort: 32, keep: 32 };
                let (raw, zero) = (segment.walk(&query, &Raw, width), segment.walk(&query, &rows, width));
                assert_eq!(raw, zero, "{metric} {code:?}");
                assert_eq!(raw.raw_best, raw.candidates.first().copied(), "{metric} {code:?}");
            }
        }
    }
}

/// The hubs are put far down, where no beam reaches, or are no answers at all.
#[test]
fn a_hub_that_is_no_answer_is_still_a_road() {
    let vectors = Numbers(17).cone(3000, 24, Metric::Cosine);
    let queries = Numbers(18).cone(80, 24, Metric::Cosine);
    let raw = Rows::new(&vectors, Metric::Cosine);
    let mut counts = vec![0; vectors.len()];
    for query in Numbers(19).cone(300, 24, Metric::Cosine) {
        raw.best(&query, 10).iter().for_each(|&row| counts[row as usize] += 1);
    }
    let (mut demoted, mut deleted) = (raw.clone(), raw.clone());
    for (row, &count) in counts.iter().enumerate() {
        if count >= 3 {
            demoted.biases[row] = 5.0;
            deleted.live[row] = false;
        }
    }
    assert!(deleted.live.iter().filter(|live| !**live).count() > 100, "there are hubs");
    for code in CODES {
        let segment = graph(&vectors, Metric::Cosine, coded(code));
        for rows in [&demoted, &deleted] {
            let recall = rows.recall(&segment, &queries, 128);
            assert!(recall >= 0.99, "{code:?}: {recall}");
        }
        for query in &queries {
            assert!(deleted.found(&segment, query, 40, 128).iter().all(|&row| deleted.live[row as usize]));
        }
    }
}

#[test]
fn no_answer_is_found_where_no_row_is_live() {
    let vectors = Numbers(20).cone(500, 8, Metric::Dot);
    let segment = graph(&vectors, Metric::Dot, BuildOptions::default());
    let mut rows = Rows::new(&vectors, Metric::Dot);
    rows.live.fill(false);
    let found = segment.walk(&vectors[3], &rows, Width { effort: 16, keep: 16 });
    assert_eq!((found.candidates, found.raw_best), (Vec::new(), None));
    rows.live[77] = true;
    let found = segment.walk(&vectors[3], &rows, Width { effort: 16, keep: 16 });
    assert_eq!(found.candidates.iter().map(|best| best.row).collect::<Vec<_>>(), [77]);
}
