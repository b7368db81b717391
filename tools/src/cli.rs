//! The command line: every command, option and default.

mod bench;
mod eval;
mod export;
mod fusing;
mod measuring;
mod report;
mod serving;
mod texts;
mod training;
mod vectors;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use dehub_api::read_filter;
use dehub_backup::BackupId;
use dehub_index::{Durability, Quantization};
use dehub_query::Filter;

pub(crate) use self::bench::{Arrivals, Bench};
pub(crate) use self::eval::{Eval, TableForm};
pub(crate) use self::export::{Asked, Export, ExportFile, Exported};
pub(crate) use self::fusing::{FusionArgs, weighted_field};
pub(crate) use self::measuring::{MeasureArgs, TableName, TestName};
pub(crate) use self::report::Report;
pub(crate) use self::serving::{KeyArgs, KeyCommand, NewKey, Observe, Ping, Role, Serve};
pub(crate) use self::texts::TextArgs;
pub(crate) use self::training::{Adapt, Train};
pub(crate) use self::vectors::VectorFile;
pub(crate) use self::words::WordArgs;
use crate::commands::live::seconds;
use crate::commands::prior::{PriorArgs, weight};
use crate::commands::search::timeout;

/// The version, and whether this build checks itself, as that for tests does, which is slower.
const VERSION: &str = if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), " with debug assertions")
} else {
    env!("CARGO_PKG_VERSION")
};

/// Vector retrieval that corrects for hubs.
///
/// Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but some rows were refused.
#[derive(Debug, Parser)]
#[command(name = "dehub", version = VERSION, max_term_width = 100)]
pub(crate) struct Cli {
    /// Where collections live [default: dehub-data].
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// A settings file [default: dehub.toml, if there is one].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print one JSON object instead of text.
    #[arg(long, global = true)]
    pub json: bool,

    /// No progress on standard error.
    #[arg(long, short, global = true)]
    pub quiet: bool,

    /// In a collection with named vectors, the one that a command about banks, corrections, searches or the graph
    /// means.
    #[arg(long, global = true, value_name = "VECTOR")]
    pub using: Option<String>,

    #[command(subcommand)]
    pub command: Command,
}

