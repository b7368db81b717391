//! States that differ by rounding alone, and states of another point.

use dehub_normalize::{Bank, Gap, Points, Statistic, fit_entries, fit_rows, fit_states};
use dehub_vector::{CHUNK_ROWS, Metric};

use crate::reference::{Numbers, chunked, plain};

const STATISTICS: [Statistic; 10] = [
    Statistic::LogSumExp { beta: 20.0 },
    Statistic::TopMean { k: 3 },
    Statistic::TopMeanPower { k: 3, gamma: 0.5 },
    Statistic::KthUnit { k: 4, gap: Gap::Cosine },
    Statistic::MeanUnit { k: 4, gap: Gap::Cosine },
    Statistic::Mean,
    Statistic::MeanByDeviation,
    Statistic::InverseDeviation,
    Statistic::CentroidPull { k: 3, gap: Gap::Cosine },
    Statistic::Largest { k: 5 },
];

fn rows(numbers: &mut Numbers, count: usize) -> Vec<Vec<f32>> {
    (0..count).map(|_| (0..7).map(|_| numbers.signed()).collect()).collect()
}

#[test]
fn states_of_one_point_are_near_however_they_were_summed_and_those_of_two_points_are_not() {
    let mut numbers = Numbers(90);
    let (vectors, entries) = (chunked(7, &rows(&mut numbers, 40)), chunked(7, &rows(&mut numbers, 700)));
    let weights = chunked(1, &(0..700).map(|it| vec![[1.0, 0.5, 0.0][it % 3]]).collect::<Vec<_>>());
    for weights in [None, Some(&weights)] {
        let bank = Bank { weights, ..Bank::new(&entries, Metric::Dot) };
        let whole = fit_states(&plain(&vectors), 0, bank, 0, &STATISTICS);
        let mut parts = fit_entries(&plain(&vectors), 0, bank, 300..700, &STATISTICS);
        let first = fit_entries(&plain(&vectors), 0, bank, 0..300, &STATISTICS);
        for (parts, first) in parts.iter_mut().zip(&first) {
            parts.iter_mut().zip(first).for_each(|(state, first)| state.merge(first));
        }
        for ((statistic, whole), parts) in STATISTICS.into_iter().zip(&whole).zip(&parts) {
            for (row, state) in whole.iter().enumerate() {
                assert!(state.is_near(&parts[row], statistic, 1e-5), "{statistic}, row {row}");
                let other = &whole[(row + 1) % whole.len()];
                assert!(!state.is_near(other, statistic, 1e-5), "{statistic}, row {row}");
            }
        }
    }
}

#[test]
fn a_chunk_of_deleted_points_costs_no_similarity_and_the_others_are_what_they_were() {
    let mut numbers = Numbers(91);
    let (vectors, entries) =
        (chunked(7, &rows(&mut numbers, 3 * CHUNK_ROWS + 9)), chunked(7, &rows(&mut numbers, 50)));
    let live = |row: u32| !(CHUNK_ROWS..2 * CHUNK_ROWS).contains(&(row as usize)) && !row.is_multiple_of(3);
    let points = Points { vectors: &vectors, live: &live, own_entry: &|_| None };
    let bank = Bank::new(&entries, Metric::Dot);
    let all = fit_states(&plain(&vectors), 0, bank, 0, &STATISTICS);
    let some = fit_rows(&points, 0..vectors.len(), bank, 0..50, &STATISTICS);
    for (statistic, (all, some)) in STATISTICS.into_iter().zip(all.iter().zip(&some)) {
        assert_eq!(some.len(), vectors.len());
        for (row, (all, some)) in (0_u32..).zip(all.iter().zip(some)) {
            let is_dead = (CHUNK_ROWS..2 * CHUNK_ROWS).contains(&(row as usize));
            assert_eq!(
                *some,
                if is_dead { statistic.empty() } else { all.clone() },
                "{statistic}, row {row}"
            );
        }
    }
}
