//! Statistics that are sums over the bank: what is kept of each shard, and how two become one.

use dehub_vector::{exp_sum, largest, shifted_sums};

use crate::shard::Partial;
use crate::statistic::{Block, UNIT_MIN};

/// `ln Σ e^x` as a maximum and the sum of `e^{x − max}`, so that no exponential overflows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSumExp {
    max: f64,
    sum: f64,
}

impl LogSumExp {
    pub(crate) fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.max.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    /// Reads a partial; the largest term of a sum counts 1, so none is below 1.
    pub(crate) fn decode(beta: f64, bytes: &[u8; 16]) -> Option<LogSumExp> {
        let (max, sum) = bytes.split_first_chunk::<8>()?;
        let (max, sum) = (f64::from_le_bytes(*max), f64::from_le_bytes(sum.try_into().ok()?));
        let state = LogSumExp { max, sum };
        let is_similarity = (max / beta).abs() <= f64::from(f32::MAX);
        let is_sum = is_similarity && sum.is_finite() && sum > 0.5;
        (state == LogSumExp::EMPTY || is_sum).then_some(state)
    }

    /// Adds `w·e^{beta·s}` for each entry of the block, with `w` its weight.
    pub(crate) fn absorb(&mut self, beta: f64, block: Block<'_>) {
        let Block { similarities, top, .. } = block;
        if !block.weights.is_empty() {
            let exponent =
                |(similarity, weight): (f32, f32)| beta * f64::from(similarity) + f64::from(weight).ln();
            return self.absorb_exponents(&block.counted().map(exponent).collect::<Vec<_>>());
        }
        if similarities.is_empty() || self.is_negligible_below(beta, top, similarities.len()) {
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "similarities are 32-bit; so is what is taken from them"
        )]
        let sum = exp_sum(similarities, beta as f32, top);
        self.merge(LogSumExp { max: beta * f64::from(top), sum });
    }

    /// Adds `e^x` for each exponent. They are large numbers apart from their largest, so 32 bits are taken
    /// of the difference.
    #[expect(clippy::cast_possible_truncation, reason = "exponents are 32-bit, as what they are made of")]
    fn absorb_exponents(&mut self, exponents: &[f64]) {
        let max = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if max > f64::NEG_INFINITY {
            let below: Vec<f32> = exponents.iter().map(|exponent| (exponent - max) as f32).collect();
            self.merge(LogSumExp { max, sum: exp_sum(&below, 1.0, 0.0) });
        }
    }

    /// Adds `e^{s/tau + f}`, with `f` the potentials of the block, which hold the weights. An entry that
    /// was removed adds nothing.
    #[expect(clippy::cast_possible_truncation, reason = "exponents are 32-bit, as what they are made of")]
    pub(crate) fn absorb_shifted(&mut self, tau: f64, block: Block<'_>) {
        let scale = tau.recip() as f32;
        let terms = block.similarities.iter().zip(block.potentials);
        let mut exponents: Vec<f32> =
            terms.map(|(similarity, potential)| similarity * scale + potential).collect();
        let removed = exponents.iter_mut().zip(block.weights).filter(|(_, weight)| **weight == 0.0);
        removed.for_each(|(exponent, _)| *exponent = f32::NEG_INFINITY);
        let top = largest(&exponents);
        if top > f32::NEG_INFINITY {
            self.merge(LogSumExp { max: f64::from(top), sum: exp_sum(&exponents, 1.0, top) });
        }
    }

    /// Whether `count` terms of at most `e^{beta·top}` cannot change a digit of the sum.
    #[expect(clippy::cast_precision_loss, reason = "a block's length is far below 2^53")]
    fn is_negligible_below(&self, beta: f64, top: f32, count: usize) -> bool {
        let relative = (beta * f64::from(top) - self.max).exp() * count as f64;
        relative < f64::EPSILON * self.sum / 4.0
    }

    /// `ln Σ e^x`; `None` when nothing was added.
    pub fn ln(&self) -> Option<f64> {
        (self.sum > 0.0).then(|| self.max + self.sum.ln())
    }
}

impl Partial for LogSumExp {
    const EMPTY: LogSumExp = LogSumExp { max: f64::NEG_INFINITY, sum: 0.0 };

    fn merge(&mut self, other: LogSumExp) {
        if other.sum == 0.0 {
            return;
        }
        let max = self.max.max(other.max);
        // An empty side has max −∞ and sum 0: e^{−∞}·0 = 0.
        self.sum = self.sum * (self.max - max).exp() + other.sum * (other.max - max).exp();
        self.max = max;
    }
}

/// Mean and sum of squared deviations, which merge without cancellation (Chan, Golub & LeVeque 1979).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    pub(crate) fn encode(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        let numbers = [self.count, self.mean, self.squares];
        bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers).for_each(|(to, it)| *to = it.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; 24]) -> Option<Moments> {
        let (numbers, _) = bytes.as_chunks::<8>();
        let [count, mean, squares] = <[[u8; 8]; 3]>::try_from(numbers).ok()?.map(f64::from_le_bytes);
        let is_count = count >= 0.0 && count.is_finite();
        let is_whole = is_count && mean.is_finite() && squares >= 0.0 && squares.is_finite();
        is_whole.then_some(Moments { count, mean, squares })
    }

    #[expect(clippy::cast_precision_loss, reason = "a block's length is far below 2^53")]
    pub(crate) fn absorb(&mut self, block: Block<'_>) {
        if !block.weights.is_empty() {
            return self.absorb_weighted(block);
        }
        let numbers = block.similarities;
        if numbers.is_empty() {
            return;
        }
        let count = numbers.len() as f64;
        // Shifted by the first number, so that the difference of two large sums is not taken.
        let shift = numbers[0];
        let (sum, squares) = shifted_sums(numbers, shift);
        let mean = sum / count;
        let squares = (squares - sum * mean).max(0.0);
        self.merge(Moments { count, mean: mean + f64::from(shift), squares });
    }

    /// The same sums, with each number as often as its weight says.
    fn absorb_weighted(&mut self, block: Block<'_>) {
        let Some((first, _)) = block.counted().next() else { return };
        let shift = f64::from(first);
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (number, weight) in block.counted() {
            let (apart, weight) = (f64::from(number) - shift, f64::from(weight));
            count += weight;
            sum += weight * apart;
            squares += weight * apart * apart;
        }
        let mean = sum / count;
        self.merge(Moments { count, mean: mean + shift, squares: (squares - sum * mean).max(0.0) });
    }

    /// How many numbers there were, each counted by its weight.
    pub(crate) fn count(&self) -> f64 {
        self.count
    }

    /// Their mean; 0 when there is none.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation of the population, at least [`UNIT_MIN`]; `None` when there is nothing.
    pub(crate) fn deviation(&self) -> Option<f64> {
        (self.count > 0.0).then(|| (self.squares / self.count).sqrt().max(UNIT_MIN))
    }
}

impl Partial for Moments {
    const EMPTY: Moments = Moments { count: 0.0, mean: 0.0, squares: 0.0 };

    fn merge(&mut self, other: Moments) {
        let count = self.count + other.count;
        if count > 0.0 {
            let apart = other.mean - self.mean;
            self.squares += other.squares + apart * apart * (self.count * other.count / count);
            self.mean += apart * (other.count / count);
            self.count = count;
        }
    }
}
