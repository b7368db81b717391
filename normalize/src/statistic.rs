//! What a point remembers of its similarities to a bank, in a form that merges.
//!
//! States are associative and do not depend on order beyond the last bits of a float: the state of
//! two banks together is the merge of their states, so a bank can grow without a refit.

use std::fmt;

use dehub_vector::{Candidate, Chunked, exp_sum, largest, shifted_sums};

/// Which distance a similarity stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gap {
    /// `1 − s`.
    Cosine,
    /// `√(−2s)`, for `s = −d²/2`.
    Euclidean,
}

impl Gap {
    fn distance(self, similarity: f64) -> f64 {
        match self {
            Gap::Cosine => (1.0 - similarity).max(0.0),
            Gap::Euclidean => (-2.0 * similarity).max(0.0).sqrt(),
        }
    }

    /// What a similarity is multiplied by to be in units of `distance`: `1/√σ` or `1/σ`. A point that
    /// lies on its neighbours has no unit of its own and gets the smallest.
    fn per_unit(self, distance: f64) -> f64 {
        let unit = distance.max(UNIT_MIN);
        match self {
            Gap::Cosine => unit.sqrt().recip(),
            Gap::Euclidean => unit.recip(),
        }
    }
}

/// The smallest distance taken as a unit, and the smallest deviation: about the rounding of a
/// 32-bit similarity.
const UNIT_MIN: f64 = 1e-6;

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
    /// That mean to a power; a negative mean keeps its sign.
    TopMeanPower {
        /// How many, at least 1.
        k: usize,
        /// The exponent, at least 0.
        gamma: f64,
    },
    /// What scales a similarity to units of the distance to the `k`-th nearest.
    KthUnit {
        /// Which, at least 1.
        k: usize,
        /// The distance.
        gap: Gap,
    },
    /// What scales a similarity to units of the mean distance to the `k` nearest.
    MeanUnit {
        /// How many, at least 1.
        k: usize,
        /// The distance.
        gap: Gap,
    },
    /// The mean of all similarities.
    Mean,
    /// The mean of all similarities, in units of their standard deviation.
    MeanByDeviation,
    /// One over the standard deviation of all similarities.
    InverseDeviation,
    /// `τ·ln Σ_b e^{s(b,p)/τ + f_b}`, with the potentials `f` of [`crate::fit_potentials`].
    Sinkhorn {
        /// Temperature, above 0.
        tau: f64,
        /// How often potentials are balanced.
        iterations: usize,
    },
    /// `⟨p, c⟩ − ‖c‖²/2` or `−‖p − c‖²/2`, with `c` the mean of the `k` nearest bank entries.
    CentroidPull {
        /// How many, at least 1.
        k: usize,
        /// Which of the two.
        gap: Gap,
    },
    /// The `k` largest similarities themselves, each as a search scores that pair; as one number, the
    /// largest. A smaller bank has them all.
    Largest {
        /// How many, at least 1.
        k: usize,
    },
}

impl Statistic {
    /// The state of a point that has seen no bank query.
    pub fn empty(self) -> State {
        match self {
            Statistic::LogSumExp { .. } | Statistic::Sinkhorn { .. } => State::LogSumExp(LogSumExp::EMPTY),
            Statistic::TopMean { k }
            | Statistic::TopMeanPower { k, .. }
            | Statistic::KthUnit { k, .. }
            | Statistic::MeanUnit { k, .. }
            | Statistic::Largest { k } => State::KLargest(KLargest::new(k)),
            Statistic::Mean | Statistic::MeanByDeviation | Statistic::InverseDeviation => {
                State::Moments(Moments::EMPTY)
            }
            Statistic::CentroidPull { k, .. } => State::Nearest(Nearest::new(k)),
        }
    }

    /// Whether the statistic is taken with potentials of the entries.
    pub fn has_potentials(&self) -> bool {
        match self {
            Statistic::Sinkhorn { .. } => true,
            Statistic::LogSumExp { .. }
            | Statistic::TopMean { .. }
            | Statistic::TopMeanPower { .. }
            | Statistic::KthUnit { .. }
            | Statistic::MeanUnit { .. }
            | Statistic::Mean
            | Statistic::MeanByDeviation
            | Statistic::InverseDeviation
            | Statistic::Largest { .. }
            | Statistic::CentroidPull { .. } => false,
        }
    }

