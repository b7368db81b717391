//! Evaluation and hubness, against full rankings made by the same engine's plain searches.

use dehub_eval::{Measure, Qrels};
use dehub_query::{
    LabelledQuery, QueryError, Ranking, Search, compare, evaluate, hubness, influences, leaks, point_biases,
    run,
};
use dehub_vector::{Dim, Metric, Vector};

use crate::{Bed, numbers, query};

fn labelled(count: usize) -> Vec<LabelledQuery> {
    let dim = Dim::new(8).expect("in range");
    let vector = |numbers: &[f32]| Vector::new(numbers, dim, Metric::Cosine).expect("not zero");
    numbers(8, count * 8)
        .chunks_exact(8)
        .enumerate()
        .map(|(place, numbers)| LabelledQuery {
            id: format!("q{place}"),
            vector: vector(numbers),
            text: None,
        })
        .collect()
}

#[test]
fn measures_follow_from_the_ranks_of_a_full_search() {
    let bed = Bed::random(Metric::Cosine, false);
    let methods = ["IS(beta=20)", "DIS(beta=20,k=1)", "DualDIS(b1=20,b2=5,k=1)"];
    bed.fit(&methods);
    let snapshot = bed.collection.snapshot();
    let queries = labelled(100);
    let judged: String = (0..100).map(|place| format!("q{place} 0 {} 1\n", place * 3)).collect();
    let qrels = Qrels::parse("qrels", &judged).expect("well formed");
    let rankings = methods.map(Ranking::corrected);
    let table: Vec<Measure> = ["R@10", "RR@10", "MnR"].map(|name| name.parse().expect("a measure")).to_vec();
    let evaluation = evaluate(&snapshot, &queries, &qrels, &rankings, &table).expect("measured");
    assert_eq!((evaluation.points, evaluation.queries, evaluation.rows.len()), (300, 100, 4));
    for (row, correction) in evaluation.rows.iter().zip([None].into_iter().chain(methods.map(Some))) {
        let rank = |(place, labelled): (usize, &LabelledQuery)| {
            let question = query(labelled.vector.as_slice(), 300, correction, Search::Exact);
            let hits = run(&snapshot, &[question]).expect("an answer").remove(0).hits;
            hits.iter().position(|hit| hit.row as usize == place * 3).expect("every point is ranked") + 1
        };
        let ranks: Vec<f64> = queries.iter().enumerate().map(rank).map(|rank| rank as f64).collect();
        let mean = |value: &dyn Fn(f64) -> f64| ranks.iter().map(|&rank| value(rank)).sum::<f64>() / 100.0;
        let within = |rank: f64, value: f64| if rank <= 10.0 { value } else { 0.0 };
        let wanted = [
            ("R@10", mean(&|rank| within(rank, 1.0))),
            ("RR@10", mean(&|rank| within(rank, 1.0 / rank))),
            ("MnR", mean(&|rank| rank)),
        ];
        for (name, wanted) in wanted {
            let found = row.measures.iter().find(|(own, _)| own == name).expect("measured").1;
            assert!((found - wanted).abs() < 1e-12, "{} {name}: {found} {wanted}", row.method);
        }
        assert_eq!(row.measures.iter().any(|(name, _)| name == "active"), row.method.contains("DIS("));
    }
}

#[test]
fn gaps_between_queries_judgements_and_points_are_listed() {
    let bed = Bed::random(Metric::Cosine, false);
    let snapshot = bed.collection.snapshot();
    let qrels = Qrels::parse("qrels", "q0 0 5 1\nq0 0 gone 1\nq9 0 7 1\n").expect("well formed");
    let table = [Measure::default_table()[0]];
    let evaluation = evaluate(&snapshot, &labelled(2), &qrels, &[], &table).expect("measured");
    assert_eq!(evaluation.queries, 1);
    assert_eq!(evaluation.unjudged, ["q1"]);
    assert_eq!(evaluation.not_given, ["q9"]);
    assert_eq!(evaluation.not_in_gallery, ["gone"]);
    let none = Qrels::parse("qrels", "other 0 5 1\n").expect("well formed");
    let refusal = evaluate(&snapshot, &labelled(2), &none, &[], &table).expect_err("nothing to measure");
    assert!(matches!(refusal, QueryError::NoQueries(_)));
}

#[test]
fn hubness_counts_what_searches_return() {
    let bed = Bed::random(Metric::Cosine, false);
    bed.fit(&["NNN(alpha=1.0,k=3)"]);
    // Rows and points are numbered differently once something is deleted.
    bed.collection.delete(&[0.into(), 10.into(), 20.into()]).expect("deleted");
    let snapshot = bed.collection.snapshot();
    let queries: Vec<Vector> = labelled(50).into_iter().map(|labelled| labelled.vector).collect();
    let rankings = [Ranking::Raw, Ranking::corrected("NNN(alpha=1.0,k=3)")];
    let rows = hubness(&snapshot, &queries, &rankings, 5, 4).expect("counted");
    for (row, correction) in rows.iter().zip([None, Some("NNN(alpha=1.0,k=3)")]) {
        let mut counts = vec![0_u32; 300];
        for vector in &queries {
            let question = query(vector.as_slice(), 5, correction, Search::Exact);
            let hits = run(&snapshot, &[question]).expect("an answer").remove(0).hits;
            hits.iter().for_each(|hit| counts[hit.row as usize] += 1);
        }
        assert_eq!(row.occurrence.counts().iter().sum::<u32>(), 250);
        assert!(row.hubs.iter().all(|&(hub, count)| counts[hub as usize] == count));
        assert_eq!(row.hubs[0].1, counts.iter().copied().max().expect("there are points"));
    }
    let change = &compare(&snapshot, &queries, &["NNN(alpha=1.0,k=3)"], 5).expect("compared")[0];
    assert_eq!(change.after.occurrence, rows[1].occurrence);
    assert!(change.top1_changed > 0.0 && change.top1_changed < 1.0);
}

#[test]
fn the_entries_that_make_a_hub_are_its_nearest_and_the_largest_bias_ranks_first() {
    let bed = Bed::random(Metric::Cosine, false);
    bed.fit(&["NNN(alpha=1.0,k=3)"]);
    let snapshot = bed.collection.snapshot();
    let bank = crate::name("q");
    let mut ranked: Vec<(usize, u32)> = Vec::new();
    for row in snapshot.rows() {
        let nearest = influences(&snapshot, row, &bank, 3);
        assert!(nearest.is_sorted_by(|a, b| a.similarity >= b.similarity));
        let bias = &point_biases(&snapshot, row)[0];
        let center = snapshot.correction("NNN(alpha=1.0,k=3)").expect("fitted").columns()[0].center();
        let mean = nearest.iter().map(|it| f64::from(it.similarity)).sum::<f64>() / 3.0;
        assert!((f64::from(bias.bias) + center - mean).abs() < 1e-6, "row {row}");
        ranked.push((bias.rank, row));
    }
    ranked.sort_unstable();
    assert!(ranked.iter().map(|&(rank, _)| rank).eq(1..=300), "no two biases are equal here");
}

#[test]
fn a_bank_that_holds_test_queries_is_told_with_their_number() {
    let bed = Bed::random(Metric::Cosine, false);
    let snapshot = bed.collection.snapshot();
    let mut queries: Vec<Vector> = labelled(20).into_iter().map(|labelled| labelled.vector).collect();
    assert_eq!(leaks(&snapshot, &queries), []);
    queries.extend(snapshot.bank_queries(&crate::name("q"), 7));
    assert_eq!(leaks(&snapshot, &queries), [(crate::name("q"), 7)]);
}
