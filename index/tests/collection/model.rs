//! What a collection stands for: ordered maps, and plain sums in f64. Steps that change both, and what must be equal
//! after each.

use std::collections::{BTreeMap, BTreeSet};

use dehub_index::{
    BankUpdate, Collection, DefaultCorrection, Durability, EntryInput, EntrySelector, FieldKind, FieldValue,
    FitProgress, HubRule, Payload, PayloadChange, PayloadPath, PointInput, Quantization, Question, Snapshot,
    Variant, WriteError,
};
use dehub_normalize::{BankKind, Method, Statistic, Term};
use dehub_vector::{Metric, PointId, Vector};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::json;

use crate::made::{Numbers, fit, gallery, ids, name, point, queries};
use crate::reference::{log_sum_exp, similarity, top_mean};

pub(crate) const STEPS_MAX: usize = 18;
pub(crate) const DIM: usize = 2;
const IDS: u64 = 12;
/// Ids of the points that come all at once.
const CROWD: std::ops::Range<u64> = 1000..1300;
/// Fields of payloads.
const FIELDS: [&str; 2] = ["f", "g"];
const LABELS: [&str; 5] =
    ["IS(beta=2)", "NNN(alpha=0.5,k=2)", "DualIS(b1=1,b2=3)", "DIS(beta=2,k=1)", "DualDIS(b1=2,b2=1,k=2)"];
const PRIOR: &str = "popularity";
const PRIOR_WEIGHT: f32 = 0.5;
/// A walk this wide meets every point of a small graph.
const EFFORT: usize = 4096;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Upsert(BTreeMap<u64, Vec<f32>>),
    /// So many points that a fit may be done in pieces.
    UpsertCrowd,
    Delete(Vec<u64>),
    /// Sets a field of payloads to a number, or takes it away.
    SetField(Vec<u64>, usize, Option<i64>),
    ClearPayloads(Vec<u64>),
    /// Keeps a field in memory, or no more.
    IndexField(usize, bool),
    /// Vectors with their weights, and whether corrections take them in later.
    AddQueries(Vec<(Vec<f32>, u8)>, bool),
    AddReferences(Vec<(Vec<f32>, u8)>, bool),
    RemoveQueries(Vec<u32>),
    RemoveReferences(Vec<u64>),
    /// Removes the references with these ids, and adds others.
    Exchange(Vec<u64>, Vec<(Vec<f32>, u8)>),
    Absorb(bool),
    /// Halves weights and drops those below 1.
    Decay(bool),
    Fit(usize),
    /// In pieces that are kept, if there are many points.
    FitInPieces(usize),
    Drop(usize),
    DropBank(bool),
    SetDefault(usize),
    ClearDefault,
    /// Holds every new point, or none of them.
    SetQuarantine(usize, bool),
    EndQuarantine,
    ReleaseAll,
    /// Values of the prior, which is made if it is not there.
    SetPrior(BTreeMap<u64, i8>),
    UnsetPrior(Vec<u64>),
    DropPrior,
    BuildGraph,
    Freeze,
    Quantize(usize),
    SetDurability(Durability),
    Reopen,
    /// Of the commits that are not synced, so many at most remain.
    CutPower(usize),
}

/// Small whole numbers: similarities are exact, and ties and copies are everywhere.
fn vector() -> impl Strategy<Value = Vec<f32>> {
    vec((-2_i8..=2).prop_map(f32::from), DIM)
}

fn entries() -> impl Strategy<Value = Vec<(Vec<f32>, u8)>> {
    vec((vector(), prop_oneof![2 => Just(1_u8), 1 => prop::sample::select(vec![2_u8, 4])]), 0..4)
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let label = || 0..LABELS.len();
    prop_oneof![
        6 => prop::collection::btree_map(0..IDS, vector(), 1..5).prop_map(Step::Upsert),
        3 => vec(0..IDS, 0..4).prop_map(Step::Delete),
        3 => (vec(0..IDS, 0..5), 0..FIELDS.len(), prop::option::of(-2_i64..3))
            .prop_map(|(ids, field, value)| Step::SetField(ids, field, value)),
        1 => vec(0..IDS, 0..4).prop_map(Step::ClearPayloads),
        1 => (0..FIELDS.len(), any::<bool>()).prop_map(|(field, keeps)| Step::IndexField(field, keeps)),
        3 => (entries(), any::<bool>()).prop_map(|(entries, defer)| Step::AddQueries(entries, defer)),
        3 => (entries(), any::<bool>()).prop_map(|(entries, defer)| Step::AddReferences(entries, defer)),
        2 => vec(0_u32..8, 0..4).prop_map(Step::RemoveQueries),
        2 => vec(0_u64..8, 0..4).prop_map(Step::RemoveReferences),
        2 => (vec(0_u64..8, 0..4), entries()).prop_map(|(gone, new)| Step::Exchange(gone, new)),
        1 => any::<bool>().prop_map(Step::Absorb),
        1 => any::<bool>().prop_map(Step::Decay),
        4 => label().prop_map(Step::Fit),
        1 => label().prop_map(Step::Drop),
        1 => any::<bool>().prop_map(Step::DropBank),
        1 => label().prop_map(Step::SetDefault),
        1 => Just(Step::ClearDefault),
        1 => (label(), any::<bool>()).prop_map(|(label, holds)| Step::SetQuarantine(label, holds)),
        1 => Just(Step::EndQuarantine),
        1 => Just(Step::ReleaseAll),
        2 => prop::collection::btree_map(0..IDS, -4_i8..=4, 1..3).prop_map(Step::SetPrior),
        1 => vec(0..IDS, 0..4).prop_map(Step::UnsetPrior),
        1 => Just(Step::DropPrior),
        1 => Just(Step::BuildGraph),
        1 => Just(Step::Freeze),
        1 => (0..Quantization::ALL.len()).prop_map(Step::Quantize),
        1 => prop::sample::select(vec![Durability::Strict, Durability::Relaxed]).prop_map(Step::SetDurability),
        2 => Just(Step::Reopen),
        2 => (0_usize..6).prop_map(Step::CutPower),
    ]
}

