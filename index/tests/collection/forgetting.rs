//! Entries that go, weaken or wait: every statistic and every gate is what a fit of the entries that are
//! left gives.

use std::collections::BTreeMap;

use dehub_index::{BankUpdate, EntryInput, EntrySelector, Name};
use dehub_normalize::BankKind;
use dehub_store::{Batch, Durability, Family, Store};
use dehub_vector::{Metric, PointId};

use crate::dump::{Biases, assert_same_biases, biases, dump};
use crate::made::{Home, Numbers, config, gallery, ids, name, point, points, queries, store_folder};

const DIM: usize = 12;
const POINTS: u64 = 60;

/// Every method; Sinkhorn with so many iterations that where it starts from does not matter.
const LABELS: [&str; 16] = [
    "IS(beta=20)",
    "NNN(alpha=1.0,k=5)",
    "CSLS(k=3)",
    "DualIS(b1=20,b2=5)",
    "DIS(beta=20,k=1)",
    "DualDIS(b1=20,b2=5,k=2)",
    "DN(lambda=0.25)",
    "Centring",
    "LocalCentring(k=2,gamma=1.0)",
    "LS(k=4)",
    "NICDM(k=4)",
    "ZScore",
    "MP",
    "DisSimLocal(k=4)",
    "SN(tau=1.0,n=60)",
    "IS(beta=50,floor=0.1)",
];

fn labels(metric: Metric) -> Vec<&'static str> {
    let serves =
        |label: &&str| label.parse().is_ok_and(|it: dehub_normalize::Method| it.refuses(metric).is_none());
    LABELS.into_iter().filter(serves).collect()
}

/// Sinkhorn's columns less their mean: what one balance has on both sides, another may have on one.
fn balanced(mut biases: Biases) -> Biases {
    for (_, column) in biases.columns.iter_mut().filter(|(key, _)| key.0.starts_with("SN")) {
        let mean = column.values().sum::<f64>() / column.len() as f64;
        column.values_mut().for_each(|value| *value -= mean);
    }
    biases
}

/// What a bank should hold: number → vector and weight, in the order of the numbers.
type Contents = BTreeMap<u64, (Vec<f32>, f32)>;

fn entry(id: u64, vector: &[f32], weight: f32) -> EntryInput {
    EntryInput { id: Some(PointId::Number(id)), vector: vector.to_vec().into(), weight }
}

fn update(bank: BankKind, entries: Vec<EntryInput>, defer: bool) -> BankUpdate {
    BankUpdate { name: bank_name(bank), kind: bank, entries, defer }
}

fn bank_name(bank: BankKind) -> Name {
    name(match bank {
        BankKind::Query => "queries",
        BankKind::Gallery => "gallery",
    })
}

const KINDS: [BankKind; 2] = [BankKind::Query, BankKind::Gallery];

/// Two banks whose entries come, go and weaken in an order from a seed.
struct Life {
    metric: Metric,
    home: Home,
    numbers: Numbers,
    contents: [Contents; 2],
    points: BTreeMap<u64, Vec<f32>>,
    /// The order the points were written in: ties are by it.
    written: Vec<u64>,
    next_entry: u64,
}

impl Life {
    fn new(metric: Metric, seed: u64) -> Life {
        let mut life = Life {
            metric,
            home: Home::new(config(DIM, metric)),
            numbers: Numbers(seed),
            contents: [Contents::new(), Contents::new()],
            points: BTreeMap::new(),
            written: Vec::new(),
            next_entry: 0,
        };
        (0..POINTS).for_each(|id| life.write_point(id));
        for place in [0, 1] {
            life.add(place, 30, false);
        }
        life.home.fit(&labels(metric));
        life
    }

    fn write_point(&mut self, id: u64) {
        let vector = self.numbers.vector(DIM);
        self.home.upsert(&[point(id, &vector)]);
        self.points.insert(id, vector);
        self.written.retain(|&other| other != id);
        self.written.push(id);
    }

