//! What to rank by, as bodies have it.

use std::hash::{BuildHasher, Hasher, RandomState};

use dehub_query::{Feedback, Fusion, Kind, LIMIT_MAX, Normalization, Pair, RRF_K_DEFAULT, Source, Strategy};
use serde_json::Value;

use super::lookup::Lookup;
use super::words::{self, Beside};
use crate::decode::{self, Fields, Place};
use crate::errors::{BATCH_TOO_LARGE, INVALID_VALUE};
use crate::problem::Problem;
use crate::scroll::order_by;

/// Examples of one request: a ranking by them may score every point for each.
const EXAMPLES_MAX: usize = 1024;

/// Where what to search for is, and its examples.
#[derive(Debug, Default)]
pub(crate) struct Examples {
    pub(crate) query: String,
    pub(crate) examples: Vec<String>,
    /// Words that are to be found too.
    pub(crate) beside: Option<Beside>,
}

impl Examples {
    pub(crate) fn of(query: Place<'_>, examples: Vec<String>) -> Examples {
        Examples { query: query.to_string(), examples, beside: None }
    }
}

/// What to rank by, and where it is.
pub(crate) type Ranked = (Kind, Examples);

/// Reads `query`: a vector, an id, or an object of one kind of query.
pub(crate) fn query(value: Value, place: Place<'_>, lookup: Option<&Lookup>) -> Result<Ranked, Problem> {
    match value {
        Value::Object(_) => object(value, place, lookup),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            nearest(value, place, lookup)
        }
    }
}

fn object(value: Value, place: Place<'_>, lookup: Option<&Lookup>) -> Result<Ranked, Problem> {
    const WANTED: &str = "the field `nearest`, `recommend`, `discover`, `context`, `feedback`, `text`, `hybrid`, \
                          `fusion`, `rrf`, `convex`, `order_by` or `sample`";
    let mut fields = Fields::new(value, place)?;
    let plain = |kind| (kind, Examples::of(place, Vec::new()));
    let in_object = |read: fn(&mut Fields<'_>, Place<'_>, Option<&Lookup>) -> Result<Ranked, Problem>| {
        move |value, place: Place<'_>| {
            let mut fields = Fields::new(value, place)?;
            let ranked = read(&mut fields, place, lookup)?;
            fields.finish()?;
            Ok(ranked)
        }
    };
    let mut found: Vec<(&'static str, Ranked)> = Vec::new();
    let mut add = |name, ranked: Option<Ranked>| found.extend(ranked.map(|ranked| (name, ranked)));
    add("nearest", fields.optional("nearest", |value, own| nearest(value, own, lookup))?);
    add("recommend", fields.optional("recommend", in_object(recommend))?);
    add("discover", fields.optional("discover", in_object(discover))?);
    add(
        "context",
        fields.optional("context", |value, place| {
            let (pairs, examples) = pairs(value, place, lookup)?;
            Ok((Kind::Context(pairs), Examples::of(place, examples)))
        })?,
    );
    add("feedback", fields.optional("feedback", in_object(feedback))?);
    add("hybrid", fields.optional("hybrid", in_object(words::hybrid))?);
    if fields.has("text") {
        add("text", Some(words::text(&mut fields, place)?));
    }
    add("fusion", fields.optional("fusion", fusion)?.map(|fusion| plain(Kind::Fusion(fusion))));
    add(
        "rrf",
        fields
            .optional("rrf", |value, place| rrf(value, place, RRF_K_DEFAULT))?
            .map(|fusion| plain(Kind::Fusion(fusion))),
    );
    add("convex", fields.optional("convex", convex)?.map(|fusion| plain(Kind::Fusion(fusion))));
    add("order_by", fields.optional("order_by", order_by)?.map(|order| plain(Kind::OrderBy(order))));
    add("sample", fields.optional("sample", sample)?.map(|seed| plain(Kind::Sample { seed })));
    let missing = fields.missing(WANTED);
    // A kind of query that is not there is named rather than the one that is.
    fields.finish()?;
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (None, _) => Err(missing),
        (Some((_, ranked)), None) => Ok(ranked),
        (Some((one, _)), Some((other, _))) => {
            let pointer = place.field(other).to_string();
            let detail = format!("`{pointer}` has no meaning beside `{one}`: a query is of one kind");
            Err(Problem::new(INVALID_VALUE, detail).at(pointer))
        }
    }
}

