//! A store that fails at any of its calls, under a collection with named vectors: the write it fails in is there in all
//! of them or in none, and opened again the collection goes on.

use std::collections::BTreeMap;

use dehub_index::{Blame, WriteError};
use dehub_store::{Fault, Faults};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use crate::model::{Step, harmless_write};
use crate::model_places::{Place, Site, configured};
use crate::named::{Both, Named, NamedStep, compare_named, do_step, named_step, spaces, vector};

/// A vector of one name, if the point has it.
type Pair = Option<[f32; 2]>;

/// What is done to a collection, and what it stands for before each step and after the last one.
struct Script {
    has_graph: bool,
    steps: Vec<NamedStep>,
    models: Vec<Named>,
    query: Vec<f32>,
}

impl Script {
    /// Nothing but calls of the store fails, and all is durable.
    fn new(has_graph: bool, mut steps: Vec<NamedStep>, query: Vec<f32>) -> Script {
        steps.retain(|step| !matches!(step, NamedStep::Of(_, Step::CutPower(_) | Step::SetDurability(_))));
        let mut models = vec![Named::default()];
        for step in &steps {
            let mut next = models[models.len() - 1].clone();
            // One that is refused changes nothing.
            if !next.take(step) {
                next.clone_from(&models[models.len() - 1]);
            }
            models.push(next);
        }
        Script { has_graph, steps, models, query }
    }

    fn create(&self, faults: &Faults) -> Option<Site> {
        let mut site = Site::new(Place::Memory, faults);
        match site.create_named(&spaces(configured(self.has_graph))) {
            Ok(()) => Some(site),
            Err(error) => {
                assert_eq!(error.blame(), Blame::Environment, "{error}");
                None
            }
        }
    }

    fn is(&self, site: &Site, place: usize) -> Result<(), TestCaseError> {
        compare_named(&site.collection().snapshot(), &self.models[place], &self.query)
    }

    /// Takes the steps from `first` on, which nothing disturbs.
    fn finish(&self, site: &mut Site, first: usize) -> Result<(), TestCaseError> {
        for (step, model) in self.steps.iter().zip(&self.models).skip(first) {
            if let NamedStep::Of(_, Step::Reopen) = step {
                site.reopen().expect("nothing fails any more");
                continue;
            }
            let outcome = do_step(site.collection(), model, step);
            prop_assert_eq!(outcome.is_ok(), model.clone().take(step), "{:?}: {:?}", step, outcome);
        }
        self.is(site, self.steps.len())?;
        prop_assert!(site.collection().verify(&mut |_| ()).is_whole());
        Ok(())
    }

    /// The calls of the store from its creation to the last step.
    fn calls(&self) -> u64 {
        let faults = Faults::none();
        let mut site = self.create(&faults).expect("a new collection");
        self.finish(&mut site, 0).expect("nothing fails");
        faults.calls()
    }

    /// The same with one call that fails.
    fn strike(&self, call: u64, fault: Fault) -> Result<(), TestCaseError> {
        let faults = Faults::at(call, fault);
        let Some(mut site) = self.create(&faults) else { return Ok(()) };
        for (place, step) in self.steps.iter().enumerate() {
            let before = faults.calls();
            if let NamedStep::Of(_, Step::Reopen) = step {
                if let Err(error) = site.reopen() {
                    prop_assert_eq!(error.blame(), Blame::Environment, "{}", error);
                    site.reopen().expect("nothing fails any more");
                }
                continue;
            }
            let outcome = do_step(site.collection(), &self.models[place], step);
            if before < call && call <= faults.calls() {
                return self.after_fault(&mut site, place, outcome, call);
            }
        }
        Ok(())
    }

    /// What must hold when the fault was met in the step at `place`.
    fn after_fault(
        &self,
        site: &mut Site,
        place: usize,
        outcome: Result<Option<usize>, WriteError>,
        call: u64,
    ) -> Result<(), TestCaseError> {
        let is_failed = site.collection().writer().failure.is_some();
        let Err(error) = outcome else {
            prop_assert!(!is_failed, "{:?} is no failure", self.steps[place]);
            harmless_write(site.collection()).expect("the store is well");
            self.is(site, place + 1)?;
            return self.finish(site, place + 1);
        };
        let is_refused = !self.models[place].clone().take(&self.steps[place]);
        prop_assert!(error.blame() == Blame::Environment || is_refused, "{error}");
        self.is(site, place)?;
        if !is_failed {
            // Something could not be read once. The step can be taken again.
            return self.finish(site, place);
        }
        prop_assert!(harmless_write(site.collection()).is_err(), "the writer goes on after {error}");
        self.is(site, place)?;
        let opened = if call.is_multiple_of(3) { site.cut_power(0) } else { site.reopen() };
        opened.expect("nothing fails any more");
        let found = if self.is(site, place + 1).is_ok() { place + 1 } else { place };
        self.is(site, found)?;
        self.finish(site, found)
    }
}

