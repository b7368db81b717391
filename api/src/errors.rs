//! The table of errors: each one's status and code, and the place in the body it is about.

use std::fmt::Display;

use dehub_backup::BackupError;
use dehub_index::{
    AliasError, Blame, CatalogueError, CheckpointError, CollectionState, ConfigError, Name, OpenError,
    PayloadError, ReadError, RestoreError, TextError, TextSearchError, TimeUp, UnknownSpace, WriteError,
};
use dehub_query::{BankKind, MethodError, QueryError, RequestError, TuneError};
use dehub_vector::{MULTI_MAX, PointId, VectorError};

use crate::backups::BackupFault;
use crate::decode::Place;
use crate::problem::{Code, Problem};
use crate::queries::Places;
pub(crate) use crate::written::Written;

pub(crate) const BAD_JSON: Code = Code::new(400, "bad_json", "The body is not JSON");
pub(crate) const BAD_PATH: Code = Code::new(400, "bad_path", "The path cannot be decoded");
pub(crate) const BODY_INCOMPLETE: Code = Code::new(400, "body_incomplete", "The body was cut off");
pub(crate) const TOO_DEEP: Code = Code::new(400, "too_deep", "The body nests too deep");
pub(crate) const BAD_TABLE: Code =
    Code::new(400, "bad_table", "The body is no Arrow stream or Parquet file that can be read");
pub(crate) const BAD_COMPRESSION: Code = Code::new(400, "bad_compression", "The body cannot be decompressed");

pub(crate) const UNAUTHENTICATED: Code =
    Code::new(401, "unauthenticated", "There is no key, or an unknown one");
pub(crate) const FORBIDDEN: Code = Code::new(403, "forbidden", "The key may not do this");

pub(crate) const FOREIGN_ORIGIN: Code =
    Code::new(403, "foreign_origin", "Pages of this origin may not ask for this");

pub(crate) const BAD_HOST: Code = Code::new(400, "bad_host", "The host cannot be read");
pub(crate) const UNKNOWN_HOST: Code =
    Code::new(421, "unknown_host", "The server does not answer to this host");

pub(crate) const UNKNOWN_PATH: Code = Code::new(404, "unknown_path", "There is nothing at this path");
pub(crate) const UNKNOWN_COLLECTION: Code = Code::new(404, "unknown_collection", "No such collection");
pub(crate) const UNKNOWN_POINT: Code = Code::new(404, "unknown_point", "No such point");
pub(crate) const UNKNOWN_BANK: Code = Code::new(404, "unknown_bank", "No such bank");
pub(crate) const UNKNOWN_CORRECTION: Code = Code::new(404, "unknown_correction", "No such correction");
pub(crate) const UNKNOWN_PRIOR: Code = Code::new(404, "unknown_prior", "No such prior");
pub(crate) const UNKNOWN_JOB: Code = Code::new(404, "unknown_job", "No such job");
pub(crate) const WRONG_METHOD: Code =
    Code::new(405, "wrong_method", "The path does not take this HTTP method");
const UNKNOWN_ALIAS: Code = Code::new(404, "unknown_alias", "No such alias");
pub(crate) const UNKNOWN_SNAPSHOT: Code = Code::new(404, "unknown_snapshot", "No such snapshot");
const UNKNOWN_BACKUP: Code = Code::new(404, "unknown_backup", "No such backup");
const SEARCH_TIMEOUT: Code = Code::new(408, "search_timeout", "The search took too long");
pub(crate) const BODY_TIMEOUT: Code = Code::new(408, "body_timeout", "The body took too long");

pub(crate) const COLLECTION_EXISTS: Code = Code::new(409, "collection_exists", "The collection exists");
const COLLECTION_BUSY: Code = Code::new(409, "collection_busy", "The collection is in use");
pub(crate) const ENTRY_EXISTS: Code = Code::new(409, "entry_exists", "The bank entry exists");
const STOPPED: Code = Code::new(409, "stopped", "The work was stopped");
pub(crate) const JOB_ENDED: Code = Code::new(409, "job_ended", "The job has ended");
pub(crate) const BANK_IN_USE: Code = Code::new(409, "bank_in_use", "The bank is in use");

const ALIAS_EXISTS: Code = Code::new(409, "alias_exists", "The name is an alias");
pub(crate) const SNAPSHOT_DAMAGED: Code = Code::new(409, "snapshot_damaged", "The snapshot is damaged");
pub(crate) const NO_BACKUPS: Code = Code::new(409, "no_backups", "The server keeps no backups");
const BACKUP_DAMAGED: Code = Code::new(409, "backup_damaged", "The backup is damaged");
pub(crate) const NOT_LIVE: Code = Code::new(409, "not_live", "No queries are kept");
const CORRECTION_IN_USE: Code = Code::new(409, "correction_in_use", "The correction is in use");
const CORRECTION_CHANGED: Code = Code::new(409, "correction_changed", "The correction changed meanwhile");
pub(crate) const VETOED: Code = Code::new(409, "vetoed", "The correction did not pass the veto");
pub(crate) const CORRECTION_DROPPED: Code =
    Code::new(409, "correction_dropped", "The correction was dropped meanwhile");

