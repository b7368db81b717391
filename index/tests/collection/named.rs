//! A collection with named vectors is, for each of them, the collection that has only that one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dehub_index::{
    Catalogue, CatalogueError, Collection, CollectionConfig, Durability, FitInput, HubRule, Name,
    NamedVector, Payload, PointInput, SPACES_MAX, Snapshot, VectorsInput, WriteError,
};
use dehub_store::{Faults, MemoryDisk};
use dehub_vector::{Metric, PointId};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use crate::made::{Numbers, config, config_with_graph, fit, gallery, ids, name, point, queries};
use crate::model::{DIM, Model, Step, compare, compare_payloads, perform, step};
use crate::model_places::{Place, Site, configured};

const NAMES: [&str; 2] = ["image", "text"];
const IDS: u64 = 12;

/// What a point has under each name.
pub(crate) type Both = [Option<Vec<f32>>; 2];

#[derive(Debug, Clone)]
pub(crate) enum NamedStep {
    Upsert(BTreeMap<u64, Both>),
    Update(BTreeMap<u64, Both>),
    /// Takes vectors of one name, or of both.
    Take(Vec<u64>, [bool; 2]),
    Delete(Vec<u64>),
    /// Something that is about the vectors of one name, or the collection.
    Of(usize, Step),
    /// Something about payloads or priors, which are of points as a whole.
    Whole(Step),
}

/// What the collection stands for: rows of points, and for each name the collection that has no other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Named {
    pub(crate) rows: BTreeMap<u64, u32>,
    next_row: u32,
    of: [Model; 2],
    /// What points have beside vectors.
    whole: Model,
}

impl Named {
    /// Gives points new rows with these vectors.
    fn put(&mut self, points: &BTreeMap<u64, Both>) {
        for (&id, vectors) in points {
            self.rows.insert(id, self.next_row);
            self.next_row += 1;
            self.whole.put(id, Some(Vec::new()));
            for (model, vector) in self.of.iter_mut().zip(vectors) {
                model.put(id, vector.clone());
            }
        }
    }

    /// The vectors of a point.
    fn vectors(&self, id: u64) -> Both {
        [0, 1].map(|place| self.of[place].vector(id).cloned())
    }

    /// Whether the step can be done; if so, it is.
    pub(crate) fn take(&mut self, step: &NamedStep) -> bool {
        match step {
            NamedStep::Upsert(points) => {
                // They come without payloads.
                _ = self.whole.take(&Step::ClearPayloads(points.keys().copied().collect()));
                self.put(points);
            }
            NamedStep::Update(points) => {
                if !points.keys().all(|id| self.rows.contains_key(id)) {
                    return false;
                }
                let changed = points.iter().filter(|(_, vectors)| vectors.iter().any(Option::is_some));
                let merged = changed.map(|(&id, new)| {
                    let mut vectors = self.vectors(id);
                    vectors.iter_mut().zip(new).filter(|(_, new)| new.is_some()).for_each(|(old, new)| {
                        old.clone_from(new);
                    });
                    (id, vectors)
                });
                let merged = merged.collect();
                self.put(&merged);
            }
            NamedStep::Take(points, names) => {
                let mut seen = BTreeSet::new();
                for &id in points.iter().filter(|id| seen.insert(**id)) {
                    let mut vectors = self.vectors(id);
                    let gone = vectors.iter_mut().zip(names).filter(|(_, gone)| **gone);
                    if gone.map(|(vector, _)| vector.take()).filter(Option::is_some).count() > 0 {
                        self.put(&BTreeMap::from([(id, vectors)]));
                    }
                }
            }
            NamedStep::Delete(gone) => {
                _ = self.whole.take(&Step::Delete(gone.clone()));
                for id in gone {
                    self.rows.remove(id);
                    self.of.iter_mut().for_each(|model| _ = model.take(&Step::Delete(vec![*id])));
                }
            }
            NamedStep::Of(_, step @ Step::SetDurability(_)) => {
                self.of.iter_mut().for_each(|model| _ = model.take(step));
            }
            NamedStep::Of(place, step) => return self.of[*place].take(step).is_ok(),
            NamedStep::Whole(step) => return self.whole.take(step).is_ok(),
        }
        true
    }
}

