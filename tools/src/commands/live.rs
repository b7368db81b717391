//! `dehub live`.

use anyhow::bail;
use dehub_index::{Collection, LiveBank};
use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::cli::Live;

/// Shows, sets or ends the policy by which queries are kept.
pub(crate) fn run(context: &Context, command: &Live) -> anyhow::Result<Outcome> {
    let collection = context.space(&command.collection)?;
    if command.off {
        collection.set_live_bank(None)?;
    } else if let Some(bank) = &command.bank {
        let policy = LiveBank {
            bank: bank.parse()?,
            rate: command.rate,
            capacity: command.capacity,
            retention_seconds: command.retention,
            per_client: command.per_client,
        };
        collection.set_live_bank(Some(&policy))?;
    }
    show(context, command, &collection)?;
    Ok(Outcome::Done)
}

fn show(context: &Context, command: &Live, collection: &Collection) -> anyhow::Result<()> {
    let snapshot = collection.snapshot();
    let policy = snapshot.live_bank();
    let result = json!({ "collection": command.collection, "policy": policy.map(policy_json) });
    context.output.result(&result, || describe_policy(policy))?;
    Ok(())
}

/// The policy as JSON.
pub(super) fn policy_json(policy: &LiveBank) -> Value {
    let LiveBank { bank, rate, capacity, retention_seconds, per_client } = policy;
    json!({
        "bank": bank.as_str(),
        "rate": rate,
        "capacity": capacity,
        "retention_seconds": retention_seconds,
        "per_client": per_client,
    })
}

/// The policy in words.
pub(super) fn describe_policy(policy: Option<&LiveBank>) -> String {
    let Some(LiveBank { bank, rate, capacity, retention_seconds, per_client }) = policy else {
        return "queries served are not kept".to_owned();
    };
    format!(
        "queries served are kept in bank {bank}: their vectors and the time, for {}; of those that come, \
         {} %; at most {capacity}, and {per_client} of one client",
        duration(*retention_seconds),
        100.0 * rate
    )
}

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// Reads a time such as 7d, 12h, 30m or 90s as seconds.
pub(crate) fn seconds(text: &str) -> anyhow::Result<u64> {
    let unit = UNITS.iter().find_map(|&(unit, size)| Some((text.strip_suffix(unit)?, size)));
    let seconds = unit.and_then(|(number, size)| number.parse::<u64>().ok()?.checked_mul(size));
    let Some(seconds) = seconds else { bail!("wanted a time such as 7d, 12h, 30m or 90s, found {text:?}") };
    Ok(seconds)
}

/// Seconds in the largest unit that they are whole in.
fn duration(seconds: u64) -> String {
    let whole = UNITS.iter().find(|(_, size)| seconds.is_multiple_of(*size));
    whole.map_or(String::new(), |(unit, size)| format!("{} {unit}", seconds / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_in_the_largest_whole_unit() {
        for (text, wanted, spoken) in
            [("7d", 604_800, "7 d"), ("36h", 129_600, "36 h"), ("120s", 120, "2 m"), ("61s", 61, "61 s")]
        {
            assert_eq!(seconds(text).expect("a time"), wanted, "{text}");
            assert_eq!(duration(wanted), spoken);
        }
        for wrong in ["", "7", "d", "-1d", "1.5d", "7 d", "99999999999999999999d", "18446744073709551615d"] {
            let error = seconds(wrong).expect_err("it is none").to_string();
            assert!(error.contains("7d, 12h"), "{wrong}: {error}");
        }
    }
}
