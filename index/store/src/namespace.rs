//! A part of a store that has all its families, in a range of the keys of one.

use std::borrow::Cow;

use crate::batch::ChangeRef;
use crate::{Batch, Family, prefix_end};

/// Where the records of a part are: in the family `home`, under the number of the part, the place of their family in
/// the store's list, and their own key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Namespace {
    home: Family,
    number: u16,
}

/// The bytes before a key: the number, and the place of the family.
const PREFIX_BYTES: usize = 3;

impl Namespace {
    pub(crate) fn new(home: Family, number: u16) -> Namespace {
        Namespace { home, number }
    }

    /// Before the keys of a family; `None` of one that the store has not.
    fn prefix(self, families: &[Family], family: Family) -> Option<[u8; PREFIX_BYTES]> {
        let place = families.iter().position(|own| *own == family)?;
        let [high, low] = self.number.to_be_bytes();
        Some([high, low, u8::try_from(place).ok()?])
    }

    /// The changes of a batch as changes of the whole store. What is of an unknown family stays so, and is refused.
    pub(crate) fn batch(self, families: &[Family], batch: &Batch) -> Batch {
        let mut whole = Batch::default();
        for change in batch.iter() {
            let Some(prefix) = self.prefix(families, change.family()) else {
                whole.put(change.family(), &[], &[]);
                continue;
            };
            let key = |key: &[u8]| [&prefix, key].concat();
            match change {
                ChangeRef::Put { key: own, value, .. } => whole.put(self.home, &key(own), value),
                ChangeRef::Delete { key: own, .. } => whole.delete(self.home, &key(own)),
                ChangeRef::DeleteRange { from, to, .. } => {
                    whole.delete_range(self.home, &key(from), &key(to));
                }
            }
        }
        whole
    }
}

/// A family as a handle sees it: the store's own, or a part of another.
pub(crate) struct Keys {
    /// The family of the store.
    pub(crate) family: Family,
    prefix: Option<[u8; PREFIX_BYTES]>,
}

impl Keys {
    /// `None` if the store has no such family.
    pub(crate) fn of(namespace: Option<Namespace>, families: &[Family], family: Family) -> Option<Keys> {
        match namespace {
            None => families.contains(&family).then_some(Keys { family, prefix: None }),
            Some(namespace) => {
                let prefix = namespace.prefix(families, family)?;
                let family = *families.iter().find(|own| **own == namespace.home)?;
                Some(Keys { family, prefix: Some(prefix) })
            }
        }
    }

    /// How many bytes of a stored key come before the key as it is seen.
    pub(crate) fn skipped(&self) -> usize {
        self.prefix.map_or(0, |prefix| prefix.len())
    }

    /// A key as it is stored.
    pub(crate) fn stored<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        match self.prefix {
            None => Cow::Borrowed(key),
            Some(prefix) => Cow::Owned([&prefix, key].concat()),
        }
    }

    /// The end of a range as it is stored.
    pub(crate) fn stored_end<'k>(&self, to: Option<&'k [u8]>) -> Option<Cow<'k, [u8]>> {
        match (to, self.prefix) {
            (Some(to), _) => Some(self.stored(to)),
            (None, Some(prefix)) => prefix_end(&prefix).map(Cow::Owned),
            (None, None) => None,
        }
    }
}
