//! Measures a collection's ways of searching beside its exact answers, and chooses among them.

use std::collections::HashSet;
use std::time::Instant;

use dehub_index::{
    Calibrated, Calibration, CalibrationSubject, Collection, Cost, Name, Snapshot, Step, WriteError,
    cost_among, machine,
};

use crate::plan::{Engine, plan};
use crate::query::{Query, Ranking, Search, Settings, Source};
use crate::{QueryError, Response, run};

/// Queries that are asked. A recall of .99 is then known to about .002.
const QUERIES: usize = 256;

/// Points that each is asked for: first the usual number, then many.
const LIMITS: [usize; 2] = [10, 100];

/// Efforts of walks, and candidates of scans of codes. None is tried after one that finds [`ENOUGH`].
const SETTINGS: [usize; 10] = [16, 32, 48, 64, 96, 128, 192, 320, 512, 1024];

/// A recall beyond which no more is tried.
const ENOUGH: f64 = 0.999;

/// The part of what a recall may miss that is kept for what a sample of queries does not tell: others may be harder,
/// and a filter may leave a part of the graph that is. With a fifth, walks by IS that were to find .99 found .987 of
/// what other queries asked for (`benches/runs/filtered.csv`).
const MARGIN: f64 = 0.6;

/// How many queries are asked together, beside all, where that matters.
const FEW: [usize; 2] = [1, 16];

/// Calls that are timed where few queries go together.
const CALLS: usize = 8;

/// Why a calibration was not made.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A search failed.
    #[error(transparent)]
    Search(#[from] QueryError),
    /// It could not be kept.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Measures what is due, of each vector of the collection, and keeps it; tells whether something was.
pub fn calibrate_if_due(collection: &Collection) -> Result<bool, CalibrateError> {
    let snapshot = collection.snapshot();
    if !snapshot.is_calibration_due() {
        return Ok(false);
    }
    if !snapshot.has_vectors() {
        for space in collection.spaces() {
            calibrate_if_due(space)?;
        }
        return Ok(true);
    }
    collection.set_calibration(calibrate(&snapshot)?)?;
    Ok(true)
}

/// Measures every ranking of a snapshot, but takes over what an earlier calibration of the same segments says.
fn calibrate(snapshot: &Snapshot) -> Result<Calibration, QueryError> {
    let subject = CalibrationSubject::of(snapshot);
    let earlier = snapshot
        .calibration()
        .filter(|earlier| is_alike(&earlier.subject, &subject) && earlier.machine == machine());
    let sources = sample(snapshot, subject.bank.as_ref());
    let names = std::iter::once(None).chain(snapshot.corrections().map(|correction| Some(correction.info())));
    let mut rankings = Vec::new();
    for info in names {
        let label = info.map(|info| format!("{}@{}", info.name, info.version));
        let ranking = info.map_or(Ranking::Raw, |info| Ranking::corrected(info.name.as_str()));
        for limit in LIMITS.map(|limit| limit.min(snapshot.len())) {
            let of = |earlier: &Calibration| earlier.of(label.as_deref(), limit).cloned();
            let known = earlier.and_then(of);
            let measure =
                || Measure { snapshot, sources: &sources, ranking: &ranking, limit }.all(label.clone());
            rankings.push(known.map_or_else(measure, Ok)?);
        }
    }
    Ok(Calibration { subject, machine: machine(), queries: sources.len(), rankings })
}

/// Whether what was measured for one holds for the other, as far as it has the same corrections.
fn is_alike(earlier: &CalibrationSubject, now: &CalibrationSubject) -> bool {
    earlier.segments == now.segments && earlier.bank == now.bank
}

/// Queries to ask: entries of a bank; without one, vectors half way between two points. Points themselves are
/// found with far less effort than what is asked of them.
fn sample(snapshot: &Snapshot, bank: Option<&Name>) -> Vec<Source> {
    let source = |query: Vec<f32>| Source::vector(query);
    if let Some(bank) = bank {
        let queries = snapshot.bank_queries(bank, QUERIES);
        return queries.iter().map(|query| source(query.as_slice().to_vec())).collect();
    }
    let rows: Vec<u32> = snapshot.rows().collect();
    let pairs = rows.iter().zip(rows.iter().skip(rows.len() / 2).chain(&rows));
    let half_way = |(&one, &other): (&u32, &u32)| -> Vec<f32> {
        snapshot.vector(one).iter().zip(snapshot.vector(other)).map(|(a, b)| f32::midpoint(*a, *b)).collect()
    };
    let some = pairs.step_by(rows.len().div_ceil(QUERIES).max(1)).map(half_way);
    // Opposite points have nothing between them that cosine could compare.
    some.filter(|query| query.iter().any(|&number| number != 0.0)).map(source).collect()
}

struct Measure<'a> {
    snapshot: &'a Snapshot,
    sources: &'a [Source],
    ranking: &'a Ranking,
    limit: usize,
}

