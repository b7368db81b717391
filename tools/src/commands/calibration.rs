//! What searches were measured to find and to cost, for `dehub info`.

use dehub_index::{Calibrated, Calibration, Cost, Step};
use dehub_query::{LIMIT_DEFAULT, RECALL_DEFAULT};

use crate::output::table;

/// A line a ranking: what finds the usual share of the usual number of points.
pub(super) fn describe_calibration(calibration: &Calibration) -> String {
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
    if lines.is_empty() { String::new() } else { format!("\n{}", table(&head, 1, lines)) }
}

/// Microseconds a query among the most that were asked together.
fn last(costs: &[Cost]) -> String {
    costs.last().map_or_else(|| "-".to_owned(), |cost| format!("{:.0}", cost.micros))
}
