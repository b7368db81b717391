//! A durable, searchable collection: points, banks and fitted corrections behind one writer and
//! immutable snapshots.
//!
//! A write is committed to the store, applied to memory, published as a new [`Snapshot`], and only
//! then acknowledged. RocksDB is the only truth: the graph file and every column in memory are
//! derived from it and rebuilt when they are missing or broken.

mod alarm;
mod background;
mod bank;
mod beside;
mod calibration;
mod catalogue;
mod checkpoint;
mod code_scan;
mod collection;
mod config;
mod correction;
mod default;
mod error;
mod freezing;
mod gather;
mod graph;
mod graph_file;
mod live;
mod merging;
mod open;
mod payload;
mod pending;
mod perplexity;
mod point;
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
mod snapshot;
mod staleness;
mod state;
mod walk;
mod write;

pub use alarm::{HubAlarm, HubRule, PointAlarm};
pub use bank::{BANK_ENTRIES_MAX, BankInfo, BankUpdate, EntryInput, EntrySelector, WEIGHT_MAX};
pub use calibration::{Calibrated, Calibration, CalibrationSubject, Cost, Step, cost_among, machine};
pub use catalogue::{CLOSE_WITHIN, Catalogue, CatalogueError};
pub use checkpoint::{Checkpoint, CheckpointError, CheckpointInfo};
pub use code_scan::Sought;
pub use collection::Collection;
pub use config::{
    CollectionConfig, ConfigError, GraphConfig, Name, NameError, Quantization, QuantizationError,
};
pub use correction::{Column, Correction, CorrectionInfo, FitReport, Fitted};
pub use default::{DefaultCorrection, DefaultEvidence, Interval};
pub use error::{OpenError, ReadError, WriteError};
pub use freezing::GraphBuild;
pub use live::{LIVE_CAPACITY_MAX, LIVE_RETENTION_MAX, LiveBank};
pub use payload::{PAYLOAD_BYTES_MAX, Payload, PayloadError};
pub use pending::PendingFit;
pub use point::{BATCH_POINTS_MAX, Point, PointInput, Receipt, TEXT_BYTES_MAX, Upserted};
pub use progress::FitProgress;
pub use quarantine::HeldPoint;
pub use record::DamagedRecord;
pub use restore::{Adopted, Incoming, RestoreError};
pub use scan::{Answer, Question, Variant};
pub use scope::{Deadline, Scope, TimeUp};
pub use scored::{PointScorer, Scored, ScoredAnswer};
pub use screen::Screen;
pub use segments::SegmentInfo;
pub use snapshot::{GalleryInfo, Snapshot};
pub use walk::Walked;

pub use write::FitInput;

pub use dehub_normalize::Growth;
pub use dehub_store::{Blame, FailPoint};