    /// Whether the statistic is kept less its mean. Those in units of a deviation are not: a point whose
    /// similarities are all equal has so large a number that the mean with it would drown the others.
    pub fn is_centred(self) -> bool {
        match self {
            Statistic::MeanByDeviation | Statistic::InverseDeviation => false,
            Statistic::LogSumExp { .. }
            | Statistic::Sinkhorn { .. }
            | Statistic::TopMean { .. }
            | Statistic::TopMeanPower { .. }
            | Statistic::KthUnit { .. }
            | Statistic::MeanUnit { .. }
            | Statistic::Mean
            | Statistic::CentroidPull { .. }
            | Statistic::Largest { .. } => true,
        }
    }

    /// How long the list is, for a statistic that is one: a smaller bank gives a shorter one.
    pub fn list_len(self) -> Option<usize> {
        match self {
            Statistic::Largest { k } => Some(k),
            Statistic::LogSumExp { .. }
            | Statistic::Sinkhorn { .. }
            | Statistic::TopMean { .. }
            | Statistic::TopMeanPower { .. }
            | Statistic::KthUnit { .. }
            | Statistic::MeanUnit { .. }
            | Statistic::Mean
            | Statistic::MeanByDeviation
            | Statistic::InverseDeviation
            | Statistic::CentroidPull { .. } => None,
        }
    }

    /// How many of a bank's entries the statistic looks at, if it looks at the nearest only.
    pub fn neighbours(self) -> Option<usize> {
        match self {
            Statistic::TopMean { k }
            | Statistic::TopMeanPower { k, .. }
            | Statistic::KthUnit { k, .. }
            | Statistic::MeanUnit { k, .. }
            | Statistic::CentroidPull { k, .. } => Some(k),
            Statistic::LogSumExp { .. }
            | Statistic::Sinkhorn { .. }
            | Statistic::Mean
            | Statistic::MeanByDeviation
            | Statistic::InverseDeviation
            | Statistic::Largest { .. } => None,
        }
    }

    /// The statistic from a state of its kind. When the bank was empty it is neutral: 0, or 1 for a
    /// statistic that scales.
    ///
    /// `bank` is read by [`Statistic::CentroidPull`] only.
    pub fn value(self, state: &State, bank: &Chunked) -> f64 {
        match (self, state) {
            (Statistic::LogSumExp { beta }, State::LogSumExp(sum)) => sum.ln().map_or(0.0, |ln| ln / beta),
            (Statistic::Sinkhorn { tau, .. }, State::LogSumExp(sum)) => sum.ln().map_or(0.0, |ln| ln * tau),
            (Statistic::TopMean { .. }, State::KLargest(kept)) => kept.mean().unwrap_or(0.0),
            (Statistic::TopMeanPower { gamma, .. }, State::KLargest(kept)) => {
                let mean = kept.mean().unwrap_or(0.0);
                mean.abs().powf(gamma) * mean.signum()
            }
            (Statistic::KthUnit { gap, .. }, State::KLargest(kept)) => {
                kept.least().map_or(1.0, |kth| gap.per_unit(gap.distance(f64::from(kth))))
            }
            (Statistic::MeanUnit { gap, .. }, State::KLargest(kept)) => {
                kept.mean_of(|similarity| gap.distance(similarity)).map_or(1.0, |mean| gap.per_unit(mean))
            }
            (Statistic::Largest { .. }, State::KLargest(kept)) => {
                kept.values.first().map_or(0.0, |&first| f64::from(first))
            }
            (Statistic::Mean, State::Moments(moments)) => moments.mean,
            (Statistic::MeanByDeviation, State::Moments(moments)) => {
                moments.deviation().map_or(0.0, |deviation| moments.mean / deviation)
            }
            (Statistic::InverseDeviation, State::Moments(moments)) => {
                moments.deviation().map_or(1.0, f64::recip)
            }
            (Statistic::CentroidPull { gap, .. }, State::Nearest(nearest)) => nearest.pull(gap, bank),
            (_, State::LogSumExp(_) | State::KLargest(_) | State::Moments(_) | State::Nearest(_)) => {
                unreachable!("a state is kept with its statistic")
            }
        }
    }

