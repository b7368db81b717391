//! `dehub search`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use dehub_index::{CollectionConfig, Deadline, Point, Snapshot};
use dehub_query::{
    Answered, Bound, Condition, Explanation, Feedback, Filter, Hit, Kind, Query, Ranking, Request, Response,
    Search, Settings, Source, Staleness, answer, explain_request, explain_within, run_within,
};
use dehub_vector::PointId;
use serde_json::{Map, Value, json};

use super::{Context, Outcome, words};
use crate::cli::{self, FusionArgs, VectorFile};
use crate::output::table;
use crate::{load, load_multi};

/// The longest text shown in a table, in characters.
const TEXT_CHARS_MAX: usize = 60;

/// Finds the points nearest to a vector.
pub(crate) fn run(context: &Context, command: &cli::Search) -> anyhow::Result<Outcome> {
    let settings = settings(command)?;
    if settings.ranking == Ranking::Raw && (command.alpha - 1.0).abs() > 0.0 {
        bail!("--alpha has no meaning without a correction to weigh");
    }
    let deadline = command.timeout.map(|limit| Deadline::after(Instant::now(), limit));
    if let Some(words) = &command.words.text {
        let collection = context.collection(&command.collection)?;
        let bar = context.output.progress("indexing texts", None);
        let refreshed = collection.refresh_text();
        bar.finish_and_clear();
        refreshed?;
        let base = collection.snapshot();
        let source = source(command, || Ok(*context.space(&command.collection)?.snapshot().config()))?;
        let scope = base.scope().until(deadline);
        return words::run(context, command, (&base, &scope), words, (source, settings));
    }
    let snapshot = context.space(&command.collection)?.snapshot();
    let source = source(command, || Ok(*snapshot.config()))?;
    let source = source.context("one of --vector, --id and --queries is needed")?;
    let query = Query { source, settings };
    let scope = snapshot.scope().until(deadline);
    if command.words.fusing != FusionArgs::default() {
        bail!("--fusion, --fusion-k, --weights and --depth have no meaning without --hybrid");
    }
    if let Some(feedback) = command.words.feedback(&query.source) {
        return fed_back(context, command, feedback, query.settings);
    }
    if command.explain {
        let explanation = explain_within(&snapshot, &scope, &query)?;
        show_explanation(context, &snapshot, &explanation)?;
    } else {
        let response = run_within(&snapshot, &scope, &[query])?.swap_remove(0);
        show(context, &snapshot, &response)?;
    }
    Ok(Outcome::Done)
}

/// Asks with feedback from the first answers.
fn fed_back(
    context: &Context,
    command: &cli::Search,
    feedback: Feedback,
    settings: Settings,
) -> anyhow::Result<Outcome> {
    let base = context.collection(&command.collection)?.snapshot();
    let deadline = command.timeout.map(|limit| Deadline::after(Instant::now(), limit));
    let scope = base.scope().until(deadline);
    let using = context.using.clone();
    let request = Request { using, ..Request::new(Kind::Feedback(feedback), settings) };
    if command.explain {
        let (explanation, _) = explain_request(&base, &scope, &request)?;
        show_explanation(context, &*base.space(context.using.as_deref())?, &explanation)?;
        return Ok(Outcome::Done);
    }
    let Answered { hits, plan, gate_open, sequence, .. } = answer(&base, &scope, &[request])?.swap_remove(0);
    let hits = hits.into_iter().filter_map(|found| found.hit).collect();
    let plan = plan.context("a query with feedback has no plan")?;
    show(context, &base, &Response { hits, plan, gate_open, sequence })?;
    Ok(Outcome::Done)
}

/// Shows an answer.
fn show(context: &Context, snapshot: &Snapshot, response: &Response) -> anyhow::Result<()> {
    let points = points(snapshot, &response.hits)?;
    context.output.result(&to_json(response, &points), || {
        format!("{}{}", hits_table(&response.hits, &points, None), how(response))
    })?;
    Ok(())
}

