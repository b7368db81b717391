//! Inverted softmax, always or behind a gate.

use dehub_vector::Metric;

use crate::Statistic;
use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};

const BETA: Parameter = Parameter::new("beta", ParameterKind::InverseTemperature, 20.0);

/// `s − LSE_β/β` (Smith et al., *Offline bilingual word vectors*, ICLR 2017). β is 20 in QB-Norm.
pub(crate) struct InvertedSoftmax;

impl Recipe for InvertedSoftmax {
    fn name(&self) -> &'static str {
        "IS"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[BETA] }
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::query(Statistic::LogSumExp { beta: values.get(0) })]
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![1.0]
    }
}

/// Inverted softmax if the raw best point is among the `k` best of some bank query, else raw
/// (Bogolin et al., *Cross Modal Retrieval with Querybank Normalisation*, CVPR 2022).
pub(crate) struct DynamicInvertedSoftmax;

impl Recipe for DynamicInvertedSoftmax {
    fn name(&self) -> &'static str {
        "DIS"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[BETA, Parameter::new("k", ParameterKind::Count, 1.0)] }
    }

    fn terms(&self, values: &Values, metric: Metric) -> Vec<Term> {
        InvertedSoftmax.terms(values, metric)
    }

    fn gate(&self, values: &Values) -> Option<usize> {
        Some(values.count(1))
    }

    fn weights(&self, _values: &Values, open: &[bool]) -> Vec<f64> {
        vec![if open[0] { 1.0 } else { 0.0 }]
    }
}