fn named(vectors: &Both) -> Vec<NamedVector> {
    let named = NAMES.iter().zip(vectors);
    let named = named.filter_map(|(text, vector)| Some((name(text), vector.clone()?)));
    named.map(|(name, vector)| NamedVector { name, vector: vector.into() }).collect()
}

fn with_vectors(id: u64, vectors: &Both) -> PointInput {
    PointInput { named: named(vectors), ..point(id, &[]) }
}

pub(crate) fn do_step(
    collection: &Arc<Collection>,
    model: &Named,
    step: &NamedStep,
) -> Result<Option<usize>, WriteError> {
    match step {
        NamedStep::Upsert(points) => {
            let points: Vec<_> = points.iter().map(|(&id, vectors)| with_vectors(id, vectors)).collect();
            let receipt = collection.upsert(&points)?;
            assert_eq!(receipt.added + receipt.replaced, points.len());
        }
        NamedStep::Update(points) => {
            let input = |(&id, vectors): (&u64, &Both)| VectorsInput {
                id: PointId::Number(id),
                vector: Vec::new().into(),
                named: named(vectors),
            };
            collection.update_vectors(&points.iter().map(input).collect::<Vec<_>>())?;
        }
        NamedStep::Take(points, names) => {
            let names = NAMES.iter().zip(names).filter(|(_, gone)| **gone).map(|(text, _)| name(text));
            collection.delete_vectors(&ids(points.iter().copied()), &names.collect::<Vec<_>>())?;
        }
        NamedStep::Delete(gone) => _ = collection.delete(&ids(gone.iter().copied()))?,
        NamedStep::Of(place, step) => {
            return perform(&space(collection, *place), &model.of[*place], step);
        }
        NamedStep::Whole(step) => return perform(collection, &model.whole, step),
    }
    Ok(None)
}

fn space(collection: &Arc<Collection>, place: usize) -> Arc<Collection> {
    collection.space(Some(NAMES[place])).expect("one of its names")
}

pub(crate) fn vector() -> impl Strategy<Value = Vec<f32>> {
    vec((-2_i8..=2).prop_map(f32::from), DIM)
}

fn both() -> impl Strategy<Value = BTreeMap<u64, Both>> {
    let vector = || prop::option::weighted(0.7, vector());
    btree_map(0..IDS, (vector(), vector()).prop_map(|(image, text)| [image, text]), 1..5)
}

pub(crate) fn named_step() -> impl Strategy<Value = NamedStep> {
    let is_of_whole = |step: &Step| {
        matches!(
            step,
            Step::SetField(..)
                | Step::ClearPayloads(_)
                | Step::IndexField(..)
                | Step::SetPrior(_)
                | Step::UnsetPrior(_)
                | Step::DropPrior
        )
    };
    let is_of_points = |step: &Step| {
        matches!(
            step,
            Step::Upsert(_)
                | Step::UpsertCrowd
                | Step::Delete(_)
                | Step::SetQuarantine(..)
                | Step::EndQuarantine
                | Step::ReleaseAll
        )
    };
    let whole = step().prop_filter("what is about points as a whole", is_of_whole);
    let other = step().prop_filter("what is about one vector, without a quarantine", move |step| {
        !is_of_whole(step) && !is_of_points(step)
    });
    prop_oneof![
        4 => both().prop_map(NamedStep::Upsert),
        1 => both().prop_map(NamedStep::Update),
        1 => (vec(0..IDS, 0..4), any::<[bool; 2]>()).prop_map(|(ids, names)| NamedStep::Take(ids, names)),
        1 => vec(0..IDS, 0..4).prop_map(NamedStep::Delete),
        4 => whole.prop_map(NamedStep::Whole),
        11 => (0_usize..2, other).prop_map(|(place, step)| NamedStep::Of(place, step)),
    ]
}

/// A collection and what it stands for, after each of its commits.
struct Double {
    site: Site,
    history: Vec<(u64, Named)>,
    earlier: u64,
}

impl Double {
    fn commits(&self) -> u64 {
        self.earlier + self.site.collection().writer().commits
    }

    fn unsynced(&self) -> usize {
        self.site.disk.as_ref().map_or(0, MemoryDisk::unsynced)
    }