/// What to search for, if that is not words alone.
fn source(
    command: &cli::Search,
    config: impl FnOnce() -> anyhow::Result<CollectionConfig>,
) -> anyhow::Result<Option<Source>> {
    match (&command.vector, &command.id, &command.queries) {
        (Some(vector), _, _) => {
            let wanted =
                "--vector: wanted a JSON array of numbers, such as \"[0.1, 0.2]\", or of such arrays";
            let numbers = load_multi::numbers(&serde_json::from_str(vector).context(wanted)?);
            Ok(Some(Source::Vector(numbers.context("--vector")?)))
        }
        (None, Some(id), _) => Ok(Some(Source::Point(PointId::parse(id)?))),
        (None, None, Some(file)) => {
            let mut rows = 0;
            let config = config()?;
            for batch in load::batches(file, &VectorFile::default(), &config, Some(config.metric))? {
                let batch = batch?;
                rows += batch.len();
                if let Some(row) = batch.into_iter().find(|row| row.number == command.row) {
                    return Ok(Some(Source::Vector(row.vector)));
                }
            }
            bail!("{}: wanted row {}, found {rows} rows, counted from 0", file.display(), command.row)
        }
        (None, None, None) => Ok(None),
    }
}

fn settings(command: &cli::Search) -> anyhow::Result<Settings> {
    let ranking = Ranking::named(command.correction.clone(), command.alpha);
    // The command line takes one of them.
    let search = match (command.ef, command.recall, command.candidates) {
        _ if command.exact => Search::Exact,
        (Some(effort), ..) => Search::Graph { effort },
        (_, Some(target), _) => Search::Recall { target },
        (.., Some(candidates)) => Search::Codes { candidates },
        (None, None, None) => Search::Auto,
    };
    for (place, (name, _)) in command.prior.iter().enumerate() {
        if command.prior[..place].iter().any(|(earlier, _)| earlier == name) {
            bail!("--prior names {name} twice");
        }
    }
    let priors = command.prior.clone();
    Ok(Settings { limit: command.k, ranking, search, priors, filter: filter(command)? })
}

fn filter(command: &cli::Search) -> anyhow::Result<Option<Arc<Filter>>> {
    let (only, without) = (command.only_ids.as_deref(), command.without_ids.as_deref());
    let is_input = |file: Option<&Path>| file == Some(Path::new("-"));
    if is_input(only) && is_input(without) {
        bail!("--only-ids and --without-ids cannot both be read from standard input");
    }
    let read = |file: Option<&Path>| file.map(load::ids).into_iter().collect::<anyhow::Result<Vec<_>>>();
    let conditions = |lists: Vec<Vec<PointId>>| lists.into_iter().map(Condition::HasId).collect();
    let mut filter =
        Filter { must: conditions(read(only)?), must_not: conditions(read(without)?), ..Filter::default() };
    let own = command.filter.clone().map(|own| Condition::Filter(Box::new(own)));
    let is_any = only.is_some() || without.is_some() || own.is_some();
    filter.must.extend(own);
    Ok(is_any.then(|| Arc::new(filter)))
}

/// Reads a number of seconds above 0.
pub(crate) fn timeout(text: &str) -> anyhow::Result<Duration> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match time.filter(|time| !time.is_zero()) {
        Some(time) => Ok(time),
        None => bail!("wanted a number of seconds above 0, found {text:?}"),
    }
}

/// The points of some hits.
pub(crate) fn points(snapshot: &Snapshot, hits: &[Hit]) -> anyhow::Result<Vec<Point>> {
    let rows: Vec<u32> = hits.iter().map(|hit| hit.row).collect();
    Ok(snapshot.points(&rows)?)
}

fn hit_json(hit: &Hit, point: &Point) -> Value {
    let payload: Option<Value> =
        point.payload.as_ref().and_then(|payload| serde_json::from_str(payload.as_json()).ok());
    let mut value = json!({
        "id": point.id,
        "score": shortest(hit.score),
        "raw_score": shortest(hit.raw_score),
        "bias": hit.bias.map(shortest),
        "scale": hit.scale.map(shortest),
        "text": point.text,
        "payload": payload,
    });
    if let Some(boost) = hit.boost {
        value["boost"] = json!(shortest(boost));
    }
    value
}

/// The shortest decimal that stands for a 32-bit number; widening it would print digits it never had.
pub(super) fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

fn to_json(response: &Response, points: &[Point]) -> Value {
    let hits: Vec<_> = response.hits.iter().zip(points).map(|(hit, point)| hit_json(hit, point)).collect();
    json!({
        "points": hits,
        "exact": response.plan.is_exact(),
        "correction": response.plan.correction.as_ref().map(|(name, _, _)| name),
        "gate_open": response.gate_open,
        "sequence": response.sequence,
        "plan": response.plan.to_string(),
    })
}

