//! A collection behaves like ordered maps and plain sums in f64, however it is written and reopened.

use std::collections::{BTreeMap, BTreeSet};

use dehub_index::{BankUpdate, EntryInput, EntrySelector, Question, Snapshot, Variant};
use dehub_normalize::{BankKind, Method, Statistic, Term};
use dehub_vector::{Metric, PointId, Vector};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use crate::made::{Home, config_with_graph, fit, gallery, ids, name, point, queries};
use crate::reference::{log_sum_exp, similarity, top_mean};

const CASES: u32 = 60;
const STEPS_MAX: usize = 18;
const DIM: usize = 2;
const IDS: u64 = 12;
const LABELS: [&str; 5] =
    ["IS(beta=2)", "NNN(alpha=0.5,k=2)", "DualIS(b1=1,b2=3)", "DIS(beta=2,k=1)", "DualDIS(b1=2,b2=1,k=2)"];

#[derive(Debug, Clone)]
enum Step {
    Upsert(BTreeMap<u64, Vec<f32>>),
    Delete(Vec<u64>),
    /// Vectors with their weights, and whether corrections take them in later.
    AddQueries(Vec<(Vec<f32>, u8)>, bool),
    AddReferences(Vec<(Vec<f32>, u8)>, bool),
    RemoveQueries(Vec<u32>),
    RemoveReferences(Vec<u64>),
    Absorb(bool),
    /// Halves weights and drops those below 1.
    Decay(bool),
    Fit(usize),
    Drop(usize),
    DropBanks,
    BuildGraph,
    Reopen,
}

/// Small whole numbers: similarities are exact, and ties and copies are everywhere.
fn vector() -> impl Strategy<Value = Vec<f32>> {
    vec((-2_i8..=2).prop_map(f32::from), DIM)
}

