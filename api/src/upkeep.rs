//! The threads that keep collections serving: they open all of them when the server starts, mend those whose writer
//! failed, sync what relaxed ones have acknowledged, and bring indexes of texts up to date.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dehub_index::{Catalogue, CatalogueError, CollectionState, MendOutcome, Name};

use crate::edge::Open;

/// Collections that are opened at a time when the server starts. Each is read by all cores; a second one uses what
/// the first leaves idle while it waits for the disk.
const OPENERS: usize = 2;

/// How often it is looked whether a collection needs mending…
const MEND_EVERY: Duration = Duration::from_secs(1);

/// … and how often at least while mending fails.
const MEND_EVERY_AT_MOST: Duration = Duration::from_secs(30);

/// How long what a relaxed collection acknowledged may wait for the disk when no other write comes.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// How long after a write points may be found by the words they had before.
const TEXTS_EVERY: Duration = Duration::from_secs(1);

/// The threads; told to end when this is dropped.
pub(crate) struct Upkeep(Arc<Ending>);

#[derive(Default)]
struct Ending {
    is_told: Mutex<bool>,
    told: Condvar,
}

impl Ending {
    /// Waits for so long, or until it is told; says whether it is.
    fn wait(&self, at_most: Duration) -> bool {
        let is_told = self.is_told.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(is_told, at_most, |is_told| !*is_told);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Upkeep {
    /// Starts the threads. Each keeps `open` for as long as it may have a collection.
    pub(crate) fn start(catalogue: &Arc<Catalogue>, open: &Open) -> Upkeep {
        let upkeep = Upkeep(Arc::default());
        let names = catalogue.names().unwrap_or_else(|error| {
            tracing::error!(%error, "the collections are not opened");
            Vec::new()
        });
        let (names, next) = (Arc::new(names), Arc::new(AtomicUsize::new(0)));
        for _ in 0..OPENERS.min(names.len()) {
            let (names, next) = (Arc::clone(&names), Arc::clone(&next));
            upkeep.spawn("open", catalogue, open, move |catalogue, ending| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if ending.wait(Duration::ZERO) {
                        return;
                    }
                    open_one(catalogue, name);
                }
            });
        }
        upkeep.spawn("mend", catalogue, open, mend);
        upkeep.spawn("sync", catalogue, open, sync);
        upkeep.spawn("texts", catalogue, open, refresh_texts);
        upkeep
    }

    fn spawn(
        &self,
        name: &str,
        catalogue: &Arc<Catalogue>,
        open: &Open,
        work: impl FnOnce(&Catalogue, &Ending) + Send + 'static,
    ) {
        let (ending, catalogue, open) = (Arc::clone(&self.0), Arc::clone(catalogue), open.clone());
        let run = move || {
            work(&catalogue, &ending);
            drop(catalogue);
            // INVARIANT: the last to go, when no collection is held any more.
            drop(open);
        };
        if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(run) {
            tracing::error!(%error, name, "no thread for the upkeep of collections");
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        *self.0.is_told.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.told.notify_all();
    }
}

fn open_one(catalogue: &Catalogue, name: &Name) {
    let started = Instant::now();
    match catalogue.get(name) {
        Ok(collection) => {
            let (points, seconds) = (collection.snapshot().len(), started.elapsed().as_secs_f64());
            tracing::info!(collection = %name, points, seconds, "opened");
        }
        // Deleted meanwhile.
        Err(CatalogueError::Unknown { .. }) => {}
        Err(error) => tracing::error!(collection = %name, %error, "does not open"),
    }
}

/// Begins to open what is closed: a collection that came while the server runs is served before it is asked for.
fn open_closed(catalogue: &Catalogue) {
    for (name, state) in catalogue.states().unwrap_or_default() {
        if matches!(state, CollectionState::Closed)
            && let Err(error) = catalogue.begin(&name)
        {
            tracing::debug!(collection = %name, %error, "not opened");
        }
    }
}

/// Syncs what no sync covers yet, again and again. A failure is the writer's, who tells of it.
fn sync(catalogue: &Catalogue, ending: &Ending) {
    while !ending.wait(SYNC_EVERY) {
        for (name, collection) in catalogue.open_ones() {
            if let Err(error) = collection.sync() {
                tracing::error!(collection = %name, %error, "what it acknowledged is not synced");
            }
        }
    }
}

/// Brings indexes of texts up to date, again and again. One that cannot be is told of once.
fn refresh_texts(catalogue: &Catalogue, ending: &Ending) {
    let mut failing: HashMap<Name, String> = HashMap::new();
    while !ending.wait(TEXTS_EVERY) {
        for (name, collection) in catalogue.open_ones().into_iter().filter(|(_, it)| it.is_text_behind()) {
            match collection.refresh_text() {
                Ok(_) => _ = failing.remove(&name),
                Err(error) => {
                    let reason = error.to_string();
                    if failing.insert(name.clone(), reason.clone()) != Some(reason) {
                        tracing::error!(collection = %name, %error, "its index of texts is behind");
                    }
                }
            }
        }
    }
}

/// Mends again and again, less often while that does not help.
fn mend(catalogue: &Catalogue, ending: &Ending) {
    let mut pause = MEND_EVERY;
    let mut known: HashMap<Name, String> = HashMap::new();
    while !ending.wait(pause) {
        open_closed(catalogue);
        let mended = catalogue.mend();
        let mut still = HashMap::new();
        for mended in mended {
            let name = mended.name;
            let reason = match mended.outcome {
                MendOutcome::Reopened => {
                    tracing::info!(collection = %name, "opened anew: it takes writes");
                    continue;
                }
                MendOutcome::Unwritable(error) => format!("its folder takes no writes: {error}"),
                MendOutcome::Refused(error) => format!("not opened anew: {error}"),
                _ => "not mended".to_owned(),
            };
            if known.get(&name) != Some(&reason) {
                tracing::error!(collection = %name, reason, "takes no writes");
            }
            still.insert(name, reason);
        }
        pause = if still.is_empty() { MEND_EVERY } else { MEND_EVERY_AT_MOST.min(pause * 2) };
        known = still;
    }
}