    /// Reads a state that [`State::encode`] wrote for this statistic.
    pub fn decode(self, bytes: &[u8]) -> Result<State, StateError> {
        let state = match self {
            Statistic::LogSumExp { beta } => LogSumExp::decode(beta, bytes).map(State::LogSumExp),
            Statistic::Sinkhorn { tau, .. } => LogSumExp::decode(tau.recip(), bytes).map(State::LogSumExp),
            Statistic::TopMean { k }
            | Statistic::TopMeanPower { k, .. }
            | Statistic::KthUnit { k, .. }
            | Statistic::MeanUnit { k, .. }
            | Statistic::Largest { k } => KLargest::decode(k, bytes).map(State::KLargest),
            Statistic::Mean | Statistic::MeanByDeviation | Statistic::InverseDeviation => {
                Moments::decode(bytes).map(State::Moments)
            }
            Statistic::CentroidPull { k, .. } => Nearest::decode(k, bytes).map(State::Nearest),
        };
        state.ok_or(StateError { statistic: self, bytes: bytes.len() })
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statistic::LogSumExp { beta } => write!(f, "log-sum-exp(beta={beta})"),
            Statistic::Sinkhorn { tau, iterations } => write!(f, "sinkhorn(tau={tau},n={iterations})"),
            Statistic::TopMean { k } => write!(f, "top-mean(k={k})"),
            Statistic::TopMeanPower { k, gamma } => write!(f, "top-mean-power(k={k},gamma={gamma})"),
            Statistic::KthUnit { k, .. } => write!(f, "kth-unit(k={k})"),
            Statistic::MeanUnit { k, .. } => write!(f, "mean-unit(k={k})"),
            Statistic::Mean => write!(f, "mean"),
            Statistic::MeanByDeviation => write!(f, "mean-by-deviation"),
            Statistic::InverseDeviation => write!(f, "inverse-deviation"),
            Statistic::CentroidPull { k, .. } => write!(f, "centroid-pull(k={k})"),
            Statistic::Largest { k } => write!(f, "largest(k={k})"),
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
    /// A sum of exponentials.
    LogSumExp(LogSumExp),
    /// The largest similarities.
    KLargest(KLargest),
    /// Mean and deviation.
    Moments(Moments),
    /// The largest similarities and whose they are.
    Nearest(Nearest),
}

/// The similarities of a point to a block of bank entries.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The similarities, in the order of the entries.
    pub similarities: &'a [f32],
    /// The number of the first entry.
    pub first_entry: u32,
    /// For [`Statistic::Sinkhorn`], the potentials of the entries, from the first on.
    potentials: &'a [f32],
    top: f32,
}

