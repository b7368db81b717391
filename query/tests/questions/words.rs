//! Judged queries by their words, against what single searches find.

use dehub_index::{Analyzer, PointInput, TextField, TextQuery};
use dehub_query::{
    Fusion, LabelledQuery, Measure, Normalization, Qrels, WordOptions, rank_by_words, rank_judged,
};
use dehub_query::{JudgedOptions, QueryError};
use dehub_vector::{Dim, Metric, PointId, Vector};

use super::{Bed, numbers};

const DIM: usize = 8;
const POINTS: usize = 60;
const WORDS: [&str; 7] = ["red", "green", "blue", "round", "square", "flat", "deep"];

fn text(seed: u64) -> String {
    let draws = numbers(seed, 4);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short list")]
    let word = |draw: &f32| WORDS[((draw + 1.0) / 2.0 * WORDS.len() as f32) as usize % WORDS.len()];
    draws.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Points of which two in three have a text.
fn bed() -> Bed {
    let bed = Bed::new(Metric::Cosine, DIM, &numbers(1, POINTS * DIM), &numbers(2, 40 * DIM), false);
    let vectors = numbers(1, POINTS * DIM);
    let points: Vec<PointInput> = (0..POINTS)
        .filter(|point| point % 3 != 0)
        .map(|point| PointInput {
            text: Some(text(100 + point as u64)),
            ..PointInput::new(PointId::Number(point as u64), vectors[point * DIM..][..DIM].to_vec())
        })
        .collect();
    bed.collection.upsert(&points).expect("valid");
    bed.collection
        .set_text_fields(&[("text".to_owned(), TextField::new(Analyzer::Standard))].into())
        .expect("valid");
    bed.fit(&["IS(beta=5)", "CSLS(k=3)"]);
    bed
}

fn queries() -> Vec<LabelledQuery> {
    let dim = Dim::new(DIM).expect("in range");
    let query = |(place, numbers): (usize, &[f32])| LabelledQuery {
        id: format!("q{place}"),
        vector: Vector::new(numbers, dim, Metric::Cosine).expect("not zero"),
        text: (place % 4 != 3).then(|| text(500 + place as u64)),
    };
    numbers(3, 20 * DIM).chunks_exact(DIM).enumerate().map(query).collect()
}

fn qrels() -> Qrels {
    let line =
        |query: usize| format!("q{query} 0 {} 1\nq{query} 0 {} 2\n", query * 3, (query * 7 + 1) % POINTS);
    Qrels::parse("words", &(0..20).map(line).collect::<String>()).expect("judgements")
}

fn options(fusion: Fusion, depth: usize) -> WordOptions {
    WordOptions { fields: Vec::new(), fusion, depth, limit: 10 }
}

#[test]
fn a_ranking_by_words_is_what_a_search_finds_and_then_the_others_by_row() {
    let (bed, queries, qrels) = (bed(), queries(), qrels());
    let snapshot = bed.collection.snapshot();
    let all: Vec<u32> = snapshot.rows().collect();
    let convex = || Fusion::Convex { normalization: Normalization::MinMax, weights: None };
    let measures = Measure::default_table();
    let ranked = rank_by_words(&snapshot, (&queries, &qrels), &[], &measures, &options(convex(), POINTS));
    let ranked = ranked.expect("valid");
    assert_eq!(ranked.len(), 2, "by words, and by words and raw");
    let relevant = rank_judged(
        &snapshot,
        (&queries, &qrels),
        &[],
        &measures,
        JudgedOptions { limit: 10, sample: 0, seed: 0 },
    )
    .expect("valid")
    .relevant;
    for (place, query) in queries.iter().enumerate() {
        let words = TextQuery::new(query.text.clone().unwrap_or_default());
        let answer = snapshot.search_text(&snapshot.scope(), &words, POINTS).expect("valid");
        let mut order: Vec<u32> = answer.hits.iter().map(|hit| hit.row).collect();
        order.extend(all.iter().filter(|row| !answer.hits.iter().any(|hit| hit.row == **row)));
        let ranks = relevant.points[place].iter().map(|&point| {
            let row = all[point as usize];
            u32::try_from(order.iter().position(|own| *own == row).expect("every row is ranked") + 1)
                .expect("few")
        });
        assert_eq!(ranked[0].ranks[place], ranks.collect::<Vec<_>>(), "query {place}");
        let first: Vec<u32> = answer.hits.iter().take(10).map(|hit| hit.row).collect();
        let listed = ranked[0].lists[place].iter().map(|&point| all[point as usize]);
        assert_eq!(listed.collect::<Vec<_>>(), first, "query {place}");
    }
}

#[test]
fn a_fusion_without_weight_on_words_is_the_ranking_by_vectors_as_deep_as_it_goes() {
    let (bed, queries, qrels) = (bed(), queries(), qrels());
    let snapshot = bed.collection.snapshot();
    let corrections: Vec<_> = snapshot.corrections().collect();
    let measures = Measure::default_table();
    let judged = (&queries[..], &qrels);
    let by_vectors = rank_judged(
        &snapshot,
        judged,
        &corrections,
        &measures,
        JudgedOptions { limit: 10, sample: 0, seed: 0 },
    )
    .expect("valid");
    for normalization in [Normalization::MinMax, Normalization::Distribution] {
        let fusion = Fusion::Convex { normalization, weights: Some(vec![1.0, 0.0]) };
        let ranked = rank_by_words(&snapshot, judged, &corrections, &measures, &options(fusion, POINTS));
        let ranked = ranked.expect("valid");
        assert_eq!(ranked.len(), 2 + corrections.len());
        for (fused, plain) in ranked[1..].iter().zip(&by_vectors.ranked) {
            assert_eq!(fused.lists, plain.lists);
            assert_eq!(fused.ranks, plain.ranks);
        }
    }
}

#[test]
fn without_fields_of_texts_or_with_weights_that_are_none_nothing_is_ranked() {
    let (queries, qrels) = (queries(), qrels());
    let bare = Bed::random(Metric::Cosine, false);
    let fusion = || Fusion::Convex { normalization: Normalization::MinMax, weights: None };
    let snapshot = bare.collection.snapshot();
    let refused = rank_by_words(&snapshot, (&queries, &qrels), &[], &[], &options(fusion(), 10));
    assert!(matches!(refused, Err(QueryError::Text(_))), "{refused:?}");
    let snapshot = bed().collection.snapshot();
    let bad = Fusion::Rrf { k: 60, weights: Some(vec![1.0]) };
    let refused = rank_by_words(&snapshot, (&queries, &qrels), &[], &[], &options(bad, 10));
    assert!(matches!(refused, Err(QueryError::Malformed { .. })), "{refused:?}");
}
