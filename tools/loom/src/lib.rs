//! Group commit in every order its threads may take their turns in, as loom finds them: `make check-loom`.

#[allow(dead_code)]
#[path = "../../../index/src/settling.rs"]
mod settling;

/// What the engine has of the standard library.
mod sync {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[cfg(test)]
mod tests {
    use loom::model::Builder;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use crate::settling::Settling;

    /// How often a thread may be made to wait where it need not. Most bugs need two.
    const PREEMPTIONS_MAX: usize = 3;

    /// A collection in numbers: the writes appended, those that a sync covers, and the newest that readers see.
    struct Collection {
        appended: Mutex<usize>,
        written: AtomicUsize,
        durable: AtomicUsize,
        published: AtomicUsize,
        settling: Settling<usize, &'static str>,
        syncs: AtomicUsize,
        /// The sync that fails, from 1.
        failing: Option<usize>,
        is_syncing: AtomicBool,
    }

    impl Collection {
        fn new(failing: Option<usize>) -> Arc<Collection> {
            Arc::new(Collection {
                appended: Mutex::new(0),
                written: AtomicUsize::new(0),
                durable: AtomicUsize::new(0),
                published: AtomicUsize::new(0),
                settling: Settling::new(0),
                syncs: AtomicUsize::new(0),
                failing,
                is_syncing: AtomicBool::new(false),
            })
        }

        fn sync(&self, newest: usize) -> Result<(), &'static str> {
            assert!(!self.is_syncing.swap(true, Ordering::SeqCst), "one syncs at a time");
            let number = self.syncs.fetch_add(1, Ordering::SeqCst) + 1;
            let covered = self.written.load(Ordering::SeqCst);
            assert!(covered >= newest, "what is installed is written");
            let is_failing = self.failing.is_some_and(|failing| number >= failing);
            if !is_failing {
                self.durable.store(covered, Ordering::SeqCst);
            }
            self.is_syncing.store(false, Ordering::SeqCst);
            if is_failing { Err("it failed") } else { Ok(()) }
        }

        fn publish(&self, newest: usize) {
            assert!(self.durable.load(Ordering::SeqCst) >= newest, "only what is durable is published");
            let before = self.published.swap(newest, Ordering::SeqCst);
            assert!(before < newest, "published {newest} after {before}");
        }

        /// A write, as the engine makes it; its number if it is acknowledged.
        fn write(&self) -> Result<usize, &'static str> {
            let mut appended = self.appended.lock().expect("nobody panics with it");
            *appended += 1;
            let own = *appended;
            self.written.store(own, Ordering::SeqCst);
            let number = self.settling.install(own);
            drop(appended);
            self.settling.settle(number, |newest| self.sync(*newest), |newest| self.publish(newest))?;
            assert!(self.durable.load(Ordering::SeqCst) >= own, "an acknowledged write is durable");
            assert!(self.published.load(Ordering::SeqCst) >= own, "an acknowledged write is published");
            Ok(own)
        }

        /// Looks twice.
        fn read(&self) {
            let first = self.published.load(Ordering::SeqCst);
            assert!(self.durable.load(Ordering::SeqCst) >= first, "what is seen is durable");
            assert!(self.published.load(Ordering::SeqCst) >= first, "what was seen stays");
        }
    }

    /// Every order of so many threads that write, each so often, beside one that reads.
    fn check(writers: usize, writes: usize, has_reader: bool, failing: Option<usize>) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(PREEMPTIONS_MAX);
        builder.check(move || {
            let collection = Collection::new(failing);
            let work = |_| {
                let collection = Arc::clone(&collection);
                thread::spawn(move || (0..writes).filter(|_| collection.write().is_ok()).count())
            };
            // This thread is the last of the writers.
            let threads: Vec<_> = (1..writers).map(work).collect();
            let reader = has_reader.then(|| {
                let collection = Arc::clone(&collection);
                thread::spawn(move || collection.read())
            });
            let own = (0..writes).filter(|_| collection.write().is_ok()).count();
            let others = threads.into_iter().map(|thread| thread.join().expect("it ends"));
            let acknowledged = own + others.sum::<usize>();
            reader.into_iter().for_each(|thread| thread.join().expect("it ends"));
            let published = collection.published.load(Ordering::SeqCst);
            assert!(acknowledged <= published, "{acknowledged} of {published}");
            match failing {
                None => assert_eq!((acknowledged, published), (writers * writes, writers * writes)),
                Some(failing) => {
                    let failure = collection.settling.failure();
                    assert_eq!(failure.is_some(), collection.syncs.load(Ordering::SeqCst) >= failing);
                    assert_eq!(failure.is_none(), acknowledged == writers * writes);
                }
            }
        });
    }

    #[test]
    fn no_write_is_acknowledged_early_or_never_of_two_beside_a_reader() {
        check(2, 1, true, None);
    }

    #[test]
    fn no_write_is_acknowledged_early_or_never_of_three() {
        check(3, 1, false, None);
    }

    #[test]
    fn no_write_is_acknowledged_early_or_never_of_two_that_write_twice() {
        check(2, 2, false, None);
    }

    #[test]
    fn when_the_first_sync_fails_no_write_is_acknowledged() {
        check(3, 1, false, Some(1));
    }

    #[test]
    fn when_a_later_sync_fails_those_before_it_stay_acknowledged() {
        check(2, 2, false, Some(2));
        check(2, 1, true, Some(2));
    }
}
