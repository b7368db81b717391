//! A weight counts as that many entries, a removed entry as none, and an unseen one moves a statistic no
//! more than its bound.

use dehub_normalize::{
    Bank, Block, Gap, Points, State, Statistic, Unseen, fit_entries, fit_potentials, fit_states,
    rows_holding, shard_entries, shard_of,
};
use dehub_vector::{CHUNK_ROWS, Chunked, Metric};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::reference::{Matrix, Numbers, cases, chunked, plain, similarity, statistic, unit, value};

const DIM: usize = 6;
const GAP: Gap = Gap::Cosine;

/// Every statistic that needs no potentials, with a `k` below, at and above most banks.
fn statistics() -> Vec<Statistic> {
    let mut all = vec![
        Statistic::LogSumExp { beta: 0.1 },
        Statistic::LogSumExp { beta: 20.0 },
        Statistic::LogSumExp { beta: 1000.0 },
        Statistic::Mean,
        Statistic::MeanByDeviation,
        Statistic::InverseDeviation,
    ];
    for k in [1, 3, 8, 40] {
        all.extend([
            Statistic::TopMean { k },
            Statistic::TopMeanPower { k, gamma: 2.0 },
            Statistic::KthUnit { k, gap: GAP },
            Statistic::MeanUnit { k, gap: GAP },
            Statistic::CentroidPull { k, gap: GAP },
            Statistic::CentroidPull { k, gap: Gap::Euclidean },
        ]);
    }
    all
}

fn vectors(count: usize, seed: u64) -> Matrix {
    let mut numbers = Numbers(seed);
    unit(&(0..count).map(|_| (0..DIM).map(|_| numbers.signed() + 0.2).collect()).collect())
}

/// Each row as often as its weight says.
fn repeated(rows: &Matrix, weights: &[u8]) -> Matrix {
    let copies = |(row, &weight): (&Vec<f32>, &u8)| vec![row.clone(); weight.into()];
    rows.iter().zip(weights).flat_map(copies).collect()
}

fn column(weights: &[u8]) -> Chunked {
    Chunked::column(weights.iter().map(|&weight| f32::from(weight)))
}

fn metric_of(statistic: Statistic) -> Metric {
    if matches!(statistic, Statistic::CentroidPull { gap: Gap::Euclidean, .. }) {
        Metric::Euclidean
    } else {
        Metric::Cosine
    }
}

/// How far a statistic in 32-bit similarities may be off: those that measure in small units err more.
fn error(statistic: Statistic, wanted: f64) -> f64 {
    if let Statistic::LogSumExp { beta } = statistic {
        1e-6 + 3e-7 / beta
    } else {
        2e-5 * (1.0 + wanted.abs()).powi(2)
    }
}

/// Weights: many 1, some 0 (removed), some more.
fn weight() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(1_u8), 1 => Just(0), 2 => 2_u8..6]
}

#[test]
fn a_weight_of_a_whole_number_is_that_many_entries() {
    let weights = prop::collection::vec(weight(), 1..CHUNK_ROWS + 40);
    TestRunner::new(cases(48, 201))
        .run(&(weights, any::<u64>()), |(weights, seed)| {
            let (bank, points) = (vectors(weights.len(), seed), chunked(DIM, &vectors(9, seed ^ 1)));
            let copies = repeated(&bank, &weights);
            let (bank, copied, column) = (chunked(DIM, &bank), chunked(DIM, &copies), column(&weights));
            for asked in statistics() {
                let metric = metric_of(asked);
                let weighted = Bank { weights: Some(&column), ..Bank::new(&bank, metric) };
                let found = fit_states(&plain(&points), 0, weighted, 0, &[asked]).remove(0);
                let wanted =
                    fit_states(&plain(&points), 0, Bank::new(&copied, metric), 0, &[asked]).remove(0);
                for (row, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                    let (value, by_copies) = (asked.value(found, &bank), asked.value(wanted, &copied));
                    let error = error(asked, by_copies);
                    prop_assert!((value - by_copies).abs() <= error, "{asked}: {value}, {by_copies}");
                    prop_assert_eq!(&asked.decode(&found.encode()), &Ok(found.clone()));
                    let oracle = matches!(asked, Statistic::LogSumExp { .. } | Statistic::TopMean { .. });
                    if oracle {
                        let point = points.row(row);
                        let similarities: Vec<f64> =
                            copies.iter().map(|entry| similarity(metric, point, entry)).collect();
                        let wanted = statistic(asked, &similarities);
                        prop_assert!((value - wanted).abs() <= error, "{asked}: {value}, oracle {wanted}");
                    }
                }
            }
            Ok(())
        })
        .expect("weights count");
}

