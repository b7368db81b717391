//! Every measure against values worked out by hand.

use dehub_eval::{Measure, Ranks, aggregate, evaluate, per_query};

/// log2(3) and log2(6), the discounts at ranks 2 and 5, from a table.
const LOG2_3: f64 = 1.584_962_500_721_156;
const LOG2_6: f64 = 2.584_962_500_721_156;

fn measure(name: &str) -> Measure {
    name.parse().expect("the test spells its measures right")
}

/// Reads `n=10 2:1 5:3 missing:2`: the gallery, `rank:gain` pairs, gains of missing documents.
fn ranks(text: &str) -> Ranks {
    let (mut gallery, mut found, mut missing) = (0, Vec::new(), Vec::new());
    let number = |text: &str| text.parse::<u32>().expect("a number");
    for word in text.split(' ') {
        match word.split_once([':', '=']).expect("a pair") {
            ("n", items) => gallery = number(items),
            ("missing", gain) => missing.push(number(gain)),
            (rank, gain) => found.push((number(rank), number(gain))),
        }
    }
    Ranks::new(found, gallery).and_then(|ranks| ranks.with_missing(missing)).expect("valid ranks")
}

#[track_caller]
fn close(found: f64, wanted: f64, of: &str) {
    assert!((found - wanted).abs() < 1e-12, "{of}: wanted {wanted}, found {found}");
}

#[track_caller]
fn check(query: &str, wanted: &[(&str, f64)]) {
    for &(name, wanted) in wanted {
        let found = per_query(&ranks(query), measure(name)).expect("a value");
        close(found, wanted, &format!("{name} of {query}"));
    }
}

#[test]
fn one_relevant_document_gives_the_closed_forms() {
    check(
        "n=5 3:1",
        &[
            ("Success@2", 0.0),
            ("Success@3", 1.0),
            ("MdR", 3.0),
            ("MnR", 3.0),
            ("RR@2", 0.0),
            ("RR@3", 1.0 / 3.0),
            ("nDCG@2", 0.0),
            ("nDCG@3", 0.5),
            ("AUC", 0.5),
        ],
    );
}

#[test]
fn several_relevant_documents_with_graded_gains_are_weighed_by_gain_and_rank() {
    let ideal = 3.0 + 1.0 / LOG2_3;
    check(
        "n=10 5:3 2:1",
        &[
            ("Success@1", 0.0),
            ("Success@2", 1.0),
            ("MdR", 2.0),
            ("MnR", 2.0),
            ("RR@10", 0.5),
            ("RR@1", 0.0),
            ("nDCG@1", 0.0),
            ("nDCG@2", 1.0 / LOG2_3 / ideal),
            ("nDCG@4", 1.0 / LOG2_3 / ideal),
            ("nDCG@5", (1.0 / LOG2_3 + 3.0 / LOG2_6) / ideal),
            ("nDCG@10", 0.493_396_539_416_092_4),
            // One irrelevant document before the first, three before the second, of 2 × 8 pairs.
            ("AUC", 1.0 - 4.0 / 16.0),
        ],
    );
}

#[test]
fn the_best_ranking_within_a_cut_holds_the_largest_gains_only() {
    check(
        "n=9 1:1 2:3 3:2",
        &[("nDCG@1", 1.0 / 3.0), ("nDCG@2", (1.0 + 3.0 / LOG2_3) / (3.0 + 2.0 / LOG2_3))],
    );
}

#[test]
fn a_cut_beyond_the_gallery_takes_the_whole_gallery() {
    check("n=3 3:4", &[("Success@4294967295", 1.0), ("RR@4294967295", 1.0 / 3.0), ("nDCG@4294967295", 0.5)]);
}

#[test]
fn a_missing_document_stays_in_the_ideal_and_loses_all_its_pairs() {
    let ideal = 2.0 + 1.0 / LOG2_3;
    check(
        "n=5 1:1 missing:2",
        &[
            ("Success@1", 1.0),
            ("MdR", 1.0),
            ("RR@10", 1.0),
            ("nDCG@10", 1.0 / ideal),
            ("nDCG@1", 0.5),
            ("AUC", 0.5),
        ],
    );
}

#[test]
fn a_query_with_nothing_found_counts_as_the_worst() {
    let worst =
        [("Success@3", 0.0), ("MdR", 4.0), ("MnR", 4.0), ("RR@9", 0.0), ("nDCG@9", 0.0), ("AUC", 0.0)];
    check("n=3 missing:1", &worst);
    check("n=3", &worst);
    check("n=4294967295", &[("MdR", 4_294_967_296.0), ("AUC", 0.0)]);
}

#[test]
fn auc_leaves_out_a_query_whose_whole_gallery_is_relevant() {
    assert_eq!(per_query(&ranks("n=2 1:1 2:1"), measure("AUC")), None);
    assert_eq!(per_query(&ranks("n=2 1:1 2:1 missing:1"), measure("AUC")), None);
    assert_eq!(evaluate(&[ranks("n=2 1:1 2:1"), ranks("n=3 2:1")], &[measure("AUC")]), [0.5]);
}

#[test]
fn the_median_rank_of_an_even_number_of_queries_is_the_mean_of_the_middle_two() {
    let queries = ["n=9 7:1", "n=9 1:1", "n=9 4:1 5:1", "n=9 missing:1"].map(ranks);
    assert_eq!(evaluate(&queries[..3], &[measure("MdR"), measure("MnR")]), [4.0, 4.0]);
    assert_eq!(evaluate(&queries, &[measure("MdR"), measure("MnR")]), [5.5, 5.5]);
    assert_eq!(evaluate(&queries[..1], &[measure("MdR")]), [7.0]);
    let skewed = ["n=99 1:1", "n=99 2:1", "n=99 90:1"].map(ranks);
    assert_eq!(evaluate(&skewed, &[measure("MdR"), measure("MnR")]), [2.0, 31.0]);
}

#[test]
fn the_default_table_of_a_small_set_is_what_paper_and_pencil_give() {
    let queries = ["n=21 1:1", "n=21 6:1", "n=21 2:1", "n=21 21:1"].map(ranks);
    let values = evaluate(&queries, &Measure::default_table());
    let log2_7 = 2.807_354_922_057_604;
    let wanted = [
        0.25,
        0.5,
        0.75,
        4.0,
        (1.0 + 1.0 / 6.0 + 0.5) / 4.0,
        (1.0 + 1.0 / log2_7 + 1.0 / LOG2_3) / 4.0,
        (1.0 + 0.75 + 0.95 + 0.0) / 4.0,
    ];
    for ((value, wanted), measure) in values.iter().zip(wanted).zip(Measure::default_table()) {
        close(*value, wanted, &measure.to_string());
    }
}

#[test]
fn values_come_in_the_order_of_the_measures_and_repeat_with_them() {
    let query = [ranks("n=9 2:1")];
    let names = ["MdR", "R@1", "RR@2", "MdR"].map(measure);
    assert_eq!(evaluate(&query, &names), [2.0, 0.0, 0.5, 2.0]);
    assert!(evaluate(&query, &[]).is_empty());
}

#[test]
fn a_measure_without_a_single_value_is_none_and_nan_in_a_table() {
    assert_eq!(aggregate(vec![], measure("AUC")), None);
    assert!(evaluate(&[], &Measure::default_table()).iter().all(|value| value.is_nan()));
    assert!(evaluate(&[ranks("n=1 1:1")], &[measure("AUC")])[0].is_nan());
}
