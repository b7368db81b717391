//! AdamW, whose moments can be kept beside the weights.

/// Settings of AdamW (Loshchilov and Hutter 2019).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamSettings {
    /// The length of a step.
    pub rate: f64,
    /// How much of each weight a step takes away, times the rate.
    pub decay: f64,
}

impl Default for AdamSettings {
    fn default() -> AdamSettings {
        AdamSettings { rate: 1e-3, decay: 1e-2 }
    }
}

const FIRST: f64 = 0.9;
const SECOND: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The moments of a list of weights.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moments {
    pub(crate) first: Vec<f32>,
    pub(crate) second: Vec<f32>,
}

impl Moments {
    pub(crate) fn new(weights: usize) -> Moments {
        Moments { first: vec![0.0; weights], second: vec![0.0; weights] }
    }

    /// Moves weights against their slopes; `step` counts from 1.
    #[expect(clippy::cast_possible_truncation, reason = "weights and moments have 32 bits")]
    pub(crate) fn step(&mut self, settings: &AdamSettings, step: u32, weights: &mut [f32], slopes: &[f32]) {
        let power = |base: f64| 1.0 - base.powf(f64::from(step));
        let (first_whole, second_whole) = (power(FIRST), power(SECOND));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((weight, &slope), (first, second)) in weights.iter_mut().zip(slopes).zip(moments) {
            let slope = f64::from(slope);
            let m = FIRST * f64::from(*first) + (1.0 - FIRST) * slope;
            let v = SECOND * f64::from(*second) + (1.0 - SECOND) * slope * slope;
            (*first, *second) = (m as f32, v as f32);
            let kept = f64::from(*weight) * (1.0 - settings.rate * settings.decay);
            *weight =
                (kept - settings.rate * (m / first_whole) / ((v / second_whole).sqrt() + EPSILON)) as f32;
        }
    }
}