impl Measure<'_> {
    fn all(&self, correction: Option<String>) -> Result<Calibrated, QueryError> {
        let (exact, whole) = self.answers(Search::Exact)?;
        let walk = self.steps(&exact, |effort| Search::Graph { effort }, &[1])?;
        let codes = match self.codes()? {
            true => self.steps(&exact, |candidates| Search::Codes { candidates }, &FEW)?,
            false => Vec::new(),
        };
        let costs = self.costs(Search::Exact, &FEW, whole)?;
        Ok(Calibrated { correction, limit: self.limit, exact: costs, walk, codes })
    }

    /// Whether codes can be scanned for the ranking.
    fn codes(&self) -> Result<bool, QueryError> {
        let search = Search::Codes { candidates: self.limit };
        let settings = Settings { ranking: self.ranking.clone(), search, ..Settings::default() };
        Ok(!plan(self.snapshot, &settings, 1)?.is_exact())
    }

    /// The settings of one way, up to the first that finds enough.
    fn steps(
        &self,
        exact: &[Vec<u32>],
        search: impl Fn(usize) -> Search,
        few: &[usize],
    ) -> Result<Vec<Step>, QueryError> {
        let mut steps: Vec<Step> = Vec::new();
        for setting in SETTINGS.into_iter().filter(|&setting| setting >= self.limit) {
            if steps.last().is_some_and(|step| step.recall >= ENOUGH) {
                break;
            }
            let (found, whole) = self.answers(search(setting))?;
            let costs = self.costs(search(setting), few, whole)?;
            steps.push(Step { setting, recall: recall(&found, exact), costs });
        }
        Ok(steps)
    }

    fn queries(&self, search: Search) -> Vec<Query> {
        let (limit, ranking) = (Some(self.limit), self.ranking.clone());
        let settings = Settings { limit, ranking, search, ..Settings::default() };
        self.sources
            .iter()
            .map(|source| Query { source: source.clone(), settings: settings.clone() })
            .collect()
    }

    /// The rows that all queries find together, and what a query takes so.
    fn answers(&self, search: Search) -> Result<(Vec<Vec<u32>>, Cost), QueryError> {
        let (responses, cost) = self.timed(&self.queries(search))?;
        let rows = responses.iter().map(|response| response.hits.iter().map(|hit| hit.row).collect());
        Ok((rows.collect(), cost))
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of queries is far below 2^53")]
    fn timed(&self, queries: &[Query]) -> Result<(Vec<Response>, Cost), QueryError> {
        let start = Instant::now();
        let responses = run(self.snapshot, queries)?;
        let micros = 1e6 * start.elapsed().as_secs_f64() / queries.len() as f64;
        Ok((responses, Cost { queries: queries.len(), micros }))
    }

    /// What a query takes among few, the median of some calls each, and among all.
    fn costs(&self, search: Search, few: &[usize], whole: Cost) -> Result<Vec<Cost>, QueryError> {
        let queries = self.queries(search);
        let mut costs = Vec::new();
        for &size in few.iter().filter(|&&size| size < whole.queries) {
            let calls = queries.chunks_exact(size).take(CALLS).map(|queries| Ok(self.timed(queries)?.1));
            let mut calls = calls.collect::<Result<Vec<Cost>, QueryError>>()?;
            calls.sort_by(|a, b| a.micros.total_cmp(&b.micros));
            costs.extend(calls.get(calls.len() / 2));
        }
        costs.push(whole);
        Ok(costs)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
fn recall(found: &[Vec<u32>], exact: &[Vec<u32>]) -> f64 {
    let hits = found.iter().zip(exact).map(|(found, exact)| {
        let exact: HashSet<&u32> = exact.iter().collect();
        found.iter().filter(|row| exact.contains(row)).count()
    });
    let wanted: usize = exact.iter().map(Vec::len).sum();
    if wanted == 0 { 1.0 } else { hits.sum::<usize>() as f64 / wanted as f64 }
}

/// What a search asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// As `name@version`; `None` for raw.
    pub(crate) correction: Option<&'a str>,
    pub(crate) limit: usize,
    pub(crate) queries: usize,
}

impl Wanted<'_> {
    fn measured<'c>(&self, calibration: &'c Calibration) -> Option<&'c Calibrated> {
        let mut measured =
            calibration.rankings.iter().filter(|it| it.correction.as_deref() == self.correction);
        measured.clone().find(|it| it.limit >= self.limit).or_else(|| measured.next_back())
    }

    /// The first step with a recall, and by what its setting and its cost are multiplied: beyond the limits that
    /// were measured they grow with what is asked for.
    fn reach<'c>(
        &self,
        calibrated: &Calibrated,
        steps: &'c [Step],
        target: f64,
    ) -> Option<(&'c Step, usize)> {
        let least = target + MARGIN * (1.0 - target);
        let step = steps.iter().find(|step| step.recall >= least)?;
        Some((step, self.limit.div_ceil(calibrated.limit.max(1)).max(1)))
    }
}

