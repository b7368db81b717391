//! Fitting against the formulas in f64, on friendly and unfriendly banks.

use std::collections::BTreeSet;

use dehub_normalize::{Bank, Points, Statistic, fit_activation, fit_states, fit_together};
use dehub_vector::{CHUNK_ROWS, Metric};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use crate::reference::{
    EXP_ERROR, Matrix, Numbers, best, cases, chunked, similarity, similarity_error, statistic, unit, value,
};

/// A bank and points to fit.
#[derive(Debug, Clone)]
struct Setting {
    metric: Metric,
    points: Matrix,
    bank: Matrix,
    /// Row → the entry that is the same thing.
    own: Vec<Option<u32>>,
    dead: BTreeSet<u32>,
}

impl Setting {
    fn with<T>(&self, look: impl FnOnce(&Points<'_>, Bank<'_>) -> T) -> T {
        let dim = self.points.first().or(self.bank.first()).map_or(1, Vec::len);
        let (points, bank) = (chunked(dim, &self.points), chunked(dim, &self.bank));
        let points = Points {
            vectors: &points,
            live: &|row| !self.dead.contains(&row),
            own_entry: &|row| self.own[row as usize],
        };
        look(&points, Bank::new(&bank, self.metric))
    }

    /// The entries a row is compared with, from `first` on.
    fn others(&self, row: usize, first: usize) -> impl Iterator<Item = &Vec<f32>> {
        let own = self.own[row];
        (0_u32..).zip(&self.bank).skip(first).filter(move |&(entry, _)| Some(entry) != own).map(|(_, it)| it)
    }

    fn error(&self, row: usize) -> f64 {
        let error = |entry: &Vec<f32>| similarity_error(self.metric, &self.points[row], entry);
        self.bank.iter().map(error).fold(1e-9, f64::max)
    }

    /// Every statistic is 1-Lipschitz in the similarities: it errs no more than they do.
    fn check_statistics(&self, first_row: usize, first_entry: usize) -> Result<(), TestCaseError> {
        let all = self.bank.len().max(1);
        let wanted = [
            Statistic::LogSumExp { beta: 20.0 },
            Statistic::LogSumExp { beta: 1000.0 },
            Statistic::LogSumExp { beta: 0.01 },
            Statistic::TopMean { k: 1 },
            Statistic::TopMean { k: all },
            Statistic::TopMean { k: all.div_ceil(2) },
            Statistic::TopMean { k: all + 7 },
        ];
        let states = self.with(|points, bank| fit_states(points, first_row, bank, first_entry, &wanted));
        prop_assert_eq!(states.len(), wanted.len());
        for (asked, states) in wanted.into_iter().zip(states) {
            prop_assert_eq!(states.len(), self.points.len() - first_row);
            let is_live = |row: usize| !self.dead.contains(&u32::try_from(row).expect("few"));
            for (row, state) in (first_row..).zip(&states).filter(|&(row, _)| is_live(row)) {
                let point = &self.points[row];
                let similarities: Vec<f64> = self
                    .others(row, first_entry)
                    .map(|entry| similarity(self.metric, point, entry))
                    .collect();
                let (found, wanted) = (value(asked, state), statistic(asked, &similarities));
                let exponentials =
                    if let Statistic::LogSumExp { beta } = asked { EXP_ERROR / beta } else { 0.0 };
                let error = self.error(row) + exponentials + 1e-12 * wanted.abs();
                prop_assert!(
                    (found - wanted).abs() <= error,
                    "{asked} of row {row}: {found}, wanted {wanted}"
                );
            }
        }
        Ok(())
    }

