//! Group commit: values that are made one after the other become durable together.
//!
//! Whoever has made a value waits until a sync covers it. One of those that wait syncs for all that were made before it
//! began, while the next are made. A value is published only after the sync that covers it, and never after a newer
//! one. `tools/loom` runs this file through the orders in which its threads may take their turns.

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Values, of which the newest may not be durable yet. `F` is why none becomes durable any more.
pub(crate) struct Settling<T, F> {
    settled: Mutex<Settled<T, F>>,
    /// Told when a sync has ended.
    synced: Condvar,
}

struct Settled<T, F> {
    /// The newest value, and its number.
    newest: (u64, T),
    /// The newest number that is published.
    published: u64,
    /// Whether somebody syncs.
    is_leading: bool,
    failure: Option<F>,
}

impl<T: Clone, F: Clone> Settling<T, F> {
    /// With a value that is durable and published.
    pub(crate) fn new(first: T) -> Settling<T, F> {
        let settled = Settled { newest: (0, first), published: 0, is_leading: false, failure: None };
        Settling { settled: Mutex::new(settled), synced: Condvar::new() }
    }

    /// The newest value, durable or not.
    pub(crate) fn newest(&self) -> T {
        self.lock().newest.1.clone()
    }

    /// Looks at the newest value without a share in it.
    pub(crate) fn look<R>(&self, at: impl FnOnce(&T) -> R) -> R {
        at(&self.lock().newest.1)
    }

    /// Takes a value that was made, which whoever calls makes one after the other. Gives the number to wait for by
    /// [`Settling::settle`].
    pub(crate) fn install(&self, value: T) -> u64 {
        let mut settled = self.lock();
        let number = settled.newest.0 + 1;
        settled.newest = (number, value);
        number
    }

    /// Waits until the value of this number is durable and published. If nobody syncs, `sync` makes everything that was
    /// installed before it is called durable, the newest of which it is given, and `publish` shows that one.
    pub(crate) fn settle(
        &self,
        number: u64,
        sync: impl FnOnce(&T) -> Result<(), F>,
        publish: impl FnOnce(T),
    ) -> Result<(), F> {
        let mut settled = self.lock();
        loop {
            if settled.published >= number {
                return Ok(());
            }
            if let Some(failure) = &settled.failure {
                return Err(failure.clone());
            }
            if !settled.is_leading {
                break;
            }
            settled = self.synced.wait(settled).unwrap_or_else(PoisonError::into_inner);
        }
        settled.is_leading = true;
        let (newest, value) = settled.newest.clone();
        drop(settled);
        let lead = Lead(self);
        let outcome = sync(&value);
        let mut settled = self.lock();
        let outcome = match outcome {
            Ok(()) => {
                settled.published = newest;
                publish(value);
                Ok(())
            }
            Err(failure) => Err(settled.failure.get_or_insert(failure).clone()),
        };
        drop(settled);
        drop(lead);
        outcome
    }

    /// Why no value becomes durable any more, if that is so.
    pub(crate) fn failure(&self) -> Option<F> {
        self.lock().failure.clone()
    }

    /// No value becomes durable from now on. The first failure is why there are others; gives that one.
    pub(crate) fn fail(&self, failure: impl FnOnce() -> F) -> F {
        self.lock().failure.get_or_insert_with(failure).clone()
    }
}

impl<T, F> Settling<T, F> {
    fn lock(&self) -> MutexGuard<'_, Settled<T, F>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who syncs for all; when dropped, even by a panic, somebody else may.
struct Lead<'a, T, F>(&'a Settling<T, F>);

impl<T, F> Drop for Lead<'_, T, F> {
    fn drop(&mut self) {
        self.0.lock().is_leading = false;
        self.0.synced.notify_all();
    }
}
