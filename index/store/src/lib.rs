//! Durable ordered bytes: get, scan, view, atomic synced commit, checkpoint.
//!
//! A [`Store`] is a directory that one process holds at a time. It contains *families*, ordered maps from bytes to
//! bytes. Writes go in as a [`Batch`], all or none; reads see either the newest commit or, through a [`View`], one
//! moment for as long as it is held. The package knows nothing about vectors, and no other package names RocksDB.
//!
//! ```
//! use dehub_store::{Batch, Durability, Family, Store};
//!
//! const POINTS: Family = Family::new("points");
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("collection");
//! let store = Store::create(&path, &[POINTS])?;
//! let mut batch = Batch::default();
//! batch.put(POINTS, b"a", b"first");
//! batch.put(POINTS, b"b", b"second");
//! store.commit(batch, Durability::Strict)?;
//!
//! assert_eq!(store.get(POINTS, b"a")?, Some(b"first".to_vec()));
//! for row in store.scan(POINTS, b"a", None) {
//!     let (key, value) = row?;
//! #   let _ = (key, value);
//! }
//! # Ok(())
//! # }
//! ```

mod batch;
mod directory;
mod engine;
mod error;
mod fail_point;
mod family;
mod faults;
mod lock;
mod log_check;
mod log_file;
mod manifest;
mod memory;
mod namespace;
mod opening;
mod rocks;
mod scan;
mod store;
mod view;

pub use batch::{BATCH_BYTES_MAX, Batch};
pub use error::{Blame, CheckpointError, CommitError, CompactError, Holder, OpenError, ReadError};
pub use fail_point::FailPoint;
pub use family::Family;
pub use faults::{Fault, Faults};
pub use lock::lock_holders;
pub use memory::MemoryDisk;
pub use scan::{Row, Scan, prefix_end};
pub use store::{Compacted, Counts, Durability, Store, Torn, Watch};
pub use view::{OwnedView, View};