pub(crate) const BODY_TOO_LARGE: Code = Code::new(413, "body_too_large", "The body is too large");
pub(crate) const WRITE_TOO_LARGE: Code =
    Code::new(413, "write_too_large", "The write is too large for one commit");
pub(crate) const WRONG_CONTENT_TYPE: Code =
    Code::new(415, "wrong_content_type", "The content type is not one that is taken here");
pub(crate) const WRONG_CONTENT_ENCODING: Code =
    Code::new(415, "wrong_content_encoding", "The content encoding is not known");
pub(crate) const NOT_ACCEPTABLE: Code =
    Code::new(406, "not_acceptable", "The answer cannot have a type that is accepted");

pub(crate) const UNKNOWN_FIELD: Code = Code::new(422, "unknown_field", "A field is not known");
pub(crate) const UNKNOWN_PARAMETER: Code = Code::new(422, "unknown_parameter", "A parameter is not known");
pub(crate) const DUPLICATE_FIELD: Code = Code::new(422, "duplicate_field", "A field is given twice");
pub(crate) const MISSING_FIELD: Code = Code::new(422, "missing_field", "A field is missing");
pub(crate) const NOT_SUPPORTED: Code = Code::new(422, "not_supported", "A field is not supported yet");
pub(crate) const WRONG_TYPE: Code = Code::new(422, "wrong_type", "A value has the wrong type");
pub(crate) const INVALID_VALUE: Code = Code::new(422, "invalid_value", "A value is out of range");
pub(crate) const INVALID_NAME: Code = Code::new(422, "invalid_name", "A name cannot be used");
pub(crate) const INVALID_ID: Code = Code::new(422, "invalid_id", "An id cannot be used");
pub(crate) const LENGTHS_DIFFER: Code = Code::new(422, "lengths_differ", "Lists differ in length");

pub(crate) const DIMENSION_MISMATCH: Code =
    Code::new(422, "dimension_mismatch", "A vector has the wrong dimension");
/// 404, as in Qdrant.
pub(crate) const NO_VECTOR: Code = Code::new(404, "no_vector", "The point has no such vector");
pub(crate) const UNKNOWN_VECTOR: Code = Code::new(422, "unknown_vector", "No such vector");
pub(crate) const NOT_FINITE: Code = Code::new(422, "not_finite", "A number is not a finite 32-bit number");
const ZERO_VECTOR: Code = Code::new(422, "zero_vector", "A vector has length 0");
const VECTOR_TOO_LONG: Code = Code::new(422, "vector_too_long", "A vector's length is too large");
const DUPLICATE_ID: Code = Code::new(422, "duplicate_id", "An id is given twice");
pub(crate) const NOT_HELD: Code = Code::new(404, "not_in_quarantine", "The point is not in quarantine");
const TOO_FEW_TO_COMPARE: Code = Code::new(422, "too_few_to_compare", "There is too little to compare");
const TOO_FEW_QUERIES: Code = Code::new(422, "too_few_queries", "There are too few queries to choose by");
pub(crate) const NO_EVIDENCE: Code = Code::new(422, "no_evidence", "There is nothing to choose by");
const TEXT_TOO_LONG: Code = Code::new(422, "text_too_long", "A text is too long");
pub(crate) const PAYLOAD_TOO_LARGE: Code = Code::new(422, "payload_too_large", "A payload is too large");
pub(crate) const BATCH_TOO_LARGE: Code = Code::new(422, "batch_too_large", "A batch is too large");
pub(crate) const EMPTY_BATCH: Code = Code::new(422, "empty_batch", "A batch is empty");
const TOO_MANY_INDEXES: Code =
    Code::new(422, "too_many_indexes", "The collection has too many payload indexes");
const COLLECTION_FULL: Code = Code::new(422, "collection_full", "The collection is full");
const BANK_TOO_LARGE: Code = Code::new(422, "bank_too_large", "The bank would be too large");

pub(crate) const BANK_KIND: Code = Code::new(422, "bank_kind", "The bank is of the other kind");
pub(crate) const BANK_UNUSED: Code = Code::new(422, "bank_unused", "The method does not use such a bank");
const MISSING_BANK: Code = Code::new(422, "missing_bank", "The method needs a bank");
pub(crate) const EMPTY_BANK: Code = Code::new(422, "empty_bank", "The bank is empty");
const MORE_THAN_BANK: Code =
    Code::new(422, "more_than_bank", "More neighbours wanted than the bank has entries");
