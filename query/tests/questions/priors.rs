//! Priors in a query: every way of searching, filtered and explained, gives the formula's order.

use std::sync::Arc;

use dehub_index::Snapshot;
use dehub_query::{
    Condition, Filter, PRIOR_WEIGHT_MAX, Query, QueryError, Ranking, Search, Settings, Source, explain, plan,
    run,
};
use dehub_vector::{Metric, PointId};

use crate::{Bed, name, numbers};

const WEIGHT: f32 = 0.3;

/// A bed with a prior for every second point.
fn bed(metric: Metric, with_graph: bool) -> Bed {
    let bed = Bed::random(metric, with_graph);
    bed.fit(&["IS(beta=20)", "DIS(beta=20,k=1)", "NICDM(k=5)", "GC(k=3)"]);
    let values: Vec<(PointId, f32)> =
        numbers(5, 150).into_iter().zip(0..).map(|(value, id)| (PointId::Number(2 * id), value)).collect();
    bed.collection.set_prior(&name("p"), &values).expect("good values");
    bed.collection.build_graph_if_due().expect("a graph");
    bed
}

fn asked(correction: Option<&str>, search: Search, filter: Option<Arc<Filter>>) -> Query {
    let ranking = correction.map_or(Ranking::Raw, Ranking::corrected);
    let priors = vec![("p".to_owned(), WEIGHT)];
    let settings = Settings { limit: Some(10), ranking, search, priors, filter };
    Query { source: Source::Vector(numbers(9, 8).into()), settings }
}

/// The rows by the parts of the formula in f64, of those that are allowed.
fn order(snapshot: &Snapshot, query: &Query, is_allowed: impl Fn(u32) -> bool) -> Vec<(u32, f64)> {
    let Settings { ranking, .. } = &query.settings;
    let everything = Settings {
        limit: Some(snapshot.len()),
        ranking: ranking.clone(),
        search: Search::Exact,
        ..Settings::default()
    };
    let without = run(snapshot, &[Query { source: query.source.clone(), settings: everything }]);
    let prior = snapshot.prior("p").expect("it is there");
    let mut scored: Vec<(u32, f64)> = without.expect("an answer")[0]
        .hits
        .iter()
        .filter(|hit| is_allowed(hit.row))
        .map(|hit| {
            let (scale, bias) = (hit.scale.expect("affine"), hit.bias.expect("affine"));
            let own = f64::from(scale) * f64::from(hit.raw_score) - f64::from(bias);
            (hit.row, own + f64::from(WEIGHT) * f64::from(prior.value(hit.row).unwrap_or(0.0)))
        })
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored
}

#[test]
fn every_way_of_searching_ranks_by_the_sum() {
    for metric in [Metric::Cosine, Metric::Euclidean] {
        let bed = bed(metric, true);
        let snapshot = bed.collection.snapshot();
        let left_out = (0..300).step_by(3).map(PointId::Number).collect();
        let filter = Arc::new(Filter { must_not: vec![Condition::HasId(left_out)], ..Filter::default() });
        let searches =
            [Search::Exact, Search::Graph { effort: 300 }, Search::Codes { candidates: 300 }, Search::Auto];
        for correction in [None, Some("IS(beta=20)"), Some("DIS(beta=20,k=1)"), Some("NICDM(k=5)")] {
            for search in searches {
                for filter in [None, Some(Arc::clone(&filter))] {
                    let is_allowed = |row: u32| filter.is_none() || !row.is_multiple_of(3);
                    let query = asked(correction, search, filter.clone());
                    let wanted = order(&snapshot, &query, is_allowed);
                    let found = run(&snapshot, &[query]).expect("an answer").remove(0);
                    assert_eq!(found.hits.len(), 10);
                    for (hit, (row, score)) in found.hits.iter().zip(&wanted) {
                        assert!(
                            (f64::from(hit.score) - score).abs() < 1e-5,
                            "{search:?}: {hit:?} {row} {score}"
                        );
                        let (scale, bias) = (hit.scale.expect("affine"), hit.bias.expect("affine"));
                        let parts = scale * hit.raw_score - bias + hit.boost.expect("asked for");
                        assert!((parts - hit.score).abs() < 1e-5, "{hit:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_closed_gate_leaves_the_priors() {
    let bed = bed(Metric::Cosine, false);
    let snapshot = bed.collection.snapshot();
    let mut seen = [false; 2];
    for seed in 100..160 {
        let source = Source::Vector(numbers(seed, 8).into());
        let ask = |correction| {
            let query = Query { source: source.clone(), ..asked(correction, Search::Exact, None) };
            run(&snapshot, &[query]).expect("an answer").remove(0)
        };
        let (gated, raw) = (ask(Some("DIS(beta=20,k=1)")), ask(None));
        let is_open = gated.gate_open.expect("it is gated");
        seen[usize::from(is_open)] = true;
        assert!(gated.hits.iter().any(|hit| hit.boost != Some(0.0)));
        if !is_open {
            assert_eq!(gated.hits, raw.hits);
        }
    }
    assert_eq!(seen, [true; 2], "both kinds of queries were met");
}

#[test]
fn an_explanation_names_what_each_prior_adds_beside_an_answer_without_any() {
    let bed = bed(Metric::Euclidean, false);
    bed.collection.set_prior(&name("q"), &[(PointId::Number(4), 9.0)]).expect("good values");
    let snapshot = bed.collection.snapshot();
    let mut query = asked(Some("IS(beta=20)"), Search::Exact, None);
    query.settings.priors.push(("q".to_owned(), 2.0));
    let explanation = explain(&snapshot, &query).expect("an explanation");
    assert!(explanation.raw.hits.iter().all(|hit| hit.boost.is_none() && hit.bias == Some(0.0)));
    assert_eq!(explanation.corrected.hits[0].row, 4, "a value of 9 twice over puts it first");
    assert_eq!(explanation.boosts[0][1], 18.0);
    for (hit, boosts) in explanation.corrected.hits.iter().zip(&explanation.boosts) {
        assert_eq!(boosts.len(), 2);
        assert!((boosts.iter().sum::<f32>() - hit.boost.expect("asked for")).abs() < 1e-6);
    }
    let told = explanation.corrected.plan.to_string();
    assert!(told.contains("+ 0.3 p + 2 q"), "{told}");
}

#[test]
fn what_cannot_be_added_is_refused_by_name() {
    let bed = bed(Metric::Cosine, false);
    let snapshot = bed.collection.snapshot();
    let refusal = |correction: Option<&str>, prior: &str, weight: f32| {
        let mut query = asked(correction, Search::Exact, None);
        query.settings.priors = vec![(prior.to_owned(), weight)];
        plan(&snapshot, &query.settings, 1).expect_err("refused");
        run(&snapshot, &[query]).expect_err("refused")
    };
    assert!(
        matches!(refusal(Some("GC(k=3)"), "p", 0.5), QueryError::NoPriors { method } if method == "GC(k=3)")
    );
    assert!(matches!(refusal(None, "x", 0.5), QueryError::UnknownPrior { found, .. } if found == "p"));
    for bad in [f32::NAN, f32::NEG_INFINITY, 2.0 * PRIOR_WEIGHT_MAX] {
        assert!(matches!(refusal(None, "p", bad), QueryError::PriorWeight { .. }));
    }
}
