//! What all requests share: the catalogue, and bounds on the work and the memory they take together.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use actix_web::web;
use dehub_backup::Repository;
use dehub_index::{Catalogue, CatalogueError, Collection, FitProgress, GraphBuild, Name, WriteError};
use dehub_query::calibrate_if_due;
use serde_json::Value;

pub(crate) use crate::admission::Share;
use crate::admission::{BODIES_MAX, Bound, Due, Limits, too_many};
use crate::audit::Audit;
use crate::brief::Brief;
use crate::corrections;
use crate::cors::Cors;
use crate::errors::{self, INTERNAL, Written};
use crate::guard::Guard;
use crate::hosts::Hosts;
use crate::jobs::{Jobs, Kind, Purpose, Unfinished, unfinished};
use crate::live::Live;
use crate::metrics::{Metrics, Sources};
use crate::observe::Observer;
use crate::problem::Problem;
use crate::rates::Intake;
use crate::slow::Slow;

/// How often whoever waits for a graph to be built looks whether it is.
const CLAIM_WAIT: Duration = Duration::from_millis(50);

/// What all requests share.
pub(crate) struct Edge {
    catalogue: Arc<Catalogue>,
    live: Arc<Live>,
    body_limit_bytes: usize,
    intake: Intake,
    limits: Limits,
    requests: Arc<Bound>,
    body_bytes: Arc<Bound>,
    /// Collections whose graph is being built by a thread of ours.
    building: Arc<Mutex<HashSet<Name>>>,
    /// Collections whose graph could not be built; only a write tries again.
    given_up: Arc<Mutex<HashSet<Name>>>,
    jobs: Jobs,
    metrics: Metrics,
    observer: Observer,
    slow: Arc<Slow>,
    brief: Brief,
    /// Collections whose pending fits were resumed, if they had some. One that was opened anew has them again.
    resumed: Mutex<HashMap<Name, Weak<Collection>>>,
    /// Where backups are kept, if the operator named a place.
    backups: Option<Arc<Repository>>,
    protection: Protection,
    is_stopping: AtomicBool,
    // INVARIANT: the last field, so that it is dropped when the collections are closed.
    open: Open,
}

/// What stands between the network and the collections.
#[derive(Default)]
pub(crate) struct Protection {
    pub(crate) guard: Arc<Guard>,
    pub(crate) hosts: Hosts,
    pub(crate) cors: Cors,
    pub(crate) audit: Option<Arc<Audit>>,
}

fn panicked() -> Problem {
    Problem::new(INTERNAL, "the request made the engine panic; the server goes on")
}

/// As long as one of these is left, something of the server may hold a collection open.
pub(crate) type Open = Sender<Infallible>;

impl Edge {
    pub(crate) fn new(
        catalogue: Arc<Catalogue>,
        live: Arc<Live>,
        body_limit_bytes: usize,
        open: Open,
    ) -> Edge {
        let jobs = Jobs::default();
        let requests = Bound::new(Limits::default().requests);
        let body_bytes = Bound::new(body_limit_bytes.saturating_mul(BODIES_MAX));
        let slow = Arc::new(Slow::default());
        let sources = Sources {
            catalogue: Arc::clone(&catalogue),
            jobs: jobs.clone(),
            live: Arc::clone(&live),
            requests: Arc::clone(&requests),
            body_bytes: Arc::clone(&body_bytes),
            slow: Arc::clone(&slow),
        };
        Edge {
            brief: Brief::default(),
            metrics: Metrics::new(sources),
            observer: Observer::default(),
            slow,
            catalogue,
            live,
            body_limit_bytes,
            intake: Intake::default(),
            limits: Limits::default(),
            requests,
            body_bytes,
            building: Arc::default(),
            given_up: Arc::default(),
            jobs,
            backups: None,
            protection: Protection::default(),
            is_stopping: AtomicBool::new(false),
            resumed: Mutex::default(),
            open,
        }
    }

    /// The same, with a place for backups.
    pub(crate) fn with_backups(self, backups: Option<Arc<Repository>>) -> Edge {
        Edge { backups, ..self }
    }

