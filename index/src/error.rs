//! What can go wrong with a collection, and whose fault it is.

use std::path::PathBuf;

use dehub_normalize::{BankKind, PerplexityError, StateError};
use dehub_store::Blame;
use dehub_vector::{Metric, PointId, VectorError};

use crate::config::VERSION;
use crate::point::TEXT_BYTES_MAX;
use crate::record::DamagedRecord;
use crate::upgrade::OLDEST;
use crate::{
    BATCH_POINTS_MAX, ConfigError, Name, PAYLOAD_INDEXES_MAX, PRIOR_ABS_MAX, PRIORS_MAX, PayloadError,
    TextFieldsError, TextSearchError, UnknownSpace, WEIGHT_MAX,
};

/// Why a collection could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store did not open.
    #[error(transparent)]
    Store(#[from] dehub_store::OpenError),
    /// It opened, but could not be read.
    #[error("{path}: {source}")]
    Read {
        /// The collection's folder.
        path: PathBuf,
        /// Why.
        source: ReadError,
    },
    /// It was written by a newer version, or by one too old.
    #[error(
        "{path}: the collection has format {found}{}, and dehub {VERSION} reads formats {OLDEST} to {supported}: {}",
        written_by.as_ref().map(|version| format!(", written by dehub {version}")).unwrap_or_default(),
        if found > supported { "update dehub" } else { "make the collection anew from its data" }
    )]
    Format {
        /// The collection's folder.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format this version writes, the newest it reads.
        supported: u32,
        /// The version of dehub that wrote it last, if the collection says so.
        written_by: Option<String>,
    },
    /// It is of an older format, and could not be written in the next one. It is in one of both, and whole.
    #[error("{path}: the collection of format {from} could not be written in a newer one: {source}")]
    Upgrade {
        /// The collection's folder.
        path: PathBuf,
        /// The format it has.
        from: u32,
        /// Why.
        source: dehub_store::CommitError,
    },
    /// A new collection could not be written.
    #[error("{path}: {source}")]
    Create {
        /// The collection's folder.
        path: PathBuf,
        /// Why.
        source: dehub_store::CommitError,
    },
}

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The store could not read it.
    #[error(transparent)]
    Store(#[from] dehub_store::ReadError),
    /// A record is not what was written.
    #[error(transparent)]
    Damaged(#[from] DamagedRecord),
    /// A state is not what was written.
    #[error("the states are damaged: {0}")]
    State(#[from] StateError),
    /// The configuration is not one this version can have written.
    #[error("the configuration is damaged: {0}")]
    Config(#[from] ConfigError),
}

/// Why a write was refused or failed. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Fields of texts that there cannot be.
    #[error(transparent)]
    TextFields(#[from] TextFieldsError),
    /// The fields of texts are set, and their index could not be made.
    #[error("the text fields are set, and points are not found by them yet: {0}")]
    Texts(#[from] TextSearchError),
    /// A vector cannot be stored.
    #[error("{item} {place}{}: {source}", id.as_ref().map(|id| format!(" (id {id})")).unwrap_or_default())]
    Vector {
        /// `point` or `bank entry`.
        item: &'static str,
        /// Its place in the batch, from 0.
        place: usize,
        /// Its id.
        id: Option<PointId>,
        /// What is wrong with it.
        source: VectorError,
    },
    /// A vector of a name cannot be stored.
    #[error("point {place} (id {id}): vector `{name}`: {source}")]
    NamedVector {
        /// The point's place in the batch, from 0.
        place: usize,
        /// Its id.
        id: PointId,
        /// The vector.
        name: Name,
        /// What is wrong with it.
        source: VectorError,
    },
    /// A vector of a name that the collection has not, or twice of one.
    #[error("point {place} (id {id}): {reason}; the collection has: {found}")]
    VectorName {
        /// The point's place in the batch, from 0.
        place: usize,
        /// Its id.
        id: PointId,
        /// The name; `None` for the unnamed vector.
        name: Option<Name>,
        /// What is wrong with it.
        reason: String,
        /// The names of the collection's vectors.
        found: String,
    },
    /// A name of a vector that the collection has not.
    #[error(transparent)]
    Space(#[from] UnknownSpace),
    /// What cannot be done with named vectors.
    #[error("{what} is not possible in a collection with named vectors")]
    NamedVectors {
        /// What was asked for.
        what: &'static str,
    },
    /// A point that is not there.
    #[error("point {place} (id {id}) does not exist")]
    UnknownPoint {
        /// Its place in the list, from 0.
        place: usize,
        /// Its id.
        id: PointId,
    },
    /// The same id twice in one batch.
    #[error(
        "{item} {place} has the id {id}, which {item} {first} of the same batch has: wanted each id once"
    )]
    DuplicateId {
        /// `point` or `bank entry`.
        item: &'static str,
        /// The second place, from 0.
        place: usize,
        /// The first place, from 0.
        first: usize,
        /// The id.
        id: PointId,
    },
    /// A bank entry's id is taken.
    #[error("bank entry {place} has the id {id}, which bank `{bank}` has already")]
    EntryExists {
        /// Its place in the batch, from 0.
        place: usize,
        /// The id.
        id: PointId,
        /// The bank.
        bank: Name,
    },
    /// A weight no entry can have.
    #[error("bank entry {place} has the weight {found}, wanted a number above 0, at most {WEIGHT_MAX}")]
    Weight {
        /// Its place in the batch, from 0.
        place: usize,
        /// The weight.
        found: f32,
    },
    /// A factor or a limit that no weights can be scaled with.
    #[error("{parameter} is {found}, wanted {wanted}")]
    Decay {
        /// Which.
        parameter: &'static str,
        /// What was given.
        found: f32,
        /// What its range is.
        wanted: &'static str,
    },
    /// A text is too long.
    #[error("point {place} (id {id}): the text has {found} bytes, wanted at most {TEXT_BYTES_MAX}")]
    TextTooLong {
        /// Its place in the batch, from 0.
        place: usize,
        /// Its id.
        id: PointId,
        /// The text's length.
        found: usize,
    },
    /// Too many points at once.
    #[error("the batch has {found} points, wanted at most {BATCH_POINTS_MAX}")]
    BatchTooLarge {
        /// How many.
        found: usize,
    },
    /// What a change makes of a payload is no payload.
    #[error("point {place} (id {id}): {source}")]
    Payload {
        /// Its place in the list, from 0.
        place: usize,
        /// Its id.
        id: PointId,
        /// What is wrong with it.
        source: PayloadError,
    },
    /// One index too many.
    #[error("the collection has {found} payload indexes, and may have {PAYLOAD_INDEXES_MAX}")]
    TooManyIndexes {
        /// How many there are.
        found: usize,
    },
    /// Row numbers are used up.
    #[error("the collection has numbered {found} points in its life and can number no more")]
    TooManyPoints {
        /// Rows used.
        found: usize,
    },
    /// A bank grew too large.
    #[error("bank `{bank}` would have {found} entries, wanted at most {most}")]
    BankTooLarge {
        /// The bank.
        bank: Name,
        /// How many.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// No such bank.
    #[error("there is no bank `{bank}`; the collection has: {found}")]
    UnknownBank {
        /// What was asked for.
        bank: Name,
        /// The banks there are.
        found: String,
    },
    /// Something that is not for points of several vectors each.
    #[error("{what} is not for multi-vectors: {reason}")]
    MultiVectors {
        /// What.
        what: String,
        /// Why.
        reason: &'static str,
    },
    /// A method that needs a bank was given none.
    #[error("{method} needs a {kind} bank, and none was named")]
    NoBank {
        /// The method.
        method: String,
        /// The kind of bank.
        kind: BankKind,
    },
    /// A bank of the other kind.
    #[error("bank `{bank}` is a {found} bank, wanted a {wanted} bank")]
    BankKind {
        /// The bank.
        bank: Name,
        /// The kind wanted.
        wanted: BankKind,
        /// The kind it is.
        found: BankKind,
    },
    /// A bank of all points, when there are none.
    #[error("bank `{bank}` cannot be made from the gallery: the collection has no points")]
    EmptyGallery {
        /// The bank.
        bank: Name,
    },
    /// A bank without entries.
    #[error("bank `{bank}` is empty: a correction is fitted from at least one entry")]
    EmptyBank {
        /// The bank.
        bank: Name,
    },
    /// A name that means the raw ranking.
    #[error("a correction cannot be called `{name}`: that is what the raw ranking is asked for by")]
    ReservedName {
        /// The name.
        name: Name,
    },
    /// A method that has no meaning under the collection's metric.
    #[error("{method} cannot be fitted under {metric}: {reason}")]
    Metric {
        /// The method.
        method: String,
        /// The collection's metric.
        metric: Metric,
        /// Why.
        reason: &'static str,
    },
    /// A perplexity that no temperature gives.
    #[error("{method}: {source}")]
    Perplexity {
        /// The method's name.
        method: &'static str,
        /// Why none does.
        source: PerplexityError,
    },
    /// More neighbours wanted than a bank has entries.
    #[error("{method} looks at the {wanted} nearest bank entries, but bank `{bank}` has {found} entries")]
    MoreThanBank {
        /// The method.
        method: String,
        /// Its `k`.
        wanted: usize,
        /// The bank.
        bank: Name,
        /// Its entries.
        found: usize,
    },
    /// More neighbours wanted than there are points.
    #[error("{method} activates {wanted} points for each bank query, but the collection has {found} points")]
    MoreThanPoints {
        /// The method.
        method: String,
        /// Its `k`.
        wanted: usize,
        /// The points there are.
        found: usize,
    },
    /// No such correction.
    #[error("there is no correction `{correction}`; the collection has: {found}")]
    UnknownCorrection {
        /// What was asked for.
        correction: Name,
        /// The corrections there are.
        found: String,
    },
    /// The default, or what the quarantine tests by, cannot be dropped or become another method.
    #[error("correction `{correction}` is {used_as}: {remedy}")]
    CorrectionInUse {
        /// The correction.
        correction: Name,
        /// What it is used as.
        used_as: &'static str,
        /// How to end that.
        remedy: &'static str,
    },
    /// A default without a verdict for it.
    #[error("correction `{correction}` cannot be the default: {reason}; force it to have it all the same")]
    Vetoed {
        /// The correction.
        correction: Name,
        /// The verdict's reason.
        reason: String,
    },
    /// A default that is not what was judged any more.
    #[error(
        "correction `{correction}` was judged at version {judged} and is at version {found}: judge it again"
    )]
    CorrectionChanged {
        /// The correction.
        correction: Name,
        /// The version judged.
        judged: u32,
        /// The version there is.
        found: u32,
    },
    /// A rate that is no share.
    #[error("the rate of false alarms is {found}, wanted a number from 0 to 1")]
    Rate {
        /// The rate.
        found: f64,
    },
    /// A correction by which no hub can be told.
    #[error(
        "correction `{correction}` is {method}, which ranks by a score of its own and gives points no biases \
         to test"
    )]
    NoBiases {
        /// The correction.
        correction: Name,
        /// Its method.
        method: String,
    },
    /// A point to release that is not in quarantine.
    #[error("point {place} (id {id}) is not in quarantine")]
    NotHeld {
        /// Its place in the list, from 0.
        place: usize,
        /// Its id.
        id: PointId,
    },
    /// No such prior.
    #[error("there is no prior `{prior}`; the collection has: {found}")]
    UnknownPrior {
        /// What was asked for.
        prior: Name,
        /// The priors there are.
        found: String,
    },
    /// A value that no prior can have.
    #[error("value {place} is {found}, wanted a number from -{PRIOR_ABS_MAX:e} to {PRIOR_ABS_MAX:e}")]
    PriorValue {
        /// Its place in the list, from 0.
        place: usize,
        /// The value.
        found: f32,
    },
    /// Too many priors.
    #[error("the collection has {PRIORS_MAX} priors, and can have no more")]
    TooManyPriors,
    /// A bank that a correction is fitted from.
    #[error("bank `{bank}` is used by {used_by}: drop the correction first")]
    BankInUse {
        /// The bank.
        bank: Name,
        /// The corrections.
        used_by: String,
    },
    /// It was cancelled.
    #[error("cancelled before its end: nothing was changed")]
    Cancelled,
    /// It was interrupted.
    #[error("interrupted before its end: nothing was changed, and the same fit goes on from there")]
    Interrupted,
    /// The bank that queries are kept in.
    #[error(
        "bank `{bank}` keeps the queries of late: stop that first (dehub live COLLECTION --off, or DELETE …/live)"
    )]
    BankIsLive {
        /// The bank.
        bank: Name,
    },
    /// A bank that others filled is to keep queries.
    #[error(
        "bank `{bank}` has {entries} entries and none of a query that was served: name a new bank, so that the two \
         are not mixed"
    )]
    BankIsNotLive {
        /// The bank.
        bank: Name,
        /// How many entries it has.
        entries: usize,
    },
    /// A number of a live bank's policy that is out of range.
    #[error("{parameter} is {found}, wanted {wanted}")]
    Live {
        /// Which.
        parameter: &'static str,
        /// What was given.
        found: f64,
        /// What its range is.
        wanted: &'static str,
    },
    /// The commit failed. The writer refuses until the collection is opened again.
    #[error(transparent)]
    Commit(#[from] dehub_store::CommitError),
    /// A commit failed, this one or one before it, so the writer refuses until the collection is opened again.
    #[error(
        "the collection takes no writes since a commit failed, and serves what was there before: {cause}"
    )]
    WriterFailed {
        /// The error of the commit.
        cause: String,
    },
    /// Too many writes wait.
    #[error(
        "{waiting} writes of the collection are under way already: try again when some of them have ended"
    )]
    QueueFull {
        /// How many.
        waiting: usize,
    },
    /// The disk is nearly full. Nothing was tried, and the next write succeeds once there is space.
    #[error("{path}: the disk has {free} bytes left, and a write is tried with at least {wanted}")]
    DiskFull {
        /// The folder of the store.
        path: PathBuf,
        /// The bytes left.
        free: u64,
        /// The bytes wanted.
        wanted: u64,
    },
    /// What the write depends on could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The graph could not be written to disk.
    #[error("the graph file could not be written: {0}")]
    GraphFile(#[source] std::io::Error),
}

