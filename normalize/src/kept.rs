//! Statistics that look at the nearest bank entries only: what is kept of them.

use dehub_vector::{Candidate, Chunked};

use crate::statistic::{Block, Gap};

/// The `k` largest numbers seen, largest first. A number of weight `w` counts as `w` numbers: kept are the
/// largest whose weights sum to `k`, and of the last as much as is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct KLargest {
    k: usize,
    values: Vec<f32>,
    /// Empty when every weight is 1.
    weights: Vec<f32>,
}

/// Numbers tested against the least that is kept at once.
const LANES: usize = 32;

/// Ends the bytes of a state with weights, so that its length tells it from one without.
const WEIGHTED: u8 = 1;

/// How many of these weights sum to `k`, the last perhaps beyond; `None` when all together do not.
#[expect(clippy::cast_precision_loss, reason = "k is far below 2^53")]
fn enough(k: usize, weights: impl IntoIterator<Item = f32>) -> Option<usize> {
    let mut sum = 0.0;
    let reaches = |weight: f32| {
        sum += f64::from(weight);
        sum >= k as f64
    };
    weights.into_iter().position(reaches).map(|last| last + 1)
}

/// What is counted of each weight when `k` in all are: the last one partly.
#[expect(clippy::cast_precision_loss, reason = "k is far below 2^53")]
fn counted(k: usize, weights: impl IntoIterator<Item = f32>) -> impl Iterator<Item = f64> {
    let mut missing = k as f64;
    weights.into_iter().map(move |weight| {
        let counted = f64::from(weight).min(missing);
        missing -= counted;
        counted
    })
}

/// Weights of `len` items of which none means all 1.
fn or_ones(weights: &[f32], len: usize) -> impl Iterator<Item = f32> {
    weights.iter().copied().chain(std::iter::repeat_n(1.0, len - weights.len()))
}

/// Whether weights that are stored can be: the shortest list that sums to `k`, or a shorter one.
fn are_kept(k: usize, weights: &[f32]) -> bool {
    let is_weight = |weight: &f32| weight.is_finite() && *weight > 0.0;
    weights.iter().all(is_weight) && enough(k, weights.iter().copied()).is_none_or(|len| len == weights.len())
}

fn largest_first(a: &f32, b: &f32) -> std::cmp::Ordering {
    b.total_cmp(a)
}

impl KLargest {
    /// Nothing seen yet. Memory grows with what is kept, not with `k`.
    pub fn new(k: usize) -> KLargest {
        KLargest { k, values: Vec::new(), weights: Vec::new() }
    }

    /// Whether the other keeps the same numbers but for `slack`. Of numbers with weights, one more may be kept.
    pub(crate) fn is_near(&self, other: &KLargest, slack: f64) -> bool {
        let one = usize::from(!self.weights.is_empty() || !other.weights.is_empty());
        let near = |(a, b): (&f32, &f32)| f64::from((a - b).abs()) <= slack;
        self.k == other.k
            && self.values.len().abs_diff(other.values.len()) <= one
            && self.values.iter().zip(&other.values).all(near)
    }

    /// The numbers, largest first.
    pub(crate) fn largest(&self) -> &[f32] {
        &self.values
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = self.values.iter().chain(&self.weights).flat_map(|value| value.to_le_bytes());
        numbers.chain((!self.weights.is_empty()).then_some(WEIGHTED)).collect()
    }

