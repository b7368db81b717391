//! What can go wrong, one enum per operation, and whose fault it is.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::Family;

/// Whose fault an error is, and so who can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The request; asking differently helps.
    Caller,
    /// The disk, the directory or another process; the same request may succeed once that is put right.
    Environment,
    /// This program.
    Bug,
}

/// Who has a store open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The process that asked.
    ThisProcess,
    /// The process of this number on this machine.
    Process(u32),
    /// Some other process on this machine, or on another one that shares the directory.
    AnotherProcess,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::ThisProcess => f.write_str("this process"),
            Holder::Process(number) => write!(f, "process {number}"),
            Holder::AnotherProcess => f.write_str("another process"),
        }
    }
}

/// Why a store was not created or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing to open.
    #[error("there is no store at {path}")]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// There is a store where one was to be created.
    #[error("there already is a store at {path}")]
    Exists {
        /// Where it is.
        path: PathBuf,
    },
    /// Somebody has it open.
    #[error(
        "the store at {path} is in use by {holder}; one process at a time can open it, so stop that one first"
    )]
    InUse {
        /// Where the store is.
        path: PathBuf,
        /// Who has it open.
        holder: Holder,
    },
    /// The operating system refuses to let this process write there.
    #[error("not allowed to write to the store at {path}: {cause}")]
    Denied {
        /// Where the store is, or was to be.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// The path, or a part of it, names a file.
    #[error("{path} is not a directory, and a store is one")]
    NotADirectory {
        /// The path that was given.
        path: PathBuf,
    },
    /// The files contradict themselves, or some are missing.
    #[error("the store at {path} is damaged{}: {cause}", place(file.as_deref(), *offset))]
    Corrupt {
        /// Where the store is.
        path: PathBuf,
        /// The file that is damaged, lost or too much, if that is known.
        file: Option<PathBuf>,
        /// Where in that file, in bytes from its start, if that is known.
        offset: Option<u64>,
        /// What was found.
        cause: String,
    },
    /// The store has a family that this program does not know.
    #[error(
        "the store at {path} has a family {family:?} unknown to this version, so another version wrote it"
    )]
    UnknownFamily {
        /// Where the store is.
        path: PathBuf,
        /// The family's name.
        family: String,
    },
    /// The store lacks a family that this program needs.
    #[error(
        "the store at {path} has no family {family:?}: another version wrote it, or its creation was interrupted"
    )]
    MissingFamily {
        /// Where the store is.
        path: PathBuf,
        /// The family's name.
        family: String,
    },
    /// Any other refusal of the system, such as a full disk.
    #[error("the store at {path} could not be opened: {cause}")]
    Failed {
        /// Where the store is, or was to be.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
}

/// Why a read did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The store was not opened with this family.
    #[error("the store at {path} was not opened with the family {family}")]
    UnknownFamily {
        /// Where the store is.
        path: PathBuf,
        /// The family asked for.
        family: Family,
    },
    /// What is on disk does not match its checksum, or contradicts itself.
    #[error("the store at {path} is damaged{}: {cause}", place(file.as_deref(), *offset))]
    Corrupt {
        /// Where the store is.
        path: PathBuf,
        /// The file that is damaged, lost or too much, if that is known.
        file: Option<PathBuf>,
        /// Where in that file, in bytes from its start, if that is known.
        offset: Option<u64>,
        /// What was found.
        cause: String,
    },
    /// The system could not read.
    #[error("the store at {path} could not be read: {cause}")]
    Failed {
        /// Where the store is.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
}