fn entries() -> impl Strategy<Value = Vec<(Vec<f32>, u8)>> {
    vec((vector(), prop_oneof![2 => Just(1_u8), 1 => prop::sample::select(vec![2_u8, 4])]), 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::btree_map(0..IDS, vector(), 1..5).prop_map(Step::Upsert),
        3 => vec(0..IDS, 0..4).prop_map(Step::Delete),
        3 => (entries(), any::<bool>()).prop_map(|(entries, defer)| Step::AddQueries(entries, defer)),
        3 => (entries(), any::<bool>()).prop_map(|(entries, defer)| Step::AddReferences(entries, defer)),
        2 => vec(0_u32..8, 0..4).prop_map(Step::RemoveQueries),
        2 => vec(0_u64..8, 0..4).prop_map(Step::RemoveReferences),
        1 => any::<bool>().prop_map(Step::Absorb),
        1 => any::<bool>().prop_map(Step::Decay),
        4 => (0..LABELS.len()).prop_map(Step::Fit),
        1 => (0..LABELS.len()).prop_map(Step::Drop),
        1 => Just(Step::DropBanks),
        1 => Just(Step::BuildGraph),
        2 => Just(Step::Reopen),
    ]
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

    fn free_ids(&self) -> impl Iterator<Item = u64> {
        (0..).filter(|&id| self.entries().all(|entry| entry.id != id))
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

#[derive(Default)]
struct Model {
    /// Id → row and vector. Every write of a point takes the next row.
    points: BTreeMap<u64, (u32, Vec<f32>)>,
    next_row: u32,
    queries: Option<Slots>,
    references: Option<Slots>,
    fitted: BTreeSet<&'static str>,
}

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

#[test]
fn a_collection_is_the_maps_and_sums_it_stands_for() {
    let config =
        Config { cases: CASES, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(vec(step(), 1..=STEPS_MAX), vector()), |(steps, query)| run(&steps, &query))
        .expect("the model holds");
}

fn run(steps: &[Step], query: &[f32]) -> Result<(), TestCaseError> {
    let mut home = Home::new(config_with_graph(DIM, Metric::Dot));
    let mut model = Model::default();
    for step in steps {
        take(&mut home, &mut model, step)?;
        compare(&home, &model, query)?;
    }
    Ok(())
}

fn take(home: &mut Home, model: &mut Model, step: &Step) -> Result<(), TestCaseError> {
    match step {
        Step::Upsert(batch) => {
            home.upsert(&batch.iter().map(|(&id, vector)| point(id, vector)).collect::<Vec<_>>());
            for (&id, vector) in batch {
                model.points.insert(id, (model.next_row, vector.clone()));
                model.next_row += 1;
            }
        }
        Step::Delete(gone) => {
            let receipt = home.collection().delete(&ids(gone.iter().copied())).expect("a delete");
            let deleted = gone.iter().filter(|id| model.points.remove(id).is_some()).count();
            prop_assert_eq!(receipt.deleted, deleted);
        }
        Step::AddQueries(entries, defer) => {
            home.add(&update(queries("queries", &[]), entries, &[], *defer));
            model.queries.get_or_insert_default().add(entries, &[0; 4], *defer);
        }
        Step::AddReferences(entries, defer) => {
            let bank = model.references.get_or_insert_default();
            let ids: Vec<u64> = bank.free_ids().take(entries.len()).collect();
            home.add(&update(gallery("gallery", 0, &[]), entries, &ids, *defer));
            bank.add(entries, &ids, *defer);
        }
        Step::RemoveQueries(numbers) => {
            let selector = EntrySelector::Numbers(numbers.clone());
            let removed = home.collection().remove_from_bank(&name("queries"), &selector);
            let wanted = model.queries.as_mut().map(|bank| bank.remove(|place, _| numbers.contains(&place)));
            prop_assert_eq!(removed.ok().map(|receipt| receipt.deleted), wanted);
        }
        Step::RemoveReferences(gone) => {
            let selector = EntrySelector::Ids(ids(gone.iter().copied()));
            let removed = home.collection().remove_from_bank(&name("gallery"), &selector);
            let wanted = model.references.as_mut().map(|bank| bank.remove(|_, it| gone.contains(&it.id)));
            prop_assert_eq!(removed.ok().map(|receipt| receipt.deleted), wanted);
        }
        Step::Absorb(of_queries) => {
            let (kind, bank) = kind_and_bank(*of_queries);
            let absorbed = home.collection().absorb(&name(bank));
            prop_assert_eq!(absorbed.is_ok(), model.slots(kind).is_some());
            model.slots(kind).iter_mut().for_each(Slots::take_in);
        }
        Step::Decay(of_queries) => {
            let (kind, bank) = kind_and_bank(*of_queries);
            let scaled = home.collection().scale_bank(&name(bank), 0.5, 1.0);
            let wanted = model.slots(kind).as_mut().map(|bank| {
                bank.take_in();
                let removed = bank.remove(|_, entry| entry.weight < 2);
                bank.0.iter_mut().flatten().for_each(|entry| entry.weight /= 2);
                removed
            });
            prop_assert_eq!(scaled.ok().map(|receipt| receipt.deleted), wanted);
        }
        Step::Fit(place) => {
            let input = fit(LABELS[*place]);
            let fitted = home.collection().fit(std::slice::from_ref(&input));
            prop_assert_eq!(fitted.is_ok(), model.may_fit(input.method), "{:?}", fitted);
            if fitted.is_ok() {
                let used =
                    [BankKind::Query, BankKind::Gallery].into_iter().filter(|&kind| input.method.uses(kind));
                used.for_each(|kind| model.slots(kind).iter_mut().for_each(Slots::take_in));
                model.fitted.insert(LABELS[*place]);
            }
        }
        Step::Drop(place) => {
            let dropped = home.collection().drop_correction(&name(LABELS[*place]));
            prop_assert_eq!(dropped.is_ok(), model.fitted.remove(LABELS[*place]));
        }
        Step::DropBanks => {
            let used = |kind| {
                let uses = |label: &&str| fit(label).method.uses(kind);
                model.fitted.iter().any(uses)
            };
            let (used_queries, used_references) = (used(BankKind::Query), used(BankKind::Gallery));
            let dropped = home.collection().drop_bank(&name("queries")).is_ok();
            prop_assert_eq!(dropped, !used_queries && model.queries.is_some());
            model.queries = model.queries.take().filter(|_| !dropped);
            let dropped = home.collection().drop_bank(&name("gallery")).is_ok();
            prop_assert_eq!(dropped, !used_references && model.references.is_some());
            model.references = model.references.take().filter(|_| !dropped);
        }
        Step::BuildGraph => home.build_graph(),
        Step::Reopen => home.reopen(),
    }
    Ok(())
}

fn kind_and_bank(of_queries: bool) -> (BankKind, &'static str) {
    if of_queries { (BankKind::Query, "queries") } else { (BankKind::Gallery, "gallery") }
}

/// An update with weighted entries, which have these ids if any.
fn update(empty: BankUpdate, entries: &[(Vec<f32>, u8)], ids: &[u64], defer: bool) -> BankUpdate {
    let mut ids = ids.iter().map(|&id| PointId::Number(id));
    let entry = |(vector, weight): &(Vec<f32>, u8)| EntryInput {
        id: ids.next(),
        vector: vector.clone(),
        weight: f32::from(*weight),
    };
    BankUpdate { entries: entries.iter().map(entry).collect(), defer, ..empty }
}

fn compare(home: &Home, model: &Model, query: &[f32]) -> Result<(), TestCaseError> {
    let report = home.collection().verify(&mut |_| ());
    prop_assert!(report.is_whole(), "{:#?}", report.checks);
    let snapshot = home.snapshot();
    prop_assert_eq!(snapshot.row_count(), model.next_row);
    let live: BTreeSet<u32> = model.points.values().map(|&(row, _)| row).collect();
    prop_assert_eq!(snapshot.rows().collect::<Vec<_>>(), live.into_iter().collect::<Vec<_>>());
    for id in 0..IDS {
        let found = snapshot.find(&PointId::Number(id)).expect("ids are whole");
        prop_assert_eq!(found, model.points.get(&id).map(|&(row, _)| row));
    }
    for (row, vector) in model.points.values() {
        prop_assert_eq!(snapshot.vector(*row), &vector[..]);
    }
    for (bank, entries) in [("queries", &model.queries), ("gallery", &model.references)] {
        let found = snapshot.bank(bank).map(|bank| (bank.entries, bank.weight));
        let wanted = entries.as_ref().map(|bank| (bank.entries().count(), bank.weight() as f64));
        prop_assert_eq!(found, wanted);
    }
    prop_assert_eq!(snapshot.corrections().len(), model.fitted.len());
    let query = home.query(query);
    check_ranking(&snapshot, model, &query, &Variant::raw(), |_| 0.0)?;
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
            terms.map(|((term, weight), center)| weight * (model.bias(term, id) - center)).sum()
        };
        check_ranking(&snapshot, model, &query, &correction.variant(&open, 1.0), bias)?;
    }
    Ok(())
}

/// The scan lists the live points by the model's scores; a walk lists some of them, rightly scored.
fn check_ranking(
    snapshot: &Snapshot,
    model: &Model,
    query: &Vector,
    variant: &Variant<'_>,
    bias: impl Fn(u64) -> f64,
) -> Result<(), TestCaseError> {
    let score = |id: u64| similarity(Metric::Dot, query.as_slice(), &model.points[&id].1) - bias(id);
    let scores: BTreeMap<u32, f64> = model.points.iter().map(|(&id, &(row, _))| (row, score(id))).collect();
    let question = Question { vectors: std::slice::from_ref(query), limit: 50, targets: &[] };
    let found = snapshot.scan(&question, std::slice::from_ref(variant)).remove(0).remove(0).best;
    prop_assert_eq!(found.len(), scores.len());
    let walked = snapshot.walk(query, variant, 50, 50).unwrap_or_default();
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
