//! Scans of codes: the best of all rows, whatever the links.

use std::cell::Cell;

use dehub_graph::{Affine, BuildOptions, CodeKind, Points, Raw, Segment, Width, fit_projection};
use dehub_vector::{Candidate, Metric, code_row};

use crate::made::{METRICS, Numbers, Rows, graph, grouped, unit};

/// As many queries as are compared one by one, as make a part of a block, and as make several.
const COUNTS: [usize; 4] = [1, 4, 5, 101];

/// Rows ranked by a scale, a bias, and whether they may be answers.
struct Scaled<'a> {
    rows: &'a Rows<'a>,
    scales: Option<&'a [f32]>,
}

impl Affine for Scaled<'_> {
    fn is_unscaled(&self) -> bool {
        self.scales.is_none()
    }

    fn scale(&self, row: u32) -> f32 {
        self.scales.map_or(1.0, |scales| scales[row as usize])
    }

    fn bias(&self, row: u32) -> f32 {
        if self.rows.live[row as usize] { self.rows.biases[row as usize] } else { f32::INFINITY }
    }
}

/// What codes of 8 bits make of a vector.
fn coded(vector: &[f32]) -> Vec<f64> {
    let mut codes = vec![0; vector.len()];
    let scale = code_row(vector, &mut codes).scale;
    codes.iter().map(|&code| (f64::from(code) - 128.0) * f64::from(scale)).collect()
}

fn product(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(l, r)| l * r).sum()
}

fn wide(vector: &[f32]) -> Vec<f64> {
    vector.iter().map(|&x| f64::from(x)).collect()
}

/// The similarity of a query to each row by the formula of codes, in 64 bits.
struct Oracle<'a> {
    segment: &'a Segment,
    metric: Metric,
    center: Vec<f32>,
    rows: Vec<(Vec<f64>, f64)>,
}