/// `Σ w e^{βs}`, the weighted mean and the mean of the nearest by weight, for weights that are no whole
/// numbers.
#[test]
fn fractional_weights_are_what_the_weighted_formulas_say() {
    let pair = (-1.0_f32..1.0, prop_oneof![Just(1.0_f32), 1e-3_f32..4.0, Just(1e6_f32)]);
    TestRunner::new(cases(400, 202))
        .run(&(prop::collection::vec(pair, 1..50), 1_usize..9), |(mut pairs, k)| {
            let (similarities, weights): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let state = |asked: Statistic| {
                let mut state = asked.empty();
                state.absorb(asked, Block::new(&similarities, 0).weighted(&weights));
                state
            };
            let beta = 30.0;
            let asked = Statistic::LogSumExp { beta };
            let sum: f64 = pairs.iter().map(|&(s, w)| f64::from(w) * (beta * f64::from(s)).exp()).sum();
            prop_assert!((value(asked, &state(asked)) - sum.ln() / beta).abs() < 1e-6);
            let total: f64 = weights.iter().copied().map(f64::from).sum();
            let mean = pairs.iter().map(|&(s, w)| f64::from(s) * f64::from(w)).sum::<f64>() / total;
            prop_assert!((value(Statistic::Mean, &state(Statistic::Mean)) - mean).abs() < 1e-6);
            pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
            let (mut missing, mut sum) = (k as f64, 0.0);
            for &(s, w) in &pairs {
                let counted = f64::from(w).min(missing);
                sum += counted * f64::from(s);
                missing -= counted;
            }
            let asked = Statistic::TopMean { k };
            prop_assert!((value(asked, &state(asked)) - sum / (k as f64 - missing)).abs() < 1e-6);
            Ok(())
        })
        .expect("the formulas hold");
}

#[test]
fn weighted_states_merge_in_any_partition() {
    let pairs =
        prop::collection::vec((-1.0_f32..1.0, prop_oneof![Just(1.0_f32), 0.2_f32..3.0], 0_usize..4), 0..60);
    TestRunner::new(cases(300, 203))
        .run(&pairs, |pairs| {
            for asked in statistics().into_iter().filter(|it| !matches!(it, Statistic::CentroidPull { .. })) {
                let state = |wanted: Option<usize>| {
                    let chosen: Vec<_> = pairs.iter().filter(|it| wanted.is_none_or(|w| w == it.2)).collect();
                    let similarities: Vec<f32> = chosen.iter().map(|it| it.0).collect();
                    let weights: Vec<f32> = chosen.iter().map(|it| it.1).collect();
                    let mut state = asked.empty();
                    state.absorb(asked, Block::new(&similarities, 0).weighted(&weights));
                    state
                };
                let mut merged = state(Some(2));
                [0, 3, 1].into_iter().for_each(|part| merged.merge(&state(Some(part))));
                let (found, wanted) = (value(asked, &merged), value(asked, &state(None)));
                prop_assert!((found - wanted).abs() <= error(asked, wanted), "{asked}: {found}, {wanted}");
            }
            Ok(())
        })
        .expect("states merge");
}

#[test]
fn sinkhorn_gives_an_entry_the_mass_of_its_weight() {
    let mut numbers = Numbers(204);
    let weights: Vec<u8> = (0..CHUNK_ROWS + 30).map(|_| [1, 1, 0, 2, 5][numbers.below(5)]).collect();
    let (bank, points) = (vectors(weights.len(), 205), chunked(DIM, &vectors(60, 206)));
    let copied = chunked(DIM, &repeated(&bank, &weights));
    let (bank, weights) = (chunked(DIM, &bank), column(&weights));
    for (tau, iterations) in [(0.05, 5), (1.0, 30)] {
        let asked = Statistic::Sinkhorn { tau, iterations, with_gallery: false };
        let biases = |bank: Bank<'_>| -> Vec<f64> {
            let potentials = fit_potentials(&plain(&points), None, bank, tau, iterations, None);
            let bank = Bank { potentials: Some(&potentials), ..bank };
            let states = fit_states(&plain(&points), 0, bank, 0, &[asked]).remove(0);
            states.iter().map(|state| value(asked, state)).collect()
        };
        let found = biases(Bank { weights: Some(&weights), ..Bank::new(&bank, Metric::Cosine) });
        let wanted = biases(Bank::new(&copied, Metric::Cosine));
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!((found - wanted).abs() < 1e-5 * (1.0 + wanted.abs()), "tau {tau}: {found}, {wanted}");
        }
    }
}

