//! Results of a benchmark as the HDF5 files of ann-benchmarks: attributes that tell of the run, and of each query what
//! it found, how far that is and how long it took (Aumüller, Bernhardsson & Faithfull, *ANN-Benchmarks*, Information
//! Systems 87, 2020; the layout is that of its `results.py`).

use std::fs;
use std::io;
use std::path::Path;

use hdf5_pure::{AttrValue, Error, FileBuilder};

use crate::error::FormatError;

/// What stands for a neighbour that was not found.
const MISSING: i32 = -1;

/// One setting of one contestant on one set of queries.
#[derive(Debug, Clone, PartialEq)]
pub struct AnnResult<'a> {
    /// The contestant.
    pub algo: &'a str,
    /// The contestant with its setting.
    pub name: &'a str,
    /// The data.
    pub dataset: &'a str,
    /// The name of the distance.
    pub distance: &'a str,
    /// Neighbours that each query asked for.
    pub count: usize,
    /// Seconds that the index took to build; `None` if it was not built, which is written as NaN.
    pub build_time: Option<f64>,
    /// Kilobytes of the index.
    pub index_size: f64,
    /// Seconds a query of the fastest run.
    pub best_search_time: f64,
    /// How often all queries were asked.
    pub run_count: usize,
    /// Further attributes that are texts.
    pub texts: Vec<(&'a str, String)>,
    /// Further attributes that are numbers.
    pub numbers: Vec<(&'a str, f64)>,
    /// Seconds of each query.
    pub times: Vec<f32>,
    /// What each query found, nearest first: points by number with their distances, [`AnnResult::count`] at most.
    pub found: Vec<Vec<(i32, f32)>>,
    /// What each query should have found. ann-benchmarks takes that from the file of the data set, and passes over
    /// the datasets `true_neighbors` and `true_distances`.
    pub truth: Vec<Vec<(i32, f32)>>,
}

/// Writes a result, in folders that are made if need be. A file of that name is replaced.
///
/// # Errors
/// If the file cannot be written, or has a query with more neighbours than were asked for, or lists of queries that
/// differ in length.
pub fn write_ann_result(path: &Path, result: &AnnResult<'_>) -> Result<(), FormatError> {
    let unfit = |reason: String| FormatError::Options { path: path.to_owned(), reason };
    let queries = result.times.len();
    for (what, lists) in [("found", &result.found), ("truth", &result.truth)] {
        if lists.len() != queries {
            return Err(unfit(format!("wanted {queries} queries in `{what}`, found {}", lists.len())));
        }
        if let Some(list) = lists.iter().find(|list| list.len() > result.count) {
            let count = result.count;
            return Err(unfit(format!("wanted {count} neighbours of a query at most, found {}", list.len())));
        }
    }
    let write = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        built(result).write(path).map_err(reason)
    };
    write().map_err(FormatError::io(path))
}

fn reason(error: Error) -> io::Error {
    if let Error::Io(error) = error { error } else { io::Error::other(error.to_string()) }
}

#[expect(clippy::cast_precision_loss, reason = "counts of neighbours are far below 2^53")]
fn built(result: &AnnResult<'_>) -> FileBuilder {
    let mut file = FileBuilder::new();
    let integer = |number: usize| AttrValue::I64(i64::try_from(number).unwrap_or(i64::MAX));
    let (queries, count) = (result.times.len() as u64, result.count as u64);
    let found: usize = result.found.iter().map(Vec::len).sum();
    for (name, text) in [
        ("algo", result.algo),
        ("name", result.name),
        ("dataset", result.dataset),
        ("distance", result.distance),
    ] {
        // Of a variable length, as h5py writes a str, so that it reads one.
        file.set_attr(name, AttrValue::VarLenString(text.to_owned()));
    }
    for (name, text) in &result.texts {
        file.set_attr(name, AttrValue::VarLenString(text.clone()));
    }
    file.set_attr("count", integer(result.count));
    file.set_attr("run_count", integer(result.run_count));
    file.set_attr("batch_mode", AttrValue::U8(0));
    file.set_attr("expect_extra", AttrValue::U8(0));
    file.set_attr("build_time", AttrValue::F64(result.build_time.unwrap_or(f64::NAN)));
    file.set_attr("index_size", AttrValue::F64(result.index_size));
    file.set_attr("best_search_time", AttrValue::F64(result.best_search_time));
    file.set_attr("candidates", AttrValue::F64(found as f64 / result.times.len().max(1) as f64));
    for (name, number) in &result.numbers {
        file.set_attr(name, AttrValue::F64(*number));
    }
    file.create_dataset("times").with_f32_data(&result.times).with_shape(&[queries]);
    for (prefix, lists) in [("", &result.found), ("true_", &result.truth)] {
        let missing = std::iter::repeat(&(MISSING, f32::INFINITY));
        let padded = lists.iter().flat_map(|list| list.iter().chain(missing.clone()).take(result.count));
        let (points, distances): (Vec<i32>, Vec<f32>) = padded.copied().unzip();
        let shape = [queries, count];
        file.create_dataset(&format!("{prefix}neighbors")).with_i32_data(&points).with_shape(&shape);
        file.create_dataset(&format!("{prefix}distances")).with_f32_data(&distances).with_shape(&shape);
    }
    file
}
