//! Bodies of requests: what is asked, and where in the body it is.

use dehub_query::{Kind, Ranking, Request, Search, Settings, Source, Strategy};
use serde_json::{Map, Value};

use super::highlights::Highlighting;
use super::kinds::{self, Examples};
use super::lookup::{Elsewhere, Lookup};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, BATCH_TOO_LARGE, INVALID_VALUE, MISSING_FIELD, NOT_SUPPORTED};
use crate::filter::filter;
use crate::priors;
use crate::problem::Problem;
use crate::selectors::Selection;

/// Prefetches within each other.
const PREFETCH_DEPTH_MAX: usize = 8;

/// Prefetches of one request together: each is a search.
const PREFETCHES_MAX: usize = 64;

/// Decoded request: what the engine is asked, and what the answer is to look like.
pub(crate) struct Asked {
    pub(crate) places: Places,
    pub(crate) request: Request,
    pub(crate) selection: Selection,
    pub(crate) explain: bool,
    pub(crate) highlight: Option<Highlighting>,
}

/// Where in the body the parts of a request are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// The request itself: nowhere special, or `/searches/{place}`, or a prefetch.
    pub(crate) base: String,
    /// What to search for.
    query: String,
    /// The examples, as the engine numbers them.
    examples: Vec<String>,
    /// The name of the vector to search by.
    using: String,
    prefetch: Vec<Places>,
}

impl Places {
    /// The places of a body that has nothing to search for.
    pub(crate) fn body() -> Places {
        Places { using: "/using".to_owned(), ..Places::default() }
    }

    /// Where the name of the vector to search by is.
    pub(crate) fn using(&self) -> &str {
        &self.using
    }

    /// Where the example of this number is, or else what to search for.
    pub(crate) fn example(&self, number: usize) -> &str {
        self.examples.get(number).unwrap_or(&self.query)
    }

    /// Where what to search for is.
    pub(crate) fn query(&self) -> &str {
        &self.query
    }

    /// Follows a trail of prefetches.
    pub(crate) fn at(&self, trail: &[usize]) -> &Places {
        trail.iter().try_fold(self, |places, &place| places.prefetch.get(place)).unwrap_or(self)
    }
}

/// The form of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `{"query", "prefetch", …}`
    Query,
    /// `{"vector", …}`
    Search,
    /// `{"positive", "negative", "strategy", …}`
    Recommend,
    /// `{"target", "context", …}`
    Discover,
    /// As a query whose `query` is elsewhere: in a row of a table.
    Row,
}

/// What is known while a body is read.
pub(crate) struct Reader<'a> {
    pub(crate) elsewhere: &'a dyn Elsewhere,
    form: Form,
    /// Prefetches met so far.
    prefetches: usize,
}

/// Reads a request, and leaves the fields of others to the caller.
pub(crate) fn asked(
    elsewhere: &dyn Elsewhere,
    value: Value,
    place: Place<'_>,
    form: Form,
) -> Result<Asked, Problem> {
    let mut fields = Fields::new(value, place)?;
    let asked = part(elsewhere, &mut fields, place, form)?;
    fields.finish()?;
    Ok(asked)
}

/// Requests that have everything in common but what they search for: the rows of a table.
pub(crate) fn of_rows(
    elsewhere: &dyn Elsewhere,
    settings: Map<String, Value>,
    sources: Vec<Source>,
) -> Result<Vec<Asked>, Problem> {
    let given = asked(elsewhere, Value::Object(settings), Place::Body, Form::Row)?;
    let of_row = |(row, source): (usize, Source)| {
        let column = if matches!(source, Source::Vector(_)) { "vector" } else { "id" };
        let base = format!("/rows/{row}");
        Asked {
            places: Places { query: format!("{base}/{column}"), base, ..given.places.clone() },
            request: Request { kind: Kind::Nearest(source), ..given.request.clone() },
            selection: given.selection.clone(),
            explain: given.explain,
            highlight: given.highlight.clone(),
        }
    };
    Ok(sources.into_iter().enumerate().map(of_row).collect())
}

