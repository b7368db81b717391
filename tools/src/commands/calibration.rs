//! What searches were measured to find and to cost, for `dehub info`.

use dehub_index::{Calibrated, Cost, Snapshot, Step};
use dehub_query::{LIMIT_DEFAULT, RECALL_DEFAULT};

use crate::output::table;

/// What was asked, and a line a ranking: what finds the usual share of the usual number of points.
pub(super) fn describe_calibration(snapshot: &Snapshot) -> String {
    let Some(calibration) = snapshot.calibration() else { return String::new() };
    if snapshot.is_calibration_due() {
        let why = "the graph, the corrections, the bank or the machine are others";
        return format!("\nsearches are to be measured again: {why}\n");
    }
    let asked = match &calibration.subject.bank {
        Some(bank) => format!("entries of `{bank}`"),
        None => "vectors half way between points, as there is no query bank".to_owned(),
    };
    let line = |ranking: &Calibrated| {
        let reach = |steps: &[Step]| match steps.iter().find(|step| step.recall >= RECALL_DEFAULT) {
            Some(step) => {
                vec![step.setting.to_string(), format!("{:.4}", step.recall), last(&step.costs)]
            }
            None => vec!["-".to_owned(); 3],
        };
        let mut cells = vec![ranking.correction.clone().unwrap_or_else(|| "raw".to_owned())];
        cells.extend(reach(&ranking.walk));
        cells.extend(reach(&ranking.codes));
        cells.push(last(&ranking.exact));
        cells
    };
    let usual = calibration.rankings.iter().filter(|ranking| ranking.limit == LIMIT_DEFAULT);
    let head = ["searches by", "effort", "recall", "us", "candidates", "recall", "us", "exact us"];
    let lines: Vec<_> = usual.map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\nmeasured with {} {asked}:\n{}", calibration.queries, table(&head, 1, lines))
}

/// Microseconds a query among the most that were asked together.
fn last(costs: &[Cost]) -> String {
    costs.last().map_or_else(|| "-".to_owned(), |cost| format!("{:.0}", cost.micros))
}
