//! Retrieval from the points' side.

use dehub_vector::Metric;

use crate::method::{Parameter, ParameterKind, Recipe, Term, Values};
use crate::{Scorer, Statistic};

/// `−` the rank of the query among the bank queries, seen from the point: how many are more similar to
/// it than the query is (Dinu, Lazaridou & Baroni, *Improving zero-shot learning by mitigating the
/// hubness problem*, ICLR workshop 2015). Ties go to the larger similarity.
///
/// A point keeps its `k` largest similarities, `4·k` bytes; a query beyond all of them has rank `k`. With
/// `k` the size of the bank that is the published method. If there are no ties, at most `r` bank queries
/// have a rank below `r` at any point.
pub(crate) struct GloballyCorrected;

impl Recipe for GloballyCorrected {
    fn name(&self) -> &'static str {
        "GC"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const { &[Parameter::new("k", ParameterKind::Count, 64.0)] }
    }

    fn terms(&self, values: &Values, _metric: Metric) -> Vec<Term> {
        vec![Term::query(Statistic::Largest { k: values.count(0) })]
    }

    fn weights(&self, _values: &Values, _open: &[bool]) -> Vec<f64> {
        vec![0.0]
    }

    fn scorer(&self, _values: &Values) -> Option<Scorer> {
        Some(Scorer::BankRank)
    }
}