    /// Entries with the ids of points among them, some of a weight that is not 1.
    fn add(&mut self, place: usize, count: usize, defer: bool) {
        let mut entries = Vec::new();
        for _ in 0..count {
            let weight = [1.0, 1.0, 1.0, 2.0, 0.25, 7.5][self.numbers.below(6)];
            let vector = self.numbers.vector(DIM);
            entries.push(entry(self.next_entry, &vector, weight));
            self.contents[place].insert(self.next_entry, (vector, weight));
            self.next_entry += 1;
        }
        self.home.add(&update(KINDS[place], entries, defer));
    }

    fn remove(&mut self, place: usize, count: usize) {
        let held: Vec<u64> = self.contents[place].keys().copied().collect();
        let count = count.min(held.len().saturating_sub(6));
        let gone: Vec<u64> = self.numbers.order(held.len())[..count].iter().map(|&at| held[at]).collect();
        gone.iter().for_each(|id| _ = self.contents[place].remove(id));
        // Ids that are not there are no error.
        let selector = EntrySelector::Ids(ids(gone.iter().copied().chain([9_999_999])));
        let receipt = self.home.collection().remove_from_bank(&bank_name(KINDS[place]), &selector);
        assert_eq!(receipt.expect("a removal").deleted, gone.len());
    }

    /// Removes some entries and adds others, in one commit.
    fn exchange(&mut self, place: usize, gone: usize, count: usize) {
        let held: Vec<u64> = self.contents[place].keys().copied().collect();
        let gone: Vec<u64> = self.numbers.order(held.len())[..gone].iter().map(|&at| held[at]).collect();
        gone.iter().for_each(|id| _ = self.contents[place].remove(id));
        let mut added = Vec::new();
        for _ in 0..count {
            let weight = [1.0, 3.0][self.numbers.below(2)];
            let vector = self.numbers.vector(DIM);
            added.push(entry(self.next_entry, &vector, weight));
            self.contents[place].insert(self.next_entry, (vector, weight));
            self.next_entry += 1;
        }
        let removed = ids(gone.iter().copied().chain([9_999_999]));
        let receipt = self.home.collection().exchange_in_bank(&bank_name(KINDS[place]), &removed, added);
        let receipt = receipt.expect("an exchange");
        assert_eq!((receipt.deleted, receipt.added), (gone.len(), count));
    }

    fn decay(&mut self, place: usize) {
        let bank = bank_name(KINDS[place]);
        let before = self.contents[place].len();
        self.contents[place].values_mut().for_each(|(_, weight)| *weight *= 0.5);
        self.contents[place].retain(|_, (_, weight)| *weight >= 0.1);
        let receipt = self.home.collection().scale_bank(&bank, 0.5, 0.1).expect("a decay");
        assert_eq!(receipt.deleted, before - self.contents[place].len());
    }

    fn step(&mut self, step: usize) {
        let place = self.numbers.below(2);
        let few = 1 + self.numbers.below(6);
        match step % 8 {
            0 | 4 => self.add(place, few, false),
            1 => self.remove(place, few),
            2 => self.add(place, few, true),
            // A new point is served by the balance there is; growing both banks balances anew.
            3 => {
                self.write_point(self.next_entry % POINTS);
                [0, 1].into_iter().for_each(|place| self.add(place, 1, false));
            }
            5 => self.remove(place, 12),
            6 if step % 16 == 6 => self.decay(place),
            6 => _ = self.home.collection().absorb(&bank_name(KINDS[place])).expect("it exists"),
            _ => self.home.reopen(),
        }
    }

    fn absorb(&self) {
        KINDS
            .into_iter()
            .for_each(|kind| _ = self.home.collection().absorb(&bank_name(kind)).expect("it exists"));
    }

