//! The methods to choose from when none are named.

use dehub_index::{Question, Snapshot, Variant};
use dehub_normalize::Method;
use dehub_vector::Vector;

use super::resample::count;
use crate::QueryError;
use crate::hubness::PASS_QUERIES;

/// How many of a query's best scores the deviation is taken over.
const SCORES: usize = 100;

/// Queries the deviation is taken over, at most: a mean over as many has three digits.
const DEVIATION_QUERIES_MAX: usize = 4096;

const BETAS: [f64; 6] = [5.0, 10.0, 20.0, 30.0, 50.0, 100.0];
const SCALES: [f64; 3] = [0.7, 0.9, 1.1];
const ALPHAS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
const KS: [f64; 4] = [1.0, 4.0, 16.0, 128.0];
const CSLS_K: f64 = 10.0;

/// The methods to choose from by default.
#[derive(Debug, Clone, PartialEq)]
pub struct TuneMethods {
    /// Those the bank is large enough for.
    pub methods: Vec<Method>,
    /// Those it is too small for.
    pub left_out: Vec<Method>,
}

/// The mean over queries of the standard deviation of their best 100 raw scores (of all, if there are
/// fewer points): the unit of β.
pub fn score_deviation(snapshot: &Snapshot, queries: &[Vector]) -> Result<f64, QueryError> {
    if snapshot.is_empty() {
        return Err(QueryError::NoPoints);
    }
    if queries.is_empty() {
        return Err(QueryError::NoQueries(""));
    }
    let taken = queries.len().min(DEVIATION_QUERIES_MAX);
    let vectors: Vec<Vector> =
        (0..taken).map(|place| queries[place * queries.len() / taken].clone()).collect();
    let mut sum = 0.0;
    for vectors in vectors.chunks(PASS_QUERIES) {
        let question = Question { vectors, limit: SCORES.min(snapshot.len()), targets: &[] };
        for answers in snapshot.scan(&question, &[Variant::raw()]) {
            sum += deviation(answers[0].best.iter().map(|candidate| f64::from(candidate.score)));
        }
    }
    Ok(sum / count(taken))
}

fn deviation(scores: impl Iterator<Item = f64> + Clone) -> f64 {
    let number = count(scores.clone().count());
    let mean = scores.clone().sum::<f64>() / number;
    (scores.map(|score| (score - mean).powi(2)).sum::<f64>() / number).sqrt()
}

/// The 23 settings of the sweep that Dehub's rule was found with, and inverted softmax at the scale of
/// the scores: `IS(beta = c/deviation)` for c of 0.7, 0.9 and 1.1, which is where the best β was on four
/// data sets (MiniLM embeddings and one pair of trained towers). The fixed β suit cosines; for other
/// metrics and embeddings the scaled ones are those that fit.
///
/// `entries` is the size of the bank; a method that looks at more of it than there are is left out.
pub fn tune_methods(entries: usize, deviation: f64) -> TuneMethods {
    let scaled = SCALES.iter().map(|scale| three_digits(scale / deviation));
    let mut betas: Vec<f64> =
        BETAS.into_iter().chain(scaled.filter(|beta| (1e-6..=1e6).contains(beta))).collect();
    betas.sort_unstable_by(f64::total_cmp);
    betas.dedup();
    let mut wanted: Vec<(usize, Method)> = Vec::new();
    let mut add = |name: &str, parameters: &[(&str, f64)]| {
        let owned: Vec<_> = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let method = Method::new(name, &owned).expect("the method exists and its parameters are in range");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "one of KS, or CSLS_K")]
        let k = parameters.iter().find(|(name, _)| *name == "k").map_or(1, |&(_, k)| k as usize);
        wanted.push((k, method));
    };
    betas.iter().for_each(|&beta| add("IS", &[("beta", beta)]));
    add("CSLS", &[("k", CSLS_K)]);
    for alpha in ALPHAS {
        KS.iter().for_each(|&k| add("NNN", &[("alpha", alpha), ("k", k)]));
    }
    let (fitting, large): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|&(k, _)| k <= entries);
    let bare = |list: Vec<(usize, Method)>| list.into_iter().map(|(_, method)| method).collect();
    TuneMethods { methods: bare(fitting), left_out: bare(large) }
}

/// The share of points that a floor is under in [`auto_methods`].
const FLOOR: f64 = 0.1;

/// The methods of [`tune_methods`], each with a floor under its lowest tenth of biases: what the bank
/// hardly knows is not promoted above everything.
///
/// What was seen, under the terms of [`super::Reason`]: where the verdict is none without a floor (SciFact
/// with its bank of claims, Cranfield) it is none with it. On glyphs, where the bank covers the points
/// well, the floor costs a little: unlabelled queries choose IS(beta=30,floor=0.1), nDCG@10 .2726, where
/// they choose IS(beta=20), .2783, without (raw .2610); judged ones IS(beta=16.5) either way, .2787 and
/// .2797. The best of SciFact and Cranfield gain .001 by it.
pub fn auto_methods(entries: usize, deviation: f64) -> TuneMethods {
    let floored = |method: Method| {
        let parameters = method.parameters().chain([("floor", FLOOR)]);
        let parameters: Vec<_> = parameters.map(|(name, value)| (name.to_owned(), value)).collect();
        Method::new(method.name(), &parameters).expect("every method takes a floor")
    };
    let TuneMethods { methods, left_out } = tune_methods(entries, deviation);
    let floored = |list: Vec<Method>| list.into_iter().map(floored).collect();
    TuneMethods { methods: floored(methods), left_out: floored(left_out) }
}

fn three_digits(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}
