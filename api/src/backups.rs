//! Backups of collections, and restores: as functions, and as jobs over HTTP.
//!
//! The operator names the place where backups are kept; a client names none.

use std::ops::ControlFlow;
use std::sync::Arc;

use actix_web::HttpResponse;
use dehub_backup::{
    About, BackupError, BackupId, BackupInfo, Progress, Repository, Step, StoreOptions, Stored, Swept,
};
use dehub_index::{
    Adopted, Catalogue, CatalogueError, CheckpointError, FailPoint, FitProgress, Name, RestoreError,
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::call::{Answer, Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, NO_BACKUPS};
use crate::jobs::{Kind, Purpose, Unfinished};
use crate::problem::Problem;

/// Why a backup or a restore came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum BackupFault {
    /// The repository.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The collection to back up.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// What was to be restored.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

/// Stores a collection as it is now, while it goes on.
pub fn back_up(
    catalogue: &Catalogue,
    name: &Name,
    repository: &Repository,
    options: StoreOptions,
    watcher: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Stored, BackupFault> {
    repository.check_outside(catalogue.folder())?;
    let checkpoint = catalogue.checkpoint(name)?;
    let info = checkpoint.info();
    let about = About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        identity: info.identity,
        sequence: info.sequence,
        points: info.points as u64,
        dim: info.dim as u64,
        metric: info.metric.to_string(),
    };
    let mut watched = |progress: Progress| {
        match progress.step {
            Step::Moved => {}
            Step::ObjectStored => FailPoint::BackupObjectStored.reach(),
            Step::ManifestWritten => FailPoint::BackupManifestWritten.reach(),
        }
        watcher(progress)
    };
    Ok(repository.store(name.as_str(), checkpoint.folder(), about, options, &mut watched)?)
}

/// Fetches a backup of the collection `name`, the newest if none is named, and lets it take the place of the
/// collection `target`, which may exist only if it `replaces` that. On an error the collections are as they were.
/// `before` is called before the one that is replaced has to be let go of.
pub fn restore_from(
    catalogue: &Catalogue,
    (name, target, replaces): (&Name, &Name, bool),
    (repository, backup): (&Repository, Option<&BackupId>),
    watcher: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    before: impl FnOnce(),
) -> Result<(BackupInfo, Adopted), BackupFault> {
    repository.check_outside(catalogue.folder())?;
    let incoming = catalogue.receive(target, replaces)?;
    let info = repository.fetch(name.as_str(), backup, incoming.folder(), watcher)?;
    before();
    Ok((info, catalogue.adopt(incoming)?))
}

/// A backup as JSON.
pub fn backup_value(info: &BackupInfo) -> Value {
    json!({
        "id": info.id.as_str(),
        "created": info.created,
        "sequence": info.about.sequence,
        "points": info.about.points,
        "dim": info.about.dim,
        "metric": info.about.metric,
        "files": info.files,
        "bytes": info.bytes,
        "version": info.about.version,
    })
}

/// A backup that was just made as JSON.
pub fn stored_value(stored: &Stored) -> Value {
    json!({
        "backup": backup_value(&stored.info),
        "bytes_copied": stored.bytes_copied,
        "bytes_linked": stored.bytes_linked,
        "bytes_shared": stored.bytes_shared,
    })
}

/// A collection that was restored as JSON.
pub fn restored_value(info: &BackupInfo, adopted: &Adopted) -> Value {
    json!({
        "backup": backup_value(info),
        "sequence": adopted.sequence,
        "points": adopted.points,
        "replaced": adopted.replaced,
    })
}

/// The answer to a request that began a backup or a restore.
#[derive(Serialize, ToSchema)]
#[schema(as = JobBegun)]
pub(crate) struct Begun {
    job: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = BackupList)]
pub(crate) struct Listed {
    /// The oldest first.
    #[schema(value_type = Vec<Object>)]
    backups: Vec<Value>,
    /// What is wrong with those that cannot be read.
    damaged: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = BackupsRemoved)]
pub(crate) struct Removed {
    backups: Vec<String>,
    objects: usize,
    bytes: u64,
}

impl Removed {
    fn new(swept: &Swept) -> Removed {
        let Swept { backups, objects, bytes } = swept;
        Removed {
            backups: backups.iter().map(BackupId::to_string).collect(),
            objects: *objects,
            bytes: *bytes,
        }
    }
}