    pub(crate) fn decode(k: usize, bytes: &[u8]) -> Option<KLargest> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        let mut values: Vec<f32> = numbers.iter().map(|&number| f32::from_le_bytes(number)).collect();
        let weights = match rest {
            [] => Vec::new(),
            [WEIGHTED] if values.len().is_multiple_of(2) => values.split_off(values.len() / 2),
            _ => return None,
        };
        let is_right_length = if rest.is_empty() { values.len() <= k } else { are_kept(k, &weights) };
        let is_kept = is_right_length && values.iter().all(|value| value.is_finite());
        let has_weights = rest.is_empty() || weights.iter().any(|&weight| weight != 1.0);
        (is_kept && has_weights && values.is_sorted_by(|a, b| a >= b)).then_some(KLargest {
            k,
            values,
            weights,
        })
    }

    pub(crate) fn absorb(&mut self, block: Block<'_>) {
        if self.floor().is_some_and(|floor| block.top <= floor) {
            return;
        }
        if self.weights.is_empty() && block.weights.is_empty() {
            self.absorb_plain(block.similarities);
        } else {
            let weights = or_ones(block.weights, block.similarities.len());
            self.absorb_weighted(block.similarities.iter().copied().zip(weights));
        }
    }

    pub(crate) fn merge(&mut self, other: &KLargest) {
        if self.weights.is_empty() && other.weights.is_empty() {
            if other.values.first().is_some_and(|&top| self.floor().is_none_or(|floor| top > floor)) {
                self.absorb_plain(&other.values);
            }
        } else {
            self.absorb_weighted(other.pairs());
        }
    }

    fn absorb_plain(&mut self, numbers: &[f32]) {
        // Room for twice what is kept: every point has a state, and a block may hold many candidates.
        let most = 2 * self.k.max(8);
        let mut floor = self.floor();
        for group in numbers.chunks(LANES) {
            if floor.is_some_and(|floor| !group.iter().fold(false, |any, &number| any | (number > floor))) {
                continue;
            }
            for &number in group {
                if floor.is_some_and(|floor| number <= floor) {
                    continue;
                }
                if self.values.len() == most {
                    self.cut();
                    floor = Some(self.values[self.k - 1]);
                }
                if self.values.len() == self.values.capacity() {
                    self.values.reserve_exact(self.values.len().max(8).min(most - self.values.len()));
                }
                self.values.push(number);
            }
        }
        self.cut();
        self.values.sort_unstable_by(largest_first);
    }

    /// Drops all but the `k` largest; the least of them is the last.
    fn cut(&mut self) {
        if self.values.len() > self.k {
            self.values.select_nth_unstable_by(self.k - 1, largest_first);
            self.values.truncate(self.k);
        }
    }

    fn absorb_weighted(&mut self, numbers: impl Iterator<Item = (f32, f32)>) {
        let floor = self.floor();
        let counts =
            |&(number, weight): &(f32, f32)| weight > 0.0 && floor.is_none_or(|floor| number > floor);
        let mut pairs: Vec<(f32, f32)> = self.pairs().collect();
        pairs.extend(numbers.filter(counts));
        pairs.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        let len = enough(self.k, pairs.iter().map(|pair| pair.1)).unwrap_or(pairs.len());
        pairs.truncate(len);
        self.values = pairs.iter().map(|pair| pair.0).collect();
        let all_one = pairs.iter().all(|pair| pair.1 == 1.0);
        self.weights = if all_one { Vec::new() } else { pairs.into_iter().map(|pair| pair.1).collect() };
    }

    fn pairs(&self) -> impl Iterator<Item = (f32, f32)> {
        self.values.iter().copied().zip(or_ones(&self.weights, self.values.len()))
    }

    /// The least number kept, once there are `k`: no smaller one will be.
    pub(crate) fn floor(&self) -> Option<f32> {
        let is_full = if self.weights.is_empty() {
            self.values.len() >= self.k
        } else {
            enough(self.k, self.weights.iter().copied()).is_some()
        };
        self.values.last().copied().filter(|_| is_full)
    }

    /// The numbers kept, largest first, with what is counted of each.
    pub(crate) fn counted(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> {
        let counted: Vec<f64> = counted(self.k, self.pairs().map(|pair| pair.1)).collect();
        self.values.iter().map(|&value| f64::from(value)).zip(counted)
    }

    /// How many numbers are counted, `k` at most.
    pub(crate) fn count(&self) -> f64 {
        counted(self.k, self.pairs().map(|pair| pair.1)).sum()
    }

    /// The mean of what is kept; `None` when nothing is.
    pub fn mean(&self) -> Option<f64> {
        self.mean_of(|value| value)
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of kept numbers is far below 2^53")]
    pub(crate) fn mean_of(&self, change: impl Fn(f64) -> f64) -> Option<f64> {
        if !self.weights.is_empty() {
            let (mut sum, mut count) = (0.0, 0.0);
            for (value, counted) in self.counted() {
                sum += counted * change(value);
                count += counted;
            }
            return Some(sum / count);
        }
        let sum: f64 = self.values.iter().map(|&value| change(f64::from(value))).sum();
        (!self.values.is_empty()).then(|| sum / self.values.len() as f64)
    }

    pub(crate) fn least(&self) -> Option<f32> {
        self.values.last().copied()
    }
}

/// The `k` nearest bank entries, nearest first; ties by the lower entry. Weights count as in [`KLargest`].
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    k: usize,
    best: Vec<Candidate>,
    /// Empty when every weight is 1.
    weights: Vec<f32>,
}

