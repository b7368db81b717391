//! `dehub report`.

use std::path::PathBuf;

use clap::Args;

/// Which results are drawn.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The results, as `dehub eval --output FILE` writes them.
    pub results: PathBuf,
    /// Recall and speed, as `dehub bench COLLECTION … --json` prints them.
    #[arg(long, value_name = "FILE")]
    pub bench: Option<PathBuf>,
    /// The page to write.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}
