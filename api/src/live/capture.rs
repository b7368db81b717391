//! What is kept of one collection's queries, and what of it the bank has yet to learn.

use std::collections::{BTreeMap, BTreeSet};

use dehub_index::{LIVE_ID_PREFIX, LiveBank};
use dehub_vector::PointId;

use super::reservoir::{Limits, Reservoir, Stamp};

/// The sample of a collection's queries under one policy.
#[derive(Debug)]
pub(crate) struct Capture {
    policy: LiveBank,
    reservoir: Reservoir,
    /// The vectors of kept queries that the bank does not have.
    added: BTreeMap<Stamp, Vec<f32>>,
    /// Entries of the bank whose queries are kept no more.
    removed: BTreeSet<Stamp>,
}

/// What the bank has to learn.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    pub(crate) added: BTreeMap<Stamp, Vec<f32>>,
    pub(crate) removed: BTreeSet<Stamp>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl Capture {
    /// Goes on from the entries a bank has. Their clients are not known any more. Entries of a time to come
    /// cannot be told to be young, and go.
    pub(crate) fn restore(policy: &LiveBank, ids: impl Iterator<Item = PointId>, now_ms: u64) -> Capture {
        let limits = Limits {
            capacity: policy.capacity,
            per_client: policy.per_client,
            retention_ms: policy.retention_seconds.saturating_mul(1000),
        };
        let (added, removed) = (BTreeMap::new(), BTreeSet::new());
        let mut capture =
            Capture { policy: policy.clone(), reservoir: Reservoir::new(limits), added, removed };
        let stamps: Vec<Stamp> = ids.filter_map(|id| stamp_of(&id)).collect();
        for stamp in stamps {
            if stamp.at_ms > now_ms || !capture.keep(stamp, None) {
                capture.removed.insert(stamp);
            }
        }
        capture
    }

    pub(crate) fn policy(&self) -> &LiveBank {
        &self.policy
    }

    /// Queries kept.
    pub(crate) fn kept(&self) -> usize {
        self.reservoir.len()
    }

    /// Changes that the bank has yet to learn.
    pub(crate) fn waiting(&self) -> usize {
        self.added.len() + self.removed.len()
    }

    /// Offers a query.
    pub(crate) fn offer(&mut self, stamp: Stamp, client: Option<u64>, vector: &[f32]) {
        if self.keep(stamp, client) {
            self.added.insert(stamp, vector.to_vec());
        }
    }

    /// Takes what the bank has to learn now; [`Capture::give_back`] what it did not.
    pub(crate) fn take(&mut self, now_ms: u64) -> Changes {
        let expired = self.reservoir.expire(now_ms);
        expired.into_iter().for_each(|stamp| self.forget(stamp));
        Changes { added: std::mem::take(&mut self.added), removed: std::mem::take(&mut self.removed) }
    }

    /// Takes changes back that could not be written.
    pub(crate) fn give_back(&mut self, changes: Changes) {
        for (stamp, vector) in changes.added {
            // What was dropped since was noted as an entry to remove, and never became one.
            if !self.removed.remove(&stamp) {
                self.added.insert(stamp, vector);
            }
        }
        self.removed.extend(changes.removed);
    }

    /// Whether the query is kept.
    fn keep(&mut self, stamp: Stamp, client: Option<u64>) -> bool {
        let change = self.reservoir.offer(stamp, client);
        change.dropped.into_iter().for_each(|stamp| self.forget(stamp));
        change.taken
    }

    fn forget(&mut self, stamp: Stamp) {
        if self.added.remove(&stamp).is_none() {
            self.removed.insert(stamp);
        }
    }
}

/// The id of the entry of a query: when it was asked, and its priority.
pub(crate) fn id_of(stamp: Stamp) -> PointId {
    PointId::Text(format!("{LIVE_ID_PREFIX}{}-{:016x}", stamp.at_ms, stamp.priority).into())
}

