//! Recall beside speed, of raw and of corrections.

use std::fs;
use std::time::Instant;

use anyhow::{Context as _, bail};
use dehub_index::Snapshot;
use dehub_query::{
    Query, RECALL_DEFAULT, Ranking, Response, Search, Settings, Source, found_share, run as answer,
};
use serde_json::{Value, json};

use super::super::hubs::rankings;
use super::super::{Context, Outcome};
use super::latencies::QUANTILES;
use super::results::Results;
use super::timing::{Timed, Timing};
use crate::cli::Bench;
use crate::load;
use crate::output::table;

/// Efforts of walks, if none are named.
const EFFORTS: [u32; 6] = [16, 32, 64, 128, 256, 512];

/// Queries whose exact answers are found together; bounds memory.
const PASS_QUERIES: usize = 256;

/// One setting and what came of it.
pub(super) struct Row {
    pub(super) ranking: String,
    pub(super) search: String,
    pub(super) plan: String,
    pub(super) recall: f64,
    pub(super) least: f64,
    pub(super) timed: Timed,
}

/// A graph that was built to see how long it takes.
pub(super) struct Build {
    pub(super) seconds: f64,
    nodes: usize,
    bytes: usize,
}

/// What memory there is, in bytes.
pub(super) struct Memory {
    resident: Option<u64>,
    vectors: usize,
    pub(super) graph: usize,
}

struct Report<'a> {
    command: &'a Bench,
    queries: usize,
    points: usize,
    rows: Vec<Row>,
    build: Option<Build>,
    memory: Memory,
}

/// Measures each ranking in each way.
pub(super) fn run(context: &Context, command: &Bench) -> anyhow::Result<Outcome> {
    let collection = context.space(&command.collection)?;
    let snapshot = collection.snapshot();
    let vectors = load::chosen_queries(&command.queries, &command.format, snapshot.config())?;
    if vectors.is_empty() {
        bail!("{}: wanted queries, found none", command.queries.display());
    }
    if snapshot.is_empty() {
        bail!("collection {} has no points to find", command.collection);
    }
    let sources: Vec<_> =
        vectors.iter().map(|vector| Source::Vector(snapshot.config().numbers(vector.as_slice()))).collect();
    let searches = searches(context, command, &snapshot);
    let truths = truths(context, command, &snapshot, &sources)?;
    let build = if command.curves.build { build(context, &snapshot)? } else { None };
    let memory = Memory::of(&snapshot);
    let results = Results::new(command, &snapshot, build.as_ref(), &memory);
    let timing = Timing::new(command.curves.threads, command.curves.rounds, command.warm_up)?;
    let rounds = truths.len() * searches.len() * usize::from(command.curves.rounds);
    let bar = context.output.progress("measuring, round", Some(rounds as u64));
    let mut rows = Vec::new();
    for (ranking, truth) in &truths {
        for &search in &searches {
            let queries = queries(command, &sources, ranking, search);
            let timed = timing.all(&snapshot, &queries, || bar.inc(1))?;
            let (recall, least) = found_share(truth, &timed.responses);
            let plan = timed.responses.first().map_or(String::new(), |response| response.plan.to_string());
            let row = Row { ranking: name(ranking), search: label(search), plan, recall, least, timed };
            if let Some(results) = &results {
                results.write(&row, truth)?;
            }
            rows.push(row);
        }
    }
    bar.finish_and_clear();
    let report = Report { command, queries: sources.len(), points: snapshot.len(), rows, build, memory };
    context.output.result(&report.to_json(), || report.describe())?;
    Ok(Outcome::Done)
}

/// The ways of searching, in the order in which they are measured.
fn searches(context: &Context, command: &Bench, snapshot: &Snapshot) -> Vec<Search> {
    let wide = |&effort: &u32| effort >= command.k;
    let usual = || EFFORTS.into_iter().filter(wide).collect();
    let mut efforts = if command.effort.is_empty() { usual() } else { command.effort.clone() };
    if !snapshot.has_graph() {
        context.output.note("the collection has no graph, so every search is exact: walks are left out");
        efforts.clear();
    }
    let recalls = if command.recall.is_empty() { vec![RECALL_DEFAULT] } else { command.recall.clone() };
    let walks = efforts.into_iter().map(|effort| Search::Graph { effort: effort as usize });
    let candidates = command.curves.candidates.iter();
    let scans = candidates.map(|&candidates| Search::Codes { candidates: candidates as usize });
    let planned = recalls.into_iter().map(|target| Search::Recall { target });
    walks.chain(scans).chain(planned).chain([Search::Exact]).collect()
}

