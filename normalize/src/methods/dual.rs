//! Inverted softmax over a query bank and a gallery bank together.

use dehub_vector::Metric;

use crate::Statistic;
use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};

const BETAS: [Parameter; 2] = [
    Parameter::new("b1", ParameterKind::InverseTemperature, 20.0).or("beta_query"),
    Parameter::new("b2", ParameterKind::InverseTemperature, 20.0).or("beta_gallery"),
];

fn terms(values: &Values) -> Vec<Term> {
    vec![
        Term::query(Statistic::LogSumExp { beta: values.get(0) }),
        Term::gallery(Statistic::LogSumExp { beta: values.get(1) }),
    ]
}

/// Each β as a share of the sum of those that count; all 0 when none does.
fn shares(values: &Values, open: [bool; 2]) -> Vec<f64> {
    let mass = |term: usize| if open[term] { values.get(term) } else { 0.0 };
    let whole = mass(0) + mass(1);
    [0, 1].map(|term| if whole > 0.0 { mass(term) / whole } else { 0.0 }).to_vec()
}

/// `s − (LSE_β1 + LSE_β2)/(β1 + β2)` (Wang et al., *Balance Act: Mitigating Hubness in Cross-Modal
/// Retrieval with Query and Gallery Banks*, EMNLP 2023).
pub(crate) struct DualInvertedSoftmax;

impl Recipe for DualInvertedSoftmax {
    fn name(&self) -> &'static str {
        "DualIS"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &BETAS
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        terms(values)
    }

    fn weights(&self, values: &Values, _open: &[bool]) -> Vec<f64> {
        shares(values, [true, true])
    }
}

/// The same in the log domain with a gate for each bank: a bank's term counts only if the raw best
/// point is in its activation set. The published product of probabilities is not monotone in `s`
/// and promotes hubs where similarities are negative, so it is not served.
pub(crate) struct DualDynamicInvertedSoftmax;

impl Recipe for DualDynamicInvertedSoftmax {
    fn name(&self) -> &'static str {
        "DualDIS"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const PARAMETERS: [Parameter; 3] =
            [BETAS[0], BETAS[1], Parameter::new("k", ParameterKind::Count, 1.0)];
        &PARAMETERS
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        terms(values)
    }

    fn gate(&self, values: &Values) -> Option<usize> {
        Some(values.count(2))
    }

    fn weights(&self, values: &Values, open: &[bool]) -> Vec<f64> {
        shares(values, [open[0], open[1]])
    }
}
