//! The graph on disk: derived data that saves rebuilding it, and never trusted. A file that is not whole,
//! or not of this collection as it is, is set aside; its points are in no segment until they are frozen again.
//!
//! Set aside is renamed: `NAME.broken` is never read, and the newest few are kept for whoever wants to know. A
//! file tells which commit it reflects. One that reflects a later commit than the store has is set aside too:
//! the store has lost that commit, and gives its rows again, perhaps to other points.
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
use crate::{CollectionConfig, OpenPhase, OpenProgress, Quantization};

/// Why a graph file was not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GraphFileError {
    /// It is no whole segment, or could not be read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// It is a graph over other points.
    #[error("{0}")]
    Strange(&'static str),
    /// It is a graph of what the store has not.
    #[error("it reflects commit {found}, and the collection is at {newest}")]
    Newer {
        /// The commit of the file.
        found: u64,
        /// That of the store.
        newest: u64,
    },
}

/// What is known of the collection whose graph is read.
pub(crate) struct Owner<'a> {
    pub(crate) identity: u64,
    /// The number of its newest commit.
    pub(crate) sequence: u64,
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

/// Reads the segments of a collection, sets aside what is broken, and removes files that others stand for.
pub(crate) fn read_all(folder: &Path, owner: &Owner<'_>, progress: &OpenProgress) -> Segments {
    let mut files: Vec<(PathBuf, FileName)> =
        files(folder).into_iter().filter_map(|(path, name)| Some((path, name?))).collect();
    // The widest first, and of two over the same rows the one that is asked for.
    let asked = owner.config.graph.quantization;
    files.sort_by_key(|(_, name)| (usize::MAX - name.rows.len(), name.quantization != asked));
    let mut taken: Vec<Arc<Frozen>> = Vec::new();
    let mut left = Vec::new();
    progress.begin(OpenPhase::Graph, files.len() as u64);
    for (path, name) in files {
        progress.add(1);
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
                // What could not be read may be whole, and is read at the next opening.
                let is_unread = matches!(error, GraphFileError::Segment(SegmentError::Io(_)));
                if is_unread || !set_aside(&path) {
                    left.push(name);
                }
            }
        }
    }
    let segments = Segments::new(taken);
    sweep(folder, &segments, &left);
    remove_broken(folder, BROKEN_MAX);
    segments
}

/// How the names of files end that are set aside.
const BROKEN: &str = ".broken";

/// As many of these are kept.
const BROKEN_MAX: usize = 2;

/// Renames a file so that it is never read again; tells whether that was done.
pub(crate) fn set_aside(path: &Path) -> bool {
    let mut name = path.as_os_str().to_owned();
    name.push(BROKEN);
    let renamed = fs::rename(path, &name);
    if let Err(error) = &renamed {
        let file = path.display();
        tracing::warn!(%file, %error, "the broken graph file could not be renamed");
    }
    renamed.is_ok()
}

/// The graph files of a collection that were set aside, the newest first.
pub(crate) fn broken(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_broken = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("graph-") && name.ends_with(BROKEN)
    };
    let mut files: Vec<_> = entries
        .filter(is_broken)
        .map(|entry| (entry.metadata().and_then(|data| data.modified()).ok(), entry.path()))
        .collect();
    files.sort_by(|a, b| b.cmp(a));
    files.into_iter().map(|(_, path)| path).collect()
}

/// The bytes of the files that were set aside.
pub(crate) fn broken_bytes(folder: &Path) -> u64 {
    broken(folder).iter().filter_map(|path| fs::metadata(path).ok()).map(|data| data.len()).sum()
}

/// Whether the file of a segment that is in use is whole, and of the collection as it is.
pub(crate) fn check(path: &Path, frozen: &Frozen, owner: &Owner<'_>) -> Result<(), GraphFileError> {
    read(path, &FileName::of(frozen), owner).map(|_| ())
}

/// Removes the files that were set aside, but for the newest `kept`; gives their bytes.
pub(crate) fn remove_broken(folder: &Path, kept: usize) -> u64 {
    let mut bytes = 0;
    for path in broken(folder).into_iter().skip(kept) {
        let len = fs::metadata(&path).map_or(0, |data| data.len());
        match fs::remove_file(&path) {
            Ok(()) => bytes += len,
            Err(error) => {
                let file = path.display();
                tracing::warn!(%file, %error, "a graph file that was set aside could not be removed");
            }
        }
    }
    bytes
}