impl Command {
    /// Whether it is about one vector of a collection.
    pub(crate) fn is_of_one_vector(&self) -> bool {
        match self {
            Command::Bank(_)
            | Command::Freeze(_)
            | Command::Rewrite(_)
            | Command::Fit(_)
            | Command::Search(_)
            | Command::Hubs(_)
            | Command::Eval(_)
            | Command::Export(_)
            | Command::Bench(_)
            | Command::Tune(_)
            | Command::Default(_)
            | Command::Live(_)
            | Command::Drift(_) => true,
            Command::Delete(delete) => delete.correction.is_some(),
            Command::Create(_)
            | Command::Durability(_)
            | Command::Import(_)
            | Command::Prior(_)
            | Command::Text(_)
            | Command::Quarantine(_)
            | Command::Info(_)
            | Command::Verify(_)
            | Command::Compact(_)
            | Command::Backup(_)
            | Command::Restore(_)
            | Command::Serve(_)
            | Command::Report(_)
            | Command::Openapi
            | Command::Measure(_)
            | Command::Train(_)
            | Command::Adapt(_)
            | Command::Ping(_)
            | Command::Key(_)
            | Command::Demo(_) => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a collection.
    Create(Create),
    /// Show or change what an acknowledged write survives.
    Durability(DurabilityArgs),
    /// Add points from a file of vectors.
    Import(Import),
    /// Write points, columns of corrections, or answers to files.
    Export(Export),
    /// Add reference vectors to a bank, remove or weaken them, or drop the bank.
    Bank(Bank),
    /// Give points a value of a prior, a column that a search can add to scores, or show the prior.
    Prior(PriorArgs),
    /// Say by which texts points are found by words, and how these are analysed; or show it.
    Text(TextArgs),
    /// Freeze all points to one segment of the graph, and change how it keeps vectors.
    Freeze(Freeze),
    /// Copy a cosine collection with its points moved away from what crowds around them in two banks.
    Rewrite(Rewrite),
    /// Fit hubness corrections from a bank. They serve only those who ask for them, but for the default.
    Fit(Fit),
    /// Learn an adapter of queries from judged queries, in files.
    Train(Train),
    /// Move the queries of a file by an adapter.
    Adapt(Adapt),
    /// Find the points nearest to a vector.
    Search(Search),
    /// Show which points are hubs, and what corrections do about it.
    Hubs(Hubs),
    /// Measure raw and corrected retrieval against judgements.
    Eval(Box<Eval>),
    /// Draw the results of an evaluation as one HTML page.
    Report(Report),
    /// Measure recall beside speed, raw and corrected, or how a running server bears a load.
    Bench(Bench),
    /// Measure runs, which are files of answers, against judgements and each other, without any collection.
    Measure(MeasureArgs),
    /// Choose a correction, or none, by what each does to recent or judged queries.
    Tune(Tune),
    /// Show, set or clear the correction that ranks queries which name none.
    Default(Default),
    /// Hold new points that look like hubs, and release or drop them.
    Quarantine(Quarantine),
    /// Show, set or end the policy by which a server keeps a sample of the queries it serves.
    Live(Live),
    /// Tell whether queries are still like a bank.
    Drift(Drift),
    /// Show the collections, or one of them.
    Info(Info),
    /// Check that a collection is whole: records, statistics and graph against what they are derived from.
    Verify(Verify),
    /// Give back what deleted and replaced data takes on disk.
    Compact(Compact),
    /// Delete points, a correction, or a whole collection.
    Delete(Delete),
    /// Store collections in a directory or an object store, and look after what is there.
    Backup(Backup),
    /// Fetch a collection from its backups.
    Restore(Restore),
    /// Serve the collections over HTTP.
    Serve(Serve),
    /// Ask the server of the settings whether it lives.
    Ping(Ping),
    /// Print the OpenAPI document of the HTTP interface.
    Openapi,
    /// Make API keys.
    Key(KeyArgs),
    /// Show the whole road on the bundled WordNet data.
    Demo(Demo),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its name.
    pub collection: String,
    /// Dimensions of every vector.
    #[arg(long, required_unless_present = "vector")]
    pub dim: Option<usize>,
    /// A vector that points have under this name, of so many dimensions, compared as --metric says or by a metric of
    /// its own, of which they have several if it ends in `,multi`; again for each. Points have some, all or none of
    /// them.
    #[arg(long, value_name = "NAME=DIM[,METRIC][,multi]", conflicts_with = "dim")]
    pub vector: Vec<String>,
    /// Points have several vectors each, as late interaction gives them, which are compared by MaxSim.
    #[arg(long, requires = "dim")]
    pub multi: bool,
    /// How vectors are compared: cosine, dot (ip) or euclidean (l2).
    #[arg(long, default_value = "cosine")]
    pub metric: String,
    /// Neighbours of a node of the graph.
    #[arg(long, default_value_t = 16)]
    pub m: usize,
    /// Candidates kept while a node is linked.
    #[arg(long, default_value_t = 200)]
    pub ef_construction: usize,
    /// Kilobytes of vectors below which the collection has no graph and is scanned exactly.
    #[arg(long, default_value_t = 10_000)]
    pub full_scan_threshold: usize,
    /// How the graph keeps vectors: f32, bf16, int8, or reduced (int8 of a projection on fewer dimensions).
    /// Answers are scored by the vectors themselves under each.
    #[arg(long, value_name = "KIND", default_value_t = Quantization::DEFAULT)]
    pub quantization: Quantization,
    /// What an acknowledged write survives: strict, a power cut; relaxed, the death of the process, and a power cut
    /// but for about the last second.
    #[arg(long, value_name = "KIND", default_value_t = Durability::Strict)]
    pub durability: Durability,
}

#[derive(Debug, Args)]
pub(crate) struct DurabilityArgs {
    /// The collection.
    pub collection: String,
    /// strict: a power cut; relaxed: the death of the process, and a power cut but for about the last second
    /// [default: show which].
    pub durability: Option<Durability>,
}

#[derive(Debug, Args)]
pub(crate) struct Freeze {
    /// The collection.
    pub collection: String,
    /// How the graph is to keep vectors from now on: f32, bf16, int8 or reduced [default: as before].
    #[arg(long, value_name = "KIND")]
    pub quantization: Option<Quantization>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The collection.
    pub collection: String,
    /// The file; - is standard input. Rows without ids get their row number, counted from 0.
    pub file: PathBuf,
    #[command(flatten)]
    pub format: VectorFile,
    /// Store the good rows when some have a vector that is not finite or zero, or an id that an earlier row has; list
    /// those and exit with 3. A file that is broken, or whose vectors differ in length, is refused all the same.
    #[arg(long)]
    pub skip_bad: bool,
    /// Tell which of the new points are hubs by this correction's biases.
    #[arg(long, value_name = "CORRECTION", conflicts_with = "dry_run")]
    pub alarm: Option<String>,
    /// The share of false alarms to allow among all alarms.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, requires = "alarm")]
    pub alarm_rate: f64,
    /// Check the file against the collection and store nothing.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
    /// What users ask.
    Query,
    /// What is asked for.
    Gallery,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub(crate) struct Bank {
    /// The collection.
    pub collection: String,
    /// The bank.
    pub bank: String,
    /// A file of reference vectors to add.
    #[arg(group = "what")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub format: VectorFile,
    /// What the vectors stand for.
    #[arg(long, value_enum, default_value = "query")]
    pub kind: Kind,
    /// The field or column of the weights: how many entries each vector counts as [default: 1].
    #[arg(long, value_name = "NAME", requires = "file")]
    pub weight_field: Option<String>,
    /// Store the entries now, and let corrections take them in later, with --absorb or the next fit from the bank.
    #[arg(long, requires = "file")]
    pub defer: bool,
    /// Let corrections take in the entries that were stored with --defer.
    #[arg(long, group = "what")]
    pub absorb: bool,
    /// Make a gallery bank of all points there are now; each point is left out of its own statistics.
    #[arg(long, group = "what")]
    pub from_gallery: bool,
    /// Remove the entry with this id; may be repeated. It leaves no trace in any correction, but for SN and
    /// DBSN, whose balance goes on from where it was.
    #[arg(long, value_name = "ID", group = "what", allow_hyphen_values = true)]
    pub remove: Vec<String>,
    /// Multiply the weight of every entry by this, above 0 and at most 1: the bank forgets.
    #[arg(long, value_name = "FACTOR", group = "what")]
    pub decay: Option<f32>,
    /// With --decay, remove entries whose weight falls below this.
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0, requires = "decay")]
    pub drop_below: f32,
    /// Drop the bank.
    #[arg(long, group = "what")]
    pub drop: bool,
    /// Leave out copies of earlier entries, of the bank or of the file; with a number, also vectors whose
    /// cosine to one is at least that.
    #[arg(
        long,
        value_name = "COSINE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "copies",
        requires = "file"
    )]
    pub dedupe: Option<String>,
    #[command(flatten)]
    pub compress: Compress,
}

