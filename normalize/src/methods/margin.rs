//! Similarities as multiples of those to the neighbours.

use dehub_vector::Metric;

use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};
use crate::{Scorer, Statistic};

/// `s / (½(r_k(q) + r_k(g)))`, with `r_k(g)` the mean of the point's `k` largest similarities to the query
/// bank, and `r_k(q)` that of the query to the gallery, the point it was searched by left out (Artetxe &
/// Schwenk, *Margin-based parallel corpus mining*, ACL 2019; `k` is 4 in LASER).
///
/// A mean below 10⁻⁶ counts as 10⁻⁶, so that no denominator is 0 or negative. A negative similarity is
/// the better the larger its denominator is, as published.
pub(crate) struct RatioMargin;

impl Recipe for RatioMargin {
    fn name(&self) -> &'static str {
        "RatioMargin"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[Parameter::new("k", ParameterKind::Count, 4.0)] }
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::query(Statistic::TopMean { k: values.count(0) })]
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![0.5]
    }

    fn scorer(&self, values: &Values) -> Option<Scorer> {
        Some(Scorer::RatioMargin { k: values.count(0) })
    }

    fn refuses(&self, metric: Metric) -> Option<&'static str> {
        match metric {
            Metric::Cosine | Metric::Dot => None,
            Metric::Euclidean => Some("it divides by similarities, and under euclidean all are negative"),
        }
    }
}
