//! A store that fails at any of its calls: the write it fails in is there or not, nothing else changes, and opened
//! again the collection goes on.

use dehub_index::{Blame, WriteError};
use dehub_store::{Fault, Faults};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use crate::model::{Model, Step, compare, every_kind, harmless_write, in_pieces, perform, script};
use crate::model_places::{Place, Site, configured};

/// What was done to a collection, and what it stands for before each step and after the last one.
struct Script {
    has_graph: bool,
    steps: Vec<Step>,
    models: Vec<Model>,
    query: Vec<f32>,
}

impl Script {
    /// Power is cut only where the test says so.
    fn new(has_graph: bool, steps: Vec<Step>, query: Vec<f32>) -> Script {
        let reopened = |step| if let Step::CutPower(_) = step { Step::Reopen } else { step };
        let steps: Vec<Step> = steps.into_iter().map(reopened).collect();
        let mut models = vec![Model::default()];
        for step in &steps {
            let mut next = models[models.len() - 1].clone();
            // One that is refused changes nothing.
            _ = next.take(step);
            models.push(next);
        }
        Script { has_graph, steps, models, query }
    }

    fn is(&self, site: &Site, place: usize) -> Result<(), TestCaseError> {
        compare(&site.collection().snapshot(), &self.models[place], &self.query)
    }

    /// Takes the steps from `first` on, which nothing disturbs.
    fn finish(&self, site: &mut Site, first: usize) -> Result<(), TestCaseError> {
        for (step, model) in self.steps.iter().zip(&self.models).skip(first) {
            if let Step::Reopen = step {
                site.reopen().expect("nothing fails any more");
                continue;
            }
            let outcome = perform(site.collection(), model, step);
            prop_assert_eq!(outcome.is_ok(), model.clone().take(step).is_ok(), "{:?}: {:?}", step, outcome);
        }
        self.is(site, self.steps.len())
    }

    /// The calls of the store from its creation to the last step.
    fn calls(&self) -> u64 {
        let faults = Faults::none();
        let mut site = Site::new(Place::Memory, &faults);
        site.create(configured(self.has_graph)).expect("a new collection");
        self.finish(&mut site, 0).expect("nothing fails");
        faults.calls()
    }

    /// The same with one call that fails.
    fn strike(&self, call: u64, fault: Fault) -> Result<(), TestCaseError> {
        let faults = Faults::at(call, fault);
        let mut site = Site::new(Place::Memory, &faults);
        if let Err(error) = site.create(configured(self.has_graph)) {
            prop_assert_eq!(error.blame(), Blame::Environment, "{}", error);
            return Ok(());
        }
        for (place, step) in self.steps.iter().enumerate() {
            let before = faults.calls();
            if let Step::Reopen = step {
                if let Err(error) = site.reopen() {
                    prop_assert_eq!(error.blame(), Blame::Environment, "{}", error);
                    prop_assert!(before < call && call <= faults.calls(), "{} in vain", error);
                    site.reopen().expect("nothing fails any more");
                }
                continue;
            }
            let outcome = perform(site.collection(), &self.models[place], step);
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
        let failure = site.collection().writer().failure;
        let Err(error) = outcome else {
            // Another call did instead of it, or it was the view of a reader, whom the next write gives a new one.
            prop_assert!(failure.is_none(), "{:?} is no failure", self.steps[place]);
            harmless_write(site.collection()).expect("the store is well");
            self.is(site, place + 1)?;
            return self.finish(site, place + 1);
        };
        let step = &self.steps[place];
        let is_refused = self.models[place].clone().take(step).is_err();
        prop_assert!(
            error.blame() == Blame::Environment || is_refused,
            "{step:?} fails by the caller's fault: {error}"
        );
        self.is(site, place)?;
        let Some(failure) = failure else {
            // Something could not be read once. The step can be taken again.
            return self.finish(site, place);
        };
        prop_assert!(failure.cause.contains("a test made this call fail"), "{:?} after {}", failure, error);
        let again = harmless_write(site.collection());
        prop_assert!(
            matches!(again, Err(WriteError::WriterFailed { .. } | WriteError::Commit(_))),
            "the writer goes on after {error}: {again:?}"
        );
        for (step, model) in self.steps[place..].iter().zip(&self.models[place..]) {
            let outcome = perform(site.collection(), model, step);
            let is_idle = matches!(step, Step::Reopen | Step::BuildGraph | Step::Freeze);
            prop_assert!(is_idle || outcome.is_err(), "{step:?} was taken after {error}");
        }
        self.is(site, place)?;
        self.reopened(site, place, call.is_multiple_of(3))
    }

    /// Opened again, it is as before the step or as after it; only a power cut takes more, from those that allow it.
    fn reopened(&self, site: &mut Site, place: usize, is_cut: bool) -> Result<(), TestCaseError> {
        let opened = if is_cut { site.cut_power(0) } else { site.reopen() };
        opened.expect("nothing fails any more");
        let durability = site.collection().writer().durability;
        let is_strict = durability == dehub_index::Durability::Strict;
        let oldest = if is_cut && !is_strict { 0 } else { place };
        let found = (oldest..=place + 1).rev().find(|&model| self.is(site, model).is_ok());
        match found {
            Some(found) => self.finish(site, found),
            None => self.is(site, place),
        }
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

/// Scripts of random steps.
fn random(has_graph: bool, count: usize, seed: u64) -> Vec<Script> {
    let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let one = |_| {
        let (steps, query) = script().new_tree(&mut runner).expect("a script").current();
        Script::new(has_graph, steps, query)
    };
    (0..count).map(one).collect()
}

#[test]
fn any_call_of_every_kind_of_write_may_fail() {
    check([Script::new(false, every_kind(), vec![1.0, 2.0])]);
}

#[test]
fn any_call_of_every_kind_of_write_may_fail_beside_a_graph() {
    check([Script::new(true, every_kind(), vec![1.0, 2.0])]);
}

#[test]
fn any_call_of_a_fit_in_pieces_may_fail() {
    check([Script::new(false, in_pieces(), vec![1.0, 2.0])]);
}

#[test]
fn any_call_of_random_writes_may_fail() {
    check(random(false, 16, 11));
}

#[test]
fn any_call_of_other_random_writes_may_fail() {
    check(random(false, 16, 12));
}

#[test]
fn any_call_of_random_writes_may_fail_beside_a_graph() {
    check(random(true, 6, 13));
}
