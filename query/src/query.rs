//! Queries as they are asked, and checked against a snapshot.

use std::sync::Arc;

use dehub_index::{Column, Correction, ReadError, Scope, Snapshot};
use dehub_normalize::Method;
use dehub_vector::{Numbers, PointId, Vector};

use crate::ranking::Rankings;
use crate::{Filter, QueryError};

/// Hits of a query that does not say how many.
pub const LIMIT_DEFAULT: usize = 10;

/// The most hits of one query: a response is held in memory whole.
pub const LIMIT_MAX: usize = 65_536;

/// The most queries in one batch.
pub const BATCH_QUERIES_MAX: usize = 65_536;

/// The name that stands for what was chosen.
const AUTO: &str = "auto";

/// A weight above this is a mistake: 1 is the correction as fitted.
const WEIGHT_MAX: f32 = 100.0;

/// The largest size of a prior's weight.
pub const PRIOR_WEIGHT_MAX: f32 = 1e6;

/// What to search for.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A vector, or several where points have several; unchecked.
    Vector(Numbers),
    /// A stored point, which is left out of its own answer.
    Point(PointId),
}

/// What to rank by.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Ranking {
    /// The collection's default correction; raw similarity if it has none.
    #[default]
    Default,
    /// Raw similarity.
    Raw,
    /// The default correction if there is one, else a correction that is called `auto`, as a choice by measuring
    /// is, else raw similarity.
    Auto {
        /// As of a correction.
        weight: f32,
    },
    /// A fitted correction.
    Corrected {
        /// Its name.
        correction: String,
        /// A factor on its bias: 1 as fitted, 0 raw. A method without biases takes no other.
        weight: f32,
    },
}

/// The share of the exact answers that a search finds which names none.
pub const RECALL_DEFAULT: f64 = 0.99;

/// How to find candidates.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Search {
    /// With [`RECALL_DEFAULT`].
    #[default]
    Auto,
    /// In the way that costs least of those that a calibration found to have this recall; 1 is exact.
    Recall {
        /// The share of the exact answers to find, above 0, at most 1.
        target: f64,
    },
    /// Score every point.
    Exact,
    /// Walk the graph with this effort; a collection without a graph is scanned exactly.
    Graph {
        /// The beam's width, HNSW's `ef`. With a filter the beam has as many nodes as it takes to find about as
        /// much; where scoring each point that is allowed costs less, that is done.
        effort: usize,
    },
    /// Scan the codes of all points, and score so many of the best in full. Where the graph has no codes of 8 bits,
    /// or the ranking is by no weighted sum, every point is scored.
    Codes {
        /// How many; at least as many as hits.
        candidates: usize,
    },
}

/// How queries of a batch are answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// The number of hits, [`LIMIT_DEFAULT`] when not given; all points if they are fewer.
    pub limit: Option<usize>,
    /// What to rank by.
    pub ranking: Ranking,
    /// How to find candidates.
    pub search: Search,
    /// Priors that are added to every score, each with its weight: 0 leaves it out, and one below 0 demotes. A
    /// correction whose score is no weighted sum takes none.
    pub priors: Vec<(String, f32)>,
    /// Which points may be answers; all when not given. Hits are fewer than the limit if those are. Queries of
    /// a batch that have the same filter share what is made of it.
    pub filter: Option<Arc<Filter>>,
}

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// What to search for.
    pub source: Source,
    /// How.
    pub settings: Settings,
}

impl Source {
    /// A vector, or the vectors of a multi-vector.
    pub fn vector(numbers: impl Into<Numbers>) -> Source {
        Source::Vector(numbers.into())
    }
}

/// A query that passed every check.
pub(crate) struct Prepared {
    pub(crate) vector: Vector,
    /// The row of the point that was searched by.
    pub(crate) own_row: Option<u32>,
}

impl Query {
    pub(crate) fn prepare(&self, place: usize, snapshot: &Snapshot) -> Result<Prepared, QueryError> {
        snapshot.check_vectors()?;
        match &self.source {
            Source::Vector(numbers) => {
                let vector = snapshot.config().vector(numbers);
                let vector = vector.map_err(|source| QueryError::Vector { place, source })?;
                Ok(Prepared { vector, own_row: None })
            }
            Source::Point(id) => {
                let row = snapshot.find(id)?.map_or_else(|| Err(no_vector(place, id, snapshot)?), Ok)?;
                Ok(Prepared { vector: snapshot.query_of(row), own_row: Some(row) })
            }
        }
    }
}

/// What is wrong with a point to search by that has no row: there is none with the id, or it has not this vector.
fn no_vector(place: usize, id: &PointId, snapshot: &Snapshot) -> Result<QueryError, ReadError> {
    let id = id.clone();
    Ok(match snapshot.space_name() {
        Some(name) if snapshot.has_point(&id)? => QueryError::NoVector { place, id, name: name.clone() },
        Some(_) | None => QueryError::UnknownPoint { place, id },
    })
}