const MORE_THAN_POINTS: Code = Code::new(422, "more_than_points", "More wanted than there are points");
const UNKNOWN_METHOD: Code = Code::new(422, "unknown_method", "No such correction method");
const INVALID_PARAMETER: Code = Code::new(422, "invalid_parameter", "A parameter of the method is wrong");
/// Something that is not for multi-vectors.
const NOT_FOR_MULTI: Code = Code::new(422, "not_for_multi_vectors", "It is not for multi-vectors");
const INVALID_METHOD: Code = Code::new(422, "invalid_method", "The method cannot be read");
const INVALID_CONFIG: Code = Code::new(422, "invalid_config", "No collection can have this configuration");
pub(crate) const INVALID_LIMIT: Code = Code::new(422, "invalid_limit", "The limit is out of range");
const INVALID_EFFORT: Code = Code::new(422, "invalid_effort", "The effort is out of range");
pub(crate) const INVALID_WEIGHT: Code = Code::new(422, "invalid_weight", "The weight is out of range");
const TOO_MANY_PRIORS: Code =
    Code::new(422, "too_many_priors", "The collection has as many priors as it can");
const INVALID_RECALL: Code = Code::new(422, "invalid_recall", "The recall is out of range");
const INVALID_CANDIDATES: Code = Code::new(422, "invalid_candidates", "Too few candidates");
pub(crate) const NO_TEXT_FIELDS: Code = Code::new(422, "no_text_fields", "The collection has no text fields");
pub(crate) const UNKNOWN_TEXT_FIELD: Code = Code::new(422, "unknown_text_field", "No such text field");
pub(crate) const NO_POINTS: Code = Code::new(422, "no_points", "The collection has no points");

const TOO_MANY_ALIASES: Code = Code::new(422, "too_many_aliases", "There would be too many aliases");

/// Of Qdrant's paths; a field has [`NOT_SUPPORTED`].
pub(crate) const NOT_SUPPORTED_PATH: Code =
    Code::new(501, "not_supported_path", "This part of Qdrant's interface is missing");
pub(crate) const OVERLOADED: Code = Code::new(503, "overloaded", "The server is overloaded");
/// It is being opened, or closed for a moment.
const NOT_OPEN: Code = Code::new(503, "collection_not_open", "The collection is not open yet");
const DAMAGED: Code = Code::new(503, "collection_damaged", "The collection is damaged");
pub(crate) const RATE_LIMITED: Code = Code::new(429, "rate_limited", "Too many requests of one client");
const QUEUE_FULL: Code = Code::new(429, "queue_full", "Too many writes of the collection are under way");
const WRITER_FAILED: Code =
    Code::new(503, "writer_failed", "The collection takes no writes since one failed");
const DISK_FULL: Code = Code::new(507, "disk_full", "The disk is nearly full");
const BACKUPS_UNAVAILABLE: Code =
    Code::new(503, "backups_unavailable", "The place for backups cannot be used");
pub(crate) const STORAGE: Code = Code::new(503, "storage_unavailable", "The storage cannot be used");
pub(crate) const INTERNAL: Code = Code::new(500, "internal", "A defect of the server");

/// What a client that came too early should wait.
const RETRY_SECONDS: u32 = 1;

/// An error of the catalogue. Who asks wrongly is not told where the data directory is.
pub(crate) fn catalogue(error: &CatalogueError) -> Problem {
    match error {
        CatalogueError::Unknown { name, found, .. } => {
            let detail = format!("there is no collection `{name}`; there are: {found}");
            Problem::new(UNKNOWN_COLLECTION, detail)
        }
        CatalogueError::Exists { name, .. } => {
            Problem::new(COLLECTION_EXISTS, format!("there is a collection `{name}` already"))
        }
        CatalogueError::IsAlias { .. } => Problem::new(ALIAS_EXISTS, error.to_string()),
        CatalogueError::Open(error) => open(error),
        CatalogueError::Late { name, state } => late(name, state),
        CatalogueError::Busy { .. } => {
            Problem::new(COLLECTION_BUSY, error.to_string()).retry_after(RETRY_SECONDS)
        }
        CatalogueError::InUse { .. } | CatalogueError::Folder { .. } => {
            by_blame(error.blame(), error.to_string())
        }
        CatalogueError::Spaces { found } => {
            Problem::new(INVALID_CONFIG, error.to_string()).at("/vectors").found(found)
        }
        _ => by_blame(error.blame(), error.to_string()),
    }
}

/// The same, of the collection that was asked for by this name: damage is told with what to do about it.
pub(crate) fn opening(error: &CatalogueError, name: &Name) -> Problem {
    if let CatalogueError::Open(error) = error
        && error.is_damage()
        && !matches!(**error, OpenError::Format { .. })
    {
        let detail = format!(
            "{error}. Restore it from a backup: POST /collections/{name}/restore with \
             {{\"replace\": true}}, or, without the server, dehub restore {name} REPOSITORY --replace"
        );
        return Problem::new(DAMAGED, detail);
    }
    catalogue(error)
}

/// A collection that is not open in time.
pub(crate) fn late(name: &Name, state: &CollectionState) -> Problem {
    let (doing, percent) = (state.name(), 100.0 * state.share());
    let detail =
        format!("collection `{name}` is {doing}, {percent:.0} % so far: try again in {RETRY_SECONDS} s");
    Problem::new(NOT_OPEN, detail)
        .found(format_args!("{doing} {:.3}", state.share()))
        .retry_after(RETRY_SECONDS)
}

