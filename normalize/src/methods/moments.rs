//! Similarities measured against a point's own distribution of similarities.

use dehub_vector::Metric;

use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};
use crate::{Scorer, Statistic};

/// `(s − μ_g)/σ_g`, with the mean and deviation of the similarities to the query bank.
pub(crate) struct ZScore;

impl Recipe for ZScore {
    fn name(&self) -> &'static str {
        "ZScore"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    fn terms(&self, _values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::query(Statistic::MeanByDeviation)]
    }

    fn scale(&self, _values: &Values, _metric: Metric) -> Option<Term> {
        Some(Term::query(Statistic::InverseDeviation))
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![1.0]
    }
}

/// The one-sided Gaussian mutual proximity `P(S_g < s)` (Schnitzer et al., JMLR 2012). The normal
/// distribution function is increasing, so it ranks as the z-score and is served as such.
pub(crate) struct MutualProximity;

impl Recipe for MutualProximity {
    fn name(&self) -> &'static str {
        "MP"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    fn terms(&self, values: &Values, metric: Metric) -> Vec<Term> {
        ZScore.terms(values, metric)
    }

    fn scale(&self, values: &Values, metric: Metric) -> Option<Term> {
        ZScore.scale(values, metric)
    }

    fn weights(&self, values: &Values, open: &[bool]) -> Vec<f64> {
        ZScore.weights(values, open)
    }
}

/// The two-sided Gaussian mutual proximity `P(S_q < s) · P(S_g < s)` (Schnitzer et al., *Local and global
/// scaling reduce hubs in space*, JMLR 2012), in the log domain. The point's moments are those of its
/// similarities to the query bank, the query's those to the gallery bank, every entry counted.
pub(crate) struct TwoSidedProximity;

impl Recipe for TwoSidedProximity {
    fn name(&self) -> &'static str {
        "MP2"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[Parameter::new("depth", ParameterKind::Depth, 0.0)] }
    }

    fn terms(&self, values: &Values, metric: Metric) -> Vec<Term> {
        ZScore.terms(values, metric)
    }

    fn scale(&self, values: &Values, metric: Metric) -> Option<Term> {
        ZScore.scale(values, metric)
    }

    fn weights(&self, values: &Values, open: &[bool]) -> Vec<f64> {
        ZScore.weights(values, open)
    }

    fn scorer(&self, _values: &Values) -> Option<Scorer> {
        Some(Scorer::MutualProximity)
    }
}
