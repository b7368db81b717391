//! Queries that took long: told in the log when they are answered, and the newest kept in memory.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use actix_web::HttpResponse;
use dehub_index::Name;
use dehub_query::{Engine, Filter, LIMIT_DEFAULT, Plan, Ranking, Request};
use serde::Serialize;
use utoipa::ToSchema;

use crate::call::Call;

/// Slow queries that are kept; the oldest are forgotten first.
const KEPT_MAX: usize = 128;

/// The longest shape of a filter that is told, in bytes.
const SHAPE_MAX: usize = 400;

/// The newest slow queries, and how many there were.
#[derive(Debug, Default)]
pub(crate) struct Slow(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    newest: VecDeque<SlowQuery>,
}

/// What was asked, and how long the engine took.
#[derive(Debug)]
pub(crate) struct Searched {
    pub(crate) requests: Vec<Request>,
    /// The plan of the first of them; none if it has none, or the search failed before it had one.
    pub(crate) plan: Option<Plan>,
    pub(crate) searched: Duration,
    /// To read what is answered of the points that were found.
    pub(crate) read: Duration,
}

/// The same, kept until it is known whether that was slow.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) searched: Searched,
    /// The collection's own name.
    pub(crate) collection: String,
    /// When the request came.
    pub(crate) started: Instant,
    /// When all of it was there.
    pub(crate) received: Instant,
    /// When all was read.
    pub(crate) at: Instant,
}

/// How long the parts of a query took.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    /// To receive the body.
    received: Duration,
    /// Waiting for the collection to be open and for a thread of the engine.
    waited: Duration,
    /// To write the answer.
    encoded: Duration,
}

/// A slow query as it is told: what was asked for, but no vector, no id and no value of a filter.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct SlowQuery {
    request_id: String,
    /// Seconds since 1970.
    at: f64,
    collection: String,
    /// How many queries the request had; all that follows is of the first.
    queries: usize,
    /// What was searched by: `vector`, `point`, or how else points were ranked.
    by: &'static str,
    limit: usize,
    /// Its conditions with everything they compare with left out.
    filter: Option<String>,
    /// The correction, `raw`, `auto` or `default`.
    correction: String,
    /// How it was answered; `null` if it was given up before it was known.
    plan: Option<String>,
    /// Points that were scored in full; `null` for a walk over the graph, which does not count them.
    points_scored: Option<usize>,
    /// All of it.
    ms: f64,
    received_ms: f64,
    waited_ms: f64,
    searched_ms: f64,
    read_ms: f64,
    encoded_ms: f64,
}

impl Slow {
    /// Tells of a query, which a thread of the engine began with at `begun`, if it took as long as `limit`, and keeps
    /// it. Its answer is written by now.
    pub(crate) fn note(&self, request: &str, noted: &Noted, begun: Instant, limit: Duration) {
        let Noted { started, received, at, .. } = *noted;
        let now = Instant::now();
        if now.duration_since(started) < limit {
            return;
        }
        let parts = Parts {
            received: received.duration_since(started),
            waited: begun.duration_since(received),
            encoded: now.duration_since(at),
        };
        self.keep(SlowQuery::new(request, &noted.collection, &noted.searched, &parts));
    }

    fn keep(&self, slow: SlowQuery) {
        slow.log();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += 1;
        if kept.newest.len() == KEPT_MAX {
            kept.newest.pop_back();
        }
        kept.newest.push_front(slow);
    }

    /// How many there were since the server started.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    fn newest(&self) -> (u64, Vec<SlowQuery>) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.count, kept.newest.iter().cloned().collect())
    }
}

