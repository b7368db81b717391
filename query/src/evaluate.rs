//! Measures over judged queries, raw beside every correction, through the path that serves them.

use std::collections::HashMap;

use dehub_eval::{Measure, Qrels, Ranks, evaluate as evaluate_ranks, per_query};
use dehub_index::{Question, Scope, Snapshot, TimeUp};
use dehub_normalize::Occurrence;
use dehub_vector::{PointId, Vector};

use crate::hubness::{Found, PASS_QUERIES, label};
use crate::query::Ranking;
use crate::ranking::{Ranked, Rankings, rank_within};
use crate::{Filter, QueryError};

/// The depths at which hubness is measured.
const HUB_DEPTHS: [usize; 3] = [1, 5, 10];

/// A query with the id its judgements are under.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledQuery {
    /// Its id in the qrels.
    pub id: String,
    /// Its vector.
    pub vector: Vector,
    /// Its words, if it has some.
    pub text: Option<String>,
}

/// Measures of one ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalRow {
    /// `raw`, or the method's label.
    pub method: String,
    /// The correction as `name@version`; `None` for raw.
    pub correction: Option<String>,
    /// Name and value of each measure. One that no query has a value for is left out.
    pub measures: Vec<(String, f64)>,
}

/// An evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The points ranked.
    pub points: usize,
    /// The queries measured: judged and given.
    pub queries: usize,
    /// Given queries without judgements; they count for hubness only.
    pub unjudged: Vec<String>,
    /// Judged queries that were not given; they are not measured.
    pub not_given: Vec<String>,
    /// Judged ids that no point has, of those that are ranked; they count as never found.
    pub not_in_gallery: Vec<String>,
    /// One a ranking, raw first.
    pub rows: Vec<EvalRow>,
}

/// Ranks every point for every query, exactly, and measures raw and each of `rankings`.
pub fn evaluate(
    snapshot: &Snapshot,
    queries: &[LabelledQuery],
    qrels: &Qrels,
    rankings: &[Ranking],
    measures: &[Measure],
) -> Result<Evaluation, QueryError> {
    evaluate_filtered(snapshot, None, (queries, qrels), rankings, measures)
}

/// The same with the points that a filter allows for a gallery: all others are as if they were not there.
pub fn evaluate_filtered(
    snapshot: &Snapshot,
    filter: Option<&Filter>,
    (queries, qrels): (&[LabelledQuery], &Qrels),
    rankings: &[Ranking],
    measures: &[Measure],
) -> Result<Evaluation, QueryError> {
    let all = snapshot.scope();
    let scope = &filter.map_or(Ok(all.clone()), |filter| filter.within(snapshot, &all))?;
    check(scope, queries, qrels)?;
    let mut found = vec![None];
    for ranking in rankings {
        found.push(ranking.find(snapshot)?);
    }
    let truth = Truth::find(snapshot, scope, queries, qrels, measures)?;
    let tables: Vec<Rankings<'_>> = found.iter().map(|&found| Rankings::new(found)).collect();
    let deepest = HUB_DEPTHS.into_iter().max().unwrap_or(1);
    let tallies = rank_all((snapshot, scope), queries, &truth, &tables, deepest)?;
    let rows = found.iter().zip(tallies).map(|(&found, tally)| {
        let info = found.map(|(correction, _)| correction.info());
        let correction = info.map(|info| format!("{}@{}", info.name, info.version));
        EvalRow {
            method: label(found),
            correction,
            measures: tally.measure(scope, queries, qrels, &truth, measures),
        }
    });
    let rows = rows.collect();
    let given = |id: &&str| queries.iter().any(|query| query.id == **id);
    Ok(Evaluation {
        points: scope.len(),
        queries: queries.iter().filter(|query| qrels.contains(&query.id)).count(),
        unjudged: queries
            .iter()
            .filter(|query| !qrels.contains(&query.id))
            .map(|query| query.id.clone())
            .collect(),
        not_given: qrels.queries().filter(|id| !given(id)).map(str::to_owned).collect(),
        not_in_gallery: truth.not_in_gallery,
        rows,
    })
}

pub(crate) fn check(scope: &Scope, queries: &[LabelledQuery], qrels: &Qrels) -> Result<(), QueryError> {
    if scope.is_empty() {
        return Err(QueryError::NoPoints);
    }
    if !queries.iter().any(|query| qrels.contains(&query.id)) {
        return Err(QueryError::NoQueries(" that the qrels judge: are the ids of both the same?"));
    }
    Ok(())
}

