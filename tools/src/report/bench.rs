//! What `dehub bench --json` printed, as far as it is shown.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// Recall and speed of searches.
#[derive(Debug, Deserialize)]
pub(crate) struct Bench {
    pub(super) collection: String,
    pub(super) points: usize,
    pub(super) queries: usize,
    pub(super) limit: u32,
    pub(super) threads: u16,
    pub(super) rows: Vec<BenchRow>,
}

/// A way of searching.
#[derive(Debug, Deserialize)]
pub(super) struct BenchRow {
    pub(super) ranking: String,
    pub(super) search: String,
    pub(super) recall: f64,
    pub(super) queries_per_second: f64,
}

impl Bench {
    /// Reads a file. Errors name it, and the field that is missing or of another type.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Bench> {
        let name = file.display();
        let text = fs::read_to_string(file).with_context(|| name.to_string())?;
        let bench: Bench = serde_json::from_str(&text)
            .with_context(|| format!("{name}: wanted what `dehub bench COLLECTION … --json` prints"))?;
        if bench.rows.is_empty() {
            bail!("{name}: field rows: wanted a row for each way of searching, found none");
        }
        Ok(bench)
    }
}
