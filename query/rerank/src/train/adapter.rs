//! Training of the residual adapter of queries.

use candle_core::{DType, Device, Tensor, Var};

use super::adam::Moments;
use super::candidates::{Drawn, Miner, Negatives, draw};
use super::dataset::Dataset;
use super::measure::{Measured, measure};
use super::{Settings, TrainError};
use crate::{Adapter, AdapterSize, Batch};

/// One epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Its number, from 1; 0 is before training.
    pub epoch: u32,
    /// The mean loss of its steps.
    pub loss: f64,
    /// The goal on the queries that are held out, with the best mix.
    pub goal: f64,
    /// That mix.
    pub mix: f32,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// The adapter of the best round.
    pub adapter: Adapter,
    /// Every round.
    pub rounds: Vec<Round>,
    /// Numbers of the queries that were held out.
    pub held_out: Vec<usize>,
    /// What these found as they are.
    pub before: Measured,
    /// What they find by the adapter.
    pub after: Measured,
}

/// An adapter in training. Its state is the weights and the moments of both matrices, and the state of the draws.
pub struct AdapterTrainer<'a> {
    dataset: &'a Dataset,
    settings: &'a Settings,
    size: AdapterSize,
    weights: [Vec<f32>; 2],
    moments: [Moments; 2],
    steps: u32,
    draws: fastrand::Rng,
    learning: Vec<usize>,
    held_out: Vec<usize>,
    mined: Vec<Vec<u32>>,
}

/// Trains an adapter. `each` is shown every round, and says whether to go on.
///
/// # Errors
/// [`TrainError`] for settings out of range, and if the loss has no value.
pub fn train_adapter(
    dataset: &Dataset,
    settings: &Settings,
    miner: &mut dyn Miner,
    each: &mut dyn FnMut(&Round) -> bool,
) -> Result<Trained, TrainError> {
    let mut trainer = AdapterTrainer::new(dataset, settings)?;
    let before = trainer.measured(None)?;
    let mut best = trainer.adapter(0.0)?;
    let first = Round { epoch: 0, loss: f64::NAN, goal: settings.goal.of(&before), mix: 0.0 };
    let mut rounds = vec![first.clone()];
    let mut top = f64::NEG_INFINITY;
    if settings.mixes.contains(&0.0) {
        top = first.goal;
    }
    let mut since = 0;
    if !each(&first) {
        return Err(TrainError::Interrupted);
    }
    for epoch in 1..=settings.epochs {
        let loss = trainer.epoch(epoch, miner)?;
        let (goal, mix) = trainer.best_mix()?;
        let round = Round { epoch, loss, goal, mix };
        rounds.push(round.clone());
        if !each(&round) {
            return Err(TrainError::Interrupted);
        }
        since += 1;
        if goal > top {
            (top, best, since) = (goal, trainer.adapter(mix)?, 0);
        }
        if since >= settings.patience {
            break;
        }
    }
    let after = trainer.measured(Some(&best))?;
    Ok(Trained { adapter: best, rounds, held_out: trainer.held_out, before, after })
}