/// How a bank is made smaller.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum By {
    /// Centroids, each with the weight of its members.
    Kmeans,
    /// Entries chosen by the biases they give, with equal weights.
    Herding,
}

#[derive(Debug, Args)]
pub(crate) struct Compress {
    /// Make the bank of fewer entries that stand for those of this query bank, and report how far that moves
    /// the biases.
    #[arg(long, value_name = "BANK", group = "what", requires = "to")]
    pub compress_from: Option<String>,
    /// How many entries are left.
    #[arg(long, value_name = "N", requires = "compress_from")]
    pub to: Option<usize>,
    /// How they are found.
    #[arg(long, value_enum, default_value = "kmeans", requires = "compress_from")]
    pub by: By,
    /// The inverse temperature of the biases that are compared.
    #[arg(long, default_value_t = 20.0, requires = "compress_from")]
    pub beta: f64,
    /// Decides the draws of k-means.
    #[arg(long, default_value_t = 0, requires = "compress_from")]
    pub seed: u64,
    /// Report and store nothing.
    #[arg(long, requires = "compress_from")]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Rewrite {
    /// The collection to copy.
    pub collection: String,
    /// The collection to make, with the same ids, texts, payloads and banks. Queries stay as they are, and the
    /// entries of gallery banks move as points do. Points added later are not rewritten.
    pub target: String,
    /// "InvGC(rg=1,rq=1)" or "LocalAdj(rg=0.1,rq=0.1,pool=0.01)"; rg is how far by the gallery bank, rq by the
    /// query bank.
    #[arg(long, short, value_name = "METHOD")]
    pub method: String,
    /// The query bank [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub bank: Option<String>,
    /// The gallery bank [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub gallery_bank: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Fit {
    /// The collection.
    pub collection: String,
    /// A method with its parameters, such as "IS(beta=20)"; may be repeated. In place of beta, b1 or tau,
    /// perplexity takes the number of bank entries that a point's bias is to rest on. Methods: IS, DIS, CSLS, NNN,
    /// DualIS, DualDIS, DN, Centring, LocalCentring, LS, NICDM, ZScore, MP, DisSimLocal, SN, DBSN, which also take
    /// floor and shrink; and GC, RatioMargin, MP2, DualSoftmax, whose scores have no bias. "auto" chooses one by
    /// --queries, as tune does, among IS, NNN and CSLS with a floor.
    #[arg(long, short, required_unless_present = "discard", value_name = "METHOD")]
    pub method: Vec<String>,
    /// Drop what interrupted fits have kept to go on from, and fit nothing.
    #[arg(long, conflicts_with = "method")]
    pub discard: bool,
    /// The query bank [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub bank: Option<String>,
    /// The gallery bank, for the methods that use one [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub gallery_bank: Option<String>,
    /// The correction's name, when one method is given [default: the method].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Make the correction the default, if it passes the veto: --queries decide, as with tune.
    #[arg(long)]
    pub default: bool,
    /// With auto, fit the best method even if the choice is none; with --default, pass over the veto.
    #[arg(long)]
    pub force: bool,
    /// Unlabelled queries to show the change on [default: the bank's own], and for auto and --default to
    /// decide by.
    #[arg(long, value_name = "FILE")]
    pub queries: Option<PathBuf>,
    #[command(flatten)]
    pub format: VectorFile,
    #[command(flatten)]
    pub trial: Trial,
}