    fn take(&mut self, step: &NamedStep) -> Result<(), TestCaseError> {
        let mut model = self.history.last().expect("it begins with one").1.clone();
        if let NamedStep::Of(_, Step::CutPower(keep)) = step {
            let unsynced = self.unsynced();
            let left = self.commits() - (unsynced - keep.min(&unsynced)) as u64;
            self.site.cut_power(*keep).expect("it opens again");
            self.earlier = left;
            while self.history.last().is_some_and(|(commits, _)| *commits > left) {
                self.history.pop();
            }
            prop_assert!(!self.history.is_empty(), "a collection is durable when it is made");
            return Ok(());
        }
        if let NamedStep::Of(_, Step::Reopen) = step {
            self.earlier = self.commits();
            self.site.reopen().expect("it opens again");
        } else {
            let outcome = do_step(self.site.collection(), &model, step);
            prop_assert_eq!(outcome.is_ok(), model.take(step), "{:?}", outcome);
        }
        if model.of[0].durability == Durability::Strict {
            prop_assert_eq!(self.unsynced(), 0, "what is acknowledged is synced");
        }
        self.history.push((self.commits(), model));
        Ok(())
    }

    fn compare(&self, query: &[f32]) -> Result<(), TestCaseError> {
        let model = &self.history.last().expect("it begins with one").1;
        compare_named(&self.site.collection().snapshot(), model, query)
    }
}

/// The collection is what the model says, in each of its vectors.
pub(crate) fn compare_named(
    snapshot: &Arc<Snapshot>,
    model: &Named,
    query: &[f32],
) -> Result<(), TestCaseError> {
    for (&id, &row) in &model.rows {
        prop_assert_eq!(snapshot.find(&PointId::Number(id)).expect("readable"), Some(row));
    }
    prop_assert_eq!(snapshot.len(), model.rows.len());
    prop_assert_eq!(snapshot.row_count(), model.next_row);
    compare_payloads(snapshot, &model.whole)?;
    for (text, of) in NAMES.into_iter().zip(&model.of) {
        let (space, model) = (snapshot.space(Some(text)).expect("one of its names"), of.within(&model.whole));
        prop_assert_eq!(space.sequence(), snapshot.sequence());
        prop_assert_eq!(space.config().durability, model.durability);
        compare(&space, &model, query)?;
    }
    Ok(())
}

pub(crate) fn spaces(config: CollectionConfig) -> BTreeMap<Name, CollectionConfig> {
    NAMES.into_iter().map(|text| (name(text), config)).collect()
}

fn check(place: Place, has_graph: bool, cases: u32, seed: u64) {
    let run = |steps: &[NamedStep], query: &[f32]| {
        let mut site = Site::new(place, &Faults::none());
        site.create_named(&spaces(configured(has_graph))).expect("a new collection");
        let commits = site.collection().writer().commits;
        let mut double = Double { site, history: vec![(commits, Named::default())], earlier: 0 };
        for step in steps {
            double.take(step)?;
            double.compare(query)?;
        }
        let report = double.site.collection().verify(&mut |_| ());
        prop_assert_eq!(report.spaces.len(), 2);
        prop_assert!(report.is_whole(), "{:#?}", report);
        Ok(())
    };
    let config =
        Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let script = (vec(named_step(), 1..=20), vector());
    let outcome = TestRunner::new(config).run(&script, |(steps, query)| run(&steps, &query));
    if let Err(error) = outcome {
        panic!("{place:?}, graph {has_graph}: {error}");
    }
}

#[test]
fn in_memory_each_name_is_a_collection_of_its_own() {
    check(Place::Memory, false, 500, 11);
}

#[test]
fn in_memory_each_name_is_a_collection_with_a_graph_of_its_own() {
    check(Place::Memory, true, 300, 12);
}

#[test]
fn in_a_folder_each_name_is_a_collection_of_its_own() {
    check(Place::Folder, false, 30, 13);
}

#[test]
fn in_a_folder_each_name_is_a_collection_with_a_graph_of_its_own() {
    check(Place::Folder, true, 30, 14);
}

