//! Queries by examples and by feedback under corrections, against 64-bit arithmetic straight from the vectors.

use dehub_index::Snapshot;
use dehub_query::{
    Feedback, Kind, Pair, Query, QueryError, Ranking, Request, Search, Settings, Source, Strategy, answer,
    explain_request, run,
};
use dehub_vector::{Metric, PointId};

use crate::{Bed, numbers};

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];

/// Corrections, and what each takes off a similarity.
const METHODS: [(&str, Bias); 3] = [("IS(beta=20)", is), ("CSLS(k=10)", csls), ("NNN(alpha=0.75,k=16)", nnn)];

/// What a correction takes off the similarity of a point, by its similarities to the bank, largest first.
type Bias = fn(&[f64]) -> f64;

fn is(to_bank: &[f64]) -> f64 {
    let sum: f64 = to_bank.iter().map(|x| (20.0 * (x - to_bank[0])).exp()).sum();
    to_bank[0] + sum.ln() / 20.0
}

fn csls(to_bank: &[f64]) -> f64 {
    to_bank[..10].iter().sum::<f64>() / 20.0
}

fn nnn(to_bank: &[f64]) -> f64 {
    0.75 * to_bank[..16].iter().sum::<f64>() / 16.0
}

/// The points of [`Bed::random`] with the bank of their corrections, in 64 bits.
struct Oracle {
    metric: Metric,
    points: Vec<Vec<f64>>,
    biases: Vec<f64>,
}

impl Oracle {
    fn new(metric: Metric, bias: Option<Bias>) -> Oracle {
        let vectors = |seed, count: usize| -> Vec<Vec<f64>> {
            numbers(seed, count * 8).chunks_exact(8).map(|numbers| wide(metric, numbers)).collect()
        };
        let (points, bank) = (vectors(1, 300), vectors(2, 80));
        let of_point = |point: &Vec<f64>| {
            let mut to_bank: Vec<f64> = bank.iter().map(|entry| similarity(metric, entry, point)).collect();
            to_bank.sort_by(|left, right| right.total_cmp(left));
            bias.map_or(0.0, |bias| bias(&to_bank))
        };
        let biases: Vec<f64> = points.iter().map(of_point).collect();
        // Columns are served less their mean.
        let mean = biases.iter().sum::<f64>() / 300.0;
        Oracle { metric, points, biases: biases.into_iter().map(|bias| bias - mean).collect() }
    }

    fn vector(&self, source: &Source) -> Vec<f64> {
        match source {
            Source::Vector(numbers) => wide(self.metric, numbers),
            Source::Point(PointId::Number(id)) => self.points[usize::try_from(*id).expect("small")].clone(),
            Source::Point(other) => panic!("{other} is no number"),
        }
    }

    fn score(&self, query: &[f64], row: usize) -> f64 {
        similarity(self.metric, query, &self.points[row]) - self.biases[row]
    }

    /// The score that stands for a similarity in formulas of several examples: twice it where that is half of a
    /// squared distance.
    fn core(&self, example: &Source, row: usize) -> f64 {
        let factor = if self.metric == Metric::Euclidean { 2.0 } else { 1.0 };
        factor * self.score(&self.vector(example), row)
    }

    fn by_examples(&self, kind: &Kind, row: usize) -> f64 {
        let squashed = |x: f64| x / (1.0 + x.abs());
        let half = |x: f64| 0.5 * (1.0 + squashed(x));
        let core = |example: &Source| self.core(example, row);
        let best = |list: &[Source]| list.iter().map(core).fold(f64::NEG_INFINITY, f64::max);
        match kind {
            Kind::Recommend { positive, negative, strategy: Strategy::SumScores } => {
                positive.iter().map(core).sum::<f64>() - negative.iter().map(core).sum::<f64>()
            }
            Kind::Recommend { positive, negative, strategy: Strategy::BestScore } => {
                let (like, unlike) = (best(positive), best(negative));
                if like > unlike { half(like) } else { -half(unlike) }
            }
            Kind::Recommend { positive, negative, strategy: Strategy::AverageVector } => {
                let mean = |list: &[Source], at: usize| {
                    // Vectors as they are given: only their mean gets a length.
                    let part = |source: &Source| match source {
                        Source::Vector(numbers) => f64::from(numbers[at]),
                        Source::Point(_) => self.vector(source)[at],
                    };
                    list.iter().map(part).sum::<f64>() / list.len() as f64
                };
                let moved = (0..8).map(|at| 2.0 * mean(positive, at) - mean(negative, at)).collect();
                self.score(&unit(self.metric, moved), row)
            }
            Kind::Discover { target, context } => {
                let side = |pair: &Pair| (core(&pair.positive) - core(&pair.negative)).signum();
                context.iter().map(side).sum::<f64>() + half(core(target))
            }
            Kind::Context(pairs) => {
                let lost =
                    |pair: &Pair| (core(&pair.positive) - core(&pair.negative) - 1.192_092_9e-7).min(0.0);
                pairs.iter().map(|pair| squashed(lost(pair))).sum()
            }
            Kind::Feedback(feedback) => self.score(&self.moved(feedback, |_| true), row),
            other @ (Kind::ById
            | Kind::OrderBy(_)
            | Kind::Sample { .. }
            | Kind::Nearest(_)
            | Kind::Text(_)
            | Kind::Fusion(_)) => panic!("{other:?} is by no examples"),
        }
    }

