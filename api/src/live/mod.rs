//! What the server learns from the queries it serves: a sample of them, if a collection's policy asks for
//! one, and how often points are among the answers.
//!
//! Nothing here may fail a query or make it wait. Without a policy a query costs a few counters; with one,
//! a query that is sampled is copied into memory, unless another thread is there at the same moment: then
//! it is passed over, as any query might be. A thread of its own brings the banks up to date.

mod capture;
mod counts;
pub(crate) mod handlers;
mod reservoir;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dehub_index::{Collection, EntryInput, LiveBank, Name, Snapshot, WriteError};
use dehub_vector::PointId;

use capture::{Capture, Changes, id_of};
use counts::Counts;
use reservoir::Stamp;

pub(crate) use counts::{COUNTED, RAW};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use handlers::policy;
pub(crate) use handlers::{
    LiveReply, begin, describe, drift_against, drift_of, end, flush, hubness, reset_hubness,
};

/// How often banks are brought up to date at least.
const FLUSH_EVERY: Duration = Duration::from_secs(60);

/// Changes that wait for a bank before it is brought up to date at once.
const CHANGES_MAX: usize = 1000;

/// A collection, and the name of the vector, if it has one.
type Key = (Name, Option<Name>);

/// What the server learns about all its collections.
pub(crate) struct Live {
    watched: RwLock<HashMap<Key, Arc<Watched>>>,
    /// Keyed at random by the standard library: the source of priorities, and what makes of a client's
    /// address a number that means nothing outside this process.
    random: RandomState,
    drawn: AtomicU64,
    /// The time in milliseconds since 1970.
    clock: fn() -> u64,
    called: Mutex<Called>,
    calls: Condvar,
    /// Whether the thread was called and has not begun yet.
    is_called: AtomicBool,
}

/// What the thread that brings banks up to date is to do.
#[derive(Debug, Clone, Copy, Default)]
struct Called {
    now: bool,
    stop: bool,
}

/// What is learned about one collection.
pub(crate) struct Watched {
    /// Another collection may get the same name.
    collection: Weak<Collection>,
    /// Held for a moment at a time.
    capture: Mutex<Option<Capture>>,
    /// Held while the bank or the policy is changed. Taken before `capture`.
    changing: Mutex<()>,
    counts: Counts,
    /// Answers whose gate was closed, and those whose gate was open.
    gates: [AtomicU64; 2],
    skewness: Mutex<Skewness>,
}

/// How uneven the counts were when that was last computed.
#[derive(Default)]
struct Skewness {
    /// The queries that were counted by then.
    queries: u64,
    at: Option<Instant>,
    took: Duration,
    rankings: Vec<(String, f64)>,
}

/// How often the skewness is computed: so that it takes at most one part in so many of the time.
const SKEWNESS_PART: u32 = 20;

/// What a bank learned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flushed {
    pub(crate) added: usize,
    pub(crate) removed: usize,
}

impl Live {
    pub(crate) fn new() -> Live {
        Live {
            watched: RwLock::default(),
            random: RandomState::new(),
            drawn: AtomicU64::new(0),
            clock: milliseconds,
            called: Mutex::default(),
            calls: Condvar::new(),
            is_called: AtomicBool::new(false),
        }
    }

    /// What is learned about a collection, from the first request that names it on.
    pub(crate) fn watch(&self, name: &Name, collection: &Arc<Collection>) -> Arc<Watched> {
        let is_it = |found: &&Arc<Watched>| found.collection.as_ptr() == Arc::as_ptr(collection);
        let name = &(name.clone(), collection.space_name().cloned());
        {
            let watched = self.watched.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = watched.get(name).filter(is_it) {
                return Arc::clone(found);
            }
        }
        let mut watched = self.watched.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = watched.get(name).filter(is_it) {
            return Arc::clone(found);
        }
        let new = Arc::new(Watched {
            collection: Arc::downgrade(collection),
            capture: Mutex::new(None),
            changing: Mutex::new(()),
            counts: Counts::new((self.clock)()),
            gates: Default::default(),
            skewness: Mutex::default(),
        });
        watched.insert(name.clone(), Arc::clone(&new));
        drop(watched);
        // The sample goes on from the bank, which the thread reads.
        if collection.snapshot().live_bank().is_some() {
            self.call();
        }
        new
    }