/// How a choice by queries is made.
#[derive(Debug, Args)]
pub(crate) struct Trial {
    /// Judgements in TREC form: query, 0, point, relevance. Without them hubness decides.
    #[arg(long, value_name = "FILE", requires = "queries")]
    pub qrels: Option<PathBuf>,
    /// Decides the draws of the resampling.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Rounds of resampling.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub rounds: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Default {
    /// The collection.
    pub collection: String,
    /// The correction to make the default; without it the present default is shown.
    pub correction: Option<String>,
    /// Queries as users ask them, none of them in the bank: the correction becomes the default only if it
    /// does them good.
    #[arg(long, value_name = "FILE", requires = "correction")]
    pub queries: Option<PathBuf>,
    #[command(flatten)]
    pub format: VectorFile,
    #[command(flatten)]
    pub trial: Trial,
    /// Make it the default against the verdict, or without one. The default is shown as forced.
    #[arg(long, requires = "correction")]
    pub force: bool,
    /// Rank queries that name no correction by raw similarity again.
    #[arg(long, conflicts_with_all = ["correction", "queries", "force"])]
    pub clear: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Quarantine {
    /// The collection.
    pub collection: String,
    /// What to do [default: list].
    #[command(subcommand)]
    pub action: Option<QuarantineAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineAction {
    /// List the points in quarantine, and the rule.
    List,
    /// Test every new point from now on.
    On {
        /// The correction by whose biases hubs are told.
        correction: String,
        /// The share of false alarms to allow among all alarms of a write.
        #[arg(long, default_value_t = 0.01)]
        rate: f64,
    },
    /// Test no more; what is held stays so.
    Off,
    /// Make points ordinary ones.
    Release {
        /// Their ids. Digits mean a number; ids that start with - come after --.
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Drop points for good.
    Drop {
        /// Their ids. Digits mean a number; ids that start with - come after --.
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("source"))]
pub(crate) struct Search {
    /// The collection.
    pub collection: String,
    /// The query as a JSON array of numbers.
    #[arg(long, value_name = "JSON", group = "source")]
    pub vector: Option<String>,
    /// The id of a stored point, which is left out of the answer.
    #[arg(long, group = "source", allow_hyphen_values = true)]
    pub id: Option<String>,
    /// A file of queries; see --row.
    #[arg(long, value_name = "FILE", group = "source")]
    pub queries: Option<PathBuf>,
    /// The row of the file, counted from 0.
    #[arg(long, default_value_t = 0, requires = "queries")]
    pub row: u64,
    #[command(flatten)]
    pub words: WordArgs,
    /// How many points [default: 10].
    #[arg(long, short, visible_alias = "limit")]
    pub k: Option<usize>,
    /// Rank by this correction; none or raw means raw, and auto the default or else the correction of that name
    /// [default: the collection's default, or raw].
    #[arg(long, value_name = "NAME")]
    pub correction: Option<String>,
    /// A factor on the correction's bias: 1 as fitted, 0 raw.
    #[arg(
        long,
        alias = "weight",
        default_value_t = 1.0,
        requires = "correction",
        allow_negative_numbers = true
    )]
    pub alpha: f32,
    /// Add a prior, by its weight, to every score; may be repeated.
    #[arg(long, value_name = "NAME=WEIGHT", value_parser = weight)]
    pub prior: Vec<(String, f32)>,
    /// Score every point.
    #[arg(long, conflicts_with = "ef")]
    pub exact: bool,
    /// Walk the graph with this effort.
    #[arg(long, value_name = "N", visible_alias = "effort", allow_negative_numbers = true)]
    pub ef: Option<usize>,
    /// Search in the way that costs least of those measured to find this share of the exact answer; 1 is exact
    /// [default: 0.99].
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["ef", "exact"], allow_negative_numbers = true)]
    pub recall: Option<f64>,
    /// Scan the 8-bit codes of all points, and score so many of the best in full.
    #[arg(long, value_name = "N", conflicts_with_all = ["ef", "exact", "recall"], allow_negative_numbers = true)]
    pub candidates: Option<usize>,
    /// Answer with points only that pass this filter, such as 'lang = "en" AND year >= 2020' (docs/filters.md), or
    /// Qdrant's as JSON.
    #[arg(long, value_name = "FILTER", value_parser = read_filter)]
    pub filter: Option<Filter>,
    /// Answer with these points only: a file with one id a line, or - for standard input. Ids that no point
    /// has match nothing.
    #[arg(long, value_name = "FILE")]
    pub only_ids: Option<PathBuf>,
    /// Answer with none of these points: a file as for --only-ids.
    #[arg(long, value_name = "FILE")]
    pub without_ids: Option<PathBuf>,
    /// Fail if the answer is not there after this many seconds, such as 0.5.
    #[arg(long, value_name = "SECONDS", value_parser = timeout, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
    /// Show the raw answer beside the corrected one, each point's bias, and the plan.
    #[arg(long)]
    pub explain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Hubs {
    /// The collection.
    pub collection: String,
    /// Unlabelled queries to count on.
    #[arg(long, value_name = "FILE", conflicts_with = "bank")]
    pub queries: Option<PathBuf>,
    /// A bank to count on [default: the first query bank].
    #[arg(long, value_name = "NAME")]
    pub bank: Option<String>,
    /// A correction to show beside raw [default: all]; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub correction: Vec<String>,
    /// How many answers of each query count.
    #[arg(long, short, default_value_t = 10)]
    pub k: usize,
    /// How many hubs to list.
    #[arg(long, default_value_t = 10)]
    pub top: usize,
    /// Show instead what makes this point a hub: its biases and the bank entries nearest to it.
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub explain: Option<String>,
    /// Show instead how many queries one point reaches at a score, and how many IS and NNN(alpha=1) let it,
    /// for the --correction named. Over the bank it is fitted from, the default, the cap is a law.
    #[arg(long, conflicts_with_all = ["explain", "sources"])]
    pub exposure: bool,
    /// Show instead what each source of the bank does to the biases of the --correction named: entries are
    /// of one source if their ids are equal up to SEP. With --explain, its share in that point's bias too.
    #[arg(long, value_name = "SEP", conflicts_with_all = ["queries", "bank"])]
    pub sources: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// The collection.
    pub collection: String,
    /// The query bank to fit from [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub bank: Option<String>,
    /// The gallery bank, for methods that use one [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub gallery_bank: Option<String>,
    /// Queries as users ask them, none of them in the bank. With --qrels their ids come from the file or
    /// from --meta.
    #[arg(long, value_name = "FILE")]
    pub queries: Option<PathBuf>,
    #[command(flatten)]
    pub format: VectorFile,
    /// Choose by the bank itself: judgements in TREC form whose queries are ids of bank entries. Each fifth
    /// of them is asked of corrections that are fitted without it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["queries", "qrels"])]
    pub pairs: Option<PathBuf>,
    #[command(flatten)]
    pub trial: Trial,
    /// A method to choose from, with its parameters [default: IS, NNN and CSLS over a grid, and IS at the
    /// scale of the scores]; may be repeated.
    #[arg(long, short, value_name = "METHOD")]
    pub method: Vec<String>,
    /// Fit the choice under this name, if there is one. It serves those who ask for it.
    #[arg(long, value_name = "NAME")]
    pub install: Option<String>,
    /// Fit the best correction even if the choice is none.
    #[arg(long, requires = "install")]
    pub force: bool,
    /// Make what is installed the default of the collection.
    #[arg(long, requires = "install")]
    pub default: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Live {
    /// The collection.
    pub collection: String,
    /// The query bank to keep queries in, made if it does not exist. Kept are a query's vector and the time it
    /// was asked at; not its text, and nothing of who asked. Without a policy nothing is kept.
    #[arg(long, value_name = "NAME")]
    pub bank: Option<String>,
    /// The share of the queries to look at.
    #[arg(long, default_value_t = 0.1, requires = "bank")]
    pub rate: f64,
    /// Queries to keep at most.
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "bank")]
    pub capacity: usize,
    /// How long to keep a query: 7d, 12h, 30m or 90s.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = seconds, requires = "bank")]
    pub retention: u64,
    /// Queries to keep of one client at most, told by its address.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "bank")]
    pub per_client: usize,
    /// Keep no more. What the bank has stays.
    #[arg(long, conflicts_with = "bank")]
    pub off: bool,
}