/// The way that costs least of those that find `target` of the exact answers, and the recall it was measured
/// to have; `None` if the ranking was not measured.
pub(crate) fn cheapest(
    calibration: &Calibration,
    wanted: Wanted<'_>,
    target: f64,
) -> Option<(Engine, Option<f64>)> {
    let calibrated = wanted.measured(calibration)?;
    let scan = Engine::Exact { reason: "it costs least" };
    let mut ways = vec![(scan, 1.0, cost_among(&calibrated.exact, wanted.queries)?)];
    if let Some((step, factor)) = wanted.reach(calibrated, &calibrated.walk, target) {
        let cost = times(cost_among(&step.costs, wanted.queries)?, factor);
        ways.push((Engine::Graph { effort: (factor * step.setting).max(wanted.limit) }, step.recall, cost));
    }
    if let Some((step, factor)) = wanted.reach(calibrated, &calibrated.codes, target) {
        let cost = times(cost_among(&step.costs, wanted.queries)?, factor);
        ways.push((
            Engine::Codes { candidates: (factor * step.setting).max(wanted.limit) },
            step.recall,
            cost,
        ));
    }
    let best = ways.into_iter().min_by(|left, right| left.2.total_cmp(&right.2))?;
    Some((best.0, Some(best.1)))
}

#[expect(clippy::cast_precision_loss, reason = "a limit is far below 2^53")]
fn times(cost: f64, factor: usize) -> f64 {
    cost * factor as f64
}

/// The effort of a walk that finds `target` of the exact answers, and the recall it was measured to have.
pub(crate) fn least_effort(
    calibration: &Calibration,
    wanted: Wanted<'_>,
    target: f64,
) -> Option<(usize, f64)> {
    let calibrated = wanted.measured(calibration)?;
    let (step, factor) = wanted.reach(calibrated, &calibrated.walk, target)?;
    Some((factor * step.setting, step.recall))
}

/// The candidates of a scan of codes that finds `target` of the exact answers, if one does.
pub(crate) fn candidates(calibration: &Calibration, wanted: Wanted<'_>, target: f64) -> Option<usize> {
    let calibrated = wanted.measured(calibration)?;
    let (step, factor) = wanted.reach(calibrated, &calibrated.codes, target)?;
    Some(factor * step.setting)
}
