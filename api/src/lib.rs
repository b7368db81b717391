//! The REST edge: HTTP and JSON in front of the engine, and nothing else.
//!
//! A request is read, decoded by hand so that a refusal names its place, handed to the engine on a
//! thread that may block, and answered. A 2xx to a write means that the write is on disk. Every
//! error is `application/problem+json` (RFC 9457) with a stable `code`; `errors.rs` holds the table.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use dehub_api::{Server, ServerConfig};
//! use dehub_index::Catalogue;
//!
//! let catalogue = Arc::new(Catalogue::new(Path::new("data")));
//! let server = Server::bind(catalogue, &ServerConfig::default())?;
//! let address = server.address();
//! server.run()?;
//! # Ok::<(), dehub_api::ServeError>(())
//! ```

mod admission;
mod aliases;
mod archive;
mod ask;
mod audit;
mod backups;
mod banks;
mod bodies;
mod brief;
mod calibration;
mod call;
mod collections;
mod corrections;
mod cors;
mod decode;
mod defaults;
mod dialect;
mod download;
mod edge;
mod errors;
mod evaluation;
mod evidence;
mod facets;
mod filter;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod health;
mod hosts;
mod hubness;
mod interrupt;
mod jobs;
mod journal;
mod keys;
mod live;
mod maintenance;
mod metrics;
mod missing;
mod multipart;
mod neighbours;
mod observe;
mod openapi;
mod parameters;
mod payload_indexes;
mod payloads;
mod points;
mod priors;
mod problem;
mod quarantine;
mod queries;
mod rates;
mod receive;
mod reload;
mod routes;
mod scroll;
mod selectors;
mod server;
mod service;
mod settings;
mod slow;
mod snapshot_files;
mod snapshots;
mod text_fields;
mod tls;
mod trace;
mod tuning;
mod updates;
mod upkeep;
mod vectors;
mod writer;
mod written;

pub use admission::Limits;
pub use ask::{AskError, TlsAnswer, ask_over_tls};
pub use audit::AuditConfig;
pub use backups::{BackupFault, back_up, backup_value, restore_from, restored_value, stored_value};
pub use calibration::calibration_value;
pub use filter::read_filter;
pub use interrupt::when_interrupted;
pub use keys::{Grant, Key, KeyError, Rights};
pub use observe::SLOW_QUERY_MS;
pub use openapi::openapi;
pub use rates::{BODY_TIMEOUT, RateLimit};
pub use routes::{Access, Listed, list as routes};
pub use server::{BODY_LIMIT_BYTES, PORT, ServeError, Server, ServerConfig, StopHandle};
pub use tls::{TlsConfig, TlsError};
pub use trace::{TRACE_TARGET, TraceParent, Tracer};
