//! Files of true neighbours as big-ann-benchmarks has them: 32-bit integers and floats, the lowest byte first.
//!
//! Of a k-nearest search: the number of queries, `k`, as many row numbers of each query, and perhaps as many distances.
//! Of a range search: the number of queries, the number of all neighbours, how many each query has, their row numbers,
//! and perhaps their distances.

use std::path::{Path, PathBuf};

use crate::error::{FormatError, Place};
use crate::held::Held;
use crate::input::Input;

/// What a query's true neighbours are.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// The rows of the neighbours, as the file orders them.
    pub rows: Vec<u32>,
    /// Their distances, as many, if the file has any.
    pub distances: Option<Vec<f32>>,
}

/// Which search a file is of. The bytes do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruthKind {
    /// The same number of neighbours for each query.
    Nearest,
    /// All within a radius: any number, and perhaps none.
    Range,
}

/// The true neighbours of queries, read one query at a time.
///
/// Memory: the neighbours of one query, and for a range search eight bytes a query.
pub struct TruthReader {
    path: PathBuf,
    held: Held,
    /// Where the neighbours of each query begin, and of the last end, counted in neighbours.
    starts: Starts,
    /// Where row numbers start in the file.
    data_start: u64,
    all: u64,
    has_distances: bool,
}

enum Starts {
    Each { queries: u64, k: u64 },
    Listed(Vec<u64>),
}

impl Starts {
    fn queries(&self) -> u64 {
        match self {
            Starts::Each { queries, .. } => *queries,
            Starts::Listed(starts) => starts.len() as u64 - 1,
        }
    }
}

/// Opens a file of true neighbours, compressed or not.
///
/// # Errors
///
/// A file that is shorter or longer than its header says, or whose counts contradict each other.
pub fn open_truth(path: &Path, kind: TruthKind) -> Result<TruthReader, FormatError> {
    read(&Input::open(path)?, kind)
}

/// The same from bytes in memory, under a name for messages.
pub fn open_truth_bytes(name: &Path, bytes: Vec<u8>, kind: TruthKind) -> Result<TruthReader, FormatError> {
    read(&Input::memory(name, bytes), kind)
}

fn read(input: &Input, kind: TruthKind) -> Result<TruthReader, FormatError> {
    let path = input.path().to_owned();
    let held = input.held()?;
    let bad = |wanted: &str, found: String| FormatError::Header {
        path: path.clone(),
        wanted: wanted.to_owned(),
        found,
    };
    let start = held.beginning(8).map_err(FormatError::io(&path))?;
    let (&[queries, second], []) = start.as_chunks::<4>() else {
        return Err(bad("a header of 8 bytes", format!("a file of {} bytes", start.len())));
    };
    let (queries, second) = (u64::from(u32::from_le_bytes(queries)), u64::from(u32::from_le_bytes(second)));
    let (all, data_start) = match kind {
        TruthKind::Nearest => (queries * second, 8),
        TruthKind::Range => (second, 8 + 4 * queries),
    };
    let sizes =
        [data_start.saturating_add(all.saturating_mul(4)), data_start.saturating_add(all.saturating_mul(8))];
    if !sizes.contains(&held.size()) {
        let found = format!("{} bytes", held.size());
        let wanted = format!("{} bytes, or {} with distances, for {all} neighbours", sizes[0], sizes[1]);
        return Err(bad(&wanted, found));
    }
    let starts = match kind {
        TruthKind::Nearest => Starts::Each { queries, k: second },
        TruthKind::Range => Starts::Listed(listed(&path, &held, queries, all)?),
    };
    Ok(TruthReader { starts, data_start, all, has_distances: all > 0 && held.size() == sizes[1], held, path })
}

/// The sums of the counts; the file was found to have as many.
fn listed(path: &Path, held: &Held, queries: u64, all: u64) -> Result<Vec<u64>, FormatError> {
    let counts = numbers(held, 8, queries).map_err(FormatError::io(path))?;
    let mut sum = 0u64;
    let mut starts = vec![0];
    starts.extend(counts.iter().map(|&count| {
        sum += u64::from(u32::from_le_bytes(count));
        sum
    }));
    if sum == all {
        return Ok(starts);
    }
    let (wanted, found) = (format!("{all} neighbours, as the header says"), format!("counts of {sum}"));
    Err(FormatError::Header { path: path.to_owned(), wanted, found })
}

fn numbers(held: &Held, offset: u64, count: u64) -> std::io::Result<Vec<[u8; 4]>> {
    let part = count.checked_mul(4).and_then(|bytes| held.part(offset, bytes));
    let part = part.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::UnexpectedEof))?;
    let bytes = part.beginning(usize::MAX)?;
    Ok(bytes.as_chunks::<4>().0.to_vec())
}

impl TruthReader {
    /// How many queries there are.
    pub fn queries(&self) -> u64 {
        self.starts.queries()
    }

    /// The true neighbours of a query, counted from 0; `None` past the last.
    ///
    /// # Errors
    ///
    /// A row number below 0, and whatever keeps the file from being read.
    pub fn query(&self, query: u64) -> Result<Option<Truth>, FormatError> {
        if query >= self.queries() {
            return Ok(None);
        }
        let (start, end) = match &self.starts {
            Starts::Each { k, .. } => (query * k, (query + 1) * k),
            Starts::Listed(starts) => {
                let query = usize::try_from(query).expect("within a list in memory");
                (starts[query], starts[query + 1])
            }
        };
        let io = || FormatError::io(&self.path);
        let rows = numbers(&self.held, self.data_start + 4 * start, end - start).map_err(io())?;
        let mut truth = Truth { rows: Vec::with_capacity(rows.len()), distances: None };
        for (place, row) in rows.into_iter().map(i32::from_le_bytes).enumerate() {
            truth.rows.push(u32::try_from(row).map_err(|_| FormatError::Value {
                path: self.path.clone(),
                place: Place::Row(query),
                field: "neighbours".into(),
                coordinate: Some(place),
                wanted: "a row number of 0 or more".into(),
                found: row.to_string().into(),
            })?);
        }
        if self.has_distances {
            let offset = self.data_start + 4 * (self.all + start);
            let distances = numbers(&self.held, offset, end - start).map_err(io())?;
            truth.distances = Some(distances.into_iter().map(f32::from_le_bytes).collect());
        }
        Ok(Some(truth))
    }
}