impl<'a> Block<'a> {
    /// A block that starts with entry `first_entry`.
    pub fn new(similarities: &'a [f32], first_entry: u32) -> Block<'a> {
        Block { similarities, first_entry, potentials: &[], top: largest(similarities) }
    }

    /// The same block with the potentials of its entries, and perhaps of more.
    #[must_use]
    pub fn with(self, potentials: &'a [f32]) -> Block<'a> {
        Block { potentials, ..self }
    }
}

impl State {
    /// Adds a block of bank entries; `statistic` must be the one that made the state.
    pub fn absorb(&mut self, statistic: Statistic, block: Block<'_>) {
        match (self, statistic) {
            (State::LogSumExp(sum), Statistic::LogSumExp { beta }) => sum.absorb(beta, block),
            (State::LogSumExp(sum), Statistic::Sinkhorn { tau, .. }) => sum.absorb_shifted(tau, block),
            (State::KLargest(kept), _) => kept.absorb(block.similarities, block.top),
            (State::Moments(moments), _) => moments.absorb(block.similarities),
            (State::Nearest(nearest), _) => nearest.absorb(block),
            (State::LogSumExp(_), _) => unreachable!("a state is kept with its statistic"),
        }
    }

    /// The state of both banks together. Entries of `other` are numbered as in the whole bank.
    pub fn merge(&mut self, other: &State) {
        match (self, other) {
            (State::LogSumExp(sum), State::LogSumExp(other)) => sum.merge(*other),
            (State::KLargest(kept), State::KLargest(other)) => {
                kept.absorb(&other.values, largest(&other.values));
            }
            (State::Moments(moments), State::Moments(other)) => moments.merge(*other),
            (State::Nearest(nearest), State::Nearest(other)) => {
                other.best.iter().for_each(|&candidate| nearest.offer(candidate));
            }
            (State::LogSumExp(_) | State::KLargest(_) | State::Moments(_) | State::Nearest(_), _) => {
                unreachable!("states of one statistic are merged")
            }
        }
    }

    /// `ln Σ e^x` of a sum of exponentials; `None` for other states and the empty sum.
    pub fn ln_sum(&self) -> Option<f64> {
        match self {
            State::LogSumExp(sum) => sum.ln(),
            State::KLargest(_) | State::Moments(_) | State::Nearest(_) => None,
        }
    }

    /// The numbers of a state that keeps the largest ones, largest first; none for other states.
    pub fn largest(&self) -> &[f32] {
        match self {
            State::KLargest(kept) => &kept.values,
            State::LogSumExp(_) | State::Moments(_) | State::Nearest(_) => &[],
        }
    }

    /// Whether every entry the state names is among the first `entries` of the bank.
    pub fn is_within(&self, entries: usize) -> bool {
        match self {
            State::Nearest(nearest) => nearest.best.iter().all(|it| (it.row as usize) < entries),
            State::LogSumExp(_) | State::KLargest(_) | State::Moments(_) => true,
        }
    }

    /// The state as little-endian bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            State::LogSumExp(LogSumExp { max, sum }) => [max.to_le_bytes(), sum.to_le_bytes()].concat(),
            State::KLargest(kept) => kept.values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            State::Moments(Moments { count, mean, squares }) => {
                [count.to_le_bytes(), mean.to_le_bytes(), squares.to_le_bytes()].concat()
            }
            State::Nearest(nearest) => {
                let bytes = |it: &Candidate| [it.score.to_le_bytes(), it.row.to_le_bytes()].concat();
                nearest.best.iter().flat_map(bytes).collect()
            }
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

    /// Reads a state; the largest term of a sum counts 1, so none is below 1.
    fn decode(beta: f64, bytes: &[u8]) -> Option<LogSumExp> {
        let (max, sum) = bytes.split_first_chunk::<8>()?;
        let (max, sum) = (f64::from_le_bytes(*max), f64::from_le_bytes(sum.try_into().ok()?));
        let state = LogSumExp { max, sum };
        let is_similarity = (max / beta).abs() <= f64::from(f32::MAX);
        let is_sum = is_similarity && sum.is_finite() && sum > 0.5;
        (state == LogSumExp::EMPTY || is_sum).then_some(state)
    }

    fn absorb(&mut self, beta: f64, block: Block<'_>) {
        let Block { similarities, top, .. } = block;
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

    /// Adds `e^{s/tau + f}`, with `f` the potentials of the block.
    #[expect(clippy::cast_possible_truncation, reason = "exponents are 32-bit, as what they are made of")]
    fn absorb_shifted(&mut self, tau: f64, block: Block<'_>) {
        let scale = tau.recip() as f32;
        let terms = block.similarities.iter().zip(block.potentials);
        let exponents: Vec<f32> =
            terms.map(|(similarity, potential)| similarity * scale + potential).collect();
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

    fn decode(k: usize, bytes: &[u8]) -> Option<KLargest> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        let values: Vec<f32> = numbers.iter().map(|&number| f32::from_le_bytes(number)).collect();
        let is_kept = values.len() <= k && values.iter().all(|value| value.is_finite());
        (rest.is_empty() && is_kept && values.is_sorted_by(|a, b| a >= b)).then_some(KLargest { k, values })
    }

    fn absorb(&mut self, numbers: &[f32], top: f32) {
        // Selecting from a block at a time costs one pass over it, and a sort of the few kept.
        let is_full = self.values.len() >= self.k;
        let floor = self.values.last().copied().filter(|_| is_full);
        if floor.is_some_and(|floor| top <= floor) {
            return;
        }
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
    pub fn mean(&self) -> Option<f64> {
        self.mean_of(|value| value)
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of kept numbers is far below 2^53")]
    fn mean_of(&self, change: impl Fn(f64) -> f64) -> Option<f64> {
        let sum: f64 = self.values.iter().map(|&value| change(f64::from(value))).sum();
        (!self.values.is_empty()).then(|| sum / self.values.len() as f64)
    }

    fn least(&self) -> Option<f32> {
        self.values.last().copied()
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
    /// No number yet.
    pub const EMPTY: Moments = Moments { count: 0.0, mean: 0.0, squares: 0.0 };

    fn decode(bytes: &[u8]) -> Option<Moments> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        let [count, mean, squares] = <[[u8; 8]; 3]>::try_from(numbers).ok()?.map(f64::from_le_bytes);
        let is_whole = count >= 0.0 && count.fract() == 0.0 && mean.is_finite() && squares >= 0.0;
        (rest.is_empty() && is_whole && squares.is_finite()).then_some(Moments { count, mean, squares })
    }

    #[expect(clippy::cast_precision_loss, reason = "a block's length is far below 2^53")]
    fn absorb(&mut self, numbers: &[f32]) {
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

    fn merge(&mut self, other: Moments) {
        let count = self.count + other.count;
        if count > 0.0 {
            let apart = other.mean - self.mean;
            self.squares += other.squares + apart * apart * (self.count * other.count / count);
            self.mean += apart * (other.count / count);
            self.count = count;
        }
    }

    /// The standard deviation of the population, at least [`UNIT_MIN`]; `None` when there is nothing.
    fn deviation(&self) -> Option<f64> {
        (self.count > 0.0).then(|| (self.squares / self.count).sqrt().max(UNIT_MIN))
    }
}

/// The `k` nearest bank entries, nearest first; ties by the lower entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    k: usize,
    best: Vec<Candidate>,
}

impl Nearest {
    /// Nothing seen yet. Memory grows with what is kept, not with `k`.
    pub fn new(k: usize) -> Nearest {
        Nearest { k, best: Vec::new() }
    }

    fn decode(k: usize, bytes: &[u8]) -> Option<Nearest> {
        let (entries, rest) = bytes.as_chunks::<8>();
        let read = |&[a, b, c, d, e, f, g, h]: &[u8; 8]| Candidate {
            score: f32::from_le_bytes([a, b, c, d]),
            row: u32::from_le_bytes([e, f, g, h]),
        };
        let best: Vec<Candidate> = entries.iter().map(read).collect();
        let is_kept = best.len() <= k && best.iter().all(|candidate| candidate.score.is_finite());
        (rest.is_empty() && is_kept && best.is_sorted_by(|a, b| a > b)).then_some(Nearest { k, best })
    }

    fn absorb(&mut self, block: Block<'_>) {
        if self.best.len() >= self.k && self.best.last().is_some_and(|worst| block.top <= worst.score) {
            return;
        }
        for (entry, &score) in (block.first_entry..).zip(block.similarities) {
            self.offer(Candidate::new(score, entry));
        }
    }

    fn offer(&mut self, candidate: Candidate) {
        let is_full = self.best.len() >= self.k;
        if is_full && self.best.last().is_some_and(|worst| candidate <= *worst) {
            return;
        }
        let place = self.best.partition_point(|kept| *kept > candidate);
        self.best.insert(place, candidate);
        self.best.truncate(self.k);
    }

    /// See [`Statistic::CentroidPull`]. Sums over entries in the order of nearness.
    #[expect(clippy::cast_precision_loss, reason = "a count of kept entries is far below 2^53")]
    fn pull(&self, gap: Gap, bank: &Chunked) -> f64 {
        if self.best.is_empty() {
            return 0.0;
        }
        let count = self.best.len() as f64;
        let mut centre = vec![0.0_f64; bank.width()];
        let mut squares = 0.0;
        for entry in &self.best {
            for (sum, &number) in centre.iter_mut().zip(bank.row(entry.row as usize)) {
                *sum += f64::from(number) / count;
                squares += f64::from(number) * f64::from(number) / count;
            }
        }
        let centre: f64 = centre.iter().map(|number| number * number).sum();
        let mean = self.best.iter().map(|entry| f64::from(entry.score)).sum::<f64>() / count;
        match gap {
            Gap::Cosine => mean - centre / 2.0,
            // ‖p − c‖² is the mean of ‖p − b‖² less the spread of the neighbours about their centre.
            Gap::Euclidean => -(-2.0 * mean - (squares - centre)) / 2.0,
        }
    }
}
