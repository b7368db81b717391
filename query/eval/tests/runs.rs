//! Runs: what is read, how it is ordered, and where judged documents stand in it.

use std::collections::HashSet;

use dehub_eval::{
    Gallery, Gaps, LINE_BYTES_MAX, Measure, Qrels, Roc, Run, TieOrder, evaluate, per_query, place,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn read(text: &str) -> Run {
    Run::read("r.txt", text.as_bytes()).expect(text)
}

/// Prints `q1: b=2 a=1 | q2:`.
fn print(run: &Run) -> String {
    let document = |scored: &dehub_eval::Scored| format!(" {}={}", run.document(*scored), scored.score);
    let query = |query| format!("{query}:{}", run.list(query).iter().map(document).collect::<String>());
    run.queries().map(query).collect::<Vec<_>>().join(" | ")
}

fn measure(name: &str) -> Measure {
    name.parse().expect("the test spells its measures right")
}

#[test]
fn every_form_of_a_run_is_told_by_its_content() {
    for (text, wanted) in [
        ("q1 Q0 a 1 0.5 tag\nq1 Q0 b 9 1.5 tag\nq2 Q0 a 1 -2e3 tag\n", "q1: b=1.5 a=0.5 | q2: a=-2000"),
        ("\u{feff}# made by hand\r\n\r\nq1\tQ0\ta\t1\t0.5\ttag\r\n", "q1: a=0.5"),
        ("q1 Q0 a 1 1 t\n\u{feff}q1 Q0 b 2 2 t", "q1: b=2 a=1"),
        ("07 Q0 7 1 1 t\n7 Q0 07 1 1 t\n7 Q0 7 1 inf t\n", "07: 7=1 | 7: 7=inf 07=1"),
        ("q1\ta\t1\nq1\tb\t2\n", "q1: a=-1 b=-2"),
        ("q1 b 2\nq1 a 1\n", "q1: a=-1 b=-2"),
        (
            "query-id\tcorpus-id\tscore\na query\ta document\t2\nq\td\t1.5\n",
            "a query: a document=2 | q: d=1.5",
        ),
        ("\u{feff}\n {\"q1\": {\"a\": 1, \"b\": 2.5}, \"q2\": {}}\n", "q1: b=2.5 a=1 | q2:"),
    ] {
        assert_eq!(print(&read(text)), wanted, "{text:?}");
    }
}

#[test]
fn equal_scores_are_ordered_by_id_from_the_largest_down() {
    let run = read("q Q0 a 1 1 t\nq Q0 c 2 1 t\nq Q0 b 3 1 t\nq Q0 z 4 0 t\nq Q0 10 5 -0 t\nq Q0 9 6 0 t\n");
    assert_eq!(print(&run), "q: c=1 b=1 a=1 z=0 9=0 10=0");
}

#[test]
fn what_is_refused_is_named_by_file_line_field_wanted_and_found() {
    let form = "`query Q0 document rank score tag`";
    let none = format!("r.txt: wanted at least one line {form}, found none");
    for (text, message) in [
        ("", none.clone()),
        ("\u{feff}# nothing\n", none.clone()),
        ("{}", none.clone()),
        ("query-id\tcorpus-id\tscore\n", none),
        ("q Q0 a 1 0.5\n", format!("r.txt:1: field tag: wanted {form}, found the end of the line")),
        ("q Q0 a 1 0.5 t u\n", "r.txt:1: after field tag: wanted the end of the line, found \"u\"".to_owned()),
        ("q Q0 a 1 NaN t\n", "r.txt:1: field score: wanted a number, found \"NaN\"".to_owned()),
        ("q Q0 a 1 1 t\n\nq Q0 b 1 1,5 t\n", "r.txt:3: field score: wanted a number, found \"1,5\"".to_owned()),
        (
            "q\ta\t0.75\n",
            "r.txt:1: field rank: wanted a rank from 1 on (a table of scores has a header line query-id, corpus-id, \
             score), found \"0.75\""
                .to_owned(),
        ),
        (
            "q\ta\t1\nq\t\t2\n",
            "r.txt:2: field document: wanted `query<TAB>document<TAB>rank`, found the end of the line".to_owned(),
        ),
        (
            "q Q0 a 1 3 t\nq Q0 b 2 2 t\np Q0 a 1 1 t\nq Q0 b 3 1 t\nq Q0 a 4 0 t\n",
            "r.txt:4: field document: query \"q\": wanted a document once, found \"b\" in line 2 already".to_owned(),
        ),
        (
            "{\"q\": {\"a\": 1, \"b\": 2}, \"q\": {\"a\": 3}}",
            "r.txt: entry 3: field document: query \"q\": wanted a document once, found \"a\" in entry 1 already"
                .to_owned(),
        ),
    ] {
        assert_eq!(Run::read("r.txt", text.as_bytes()).expect_err(text).to_string(), message);
    }
    for (text, part) in [
        ("{\"q\": {\"a\": \"1\"}}", "line 1 column 15"),
        ("{\"q\": [1]}", "an object of the documents of query \"q\""),
        ("{\"q\": {\"a\": 1}", "EOF"),
        ("{\"q\": {\"a\": 1}} more", "trailing"),
        ("{\"\": {\"a\": 1}}", "the id of a query is empty"),
        ("{\"q\": {\"a\": NaN}}", "expected"),
    ] {
        let error = Run::read("r.txt", text.as_bytes()).expect_err(text).to_string();
        assert!(
            error.starts_with("r.txt: wanted {\"query\": {\"document\": score}}: ") && error.contains(part),
            "{error}"
        );
    }
    let error = Run::read("r.txt", &b"q Q0 a 1 1 t\nq Q0 \xff 1 1 t\n"[..]).expect_err("no UTF-8");
    assert_eq!(error.to_string(), "r.txt:2: wanted text in UTF-8");
    let long = format!("q Q0 a 1 1 t\nq Q0 {} 1 1 t\n", "x".repeat(LINE_BYTES_MAX));
    let error = Run::read("r.txt", long.as_bytes()).expect_err("too long");
    assert_eq!(error.to_string(), "r.txt:2: wanted at most 65536 bytes in a line");
}

#[test]
fn rows_are_read_as_files_are() {
    let run = Run::of("rows", [("q", "a", 1.0), ("q", "b", 2.0)]).expect("a run");
    assert_eq!(print(&run), "q: b=2 a=1");
    for (rows, message) in [
        (vec![], "rows: wanted at least one line `query Q0 document rank score tag`, found none"),
        (vec![("q", "a", f64::NAN)], "rows: row 0: field score: wanted a number, found \"NaN\""),
        (vec![("q", "a", 1.0), ("", "a", 1.0)], "rows: row 1: field query: wanted an id, found \"\""),
        (
            vec![("q", "a", 1.0), ("q", "a", 1.0)],
            "rows: row 1: field document: query \"q\": wanted a document once, found \"a\" in row 0 already",
        ),
    ] {
        assert_eq!(Run::of("rows", rows).expect_err(message).to_string(), message);
    }
}

#[test]
fn a_missing_query_counts_as_nothing_found_and_gaps_are_listed_on_both_sides() {
    let run = read("q1 Q0 a 1 2 t\nq1 Q0 b 2 1 t\nq3 Q0 a 1 1 t\n");
    let qrels = Qrels::parse("q", "q1 0 b 1\nq2 0 a 1\nq4 0 a 0\nq1 0 gone 1\n").expect("judgements");
    let ids: HashSet<String> = ["a", "b", "c"].map(str::to_owned).into();
    let gaps = Gaps::of(&run, &qrels, Gallery::Ids(&ids));
    assert_eq!(
        (&gaps.missing[..], &gaps.extra[..]),
        (&["q2".to_owned(), "q4".to_owned()][..], &["q3".to_owned()][..])
    );
    assert_eq!(
        (&gaps.without_relevant[..], &gaps.dangling[..]),
        (&["q4".to_owned()][..], &["gone".to_owned()][..])
    );
    assert!(!gaps.is_none() && Gaps::default().is_none());

    let placed = place(&run, &qrels, Gallery::Unknown, TieOrder::Ids);
    assert_eq!(placed.queries, ["q1", "q2", "q4"]);
    let table = ["RR", "R@2", "MnR", "AUC", "P@4"].map(measure);
    // The longest list has two documents, so what is not found counts for rank 3.
    let wanted = [0.5 / 3.0, 0.5 / 3.0, (2.0 + 3.0 + 3.0) / 3.0, 0.0, 0.25 / 3.0];
    for (found, wanted) in evaluate(&placed.ranks, &table).into_iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
    }
    let placed = place(&run, &qrels, Gallery::Size(10), TieOrder::Ids);
    assert_eq!(evaluate(&placed.ranks, &[measure("MnR")]), [(2.0 + 11.0 + 11.0) / 3.0]);
    // The first relevant document stands behind one of nine others, and the second is not there.
    assert_eq!(per_query(&placed.ranks[0], measure("AUC")), Some(8.0 / 18.0));
}