    /// Rocchio's query, with feedback from the rows that may be answers.
    fn moved(&self, feedback: &Feedback, is_allowed: impl Fn(usize) -> bool) -> Vec<f64> {
        let query = self.vector(&feedback.source);
        let own = match &feedback.source {
            Source::Point(PointId::Number(id)) => usize::try_from(*id).ok(),
            Source::Point(_) | Source::Vector(_) => None,
        };
        let mut rows: Vec<usize> = (0..300).filter(|&row| Some(row) != own && is_allowed(row)).collect();
        rows.sort_by(|&left, &right| self.score(&query, right).total_cmp(&self.score(&query, left)));
        rows.truncate(feedback.depth);
        let (alpha, beta) = (f64::from(feedback.alpha), f64::from(feedback.beta));
        let moved = (0..8).map(|at| {
            let mean = rows.iter().map(|&row| self.points[row][at]).sum::<f64>() / rows.len() as f64;
            (alpha * query[at] + beta * mean) / (alpha + beta)
        });
        unit(self.metric, moved.collect())
    }
}

fn wide(metric: Metric, numbers: &[f32]) -> Vec<f64> {
    unit(metric, numbers.iter().copied().map(f64::from).collect())
}

fn unit(metric: Metric, vector: Vec<f64>) -> Vec<f64> {
    match metric {
        Metric::Cosine => {
            let norm = vector.iter().map(|part| part * part).sum::<f64>().sqrt();
            vector.into_iter().map(|part| part / norm).collect()
        }
        Metric::Dot | Metric::Euclidean => vector,
    }
}

fn similarity(metric: Metric, left: &[f64], right: &[f64]) -> f64 {
    let pairs = left.iter().zip(right);
    match metric {
        Metric::Cosine | Metric::Dot => pairs.map(|(left, right)| left * right).sum(),
        Metric::Euclidean => -pairs.map(|(left, right)| (left - right).powi(2)).sum::<f64>() / 2.0,
    }
}

fn point(id: u64) -> Source {
    Source::Point(PointId::Number(id))
}

fn vector(seed: u64) -> Source {
    Source::Vector(numbers(seed, 8).into())
}

fn kinds() -> Vec<Kind> {
    let pair = |positive, negative| Pair { positive, negative };
    let context = vec![pair(point(20), vector(54)), pair(vector(55), point(21)), pair(point(22), point(23))];
    let recommend = |strategy| Kind::Recommend {
        positive: vec![vector(51), point(7), point(8)],
        negative: vec![point(11), vector(52)],
        strategy,
    };
    let feedback = |source, depth, alpha, beta| Kind::Feedback(Feedback { source, depth, alpha, beta });
    vec![
        recommend(Strategy::AverageVector),
        recommend(Strategy::BestScore),
        recommend(Strategy::SumScores),
        Kind::Discover { target: vector(56), context: context.clone() },
        Kind::Context(context),
        Kind::Feedback(Feedback::new(vector(57))),
        feedback(point(30), 1, 1.0, 0.0),
        feedback(point(31), 5, 0.25, 2.0),
        feedback(vector(58), 400, 0.0, 3.0),
    ]
}

fn settings(correction: Option<&str>, limit: usize) -> Settings {
    let ranking = correction.map_or(Ranking::Raw, Ranking::corrected);
    Settings { limit: Some(limit), ranking, ..Settings::default() }
}

