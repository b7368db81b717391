//! `dehub quarantine`.

use dehub_index::{Collection, HeldPoint, HubRule};
use dehub_vector::PointId;
use serde_json::{Value, json};

use super::search::shortened;
use super::{Context, Outcome};
use crate::cli::{Quarantine, QuarantineAction};
use crate::output::table;

/// Begins or ends the test of new points, lists those that are held, releases or drops them.
pub(crate) fn run(context: &Context, command: &Quarantine) -> anyhow::Result<Outcome> {
    let collection = context.collection(&command.collection)?;
    match &command.action {
        None | Some(QuarantineAction::List) => list(context, command, &collection)?,
        Some(QuarantineAction::On { correction, rate }) => {
            let rule = HubRule { correction: correction.parse()?, rate: *rate };
            collection.set_quarantine(Some(&rule))?;
            list(context, command, &collection)?;
        }
        Some(QuarantineAction::Off) => {
            collection.set_quarantine(None)?;
            list(context, command, &collection)?;
        }
        Some(QuarantineAction::Release { ids }) => {
            let receipt = collection.release(&parsed(ids)?)?;
            context.tend(&collection)?;
            let released = receipt.added + receipt.replaced;
            let result = json!({ "collection": command.collection, "released": released });
            context.output.result(&result, || format!("released {released} points"))?;
        }
        Some(QuarantineAction::Drop { ids }) => {
            let ids = parsed(ids)?;
            let snapshot = collection.snapshot();
            if let Some(id) = ids.iter().find(|id| !snapshot.quarantined().any(|held| held.point.id == **id))
            {
                anyhow::bail!("point {id} is not in quarantine; nothing was dropped");
            }
            let dropped = collection.delete(&ids)?.deleted;
            let result = json!({ "collection": command.collection, "dropped": dropped });
            context.output.result(&result, || format!("dropped {dropped} points"))?;
        }
    }
    Ok(Outcome::Done)
}

fn parsed(ids: &[String]) -> anyhow::Result<Vec<PointId>> {
    Ok(ids.iter().map(|id| PointId::parse(id)).collect::<Result<_, _>>()?)
}

fn list(context: &Context, command: &Quarantine, collection: &Collection) -> anyhow::Result<()> {
    let snapshot = collection.snapshot();
    let held: Vec<Value> = snapshot.quarantined().map(held_json).collect();
    let rule = snapshot.quarantine_rule();
    let result = json!({ "collection": command.collection, "rule": rule.map(rule_json), "points": held });
    context.output.result(&result, || {
        let row = |held: &HeldPoint| {
            let text = shortened(held.point.text.as_deref().unwrap_or(""));
            let (bias, p) = (format!("{:+.4}", held.bias), format!("{:.2e}", held.p));
            vec![held.point.id.to_string(), text, held.correction.to_string(), bias, p]
        };
        let mut text = format!("{}\n", describe_rule(rule));
        if snapshot.quarantined().len() == 0 {
            return text + "No point is in quarantine.";
        }
        text += &table(&["id", "text", "correction", "bias", "p"], 3, snapshot.quarantined().map(row));
        text
    })?;
    Ok(())
}

fn held_json(held: &HeldPoint) -> Value {
    json!({
        "id": held.point.id,
        "text": held.point.text,
        "correction": held.correction.as_str(),
        "bias": held.bias,
        "p": held.p,
        "sequence": held.sequence,
    })
}

/// The rule as JSON.
pub(super) fn rule_json(rule: &HubRule) -> Value {
    json!({ "correction": rule.correction.as_str(), "rate": rule.rate })
}

/// The rule in words.
pub(super) fn describe_rule(rule: Option<&HubRule>) -> String {
    match rule {
        None => "new points are not tested".to_owned(),
        Some(HubRule { correction, rate }) => {
            format!("new points are tested by {correction}, with a rate of false alarms of {rate}")
        }
    }
}
