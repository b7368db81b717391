//! Rerankers and adapters trained on frozen vectors: losses, models, training, scoring.

mod batch;
mod calibrate;
mod file;
mod loss;
mod model;
mod train;

pub use batch::{Batch, Label, SCORE_MAX};
pub use calibrate::{
    Bins, Calibration, CalibrationError, Judged, brier_score, expected_calibration_error, pooled_auc,
};
pub use file::{Card, FileError, files, load, save};
pub use loss::{
    Activation, DecoupledSoftmax, Evaluation, InfoNce, Loss, LossError, LossTextError, MannWhitney, Pairwise,
    PartialRanking, PickSomeLabel, Psl, SlAtK, SoftInfoNce, SoftTopK, Surrogate, Weighting, auc,
};
pub use model::{Adapter, AdapterSize, ModelError};
pub use train::{
    AdamSettings, AdapterTrainer, Dataset, DatasetError, ExactMiner, Goal, Measured, Miner, Negatives, Round,
    Settings, TrainError, Trained, measure, train_adapter,
};