/// A data directory with the collection `both`, whose vectors differ in dimension and metric.
fn made() -> (tempfile::TempDir, Catalogue) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = Catalogue::new(folder.path());
    let spaces = BTreeMap::from([
        (name("image"), config_with_graph(4, Metric::Cosine)),
        (name("text"), config(3, Metric::Euclidean)),
    ]);
    catalogue.create_with_spaces(&name("both"), &spaces, Durability::Strict).expect("a new collection");
    (folder, catalogue)
}

/// Points of which every third has no image and every fourth no text.
fn some_points(count: u64) -> Vec<PointInput> {
    let mut numbers = Numbers(3);
    let input = |id: u64| {
        let both = [
            (!id.is_multiple_of(3)).then(|| numbers.vector(4)),
            (!id.is_multiple_of(4)).then(|| numbers.vector(3)),
        ];
        PointInput {
            payload: Some(Payload::parse(&format!("{{\"id\": {id}}}")).expect("an object")),
            ..with_vectors(id, &both)
        }
    };
    (0..count).map(input).collect()
}

fn fitted(collection: &Arc<Collection>) {
    collection.upsert(&some_points(40)).expect("good points");
    for (place, dim) in [(0, 4), (1, 3)] {
        let mut numbers = Numbers(place as u64 + 7);
        let space = space(collection, place);
        space.add_to_bank(&queries("queries", &numbers.vectors(9, dim))).expect("good entries");
        space.add_to_bank(&gallery("gallery", 0, &numbers.vectors(5, dim))).expect("good entries");
        space.fit(&[fit("DualDIS(b1=2,b2=1,k=2)")]).expect("a fit");
    }
    collection.build_graph_if_due().expect("a graph");
}

#[test]
fn a_copy_of_a_checkpoint_has_every_vector_and_every_graph() {
    let (folder, catalogue) = made();
    fitted(&catalogue.get(&name("both")).expect("it is open"));
    let before = catalogue.get(&name("both")).expect("it is open").snapshot();
    let checkpoint = catalogue.checkpoint(&name("both")).expect("a checkpoint");
    let copy = folder.path().join("copy");
    copy_folder(checkpoint.folder(), &copy.join("collections/both"));
    let after = Catalogue::new(&copy).get(&name("both")).expect("it opens").snapshot();
    for text in NAMES {
        let [before, after] = [&before, &after].map(|it| it.space(Some(text)).expect("one of its names"));
        assert_eq!(crate::dump::dump(&before), crate::dump::dump(&after), "{text}");
        assert_eq!(before.segment_infos(), after.segment_infos(), "{text}");
    }
    assert!(after.space(Some("image")).expect("there").has_graph());
    assert!(!after.has_graph() && !after.has_vectors());
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("the temporary folder is writable");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copy_folder(&from, &to) } else { _ = std::fs::copy(&from, &to).expect("a copy") }
    }
}

#[test]
fn a_collection_is_closed_when_nobody_has_any_of_its_vectors() {
    let both = &name("both");
    let check = |hold: fn(&Arc<Collection>) -> Box<dyn std::any::Any>| {
        let (_folder, catalogue) = made();
        fitted(&catalogue.get(both).expect("it is open"));
        let held = hold(&catalogue.get(both).expect("it is open"));
        let error = catalogue.with_closed(both, |_| ()).expect_err("somebody has it");
        assert!(matches!(error, CatalogueError::Busy { .. }), "{error}");
        drop(held);
        catalogue.with_closed(both, |_| ()).expect("nobody has it");
        assert!(catalogue.get(both).expect("it opens").verify(&mut |_| ()).is_whole());
    };
    // Each waits for as long as others have to let go.
    std::thread::scope(|scope| {
        scope.spawn(|| check(|collection| Box::new(space(collection, 1))));
        scope.spawn(|| check(|it| Box::new(it.snapshot().space(Some("image")).expect("there"))));
    });
}

