//! How a query will be answered: a pure function of the query and the snapshot, printable as text.

use std::fmt;

use dehub_index::{Calibration, Correction, Scope, Snapshot};
use dehub_normalize::Scorer;

use crate::QueryError;
use crate::calibrate::{Wanted, candidates, cheapest, least_effort};
use crate::query::{RECALL_DEFAULT, Ranking, Search, Settings};

/// The effort of a walk whose query names none, where no calibration tells it. On the bundled data it finds
/// 0.98 or more of the exact corrected top ten.
const EFFORT_DEFAULT: usize = 128;

/// From this many queries on a batch is scanned exactly, where no calibration tells what that costs: one pass of
/// matrix products over the gallery serves them all, where a walk serves one.
const EXACT_FROM_QUERIES: usize = 64;

/// A batch is scanned only if the gallery has at most this many points. In the bench `search`, scanning
/// 10,000 × 384 for 256 queries takes a quarter of the time of as many walks at effort 64, and a scan
/// grows with the gallery where a walk hardly does.
const EXACT_POINTS_MAX: usize = 40_000;

/// Why a filtered search scans rather than walks.
const FEW: &str = "scoring so few costs less than a walk";

/// What one node of a filtered beam costs a walk for each point that is not allowed beside one that is, in points
/// scored one by one: in the bench `filters`, 80 ns for a point and 1.4 µs or, by reduced codes, 0.7 µs for a node.
const BEAM_COST: usize = 18;
const BEAM_COST_CODES: usize = 9;

/// Points whose codes are compared in the time that one is scored, and what it takes beside to score the best of them.
const CODES_EACH: usize = 4;
const CODES_START: usize = 250;

/// Candidates of a scan of codes where no calibration tells.
const CANDIDATES_DEFAULT: usize = 64;

/// The least nodes of a filtered beam for each hit, if the effort has as many.
const FILTERED_BEAM: usize = 4;

/// How candidates are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Every point is scored.
    Exact {
        /// Why.
        reason: &'static str,
    },
    /// The graph is walked.
    Graph {
        /// The beam's width: with a filter less than what was asked for, see [`Search::Graph`].
        effort: usize,
    },
    /// All codes are scanned, and the best scored in full.
    Codes {
        /// How many are.
        candidates: usize,
    },
}

/// How one query, or a batch with the same settings, will be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// How candidates are found.
    pub engine: Engine,
    /// The recall that a calibration says this has; `None` if it says nothing of it.
    pub recall: Option<f64>,
    /// How many hits.
    pub limit: usize,
    /// How many queries are answered together.
    pub queries: usize,
    /// How many points there are.
    pub points: usize,
    /// How many of them may be answers; `None` if all may.
    pub allowed: Option<usize>,
    /// The correction, as `name@version`, its method and the factor on its bias.
    pub correction: Option<(String, String, f32)>,
    /// The priors that are added, each with its weight.
    pub priors: Vec<(String, f32)>,
    /// Whether the raw best point decides the weights.
    pub gated: bool,
    /// For a correction whose score is no weighted sum: how points are found that are ranked by it.
    pub stage: Option<Stage>,
}

/// How points are found that a score ranks which is no weighted sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// All of them are scored.
    All,
    /// By walks at one level of rank after another.
    ThresholdSweep {
        /// Candidates of each walk.
        depth: usize,
    },
    /// By walks with a weight that is the worst ratio found before.
    Dinkelbach {
        /// Candidates of each walk.
        depth: usize,
    },
    /// By one walk that ranks by another method.
    Rerank {
        /// The method.
        by: &'static str,
        /// Candidates of the walk.
        depth: usize,
    },
}

