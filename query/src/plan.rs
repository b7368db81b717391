//! How a query will be answered: a pure function of the query and the snapshot, printable as text.

use std::fmt;

use dehub_index::{Correction, Snapshot};
use dehub_normalize::Scorer;

use crate::QueryError;
use crate::query::{Ranking, Search, Settings};

/// The effort of a walk whose query names none. On the bundled data it finds 0.98 or more of the
/// exact corrected top ten.
const EFFORT_DEFAULT: usize = 128;

/// From this many queries on a batch is scanned exactly: one pass of matrix products over the
/// gallery serves them all, where a walk serves one.
const EXACT_FROM_QUERIES: usize = 64;

/// A batch is scanned only if the gallery has at most this many points. In the bench `search`, scanning
/// 10,000 × 384 for 256 queries takes a quarter of the time of as many walks at effort 64, and a scan
/// grows with the gallery where a walk hardly does.
const EXACT_POINTS_MAX: usize = 40_000;

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
        /// The beam's width.
        effort: usize,
    },
}

/// How one query, or a batch with the same settings, will be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// How candidates are found.
    pub engine: Engine,
    /// How many hits.
    pub limit: usize,
    /// How many queries are answered together.
    pub queries: usize,
    /// How many points there are.
    pub points: usize,
    /// The correction, as `name@version`, its method and the factor on its bias.
    pub correction: Option<(String, String, f32)>,
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
            (Engine::Exact { .. }, _) => Stage::All,
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
    let limit = settings.limit_on(snapshot)?;
    let found = settings.ranking.find(snapshot)?;
    let describe = |(correction, weight): (&Correction, f32)| {
        let info = correction.info();
        (format!("{}@{}", info.name, info.version), info.method.to_string(), weight)
    };
    let engine = engine(snapshot.has_graph(), snapshot.len(), settings.search, queries, limit)?;
    Ok(Plan {
        engine,
        stage: found.and_then(|(correction, _)| Stage::of(correction, engine, limit)),
        limit,
        queries,
        points: snapshot.len(),
        correction: found.map(describe),
        gated: found.is_some_and(|(correction, _)| correction.is_gated()),
    })
}

fn engine(
    has_graph: bool,
    points: usize,
    search: Search,
    queries: usize,
    limit: usize,
) -> Result<Engine, QueryError> {
    let scan = |reason| Ok(Engine::Exact { reason });
    match search {
        Search::Exact => scan("exact search was asked for"),
        Search::Graph { effort: 0 } => Err(QueryError::Effort),
        Search::Auto | Search::Graph { .. } if !has_graph => scan("the collection has no graph"),
        Search::Graph { effort } => Ok(Engine::Graph { effort: effort.max(limit) }),
        Search::Auto if queries >= EXACT_FROM_QUERIES && points <= EXACT_POINTS_MAX => {
            scan("one pass serves the whole batch")
        }
        Search::Auto => Ok(Engine::Graph { effort: EFFORT_DEFAULT.max(limit) }),
    }
}

impl Plan {
    /// Whether every point is scored.
    pub fn is_exact(&self) -> bool {
        match self.engine {
            Engine::Exact { .. } => true,
            Engine::Graph { .. } => false,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.engine {
            Engine::Exact { reason } => write!(f, "exact scan of {} points ({reason})", self.points)?,
            Engine::Graph { effort } => write!(f, "graph walk, effort {effort}, of {} points", self.points)?,
        }
        match &self.correction {
            None => write!(f, " > rank by raw similarity")?,
            Some((name, method, weight)) => {
                if self.gated {
                    write!(f, " > gate on the raw best")?;
                }
                match self.stage {
                    None => write!(f, " > rank by {method} ({name}, weight {weight})")?,
                    Some(stage) => write!(f, " > {stage} by {method} ({name})")?,
                }
            }
        }
        write!(f, " > best {} of {} queries", self.limit, self.queries)
    }
}

impl Settings {
    /// These settings with the raw ranking.
    pub(crate) fn raw(&self) -> Settings {
        Settings { ranking: Ranking::Raw, ..self.clone() }
    }
}
