//! How often points occur in the answers to many queries, and how unevenly.
//!
//! Definitions follow Feldbauer & Flexer, *A comprehensive empirical comparison of hubness
//! reduction in high-dimensional spaces* (2019), over all points, those never returned included.

/// How often each point is among the best `k` of a set of queries: its `N_k`.
#[derive(Debug, Clone, PartialEq)]
pub struct Occurrence {
    k: usize,
    queries: usize,
    counts: Vec<u32>,
}

#[expect(clippy::cast_precision_loss, reason = "counts of points and queries are far below 2^53")]
impl Occurrence {
    /// Counts over `points` points. Each answer lists points from 0 to `points − 1`, best first,
    /// each once; its first `k` are counted.
    pub fn count<'a>(points: usize, k: usize, answers: impl IntoIterator<Item = &'a [u32]>) -> Occurrence {
        let mut counts = vec![0; points];
        let mut queries = 0;
        for answer in answers {
            queries += 1;
            answer.iter().take(k).for_each(|&point| counts[point as usize] += 1);
        }
        Occurrence { k, queries, counts }
    }

    /// From counts that were made elsewhere: how often each point was among the best `k` of `queries`
    /// queries. Answers may have been shorter.
    pub fn from_counts(k: usize, queries: usize, counts: Vec<u32>) -> Occurrence {
        Occurrence { k, queries, counts }
    }

    /// `N_k` of each point.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// How many queries were counted.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// The third standardised moment of `N_k`, of the population: 0 for none or equal counts.
    /// Above about 1.2 a space counts as rich in hubs.
    pub fn skewness(&self) -> f64 {
        let n = self.counts.len() as f64;
        let mean = self.mean();
        let moment = |power| self.counts.iter().map(|&c| (f64::from(c) - mean).powi(power)).sum::<f64>() / n;
        let variance = moment(2);
        if variance > 0.0 { moment(3) / variance.powf(1.5) } else { 0.0 }
    }

    /// The Robin Hood (Hoover) index: the share of places that would have to move for every point to
    /// occur equally often. In [0, 1).
    pub fn robin_hood(&self) -> f64 {
        let (mean, sum) = (self.mean(), self.sum());
        let excess: f64 = self.counts.iter().map(|&c| (f64::from(c) - mean).abs()).sum();
        if sum > 0.0 { excess / (2.0 * sum) } else { 0.0 }
    }

    /// The Robin Hood index the same number of places would have if every query drew its answers at
    /// random; see [`robin_hood_at_random`].
    pub fn robin_hood_at_random(&self) -> f64 {
        robin_hood_at_random(self.mean())
    }

    /// The share of all places that hubs take: points that occur at least twice as often as the mean.
    pub fn hub_share(&self) -> f64 {
        let (mean, sum) = (self.mean(), self.sum());
        let of_hubs: f64 = self.counts.iter().map(|&c| f64::from(c)).filter(|&c| c >= 2.0 * mean).sum();
        if sum > 0.0 { of_hubs / sum } else { 0.0 }
    }

    /// The share of places that hubs would take if every query drew its answers at random: of counts that are Poisson
    /// with the same mean.
    pub fn hub_share_at_random(&self) -> f64 {
        hub_share_at_random(self.mean())
    }

    /// The Gini coefficient: the mean difference between the counts of two points over twice the mean. In [0, 1).
    pub fn gini(&self) -> f64 {
        let (n, sum) = (self.counts.len() as f64, self.sum());
        let mut sorted = self.counts.clone();
        sorted.sort_unstable();
        let weighted: f64 = (1u32..).zip(&sorted).map(|(place, &c)| f64::from(place) * f64::from(c)).sum();
        if sum > 0.0 { 2.0 * weighted / (n * sum) - (n + 1.0) / n } else { 0.0 }
    }

    /// The Atkinson index with an aversion of ½: `1 − (mean of √N_k)² / mean of N_k`. In [0, 1).
    pub fn atkinson(&self) -> f64 {
        let mean = self.mean();
        let roots: f64 = self.counts.iter().map(|&c| f64::from(c).sqrt()).sum();
        if mean > 0.0 { (1.0 - (roots / self.counts.len() as f64).powi(2) / mean).max(0.0) } else { 0.0 }
    }

    /// The share of queries that the point returned most often is returned to.
    pub fn groupie_share(&self) -> f64 {
        if self.queries == 0 { 0.0 } else { f64::from(self.max()) / self.queries as f64 }
    }

    /// The share of points that are never returned.
    pub fn antihub_share(&self) -> f64 {
        let never = self.counts.iter().filter(|&&count| count == 0).count();
        if self.counts.is_empty() { 0.0 } else { never as f64 / self.counts.len() as f64 }
    }

    /// The share of points that would never be returned if every query drew its answers at random:
    /// `e^{−mean}`, the Poisson baseline.
    pub fn antihub_share_at_random(&self) -> f64 {
        (-self.mean()).exp()
    }

    /// The largest `N_k`.
    pub fn max(&self) -> u32 {
        self.counts.iter().copied().max().unwrap_or(0)
    }

    /// The `most` points that occur most often, as (point, `N_k`); ties by the lower point.
    pub fn hubs(&self, most: usize) -> Vec<(u32, u32)> {
        let mut ranked: Vec<(u32, u32)> = (0..).zip(self.counts.iter().copied()).collect();
        ranked.sort_unstable_by_key(|&(point, count)| (std::cmp::Reverse(count), point));
        ranked.truncate(most);
        ranked
    }

    /// How many points occur 0, 1, 2–3, 4–7, 8–15 … times: (least, most, points) a step.
    pub fn histogram(&self) -> Vec<(u32, u32, usize)> {
        let mut steps: Vec<(u32, u32, usize)> = vec![(0, 0, 0)];
        while steps.last().is_some_and(|&(_, most, _)| most < self.max()) {
            let least = steps.last().map_or(0, |&(_, most, _)| most + 1);
            steps.push((least, least.saturating_mul(2).saturating_sub(1).max(1), 0));
        }
        for &count in &self.counts {
            let step = (u32::BITS - count.leading_zeros()) as usize;
            steps[step].2 += 1;
        }
        steps
    }

    fn sum(&self) -> f64 {
        self.counts.iter().copied().map(f64::from).sum()
    }

    fn mean(&self) -> f64 {
        if self.counts.is_empty() { 0.0 } else { self.sum() / self.counts.len() as f64 }
    }
}