impl Stage {
    fn of(correction: &Correction, engine: Engine, limit: usize) -> Option<Stage> {
        let scorer = correction.scorer()?;
        let depth = correction.info().method.depth(limit);
        Some(match (engine, scorer) {
            (Engine::Exact { .. } | Engine::Codes { .. }, _) => Stage::All,
            (Engine::Graph { .. }, Scorer::BankRank) => Stage::ThresholdSweep { depth },
            (Engine::Graph { .. }, Scorer::RatioMargin { .. }) => Stage::Dinkelbach { depth },
            (Engine::Graph { .. }, Scorer::MutualProximity) => Stage::Rerank { by: "ZScore", depth },
            (Engine::Graph { .. }, Scorer::DualSoftmax { .. }) => Stage::Rerank { by: "IS", depth },
        })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::All => f.write_str("score each"),
            Stage::ThresholdSweep { depth } => {
                write!(f, "threshold sweep, {depth} candidates a walk > rerank")
            }
            Stage::Dinkelbach { depth } => {
                write!(f, "Dinkelbach iteration, {depth} candidates a walk > rerank")
            }
            Stage::Rerank { by, depth } => write!(f, "{depth} candidates by {by} > rerank"),
        }
    }
}

/// Plans `queries` queries with the same settings.
pub fn plan(snapshot: &Snapshot, settings: &Settings, queries: usize) -> Result<Plan, QueryError> {
    settings.check(snapshot)?;
    plan_within(snapshot, &settings.scope(snapshot, &snapshot.scope())?, settings, queries)
}

/// The same where the scope has the points that may be answers, for settings that are checked.
pub(crate) fn plan_within(
    snapshot: &Snapshot,
    scope: &Scope,
    settings: &Settings,
    queries: usize,
) -> Result<Plan, QueryError> {
    let limit = settings.limit_on(snapshot);
    let found = settings.ranking.find(snapshot)?;
    settings.boosts(snapshot, found)?;
    let describe = |(correction, weight): (&Correction, f32)| {
        let info = correction.info();
        (format!("{}@{}", info.name, info.version), info.method.to_string(), weight)
    };
    let points = snapshot.len();
    let allowed = (settings.filter.is_some() || scope.len() < points).then_some(scope.len());
    let is_sum = found.is_none_or(|(correction, _)| correction.scorer().is_none());
    let has_codes = is_sum && snapshot.can_scan_codes();
    let size = Size { has_graph: snapshot.has_graph(), has_codes, points, allowed, queries, limit };
    let description = found.map(describe);
    let correction = description.as_ref().map(|(name, ..)| name.as_str());
    let wanted = Wanted { correction, limit, queries };
    // Figures of another graph tell nothing of this one.
    let calibration = snapshot.calibration().filter(|_| !snapshot.is_calibration_due());
    let (engine, recall) = engine(size, settings.search, calibration, wanted);
    // What was measured without priors says of a ranking with them how to begin, and not what it finds.
    let is_known = settings.priors.is_empty() || matches!(engine, Engine::Exact { .. });
    let recall = recall.filter(|_| is_known);
    Ok(Plan {
        engine,
        recall,
        stage: found.and_then(|(correction, _)| Stage::of(correction, engine, limit)),
        limit,
        queries,
        points,
        allowed,
        correction: description,
        priors: settings.priors.clone(),
        gated: found.is_some_and(|(correction, _)| correction.is_gated()),
    })
}

/// What the cost of a search depends on.
#[derive(Debug, Clone, Copy)]
struct Size {
    has_graph: bool,
    /// Whether codes can be scanned for the ranking.
    has_codes: bool,
    points: usize,
    allowed: Option<usize>,
    queries: usize,
    limit: usize,
}

