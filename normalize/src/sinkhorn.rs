//! Sinkhorn normalisation: potentials of the bank entries under which every entry and every point
//! gets the same mass (Pan et al., *Sinkhorn normalisation for hubness*, ACM MM 2025, with truncated
//! iterations as in the published code).
//!
//! With `f` the potentials of entries and `h` those of points, one iteration is
//!
//! ```text
//! f_b = −ln|B| − ln Σ_g e^{s(b,g)/τ + h_g}        h_g = −ln|G| − ln Σ_b e^{s(b,g)/τ + f_b}
//! ```
//!
//! An entry of weight `w` has the mass `w/W` in place of `1/|B|`, with `W` the sum of all weights: it
//! is as many entries. One that was removed has no mass and the potential 0, which nobody reads.
//!
//! The score is `s + τ·h_g`; with two banks, `g` goes over the points and the entries of a gallery bank.
//! For given `f` that is a sum over the bank like any other, so a new
//! point gets its column without a new fit.

use dehub_vector::Chunked;

use crate::fit::{Bank, Points, fit_states};
use crate::{State, Statistic};

/// The potentials of the bank's entries after some iterations, from `start` if given (a warm start:
/// the potentials of an earlier fit, for entries that are new their mean). `beside` are vectors balanced along
/// with the points.
pub fn fit_potentials(
    points: &Points<'_>,
    beside: Option<&Chunked>,
    bank: Bank<'_>,
    tau: f64,
    iterations: usize,
    start: Option<&[f32]>,
) -> Vec<f32> {
    fit_potentials_while(points, beside, bank, (tau, iterations), start, &mut || true).unwrap_or_default()
}

/// The same with `balance` the temperature and the iterations; `go_on` is asked before each iteration, and its
/// no gives `None`.
pub fn fit_potentials_while(
    points: &Points<'_>,
    beside: Option<&Chunked>,
    bank: Bank<'_>,
    (tau, iterations): (f64, usize),
    start: Option<&[f32]>,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<f32>> {
    let mut gallery = living(points);
    if let Some(beside) = beside {
        (0..beside.len()).for_each(|row| gallery.push(beside.row(row)));
    }
    let statistic = Statistic::Sinkhorn { tau, iterations, with_gallery: beside.is_some() };
    let side = |rows: &Chunked, columns: Bank<'_>, weights: Option<&Chunked>| {
        let rows = Points { vectors: rows, live: &|_| true, own_entry: &|_| None };
        let states = fit_states(&rows, 0, columns, 0, &[statistic]).pop().unwrap_or_default();
        balanced(&states, weights)
    };
    let points_from =
        |potentials: &[f32]| side(&gallery, Bank { potentials: Some(potentials), ..bank }, None);
    let entries_from = |potentials: &[f32]| {
        let gallery = Bank { potentials: Some(potentials), ..Bank::new(&gallery, bank.metric) };
        side(bank.vectors, gallery, bank.weights)
    };
    let mut of_points = match start {
        Some(start) => points_from(start),
        None => vec![0.0; gallery.len()],
    };
    let mut of_entries = Vec::new();
    for iteration in 0..iterations.max(1) {
        if !go_on() {
            return None;
        }
        of_entries = entries_from(&of_points);
        if iteration + 1 < iterations {
            of_points = points_from(&of_entries);
        }
    }
    Some(of_entries)
}

/// `−ln n − ln Σ e^…` of each of `n` states, or with their share `w/W` of the weights for `1/n`.
#[expect(clippy::cast_precision_loss, reason = "a count of rows is far below 2^53")]
#[expect(clippy::cast_possible_truncation, reason = "potentials are kept in 32 bits")]
fn balanced(states: &[State], weights: Option<&Chunked>) -> Vec<f32> {
    let Some(weights) = weights else {
        let share = (states.len() as f64).ln();
        return states.iter().map(|state| (-share - state.ln_sum().unwrap_or(0.0)) as f32).collect();
    };
    let weights: Vec<f64> = (0..states.len()).map(|entry| f64::from(weights.at(entry))).collect();
    let share = weights.iter().sum::<f64>().ln();
    let potential = |(state, &weight): (&State, &f64)| {
        if weight > 0.0 { (weight.ln() - share - state.ln_sum().unwrap_or(0.0)) as f32 } else { 0.0 }
    };
    states.iter().zip(&weights).map(potential).collect()
}

/// The vectors of the points that exist.
fn living(points: &Points<'_>) -> Chunked {
    let rows = (0_u32..).zip(0..points.vectors.len());
    let mut living = points.vectors.empty_like();
    rows.filter(|&(row, _)| (points.live)(row)).for_each(|(_, row)| living.push(points.vectors.row(row)));
    living
}
