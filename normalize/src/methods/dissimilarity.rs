//! Dissimilarities to the centre of a point's neighbourhood.

use dehub_vector::Metric;

use crate::Statistic;
use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};
use crate::statistic::Gap;

/// `−‖q − g‖² + ‖g − c_k(g)‖²`, halved, with `c_k(g)` the mean of the `k` nearest bank entries
/// (Hara et al., *Flattening the density gradient for eliminating spatial centrality*, AAAI 2016).
/// For inner products that is `s − ⟨g, c⟩ + ‖c‖²/2`.
pub(crate) struct DisSimLocal;

impl Recipe for DisSimLocal {
    fn name(&self) -> &'static str {
        "DisSimLocal"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[Parameter::new("k", ParameterKind::Count, 10.0)] }
    }

    fn terms(&self, values: &Values, metric: Metric) -> Vec<Term> {
        let gap = match metric {
            Metric::Cosine | Metric::Dot => Gap::Cosine,
            Metric::Euclidean => Gap::Euclidean,
        };
        vec![Term::query(Statistic::CentroidPull { k: values.count(0), gap })]
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![1.0]
    }
}