/// Reads the fields of a request among others.
pub(crate) fn part(
    elsewhere: &dyn Elsewhere,
    fields: &mut Fields<'_>,
    place: Place<'_>,
    form: Form,
) -> Result<Asked, Problem> {
    let mut reader = Reader { elsewhere, form, prefetches: 0 };
    let selection = Selection::read(fields, false)?;
    let offset = fields.optional("offset", decode::whole)?.unwrap_or(0);
    let highlight = match form {
        Form::Query | Form::Row => fields.optional("highlight", Highlighting::read)?.flatten(),
        Form::Search | Form::Recommend | Form::Discover => None,
    };
    let (request, places, explain) = reader.request(fields, place, (0, offset))?;
    if explain && !matches!(form, Form::Query | Form::Row) {
        let pointer = format!("{place}/hubness/explain");
        let detail = format!("`{pointer}`: this path answers with the points alone, points/query explains");
        return Err(Problem::new(NOT_SUPPORTED, detail).at(pointer));
    }
    Ok(Asked { places, request, selection, explain, highlight })
}

impl Reader<'_> {
    fn request(
        &mut self,
        fields: &mut Fields<'_>,
        place: Place<'_>,
        (depth, offset): (usize, usize),
    ) -> Result<(Request, Places, bool), Problem> {
        let mut using = using(fields)?;
        let lookup = fields.optional("lookup_from", |value, place| {
            Lookup::read(self.elsewhere, value, place, using.is_some())
        })?;
        let lookup = lookup.flatten();
        let (kind, examples) = self.kind(fields, place, lookup.as_ref(), &mut using)?;
        let left_out = lookup.map(Lookup::left_out).unwrap_or_default();
        let (using, using_place) = using.unzip();
        let prefetch = self.prefetch(fields, depth)?;
        let limit = fields.optional("limit", decode::count)?;
        let search = fields.optional("params", params)?.unwrap_or_default();
        let score_threshold = fields.optional("score_threshold", decode::number_32)?;
        let filter = fields.optional("filter", filter)?.flatten();
        refuse_shards(fields)?;
        let priors = fields.optional("priors", priors::weights)?.unwrap_or_default();
        let hubness = fields.optional("hubness", hubness)?;
        let explains_alone = matches!(hubness, Some((Ranking::Default, true)));
        let has_hubness = hubness.is_some();
        let (ranking, explain) = hubness.unwrap_or_default();
        let (prefetch, below): (Vec<Request>, Vec<Places>) = prefetch.into_iter().unzip();
        let settings = Settings { limit, ranking, search, priors, filter };
        let has_query = kind.is_some();
        let request = Request {
            prefetch,
            using,
            offset,
            score_threshold,
            left_out,
            ..Request::new(kind.unwrap_or(Kind::ById), settings)
        };
        // What is fused, or found by words, has parts to tell of without any correction.
        let has_parts = matches!(request.kind, Kind::Fusion(_) | Kind::Text(_));
        consistent(&request, place, has_query, has_hubness && !(has_parts && explains_alone))?;
        let Examples { query, examples, beside } = examples;
        let using = using_place.unwrap_or_default();
        let base = place.to_string();
        let places = Places { base, query, examples, using, prefetch: below };
        let Some(beside) = beside else { return Ok((request, places, explain)) };
        if !request.prefetch.is_empty() {
            let pointer = place.field("prefetch").to_string();
            let detail = format!("`{pointer}` has no meaning beside `hybrid`, which has searches of its own");
            return Err(Problem::new(INVALID_VALUE, detail).at(pointer));
        }
        let of_words = Places { examples: Vec::new(), ..places.clone() };
        Ok((beside.join(request), Places { prefetch: vec![places, of_words.clone()], ..of_words }, explain))
    }

    /// What to rank by; `None` if nothing is said.
    fn kind(
        &self,
        fields: &mut Fields<'_>,
        place: Place<'_>,
        lookup: Option<&Lookup>,
        using: &mut Option<(String, String)>,
    ) -> Result<(Option<Kind>, Examples), Problem> {
        let given = |(kind, examples)| (Some(kind), examples);
        match self.form {
            Form::Query => {
                let read = |value, place: Place<'_>| kinds::query(value, place, lookup);
                let found = fields.optional("query", read)?;
                Ok(found.map_or_else(Default::default, given))
            }
            Form::Search => {
                let (name, ranked) = fields.required("vector", kinds::search_vector)?;
                *using =
                    name.map(|name| (name, place.field("vector").field("name").to_string())).or(using.take());
                Ok(given(ranked))
            }
            Form::Recommend => kinds::recommend(fields, place, lookup).map(given),
            Form::Discover => kinds::discover(fields, place, lookup).map(given),
            Form::Row => Ok(given((Kind::Nearest(Source::vector(Vec::new())), Examples::default()))),
        }
    }

    fn prefetch(&mut self, fields: &mut Fields<'_>, depth: usize) -> Result<Vec<(Request, Places)>, Problem> {
        match self.form {
            Form::Query | Form::Row => {}
            Form::Search | Form::Recommend | Form::Discover => return Ok(Vec::new()),
        }
        let read = |value: Value, place: Place<'_>| {
            if value.is_object() {
                return Ok(vec![self.one_prefetch(value, place, depth)?]);
            }
            decode::list(value, place, |value, place| self.one_prefetch(value, place, depth))
        };
        Ok(fields.optional("prefetch", read)?.unwrap_or_default())
    }

    fn one_prefetch(
        &mut self,
        value: Value,
        place: Place<'_>,
        depth: usize,
    ) -> Result<(Request, Places), Problem> {
        self.prefetches += 1;
        if depth == PREFETCH_DEPTH_MAX || self.prefetches > PREFETCHES_MAX {
            let detail = format!(
                "`{place}` is one prefetch too many, wanted at most {PREFETCHES_MAX}, \
                 {PREFETCH_DEPTH_MAX} within each other"
            );
            return Err(Problem::new(BATCH_TOO_LARGE, detail).at(place));
        }
        let mut fields = Fields::new(value, place)?;
        let (request, places, explain) = self.request(&mut fields, place, (depth + 1, 0))?;
        fields.finish()?;
        if explain {
            let pointer = format!("{place}/hubness/explain");
            let detail = format!("`{pointer}`: a prefetch is not explained, only what is answered");
            return Err(Problem::new(INVALID_VALUE, detail).at(pointer));
        }
        Ok((request, places))
    }
}

