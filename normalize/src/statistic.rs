//! What a point remembers of its similarities to a bank, in a form that merges.
//!
//! States are associative and do not depend on order beyond the last bits of a float: the state of
//! two banks together is the merge of their states, so a bank can grow without a refit.

use std::fmt;

use dehub_vector::{Chunked, largest};

use crate::kept::{KLargest, Nearest};
use crate::shard::{Partials, shard_of};
use crate::sums::{LogSumExp, Moments};

use crate::BankKind;

/// Which distance a similarity stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gap {
    /// `1 − s`.
    Cosine,
    /// `√(−2s)`, for `s = −d²/2`.
    Euclidean,
}

impl Gap {
    pub(crate) fn distance(self, similarity: f64) -> f64 {
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
pub(crate) const UNIT_MIN: f64 = 1e-6;

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
        /// Whether the entries of a gallery bank are balanced along with the points.
        with_gallery: bool,
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

/// How far two sums of the same terms may lie apart: exponentials are taken in 32 bits.
const SUM_SLACK: f64 = 2e-5;

impl Statistic {
    /// The state of a point that has seen no bank query.
    pub fn empty(self) -> State {
        match self {
            Statistic::LogSumExp { .. } | Statistic::Sinkhorn { .. } => State::LogSumExp(Partials::new()),
            Statistic::TopMean { k }
            | Statistic::TopMeanPower { k, .. }
            | Statistic::KthUnit { k, .. }
            | Statistic::MeanUnit { k, .. }
            | Statistic::Largest { k } => State::KLargest(KLargest::new(k)),
            Statistic::Mean | Statistic::MeanByDeviation | Statistic::InverseDeviation => {
                State::Moments(Partials::new())
            }
            Statistic::CentroidPull { k, .. } => State::Nearest(Nearest::new(k)),
        }
    }

    /// Whether the statistic is taken with potentials of the entries.
    pub fn has_potentials(&self) -> bool {
        matches!(self, Statistic::Sinkhorn { .. })
    }

    /// Whether the statistic is kept less its mean. Those in units of a deviation are not: a point whose
    /// similarities are all equal has so large a number that the mean with it would drown the others.
    pub fn is_centred(self) -> bool {
        !matches!(self, Statistic::MeanByDeviation | Statistic::InverseDeviation)
    }

    /// A second bank that the potentials depend on.
    pub fn beside(&self) -> Option<BankKind> {
        let is_beside = matches!(self, Statistic::Sinkhorn { with_gallery: true, .. });
        is_beside.then_some(BankKind::Gallery)
    }

    /// How long the list is, for a statistic that is one: a smaller bank gives a shorter one.
    pub fn list_len(self) -> Option<usize> {
        if let Statistic::Largest { k } = self { Some(k) } else { None }
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

    /// Whether the statistic is a sum over all entries, whose state has a partial for each shard.
    pub fn is_sum(self) -> bool {
        matches!(self.empty(), State::LogSumExp(_) | State::Moments(_))
    }

    /// The statistic from a state of its kind. When the bank was empty it is neutral: 0, or 1 for a
    /// statistic that scales.
    ///
    /// `bank` is read by [`Statistic::CentroidPull`] only.
    pub fn value(self, state: &State, bank: &Chunked) -> f64 {
        match (self, state) {
            (Statistic::LogSumExp { beta }, State::LogSumExp(sums)) => {
                sums.fold().ln().map_or(0.0, |ln| ln / beta)
            }
            (Statistic::Sinkhorn { tau, .. }, State::LogSumExp(sums)) => {
                sums.fold().ln().map_or(0.0, |ln| ln * tau)
            }
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
                kept.largest().first().map_or(0.0, |&first| f64::from(first))
            }
            (Statistic::Mean, State::Moments(moments)) => moments.fold().mean(),
            (Statistic::MeanByDeviation, State::Moments(moments)) => {
                let moments = moments.fold();
                moments.deviation().map_or(0.0, |deviation| moments.mean() / deviation)
            }
            (Statistic::InverseDeviation, State::Moments(moments)) => {
                moments.fold().deviation().map_or(1.0, f64::recip)
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
            Statistic::LogSumExp { beta } => {
                Partials::decode(bytes, |bytes| LogSumExp::decode(beta, bytes)).map(State::LogSumExp)
            }
            Statistic::Sinkhorn { tau, .. } => {
                Partials::decode(bytes, |bytes| LogSumExp::decode(tau.recip(), bytes)).map(State::LogSumExp)
            }
            Statistic::TopMean { k }
            | Statistic::TopMeanPower { k, .. }
            | Statistic::KthUnit { k, .. }
            | Statistic::MeanUnit { k, .. }
            | Statistic::Largest { k } => KLargest::decode(k, bytes).map(State::KLargest),
            Statistic::Mean | Statistic::MeanByDeviation | Statistic::InverseDeviation => {
                Partials::decode(bytes, Moments::decode).map(State::Moments)
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
            Statistic::Sinkhorn { tau, iterations, with_gallery } => {
                let name = if *with_gallery { "dual-bank-sinkhorn" } else { "sinkhorn" };
                write!(f, "{name}(tau={tau},n={iterations})")
            }
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
    /// A sum of exponentials for each shard of the bank.
    LogSumExp(Partials<LogSumExp>),
    /// The largest similarities.
    KLargest(KLargest),
    /// Mean and deviation over each shard of the bank.
    Moments(Partials<Moments>),
    /// The largest similarities and whose they are.
    Nearest(Nearest),
}

/// The similarities of a point to a block of bank entries, which lie in one shard.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// The similarities, in the order of the entries.
    pub similarities: &'a [f32],
    /// The number of the first entry.
    pub first_entry: u32,
    /// For [`Statistic::Sinkhorn`], the potentials of the entries, from the first on.
    pub(crate) potentials: &'a [f32],
    /// The weights of the entries; empty when all are 1.
    pub(crate) weights: &'a [f32],
    /// The largest similarity of an entry that counts.
    pub(crate) top: f32,
}

impl<'a> Block<'a> {
    /// A block that starts with entry `first_entry`.
    pub fn new(similarities: &'a [f32], first_entry: u32) -> Block<'a> {
        Block { similarities, first_entry, potentials: &[], weights: &[], top: largest(similarities) }
    }

    /// The same block with the potentials of its entries, and perhaps of more.
    #[must_use]
    pub fn with(self, potentials: &'a [f32]) -> Block<'a> {
        Block { potentials, ..self }
    }

    /// The same block with the weights of its entries, one each: how many entries each counts as, 0 for
    /// one that was removed. No weights mean that all are 1.
    #[must_use]
    pub fn weighted(self, weights: &'a [f32]) -> Block<'a> {
        if weights.is_empty() {
            return self;
        }
        debug_assert_eq!(weights.len(), self.similarities.len(), "a weight for each entry");
        let block = Block { weights, ..self };
        let top = block.counted().map(|(similarity, _)| similarity).fold(f32::NEG_INFINITY, f32::max);
        Block { top, ..block }
    }

    /// The similarities and weights of the entries that count, for a block with weights.
    pub(crate) fn counted(self) -> impl Iterator<Item = (f32, f32)> + 'a {
        let pairs = self.similarities.iter().copied().zip(self.weights.iter().copied());
        pairs.filter(|&(_, weight)| weight > 0.0)
    }
}

impl State {
    /// Adds a block of bank entries; `statistic` must be the one that made the state.
    pub fn absorb(&mut self, statistic: Statistic, block: Block<'_>) {
        match (self, statistic) {
            (State::LogSumExp(sums), Statistic::LogSumExp { beta }) => {
                sums.at(shard_of(block.first_entry)).absorb(beta, block);
            }
            (State::LogSumExp(sums), Statistic::Sinkhorn { tau, .. }) => {
                sums.at(shard_of(block.first_entry)).absorb_shifted(tau, block);
            }
            (State::KLargest(kept), _) => kept.absorb(block),
            (State::Moments(moments), _) => moments.at(shard_of(block.first_entry)).absorb(block),
            (State::Nearest(nearest), _) => nearest.absorb(block),
            (State::LogSumExp(_), _) => unreachable!("a state is kept with its statistic"),
        }
    }

    /// The state of both banks together. Entries of `other` are numbered as in the whole bank.
    pub fn merge(&mut self, other: &State) {
        match (self, other) {
            (State::LogSumExp(sums), State::LogSumExp(other)) => sums.merge(other),
            (State::KLargest(kept), State::KLargest(other)) => kept.merge(other),
            (State::Moments(moments), State::Moments(other)) => moments.merge(other),
            (State::Nearest(nearest), State::Nearest(other)) => nearest.merge(other),
            (State::LogSumExp(_) | State::KLargest(_) | State::Moments(_) | State::Nearest(_), _) => {
                unreachable!("states of one statistic are merged")
            }
        }
    }

    /// Puts the partial of one shard in place of its own: `other` is a state over that shard alone.
    /// Changes no state that keeps no partials.
    pub fn replace_shard(&mut self, shard: usize, other: &State) {
        match (self, other) {
            (State::LogSumExp(sums), State::LogSumExp(other)) => sums.replace(shard, other),
            (State::Moments(moments), State::Moments(other)) => moments.replace(shard, other),
            (State::LogSumExp(_) | State::KLargest(_) | State::Moments(_) | State::Nearest(_), _) => {}
        }
    }

    /// Whether an entry of this similarity may be among those the state keeps; never for one that keeps
    /// sums.
    pub(crate) fn may_hold(&self, similarity: f32) -> bool {
        match self {
            State::KLargest(kept) => kept.floor().is_none_or(|least| similarity >= least),
            State::Nearest(nearest) => nearest.floor().is_none_or(|worst| similarity >= worst),
            State::LogSumExp(_) | State::Moments(_) => false,
        }
    }

    /// `ln Σ e^x` of a sum of exponentials; `None` for other states and the empty sum.
    pub fn ln_sum(&self) -> Option<f64> {
        match self {
            State::LogSumExp(sums) => sums.fold().ln(),
            State::KLargest(_) | State::Moments(_) | State::Nearest(_) => None,
        }
    }

    /// Whether two states of `statistic` over the same entries can differ by rounding alone, where no similarity of
    /// the one lies further than `slack` from that of the other. Sums may differ in the order of their terms, and
    /// of entries as near as each other either may be kept.
    pub fn is_near(&self, other: &State, statistic: Statistic, slack: f64) -> bool {
        match (self, other) {
            (State::LogSumExp(own), State::LogSumExp(other)) => {
                let steepness = match statistic {
                    Statistic::LogSumExp { beta } => beta,
                    Statistic::Sinkhorn { tau, .. } => tau.recip(),
                    Statistic::TopMean { .. }
                    | Statistic::TopMeanPower { .. }
                    | Statistic::KthUnit { .. }
                    | Statistic::MeanUnit { .. }
                    | Statistic::Mean
                    | Statistic::MeanByDeviation
                    | Statistic::InverseDeviation
                    | Statistic::CentroidPull { .. }
                    | Statistic::Largest { .. } => return false,
                };
                let near = |(a, b): (f64, f64)| {
                    (a - b).abs() <= steepness.abs() * slack + SUM_SLACK * (1.0 + a.abs())
                };
                let (own, other) = (own.fold().ln(), other.fold().ln());
                own.is_some() == other.is_some() && own.zip(other).is_none_or(near)
            }
            (State::KLargest(own), State::KLargest(other)) => own.is_near(other, slack),
            (State::Moments(own), State::Moments(other)) => {
                let (own, other) = (own.fold(), other.fold());
                let near = |a: f64, b: f64| (a - b).abs() <= 2.0 * slack + SUM_SLACK * a.abs();
                let deviations = own.deviation().zip(other.deviation());
                (own.count() - other.count()).abs() <= SUM_SLACK * own.count()
                    && near(own.mean(), other.mean())
                    && deviations.is_none_or(|(own, other)| near(own, other))
            }
            (State::Nearest(own), State::Nearest(other)) => own.is_near(other, slack),
            (State::LogSumExp(_) | State::KLargest(_) | State::Moments(_) | State::Nearest(_), _) => false,
        }
    }

    /// The numbers of a state that keeps the largest ones, largest first; none for other states.
    pub fn largest(&self) -> &[f32] {
        match self {
            State::KLargest(kept) => kept.largest(),
            State::LogSumExp(_) | State::Moments(_) | State::Nearest(_) => &[],
        }
    }

    /// Whether the state can be one over the first `entries` of a bank: every entry it names and every
    /// shard it has a partial of is among them.
    pub fn is_within(&self, entries: usize) -> bool {
        match self {
            State::Nearest(nearest) => nearest.is_within(entries),
            State::LogSumExp(sums) => sums.is_within(entries),
            State::Moments(moments) => moments.is_within(entries),
            State::KLargest(_) => true,
        }
    }

    /// The state as little-endian bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            State::LogSumExp(sums) => sums.encode(LogSumExp::encode),
            State::KLargest(kept) => kept.encode(),
            State::Moments(moments) => moments.encode(Moments::encode),
            State::Nearest(nearest) => nearest.encode(),
        }
    }
}