impl OpenError {
    /// Whether the collection is there, and free, but is not what was written.
    pub fn is_damage(&self) -> bool {
        match self {
            OpenError::Read { .. } | OpenError::Format { .. } => true,
            OpenError::Store(error) => error.is_damage(),
            OpenError::Create { .. } | OpenError::Upgrade { .. } => false,
        }
    }

    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            OpenError::Store(error) => error.blame(),
            OpenError::Create { source, .. } | OpenError::Upgrade { source, .. } => source.blame(),
            OpenError::Read { .. } | OpenError::Format { .. } => Blame::Environment,
        }
    }
}

impl ReadError {
    /// Whether what is stored is not what was written, rather than that it could not be read now.
    pub fn is_damage(&self) -> bool {
        match self {
            ReadError::Store(error) => error.is_damage(),
            ReadError::Damaged(_) | ReadError::State(_) | ReadError::Config(_) => true,
        }
    }

    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        Blame::Environment
    }
}

impl From<DamagedRecord> for WriteError {
    fn from(error: DamagedRecord) -> WriteError {
        WriteError::Read(error.into())
    }
}

impl From<dehub_store::ReadError> for WriteError {
    fn from(error: dehub_store::ReadError) -> WriteError {
        WriteError::Read(error.into())
    }
}

