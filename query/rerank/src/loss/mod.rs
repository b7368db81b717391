//! What training minimises: losses over a batch of scores, each with its exact gradient.
//!
//! A loss is data ([`Loss`]), a batch is data ([`Batch`]), and [`Loss::evaluate`] is a pure function of both, in 64
//! bits. Rows that hold nothing to be compared are passed over; a batch that holds nothing at all is an error.

mod adaptive;
mod auc;
mod buckets;
mod decoupled;
mod error;
mod info_nce;
mod lines;
mod mann_whitney;
mod pairs;
mod pairwise;
mod partial_ranking;
mod pick_some_label;
mod psl;
mod sl_at_k;
mod soft_info_nce;
mod soft_top_k;
mod stable;
mod text;

use serde::{Deserialize, Serialize};

pub(crate) use auc::area;
pub use auc::auc;
pub use decoupled::DecoupledSoftmax;
pub use error::LossError;
pub use info_nce::InfoNce;
pub use mann_whitney::{MannWhitney, Weighting};
pub use pairwise::{Pairwise, Surrogate};
pub use partial_ranking::PartialRanking;
pub use pick_some_label::PickSomeLabel;
pub use psl::{Activation, Psl};
pub use sl_at_k::SlAtK;
pub use soft_info_nce::SoftInfoNce;
pub use soft_top_k::SoftTopK;

pub(crate) use stable::{sigmoid, softplus};
pub use text::LossTextError;

use crate::Batch;

/// A loss with its parameters.
///
/// Its readable form, which `Display` prints and `FromStr` reads, is a name with the parameters that are not the
/// defaults, or a weighted sum of such: `mw`, `infonce:temperature=0.03,both_ways=true`,
/// `0.5*mw:hardest=32 + infonce`.
///
/// ```
/// use dehub_rerank::{Batch, Label::{Negative, Positive}, Loss};
///
/// // Two queries against the same three candidates.
/// let scores = [0.80, 0.30, 0.55, 0.20, 0.60, 0.65];
/// let labels = [Positive, Negative, Negative, Negative, Positive, Negative];
/// let batch = Batch::new(&scores, 3, &labels)?.sharing(true);
/// let loss: Loss = "mw + 0.5*infonce:both_ways=true".parse()?;
/// let found = loss.evaluate(&batch)?;
/// assert!(found.gradient[4] < 0.0 && found.gradient[5] > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Loss {
    /// `mw`: all positives of the batch against all negatives.
    #[serde(rename = "mw")]
    MannWhitney(MannWhitney),
    /// `infonce`: each positive against its row, and perhaps its column.
    #[serde(rename = "infonce")]
    InfoNce(InfoNce),
    /// `decoupled`: each positive against the negatives of its row.
    #[serde(rename = "decoupled")]
    DecoupledSoftmax(DecoupledSoftmax),
    /// `soft_topk`: each positive among the first k of its row.
    #[serde(rename = "soft_topk")]
    SoftTopK(SoftTopK),
    /// `partial_ranking`: hard negatives in the order of a teacher.
    #[serde(rename = "partial_ranking")]
    PartialRanking(PartialRanking),
    /// `psl`: softmax over differences, with other functions than the exponential.
    #[serde(rename = "psl")]
    Psl(Psl),
    /// `sl_at_k`: softmax, weighted by nearness to the first k.
    #[serde(rename = "sl_at_k")]
    SlAtK(SlAtK),
    /// `soft_infonce`: softmax with negatives weighted by similarity.
    #[serde(rename = "soft_infonce")]
    SoftInfoNce(SoftInfoNce),
    /// `pick_some_label`: softmax over a pool of sampled positives and hard negatives.
    #[serde(rename = "pick_some_label")]
    PickSomeLabel(PickSomeLabel),
    /// `pairwise`: the pairs of a row, by hinge or logistic.
    #[serde(rename = "pairwise")]
    Pairwise(Pairwise),
    /// A sum of others, each times its weight, which is above 0.
    #[serde(rename = "mixed")]
    Mixed(Vec<(f64, Loss)>),
}

/// A loss on a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The loss: a finite number; smaller is better.
    pub value: f64,
    /// Its slope with respect to each score, in the order of [`Batch::scores`]; 0 where a label is ignored.
    pub gradient: Vec<f64>,
}

impl Evaluation {
    /// The weighted sum of evaluations on one batch.
    pub(crate) fn weighted(parts: &[(f64, Evaluation)]) -> Evaluation {
        let cells = parts.first().map_or(0, |(_, part)| part.gradient.len());
        let mut sum = Evaluation { value: 0.0, gradient: vec![0.0; cells] };
        for (weight, part) in parts {
            sum.value += weight * part.value;
            for (slope, other) in sum.gradient.iter_mut().zip(&part.gradient) {
                *slope += weight * other;
            }
        }
        sum
    }
}

