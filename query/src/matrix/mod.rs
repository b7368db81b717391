//! Rankings of similarities that are in no collection: those of vectors, or a matrix that someone else computed.
//!
//! Corrections are fitted from the similarities of a bank to the points, by the states that a collection keeps
//! ([`dehub_normalize::Statistic`]), and rank the similarities of queries to the points. Both are read once, in
//! blocks of rows, and only a block is held.

mod error;
mod fit;
mod rank;
mod sinkhorn;
mod source;

pub use error::{MatrixError, SourceError};
pub use fit::{MatrixBank, MatrixBanks, MatrixCorrection, NestedSizes, fit_matrix, fit_nested};
pub(crate) use rank::Answered;
pub use rank::{MatrixQuestion, rank_matrix};
pub use source::{Similarities, VectorSimilarities};

/// The rows of a block, unless they are so long that fewer fill [`BLOCK_NUMBERS_MAX`].
const BLOCK_ROWS: usize = 256;

/// The most numbers of a block, but for one row: 128 MiB.
const BLOCK_NUMBERS_MAX: usize = 32 << 20;

/// Reads the rows named, in their order, block by block, and shows each block with the place of its first row in
/// `rows`. No block goes over a multiple of `BLOCK_ROWS` places, nor over one of `cuts`, which ascend.
fn each_block(
    source: &dyn Similarities,
    rows: &[u32],
    cuts: &[usize],
    look: &mut dyn FnMut(usize, &[f32]),
) -> Result<(), MatrixError> {
    let columns = source.columns();
    let most = (BLOCK_NUMBERS_MAX / columns.max(1)).clamp(1, BLOCK_ROWS);
    let mut block = Vec::new();
    let mut start = 0;
    while start < rows.len() {
        let of_places = (start / BLOCK_ROWS + 1) * BLOCK_ROWS;
        let of_cuts = cuts.iter().copied().find(|&cut| cut > start).unwrap_or(rows.len());
        let end = (start + most).min(of_places).min(of_cuts).min(rows.len());
        block.resize((end - start) * columns, 0.0);
        read_finite(source, &rows[start..end], &mut block)?;
        look(start, &block);
        start = end;
    }
    Ok(())
}

/// Reads rows, and refuses NaN and the infinities by their place.
fn read_finite(source: &dyn Similarities, rows: &[u32], block: &mut [f32]) -> Result<(), MatrixError> {
    source.read(rows, block).map_err(|reason| MatrixError::Read { name: source.name(), reason })?;
    for (line, &row) in block.chunks_exact(source.columns()).zip(rows) {
        // A sum of finite numbers times 0 is 0, and NaN if any is not finite.
        if line.iter().map(|number| number * 0.0).sum::<f32>() == 0.0 {
            continue;
        }
        if let Some(column) = line.iter().position(|number| !number.is_finite()) {
            let found = line[column];
            return Err(MatrixError::NotFinite { name: source.name(), row, column, found });
        }
    }
    Ok(())
}
