//! `dehub measure`: runs against judgements, without any collection.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::bail;
use dehub_eval::{
    Gallery, Gaps, Kind, Measure, Placed, Qrels, Resampling, Roc, Run, Test, TieOrder, evaluate, place,
};
use dehub_normalize::Occurrence;
use serde_json::{Value, json};

use super::compare::{self, Asked, Compared, System, compare};
use super::{Context, Outcome};
use crate::cli::{MeasureArgs, TableName, TestName};
use crate::judged;
use crate::output::table;

/// The depths at which hubness is measured.
const HUB_DEPTHS: [usize; 3] = [1, 5, 10];

/// Hubs listed in JSON.
const HUBS_MAX: usize = 10;

/// A run with its name and its gaps.
struct Given {
    name: String,
    run: Run,
    gaps: Gaps,
}

/// Measures runs.
pub(crate) fn run(context: &Context, command: &MeasureArgs) -> anyhow::Result<Outcome> {
    let ids = command.gallery_ids.as_deref().map(judged::document_ids).transpose()?;
    let gallery = match (&ids, command.gallery_size) {
        (Some(ids), _) => Gallery::Ids(ids),
        (None, Some(size)) => Gallery::Size(size),
        (None, None) => Gallery::Unknown,
    };
    let bar = context.output.progress("reading", None);
    let mut qrels = qrels(command)?;
    let mut left_out = 0;
    if command.exclude_self {
        qrels = qrels.map(|qrels| {
            let (rest, judged) = qrels.without_self();
            left_out += judged;
            rest
        });
    }
    let mut runs = Vec::new();
    for (file, name) in command.run.iter().zip(names(&command.run)) {
        let (run, own) = read(command, file)?;
        left_out += own;
        let gaps = qrels.as_ref().map(|qrels| Gaps::of(&run, qrels, gallery)).unwrap_or_default();
        runs.push(Given { name, run, gaps });
    }
    bar.finish_and_clear();
    if command.exclude_self {
        context
            .output
            .note(format!("{left_out} pairs of a query and the document of its own id were left out"));
    }
    runs.iter().for_each(|given| compare::note_gaps(context, &given.name, &given.gaps));
    if command.strict {
        refuse_gaps(&runs)?;
    }
    let mut result = json!({ "excluded_self": command.exclude_self.then_some(left_out) });
    let mut text = String::new();
    if let Some(qrels) = &qrels {
        let gaps: Vec<Value> = runs.iter().map(|given| compare::gaps_to_json(&given.gaps)).collect();
        result["queries"] = qrels.queries().len().into();
        result["gaps"] = gaps.into();
        let told = match command.table {
            Some(TableName::CrossModal) => cross_modal(context, command, &runs, qrels, gallery)?,
            None => measured(context, command, &runs, qrels, gallery)?,
        };
        result["rows"] = told.0;
        text.push_str(&told.1);
        if command.roc {
            let (value, told) = roc(&runs, qrels);
            result["roc"] = value;
            text = format!("{text}\n{told}");
        }
    } else if command.roc {
        bail!("--roc needs --qrels");
    }
    if command.hubness {
        let (value, told) = hubness(context, &runs, gallery);
        result["hubness"] = value;
        let between = if text.is_empty() { "" } else { "\n" };
        text = format!("{text}{between}{told}");
    }
    context.output.result(&result, || text)?;
    Ok(Outcome::Done)
}

fn qrels(command: &MeasureArgs) -> anyhow::Result<Option<Qrels>> {
    Ok(match (&command.qrels, &command.truth) {
        (Some(file), _) => Some(judged::qrels(file)?),
        (None, Some(file)) => Some(Qrels::of_truth(&judged::run(file)?)),
        (None, None) => None,
    })
}

/// A run, and how many lists had the document of their query's id, if those are left out.
fn read(command: &MeasureArgs, file: &std::path::Path) -> anyhow::Result<(Run, usize)> {
    let run = judged::run(file)?;
    Ok(if command.exclude_self { run.without_self() } else { (run, 0) })
}