#[test]
fn examples_and_feedback_rank_by_corrected_scores_as_their_formulas_say() {
    for metric in METRICS {
        let bed = Bed::random(metric, false);
        bed.fit(&METHODS.map(|(method, _)| method));
        let snapshot = bed.collection.snapshot();
        for (method, bias) in METHODS {
            let oracle = Oracle::new(metric, Some(bias));
            for kind in kinds() {
                let request = Request::new(kind.clone(), settings(Some(method), 300));
                let hits =
                    answer(&snapshot, &snapshot.scope(), &[request]).expect("an answer").remove(0).hits;
                let named = kind.examples().iter().filter(|it| matches!(it, Source::Point(_))).count();
                assert_eq!(hits.len(), 300 - named, "{method} {kind:?}");
                assert!(hits.is_sorted_by(|left, right| left.score >= right.score));
                for hit in hits {
                    let wanted = oracle.by_examples(&kind, hit.row as usize);
                    let differs = (f64::from(hit.score) - wanted).abs() > 2e-5;
                    assert!(!differs, "{metric:?} {method} {kind:?}: {hit:?}, wanted {wanted}");
                }
            }
        }
    }
}

#[test]
fn feedback_comes_from_the_points_that_may_be_answers_alone() {
    let is_allowed = |row: usize| row.is_multiple_of(3);
    for metric in METRICS {
        let bed = Bed::random(metric, true);
        bed.fit(&["IS(beta=20)"]);
        let snapshot = bed.collection.snapshot();
        let oracle = Oracle::new(metric, Some(is));
        let feedback = Feedback { depth: 4, beta: 2.0, ..Feedback::new(point(6)) };
        let query = oracle.moved(&feedback, is_allowed);
        let ids = (0..300).filter(|id: &u64| id.is_multiple_of(3)).map(PointId::Number).collect();
        let filter = Some(std::sync::Arc::new(dehub_query::Filter::only(ids)));
        let settings = Settings { filter, search: Search::Exact, ..settings(Some("IS(beta=20)"), 20) };
        let request = Request::new(Kind::Feedback(feedback), settings);
        let answered = answer(&snapshot, &snapshot.scope(), std::slice::from_ref(&request));
        let answered = answered.expect("an answer").remove(0);
        assert_eq!(answered.hits.len(), 20);
        for hit in &answered.hits {
            let wanted = oracle.score(&query, hit.row as usize);
            assert!((f64::from(hit.score) - wanted).abs() < 2e-5, "{metric:?} {hit:?}, wanted {wanted}");
            assert!(is_allowed(hit.row as usize) && hit.row != 6);
        }
        // The explanation is of the second round, and so is the plan.
        let (explanation, raw) = explain_request(&snapshot, &snapshot.scope(), &request).expect("explained");
        let rows = |hits: &[dehub_query::Hit]| hits.iter().map(|hit| hit.row).collect::<Vec<_>>();
        let found: Vec<u32> = answered.hits.iter().map(|hit| hit.row).collect();
        assert_eq!(rows(&explanation.corrected.hits), found);
        let distance = |row: u32| similarity(metric, &query, &oracle.points[row as usize]);
        assert!(raw.is_sorted_by(|left, right| distance(left.row) >= distance(right.row) - 1e-6));
    }
}

#[test]
fn feedback_without_weight_is_the_query_itself_and_what_is_no_weight_is_refused() {
    let bed = Bed::random(Metric::Euclidean, false);
    let snapshot = bed.collection.snapshot();
    let ask = |feedback| {
        let request = Request::new(Kind::Feedback(feedback), settings(None, 10));
        answer(&snapshot, &snapshot.scope(), &[request])
    };
    let rows = |snapshot: &Snapshot, query| {
        let hits = run(snapshot, &[query]).expect("an answer").remove(0).hits;
        hits.into_iter().map(|hit| hit.row).collect::<Vec<_>>()
    };
    let answered = ask(Feedback { beta: 0.0, ..Feedback::new(vector(60)) }).expect("an answer").remove(0);
    assert!(answered.is_distance);
    let found: Vec<u32> = answered.hits.iter().map(|hit| hit.row).collect();
    assert_eq!(found, rows(&snapshot, Query { source: vector(60), settings: settings(None, 10) }));
    let good = Feedback::new(vector(60));
    let bad = [
        Feedback { depth: 0, ..good.clone() },
        Feedback { depth: 70_000, ..good.clone() },
        Feedback { alpha: -1.0, ..good.clone() },
        Feedback { beta: f32::NAN, ..good.clone() },
        Feedback { beta: f32::INFINITY, ..good.clone() },
        Feedback { alpha: 0.0, beta: 0.0, ..good.clone() },
    ];
    for bad in bad {
        let error = ask(bad.clone()).expect_err("refused");
        assert!(matches!(error.source, QueryError::Malformed { .. }), "{bad:?}: {error}");
    }
    let error = ask(Feedback::new(point(3000))).expect_err("no such point");
    assert!(matches!(error.source, QueryError::UnknownPoint { place: 0, .. }), "{error}");
}