    /// Each list is a head of the full sort, up to what 32 bits can tell apart.
    fn check_activation(&self, first_row: usize, k: usize) -> Result<(), TestCaseError> {
        let entries: Vec<u32> = (0..).take(self.bank.len()).collect();
        let activation = self.with(|points, bank| fit_activation(points, first_row, bank, &entries, k));
        prop_assert_eq!(activation.k(), k);
        prop_assert_eq!(activation.lists().len(), self.bank.len());
        let mut union = BTreeSet::new();
        for (entry, list) in activation.lists().iter().enumerate() {
            let allowed =
                |row: &u32| !self.dead.contains(row) && self.own[*row as usize] != Some(entry as u32);
            let rows: Vec<u32> = (0..self.points.len() as u32).skip(first_row).filter(allowed).collect();
            prop_assert_eq!(list.len(), k.min(rows.len()));
            prop_assert!(list.is_sorted_by(|a, b| a > b));
            let exact = |row: u32| similarity(self.metric, &self.points[row as usize], &self.bank[entry]);
            let error =
                |row: u32| similarity_error(self.metric, &self.points[row as usize], &self.bank[entry]);
            let mut listed = BTreeSet::new();
            for candidate in list {
                prop_assert!(rows.contains(&candidate.row) && listed.insert(candidate.row));
                prop_assert!(
                    (f64::from(candidate.score) - exact(candidate.row)).abs() <= error(candidate.row)
                );
            }
            if let Some(worst) = list.last() {
                for &row in rows.iter().filter(|row| !listed.contains(row)) {
                    prop_assert!(
                        exact(row) <= f64::from(worst.score) + error(row),
                        "{row} is better than {worst:?}"
                    );
                }
            }
            union.extend(listed);
        }
        prop_assert_eq!(activation.rows(), union.into_iter().collect::<Vec<_>>());
        Ok(())
    }

    /// One pass gives what each asked for alone gets.
    fn check_together(&self, k: usize) -> Result<(), TestCaseError> {
        let wanted = [Statistic::LogSumExp { beta: 20.0 }, Statistic::TopMean { k: 3 }, Statistic::Mean];
        let entries: Vec<u32> = (0..).take(self.bank.len()).collect();
        let gates = [k, 1, k + 4];
        self.with(|points, bank| {
            let (states, activations) = fit_together(points, 0..points.vectors.len(), bank, &wanted, &gates);
            prop_assert_eq!(states, fit_states(points, 0, bank, 0, &wanted));
            for (k, found) in gates.into_iter().zip(&activations) {
                prop_assert_eq!(found, &fit_activation(points, 0, bank, &entries, k));
            }
            prop_assert_eq!(activations.len(), gates.len());
            Ok(())
        })
    }

    /// With sums that 32 bits hold exactly, ties are ties and the lower row wins.
    fn check_exact_activation(&self, k: usize) -> Result<(), TestCaseError> {
        let entries: Vec<u32> = (0..).take(self.bank.len()).collect();
        let activation = self.with(|points, bank| fit_activation(points, 0, bank, &entries, k));
        for (entry, list) in (0_u32..).zip(activation.lists()) {
            let allowed = |row: &u32| !self.dead.contains(row) && self.own[*row as usize] != Some(entry);
            let score = |row: u32| {
                (row, similarity(self.metric, &self.points[row as usize], &self.bank[entry as usize]))
            };
            let rows = (0..self.points.len() as u32).filter(allowed);
            prop_assert_eq!(list, &best(k, rows.map(score)));
        }
        Ok(())
    }
}

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];

fn coordinate(kind: usize) -> BoxedStrategy<f32> {
    match kind {
        // Few whole numbers: ties and duplicates everywhere.
        0 => (-2_i8..=2).prop_map(f32::from).boxed(),
        1 => (-1.0_f32..1.0).boxed(),
        // All similarities negative under dot when bank and points differ in sign, huge otherwise.
        2 => (50.0_f32..100.0).boxed(),
        _ => prop_oneof![Just(0.0_f32), Just(-0.0), Just(1e-20), Just(1.0), Just(-1e10)].boxed(),
    }
}

fn setting() -> impl Strategy<Value = (Setting, usize)> {
    (0_usize..4, 0_usize..3, 1_usize..9, 1_usize..24, 1_usize..24, any::<bool>()).prop_flat_map(
        |(kind, metric, dim, points, bank, opposite)| {
            let rows = |count| prop::collection::vec(prop::collection::vec(coordinate(kind), dim), count);
            let own = prop::collection::vec(prop::option::weighted(0.3, 0..bank as u32), points);
            let dead = prop::collection::btree_set(0..points as u32, 0..=points / 2);
            (rows(points), rows(bank), own, dead).prop_map(move |(points, bank, own, dead)| {
                let sign = if opposite { -1.0 } else { 1.0 };
                let bank = bank.iter().map(|row| row.iter().map(|x| x * sign).collect()).collect();
                (Setting { metric: METRICS[metric], points, bank, own, dead }, kind)
            })
        },
    )
}