#[test]
fn equal_scores_count_half_in_areas_and_bounds_enclose_the_value() {
    let run = read("q Q0 c 1 1 t\nq Q0 b 1 1 t\nq Q0 a 1 1 t\nq Q0 z 1 0 t\n");
    let qrels = Qrels::parse("q", "q 0 b 1\n").expect("judgements");
    let value = |order, name| {
        let placed = place(&run, &qrels, Gallery::Unknown, order);
        assert_eq!(placed.tied, 1);
        per_query(&placed.ranks[0], measure(name)).expect("a value")
    };
    for (name, worst, own, best) in [
        ("RR", 1.0 / 3.0, 0.5, 1.0),
        ("P@1", 0.0, 0.0, 1.0),
        ("MdR", 3.0, 2.0, 1.0),
        ("AUC", 2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0),
    ] {
        let found = [TieOrder::Worst, TieOrder::Ids, TieOrder::Best].map(|order| value(order, name));
        assert_eq!(found, [worst, own, best], "{name}");
    }
    assert_eq!(Roc::of(&run, &qrels).auc, Some(2.0 / 3.0));
}

#[test]
fn leaving_out_a_query_s_own_document_moves_the_others_up() {
    let text = "q1 Q0 q1 1 9 t\nq1 Q0 a 2 1 t\nq2 Q0 a 1 1 t\nq2 Q0 q1 2 0 t\n";
    let (run, left_out) = read(text).without_self();
    assert_eq!((print(&run).as_str(), left_out), ("q1: a=1 | q2: a=1 q1=0", 1));
    let qrels = Qrels::parse("q", "q1 0 q1 2\nq1 0 a 1\nq2 0 q1 1\n").expect("judgements");
    let (qrels, left_out) = qrels.without_self();
    assert_eq!((qrels.relevant("q1").len(), qrels.relevant("q2").len(), left_out), (1, 1, 1));
}

