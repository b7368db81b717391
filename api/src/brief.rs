//! Queries that a worker answers itself: the way to a thread of the engine and back costs as much as they take.
//!
//! Whoever reads connections must not be kept from it for long. So a query is taken only if it has the form of a short
//! one, if those of its collection were short lately, and while the worker spends at most seven eighths of its time so:
//! what comes beyond that goes to the threads of the engine, which are limited, and is refused when they are busy.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

/// Bodies of more bytes are decoded by a thread of the engine.
pub(crate) const JSON_BYTES_MAX: usize = 64 * 1024;

/// The same of tables, which hold more in fewer bytes: about ten vectors of 384 numbers.
pub(crate) const TABLE_BYTES_MAX: usize = 16 * 1024;

/// What a query of a collection may have taken lately.
const TOOK_MAX: Duration = Duration::from_micros(500);

/// Of each measurement, what counts in the mean.
const SMOOTHING: u32 = 8;

/// Time that a worker may save up to spend on queries.
const SAVED_MAX: Duration = Duration::from_millis(5);

/// Collections that share a place of the table share their measurements, which costs them little.
const PLACES: usize = 256;

/// Answers of more hits read more points than a worker should.
const LIMIT_MAX: u64 = 100;

/// Walks of larger effort are long.
const EFFORT_MAX: u64 = 512;

/// Not measured yet.
const UNKNOWN: u32 = u32::MAX;

thread_local! {
    static PURSE: Cell<Option<Purse>> = const { Cell::new(None) };
}

/// The time that the worker of this thread has for queries.
#[derive(Debug, Clone, Copy)]
struct Purse {
    saved: Duration,
    counted: Instant,
}

/// How long short queries took lately, by collection, in microseconds.
#[derive(Debug)]
pub(crate) struct Brief {
    took: [AtomicU32; PLACES],
}

impl Default for Brief {
    fn default() -> Brief {
        Brief { took: [const { AtomicU32::new(UNKNOWN) }; PLACES] }
    }
}

impl Brief {
    /// Whether the worker of this thread should answer a query of this collection now.
    pub(crate) fn is_for_worker(&self, collection: &str) -> bool {
        let took = self.place(collection).load(Ordering::Relaxed);
        u128::from(took) <= TOOK_MAX.as_micros() && has_time(Instant::now())
    }

    /// Learns what a query of this form took.
    pub(crate) fn took(&self, collection: &str, took: Duration) {
        let place = self.place(collection);
        let took = u32::try_from(took.as_micros()).unwrap_or(UNKNOWN).min(UNKNOWN - 1);
        let next = match place.load(Ordering::Relaxed) {
            UNKNOWN => took,
            mean => mean - mean / SMOOTHING + took / SMOOTHING,
        };
        // A measurement that is lost between two threads is one among many.
        place.store(next, Ordering::Relaxed);
    }

    fn place(&self, collection: &str) -> &AtomicU32 {
        let mut hasher = DefaultHasher::new();
        collection.hash(&mut hasher);
        let place = usize::try_from(hasher.finish() % PLACES as u64).unwrap_or(0);
        &self.took[place]
    }
}

/// Whether the worker of this thread has time left: seven eighths of what passes.
fn has_time(now: Instant) -> bool {
    PURSE.with(|purse| {
        let saved = purse.get().map_or(SAVED_MAX, |Purse { saved, counted }| {
            (saved + now.saturating_duration_since(counted) / 8 * 7).min(SAVED_MAX)
        });
        purse.set(Some(Purse { saved, counted: now }));
        saved > TOOK_MAX
    })
}

/// The worker of this thread spent so much on a query.
pub(crate) fn spend(took: Duration) {
    PURSE.with(|purse| {
        purse.set(purse.get().map(|it| Purse { saved: it.saved.saturating_sub(took), ..it }));
    });
}

/// Whether the body of a query is that of a short one: by a vector, for few hits, without anything that reads more
/// than their ids. What it does not know it leaves to the threads of the engine.
pub(crate) fn has_short_form(fields: &Map<String, Value>) -> bool {
    fields.iter().all(|(name, value)| match name.as_str() {
        "query" | "vector" => value.is_array(),
        "limit" => value.as_u64().is_some_and(|limit| limit <= LIMIT_MAX),
        "with_payload" | "with_vector" | "with_vectors" => value == &Value::Bool(false) || value.is_null(),
        "using" | "score_threshold" => true,
        "hubness" => value.as_object().is_some_and(|fields| !is_set(fields, "explain")),
        "params" => value.as_object().is_some_and(is_short_search),
        _ => value.is_null(),
    })
}

fn is_short_search(params: &Map<String, Value>) -> bool {
    params.iter().all(|(name, value)| match name.as_str() {
        "hnsw_ef" => value.as_u64().is_some_and(|effort| effort <= EFFORT_MAX),
        "recall" => true,
        _ => value.is_null() || value == &Value::Bool(false),
    })
}

fn is_set(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).is_some_and(|value| value != &Value::Bool(false) && !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_is_short_by_its_form() {
        for (is_short, body) in [
            (true, json!({"query": [1.0, 2.0]})),
            (
                true,
                json!({"query": [1.0], "limit": 10, "params": {"hnsw_ef": 64}, "hubness": {"correction": "c"}}),
            ),
            (true, json!({"vector": [1.0], "with_payload": false, "filter": null, "score_threshold": 0.5})),
            (false, json!({"query": 7})),
            (false, json!({"query": {"recommend": {"positive": [1]}}})),
            (false, json!({"query": [1.0], "limit": 101})),
            (false, json!({"query": [1.0], "with_payload": true})),
            (false, json!({"query": [1.0], "with_vector": ["a"]})),
            (false, json!({"query": [1.0], "filter": {"must": []}})),
            (false, json!({"query": [1.0], "params": {"exact": true}})),
            (false, json!({"query": [1.0], "params": {"hnsw_ef": 4096}})),
            (false, json!({"query": [1.0], "hubness": {"explain": true}})),
            (false, json!({"query": [1.0], "lookup_from": {"collection": "c"}})),
            (false, json!({"prefetch": [{"query": [1.0]}], "query": {"fusion": "rrf"}})),
        ] {
            let fields = body.as_object().expect("an object");
            assert_eq!(has_short_form(fields), is_short, "{body}");
        }
    }

    #[test]
    fn only_collections_whose_queries_were_short_are_answered_by_workers() {
        let brief = Brief::default();
        assert!(!brief.is_for_worker("x"), "nothing is known of it");
        brief.took("x", Duration::from_micros(100));
        assert!(brief.is_for_worker("x") && !brief.is_for_worker("y"));
        brief.took("x", Duration::from_secs(3600));
        assert!(!brief.is_for_worker("x"), "one of them took an hour");
        (0..300).for_each(|_| brief.took("x", Duration::from_micros(100)));
        assert!(brief.is_for_worker("x"), "that is long ago");
    }

    #[test]
    fn a_worker_keeps_an_eighth_of_its_time_for_connections() {
        let start = Instant::now();
        let (tick, mut spent) = (Duration::from_micros(100), 0);
        for tick_number in 1..=10_000_u32 {
            if has_time(start + tick * tick_number) {
                spend(tick);
                spent += 1;
            }
        }
        assert!((8750..=8850).contains(&spent), "{spent} of 10000");
    }
}