/// Why a commit was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The store was not opened with this family. Nothing was written.
    #[error("the store at {path} was not opened with the family {family}")]
    UnknownFamily {
        /// Where the store is.
        path: PathBuf,
        /// The family the batch names.
        family: Family,
    },
    /// The batch is larger than a commit may be. Nothing was written.
    #[error("a batch of {bytes} bytes is more than one commit takes ({limit} bytes)")]
    TooLarge {
        /// The size of the batch.
        bytes: usize,
        /// [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX).
        limit: usize,
    },
    /// The system could not write. The store is poisoned now. The batch is not visible, and whether it will be after
    /// reopening is not known; a part of it never will.
    #[error("the store at {path} could not be written: {cause}")]
    Failed {
        /// Where the store is.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// An earlier commit failed, so this one was not tried. Reads go on; reopening makes the store writable.
    #[error(
        "the store at {path} takes no writes because an earlier one failed; put that right and reopen it"
    )]
    Poisoned {
        /// Where the store is.
        path: PathBuf,
    },
}

/// Why a checkpoint was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Something is where the checkpoint was to be.
    #[error("{into} already exists, and a checkpoint is a new directory")]
    Exists {
        /// Where the checkpoint was to be.
        into: PathBuf,
    },
    /// The directory that was to hold the checkpoint is not there.
    #[error("the directory that is to hold the checkpoint {into} does not exist")]
    ParentMissing {
        /// Where the checkpoint was to be.
        into: PathBuf,
    },
    /// The system could not write.
    #[error("the checkpoint {into} could not be made: {cause}")]
    Failed {
        /// Where the checkpoint was to be.
        into: PathBuf,
        /// The system's words.
        cause: String,
    },
}

/// Why a compaction did not finish. No data is lost by that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// The system could not read or write.
    #[error("the store at {path} could not be compacted: {cause}")]
    Failed {
        /// Where the store is.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
}

/// ` in FILE at byte OFFSET`, as far as it is known.
fn place(file: Option<&Path>, offset: Option<u64>) -> String {
    match (file, offset) {
        (Some(file), Some(offset)) => format!(" in {} at byte {offset}", file.display()),
        (Some(file), None) => format!(" in {}", file.display()),
        (None, _) => String::new(),
    }
}

impl OpenError {
    /// Whether there is no whole store, rather than one that someone else holds or hides.
    pub fn is_damage(&self) -> bool {
        match self {
            OpenError::Missing { .. }
            | OpenError::NotADirectory { .. }
            | OpenError::Corrupt { .. }
            | OpenError::UnknownFamily { .. }
            | OpenError::MissingFamily { .. } => true,
            OpenError::Exists { .. }
            | OpenError::InUse { .. }
            | OpenError::Denied { .. }
            | OpenError::Failed { .. } => false,
        }
    }

    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            OpenError::Missing { .. } | OpenError::Exists { .. } | OpenError::NotADirectory { .. } => {
                Blame::Caller
            }
            OpenError::InUse { .. }
            | OpenError::Denied { .. }
            | OpenError::Corrupt { .. }
            | OpenError::UnknownFamily { .. }
            | OpenError::MissingFamily { .. }
            | OpenError::Failed { .. } => Blame::Environment,
        }
    }
}

impl ReadError {
    /// Whether what is stored is not what was written, rather than that it could not be read now.
    pub fn is_damage(&self) -> bool {
        match self {
            ReadError::Corrupt { .. } => true,
            ReadError::UnknownFamily { .. } | ReadError::Failed { .. } => false,
        }
    }

    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            ReadError::UnknownFamily { .. } => Blame::Bug,
            ReadError::Corrupt { .. } | ReadError::Failed { .. } => Blame::Environment,
        }
    }
}

impl CommitError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            CommitError::UnknownFamily { .. } => Blame::Bug,
            CommitError::TooLarge { .. } => Blame::Caller,
            CommitError::Failed { .. } | CommitError::Poisoned { .. } => Blame::Environment,
        }
    }
}

impl CheckpointError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            CheckpointError::Exists { .. } | CheckpointError::ParentMissing { .. } => Blame::Caller,
            CheckpointError::Failed { .. } => Blame::Environment,
        }
    }
}

impl CompactError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            CompactError::Failed { .. } => Blame::Environment,
        }
    }
}