    /// What is learned about a collection, if anything was yet.
    pub(crate) fn known(&self, name: &Name, collection: &Arc<Collection>) -> Option<Arc<Watched>> {
        let watched = self.watched.read().unwrap_or_else(PoisonError::into_inner);
        let found = watched.get(&(name.clone(), collection.space_name().cloned()))?;
        (found.collection.as_ptr() == Arc::as_ptr(collection)).then(|| Arc::clone(found))
    }

    /// Offers the queries that were served to the sample, if there is one.
    pub(crate) fn offer<'a>(
        &self,
        watched: &Watched,
        snapshot: &Snapshot,
        client: Option<IpAddr>,
        queries: impl Iterator<Item = &'a [f32]>,
    ) {
        let Some(policy) = snapshot.live_bank() else { return };
        let sampled: Vec<(u64, &[f32])> =
            queries.filter_map(|query| Some((self.draw(policy)?, query))).collect();
        if sampled.is_empty() {
            return;
        }
        let Ok(mut capture) = watched.capture.try_lock() else { return };
        let Some(capture) = capture.as_mut().filter(|capture| capture.policy() == policy) else {
            self.call();
            return;
        };
        let client = client.map(|client| self.random.hash_one(client));
        let at_ms = (self.clock)();
        for (priority, query) in sampled {
            capture.offer(Stamp { priority, at_ms }, client, query);
        }
        if capture.waiting() >= CHANGES_MAX {
            self.call();
        }
    }

    fn draw(&self, policy: &LiveBank) -> Option<u64> {
        draw(&self.random, self.drawn.fetch_add(1, Ordering::Relaxed), policy.rate)
    }

    /// Brings the bank of a collection up to date with the sample, and takes the sample up where there is
    /// none yet. `None` if no queries are kept.
    pub(crate) fn flush(
        &self,
        watched: &Watched,
        collection: &Collection,
    ) -> Result<Option<Flushed>, WriteError> {
        let _turn = locked(&watched.changing);
        self.flush_in_turn(watched, collection)
    }

    /// Keeps queries by another policy from now on, or no more. What was sampled for a policy that ends and
    /// is not in its bank yet is forgotten.
    pub(crate) fn change(
        &self,
        watched: &Watched,
        collection: &Collection,
        policy: Option<&LiveBank>,
    ) -> Result<(), WriteError> {
        let _turn = locked(&watched.changing);
        if policy.is_some() {
            self.flush_in_turn(watched, collection)?;
        }
        collection.set_live_bank(policy)?;
        self.flush_in_turn(watched, collection)?;
        Ok(())
    }

    fn flush_in_turn(
        &self,
        watched: &Watched,
        collection: &Collection,
    ) -> Result<Option<Flushed>, WriteError> {
        let snapshot = collection.snapshot();
        let Some(policy) = snapshot.live_bank() else {
            *locked(&watched.capture) = None;
            return Ok(None);
        };
        let is_current = locked(&watched.capture).as_ref().is_some_and(|capture| capture.policy() == policy);
        if !is_current {
            let ids = snapshot.bank_ids(&policy.bank).into_iter().flatten();
            let restored = Capture::restore(policy, ids, (self.clock)());
            *locked(&watched.capture) = Some(restored);
        }
        let changes = locked(&watched.capture).as_mut().map(|capture| capture.take((self.clock)()));
        let changes = changes.unwrap_or_default();
        if changes.is_empty() {
            return Ok(Some(Flushed::default()));
        }
        match write(collection, &policy.bank, &changes) {
            Ok(flushed) => Ok(Some(flushed)),
            Err(error) => {
                if let Some(capture) = locked(&watched.capture).as_mut() {
                    capture.give_back(changes);
                }
                Err(error)
            }
        }
    }

    /// Brings the banks of all collections up to date, of those that are open.
    fn flush_all(&self) {
        self.is_called.store(false, Ordering::Release);
        let mut all = Vec::new();
        {
            let mut watched = self.watched.write().unwrap_or_else(PoisonError::into_inner);
            watched.retain(|_, watched| watched.collection.strong_count() > 0);
            all.extend(watched.iter().map(|(name, watched)| (name.clone(), Arc::clone(watched))));
        }
        for ((name, _), watched) in all {
            let Some(collection) = watched.collection.upgrade() else { continue };
            if let Err(error) = self.flush(&watched, &collection) {
                tracing::warn!(collection = %name, %error, "the live bank was not brought up to date");
            }
        }
    }

    /// Calls the thread that brings banks up to date.
    fn call(&self) {
        if !self.is_called.swap(true, Ordering::AcqRel) {
            locked(&self.called).now = true;
            self.calls.notify_all();
        }
    }

    /// Waits until it is time or a call has come; only one to stop, if `only_stop`. Says whether to stop.
    fn wait(&self, at_most: Duration, only_stop: bool) -> bool {
        let goes_on = |called: &mut Called| !called.stop && (only_stop || !called.now);
        let waited = self.calls.wait_timeout_while(locked(&self.called), at_most, goes_on);
        let (mut called, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !only_stop {
            called.now = false;
        }
        called.stop
    }
}

