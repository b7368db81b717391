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

mod backups;
mod banks;
mod calibration;
mod call;
mod collections;
mod corrections;
mod decode;
mod defaults;
mod edge;
mod errors;
mod evidence;
mod filter;
mod health;
mod hubness;
mod interrupt;
mod jobs;
mod live;
mod metrics;
mod parameters;
mod points;
mod problem;
mod quarantine;
mod queries;
mod receive;
mod routes;
mod server;
mod service;
mod upkeep;
mod vectors;
mod writer;

pub use backups::{BackupFault, back_up, backup_value, restore_from, restored_value, stored_value};
pub use calibration::calibration_value;
pub use interrupt::when_interrupted;
pub use server::{BODY_LIMIT_BYTES, PORT, ServeError, Server, ServerConfig, StopHandle};
