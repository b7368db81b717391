//! `dehub train`: an adapter of queries, from vectors and judgements in files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use dehub_api::when_interrupted;
use dehub_eval::{Comparison, Measure, Resampling, Test};
use dehub_rerank::{
    AdamSettings, Card, Dataset, ExactMiner, Goal, Measured, Round, Settings, Trained, files, save,
    train_adapter,
};
use dehub_vector::Metric;
use serde_json::{Value, json};

use super::eval::files::{Names, Vectors, hash, vectors};
use super::{Context, Outcome};
use crate::cli::{Train, VectorFile};
use crate::load;
use crate::output::table;

/// Trains, compares, and writes the model if it is better.
pub(crate) fn run(context: &Context, command: &Train) -> anyhow::Result<Outcome> {
    let (folder, name) = place(&command.output)?;
    let [weights, card] = files(folder, name);
    if let Some(file) = [&weights, &card].into_iter().find(|file| file.exists() && !command.force) {
        bail!("{}: the file is there; --force replaces it", file.display());
    }
    let dataset = dataset(command)?;
    let settings = settings(command);
    let trained = train(context, &dataset, &settings)?;
    let compared = compare(&trained);
    let rise = settings.goal.of(&trained.after) - settings.goal.of(&trained.before);
    let is_better =
        rise > command.margin && !(settings.goal != Goal::PooledAuc && is_doubtful(&compared, settings.goal));
    let written = is_better || command.force;
    if written {
        let card = card_of(command, &trained)?;
        save(&trained.adapter, &card, folder, name)?;
    }
    let value = to_json(&trained, &compared, &weights, written);
    context.output.result(&value, || describe(&trained, &compared, &weights, written, command.margin))?;
    if written {
        return Ok(Outcome::Done);
    }
    bail!(
        "the model is not better by more than {} beyond doubt, and was not written; --force writes it",
        command.margin
    )
}

/// The folder and the name of a model.
pub(super) fn place(model: &Path) -> anyhow::Result<(&Path, &str)> {
    let name = model.file_name().and_then(|name| name.to_str());
    let name = name
        .filter(|name| !name.is_empty())
        .with_context(|| format!("{}: wanted FOLDER/NAME", model.display()))?;
    let folder = model.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok((folder.unwrap_or_else(|| Path::new(".")), name))
}

fn dataset(command: &Train) -> anyhow::Result<Dataset> {
    let named = |file: &Path, format: &VectorFile, dim| -> anyhow::Result<Vectors> {
        let mut read = vectors(file, format, Metric::Cosine, dim)?;
        if format.meta.is_some() {
            read.names = Names::read(format, file, read.rows.len())?;
        }
        Ok(read)
    };
    let points = VectorFile { meta: command.gallery_meta.clone(), ..VectorFile::default() };
    let points = named(&command.gallery, &points, None)?;
    let dim = points.rows.width();
    let queries = named(&command.queries, &command.format, Some(dim))?;
    let qrels = load::qrels(&command.qrels)?;
    let row_of: HashMap<&str, u32> = points.names.ids.iter().map(String::as_str).zip(0..).collect();
    let answers = |query: &String| -> Vec<u32> {
        let relevant = if qrels.contains(query) { qrels.relevant(query) } else { &[] };
        relevant.iter().filter_map(|(point, _)| row_of.get(point.as_str()).copied()).collect()
    };
    let answers: Vec<Vec<u32>> = queries.names.ids.iter().map(answers).collect();
    let flat =
        |vectors: &Vectors| (0..vectors.rows.len()).flat_map(|row| vectors.rows.row(row)).copied().collect();
    let dataset = Dataset::new(dim, flat(&queries), flat(&points), answers);
    dataset.with_context(|| {
        format!("{}: judgements of the queries and points that are given", command.qrels.display())
    })
}

fn settings(command: &Train) -> Settings {
    Settings {
        hidden: command.hidden,
        adam: AdamSettings { rate: command.rate, decay: command.decay },
        epochs: command.epochs,
        batch: command.batch,
        negatives: command.negatives,
        held_out: command.held_out,
        goal: command.goal.goal(),
        patience: command.patience,
        mixes: command.mixes.clone(),
        seed: command.seed,
        ..Settings::new(command.loss.clone())
    }
}

fn train(context: &Context, dataset: &Dataset, settings: &Settings) -> anyhow::Result<Trained> {
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    when_interrupted(move || stop.store(true, Ordering::Relaxed))?;
    let bar = context.output.progress("training", Some(u64::from(settings.epochs)));
    let mut each = |round: &Round| {
        bar.set_position(u64::from(round.epoch));
        if round.epoch > 0 {
            context.output.note(format!(
                "epoch {}: loss {:.5}, {} {:.4} at mix {}",
                round.epoch,
                round.loss,
                settings.goal.name(),
                round.goal,
                round.mix
            ));
        }
        !stopped.load(Ordering::Relaxed)
    };
    let trained = train_adapter(dataset, settings, &mut ExactMiner::new(dataset), &mut each);
    bar.finish_and_clear();
    Ok(trained?)
}

