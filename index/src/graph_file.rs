//! The graph on disk: derived data that saves rebuilding it, and never trusted. A file that is not whole,
//! or not of this collection as it is, is set aside and the graph built anew.

use std::io;
use std::path::Path;

use dehub_graph::{Segment, SegmentError};

use crate::CollectionConfig;
use crate::row_set::RowSet;

/// Why a graph file was not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GraphFileError {
    /// It is no whole segment, or could not be read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// It is a graph over other points.
    #[error("{0}")]
    Strange(&'static str),
}

/// What is known of the collection whose graph is read.
pub(crate) struct Owner<'a> {
    pub(crate) identity: u64,
    pub(crate) config: &'a CollectionConfig,
    /// How many rows there are.
    pub(crate) rows: u32,
    pub(crate) live: &'a RowSet,
    /// The rows whose vectors are kept: no others can be scored.
    pub(crate) kept: &'a RowSet,
}

/// Reads the graph of a collection; `None` if there is no file.
pub(crate) fn read(path: &Path, owner: &Owner<'_>) -> Result<Option<Segment>, GraphFileError> {
    let segment = match Segment::open(path) {
        Err(SegmentError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        segment => segment?,
    };
    if segment.identity() != owner.identity {
        return Err(GraphFileError::Strange("it is of another collection"));
    }
    let is_alike = (segment.metric(), segment.dim()) == (owner.config.metric, owner.config.dim.get());
    if !is_alike || segment.covered() > owner.rows || !is_of(&segment, owner) {
        return Err(GraphFileError::Strange("it is not a graph of this collection"));
    }
    Ok(Some(segment))
}

/// Whether each node can be scored and each point is in a node or was added later.
fn is_of(segment: &Segment, owner: &Owner<'_>) -> bool {
    let mut rows = RowSet::default();
    let once = segment.rows().iter().all(|&row| owner.kept.contains(row) && rows.insert(row));
    once && owner.live.iter().take_while(|&row| row < segment.covered()).all(|row| rows.contains(row))
}
