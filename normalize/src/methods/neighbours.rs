//! Means of the nearest bank entries.

use dehub_vector::Metric;

use crate::Statistic;
use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};

/// `s − ½·mean of the k largest` (Lample et al., *Word translation without parallel data*, ICLR 2018).
/// The published score is twice this, less the query's own mean, which changes no ranking.
pub(crate) struct Csls;

impl Recipe for Csls {
    fn name(&self) -> &'static str {
        "CSLS"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[Parameter::new("k", ParameterKind::Count, 10.0)] }
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::query(Statistic::TopMean { k: values.count(0) })]
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![0.5]
    }
}

/// `s − α·mean of the k largest` (Chowdhury et al., *Nearest Neighbor Normalization*, EMNLP 2024).
pub(crate) struct Nnn;

impl Recipe for Nnn {
    fn name(&self) -> &'static str {
        "NNN"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const {
            &[
                Parameter::new("alpha", ParameterKind::Weight, 0.75),
                Parameter::new("k", ParameterKind::Count, 16.0),
            ]
        }
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::query(Statistic::TopMean { k: values.count(1) })]
    }

    fn weights(&self, values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![values.get(0)]
    }
}
