//! What can go wrong with backups.

use std::io;
use std::path::PathBuf;

/// Why a backup was not made, read or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The place given for a repository cannot be one.
    #[error("{location} cannot keep backups: {reason}")]
    Location {
        /// What was given.
        location: String,
        /// Why not.
        reason: String,
    },
    /// A collection's name that is no name of a folder.
    #[error(
        "no backups are kept under the name {found:?}: wanted 1 to 200 characters, no slash, no dot in front"
    )]
    Collection {
        /// What was given.
        found: String,
    },
    /// An id that no backup can have.
    #[error("{found:?} is no id of a backup: wanted one such as 20260131T235959Z-42")]
    Id {
        /// What was given.
        found: String,
    },
    /// No such backup.
    #[error("{repository} has no backup {wanted} of `{collection}`; it has: {found}")]
    Unknown {
        /// The repository.
        repository: String,
        /// The collection.
        collection: String,
        /// The id asked for, or `at all`.
        wanted: String,
        /// The backups there are, or the collections if there are none of this one.
        found: String,
    },
    /// A folder to store that holds what no backup can: links, devices, names that are not UTF-8.
    #[error("{path} cannot be backed up: {reason}")]
    Unfit {
        /// What it is about.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// A manifest is not what was written.
    #[error("{repository}: the manifest of backup {backup} of `{collection}` is damaged: {reason}")]
    Manifest {
        /// The repository.
        repository: String,
        /// The collection.
        collection: String,
        /// The backup.
        backup: String,
        /// What was wanted and found.
        reason: String,
    },
    /// A manifest was written by a newer version.
    #[error(
        "{repository}: backup {backup} of `{collection}` has format {found}, this version reads up to \
         {supported}: update dehub"
    )]
    Newer {
        /// The repository.
        repository: String,
        /// The collection.
        collection: String,
        /// The backup.
        backup: String,
        /// The format found.
        found: u32,
        /// The newest format this version reads.
        supported: u32,
    },
    /// An object is missing or not what was stored.
    #[error("{repository}: the file {file} of backup {backup} is damaged: {reason} ({object})")]
    Object {
        /// The repository.
        repository: String,
        /// The backup.
        backup: String,
        /// The file's path in the collection.
        file: String,
        /// The object in the repository.
        object: String,
        /// What was wanted and found.
        reason: String,
    },
    /// A file changed while it was stored.
    #[error("{path} changed while it was backed up")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The object store refused or could not be reached.
    #[error("{repository}: {object}: {cause}")]
    Remote {
        /// The repository.
        repository: String,
        /// The object.
        object: String,
        /// The store's words.
        cause: String,
    },
    /// Somebody else works on the objects.
    #[error("{repository}: {holder} of `{collection}` is under way: try again later")]
    Busy {
        /// The repository.
        repository: String,
        /// The collection.
        collection: String,
        /// What is under way.
        holder: &'static str,
    },
    /// It was stopped by whoever asked for it.
    #[error("stopped before its end: no backup was made or changed")]
    Stopped,
}

impl BackupError {
    /// Whether asking differently helps; if not, it is the repository, the disk or the network.
    pub fn is_callers(&self) -> bool {
        match self {
            BackupError::Location { .. }
            | BackupError::Collection { .. }
            | BackupError::Id { .. }
            | BackupError::Unknown { .. }
            | BackupError::Stopped => true,
            BackupError::Unfit { .. }
            | BackupError::Manifest { .. }
            | BackupError::Newer { .. }
            | BackupError::Object { .. }
            | BackupError::Changed { .. }
            | BackupError::File { .. }
            | BackupError::Remote { .. }
            | BackupError::Busy { .. } => false,
        }
    }

    /// Whether a backup is there and is not what was stored.
    pub fn is_damage(&self) -> bool {
        matches!(self, BackupError::Manifest { .. } | BackupError::Object { .. })
    }
}

/// An error about a file or folder of this machine.
pub(crate) fn file(path: &std::path::Path) -> impl Fn(io::Error) -> BackupError {
    move |source| BackupError::File { path: path.to_owned(), source }
}
