//! How a file is to be read: which fields, which rows, how many at a time.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::FormatError;
use crate::formats::Format;

/// The rows of a batch unless something else is asked for.
pub const BATCH_ROWS_DEFAULT: usize = 1024;

/// A batch ends early when it holds this much, so that memory stays bounded for any row size.
/// One row more than that may be held: a row is never cut.
pub const BATCH_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What [`open`](crate::open) and [`open_fields`](crate::open_fields) take from a file.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The most rows a batch has; 0 counts as 1. A batch also ends at [`BATCH_BYTES_MAX`].
    pub batch_rows: usize,
    /// The field that holds the id; otherwise `id`, then `_id`, and no ids if neither is there.
    pub id_field: Option<String>,
    /// The field that holds the vector; otherwise the first of `vector`, `embedding`, `emb`, `values`.
    pub vector_field: Option<String>,
    /// The field that holds the text; otherwise `text`, and no texts if it is not there.
    pub text_field: Option<String>,
    /// Fields that are not read at all.
    pub leave_out: Vec<String>,
    /// The format; otherwise that of the name, or that of the first bytes if the name has no ending or is `-`.
    pub format: Option<Format>,
    /// The array, tensor or dataset of an `.npz`, `.safetensors` or HDF5 file; otherwise the only one, or `train`.
    pub dataset: Option<String>,
    /// A `.jsonl` file whose line i has the id, the text and the payload of row i of a file that is one matrix.
    pub metadata: Option<PathBuf>,
    /// Only these rows, counted from 0; the part of the range past the end of the file is empty.
    pub rows: Option<Range<u64>>,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            batch_rows: BATCH_ROWS_DEFAULT,
            id_field: None,
            vector_field: None,
            text_field: None,
            leave_out: Vec::new(),
            format: None,
            dataset: None,
            metadata: None,
            rows: None,
        }
    }
}

impl ReadOptions {
    /// Refuses a name that has two uses: it could serve only one.
    pub(crate) fn check(&self, path: &Path) -> Result<(), FormatError> {
        let named: Vec<&String> =
            [&self.id_field, &self.vector_field, &self.text_field].into_iter().flatten().collect();
        for (index, name) in named.iter().enumerate() {
            if named[..index].contains(name) || self.leave_out.contains(name) {
                let reason = format!("field {name} is asked for twice, or both asked for and left out");
                return Err(FormatError::Options { path: path.to_owned(), reason });
            }
        }
        Ok(())
    }

    pub(crate) fn batch_rows(&self) -> usize {
        self.batch_rows.max(1)
    }

    /// The first row, and the row after the last, in a file that may have fewer.
    pub(crate) fn range(&self) -> Range<u64> {
        let range = self.rows.clone().unwrap_or(0..u64::MAX);
        range.start..range.end.max(range.start)
    }

    /// The same for a file of `total` rows.
    pub(crate) fn range_of(&self, total: u64) -> Range<u64> {
        let range = self.range();
        range.start.min(total)..range.end.min(total)
    }
}

/// The name asked for, if it is one of `names`, or the only one there is. `kind` is what they are names of.
pub(crate) fn chosen<'a>(
    path: &Path,
    kind: &str,
    names: &[&'a str],
    asked: Option<&str>,
) -> Result<&'a str, FormatError> {
    /// As many names as a message lists.
    const LISTED_MAX: usize = 20;
    let found = match (asked, names) {
        (Some(asked), _) => names.iter().find(|&&name| name == asked),
        (None, [_]) => names.first(),
        (None, _) => None,
    };
    if let Some(found) = found {
        return Ok(found);
    }
    let mut listed = names.iter().take(LISTED_MAX).copied().collect::<Vec<_>>().join(", ");
    if names.len() > LISTED_MAX {
        listed += &format!(" and {} more", names.len() - LISTED_MAX);
    }
    let found = if names.is_empty() { "none".to_owned() } else { listed };
    let wanted = match asked {
        Some(asked) => format!("{kind} {asked}"),
        None => format!("the name of one {kind}"),
    };
    Err(FormatError::Header { path: path.to_owned(), wanted, found })
}