#[test]
fn what_is_not_a_vector_of_the_collection_is_refused_by_place_and_name() {
    let (_folder, catalogue) = made();
    let collection = catalogue.get(&name("both")).expect("it is open");
    let good = with_vectors(1, &[Some(vec![1.0; 4]), None]);
    let of = |text: &str, vector: &[f32]| NamedVector { name: name(text), vector: vector.to_vec().into() };
    let refused = |named: Vec<NamedVector>, vector: &[f32]| {
        let bad = PointInput { named, ..point(2, vector) };
        collection.upsert(&[good.clone(), bad]).expect_err("refused").to_string()
    };
    for (found, wanted) in [
        (
            refused(vec![of("audio", &[1.0])], &[]),
            "point 1 (id 2): there is no vector `audio`; the collection has: image, text",
        ),
        (
            refused(vec![], &[1.0; 4]),
            "point 1 (id 2): it has a vector without a name; the collection has: image, text",
        ),
        (
            refused(vec![of("text", &[1.0; 3]), of("text", &[1.0; 3])], &[]),
            "point 1 (id 2): vector `text` is given twice; the collection has: image, text",
        ),
        (
            refused(vec![of("text", &[1.0; 4])], &[]),
            "point 1 (id 2): vector `text`: the vector has 4 dimensions, wanted 3",
        ),
    ] {
        assert_eq!(found, wanted);
    }
    assert_eq!(collection.snapshot().len(), 0, "all or none");
    let unknown = collection.space(Some("audio")).map(drop).expect_err("none of its names");
    assert_eq!(unknown.to_string(), "there is no vector `audio`; the collection has: image, text");
    let unknown = collection.snapshot().space(None).map(drop).expect_err("no unnamed vector");
    assert!(unknown.to_string().ends_with("none was given; it has: image, text"), "{unknown}");
    let whole: [(&str, Result<(), WriteError>); 4] = [
        ("bank", collection.add_to_bank(&queries("queries", &[])).map(drop)),
        ("fit", collection.fit(&[] as &[FitInput]).map(drop)),
        ("default", collection.clear_default().map(drop)),
        ("live", collection.set_live_bank(None)),
    ];
    for (what, outcome) in whole {
        assert!(matches!(outcome, Err(WriteError::Space(_))), "{what}: {outcome:?}");
    }
    let rule = HubRule { correction: name("x"), rate: 0.1 };
    let outcome = collection.set_quarantine(Some(&rule)).expect_err("refused");
    assert_eq!(outcome.to_string(), "a quarantine is not possible in a collection with named vectors");
    let outcome = space(&collection, 0).upsert_watched(std::slice::from_ref(&good), Some(&rule));
    assert!(matches!(outcome, Err(WriteError::NamedVectors { .. })));
    let missing = VectorsInput { id: 5.into(), vector: vec![].into(), named: vec![of("text", &[1.0; 3])] };
    let outcome = collection.update_vectors(&[missing]).expect_err("refused");
    assert_eq!(outcome.to_string(), "point 0 (id 5) does not exist");
    for count in [0, SPACES_MAX + 1] {
        let spaces = (0..count).map(|place| (name(&format!("v{place}")), config(2, Metric::Dot))).collect();
        let made = catalogue.create_with_spaces(&name("other"), &spaces, Durability::Strict);
        assert!(matches!(made.map(drop), Err(CatalogueError::Spaces { found }) if found == count));
    }
}

#[test]
fn one_unnamed_vector_is_updated_and_has_no_name() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = Catalogue::new(folder.path());
    let collection = catalogue.create(&name("one"), config(2, Metric::Dot)).expect("a new collection");
    let text = Some("kept".to_owned());
    collection.upsert(&[PointInput { text, ..point(1, &[1.0, 2.0]) }]).expect("a good point");
    let new = |vector: &[f32]| VectorsInput { id: 1.into(), vector: vector.to_vec().into(), named: vec![] };
    let receipt = collection.update_vectors(&[new(&[3.0, 4.0])]).expect("a good vector");
    assert_eq!((receipt.added, receipt.replaced), (0, 1));
    let snapshot = collection.space(None).expect("the unnamed one").snapshot();
    let row = snapshot.find(&1.into()).expect("readable").expect("there");
    assert_eq!(snapshot.vector(row), [3.0, 4.0]);
    assert_eq!(snapshot.points(&[row]).expect("readable")[0].text.as_deref(), Some("kept"));
    assert!(collection.update_vectors(&[new(&[1.0])]).is_err());
    let outcome = collection.delete_vectors(&[1.into()], &[name("image")]).expect_err("it has no name");
    assert_eq!(
        outcome.to_string(),
        "there is no vector `image`: the collection has one vector, without a name"
    );
    assert!(snapshot.space(Some("image")).is_err() && snapshot.space(Some("")).is_ok());
}
