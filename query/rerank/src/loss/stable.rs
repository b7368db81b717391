//! Exponentials that never overflow and keep their last digits: what all losses are made of.

/// ln(1 + e^z).
pub(crate) fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

/// 1 / (1 + e^−z), the slope of [`softplus`].
pub(crate) fn sigmoid(z: f64) -> f64 {
    softplus_and_slope(z).1
}

/// Both, for one exponential.
pub(crate) fn softplus_and_slope(z: f64) -> (f64, f64) {
    let e = (-z.abs()).exp();
    let slope = if z < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) };
    (z.max(0.0) + e.ln_1p(), slope)
}

/// A sum of e^(x / temperature), kept as its largest term and the rest over that term.
///
/// Differences of scores are made before they are divided by the temperature: so two scores of a million that differ
/// by a hundredth are as good as two around 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogSum {
    largest: f64,
    rest: f64,
    temperature: f64,
}

impl LogSum {
    /// The sum over numbers; `None` of none.
    pub(crate) fn of(numbers: impl Iterator<Item = f64> + Clone, temperature: f64) -> Option<LogSum> {
        let largest = numbers.clone().reduce(f64::max)?;
        let mut rest = 0.0;
        let mut is_counted = false;
        for number in numbers {
            // The largest term is the 1 that the rest is beside of.
            if number == largest && !is_counted {
                is_counted = true;
            } else {
                rest += ((number - largest) / temperature).exp();
            }
        }
        Some(LogSum { largest, rest, temperature })
    }

    /// The logarithm of the sum over e^(pivot / temperature).
    pub(crate) fn above(&self, pivot: f64) -> f64 {
        (self.largest - pivot) / self.temperature + self.rest.ln_1p()
    }

    /// The part of the sum that is e^(x / temperature).
    pub(crate) fn share(&self, x: f64) -> f64 {
        ((x - self.largest) / self.temperature).exp() / (1.0 + self.rest)
    }
}
