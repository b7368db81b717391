//! The graph on disk: derived data that saves rebuilding it, and never trusted. A file that is not whole,
//! or not of this collection as it is, is set aside; its points are in no segment until they are frozen again.
//!
//! A segment's file is named `graph-FROM-TO-QUANTIZATION.bin` by the rows it covers. It is written beside
//! and moved to its name, and what it replaces is removed after: whenever that stops, each file there is
//! right alone, and one over more rows stands for those over fewer.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dehub_graph::{Segment, SegmentError};

use crate::row_set::RowSet;
use crate::segments::{Frozen, Segments};
use crate::{CollectionConfig, Quantization};

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
}

/// What the name of a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileName {
    rows: Range<u32>,
    quantization: Quantization,
}

impl FileName {
    fn of(frozen: &Frozen) -> FileName {
        FileName { rows: frozen.rows.clone(), quantization: frozen.quantization }
    }

    fn read(name: &str) -> Option<FileName> {
        let mut parts = name.strip_prefix("graph-")?.strip_suffix(".bin")?.split('-');
        let (from, to, quantization) = (parts.next()?, parts.next()?, parts.next()?);
        let read =
            FileName { rows: from.parse().ok()?..to.parse().ok()?, quantization: quantization.parse().ok()? };
        // Only as it is written, so that a segment has one name.
        (read.text() == name).then_some(read)
    }

    fn text(&self) -> String {
        format!("graph-{}-{}-{}.bin", self.rows.start, self.rows.end, self.quantization)
    }
}

/// Where a segment over `rows` is kept in the folder of its collection.
pub(crate) fn path(folder: &Path, rows: &Range<u32>, quantization: Quantization) -> PathBuf {
    folder.join(FileName { rows: rows.clone(), quantization }.text())
}

/// Reads the segments of a collection, and removes files that others stand for.
pub(crate) fn read_all(folder: &Path, owner: &Owner<'_>) -> Segments {
    let mut files: Vec<(PathBuf, FileName)> =
        files(folder).into_iter().filter_map(|(path, name)| Some((path, name?))).collect();
    // The widest first, and of two over the same rows the one that is asked for.
    let asked = owner.config.graph.quantization;
    files.sort_by_key(|(_, name)| (usize::MAX - name.rows.len(), name.quantization != asked));
    let mut taken: Vec<Arc<Frozen>> = Vec::new();
    let mut set_aside = Vec::new();
    for (path, name) in files {
        if taken.iter().any(|other| name.rows.start < other.rows.end && other.rows.start < name.rows.end) {
            continue;
        }
        match read(&path, &name, owner) {
            Ok(graph) => {
                let FileName { rows, quantization } = name;
                taken.push(Arc::new(Frozen { rows, quantization, graph }));
            }
            Err(error) => {
                let file = path.display();
                tracing::warn!(%file, %error, "the graph file is set aside; its points are scanned until frozen again");
                set_aside.push(name);
            }
        }
    }
    let segments = Segments::new(taken);
    sweep(folder, &segments, &set_aside);
    segments
}

/// Removes what no segment is read from, after it was replaced or never finished.
pub(crate) fn remove_others(folder: &Path, segments: &Segments) {
    sweep(folder, segments, &[]);
}

fn sweep(folder: &Path, segments: &Segments, set_aside: &[FileName]) {
    let used: Vec<FileName> = segments.iter().map(FileName::of).collect();
    for (path, name) in files(folder) {
        let is_kept = name.is_some_and(|name| used.contains(&name) || set_aside.contains(&name));
        if !is_kept && let Err(error) = fs::remove_file(&path) {
            let file = path.display();
            tracing::warn!(%file, %error, "a graph file that is not used could not be removed");
        }
    }
}

/// The files in a collection's folder that are of graphs, and what the names of segments say.
fn files(folder: &Path) -> Vec<(PathBuf, Option<FileName>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        // `graph.bin` was the only one once; `.new` is how unfinished ones end.
        let is_ours = name.starts_with("graph-") || ["graph.bin", "graph.new"].contains(&name.as_str());
        is_ours.then(|| (entry.path(), FileName::read(&name)))
    };
    entries.filter_map(file).collect()
}

fn read(path: &Path, name: &FileName, owner: &Owner<'_>) -> Result<Segment, GraphFileError> {
    let segment = open(path, name, owner.identity, owner.config)?;
    if segment.covered() > owner.rows || !is_of(&segment, &name.rows, owner) {
        return Err(GraphFileError::Strange("it is not a graph of this collection"));
    }
    Ok(segment)
}

/// Maps the file of a segment that was just written, whose points are known to be these.
pub(crate) fn map(
    folder: &Path,
    (rows, quantization): (&Range<u32>, Quantization),
    identity: u64,
    config: &CollectionConfig,
) -> io::Result<Segment> {
    let name = FileName { rows: rows.clone(), quantization };
    let mapped = open(&folder.join(name.text()), &name, identity, config);
    mapped.map_err(|error| match error {
        GraphFileError::Segment(SegmentError::Io(error)) => error,
        GraphFileError::Segment(_) | GraphFileError::Strange(_) => io::Error::other(error),
    })
}

fn open(
    path: &Path,
    name: &FileName,
    identity: u64,
    config: &CollectionConfig,
) -> Result<Segment, GraphFileError> {
    let segment = Segment::open(path)?;
    if segment.identity() != identity {
        return Err(GraphFileError::Strange("it is of another collection"));
    }
    let found = (segment.metric(), segment.dim(), segment.code(), segment.covered());
    if found != (config.metric, config.dim.get(), name.quantization.code(), name.rows.end) {
        return Err(GraphFileError::Strange("it is not what its name says"));
    }
    Ok(segment)
}

/// Whether its rows are among `rows`, each in it once, and every point with one of these rows is in it.
fn is_of(segment: &Segment, rows: &Range<u32>, owner: &Owner<'_>) -> bool {
    let mut seen = vec![0_u64; rows.len().div_ceil(64)];
    let mut points = 0;
    let once = segment.rows().iter().all(|row| {
        let Some(place) = row.checked_sub(rows.start).filter(|_| rows.contains(row)) else { return false };
        let word = &mut seen[place as usize / 64];
        let is_new = *word >> (place % 64) & 1 == 0;
        *word |= 1 << (place % 64);
        points += usize::from(owner.live.contains(*row));
        is_new
    });
    once && points == owner.live.count(rows.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_no_other() {
        for quantization in Quantization::ALL {
            let name = FileName { rows: 7..1500, quantization };
            assert_eq!(FileName::read(&name.text()), Some(name));
        }
        for other in [
            "graph.bin",
            "graph-0-5-bf16.new",
            "graph-0-5.bin",
            "graph-0-5-bf17.bin",
            "graph-00-5-bf16.bin",
            "graph-0-5-bf16-x.bin",
            "graph-0-4294967296-bf16.bin",
            "graph-+0-5-bf16.bin",
        ] {
            assert_eq!(FileName::read(other), None, "{other}");
        }
    }
}