/// The names of files, or where those are not distinct their paths.
fn names(files: &[PathBuf]) -> Vec<String> {
    let short = |file: &PathBuf| {
        file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let names: Vec<String> = files.iter().map(short).collect();
    let is_distinct = names.iter().collect::<HashSet<_>>().len() == names.len();
    if is_distinct { names } else { files.iter().map(|file| file.display().to_string()).collect() }
}

fn refuse_gaps(runs: &[Given]) -> anyhow::Result<()> {
    let all = runs.iter().filter(|given| !given.gaps.is_none());
    let told: Vec<String> = all
        .flat_map(|given| compare::named_gaps(&given.gaps).map(|(ids, what)| (given, ids, what)))
        .filter(|(_, ids, _)| !ids.is_empty())
        .map(|(given, ids, what)| format!("{}: {} {what}: {}", given.name, ids.len(), ids.join(", ")))
        .collect();
    if told.is_empty() {
        return Ok(());
    }
    bail!("--strict: {}", told.join("\n"))
}

/// The measures asked for, side by side.
fn measured(
    context: &Context,
    command: &MeasureArgs,
    runs: &[Given],
    qrels: &Qrels,
    gallery: Gallery<'_>,
) -> anyhow::Result<(Value, String)> {
    let asked = asked(command)?;
    // A truth has many relevant documents, whose grades only ann_recall means.
    compare::note_several(context, &asked.measures, command.truth.is_none() && qrels.has_several());
    note_depth(context, &asked.measures, runs, gallery);
    let bar = context.output.progress("measuring", None);
    let placed: Vec<Placed> =
        runs.iter().map(|given| place(&given.run, qrels, gallery, TieOrder::Ids)).collect();
    let systems = runs.iter().zip(&placed).map(|(given, placed)| {
        let other = |order| place(&given.run, qrels, gallery, order).ranks;
        let bounds = command.bounds.then(|| (other(TieOrder::Worst), other(TieOrder::Best)));
        System { name: given.name.clone(), ranks: placed.ranks.clone(), bounds }
    });
    let compared: Compared = compare(&placed[0].queries, &systems.collect::<Vec<_>>(), &asked);
    bar.finish_and_clear();
    let mut rows = compared.to_json();
    for ((row, given), placed) in rows.iter_mut().zip(runs).zip(&placed) {
        row["tied"] = placed.tied.into();
        if placed.tied > 0 {
            context.output.note(format!(
                "{}: in {} queries equal scores decide where a judged document stands{}",
                given.name,
                placed.tied,
                if command.bounds { "" } else { "; --bounds shows what that may change" }
            ));
        }
    }
    Ok((rows.into(), format!("{} judged queries\n\n{}", qrels.queries().len(), compared.describe())))
}

fn asked(command: &MeasureArgs) -> anyhow::Result<Asked> {
    const TEN: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");
    let of_truth = [NonZeroU32::MIN, TEN].map(|k| Measure::at(Kind::AnnRecall, k));
    let default = if command.truth.is_some() { &of_truth[..] } else { &Measure::default_table()[..] };
    let measures = compare::measures(&command.measure, default)?;
    let resampling = Resampling { rounds: command.rounds, seed: command.seed, ..Resampling::default() };
    let test = command.test.map(|test| match test {
        TestName::Bootstrap => (Test::Bootstrap, resampling),
        TestName::Randomisation => (Test::Randomisation, resampling),
    });
    Ok(Asked { measures, test, by_query: command.by_query })
}

/// Ranks beyond the lists are not known without the size of the gallery.
fn note_depth(context: &Context, measures: &[Measure], runs: &[Given], gallery: Gallery<'_>) {
    let is_rank = |measure: &Measure| measure.is_smaller_better();
    if gallery == Gallery::Unknown && measures.iter().any(is_rank) {
        let depth = runs.iter().map(|given| given.run.depth()).max().unwrap_or(0);
        context.output.note(format!(
            "a relevant document that is not listed counts for rank {} in MdR and MnR, as the lists end: \
             --gallery-size says how far off it may be",
            depth + 1
        ));
    }
}

/// The table of papers on cross-modal retrieval: shares in percent, and their sum over both directions.
fn cross_modal(
    context: &Context,
    command: &MeasureArgs,
    runs: &[Given],
    qrels: &Qrels,
    gallery: Gallery<'_>,
) -> anyhow::Result<(Value, String)> {
    if !command.reverse.is_empty() && command.reverse.len() != runs.len() {
        bail!("--reverse: wanted {} files, one for each --run, found {}", runs.len(), command.reverse.len());
    }
    let measures: Vec<Measure> = ["Success@1", "Success@5", "Success@10", "MdR", "MnR"]
        .map(|name| name.parse().expect("a name"))
        .to_vec();
    note_depth(context, &measures, runs, gallery);
    let back = qrels.transposed();
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (number, given) in runs.iter().enumerate() {
        let reverse = match command.reverse.get(number) {
            Some(file) => Some(read(command, file)?.0),
            None => given.run.transposed(),
        };
        if reverse.is_none() {
            context.output.note(format!(
                "{}: the other direction is left out, as not every query lists every document: --reverse gives it",
                given.name
            ));
        }
        let forth = place(&given.run, qrels, gallery, TieOrder::Ids).ranks;
        // The gallery of the other direction are the queries, all of which the judgements or the run have.
        let back_ranks = reverse.as_ref().map(|run| place(run, &back, Gallery::Unknown, TieOrder::Ids).ranks);
        let mut sum = 0.0;
        let directions = [("forth", Some(forth)), ("back", back_ranks)];
        for (direction, ranks) in directions.into_iter().filter_map(|(name, ranks)| Some((name, ranks?))) {
            let mut values = evaluate(&ranks, &measures);
            values[..3].iter_mut().for_each(|share| *share *= 100.0);
            sum += values[..3].iter().sum::<f64>();
            let [r1, r5, r10, median, mean] = values[..] else { unreachable!("a value a measure") };
            rows.push(json!({
                "name": given.name, "direction": direction, "queries": ranks.len(),
                "R@1": r1, "R@5": r5, "R@10": r10, "MdR": median, "MnR": mean,
            }));
            let cells = values.iter().map(|value| format!("{value:.1}"));
            let mut line = vec![given.name.clone(), direction.to_owned()];
            line.extend(cells);
            line.push(String::new());
            lines.push(line);
        }
        let (Some(row), Some(line)) = (rows.last_mut(), lines.last_mut()) else { continue };
        row["Rsum"] = sum.into();
        if let Some(cell) = line.last_mut() {
            *cell = format!("{sum:.1}");
        }
    }
    let head = ["run", "direction", "R@1", "R@5", "R@10", "MdR", "MnR", "Rsum"];
    let told = "R@k: % of queries with a relevant document among the first k (Success@k); back: documents ask for \
                queries";
    Ok((rows.into(), format!("{told}\n\n{}", table(&head, 2, lines))))
}

/// The curve over all queries together, a run.
fn roc(runs: &[Given], qrels: &Qrels) -> (Value, String) {
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for given in runs {
        let Roc { points, auc } = Roc::of(&given.run, qrels);
        lines.push(vec![given.name.clone(), auc.map_or("–".to_owned(), |auc| format!("{auc:.4}"))]);
        let points =
            points.iter().map(|point| json!([point.threshold, point.false_positives, point.true_positives]));
        values.push(json!({ "name": given.name, "auc": auc, "points": points.collect::<Vec<_>>() }));
    }
    (values.into(), table(&["run", "pooled AUC"], 1, lines))
}

/// How unevenly documents occur, a line a run and a depth.
fn hubness(context: &Context, runs: &[Given], gallery: Gallery<'_>) -> (Value, String) {
    let listed: HashSet<&String> = runs.iter().flat_map(|given| given.run.documents()).collect();
    let points = match gallery {
        Gallery::Unknown => {
            context.output.note(format!(
                "the gallery is taken to be the {} documents that are listed anywhere: documents that never are \
                 make antihubs, so say --gallery-size or --gallery-ids",
                listed.len()
            ));
            listed.len()
        }
        Gallery::Size(size) => listed.len().max(size as usize),
        Gallery::Ids(ids) => ids.len() + listed.iter().filter(|id| !ids.contains(**id)).count(),
    };
    let head = [
        "run",
        "k",
        "skew",
        "Robin Hood",
        "random",
        "Gini",
        "Atkinson",
        "hubs have",
        "random",
        "antihubs",
        "random",
        "max",
    ];
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for given in runs {
        for k in HUB_DEPTHS {
            let mut counts = given.run.occurrences(k);
            counts.resize(points, 0);
            let found = Occurrence::from_counts(k, given.run.queries().len(), counts);
            let numbers = [
                found.skewness(),
                found.robin_hood(),
                found.robin_hood_at_random(),
                found.gini(),
                found.atkinson(),
                found.hub_share(),
                found.hub_share_at_random(),
                found.antihub_share(),
                found.antihub_share_at_random(),
            ];
            let mut line = vec![given.name.clone(), k.to_string()];
            line.extend(numbers.iter().map(|number| format!("{number:.4}")));
            line.push(found.max().to_string());
            lines.push(line);
            values.push(hubness_to_json(given, k, &found));
        }
    }
    let told = format!(
        "hubness over {points} documents: N_k is how often one is among the first k; hubs have N_k of twice the mean \
         or more; random: as Poisson counts of the same mean would have it\n\n{}",
        table(&head, 1, lines)
    );
    (values.into(), told)
}

fn hubness_to_json(given: &Given, k: usize, found: &Occurrence) -> Value {
    let hubs = found.hubs(HUBS_MAX).into_iter().filter(|&(_, count)| count > 0);
    let hubs =
        hubs.map(|(number, count)| json!({ "id": given.run.documents()[number as usize], "count": count }));
    json!({
        "name": given.name,
        "k": k,
        "points": found.counts().len(),
        "queries": found.queries(),
        "skewness": found.skewness(),
        "robin_hood": found.robin_hood(),
        "robin_hood_at_random": found.robin_hood_at_random(),
        "gini": found.gini(),
        "atkinson": found.atkinson(),
        "hub_occurrence": found.hub_share(),
        "hub_occurrence_at_random": found.hub_share_at_random(),
        "antihub_occurrence": found.antihub_share(),
        "antihub_occurrence_at_random": found.antihub_share_at_random(),
        "max": found.max(),
        "groupie_ratio": found.groupie_share(),
        "hubs": hubs.collect::<Vec<_>>(),
    })
}