/// A change of aliases. `place` tells where in the body the change at fault has a name: `alias_name`,
/// `collection_name` or another.
pub(crate) fn aliases(error: &AliasError, place: impl Fn(usize, AliasName) -> String) -> Problem {
    match error {
        AliasError::Collection { place: at, source } => {
            let problem = catalogue(source);
            // A data directory that cannot be read is no matter of the body's.
            if problem.status() == 404 {
                problem.unprocessable().at(place(*at, AliasName::Collection))
            } else {
                problem
            }
        }
        AliasError::Taken { place: at, alias } => {
            let detail = format!("there is a collection `{alias}`, so it cannot be an alias");
            Problem::new(COLLECTION_EXISTS, detail).at(place(*at, AliasName::New)).found(alias)
        }
        AliasError::Unknown { place: at, alias, found } => {
            let detail = format!("there is no alias `{alias}`; there are: {found}");
            Problem::new(UNKNOWN_ALIAS, detail).unprocessable().at(place(*at, AliasName::Old))
        }
        AliasError::TooMany { found } => {
            Problem::new(TOO_MANY_ALIASES, error.to_string()).at("/actions").found(found)
        }
        AliasError::Catalogue(error) => catalogue(error),
        _ => by_blame(error.blame(), error.to_string()),
    }
}

/// A name in a change of aliases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AliasName {
    /// That of the collection.
    Collection,
    /// That of an alias that is made.
    New,
    /// That of an alias there should be.
    Old,
}

/// An error of a backup or a restore. Who asks wrongly is not told where backups are.
pub(crate) fn backup(fault: &BackupFault) -> Problem {
    match fault {
        BackupFault::Backup(error) => match error {
            BackupError::Unknown { collection, wanted, found, .. } => {
                let detail = format!("there is no backup {wanted} of `{collection}`; there are: {found}");
                Problem::new(UNKNOWN_BACKUP, detail)
            }
            BackupError::Id { .. } => Problem::new(INVALID_VALUE, error.to_string()),
            BackupError::Manifest { .. } | BackupError::Newer { .. } | BackupError::Object { .. } => {
                Problem::new(BACKUP_DAMAGED, error.to_string())
            }
            BackupError::Location { .. }
            | BackupError::Collection { .. }
            | BackupError::Unfit { .. }
            | BackupError::Changed { .. }
            | BackupError::File { .. }
            | BackupError::Remote { .. }
            | BackupError::Busy { .. }
            | BackupError::Stopped
            | _ => Problem::new(BACKUPS_UNAVAILABLE, error.to_string()),
        },
        BackupFault::Checkpoint(CheckpointError::Catalogue(error))
        | BackupFault::Restore(RestoreError::Catalogue(error)) => catalogue(error),
        BackupFault::Restore(RestoreError::Unfit(_)) => Problem::new(BACKUP_DAMAGED, fault.to_string()),
        BackupFault::Checkpoint(_) | BackupFault::Restore(_) => Problem::new(STORAGE, fault.to_string()),
    }
}

/// A collection that is there and does not open is no fault of who asks for it.
fn open(error: &OpenError) -> Problem {
    match error.blame() {
        Blame::Bug => Problem::new(INTERNAL, error.to_string()),
        Blame::Caller | Blame::Environment => Problem::new(STORAGE, error.to_string()),
    }
}

/// An error of reading what is stored: damage is told with what to do about it.
pub(crate) fn read(error: &ReadError) -> Problem {
    if error.is_damage() {
        let remedy =
            "dehub verify tells what is damaged, and dehub restore NAME REPOSITORY --replace brings a backup";
        return Problem::new(DAMAGED, format!("{error}. {remedy}"));
    }
    by_blame(error.blame(), error.to_string())
}

/// An error of a configuration, whose vectors and graph the body has at these places.
pub(crate) fn config(error: &ConfigError, vectors: &str, graph: &str) -> Problem {
    let problem = Problem::new(INVALID_CONFIG, error.to_string());
    match error {
        ConfigError::Dim(error) => problem.at(format_args!("{vectors}/size")).found(error.found),
        ConfigError::Graph { parameter, found, least, most } => {
            let field = if *parameter == "ef_construction" { "ef_construct" } else { parameter };
            let problem = problem.at(format_args!("{graph}/{field}"));
            problem.wanted(format_args!("{least} to {most}")).found(found)
        }
        ConfigError::MultiMetric { found } => {
            problem.at(format_args!("{vectors}/distance")).wanted("Cosine or Dot").found(found)
        }
        _ => problem,
    }
}

/// What a change makes of a payload is too large, or the payload was not what was written.
fn payload_code(error: &PayloadError) -> Code {
    match error {
        PayloadError::TooLarge { .. } => PAYLOAD_TOO_LARGE,
        PayloadError::NotAnObject { .. } | _ => INTERNAL,
    }
}

