//! Queries that are due at times fixed in advance, whatever becomes of those before: an open loop. A closed loop asks
//! less while a server stalls, and so leaves out what those would have waited who did not ask (Tene, *How NOT to
//! Measure Latency*, on coordinated omission).

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::latencies::Latencies;
use crate::cli::Arrivals;

/// Until then all threads have started.
const START_AFTER: Duration = Duration::from_millis(100);

/// The status of a query that got no answer.
pub(super) const NO_ANSWER: u16 = 0;

/// The status of a query that did.
const ANSWERED: u16 = 200;

/// When queries are due, counted from the start.
pub(super) fn schedule(arrivals: Arrivals, rate: f64, length: Duration, seed: u64) -> Vec<Duration> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut gap = || match arrivals {
        Arrivals::Constant => 1.0 / rate,
        // Of a Poisson process gaps are distributed exponentially; 1 − u is never 0.
        Arrivals::Poisson => -(1.0 - random.f64()).ln() / rate,
    };
    let mut due = Vec::new();
    let mut time = gap();
    while time < length.as_secs_f64() {
        due.push(Duration::from_secs_f64(time));
        time += gap();
    }
    due
}

/// A load.
pub(super) struct Load<'a> {
    /// When queries are due, counted from the start.
    pub(super) due: &'a [Duration],
    /// How long it lasts.
    pub(super) length: Duration,
    /// How long after that queries are still sent that were due.
    pub(super) patience: Duration,
    /// Queries under way at a time, at most.
    pub(super) connections: u16,
}

/// What came of a load.
#[derive(Debug)]
pub(super) struct Tally {
    /// How often each status came.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// The times of queries that were answered, from when they were due.
    pub(super) latency: Latencies,
    /// The same from when they were sent.
    pub(super) service: Latencies,
    /// How late the client woke for a query that it had a connection for.
    pub(super) late: Latencies,
    /// Queries that found all connections waiting for answers.
    pub(super) waited: u64,
    /// Queries that were never sent, as patience was at its end.
    pub(super) unsent: u64,
    /// Seconds from the start to the last answer.
    pub(super) seconds: f64,
}

impl Tally {
    fn new() -> Tally {
        let [latency, service, late] = [(); 3].map(|()| Latencies::new());
        Tally { statuses: BTreeMap::new(), latency, service, late, waited: 0, unsent: 0, seconds: 0.0 }
    }

    fn join(&mut self, other: &Tally) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.latency.join(&other.latency);
        self.service.join(&other.service);
        self.late.join(&other.late);
        self.waited += other.waited;
        self.unsent += other.unsent;
        self.seconds = self.seconds.max(other.seconds);
    }
}

/// Asks when queries are due. Each connection is one thread with a client of its own; `ask` gives the status of the
/// answer to the query with this place, or [`NO_ANSWER`].
pub(super) fn drive<C>(
    load: &Load<'_>,
    connect: impl Fn() -> C + Sync,
    ask: impl Fn(&mut C, usize) -> u16 + Sync,
) -> Tally {
    let next = AtomicUsize::new(0);
    let begin = Instant::now() + START_AFTER;
    let give_up = begin + load.length + load.patience;
    let work = || {
        let (mut client, mut tally) = (connect(), Tally::new());
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(due) = load.due.get(place) else { return tally };
            let due = begin + *due;
            let now = Instant::now();
            if now > give_up {
                tally.unsent += 1;
                continue;
            }
            if now < due {
                thread::sleep(due - now);
                tally.late.record(due.elapsed());
            } else {
                tally.waited += 1;
            }
            let sent = Instant::now();
            let status = ask(&mut client, place);
            *tally.statuses.entry(status).or_default() += 1;
            if status == ANSWERED {
                tally.latency.record(due.elapsed());
                tally.service.record(sent.elapsed());
            }
            tally.seconds = begin.elapsed().as_secs_f64();
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..load.connections).map(|_| scope.spawn(work)).collect();
        let mut all = Tally::new();
        for worker in workers {
            all.join(&worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn arrivals_are_random_as_a_poisson_process_has_them_or_at_equal_distances() {
        let constant = schedule(Arrivals::Constant, 100.0, SECOND, 1);
        assert!((99..=100).contains(&constant.len()), "{}", constant.len());
        let length = Duration::from_secs(200);
        let poisson = schedule(Arrivals::Poisson, 100.0, length, 1);
        assert_eq!(poisson, schedule(Arrivals::Poisson, 100.0, length, 1));
        assert_ne!(poisson, schedule(Arrivals::Poisson, 100.0, length, 2));
        assert!(poisson.is_sorted() && *poisson.last().expect("some") < length);
        // The counts of a second have a mean and a variance of 100.
        let counts: Vec<f64> = (0..200)
            .map(|second| poisson.iter().filter(|due| due.as_secs() == second).count() as f64)
            .collect();
        let mean = counts.iter().sum::<f64>() / 200.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 199.0;
        assert!((mean - 100.0).abs() < 3.0, "{mean}");
        assert!((60.0..150.0).contains(&variance), "{variance}");
    }

    /// A server of one thread that takes 2 ms a query, and stalls once for 400 ms.
    fn stalls(place: usize) -> u16 {
        thread::sleep(Duration::from_millis(if place == 20 { 400 } else { 2 }));
        if place % 10 == 9 { 503 } else { 200 }
    }

    #[test]
    fn a_stall_counts_for_all_that_were_due_meanwhile() {
        let due = schedule(Arrivals::Constant, 100.0, SECOND, 0);
        let load = Load { due: &due, length: SECOND, patience: SECOND, connections: 1 };
        let tally = drive(&load, || (), |(), place| stalls(place));
        assert_eq!(tally.statuses.values().sum::<u64>(), due.len() as u64);
        assert_eq!(tally.statuses[&503], due.len() as u64 / 10);
        assert_eq!(tally.latency.count(), tally.statuses[&200]);
        assert_eq!(tally.unsent, 0);
        // One was served slowly, and some forty waited for it.
        assert!(tally.waited >= 30, "{}", tally.waited);
        assert!(tally.service.millis(0.9) < 100.0, "{}", tally.service.millis(0.9));
        assert!(tally.latency.millis(0.9) > 200.0, "{}", tally.latency.millis(0.9));
    }

    #[test]
    fn queries_that_could_not_be_sent_in_time_are_counted() {
        let due = schedule(Arrivals::Constant, 100.0, SECOND, 0);
        let patience = Duration::from_millis(10);
        let load = Load { due: &due, length: SECOND, patience, connections: 1 };
        let slow = |(): &mut (), _| {
            thread::sleep(Duration::from_millis(100));
            200
        };
        let tally = drive(&load, || (), slow);
        assert!(tally.unsent >= 80, "{}", tally.unsent);
        assert_eq!(tally.unsent + tally.statuses[&200], due.len() as u64);
    }
}