fn nearest(value: Value, place: Place<'_>, lookup: Option<&Lookup>) -> Result<Ranked, Problem> {
    if value.get("text").is_some() {
        // A text stands for a vector only where that is one of words.
        let mut fields = Fields::new(value, place)?;
        let ranked = words::text(&mut fields, place)?;
        fields.finish()?;
        return Ok(ranked);
    }
    let source = example(value, place, lookup)?;
    Ok((Kind::Nearest(source), Examples::of(place, vec![place.to_string()])))
}

/// A vector or an id; the id of a point of another collection stands for its vector.
pub(crate) fn example(value: Value, place: Place<'_>, lookup: Option<&Lookup>) -> Result<Source, Problem> {
    match value {
        Value::Array(_) => decode::numbers(value, place).map(Source::Vector),
        Value::Number(_) | Value::String(_) => {
            let id = decode::id(value, place)?;
            lookup.map_or_else(|| Ok(Source::Point(id.clone())), |lookup| lookup.vector(&id, place))
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {
            Err(decode::wrong(place, &value, "a vector (an array of numbers) or a point's id"))
        }
    }
}

/// The vector of a search, with its name if it has one: a list, or `{"name", "vector"}`.
pub(crate) fn search_vector(value: Value, place: Place<'_>) -> Result<(Option<String>, Ranked), Problem> {
    if !value.is_object() {
        return Ok((None, nearest_vector(value, place)?));
    }
    let mut fields = Fields::new(value, place)?;
    let name = fields.required("name", decode::string)?;
    let ranked = fields.required("vector", nearest_vector)?;
    fields.finish()?;
    Ok((Some(name).filter(|name| !name.is_empty()), ranked))
}

fn nearest_vector(value: Value, place: Place<'_>) -> Result<Ranked, Problem> {
    let source = Source::Vector(decode::numbers(value, place)?);
    Ok((Kind::Nearest(source), Examples::of(place, vec![place.to_string()])))
}

/// Reads `positive`, `negative` and `strategy`.
pub(crate) fn recommend(
    fields: &mut Fields<'_>,
    place: Place<'_>,
    lookup: Option<&Lookup>,
) -> Result<Ranked, Problem> {
    let mut pointers = Vec::new();
    let mut read = |fields: &mut Fields<'_>, name| {
        let read = |value, place: Place<'_>| {
            let list = one_or_list(value);
            decode::list(list, place, |value, place| {
                pointers.push(place.to_string());
                few(pointers.len(), place)?;
                example(value, place, lookup)
            })
        };
        Ok::<_, Problem>(fields.optional(name, read)?.unwrap_or_default())
    };
    let positive = read(fields, "positive")?;
    let negative = read(fields, "negative")?;
    let strategy =
        fields.optional("strategy", |value, place| match decode::string(value, place)?.as_str() {
            "average_vector" => Ok(Strategy::AverageVector),
            "best_score" => Ok(Strategy::BestScore),
            "sum_scores" => Ok(Strategy::SumScores),
            found => Err(decode::out_of_range(place, found, "average_vector, best_score or sum_scores")),
        })?;
    let kind = Kind::Recommend { positive, negative, strategy: strategy.unwrap_or_default() };
    Ok((kind, Examples::of(place, pointers)))
}

/// Reads `target` and `context`; without a target the context alone ranks.
pub(crate) fn discover(
    fields: &mut Fields<'_>,
    place: Place<'_>,
    lookup: Option<&Lookup>,
) -> Result<Ranked, Problem> {
    let target =
        fields.optional("target", |value, place| Ok((example(value, place, lookup)?, place.to_string())))?;
    let context = fields.optional("context", |value, place| pairs(value, place, lookup))?;
    let (context, mut pointers) = context.unwrap_or_default();
    match target {
        Some((target, pointer)) => {
            pointers.insert(0, pointer);
            Ok((Kind::Discover { target, context }, Examples::of(place, pointers)))
        }
        None if context.is_empty() => Err(fields.missing("the field `target` or `context`")),
        None => Ok((Kind::Context(context), Examples::of(place, pointers))),
    }
}

/// A list of pairs, or a single one.
fn pairs(
    value: Value,
    place: Place<'_>,
    lookup: Option<&Lookup>,
) -> Result<(Vec<Pair>, Vec<String>), Problem> {
    let mut pointers = Vec::new();
    let mut pair = |value, place: Place<'_>| {
        let mut fields = Fields::new(value, place)?;
        let mut side = |name| {
            fields.required(name, |value, place| {
                pointers.push(place.to_string());
                few(pointers.len(), place)?;
                example(value, place, lookup)
            })
        };
        let pair = Pair { positive: side("positive")?, negative: side("negative")? };
        fields.finish()?;
        Ok(pair)
    };
    let pairs = if value.is_object() { vec![pair(value, place)?] } else { decode::list(value, place, pair)? };
    Ok((pairs, pointers))
}