/// An error of a write.
pub(crate) fn write(error: &WriteError, written: &Written<'_>) -> Problem {
    let detail = || written.detail(error);
    let new = |code| Problem::new(code, detail());
    let too_many = |code, wanted: usize, most: usize| {
        new(code).at(written.k_field()).wanted(format_args!("at most {most}")).found(wanted)
    };
    of_named(error, written).unwrap_or_else(|| match error {
        WriteError::Vector { place, source, .. } => vector(source, detail(), &written.vector(*place)),
        WriteError::Space(unknown) => space(unknown),
        WriteError::NamedVectors { .. } => new(NOT_SUPPORTED),
        WriteError::DuplicateId { place, id, .. } => new(DUPLICATE_ID).at(written.id(*place)).found(id),
        WriteError::EntryExists { place, id, .. } => new(ENTRY_EXISTS).at(written.id(*place)).found(id),
        WriteError::Weight { place, found } => new(INVALID_WEIGHT).at(written.weight(*place)).found(found),
        WriteError::Decay { parameter, found, wanted } => range(new(INVALID_VALUE), parameter, wanted, found),
        WriteError::Live { parameter, found, wanted } => range(new(INVALID_VALUE), parameter, wanted, found),
        WriteError::TextFields(_) => new(INVALID_CONFIG).at("/text_fields"),
        WriteError::BatchTooLarge { found } => new(BATCH_TOO_LARGE).at(written.list()).found(found),
        WriteError::Payload { place, source, .. } => new(payload_code(source)).at(written.id(*place)),
        WriteError::TooManyIndexes { found } => new(TOO_MANY_INDEXES).at("/field_name").found(found),
        WriteError::TooManyPoints { .. } => new(COLLECTION_FULL),
        WriteError::BankTooLarge { .. } => new(BANK_TOO_LARGE).at(written.list()),
        WriteError::UnknownBank { bank, .. } => match written.bank_field(bank) {
            Some(pointer) => new(UNKNOWN_BANK).unprocessable().at(pointer).found(bank),
            None => new(UNKNOWN_BANK),
        },
        WriteError::NoBank { kind, .. } => new(MISSING_BANK).at(kind_field(*kind)),
        WriteError::BankKind { wanted, found, .. } => {
            new(BANK_KIND).at(written.kind(*wanted)).wanted(wanted).found(found)
        }
        WriteError::EmptyGallery { .. } => new(NO_POINTS).at(written.list()),
        WriteError::EmptyBank { bank } => new(EMPTY_BANK).at(written.bank_field(bank).unwrap_or_default()),
        WriteError::ReservedName { .. } => new(INVALID_NAME),
        WriteError::Metric { metric, .. } => new(INVALID_METHOD).at("/method").found(metric),
        WriteError::Perplexity { .. } => new(INVALID_PARAMETER).at(written.k_field()),
        WriteError::MoreThanBank { wanted, found, .. } => too_many(MORE_THAN_BANK, *wanted, *found),
        WriteError::MoreThanPoints { wanted, found, .. } => too_many(MORE_THAN_POINTS, *wanted, *found),
        WriteError::UnknownCorrection { correction, .. } => match written.correction() {
            Some(pointer) => new(UNKNOWN_CORRECTION).unprocessable().at(pointer).found(correction),
            None => new(UNKNOWN_CORRECTION),
        },
        WriteError::Cancelled | WriteError::Interrupted => new(STOPPED),
        WriteError::BankInUse { .. } | WriteError::BankIsLive { .. } => new(BANK_IN_USE),
        WriteError::CorrectionInUse { .. } => new(CORRECTION_IN_USE),
        WriteError::Vetoed { .. } => new(VETOED),
        WriteError::CorrectionChanged { .. } => new(CORRECTION_CHANGED),
        WriteError::Rate { found } => new(INVALID_VALUE).at(written.rate()).wanted("0 to 1").found(found),
        WriteError::NoBiases { correction, .. } => {
            let pointer = written.correction().unwrap_or("/method");
            new(INVALID_METHOD).at(pointer).found(correction)
        }
        WriteError::UnknownPrior { .. } => new(UNKNOWN_PRIOR),
        WriteError::TooManyPriors => new(TOO_MANY_PRIORS),
        WriteError::NotHeld { place, id } => new(NOT_HELD).unprocessable().at(written.id(*place)).found(id),
        WriteError::QueueFull { .. } => new(QUEUE_FULL).retry_after(RETRY_SECONDS),
        WriteError::WriterFailed { .. } => new(WRITER_FAILED).retry_after(RETRY_SECONDS),
        WriteError::DiskFull { .. } => new(DISK_FULL).retry_after(RETRY_SECONDS),
        WriteError::Read(error) => read(error),
        WriteError::BankIsNotLive { .. }
        | WriteError::MultiVectors { .. }
        | WriteError::NamedVector { .. }
        | WriteError::VectorName { .. }
        | WriteError::UnknownPoint { .. }
        | WriteError::TextTooLong { .. }
        | WriteError::PriorValue { .. }
        | WriteError::Texts(_)
        | WriteError::Commit(_)
        | WriteError::GraphFile(_) => by_blame(error.blame(), error.to_string()),
        _ => by_blame(error.blame(), error.to_string()),
    })
}

