//! What must hold whatever the numbers: merging, bytes, order of rows, shifts and the exposure cap.

use dehub_normalize::{Activation, Bank, Block, Points, State, Statistic, fit_activation, fit_states};
use dehub_vector::{CHUNK_ROWS, Candidate, Metric, dot};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::reference::{
    EXP_ERROR, Matrix, Numbers, best, cases, chunked, fit_one, order, plain, unit, value, with_similarities,
};

fn any_statistic() -> impl Strategy<Value = Statistic> {
    prop_oneof![
        prop::sample::select(vec![0.1, 1.0, 20.0, 1000.0]).prop_map(|beta| Statistic::LogSumExp { beta }),
        (1_usize..9).prop_map(|k| Statistic::TopMean { k }),
    ]
}

fn state_of(statistic: Statistic, similarities: &[f32]) -> State {
    let mut state = statistic.empty();
    state.absorb(statistic, Block::new(similarities, 0));
    state
}

/// Sums in another order differ in their last bits; what is kept of the largest does not.
fn assert_same(statistic: Statistic, found: &State, wanted: &State) -> Result<(), TestCaseError> {
    if let Statistic::LogSumExp { beta } = statistic {
        let (found, wanted) = (value(statistic, found), value(statistic, wanted));
        let error = EXP_ERROR / beta + 1e-9 * wanted.abs().max(1.0);
        prop_assert!((found - wanted).abs() <= error, "{} and {}", found, wanted);
    } else {
        prop_assert_eq!(found, wanted);
    }
    Ok(())
}

fn similarities() -> impl Strategy<Value = Vec<f32>> {
    let number = prop_oneof![-1.0_f32..1.0, (-3_i8..3).prop_map(f32::from), -100.0_f32..100.0];
    prop::collection::vec(number, 0..60)
}

#[test]
fn states_merge_in_any_order_and_partition() {
    let parts = prop::collection::vec(0_usize..6, 60);
    TestRunner::new(cases(512, 71))
        .run(&(any_statistic(), similarities(), parts, any::<u64>()), |(statistic, all, parts, seed)| {
            let mut numbers = Numbers(seed);
            let part = |wanted: usize| -> Vec<f32> {
                all.iter().zip(&parts).filter(|&(_, &part)| part == wanted).map(|(&s, _)| s).collect()
            };
            let mut states: Vec<State> = (0..6).map(|it| state_of(statistic, &part(it))).collect();
            // Two at random become one until one is left: every shape of tree occurs.
            while states.len() > 1 {
                let taken = states.swap_remove(numbers.below(states.len()));
                let into = numbers.below(states.len());
                states[into].merge(&taken);
            }
            assert_same(statistic, &states[0], &state_of(statistic, &all))?;
            let mut shuffled = statistic.empty();
            for place in numbers.order(all.len()) {
                shuffled.absorb(statistic, Block::new(&all[place..=place], 0));
            }
            assert_same(statistic, &shuffled, &state_of(statistic, &all))
        })
        .expect("states merge");
}

#[test]
fn a_state_is_read_back_bit_for_bit() {
    TestRunner::new(cases(512, 72))
        .run(&(any_statistic(), similarities()), |(statistic, all)| {
            let state = state_of(statistic, &all);
            prop_assert_eq!(statistic.decode(&state.encode()), Ok(state));
            Ok(())
        })
        .expect("states are read back");
}

#[test]
fn bytes_are_an_error_or_a_state_with_a_finite_value() {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, -0.0, 1.0, f64::MAX, 5e-324];
    let pair = prop::sample::select(special.to_vec());
    let pair = (pair.clone(), pair).prop_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat());
    let singles = prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0, 0.0, 2.0]);
    let singles = prop::collection::vec(singles, 0..5)
        .prop_map(|all| all.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>());
    let bytes = prop_oneof![prop::collection::vec(any::<u8>(), 0..40), pair, singles];
    TestRunner::new(cases(4096, 73))
        .run(&(any_statistic(), bytes, similarities()), |(statistic, bytes, more)| {
            if let Ok(mut state) = statistic.decode(&bytes) {
                prop_assert_eq!(state.encode(), bytes);
                prop_assert!(value(statistic, &state).is_finite());
                state.absorb(statistic, Block::new(&more, 0));
                prop_assert!(value(statistic, &state).is_finite());
            }
            Ok(())
        })
        .expect("damage is an error");
}

fn random(rows: usize, dim: usize, seed: u64) -> Matrix {
    let mut numbers = Numbers(seed);
    let rows: Matrix = (0..rows).map(|_| (0..dim).map(|_| numbers.signed() + 0.2).collect()).collect();
    unit(&rows)
}

