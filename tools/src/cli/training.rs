//! The options of `dehub train` and `dehub adapt`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dehub_rerank::{Goal, Loss, Negatives};

use super::VectorFile;

#[derive(Debug, Args)]
pub(crate) struct Train {
    /// The training queries; their ids come from the file or from --meta, without either they are row numbers, from 0.
    #[arg(long, value_name = "FILE")]
    pub queries: PathBuf,
    #[command(flatten)]
    pub format: VectorFile,
    /// The points that answer them.
    #[arg(long, value_name = "FILE")]
    pub gallery: PathBuf,
    /// A .jsonl file whose line i has the id of point i. Without it ids are those of the file, or row numbers, from 0.
    #[arg(long, value_name = "FILE")]
    pub gallery_meta: Option<PathBuf>,
    /// Judgements in TREC form: query, 0, point, relevance; above 0 is an answer.
    #[arg(long, value_name = "FILE")]
    pub qrels: PathBuf,
    /// The folder of the model, and its name before .safetensors and .json.
    #[arg(long, short, value_name = "FOLDER/NAME")]
    pub output: PathBuf,
    /// The loss: mw, infonce, decoupled, soft_topk, psl, sl_at_k, soft_infonce, pick_some_label or pairwise, with
    /// parameters (`infonce:temperature=0.05,both_ways=true`), or a sum of such (`0.5*mw + infonce`).
    #[arg(long, default_value = "0.5*mw + infonce:both_ways=true", value_name = "LOSS")]
    pub loss: Loss,
    /// Units of the hidden layer.
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub hidden: usize,
    /// Passes over the queries, at most.
    #[arg(long, default_value_t = 12, value_name = "N")]
    pub epochs: u32,
    /// Queries of a step.
    #[arg(long, default_value_t = 512, value_name = "N")]
    pub batch: usize,
    /// The length of AdamW's steps.
    #[arg(long, default_value_t = 1e-3, value_name = "RATE")]
    pub rate: f64,
    /// AdamW's weight decay.
    #[arg(long, default_value_t = 1e-2, value_name = "DECAY")]
    pub decay: f64,
    /// What answers are compared with, beside each other's: in-batch, random:N for N random points a query, or
    /// mined:N,DEPTH,EPOCHS for N of the DEPTH points that each query finds first, searched anew every so many epochs.
    #[arg(long, default_value = "in-batch", value_name = "KIND", value_parser = negatives)]
    pub negatives: Negatives,
    /// What the best epoch is chosen by, on the queries that are held out.
    #[arg(long, default_value = "ndcg", value_name = "NAME")]
    pub goal: GoalName,
    /// The share of queries that are held out.
    #[arg(long, default_value_t = 0.1, value_name = "SHARE")]
    pub held_out: f64,
    /// Epochs without a better one after which training ends.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub patience: u32,
    /// How much of what the adapter adds may be added; the best is taken.
    #[arg(long, default_value = "0,0.25,0.5,0.75,1", value_delimiter = ',', value_name = "MIX,…")]
    pub mixes: Vec<f32>,
    /// Of all draws. Equal seeds give equal models.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// The least by which the goal must rise on the queries held out for the model to be written.
    #[arg(long, default_value_t = 0.0, value_name = "RISE")]
    pub margin: f64,
    /// Write the model whether it is better or not, and over one that is there.
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Adapt {
    /// The model, as `dehub train --output` names it.
    #[arg(value_name = "FOLDER/NAME")]
    pub model: PathBuf,
    /// Queries: those that are asked, and those of banks that corrections are fitted from.
    pub file: PathBuf,
    #[command(flatten)]
    pub format: VectorFile,
    /// The file to write, of one matrix: .npy, .fvecs, .fbin or .hdf5. Rows are in the order of the file.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace a file that is there.
    #[arg(long)]
    pub force: bool,
}

/// A goal on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GoalName {
    /// nDCG@10.
    Ndcg,
    /// R@1.
    First,
    /// One AUC over the scores of all queries.
    PooledAuc,
}

impl GoalName {
    pub(crate) fn goal(self) -> Goal {
        match self {
            GoalName::Ndcg => Goal::Ndcg,
            GoalName::First => Goal::First,
            GoalName::PooledAuc => Goal::PooledAuc,
        }
    }
}

fn negatives(text: &str) -> Result<Negatives, String> {
    let wrong = || {
        format!(
            "found {text:?}, wanted in-batch, random:N or mined:N,DEPTH,EPOCHS, with numbers from 1 to 1,000"
        )
    };
    let (kind, numbers) = text.split_once(':').unwrap_or((text, ""));
    let number =
        |text: &str| text.trim().parse::<u32>().ok().filter(|n| (1..=1000).contains(n)).ok_or_else(wrong);
    let numbers: Vec<u32> =
        numbers.split(',').filter(|part| !part.is_empty()).map(number).collect::<Result<_, _>>()?;
    match (kind, &numbers[..]) {
        ("in-batch", []) => Ok(Negatives::InBatch),
        ("random", &[each]) => Ok(Negatives::Random { each: each as usize }),
        ("mined", &[each, depth, every]) => {
            Ok(Negatives::Mined { each: each as usize, depth: depth as usize, every })
        }
        _ => Err(wrong()),
    }
}