/// An entry that is no list stands for a list of it.
fn one_or_list(value: Value) -> Value {
    match value {
        Value::Number(_) | Value::String(_) => Value::Array(vec![value]),
        other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => other,
    }
}

fn few(examples: usize, place: Place<'_>) -> Result<(), Problem> {
    if examples <= EXAMPLES_MAX {
        return Ok(());
    }
    let detail = format!("`{place}` is one example too many, wanted at most {EXAMPLES_MAX}");
    Err(Problem::new(BATCH_TOO_LARGE, detail).at(place).wanted(EXAMPLES_MAX))
}

/// Reads `nearest`, `depth`, `alpha` and `beta`.
fn feedback(fields: &mut Fields<'_>, place: Place<'_>, lookup: Option<&Lookup>) -> Result<Ranked, Problem> {
    let source = fields.required("nearest", |value, place| example(value, place, lookup))?;
    let depth = fields.optional("depth", |value, place| {
        let found = decode::count(value, place)?;
        let in_range = (1..=LIMIT_MAX).contains(&found).then_some(found);
        in_range.ok_or_else(|| decode::out_of_range(place, found, "a whole number from 1 to 65536"))
    })?;
    let alpha = fields.optional("alpha", weight)?;
    let beta = fields.optional("beta", weight)?;
    let default = Feedback::new(source);
    let feedback = Feedback {
        depth: depth.unwrap_or(default.depth),
        alpha: alpha.unwrap_or(default.alpha),
        beta: beta.unwrap_or(default.beta),
        ..default
    };
    let examples = vec![place.field("nearest").to_string()];
    Ok((Kind::Feedback(feedback), Examples::of(place, examples)))
}

fn fusion(value: Value, place: Place<'_>) -> Result<Fusion, Problem> {
    match decode::string(value, place)?.as_str() {
        "rrf" => Ok(Fusion::Rrf { k: RRF_K_DEFAULT, weights: None }),
        "dbsf" => Ok(Fusion::Dbsf),
        found => Err(decode::out_of_range(place, found, "rrf or dbsf")),
    }
}

/// Reads `k` and `weights`.
pub(crate) fn rrf(value: Value, place: Place<'_>, k_default: u32) -> Result<Fusion, Problem> {
    let mut fields = Fields::new(value, place)?;
    let k = fields.optional("k", |value, place| {
        let found = decode::count(value, place)?;
        let k = u32::try_from(found).ok().filter(|&k| k > 0);
        k.ok_or_else(|| decode::out_of_range(place, found, "a whole number from 1 to 4294967295"))
    })?;
    let weights = weights(&mut fields)?;
    fields.finish()?;
    Ok(Fusion::Rrf { k: k.unwrap_or(k_default), weights })
}

pub(crate) fn convex(value: Value, place: Place<'_>) -> Result<Fusion, Problem> {
    let mut fields = Fields::new(value, place)?;
    let normalization = fields.optional("normalization", |value, place| {
        let found = decode::string(value, place)?;
        Normalization::named(&found)
            .ok_or_else(|| decode::out_of_range(place, found, "minmax or distribution"))
    })?;
    let weights = weights(&mut fields)?;
    fields.finish()?;
    Ok(Fusion::Convex { normalization: normalization.unwrap_or_default(), weights })
}

fn weights(fields: &mut Fields<'_>) -> Result<Option<Vec<f32>>, Problem> {
    fields.optional("weights", |value, place| decode::list(value, place, weight))
}

fn weight(value: Value, place: Place<'_>) -> Result<f32, Problem> {
    let found = decode::number_32(value, place)?;
    if found >= 0.0 { Ok(found) } else { Err(decode::out_of_range(place, found, "a weight from 0")) }
}

/// The seed of a sample, which is another one each time.
fn sample(value: Value, place: Place<'_>) -> Result<u64, Problem> {
    match decode::string(value, place)?.as_str() {
        "random" => Ok(seed()),
        found => Err(decode::out_of_range(place, found, "random")),
    }
}

/// A number that nobody can tell before: the standard library keys its hashers at random.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
