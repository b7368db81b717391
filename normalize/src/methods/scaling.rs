//! Distances measured in units of a point's own neighbourhood.
//!
//! With `d` the distance and `σ` the unit: under Euclidean, `d²/σ` ranks as `sim/σ`; under cosine,
//! with `d = 1 − s`, `d/√σ` ranks as `s/√σ − 1/√σ`.

use dehub_vector::Metric;

use crate::Statistic;
use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};
use crate::statistic::Gap;

const NO_DISTANCE: &str = "it scales distances, and the inner product is none: use cosine or euclidean";

fn gap(metric: Metric) -> Gap {
    match metric {
        Metric::Cosine | Metric::Dot => Gap::Cosine,
        Metric::Euclidean => Gap::Euclidean,
    }
}

/// The bias that goes with a scale: `1/√σ` under cosine, none under Euclidean.
fn bias(metric: Metric, unit: Statistic) -> Vec<Term> {
    match metric {
        Metric::Cosine | Metric::Dot => vec![Term::query(unit)],
        Metric::Euclidean => Vec::new(),
    }
}

fn refuses(metric: Metric) -> Option<&'static str> {
    match metric {
        Metric::Cosine | Metric::Euclidean => None,
        Metric::Dot => Some(NO_DISTANCE),
    }
}

/// `exp(−d²/(σ_q σ_g))` with `σ` the distance to the `k`-th neighbour (Zelnik-Manor & Perona,
/// *Self-tuning spectral clustering*, NIPS 2004; Schnitzer et al., JMLR 2012). `σ_q` changes no ranking.
pub(crate) struct LocalScaling;

impl Recipe for LocalScaling {
    fn name(&self) -> &'static str {
        "LS"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[Parameter::new("k", ParameterKind::Count, 7.0)] }
    }

    fn terms(&self, values: &Values, metric: Metric) -> Vec<Term> {
        bias(metric, Statistic::KthUnit { k: values.count(0), gap: gap(metric) })
    }

    fn scale(&self, values: &Values, metric: Metric) -> Option<Term> {
        Some(Term::query(Statistic::KthUnit { k: values.count(0), gap: gap(metric) }))
    }

    fn weights(&self, _values: &Values, open: &[bool]) -> Vec<f64> {
        vec![1.0; open.len()]
    }

    fn refuses(&self, metric: Metric) -> Option<&'static str> {
        refuses(metric)
    }
}

/// `d/√(μ_q μ_g)` with `μ` the mean distance to the `k` nearest (Jégou et al., *A contextual
/// dissimilarity measure*, CVPR 2007, without iteration). `μ_q` changes no ranking.
pub(crate) struct MeanScaling;

impl Recipe for MeanScaling {
    fn name(&self) -> &'static str {
        "NICDM"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[Parameter::new("k", ParameterKind::Count, 7.0)] }
    }

    fn terms(&self, values: &Values, metric: Metric) -> Vec<Term> {
        bias(metric, Statistic::MeanUnit { k: values.count(0), gap: gap(metric) })
    }

    fn scale(&self, values: &Values, metric: Metric) -> Option<Term> {
        Some(Term::query(Statistic::MeanUnit { k: values.count(0), gap: gap(metric) }))
    }

    fn weights(&self, _values: &Values, open: &[bool]) -> Vec<f64> {
        vec![1.0; open.len()]
    }

    fn refuses(&self, metric: Metric) -> Option<&'static str> {
        refuses(metric)
    }
}