/// An error of a write that is about a named vector, several vectors, a text, or a point that is not there.
fn of_named(error: &WriteError, written: &Written<'_>) -> Option<Problem> {
    let new = |code| Problem::new(code, written.detail(error));
    if let WriteError::NamedVector { place, name, source, .. } = error {
        return Some(vector(source, written.detail(error), &written.named(*place, Some(name))));
    }
    if let WriteError::VectorName { place, name, .. } = error {
        let problem = new(UNKNOWN_VECTOR).at(written.named(*place, name.as_ref()));
        return Some(problem.found(name.as_ref().map_or("", Name::as_str)));
    }
    if let WriteError::MultiVectors { what, .. } = error {
        return Some(new(NOT_FOR_MULTI).found(what));
    }
    if let WriteError::TextTooLong { place, found, .. } = error {
        return Some(new(TEXT_TOO_LONG).at(written.text(*place)).found(found));
    }
    if let WriteError::PriorValue { place, found } = error {
        return Some(new(INVALID_VALUE).at(format_args!("/values/{place}")).found(found));
    }
    let WriteError::UnknownPoint { place, id } = error else { return None };
    Some(new(UNKNOWN_POINT).unprocessable().at(written.id(*place)).found(id))
}

/// A vector that the collection has not. Where it was asked for is for the caller to say.
pub(crate) fn space(error: &UnknownSpace) -> Problem {
    let problem = Problem::new(UNKNOWN_VECTOR, error.to_string()).wanted(error.list());
    match &error.asked {
        Some(asked) => problem.found(asked),
        None => problem,
    }
}

/// A number of the body that is out of its range.
fn range(problem: Problem, field: &str, wanted: &str, found: impl Display) -> Problem {
    problem.at(format_args!("/{field}")).wanted(wanted).found(found)
}

/// An error of a request, whose parts are at these places.
pub(crate) fn request(error: &RequestError, places: &Places) -> Problem {
    query(&error.source, places.at(&error.trail))
}

/// An error of a body that asks for points, but for none nearest to anything.
pub(crate) fn listing(error: &QueryError) -> Problem {
    query(error, &Places::body())
}

/// An error of a query, whose parts are at these places.
pub(crate) fn query(error: &QueryError, places: &Places) -> Problem {
    let new = |code| Problem::new(code, error.to_string());
    let field = |name: &str| format!("{}{name}", places.base);
    match error {
        QueryError::Vector { place, source } => vector(source, source.to_string(), places.example(*place)),
        QueryError::UnknownPoint { place, id } => unknown_point(id).at(places.example(*place)).found(id),
        QueryError::NoVector { place, id, name } => no_vector(id, name).at(places.example(*place)).found(id),
        QueryError::UnknownCorrection { correction, .. } => {
            new(UNKNOWN_CORRECTION).unprocessable().at(field("/hubness/correction")).found(correction)
        }
        QueryError::MoreThanPoints { wanted, found } => {
            new(MORE_THAN_POINTS).wanted(format_args!("at most {found}")).found(wanted)
        }
        QueryError::MultiVectors { what } => new(NOT_FOR_MULTI).at(field("/query")).found(what),
        QueryError::Limit { found } => new(INVALID_LIMIT).at(field("/limit")).found(found),
        QueryError::Effort => new(INVALID_EFFORT).at(field("/params/hnsw_ef")).found(0),
        QueryError::Candidates => new(INVALID_CANDIDATES).at(field("/params/candidates")).found(0),
        QueryError::Recall { found } => new(INVALID_RECALL).at(field("/params/recall")).found(found),
        QueryError::Weight { found } | QueryError::NoStrength { found, .. } => {
            new(INVALID_WEIGHT).at(field("/hubness/alpha")).found(found)
        }
        QueryError::UnknownPrior { prior, .. } => {
            let pointer = field(&Place::Body.field("priors").field(prior).to_string());
            new(UNKNOWN_PRIOR).unprocessable().at(pointer).found(prior)
        }
        QueryError::PriorWeight { prior, found } => {
            let pointer = field(&Place::Body.field("priors").field(prior).to_string());
            new(INVALID_WEIGHT).at(pointer).found(found)
        }
        QueryError::NoPriors { .. } => new(INVALID_VALUE).at(field("/priors")),
        QueryError::BatchTooLarge { found } => new(BATCH_TOO_LARGE).at("/searches").found(found),
        QueryError::TimeUp(TimeUp { limit }) => {
            new(SEARCH_TIMEOUT).in_parameter("timeout").found(limit.as_secs_f64())
        }
        QueryError::Malformed { .. } => new(INVALID_VALUE).at(places.query()),
        QueryError::NoPoints => new(NO_POINTS),
        QueryError::NoQueries(_) => new(EMPTY_BATCH).at("/searches"),
        QueryError::UnknownBank { .. } | QueryError::TooFewToCompare { .. } | QueryError::Unsuited { .. } => {
            by_blame(error.blame(), error.to_string())
        }
        QueryError::Space(unknown) => space(unknown).at(places.using()),
        QueryError::Text(error) => words(error, places.query()),
        QueryError::Read(error) => read(error),
        _ => by_blame(error.blame(), error.to_string()),
    }
}

