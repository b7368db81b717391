//! Requests for points by words, alone and beside a query by vectors.

use std::collections::HashMap;
use std::sync::Arc;

use dehub_index::{Scope, Snapshot, TextQuery, TextSearchError};

use super::{Answered, Found, Fusion, Kind, Normalization, Request};
use crate::QueryError;
use crate::query::{Ranking, Search, Settings};

/// How a query by vectors and words is fused unless told otherwise: Bruch et al. found convex combinations better than
/// reciprocal ranks within and across collections, whatever normalises the scores.
pub const HYBRID_FUSION: Fusion = Fusion::Convex { normalization: Normalization::MinMax, weights: None };

/// The constant of reciprocal ranks where these fuse the two: about what Cormack et al. found to serve many
/// collections.
pub const HYBRID_RRF_K: u32 = 60;

/// How many points a query by vectors and words fuses of each unless told otherwise; as many as are asked for, if
/// those are more.
pub const HYBRID_DEPTH_DEFAULT: usize = 100;

/// What a point scores in one field of texts, with the field's weight.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldScore {
    /// The field.
    pub field: String,
    /// Its part of the score, above 0.
    pub score: f32,
}

impl Request {
    /// The same asked by words too: a fusion of the best `depth` by this request's kind, and of the best by words.
    /// What concerns vectors (the ranking, the search, priors, prefetches) stays with the former; limit, offset,
    /// threshold and filter are the fusion's.
    pub fn with_words(self, words: TextQuery, fusion: Fusion, depth: Option<usize>) -> Request {
        let depth = depth.unwrap_or_else(|| HYBRID_DEPTH_DEFAULT.max(self.end()));
        let Request { kind, prefetch, using, settings, offset, score_threshold, left_out } = self;
        let Settings { limit, ranking, search, priors, filter } = settings;
        let settings = Settings { limit: Some(depth), ranking, search, priors, filter: None };
        let by_vectors = Request { prefetch, using, ..Request::new(kind, settings) };
        let settings = Settings { limit: Some(depth), ..Settings::default() };
        let by_words = Request::new(Kind::Text(words), settings);
        let settings = Settings { limit, filter, ..Settings::default() };
        let prefetch = vec![by_vectors, by_words];
        Request {
            prefetch,
            offset,
            score_threshold,
            left_out,
            ..Request::new(Kind::Fusion(fusion), settings)
        }
    }
}

/// Whether words can be asked for.
pub(crate) fn check(base: &Snapshot, words: &TextQuery, settings: &Settings) -> Result<(), QueryError> {
    let fields = base.text_fields().ok_or(TextSearchError::NoFields)?;
    words.check(fields).map_err(TextSearchError::from)?;
    let Settings { ranking, search, priors, limit: _, filter: _ } = settings;
    if *ranking != Ranking::Default || *search != Search::Auto || !priors.is_empty() {
        let reason = "points found by words have no correction, no priors and one way of being found";
        return Err(QueryError::Malformed { reason });
    }
    Ok(())
}

/// The best `limit` of a scope by words.
pub(crate) fn by_words(
    base: &Arc<Snapshot>,
    scope: &Scope,
    words: &TextQuery,
    limit: usize,
) -> Result<Answered, QueryError> {
    let answer = base.search_text(scope, words, limit)?;
    let hits = answer.hits.into_iter().map(|hit| Found::scored(hit.row, hit.score)).collect();
    Ok(Answered { sequence: answer.sequence.min(base.sequence()), ..Answered::listed(base, hits) })
}

/// What the score of each of the rows by words is made of, in the order in which the query asks the fields.
///
/// # Errors
/// As for a request by the words.
pub fn field_scores(
    base: &Snapshot,
    scope: &Scope,
    words: &TextQuery,
    rows: &[u32],
) -> Result<Vec<Vec<FieldScore>>, QueryError> {
    let fields = if words.fields.is_empty() {
        base.text_fields()
            .into_iter()
            .flat_map(|fields| fields.keys().map(|name| (name.clone(), 1.0)))
            .collect()
    } else {
        words.fields.clone()
    };
    let scope = scope.only(rows.to_vec());
    let place_of: HashMap<u32, usize> = rows.iter().copied().zip(0..).collect();
    let mut scores = vec![Vec::new(); rows.len()];
    for (field, weight) in fields {
        let words = TextQuery { fields: vec![(field.clone(), weight)], ..words.clone() };
        for hit in base.search_text(&scope, &words, rows.len())?.hits {
            if let Some(&place) = place_of.get(&hit.row) {
                scores[place].push(FieldScore { field: field.clone(), score: hit.score });
            }
        }
    }
    Ok(scores)
}
