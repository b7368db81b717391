//! HDF5 in the layout of ann-benchmarks.

use std::path::Path;

use dehub_vector::{Metric, Rows};
use hdf5_pure::{AttrValue, FileBuilder};

use super::{Unfinished, unfinished};
use crate::error::FormatError;
use crate::table::guarded;

/// The most bytes of vectors that one file takes: they are held until it is laid out.
pub const HDF5_WRITE_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// What a file of ann-benchmarks holds.
#[derive(Debug, Clone, Copy)]
pub struct AnnBenchmark<'a> {
    /// What the vectors are for: `angular`, `euclidean` or `dot` in the file.
    pub metric: Metric,
    /// The vectors that are searched.
    pub train: &'a Rows,
    /// The queries.
    pub test: Option<&'a Rows>,
    /// Of each query the rows of `train` that are nearest to it, the nearest first.
    pub neighbors: Option<(&'a [u32], usize)>,
    /// Their distances, as many.
    pub distances: Option<&'a [f32]>,
}

/// Writes a file of ann-benchmarks: datasets `train`, `test`, `neighbors` and `distances`, attributes `distance`,
/// `dimension`, `point_type` and `type`. A file of that name is replaced.
///
/// # Errors
///
/// Vectors of more than [`HDF5_WRITE_BYTES_MAX`] bytes, queries of another dimension, neighbours or distances that are
/// not as many for each query, and whatever keeps the file from being written.
pub fn write_ann_benchmark(path: &Path, contents: &AnnBenchmark<'_>) -> Result<(), FormatError> {
    let refused =
        |reason: &str| Err(FormatError::Options { path: path.to_owned(), reason: reason.to_owned() });
    let AnnBenchmark { metric, train, test, neighbors, distances } = *contents;
    let queries = test.map_or(0, Rows::len);
    if test.is_some_and(|test| test.dim() != train.dim()) {
        return refused("the queries are of another dimension");
    }
    if neighbors.is_some_and(|(rows, k)| k == 0 || rows.len() != queries * k) {
        return refused("the neighbours are not as many for each query");
    }
    if distances.map(<[f32]>::len) != neighbors.filter(|_| distances.is_some()).map(|(rows, _)| rows.len()) {
        return refused("the distances are not those of the neighbours");
    }
    if (train.as_slice().len() + queries * train.dim()) * size_of::<f32>() > HDF5_WRITE_BYTES_MAX {
        return refused(&format!("the vectors take more than {HDF5_WRITE_BYTES_MAX} bytes"));
    }
    let mut builder = begun(metric, train);
    if let Some(test) = test {
        add_matrix(&mut builder, "test", test);
    }
    if let Some((rows, k)) = neighbors {
        let shape = [queries as u64, k as u64];
        let mut signed = Vec::with_capacity(rows.len());
        for &row in rows {
            let Ok(row) = i32::try_from(row) else {
                return refused("a neighbour's row is no 32-bit integer");
            };
            signed.push(row);
        }
        builder.create_dataset("neighbors").with_i32_data(&signed).with_shape(&shape);
        if let Some(distances) = distances {
            builder.create_dataset("distances").with_f32_data(distances).with_shape(&shape);
        }
    }
    let file = AnnSink::laid_out(path, unfinished(path)?, builder)?;
    let file = file.into_inner().map_err(|error| FormatError::io(path)(error.into_error()))?;
    file.persist(path).map_err(|error| FormatError::io(path)(error.error))?;
    Ok(())
}

fn begun(metric: Metric, train: &Rows) -> FileBuilder {
    let distance = match metric {
        Metric::Cosine => "angular",
        Metric::Dot => "dot",
        Metric::Euclidean => "euclidean",
    };
    let text = |text: &str| AttrValue::VarLenString(text.to_owned());
    let mut builder = FileBuilder::new();
    builder.set_attr("distance", text(distance));
    builder.set_attr("dimension", AttrValue::I64(i64::try_from(train.dim()).expect("at most 65,535")));
    builder.set_attr("point_type", text("float"));
    builder.set_attr("type", text("dense"));
    add_matrix(&mut builder, "train", train);
    builder
}

fn add_matrix(builder: &mut FileBuilder, name: &str, rows: &Rows) {
    let shape = [rows.len() as u64, rows.dim() as u64];
    builder.create_dataset(name).with_f32_data(rows.as_slice()).with_shape(&shape);
}

/// Vectors that are collected to be `train`.
pub(super) struct AnnSink {
    file: Unfinished,
    dim: usize,
    metric: Metric,
    numbers: Vec<f32>,
}

impl AnnSink {
    pub(super) fn new(file: Unfinished, dim: usize, metric: Metric) -> AnnSink {
        AnnSink { file, dim, metric, numbers: Vec::new() }
    }

    pub(super) fn write(&mut self, path: &Path, first_row: u64, rows: &Rows) -> Result<(), FormatError> {
        if (self.numbers.len() + rows.as_slice().len()) * size_of::<f32>() > HDF5_WRITE_BYTES_MAX {
            let (path, limit) = (path.to_owned(), HDF5_WRITE_BYTES_MAX);
            return Err(FormatError::TooLarge { path, row: first_row, limit });
        }
        self.numbers.extend_from_slice(rows.as_slice());
        Ok(())
    }

    pub(super) fn finish(self, path: &Path) -> Result<Unfinished, FormatError> {
        let rows = Rows::new(self.dim, self.numbers).expect("whole rows were added");
        let builder = begun(self.metric, &rows);
        drop(rows);
        AnnSink::laid_out(path, self.file, builder)
    }

    fn laid_out(path: &Path, mut file: Unfinished, builder: FileBuilder) -> Result<Unfinished, FormatError> {
        guarded(|| builder.finish_to(&mut file)).map_err(|reason| FormatError::Options {
            path: path.to_owned(),
            reason: format!("cannot be written: {reason}"),
        })?;
        Ok(file)
    }
}
