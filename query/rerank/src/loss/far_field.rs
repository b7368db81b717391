//! `Σ over p, n of w_p·w_n·softplus(n − p)` and its derivatives without looking at each pair.
//!
//! Scores are put into buckets of a fixed width on one lattice. Between two buckets the sum is a Taylor series in the
//! distances to their centres, whose coefficients depend only on how many buckets lie between; so moments of one bucket
//! give a polynomial in another, as in the fast multipole method (Greengard and Rokhlin 1987). Softplus is analytic
//! but for points at ±iπ, so with distances of at most a quarter each, 22 terms leave less than 10⁻¹⁶. Buckets that are
//! far apart need no series: there softplus is 0 or the difference itself to 10⁻¹⁷.

use std::collections::BTreeMap;

use super::{log1p_exp, sigmoid};

/// The width of a bucket, in units of the temperature.
const WIDTH: f64 = 0.5;

/// Terms of the series.
const TERMS: usize = 22;

/// Buckets between two beyond which `exp` of their distance is lost.
const NEAR: i64 = 80;

/// Weighted points on a line, in units of the temperature.
pub(crate) struct Points {
    at: Vec<f64>,
    weights: Vec<f64>,
    /// The bucket of each.
    bucket: Vec<i64>,
}

/// What pools sum to.
pub(crate) struct Sums {
    /// `Σ w_p·w_n·softplus(n − p)`
    pub(crate) value: f64,
    /// For each p, `w_p·Σ w_n·σ(n − p)`.
    pub(crate) below: Vec<f64>,
    /// For each n, `w_n·Σ w_p·σ(n − p)`.
    pub(crate) above: Vec<f64>,
}

impl Points {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "scores over temperatures are far below 2^63, and saturate"
    )]
    pub(crate) fn new(at: Vec<f64>, weights: Vec<f64>) -> Points {
        let bucket = at.iter().map(|x| (x / WIDTH).floor() as i64).collect();
        Points { at, weights, bucket }
    }

    /// From the centre of its bucket.
    fn offset(&self, place: usize) -> f64 {
        self.at[place] - centre(self.bucket[place])
    }

    /// `Σ w·(−d)^k` (or `d^k`) of each bucket's offsets `d`, and the weight and the weighted sum of all in it.
    fn moments(&self, sign: f64) -> BTreeMap<i64, Moments> {
        let mut moments: BTreeMap<i64, Moments> = BTreeMap::new();
        for place in 0..self.at.len() {
            let own = moments.entry(self.bucket[place]).or_insert(Moments { powers: [0.0; TERMS], sum: 0.0 });
            let (weight, offset) = (self.weights[place], sign * self.offset(place));
            let mut power = weight;
            for moment in &mut own.powers {
                *moment += power;
                power *= offset;
            }
            own.sum += weight * self.at[place];
        }
        moments
    }
}

struct Moments {
    powers: [f64; TERMS],
    sum: f64,
}

#[expect(clippy::cast_precision_loss, reason = "a bucket's number is that of a score")]
fn centre(bucket: i64) -> f64 {
    (bucket as f64 + 0.5) * WIDTH
}

/// The Taylor coefficients of softplus at the distance of buckets, from `−NEAR` to `NEAR`.
fn table() -> Vec<[f64; TERMS]> {
    (-NEAR..=NEAR).map(|between| series(centre(between) - centre(0))).collect()
}

/// Taylor coefficients of softplus at `u`. Those of its derivative σ follow from σ' = σ·(1 − σ); at −|u|, where nothing
/// cancels, and from there by σ(u) = 1 − σ(−u).
fn series(u: f64) -> [f64; TERMS] {
    let mut slope = [0.0; TERMS];
    slope[0] = sigmoid(-u.abs());
    for k in 0..TERMS - 1 {
        let product: f64 = (0..=k).map(|i| slope[i] * slope[k - i]).sum();
        slope[k + 1] = (slope[k] - product) / term(k + 1);
    }
    if u > 0.0 {
        for (k, coefficient) in slope.iter_mut().enumerate() {
            let odd = k % 2 == 1;
            *coefficient = if odd { *coefficient } else { -*coefficient };
        }
        slope[0] += 1.0;
    }
    let mut whole = [0.0; TERMS];
    whole[0] = log1p_exp(u);
    for k in 1..TERMS {
        whole[k] = slope[k - 1] / term(k);
    }
    whole
}

#[expect(clippy::cast_precision_loss, reason = "a number of terms")]
fn term(k: usize) -> f64 {
    k as f64
}

