//! One moment of a store, kept while commits go on.

use std::fmt;
use std::sync::Arc;

use crate::engine::Snapshot;
use crate::{Family, ReadError, Scan, Store, prefix_end};

/// A consistent snapshot: every read through it answers as of the moment [`Store::view`] was called, whatever is
/// committed meanwhile. While it is held, what it can see is not reclaimed on disk, so let go of it.
pub struct View<'a> {
    store: &'a Store,
    /// Or why it could not be taken.
    snapshot: Result<Snapshot<'a>, ReadError>,
}

impl<'a> View<'a> {
    pub(crate) fn new(store: &'a Store, snapshot: Result<Snapshot<'a>, ReadError>) -> View<'a> {
        View { store, snapshot }
    }

    /// The value of `key`.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.store.get_at(family, key, self.snapshot()?)
    }

    /// The values of `keys`, in their order.
    pub fn get_many(
        &self,
        family: Family,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        self.store.get_many_at(family, keys, self.snapshot()?)
    }

    /// The rows with `from <= key < to`, ascending; without `to`, all from `from` on.
    pub fn scan(&self, family: Family, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        match self.snapshot() {
            Ok(snapshot) => self.store.scan_at(family, from, to, snapshot),
            Err(error) => self.store.refused_scan(error),
        }
    }

    /// The rows whose keys start with `prefix`, ascending.
    pub fn scan_prefix(&self, family: Family, prefix: &[u8]) -> Scan<'_> {
        self.scan(family, prefix, prefix_end(prefix).as_deref())
    }

    /// What reads ask with.
    fn snapshot(&self) -> Result<Option<&Snapshot<'a>>, ReadError> {
        self.snapshot.as_ref().map(Some).map_err(ReadError::clone)
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("store", &self.store).finish_non_exhaustive()
    }
}

self_cell::self_cell! {
    struct Held {
        owner: Arc<Store>,
        #[covariant]
        dependent: View,
    }
}

/// A [`View`] that keeps its store open, for holders that live as long as they like.
pub struct OwnedView(Held);

impl OwnedView {
    pub(crate) fn new(store: &Arc<Store>) -> OwnedView {
        OwnedView(Held::new(Arc::clone(store), |store| store.view()))
    }

    /// The value of `key`.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.0.borrow_dependent().get(family, key)
    }

    /// The values of `keys`, in their order.
    pub fn get_many(
        &self,
        family: Family,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        self.0.borrow_dependent().get_many(family, keys)
    }

    /// The rows with `from <= key < to`, ascending; without `to`, all from `from` on.
    pub fn scan(&self, family: Family, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        self.0.borrow_dependent().scan(family, from, to)
    }
}

impl fmt::Debug for OwnedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedView").field("store", self.0.borrow_owner()).finish_non_exhaustive()
    }
}
