//! Platt scaling: a logistic curve of two parameters.

use super::{Calibration, Judged};
use crate::loss::{sigmoid, softplus};

/// The most steps of Newton's method; it takes about ten.
const STEPS_MAX: usize = 100;

/// A step is halved no more often than this: it is then below the last bits of the parameters.
const HALVINGS_MAX: usize = 60;

/// What is added to the second derivatives, so that they can be divided by (Lin, Lin and Weng 2007).
const RIDGE: f64 = 1e-12;

/// The part of the decrease that the slope promises and a step must bring (the same).
const DECREASE: f64 = 1e-4;

/// Where less than this is to be gained a step is taken as it is: the entropy's last bits no longer tell whether it
/// leads down, while the slopes still do.
const GAIN_SEEN: f64 = 1e-10;

/// A step of this length is the last.
const STEP_MIN: f64 = 1e-14;

/// A sample by its distance from the mean score in deviations, and the truth that it is fitted to.
struct Target {
    x: f64,
    truth: f64,
    weight: f64,
}

/// Samples of both kinds, as steep and as high as makes them likeliest.
pub(super) fn fitted(samples: &[Judged]) -> Calibration {
    let of_kind = |kind| {
        samples.iter().filter(|sample| sample.relevant == kind).map(|sample| sample.weight).sum::<f64>()
    };
    let (relevant, others): (f64, f64) = (of_kind(true), of_kind(false));
    let (high, low) = ((relevant + 1.0) / (relevant + 2.0), 1.0 / (others + 2.0));
    let all = relevant + others;
    // In units of their deviation scores of any size have derivatives of one size.
    let mean = samples.iter().map(|sample| sample.weight * sample.score).sum::<f64>() / all;
    let variance =
        samples.iter().map(|sample| sample.weight * (sample.score - mean).powi(2)).sum::<f64>() / all;
    let deviation = variance.sqrt();
    let target = |sample: &Judged| Target {
        x: (sample.score - mean) / deviation,
        truth: if sample.relevant { high } else { low },
        weight: sample.weight / all,
    };
    // What is best without a slope.
    let share = (high * relevant + low * others) / all;
    let flat = Calibration::Platt { a: 0.0, b: (share / (1.0 - share)).ln() };
    if deviation == 0.0 || !(1.0 / deviation).is_finite() {
        return flat;
    }
    let targets: Vec<Target> = samples.iter().map(target).collect();
    let (slope, height) = newton(&targets, ((relevant + 1.0) / (others + 1.0)).ln());
    let (a, b) = (slope / deviation, height - slope * mean / deviation);
    if slope > 0.0 && a.is_finite() && b.is_finite() { Calibration::Platt { a, b } } else { flat }
}

/// The slope and the height of the least cross entropy, from a flat start at `height`.
fn newton(targets: &[Target], height: f64) -> (f64, f64) {
    let mut at = (0.0, height);
    let mut entropy = cross_entropy(targets, at);
    for _ in 0..STEPS_MAX {
        let (mut slope_a, mut slope_b) = (0.0, 0.0);
        let (mut bend_a, mut bend_ab, mut bend_b) = (RIDGE, 0.0, RIDGE);
        for target in targets {
            let p = sigmoid(at.0 * target.x + at.1);
            let (miss, bend) = (target.weight * (p - target.truth), target.weight * p * (1.0 - p));
            slope_a += miss * target.x;
            slope_b += miss;
            bend_a += bend * target.x * target.x;
            bend_ab += bend * target.x;
            bend_b += bend;
        }
        let determinant = bend_a * bend_b - bend_ab * bend_ab;
        let step_a = (bend_ab * slope_b - bend_b * slope_a) / determinant;
        let step_b = (bend_ab * slope_a - bend_a * slope_b) / determinant;
        let promised = slope_a * step_a + slope_b * step_b;
        let mut part = 1.0;
        let better = (0..HALVINGS_MAX).find_map(|_| {
            let next = (at.0 + part * step_a, at.1 + part * step_b);
            let found = cross_entropy(targets, next);
            let is_enough = found < entropy + DECREASE * part * promised || -promised < GAIN_SEEN;
            part /= 2.0;
            is_enough.then_some((next, found))
        });
        let Some((next, found)) = better else { break };
        (at, entropy) = (next, found);
        if step_a.abs() + step_b.abs() < STEP_MIN {
            break;
        }
    }
    at
}

fn cross_entropy(targets: &[Target], (slope, height): (f64, f64)) -> f64 {
    let of_target = |target: &Target| {
        let z = slope * target.x + height;
        target.weight * (target.truth * softplus(-z) + (1.0 - target.truth) * softplus(z))
    };
    targets.iter().map(of_target).sum()
}