/// The stamp in an id; `None` if the entry is not one of ours.
fn stamp_of(id: &PointId) -> Option<Stamp> {
    let PointId::Text(text) = id else { return None };
    let (at, priority) = text.strip_prefix(LIVE_ID_PREFIX)?.split_once('-')?;
    let stamp = Stamp { at_ms: at.parse().ok()?, priority: u64::from_str_radix(priority, 16).ok()? };
    // One query has one id, so that an entry is found again by it.
    (id_of(stamp) == *id).then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(capacity: usize, per_client: usize) -> LiveBank {
        let bank = "live".parse().expect("a name");
        LiveBank { bank, rate: 1.0, capacity, retention_seconds: 10, per_client }
    }

    fn empty(capacity: usize, per_client: usize) -> Capture {
        Capture::restore(&policy(capacity, per_client), std::iter::empty(), 0)
    }

    fn stamp(priority: u64, at_ms: u64) -> Stamp {
        Stamp { priority, at_ms }
    }

    #[test]
    fn an_id_tells_its_stamp_and_foreign_ids_tell_none() {
        for one in [stamp(0, 0), stamp(u64::MAX, u64::MAX), stamp(0xab, 1_700_000_000_000)] {
            assert_eq!(stamp_of(&id_of(one)), Some(one));
        }
        assert_eq!(id_of(stamp(0xab, 7)).to_string(), "live-7-00000000000000ab");
        for foreign in ["live-7-ab", "live-7", "live-x-00000000000000ab", "q-1", "live-+7-00000000000000ab"] {
            assert_eq!(stamp_of(&PointId::text(foreign).expect("an id")), None, "{foreign}");
        }
        assert_eq!(stamp_of(&PointId::Number(7)), None);
    }

    #[test]
    fn the_bank_learns_what_came_and_went_since_it_learned_last() {
        let mut capture = empty(2, 2);
        for priority in [5, 9, 7] {
            capture.offer(stamp(priority, 1), Some(priority), &[1.0]);
        }
        let first = capture.take(1);
        assert_eq!(first.added.keys().copied().collect::<Vec<_>>(), [stamp(7, 1), stamp(9, 1)]);
        assert!(first.removed.is_empty(), "what came and went was never there");
        capture.offer(stamp(8, 2), Some(1), &[2.0]);
        let second = capture.take(2);
        assert_eq!(second.added, BTreeMap::from([(stamp(8, 2), vec![2.0])]));
        assert_eq!(second.removed, BTreeSet::from([stamp(7, 1)]));
        assert!(capture.take(2).is_empty());
        let expired = capture.take(10_002);
        assert_eq!(expired.removed, BTreeSet::from([stamp(9, 1)]), "ten seconds is not yet too old");
        assert_eq!(capture.take(10_003).removed, BTreeSet::from([stamp(8, 2)]));
        assert_eq!((capture.kept(), capture.waiting()), (0, 0));
    }

    #[test]
    fn changes_that_were_not_written_are_made_later() {
        let mut capture = empty(2, 2);
        capture.offer(stamp(5, 1), Some(1), &[5.0]);
        drop(capture.take(1));
        capture.offer(stamp(7, 1), Some(1), &[7.0]);
        capture.offer(stamp(8, 1), Some(2), &[8.0]);
        let failed = capture.take(1);
        assert_eq!((failed.added.len(), failed.removed.len()), (2, 1));
        capture.offer(stamp(9, 1), Some(3), &[9.0]);
        assert_eq!(capture.waiting(), 2, "7 is to go, 9 to come");
        capture.give_back(failed);
        let changes = capture.take(1);
        let added = BTreeMap::from([(stamp(8, 1), vec![8.0]), (stamp(9, 1), vec![9.0])]);
        assert_eq!(changes, Changes { added, removed: BTreeSet::from([stamp(5, 1)]) });
    }

    #[test]
    fn a_restart_goes_on_from_the_bank_and_a_smaller_capacity_keeps_the_largest() {
        let stamps: Vec<Stamp> = (1..=20).map(|priority| stamp(priority, 5000 + priority)).collect();
        let foreign = [PointId::Number(3), PointId::text("asked").expect("an id")];
        let ids = || stamps.iter().map(|&stamp| id_of(stamp)).chain(foreign.clone());
        let mut same = Capture::restore(&policy(20, 1), ids(), 6000);
        assert_eq!((same.kept(), same.waiting()), (20, 0), "the clients of then are not known");
        let mut smaller = Capture::restore(&policy(5, 1), ids(), 6000);
        let gone: BTreeSet<Stamp> = stamps[..15].iter().copied().collect();
        assert_eq!(smaller.take(6000), Changes { added: BTreeMap::new(), removed: gone });
        let gone = same.take(15_010).removed;
        assert_eq!(gone, stamps[..9].iter().copied().collect(), "older than ten seconds");
        let ahead = Capture::restore(&policy(20, 1), ids(), 5010);
        assert_eq!((ahead.kept(), ahead.waiting()), (10, 10), "a clock that was set back");
    }

    #[test]
    fn a_client_keeps_its_share_while_others_come() {
        let mut capture = empty(100, 3);
        for place in 0..60 {
            capture.offer(stamp(1000 + place, 1), Some(1), &[0.0]);
            capture.offer(stamp(place, 1), Some(100 + place), &[0.0]);
        }
        assert_eq!(capture.kept(), 63);
        let of_flood = capture.take(1).added.into_keys().filter(|stamp| stamp.priority >= 1000);
        assert_eq!(of_flood.map(|stamp| stamp.priority).collect::<Vec<_>>(), [1057, 1058, 1059]);
    }
}
