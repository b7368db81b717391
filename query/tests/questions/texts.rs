//! Points found by words, alone and fused with those found by vectors.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dehub_index::{Deadline, Payload, PointInput, Snapshot, TextField, TextFields, TextQuery};
use dehub_query::{
    Answered, Filter, Fusion, Grouping, HYBRID_DEPTH_DEFAULT, HYBRID_FUSION, Kind, Normalization, Part,
    QueryError, Ranking, Request, RequestError, Search, Settings, Source, answer, field_scores, group,
};
use dehub_vector::{Metric, PointId};

use crate::{Bed, numbers};

const WORDS: [&str; 12] =
    ["ape", "bear", "crow", "deer", "eel", "fox", "goat", "hare", "ibis", "jay", "kite", "lynx"];

/// The text of an id: a few words, some often.
fn words(id: u64, seed: u64) -> String {
    let mut state = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let count = 1 + next() % 9;
    let word = |_| WORDS[usize::try_from((next() % 12).min(next() % 12)).expect("small")];
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// 200 points in 8 dimensions with a text, a title in the payload and a color to group by.
fn bed(metric: Metric) -> Bed {
    let bed = Bed::random(metric, false);
    let vectors = numbers(1, 200 * 8);
    let point = |(vector, id): (&[f32], u64)| PointInput {
        id: PointId::Number(id),
        vector: vector.to_vec().into(),
        named: Vec::new(),
        payload: Some(
            Payload::parse(&format!(r#"{{"title": "{}", "color": {}}}"#, words(id, 5), id % 7))
                .expect("valid"),
        ),
        text: Some(words(id, 1)),
    };
    let points: Vec<PointInput> = vectors.chunks_exact(8).zip(0..).map(point).collect();
    bed.collection.upsert(&points).expect("valid points");
    bed.collection.set_text_fields(&fields(&["text", "title"])).expect("valid fields");
    bed.fit(&["IS(beta=20)"]);
    bed.collection.refresh_text().expect("indexed");
    bed
}

fn fields(names: &[&str]) -> TextFields {
    names.iter().map(|&name| (name.to_owned(), TextField::default())).collect()
}

fn limit(limit: usize) -> Settings {
    Settings { limit: Some(limit), ..Settings::default() }
}

fn text(words: &str) -> Kind {
    Kind::Text(TextQuery::new(words))
}

fn ask(snapshot: &Arc<Snapshot>, request: &Request) -> Answered {
    let answered = answer(snapshot, &snapshot.scope(), std::slice::from_ref(request));
    answered.expect("an answer").remove(0)
}

fn refused(snapshot: &Arc<Snapshot>, request: Request) -> RequestError {
    answer(snapshot, &snapshot.scope(), &[request]).expect_err("refused")
}

fn pairs(answered: &Answered) -> Vec<(u32, f32)> {
    answered.hits.iter().map(|hit| (hit.row, hit.score)).collect()
}

#[test]
fn words_rank_as_the_index_of_texts_does_within_filters_offsets_and_thresholds() {
    let bed = bed(Metric::Cosine);
    let snapshot = bed.collection.snapshot();
    let queries = [
        TextQuery::new("kite lynx"),
        TextQuery { all_words: true, ..TextQuery::new("ape crow") },
        TextQuery {
            fields: vec![("title".to_owned(), 2.0), ("text".to_owned(), 0.5)],
            ..TextQuery::new("goat")
        },
        TextQuery { fields: vec![("title".to_owned(), 1.0)], ..TextQuery::new("hare ibis jay jay") },
        TextQuery::new("unicorn"),
        TextQuery::new(""),
    ];
    for query in queries {
        let all = snapshot.search_text(&snapshot.scope(), &query, 1000).expect("an answer").hits;
        let all: Vec<(u32, f32)> = all.into_iter().map(|hit| (hit.row, hit.score)).collect();
        let request = |limit_| Request::new(Kind::Text(query.clone()), limit(limit_));
        assert_eq!(pairs(&ask(&snapshot, &request(1000))), all, "{query:?}");
        let paged = ask(&snapshot, &Request { offset: 3, ..request(5) });
        assert_eq!(pairs(&paged), all.iter().copied().skip(3).take(5).collect::<Vec<_>>(), "{query:?}");
        if let Some(&(_, threshold)) = all.get(7) {
            let above = Request { score_threshold: Some(threshold), ..request(1000) };
            let wanted: Vec<_> = all.iter().copied().filter(|hit| hit.1 > threshold).collect();
            assert_eq!(pairs(&ask(&snapshot, &above)), wanted, "{query:?}");
        }
        let even = Filter::only((0..300).filter(|id| id % 2 == 0).map(PointId::Number).collect());
        let settings = Settings { filter: Some(Arc::new(even)), ..limit(1000) };
        let filtered = ask(&snapshot, &Request::new(Kind::Text(query.clone()), settings));
        let is_even = |row: u32| {
            snapshot.points(&[row]).expect("there")[0].id.to_string().ends_with(['0', '2', '4', '6', '8'])
        };
        let wanted: Vec<_> = all.iter().copied().filter(|hit| is_even(hit.0)).collect();
        assert_eq!(pairs(&filtered), wanted, "{query:?}");
        // The fields' parts are the whole score.
        let rows: Vec<u32> = all.iter().map(|hit| hit.0).collect();
        let scores = field_scores(&snapshot, &snapshot.scope(), &query, &rows).expect("scores");
        for (&(row, score), parts) in all.iter().zip(&scores) {
            let sum: f32 = parts.iter().map(|part| part.score).sum();
            assert!((sum - score).abs() < 1e-5 && !parts.is_empty(), "{query:?} {row}: {parts:?} {score}");
        }
    }
}

#[test]
fn words_can_be_a_prefetch_that_vectors_rank_and_be_grouped() {
    let bed = bed(Metric::Cosine);
    let snapshot = bed.collection.snapshot();
    let found = ask(&snapshot, &Request::new(text("kite lynx"), limit(30)));
    let source = Source::Vector(numbers(77, 8).into());
    let ranked = Request {
        prefetch: vec![Request::new(text("kite lynx"), limit(30))],
        ..Request::new(Kind::Nearest(source.clone()), Settings { ranking: Ranking::Raw, ..limit(300) })
    };
    let ranked = ask(&snapshot, &ranked);
    let mut left: Vec<u32> = found.hits.iter().map(|hit| hit.row).collect();
    let mut right: Vec<u32> = ranked.hits.iter().map(|hit| hit.row).collect();
    left.sort_unstable();
    right.sort_unstable();
    assert_eq!(left, right);
    assert!(ranked.hits.is_sorted_by(|left, right| left.score >= right.score));

    let grouping = Grouping { key: "color".parse().expect("a path"), groups: 3, size: 2 };
    let request = Request::new(text("goat"), limit(10));
    let (groups, _) = group(&snapshot, &snapshot.scope(), &request, &grouping).expect("groups");
    let all = ask(&snapshot, &Request::new(text("goat"), limit(300)));
    let color = |row: u32| {
        snapshot.points(&[row]).expect("there")[0].id.to_string().parse::<u64>().expect("a number") % 7
    };
    let mut wanted: Vec<(u64, Vec<u32>)> = Vec::new();
    for hit in &all.hits {
        let color = color(hit.row);
        match wanted.iter_mut().find(|group| group.0 == color) {
            Some(group) if group.1.len() < 2 => group.1.push(hit.row),
            Some(_) => {}
            None => wanted.push((color, vec![hit.row])),
        }
    }
    wanted.truncate(3);
    let rows = |group: &dehub_query::Group| group.hits.iter().map(|hit| hit.row).collect::<Vec<_>>();
    assert_eq!(
        groups.iter().map(rows).collect::<Vec<_>>(),
        wanted.into_iter().map(|it| it.1).collect::<Vec<_>>()
    );
}

/// A point's score by the words of a fusion, in 64 bits, from the places and scores of its sources.
fn by_hand(fusion: &Fusion, lists: [&[(u32, f32)]; 2], signs: [f64; 2]) -> HashMap<u32, f64> {
    let mut wanted: HashMap<u32, f64> = HashMap::new();
    for (number, (list, sign)) in lists.into_iter().zip(signs).enumerate() {
        let scores: Vec<f64> = list.iter().map(|hit| sign * f64::from(hit.1)).collect();
        let (least, most) = (
            scores.iter().copied().fold(f64::MAX, f64::min),
            scores.iter().copied().fold(f64::MIN, f64::max),
        );
        for (place, (&(row, _), score)) in list.iter().zip(&scores).enumerate() {
            let part = match fusion {
                Fusion::Rrf { k, .. } => {
                    1.0 / (f64::from(*k) + f64::from(u32::try_from(place).expect("few")))
                }
                Fusion::Convex { weights: Some(weights), .. } => {
                    f64::from(weights[number]) / f64::from(weights[0] + weights[1]) * (score - least)
                        / (most - least)
                }
                other @ (Fusion::Convex { .. } | Fusion::Dbsf) => panic!("{other:?} is not asked for"),
            };
            *wanted.entry(row).or_default() += part;
        }
    }
    wanted
}

#[test]
fn a_query_by_vectors_and_words_fuses_what_each_finds_alone_and_tells_the_parts() {
    for (metric, correction) in
        [(Metric::Cosine, Some("IS(beta=20)")), (Metric::Cosine, None), (Metric::Euclidean, None)]
    {
        let bed = bed(metric);
        let snapshot = bed.collection.snapshot();
        let ranking = correction.map_or(Ranking::Raw, Ranking::corrected);
        let settings = |limit_, ranking: &Ranking| Settings { ranking: ranking.clone(), ..limit(limit_) };
        let source = Kind::Nearest(Source::Vector(numbers(88, 8).into()));
        let by_vector = Request::new(source.clone(), settings(100, &ranking));
        let by_words = Request::new(text("goat hare kite"), limit(100));
        let (dense, sparse) = (ask(&snapshot, &by_vector), ask(&snapshot, &by_words));
        let convex = Fusion::Convex { normalization: Normalization::MinMax, weights: Some(vec![3.0, 1.0]) };
        for fusion in [Fusion::Rrf { k: 60, weights: None }, convex] {
            let plain = Request { offset: 2, ..Request::new(source.clone(), settings(40, &ranking)) };
            let request = plain.with_words(TextQuery::new("goat hare kite"), fusion.clone(), None);
            let answered = ask(&snapshot, &request);
            let signs = [if dense.is_distance { -1.0 } else { 1.0 }, 1.0];
            let wanted = by_hand(&fusion, [&pairs(&dense), &pairs(&sparse)], signs);
            let mut best: Vec<f64> = wanted.values().copied().collect();
            best.sort_by(|left, right| right.total_cmp(left));
            assert_eq!(answered.hits.len(), 40);
            for (hit, best) in answered.hits.iter().zip(&best[2..]) {
                assert!((f64::from(hit.score) - wanted[&hit.row]).abs() < 1e-6, "{hit:?}");
                assert!((wanted[&hit.row] - best).abs() < 1e-6, "{hit:?} {best}");
            }
            let fused = answered.fused.as_ref().expect("a fusion");
            let kinds: Vec<_> =
                fused.sources().iter().map(|source| (source.kind, source.correction.as_deref())).collect();
            assert_eq!(kinds, [("vector", correction.map(|_| "IS(beta=20)@1")), ("text", None)]);
            let rows: Vec<u32> = answered.hits.iter().map(|hit| hit.row).collect();
            for (hit, parts) in answered.hits.iter().zip(fused.parts(&rows)) {
                let sum: f64 = parts.iter().map(|part| part.contribution).sum();
                assert!((sum - f64::from(hit.score)).abs() < 1e-6 && !parts.is_empty(), "{parts:?} {hit:?}");
                for Part { source, rank, score, normalized, .. } in parts {
                    let list = if source == 0 { pairs(&dense) } else { pairs(&sparse) };
                    assert_eq!(list[rank - 1], (hit.row, score));
                    assert_eq!(normalized.is_some(), matches!(fusion, Fusion::Convex { .. }));
                }
            }
        }
    }
}

#[test]
fn each_source_of_a_query_by_vectors_and_words_is_as_deep_as_asked_and_as_the_answer_is_long() {
    let plain = Request::new(Kind::ById, limit(30));
    let depths = |request: Request| request.prefetch.iter().map(|it| it.settings.limit).collect::<Vec<_>>();
    let words = || TextQuery::new("goat");
    let long = Request { offset: 150, ..plain.clone() };
    assert_eq!(
        depths(plain.clone().with_words(words(), HYBRID_FUSION, None)),
        [Some(HYBRID_DEPTH_DEFAULT); 2]
    );
    assert_eq!(depths(long.clone().with_words(words(), HYBRID_FUSION, None)), [Some(180); 2]);
    assert_eq!(depths(long.with_words(words(), HYBRID_FUSION, Some(7))), [Some(7); 2]);
}

#[test]
fn what_words_cannot_be_asked_is_told_with_its_prefetch_and_late_is_late() {
    let bed = bed(Metric::Cosine);
    let snapshot = bed.collection.snapshot();
    let unknown = TextQuery { fields: vec![("body".to_owned(), 1.0)], ..TextQuery::new("goat") };
    let within = |kind| Request {
        prefetch: vec![Request::new(text("goat"), limit(5)), Request::new(kind, limit(5))],
        ..Request::new(Kind::Fusion(HYBRID_FUSION), limit(5))
    };
    let error = refused(&snapshot, within(Kind::Text(unknown)));
    assert!(matches!(error.source, QueryError::Text(_)), "{error}");
    assert_eq!(error.trail, [1]);
    assert!(error.to_string().contains("`body`") && error.to_string().contains("text, title"), "{error}");
    let bad = [
        Settings { ranking: Ranking::corrected("IS(beta=20)"), ..limit(5) },
        Settings { search: Search::Exact, ..limit(5) },
        Settings { priors: vec![("p".to_owned(), 1.0)], ..limit(5) },
    ];
    for settings in bad {
        let error = refused(&snapshot, Request::new(text("goat"), settings));
        assert!(matches!(error.source, QueryError::Malformed { .. }), "{error}");
    }
    let past = Deadline::after(Instant::now(), Duration::ZERO);
    let late =
        answer(&snapshot, &snapshot.scope().until(Some(past)), &[Request::new(text("goat"), limit(5))]);
    assert!(matches!(late.expect_err("late").source, QueryError::TimeUp(_)));
    bed.collection.set_text_fields(&BTreeMap::new()).expect("none");
    let error = refused(&bed.collection.snapshot(), Request::new(text("goat"), limit(5)));
    assert!(matches!(error.source, QueryError::Text(_)), "{error}");
}

#[test]
fn an_answer_by_words_tells_the_newest_write_that_it_knows_of() {
    let bed = bed(Metric::Cosine);
    let late = PointInput {
        id: PointId::text("late").expect("short"),
        vector: numbers(9, 8).into(),
        named: Vec::new(),
        payload: None,
        text: Some("zebra".to_owned()),
    };
    let before = bed.collection.snapshot().sequence();
    bed.collection.upsert(&[late]).expect("valid");
    let snapshot = bed.collection.snapshot();
    let hybrid = Request::new(Kind::Nearest(Source::Vector(numbers(9, 8).into())), limit(5));
    let hybrid = hybrid.with_words(TextQuery::new("zebra"), HYBRID_FUSION, None);
    let words = Request::new(text("zebra"), limit(5));
    for request in [&words, &hybrid] {
        assert_eq!(ask(&snapshot, request).sequence, before, "the index of texts is behind");
    }
    bed.collection.refresh_text().expect("indexed");
    assert_eq!(ask(&snapshot, &words).hits.len(), 1);
    for request in [&words, &hybrid] {
        assert_eq!(ask(&snapshot, request).sequence, snapshot.sequence());
    }
}
