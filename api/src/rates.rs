//! How often each client may ask, and how long a body may take.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use actix_web::HttpRequest;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::errors::RATE_LIMITED;
use crate::guard::Caller;
use crate::problem::Problem;
use crate::routes;

/// How long a body may take unless it is said: the largest one at a megabit a second.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(300);

/// Clients whose rates are known at a time; all others share one.
const CLIENTS_MAX: usize = 65_536;

/// How often a client may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests a second in the long run.
    pub per_second: NonZeroU32,
    /// Requests at once after a pause.
    pub burst: NonZeroU32,
}

/// What is taken from clients.
pub(crate) struct Intake {
    body_time: Duration,
    rates: Option<Rates>,
}

impl Default for Intake {
    fn default() -> Intake {
        Intake { body_time: BODY_TIMEOUT, rates: None }
    }
}

impl Intake {
    pub(crate) fn new(body_time: Duration, rate: Option<RateLimit>) -> Intake {
        Intake { body_time, rates: rate.map(Rates::new) }
    }

    /// How long a body may take to arrive.
    pub(crate) fn body_time(&self) -> Duration {
        self.body_time
    }

    /// Counts a request, and refuses one too many. What everybody may ask is not counted.
    pub(crate) fn admit(&self, request: &HttpRequest) -> Result<(), Problem> {
        let Some(rates) = &self.rates else { return Ok(()) };
        let is_counted = request.match_pattern().is_none_or(|pattern| !rates.free.contains(&pattern));
        if is_counted { rates.check(&client(request)) } else { Ok(()) }
    }
}

/// Who a request is counted for: the name of the key, or else the address of the connection. An IPv6 network of 64
/// bits is one client.
fn client(request: &HttpRequest) -> String {
    if let Some(name) = Caller::of(request).name() {
        return format!("key {name}");
    }
    match request.peer_addr().map(|address| address.ip()) {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("{:x?}", &address.segments()[..4]),
        None => String::new(),
    }
}

struct Rates {
    limit: RateLimit,
    limiter: RateLimiter<String, HashMapStateStore<String>, DefaultClock>,
    clients_max: usize,
    /// The paths that are not counted.
    free: Vec<String>,
}

impl Rates {
    fn new(limit: RateLimit) -> Rates {
        let quota = Quota::per_second(limit.per_second).allow_burst(limit.burst);
        Rates {
            limit,
            limiter: RateLimiter::hashmap(quota),
            clients_max: CLIENTS_MAX,
            free: routes::public(),
        }
    }

    fn check(&self, client: &str) -> Result<(), Problem> {
        if self.limiter.len() >= self.clients_max {
            self.limiter.retain_recent();
        }
        let is_room = self.limiter.len() < self.clients_max;
        let key = if is_room { client } else { "everybody else" };
        let Err(early) = self.limiter.check_key(&key.to_owned()) else { return Ok(()) };
        let wait = early.wait_time_from(DefaultClock::default().now());
        let seconds = u32::try_from(wait.as_millis().div_ceil(1000).max(1)).unwrap_or(u32::MAX);
        let RateLimit { per_second, burst } = self.limit;
        let detail =
            format!("more requests than {per_second} a second, or {burst} at once: try again in {seconds} s");
        Err(Problem::new(RATE_LIMITED, detail)
            .wanted(format_args!("at most {per_second} requests a second, {burst} at once"))
            .retry_after(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(per_second: u32, burst: u32) -> RateLimit {
        let number = |number| NonZeroU32::new(number).expect("above 0");
        RateLimit { per_second: number(per_second), burst: number(burst) }
    }

    #[test]
    fn one_client_too_fast_does_not_stop_another() {
        let rates = Rates::new(limit(1, 3));
        for _ in 0..3 {
            rates.check("a").expect("within the burst");
        }
        let refused = rates.check("a").expect_err("too fast");
        assert_eq!(refused.status(), 429);
        rates.check("b").expect("another client");
    }

    #[test]
    fn what_is_known_of_clients_stays_bounded() {
        let rates = Rates { clients_max: 100, ..Rates::new(limit(1, 1)) };
        let refused = (0..1000).filter(|client| rates.check(&client.to_string()).is_err()).count();
        assert!(rates.limiter.len() <= 101, "{}", rates.limiter.len());
        assert!(refused >= 898, "those beyond share one rate: {refused}");
    }
}