/// The share of the sum of counts that are Poisson with this mean which those of at least twice the mean have:
/// `Σ_{c ≥ 2λ} c·P(c) / λ`, which is the probability of a count of at least `⌈2λ⌉ − 1`. Nothing counted has 0.
///
/// # Panics
/// If the mean is negative or not finite.
#[expect(clippy::cast_precision_loss, reason = "a mean count is far below 2^53")]
pub fn hub_share_at_random(mean: f64) -> f64 {
    assert!(mean >= 0.0 && mean.is_finite(), "a mean of counts, not {mean}");
    if mean == 0.0 {
        return 0.0;
    }
    // Counts below: 0 to ⌈2λ⌉ − 2.
    let below = (2.0 * mean).ceil() as u64 - 1;
    let (mut ln_term, mut sum) = (-mean, 0.0);
    for count in 0..below {
        sum += ln_term.exp();
        ln_term += mean.ln() - ((count + 1) as f64).ln();
    }
    (1.0 - sum).max(0.0)
}

/// The Robin Hood index of counts that are Poisson with this mean: what queries that draw their answers
/// at random come to. A place is then no more often too many than chance has it, so hubness is what an
/// index has above this.
///
/// The mean absolute deviation of a Poisson count is `2·e^{−λ}·λ^{⌊λ⌋+1} / ⌊λ⌋!` (Ramasubban 1958), and
/// the index is that over `2λ`: the probability of the count `⌊λ⌋`. Nothing counted has 0, as
/// [`Occurrence::robin_hood`] has it.
///
/// # Panics
/// If the mean is negative or not finite.
#[expect(clippy::cast_precision_loss, reason = "a mean count is far below 2^53")]
pub fn robin_hood_at_random(mean: f64) -> f64 {
    assert!(mean >= 0.0 && mean.is_finite(), "a mean of counts, not {mean}");
    if mean == 0.0 {
        return 0.0;
    }
    let ln_mean = mean.ln();
    // Term by term λ/i stays near 1 where it matters; λ^⌊λ⌋ and ⌊λ⌋! alone overflow.
    let ln_power: f64 = (1..=mean as u64).map(|count| ln_mean - (count as f64).ln()).sum();
    (ln_power - mean).exp()
}
