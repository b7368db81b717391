//! How many queries a point can reach: a law for some corrections over their own bank.

use dehub_index::{Correction, Name, Snapshot};
use dehub_normalize::Guard;
use dehub_vector::{Vector, product_error};
use rayon::prelude::*;

use crate::QueryError;
use crate::hubness::label;
use crate::sources::refuse_weights;

/// How many queries give the most exposed point a score from a threshold on.
#[derive(Debug, Clone, PartialEq)]
pub struct Exposure {
    /// The method's label.
    pub label: String,
    /// The bank asked, or `None` for other queries.
    pub bank: Option<Name>,
    /// The queries asked.
    pub queries: usize,
    /// Whether the cap is a law: the queries are all entries of the bank the correction is fitted from.
    pub is_law: bool,
    /// The steps, by falling threshold.
    pub steps: Vec<ExposureStep>,
}

/// One threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct ExposureStep {
    /// The score, with nothing subtracted from the bias.
    pub threshold: f64,
    /// How many queries may reach it for any one point.
    pub cap: f64,
    /// What the corrected ranking does.
    pub corrected: Reach,
    /// What the raw ranking does when the mean bias is subtracted from every score alike.
    pub raw: Reach,
}

/// What a ranking does at a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// The queries of the point that has most.
    pub largest: u32,
    /// Its row.
    pub row: u32,
    /// The points that have more than the cap.
    pub violations: usize,
}

impl Reach {
    fn join(self, other: Reach) -> Reach {
        let larger = if (other.largest, self.row) > (self.largest, other.row) { other } else { self };
        Reach { violations: self.violations + other.violations, ..larger }
    }
}

/// A threshold and how many queries may reach it.
#[derive(Debug, Clone, Copy)]
struct Cap {
    threshold: f64,
    most: f64,
}

/// What the sum of exponentials is off by, relatively, and so its logarithm absolutely.
const SUM_ERROR: f64 = 1e-5;

/// Counts, for every point, the queries whose corrected score is at least a threshold.
///
/// Inverted softmax has `Σ_b e^{β(s(b,p) − bias(p))} = 1` for every point over its bank, so at most
/// `e^{−βt}` entries can score `t` or more, whatever the point is. NNN with `alpha` 1 subtracts the mean of
/// the `k` largest, so at most `k − 1` entries score above 0. Both need the bias as it is, without a guard.
/// Over other queries than the whole bank the numbers are a measurement.
///
/// A score counts if it reaches the threshold by more than it may be rounded.
pub fn exposure(
    snapshot: &Snapshot,
    correction: &Correction,
    bank: Option<&Name>,
    queries: &[Vector],
) -> Result<Exposure, QueryError> {
    let info = correction.info();
    let caps = caps(correction, queries.len())?;
    refuse_weights(snapshot, correction)?;
    if snapshot.is_empty() {
        return Err(QueryError::NoPoints);
    }
    if queries.is_empty() {
        return Err(QueryError::NoQueries(""));
    }
    let column = &correction.columns()[0];
    let rows: Vec<u32> = snapshot.rows().collect();
    let weight = info.method.weights(&[true])[0];
    let bias = |row: u32| weight * f64::from(column.value(row));
    #[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
    let mean = rows.iter().map(|&row| bias(row)).sum::<f64>() / rows.len() as f64;
    let dim = snapshot.config().dim.get();
    let norm = |square: f32| (2.0 * square).sqrt();
    let longest = queries.iter().map(|query| norm(query.half_squared_norm())).fold(0.0, f32::max);
    let reach = |&row: &u32| -> Vec<[Reach; 2]> {
        let length = norm(snapshot.query_of(row).half_squared_norm());
        let slack = f64::from(
            product_error(dim, longest, length)
                + 8.0 * f32::EPSILON * (longest * longest + length * length + 1.0),
        ) + sum_error(correction);
        let scores: Vec<f64> =
            queries.iter().map(|query| f64::from(snapshot.similarity(query, row)) - slack).collect();
        let count = |cap: &Cap, bias: f64| {
            let count = scores.iter().filter(|&&score| score - bias >= cap.threshold).count();
            let largest = u32::try_from(count).unwrap_or(u32::MAX);
            Reach { largest, row, violations: usize::from(f64::from(largest) > cap.most) }
        };
        caps.iter().map(|cap| [count(cap, bias(row)), count(cap, mean)]).collect()
    };
    let none = || vec![[Reach::default(); 2]; caps.len()];
    let join = |left: Vec<[Reach; 2]>, right: Vec<[Reach; 2]>| {
        let pair = |(left, right): ([Reach; 2], [Reach; 2])| [left[0].join(right[0]), left[1].join(right[1])];
        left.into_iter().zip(right).map(pair).collect()
    };
    let reached = rows.par_iter().map(reach).reduce(none, join);
    let step = |(cap, [corrected, raw]): (&Cap, [Reach; 2])| ExposureStep {
        threshold: cap.threshold,
        cap: cap.most,
        corrected,
        raw,
    };
    let own = info.query_bank.as_ref();
    let entries = own.and_then(|own| snapshot.bank(own.as_str())).map(|info| info.entries);
    Ok(Exposure {
        label: label(Some((correction, 1.0))),
        bank: bank.cloned(),
        queries: queries.len(),
        is_law: bank.is_some() && bank == own && entries == Some(queries.len()) && info.stale == 0,
        steps: caps.iter().zip(reached).map(step).collect(),
    })
}

/// The thresholds at which 1, 2, 5, 10, … queries may be reached, below all of them.
fn caps(correction: &Correction, queries: usize) -> Result<Vec<Cap>, QueryError> {
    let method = &correction.info().method;
    let refused = |reason| Err(QueryError::Unsuited { method: method.to_string(), reason });
    if method.guard() != Guard::default() {
        return refused("a guard moves biases, and with them goes the cap: fit it without floor and shrink");
    }
    let value = |wanted: &str| method.parameters().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    match (method.name(), value("beta"), value("alpha"), value("k")) {
        ("IS", Some(beta), ..) => {
            let most = (0..9).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10.0_f64.powi(power)));
            #[expect(clippy::cast_precision_loss, reason = "a count of queries is far below 2^53")]
            let below = most.filter(|&most| most == 1.0 || most < queries as f64);
            Ok(below.map(|most| Cap { threshold: -most.ln() / beta, most }).collect())
        }
        ("NNN", _, Some(1.0), Some(k)) => Ok(vec![Cap { threshold: 0.0, most: k - 1.0 }]),
        _ => refused("there is a cap on exposure for IS, and for NNN with alpha=1.0"),
    }
}

/// What the bias may be off by beyond the rounding of similarities.
fn sum_error(correction: &Correction) -> f64 {
    let beta = correction.info().method.parameters().find(|(name, _)| *name == "beta");
    beta.map_or(0.0, |(_, beta)| SUM_ERROR / beta)
}
