//! A durable, searchable collection: points, banks and fitted corrections behind one writer and
//! immutable snapshots.
//!
//! A write is committed to the store, applied to memory, published as a new [`Snapshot`], and only
//! then acknowledged. RocksDB is the only truth: the graph file and every column in memory are
//! derived from it and rebuilt when they are missing or broken.

mod alarm;
mod aliases;
mod background;
mod bank;
mod beside;
mod calibration;
mod catalogue;
mod checkpoint;
mod code_scan;
mod collection;
mod compact;
mod config;
mod correction;
mod data_lock;
mod default;
mod error;
mod freezing;
mod gather;
mod graph;
mod graph_file;
mod live;
mod mend;
mod merging;
mod multi_scan;
mod open;
mod open_progress;
mod orphans;
mod payload;
mod pending;
mod perplexity;
mod point;
mod priors;
mod progress;
mod quarantine;
mod record;
mod restore;
mod row_set;
mod scan;
mod scope;
mod scored;
mod screen;
mod segments;
mod settling;
mod slots;
mod snapshot;
mod spaces;
mod staleness;
mod state;
/// What `tools/loom` has of its own.
mod sync {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
}
mod texts;
mod upgrade;
mod verify;
mod walk;
mod write;
mod writer;

pub use alarm::{HubAlarm, HubRule, PointAlarm};
pub use aliases::{ALIASES_MAX, AliasChange, AliasError};
pub use bank::{BANK_ENTRIES_MAX, BankInfo, BankUpdate, EntryInput, EntrySelector, WEIGHT_MAX};
pub use calibration::{Calibrated, Calibration, CalibrationSubject, Cost, Step, cost_among, machine};
pub use catalogue::{CLOSE_WITHIN, Catalogue, CatalogueError, CollectionState};
pub use checkpoint::{Checkpoint, CheckpointError, CheckpointInfo};
pub use code_scan::Sought;
pub use collection::Collection;
pub use compact::{Compacted, CompactionError, DiskUse};
pub use config::{
    CollectionConfig, ConfigError, Durability, DurabilityError, FormatInfo, GraphConfig, Name, NameError,
    Quantization, QuantizationError,
};
pub use correction::{Column, Correction, CorrectionInfo, FitReport, Fitted};
pub use data_lock::DataHolder;
pub use default::{DefaultCorrection, DefaultEvidence, Interval};
pub use error::{OpenError, ReadError, WriteError};
pub use freezing::{BuiltApart, GraphBuild};
pub use live::{LIVE_CAPACITY_MAX, LIVE_ID_PREFIX, LIVE_RETENTION_MAX, LiveBank};
pub use mend::{MendOutcome, Mended};
pub use merging::SEGMENT_DEAD_SHARE_MAX;
pub use open_progress::{OpenPhase, OpenProgress};
pub use orphans::Orphans;
pub use payload::{
    FieldKind, FieldKindError, FieldValue, GeoPoint, PATH_BYTES_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_INDEXES_MAX,
    PathError, PathStep, Payload, PayloadChange, PayloadChanged, PayloadColumn, PayloadError, PayloadPath,
    Postings, Scalar, moment, words,
};
pub use pending::PendingFit;
pub use point::{
    BATCH_POINTS_MAX, NamedVector, Point, PointInput, Receipt, TEXT_BYTES_MAX, Upserted, VectorsInput,
};
pub use priors::{PRIOR_ABS_MAX, PRIORS_MAX, Prior, PriorInfo};
pub use progress::FitProgress;
pub use quarantine::HeldPoint;
pub use record::DamagedRecord;
pub use restore::{Adopted, Incoming, RestoreError};
pub use row_set::RowSet;
pub use scan::{Answer, Question, Variant};
pub use scope::{Deadline, Scope, TimeUp};
pub use scored::{PointScorer, Scored, ScoredAnswer};
pub use screen::Screen;
pub use segments::SegmentInfo;
pub use snapshot::{GalleryInfo, Snapshot};
pub use spaces::{SPACES_MAX, UnknownSpace};
pub use texts::{
    TEXT_FIELD, TEXT_FIELDS_MAX, TextAnswer, TextFields, TextFieldsError, TextHighlight, TextSearchError,
};
pub use verify::{Check, CheckKind, Difference, Rebuilt, VerifyReport};
pub use walk::Walked;

pub use write::FitInput;
pub use writer::{WRITERS_MAX, WriterFailure, WriterInfo};

pub use dehub_normalize::Growth;
pub use dehub_store::{Blame, FailPoint};
pub use dehub_text::{Analyzer, AnalyzerError, FieldStatistics, TextError, TextField, TextHit, TextQuery};
