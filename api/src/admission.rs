//! How much is taken at a time, and how long anything may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actix_web::rt;

use crate::errors::OVERLOADED;
use crate::problem::Problem;

/// Bodies of the largest size that are held at a time, or as many bytes of smaller ones.
pub(crate) const BODIES_MAX: usize = 8;

/// What a refused client should wait.
const RETRY_SECONDS: u32 = 1;

/// The log has one line for all that is refused in so long.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What a server takes at a time, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Requests that are with the engine or wait for one of its threads. One more is answered 503 at once: it would
    /// wait longer than its client does.
    pub requests: usize,
    /// Threads on which each worker waits for the engine. A fit that its client waits for holds one for as long as
    /// it takes.
    pub engine_threads: usize,
    /// How long a request may wait for the engine, and a search may take, if its parameter `timeout` does not say.
    pub timeout: Duration,
    /// Connections that each worker holds at a time; more wait in the system's queue.
    pub connections: usize,
    /// How long a client may take to send the head of a request.
    pub head_timeout: Duration,
    /// How long a connection without a request is kept.
    pub keep_alive: Duration,
    /// How long the server goes on taking connections after it was asked to stop, while `/readyz` says 503: for load
    /// balancers to notice.
    pub stop_delay: Duration,
    /// How long requests under way may take to end once the server takes no more.
    pub stop_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            requests: 512,
            engine_threads: 16,
            timeout: Duration::from_secs(60),
            connections: 25_000,
            head_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            stop_delay: Duration::ZERO,
            stop_timeout: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// What is wrong with them, if anything is.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let wrong = [
            (self.requests == 0, "the requests taken at a time are 0, wanted at least 1"),
            (self.engine_threads == 0, "the threads for the engine are 0, wanted at least 1"),
            (self.connections == 0, "the connections held at a time are 0, wanted at least 1"),
            (self.timeout.is_zero(), "the time of a request is 0, wanted more"),
            (self.head_timeout.is_zero(), "the time for the head of a request is 0, wanted more"),
        ];
        wrong.into_iter().find_map(|(is_wrong, fault)| is_wrong.then_some(fault))
    }
}

/// A count that never passes a limit.
#[derive(Debug)]
pub(crate) struct Bound {
    taken: AtomicUsize,
    most: AtomicUsize,
}

/// A share of a [`Bound`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    bound: Arc<Bound>,
    amount: usize,
}

/// When a request must have come to the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    arrived: Instant,
    limit: Duration,
}

impl Bound {
    pub(crate) fn new(most: usize) -> Arc<Bound> {
        Arc::new(Bound { taken: AtomicUsize::new(0), most: AtomicUsize::new(most) })
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// From now on so much may be taken.
    pub(crate) fn limit(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// How much is taken now.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// None of it yet.
    pub(crate) fn share(self: &Arc<Bound>) -> Share {
        Share { bound: Arc::clone(self), amount: 0 }
    }

    fn take(&self, amount: usize) -> bool {
        let most = self.most();
        let add = |taken: usize| taken.checked_add(amount).filter(|&sum| sum <= most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }
}

impl Share {
    /// Takes more of the memory for bodies, if there is room.
    pub(crate) fn grow(&mut self, amount: usize) -> Result<(), Problem> {
        if self.take(amount) {
            return Ok(());
        }
        let most = self.bound.most();
        let reason = format!("the bodies of the requests under way fill the {most} bytes set aside for them");
        Err(overloaded(&reason).wanted(format_args!("at most {most} bytes of bodies at a time")))
    }

    /// Takes more, if there is room; says whether there was.
    pub(crate) fn take(&mut self, amount: usize) -> bool {
        let has_room = self.bound.take(amount);
        self.amount += if has_room { amount } else { 0 };
        has_room
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.bound.taken.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

impl Due {
    /// So long after the request arrived.
    pub(crate) fn after(arrived: Instant, limit: Duration) -> Due {
        Due { arrived, limit }
    }

    /// Refuses work whose time has passed while it waited.
    pub(crate) fn check(self) -> Result<(), Problem> {
        let waited = self.arrived.elapsed();
        if waited < self.limit {
            return Ok(());
        }
        let (waited, limit) = (waited.as_secs_f64(), self.limit.as_secs_f64());
        let reason = format!(
            "the request waited {waited:.3} s for the engine, longer than its time of {limit} s, and was not run"
        );
        Err(overloaded(&reason).in_parameter("timeout").found(limit))
    }
}

/// Requests that were refused as there were too many, and that the log has not told of yet.
#[derive(Debug, Default)]
pub(crate) struct Refusals(AtomicU64);

impl Refusals {
    /// Counts one. The first begins the time after which all that came in it are told of together.
    pub(crate) fn count(self: &Arc<Refusals>) {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            let refusals = Arc::clone(self);
            drop(rt::spawn(async move {
                rt::time::sleep(TELL_EVERY).await;
                refusals.tell();
            }));
        }
    }

    fn tell(&self) {
        let refused = self.0.swap(0, Ordering::Relaxed);
        if refused > 0 {
            tracing::warn!(refused, "requests were refused: the server is overloaded");
        }
    }
}

impl Drop for Refusals {
    /// A server that stops tells what it has not told yet.
    fn drop(&mut self) {
        self.tell();
    }
}

/// Too many requests at a time.
pub(crate) fn too_many(most: usize) -> Problem {
    let reason = format!("{most} requests are with the engine or wait for it, the most this server takes");
    overloaded(&reason).wanted(format_args!("at most {most} requests at a time"))
}

fn overloaded(reason: &str) -> Problem {
    Problem::new(OVERLOADED, format!("{reason}: try again in {RETRY_SECONDS} s")).retry_after(RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let bound = Bound::new(10);
        let (mut first, mut second) = (bound.share(), bound.share());
        assert!(first.take(7) && !second.take(4) && second.take(3));
        assert!(!second.take(usize::MAX), "no sum overflows");
        drop(first);
        assert!(second.take(7));
        drop(second);
        assert_eq!(bound.taken(), 0);
    }

    #[test]
    fn work_is_refused_when_its_time_has_passed() {
        let now = Instant::now();
        assert!(Due::after(now, Duration::from_secs(3600)).check().is_ok());
        let late = Due::after(now, Duration::ZERO).check().expect_err("its time has passed");
        assert_eq!(late.status(), 503);
    }
}
