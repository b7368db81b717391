//! What a choice is made by: queries in a body or in a bank, judged or not; and the verdict as JSON.

use dehub_index::{Name, Snapshot};
use dehub_query::{Estimate, Evidence, LabelledQuery, Qrels, TuneOptions, TuneReport, TuneRow, leaks};
use dehub_vector::{Numbers, Vector};
use serde_json::{Value, json};

use crate::banks;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, INVALID_VALUE, NO_EVIDENCE};
use crate::problem::Problem;

/// What to choose by, and how.
pub(crate) struct Given {
    vectors: Vec<Vector>,
    labelled: Option<(Vec<LabelledQuery>, Qrels)>,
    pub(crate) options: TuneOptions,
}

impl Given {
    /// Reads `queries` or `bank`, `qrels`, `seed` and `rounds`; `None` if there is nothing to choose by.
    /// A bank of queries must not be `own`, the one that is fitted from.
    pub(crate) fn read(
        fields: &mut Fields<'_>,
        snapshot: &Snapshot,
        own: Option<&Name>,
    ) -> Result<Option<Given>, Problem> {
        let default = TuneOptions::default();
        let seed = fields.optional("seed", decode::whole)?.map_or(default.seed, |seed| seed as u64);
        let rounds = fields.optional("rounds", decode::whole)?.unwrap_or(default.rounds);
        let options = TuneOptions { seed, rounds, ..default };
        let queries =
            fields.optional("queries", |value, place| decode::list(value, place, decode::numbers))?;
        let bank = fields.optional("bank", decode::name)?;
        let qrels = fields.optional("qrels", judgements)?;
        let vectors = match (queries, bank) {
            (None, None) if qrels.is_none() => return Ok(None),
            (None, None) => return Err(missing()),
            (Some(_), Some(_)) => {
                let detail = "the body has both `queries` and `bank`, wanted one of them";
                return Err(Problem::new(INVALID_VALUE, detail).at("/bank"));
            }
            (Some(queries), None) => {
                let config = snapshot.config();
                let vector = |(place, numbers): (usize, Numbers)| {
                    config.vector(&numbers).map_err(|error| errors::asked_vector(&error, place))
                };
                queries.into_iter().enumerate().map(vector).collect::<Result<Vec<_>, _>>()?
            }
            (None, Some(bank)) => {
                if own == Some(&bank) {
                    let detail = format!("`/bank` is {bank}, which is fitted from: wanted queries it lacks");
                    return Err(Problem::new(INVALID_VALUE, detail).at("/bank").found(bank));
                }
                if snapshot.bank(bank.as_str()).is_none() {
                    return Err(banks::unknown(snapshot, bank.as_str()).unprocessable().at("/bank"));
                }
                snapshot.bank_queries(&bank, usize::MAX)
            }
        };
        let labelled = qrels.map(|qrels| {
            let query = |(place, vector): (usize, &Vector)| LabelledQuery {
                id: place.to_string(),
                vector: vector.clone(),
                text: None,
            };
            (vectors.iter().enumerate().map(query).collect(), qrels)
        });
        Ok(Some(Given { vectors, labelled, options }))
    }

    /// A report as JSON. `own` is the bank fitted from.
    pub(crate) fn verdict(&self, report: &TuneReport, snapshot: &Snapshot, own: Option<&Name>) -> Value {
        let held = leaks(snapshot, &self.vectors).into_iter().find(|(bank, _)| Some(bank) == own);
        let mut value = verdict(report, &self.options);
        // What a correction does to the queries it is fitted from says little of what it does to others.
        value["queries_in_bank"] = json!(held.map_or(0, |(_, held)| held));
        value
    }

    pub(crate) fn evidence(&self) -> Evidence<'_> {
        match &self.labelled {
            None => Evidence::Unlabelled(&self.vectors),
            Some((queries, qrels)) => Evidence::Labelled { queries, qrels },
        }
    }
}

/// The refusal of a choice without queries.
pub(crate) fn missing() -> Problem {
    let detail = "there is nothing to choose by: wanted `queries`, some hundred or better some thousand vectors \
                  as users ask them, none of them in the bank, or `bank`, a bank of such queries; with `qrels` \
                  ([{query, point, relevance}], the query by its place) they are judged";
    Problem::new(NO_EVIDENCE, detail).at("/queries")
}

/// Reads `[{"query": place, "point": id, "relevance": 1}]`.
fn judgements(value: Value, place: Place<'_>) -> Result<Qrels, Problem> {
    let list = decode::list(value, place, |value, place| {
        let mut fields = Fields::new(value, place)?;
        let query = fields.required("query", decode::whole)?;
        let point = fields.required("point", decode::id)?;
        let relevance = fields.optional("relevance", decode::whole)?.unwrap_or(1);
        fields.finish()?;
        let within = i32::try_from(relevance);
        let relevance = within.map_err(|_| decode::out_of_range(place, relevance, "at most 2147483647"))?;
        Ok((query.to_string(), point.to_string(), relevance))
    })?;
    Qrels::of("qrels", &list).map_err(|error| Problem::new(INVALID_VALUE, error.to_string()).at(place))
}

fn verdict(report: &TuneReport, options: &TuneOptions) -> Value {
    let verdict = &report.verdict;
    json!({
        "pick": verdict.pick.map(|row| &report.rows[row].method),
        "best": report.rows[verdict.best].method,
        "reason": verdict.reason.to_string(),
        "queries": report.queries,
        "judged": report.judged,
        "points": report.points,
        "k": report.k,
        "seed": options.seed,
        "rounds": options.rounds,
        "raw": {
            "robin_hood": report.raw.robin_hood,
            "robin_hood_at_random": report.raw.at_random,
            "excess": estimate(report.raw.excess),
            "ndcg": report.raw.ndcg,
        },
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(row: &TuneRow) -> Value {
    json!({
        "method": row.method,
        "robin_hood": row.robin_hood,
        "removed": row.share.map(estimate),
        "ndcg": row.ndcg,
        "gain": row.gain.map(estimate),
        "finding": row.finding.to_string(),
    })
}

fn estimate(it: Estimate) -> Value {
    json!({ "value": it.value, "low": it.low, "high": it.high })
}