impl From<StateError> for WriteError {
    fn from(error: StateError) -> WriteError {
        WriteError::Read(error.into())
    }
}

impl WriteError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            WriteError::Commit(error) => error.blame(),
            WriteError::Read(error) => error.blame(),
            WriteError::GraphFile(_)
            | WriteError::Texts(_)
            | WriteError::WriterFailed { .. }
            | WriteError::QueueFull { .. }
            | WriteError::DiskFull { .. } => Blame::Environment,
            WriteError::Cancelled
            | WriteError::Interrupted
            | WriteError::Vector { .. }
            | WriteError::NamedVector { .. }
            | WriteError::VectorName { .. }
            | WriteError::Space(_)
            | WriteError::NamedVectors { .. }
            | WriteError::UnknownPoint { .. }
            | WriteError::DuplicateId { .. }
            | WriteError::EntryExists { .. }
            | WriteError::Weight { .. }
            | WriteError::Decay { .. }
            | WriteError::TextTooLong { .. }
            | WriteError::Payload { .. }
            | WriteError::TextFields(_)
            | WriteError::TooManyIndexes { .. }
            | WriteError::BatchTooLarge { .. }
            | WriteError::TooManyPoints { .. }
            | WriteError::BankTooLarge { .. }
            | WriteError::UnknownBank { .. }
            | WriteError::MultiVectors { .. }
            | WriteError::NoBank { .. }
            | WriteError::BankKind { .. }
            | WriteError::EmptyGallery { .. }
            | WriteError::EmptyBank { .. }
            | WriteError::ReservedName { .. }
            | WriteError::Metric { .. }
            | WriteError::Perplexity { .. }
            | WriteError::MoreThanBank { .. }
            | WriteError::MoreThanPoints { .. }
            | WriteError::UnknownCorrection { .. }
            | WriteError::CorrectionInUse { .. }
            | WriteError::Vetoed { .. }
            | WriteError::CorrectionChanged { .. }
            | WriteError::Rate { .. }
            | WriteError::NoBiases { .. }
            | WriteError::NotHeld { .. }
            | WriteError::UnknownPrior { .. }
            | WriteError::PriorValue { .. }
            | WriteError::TooManyPriors
            | WriteError::BankIsLive { .. }
            | WriteError::BankIsNotLive { .. }
            | WriteError::Live { .. }
            | WriteError::BankInUse { .. } => Blame::Caller,
        }
    }
}