/// Whether the parts of a request have a meaning together.
fn consistent(
    request: &Request,
    place: Place<'_>,
    has_query: bool,
    has_hubness: bool,
) -> Result<(), Problem> {
    let refused = |code, field: &'static str, detail: &str| {
        let pointer = place.field(field).to_string();
        Err(Problem::new(code, format!("`{pointer}`: {detail}")).at(pointer))
    };
    if !has_query && !request.prefetch.is_empty() {
        return refused(MISSING_FIELD, "query", "what prefetches find needs a query that ranks or fuses it");
    }
    let is_listed = match request.kind {
        Kind::ById | Kind::OrderBy(_) => true,
        Kind::Sample { .. }
        | Kind::Nearest(_)
        | Kind::Recommend { .. }
        | Kind::Discover { .. }
        | Kind::Context(_)
        | Kind::Feedback(_)
        | Kind::Text(_)
        | Kind::Fusion(_) => false,
    };
    if is_listed && request.score_threshold.is_some() {
        return refused(INVALID_VALUE, "score_threshold", "points that are listed have no score to compare");
    }
    let is_scored = match request.kind {
        Kind::ById | Kind::OrderBy(_) | Kind::Sample { .. } | Kind::Text(_) | Kind::Fusion(_) => false,
        Kind::Nearest(_)
        | Kind::Recommend { .. }
        | Kind::Discover { .. }
        | Kind::Context(_)
        | Kind::Feedback(_) => true,
    };
    if !is_scored && has_hubness {
        let detail = "a correction needs a query to rank by; that of a fusion is given in its prefetches";
        return refused(INVALID_VALUE, "hubness", detail);
    }
    if !is_scored && request.settings.search != Search::Auto {
        let detail =
            "points that are listed or fused are not searched for; a prefetch has `params` of its own";
        return refused(INVALID_VALUE, "params", detail);
    }
    let takes_priors = match &request.kind {
        Kind::Nearest(_) | Kind::Feedback(_) => true,
        Kind::Recommend { strategy, .. } => *strategy == Strategy::AverageVector,
        Kind::ById
        | Kind::OrderBy(_)
        | Kind::Sample { .. }
        | Kind::Text(_)
        | Kind::Fusion(_)
        | Kind::Discover { .. }
        | Kind::Context(_) => false,
    };
    if !takes_priors && !request.settings.priors.is_empty() {
        let detail = "priors need one query to add to: a vector, a point, or an average of examples";
        return refused(INVALID_VALUE, "priors", detail);
    }
    if !is_scored && request.using.is_some() {
        return refused(INVALID_VALUE, "using", "a vector is used by a query that compares vectors");
    }
    Ok(())
}

