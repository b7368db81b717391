//! Asking all queries one by one, each by one thread, and timing each.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dehub_index::Snapshot;
use dehub_query::{Query, QueryError, Response, run};
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::latencies::Latencies;

/// What asks.
pub(super) struct Timing {
    /// One of one thread for each query that is asked at a time, so that no search takes the thread of another.
    pools: Vec<ThreadPool>,
    rounds: usize,
    warm_up: usize,
}

/// What came of one setting.
pub(super) struct Timed {
    /// The answers, in the order of the queries.
    pub(super) responses: Vec<Response>,
    /// Queries a second of each round.
    pub(super) speeds: Vec<f64>,
    /// Seconds of each query in the fastest round.
    pub(super) seconds: Vec<f32>,
    /// The times of all rounds.
    pub(super) latencies: Latencies,
}

impl Timed {
    /// The upper median of the rounds.
    pub(super) fn speed(&self) -> f64 {
        let mut speeds = self.speeds.clone();
        speeds.sort_unstable_by(f64::total_cmp);
        speeds[speeds.len() / 2]
    }

    /// That of the fastest round.
    pub(super) fn best_speed(&self) -> f64 {
        self.speeds.iter().copied().fold(0.0, f64::max)
    }
}

/// A query by its place, how long it took, and its answer.
type Asked = (usize, Duration, Response);

impl Timing {
    pub(super) fn new(threads: u16, rounds: u16, warm_up: usize) -> anyhow::Result<Timing> {
        let pool = |_| ThreadPoolBuilder::new().num_threads(1).build();
        let pools = (0..threads).map(pool).collect::<Result<_, _>>()?;
        Ok(Timing { pools, rounds: rounds.into(), warm_up })
    }

    /// Asks in each round all queries, of which there is at least one; `watch` is called after each.
    #[expect(clippy::cast_precision_loss, reason = "a count of queries is far below 2^53")]
    pub(super) fn all(
        &self,
        snapshot: &Snapshot,
        queries: &[Query],
        watch: impl Fn(),
    ) -> Result<Timed, QueryError> {
        self.round(snapshot, &queries[..self.warm_up.min(queries.len())])?;
        let mut timed = Timed {
            responses: Vec::new(),
            speeds: Vec::new(),
            seconds: Vec::new(),
            latencies: Latencies::new(),
        };
        for _ in 0..self.rounds {
            let start = Instant::now();
            let asked = self.round(snapshot, queries)?;
            let speed = queries.len() as f64 / start.elapsed().as_secs_f64();
            asked.iter().for_each(|(_, time, _)| timed.latencies.record(*time));
            if speed > timed.best_speed() {
                timed.seconds = asked.iter().map(|(_, time, _)| time.as_secs_f32()).collect();
            }
            timed.speeds.push(speed);
            timed.responses = asked.into_iter().map(|(_, _, response)| response).collect();
            watch();
        }
        Ok(timed)
    }

    /// Asks all queries once; what is given is in their order.
    fn round(&self, snapshot: &Snapshot, queries: &[Query]) -> Result<Vec<Asked>, QueryError> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<Asked>, QueryError> {
            let mut asked = Vec::new();
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(query) = queries.get(place..=place) else { return Ok(asked) };
                let start = Instant::now();
                let response = run(snapshot, query)?.swap_remove(0);
                asked.push((place, start.elapsed(), response));
            }
        };
        let mut asked = thread::scope(|scope| {
            let start = |pool| scope.spawn(move || ThreadPool::install(pool, work));
            let workers: Vec<_> = self.pools.iter().map(start).collect();
            let ended =
                workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
            ended.collect::<Result<Vec<_>, _>>()
        })?
        .concat();
        asked.sort_unstable_by_key(|(place, ..)| *place);
        Ok(asked)
    }
}
