//! Softmax over the queries times the similarity.

use dehub_vector::Metric;

use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};
use crate::{Scorer, Statistic};

/// `s · e^{βs} / (Σ_b e^{βs(b,g)} + e^{βs})`, in the log domain: the dual softmax of CAMoE at inference
/// (Cheng et al., *Improving video-text retrieval by multi-stream corpus alignment and dual softmax
/// loss*, 2021), with the query bank in the place of the other test queries.
///
/// A repair: where `s ≤ 0` the product is not monotone in `s`, so there is no score. Such points rank
/// below all others, by `s`; the lowest 32-bit number stands for their score.
pub(crate) struct DualSoftmax;

impl Recipe for DualSoftmax {
    fn name(&self) -> &'static str {
        "DualSoftmax"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const {
            &[
                Parameter::new("beta", ParameterKind::InverseTemperature, 20.0),
                Parameter::new("depth", ParameterKind::Depth, 0.0),
            ]
        }
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::query(Statistic::LogSumExp { beta: values.get(0) })]
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![1.0]
    }

    fn scorer(&self, values: &Values) -> Option<Scorer> {
        Some(Scorer::DualSoftmax { beta: values.get(0) })
    }

    fn refuses(&self, metric: Metric) -> Option<&'static str> {
        match metric {
            Metric::Cosine | Metric::Dot => None,
            Metric::Euclidean => Some("it multiplies by similarities, and under euclidean all are negative"),
        }
    }
}
