//! Who opens which collection, and who waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Collection, Name, OpenError, OpenProgress};

/// How long askers are given the outcome of the last attempt to open a damaged collection, which takes as long as
/// reading it, instead of one of their own.
const DAMAGE_IS_TOLD_FOR: Duration = Duration::from_secs(5);

/// A place for each collection that somebody has to do with. The map is locked for moments only: a collection is
/// opened and closed by whoever has a [`Claim`] to its place, and only those who want the same one wait.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Mutex<BTreeMap<Name, Slot>>,
    /// Told whenever a place changes.
    changed: Condvar,
}

/// What is in the place of a name. None at all is a collection that is closed, or is not there.
#[derive(Clone)]
pub(crate) enum Slot {
    /// Somebody opens it.
    Opening(Arc<OpenProgress>),
    /// It serves.
    Open(Arc<Collection>),
    /// Somebody has closed it, or is about to, and nobody may open it.
    Closing,
    /// It did not open.
    Failed {
        /// Why.
        error: Arc<OpenError>,
        /// When that was known.
        at: Instant,
    },
}

/// What an asker gets.
pub(crate) enum Turn {
    /// The collection.
    There(Arc<Collection>),
    /// The right, and the duty, to open it.
    Open(Claim),
}

/// Why an asker gets nothing.
pub(crate) enum Denied {
    /// It does not open.
    Failed(Arc<OpenError>),
    /// It is still being opened, or is closed by somebody.
    Late(Slot),
}

/// The right to change one place. Left behind by a panic or an error, the place is free again.
pub(crate) struct Claim {
    slots: Arc<Slots>,
    name: Name,
    /// What to tell how far opening is.
    pub(crate) progress: Arc<OpenProgress>,
    is_settled: bool,
}

impl Slots {
    /// The collection, if it is open, or the right to open it. Waits for those who open or close it; without `until`
    /// for as long as they take.
    pub(crate) fn ask(self: &Arc<Slots>, name: &Name, until: Option<Instant>) -> Result<Turn, Denied> {
        let mut slots = self.lock();
        let mut has_waited = false;
        loop {
            match slots.get(name) {
                Some(Slot::Open(collection)) => return Ok(Turn::There(Arc::clone(collection))),
                Some(Slot::Failed { error, at })
                    if has_waited || (error.is_damage() && at.elapsed() < DAMAGE_IS_TOLD_FOR) =>
                {
                    return Err(Denied::Failed(Arc::clone(error)));
                }
                None | Some(Slot::Failed { .. }) => {
                    let claim = Claim::new(self, name);
                    slots.insert(name.clone(), Slot::Opening(Arc::clone(&claim.progress)));
                    return Ok(Turn::Open(claim));
                }
                Some(busy @ (Slot::Opening(_) | Slot::Closing)) => {
                    // What an attempt that began earlier finds is as true as what a new one would.
                    has_waited = matches!(busy, Slot::Opening(_));
                    let busy = busy.clone();
                    slots = self.wait(slots, until).map_err(|()| Denied::Late(busy))?;
                }
            }
        }
    }

    /// Takes the place of a collection, so that nobody opens it, and gives what was open. Waits as [`Slots::ask`].
    pub(crate) fn close(
        self: &Arc<Slots>,
        name: &Name,
        until: Option<Instant>,
    ) -> Result<(Claim, Option<Arc<Collection>>), Denied> {
        let mut slots = self.lock();
        loop {
            match slots.get(name) {
                Some(busy @ (Slot::Opening(_) | Slot::Closing)) => {
                    let busy = busy.clone();
                    slots = self.wait(slots, until).map_err(|()| Denied::Late(busy))?;
                }
                None | Some(Slot::Open(_) | Slot::Failed { .. }) => {
                    let open = match slots.insert(name.clone(), Slot::Closing) {
                        Some(Slot::Open(collection)) => Some(collection),
                        None | Some(Slot::Opening(_) | Slot::Closing | Slot::Failed { .. }) => None,
                    };
                    return Ok((Claim::new(self, name), open));
                }
            }
        }
    }

    /// What is in the place of a name.
    pub(crate) fn get(&self, name: &Name) -> Option<Slot> {
        self.lock().get(name).cloned()
    }

    /// All places that are not empty.
    pub(crate) fn all(&self) -> BTreeMap<Name, Slot> {
        self.lock().clone()
    }

    /// Waits until nobody opens anything.
    pub(crate) fn wait_for_openers(&self) {
        let is_opening =
            |slots: &mut BTreeMap<Name, Slot>| slots.values().any(|slot| matches!(slot, Slot::Opening(_)));
        drop(self.changed.wait_while(self.lock(), is_opening));
    }

    /// Waits for a change; an error if there is none in time.
    fn wait<'a>(
        &self,
        slots: MutexGuard<'a, BTreeMap<Name, Slot>>,
        until: Option<Instant>,
    ) -> Result<MutexGuard<'a, BTreeMap<Name, Slot>>, ()> {
        let Some(until) = until else {
            return Ok(self.changed.wait(slots).unwrap_or_else(PoisonError::into_inner));
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(());
        }
        Ok(self.changed.wait_timeout(slots, left).unwrap_or_else(PoisonError::into_inner).0)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    fn new(slots: &Arc<Slots>, name: &Name) -> Claim {
        let progress = Arc::new(OpenProgress::default());
        Claim { slots: Arc::clone(slots), name: name.clone(), progress, is_settled: false }
    }

    /// It serves from now on.
    pub(crate) fn open(self, collection: &Arc<Collection>) {
        self.settle(Some(Slot::Open(Arc::clone(collection))));
    }

    /// It did not open.
    pub(crate) fn fail(self, error: &Arc<OpenError>) {
        self.settle(Some(Slot::Failed { error: Arc::clone(error), at: Instant::now() }));
    }

    fn settle(mut self, slot: Option<Slot>) {
        self.is_settled = true;
        self.put(slot);
    }

    fn put(&self, slot: Option<Slot>) {
        let mut slots = self.slots.lock();
        let before = match slot {
            Some(slot) => slots.insert(self.name.clone(), slot),
            None => slots.remove(&self.name),
        };
        drop(slots);
        // Not under the lock: what is replaced may be a collection to close.
        drop(before);
        self.slots.changed.notify_all();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_settled {
            self.put(None);
        }
    }
}
