//! Rerankers and adapters trained on frozen vectors: losses, models, training, scoring.

mod batch;
mod file;
mod loss;
mod model;
mod train;

pub use batch::{Batch, Label, LossError};
pub use file::{Card, FileError, files, load, save};
pub use loss::{
    Activation, DecoupledSoftmax, Evaluation, InfoNce, Loss, LossNameError, MannWhitney, PairKind, Pairwise,
    PartialRanking, PickSomeLabel, Psl, SlAtK, SoftInfoNce, SoftTopK, pooled_auc,
};
pub use model::{Adapter, AdapterSize, ModelError};
pub use train::{
    AdamSettings, AdapterTrainer, Dataset, DatasetError, ExactMiner, Goal, Measured, Miner, Negatives, Round,
    Settings, TrainError, Trained, measure, train_adapter,
};
