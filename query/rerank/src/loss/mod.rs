//! Losses over scores: a value, and its exact slope in every score, in 64 bits. What makes the scores is not their
//! matter.

mod far_field;
mod mann_whitney;
mod softmax;
mod spelled;
mod surrogate;

pub use mann_whitney::{MannWhitney, pooled_auc};
pub use softmax::{DecoupledSoftmax, InfoNce, PartialRanking, PickSomeLabel, SoftInfoNce};
pub use spelled::LossNameError;
pub use surrogate::{Activation, PairKind, Pairwise, Psl, SlAtK, SoftTopK};

use crate::batch::{Batch, LossError};

/// The temperature of losses over cosines that name none: in the middle of what papers take for in-batch softmaxes (.01
/// to .07, DEXML .05).
const TEMPERATURE: f64 = 0.05;

/// A loss with its parameters. It is spelled `mw`, `infonce:temperature=0.05,both_ways=true`, `0.5*mw + infonce`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// `mw`
    MannWhitney(MannWhitney),
    /// `infonce`
    InfoNce(InfoNce),
    /// `decoupled`
    DecoupledSoftmax(DecoupledSoftmax),
    /// `soft-top-k`
    SoftTopK(SoftTopK),
    /// `cprd`
    PartialRanking(PartialRanking),
    /// `psl`
    Psl(Psl),
    /// `sl@k`
    SlAtK(SlAtK),
    /// `soft-infonce`
    SoftInfoNce(SoftInfoNce),
    /// `pick-some`
    PickSomeLabel(PickSomeLabel),
    /// `pairwise`
    Pairwise(Pairwise),
    /// A weighted sum.
    Mixed(Vec<(f64, Loss)>),
}

/// What a loss is of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The loss.
    pub value: f64,
    /// Its derivative in each score, row by row; 0 where a candidate is ignored.
    pub gradient: Vec<f64>,
}

impl Evaluation {
    fn zero(batch: &Batch) -> Evaluation {
        Evaluation { value: 0.0, gradient: vec![0.0; batch.scores().len()] }
    }
}

impl Loss {
    /// Its value and slopes on a batch. Rows without a positive or without a negative tell nothing to losses that
    /// compare within a row, and are passed over.
    ///
    /// # Errors
    /// [`LossError`] if the batch has nothing to learn from, or lacks what the loss needs.
    pub fn evaluate(&self, batch: &Batch) -> Result<Evaluation, LossError> {
        match self {
            Loss::MannWhitney(loss) => loss.evaluate(batch),
            Loss::InfoNce(loss) => loss.evaluate(batch),
            Loss::DecoupledSoftmax(loss) => loss.evaluate(batch),
            Loss::SoftTopK(loss) => loss.evaluate(batch),
            Loss::PartialRanking(loss) => loss.evaluate(batch),
            Loss::Psl(loss) => loss.evaluate(batch),
            Loss::SlAtK(loss) => loss.evaluate(batch),
            Loss::SoftInfoNce(loss) => loss.evaluate(batch),
            Loss::PickSomeLabel(loss) => loss.evaluate(batch),
            Loss::Pairwise(loss) => loss.evaluate(batch),
            Loss::Mixed(parts) => {
                let mut sum = Evaluation::zero(batch);
                for (weight, part) in parts {
                    let part = part.evaluate(batch)?;
                    sum.value += weight * part.value;
                    sum.gradient
                        .iter_mut()
                        .zip(part.gradient)
                        .for_each(|(sum, slope)| *sum += weight * slope);
                }
                Ok(sum)
            }
        }
    }

    /// Whether it needs the scores of a teacher.
    pub fn needs_teacher(&self) -> bool {
        match self {
            Loss::PartialRanking(_) => true,
            Loss::Mixed(parts) => parts.iter().any(|(_, part)| part.needs_teacher()),
            Loss::MannWhitney(_)
            | Loss::InfoNce(_)
            | Loss::DecoupledSoftmax(_)
            | Loss::SoftTopK(_)
            | Loss::Psl(_)
            | Loss::SlAtK(_)
            | Loss::SoftInfoNce(_)
            | Loss::PickSomeLabel(_)
            | Loss::Pairwise(_) => false,
        }
    }
}

/// `log(1 + e^x)`, without overflow.
pub(crate) fn log1p_exp(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `1/(1 + e^{−x})`
pub(crate) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let power = x.exp();
        power / (1.0 + power)
    }
}