/// Removes what no segment is read from, after it was replaced or never finished.
pub(crate) fn remove_others(folder: &Path, segments: &Segments) {
    sweep(folder, segments, &[]);
}

fn sweep(folder: &Path, segments: &Segments, left: &[FileName]) {
    let used: Vec<FileName> = segments.iter().map(FileName::of).collect();
    for (path, name) in files(folder) {
        let is_kept = name.is_some_and(|name| used.contains(&name) || left.contains(&name));
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
        let is_ours = (name.starts_with("graph-") && !name.ends_with(BROKEN))
            || ["graph.bin", "graph.new"].contains(&name.as_str());
        is_ours.then(|| (entry.path(), FileName::read(&name)))
    };
    entries.filter_map(file).collect()
}

fn read(path: &Path, name: &FileName, owner: &Owner<'_>) -> Result<Segment, GraphFileError> {
    let segment = open(path, name, owner.identity, owner.config)?;
    if segment.sequence() > owner.sequence {
        return Err(GraphFileError::Newer { found: segment.sequence(), newest: owner.sequence });
    }
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
        GraphFileError::Segment(_) | GraphFileError::Strange(_) | GraphFileError::Newer { .. } => {
            io::Error::other(error)
        }
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
    use dehub_graph::{BuildOptions, Points, build};
    use dehub_vector::Metric;

    use super::*;
    use crate::GraphConfig;

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

    /// A graph over 24 points in the folder, as a collection would have written it.
    fn write(folder: &Path, quantization: Quantization) -> PathBuf {
        let vectors: Vec<[f32; 3]> = (0_u8..24).map(|x| [f32::from(x), f32::from(x % 5), 1.0]).collect();
        let groups: Vec<Vec<u32>> = (0..24).map(|row| vec![row]).collect();
        let vector = |row: u32| vectors[row as usize].as_slice();
        let points = Points { metric: Metric::Dot, dim: 3, groups: &groups, vector: &vector };
        let code = quantization.code();
        let options =
            BuildOptions { m: 2, code, covered: 24, identity: 7, sequence: 5, ..BuildOptions::default() };
        let path = path(folder, &(0..24), quantization);
        build(&points, &options).write(&path).expect("writable");
        path
    }

    #[test]
    fn a_file_with_any_byte_changed_or_cut_anywhere_is_set_aside_and_never_read_again() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let config = CollectionConfig::new(3, Metric::Dot, GraphConfig::default()).expect("good");
        let live: RowSet = (0..24).collect();
        let owner = Owner { identity: 7, sequence: 5, config: &config, rows: 24, live: &live };
        let read = || read_all(folder.path(), &owner, &OpenProgress::default());
        for quantization in Quantization::ALL {
            let file = write(folder.path(), quantization);
            let whole = fs::read(&file).expect("it is there");
            assert_eq!(read().iter().len(), 1, "{quantization}");
            // The header and its table whole, of the rest every seventh byte.
            let places = || (0..whole.len()).filter(|&place| place < 512 || place % 7 == 0);
            let flips = places().flat_map(|place| [(place, 0x01), (place, 0xff)]);
            let flipped = flips.map(|(place, change)| {
                let mut bytes = whole.clone();
                bytes[place] ^= change;
                bytes
            });
            let cut = places().map(|len| whole[..len].to_vec());
            for (step, bytes) in flipped.chain(cut).enumerate() {
                fs::write(&file, &bytes).expect("writable");
                assert!(read().is_empty(), "{quantization}: change {step}");
                assert!(!file.exists() && broken(folder.path()).len() <= BROKEN_MAX, "change {step}");
            }
            fs::write(&file, &whole).expect("writable");
            assert_eq!(read().iter().len(), 1, "{quantization}: whole again");
            fs::remove_file(&file).expect("it is there");
        }
        assert!(remove_broken(folder.path(), 0) > 0 && broken(folder.path()).is_empty());
    }
}
