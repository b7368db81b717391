//! What a point remembers of its similarities to a bank, in a form that merges.
//!
//! States are associative and do not depend on order beyond the last bits of a float: the state of
//! two banks together is the merge of their states, so a bank can grow without a refit.

use std::fmt;

/// A number each point gets from its similarities to a bank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// `ln Σ_b e^{beta·s(b,p)} / beta`: the smooth maximum of inverted softmax
    /// (Smith et al., *Offline bilingual word vectors*, ICLR 2017).
    LogSumExp {
        /// Inverse temperature, above 0.
        beta: f64,
    },
    /// The mean of the `k` largest similarities
    /// (Lample et al., *Word translation without parallel data*, ICLR 2018).
    TopMean {
        /// How many, at least 1.
        k: usize,
    },
}

impl Statistic {
    /// The state of a point that has seen no bank query.
    pub fn empty(self) -> State {
        match self {
            Statistic::LogSumExp { .. } => State::LogSumExp(LogSumExp::EMPTY),
            Statistic::TopMean { k } => State::KLargest(KLargest::new(k)),
        }
    }

    /// The statistic from a state of its kind; 0, the neutral bias, when the bank was empty.
    pub fn value(self, state: &State) -> f64 {
        match (self, state) {
            (Statistic::LogSumExp { beta }, State::LogSumExp(sum)) => sum.ln().map_or(0.0, |ln| ln / beta),
            (Statistic::TopMean { .. }, State::KLargest(largest)) => largest.mean().unwrap_or(0.0),
            (Statistic::LogSumExp { .. }, State::KLargest(_))
            | (Statistic::TopMean { .. }, State::LogSumExp(_)) => {
                unreachable!("a state is kept with its statistic")
            }
        }
    }

    /// Reads a state that [`State::encode`] wrote for this statistic.
    pub fn decode(self, bytes: &[u8]) -> Result<State, StateError> {
        let broken = || StateError { statistic: self, bytes: bytes.len() };
        match self {
            Statistic::LogSumExp { beta } => {
                let (max, sum) = bytes.split_first_chunk::<8>().ok_or_else(broken)?;
                let sum = <[u8; 8]>::try_from(sum).map_err(|_| broken())?;
                let state = LogSumExp { max: f64::from_le_bytes(*max), sum: f64::from_le_bytes(sum) };
                if state.is_whole(beta) { Ok(State::LogSumExp(state)) } else { Err(broken()) }
            }
            Statistic::TopMean { k } => {
                let (numbers, rest) = bytes.as_chunks::<4>();
                let values: Vec<f32> = numbers.iter().map(|&number| f32::from_le_bytes(number)).collect();
                let whole = values.iter().all(|value| value.is_finite());
                if !rest.is_empty() || values.len() > k || !whole || !values.is_sorted_by(|a, b| a >= b) {
                    return Err(broken());
                }
                Ok(State::KLargest(KLargest { k, values }))
            }
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statistic::LogSumExp { beta } => write!(f, "log-sum-exp(beta={beta})"),
            Statistic::TopMean { k } => write!(f, "top-mean(k={k})"),
        }
    }
}

/// Bytes that are no state of the statistic they were read for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("these {bytes} bytes are no state of {statistic}")]
pub struct StateError {
    /// The statistic whose state was wanted.
    pub statistic: Statistic,
    /// How many bytes were found.
    pub bytes: usize,
}

/// A point's running state for one statistic.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// For [`Statistic::LogSumExp`].
    LogSumExp(LogSumExp),
    /// For [`Statistic::TopMean`].
    KLargest(KLargest),
}

impl State {
    /// Adds the similarities of a block of bank queries; `statistic` must be the one that made it.
    pub fn absorb(&mut self, statistic: Statistic, similarities: &[f32]) {
        match (self, statistic) {
            (State::LogSumExp(sum), Statistic::LogSumExp { beta }) => sum.absorb(beta, similarities),
            (State::KLargest(largest), Statistic::TopMean { .. }) => largest.absorb(similarities),
            (State::LogSumExp(_), Statistic::TopMean { .. })
            | (State::KLargest(_), Statistic::LogSumExp { .. }) => {
                unreachable!("a state is kept with its statistic")
            }
        }
    }

