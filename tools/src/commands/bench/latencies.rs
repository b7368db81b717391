//! Times of many queries.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// The longest time that is told from longer ones.
const LONGEST: Duration = Duration::from_secs(3600);

/// Significant decimal digits of a time.
const DIGITS: u8 = 3;

/// The quantiles shown; the last is the maximum.
pub(super) const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];

/// Times, to a thousandth of each.
#[derive(Debug, Clone)]
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, nanoseconds(LONGEST), DIGITS);
        Latencies(histogram.expect("the bounds are constants that the histogram takes"))
    }

    pub(super) fn record(&mut self, time: Duration) {
        self.0.saturating_record(nanoseconds(time));
    }

    pub(super) fn join(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time within which this share was done, in milliseconds; 0 of none.
    pub(super) fn millis(&self, share: f64) -> f64 {
        to_millis(self.0.value_at_quantile(share))
    }

    /// All quantiles in milliseconds, and the mean; `null` of none.
    pub(super) fn to_json(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        let mut value = json!({ "mean": self.0.mean() / 1e6 });
        for (name, share) in QUANTILES {
            value[name] = json!(self.millis(share));
        }
        value
    }

    /// The quantiles in milliseconds, for a table.
    pub(super) fn cells(&self) -> impl Iterator<Item = String> + '_ {
        let cell =
            |share| if self.0.is_empty() { "-".to_owned() } else { format!("{:.3}", self.millis(share)) };
        QUANTILES.iter().map(move |&(_, share)| cell(share))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "an hour has fewer than 2^53 nanoseconds")]
fn to_millis(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let mut halves = [Latencies::new(), Latencies::new()];
        let mut times: Vec<u64> = (1..=1000).map(|number| number * number).collect();
        for (place, time) in times.iter().rev().enumerate() {
            halves[place % 2].record(Duration::from_micros(*time));
        }
        let [mut all, other] = halves;
        all.join(&other);
        times.sort_unstable();
        assert_eq!(all.count(), 1000);
        for (name, share) in QUANTILES {
            let place = ((1000.0 * share) as usize).max(1) - 1;
            let wanted = times[place] as f64 / 1e3;
            assert!(
                (all.millis(share) / wanted - 1.0).abs() < 2e-3,
                "{name}: {} {wanted}",
                all.millis(share)
            );
        }
        assert_eq!(Latencies::new().to_json(), Value::Null);
    }

    #[test]
    fn a_time_without_end_is_the_longest_there_is() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::MAX);
        assert!((latencies.millis(1.0) / 3.6e6 - 1.0).abs() < 2e-3);
    }
}