impl Nearest {
    /// Nothing seen yet. Memory grows with what is kept, not with `k`.
    pub fn new(k: usize) -> Nearest {
        Nearest { k, best: Vec::new(), weights: Vec::new() }
    }

    /// Whether the other keeps the same entries, or others as near but for `slack`.
    pub(crate) fn is_near(&self, other: &Nearest, slack: f64) -> bool {
        let one = usize::from(!self.weights.is_empty() || !other.weights.is_empty());
        let near = |a: f32, b: f32| f64::from((a - b).abs()) <= slack;
        let least = other.best.last().map_or(f32::NEG_INFINITY, |last| last.score);
        let is_known = |it: &Candidate| {
            let other = other.best.iter().find(|other| other.row == it.row);
            other.map_or(near(it.score, least), |other| near(it.score, other.score))
        };
        self.k == other.k
            && self.best.len().abs_diff(other.best.len()) <= one
            && self.best.iter().zip(&other.best).all(|(a, b)| near(a.score, b.score))
            && self.best.iter().all(is_known)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let entry = |it: &Candidate| [it.score.to_le_bytes(), it.row.to_le_bytes()].concat();
        let entries = self.best.iter().flat_map(entry);
        let weights = self.weights.iter().flat_map(|weight| weight.to_le_bytes());
        entries.chain(weights).chain((!self.weights.is_empty()).then_some(WEIGHTED)).collect()
    }

    pub(crate) fn decode(k: usize, bytes: &[u8]) -> Option<Nearest> {
        let (entries, rest) = match bytes.split_last() {
            Some((&WEIGHTED, most)) if most.len().is_multiple_of(12) => {
                most.split_at_checked(most.len() / 12 * 8)?
            }
            Some(_) | None => (bytes, &[][..]),
        };
        let (entries, odd) = entries.as_chunks::<8>();
        let read = |&[a, b, c, d, e, f, g, h]: &[u8; 8]| Candidate {
            score: f32::from_le_bytes([a, b, c, d]),
            row: u32::from_le_bytes([e, f, g, h]),
        };
        let best: Vec<Candidate> = entries.iter().map(read).collect();
        let weights: Vec<f32> = rest.as_chunks::<4>().0.iter().map(|&it| f32::from_le_bytes(it)).collect();
        let is_right_length = if weights.is_empty() {
            best.len() <= k && bytes.len() == 8 * best.len()
        } else {
            are_kept(k, &weights) && weights.iter().any(|&weight| weight != 1.0)
        };
        let is_kept = is_right_length && best.iter().all(|candidate| candidate.score.is_finite());
        let is_sorted = odd.is_empty() && best.is_sorted_by(|a, b| a > b);
        (is_kept && is_sorted).then_some(Nearest { k, best, weights })
    }

