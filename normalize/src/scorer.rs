//! Scores that are no weighted sum of statistics: of one similarity, from what is known of the query
//! and of the point, in 64 bits. Each is monotone in the similarity. Equal scores are ordered by the
//! similarity.

use dehub_vector::Chunked;

use crate::{BankKind, Block, Statistic};

/// The least mean of neighbours a similarity is divided by, about the rounding of a 32-bit similarity.
/// A point or query whose neighbours are on the mean not similar at all counts as having this.
const MARGIN_MIN: f64 = 1e-6;

/// The score of a point that has none: the lowest 32-bit number, which ranks below every score.
const NO_SCORE: f64 = f32::MIN as f64;

/// How a method scores that no statistic's weight can express.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scorer {
    /// `−` the number of bank entries more similar to the point than the query is.
    BankRank,
    /// `s / (½(r(q) + r(g)))`, with `r(g)` the point's statistic, and `r(q)` the mean of the query's `k`
    /// largest similarities to the gallery.
    RatioMargin {
        /// How many, at least 1.
        k: usize,
    },
    /// `ln Φ((s − μ_q)/σ_q) + ln Φ((s − μ_g)/σ_g)`, with the query's moments over the gallery bank.
    MutualProximity,
    /// `ln s + βs − ln(Σ_b e^{βs(b,g)} + e^{βs})`; a point with `s ≤ 0` has no score.
    DualSoftmax {
        /// Inverse temperature, above 0.
        beta: f64,
    },
}

/// What a scorer knows of a point.
#[derive(Debug, Clone, Copy)]
pub struct PointSide<'a> {
    /// The method's first statistic of it; 0 if there is none.
    pub statistic: f64,
    /// The statistic the method scales by; 1 if there is none.
    pub scale: f64,
    /// For a statistic that is a list, the list, largest first.
    pub largest: &'a [f32],
}

/// A scorer that knows its query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueryScorer {
    scorer: Scorer,
    /// The mean of what the scorer compares the query with.
    mean: f64,
    /// One over its standard deviation.
    per_deviation: f64,
}

impl Scorer {
    /// How many of a query's largest similarities to the gallery the score takes into account.
    pub fn query_neighbours(self) -> Option<usize> {
        match self {
            Scorer::RatioMargin { k } => Some(k),
            Scorer::BankRank | Scorer::MutualProximity | Scorer::DualSoftmax { .. } => None,
        }
    }

    /// The kind of bank that queries are compared with as they are asked.
    pub fn query_bank(self) -> Option<BankKind> {
        match self {
            Scorer::MutualProximity => Some(BankKind::Gallery),
            Scorer::BankRank | Scorer::RatioMargin { .. } | Scorer::DualSoftmax { .. } => None,
        }
    }

    /// The least value the first statistic is taken at.
    pub fn statistic_min(self) -> Option<f64> {
        match self {
            Scorer::RatioMargin { .. } => Some(MARGIN_MIN),
            Scorer::BankRank | Scorer::MutualProximity | Scorer::DualSoftmax { .. } => None,
        }
    }

    /// The scorer of one query: `similarities` are those to the gallery that
    /// [`Scorer::query_neighbours`] asks for, largest first, or those to every entry of the bank that
    /// [`Scorer::query_bank`] asks for, with the entries' weights if they are not all 1; else empty.
    #[expect(clippy::cast_precision_loss, reason = "a count of similarities is far below 2^53")]
    pub fn for_query(self, similarities: &[f32], weights: &[f32]) -> QueryScorer {
        let known = |mean, per_deviation| QueryScorer { scorer: self, mean, per_deviation };
        match self {
            Scorer::BankRank | Scorer::DualSoftmax { .. } => known(0.0, 1.0),
            Scorer::RatioMargin { .. } => {
                let sum: f64 = similarities.iter().map(|&similarity| f64::from(similarity)).sum();
                known((sum / similarities.len().max(1) as f64).max(MARGIN_MIN), 1.0)
            }
            Scorer::MutualProximity => {
                let mut moments = Statistic::Mean.empty();
                moments.absorb(Statistic::Mean, Block::new(similarities, 0).weighted(weights));
                let none = Chunked::new(1);
                let value = |statistic: Statistic| statistic.value(&moments, &none);
                known(value(Statistic::Mean), value(Statistic::InverseDeviation))
            }
        }
    }
}

impl QueryScorer {
    /// The score of a point whose similarity is known; larger is better, and never NaN.
    #[expect(clippy::cast_precision_loss, reason = "a list has at most 65,536 numbers")]
    pub fn score(&self, similarity: f32, point: PointSide<'_>) -> f64 {
        let s = f64::from(similarity);
        match self.scorer {
            Scorer::BankRank => -(point.largest.partition_point(|&other| other > similarity) as f64) + 0.0,
            Scorer::RatioMargin { .. } => s / (0.5 * (self.mean + point.statistic.max(MARGIN_MIN))),
            Scorer::MutualProximity => {
                let of_query = (s - self.mean) * self.per_deviation;
                ln_normal(of_query) + ln_normal(s * point.scale - point.statistic)
            }
            Scorer::DualSoftmax { beta } if s > 0.0 => s.ln() - softplus(beta * (point.statistic - s)),
            Scorer::DualSoftmax { .. } => NO_SCORE,
        }
    }
}

/// `ln(1 + e^x)` without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// Below this the normal distribution function is taken from its asymptotic series, whose first term
/// left out is there `3·10⁻¹²`; the function itself would soon be no normal number.
const TAIL: f64 = -20.0;

/// `ln Φ(z)`, of the normal distribution function, over the whole range of `z`.
fn ln_normal(z: f64) -> f64 {
    let x = z * std::f64::consts::FRAC_1_SQRT_2;
    if z > 0.0 {
        return (-0.5 * libm::erfc(x)).ln_1p();
    }
    if z > TAIL {
        return (0.5 * libm::erfc(-x)).ln();
    }
    // Abramowitz & Stegun 26.2.12, with y = 1/z²: Φ(z) = φ(z)/|z| · (1 − y + 3y² − 15y³ + 105y⁴ − 945y⁵ …).
    let y = (z * z).recip();
    let series = -y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y * (1.0 - 9.0 * y))));
    let ln_density = -0.5 * z * z - 0.5 * (2.0 * std::f64::consts::PI).ln();
    ln_density - z.abs().ln() + series.ln_1p()
}
