//! What searches were measured to find and to cost, as JSON.

use dehub_index::{Calibrated, Calibration, Cost, Name, Step};
use serde_json::{Value, json};

/// A calibration as answers show it.
pub fn calibration_value(calibration: &Calibration) -> Value {
    let Calibration { subject, machine, queries, rankings } = calibration;
    json!({
        "machine": machine,
        "queries": queries,
        "bank": subject.bank.as_ref().map(Name::as_str),
        "rankings": rankings.iter().map(ranking).collect::<Vec<_>>(),
    })
}

fn ranking(ranking: &Calibrated) -> Value {
    let Calibrated { correction, limit, exact, walk, codes } = ranking;
    let steps = |steps: &[Step], setting: &str| -> Vec<Value> {
        let value = |step: &Step| json!({ setting: step.setting, "recall": step.recall, "costs": costs(&step.costs) });
        steps.iter().map(value).collect()
    };
    json!({
        "correction": correction,
        "limit": limit,
        "exact": costs(exact),
        "walk": steps(walk, "effort"),
        "codes": steps(codes, "candidates"),
    })
}

fn costs(costs: &[Cost]) -> Vec<Value> {
    costs.iter().map(|cost| json!({ "queries": cost.queries, "micros": cost.micros })).collect()
}