/// What one ranking did, query by query.
pub(crate) struct QueryValues {
    /// The rows of the best points of each query.
    pub(crate) lists: Vec<Vec<u32>>,
    /// The value of the measure for each judged query it has one for, in the order of the queries.
    pub(crate) values: Vec<f64>,
}

/// Ranks every point for every query, exactly, and measures each query under each ranking. Lists have
/// `deepest` rows, or all points if they are fewer.
pub(crate) fn query_values(
    snapshot: &Snapshot,
    queries: &[LabelledQuery],
    qrels: &Qrels,
    found: &[Found<'_>],
    measure: Measure,
    deepest: usize,
) -> Result<Vec<QueryValues>, QueryError> {
    let scope = &snapshot.scope();
    check(scope, queries, qrels)?;
    let truth = Truth::find(snapshot, scope, queries, qrels, &[measure])?;
    let tables: Vec<Rankings<'_>> = found.iter().map(|&found| Rankings::new(found)).collect();
    let tallies = rank_all((snapshot, scope), queries, &truth, &tables, deepest)?;
    let values = |tally: Tally| {
        let ranks = tally.ranks(scope, queries, qrels, &truth);
        let values = ranks.iter().filter_map(|ranks| per_query(ranks, measure)).collect();
        QueryValues { lists: tally.lists, values }
    };
    Ok(tallies.into_iter().map(values).collect())
}

/// The rows and relevances of each query's judged points.
pub(crate) struct Truth {
    pub(crate) rows: Vec<Vec<u32>>,
    pub(crate) queries: Vec<QueryTruth>,
    pub(crate) not_in_gallery: Vec<String>,
}

/// The relevances of a query's judged points: of those relevant, whose rows come first, and of the others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryTruth {
    /// The gains of relevant points.
    pub gains: Vec<u32>,
    /// The gains of relevant points that are not ranked, and count as never found.
    pub missing_gains: Vec<u32>,
    /// The relevances of points judged not relevant, where measures look at them.
    pub not_relevant: Vec<i32>,
    /// Those of such points that are not ranked.
    pub missing_not_relevant: Vec<i32>,
}

impl Truth {
    pub(crate) fn find(
        snapshot: &Snapshot,
        scope: &Scope,
        queries: &[LabelledQuery],
        qrels: &Qrels,
        measures: &[Measure],
    ) -> Result<Truth, QueryError> {
        let find = |document: &str| -> Result<Option<u32>, QueryError> {
            Ok(find_document(snapshot, document)?.filter(|&row| scope.contains(row)))
        };
        // Those judged not relevant can be many, and are ranked only for measures that look at them.
        let needs_all = measures.iter().any(Measure::needs_not_relevant);
        let mut truth = Truth { rows: vec![], queries: vec![], not_in_gallery: vec![] };
        for query in queries {
            let (mut rows, mut judged) = (Vec::new(), QueryTruth::default());
            for (document, gain) in qrels.relevant(&query.id) {
                match find(document)? {
                    Some(row) => {
                        rows.push(row);
                        judged.gains.push(*gain);
                    }
                    None => {
                        judged.missing_gains.push(*gain);
                        truth.not_in_gallery.push(document.clone());
                    }
                }
            }
            let others = if needs_all { qrels.not_relevant(&query.id) } else { &[] };
            for (document, relevance) in others {
                match find(document)? {
                    Some(row) => {
                        rows.push(row);
                        judged.not_relevant.push(*relevance);
                    }
                    None => judged.missing_not_relevant.push(*relevance),
                }
            }
            truth.rows.push(rows);
            truth.queries.push(judged);
        }
        Ok(truth)
    }
}

impl QueryTruth {
    /// From the rank of each point.
    pub(crate) fn ranks(&self, ranks: &[u32], gallery: u32) -> Ranks {
        let (relevant, others) = ranks.split_at(self.gains.len());
        let found = relevant.iter().copied().zip(self.gains.iter().copied()).collect();
        let others = others.iter().copied().zip(self.not_relevant.iter().copied()).collect();
        let ranks =
            Ranks::new(found, gallery).and_then(|ranks| ranks.with_missing(self.missing_gains.clone()));
        let ranks = ranks.and_then(|it| it.with_not_relevant(others, self.missing_not_relevant.clone()));
        ranks.expect("ranks of distinct live rows, gains above 0 and other relevances not")
    }
}

