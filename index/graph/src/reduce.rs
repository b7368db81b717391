//! When codes of fewer numbers pay, and which.

use dehub_vector::{Metric, Projection};

use crate::Points;
use crate::geometry::{less, mean};

/// Vectors of fewer numbers are coded whole: a walk then waits for memory, not for the product.
const DIM_MIN: usize = 128;

/// The share of the squares of points and queries that a projection has to hold. On sentence embeddings,
/// where half the directions hold it, .995 of the ten best by the whole product are among the forty best by
/// the projected one. At .78, in a third of the directions, it takes more than a hundred: they are scored
/// again, which costs more than the shorter codes save.
const SHARE: f32 = 0.88;

/// Rows of each side that directions are fitted to, evenly spread.
const SAMPLE_MAX: usize = 16_384;

/// The projection that a graph over `points` is best coded by, as far as their `queries` are known: on the
/// fewest directions that hold enough of both; `None` if half the dimension does not, or is little anyway.
///
/// # Panics
/// If a vector or a query does not have as many numbers as the points say.
pub fn fit_projection(points: &Points<'_>, queries: &[&[f32]]) -> Option<Projection> {
    if points.dim < DIM_MIN {
        return None;
    }
    let center = match points.metric {
        Metric::Euclidean => mean(points),
        Metric::Cosine | Metric::Dot => vec![0.0; points.dim],
    };
    let nodes = points.groups.len();
    let nodes: Vec<f32> = sampled(nodes).flat_map(|node| less(points.of(node), &center)).collect();
    let queries: Vec<f32> = sampled(queries.len()).flat_map(|query| less(queries[query], &center)).collect();
    Projection::fit(&nodes, &queries, points.dim, SHARE, points.dim / 2)
}

/// At most [`SAMPLE_MAX`] of `count` places.
fn sampled(count: usize) -> impl Iterator<Item = usize> {
    (0..count).step_by(count.div_ceil(SAMPLE_MAX).max(1))
}