#[test]
fn the_order_of_the_points_does_not_matter() {
    let (points, bank) = (random(CHUNK_ROWS + 70, 16, 81), random(90, 16, 82));
    let new_order = Numbers(83).order(points.len());
    let moved: Matrix = new_order.iter().map(|&row| points[row].clone()).collect();
    let (points, moved, bank) = (chunked(16, &points), chunked(16, &moved), chunked(16, &bank));
    let bank = Bank::new(&bank, Metric::Cosine);
    for statistic in [Statistic::LogSumExp { beta: 20.0 }, Statistic::TopMean { k: 5 }] {
        let (before, after) =
            (fit_one(&plain(&points), bank, statistic), fit_one(&plain(&moved), bank, statistic));
        for (&old, new) in new_order.iter().zip(&after) {
            assert!((value(statistic, &before[old]) - value(statistic, new)).abs() < 1e-6);
        }
    }
    let entries: Vec<u32> = (0..90).collect();
    let before = fit_activation(&plain(&points), 0, bank, &entries, 4).rows();
    let after = fit_activation(&plain(&moved), 0, bank, &entries, 4).rows();
    let mut back: Vec<u32> = after.iter().map(|&row| new_order[row as usize] as u32).collect();
    back.sort_unstable();
    assert_eq!(back, before);
}

#[test]
fn a_constant_added_to_every_bias_changes_no_ranking() {
    TestRunner::new(cases(256, 84))
        .run(&(prop::collection::vec((-4_i8..4, -4_i8..4), 1..20), -50_i8..50), |(pairs, shift)| {
            // Eighths: every sum is exact, so that ties stay ties.
            let exact = |x: i8| f64::from(x) / 8.0;
            let score = |shift: f64| -> Vec<f64> {
                pairs.iter().map(|&(s, bias)| exact(s) - (exact(bias) + shift)).collect()
            };
            prop_assert_eq!(order(&score(exact(shift))), order(&score(0.0)));
            Ok(())
        })
        .expect("shifts change nothing");
}

/// `Σ_b e^{β(s(b,g) − bias_g)} = 1`: no point, however central, is strong for the whole bank, and
/// at most `e^{−βt}` bank queries score it `t` or more.
#[test]
fn inverted_softmax_caps_the_exposure_of_every_point() {
    let line = prop::collection::vec(-100.0_f32..100.0, 5);
    let matrix = prop::collection::vec(line, 1..20);
    TestRunner::new(cases(256, 85))
        .run(&(matrix, prop::sample::select(vec![0.1, 1.0, 20.0, 1000.0])), |(matrix, beta)| {
            let (bank, points) = with_similarities(&matrix);
            let statistic = Statistic::LogSumExp { beta };
            let states = fit_one(&plain(&points), Bank::new(&bank, Metric::Dot), statistic);
            for (point, state) in states.iter().enumerate() {
                let bias = value(statistic, state);
                let scores: Vec<f64> = matrix.iter().map(|line| f64::from(line[point]) - bias).collect();
                let exposure: f64 = scores.iter().map(|score| (beta * score).exp()).sum();
                prop_assert!((exposure - 1.0).abs() < EXP_ERROR, "{exposure}");
                for t in [-0.5_f64, -0.01, 0.0, 0.01] {
                    let strong = scores.iter().filter(|&&score| score >= t).count() as f64;
                    prop_assert!(strong <= (-beta * t).exp() * (1.0 + EXP_ERROR));
                }
            }
            Ok(())
        })
        .expect("the cap holds");
}

#[test]
fn points_and_entries_may_come_in_any_pieces() {
    const DIM: usize = 32;
    let (points, bank) = (random(CHUNK_ROWS + 40, DIM, 91), random(CHUNK_ROWS + 30, DIM, 92));
    let statistics = [Statistic::LogSumExp { beta: 30.0 }, Statistic::TopMean { k: 7 }];
    let (all_points, all_bank) = (chunked(DIM, &points), chunked(DIM, &bank));
    let metric = Metric::Cosine;
    let whole = fit_states(&plain(&all_points), 0, Bank::new(&all_bank, metric), 0, &statistics);
    for (rows, entries) in [(1, CHUNK_ROWS), (CHUNK_ROWS, 1), (37, 51)] {
        let mut states = vec![Vec::new(); statistics.len()];
        for first_row in (0..points.len()).step_by(rows) {
            let seen = chunked(DIM, &points[..points.len().min(first_row + rows)]);
            let mut block: Vec<Vec<State>> =
                statistics.iter().map(|it| vec![it.empty(); seen.len() - first_row]).collect();
            for first_entry in (0..bank.len()).step_by(entries) {
                let known = chunked(DIM, &bank[..bank.len().min(first_entry + entries)]);
                let known = Bank::new(&known, metric);
                let later = fit_states(&plain(&seen), first_row, known, first_entry, &statistics);
                let pairs = block.iter_mut().flatten().zip(later.iter().flatten());
                pairs.for_each(|(state, later)| state.merge(later));
            }
            states.iter_mut().zip(block).for_each(|(all, block)| all.extend(block));
        }
        for ((statistic, found), wanted) in statistics.into_iter().zip(&states).zip(&whole) {
            assert_eq!(found.len(), wanted.len());
            for (found, wanted) in found.iter().zip(wanted) {
                assert!((value(statistic, found) - value(statistic, wanted)).abs() < 1e-6);
            }
        }
    }
}