/// The row of a judged document. A qrels file cannot tell the string `7` from the number.
fn find_document(snapshot: &Snapshot, document: &str) -> Result<Option<u32>, QueryError> {
    let Ok(text) = PointId::text(document) else { return Ok(None) };
    if let Some(row) = snapshot.find(&text)? {
        return Ok(Some(row));
    }
    match PointId::parse(document) {
        Ok(number @ PointId::Number(_)) => Ok(snapshot.find(&number)?),
        Ok(PointId::Text(_)) | Err(_) => Ok(None),
    }
}

/// What one ranking did with every query.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) ranks: Vec<Vec<u32>>,
    pub(crate) lists: Vec<Vec<u32>>,
    pub(crate) gates: Vec<bool>,
    /// Which variant each query was ranked by; `None` where by none.
    pub(crate) variants: Vec<Option<usize>>,
}

pub(crate) fn rank_all(
    (snapshot, scope): (&Snapshot, &Scope),
    queries: &[LabelledQuery],
    truth: &Truth,
    tables: &[Rankings<'_>],
    deepest: usize,
) -> Result<Vec<Tally>, TimeUp> {
    let mut tallies: Vec<Tally> = tables.iter().map(|_| Tally::default()).collect();
    for (pass, targets) in queries.chunks(PASS_QUERIES).zip(truth.rows.chunks(PASS_QUERIES)) {
        let vectors: Vec<Vector> = pass.iter().map(|query| query.vector.clone()).collect();
        let question = Question { vectors: &vectors, limit: deepest.min(scope.len()), targets };
        for ranked in rank_within(snapshot, scope, &question, &[], tables)? {
            tallies.iter_mut().zip(ranked).for_each(|(tally, ranked)| tally.add(ranked));
        }
    }
    Ok(tallies)
}

impl Tally {
    fn add(&mut self, ranked: Ranked) {
        self.ranks.push(ranked.ranks);
        self.lists.push(ranked.best.into_iter().map(|candidate| candidate.row).collect());
        self.gates.extend(ranked.gate_open);
        self.variants.push(ranked.variant);
    }

    /// What the judged queries found, in their order.
    fn ranks(&self, scope: &Scope, queries: &[LabelledQuery], qrels: &Qrels, truth: &Truth) -> Vec<Ranks> {
        let gallery = u32::try_from(scope.len()).expect("rows are numbered by u32");
        let judged = (0..queries.len()).filter(|&place| qrels.contains(&queries[place].id));
        judged.map(|place| truth.queries[place].ranks(&self.ranks[place], gallery)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of queries are far below 2^53")]
    fn measure(
        self,
        scope: &Scope,
        queries: &[LabelledQuery],
        qrels: &Qrels,
        truth: &Truth,
        measures: &[Measure],
    ) -> Vec<(String, f64)> {
        let ranks = self.ranks(scope, queries, qrels, truth);
        let mut values: Vec<(String, f64)> =
            measures.iter().map(Measure::to_string).zip(evaluate_ranks(&ranks, measures)).collect();
        values.retain(|(_, value)| value.is_finite());
        values.extend(hub_measures(scope, &self.lists));
        if !self.gates.is_empty() {
            let open = self.gates.iter().filter(|&&open| open).count();
            values.push(("active".to_owned(), open as f64 / self.gates.len() as f64));
        }
        values
    }
}

fn hub_measures(scope: &Scope, lists: &[Vec<u32>]) -> Vec<(String, f64)> {
    let dense: HashMap<u32, u32> = scope.rows().zip(0..).collect();
    let lists: Vec<Vec<u32>> = lists.iter().map(|list| list.iter().map(|row| dense[row]).collect()).collect();
    let measure = |k: usize| {
        let occurrence = Occurrence::count(scope.len(), k, lists.iter().map(Vec::as_slice));
        [
            (format!("skew{k}"), occurrence.skewness()),
            (format!("max{k}"), f64::from(occurrence.max())),
            (format!("anti{k}"), occurrence.antihub_share()),
            (format!("RH{k}"), occurrence.robin_hood()),
        ]
    };
    HUB_DEPTHS.into_iter().flat_map(measure).collect()
}