impl SlowQuery {
    fn new(request: &str, collection: &str, searched: &Searched, parts: &Parts) -> SlowQuery {
        let first = searched.requests.first();
        let plan = searched.plan.as_ref();
        let limit = first.and_then(|request| request.settings.limit);
        let filter = first.and_then(|request| request.settings.filter.as_deref());
        let all = [parts.received, parts.waited, searched.searched, searched.read, parts.encoded];
        SlowQuery {
            request_id: request.to_owned(),
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            collection: collection.to_owned(),
            queries: searched.requests.len(),
            by: first.map_or("none", |request| request.kind.name()),
            limit: plan.map(|plan| plan.limit).or(limit).unwrap_or(LIMIT_DEFAULT),
            filter: filter.map(shape),
            correction: match first.map(|request| &request.settings.ranking) {
                Some(Ranking::Corrected { correction, .. }) => correction.clone(),
                Some(Ranking::Raw) => "raw".to_owned(),
                Some(Ranking::Auto { .. }) => "auto".to_owned(),
                Some(Ranking::Default) | None => "default".to_owned(),
            },
            plan: plan.map(Plan::to_string),
            points_scored: plan.and_then(points_scored),
            ms: ms(all.iter().sum()),
            received_ms: ms(parts.received),
            waited_ms: ms(parts.waited),
            searched_ms: ms(searched.searched),
            read_ms: ms(searched.read),
            encoded_ms: ms(parts.encoded),
        }
    }