/// Copies, and rows one rounding apart, at every place of a block and of a kernel's tile.
#[test]
fn a_gate_is_the_same_however_its_points_and_entries_came() {
    const DIM: usize = 96;
    let mut points = random(CHUNK_ROWS + 77, DIM, 93);
    let mut numbers = Numbers(94);
    for row in 100..points.len() {
        points[row] = points[numbers.below(100)].clone();
        let place = numbers.below(DIM);
        let nudged = f32::from_bits(points[row][place].to_bits() + numbers.below(2) as u32);
        points[row][place] = nudged;
    }
    let bank = random(70, DIM, 95);
    let (all_points, all_bank) = (chunked(DIM, &points), chunked(DIM, &bank));
    let entries: Vec<u32> = (0..70).collect();
    let fit_bank = Bank::new(&all_bank, Metric::Cosine);
    let whole = fit_activation(&plain(&all_points), 0, fit_bank, &entries, 3);
    for (entry, list) in whole.lists().iter().enumerate() {
        let scores = (0_u32..).zip(&points).map(|(row, point)| (row, f64::from(dot(point, &bank[entry]))));
        assert_eq!(list, &best(3, scores), "entry {entry} has the best rows by `dot`, as a search does");
    }
    for rows in [1, 50, CHUNK_ROWS] {
        let mut grown = Activation::from_lists(3, vec![Vec::new(); bank.len()]);
        for first_row in (0..points.len()).step_by(rows) {
            let seen = chunked(DIM, &points[..points.len().min(first_row + rows)]);
            grown.merge(&fit_activation(&plain(&seen), first_row, fit_bank, &entries, 3));
        }
        assert_eq!(grown, whole, "{rows} points at a time");
    }
    let mut grown = Activation::new(3);
    entries
        .iter()
        .for_each(|&entry| grown.extend(fit_activation(&plain(&all_points), 0, fit_bank, &[entry], 3)));
    assert_eq!(grown, whole, "one entry at a time");
}

#[test]
fn a_gate_says_what_changed_and_what_must_be_fitted_anew() {
    let list = |rows: &[(i8, u32)]| -> Vec<Candidate> {
        rows.iter().map(|&(score, row)| Candidate::new(f32::from(score), row)).collect()
    };
    let mut gate = Activation::from_lists(2, vec![list(&[(5, 1), (3, 0)]), list(&[(4, 2)]), list(&[])]);
    assert_eq!(gate.rows(), [0, 1, 2]);
    let later = Activation::from_lists(2, vec![list(&[(3, 7)]), list(&[(9, 8), (4, 7)]), list(&[(-1, 7)])]);
    assert_eq!(gate.merge(&later), [1, 2], "an equal score at a higher row changes nothing");
    assert_eq!(gate.lists()[1], list(&[(9, 8), (4, 2)]));
    assert_eq!(gate.rows(), [0, 1, 2, 7, 8]);
    assert_eq!(gate.holding(|row| row == 7 || row == 0), [0, 2]);
    gate.replace(2, list(&[(0, 1)]));
    assert_eq!(gate.rows(), [0, 1, 2, 8]);
    gate.extend(Activation::from_lists(2, vec![list(&[(1, 9)])]));
    assert_eq!((gate.lists().len(), gate.rows().last()), (4, Some(&9)));
}

#[test]
fn dead_rows_and_own_entries_are_in_no_list() {
    let (points, bank) = (random(60, 8, 96), random(20, 8, 97));
    let (vectors, bank) = (chunked(8, &points), chunked(8, &bank));
    let points =
        Points { vectors: &vectors, live: &|row| row % 3 != 0, own_entry: &|row| (row < 20).then_some(row) };
    let entries: Vec<u32> = (0..20).collect();
    let gate = fit_activation(&points, 0, Bank::new(&bank, Metric::Cosine), &entries, 60);
    for (entry, list) in (0_u32..).zip(gate.lists()) {
        assert!(list.iter().all(|candidate| candidate.row % 3 != 0 && candidate.row != entry));
        assert_eq!(list.len(), 40 - usize::from(entry % 3 != 0));
    }
}
