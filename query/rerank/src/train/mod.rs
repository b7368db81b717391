//! Training on a CPU: candidates are drawn, a loss gives slopes of scores, autodiff carries them to the weights.
//!
//! Equal settings and data give equal weights, to the bit: draws come from the seed, and products are summed in one
//! order however many threads share them.

mod adam;
mod adapter;
mod candidates;
mod dataset;
mod measure;

pub use adam::AdamSettings;
pub use adapter::{AdapterTrainer, Round, Trained, train_adapter};
pub use candidates::{ExactMiner, Miner, Negatives};
pub use dataset::{Dataset, DatasetError};
pub use measure::{Measured, measure};

use crate::{Loss, LossError};

/// What the best round is chosen by, on the queries that are held out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// nDCG@10.
    Ndcg,
    /// R@1: whether the first is an answer.
    First,
    /// The AUC of all scores together.
    PooledAuc,
}

impl Goal {
    /// Every goal.
    pub const ALL: [Goal; 3] = [Goal::Ndcg, Goal::First, Goal::PooledAuc];

    /// Its name, as it is read.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Ndcg => "ndcg",
            Goal::First => "first",
            Goal::PooledAuc => "pooled-auc",
        }
    }

    /// Its value of what was measured.
    pub fn of(self, measured: &Measured) -> f64 {
        match self {
            Goal::Ndcg => Measured::mean(&measured.ndcg),
            Goal::First => Measured::mean(&measured.first),
            Goal::PooledAuc => measured.pooled_auc,
        }
    }
}

/// How an adapter is trained.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The loss.
    pub loss: Loss,
    /// Units of the hidden layer.
    pub hidden: usize,
    /// The optimiser.
    pub adam: AdamSettings,
    /// Passes over the queries, at most.
    pub epochs: u32,
    /// Queries of a step.
    pub batch: usize,
    /// What answers are compared with, beside each other's.
    pub negatives: Negatives,
    /// The share of queries that are held out to choose by, 0 to 1.
    pub held_out: f64,
    /// What is chosen by.
    pub goal: Goal,
    /// Epochs without a better one after which it ends.
    pub patience: u32,
    /// How much of what the adapter adds is added: the best of these is taken. With 0 among them, which is the query as
    /// it is, the answer may be not to train.
    pub mixes: Vec<f32>,
    /// Of all draws.
    pub seed: u64,
}

impl Settings {
    /// With a loss, and all else as usual: 512 hidden units, AdamW at 10⁻³ with a decay of 10⁻², 12 epochs of batches
    /// of 512, a tenth of the queries held out.
    pub fn new(loss: Loss) -> Settings {
        Settings {
            loss,
            hidden: 512,
            adam: AdamSettings::default(),
            epochs: 12,
            batch: 512,
            negatives: Negatives::InBatch,
            held_out: 0.1,
            goal: Goal::Ndcg,
            patience: 3,
            mixes: vec![0.0, 0.25, 0.5, 0.75, 1.0],
            seed: 0,
        }
    }

    fn check(&self) -> Result<(), TrainError> {
        let range = |what, found: String, fits, wanted| {
            if fits { Ok(()) } else { Err(TrainError::Setting { what, found, wanted }) }
        };
        let rate = self.adam.rate;
        range("epochs", self.epochs.to_string(), (1..=10_000).contains(&self.epochs), "1 to 10,000")?;
        range("batch", self.batch.to_string(), (2..=16_384).contains(&self.batch), "2 to 16,384")?;
        range("held_out", self.held_out.to_string(), (0.01..=0.9).contains(&self.held_out), "0.01 to 0.9")?;
        range("rate", rate.to_string(), rate > 0.0 && rate <= 1.0, "a number above 0, at most 1")?;
        let decay = self.adam.decay;
        range("decay", decay.to_string(), (0.0..=1.0).contains(&decay), "0 to 1")?;
        let are_mixes = !self.mixes.is_empty() && self.mixes.iter().all(|mix| (0.0..=1.0).contains(mix));
        range("mixes", format!("{:?}", self.mixes), are_mixes, "numbers from 0 to 1")
    }
}

/// Why nothing was trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting out of range.
    #[error("{what} is {found}, wanted {wanted}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What was given.
        found: String,
        /// What it may be.
        wanted: &'static str,
    },
    /// A size out of range.
    #[error(transparent)]
    Model(#[from] crate::ModelError),
    /// The loss has no value.
    #[error("epoch {epoch}: {source}")]
    Loss {
        /// Which.
        epoch: u32,
        /// Why.
        source: LossError,
    },
    /// Weights grew beyond all numbers.
    #[error("epoch {epoch}: the loss is {found}, wanted a number: the rate is too large")]
    Diverged {
        /// Which.
        epoch: u32,
        /// The loss.
        found: f64,
    },
    /// The arithmetic failed.
    #[error("the arithmetic of training failed: {0}")]
    Autodiff(#[from] candle_core::Error),
    /// Negatives could not be found.
    #[error("negatives could not be found: {0}")]
    Mining(String),
    /// It was told to end.
    #[error("training was interrupted")]
    Interrupted,
}