#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("compared").required(true))]
pub(crate) struct Drift {
    /// The collection.
    pub collection: String,
    /// The bank that corrections were fitted from.
    #[arg(long, value_name = "NAME")]
    pub bank: String,
    /// Recent queries.
    #[arg(long, value_name = "FILE", group = "compared")]
    pub queries: Option<PathBuf>,
    /// A bank of recent queries, such as a live bank.
    #[arg(long, value_name = "NAME", group = "compared")]
    pub against: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Info {
    /// The collection [default: all of them, in a line each].
    pub collection: Option<String>,
}

/// Ends with 0 if all is whole, and with 1 if differences remain.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The collection.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub collection: Option<String>,
    /// All collections.
    #[arg(long)]
    pub all: bool,
    /// Derive again what differs and can be derived (graph, statistics, gates, calibration), drop what interrupted
    /// writes left, and verify again.
    #[arg(long)]
    pub rebuild: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// The collection.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub collection: Option<String>,
    /// All collections.
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The collection.
    pub collection: String,
    /// Delete only this point; may be repeated. Digits mean a number.
    #[arg(long, conflicts_with = "correction")]
    pub id: Vec<String>,
    /// Delete only the points that pass this filter, as for search.
    #[arg(long, value_name = "FILTER", conflicts_with_all = ["correction", "id"], value_parser = read_filter)]
    pub filter: Option<Filter>,
    /// Delete only this correction.
    #[arg(long, value_name = "NAME")]
    pub correction: Option<String>,
}