/// An error of what asks for words, which is at this place.
pub(crate) fn words(error: &TextSearchError, place: &str) -> Problem {
    let new = |code| Problem::new(code, error.to_string());
    let below = |field: &str| format!("{place}{}", Place::Body.field("fields").field(field));
    match error {
        TextSearchError::NoFields => new(NO_TEXT_FIELDS).at(place),
        TextSearchError::Text(TextError::UnknownField { asked, .. }) => {
            new(UNKNOWN_TEXT_FIELD).at(below(asked)).found(asked)
        }
        TextSearchError::Text(TextError::Weight { field, found }) => {
            new(INVALID_WEIGHT).at(below(field)).found(found)
        }
        TextSearchError::Text(TextError::TooManyTerms { found, most, .. }) => new(INVALID_VALUE)
            .at(format!("{place}/text"))
            .wanted(format!("at most {most} terms"))
            .found(found),
        TextSearchError::TimeUp(TimeUp { limit }) => {
            new(SEARCH_TIMEOUT).in_parameter("timeout").found(limit.as_secs_f64())
        }
        TextSearchError::Read(error) => read(error),
        // Its index is being made, or cannot be read: later may be better.
        TextSearchError::NotReady | TextSearchError::Text(_) | _ => new(STORAGE).retry_after(RETRY_SECONDS),
    }
}

/// An id that no point has.
pub(crate) fn unknown_point(id: &PointId) -> Problem {
    Problem::new(UNKNOWN_POINT, format!("there is no point with the id {id}"))
}

/// A point without a vector of this name, where one is wanted.
pub(crate) fn no_vector(id: &PointId, name: &Name) -> Problem {
    Problem::new(NO_VECTOR, format!("the point {id} has no vector `{name}`"))
}

/// An error of a measurement, whose terms are all in the query string.
pub(crate) fn hubness(error: &QueryError) -> Problem {
    let new = |code| Problem::new(code, error.to_string());
    match error {
        QueryError::UnknownCorrection { correction, .. } => {
            new(UNKNOWN_CORRECTION).unprocessable().in_parameter("correction").found(correction)
        }
        QueryError::MoreThanPoints { wanted, found } => {
            let problem = new(MORE_THAN_POINTS).in_parameter("k");
            problem.wanted(format_args!("at most {found}")).found(wanted)
        }
        QueryError::NoPoints => new(NO_POINTS),
        QueryError::NoQueries(_) => Problem::new(EMPTY_BANK, "the bank is empty").in_parameter("bank"),
        QueryError::Vector { .. }
        | QueryError::MultiVectors { .. }
        | QueryError::UnknownPoint { .. }
        | QueryError::NoVector { .. }
        | QueryError::Limit { .. }
        | QueryError::Effort
        | QueryError::Recall { .. }
        | QueryError::Candidates
        | QueryError::Weight { .. }
        | QueryError::NoStrength { .. }
        | QueryError::UnknownPrior { .. }
        | QueryError::PriorWeight { .. }
        | QueryError::NoPriors { .. }
        | QueryError::BatchTooLarge { .. }
        | QueryError::UnknownBank { .. }
        | QueryError::TooFewToCompare { .. }
        | QueryError::Unsuited { .. }
        | QueryError::Malformed { .. }
        | QueryError::TimeUp(_) => by_blame(error.blame(), error.to_string()),
        QueryError::Space(unknown) => space(unknown),
        QueryError::Text(error) => words(error, ""),
        QueryError::Read(error) => read(error),
        _ => by_blame(error.blame(), error.to_string()),
    }
}

/// An error of a comparison with the bank of the path. The queries are in the body, or in a bank that the
/// query string names.
pub(crate) fn drift(error: &QueryError, given: Option<&str>) -> Problem {
    let problem = |code| Problem::new(code, error.to_string());
    match error {
        QueryError::UnknownBank { .. } => problem(UNKNOWN_BANK),
        QueryError::TooFewToCompare { what: "queries", found, .. } => match given {
            Some(pointer) => problem(TOO_FEW_TO_COMPARE).at(pointer).found(found),
            None => problem(TOO_FEW_TO_COMPARE).in_parameter("against").found(found),
        },
        QueryError::TooFewToCompare { .. } => problem(TOO_FEW_TO_COMPARE),
        QueryError::Vector { .. }
        | QueryError::MultiVectors { .. }
        | QueryError::UnknownPoint { .. }
        | QueryError::NoVector { .. }
        | QueryError::UnknownCorrection { .. }
        | QueryError::MoreThanPoints { .. }
        | QueryError::Limit { .. }
        | QueryError::Effort
        | QueryError::Recall { .. }
        | QueryError::Candidates
        | QueryError::Weight { .. }
        | QueryError::NoStrength { .. }
        | QueryError::UnknownPrior { .. }
        | QueryError::PriorWeight { .. }
        | QueryError::NoPriors { .. }
        | QueryError::BatchTooLarge { .. }
        | QueryError::NoPoints
        | QueryError::NoQueries(_)
        | QueryError::Unsuited { .. }
        | QueryError::Malformed { .. }
        | QueryError::TimeUp(_) => by_blame(error.blame(), error.to_string()),
        QueryError::Space(unknown) => space(unknown),
        QueryError::Text(error) => words(error, ""),
        QueryError::Read(error) => read(error),
        _ => by_blame(error.blame(), error.to_string()),
    }
}