impl<'a> AdapterTrainer<'a> {
    /// Before the first step: W₁ of small random numbers, W₂ of zeros.
    pub fn new(dataset: &'a Dataset, settings: &'a Settings) -> Result<AdapterTrainer<'a>, TrainError> {
        settings.check()?;
        let size = AdapterSize::new(dataset.dim(), settings.hidden)?;
        let mut draws = fastrand::Rng::with_seed(settings.seed);
        let (learning, held_out) = split(dataset.answered(), settings.held_out, &mut draws);
        let bound = 1.0 / f64::from(u32::try_from(size.dim).unwrap_or(u32::MAX)).sqrt();
        #[expect(clippy::cast_possible_truncation, reason = "weights have 32 bits")]
        let inner = (0..size.weights()).map(|_| (bound * (2.0 * draws.f64() - 1.0)) as f32).collect();
        let weights = [inner, vec![0.0; size.weights()]];
        let moments = [Moments::new(size.weights()), Moments::new(size.weights())];
        let (steps, mined) = (0, Vec::new());
        Ok(AdapterTrainer {
            dataset,
            settings,
            size,
            weights,
            moments,
            steps,
            draws,
            learning,
            held_out,
            mined,
        })
    }

    /// The adapter as it is now.
    pub fn adapter(&self, mix: f32) -> Result<Adapter, TrainError> {
        let [inner, outer] = self.weights.clone();
        Ok(Adapter::new(self.size, mix, inner, outer)?)
    }

    /// Vectors of queries, moved by an adapter.
    fn vectors(&self, queries: &[usize], adapter: Option<&Adapter>) -> Vec<f32> {
        let mut vectors: Vec<f32> = Vec::with_capacity(queries.len() * self.size.dim);
        queries.iter().for_each(|&query| vectors.extend_from_slice(self.dataset.query(query)));
        if let Some(adapter) = adapter {
            adapter.apply(&mut vectors);
        }
        vectors
    }

    fn measured(&self, adapter: Option<&Adapter>) -> Result<Measured, TrainError> {
        let vectors = self.vectors(&self.held_out, adapter);
        Ok(measure(self.dataset, &self.held_out, &vectors, self.settings.seed))
    }

    /// The best goal of all mixes, and its mix: of equal ones the least.
    fn best_mix(&self) -> Result<(f64, f32), TrainError> {
        let mut best = (f64::NEG_INFINITY, 0.0);
        let mut mixes = self.settings.mixes.clone();
        mixes.sort_unstable_by(f32::total_cmp);
        for mix in mixes {
            let goal = self.settings.goal.of(&self.measured(Some(&self.adapter(mix)?))?);
            if goal > best.0 {
                best = (goal, mix);
            }
        }
        Ok(best)
    }

    /// One pass over the queries; gives the mean loss.
    fn epoch(&mut self, epoch: u32, miner: &mut dyn Miner) -> Result<f64, TrainError> {
        self.mine(epoch, miner)?;
        let mut order = self.learning.clone();
        self.draws.shuffle(&mut order);
        let (mut sum, mut steps) = (0.0, 0.0);
        for queries in order.chunks(self.settings.batch).filter(|queries| queries.len() > 1) {
            let drawn = draw(self.dataset, queries, self.settings.negatives, &self.mined, &mut self.draws)?;
            let loss = self.step(epoch, queries, drawn)?;
            if !loss.is_finite() {
                return Err(TrainError::Diverged { epoch, found: loss });
            }
            sum += loss;
            steps += 1.0;
        }
        Ok(sum / steps)
    }

    fn mine(&mut self, epoch: u32, miner: &mut dyn Miner) -> Result<(), TrainError> {
        let Negatives::Mined { depth, every, .. } = self.settings.negatives else { return Ok(()) };
        if !(epoch - 1).is_multiple_of(every.max(1)) {
            return Ok(());
        }
        let adapter = self.adapter(1.0)?;
        let most =
            self.dataset.answered().iter().map(|&query| self.dataset.answers(query).len()).max().unwrap_or(0);
        let vectors = self.vectors(&self.learning, Some(&adapter));
        let found = miner.mine(&vectors, depth + most).map_err(TrainError::Mining)?;
        self.mined = vec![Vec::new(); self.learning.iter().max().map_or(0, |last| last + 1)];
        for (&query, found) in self.learning.iter().zip(found) {
            let is_negative = |row: &u32| !self.dataset.is_like_an_answer(query, *row);
            self.mined[query] = found.into_iter().filter(is_negative).take(depth).collect();
        }
        Ok(())
    }

    fn step(&mut self, epoch: u32, queries: &[usize], drawn: Drawn) -> Result<f64, TrainError> {
        let (dim, hidden, device) = (self.size.dim, self.size.hidden, Device::Cpu);
        let inner = Var::from_tensor(&Tensor::from_slice(&self.weights[0], (hidden, dim), &device)?)?;
        let outer = Var::from_tensor(&Tensor::from_slice(&self.weights[1], (dim, hidden), &device)?)?;
        let asked = Tensor::from_vec(self.vectors(queries, None), (queries.len(), dim), &device)?;
        let mut points: Vec<f32> = Vec::with_capacity(drawn.rows.len() * dim);
        drawn.rows.iter().for_each(|&row| points.extend_from_slice(self.dataset.point(row)));
        let points = Tensor::from_vec(points, (drawn.rows.len(), dim), &device)?;
        let scores = forward(&asked, inner.as_tensor(), outer.as_tensor())?.matmul(&points.t()?)?;
        let flat: Vec<f64> = scores.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?;
        let wrap = |source| TrainError::Loss { epoch, source };
        let batch = Batch::new(&flat, drawn.rows.len(), &drawn.labels).map_err(wrap)?.sharing(true);
        let loss = self.settings.loss.at_step(u64::from(self.steps));
        let found = loss.evaluate(&batch).map_err(wrap)?;
        // The loss gave its slopes in the scores; autodiff carries them on to the weights.
        let slopes = Tensor::from_vec(found.gradient, scores.shape(), &device)?.to_dtype(DType::F32)?;
        let slopes = (scores * slopes)?.sum_all()?.backward()?;
        self.steps += 1;
        for (place, var) in [inner, outer].iter().enumerate() {
            if let Some(slopes) = slopes.get(var) {
                let slopes: Vec<f32> = slopes.flatten_all()?.to_vec1()?;
                let weights = &mut self.weights[place];
                self.moments[place].step(&self.settings.adam, self.steps, weights, &slopes);
            }
        }
        Ok(found.value)
    }
}

/// What [`Adapter::apply`] computes with a mix of 1.
fn forward(queries: &Tensor, inner: &Tensor, outer: &Tensor) -> Result<Tensor, candle_core::Error> {
    let moved = (queries + queries.matmul(&inner.t()?)?.relu()?.matmul(&outer.t()?)?)?;
    let length = moved.sqr()?.sum_keepdim(1)?.sqrt()?;
    moved.broadcast_div(&length)
}

/// Queries to learn from, and those to measure with.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a count"
)]
fn split(mut queries: Vec<usize>, share: f64, draws: &mut fastrand::Rng) -> (Vec<usize>, Vec<usize>) {
    draws.shuffle(&mut queries);
    let held_out = ((queries.len() as f64 * share).round() as usize).clamp(1, queries.len() - 2);
    let learning = queries.split_off(held_out);
    (learning, queries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autodiff_computes_what_is_served() {
        let (dim, hidden) = (6, 10);
        let mut random = fastrand::Rng::with_seed(2);
        let mut numbers = |count: usize| (0..count).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
        let (inner, outer, mut queries) = (numbers(dim * hidden), numbers(dim * hidden), numbers(9 * dim));
        let tensor = |numbers: &[f32], rows: usize| {
            Tensor::from_slice(numbers, (rows, numbers.len() / rows), &Device::Cpu).expect("a matrix")
        };
        let moved =
            forward(&tensor(&queries, 9), &tensor(&inner, hidden), &tensor(&outer, dim)).expect("numbers");
        let moved: Vec<f32> = moved.flatten_all().and_then(|flat| flat.to_vec1()).expect("numbers");
        let size = AdapterSize::new(dim, hidden).expect("in range");
        Adapter::new(size, 1.0, inner, outer).expect("good").apply(&mut queries);
        assert!(queries.iter().zip(&moved).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}
