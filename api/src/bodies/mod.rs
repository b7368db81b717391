//! Bodies in other forms than JSON, compressed bodies, and answers in other forms.
//!
//! A list of rows (points, entries of a bank, ids, queries) may come as JSON lines, as an Arrow stream or as Parquet.
//! Rows are counted from 0 wherever they come from, so that a refusal points to `/rows/17/vector/3`.
//!
//! Rows that are written ([`rows`]) are written in batches, in their order, each in one commit. So a body of up to a
//! batch is written whole or not at all, and of a longer one it is said how many rows were stored before the first
//! that was refused. JSON lines are decoded as they arrive, so that no more than a batch of them is in memory.

mod inflate;
mod lines;
mod media;
pub(crate) mod rows;
pub(crate) mod searches;
mod sinks;
mod table;

pub(crate) use inflate::Inflater;
pub(crate) use lines::{LineBatch, Lines};
pub(crate) use media::{Accepted, Form, Media, packs};
pub(crate) use rows::{RowSink, Rows};
pub(crate) use sinks::{DeletedIds, EntryRows, PointRows};
pub(crate) use table::{LEAVE_OUT, open, refused};

/// What a body holds.
pub(crate) enum Content {
    Json(serde_json::Value),
    /// JSON values, one a line.
    Lines(LineBatch),
    Table(dehub_format::TableFormat, Vec<u8>),
}

/// A table of a body's size may take so many times as many bytes once it is decoded. Vectors of 32-bit numbers take
/// three times their size in Parquet, with the levels that tell lists apart.
pub(crate) const UNFOLDED_MAX: usize = 8;