/// The engine, and its recall if a calibration tells.
fn engine(
    size: Size,
    search: Search,
    calibration: Option<&Calibration>,
    wanted: Wanted<'_>,
) -> (Engine, Option<f64>) {
    let scan = |reason| (Engine::Exact { reason }, Some(1.0));
    match search {
        Search::Exact => scan("exact search was asked for"),
        Search::Auto | Search::Recall { .. } | Search::Graph { .. } if !size.has_graph => {
            scan("the collection has no graph")
        }
        Search::Graph { effort } => filtered(size, effort, None, None),
        Search::Codes { .. } if !size.has_codes => scan("there are no codes to scan for this ranking"),
        Search::Codes { candidates } if size.allowed.is_some_and(|allowed| allowed <= candidates) => {
            scan(FEW)
        }
        Search::Codes { candidates } => (Engine::Codes { candidates: candidates.max(size.limit) }, None),
        Search::Recall { target: 1.0 } => scan("every answer was asked for"),
        Search::Recall { target } => by_recall(size, target, calibration, wanted),
        Search::Auto => by_recall(size, RECALL_DEFAULT, calibration, wanted),
    }
}

/// The way that costs least of those with this recall.
fn by_recall(
    size: Size,
    target: f64,
    calibration: Option<&Calibration>,
    wanted: Wanted<'_>,
) -> (Engine, Option<f64>) {
    match calibration {
        // What a filter changes was not measured: a walk is compared with scoring the allowed.
        Some(calibration) if size.allowed.is_some() => match least_effort(calibration, wanted, target) {
            Some((effort, recall)) => {
                filtered(size, effort, Some(recall), candidates(calibration, wanted, target))
            }
            None => (Engine::Exact { reason: "no walk was found to have that recall" }, Some(1.0)),
        },
        Some(calibration) => cheapest(calibration, wanted, target).unwrap_or_else(|| uncalibrated(size)),
        None => uncalibrated(size),
    }
}

fn uncalibrated(size: Size) -> (Engine, Option<f64>) {
    if size.queries >= EXACT_FROM_QUERIES && size.points <= EXACT_POINTS_MAX && size.allowed.is_none() {
        return (Engine::Exact { reason: "one pass serves the whole batch" }, Some(1.0));
    }
    filtered(size, EFFORT_DEFAULT, None, Some(CANDIDATES_DEFAULT))
}

/// A walk; where only some points may be answers, whatever costs least of that, a scan of their codes for so many
/// candidates, and scoring each of them.
fn filtered(
    size: Size,
    effort: usize,
    recall: Option<f64>,
    candidates: Option<usize>,
) -> (Engine, Option<f64>) {
    let Size { points, allowed, limit, has_codes, .. } = size;
    let Some(allowed) = allowed else { return (Engine::Graph { effort: effort.max(limit) }, recall) };
    let effort = filtered_effort(effort, allowed, points, limit);
    let beam = if has_codes { BEAM_COST_CODES } else { BEAM_COST };
    let walk = effort.saturating_mul(beam).saturating_mul(points) / allowed.max(1);
    let codes = candidates.filter(|_| has_codes).map(|candidates| {
        let engine = Engine::Codes { candidates: candidates.max(limit) };
        (engine, recall, allowed / CODES_EACH + CODES_START)
    });
    let ways = [
        Some((Engine::Exact { reason: FEW }, Some(1.0), allowed)),
        codes,
        Some((Engine::Graph { effort }, recall, walk)),
    ];
    let best = ways.into_iter().flatten().min_by_key(|way| way.2);
    best.map_or((Engine::Graph { effort }, recall), |(engine, recall, _)| (engine, recall))
}

/// The beam of a filtered walk that finds about as much as one of this effort does without a filter. All of a
/// filtered beam may be answers, and its best lie among `points / allowed` times as many. A beam of
/// `effort · allowed / points` sees the same part of the graph at the same cost, and misses more; one of `effort`
/// misses none that the other finds, and costs `points / allowed` times as much. This is half way between.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of an effort needs few digits"
)]
fn filtered_effort(effort: usize, allowed: usize, points: usize, limit: usize) -> usize {
    let share = allowed.min(points) as f64 / points.max(1) as f64;
    let scaled = (effort as f64 * share.sqrt()).ceil() as usize;
    scaled.max(effort.min(limit.saturating_mul(FILTERED_BEAM))).max(limit)
}