    /// A collection with these contents from the start.
    fn afresh(&self) -> Home {
        let home = Home::new(config(DIM, self.metric));
        let inputs: Vec<_> = self.written.iter().map(|&id| point(id, &self.points[&id])).collect();
        home.upsert(&inputs);
        for (kind, contents) in KINDS.into_iter().zip(&self.contents) {
            let entries = contents.iter().map(|(&id, (vector, weight))| entry(id, vector, *weight)).collect();
            home.add(&update(kind, entries, false));
        }
        home.fit(&labels(self.metric));
        home
    }

    #[track_caller]
    fn check(&self, what: &str) {
        let (found, wanted) = (self.home.snapshot(), self.afresh().snapshot());
        for kind in KINDS {
            let bank = bank_name(kind);
            assert_eq!(found.bank(bank.as_str()), wanted.bank(bank.as_str()), "{what}");
        }
        assert!(found.corrections().all(|correction| correction.info().stale == 0));
        let error = if self.metric == Metric::Cosine { 1e-6 } else { 1e-5 };
        assert_same_biases(&balanced(biases(&found)), &balanced(biases(&wanted)), error, what);
    }
}

#[test]
fn removed_weakened_and_deferred_entries_leave_no_trace() {
    for (metric, seed) in [(Metric::Cosine, 301), (Metric::Dot, 302), (Metric::Euclidean, 303)] {
        let mut life = Life::new(metric, seed);
        for step in 0..32 {
            life.step(step);
            if step % 5 == 4 {
                life.absorb();
                life.check(&format!("{metric}, step {step}"));
            }
        }
        life.absorb();
        life.home.reopen();
        life.check(&format!("{metric}, opened again"));
    }
}

#[test]
fn an_exchange_leaves_what_a_fit_of_the_new_entries_gives() {
    for (metric, seed) in [(Metric::Cosine, 305), (Metric::Dot, 306), (Metric::Euclidean, 307)] {
        let mut life = Life::new(metric, seed);
        // The fourth removes most of what there is, with what it adds still fewer; it and the third and the
        // fifth take in entries that waited.
        let exchanges = [(0, 4, 3), (1, 0, 5), (0, 3, 0), (0, 24, 8), (0, 2, 2), (1, 1, 0)];
        for (step, (place, gone, count)) in exchanges.into_iter().enumerate() {
            life.exchange(place, gone, count);
            life.check(&format!("{metric}, exchange {step}"));
            if step % 2 == 1 {
                life.add(0, 2, true);
                life.home.reopen();
            }
        }
    }
}

#[test]
fn what_a_reader_sees_is_the_same_after_reopening() {
    let mut life = Life::new(Metric::Cosine, 310);
    for step in 0..24 {
        life.step(step);
        let before = dump(&life.home.snapshot());
        life.home.reopen();
        assert_eq!(dump(&life.home.snapshot()), before, "step {step}");
    }
}

#[test]
fn a_bank_of_which_most_was_removed_is_compacted() {
    let mut life = Life::new(Metric::Cosine, 311);
    life.add(0, 30, true);
    life.remove(0, 45);
    life.check("after most was removed");
    let numbers = |home: &Home| -> Vec<u32> {
        home.snapshot().entries_spread(&name("queries"), usize::MAX).iter().map(|entry| entry.0).collect()
    };
    assert_eq!(numbers(&life.home), (0..15).collect::<Vec<u32>>(), "numbered anew");
    life.remove(0, 1);
    assert_eq!(numbers(&life.home).len(), 14);
    assert_eq!(numbers(&life.home).last(), Some(&14), "numbers stay while most entries do");
    life.add(0, 3, false);
    life.home.reopen();
    life.check("grown again");
}

