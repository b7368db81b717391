//! What the ways of searching a collection cost and find, measured against exact answers: what the choice
//! between them and of an effort rests on. Derived, and never needed for a right answer.

use dehub_normalize::BankKind;
use serde::{Deserialize, Serialize};

use crate::{Name, Snapshot};

/// The ways of searching one collection, for each of its rankings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// What the figures hold for.
    pub subject: CalibrationSubject,
    /// The machine that the times were taken on, as [`machine`] says it.
    pub machine: String,
    /// How many queries were asked.
    pub queries: usize,
    /// The raw ranking first, then the corrections, each for a few limits.
    pub rankings: Vec<Calibrated>,
}

/// The segments, the corrections and the queries of a state; as long as they are the same, a calibration holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CalibrationSubject {
    /// The rows each segment covers, its nodes, and how it keeps vectors.
    pub segments: Vec<(u32, usize, String)>,
    /// The corrections, as `name@version`.
    pub corrections: Vec<String>,
    /// The largest query bank, whose entries are asked; without one, vectors half way between two points are.
    pub bank: Option<Name>,
}

/// One ranking, searched in every way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The correction, as `name@version`; `None` for raw.
    pub correction: Option<String>,
    /// How many points each query asked for.
    pub limit: usize,
    /// The exact scan, by how many queries are asked together.
    pub exact: Vec<Cost>,
    /// The walk, by effort.
    pub walk: Vec<Step>,
    /// The scan of the codes, by how many candidates are kept; none without codes to scan.
    pub codes: Vec<Step>,
}

/// What a query costs among others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// How many were asked together.
    pub queries: usize,
    /// Microseconds a query.
    pub micros: f64,
}

/// What one setting finds and costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The effort of a walk, or the candidates of a scan of codes.
    pub setting: usize,
    /// The share of the exact answers that it finds.
    pub recall: f64,
    /// What it costs.
    pub costs: Vec<Cost>,
}

impl CalibrationSubject {
    /// Of a snapshot.
    pub fn of(snapshot: &Snapshot) -> CalibrationSubject {
        let segments = snapshot.segments.iter().map(|frozen| {
            let kind = frozen.quantization.name().to_owned();
            (frozen.rows.end, frozen.graph.node_count(), kind)
        });
        let corrections = snapshot.corrections().map(|correction| {
            let info = correction.info();
            format!("{}@{}", info.name, info.version)
        });
        let banks = snapshot.banks().filter(|bank| bank.kind == BankKind::Query && bank.entries > 0);
        let bank = banks.max_by_key(|bank| bank.entries).map(|bank| bank.name.clone());
        CalibrationSubject { segments: segments.collect(), corrections: corrections.collect(), bank }
    }
}

impl Calibration {
    /// The figures of a ranking for a limit; `None` if it was not measured.
    pub fn of(&self, correction: Option<&str>, limit: usize) -> Option<&Calibrated> {
        let is_it = |it: &&Calibrated| it.correction.as_deref() == correction && it.limit == limit;
        self.rankings.iter().find(is_it)
    }
}

/// Microseconds of a query among `queries`, between those measured on a line in the logarithm of their number.
#[expect(clippy::cast_precision_loss, reason = "a count of queries is far below 2^53")]
pub fn cost_among(costs: &[Cost], queries: usize) -> Option<f64> {
    let place = costs.partition_point(|cost| cost.queries < queries);
    match (place.checked_sub(1).and_then(|before| costs.get(before)), costs.get(place)) {
        (Some(before), Some(after)) => {
            let log = |queries: usize| (queries as f64).ln();
            let share = (log(queries) - log(before.queries)) / (log(after.queries) - log(before.queries));
            Some(before.micros + share * (after.micros - before.micros))
        }
        (one, other) => one.or(other).map(|cost| cost.micros),
    }
}

/// The instructions that the kernels use, and the threads. A processor alike in these passes for the same.
pub fn machine() -> String {
    let kernels = dehub_vector::Kernels::best().name;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{kernels}, {threads} threads")
}