/// A bank of three shards, which loses entries of the first and the last.
#[test]
fn fitting_what_held_a_removed_entry_anew_is_a_fit_without_it() {
    let entries = shard_entries(1).end + 300;
    let (bank, points) = (chunked(DIM, &vectors(entries, 207)), chunked(DIM, &vectors(20, 208)));
    let removed: Vec<u32> = vec![0, 77, 4000, shard_entries(2).start as u32 + 9, entries as u32 - 1];
    let weights =
        Chunked::column((0..entries).map(|at| f32::from(u8::from(!removed.contains(&(at as u32))))));
    let points = Points { vectors: &points, live: &|_| true, own_entry: &|row| (row == 3).then_some(77) };
    for asked in statistics() {
        let before = Bank::new(&bank, metric_of(asked));
        let after = Bank { weights: Some(&weights), ..before };
        let mut states = fit_states(&points, 0, before, 0, &[asked]).remove(0);
        let holding = rows_holding(&points, before, &removed, &states);
        for shard in [0, 2] {
            assert!(removed.iter().any(|&entry| shard_of(entry) == shard));
            let range = shard_entries(shard);
            let range = range.start..range.end.min(entries);
            let anew = fit_entries(&points, 0, after, range, &[asked]).remove(0);
            states.iter_mut().zip(&anew).for_each(|(state, anew)| state.replace_shard(shard, anew));
        }
        let wanted = fit_states(&points, 0, after, 0, &[asked]).remove(0);
        let mut untouched = 0;
        for (row, (found, wanted)) in (0_u32..).zip(states.iter().zip(&wanted)) {
            if holding.contains(&row) {
                continue;
            }
            untouched += 1;
            let (found, wanted) = (asked.value(found, &bank), asked.value(wanted, &bank));
            assert!((found - wanted).abs() < 1e-9 * (1.0 + wanted.abs()), "{asked}: {found}, {wanted}");
        }
        assert!(untouched > 0, "{asked}: not everything is fitted anew");
    }
}

/// Bytes of states with weights, damaged.
#[test]
fn weighted_bytes_are_an_error_or_a_state_that_gives_them_back() {
    let bytes = prop::collection::vec(prop::sample::select(vec![0_u8, 1, 63, 64, 127, 128, 191, 255]), 0..50);
    TestRunner::new(cases(4096, 209))
        .run(&bytes, |bytes| {
            for asked in [Statistic::TopMean { k: 2 }, Statistic::KthUnit { k: 2, gap: GAP }, Statistic::Mean]
            {
                if let Ok(state) = asked.decode(&bytes) {
                    prop_assert_eq!(state.encode(), bytes.clone());
                    prop_assert!(value(asked, &state).is_finite());
                }
            }
            let asked = Statistic::CentroidPull { k: 2, gap: GAP };
            if let Ok(state) = asked.decode(&bytes) {
                prop_assert_eq!(state.encode(), bytes);
            }
            Ok(())
        })
        .expect("damage is an error");
}

#[test]
fn unseen_entries_move_a_statistic_no_more_than_its_bound() {
    let similarities =
        || prop::collection::vec((-1.0_f32..1.0, prop_oneof![Just(1.0_f32), 0.2_f32..3.0]), 1..30);
    // Some unseen entries as extreme as they can be.
    let extremes = prop::sample::select(vec![None, Some(1.0_f32), Some(-1.0)]);
    TestRunner::new(cases(500, 210))
        .run(&(similarities(), similarities(), extremes), |(seen, mut unseen, extreme)| {
            unseen.iter_mut().for_each(|it| it.0 = extreme.unwrap_or(it.0));
            let weight = unseen.iter().map(|it| f64::from(it.1)).sum();
            let bound = Unseen { weight, most: 1.0, least: -1.0 };
            let seen_weight = seen.iter().map(|it| f64::from(it.1)).sum();
            let absorb = |state: &mut State, asked, pairs: &[(f32, f32)]| {
                let (similarities, weights): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
                state.absorb(asked, Block::new(&similarities, 0).weighted(&weights));
            };
            for asked in statistics() {
                let mut state = asked.empty();
                absorb(&mut state, asked, &seen);
                let Some(growth) = asked.growth(&state, &bound) else { continue };
                let before = value(asked, &state);
                absorb(&mut state, asked, &unseen);
                let moved = value(asked, &state) - before;
                prop_assert!(
                    moved <= growth.rise + 1e-6 + error(asked, before),
                    "{asked}: {moved}, {growth:?}"
                );
                prop_assert!(
                    -moved <= growth.fall + 1e-6 + error(asked, before),
                    "{asked}: {moved}, {growth:?}"
                );
                if let Some(fall) = asked.fall_of_any(seen_weight, &bound) {
                    let power = matches!(asked, Statistic::TopMeanPower { .. });
                    prop_assert!(power || growth.fall <= fall + 1e-9, "{asked}: {growth:?} beyond {fall}");
                }
            }
            Ok(())
        })
        .expect("the bounds hold");
}

#[test]
fn every_statistic_says_whether_it_has_a_bound() {
    let unseen = Unseen { weight: 1.0, most: 1.0, least: -1.0 };
    let bounded = |asked: Statistic| {
        let mut state = asked.empty();
        state.absorb(asked, Block::new(&[0.5, 0.25], 0));
        asked.growth(&state, &unseen).is_some()
    };
    let with: Vec<String> =
        statistics().into_iter().filter(|&it| bounded(it)).map(|it| it.to_string()).collect();
    assert!(with.contains(&"mean".to_owned()) && with.contains(&"log-sum-exp(beta=20)".to_owned()));
    assert_eq!(with.len(), 3 + 1 + 2 * 4, "{with:?}");
    let exact = Statistic::LogSumExp { beta: 20.0 };
    assert_eq!(exact.growth(&exact.empty(), &unseen), None, "nothing was seen yet");
}