fn show_explanation(context: &Context, snapshot: &Snapshot, explanation: &Explanation) -> anyhow::Result<()> {
    let Explanation { raw, corrected, raw_ranks, boosts, staleness } = explanation;
    let raw_points = points(snapshot, &raw.hits)?;
    let corrected_points = points(snapshot, &corrected.hits)?;
    let mut value = to_json(corrected, &corrected_points);
    value["raw"] = to_json(raw, &raw_points);
    if let Some(hits) = value["points"].as_array_mut() {
        hits.iter_mut().zip(raw_ranks).for_each(|(hit, rank)| hit["rank_raw"] = json!(rank));
    }
    if !corrected.plan.priors.is_empty() {
        let part = |((name, _), boost): (&(String, f32), &f32)| (name.clone(), json!(shortest(*boost)));
        let parts =
            |boosts: &Vec<f32>| corrected.plan.priors.iter().zip(boosts).map(part).collect::<Map<_, _>>();
        value["boosts"] = json!(boosts.iter().map(parts).collect::<Vec<_>>());
    }
    value["staleness"] = staleness.as_ref().map_or(Value::Null, staleness_json);
    context.output.result(&value, || {
        format!(
            "raw\n{}\ncorrected\n{}{}{}",
            hits_table(&raw.hits, &raw_points, None),
            hits_table(&corrected.hits, &corrected_points, Some(raw_ranks)),
            how(corrected),
            staleness.as_ref().map(staleness_text).unwrap_or_default(),
        )
    })?;
    Ok(())
}

fn staleness_json(staleness: &Staleness) -> Value {
    let bound = |bound: &Option<Bound>| bound.map(|bound| json!({ "rise": bound.rise, "fall": bound.fall }));
    json!({
        "entries": staleness.entries,
        "certified": staleness.certified,
        "bounds": staleness.bounds.iter().map(bound).collect::<Vec<_>>(),
    })
}

fn staleness_text(staleness: &Staleness) -> String {
    let change = if staleness.certified {
        "whatever they are, these hits stay in this order".to_owned()
    } else {
        let falls = staleness.bounds.iter().map(|bound| bound.map(|bound| bound.fall));
        match falls.collect::<Option<Vec<f64>>>() {
            Some(falls) => {
                format!("a score above can fall by {:.4} at most", falls.into_iter().fold(0.0, f64::max))
            }
            None => "they may change this answer".to_owned(),
        }
    };
    format!("\nthe correction has not taken in {} bank entries: {change}", staleness.entries)
}

/// Hits as a table; with the rank of each in the raw answer, if given.
pub(crate) fn hits_table(hits: &[Hit], points: &[Point], raw_ranks: Option<&[u32]>) -> String {
    let has_priors = hits.iter().any(|hit| hit.boost.is_some());
    let signed = |part: Option<f32>| part.map_or(String::new(), |part| format!("{part:+.4}"));
    let rows = hits.iter().zip(points).enumerate().map(|(place, (hit, point))| {
        let was = raw_ranks.map_or(String::new(), |ranks| ranks[place].to_string());
        let mut cells = vec![
            format!("{}", place + 1),
            point.id.to_string(),
            shortened(point.text.as_deref().unwrap_or("")),
            format!("{:.4}", hit.score),
            format!("{:.4}", hit.raw_score),
            signed(hit.bias),
        ];
        cells.extend(has_priors.then(|| signed(hit.boost)));
        cells.push(was);
        cells
    });
    let mut head = vec!["", "id", "text", "score", "raw", "bias"];
    head.extend(has_priors.then_some("priors"));
    head.push(if raw_ranks.is_some() { "raw rank" } else { "" });
    table(&head, 3, rows)
}

fn how(response: &Response) -> String {
    let gate = match response.gate_open {
        None => "",
        Some(true) => "; the gate was open",
        Some(false) => "; the gate was closed, so the answer is raw",
    };
    format!("{}{gate}", response.plan)
}

/// A text cut to what a table can show.
pub(crate) fn shortened(text: &str) -> String {
    let one_line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(TEXT_CHARS_MAX) {
        None => one_line,
        Some((end, _)) => format!("{}…", &one_line[..end]),
    }
}