/// An error of a method, whose parameters, if `given` by name, are in a field of their own.
pub(crate) fn method(error: &MethodError, given: &[(String, f64)]) -> Problem {
    let new = |code| Problem::new(code, error.to_string());
    let field = |name: &str| {
        let is_given = given.iter().any(|(own, _)| own == name);
        if is_given { format!("/parameters/{name}") } else { "/method".to_owned() }
    };
    match error {
        MethodError::Unknown { found, wanted } => {
            new(UNKNOWN_METHOD).at("/method").wanted(wanted).found(found)
        }
        MethodError::NoParameter { found, wanted, .. } => {
            new(INVALID_PARAMETER).at(field(found)).wanted(wanted).found(found)
        }
        MethodError::BadValue { parameter, found, wanted, .. } => {
            // A method may call the parameter by a longer name than the message does.
            let alias = given.iter().find(|(_, value)| value.to_string() == *found);
            let exact = given.iter().find(|(own, _)| own == parameter);
            let name = exact.or(alias).map_or(*parameter, |(own, _)| own.as_str());
            new(INVALID_PARAMETER).at(field(name)).wanted(wanted).found(found)
        }
        MethodError::TwoTemperatures { .. } => new(INVALID_PARAMETER).at(field("perplexity")),
        MethodError::NoBiases { parameter, found, .. } => {
            new(INVALID_PARAMETER).at(field(parameter)).wanted("0").found(found)
        }
        MethodError::Syntax { found } => new(INVALID_METHOD).at("/method").found(found),
        _ => new(INVALID_METHOD).at("/method"),
    }
}

/// An error of a choice by queries that are in the body.
pub(crate) fn tune(error: &TuneError, written: &Written<'_>) -> Problem {
    let new = |code| Problem::new(code, error.to_string());
    match error {
        TuneError::TooFewQueries { found } => new(TOO_FEW_QUERIES).at("/queries").found(found),
        TuneError::Rounds { found } => new(INVALID_VALUE).at("/rounds").found(found),
        TuneError::Fit(error) => write(error, written),
        TuneError::Query(QueryError::NoQueries(_)) => new(NO_EVIDENCE).at("/queries"),
        TuneError::Query(error) => listing(error),
        TuneError::NoCorrections | TuneError::TooFewPairs { .. } => {
            by_blame(error.blame(), error.to_string())
        }
        _ => by_blame(error.blame(), error.to_string()),
    }
}

/// An error of one of the queries that are in the body.
pub(crate) fn asked_vector(error: &VectorError, place: usize) -> Problem {
    asked_vector_in("/queries", error, place)
}

/// The same, of queries in another list.
pub(crate) fn asked_vector_in(list: &str, error: &VectorError, place: usize) -> Problem {
    vector(error, format!("query {place}: {error}"), &format!("{list}/{place}"))
}

fn vector(error: &VectorError, detail: String, pointer: &str) -> Problem {
    match error {
        VectorError::Dimension { wanted, found } => {
            let problem = Problem::new(DIMENSION_MISMATCH, detail).at(pointer);
            problem.wanted(format_args!("{wanted} numbers")).found(format_args!("{found} numbers"))
        }
        VectorError::NotFinite { coordinate, found } => {
            Problem::new(NOT_FINITE, detail).at(format_args!("{pointer}/{coordinate}")).found(found)
        }
        VectorError::Zero => {
            let problem = Problem::new(ZERO_VECTOR, detail).at(pointer);
            problem.wanted("a vector with a direction").found("all coordinates 0")
        }
        VectorError::TooLong => Problem::new(VECTOR_TOO_LONG, detail).at(pointer),
        VectorError::List { found } => {
            let problem = Problem::new(WRONG_TYPE, detail).at(pointer);
            problem.wanted("an array of numbers").found(format_args!("a list of {found} vectors"))
        }
        VectorError::Count { found } => {
            let problem = Problem::new(INVALID_VALUE, detail).at(pointer);
            problem.wanted(format_args!("1 to {MULTI_MAX} vectors")).found(found)
        }
        VectorError::OfList { place, source } => vector(source, detail, &format!("{pointer}/{place}")),
    }
}

pub(crate) fn by_blame(blame: Blame, detail: String) -> Problem {
    match blame {
        Blame::Caller => Problem::new(WRITE_TOO_LARGE, detail),
        Blame::Environment => Problem::new(STORAGE, detail),
        Blame::Bug => Problem::new(INTERNAL, detail),
    }
}

pub(crate) fn kind_field(kind: BankKind) -> &'static str {
    match kind {
        BankKind::Query => "/query_bank",
        BankKind::Gallery => "/gallery_bank",
    }
}
