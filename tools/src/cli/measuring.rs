//! The options of `dehub measure`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("truths").args(["qrels", "truth", "hubness"]).required(true).multiple(true)))]
pub(crate) struct MeasureArgs {
    /// A run: a file of scored documents a query, as TREC, MS MARCO, BEIR or ranx (JSON, Parquet) write it. Again for
    /// each run to compare; the first is the baseline of the others.
    #[arg(long, value_name = "FILE", required = true)]
    pub run: Vec<PathBuf>,
    /// Judgements, as TREC, MS MARCO, BEIR or ranx write them.
    #[arg(long, value_name = "FILE")]
    pub qrels: Option<PathBuf>,
    /// Instead of judgements: a run that an exact search made, for ann_recall@k.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["qrels", "table"])]
    pub truth: Option<PathBuf>,
    /// A measure in ir-measures' names, such as nDCG@10, AP(rel=2) or RR@10; docs/measures.md lists them. May be
    /// repeated (by default R@1 R@5 R@10 MdR RR@10 nDCG@10 AUC; with --truth ann_recall@1 and @10).
    #[arg(long, short, value_name = "MEASURE")]
    pub measure: Vec<String>,
    /// Another table: cross-modal has R@k as its papers mean it (Success@k), MdR, MnR and their sum, in both
    /// directions.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["measure", "by_query", "bounds", "test"])]
    pub table: Option<TableName>,
    /// For --table cross-modal: the run of the other direction, in the order of --run [default: the same scores the
    /// other way round, if every query lists every document].
    #[arg(long, value_name = "FILE", requires = "table")]
    pub reverse: Vec<PathBuf>,
    /// Test each run against the first, and show intervals of 95 %. Probabilities are corrected after Holm.
    #[arg(long, value_name = "NAME")]
    pub test: Option<TestName>,
    /// Rounds of --test.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = rounds)]
    pub rounds: NonZeroU32,
    /// What the draws of --test depend on.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Show every query's values too.
    #[arg(long)]
    pub by_query: bool,
    /// Fail if runs, judgements and gallery do not have the same queries and ids.
    #[arg(long)]
    pub strict: bool,
    /// Leave out of each list the document that has the id of the query, and its judgement.
    #[arg(long)]
    pub exclude_self: bool,
    /// Show the worst and the best value that another order of equal scores would give.
    #[arg(long)]
    pub bounds: bool,
    /// Show the ROC curve over the documents of all queries together, and the area under it. The curve itself is in
    /// --json.
    #[arg(long)]
    pub roc: bool,
    /// Show how unevenly documents occur among the first 1, 5 and 10 of all lists. Needs no judgements.
    #[arg(long)]
    pub hubness: bool,
    /// The ids of all documents that could be listed, one a line.
    #[arg(long, value_name = "FILE")]
    pub gallery_ids: Option<PathBuf>,
    /// How many documents could be listed.
    #[arg(long, value_name = "N", conflicts_with = "gallery_ids", value_parser = clap::value_parser!(u32).range(1..))]
    pub gallery_size: Option<u32>,
}

/// The most rounds: the values of all are held to be sorted, in 80 MB.
const ROUNDS_MAX: u32 = 10_000_000;

fn rounds(text: &str) -> Result<NonZeroU32, String> {
    let rounds = text.parse::<NonZeroU32>().ok().filter(|rounds| rounds.get() <= ROUNDS_MAX);
    rounds.ok_or_else(|| format!("wanted 1 to {ROUNDS_MAX}"))
}

/// A table with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// That of papers on cross-modal retrieval.
    CrossModal,
}

/// A test of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestName {
    /// Queries drawn with replacement.
    Bootstrap,
    /// The two values of each query swapped or not.
    Randomisation,
}
