//! A uniform sample of the queries of late: bounded, with an age limit and a cap on each client.
//!
//! Every query gets a random priority, and those of the largest priorities are kept (*bottom-k* or
//! priority sampling; Cohen & Kaplan, *Summarizing data using bottom-k sketches*, PODC 2007). So each
//! query of the window is kept with the same chance, and of one client's queries each with the same
//! chance again: who asks a million times fills no more than its cap.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Queries kept at most.
    pub capacity: usize,
    /// Queries kept at most of one client.
    pub per_client: usize,
    /// Milliseconds after which a query is forgotten.
    pub retention_ms: u64,
}

/// A kept query. Its stamp is its name: no two kept queries have one priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub priority: u64,
    /// When it was asked, in milliseconds since 1970.
    pub at_ms: u64,
}

/// What an offer did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Change {
    /// Whether the query offered was taken.
    pub taken: bool,
    /// Queries that had to go: for room, or because of their age.
    pub dropped: Vec<Stamp>,
}

/// The stamps of the sample; vectors are kept by who asks.
#[derive(Debug)]
pub(crate) struct Reservoir {
    limits: Limits,
    /// The client of each kept query, least priority first. `None` for queries of before a restart,
    /// whose clients are not known.
    kept: BTreeMap<Stamp, Option<u64>>,
    /// Stamps by age, oldest first: the time, then the priority.
    ages: BTreeSet<(u64, u64)>,
    /// The stamps of each known client, least priority first.
    clients: HashMap<u64, BTreeSet<Stamp>>,
}

impl Reservoir {
    pub(crate) fn new(limits: Limits) -> Reservoir {
        Reservoir { limits, kept: BTreeMap::new(), ages: BTreeSet::new(), clients: HashMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The queries of `client` that are kept.
    #[cfg(test)]
    fn of(&self, client: u64) -> usize {
        self.clients.get(&client).map_or(0, BTreeSet::len)
    }

    /// Offers a query. It competes with its client's queries for the client's share first, and then
    /// with all for a place.
    pub(crate) fn offer(&mut self, stamp: Stamp, client: Option<u64>) -> Change {
        let mut change = Change { taken: false, dropped: self.expire(stamp.at_ms) };
        if self.kept.contains_key(&stamp) {
            return change;
        }
        self.insert(stamp, client);
        let own = client.and_then(|client| self.clients.get(&client));
        let own = own.filter(|own| own.len() > self.limits.per_client);
        let evicted = match own {
            Some(own) => own.first().copied(),
            None if self.kept.len() > self.limits.capacity => self.kept.keys().next().copied(),
            None => None,
        };
        if let Some(evicted) = evicted {
            self.remove(evicted);
            if evicted != stamp {
                change.dropped.push(evicted);
            }
        }
        change.taken = self.kept.contains_key(&stamp);
        change
    }

    /// Forgets what is older than the retention.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<Stamp> {
        let mut expired = Vec::new();
        while let Some(&(at_ms, priority)) = self.ages.first() {
            if now_ms.saturating_sub(at_ms) <= self.limits.retention_ms {
                break;
            }
            let stamp = Stamp { priority, at_ms };
            self.remove(stamp);
            expired.push(stamp);
        }
        expired
    }

    fn insert(&mut self, stamp: Stamp, client: Option<u64>) {
        self.kept.insert(stamp, client);
        self.ages.insert((stamp.at_ms, stamp.priority));
        if let Some(client) = client {
            self.clients.entry(client).or_default().insert(stamp);
        }
    }

    fn remove(&mut self, stamp: Stamp) {
        self.ages.remove(&(stamp.at_ms, stamp.priority));
        if let Some(Some(client)) = self.kept.remove(&stamp)
            && let Some(own) = self.clients.get_mut(&client)
        {
            own.remove(&stamp);
            if own.is_empty() {
                self.clients.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    /// A generator of the SplitMix64 family, so that a run is the same every time.
    fn random(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn reservoir(capacity: usize, per_client: usize) -> Reservoir {
        Reservoir::new(Limits { capacity, per_client, retention_ms: DAY_MS })
    }

    #[test]
    fn every_query_of_the_window_is_kept_with_the_same_chance() {
        let (mut seed, offered, capacity, runs) = (1, 200_u64, 20, 500);
        let mut kept = vec![0_u32; 200];
        for _ in 0..runs {
            let mut reservoir = reservoir(capacity, capacity);
            for at_ms in 0..offered {
                reservoir.offer(Stamp { priority: random(&mut seed), at_ms }, Some(at_ms));
            }
            assert_eq!(reservoir.len(), capacity);
            reservoir.kept.keys().for_each(|stamp| kept[usize::try_from(stamp.at_ms).expect("small")] += 1);
        }
        // Each is kept 50 times in 500 on average, with a standard deviation of 6.7.
        assert!(kept.iter().all(|&count| (20..=85).contains(&count)), "{kept:?}");
        let early: u32 = kept[..100].iter().sum();
        assert!((4700..=5300).contains(&early), "the first half has {early} of 10000");
    }

    #[test]
    fn a_client_that_floods_gets_its_cap_and_displaces_nobody_else() {
        let mut seed = 2;
        let mut reservoir = reservoir(100, 10);
        for at_ms in 0..50 {
            reservoir.offer(Stamp { priority: random(&mut seed), at_ms }, Some(at_ms));
        }
        for at_ms in 50..10_050 {
            reservoir.offer(Stamp { priority: random(&mut seed), at_ms }, Some(999));
        }
        assert_eq!(reservoir.of(999), 10);
        assert_eq!(reservoir.len(), 60, "the other fifty are all there");
    }

    #[test]
    fn the_old_are_forgotten_and_make_room() {
        let mut reservoir = reservoir(2, 2);
        let old = [Stamp { priority: 8, at_ms: 0 }, Stamp { priority: 9, at_ms: 5 }];
        old.iter().for_each(|&stamp| assert!(reservoir.offer(stamp, Some(1)).taken));
        let low = Stamp { priority: 1, at_ms: DAY_MS };
        assert!(!reservoir.offer(low, Some(2)).taken, "it is the least of three");
        let later = Stamp { priority: 1, at_ms: DAY_MS + 3 };
        assert_eq!(reservoir.offer(later, Some(2)), Change { taken: true, dropped: vec![old[0]] });
        assert_eq!(reservoir.expire(3 * DAY_MS), [old[1], later], "oldest first");
        assert_eq!((reservoir.len(), reservoir.of(1), reservoir.of(2)), (0, 0, 0));
        assert!(reservoir.clients.is_empty() && reservoir.ages.is_empty());
    }

    #[test]
    fn what_is_dropped_and_what_is_kept_is_what_was_taken() {
        let mut seed = 3;
        let mut reservoir = reservoir(30, 7);
        let mut mine = BTreeSet::new();
        for step in 0..5_000_u64 {
            let stamp = Stamp { priority: random(&mut seed), at_ms: step * DAY_MS / 400 };
            let client = (step % 3 > 0).then(|| random(&mut seed) % 9);
            let change = reservoir.offer(stamp, client);
            change.dropped.iter().for_each(|dropped| assert!(mine.remove(dropped)));
            if change.taken {
                assert!(mine.insert(stamp));
            }
            assert!(mine.iter().eq(reservoir.kept.keys()));
            assert!(mine.len() <= 30 && (0..9).all(|client| reservoir.of(client) <= 7));
            assert_eq!(reservoir.ages.len(), mine.len());
        }
    }
}