/// Steps, and a query to compare the answers to.
pub(crate) fn script() -> impl Strategy<Value = (Vec<Step>, Vec<f32>)> {
    (vec(step(), 1..=STEPS_MAX), vector())
}

/// One step of every kind, on a collection that has what each needs.
pub(crate) fn every_kind() -> Vec<Step> {
    let entries = |numbers: &[(f32, f32, u8)]| -> Vec<(Vec<f32>, u8)> {
        numbers.iter().map(|&(x, y, weight)| (vec![x, y], weight)).collect()
    };
    let batch = |first: u64, vectors: &[[f32; 2]]| {
        Step::Upsert((first..).zip(vectors).map(|(id, vector)| (id, vector.to_vec())).collect())
    };
    vec![
        batch(0, &[[1.0, 0.0], [2.0, 1.0], [-1.0, 2.0], [1.0, 0.0]]),
        Step::SetField(vec![0, 2, 9], 0, Some(1)),
        Step::IndexField(0, true),
        Step::SetPrior([(0, 3), (1, -2), (2, 1)].into()),
        Step::AddQueries(entries(&[(1.0, 1.0, 1), (2.0, -1.0, 2), (0.0, 1.0, 1)]), false),
        Step::AddReferences(entries(&[(1.0, 0.0, 1), (2.0, 1.0, 4), (0.0, 2.0, 1)]), false),
        Step::Fit(0),
        Step::Fit(4),
        Step::SetDefault(0),
        Step::AddQueries(entries(&[(-1.0, 1.0, 2)]), true),
        Step::Freeze,
        batch(2, &[[0.0, 1.0], [2.0, 2.0], [-2.0, 1.0]]),
        Step::Absorb(true),
        Step::Exchange(vec![0, 1], entries(&[(2.0, 2.0, 2), (1.0, -1.0, 1)])),
        Step::Decay(true),
        Step::Reopen,
        Step::SetQuarantine(0, true),
        batch(4, &[[1.0, 1.0], [2.0, 0.0]]),
        Step::SetField(vec![0, 4], 0, Some(2)),
        Step::ReleaseAll,
        Step::EndQuarantine,
        Step::RemoveQueries(vec![0]),
        Step::RemoveReferences(vec![2]),
        Step::Quantize(0),
        Step::BuildGraph,
        Step::SetDurability(Durability::Relaxed),
        Step::ClearPayloads(vec![0, 4]),
        Step::SetPrior([(0, -1), (3, 4)].into()),
        Step::UnsetPrior(vec![3, 2]),
        Step::Delete(vec![1, 5]),
        Step::IndexField(0, false),
        Step::SetDurability(Durability::Strict),
        Step::ClearDefault,
        Step::DropPrior,
        Step::Drop(0),
        Step::Drop(4),
        Step::DropBank(true),
        Step::DropBank(false),
    ]
}

/// A fit that keeps what it has done, begun and completed.
pub(crate) fn in_pieces() -> Vec<Step> {
    let entries = vec![(vec![1.0, 1.0], 1), (vec![2.0, -1.0], 2), (vec![0.0, 1.0], 1)];
    let crowd =
        [Step::UpsertCrowd, Step::AddQueries(entries.clone(), false), Step::AddReferences(entries, false)];
    let fits =
        [Step::FitInPieces(0), Step::Delete(vec![1003]), Step::FitInPieces(4), Step::Reopen, Step::Drop(4)];
    crowd.into_iter().chain(fits).collect()
}

