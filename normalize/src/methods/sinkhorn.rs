//! Sinkhorn normalisation.

use dehub_vector::Metric;

use crate::Statistic;
use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};

const PARAMETERS: [Parameter; 2] = [
    Parameter::new("tau", ParameterKind::Temperature, 0.05),
    Parameter::new("n", ParameterKind::Count, 10.0).or("iterations"),
];

fn terms(values: &Values, with_gallery: bool) -> Vec<Term> {
    let (tau, iterations) = (values.get(0), values.count(1));
    vec![Term::query(Statistic::Sinkhorn { tau, iterations, with_gallery })]
}

/// `s + τ·h_g`, with `h` the potentials of the points after `n` Sinkhorn iterations between the query
/// bank and the gallery; see [`crate::fit_potentials`].
pub(crate) struct SinkhornNormalisation;

impl Recipe for SinkhornNormalisation {
    fn name(&self) -> &'static str {
        "SN"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &PARAMETERS
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        terms(values, false)
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![1.0]
    }
}

/// The same with the entries of a gallery bank balanced along with the points, which keep the mass that
/// stand-ins for other points would have drawn (dual-bank Sinkhorn normalisation, ACM MM 2025). An entry that
/// is a point of the collection counts once, so that with a bank of copies of all points this is SN.
pub(crate) struct DualBankSinkhorn;

impl Recipe for DualBankSinkhorn {
    fn name(&self) -> &'static str {
        "DBSN"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &PARAMETERS
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        terms(values, true)
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![1.0]
    }
}
