//! How often each point is among the first answers to the queries served: hubness as users meet it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use dehub_index::Snapshot;
use dehub_query::Occurrence;

/// Answers of a query that count.
pub(crate) const COUNTED: usize = 10;

/// Rows that have a counter, at most; later ones have none. With [`RANKINGS_MAX`], 256 MiB a collection.
const ROWS_MAX: usize = 4 * 1024 * 1024;

/// Rankings that are counted apart, at most.
const RANKINGS_MAX: usize = 16;

/// The name of the raw ranking; no correction can have it.
pub(crate) const RAW: &str = "raw";

/// The counters of one collection.
#[derive(Debug)]
pub(crate) struct Counts(RwLock<Counted>);

#[derive(Debug)]
struct Counted {
    since_ms: u64,
    rankings: BTreeMap<String, Ranking>,
    /// Queries by rankings beyond [`RANKINGS_MAX`].
    uncounted: AtomicU64,
}

#[derive(Debug)]
struct Ranking {
    /// A correction of the same name and another method is another ranking.
    method: String,
    queries: AtomicU64,
    by_row: Vec<AtomicU32>,
    /// Answers of rows beyond [`ROWS_MAX`].
    uncounted: AtomicU64,
}

/// What was counted of one ranking, over the points there are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counting {
    pub(crate) ranking: String,
    pub(crate) method: String,
    pub(crate) occurrence: Occurrence,
    pub(crate) queries: u64,
    /// Answers that no counter was left for.
    pub(crate) uncounted: u64,
}

/// Everything counted.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) since_ms: u64,
    pub(crate) rankings: Vec<Counting>,
    /// Queries by rankings that no counters were left for.
    pub(crate) uncounted: u64,
}

impl Counts {
    pub(crate) fn new(now_ms: u64) -> Counts {
        Counts(RwLock::new(Counted::new(now_ms)))
    }

    /// Counts an answer's first rows under the name of what it was ranked by. `rows` of the collection
    /// have been given.
    pub(crate) fn count(&self, ranking: &str, method: &str, answer: &[u32], rows: u32) {
        let answer = &answer[..answer.len().min(COUNTED)];
        let last = answer.iter().copied().max().unwrap_or(0);
        {
            let counted = self.0.read().unwrap_or_else(PoisonError::into_inner);
            match counted.rankings.get(ranking) {
                Some(found) if found.method == method && found.reaches(last) => return found.add(answer),
                None if counted.rankings.len() >= RANKINGS_MAX => {
                    counted.uncounted.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Some(_) | None => {}
            }
        }
        let mut counted = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if counted.rankings.len() >= RANKINGS_MAX && !counted.rankings.contains_key(ranking) {
            counted.uncounted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let found = counted.rankings.entry(ranking.to_owned()).or_insert_with(|| Ranking::new(method));
        if found.method != method {
            *found = Ranking::new(method);
        }
        found.grow(last.max(rows.saturating_sub(1)));
        found.add(answer);
    }

    /// Forgets everything.
    pub(crate) fn reset(&self, now_ms: u64) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Counted::new(now_ms);
    }

    /// For each ranking its name, how often it found a row, its queries, and how often it found one of `points` on
    /// average.
    #[expect(clippy::cast_precision_loss, reason = "a mean of counts needs few digits")]
    pub(crate) fn of_row(&self, row: u32, points: usize) -> Vec<(String, u32, u64, f64)> {
        let counted = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_ranking = |(name, ranking): (&String, &Ranking)| {
            let queries = ranking.queries.load(Ordering::Relaxed);
            let places = COUNTED.min(points) as f64;
            let mean = queries as f64 * places / points.max(1) as f64;
            (name.clone(), ranking.at(row), queries, mean)
        };
        counted.rankings.iter().map(of_ranking).collect()
    }

    /// What was counted, of the points that a snapshot has.
    pub(crate) fn report(&self, snapshot: &Snapshot) -> Report {
        let counted = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_ranking = |(name, ranking): (&String, &Ranking)| {
            let queries = ranking.queries.load(Ordering::Relaxed);
            let counts = snapshot.rows().map(|row| ranking.at(row)).collect();
            let as_size = usize::try_from(queries).unwrap_or(usize::MAX);
            Counting {
                ranking: name.clone(),
                method: ranking.method.clone(),
                occurrence: Occurrence::from_counts(COUNTED, as_size, counts),
                queries,
                uncounted: ranking.uncounted.load(Ordering::Relaxed),
            }
        };
        Report {
            since_ms: counted.since_ms,
            rankings: counted.rankings.iter().map(of_ranking).collect(),
            uncounted: counted.uncounted.load(Ordering::Relaxed),
        }
    }
}

impl Counted {
    fn new(since_ms: u64) -> Counted {
        Counted { since_ms, rankings: BTreeMap::new(), uncounted: AtomicU64::new(0) }
    }
}

impl Ranking {
    fn new(method: &str) -> Ranking {
        let zero = || AtomicU64::new(0);
        Ranking { method: method.to_owned(), queries: zero(), by_row: Vec::new(), uncounted: zero() }
    }