    fn log(&self) {
        tracing::warn!(
            request_id = self.request_id,
            collection = self.collection,
            queries = self.queries,
            by = self.by,
            limit = self.limit,
            filter = self.filter,
            correction = self.correction,
            plan = self.plan,
            points_scored = self.points_scored,
            ms = self.ms,
            received_ms = self.received_ms,
            waited_ms = self.waited_ms,
            searched_ms = self.searched_ms,
            read_ms = self.read_ms,
            encoded_ms = self.encoded_ms,
            "slow query"
        );
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn points_scored(plan: &Plan) -> Option<usize> {
    match plan.engine {
        Engine::Exact { .. } => Some(plan.allowed.unwrap_or(plan.points)),
        Engine::Codes { candidates } => Some(candidates),
        Engine::Graph { .. } => None,
    }
}

/// How a filter is built: its text for programmers, with texts and numbers left out, cut where it is long.
fn shape(filter: &Filter) -> String {
    let mut shape = Shape::default();
    let is_whole = write!(shape, "{filter:?}").is_ok();
    if !is_whole {
        shape.text.push('…');
    }
    // Values too, as the only words that are none of names.
    shape.text.replace("true", "?").replace("false", "?")
}

/// Writes `?` for every text in quotes and every number, and refuses to grow too long.
#[derive(Default)]
struct Shape {
    text: String,
    is_quoted: bool,
    is_escaped: bool,
    /// Whether a word goes on, whose digits belong to its name.
    is_word: bool,
    is_number: bool,
}

impl Write for Shape {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for letter in part.chars() {
            self.push(letter);
            if self.text.len() > SHAPE_MAX {
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

impl Shape {
    fn push(&mut self, letter: char) {
        if self.is_quoted {
            let ends = letter == '"' && !self.is_escaped;
            self.is_escaped = letter == '\\' && !self.is_escaped;
            self.is_quoted = !ends;
        } else if letter == '"' {
            self.is_quoted = true;
            self.text.push('?');
        } else if letter.is_ascii_digit() && !self.is_word {
            if !self.is_number {
                self.text.push('?');
            }
            self.is_number = true;
        } else if self.is_number && matches!(letter, '.' | 'e' | 'E' | '-' | '+') {
            // The rest of a number.
        } else {
            self.is_number = false;
            self.is_word = letter.is_alphanumeric() || letter == '_';
            self.text.push(letter);
        }
    }
}

/// The answer of `GET /slow-queries`.
#[derive(Serialize, ToSchema)]
#[schema(as = SlowQueries)]
pub(crate) struct Listed {
    /// From how many milliseconds on a query is slow; `null` if none is.
    threshold_ms: Option<u64>,
    /// How many there were since the server started.
    count: u64,
    /// The newest of the collections that the caller may read, newest first.
    queries: Vec<SlowQuery>,
}

/// `GET /slow-queries`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let threshold = task.edge().observer().slow_after();
        let (count, mut queries) = task.edge().slow().newest();
        queries.retain(|slow| slow.collection.parse::<Name>().is_ok_and(|name| task.may_read(&name)));
        let threshold_ms = threshold.and_then(|limit| u64::try_from(limit.as_millis()).ok());
        task.reply(&Listed { threshold_ms, count, queries })
    })
    .await
}

#[cfg(test)]
mod tests {
    use dehub_query::{Condition, Exact, Kind, Match, Settings, Source, Test};
    use dehub_vector::PointId;

    use super::*;

    fn searched(filter: Option<Filter>) -> Searched {
        let ranking = Ranking::corrected("is");
        let filter = filter.map(Into::into);
        let settings = Settings { limit: Some(7), ranking, filter, ..Settings::default() };
        let request = Request::new(Kind::Nearest(Source::Vector(vec![0.125, 2.0].into())), settings);
        let (searched, read) = (Duration::from_millis(4), Duration::from_millis(8));
        Searched { requests: vec![request], plan: None, searched, read }
    }

    fn noted(started: Instant) -> Noted {
        let collection = "c".to_owned();
        Noted { searched: searched(None), collection, started, received: started, at: Instant::now() }
    }

    #[test]
    fn the_newest_are_kept_and_all_are_counted() {
        let slow = Slow::default();
        for number in 0..KEPT_MAX + 3 {
            let started = Instant::now();
            slow.note(&number.to_string(), &noted(started), started, Duration::ZERO);
        }
        let (count, kept) = slow.newest();
        assert_eq!((count, kept.len()), (KEPT_MAX as u64 + 3, KEPT_MAX));
        let ids: Vec<usize> = kept.iter().map(|slow| slow.request_id.parse().expect("a number")).collect();
        assert_eq!(ids, (3..KEPT_MAX + 3).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_query_that_did_not_take_long_is_not_kept() {
        let (slow, started) = (Slow::default(), Instant::now());
        slow.note("r", &noted(started), started, Duration::from_secs(3600));
        assert_eq!((slow.count(), slow.newest().1.len()), (0, 0));
    }

    #[test]
    fn what_was_asked_is_told_without_what_it_was_asked_by() {
        let ids = vec![PointId::Number(7081), PointId::text("secret \"7082\" text").expect("short")];
        let key = "hidden.path".parse().expect("a path");
        let test = Test::Match(Match::Value(Exact::Bool(true)));
        let must = vec![Condition::HasId(ids), Condition::Field { key, test }];
        let filter = Filter { must, ..Filter::default() };
        let parts = Parts {
            received: Duration::from_millis(1),
            waited: Duration::from_millis(2),
            encoded: Duration::from_millis(16),
        };
        let slow = SlowQuery::new("r", "c", &searched(Some(filter)), &parts);
        assert!((slow.ms - 31.0).abs() < 1e-9, "{}", slow.ms);
        assert_eq!((slow.by, slow.limit, slow.correction.as_str()), ("vector", 7, "is"));
        let told = serde_json::to_string(&slow).expect("JSON");
        for private in ["secret", "708", "text", "0.125", "hidden", "true"] {
            assert!(!told.contains(private), "{private}: {told}");
        }
        let shape = slow.filter.expect("a filter");
        assert!(shape.contains("must") && shape.contains('?'), "{shape}");
    }

    #[test]
    fn the_shape_of_a_long_filter_is_cut() {
        let ids = (0..10_000).map(PointId::Number).collect();
        let shape = shape(&Filter { must: vec![Condition::HasId(ids)], ..Filter::default() });
        assert!(shape.len() <= SHAPE_MAX + 8 && shape.ends_with('…'), "{shape}");
    }
}