impl<'a> Oracle<'a> {
    fn new(segment: &'a Segment, vectors: &[Vec<f32>], groups: &[Vec<u32>], metric: Metric) -> Oracle<'a> {
        let dim = vectors[0].len();
        let mut center = vec![0.0; dim];
        if metric == Metric::Euclidean {
            for (place, center) in center.iter_mut().enumerate() {
                let sum: f64 = groups.iter().map(|rows| f64::from(vectors[rows[0] as usize][place])).sum();
                *center = (sum / groups.len() as f64) as f32;
            }
        }
        let mut oracle = Oracle { segment, metric, center, rows: Vec::new() };
        oracle.rows = vectors.iter().map(|vector| oracle.coded(vector)).collect();
        oracle
    }

    /// The code, and half the squared length that counts under the Euclidean metric.
    fn coded(&self, vector: &[f32]) -> (Vec<f64>, f64) {
        let moved: Vec<f32> = vector.iter().zip(&self.center).map(|(x, c)| x - c).collect();
        let projected = self.segment.projection().map_or_else(|| moved.clone(), |it| it.apply(&moved));
        let code = coded(&projected);
        let left_out = product(&wide(&moved), &wide(&moved)) - product(&wide(&projected), &wide(&projected));
        let half = (product(&code, &code) + left_out) / 2.0;
        (code, half)
    }

    fn similarity(&self, query: &[f32], row: u32) -> f64 {
        let (code, half) = &self.rows[row as usize];
        let product = product(&self.coded(query).0, code);
        match self.metric {
            Metric::Cosine | Metric::Dot => product,
            Metric::Euclidean => {
                let moved: Vec<f64> = query.iter().zip(&self.center).map(|(x, c)| f64::from(x - c)).collect();
                product - half - moved.iter().map(|x| x * x).sum::<f64>() / 2.0
            }
        }
    }

    fn best(&self, query: &[f32], ranking: &Scaled<'_>, keep: usize) -> Vec<f64> {
        let live = (0..self.rows.len() as u32).filter(|&row| ranking.rows.live[row as usize]);
        let score =
            |row| f64::from(ranking.scale(row)) * self.similarity(query, row) - f64::from(ranking.bias(row));
        let mut scores: Vec<f64> = live.map(score).collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        scores.truncate(keep);
        scores
    }
}

/// Vectors that a projection on half their numbers fits.
fn flat(numbers: &mut Numbers, count: usize, dim: usize, metric: Metric) -> Vec<Vec<f32>> {
    let flatten = |vector: Vec<f32>| {
        let flat: Vec<f32> =
            vector.iter().zip(0..).map(|(x, at)| if at % 4 == 0 { *x } else { x / 9.0 }).collect();
        if metric == Metric::Cosine { unit(&flat) } else { flat }
    };
    numbers.cone(count, dim, Metric::Dot).into_iter().map(flatten).collect()
}

fn built(vectors: &[Vec<f32>], groups: &[Vec<u32>], metric: Metric, reduce: bool) -> Segment {
    let vector = |row: u32| vectors[row as usize].as_slice();
    let points = Points { metric, dim: vectors[0].len(), groups, vector: &vector };
    let projection = if reduce { fit_projection(&points, &[]) } else { None };
    assert_eq!(projection.is_some(), reduce, "half the numbers hold most");
    grouped(
        vectors,
        groups,
        metric,
        BuildOptions { code: CodeKind::Int8, projection, ..BuildOptions::default() },
    )
}

fn sorted(mut found: Vec<Candidate>) -> Vec<Candidate> {
    found.sort_by(|a, b| b.cmp(a));
    found
}

#[test]
fn a_scan_finds_the_best_of_all_live_rows_by_their_codes() {
    for (metric, reduce, dim) in
        METRICS.into_iter().flat_map(|metric| [(metric, true, 192), (metric, false, 70)])
    {
        let mut numbers = Numbers(90);
        let vectors = flat(&mut numbers, 600, dim, metric);
        let queries = flat(&mut numbers, COUNTS[3], dim, metric);
        // Some nodes of several rows, which are answers of their own.
        let mut vectors = vectors;
        (500..600).for_each(|row| vectors[row] = vectors[row % 7].clone());
        let groups: Vec<Vec<u32>> = (0..500)
            .map(|row| (row..600).filter(|&it| it == row || (it >= 500 && it % 7 == row)).collect())
            .collect();
        let segment = built(&vectors, &groups, metric, reduce);
        let oracle = Oracle::new(&segment, &vectors, &groups, metric);
        let mut corrected = Rows::new(&vectors, metric);
        corrected.biases = vectors.iter().map(|_| numbers.centred() / 10.0).collect();
        let mut filtered = corrected.clone();
        (0..600).for_each(|row| filtered.live[row] = row % 3 == 0);
        let raw = Rows::new(&vectors, metric);
        let scales: Vec<f32> = vectors.iter().map(|_| 1.0 + numbers.centred() / 4.0).collect();
        let rankings = [
            (Scaled { rows: &raw, scales: None }, 7),
            (Scaled { rows: &corrected, scales: None }, 90),
            (Scaled { rows: &filtered, scales: Some(&scales) }, 33),
            (Scaled { rows: &raw, scales: Some(&scales) }, 0),
            (Scaled { rows: &filtered, scales: None }, usize::MAX),
        ];
        for count in COUNTS {
            let asked: Vec<&[f32]> = queries[..count].iter().map(Vec::as_slice).collect();
            let found = segment.scan(&asked, &rankings, || false);
            assert_eq!(found.len(), count * rankings.len());
            for (query, found) in asked.iter().zip(found.chunks_exact(rankings.len())).step_by(1 + count / 8)
            {
                for ((ranking, keep), found) in rankings.iter().zip(found) {
                    let wanted = oracle.best(query, ranking, *keep);
                    let found = sorted(found.clone());
                    assert_eq!(found.len(), wanted.len(), "{metric} {reduce} {count}");
                    for (candidate, &wanted) in found.iter().zip(&wanted) {
                        let own = f64::from(ranking.scale(candidate.row))
                            * oracle.similarity(query, candidate.row)
                            - f64::from(ranking.bias(candidate.row));
                        // Two codings may part where a number lies between two steps.
                        let slack = 1e-3 * (1.0 + wanted.abs());
                        let score = f64::from(candidate.score);
                        assert!((score - own).abs() < slack, "{metric} {reduce} {count}: {score} {own}");
                        assert!(
                            (score - wanted).abs() < slack,
                            "{metric} {reduce} {count}: {score} {wanted}"
                        );
                    }
                    let mut rows: Vec<u32> = found.iter().map(|candidate| candidate.row).collect();
                    rows.sort_unstable();
                    rows.dedup();
                    assert_eq!(rows.len(), found.len(), "no row twice");
                }
            }
        }
    }
}

/// Whole numbers up to 127, of which one is 127 or −127, are their own codes.
#[test]
fn scores_of_whole_numbers_are_exact_and_ties_go_to_the_lower_row() {
    let mut numbers = Numbers(91);
    let whole = |numbers: &mut Numbers| {
        let mut vector: Vec<f32> = (0..40).map(|_| numbers.below(5) as f32 - 2.0).collect();
        vector[0] = 127.0;
        vector
    };
    let vectors: Vec<Vec<f32>> = (0..700).map(|_| whole(&mut numbers)).collect();
    let queries: Vec<Vec<f32>> = (0..9).map(|_| whole(&mut numbers)).collect();
    let segment =
        graph(&vectors, Metric::Dot, BuildOptions { code: CodeKind::Int8, ..BuildOptions::default() });
    let mut rows = Rows::new(&vectors, Metric::Dot);
    rows.biases = vectors.iter().map(|_| numbers.below(4) as f32).collect();
    let ranking = Scaled { rows: &rows, scales: None };
    for count in [2, queries.len()] {
        let asked: Vec<&[f32]> = queries[..count].iter().map(Vec::as_slice).collect();
        let found = segment.scan(&asked, &[(&ranking, 25)], || false);
        for (query, found) in asked.iter().zip(found) {
            let found = sorted(found);
            let best = rows.best(query, 25);
            assert_eq!(found.iter().map(|it| it.row).collect::<Vec<_>>(), best);
            assert!(found.iter().all(|it| f64::from(it.score) == rows.exact(query, it.row)));
        }
    }
}

#[test]
fn a_walk_of_all_nodes_and_a_scan_find_the_same() {
    let mut numbers = Numbers(92);
    for metric in METRICS {
        let vectors = numbers.cone(300, 24, metric);
        let segment =
            graph(&vectors, metric, BuildOptions { code: CodeKind::Int8, ..BuildOptions::default() });
        let rows = Rows::new(&vectors, metric);
        for query in numbers.cone(20, 24, metric) {
            let walked = segment.walk(&query, &Raw, Width { effort: 300, keep: 12 }).candidates;
            let ranking = Scaled { rows: &rows, scales: None };
            let scanned = segment.scan(&[&query], &[(ranking, 12)], || false).pop().expect("one query");
            assert_eq!(sorted(scanned), walked, "{metric}");
        }
    }
}

#[test]
fn a_scan_that_is_stopped_gives_the_best_so_far() {
    let vectors = Numbers(93).cone(2000, 16, Metric::Cosine);
    let segment =
        graph(&vectors, Metric::Cosine, BuildOptions { code: CodeKind::Int8, ..BuildOptions::default() });
    let rows = Rows::new(&vectors, Metric::Cosine);
    let scan = |looks: usize| {
        let left = Cell::new(looks);
        let stop = || left.replace(left.get().saturating_sub(1)) == 0;
        let ranking = Scaled { rows: &rows, scales: None };
        segment.scan(&[&vectors[0]], &[(ranking, 5000)], stop).concat().len()
    };
    assert_eq!((scan(0), scan(usize::MAX)), (0, 2000));
    assert!((1..2000).contains(&scan(1)));
}

#[test]
fn no_query_no_ranking_and_no_row_find_nothing() {
    let options = || BuildOptions { code: CodeKind::Int8, ..BuildOptions::default() };
    let vectors = Numbers(94).cone(20, 8, Metric::Cosine);
    let rows = Rows::new(&vectors, Metric::Cosine);
    let segment = graph(&vectors, Metric::Cosine, options());
    let ranking = Scaled { rows: &rows, scales: None };
    assert!(segment.scan(&[], &[(&ranking, 5)], || false).is_empty());
    assert!(segment.scan::<&Scaled<'_>>(&[&vectors[0]], &[], || false).is_empty());
    assert_eq!(segment.scan(&[&vectors[0]], &[(&ranking, 0)], || false), [vec![]]);
    let empty = graph(&[], Metric::Cosine, options());
    assert_eq!(empty.scan(&[&[1.0, 2.0, 3.0][..]; 6], &[(&ranking, 5)], || false), vec![vec![]; 6]);
    let wide = graph(&vectors, Metric::Cosine, BuildOptions { code: CodeKind::F32, ..options() });
    assert!(!wide.can_scan(), "there are no bytes");
}