/// The thread that brings banks up to date.
pub(crate) struct Flusher {
    live: Arc<Live>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(crate) fn start(live: &Arc<Live>) -> Flusher {
        let own = Arc::clone(live);
        let work = move || {
            while !own.wait(FLUSH_EVERY, false) {
                let started = Instant::now();
                own.flush_all();
                // Corrections over a bank follow it, which may take long: half of the time is others'.
                if own.wait(started.elapsed(), true) {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("live".to_owned()).spawn(work);
        let thread =
            thread.inspect_err(|error| tracing::error!(%error, "no thread to keep live banks with")).ok();
        Flusher { live: Arc::clone(live), thread }
    }
}

impl Drop for Flusher {
    /// Ends the thread, and brings the banks up to date for the last time.
    fn drop(&mut self) {
        locked(&self.live.called).stop = true;
        self.live.calls.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that keeps live banks panicked");
        }
        self.live.flush_all();
    }
}

impl Watched {
    /// Counts an answer under the name of the correction that ranked it.
    pub(crate) fn count(&self, snapshot: &Snapshot, correction: Option<(&str, &str)>, answer: &[u32]) {
        let (ranking, method) = correction.unwrap_or((RAW, RAW));
        self.counts.count(ranking, method, answer, snapshot.row_count());
    }

    /// Counts an answer whose correction has a gate.
    pub(crate) fn count_gate(&self, is_open: bool) {
        self.gates[usize::from(is_open)].fetch_add(1, Ordering::Relaxed);
    }

    /// Answers whose gate was closed, and those whose gate was open.
    pub(crate) fn gates(&self) -> [u64; 2] {
        [0, 1].map(|state| self.gates[state].load(Ordering::Relaxed))
    }

    /// How skewed the occurrences of points among the answers are, by the ranking: `raw` or a correction. It is not
    /// computed anew while that would take much of the time.
    pub(crate) fn skewness(&self, snapshot: &Snapshot) -> Vec<(String, f64)> {
        let queries = self.counts.queries();
        let mut known = locked(&self.skewness);
        let is_fresh = |at: Instant| queries == known.queries || at.elapsed() < known.took * SKEWNESS_PART;
        if known.at.is_some_and(is_fresh) {
            return known.rankings.clone();
        }
        let begun = Instant::now();
        let counted = self.counts.report(snapshot).rankings.into_iter().filter(|it| it.queries > 0);
        let rankings: Vec<_> = counted.map(|it| (it.ranking, it.occurrence.skewness())).collect();
        *known =
            Skewness { queries, at: Some(Instant::now()), took: begun.elapsed(), rankings: rankings.clone() };
        rankings
    }

    /// How often a row was among the first answers: for each ranking its name, the count, the queries, and the
    /// mean count of the points there are.
    pub(crate) fn counts_of(&self, snapshot: &Snapshot, row: u32) -> Vec<(String, u32, u64, f64)> {
        self.counts.of_row(row, snapshot.len())
    }

    /// Queries kept, and changes that the bank has yet to learn.
    fn kept(&self) -> (usize, usize) {
        locked(&self.capture).as_ref().map_or((0, 0), |capture| (capture.kept(), capture.waiting()))
    }
}

/// A priority for the query of this number, if it is sampled.
#[expect(clippy::cast_precision_loss, reason = "a draw is rounded to 53 bits")]
fn draw(random: &impl BuildHasher, number: u64, rate: f64) -> Option<u64> {
    let part = random.hash_one((number, "rate")) as f64 / u64::MAX as f64;
    (rate >= 1.0 || part < rate).then(|| random.hash_one((number, "priority")))
}

fn write(collection: &Collection, bank: &Name, changes: &Changes) -> Result<Flushed, WriteError> {
    let removed: Vec<PointId> = changes.removed.iter().map(|&stamp| id_of(stamp)).collect();
    let entry = |(&stamp, vector): (&Stamp, &Vec<f32>)| EntryInput::new(Some(id_of(stamp)), vector.clone());
    let receipt = collection.exchange_in_bank(bank, &removed, changes.added.iter().map(entry).collect())?;
    Ok(Flushed { added: receipt.added, removed: receipt.deleted })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time in milliseconds since 1970, by the system's clock.
fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use dehub_index::{Catalogue, CollectionConfig, GraphConfig, PointInput};
    use dehub_vector::Metric;
    use tempfile::TempDir;

    use super::*;

    /// A served collection whose time stands still until it is moved.
    struct Scene {
        live: Live,
        collection: Arc<Collection>,
        watched: Arc<Watched>,
        _folder: TempDir,
    }

    impl Scene {
        fn new(clock: fn() -> u64) -> Scene {
            let folder = tempfile::tempdir().expect("a folder");
            let config = CollectionConfig::new(2, Metric::Dot, GraphConfig::default()).expect("valid");
            let name = "c".parse().expect("a name");
            let collection = Catalogue::new(folder.path()).create(&name, config).expect("a new folder");
            let live = Live { clock, ..Live::new() };
            let watched = live.watch(&name, &collection);
            Scene { live, collection, watched, _folder: folder }
        }

        fn set(&self, policy: Option<&LiveBank>) {
            self.live.change(&self.watched, &self.collection, policy).expect("a good policy");
        }

        /// Serves queries whose first coordinate counts up from `first`.
        fn serve(&self, client: u8, first: u16, count: u16) {
            let vectors: Vec<[f32; 2]> = (first..first + count).map(|x| [f32::from(x), 1.0]).collect();
            let client = Some(IpAddr::from([127, 0, 0, client]));
            let snapshot = self.collection.snapshot();
            self.live.offer(&self.watched, &snapshot, client, vectors.iter().map(<[f32; 2]>::as_slice));
        }

        fn flush(&self) -> Option<Flushed> {
            self.live.flush(&self.watched, &self.collection).expect("the store works")
        }

        /// The first coordinates of a bank's entries, in order.
        fn kept(&self, bank: &str) -> Vec<f32> {
            let snapshot = self.collection.snapshot();
            let mut kept: Vec<f32> = snapshot.live_entries(bank).map(|(_, vector, _)| vector[0]).collect();
            kept.sort_by(f32::total_cmp);
            kept
        }
    }

    fn policy(bank: &str, capacity: usize, per_client: usize) -> LiveBank {
        let bank = bank.parse().expect("a name");
        LiveBank { bank, rate: 1.0, capacity, retention_seconds: 60, per_client }
    }

    fn numbers(range: std::ops::Range<u16>) -> Vec<f32> {
        range.map(f32::from).collect()
    }

    #[test]
    fn the_rate_is_the_share_of_queries_that_are_sampled() {
        let random = BuildHasherDefault::<DefaultHasher>::default();
        for (rate, least, most) in [(1.0, 10_000, 10_000), (0.25, 2350, 2650), (0.001, 1, 25)] {
            let priorities: Vec<u64> = (0..10_000).filter_map(|number| draw(&random, number, rate)).collect();
            assert!((least..=most).contains(&priorities.len()), "{rate}: {}", priorities.len());
            let high = priorities.iter().filter(|&&priority| priority > u64::MAX / 2).count();
            assert!(rate < 0.1 || (high * 20).abs_diff(priorities.len() * 10) < priorities.len(), "{high}");
        }
    }

    #[test]
    fn clients_have_their_share_and_the_bank_keeps_to_its_capacity() {
        let scene = Scene::new(|| 1000);
        scene.set(Some(&policy("live", 25, 10)));
        scene.serve(1, 0, 300);
        scene.serve(2, 1000, 5);
        assert_eq!(scene.flush(), Some(Flushed { added: 15, removed: 0 }));
        let kept = scene.kept("live");
        assert_eq!(kept.iter().filter(|&&x| x < 1000.0).count(), 10);
        assert_eq!(kept[10..], numbers(1000..1005));
        for client in 3..10 {
            scene.serve(client, 2000 + 10 * u16::from(client), 9);
        }
        scene.flush();
        assert_eq!((scene.kept("live").len(), scene.watched.kept()), (25, (25, 0)));
        assert_eq!(scene.flush(), Some(Flushed::default()), "nothing has changed");
    }

    #[test]
    fn queries_go_when_their_time_has_come_without_others_coming() {
        static NOW: AtomicU64 = AtomicU64::new(1_000_000);
        let scene = Scene::new(|| NOW.load(Ordering::Relaxed));
        scene.set(Some(&policy("live", 100, 100)));
        scene.serve(1, 0, 10);
        scene.flush();
        NOW.fetch_add(40_000, Ordering::Relaxed);
        scene.serve(1, 10, 10);
        assert_eq!(scene.flush(), Some(Flushed { added: 10, removed: 0 }));
        NOW.fetch_add(20_001, Ordering::Relaxed);
        assert_eq!(scene.flush(), Some(Flushed { added: 0, removed: 10 }));
        assert_eq!(scene.kept("live"), numbers(10..20));
        // As after a restart: the sample is what the bank has.
        *locked(&scene.watched.capture) = None;
        assert_eq!(scene.flush(), Some(Flushed::default()));
        NOW.fetch_add(40_000, Ordering::Relaxed);
        assert_eq!(scene.flush(), Some(Flushed { added: 0, removed: 10 }));
        assert!(scene.kept("live").is_empty());
    }

    #[test]
    fn another_policy_takes_effect_at_once_and_none_forgets_what_waits() {
        let scene = Scene::new(|| 1000);
        assert_eq!(scene.flush(), None);
        scene.serve(1, 0, 10);
        scene.set(Some(&policy("live", 100, 100)));
        scene.serve(1, 10, 10);
        scene.set(Some(&policy("live", 4, 4)));
        assert_eq!(scene.kept("live").len(), 4, "what waited is written first, and then there is less room");
        scene.set(Some(&policy("other", 4, 4)));
        scene.serve(1, 20, 2);
        scene.flush();
        assert_eq!((scene.kept("live").len(), scene.kept("other")), (4, numbers(20..22)));
        scene.serve(1, 22, 2);
        scene.set(None);
        scene.serve(1, 24, 2);
        assert_eq!(scene.flush(), None);
        assert_eq!(scene.kept("other"), numbers(20..22));
        scene.set(Some(&policy("other", 4, 4)));
        assert_eq!((scene.kept("other"), scene.watched.kept()), (numbers(20..22), (2, 0)));
    }

    #[test]
    fn a_bank_that_is_kept_by_hand_too_keeps_what_it_was_given() {
        let scene = Scene::new(|| 1000);
        let entry = EntryInput::new(Some(PointId::Number(1)), vec![-1.0, 1.0]);
        scene.set(Some(&policy("live", 2, 2)));
        let bank = "live".parse().expect("a name");
        scene.collection.exchange_in_bank(&bank, &[], vec![entry]).expect("a good entry");
        scene.serve(1, 0, 50);
        scene.flush();
        assert_eq!(scene.kept("live").len(), 3);
        assert_eq!(scene.kept("live")[0], -1.0);
    }

    #[test]
    fn a_sampler_that_is_busy_passes_a_query_over() {
        let scene = Scene::new(|| 1000);
        scene.set(Some(&policy("live", 100, 100)));
        let busy = locked(&scene.watched.capture);
        scene.serve(1, 0, 5);
        drop(busy);
        scene.serve(1, 5, 5);
        scene.flush();
        assert_eq!(scene.kept("live"), numbers(5..10));
    }

    #[test]
    fn a_collection_made_anew_under_a_name_is_another_one() {
        let scene = Scene::new(|| 1000);
        let name = "c".parse().expect("a name");
        assert!(Arc::ptr_eq(&scene.watched, &scene.live.watch(&name, &scene.collection)));
        let other = Scene::new(|| 1000);
        let found = scene.live.watch(&name, &other.collection);
        assert!(!Arc::ptr_eq(&scene.watched, &found));
    }

    #[test]
    fn points_that_are_deleted_drop_out_of_the_counts() {
        let scene = Scene::new(|| 7);
        let point = |id: u64| PointInput {
            id: id.into(),
            vector: vec![1.0, 0.0].into(),
            named: Vec::new(),
            payload: None,
            text: None,
        };
        scene.collection.upsert(&[point(0), point(1), point(2)]).expect("good points");
        let snapshot = scene.collection.snapshot();
        for answer in [[0, 1], [0, 2], [0, 1]] {
            scene.watched.count(&snapshot, None, &answer);
        }
        let report = scene.watched.counts.report(&snapshot);
        assert_eq!((report.since_ms, report.rankings[0].occurrence.counts()), (7, &[3, 2, 1][..]));
        scene.collection.delete(&[PointId::Number(0)]).expect("a delete");
        let report = scene.watched.counts.report(&scene.collection.snapshot());
        assert_eq!(report.rankings[0].occurrence.counts(), [2, 1]);
        assert_eq!(report.rankings[0].queries, 3);
    }
}