#[test]
fn neighbours_as_near_as_the_last_count_and_a_recall_is_never_above_one() {
    let truth = read("q Q0 a 1 3 t\nq Q0 b 2 2 t\nq Q0 c 3 2 t\nq Q0 d 4 1 t\nfew Q0 a 1 1 t\n");
    let qrels = Qrels::of_truth(&truth);
    for (text, k, wanted) in [
        // b and c are both second: either is.
        ("q Q0 c 1 9 t\nq Q0 a 1 8 t\n", 2, 1.0),
        ("q Q0 b 1 9 t\nq Q0 c 1 8 t\n", 2, 1.0),
        ("q Q0 d 1 9 t\nq Q0 c 1 8 t\n", 2, 0.5),
        ("q Q0 b 1 9 t\n", 1, 0.0),
        ("q Q0 a 1 9 t\nq Q0 b 1 8 t\nq Q0 c 1 7 t\nq Q0 d 1 6 t\n", 4, 1.0),
        ("q Q0 a 1 9 t\n", 10, 0.25),
    ] {
        let placed = place(&read(text), &qrels, Gallery::Unknown, TieOrder::Ids);
        let found = per_query(&placed.ranks[0], measure(&format!("ann_recall@{k}")));
        assert_eq!(found, Some(wanted), "{text} at {k}");
        // The other query has one neighbour, and this run lacks it.
        assert_eq!(per_query(&placed.ranks[1], measure("ann_recall@10")), Some(0.0));
    }
}