impl Plan {
    /// Whether every point is scored.
    pub fn is_exact(&self) -> bool {
        match self.engine {
            Engine::Exact { .. } => true,
            Engine::Graph { .. } | Engine::Codes { .. } => false,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.engine {
            Engine::Exact { .. } => f.write_str("exact scan of ")?,
            Engine::Graph { effort } => write!(f, "graph walk, effort {effort}, of ")?,
            Engine::Codes { candidates } => write!(f, "scan of codes, {candidates} candidates, of ")?,
        }
        match self.allowed {
            None => write!(f, "{} points", self.points)?,
            Some(allowed) => write!(f, "the {allowed} of {} points that the filter allows", self.points)?,
        }
        match (self.engine, self.recall) {
            (Engine::Exact { reason }, _) => write!(f, " ({reason})")?,
            (Engine::Graph { .. } | Engine::Codes { .. }, Some(recall)) => {
                write!(f, " (recall {recall:.3} when calibrated)")?;
            }
            (Engine::Graph { .. } | Engine::Codes { .. }, None) => {}
        }
        match &self.correction {
            None => write!(f, " > rank by raw similarity")?,
            Some((name, method, weight)) => {
                if self.gated {
                    write!(f, " > gate on the raw best")?;
                }
                match self.stage {
                    None => write!(f, " > rank by {method} ({name}, alpha {weight})")?,
                    Some(stage) => write!(f, " > {stage} by {method} ({name})")?,
                }
            }
        }
        for (prior, weight) in &self.priors {
            write!(f, " + {weight} {prior}")?;
        }
        write!(f, " > best {} of {} queries", self.limit, self.queries)
    }
}

impl Settings {
    /// These settings with the raw ranking, and without priors.
    pub(crate) fn raw(&self) -> Settings {
        Settings { ranking: Ranking::Raw, priors: Vec::new(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filtered_walk_is_never_wider_than_one_without_a_filter_and_falls_with_what_is_allowed() {
        for (effort, limit) in [(128, 10), (128, 100), (20, 10), (8, 30)] {
            let wide = |allowed| filtered_effort(effort, allowed, 10_000, limit);
            assert_eq!(wide(10_000), effort.max(limit));
            let efforts: Vec<usize> = (0..=10_000).step_by(100).map(wide).collect();
            assert!(efforts.is_sorted(), "{efforts:?}");
            assert!(efforts[0] >= limit && efforts[0] >= effort.min(FILTERED_BEAM * limit));
        }
    }

    #[test]
    fn few_points_are_scored_and_many_walked_with_one_crossing_between() {
        let engine = |allowed| {
            let size = Size {
                has_graph: true,
                has_codes: false,
                points: 25_000,
                allowed: Some(allowed),
                queries: 1,
                limit: 10,
            };
            let wanted = Wanted { correction: None, limit: 10, queries: 1 };
            engine(size, Search::Auto, None, wanted).0
        };
        let is_walk = |allowed: usize| engine(allowed) != Engine::Exact { reason: FEW };
        let walks: Vec<bool> = (0..=25_000).step_by(250).map(is_walk).collect();
        assert!(walks.is_sorted(), "once walked, always walked");
        assert!(!is_walk(0) && !is_walk(2500) && is_walk(12_500) && is_walk(25_000));
    }

    #[test]
    fn codes_of_the_allowed_are_scanned_where_scoring_them_costs_more_and_a_walk_too() {
        let engine = |allowed| {
            let size = Size {
                has_graph: true,
                has_codes: true,
                points: 25_000,
                allowed: Some(allowed),
                queries: 1,
                limit: 10,
            };
            filtered(size, 128, None, Some(48)).0
        };
        assert_eq!(engine(250), Engine::Exact { reason: FEW });
        assert_eq!(engine(2500), Engine::Codes { candidates: 48 });
        assert!(matches!(engine(20_000), Engine::Graph { .. }));
    }
}