/// The name of a mixture in errors and in JSON; in the readable form it has none.
const MIXED: &str = "mixed";

impl Loss {
    /// The name, without parameters.
    pub fn name(&self) -> &'static str {
        match self {
            Loss::MannWhitney(_) => MannWhitney::NAME,
            Loss::InfoNce(_) => InfoNce::NAME,
            Loss::DecoupledSoftmax(_) => DecoupledSoftmax::NAME,
            Loss::SoftTopK(_) => SoftTopK::NAME,
            Loss::PartialRanking(_) => PartialRanking::NAME,
            Loss::Psl(_) => Psl::NAME,
            Loss::SlAtK(_) => SlAtK::NAME,
            Loss::SoftInfoNce(_) => SoftInfoNce::NAME,
            Loss::PickSomeLabel(_) => PickSomeLabel::NAME,
            Loss::Pairwise(_) => Pairwise::NAME,
            Loss::Mixed(_) => MIXED,
        }
    }

    /// Refuses parameters that no batch gives a value with. [`Loss::evaluate`] does so too; what is read from a text is
    /// checked, what is read from JSON is not.
    ///
    /// # Errors
    ///
    /// [`LossError::Parameter`] or [`LossError::Mixture`].
    pub fn check(&self) -> Result<(), LossError> {
        match self {
            Loss::MannWhitney(loss) => loss.check(),
            Loss::InfoNce(loss) => loss.check(),
            Loss::DecoupledSoftmax(loss) => loss.check(),
            Loss::SoftTopK(loss) => loss.check(),
            Loss::PartialRanking(loss) => loss.check(),
            Loss::Psl(loss) => loss.check(),
            Loss::SlAtK(loss) => loss.check(),
            Loss::SoftInfoNce(loss) => loss.check(),
            Loss::PickSomeLabel(loss) => loss.check(),
            Loss::Pairwise(loss) => loss.check(),
            Loss::Mixed(parts) => check_parts(parts),
        }
    }

    /// The value and the gradient on a batch.
    ///
    /// # Errors
    ///
    /// What [`Loss::check`] refuses; a batch without a positive or a negative, without anything that the loss compares,
    /// or without what the loss needs: a teacher, shared candidates, enough negatives.
    pub fn evaluate(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
        self.check()?;
        let evaluation = self.evaluate_checked(batch)?;
        debug_assert!(evaluation.value.is_finite(), "{self}: {}", evaluation.value);
        debug_assert!(evaluation.gradient.iter().all(|slope| slope.is_finite()), "{self}");
        Ok(evaluation)
    }

    fn evaluate_checked(&self, batch: &Batch<'_>) -> Result<Evaluation, LossError> {
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
                let evaluated = |(weight, part): &(f64, Loss)| Ok((*weight, part.evaluate_checked(batch)?));
                let parts = parts.iter().map(evaluated).collect::<Result<Vec<_>, LossError>>()?;
                Ok(Evaluation::weighted(&parts))
            }
        }
    }

    /// The loss as it is at a step of a training: what it draws at random it draws anew, and the same for the same
    /// step.
    #[must_use]
    pub fn at_step(&self, step: u64) -> Loss {
        match self {
            Loss::PickSomeLabel(loss) => Loss::PickSomeLabel(loss.at_step(step)),
            Loss::Mixed(parts) => {
                Loss::Mixed(parts.iter().map(|(weight, part)| (*weight, part.at_step(step))).collect())
            }
            Loss::MannWhitney(_)
            | Loss::InfoNce(_)
            | Loss::DecoupledSoftmax(_)
            | Loss::SoftTopK(_)
            | Loss::PartialRanking(_)
            | Loss::Psl(_)
            | Loss::SlAtK(_)
            | Loss::SoftInfoNce(_)
            | Loss::Pairwise(_) => self.clone(),
        }
    }
}

fn check_parts(parts: &[(f64, Loss)]) -> Result<(), LossError> {
    if parts.is_empty() {
        return Err(LossError::Mixture { loss: MIXED, found: "none" });
    }
    for (weight, part) in parts {
        if matches!(part, Loss::Mixed(_)) {
            return Err(LossError::Mixture { loss: MIXED, found: "a mixture" });
        }
        error::Checks(part.name()).factor("the weight", *weight)?;
        part.check()?;
    }
    Ok(())
}
