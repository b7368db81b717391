//! Vectors as the builder compares them: points whose neighbours lead to the best answers of a metric.

use dehub_vector::{Kernels, Metric, dot, prefetch, round_row};
use half::bf16;
use rayon::prelude::*;

use crate::Points;
use crate::bytes::LINE;

/// Points in halves. The similarity of two is `−‖a − b‖²/2`, for unit vectors but for a constant.
pub(crate) struct Geometry {
    kernels: &'static Kernels,
    width: usize,
    numbers: Vec<bf16>,
    /// Numbers before the first row, which lies on a cache line's border.
    first: usize,
    /// `−‖a‖²/2` of each coded point; none for unit vectors.
    terms: Vec<f32>,
}

impl Geometry {
    /// The points of `points` for its metric: unit vectors, vectors less their mean, or [`lift`]ed ones.
    pub(crate) fn new(points: &Points<'_>, center: &[f32]) -> Geometry {
        let (nodes, metric) = (points.groups.len(), points.metric);
        let dim = points.dim + usize::from(metric == Metric::Dot);
        let width = dim.next_multiple_of(LINE / size_of::<bf16>());
        let mut numbers = vec![bf16::ZERO; nodes * width + LINE / size_of::<bf16>()];
        let first = numbers.as_ptr().align_offset(LINE).min(LINE / size_of::<bf16>());
        let length = |node: usize| dot(points.of(node), points.of(node)).sqrt();
        let longest = match metric {
            Metric::Dot => (0..nodes).into_par_iter().map(length).reduce(|| 0.0, f32::max),
            Metric::Cosine | Metric::Euclidean => 0.0,
        };
        let kernels = Kernels::best();
        let rows = numbers[first..][..nodes * width].par_chunks_exact_mut(width);
        let terms = rows.enumerate().map(|(node, row)| {
            let vector = points.of(node);
            match metric {
                Metric::Cosine => round_row(vector, &mut row[..dim]),
                Metric::Euclidean => round_row(&less(vector, center), &mut row[..dim]),
                Metric::Dot => round_row(&lift(vector, longest), &mut row[..dim]),
            };
            -kernels.dot_bf16(row, row) / 2.0
        });
        let terms = match metric {
            Metric::Cosine => {
                terms.for_each(drop);
                Vec::new()
            }
            Metric::Dot | Metric::Euclidean => terms.collect(),
        };
        Geometry { kernels, width, numbers, first, terms }
    }

    #[inline]
    fn row(&self, node: u32) -> &[bf16] {
        &self.numbers[self.first + node as usize * self.width..][..self.width]
    }

    /// Asks for a point to be brought near.
    #[inline]
    pub(crate) fn fetch(&self, node: u32) {
        prefetch(self.row(node));
    }

    /// How near two points are to each other; larger is nearer.
    #[inline]
    pub(crate) fn similarity(&self, left: u32, right: u32) -> f32 {
        let product = self.kernels.dot_bf16(self.row(left), self.row(right));
        match (self.terms.get(left as usize), self.terms.get(right as usize)) {
            (Some(l), Some(r)) => product + (l + r),
            _ => product,
        }
    }

    /// How far apart two points are: `‖a − b‖²/2`, and no less than 0.
    pub(crate) fn distance(&self, left: u32, right: u32) -> f32 {
        let none = if self.terms.is_empty() { 1.0 } else { 0.0 };
        (none - self.similarity(left, right)).max(0.0)
    }
}

/// A vector less another.
pub(crate) fn less(vector: &[f32], center: &[f32]) -> Vec<f32> {
    vector.iter().zip(center).map(|(x, c)| x - c).collect()
}

/// The mean of the nodes' vectors, which Euclidean codes are taken from: halves are fine near 0 only.
pub(crate) fn mean(points: &Points<'_>) -> Vec<f32> {
    let mut sums = vec![0.0_f64; points.dim];
    for node in 0..points.groups.len() {
        for (sum, &x) in sums.iter_mut().zip(points.of(node)) {
            *sum += f64::from(x);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "nodes are far fewer than 2^53")]
    let nodes = points.groups.len().max(1) as f64;
    #[expect(clippy::cast_possible_truncation, reason = "any nearby number will do")]
    sums.iter().map(|sum| (sum / nodes) as f32).collect()
}

/// A vector under dot as a point whose neighbours are alike in direction and in length:
/// `[x / ‖x‖, ‖x‖ / M]`. A walk then turns to the query and climbs to the long vectors. On the sphere of
/// Bachrach et al. (RecSys 2014), `[x, √(M² − ‖x‖²)]`, short vectors are everyone's neighbours.
fn lift(vector: &[f32], longest: f32) -> Vec<f32> {
    // A row of zeros has no direction, and any length will do to divide by.
    let positive = |length: f32| if length > 0.0 { length } else { 1.0 };
    let own = dot(vector, vector).sqrt();
    vector.iter().map(|x| x / positive(own)).chain([own / positive(longest)]).collect()
}