/// The exact answers of each ranking.
fn truths(
    context: &Context,
    command: &Bench,
    snapshot: &Snapshot,
    sources: &[Source],
) -> anyhow::Result<Vec<(Ranking, Vec<Response>)>> {
    let rankings = rankings(snapshot, &command.correction);
    let bar = context.output.progress("finding exact answers", Some((rankings.len() * sources.len()) as u64));
    let mut truths = Vec::new();
    for ranking in rankings {
        let mut truth = Vec::with_capacity(sources.len());
        for sources in sources.chunks(PASS_QUERIES) {
            truth.extend(answer(snapshot, &queries(command, sources, &ranking, Search::Exact))?);
            bar.inc(sources.len() as u64);
        }
        truths.push((ranking, truth));
    }
    bar.finish_and_clear();
    Ok(truths)
}

fn queries(command: &Bench, sources: &[Source], ranking: &Ranking, search: Search) -> Vec<Query> {
    let limit = Some(command.k as usize);
    let settings = Settings { limit, ranking: ranking.clone(), search, ..Settings::default() };
    sources.iter().map(|source| Query { source: source.clone(), settings: settings.clone() }).collect()
}

/// Builds the graph anew, into a file that goes away.
fn build(context: &Context, snapshot: &Snapshot) -> anyhow::Result<Option<Build>> {
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let bar = context.output.progress("building a graph", None);
    let start = Instant::now();
    let built = snapshot.build_apart(&folder.path().join("graph"));
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let Some(built) = built.with_context(|| folder.path().display().to_string())? else {
        context.output.note("too few points for a graph, so none was built");
        return Ok(None);
    };
    Ok(Some(Build { seconds, nodes: built.nodes, bytes: built.bytes }))
}

fn name(ranking: &Ranking) -> String {
    match ranking {
        Ranking::Corrected { correction, .. } => correction.clone(),
        Ranking::Raw | Ranking::Default | Ranking::Auto { .. } => "raw".to_owned(),
    }
}

fn label(search: Search) -> String {
    match search {
        Search::Auto => "planned".to_owned(),
        Search::Recall { target } => format!("recall {target}"),
        Search::Exact => "exact".to_owned(),
        Search::Graph { effort } => format!("effort {effort}"),
        Search::Codes { candidates } => format!("candidates {candidates}"),
    }
}

impl Memory {
    fn of(snapshot: &Snapshot) -> Memory {
        Memory {
            resident: resident_bytes(),
            vectors: snapshot.len() * snapshot.config().dim.get() * size_of::<f32>(),
            graph: snapshot.segment_infos().iter().map(|segment| segment.bytes).sum(),
        }
    }
}

/// Bytes of memory that this process has in use; `None` where there is no `/proc`.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "ranking": self.ranking,
            "search": self.search,
            "plan": self.plan,
            "recall": self.recall,
            "recall_least": self.least,
            "queries_per_second": self.timed.speed(),
            "rounds": self.timed.speeds,
            "latency_ms": self.timed.latencies.to_json(),
        })
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.ranking.clone(), self.search.clone()];
        cells.extend([self.recall, self.least].map(|share| format!("{share:.4}")));
        cells.push(format!("{:.0}", self.timed.speed()));
        cells.extend(self.timed.latencies.cells());
        cells
    }
}

impl Report<'_> {
    fn to_json(&self) -> Value {
        let Report { command, memory, .. } = self;
        let build = self
            .build
            .as_ref()
            .map(|build| json!({ "seconds": build.seconds, "nodes": build.nodes, "bytes": build.bytes }));
        json!({
            "collection": command.collection,
            "points": self.points,
            "queries": self.queries,
            "limit": command.k,
            "threads": command.curves.threads,
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "build": build,
            "memory": {
                "resident_bytes": memory.resident,
                "vectors_bytes": memory.vectors,
                "graph_bytes": memory.graph,
            },
        })
    }

    fn describe(&self) -> String {
        let Report { command, queries, points, memory, .. } = self;
        let (k, threads, rounds) = (command.k, command.curves.threads, command.curves.rounds);
        let mut head = vec!["ranking", "search", "recall", "least", "queries/s"];
        head.extend(QUANTILES.iter().map(|(name, _)| *name));
        let rows = table(&head, 2, self.rows.iter().map(Row::cells));
        let mib = |bytes: u64| bytes / (1 << 20);
        let build = self.build.as_ref().map_or(String::new(), |build| {
            let (seconds, nodes, size) = (build.seconds, build.nodes, mib(build.bytes as u64));
            format!("\na graph of all points, built anew: {seconds:.1} s, {nodes} nodes, {size} MiB")
        });
        let resident =
            memory.resident.map_or(String::new(), |bytes| format!("; this process {} MiB", mib(bytes)));
        format!(
            "{queries} queries over {points} points, {k} answers each, {threads} at a time; the median of {rounds} \
             rounds, times of a query in milliseconds\n\n{rows}{build}\nmemory: vectors {} MiB, graph {} MiB{resident}",
            mib(memory.vectors as u64),
            mib(memory.graph as u64),
        )
    }
}