/// `POST /collections/{collection}/backups`
pub(crate) async fn begin(call: Call) -> HttpResponse {
    call.answer_optional_body(&[], |task, body| {
        Fields::new(body, Place::Body)?.finish()?;
        let repository = repository(&task)?;
        let name = task.name("collection")?;
        // One that is not there, or does not open, is refused at once.
        drop(task.collection()?);
        let edge = task.shared_edge();
        let purpose = Purpose::of_whole(Kind::Backup, name.clone());
        let job = task.edge().start_alone(purpose, move |_, progress| {
            let options = StoreOptions { link: false };
            let stored = back_up(edge.catalogue(), &name, &repository, options, &mut watch(progress));
            let stored = stored.map_err(|fault| unfinished(&fault))?;
            edge.metrics().count_snapshot();
            Ok(stored_value(&stored))
        })?;
        Ok(Answer::accepted(task.reply(&Begun { job })?))
    })
    .await
}

/// `GET /collections/{collection}/backups`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.at_once()
        .answer(&[], |task| {
            let name = task.name("collection")?;
            let listing =
                repository(&task)?.list(name.as_str()).map_err(|error| errors::backup(&error.into()))?;
            task.reply(&Listed {
                backups: listing.backups.iter().map(backup_value).collect(),
                damaged: listing.damaged.iter().map(ToString::to_string).collect(),
            })
        })
        .await
}

/// `DELETE /collections/{collection}/backups/{backup}`
pub(crate) async fn remove(call: Call) -> HttpResponse {
    call.at_once()
        .answer(&[], |task| {
            let name = task.name("collection")?;
            let repository = repository(&task)?;
            let refused = |error: BackupError| errors::backup(&error.into());
            let backup: BackupId = task.segment("backup").parse().map_err(refused)?;
            let swept = repository.remove(name.as_str(), &backup).map_err(refused)?;
            task.reply(&Removed::new(&swept))
        })
        .await
}

/// `POST /collections/{collection}/restore`
pub(crate) async fn restore(call: Call) -> HttpResponse {
    call.at_once()
        .answer_optional_body(&[], |task, body| {
            let name = task.name("collection")?;
            let mut fields = Fields::new(body, Place::Body)?;
            let backup = fields.optional("backup", id)?;
            let replaces = fields.optional("replace", decode::flag)?.unwrap_or(false);
            fields.finish()?;
            let repository = repository(&task)?;
            let refused = |error: BackupError| errors::backup(&error.into());
            // What can be told to be wrong now need not wait for the job's end.
            repository.describe(name.as_str(), backup.as_ref()).map_err(refused)?;
            let names = task.edge().catalogue().names().map_err(|error| errors::catalogue(&error))?;
            if !replaces && names.contains(&name) {
                let folder = task.edge().catalogue().folder().to_owned();
                return Err(errors::catalogue(&CatalogueError::Exists { name, folder }));
            }
            let edge = task.shared_edge();
            let purpose = Purpose::of_whole(Kind::Restore, name.clone());
            let job = task.edge().start_alone(purpose, move |job, progress| {
                let mut builds = None;
                let restored = restore_from(
                    edge.catalogue(),
                    (&name, &name, replaces),
                    (&repository, backup.as_ref()),
                    &mut watch(progress),
                    || {
                        edge.jobs().cancel_but(Some(job), &name);
                        // A graph that is being built holds the collection; until it is done, the collection serves.
                        builds = edge.claim_builds(&name, || progress.is_stopped());
                    },
                );
                drop(builds);
                let (info, adopted) = restored.map_err(|fault| unfinished(&fault))?;
                edge.forget(&name);
                // Ready again before anybody asks for it. Whoever does is told if it does not open.
                _ = edge.catalogue().begin(&name);
                Ok(restored_value(&info, &adopted))
            })?;
            Ok(Answer::accepted(task.reply(&Begun { job })?))
        })
        .await
}

fn id(value: Value, place: Place<'_>) -> Result<BackupId, Problem> {
    let text = decode::string(value, place)?;
    let wanted = "the id of a backup, such as 20260131T235959Z-42";
    text.parse().map_err(|_| decode::out_of_range(place, format_args!("{text:?}"), wanted))
}

fn repository(task: &Task) -> Result<Arc<Repository>, Problem> {
    let none = || {
        let detail =
            "the server has no place for backups: its operator names one with `backups` in the settings";
        Problem::new(NO_BACKUPS, detail)
    };
    task.edge().backups().cloned().ok_or_else(none)
}

/// Shows a job's progress, and ends its work when it is told to stop.
fn watch(progress: &FitProgress) -> impl FnMut(Progress) -> ControlFlow<()> {
    |now| {
        progress.set(now.done, now.total);
        if progress.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn unfinished(fault: &BackupFault) -> Unfinished {
    match fault {
        BackupFault::Backup(BackupError::Stopped) => Unfinished::Stopped,
        BackupFault::Backup(_) | BackupFault::Checkpoint(_) | BackupFault::Restore(_) => {
            Unfinished::Refused(errors::backup(fault))
        }
    }
}
