//! Plans as text.

use dehub_query::{QueryError, Ranking, Search, Settings, plan};
use dehub_vector::Metric;

use crate::Bed;

fn settings(limit: usize, correction: Option<&str>, search: Search) -> Settings {
    let ranking = correction.map_or(Ranking::Raw, Ranking::corrected);
    Settings { limit: Some(limit), ranking, search, ..Settings::default() }
}

#[test]
fn a_plan_reads_as_what_will_be_done() {
    let small = Bed::random(Metric::Cosine, false);
    small.fit(&["IS(beta=20)", "DIS(beta=20,k=1)"]);
    let graph = Bed::random(Metric::Cosine, true);
    graph.fit(&["IS(beta=20)"]);
    let cases = [
        (
            &small,
            settings(10, None, Search::Auto),
            1,
            "exact scan of 300 points (the collection has no graph) > rank by raw similarity > best 10 of 1 queries",
        ),
        (
            &small,
            settings(5, Some("DIS(beta=20,k=1)"), Search::Exact),
            2,
            "exact scan of 300 points (exact search was asked for) > gate on the raw best > rank by DIS(beta=20,k=1) \
             (DIS(beta=20,k=1)@1, alpha 1) > best 5 of 2 queries",
        ),
        (
            &graph,
            settings(5, Some("IS(beta=20)"), Search::Auto),
            1,
            "graph walk, effort 128, of 300 points > rank by IS(beta=20) (IS(beta=20)@1, alpha 1) > best 5 of 1 queries",
        ),
        (
            &graph,
            settings(50, None, Search::Graph { effort: 7 }),
            1,
            "graph walk, effort 50, of 300 points > rank by raw similarity > best 50 of 1 queries",
        ),
        (
            &graph,
            settings(5, None, Search::Auto),
            64,
            "exact scan of 300 points (one pass serves the whole batch) > rank by raw similarity > best 5 of 64 queries",
        ),
    ];
    for (bed, settings, queries, wanted) in cases {
        let found = plan(&bed.collection.snapshot(), &settings, queries).expect("a plan");
        assert_eq!(found.to_string(), wanted);
    }
}

#[test]
fn a_weight_of_zero_plans_a_raw_search() {
    let bed = Bed::random(Metric::Cosine, false);
    bed.fit(&["IS(beta=20)"]);
    let ranking = Ranking::Corrected { correction: "IS(beta=20)".to_owned(), weight: 0.0 };
    let settings = Settings { ranking, ..Settings::default() };
    let plan = plan(&bed.collection.snapshot(), &settings, 1).expect("a plan");
    assert_eq!((plan.correction, plan.gated), (None, false));
}

#[test]
fn what_cannot_be_planned_is_refused_by_name() {
    let bed = Bed::random(Metric::Cosine, true);
    let snapshot = bed.collection.snapshot();
    let refusal = |settings: &Settings| plan(&snapshot, settings, 1).expect_err("no plan");
    let missing = settings(5, Some("IS"), Search::Auto);
    assert_eq!(
        refusal(&missing).to_string(),
        "there is no correction `IS`; the collection has: none; fit one first"
    );
    assert!(matches!(refusal(&settings(0, None, Search::Auto)), QueryError::Limit { found: 0 }));
    let more = plan(&snapshot, &settings(301, None, Search::Auto), 1).expect("a plan");
    assert_eq!(more.limit, 300, "there are no more points");
    assert!(matches!(refusal(&settings(1, None, Search::Graph { effort: 0 })), QueryError::Effort));
}