fn check(scripts: impl IntoIterator<Item = Script>) {
    let mut strikes = 0;
    for script in scripts {
        for call in 1..=script.calls() {
            for fault in [Fault::Refused, Fault::Unacknowledged] {
                if let Err(error) = script.strike(call, fault) {
                    panic!("call {call}, {fault:?}: {error}\n{:#?}", script.steps);
                }
                strikes += 1;
            }
        }
    }
    assert!(strikes > 100, "{strikes}");
}

/// Every kind of write that is about the vectors of points, and some about one of them.
fn every_kind() -> Vec<NamedStep> {
    let both = |points: &[(u64, Pair, Pair)]| -> BTreeMap<u64, Both> {
        let own = |vector: Option<[f32; 2]>| vector.map(|vector| vector.to_vec());
        points.iter().map(|&(id, image, text)| (id, [own(image), own(text)])).collect()
    };
    let entries = || vec![(vec![1.0, 1.0], 1), (vec![2.0, -1.0], 2), (vec![0.0, 1.0], 1)];
    let of_both = |step: fn(usize) -> Step| [0, 1].map(|place| NamedStep::Of(place, step(place)));
    let mut steps = vec![
        NamedStep::Upsert(both(&[
            (0, Some([1.0, 0.0]), Some([2.0, 1.0])),
            (1, None, Some([1.0, 1.0])),
            (2, Some([-1.0, 2.0]), None),
            (3, None, None),
        ])),
        NamedStep::Of(0, Step::AddQueries(entries(), false)),
        NamedStep::Of(1, Step::AddQueries(entries(), false)),
    ];
    steps.extend(of_both(|_| Step::Fit(0)));
    steps.extend([
        NamedStep::Update(both(&[(1, Some([2.0, 2.0]), None), (3, Some([0.0, 1.0]), Some([1.0, -1.0]))])),
        NamedStep::Of(1, Step::AddQueries(entries(), true)),
        NamedStep::Take(vec![0, 3], [true, false]),
        NamedStep::Of(1, Step::Absorb(true)),
        NamedStep::Of(0, Step::Freeze),
        NamedStep::Of(1, Step::Freeze),
        NamedStep::Of(0, Step::Reopen),
        NamedStep::Upsert(both(&[(0, None, Some([0.0, 2.0])), (4, Some([1.0, 1.0]), Some([2.0, 0.0]))])),
        NamedStep::Whole(Step::SetField(vec![0, 2, 9], 0, Some(1))),
        NamedStep::Whole(Step::IndexField(0, true)),
        NamedStep::Whole(Step::SetPrior([(0, 3), (1, -2), (3, 1)].into())),
        NamedStep::Update(both(&[(2, None, Some([1.0, 2.0])), (3, Some([1.0, 1.0]), None)])),
        NamedStep::Whole(Step::UnsetPrior(vec![0])),
        NamedStep::Delete(vec![1, 4]),
        NamedStep::Whole(Step::ClearPayloads(vec![2])),
        NamedStep::Whole(Step::DropPrior),
        NamedStep::Of(0, Step::RemoveQueries(vec![0])),
        NamedStep::Take(vec![0, 2], [true, true]),
    ]);
    steps.extend(of_both(|_| Step::Drop(0)));
    steps.extend(of_both(|_| Step::DropBank(true)));
    steps
}

/// Scripts of random steps.
fn random(has_graph: bool, count: usize, seed: u64) -> Vec<Script> {
    let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let one = |_| {
        let script = (vec(named_step(), 8..=16), vector());
        let (steps, query) = script.new_tree(&mut runner).expect("a script").current();
        Script::new(has_graph, steps, query)
    };
    (0..count).map(one).collect()
}

#[test]
fn any_call_of_every_kind_of_write_of_named_vectors_may_fail() {
    for has_graph in [false, true] {
        check([Script::new(has_graph, every_kind(), vec![1.0, 2.0])]);
    }
}

#[test]
fn any_call_of_random_writes_of_named_vectors_may_fail() {
    check(random(false, 8, 21).into_iter().chain(random(true, 3, 22)));
}