impl Settings {
    /// The rankings that queries may turn out to need.
    pub(crate) fn rankings<'a>(&self, snapshot: &'a Snapshot) -> Result<Rankings<'a>, QueryError> {
        let found = self.ranking.find(snapshot)?;
        Ok(Rankings::boosted(found, &self.boosts(snapshot, found)?))
    }

    /// The priors to rank by, with their weights.
    pub(crate) fn boosts<'a>(
        &self,
        snapshot: &'a Snapshot,
        found: Option<(&Correction, f32)>,
    ) -> Result<Vec<(&'a Column, f32)>, QueryError> {
        let find = |(name, weight): &(String, f32)| {
            let prior = snapshot.prior(name).ok_or_else(|| {
                let names: Vec<&str> = snapshot.priors().map(|(name, _)| name.as_str()).collect();
                let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                QueryError::UnknownPrior { prior: name.clone(), found }
            })?;
            // Not a number is not within the bound either.
            let is_within = weight.abs() <= PRIOR_WEIGHT_MAX;
            if !is_within {
                return Err(QueryError::PriorWeight { prior: name.clone(), found: *weight });
            }
            Ok((prior.column(), *weight))
        };
        let boosts = self.priors.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        match found {
            Some((correction, _)) if correction.scorer().is_some() && !boosts.is_empty() => {
                Err(QueryError::NoPriors { method: correction.info().method.to_string() })
            }
            Some(_) | None => Ok(boosts),
        }
    }

    /// The points of a scope that may be answers.
    pub(crate) fn scope(&self, snapshot: &Snapshot, scope: &Scope) -> Result<Scope, QueryError> {
        self.filter.as_ref().map_or_else(|| Ok(scope.clone()), |filter| filter.within(snapshot, scope))
    }

    /// The number of hits on this snapshot.
    pub(crate) fn limit_on(&self, snapshot: &Snapshot) -> usize {
        self.limit.unwrap_or(LIMIT_DEFAULT).min(snapshot.len())
    }

    /// Whether queries can be answered with these settings, as far as the filter does not matter.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), QueryError> {
        if let Some(found) = self.limit.filter(|limit| !(1..=LIMIT_MAX).contains(limit)) {
            return Err(QueryError::Limit { found });
        }
        self.search.check()?;
        self.ranking.find(snapshot).map(|_| ())
    }
}

impl Search {
    fn check(self) -> Result<(), QueryError> {
        match self {
            Search::Graph { effort: 0 } => Err(QueryError::Effort),
            Search::Codes { candidates: 0 } => Err(QueryError::Candidates),
            Search::Recall { target } if !(target > 0.0 && target <= 1.0) => {
                Err(QueryError::Recall { found: target })
            }
            Search::Auto
            | Search::Exact
            | Search::Recall { .. }
            | Search::Graph { .. }
            | Search::Codes { .. } => Ok(()),
        }
    }
}

impl Ranking {
    /// By a name as users give it: `none` and `raw` mean raw, no name the default, and `auto` is [`Ranking::Auto`].
    pub fn named(correction: Option<String>, weight: f32) -> Ranking {
        match correction {
            None => Ranking::Default,
            Some(name) if ["none", "raw"].iter().any(|raw| name.eq_ignore_ascii_case(raw)) => Ranking::Raw,
            Some(name) if name.eq_ignore_ascii_case(AUTO) => Ranking::Auto { weight },
            Some(correction) => Ranking::Corrected { correction, weight },
        }
    }

    /// A correction as fitted.
    pub fn corrected(correction: &str) -> Ranking {
        Ranking::Corrected { correction: correction.to_owned(), weight: 1.0 }
    }

    /// The correction and the factor on it; `None` for the raw ranking, a factor of 0 included.
    pub(crate) fn find<'a>(
        &self,
        snapshot: &'a Snapshot,
    ) -> Result<Option<(&'a Correction, f32)>, QueryError> {
        let default = || snapshot.default_correction().map(|default| default.correction.as_str());
        let (correction, weight) = match self {
            Ranking::Raw => return Ok(None),
            Ranking::Default => {
                return Ok(default().and_then(|name| snapshot.correction(name)).map(|found| (found, 1.0)));
            }
            Ranking::Auto { weight } => {
                let name = default().or_else(|| snapshot.correction(AUTO).map(|_| AUTO));
                (name, weight)
            }
            Ranking::Corrected { correction, weight } => (Some(correction.as_str()), weight),
        };
        if !(0.0..=WEIGHT_MAX).contains(weight) {
            return Err(QueryError::Weight { found: *weight });
        }
        let Some(correction) = correction else { return Ok(None) };
        // A method may be written in more ways than its label, which names the correction by default.
        let by_label = || snapshot.correction(&correction.parse::<Method>().ok()?.to_string());
        match snapshot.correction(correction).or_else(by_label) {
            Some(found) if found.scorer().is_some() && ![0.0, 1.0].contains(weight) => {
                let method = found.info().method.to_string();
                Err(QueryError::NoStrength { method, found: *weight })
            }
            Some(found) => Ok((*weight > 0.0).then_some((found, *weight))),
            None => {
                let names: Vec<_> =
                    snapshot.corrections().map(|correction| correction.info().name.as_str()).collect();
                let found =
                    if names.is_empty() { "none; fit one first".to_owned() } else { names.join(", ") };
                Err(QueryError::UnknownCorrection { correction: correction.to_owned(), found })
            }
        }
    }
}