    /// The same, with requests watched otherwise.
    pub(crate) fn with_observer(self, observer: Observer) -> Edge {
        Edge { observer, ..self }
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Queries that took long.
    pub(crate) fn slow(&self) -> &Slow {
        &self.slow
    }

    /// The same, with what is taken from clients.
    pub(crate) fn with_intake(self, intake: Intake) -> Edge {
        Edge { intake, ..self }
    }

    /// What is taken from clients.
    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// The same, within these limits.
    pub(crate) fn with_limits(self, limits: Limits) -> Edge {
        self.requests.limit(limits.requests);
        Edge { limits, ..self }
    }

    /// The same, behind this.
    pub(crate) fn with_protection(mut self, protection: Protection) -> Edge {
        if let Some(audit) = &protection.audit {
            self.metrics.count_lost(audit);
        }
        Edge { protection, ..self }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Who may do what.
    pub(crate) fn guard(&self) -> &Guard {
        &self.protection.guard
    }

    /// The names it answers to.
    pub(crate) fn hosts(&self) -> &Hosts {
        &self.protection.hosts
    }

    /// Whose pages may ask.
    pub(crate) fn cors(&self) -> &Cors {
        &self.protection.cors
    }

    /// Where changes are written down, if the operator wants that.
    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.protection.audit.as_deref()
    }

    /// The collection that a name in a path stands for, by which it is decided who may ask. Wherever a name gets a
    /// meaning of its own, this must follow it.
    pub(crate) fn resolved(&self, name: &str) -> String {
        let resolved = name.parse::<Name>().ok().and_then(|name| self.catalogue.resolve(name).ok());
        resolved.map_or_else(|| name.to_owned(), String::from)
    }

    /// From now on `/readyz` says that the server ends.
    pub(crate) fn begin_to_stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(crate) fn backups(&self) -> Option<&Arc<Repository>> {
        self.backups.as_ref()
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// What the server learns from the queries it serves.
    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// What is measured about requests and collections.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Begins a job.
    pub(crate) fn start(
        &self,
        purpose: Purpose,
        collection: &Arc<Collection>,
        work: impl FnOnce(&Collection, &FitProgress) -> Result<Value, Unfinished> + Send + 'static,
    ) -> Result<u64, Problem> {
        self.jobs.start(purpose, Arc::clone(collection), self.open.clone(), work)
    }

    /// Begins a job that holds no collection all the time.
    pub(crate) fn start_alone(
        &self,
        purpose: Purpose,
        work: impl FnOnce(u64, &FitProgress) -> Result<Value, Unfinished> + Send + 'static,
    ) -> Result<u64, Problem> {
        self.jobs.start_alone(purpose, self.open.clone(), work)
    }

    /// Forgets what is known of a collection that became another one.
    pub(crate) fn forget(&self, name: &Name) {
        locked(&self.resumed).remove(name);
        locked(&self.given_up).remove(name);
    }

    /// Lets the fits go on, as jobs, that were under way when the collection was last closed.
    pub(crate) fn resume_fits(&self, name: &Name, collection: &Arc<Collection>) {
        let is_it = |found: &Weak<Collection>| found.as_ptr() == Arc::as_ptr(collection);
        let mut resumed = locked(&self.resumed);
        if resumed.get(name).is_some_and(is_it) {
            return;
        }
        resumed.insert(name.clone(), Arc::downgrade(collection));
        drop(resumed);
        let spaces = collection.all_spaces();
        let pending =
            spaces.iter().flat_map(|space| space.pending_fits().into_iter().map(move |fit| (space, fit)));
        for (space, fit) in pending {
            let Some(input) = fit.inputs.first() else { continue };
            let purpose = Purpose {
                kind: Kind::Fit,
                collection: name.clone(),
                space: space.space_name().cloned(),
                name: input.name.clone(),
            };
            let work = move |collection: &Collection, progress: &FitProgress| {
                let fitted = collection
                    .fit_with(&fit.inputs, progress)
                    .map_err(|error| unfinished(&error, |error| errors::write(error, &Written::Path)))?;
                Ok(corrections::fitted_value(&fitted))
            };
            match self.start(purpose.clone(), space, work) {
                Ok(job) => self.jobs.link(&purpose, job),
                Err(problem) => {
                    tracing::error!(collection = %name, ?problem, "a pending fit was not resumed");
                }
            }
        }
    }

    /// Deletes a collection; its jobs are cancelled first.
    pub(crate) fn delete(&self, name: &Name) -> Result<(), CatalogueError> {
        self.jobs.cancel_all(name);
        self.catalogue.delete(name)?;
        self.forget(name);
        Ok(())
    }

    /// The largest body of a request.
    pub(crate) fn body_limit_bytes(&self) -> usize {
        self.body_limit_bytes
    }

    /// No bytes yet of those that bodies may take.
    pub(crate) fn body_share(&self) -> Share {
        self.body_bytes.share()
    }

    /// Runs `work` on a thread that may block, or not at all when it is due before there is one. Too many at a time
    /// are refused; a panic is an error.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        due: Due,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let work = self.admitted(due, work)?;
        web::block(work).await.unwrap_or_else(|_| Err(panicked()))
    }

    /// The same on this very thread.
    pub(crate) fn run_here<T>(
        &self,
        due: Due,
        work: impl FnOnce() -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let work = self.admitted(due, work)?;
        // Whatever the work has broken is dropped with it, as that of a thread which ends.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
    }

    fn admitted<T, W: FnOnce() -> Result<T, Problem>>(
        &self,
        due: Due,
        work: W,
    ) -> Result<impl FnOnce() -> Result<T, Problem> + use<T, W>, Problem> {
        let mut share = self.requests.share();
        if !share.take(1) {
            return Err(too_many(self.requests.most()));
        }
        Ok(move || {
            let outcome = due.check().and_then(|()| work());
            drop(share);
            outcome
        })
    }

    /// What is known of short queries.
    pub(crate) fn brief(&self) -> &Brief {
        &self.brief
    }

    /// Brings the graph and its calibration up to date in the background if nobody does and it could be before:
    /// a file was lost, or the process ended before it was written.
    pub(crate) fn build_missing_graph(&self, name: &Name, collection: &Arc<Collection>) {
        let has_given_up = || locked(&self.given_up).contains(name);
        if is_due(collection) && !has_given_up() {
            self.build_graph_if_due(name, collection);
        }
    }

    /// Waits until nobody builds the collection's graph, and lets nobody begin while the claim is held. None if it was
    /// stopped before.
    pub(crate) fn claim_builds(&self, name: &Name, is_stopped: impl Fn() -> bool) -> Option<Claim> {
        while !is_stopped() {
            if locked(&self.building).insert(name.clone()) {
                return Some(Claim { name: name.clone(), building: Arc::clone(&self.building) });
            }
            thread::sleep(CLAIM_WAIT);
        }
        None
    }

    /// Builds the graph and calibrates it in the background if that is due and nobody does so already.
    pub(crate) fn build_graph_if_due(&self, name: &Name, collection: &Arc<Collection>) {
        if !is_due(collection) {
            return;
        }
        let first = locked(&self.building).insert(name.clone());
        if !first {
            return;
        }
        let claim = Claim { name: name.clone(), building: Arc::clone(&self.building) };
        let (collection, open) = (Arc::clone(collection), self.open.clone());
        let given_up = Arc::clone(&self.given_up);
        let build = move || {
            if build_graphs(&claim, &collection) {
                locked(&given_up).remove(&claim.name);
            } else {
                locked(&given_up).insert(claim.name.clone());
            }
            drop(collection);
            drop(open);
        };
        if let Err(error) = thread::Builder::new().name("graph".to_owned()).spawn(build) {
            tracing::error!(%error, collection = %name, "no thread to build the graph with");
        }
    }
}

/// A collection's place among those whose graph is being built, given back even by a panic.
pub(crate) struct Claim {
    name: Name,
    building: Arc<Mutex<HashSet<Name>>>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        locked(&self.building).remove(&self.name);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_due(collection: &Collection) -> bool {
    collection.is_graph_due() || collection.snapshot().is_calibration_due()
}

/// Freezes until nothing is due: points may come in faster than they are frozen. Then calibrates. Says whether it
/// could.
fn build_graphs(claim: &Claim, collection: &Collection) -> bool {
    let collection_name = claim.name.as_str();
    loop {
        match collection.build_graph_if_due() {
            Ok(GraphBuild::NotDue) => match calibrate_if_due(collection) {
                Ok(true) => tracing::info!(collection_name, "searches calibrated"),
                Ok(false) => return true,
                Err(error) => {
                    tracing::error!(collection_name, %error, "searches were not calibrated");
                    return false;
                }
            },
            Ok(GraphBuild::Built { nodes }) => tracing::info!(collection_name, nodes, "graph built"),
            Err(WriteError::Interrupted) => {
                tracing::info!(collection_name, "the graph is built another time: the server stops");
                return false;
            }
            Err(error) => {
                tracing::error!(collection_name, %error, "the graph was not built; searches stay exact");
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use actix_web::rt::System;

    use super::*;

    fn edge() -> Edge {
        Edge::new(Arc::new(Catalogue::new(Path::new("nowhere"))), Arc::new(Live::new()), 100, channel().0)
    }

    fn later() -> Due {
        Due::after(Instant::now(), Duration::from_secs(3600))
    }

    #[test]
    fn one_request_too_many_is_refused_and_room_is_given_back() {
        let edge = edge().with_limits(Limits { requests: 3, ..Limits::default() });
        let mut all = edge.requests.share();
        assert!(all.take(3), "there is room");
        let system = System::new();
        let refused = system.block_on(edge.run(later(), || Ok(()))).expect_err("there is no room");
        assert_eq!(refused.status(), 503);
        let told = refused.to_value()["detail"].to_string();
        assert!(told.contains("3 requests"), "the limit is in the answer: {told}");
        drop(all);
        system.block_on(edge.run(later(), || Ok(()))).expect("there is room again");
        assert!(edge.requests.share().take(3), "all was given back");
    }

    #[test]
    fn a_panic_is_an_error_and_gives_its_place_back() {
        let edge = edge();
        let system = System::new();
        let refused =
            system.block_on(edge.run(later(), || -> Result<(), Problem> { panic!("in the engine") }));
        assert_eq!(refused.expect_err("it panicked").status(), 500);
        assert!(edge.requests.share().take(edge.requests.most()), "all was given back");
    }

    #[test]
    fn work_whose_time_has_passed_is_not_run() {
        let edge = edge();
        let past = Due::after(Instant::now(), Duration::ZERO);
        let run = edge.run(past, || -> Result<(), Problem> { panic!("it is run") });
        assert_eq!(System::new().block_on(run).expect_err("it is too late").status(), 503);
    }

    #[test]
    fn bodies_share_the_memory_of_eight_of_the_largest() {
        let edge = edge();
        let (mut first, mut second) = (edge.body_share(), edge.body_share());
        first.grow(700).expect("room");
        second.grow(101).expect_err("no room");
        second.grow(100).expect("room");
        drop(first);
        second.grow(700).expect("room again");
    }
}
