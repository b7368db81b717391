//! The command `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::VectorFile;
use crate::commands::search::timeout;

/// Measure recall beside speed, raw and corrected, or how a running server bears a load.
///
/// Without --url the collection is searched in this process: of raw and of each correction, by walks of several
/// efforts, as a search is planned for a recall, and exactly. Recall is the share of the exact answer of the same
/// ranking; a hit that scores as much as its last counts as one of them.
///
/// With --url a server is asked at a rate, whatever becomes of the queries before (an open loop), at times that are
/// fixed in advance. A latency counts from when the query was due, so a server that stalls is not excused by clients
/// that wait for it.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// The collection.
    pub collection: String,
    /// The queries.
    #[arg(long, value_name = "FILE")]
    pub queries: PathBuf,
    #[command(flatten)]
    pub format: VectorFile,
    /// How many answers each query wants.
    #[arg(long, short, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub k: u32,
    /// A correction to measure, beside raw [default: all]; with --url those named, `none` for raw [default: what the
    /// server ranks by]; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub correction: Vec<String>,
    /// Efforts of walks (ef) [default: 16,32,64,128,256,512, those that are at least k; with --url what the server
    /// plans].
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub effort: Vec<u32>,
    /// Shares of the exact answer to plan for [default: 0.99; with --url none].
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',')]
    pub recall: Vec<f64>,
    /// Queries that are asked before each setting is measured.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub warm_up: usize,
    #[command(flatten)]
    pub curves: Curves,
    #[command(flatten)]
    pub open_loop: OpenLoop,
}

/// What only curves have.
#[derive(Debug, Args)]
pub(crate) struct Curves {
    /// Candidates of scans of codes, to measure those too.
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "url",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub candidates: Vec<u32>,
    /// How many queries are asked at a time, each by one thread.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "url",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// How often all queries are asked of each setting. The speed is the median of the rounds.
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "url",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// Also build the graph of all points from nothing and tell how long that takes. It is built into a temporary
    /// file and thrown away.
    #[arg(long, conflicts_with = "url")]
    pub build: bool,
    /// Write results as ann-benchmarks does, one HDF5 file a setting: FOLDER/results/DATASET/K/ALGORITHM/SETTING.hdf5.
    #[arg(long, value_name = "FOLDER", conflicts_with = "url")]
    pub output: Option<PathBuf>,
    /// What these files call the data [default: the collection].
    #[arg(long, value_name = "NAME", requires = "output")]
    pub dataset_name: Option<String>,
}

/// When queries are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    /// At random times, as those of many clients that know nothing of each other.
    Poisson,
    /// At equal distances.
    Constant,
}

/// What only loads have.
#[derive(Debug, Args)]
pub(crate) struct OpenLoop {
    /// Ask this server, such as http://127.0.0.1:6363.
    #[arg(long, value_name = "URL", requires = "rate")]
    pub url: Option<String>,
    /// Queries a second; each rate given is measured for itself.
    #[arg(long, alias = "rates", value_name = "RATE,…", value_delimiter = ',', requires = "url")]
    pub rate: Vec<f64>,
    /// How long each load lasts.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = timeout, requires = "url")]
    pub seconds: Duration,
    /// When queries are due.
    #[arg(long, value_enum, default_value = "poisson", requires = "url")]
    pub arrivals: Arrivals,
    /// Decides the times of arrivals.
    #[arg(long, default_value_t = 0, requires = "url")]
    pub seed: u64,
    /// Connections at most. A query that is due while all wait for answers waits for one, and its latency tells.
    #[arg(long, value_name = "N", default_value_t = 64, requires = "url",
        value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub connections: u16,
    /// How long an answer may take, and how long after the end queries are still sent that were due.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = timeout, requires = "url")]
    pub patience: Duration,
    /// The key to ask with [default: the variable DEHUB_API_KEY, which others on this machine cannot read].
    #[arg(long, value_name = "KEY", requires = "url")]
    pub api_key: Option<String>,
}