#[test]
fn an_empty_bank_has_no_say() {
    let home = Home::new(config(2, Metric::Dot));
    home.upsert(&points(0, &[vec![3.0, 0.0], vec![2.0, 1.0]]));
    home.add(&queries("queries", &[vec![1.0, 0.0]]));
    home.add(&gallery("gallery", 7, &[vec![0.0, 1.0]]));
    home.fit(&["IS(beta=2)", "ZScore", "DIS(beta=2,k=1)"]);
    let selector = EntrySelector::Numbers(vec![0, 0, 5]);
    let receipt = home.collection().remove_from_bank(&name("queries"), &selector).expect("a removal");
    assert_eq!(receipt.deleted, 1, "an entry goes once");
    let found = biases(&home.snapshot());
    assert!(found.columns[&("IS(beta=2)".to_owned(), 0)].values().all(|&value| value == 0.0));
    assert!(found.columns[&("ZScore".to_owned(), 1)].values().all(|&value| value == 1.0));
    assert!(found.gates.values().all(std::collections::BTreeSet::is_empty));
    home.add(&queries("queries", &[vec![1.0, 0.0]]));
    let value = biases(&home.snapshot()).columns[&("IS(beta=2)".to_owned(), 0)][&PointId::Number(0)];
    assert!((value - 3.0).abs() < 1e-6, "{value}");
}

/// A bank large enough for two shards loses entries of both.
#[test]
fn a_large_bank_loses_entries_of_any_shard() {
    let mut numbers = Numbers(313);
    let (vectors, gallery) = (numbers.vectors(4300, 4), numbers.vectors(12, 4));
    let labels = ["IS(beta=20)", "ZScore", "NNN(alpha=1.0,k=5)", "DIS(beta=20,k=1)"];
    let gone: Vec<u32> = vec![0, 1, 4095, 4096, 4250];
    let fitted = |vectors: &[Vec<f32>]| {
        let home = Home::new(config(4, Metric::Cosine));
        home.upsert(&points(0, &gallery));
        home.add(&queries("queries", vectors));
        home.fit(&labels);
        home
    };
    let home = fitted(&vectors);
    home.collection()
        .remove_from_bank(&name("queries"), &EntrySelector::Numbers(gone.clone()))
        .expect("a removal");
    let left: Vec<Vec<f32>> = (0_u32..)
        .zip(&vectors)
        .filter(|(at, _)| !gone.contains(at))
        .map(|(_, vector)| vector.clone())
        .collect();
    let fresh = fitted(&left);
    assert_same_biases(&biases(&home.snapshot()), &biases(&fresh.snapshot()), 1e-6, "five removed");
}

/// Points that come while entries wait are fitted as those that were there.
#[test]
fn all_points_agree_on_what_a_correction_has_taken_in() {
    let mut numbers = Numbers(312);
    let (early, late) = (numbers.vectors(20, DIM), numbers.vectors(20, DIM));
    let (seen, unseen) = (numbers.vectors(12, DIM), numbers.vectors(9, DIM));
    let labels = ["IS(beta=20)", "NNN(alpha=1.0,k=3)", "DIS(beta=20,k=2)", "SN(tau=0.5,n=3)"];
    let mut waiting = Home::new(config(DIM, Metric::Cosine));
    let plain = Home::new(config(DIM, Metric::Cosine));
    for home in [&waiting, &plain] {
        home.upsert(&points(0, &early));
        home.add(&queries("queries", &seen));
        home.fit(&labels);
    }
    waiting.add(&BankUpdate { defer: true, ..queries("queries", &unseen) });
    for home in [&waiting, &plain] {
        home.upsert(&points(20, &late));
        home.delete([3]);
    }
    assert_same_biases(&biases(&waiting.snapshot()), &biases(&plain.snapshot()), 0.0, "the same, to the bit");
    waiting.reopen();
    let snapshot = waiting.snapshot();
    assert!(snapshot.corrections().all(|correction| correction.info().stale == unseen.len()));
    assert_eq!(snapshot.bank("queries").map(|bank| bank.entries), Some(21));
    assert_same_biases(&biases(&snapshot), &biases(&plain.snapshot()), 0.0, "opened again");
    drop(snapshot);
    waiting.fit(&["IS(beta=7)"]);
    assert!(waiting.snapshot().corrections().all(|it| it.info().stale == 0), "a fit takes in every entry");
    plain.add(&queries("queries", &unseen));
    plain.fit(&["IS(beta=7)"]);
    assert_same_biases(&biases(&waiting.snapshot()), &biases(&plain.snapshot()), 1e-6, "taken in");
}

