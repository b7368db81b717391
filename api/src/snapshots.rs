//! Snapshots of collections as Qdrant has them: files in a folder of the server, which are made, listed, fetched,
//! removed and recovered.

use std::fs::File;

use actix_web::HttpResponse;
use dehub_index::{Name, RestoreError};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::archive::{self, UnpackError};
use crate::backups::BackupFault;
use crate::call::{Call, Task};
use crate::decode::{self, Fields, Place};
use crate::download::Download;
use crate::errors::{self, NOT_SUPPORTED, SNAPSHOT_DAMAGED, STORAGE, UNKNOWN_SNAPSHOT};
use crate::problem::Problem;
use crate::snapshot_files::{SnapshotError, SnapshotFiles, SnapshotInfo};

#[derive(Serialize, ToSchema)]
#[schema(as = Snapshot)]
pub(crate) struct SnapshotReply {
    name: String,
    /// In UTC.
    creation_time: String,
    /// In bytes.
    size: u64,
    /// SHA-256; `null` of one that was put there by hand.
    checksum: Option<String>,
}

impl SnapshotReply {
    fn new(info: SnapshotInfo) -> SnapshotReply {
        let SnapshotInfo { name, created, bytes, checksum } = info;
        SnapshotReply { name, creation_time: created, size: bytes, checksum }
    }
}

/// `POST /collections/{collection}/snapshots`
pub(crate) async fn create(call: Call) -> HttpResponse {
    call.answer(&["wait"], |task| {
        let name = task.name("collection")?;
        // One that is not there, or does not open, is told as everywhere.
        drop(task.collection()?);
        let checkpoint = task.edge().catalogue().checkpoint(&name);
        let checkpoint = checkpoint.map_err(|error| errors::backup(&BackupFault::Checkpoint(error)))?;
        let written = files(&task).write(&name, checkpoint.folder());
        let written = written.map_err(|error| error.problem())?;
        task.edge().metrics().count_snapshot();
        task.reply(&SnapshotReply::new(written))
    })
    .await
}

/// `GET /collections/{collection}/snapshots`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.at_once()
        .answer(&[], |task| {
            let name = task.name("collection")?;
            let found = files(&task).list(&name).map_err(|error| error.problem())?;
            if found.is_empty() {
                // Those of a collection that is gone are listed; else there must be one.
                drop(task.collection()?);
            }
            task.reply(&found.into_iter().map(SnapshotReply::new).collect::<Vec<_>>())
        })
        .await
}

/// `GET /collections/{collection}/snapshots/{snapshot}`
pub(crate) async fn download(call: Call) -> HttpResponse {
    call.answer_file(|task| {
        let (name, snapshot) = (task.name("collection")?, task.segment("snapshot"));
        let path = files(&task).find(&name, snapshot).map_err(|error| error.problem())?;
        let opened = File::open(&path).and_then(|file| Download::new(file, snapshot));
        opened.map_err(|source| SnapshotError::File { path, source }.problem())
    })
    .await
}

/// `DELETE /collections/{collection}/snapshots/{snapshot}`
pub(crate) async fn remove(call: Call) -> HttpResponse {
    call.at_once()
        .answer(&["wait"], |task| {
            let name = task.name("collection")?;
            files(&task).remove(&name, task.segment("snapshot")).map_err(|error| error.problem())?;
            task.reply(&true)
        })
        .await
}

/// `PUT /collections/{collection}/snapshots/recover`: the collection becomes what it was, or is made.
pub(crate) async fn recover(call: Call) -> HttpResponse {
    call.at_once()
        .answer_body(&["wait"], |task, body| {
            let name = task.name("collection")?;
            let mut fields = Fields::new(body, Place::Body)?;
            let location = fields.required("location", decode::string)?;
            let wanted = fields.optional("checksum", decode::string)?;
            // Of one node that has what the snapshot has, and no other, each means the same.
            fields.optional("priority", priority)?;
            fields.finish()?;
            let path = files(&task).locate(&location).map_err(|error| error.problem())?;
            let archive = SnapshotFiles::open_checked(&path, wanted.as_deref());
            replace(&task, &name, archive.map_err(|error| error.problem())?)?;
            task.reply(&true)
        })
        .await
}

/// `POST /collections/{collection}/snapshots/upload`: the same, with the snapshot in the body. It is not kept.
pub(crate) async fn upload(call: Call) -> HttpResponse {
    let begin = |task: &Task| {
        let name = task.name("collection")?;
        files(task).begin(&name).map_err(|error| error.problem())
    };
    call.at_once()
        .answer_upload(&["wait", "priority", "checksum"], begin, |task, file| {
            let name = task.name("collection")?;
            if let Some(found) = task.parameters.text("priority") {
                priority(Value::from(found), Place::Body)
                    .map_err(|problem| problem.in_parameter("priority"))?;
            }
            let archive = file.open_checked(task.parameters.text("checksum"));
            replace(&task, &name, archive.map_err(|error| error.problem())?)?;
            task.reply(&true)
        })
        .await
}

/// Puts what is in an archive in the place of a collection, if it opens. On an error the collections are as they were.
fn replace(task: &Task, name: &Name, archive: File) -> Result<(), Problem> {
    let (edge, catalogue) = (task.edge(), task.edge().catalogue());
    let unfit = |error: RestoreError| {
        if matches!(error, RestoreError::Unfit(_)) {
            return Problem::new(SNAPSHOT_DAMAGED, error.to_string());
        }
        errors::backup(&BackupFault::Restore(error))
    };
    let incoming = catalogue.receive(name, true).map_err(unfit)?;
    let length =
        archive.metadata().map_err(|error| Problem::new(STORAGE, format!("the snapshot: {error}")))?;
    archive::unpack(archive, length.len(), incoming.folder()).map_err(|error| match error {
        UnpackError::Archive(_) => Problem::new(SNAPSHOT_DAMAGED, format!("the snapshot: {error}")),
        UnpackError::File { .. } => Problem::new(STORAGE, format!("the snapshot: {error}")),
    })?;
    edge.jobs().cancel_all(name);
    // A graph that is being built holds the collection; until it is done, the collection serves.
    let builds = edge.claim_builds(name, || false);
    let adopted = catalogue.adopt(incoming).map_err(unfit);
    drop(builds);
    adopted?;
    edge.forget(name);
    // Ready again before this is answered. Whoever asks for it is told if it does not open.
    _ = catalogue.get(name);
    Ok(())
}

fn priority(value: Value, place: Place<'_>) -> Result<(), Problem> {
    let found = decode::string(value, place)?;
    if ["no_sync", "snapshot", "replica"].contains(&found.as_str()) {
        return Ok(());
    }
    Err(decode::out_of_range(place, format_args!("{found:?}"), "no_sync, snapshot or replica"))
}

fn files(task: &Task) -> SnapshotFiles {
    SnapshotFiles::new(task.edge().catalogue())
}

impl SnapshotError {
    /// As the client is told.
    pub(crate) fn problem(&self) -> Problem {
        let detail = self.to_string();
        match self {
            SnapshotError::Unknown { .. } => Problem::new(UNKNOWN_SNAPSHOT, detail),
            SnapshotError::Location(_) => Problem::new(NOT_SUPPORTED, detail).at("/location"),
            SnapshotError::Checksum { wanted, found } => {
                Problem::new(SNAPSHOT_DAMAGED, detail).wanted(wanted).found(found)
            }
            SnapshotError::File { .. } => Problem::new(STORAGE, detail),
        }
    }
}