#[test]
fn statistics_are_their_formulas() {
    TestRunner::new(cases(300, 31))
        .run(
            &(setting(), any::<prop::sample::Index>(), any::<prop::sample::Index>()),
            |((it, _), row, entry)| {
                it.check_statistics(0, 0)?;
                it.check_statistics(row.index(it.points.len()), entry.index(it.bank.len()))
            },
        )
        .expect("the formulas hold");
}

#[test]
fn activation_lists_are_heads_of_a_full_sort() {
    TestRunner::new(cases(300, 32))
        .run(&(setting(), 1_usize..8, any::<prop::sample::Index>()), |((it, kind), k, row)| {
            it.check_activation(0, k)?;
            it.check_together(k)?;
            it.check_activation(row.index(it.points.len()), k)?;
            if kind == 0 { it.check_exact_activation(k) } else { Ok(()) }
        })
        .expect("the lists hold");
}

fn random(points: usize, bank: usize, dim: usize, metric: Metric, seed: u64) -> Setting {
    let mut numbers = Numbers(seed);
    let mut rows = |count| -> Matrix {
        (0..count).map(|_| (0..dim).map(|_| numbers.signed() + 0.3).collect()).collect()
    };
    let (points, bank) = (rows(points), rows(bank));
    let (points, bank) = match metric {
        Metric::Cosine => (unit(&points), unit(&bank)),
        Metric::Dot | Metric::Euclidean => (points, bank),
    };
    let own = vec![None; points.len()];
    Setting { metric, points, bank, own, dead: BTreeSet::new() }
}

#[test]
fn many_blocks_of_points_and_entries_are_one_bank() {
    for (metric, seed) in METRICS.into_iter().zip(41..) {
        let mut it = random(CHUNK_ROWS * 2 + 61, CHUNK_ROWS + 45, 24, metric, seed);
        it.own[3] = Some(CHUNK_ROWS as u32 + 1);
        it.own[CHUNK_ROWS + 1] = Some(0);
        it.dead = [0, 7, CHUNK_ROWS as u32].into();
        for (row, entry) in [(0, 0), (CHUNK_ROWS - 1, 1), (CHUNK_ROWS, CHUNK_ROWS), (100, CHUNK_ROWS + 44)] {
            it.check_statistics(row, entry).expect("the formulas hold");
            it.check_activation(row, 5).expect("the lists hold");
        }
        it.check_together(5).expect("one pass for all");
        it.check_activation(0, it.points.len() + 3).expect("a list longer than the gallery holds it all");
    }
}

#[test]
fn one_entry_a_hundredfold_logits_and_copies() {
    let mut one = random(50, 1, 8, Metric::Cosine, 51);
    one.check_statistics(0, 0).expect("one entry");
    one.own[5] = Some(0);
    one.check_statistics(0, 0).expect("a row whose only entry is itself has no bias");
    let mut large = random(40, 30, 8, Metric::Dot, 52);
    large.points.iter_mut().flatten().for_each(|x| *x *= 100.0);
    large.check_statistics(0, 0).expect("logits");
    let mut copies = random(40, 30, 8, Metric::Cosine, 53);
    copies.bank = vec![copies.bank[0].clone(); 30];
    copies.points = vec![copies.points[0].clone(); 40];
    copies.check_statistics(0, 0).expect("copies");
    copies.check_activation(0, 3).expect("copies");
}

#[test]
fn an_empty_side_fits_to_nothing() {
    let no_points = Setting { points: vec![], own: vec![], ..random(1, 5, 4, Metric::Dot, 61) };
    no_points.check_statistics(0, 0).expect("no rows, no states");
    no_points.check_activation(0, 2).expect("every list is empty");
    let no_bank = Setting { bank: vec![], ..random(5, 1, 4, Metric::Dot, 62) };
    no_bank.check_statistics(0, 0).expect("every value is the neutral 0");
    no_bank.check_activation(0, 2).expect("no lists");
    no_bank.with(|points, bank| assert!(fit_states(points, 0, bank, 0, &[]).is_empty()));
}
