//! `dehub eval`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::{FusionArgs, VectorFile, weighted_field};

/// How often queries are drawn for an interval, unless it is said.
const ROUNDS: u32 = 1000;

/// What is evaluated and how. Results keep it, so that they can be made again.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
#[command(group(ArgGroup::new("source").required(true).args(["collection", "gallery", "similarities", "from"])))]
#[serde(deny_unknown_fields)]
pub(crate) struct Eval {
    /// The collection. Or give vectors by --gallery, or similarities by --similarities: nothing is stored.
    pub collection: Option<String>,
    /// The judged queries; their ids come from the file or from --meta. Without a collection and without ids they are
    /// row numbers, from 0.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["similarities", "from"])]
    #[arg(conflicts_with = "similarities")]
    pub queries: Option<PathBuf>,
    #[command(flatten)]
    pub format: VectorFile,
    /// The vectors of the points, if there is no collection.
    #[arg(long, value_name = "FILE")]
    pub gallery: Option<PathBuf>,
    /// A .jsonl file whose line i has the id and the text of point i, if there is no collection. Without it ids are
    /// row numbers, from 0.
    #[arg(long, value_name = "FILE", conflicts_with = "collection")]
    pub gallery_meta: Option<PathBuf>,
    /// How vectors are compared: cosine, dot or euclidean; or what similarities are, for methods that know
    /// distances.
    #[arg(long, default_value = "cosine", value_name = "METRIC", conflicts_with = "collection")]
    pub metric: String,
    /// A .npy matrix of similarities, queries × points, larger is better. It is read in blocks of at most 128 MiB.
    #[arg(long, value_name = "FILE")]
    pub similarities: Option<PathBuf>,
    /// A .npy matrix: the similarities of a bank of queries to the same points.
    #[arg(long, value_name = "FILE", requires = "similarities")]
    pub bank_similarities: Option<PathBuf>,
    /// A .npy matrix: the similarities of a bank of points, none of them in the gallery, to the same points.
    #[arg(long, value_name = "FILE", requires = "similarities")]
    pub gallery_bank_similarities: Option<PathBuf>,
    /// A .npy matrix: the similarities of a bank of points to the queries, for --both-directions.
    #[arg(long, value_name = "FILE", requires_all = ["similarities", "both_directions"])]
    pub reverse_bank_similarities: Option<PathBuf>,
    /// Judgements in TREC form: query, 0, point, relevance. Required for a collection; otherwise the default is
    /// that row i answers row i.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["gallery", "similarities", "from"])]
    pub qrels: Option<PathBuf>,
    /// Who answers what by row numbers, from 0, if there is no collection: a text of two numbers a line, query and
    /// point, or a .npy of two columns of floats.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["qrels", "collection"])]
    pub truth: Option<PathBuf>,
    /// An installed correction to measure beside raw [default: all, if no method is given]; may be repeated.
    #[arg(long, value_name = "NAME", requires = "collection")]
    pub correction: Vec<String>,
    /// A method to fit, measure and forget, or a grid of them: 'IS(beta=5|10|20)'; may be repeated.
    #[arg(long, short, value_name = "METHOD")]
    pub method: Vec<String>,
    /// The query bank: its name in a collection [default: the only one], or a file of vectors.
    #[arg(long, alias = "query-bank", value_name = "NAME|FILE", conflicts_with = "similarities")]
    pub bank: Option<String>,
    /// The gallery bank: its name in a collection [default: the only one], or a file of vectors. A point's own
    /// vector in it is left out of that point's statistics.
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "similarities")]
    pub gallery_bank: Option<String>,
    /// Measure points as queries for the queries too. The gallery bank is then the bank of queries.
    #[arg(long, conflicts_with = "collection")]
    pub both_directions: bool,
    /// Measure each method on parts of the query bank, each within the next: 100,300,all.
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "method")]
    pub bank_sizes: Vec<String>,
    /// How often parts are drawn; a mean and a standard deviation are told.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub draws: u32,
    /// What parts of the bank and the queries of intervals are drawn by.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How often queries are drawn for an interval.
    #[arg(long, default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub rounds: u32,
    /// Measure BM25 over the collection's text fields too, by the texts of the queries, and its fusion with raw and
    /// with each correction. Rankings by words have the points that have some; the others come after.
    #[arg(long, requires = "collection")]
    #[serde(default)]
    pub text: bool,
    /// A text field to look in, with the weight of its score [default: all, with weight 1]; may be repeated.
    #[arg(long, value_name = "NAME[=WEIGHT]", requires = "text", value_parser = weighted_field)]
    #[serde(default)]
    pub field: Vec<(String, f32)>,
    #[command(flatten)]
    #[serde(default)]
    pub fusing: FusionArgs,
    /// A measure: R@k, Success@k, MdR, MnR, RR@k, nDCG@k, AP, AUC or another of docs/measures.md
    /// [default: the usual ones]; may be repeated.
    #[arg(long, value_name = "MEASURE")]
    pub measure: Vec<String>,
    /// Put the values of each query in the results.
    #[arg(long)]
    pub by_query: bool,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub output: Option<PathBuf>,
    /// Write the results to this file as a page of HTML with plots, which needs nothing else.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
    /// Print the table of a paper: R@1, R@5, R@10, MdR and MnR unless others are named, with intervals.
    #[arg(long, value_name = "FORM", conflicts_with = "from")]
    pub table: Option<TableForm>,
    /// Make the results of a file again, as they were asked for, and tell whether every number is equal.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["queries", "meta", "qrels", "truth", "method", "correction", "bank", "measure"])]
    #[arg(conflicts_with_all = ["output", "report", "both_directions", "by_query", "draws", "seed", "rounds"])]
    #[arg(conflicts_with = "metric")]
    #[serde(skip)]
    pub from: Option<PathBuf>,
}

/// How the table of a paper is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TableForm {
    /// For a document in LaTeX, with the package booktabs.
    Latex,
    /// For Markdown.
    Markdown,
    /// For a terminal.
    Text,
}

impl Default for Eval {
    /// As the command line has it where nothing is said, but that there is nothing to measure.
    fn default() -> Eval {
        Eval {
            collection: None,
            queries: None,
            format: VectorFile::default(),
            gallery: None,
            gallery_meta: None,
            metric: "cosine".to_owned(),
            similarities: None,
            bank_similarities: None,
            gallery_bank_similarities: None,
            reverse_bank_similarities: None,
            qrels: None,
            truth: None,
            correction: Vec::new(),
            method: Vec::new(),
            bank: None,
            gallery_bank: None,
            both_directions: false,
            bank_sizes: Vec::new(),
            draws: 1,
            seed: 0,
            rounds: ROUNDS,
            text: false,
            field: Vec::new(),
            fusing: FusionArgs::default(),
            measure: Vec::new(),
            by_query: false,
            output: None,
            report: None,
            table: None,
            from: None,
        }
    }
}
