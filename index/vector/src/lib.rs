//! Ids, vectors, scores and the kernels that compare vectors; no input or output.
//!
//! Everything above this package trusts its types: a [`Vector`] is finite and, under
//! [`Metric::Cosine`], of length one; a [`Rows`] block has exactly `dim` numbers a row.
//! Similarity is always *larger is better*.

mod chunked;
mod gather;
mod id;
mod kernel;
mod metric;
mod multi;
mod numbers;
mod projection;
mod reduce;
mod rows;
mod simd;
mod top;
mod vector;

pub use chunked::{CHUNK_ROWS, Chunked, longest_square};
pub use gather::gather_i8;
pub use id::{ID_BYTES_MAX, IdError, PointId};
pub use kernel::{dot, matrix_product, max_sim, product_error, squared_distance};
pub use metric::{Metric, UnknownMetric};
pub use multi::max_sim_block;
pub use numbers::{MULTI_MAX, Numbers, UnevenLists};
pub use projection::{Projection, WIDTH_STEP};
pub use reduce::{exp_sum, largest, shifted_sums};
pub use rows::{Rows, RowsError};
pub use simd::{
    Coded, Kernels, PANEL_ROWS, PLACES, Pair, Pairs, Panels, QuadPanels, Quads, bf16_error, code_row,
    int8_error, prefetch, round_row,
};
pub use top::{Candidate, TopK};
pub use vector::{DIM_MAX, Dim, DimError, Vector, VectorError};
