//! Explanations of what has no correction of its own: fusions, and points found by words.

use std::sync::Arc;

use dehub_index::{Scope, Snapshot, TextQuery};
use dehub_query::{Answered, FieldScore, Fused, Kind, field_scores};

use super::body::Asked;
use super::reply::{ExplainReply, HitReply, PartReply, SourceReply, by_field};
use crate::errors;
use crate::problem::Problem;

/// Tells of each hit what its score is made of, and how the answer was found.
pub(super) fn tell(
    snapshot: &Arc<Snapshot>,
    scope: &Scope,
    asked: &Asked,
    answered: &Answered,
    hits: &mut [HitReply],
) -> Result<ExplainReply, Problem> {
    let rows: Vec<u32> = answered.hits.iter().map(|hit| hit.row).collect();
    let of_words = |words: &TextQuery| {
        let scores = field_scores(snapshot, scope, words, &rows);
        scores.map_err(|error| errors::query(&error, &asked.places))
    };
    let mut explained = ExplainReply {
        plan: "words".to_owned(),
        raw: Vec::new(),
        raw_ranks: Vec::new(),
        boosts: Vec::new(),
        sources: Vec::new(),
        staleness: None,
    };
    if let Kind::Text(words) = &asked.request.kind {
        hits.iter_mut().zip(of_words(words)?).for_each(|(hit, scores)| hit.tell_fields(&scores));
    }
    if let Some(fused) = &answered.fused {
        let by_source = asked.request.prefetch.iter().map(|prefetch| match &prefetch.kind {
            Kind::Text(words) => of_words(words).map(Some),
            Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Nearest(_)
            | Kind::Recommend { .. }
            | Kind::Discover { .. }
            | Kind::Context(_)
            | Kind::Feedback(_)
            | Kind::Fusion(_) => Ok(None),
        });
        let by_source = by_source.collect::<Result<Vec<_>, Problem>>()?;
        tell_parts(fused, &rows, &by_source, hits);
        explained.plan = fused.to_string();
        explained.sources = fused.sources().iter().map(SourceReply::new).collect();
    }
    Ok(explained)
}

/// Tells of each hit what each source gave it; of a source of words, by fields.
fn tell_parts(
    fused: &Fused,
    rows: &[u32],
    by_source: &[Option<Vec<Vec<FieldScore>>>],
    hits: &mut [HitReply],
) {
    for (place, (hit, parts)) in hits.iter_mut().zip(fused.parts(rows)).enumerate() {
        let reply = |part: &dehub_query::Part| {
            let source = fused.sources().get(part.source)?;
            let fields = by_source.get(part.source).and_then(Option::as_ref);
            let fields = fields.and_then(|scores| scores.get(place)).map(|scores| by_field(scores));
            Some(PartReply::new(part, source, fields))
        };
        hit.tell_parts(parts.iter().filter_map(reply).collect());
    }
}
