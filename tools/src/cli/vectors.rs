//! Files of vectors, as commands take them.

use std::path::PathBuf;

use clap::Args;
use dehub_format::Format;
use serde::{Deserialize, Serialize};

/// A file of vectors, and how to read it.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
pub(crate) struct VectorFile {
    /// How the file is written, whatever its name: npy, npz, fvecs, ivecs, bvecs, fbin, ibin, u8bin, i8bin, parquet,
    /// arrow, hdf5, jsonl or safetensors [default: by its ending, after .gz or .zst; without one by its first bytes].
    #[arg(long, value_name = "NAME")]
    pub format: Option<Format>,
    /// The array, tensor or dataset to read of an .npz, .safetensors or .hdf5 file [default: train, or the only one].
    #[arg(long, value_name = "NAME")]
    pub dataset: Option<String>,
    /// Read vectors that their file says to be for another metric than the collection's.
    #[arg(long)]
    pub any_distance: bool,
    /// A .jsonl file that goes with a file that is all vectors: line i has the id, text and payload of row i.
    #[arg(long, value_name = "FILE")]
    pub meta: Option<PathBuf>,
    /// The field or column of the ids [default: id or _id].
    #[arg(long, value_name = "NAME")]
    pub id_field: Option<String>,
    /// The field or column of the vectors [default: vector, embedding, emb or values].
    #[arg(long, value_name = "NAME")]
    pub vector_field: Option<String>,
    /// The field or column of the texts [default: text].
    #[arg(long, value_name = "NAME")]
    pub text_field: Option<String>,
    /// A field or column to leave out of the payload; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub leave_out: Vec<String>,
    /// Only the first N rows.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}