    /// Whether every row up to this one has the counter it will ever have.
    fn reaches(&self, row: u32) -> bool {
        (row as usize) < self.by_row.len() || self.by_row.len() == ROWS_MAX
    }

    /// Makes counters up to a row, and an eighth more: a growing collection does not make them one by one.
    fn grow(&mut self, row: u32) {
        let wanted = row as usize + 1;
        if wanted > self.by_row.len() {
            let length = (wanted + wanted / 8).min(ROWS_MAX);
            self.by_row.resize_with(length, || AtomicU32::new(0));
        }
    }

    fn add(&self, answer: &[u32]) {
        self.queries.fetch_add(1, Ordering::Relaxed);
        for &row in answer {
            match self.by_row.get(row as usize) {
                // A count that is full stays so.
                Some(count) => {
                    _ = count
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_add(1));
                }
                None => _ = self.uncounted.fetch_add(1, Ordering::Relaxed),
            }
        }
    }

    fn at(&self, row: u32) -> u32 {
        self.by_row.get(row as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_of(counts: &Counts, ranking: &str) -> (u64, Vec<u32>, u64) {
        let counted = counts.0.read().expect("no panic");
        let found = &counted.rankings[ranking];
        let by_row = found.by_row.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        (found.queries.load(Ordering::Relaxed), by_row, found.uncounted.load(Ordering::Relaxed))
    }

    #[test]
    fn the_first_ten_of_each_answer_count_and_rankings_apart() {
        let counts = Counts::new(5);
        let long: Vec<u32> = (0..12).rev().collect();
        counts.count(RAW, RAW, &long, 12);
        counts.count(RAW, RAW, &[3, 0], 12);
        counts.count("is", "IS(beta=20)", &[3], 12);
        let (queries, by_row, _) = counts_of(&counts, RAW);
        assert_eq!((queries, &by_row[..12]), (2, &[1, 0, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1][..]));
        assert_eq!(counts_of(&counts, "is").1.iter().sum::<u32>(), 1);
        counts.count("is", "NNN(alpha=1.0,k=1)", &[4], 12);
        assert_eq!(counts_of(&counts, "is").0, 1, "another method starts anew");
        counts.count(RAW, RAW, &[40], 41);
        assert_eq!(counts_of(&counts, RAW).1[40], 1, "points that came later");
        counts.reset(9);
        let counted = counts.0.read().expect("no panic");
        assert_eq!((counted.since_ms, counted.rankings.len()), (9, 0));
    }

    #[test]
    fn memory_is_bounded_and_what_is_left_out_is_told() {
        let counts = Counts::new(0);
        let beyond = u32::try_from(ROWS_MAX).expect("small") + 7;
        counts.count(RAW, RAW, &[beyond, 1, beyond], beyond + 1);
        counts.count(RAW, RAW, &[beyond], beyond + 1);
        let (queries, by_row, uncounted) = counts_of(&counts, RAW);
        assert_eq!((queries, by_row.len(), by_row[1], uncounted), (2, ROWS_MAX, 1, 3));
        for place in 0..2 * RANKINGS_MAX {
            counts.count(&format!("c{place}"), "IS", &[0], 1);
        }
        counts.count("c0", "IS", &[0], 1);
        let counted = counts.0.read().expect("no panic");
        assert_eq!(counted.rankings.len(), RANKINGS_MAX);
        assert_eq!(counted.uncounted.load(Ordering::Relaxed), 1 + RANKINGS_MAX as u64);
    }

    #[test]
    fn threads_lose_no_count() {
        let counts = Counts::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let counts = &counts;
                scope.spawn(move || {
                    (0..1000).for_each(|row| counts.count(RAW, RAW, &[row, 5000 + thread], 6000));
                });
            }
        });
        let (queries, by_row, _) = counts_of(&counts, RAW);
        assert_eq!(queries, 4000);
        assert!(by_row[..1000].iter().all(|&count| count == 4));
        assert!(by_row[5000..5004].iter().all(|&count| count == 1000));
    }
}