#[test]
fn scores_turned_round_ask_for_queries_where_every_pair_has_one() {
    let run = read("t1 Q0 v1 1 0.9 t\nt1 Q0 v2 2 0.2 t\nt2 Q0 v1 1 0.5 t\nt2 Q0 v2 1 0.7 t\n");
    assert_eq!(print(&run.transposed().expect("whole")), "v1: t1=0.9 t2=0.5 | v2: t2=0.7 t1=0.2");
    assert_eq!(read("t1 Q0 v1 1 1 t\nt1 Q0 v2 1 1 t\nt2 Q0 v1 1 1 t\n").transposed(), None);
    let qrels = Qrels::parse("q", "t1 0 v1 1\nt2 0 v1 2\nt2 0 v2 0\n").expect("judgements").transposed();
    assert_eq!(qrels.relevant("v1"), [("t1".to_owned(), 1), ("t2".to_owned(), 2)]);
    assert_eq!(qrels.not_relevant("v2"), [("t2".to_owned(), 0)]);
}

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(20_261_201),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Run::read("f", &bytes[..]);
    }

    #[test]
    fn random_words_never_panic(text in "([{}\":,q#d0-9.\u{feff}-]{0,3}[ \t\r\n]){0,40}") {
        let _ = Run::read("f", text.as_bytes());
    }

    #[test]
    fn bounds_enclose_every_order_of_equal_scores(
        scores in btree_map(0u8..20, 0u8..4, 1..20),
        grades in btree_map(0u8..25, 0i32..4, 1..12),
        names in Just((0..20u8).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        // Other names are another order of what is tied.
        let id = |number: u8| names.get(usize::from(number)).map_or(number, |name| *name);
        let rows = scores.iter().map(|(&number, &score)| format!("q Q0 d{:02} 0 {score} t\n", id(number)));
        let judged = grades.iter().map(|(&number, grade)| format!("q 0 d{:02} {grade}\n", id(number)));
        let run = read(&rows.collect::<String>());
        let qrels = Qrels::parse("q", &judged.collect::<String>()).expect("judgements");
        let ranks = [TieOrder::Worst, TieOrder::Ids, TieOrder::Best]
            .map(|order| place(&run, &qrels, Gallery::Unknown, order).ranks[0].clone());
        let all = "nDCG nDCG@5 AP AP(rel=2) RR R@3 P@5 Success@2 Judged@4 RBP ERR infAP Bpref MdR AUC ann_recall@3";
        for name in all.split(' ') {
            let [worst, own, best] = [0, 1, 2].map(|place| per_query(&ranks[place], measure(name)));
            let (low, high) = if name == "MdR" { (best, worst) } else { (worst, best) };
            let margin = |value: Option<f64>| value.map_or(0.0, |value| value);
            prop_assert!(margin(low) <= margin(own) + 1e-9, "{name}: {low:?} to {high:?}, {own:?}");
            prop_assert!(margin(own) <= margin(high) + 1e-9, "{name}: {low:?} to {high:?}, {own:?}");
        }
    }

    #[test]
    fn the_curve_ends_at_what_is_found_and_its_area_is_that_of_its_steps(
        rows in btree_map((0u8..4, 0u8..12), (0u8..6, 0u8..3), 1..40),
    ) {
        let lines = rows.iter().map(|((query, document), (score, _))| format!("q{query} Q0 d{document} 0 {score} t\n"));
        let judged = rows.iter().map(|((query, document), (_, grade))| format!("q{query} 0 d{document} {grade}\n"));
        let qrels = Qrels::parse("q", &judged.collect::<String>()).expect("judgements");
        let roc = Roc::of(&read(&lines.collect::<String>()), &qrels);
        let (mut area, mut last) = (0.0, (0.0, 0.0));
        for point in &roc.points {
            let (across, up) = (point.false_positives, point.true_positives);
            prop_assert!(across >= last.0 && up >= last.1);
            area += (across - last.0) * (up + last.1) / 2.0;
            last = (across, up);
        }
        let is_mixed = rows.values().any(|(_, grade)| *grade > 0) && rows.values().any(|(_, grade)| *grade == 0);
        prop_assert_eq!(roc.auc.is_some(), is_mixed);
        prop_assert!(roc.auc.is_none_or(|auc| (auc - area).abs() < 1e-12), "{:?} {area}", roc.auc);
        prop_assert!(roc.points.windows(2).all(|two| two[0].threshold > two[1].threshold));
    }
}