/// What an interrupted write left behind where later entries and weights will be.
#[test]
fn leftovers_of_an_interrupted_write_have_no_weight() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let open = || dehub_index::Catalogue::new(folder.path()).get(&name("x")).expect("it opens");
    let made =
        dehub_index::Catalogue::new(folder.path()).create(&name("x"), config(2, Metric::Dot)).expect("free");
    made.add_to_bank(&update(BankKind::Query, vec![entry(1, &[1.0, 0.0], 3.0)], false)).expect("good");
    drop(made);
    // Bank 0 has weight table 1; the next numbers are 2 and 3.
    let families: Vec<Family> = [
        "meta",
        "ids",
        "points",
        "vectors",
        "banks",
        "entries",
        "corrections",
        "sets",
        "states",
        "potentials",
        "weights",
    ]
    .map(Family::new)
    .to_vec();
    let weights = Family::new("weights");
    {
        let store =
            Store::open(&store_folder(&folder.path().join("collections/x")), &families).expect("closed");
        let mut batch = Batch::default();
        for (table, slot) in [(1_u32, 1_u32), (1, 2), (2, 0), (3, 0), (3, 1)] {
            let key = [table.to_be_bytes(), slot.to_be_bytes()].concat();
            batch.put(weights, &key, &9.0_f32.to_le_bytes());
        }
        store.commit(batch, Durability::Relaxed).expect("writable");
    }
    let collection = open();
    collection.add_to_bank(&queries("queries", &[vec![0.0, 1.0], vec![0.0, 2.0]])).expect("good");
    collection
        .add_to_bank(&update(BankKind::Gallery, vec![entry(4, &[1.0, 1.0], 0.5)], false))
        .expect("good");
    collection.add_to_bank(&gallery("gallery", 5, &[vec![1.0, 2.0]])).expect("good");
    let weights = || -> Vec<f64> { open_weights(&collection) };
    assert_eq!(weights(), [1.5, 5.0]);
    drop(collection);
    assert_eq!(open_weights(&open()), [1.5, 5.0]);
}

fn open_weights(collection: &dehub_index::Collection) -> Vec<f64> {
    collection.snapshot().banks().map(|bank| bank.weight).collect()
}

#[test]
fn the_hash_is_that_of_the_entries_there_are_and_weight_1_is_none() {
    let home = Home::new(config(2, Metric::Dot));
    let hash = |bank: &str| home.snapshot().bank(bank).expect("it is there").hash.clone();
    let of = |bank: &str, weights: &[f32]| {
        let entries = weights.iter().map(|&weight| entry_of(weight)).collect();
        home.add(&BankUpdate { name: name(bank), kind: BankKind::Query, entries, defer: false });
    };
    fn entry_of(weight: f32) -> EntryInput {
        EntryInput { id: None, vector: vec![1.0, 2.0].into(), weight }
    }
    home.add(&queries("plain", &[vec![1.0, 2.0], vec![1.0, 2.0]]));
    of("ones", &[1.0, 1.0]);
    of("heavy", &[1.0, 2.0]);
    of("shrunk", &[1.0, 2.0, 1.0, 1.0]);
    assert_eq!(hash("ones"), hash("plain"));
    assert_ne!(hash("heavy"), hash("plain"));
    let remove = |numbers: Vec<u32>| {
        home.collection()
            .remove_from_bank(&name("shrunk"), &EntrySelector::Numbers(numbers))
            .expect("a removal")
    };
    remove(vec![2, 3]);
    assert_eq!(hash("shrunk"), hash("heavy"));
    remove(vec![1]);
    of("one", &[1.0]);
    assert_eq!(hash("shrunk"), hash("one"));
}
