//! `dehub export`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use dehub_api::read_filter;
use dehub_query::Filter;

/// Write what a collection has to a file, as of one moment.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The collection.
    pub collection: String,
    #[command(subcommand)]
    pub what: Exported,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Exported {
    /// Points: ids, vectors, texts and payloads, as import reads them. What is one matrix has ids, texts and payloads
    /// in FILE.ids.jsonl, which import takes as --meta.
    Points {
        /// Only the points that pass this filter, as for search.
        #[arg(long, value_name = "FILTER", value_parser = read_filter)]
        filter: Option<Filter>,
        #[command(flatten)]
        file: ExportFile,
    },
    /// What corrections make of each point: scale and bias as served, whether it is in a gate's set, and priors.
    Columns {
        /// A correction [default: all whose scores are weighted sums]; may be repeated.
        #[arg(long, value_name = "NAME")]
        correction: Vec<String>,
        #[command(flatten)]
        file: ExportFile,
    },
    /// Vectors whose inner product with a query, made longer as is told, is the corrected score: for any engine of
    /// inner products.
    Augmented {
        /// The correction, which may have one gate and no scores of its own kind.
        #[arg(long, value_name = "NAME")]
        correction: String,
        /// Fill dimensions up with zeros to a multiple of N.
        #[arg(long, value_name = "N")]
        pad: Option<NonZeroUsize>,
        #[command(flatten)]
        file: ExportFile,
    },
    /// Answers to queries as a run: .trec or .run as TREC has it, or a table of q_id, doc_id, rank and score.
    /// dehub measure reads TREC and Parquet.
    Run(Asked),
    /// The nearest points of each query: a matrix of row numbers of points, as export points counts them, with
    /// FILE.scores.… and the ids of the rows in FILE.ids.jsonl; or a table of ids, as for run.
    Neighbours(Asked),
}

/// Queries, and how they are answered.
#[derive(Debug, Args)]
pub(crate) struct Asked {
    /// A file of queries. Those without an id are called by their row, from 0.
    #[arg(long, value_name = "FILE")]
    pub queries: PathBuf,
    /// A .jsonl file with the ids of queries that are all vectors, line by line.
    #[arg(long, value_name = "FILE")]
    pub meta: Option<PathBuf>,
    /// How many points.
    #[arg(long, short, default_value_t = 10)]
    pub k: usize,
    /// Rank by this correction; none or raw means raw, and auto the default or else the correction of that name
    /// [default: the collection's default, or raw].
    #[arg(long, value_name = "NAME")]
    pub correction: Option<String>,
    /// A factor on the correction's bias: 1 as fitted, 0 raw.
    #[arg(long, default_value_t = 1.0, requires = "correction", allow_negative_numbers = true)]
    pub alpha: f32,
    /// Score every point.
    #[arg(long, conflicts_with_all = ["ef", "recall"])]
    pub exact: bool,
    /// Walk the graph with this effort.
    #[arg(long, value_name = "N", visible_alias = "effort", allow_negative_numbers = true)]
    pub ef: Option<usize>,
    /// Search in the way that costs least of those measured to find this share of the exact answer; 1 is exact
    /// [default: 0.99].
    #[arg(long, value_name = "SHARE", conflicts_with = "ef", allow_negative_numbers = true)]
    pub recall: Option<f64>,
    #[command(flatten)]
    pub file: ExportFile,
}

/// The file to write.
#[derive(Debug, Args)]
pub(crate) struct ExportFile {
    /// The file. It has its name once it is whole. - is standard output, for what is one file; it comes when all of it
    /// is made.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// How it is written: npy, fvecs, ivecs, bvecs, fbin, ibin, u8bin, i8bin, hdf5, parquet, arrow, jsonl or trec
    /// [default: by its ending].
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    /// Replace files that are there.
    #[arg(long)]
    pub force: bool,
}