#[derive(Debug, Clone)]
struct Entry {
    vector: Vec<f32>,
    /// A power of two, so that half of it is exact.
    weight: u8,
    /// Of a reference: the ids below `IDS` are points, when those exist.
    id: u64,
    /// Whether corrections have not taken it in.
    is_deferred: bool,
}

/// A bank: an entry is found by its place, until most places are empty.
#[derive(Debug, Clone, Default)]
struct Slots(Vec<Option<Entry>>);

impl Slots {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flatten()
    }

    fn weight(&self) -> usize {
        self.entries().map(|entry| usize::from(entry.weight)).sum()
    }

    fn deferred(&self) -> usize {
        self.entries().filter(|entry| entry.is_deferred).count()
    }

    fn add(&mut self, entries: &[(Vec<f32>, u8)], ids: &[u64], is_deferred: bool) {
        if !entries.is_empty() && !is_deferred {
            self.take_in();
        }
        let entry = |((vector, weight), &id): (&(Vec<f32>, u8), &u64)| {
            Some(Entry { vector: vector.clone(), weight: *weight, id, is_deferred })
        };
        self.0.extend(entries.iter().zip(ids).map(entry));
    }

    fn take_in(&mut self) {
        self.0.iter_mut().flatten().for_each(|entry| entry.is_deferred = false);
    }

    /// Removes entries; says how many.
    fn remove(&mut self, gone: impl Fn(u32, &Entry) -> bool) -> usize {
        let before = self.entries().count();
        for (place, slot) in (0..).zip(&mut self.0) {
            if slot.as_ref().is_some_and(|entry| gone(place, entry)) {
                *slot = None;
            }
        }
        let left = self.entries().count();
        if left < before {
            self.take_in();
        }
        if 2 * left < self.0.len() {
            self.0.retain(Option::is_some);
        }
        before - left
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// Id → row and vector. Every write of a point takes the next row.
    points: BTreeMap<u64, (u32, Vec<f32>)>,
    next_row: u32,
    queries: Option<Slots>,
    references: Option<Slots>,
    fitted: BTreeSet<&'static str>,
    default: Option<&'static str>,
    /// The correction that new points are tested by, and whether all of them are held, or none.
    rule: Option<(&'static str, bool)>,
    held: BTreeMap<u64, Vec<f32>>,
    /// Of points and held ones, those that have any.
    payloads: BTreeMap<u64, BTreeMap<&'static str, i64>>,
    indexed: BTreeSet<&'static str>,
    /// Id → value of the prior, if there is one.
    prior: Option<BTreeMap<u64, i8>>,
    pub(crate) durability: Durability,
}

/// A step that the collection refuses, as it cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

impl Model {
    fn slots(&mut self, kind: BankKind) -> &mut Option<Slots> {
        match kind {
            BankKind::Query => &mut self.queries,
            BankKind::Gallery => &mut self.references,
        }
    }

    fn bank(&self, kind: BankKind) -> Slots {
        let bank = match kind {
            BankKind::Query => &self.queries,
            BankKind::Gallery => &self.references,
        };
        bank.clone().unwrap_or_default()
    }

    /// What corrections have taken in.
    fn absorbed(&self, kind: BankKind) -> Vec<Entry> {
        self.bank(kind).entries().filter(|entry| !entry.is_deferred).cloned().collect()
    }

    fn may_fit(&self, method: Method) -> bool {
        let fits = |term: &Term| {
            let bank = self.bank(term.bank);
            let entries = bank.entries().count();
            let least = term.statistic.neighbours().unwrap_or(1);
            entries > 0 && entries.max(bank.weight()) >= least
        };
        method.terms(Metric::Dot).iter().all(fits) && method.gate().is_none_or(|k| k <= self.points.len())
    }

    /// The similarities of a point to a bank, without the entry that it is, each as often as its entry
    /// counts.
    fn similarities(&self, kind: BankKind, id: u64) -> Vec<f64> {
        let entries = self.absorbed(kind).into_iter();
        let others = entries.filter(|entry| kind == BankKind::Query || entry.id != id);
        let copies = |entry: Entry| {
            vec![similarity(Metric::Dot, &self.points[&id].1, &entry.vector); entry.weight.into()]
        };
        others.flat_map(copies).collect()
    }

    fn bias(&self, term: Term, id: u64) -> f64 {
        let similarities = self.similarities(term.bank, id);
        if similarities.is_empty() {
            0.0
        } else if let Statistic::LogSumExp { beta } = term.statistic {
            log_sum_exp(beta, &similarities)
        } else if let Statistic::TopMean { k } = term.statistic {
            top_mean(k, &similarities)
        } else {
            panic!("{} is not among the model's methods", term.statistic)
        }
    }

    /// Ids by the order of a full sort of exact scores, ties by the lower row.
    fn order(&self, vector: &[f32], leave_out: Option<u64>) -> Vec<u64> {
        let mut order: Vec<u64> = self.points.keys().copied().filter(|&id| Some(id) != leave_out).collect();
        // A sum of -0.0 is one of 0.0.
        let score = |id: &u64| similarity(Metric::Dot, vector, &self.points[id].1) + 0.0;
        order.sort_by(|a, b| score(b).total_cmp(&score(a)).then(self.points[a].0.cmp(&self.points[b].0)));
        order
    }

    fn activated(&self, kind: BankKind, k: usize) -> BTreeSet<u64> {
        let own = |entry| (kind == BankKind::Gallery).then_some(entry);
        let best = |entry: Entry| self.order(&entry.vector, own(entry.id)).into_iter().take(k);
        self.absorbed(kind).into_iter().flat_map(best).collect()
    }
}

impl Model {
    /// What becomes of it, and how many points or entries the collection says were removed or changed, if it says so.
    pub(crate) fn take(&mut self, step: &Step) -> Result<Option<usize>, Refused> {
        match step {
            Step::Upsert(batch) => self.upsert(batch),
            Step::UpsertCrowd => self.upsert(&crowd()),
            Step::Delete(gone) => {
                self.payloads.retain(|id, _| !gone.contains(id));
                let is_gone = |id: &&u64| self.points.remove(id).is_some() || self.held.remove(id).is_some();
                let count = gone.iter().filter(is_gone).count();
                self.forget_priors();
                return Ok(Some(count));
            }
            Step::SetField(ids, field, value) => {
                return Ok(Some(self.change_payloads(ids, |payload| match value {
                    Some(value) => _ = payload.insert(FIELDS[*field], *value),
                    None => _ = payload.remove(FIELDS[*field]),
                })));
            }
            Step::ClearPayloads(ids) => return Ok(Some(self.change_payloads(ids, BTreeMap::clear))),
            Step::IndexField(field, true) => _ = self.indexed.insert(FIELDS[*field]),
            Step::IndexField(field, false) => _ = self.indexed.remove(FIELDS[*field]),
            Step::AddQueries(entries, defer) => {
                self.queries.get_or_insert_default().add(entries, &[0; 4], *defer);
            }
            Step::AddReferences(entries, defer) => {
                let ids = self.new_references(&[], entries.len());
                self.references.get_or_insert_default().add(entries, &ids, *defer);
            }
            Step::RemoveQueries(numbers) => {
                let bank = self.queries.as_mut().ok_or(Refused)?;
                return Ok(Some(bank.remove(|place, _| numbers.contains(&place))));
            }
            Step::RemoveReferences(gone) => {
                let bank = self.references.as_mut().ok_or(Refused)?;
                return Ok(Some(bank.remove(|_, entry| gone.contains(&entry.id))));
            }
            Step::Exchange(gone, entries) => {
                let ids = self.new_references(gone, entries.len());
                let bank = self.references.as_mut().ok_or(Refused)?;
                let removed = bank.remove(|_, entry| gone.contains(&entry.id));
                bank.add(entries, &ids, false);
                return Ok(Some(removed));
            }
            Step::Absorb(of_queries) => self.existing(*of_queries)?.take_in(),
            Step::Decay(of_queries) => {
                let bank = self.existing(*of_queries)?;
                bank.take_in();
                let removed = bank.remove(|_, entry| entry.weight < 2);
                bank.0.iter_mut().flatten().for_each(|entry| entry.weight /= 2);
                return Ok(Some(removed));
            }
            Step::Fit(place) | Step::FitInPieces(place) => self.fit(LABELS[*place])?,
            Step::Drop(place) => self.drop_fitted(LABELS[*place])?,
            Step::SetDefault(place) => self.default = Some(self.fitted_label(*place)?),
            Step::SetQuarantine(place, holds) => self.rule = Some((self.fitted_label(*place)?, *holds)),
            Step::DropBank(of_queries) => {
                let (kind, _) = kind_and_bank(*of_queries);
                let is_used = self.fitted.iter().any(|label| fit(label).method.uses(kind));
                self.slots(kind).take_if(|_| !is_used).ok_or(Refused)?;
            }
            Step::ClearDefault => self.default = None,
            Step::EndQuarantine => self.rule = None,
            Step::ReleaseAll => {
                let held = std::mem::take(&mut self.held);
                self.write_points(&held);
            }
            Step::SetPrior(values) => {
                if !values.keys().all(|id| self.points.contains_key(id)) {
                    return Err(Refused);
                }
                self.prior.get_or_insert_default().extend(values);
            }
            Step::UnsetPrior(gone) => {
                let prior = self.prior.as_mut().ok_or(Refused)?;
                return Ok(Some(gone.iter().filter(|id| prior.remove(id).is_some()).count()));
            }
            Step::DropPrior => _ = self.prior.take().ok_or(Refused)?,
            Step::SetDurability(durability) => self.durability = *durability,
            Step::BuildGraph | Step::Freeze | Step::Quantize(_) | Step::Reopen | Step::CutPower(_) => {}
        }
        Ok(None)
    }

    fn fit(&mut self, label: &'static str) -> Result<(), Refused> {
        let method = fit(label).method;
        if !self.may_fit(method) {
            return Err(Refused);
        }
        let used = [BankKind::Query, BankKind::Gallery].into_iter().filter(|&kind| method.uses(kind));
        used.for_each(|kind| self.slots(kind).iter_mut().for_each(Slots::take_in));
        self.fitted.insert(label);
        Ok(())
    }

    fn drop_fitted(&mut self, label: &'static str) -> Result<(), Refused> {
        let is_used = self.default == Some(label) || self.rule.is_some_and(|(tested, _)| tested == label);
        if is_used || !self.fitted.remove(label) { Err(Refused) } else { Ok(()) }
    }

    fn fitted_label(&self, place: usize) -> Result<&'static str, Refused> {
        self.fitted.get(LABELS[place]).copied().ok_or(Refused)
    }

    fn existing(&mut self, of_queries: bool) -> Result<&mut Slots, Refused> {
        self.slots(kind_and_bank(of_queries).0).as_mut().ok_or(Refused)
    }

    /// Ids for new references, once those with the ids `gone` are removed.
    fn new_references(&self, gone: &[u64], count: usize) -> Vec<u64> {
        let bank = self.bank(BankKind::Gallery);
        let is_taken = |id: &u64| bank.entries().any(|entry| entry.id == *id) && !gone.contains(id);
        (0..).filter(|id| !is_taken(id)).take(count).collect()
    }

    /// Changes the payloads of the points there are; says how many.
    fn change_payloads(&mut self, ids: &[u64], change: impl Fn(&mut BTreeMap<&'static str, i64>)) -> usize {
        let is_there = |id: &&u64| self.points.contains_key(id) || self.held.contains_key(id);
        let found: BTreeSet<u64> = ids.iter().filter(is_there).copied().collect();
        found.iter().for_each(|&id| change(self.payloads.entry(id).or_default()));
        self.payloads.retain(|_, payload| !payload.is_empty());
        found.len()
    }

    fn upsert(&mut self, batch: &BTreeMap<u64, Vec<f32>>) {
        // The points of a batch come without payloads.
        self.payloads.retain(|id, _| !batch.contains_key(id));
        if self.rule.is_some_and(|(_, holds)| holds) {
            self.points.retain(|id, _| !batch.contains_key(id));
            self.held.extend(batch.clone());
            self.forget_priors();
        } else {
            self.held.retain(|id, _| !batch.contains_key(id));
            self.write_points(batch);
        }
    }

    /// A point that is gone has no prior.
    fn forget_priors(&mut self) {
        let points = &self.points;
        self.prior.iter_mut().for_each(|prior| prior.retain(|id, _| points.contains_key(id)));
    }

    /// Gives a point its next row, with a vector or without.
    pub(crate) fn put(&mut self, id: u64, vector: Option<Vec<f32>>) {
        match vector {
            Some(vector) => _ = self.points.insert(id, (self.next_row, vector)),
            None => _ = self.points.remove(&id),
        }
        self.next_row += 1;
    }

    /// The same with what points have beside vectors from the model of the whole collection.
    pub(crate) fn within(&self, whole: &Model) -> Model {
        let Model { payloads, indexed, prior, .. } = whole.clone();
        Model { payloads, indexed, prior, ..self.clone() }
    }

    pub(crate) fn vector(&self, id: u64) -> Option<&Vec<f32>> {
        self.points.get(&id).map(|(_, vector)| vector)
    }

    fn write_points(&mut self, batch: &BTreeMap<u64, Vec<f32>>) {
        for (&id, vector) in batch {
            self.points.insert(id, (self.next_row, vector.clone()));
            self.next_row += 1;
        }
    }
}

fn crowd() -> BTreeMap<u64, Vec<f32>> {
    let mut numbers = Numbers(5);
    let mut number = || numbers.below(5) as f32 - 2.0;
    CROWD.map(|id| (id, vec![number(), number()])).collect()
}

/// Does to the collection what the step says; `model` is the state before it. Says how many points or entries were
/// removed or changed, for the steps that do.
pub(crate) fn perform(
    collection: &Collection,
    model: &Model,
    step: &Step,
) -> Result<Option<usize>, WriteError> {
    let upsert = |batch: &BTreeMap<u64, Vec<f32>>| {
        collection.upsert(&batch.iter().map(|(&id, vector)| point(id, vector)).collect::<Vec<_>>())
    };
    match step {
        Step::Upsert(batch) => _ = upsert(batch)?,
        Step::UpsertCrowd => _ = upsert(&crowd())?,
        Step::Delete(gone) => return Ok(Some(collection.delete(&ids(gone.iter().copied()))?.deleted)),
        Step::SetField(ids_of, field, value) => {
            let fields = json!({ FIELDS[*field]: value });
            let fields = Payload::parse(&fields.to_string()).expect("an object");
            return Ok(Some(changed(collection, ids_of, &PayloadChange::Set { fields, key: None })?));
        }
        Step::ClearPayloads(ids_of) => return Ok(Some(changed(collection, ids_of, &PayloadChange::Clear)?)),
        Step::IndexField(field, true) => {
            _ = collection.index_payload(&path(FIELDS[*field]), FieldKind::Integer)?;
        }
        Step::IndexField(field, false) => _ = collection.drop_payload_index(&path(FIELDS[*field]))?,
        Step::AddQueries(entries, defer) => {
            _ = collection.add_to_bank(&update(queries("queries", &[]), entries, &[], *defer))?;
        }
        Step::AddReferences(entries, defer) => {
            let ids = model.new_references(&[], entries.len());
            _ = collection.add_to_bank(&update(gallery("gallery", 0, &[]), entries, &ids, *defer))?;
        }
        Step::RemoveQueries(numbers) => {
            let selector = EntrySelector::Numbers(numbers.clone());
            return Ok(Some(collection.remove_from_bank(&name("queries"), &selector)?.deleted));
        }
        Step::RemoveReferences(gone) => {
            let selector = EntrySelector::Ids(ids(gone.iter().copied()));
            return Ok(Some(collection.remove_from_bank(&name("gallery"), &selector)?.deleted));
        }
        Step::Exchange(gone, entries) => {
            let new = model.new_references(gone, entries.len());
            let added = update(gallery("gallery", 0, &[]), entries, &new, false).entries;
            let gone = ids(gone.iter().copied());
            return Ok(Some(collection.exchange_in_bank(&name("gallery"), &gone, added)?.deleted));
        }
        Step::Absorb(of_queries) => _ = collection.absorb(&name(kind_and_bank(*of_queries).1))?,
        Step::Decay(of_queries) => {
            let bank = name(kind_and_bank(*of_queries).1);
            return Ok(Some(collection.scale_bank(&bank, 0.5, 1.0)?.deleted));
        }
        Step::Fit(place) => _ = collection.fit(&[fit(LABELS[*place])])?,
        Step::FitInPieces(place) => {
            _ = collection.fit_with(&[fit(LABELS[*place])], &FitProgress::watched(1, |_| ()))?;
        }
        Step::Drop(place) => collection.drop_correction(&name(LABELS[*place]))?,
        Step::DropBank(of_queries) => collection.drop_bank(&name(kind_and_bank(*of_queries).1))?,
        Step::SetDefault(place) => {
            let snapshot = collection.snapshot();
            let version = snapshot.correction(LABELS[*place]).map_or(0, |it| it.info().version);
            let correction = name(LABELS[*place]);
            collection.set_default(&DefaultCorrection {
                correction,
                version,
                evidence: None,
                forced: true,
            })?;
        }
        Step::ClearDefault => _ = collection.clear_default()?,
        Step::SetQuarantine(place, holds) => {
            let rate = f64::from(u8::from(*holds));
            collection.set_quarantine(Some(&HubRule { correction: name(LABELS[*place]), rate }))?;
        }
        Step::EndQuarantine => collection.set_quarantine(None)?,
        Step::ReleaseAll => _ = collection.release(&ids(model.held.keys().copied()))?,
        Step::SetPrior(values) => {
            let value = |(&id, &value): (&u64, &i8)| (PointId::Number(id), f32::from(value));
            _ = collection.set_prior(&name(PRIOR), &values.iter().map(value).collect::<Vec<_>>())?;
        }
        Step::UnsetPrior(gone) => {
            let receipt = collection.unset_prior(&name(PRIOR), &ids(gone.iter().copied()))?;
            return Ok(Some(receipt.deleted));
        }
        Step::DropPrior => collection.drop_prior(&name(PRIOR))?,
        Step::BuildGraph => _ = collection.build_graph_if_due()?,
        Step::Freeze => _ = collection.freeze()?,
        Step::Quantize(place) => collection.set_quantization(Quantization::ALL[*place])?,
        Step::SetDurability(durability) => collection.set_durability(*durability)?,
        Step::Reopen | Step::CutPower(_) => {}
    }
    Ok(None)
}

fn path(field: &str) -> PayloadPath {
    field.parse().expect("a path")
}

fn changed(collection: &Collection, of: &[u64], change: &PayloadChange) -> Result<usize, WriteError> {
    let done = collection.change_payloads(&ids(of.iter().copied()), change)?;
    assert!(done.receipt.replaced + done.missing.len() <= of.len());
    Ok(done.receipt.replaced)
}

/// A write that always can be done, and changes nothing that is compared.
pub(crate) fn harmless_write(collection: &Collection) -> Result<(), WriteError> {
    collection.upsert(&[] as &[PointInput]).map(drop)
}

fn kind_and_bank(of_queries: bool) -> (BankKind, &'static str) {
    if of_queries { (BankKind::Query, "queries") } else { (BankKind::Gallery, "gallery") }
}

/// An update with weighted entries, which have these ids if any.
fn update(empty: BankUpdate, entries: &[(Vec<f32>, u8)], ids: &[u64], defer: bool) -> BankUpdate {
    let mut ids = ids.iter().map(|&id| PointId::Number(id));
    let entry = |(vector, weight): &(Vec<f32>, u8)| EntryInput {
        id: ids.next(),
        vector: vector.clone().into(),
        weight: f32::from(*weight),
    };
    BankUpdate { entries: entries.iter().map(entry).collect(), defer, ..empty }
}

pub(crate) fn compare(snapshot: &Snapshot, model: &Model, query: &[f32]) -> Result<(), TestCaseError> {
    prop_assert_eq!(snapshot.row_count(), model.next_row);
    let live: BTreeSet<u32> = model.points.values().map(|&(row, _)| row).collect();
    prop_assert_eq!(snapshot.rows().collect::<Vec<_>>(), live.into_iter().collect::<Vec<_>>());
    for id in (0..IDS).chain(CROWD.step_by(100)) {
        let found = snapshot.find(&PointId::Number(id));
        let found = found.map_err(|error| TestCaseError::fail(format!("id {id}: {error}")))?;
        prop_assert_eq!(found, model.points.get(&id).map(|&(row, _)| row));
    }
    let rows: Vec<u32> = model.points.values().map(|&(row, _)| row).collect();
    let kept = snapshot.points(&rows).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let kept: Vec<PointId> = kept.into_iter().map(|point| point.id).collect();
    prop_assert_eq!(kept, ids(model.points.keys().copied()));
    let held: Vec<(PointId, Vec<f32>)> =
        snapshot.quarantined().map(|held| (held.point.id.clone(), held.point.vector.to_vec())).collect();
    let wanted: Vec<(PointId, Vec<f32>)> =
        model.held.iter().map(|(&id, vector)| (PointId::Number(id), vector.clone())).collect();
    prop_assert_eq!(held, wanted);
    compare_payloads(snapshot, model)?;
    let default = snapshot.default_correction().map(|default| default.correction.as_str());
    prop_assert_eq!(default, model.default);
    let rule = snapshot.quarantine_rule().map(|rule| (rule.correction.as_str(), rule.rate > 0.0));
    prop_assert_eq!(rule, model.rule);
    for (row, vector) in model.points.values() {
        prop_assert_eq!(snapshot.vector(*row), &vector[..]);
    }
    for (bank, entries) in [("queries", &model.queries), ("gallery", &model.references)] {
        let found = snapshot.bank(bank).map(|bank| (bank.entries, bank.weight));
        let wanted = entries.as_ref().map(|bank| (bank.entries().count(), bank.weight() as f64));
        prop_assert_eq!(found, wanted);
    }
    prop_assert_eq!(snapshot.corrections().len(), model.fitted.len());
    let query = Vector::new(query, snapshot.config().dim, snapshot.config().metric).expect("whole numbers");
    check_ranking(snapshot, model, &query, &Variant::raw(), |_| 0.0)?;
    prop_assert_eq!(snapshot.prior(PRIOR).is_some(), model.prior.is_some());
    let values = model.prior.clone().unwrap_or_default();
    let boost = |id: u64| f64::from(values.get(&id).copied().unwrap_or(0)) * f64::from(PRIOR_WEIGHT);
    let mut priors = Vec::new();
    if let Some(prior) = snapshot.prior(PRIOR) {
        prop_assert_eq!(prior.given(), values.len());
        for (id, &(row, _)) in &model.points {
            prop_assert_eq!(prior.value(row), values.get(id).map(|&value| f32::from(value)));
        }
        priors.push((prior.column(), PRIOR_WEIGHT));
        check_ranking(snapshot, model, &query, &Variant::raw().boosted(&priors), |id| -boost(id))?;
    }
    for label in &model.fitted {
        let correction = snapshot.correction(label).expect("fitted");
        let method = correction.info().method;
        let used = [BankKind::Query, BankKind::Gallery].into_iter().filter(|&kind| method.uses(kind));
        let stale = used.map(|kind| model.bank(kind).deferred()).max();
        prop_assert_eq!(Some(correction.info().stale), stale);
        for (term, column) in method.terms(Metric::Dot).into_iter().zip(correction.columns()) {
            for (&id, &(row, _)) in &model.points {
                let (found, wanted) = (f64::from(column.at(row)) + column.center(), model.bias(term, id));
                prop_assert!((found - wanted).abs() < 1e-5, "{label} of {id}: {found}, wanted {wanted}");
            }
        }
        let best = model.order(query.as_slice(), None).first().copied();
        let open = correction.open(best.map(|id| model.points[&id].0));
        if let Some(k) = method.gate() {
            let is_open = |term: Term| best.is_some_and(|id| model.activated(term.bank, k).contains(&id));
            prop_assert_eq!(&open, &method.terms(Metric::Dot).into_iter().map(is_open).collect::<Vec<_>>());
        }
        let weights = method.weights(&open);
        let centers: Vec<f64> = correction.columns().iter().map(dehub_index::Column::center).collect();
        let bias = |id| {
            let terms = method.terms(Metric::Dot).into_iter().zip(&weights).zip(&centers);
            terms.map(|((term, weight), center)| weight * (model.bias(term, id) - center)).sum::<f64>()
        };
        let variant = correction.variant(&open, 1.0);
        check_ranking(snapshot, model, &query, &variant, bias)?;
        check_ranking(snapshot, model, &query, &variant.boosted(&priors), |id| bias(id) - boost(id))?;
    }
    Ok(())
}

/// Payloads are what was written last, and so are the fields of them in memory.
pub(crate) fn compare_payloads(snapshot: &Snapshot, model: &Model) -> Result<(), TestCaseError> {
    let none = BTreeMap::new();
    let wanted = |id: u64| model.payloads.get(&id).unwrap_or(&none);
    let rows: Vec<u32> = model.points.values().map(|&(row, _)| row).collect();
    let payloads = snapshot.payloads(&rows).map_err(|error| TestCaseError::fail(error.to_string()))?;
    for (&id, payload) in model.points.keys().zip(payloads.into_iter().map(|(_, payload)| payload)) {
        prop_assert_eq!(payload, json!(wanted(id)));
    }
    for (held, &id) in snapshot.quarantined().zip(model.held.keys()) {
        let payload = held.point.payload.as_ref().map_or("{}", Payload::as_json);
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(payload).ok(), Some(json!(wanted(id))));
    }
    let indexed: BTreeSet<PayloadPath> = model.indexed.iter().map(|field| path(field)).collect();
    prop_assert_eq!(
        snapshot.payload_columns().map(|(path, _)| path.clone()).collect::<BTreeSet<_>>(),
        indexed
    );
    for &field in &model.indexed {
        let column = snapshot.payload_column(&path(field)).expect("indexed");
        for (&id, &(row, _)) in &model.points {
            let value = wanted(id).get(field).map(|&number| FieldValue::Integer(number));
            prop_assert_eq!(column.values(row), Some(value.as_slice()));
        }
        let is_served = |(id, payload): &(&u64, &BTreeMap<_, _>)| {
            payload.contains_key(field) && !model.held.contains_key(id)
        };
        let points = model.payloads.iter().filter(is_served).count();
        prop_assert_eq!(column.points(), points);
    }
    Ok(())
}