/// `k choose j`, for every `k` and `j` below [`TERMS`].
fn binomials() -> Vec<[f64; TERMS]> {
    let mut rows = vec![[0.0; TERMS]; TERMS];
    for k in 0..TERMS {
        rows[k][0] = 1.0;
        for j in 1..=k {
            rows[k][j] = rows[k - 1][j - 1] + rows[k - 1][j];
        }
    }
    rows
}

/// The sums over all pairs of a `p` and an `n`.
pub(crate) fn pooled(positives: &Points, negatives: &Points) -> Sums {
    // softplus(n − p) with n = its centre + d and p = its centre − e: the series is in d + e.
    let (of_p, of_n) = (positives.moments(-1.0), negatives.moments(1.0));
    let (table, choose) = (table(), binomials());
    let (above, value) = evaluate(negatives, &of_p, &table, &choose, Side::Negative);
    let (below, _) = evaluate(positives, &of_n, &table, &choose, Side::Positive);
    Sums { value, below, above }
}

/// Whose derivatives are wanted.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Positive,
    Negative,
}

/// For each of `own` its weight times the sum over the others of σ(n − p), and the sum of softplus(n − p) over all.
fn evaluate(
    own: &Points,
    others: &BTreeMap<i64, Moments>,
    table: &[[f64; TERMS]],
    choose: &[[f64; TERMS]],
    side: Side,
) -> (Vec<f64>, f64) {
    let mut locals: BTreeMap<i64, Local> = BTreeMap::new();
    for &bucket in &own.bucket {
        locals.entry(bucket).or_insert_with(|| Local::new(bucket, others, table, choose, side));
    }
    let mut value = 0.0;
    let slopes = (0..own.at.len()).map(|place| {
        let local = &locals[&own.bucket[place]];
        let sign = if side == Side::Negative { 1.0 } else { -1.0 };
        let (sum, slope) = local.at(own.at[place], sign * own.offset(place), side);
        value += own.weights[place] * sum;
        own.weights[place] * slope
    });
    (slopes.collect(), value)
}

/// What all others are to the points of one bucket.
struct Local {
    /// Of the near, as a polynomial in the offset.
    near: [f64; TERMS],
    /// The weight, and the weighted sum, of the far for which softplus is the difference.
    weight: f64,
    sum: f64,
}

impl Local {
    fn new(
        bucket: i64,
        others: &BTreeMap<i64, Moments>,
        table: &[[f64; TERMS]],
        choose: &[[f64; TERMS]],
        side: Side,
    ) -> Local {
        let mut local = Local { near: [0.0; TERMS], weight: 0.0, sum: 0.0 };
        for (&other, moments) in others.range(bucket.saturating_sub(NEAR)..=bucket.saturating_add(NEAR)) {
            let between = if side == Side::Negative { bucket - other } else { other - bucket };
            let between = usize::try_from(between + NEAR).expect("within the range");
            let series = &table[between];
            for m in 0..TERMS {
                for j in 0..TERMS - m {
                    local.near[m] += series[m + j] * choose[m + j][m] * moments.powers[j];
                }
            }
        }
        let far: Box<dyn Iterator<Item = (&i64, &Moments)>> = match side {
            // Positives far below a negative, and negatives far above a positive.
            Side::Negative => Box::new(others.range(..bucket.saturating_sub(NEAR))),
            Side::Positive => Box::new(others.range(bucket.saturating_add(NEAR).saturating_add(1)..)),
        };
        for (_, moments) in far {
            local.weight += moments.powers[0];
            local.sum += moments.sum;
        }
        local
    }

    /// The sum, and its derivative in `n − p`, at a point.
    fn at(&self, at: f64, offset: f64, side: Side) -> (f64, f64) {
        let (mut sum, mut slope) = (0.0, 0.0);
        for coefficient in self.near.iter().rev() {
            slope = slope * offset + sum;
            sum = sum * offset + coefficient;
        }
        let far = match side {
            Side::Negative => self.weight * at - self.sum,
            Side::Positive => self.sum - self.weight * at,
        };
        (sum + far, slope + self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_softplus_near_its_centre() {
        for u in [-40.0, -3.0, -0.5, 0.0, 0.5, 2.0, 40.0] {
            let series = series(u);
            for x in [-0.5, -0.1, 0.0, 0.3, 0.5] {
                let found = series.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient);
                assert!((found - log1p_exp(u + x)).abs() < 1e-14 * (1.0 + u.abs()), "{u} {x}");
            }
        }
    }
}
