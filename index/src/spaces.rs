//! The state of a collection as a whole: its points, and the vectors that they have under names.
//!
//! A *space* is what has a dimension, a metric, banks, corrections and a graph: the unnamed vector of a collection, or
//! each of its named ones. Named ones have the rows of the points in common: an upsert gives a point one row in all,
//! and in a space in which it has no vector that row holds no point. Ids, texts and payloads are kept once. The records
//! of a named space are those that a collection with one vector has, in a part of the same store; so one commit changes
//! all.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, MutexGuard};

use dehub_store::Store;

use crate::record::META;
use crate::state::State;
use crate::{CollectionConfig, Name};

/// The most named vectors of a collection.
pub const SPACES_MAX: usize = 64;

/// What a state is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// Points, each with one vector.
    Unnamed,
    /// Points, whose vectors are elsewhere.
    Points,
    /// The vectors of a name, under its number.
    Space(Name, u16),
}

/// The named spaces of a collection; none of one with an unnamed vector.
pub(crate) type Spaces = BTreeMap<Name, Arc<State>>;

/// The state of a collection and of its spaces, after the same commit.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    pub(crate) base: Arc<State>,
    pub(crate) spaces: Spaces,
}

/// A name that is none of a collection's vectors, or none where one is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", match (asked, found.is_empty()) {
    (Some(asked), true) => format!("there is no vector `{asked}`: the collection has one vector, without a name"),
    (Some(asked), false) => format!("there is no vector `{asked}`; the collection has: {}", self.list()),
    (None, _) => format!("the vectors of the collection have names, and none was given; it has: {}", self.list()),
})]
pub struct UnknownSpace {
    /// What was asked for; `None` for the unnamed vector.
    pub asked: Option<String>,
    /// The names there are.
    pub found: Vec<Name>,
}

impl UnknownSpace {
    /// The names there are, in words.
    pub fn list(&self) -> String {
        list(&self.found)
    }
}

/// Names in words.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a Name>) -> String {
    let names: Vec<_> = names.into_iter().map(Name::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The part of a store that has the records of a space.
pub(crate) fn part(store: &Store, number: u16) -> Store {
    store.within(META, number)
}

impl Role {
    /// The name of a space.
    pub(crate) fn name(&self) -> Option<&Name> {
        match self {
            Role::Unnamed | Role::Points => None,
            Role::Space(name, _) => Some(name),
        }
    }
}

impl Whole {
    /// Of a state without named spaces.
    pub(crate) fn of(base: State) -> Whole {
        Whole { base: Arc::new(base), spaces: Spaces::new() }
    }

    /// The state of a space, or of the points.
    pub(crate) fn state(&self, space: Option<&Name>) -> &Arc<State> {
        space.and_then(|name| self.spaces.get(name)).unwrap_or(&self.base)
    }

    /// The same with another state in the place of the one it is of.
    pub(crate) fn with(&self, next: State) -> Whole {
        let mut whole = self.clone();
        match &next.role {
            Role::Unnamed | Role::Points => whole.base = Arc::new(next),
            Role::Space(name, _) => _ = whole.spaces.insert(name.clone(), Arc::new(next)),
        }
        whole
    }

    /// All states after the commit of this number, and as the points' configuration says.
    pub(crate) fn at(mut self, sequence: u64) -> Whole {
        if self.base.counters.sequence != sequence {
            Arc::make_mut(&mut self.base).counters.sequence = sequence;
        }
        for space in self.spaces.values_mut() {
            let base = &self.base;
            let is_same = space.counters.sequence == sequence
                && Arc::ptr_eq(&space.format, &base.format)
                && space.config.durability == base.config.durability;
            if !is_same {
                let space = Arc::make_mut(space);
                space.counters.sequence = sequence;
                space.format = Arc::clone(&base.format);
                space.config = CollectionConfig { durability: base.config.durability, ..space.config };
            }
        }
        self
    }
}

/// The numbers of spaces.
pub(crate) fn numbers(spaces: &Spaces) -> BTreeMap<Name, u16> {
    let number = |(name, state): (&Name, &Arc<State>)| match &state.role {
        Role::Space(_, number) => Some((name.clone(), *number)),
        Role::Unnamed | Role::Points => None,
    };
    spaces.iter().filter_map(number).collect()
}

/// The states of the writer, of which one is looked at. While it is held, no write is made.
pub(crate) struct Locked<'a> {
    pub(crate) whole: MutexGuard<'a, Whole>,
    space: Option<&'a Name>,
}

impl<'a> Locked<'a> {
    pub(crate) fn new(whole: MutexGuard<'a, Whole>, space: Option<&'a Name>) -> Locked<'a> {
        Locked { whole, space }
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.whole.state(self.space)
    }
}