    /// The state of both banks together.
    pub fn merge(&mut self, other: &State) {
        match (self, other) {
            (State::LogSumExp(sum), State::LogSumExp(other)) => sum.merge(*other),
            (State::KLargest(largest), State::KLargest(other)) => largest.absorb(&other.values),
            (State::LogSumExp(_), State::KLargest(_)) | (State::KLargest(_), State::LogSumExp(_)) => {
                unreachable!("states of one statistic are merged")
            }
        }
    }

    /// The state as little-endian bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            State::LogSumExp(LogSumExp { max, sum }) => [max.to_le_bytes(), sum.to_le_bytes()].concat(),
            State::KLargest(largest) => largest.values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }
}

/// `ln Σ e^x` as a maximum and the sum of `e^{x − max}`, so that no exponential overflows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSumExp {
    max: f64,
    sum: f64,
}

impl LogSumExp {
    /// No term yet.
    pub const EMPTY: LogSumExp = LogSumExp { max: f64::NEG_INFINITY, sum: 0.0 };

    /// Whether it is [`LogSumExp::EMPTY`] or a sum that can have been taken: the largest term counts 1.
    fn is_whole(self, beta: f64) -> bool {
        let is_similarity = |s: f64| s.abs() <= f64::from(f32::MAX);
        self == LogSumExp::EMPTY
            || (is_similarity(self.max / beta) && self.sum >= 1.0 && self.sum.is_finite())
    }

    fn absorb(&mut self, beta: f64, similarities: &[f32]) {
        let Some(largest) = similarities.iter().copied().max_by(f32::total_cmp) else { return };
        let max = beta * f64::from(largest);
        let sum = similarities.iter().map(|&s| (beta * f64::from(s) - max).exp()).sum();
        self.merge(LogSumExp { max, sum });
    }

    fn merge(&mut self, other: LogSumExp) {
        if other.sum == 0.0 {
            return;
        }
        let max = self.max.max(other.max);
        // An empty side has max −∞ and sum 0: e^{−∞}·0 = 0.
        self.sum = self.sum * (self.max - max).exp() + other.sum * (other.max - max).exp();
        self.max = max;
    }

    /// `ln Σ e^x`; `None` when nothing was added.
    pub fn ln(&self) -> Option<f64> {
        (self.sum > 0.0).then(|| self.max + self.sum.ln())
    }
}

/// The `k` largest numbers seen, largest first.
#[derive(Debug, Clone, PartialEq)]
pub struct KLargest {
    k: usize,
    values: Vec<f32>,
}

impl KLargest {
    /// Nothing seen yet. Memory grows with what is kept, not with `k`.
    pub fn new(k: usize) -> KLargest {
        KLargest { k, values: Vec::new() }
    }

    fn absorb(&mut self, numbers: &[f32]) {
        // Selecting from a block at a time costs one pass over it, and a sort of the few kept.
        let floor = if self.values.len() < self.k { None } else { self.values.last().copied() };
        let above = numbers.iter().copied().filter(|&number| floor.is_none_or(|floor| number > floor));
        self.values.extend(above);
        let largest_first = |a: &f32, b: &f32| b.total_cmp(a);
        if self.values.len() > self.k {
            self.values.select_nth_unstable_by(self.k, largest_first);
            self.values.truncate(self.k);
        }
        self.values.sort_unstable_by(largest_first);
    }

    /// The mean of what is kept; `None` when nothing is.
    #[expect(clippy::cast_precision_loss, reason = "a count of kept numbers is far below 2^53")]
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.values.iter().copied().map(f64::from).sum();
        (!self.values.is_empty()).then(|| sum / self.values.len() as f64)
    }
}
