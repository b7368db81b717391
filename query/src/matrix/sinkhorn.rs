//! Sinkhorn potentials of a bank whose similarities are read, not computed; as
//! [`dehub_normalize::fit_potentials`] has them.

use dehub_normalize::{Block, State, Statistic};
use dehub_vector::CHUNK_ROWS;
use rayon::prelude::*;

use super::fit::{PointStates, number};
use super::{MatrixError, Similarities, each_block};

/// The potentials of the entries after some iterations.
pub(super) fn potentials(
    source: &dyn Similarities,
    order: &[u32],
    statistic: Statistic,
    iterations: usize,
) -> Result<Vec<f32>, MatrixError> {
    let mut of_points = vec![0.0; source.columns()];
    let mut of_entries = Vec::new();
    for iteration in 0..iterations.max(1) {
        of_entries = balanced_rows(source, order, statistic, &of_points)?;
        if iteration + 1 < iterations {
            let states = balanced_columns(source, order, statistic, &of_entries)?;
            of_points = shares(states.states());
        }
    }
    Ok(of_entries)
}

/// The states of the points over entries with potentials.
pub(super) fn balanced_columns(
    source: &dyn Similarities,
    order: &[u32],
    statistic: Statistic,
    of_entries: &[f32],
) -> Result<PointStates, MatrixError> {
    let mut states = PointStates::new(source.columns(), vec![statistic]);
    each_block(source, order, &[], &mut |first, block| {
        states.absorb(first, block, &of_entries[first..], &|_| None);
    })?;
    Ok(states)
}

/// The potentials of the entries, given those of the points.
fn balanced_rows(
    source: &dyn Similarities,
    order: &[u32],
    statistic: Statistic,
    of_points: &[f32],
) -> Result<Vec<f32>, MatrixError> {
    let mut states = Vec::with_capacity(order.len());
    each_block(source, order, &[], &mut |_, block| {
        let lines = block.par_chunks_exact(of_points.len()).map(|line| {
            let mut state = statistic.empty();
            let parts = line.chunks(CHUNK_ROWS).zip(of_points.chunks(CHUNK_ROWS)).enumerate();
            for (place, (part, potentials)) in parts {
                state.absorb(statistic, Block::new(part, number(place * CHUNK_ROWS)).with(potentials));
            }
            state
        });
        states.extend(lines.collect::<Vec<_>>());
    })?;
    Ok(shares(&states))
}

/// `−ln n − ln Σ e^…` of each of `n` states.
#[expect(clippy::cast_precision_loss, reason = "a count of rows is far below 2^53")]
#[expect(clippy::cast_possible_truncation, reason = "potentials are kept in 32 bits")]
fn shares(states: &[State]) -> Vec<f32> {
    let share = (states.len() as f64).ln();
    states.iter().map(|state| (-share - state.ln_sum().unwrap_or(0.0)) as f32).collect()
}