    pub(crate) fn absorb(&mut self, block: Block<'_>) {
        if self.floor().is_some_and(|worst| block.top <= worst) {
            return;
        }
        let entries = (block.first_entry..).zip(block.similarities);
        if self.weights.is_empty() && block.weights.is_empty() {
            return entries.for_each(|(entry, &score)| self.offer_plain(Candidate::new(score, entry)));
        }
        let weights = or_ones(block.weights, block.similarities.len());
        for ((entry, &score), weight) in entries.zip(weights).filter(|(_, weight)| *weight > 0.0) {
            self.offer(Candidate::new(score, entry), weight);
        }
    }

    pub(crate) fn merge(&mut self, other: &Nearest) {
        let weights = or_ones(&other.weights, other.best.len());
        other.best.iter().zip(weights).for_each(|(&candidate, weight)| self.offer(candidate, weight));
    }

    fn offer_plain(&mut self, candidate: Candidate) {
        let is_full = self.best.len() >= self.k;
        if is_full && self.best.last().is_some_and(|worst| candidate <= *worst) {
            return;
        }
        let place = self.best.partition_point(|kept| *kept > candidate);
        self.best.insert(place, candidate);
        self.best.truncate(self.k);
    }

    fn offer(&mut self, candidate: Candidate, weight: f32) {
        if weight == 1.0 && self.weights.is_empty() {
            return self.offer_plain(candidate);
        }
        let is_full = self.floor().is_some();
        if is_full && self.best.last().is_some_and(|worst| candidate <= *worst) {
            return;
        }
        let place = self.best.partition_point(|kept| *kept > candidate);
        self.weights.resize(self.best.len(), 1.0);
        self.best.insert(place, candidate);
        self.weights.insert(place, weight);
        let len = enough(self.k, self.weights.iter().copied()).unwrap_or(self.best.len());
        self.best.truncate(len);
        self.weights.truncate(len);
        if self.weights.iter().all(|&weight| weight == 1.0) {
            self.weights.clear();
        }
    }

    /// The least similarity kept, once there are `k`.
    pub(crate) fn floor(&self) -> Option<f32> {
        let is_full = if self.weights.is_empty() {
            self.best.len() >= self.k
        } else {
            enough(self.k, self.weights.iter().copied()).is_some()
        };
        self.best.last().map(|worst| worst.score).filter(|_| is_full)
    }

    pub(crate) fn is_within(&self, entries: usize) -> bool {
        self.best.iter().all(|it| (it.row as usize) < entries)
    }

    /// See [`crate::Statistic::CentroidPull`]. Sums over entries in the order of nearness.
    #[expect(clippy::cast_precision_loss, reason = "a count of kept entries is far below 2^53")]
    pub(crate) fn pull(&self, gap: Gap, bank: &Chunked) -> f64 {
        if self.best.is_empty() {
            return 0.0;
        }
        if !self.weights.is_empty() {
            return self.weighted_pull(gap, bank);
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
        Nearest::pull_of(gap, mean, centre, squares)
    }

    /// The same with every entry counted by its weight.
    fn weighted_pull(&self, gap: Gap, bank: &Chunked) -> f64 {
        let counted: Vec<f64> = counted(self.k, self.weights.iter().copied()).collect();
        let total: f64 = counted.iter().sum();
        let mut centre = vec![0.0_f64; bank.width()];
        let (mut squares, mut mean) = (0.0, 0.0);
        for (entry, counted) in self.best.iter().zip(counted) {
            let share = counted / total;
            mean += share * f64::from(entry.score);
            for (sum, &number) in centre.iter_mut().zip(bank.row(entry.row as usize)) {
                *sum += share * f64::from(number);
                squares += share * f64::from(number) * f64::from(number);
            }
        }
        Nearest::pull_of(gap, mean, centre.iter().map(|number| number * number).sum(), squares)
    }

    /// From the neighbours' mean similarity, their centre's squared length and their mean squared length.
    fn pull_of(gap: Gap, mean: f64, centre: f64, squares: f64) -> f64 {
        match gap {
            Gap::Cosine => mean - centre / 2.0,
            // ‖p − c‖² is the mean of ‖p − b‖² less the spread of the neighbours about their centre.
            Gap::Euclidean => -(-2.0 * mean - (squares - centre)) / 2.0,
        }
    }
}
