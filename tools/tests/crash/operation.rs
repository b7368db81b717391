//! Operations as functions of a stream and a number.

use std::collections::BTreeMap;

use dehub_index::{BankUpdate, Collection, EntryInput, EntrySelector, FitInput, Name, Payload, PointInput};
use dehub_normalize::BankKind;
use dehub_vector::PointId;

pub(crate) const DIM: usize = 8;
/// Streams of points, each over its own ids, so that writes of several threads can be told apart.
pub(crate) const POINT_STREAMS: u64 = 2;
/// Ids of a stream: few, so that most upserts replace.
const IDS: u64 = 150;
const BANK: &str = "queries";
const LABELS: [&str; 4] = ["IS(beta=20)", "NNN(alpha=1.0,k=3)", "DIS(beta=20,k=1)", "CSLS(k=2)"];

/// Numbers that look random and are the same for the same seed (SplitMix64).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(parts: &[u64]) -> Numbers {
        let mut numbers = Numbers(0);
        for part in parts {
            numbers.0 = numbers.0.wrapping_add(*part);
            numbers.0 = numbers.bits();
        }
        numbers
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// Whole numbers, whose bits tell them apart, and no vector without a direction.
    fn vector(&mut self) -> Vec<f32> {
        let mut vector: Vec<f32> = (0..DIM).map(|_| self.below(31) as f32 - 10.0).collect();
        vector[0] += 32.0;
        vector
    }
}

/// What one thread of the child does, one operation after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    Points(u64),
    Bank,
    Fits,
}

impl Stream {
    pub(crate) fn all() -> impl Iterator<Item = Stream> {
        (0..POINT_STREAMS).map(Stream::Points).chain([Stream::Bank, Stream::Fits])
    }

    pub(crate) fn name(self) -> String {
        match self {
            Stream::Points(number) => format!("points-{number}"),
            Stream::Bank => "bank".to_owned(),
            Stream::Fits => "fits".to_owned(),
        }
    }
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operation {
    Upsert(BTreeMap<u64, (Vec<f32>, u64)>),
    Delete(Vec<u64>),
    /// Takes entries away and adds others, in one commit.
    Exchange {
        removed: Vec<u64>,
        added: BTreeMap<u64, Vec<f32>>,
        deferred: bool,
    },
    RemoveEntries(Vec<u64>),
    /// Halves the weights, and drops entries that weigh less than a quarter.
    Decay,
    Absorb,
    Fit(usize),
    Drop(usize),
}

impl Operation {
    /// Operation `number` of a stream.
    pub(crate) fn new(seed: u64, stream: Stream, number: u64) -> Operation {
        match stream {
            Stream::Points(which) => points(seed, which, number),
            Stream::Bank => entries(&mut Numbers::new(&[seed, 100, number]), number),
            Stream::Fits => match number % 7 {
                6 => Operation::Drop(Numbers::new(&[seed, 101, number]).below(4) as usize),
                other => Operation::Fit((other % 4) as usize),
            },
        }
    }

    pub(crate) fn apply(&self, collection: &Collection) {
        match self {
            Operation::Upsert(points) => {
                let points: Vec<PointInput> = points.iter().map(point).collect();
                _ = collection.upsert(&points).expect("good points");
            }
            Operation::Delete(gone) => _ = collection.delete(&ids(gone)).expect("a delete"),
            Operation::Exchange { removed, added, deferred: false } => {
                _ = collection.exchange_in_bank(&bank(), &ids(removed), inputs(added)).expect("an exchange");
            }
            Operation::Exchange { added, deferred: true, .. } => {
                let (name, kind, entries) = (bank(), BankKind::Query, inputs(added));
                let update = BankUpdate { name, kind, entries, defer: true };
                _ = collection.add_to_bank(&update).expect("good entries");
            }
            Operation::RemoveEntries(gone) => {
                let gone = EntrySelector::Ids(ids(gone));
                _ = collection.remove_from_bank(&bank(), &gone).expect("a removal");
            }
            Operation::Decay => _ = collection.scale_bank(&bank(), 0.5, 0.25).expect("a decay"),
            Operation::Absorb => _ = collection.absorb(&bank()).expect("an absorption"),
            Operation::Fit(which) => _ = collection.fit(&[fit(*which)]).expect("a fit"),
            Operation::Drop(which) => {
                // It may not be there: then nothing is dropped.
                _ = collection.drop_correction(&fit(*which).name);
            }
        }
    }
}

fn points(seed: u64, stream: u64, number: u64) -> Operation {
    let mut numbers = Numbers::new(&[seed, stream, number]);
    let id = |numbers: &mut Numbers| stream * IDS + numbers.below(IDS);
    if number % 5 == 4 {
        return Operation::Delete((0..4).map(|_| id(&mut numbers)).collect());
    }
    let count = if number.is_multiple_of(13) { 120 } else { 1 + numbers.below(5) };
    Operation::Upsert((0..count).map(|_| (id(&mut numbers), (numbers.vector(), number))).collect())
}

fn entries(numbers: &mut Numbers, number: u64) -> Operation {
    // Each number gives entries of its own ids, so that none is there twice.
    let added =
        |numbers: &mut Numbers, count| (0..count).map(|at| (8 * number + at, numbers.vector())).collect();
    let early = |numbers: &mut Numbers| {
        (0..6).map(|_| 8 * numbers.below(number + 1) + numbers.below(3)).collect::<Vec<u64>>()
    };
    match number % 9 {
        // The first operation makes the bank large enough for every method.
        0 => Operation::Exchange { removed: Vec::new(), added: added(numbers, 8), deferred: number == 0 },
        1 | 5 => Operation::Exchange { removed: Vec::new(), added: added(numbers, 2), deferred: true },
        2 => Operation::Absorb,
        3 => Operation::RemoveEntries(early(numbers)),
        7 if number % 4 == 3 => Operation::Decay,
        _ => Operation::Exchange { removed: early(numbers), added: added(numbers, 3), deferred: false },
    }
}

fn point((&id, (vector, number)): (&u64, &(Vec<f32>, u64))) -> PointInput {
    let payload = Payload::parse(&format!("{{\"number\":{number}}}")).expect("an object");
    PointInput {
        id: PointId::Number(id),
        vector: vector.clone().into(),
        named: Vec::new(),
        payload: Some(payload),
        text: Some(format!("common id{id} number{number}")),
    }
}

fn ids(ids: &[u64]) -> Vec<PointId> {
    ids.iter().copied().map(PointId::Number).collect()
}

fn inputs(entries: &BTreeMap<u64, Vec<f32>>) -> Vec<EntryInput> {
    entries.iter().map(|(&id, vector)| EntryInput::new(Some(PointId::Number(id)), vector.clone())).collect()
}

pub(crate) fn bank() -> Name {
    BANK.parse().expect("a good name")
}

/// A correction named as its label.
pub(crate) fn fit(which: usize) -> FitInput {
    let label = LABELS[which];
    let (name, method) = (label.parse().expect("a good name"), label.parse().expect("a label"));
    FitInput { name, method, query_bank: Some(bank()), gallery_bank: None }
}