/// The measures that are told, before and after, and the comparison of those with a value a query.
struct Compared {
    name: &'static str,
    before: f64,
    after: f64,
    comparison: Option<Comparison>,
}

fn compare(trained: &Trained) -> Vec<Compared> {
    let one = |name, list: fn(&Measured) -> &Vec<f64>| {
        let (before, after) = (list(&trained.before), list(&trained.after));
        let some = |list: &[f64]| list.iter().map(|&value| Some(value)).collect::<Vec<_>>();
        let [measure, ..] = Measure::default_table();
        let comparison = Resampling::default().compare(&some(before), &some(after), measure, Test::Bootstrap);
        Compared { name, before: Measured::mean(before), after: Measured::mean(after), comparison }
    };
    vec![
        one("R@1", |measured| &measured.first),
        one("nDCG@10", |measured| &measured.ndcg),
        one("AUC", |measured| &measured.auc),
        Compared {
            name: "pooled AUC",
            before: trained.before.pooled_auc,
            after: trained.after.pooled_auc,
            comparison: None,
        },
    ]
}

/// Whether with other queries the goal could have fallen.
fn is_doubtful(compared: &[Compared], goal: Goal) -> bool {
    let name = match goal {
        Goal::First => "R@1",
        Goal::Ndcg => "nDCG@10",
        Goal::PooledAuc => "pooled AUC",
    };
    let comparison = compared.iter().find(|it| it.name == name).and_then(|it| it.comparison);
    comparison.is_none_or(|comparison| comparison.difference.low <= 0.0)
}

fn card_of(command: &Train, trained: &Trained) -> anyhow::Result<Card> {
    let data = [&command.queries, &command.gallery, &command.qrels].map(|file| hash(file));
    let data = data.into_iter().collect::<anyhow::Result<Vec<_>>>()?.join(" ");
    let measures = compare(trained).into_iter().map(|it| (it.name.to_owned(), [it.before, it.after]));
    Ok(Card {
        form: 0,
        kind: String::new(),
        dim: 0,
        hidden: 0,
        mix: 0.0,
        loss: command.loss.to_string(),
        seed: command.seed,
        epochs: trained.rounds.last().map_or(0, |round| round.epoch),
        data: blake3::hash(data.as_bytes()).to_hex().to_string(),
        measures: measures.collect(),
        made_by: env!("CARGO_PKG_VERSION").to_owned(),
        weights: String::new(),
    })
}

fn to_json(trained: &Trained, compared: &[Compared], weights: &Path, written: bool) -> Value {
    let measure = |it: &Compared| {
        let mut value = json!({ "before": it.before, "after": it.after });
        if let Some(Comparison { difference, p }) = it.comparison {
            value["difference"] = json!({ "low": difference.low, "high": difference.high, "p": p });
        }
        (it.name.to_owned(), value)
    };
    let rounds = trained.rounds.iter().map(|round| {
        let loss = round.loss.is_finite().then_some(round.loss);
        json!({ "epoch": round.epoch, "loss": loss, "goal": round.goal, "mix": round.mix })
    });
    json!({
        "model": written.then(|| weights.display().to_string()),
        "mix": trained.adapter.mix(),
        "held_out": trained.held_out.len(),
        "measures": compared.iter().map(measure).collect::<serde_json::Map<_, _>>(),
        "rounds": rounds.collect::<Vec<_>>(),
    })
}

const HEAD: [&str; 5] = ["measure", "before", "after", "difference", "95 %"];

fn describe(trained: &Trained, compared: &[Compared], weights: &Path, written: bool, margin: f64) -> String {
    let mut rows = Vec::new();
    for it in compared {
        let interval = it.comparison.map_or(String::new(), |comparison| {
            format!("[{:+.4}, {:+.4}]", comparison.difference.low, comparison.difference.high)
        });
        rows.push(vec![
            it.name.to_owned(),
            format!("{:.4}", it.before),
            format!("{:.4}", it.after),
            format!("{:+.4}", it.after - it.before),
            interval,
        ]);
    }
    let told = if written {
        format!("wrote {} (mix {})", weights.display(), trained.adapter.mix())
    } else {
        format!("nothing was written: wanted a rise of more than {margin}, beyond doubt")
    };
    format!("on {} queries that were held out\n{}\n{told}", trained.held_out.len(), table(&HEAD, 1, rows))
}
