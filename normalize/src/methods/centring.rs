//! Moving the origin: to the bank's mean, or to the mean of a point's neighbourhood.

use dehub_vector::Metric;

use crate::Statistic;
use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};

/// `s − λ·mean over the query bank`, which ranks as `⟨q − λ·b̄, g − λ·ḡ⟩`
/// (Zhou et al., *Test-Time Distribution Normalization*, NeurIPS 2023; λ is 0.25 for retrieval).
pub(crate) struct DistributionShift;

impl Recipe for DistributionShift {
    fn name(&self) -> &'static str {
        "DN"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[Parameter::new("lambda", ParameterKind::Weight, 0.25)] }
    }

    fn terms(&self, _values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::query(Statistic::Mean)]
    }

    fn weights(&self, values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![values.get(0)]
    }
}

/// `s − mean over the gallery bank`, which ranks as `⟨q − c, g − c⟩` with `c` the gallery's mean
/// (Suzuki et al., *Centering similarity measures to reduce hubs*, EMNLP 2013).
pub(crate) struct Centring;

impl Recipe for Centring {
    fn name(&self) -> &'static str {
        "Centring"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    fn terms(&self, _values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::gallery(Statistic::Mean)]
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![1.0]
    }
}

/// `s − ⟨g, c_k(g)⟩^γ`, with `c_k(g)` the mean of the `k` nearest gallery entries; a negative product
/// keeps its sign (Hara et al., *Localized Centering*, AAAI 2015).
pub(crate) struct LocalCentring;

impl Recipe for LocalCentring {
    fn name(&self) -> &'static str {
        "LocalCentring"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const {
            &[
                Parameter::new("k", ParameterKind::Count, 40.0),
                Parameter::new("gamma", ParameterKind::Weight, 1.0),
            ]
        }
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::gallery(Statistic::TopMeanPower { k: values.count(0), gamma: values.get(1) })]
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![1.0]
    }
}
