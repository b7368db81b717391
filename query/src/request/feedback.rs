//! Pseudo-relevance feedback: what is found first is taken for relevant, and the query moved towards it.

use dehub_index::{Scope, Snapshot};

use crate::QueryError;
use crate::execute::run_unlimited;
use crate::query::{LIMIT_MAX, Query, Settings, Source};

/// Answers that are taken for relevant unless told otherwise.
pub const FEEDBACK_DEPTH_DEFAULT: usize = 3;

/// A query that is asked twice: as it is, and moved towards the first answers by Rocchio's formula (1971, without
/// his term for what is not relevant) on vectors, as Li et al. have it (2021, "Pseudo-Relevance Feedback with Deep
/// Language Models and Dense Retrievers", section 3.3):
///
/// ```text
/// q' = (α·q + β·mean of the first `depth` points) / (α + β)
/// ```
///
/// The division keeps the query at the scale of the points, where distances and biases count as they are fitted.
/// Under [`dehub_vector::Metric::Cosine`] all vectors have the length 1, and `q'` is given it too. Both rounds rank
/// by the same correction, among the same points.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    /// What to search for.
    pub source: Source,
    /// How many answers are taken for relevant; fewer if fewer are found.
    pub depth: usize,
    /// How much the query counts.
    pub alpha: f32,
    /// How much the answers count.
    pub beta: f32,
}

impl Feedback {
    /// By [`FEEDBACK_DEPTH_DEFAULT`] answers, which together count half of what the query does.
    pub fn new(source: Source) -> Feedback {
        Feedback { source, depth: FEEDBACK_DEPTH_DEFAULT, alpha: 1.0, beta: 0.5 }
    }

    pub(crate) fn check(&self) -> Result<(), QueryError> {
        if !(1..=LIMIT_MAX).contains(&self.depth) {
            return Err(QueryError::Malformed { reason: "the depth of a feedback is out of range" });
        }
        let are_weights = [self.alpha, self.beta].iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if !are_weights || self.alpha + self.beta <= 0.0 {
            let reason = "alpha and beta of a feedback are numbers from 0, one of them above 0";
            return Err(QueryError::Malformed { reason });
        }
        Ok(())
    }

    /// The query of the second round. The filter of the settings is not applied: the scope is within it.
    #[expect(clippy::cast_possible_truncation, reason = "a query has 32 bits")]
    #[expect(clippy::cast_precision_loss, reason = "answers are few")]
    pub(crate) fn moved(
        &self,
        space: &Snapshot,
        scope: &Scope,
        settings: &Settings,
    ) -> Result<Vec<f32>, QueryError> {
        let settings = Settings { limit: Some(self.depth), filter: None, ..settings.clone() };
        let first = Query { source: self.source.clone(), settings };
        let query = first.prepare(0, space)?.vector;
        let found = run_unlimited(space, scope, std::slice::from_ref(&first))?;
        let rows: Vec<u32> = found.iter().flat_map(|found| found.hits.iter().map(|hit| hit.row)).collect();
        if rows.is_empty() {
            return Ok(query.as_slice().to_vec());
        }
        let (alpha, beta) = (f64::from(self.alpha), f64::from(self.beta));
        let (own, each) = (alpha / (alpha + beta), beta / (alpha + beta) / rows.len() as f64);
        let mut moved: Vec<f64> = query.as_slice().iter().map(|&part| own * f64::from(part)).collect();
        for row in rows {
            let point = space.vector(row);
            moved.iter_mut().zip(point).for_each(|(sum, &part)| *sum += each * f64::from(part));
        }
        Ok(moved.into_iter().map(|part| part as f32).collect())
    }
}
