//! Sinkhorn normalisation.

use dehub_vector::Metric;

use crate::Statistic;
use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};

/// `s + τ·h_g`, with `h` the potentials of the points after `n` Sinkhorn iterations between the query
/// bank and the gallery; see [`crate::fit_potentials`].
pub(crate) struct SinkhornNormalisation;

impl Recipe for SinkhornNormalisation {
    fn name(&self) -> &'static str {
        "SN"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const {
            &[
                Parameter::new("tau", ParameterKind::Temperature, 0.05),
                Parameter::new("n", ParameterKind::Count, 10.0).or("iterations"),
            ]
        }
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::query(Statistic::Sinkhorn { tau: values.get(0), iterations: values.count(1) })]
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![1.0]
    }
}