/// The named vector to search by, and where it is. No name and the empty one are the unnamed vector.
pub(crate) fn using(fields: &mut Fields<'_>) -> Result<Option<(String, String)>, Problem> {
    let read = |value, place: Place<'_>| Ok((decode::string(value, place)?, place.to_string()));
    Ok(fields.optional("using", read)?.filter(|(name, _)| !name.is_empty()))
}

/// Refuses what chooses parts of a cluster, which this is not.
fn refuse_shards(fields: &mut Fields<'_>) -> Result<(), Problem> {
    fields
        .optional("shard_key", |_, place| {
            Err::<(), _>(Problem::new(NOT_SUPPORTED, format!("`{place}`: there are no shards")).at(place))
        })
        .map(|_| ())
}

pub(crate) fn params(value: Value, place: Place<'_>) -> Result<Search, Problem> {
    let mut fields = Fields::new(value, place)?;
    let effort = fields.optional("hnsw_ef", decode::count)?;
    let exact = fields.optional("exact", decode::flag)?.unwrap_or(false);
    let recall = fields.optional("recall", decode::number)?;
    let candidates = fields.optional("candidates", decode::count)?;
    fields.optional("indexed_only", |value, place| match decode::flag(value, place)? {
        false => Ok(()),
        true => {
            let detail = format!("`{place}` is true: points in no graph are scanned, never left out");
            Err(Problem::new(NOT_SUPPORTED, detail).at(place))
        }
    })?;
    fields.finish()?;
    let ways = [
        exact.then_some(("exact", Search::Exact)),
        effort.map(|effort| ("hnsw_ef", Search::Graph { effort })),
        recall.map(|target| ("recall", Search::Recall { target })),
        candidates.map(|candidates| ("candidates", Search::Codes { candidates })),
    ];
    match ways.into_iter().flatten().collect::<Vec<_>>()[..] {
        [] => Ok(Search::Auto),
        [(_, way)] => Ok(way),
        // An exact search has no beam, as in Qdrant.
        [("exact", way), ("hnsw_ef", _)] => Ok(way),
        [(other, _), (field, _), ..] => {
            let pointer = place.field(field).to_string();
            let detail = format!("`{pointer}` has no meaning beside `{other}`: give one of the two");
            Err(Problem::new(INVALID_VALUE, detail).at(pointer))
        }
    }
}

/// The ranking, and whether to explain it.
pub(crate) fn hubness(value: Value, place: Place<'_>) -> Result<(Ranking, bool), Problem> {
    let mut fields = Fields::new(value, place)?;
    let correction = fields.optional("correction", decode::string)?;
    let alpha = fields.optional("alpha", decode::number_32)?;
    let explain = fields.optional("explain", decode::flag)?.unwrap_or(false);
    fields.finish()?;
    match (Ranking::named(correction, alpha.unwrap_or(1.0)), alpha) {
        (ranking @ (Ranking::Corrected { .. } | Ranking::Auto { .. }), _) | (ranking, None) => {
            Ok((ranking, explain))
        }
        (Ranking::Default | Ranking::Raw, Some(_)) => {
            let pointer = place.field("alpha").to_string();
            let detail =
                format!("`{pointer}` has no meaning without a correction to weigh, by its name or `auto`");
            Err(Problem::new(errors::INVALID_WEIGHT, detail).at(pointer))
        }
    }
}