/// Store collections in a directory or an object store, and look after what is there.
///
/// A backup is the whole collection as of one moment; other commands and writes need not wait for it. What an
/// earlier backup has is not stored again.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true, group = ArgGroup::new("action"))]
pub(crate) struct Backup {
    /// The collection.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub collection: Option<String>,
    /// A directory, or a URL: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX, with credentials
    /// from the variables AWS_…, GOOGLE_… or AZURE_….
    #[arg(required = true)]
    pub repository: String,
    /// Back up every collection of the data directory.
    #[arg(long, conflicts_with = "action")]
    pub all: bool,
    /// Share files with the collection by hard links where the directory is on the same file system: no time and no
    /// space, but damage to the one is damage to the other. Without it every file is copied.
    #[arg(long, conflicts_with = "action")]
    pub link: bool,
    /// Afterwards remove all backups of the collection but the newest N, and leftovers of interrupted ones.
    #[arg(long, value_name = "N", conflicts_with = "action", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: Option<u64>,
    /// Make no backup; list those there are.
    #[arg(long, group = "action")]
    pub list: bool,
    /// Make no backup; read one, the newest if none is named, and compare every byte with what was stored.
    #[arg(long, value_name = "ID", group = "action", num_args = 0..=1)]
    pub check: Option<Option<BackupId>>,
    /// Make no backup; remove this one, and what no other needs.
    #[arg(long, value_name = "ID", group = "action")]
    pub remove: Option<BackupId>,
}

/// Fetch a collection from its backups.
///
/// Every byte is compared with what was stored, and the collection is opened before it takes its place. If
/// anything is wrong, the collections stay as they are.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The collection, as it was called when it was backed up.
    pub collection: String,
    /// Where its backups are: a directory or a URL, as for backup.
    pub repository: String,
    /// Which one [default: the newest].
    #[arg(long, value_name = "ID")]
    pub backup: Option<BackupId>,
    /// Call the restored collection so [default: as it was called].
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// Put it in the place of the collection of that name, which is lost.
    #[arg(long)]
    pub replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The folder with the demonstration's data.
    #[arg(long, value_name = "DIR", default_value = "testdata/wordnet")]
    pub from: PathBuf,
    /// Use only the first N rows of the gallery: 950 leaves out the hubs that were added to it.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}
