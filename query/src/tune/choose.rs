//! The method `auto`: the default candidates, guarded, and the choice among them.

use dehub_index::{Collection, FitInput, Name};
use dehub_normalize::Method;

use super::methods::{TuneMethods, auto_methods, score_deviation};
use super::{Evidence, TuneError, TuneOptions, TuneReport, check_queries, tune};

/// A choice among the guarded default methods, which nothing is installed by.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The candidates, in the order of the report's rows, under the names of their methods.
    pub inputs: Vec<FitInput>,
    /// Methods the bank is too small for.
    pub left_out: Vec<Method>,
    /// The unit of β, as [`score_deviation`] gives it.
    pub deviation: f64,
    /// The choice, and what it was made by.
    pub report: TuneReport,
}

impl Choice {
    /// The row to install: the pick, or with `force` the best, if there is no pick.
    pub fn row(&self, force: bool) -> Option<usize> {
        let verdict = self.report.verdict;
        verdict.pick.or(force.then_some(verdict.best))
    }

    /// A candidate under a name of its own.
    pub fn input(&self, row: usize, name: &Name) -> FitInput {
        FitInput { name: name.clone(), ..self.inputs[row].clone() }
    }
}

/// Chooses among the methods of [`auto_methods`], fitted from one query bank.
pub fn choose(
    collection: &Collection,
    query_bank: &Name,
    evidence: Evidence<'_>,
    options: &TuneOptions,
) -> Result<Choice, TuneError> {
    let snapshot = collection.snapshot();
    check_queries(&snapshot, evidence)?;
    let deviation = score_deviation(&snapshot, &evidence.vectors())?;
    // An unknown bank is refused by the fit, by name.
    let entries = snapshot.bank(query_bank.as_str()).map_or(usize::MAX, |info| info.entries);
    let TuneMethods { methods, left_out } = auto_methods(entries, deviation);
    let input = |method: Method| FitInput {
        name: method.to_string().parse().expect("a label is a name"),
        method,
        query_bank: Some(query_bank.clone()),
        gallery_bank: None,
    };
    let inputs: Vec<FitInput> = methods.into_iter().map(input).collect();
    let (snapshot, corrections) = collection.rehearse(&inputs)?;
    let report = tune(&snapshot, &corrections, evidence, options)?;
    Ok(Choice { inputs, left_out, deviation, report })
}
