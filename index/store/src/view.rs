//! One moment of a store, kept while commits go on.

use std::fmt;
use std::sync::Arc;

use crate::engine::Snapshot;
use crate::namespace::Namespace;
use crate::store::Core;
use crate::{Family, ReadError, Scan, prefix_end};

/// A consistent snapshot: every read through it answers as of the moment [`Store::view`](crate::Store::view) was
/// called, whatever is committed meanwhile. While it is held, what it can see is not reclaimed on disk, so let go
/// of it.
pub struct View<'a> {
    core: &'a Core,
    namespace: Option<Namespace>,
    /// Or why it could not be taken.
    snapshot: Arc<Result<Snapshot<'a>, ReadError>>,
}

impl<'a> View<'a> {
    pub(crate) fn new(core: &'a Core, namespace: Option<Namespace>) -> View<'a> {
        View { core, namespace, snapshot: Arc::new(core.snapshot()) }
    }

    /// The same moment of a part of the store, as [`Store::within`](crate::Store::within) gives it.
    pub fn within(&self, home: Family, number: u16) -> View<'a> {
        self.of(Some(Namespace::new(home, number)))
    }

    /// The same moment of the store as a whole.
    pub fn whole(&self) -> View<'a> {
        self.of(None)
    }

    fn of(&self, namespace: Option<Namespace>) -> View<'a> {
        View { core: self.core, namespace, snapshot: Arc::clone(&self.snapshot) }
    }

    /// The value of `key`.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.get_in(self.namespace, family, key)
    }

    /// The values of `keys`, in their order.
    pub fn get_many(
        &self,
        family: Family,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        self.get_many_in(self.namespace, family, keys)
    }

    fn get_in(
        &self,
        namespace: Option<Namespace>,
        family: Family,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, ReadError> {
        self.core.get_at(namespace, family, key, self.snapshot()?)
    }

    fn get_many_in(
        &self,
        namespace: Option<Namespace>,
        family: Family,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        self.core.get_many_at(namespace, family, keys, self.snapshot()?)
    }

    /// The rows with `from <= key < to`, ascending; without `to`, all from `from` on.
    pub fn scan(&self, family: Family, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        self.scan_in(self.namespace, family, from, to)
    }

    fn scan_in(
        &self,
        namespace: Option<Namespace>,
        family: Family,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Scan<'_> {
        match self.snapshot() {
            Ok(snapshot) => self.core.scan_at(namespace, (family, from, to), snapshot),
            Err(error) => self.core.refused_scan(error),
        }
    }

    /// The rows whose keys start with `prefix`, ascending.
    pub fn scan_prefix(&self, family: Family, prefix: &[u8]) -> Scan<'_> {
        self.scan(family, prefix, prefix_end(prefix).as_deref())
    }

    /// What reads ask with.
    fn snapshot(&self) -> Result<Option<&Snapshot<'a>>, ReadError> {
        self.snapshot.as_ref().as_ref().map(Some).map_err(ReadError::clone)
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("store", &self.core).finish_non_exhaustive()
    }
}

self_cell::self_cell! {
    struct Held {
        owner: Arc<Core>,
        #[covariant]
        dependent: View,
    }
}

/// A [`View`] that keeps its store open, for holders that live as long as they like. A clone is of the same moment.
#[derive(Clone)]
pub struct OwnedView {
    held: Arc<Held>,
    namespace: Option<Namespace>,
}

impl OwnedView {
    pub(crate) fn new(core: &Arc<Core>, namespace: Option<Namespace>) -> OwnedView {
        let held = Held::new(Arc::clone(core), |core| View::new(core, None));
        OwnedView { held: Arc::new(held), namespace }
    }

    /// The same moment of a part of the store, as [`Store::within`](crate::Store::within) gives it.
    #[must_use]
    pub fn within(&self, home: Family, number: u16) -> OwnedView {
        OwnedView { held: Arc::clone(&self.held), namespace: Some(Namespace::new(home, number)) }
    }

    /// The same moment of the store as a whole.
    #[must_use]
    pub fn whole(&self) -> OwnedView {
        OwnedView { held: Arc::clone(&self.held), namespace: None }
    }

    /// The value of `key`.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.held.borrow_dependent().get_in(self.namespace, family, key)
    }

    /// The values of `keys`, in their order.
    pub fn get_many(
        &self,
        family: Family,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        self.held.borrow_dependent().get_many_in(self.namespace, family, keys)
    }

    /// The rows with `from <= key < to`, ascending; without `to`, all from `from` on.
    pub fn scan(&self, family: Family, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        self.held.borrow_dependent().scan_in(self.namespace, family, from, to)
    }
}

impl fmt::Debug for OwnedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedView").field("store", self.held.borrow_owner()).finish_non_exhaustive()
    }
}
