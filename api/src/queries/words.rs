//! Queries by words, as bodies have them.

use dehub_index::TextQuery;
use dehub_query::{Fusion, HYBRID_FUSION, HYBRID_RRF_K, Kind, LIMIT_MAX, Normalization, Request};
use serde_json::Value;

use super::kinds::{self, Examples, Ranked};
use super::lookup::Lookup;
use crate::decode::{self, Fields, Place};
use crate::errors::{INVALID_LIMIT, INVALID_VALUE, NOT_SUPPORTED};
use crate::problem::Problem;

/// The name that a client of Qdrant gives to what makes vectors of texts, where that is the ranking by words.
const MODEL: &str = "qdrant/bm25";

/// Words beside a query by vectors.
#[derive(Debug)]
pub(crate) struct Beside {
    words: TextQuery,
    fusion: Fusion,
    depth: Option<usize>,
}

impl Beside {
    /// The request with these words.
    pub(crate) fn join(self, request: Request) -> Request {
        request.with_words(self.words, self.fusion, self.depth)
    }
}

/// Reads `text`, and `fields` with `operator` or `model`.
pub(crate) fn words(fields: &mut Fields<'_>) -> Result<TextQuery, Problem> {
    let text = fields.required("text", decode::string)?;
    let weighted = fields.optional("fields", weighted)?.unwrap_or_default();
    let all_words =
        fields.optional("operator", |value, place| match decode::string(value, place)?.as_str() {
            "or" => Ok(false),
            "and" => Ok(true),
            found => Err(decode::out_of_range(place, found, "or or and")),
        })?;
    fields.optional("model", |value, place| {
        let found = decode::string(value, place)?;
        if found.eq_ignore_ascii_case(MODEL) {
            return Ok(());
        }
        let detail = format!(
            "`{place}` is `{found}`: texts are ranked by `{MODEL}`, and no model makes vectors of them"
        );
        Err(Problem::new(NOT_SUPPORTED, detail).at(place).wanted(MODEL).found(found))
    })?;
    Ok(TextQuery { text, fields: weighted, all_words: all_words.unwrap_or(false) })
}

/// Names of fields with their weights, or without.
fn weighted(value: Value, place: Place<'_>) -> Result<Vec<(String, f32)>, Problem> {
    let Value::Object(map) = value else {
        return decode::list(value, place, |value, place| Ok((decode::string(value, place)?, 1.0)));
    };
    let weight = |(name, value): (String, Value)| {
        let weight = decode::number_32(value, place.field(&name))?;
        Ok((name, weight))
    };
    map.into_iter().map(weight).collect()
}

/// Reads an object of a query by words alone.
pub(crate) fn text(fields: &mut Fields<'_>, place: Place<'_>) -> Result<Ranked, Problem> {
    Ok((Kind::Text(words(fields)?), Examples::of(place, Vec::new())))
}

/// Reads `nearest`, what is asked of words, `fusion` and `depth`.
pub(crate) fn hybrid(
    fields: &mut Fields<'_>,
    place: Place<'_>,
    lookup: Option<&Lookup>,
) -> Result<Ranked, Problem> {
    let source = fields.required("nearest", |value, place| kinds::example(value, place, lookup))?;
    let words = words(fields)?;
    let fusion = fields.optional("fusion", fusion)?.unwrap_or(HYBRID_FUSION);
    let depth = fields.optional("depth", |value, place| {
        let found = decode::count(value, place)?;
        let in_range = (1..=LIMIT_MAX).contains(&found).then_some(found);
        in_range.ok_or_else(|| {
            let wanted = format!("1 to {LIMIT_MAX}");
            let detail = format!("`{place}` is {found}, wanted {wanted}");
            Problem::new(INVALID_LIMIT, detail).at(place).wanted(wanted).found(found)
        })
    })?;
    let examples = Examples::of(place, vec![place.field("nearest").to_string()]);
    Ok((Kind::Nearest(source), Examples { beside: Some(Beside { words, fusion, depth }), ..examples }))
}

/// The name of a fusion, or an object of one with its parameters.
fn fusion(value: Value, place: Place<'_>) -> Result<Fusion, Problem> {
    const WANTED: &str = "rrf, dbsf, minmax or distribution";
    if !value.is_object() {
        let convex = |normalization| Fusion::Convex { normalization, weights: None };
        return match decode::string(value, place)?.as_str() {
            "rrf" => Ok(Fusion::Rrf { k: HYBRID_RRF_K, weights: None }),
            "dbsf" => Ok(Fusion::Dbsf),
            "minmax" => Ok(convex(Normalization::MinMax)),
            "distribution" => Ok(convex(Normalization::Distribution)),
            found => Err(decode::out_of_range(place, found, WANTED)),
        };
    }
    let mut fields = Fields::new(value, place)?;
    let rrf = fields.optional("rrf", |value, place| kinds::rrf(value, place, HYBRID_RRF_K))?;
    let convex = fields.optional("convex", kinds::convex)?;
    let missing = fields.missing("the field `rrf` or `convex`");
    fields.finish()?;
    match (rrf, convex) {
        (Some(_), Some(_)) => {
            let pointer = place.field("convex").to_string();
            let detail = format!("`{pointer}` has no meaning beside `rrf`: lists are fused in one way");
            Err(Problem::new(INVALID_VALUE, detail).at(pointer))
        }
        (Some(fusion), None) | (None, Some(fusion)) => Ok(fusion),
        (None, None) => Err(missing),
    }
}

/// All that a request asks of words, as one query: for what is to be shown of texts.
pub(crate) fn all_words(request: &Request) -> Option<TextQuery> {
    let mut found: Option<TextQuery> = None;
    gather(request, &mut found);
    found
}

fn gather(request: &Request, found: &mut Option<TextQuery>) {
    if let Kind::Text(words) = &request.kind {
        match found {
            None => *found = Some(words.clone()),
            Some(all) => {
                all.text = format!("{} {}", all.text, words.text);
                // No field stands for every field.
                let is_every = all.fields.is_empty() || words.fields.is_empty();
                all.fields.extend(words.fields.iter().cloned());
                all.fields.retain(|_| !is_every);
            }
        }
    }
    request.prefetch.iter().for_each(|prefetch| gather(prefetch, found));
}