/// The scan and a walk list the live points by the model's scores.
fn check_ranking(
    snapshot: &Snapshot,
    model: &Model,
    query: &Vector,
    variant: &Variant<'_>,
    bias: impl Fn(u64) -> f64,
) -> Result<(), TestCaseError> {
    let score = |id: u64| similarity(Metric::Dot, query.as_slice(), &model.points[&id].1) - bias(id);
    let scores: BTreeMap<u32, f64> = model.points.iter().map(|(&id, &(row, _))| (row, score(id))).collect();
    let limit = scores.len() + 1;
    let question = Question { vectors: std::slice::from_ref(query), limit, targets: &[] };
    let found = snapshot.scan(&question, std::slice::from_ref(variant)).remove(0).remove(0).best;
    prop_assert_eq!(found.len(), scores.len());
    let walked = snapshot.walk(query, variant, limit, EFFORT);
    prop_assert_eq!(walked.is_some(), snapshot.has_graph());
    let walked = walked.unwrap_or_else(|| found.clone());
    prop_assert_eq!(walked.len(), scores.len());
    for list in [&found, &walked] {
        prop_assert!(list.is_sorted_by(|a, b| a > b));
        for candidate in list {
            let wanted = scores.get(&candidate.row).copied().expect("only live rows");
            prop_assert!(
                (f64::from(candidate.score) - wanted).abs() < 1e-4,
                "{candidate:?}, wanted {wanted}"
            );
        }
    }
    if variant.is_raw() {
        let order: Vec<u32> =
            model.order(query.as_slice(), None).iter().map(|id| model.points[id].0).collect();
        prop_assert_eq!(found.iter().map(|candidate| candidate.row).collect::<Vec<_>>(), order);
    }
    Ok(())
}
