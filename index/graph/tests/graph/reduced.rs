//! Codes of fewer numbers than vectors have.

use dehub_graph::{BuildOptions, CodeKind, Points, Segment, Width, build, fit_projection};
use dehub_vector::{Metric, Projection, WIDTH_STEP};

use crate::files::check_any_byte_changed;
use crate::made::{CODES, METRICS, Numbers, Rows, graph, unit};

const DIM: usize = 256;

/// Vectors that are long in some 32 directions and short in the others.
fn flat(numbers: &mut Numbers, count: usize, metric: Metric) -> Vec<Vec<f32>> {
    let vectors = numbers.cone(count, DIM, Metric::Dot);
    let flatten = |vector: Vec<f32>| {
        let flat: Vec<f32> =
            vector.iter().zip(0..).map(|(x, place)| if place % 8 == 0 { *x } else { x / 12.0 }).collect();
        if metric == Metric::Cosine { unit(&flat) } else { flat }
    };
    vectors.into_iter().map(flatten).collect()
}

fn fitted(vectors: &[Vec<f32>], queries: &[Vec<f32>], metric: Metric) -> Option<Projection> {
    let groups: Vec<Vec<u32>> = (0..vectors.len() as u32).map(|row| vec![row]).collect();
    let vector = |row: u32| vectors[row as usize].as_slice();
    let queries: Vec<&[f32]> = queries.iter().map(Vec::as_slice).collect();
    fit_projection(&Points { metric, dim: vectors[0].len(), groups: &groups, vector: &vector }, &queries)
}

fn reduced(vectors: &[Vec<f32>], metric: Metric, code: CodeKind) -> Segment {
    let projection = fitted(vectors, &[], metric);
    assert!(projection.is_some(), "{metric}: few directions hold most");
    graph(vectors, metric, BuildOptions { code, projection, ..BuildOptions::default() })
}

#[test]
fn walks_by_reduced_codes_find_the_best_under_every_metric_and_code() {
    for metric in METRICS {
        let vectors = flat(&mut Numbers(70), 2500, metric);
        let queries = flat(&mut Numbers(71), 50, metric);
        let mut numbers = Numbers(72);
        let mut rows = Rows::new(&vectors, metric);
        let biases: Vec<f32> = vectors.iter().map(|_| numbers.centred() / 20.0).collect();
        for code in CODES {
            let segment = reduced(&vectors, metric, code);
            assert_eq!((segment.dim(), segment.width()), (DIM, WIDTH_STEP), "{metric} {code:?}");
            rows.biases.fill(0.0);
            let raw = rows.recall(&segment, &queries, 128);
            assert!(raw >= 0.98, "{metric} {code:?}: {raw}");
            rows.biases.clone_from(&biases);
            let corrected = rows.recall(&segment, &queries, 128);
            assert!(corrected >= 0.98, "{metric} {code:?}: {corrected}");
        }
    }
}

/// What a projection on some axes leaves of a score, by the formula in 64 bits.
#[test]
fn scores_by_reduced_codes_take_lengths_whole_and_products_projected() {
    let kept = 40;
    let directions: Vec<f32> = (0..kept * DIM).map(|place| f32::from(place / DIM == place % DIM)).collect();
    for metric in METRICS {
        let vectors = Numbers(73).cone(300, DIM, metric);
        let projection = Some(Projection::from_directions(directions.clone(), DIM));
        let options = BuildOptions { code: CodeKind::F32, projection, ..BuildOptions::default() };
        let segment = graph(&vectors, metric, options);
        assert_eq!(segment.projection().map(Projection::width), Some(kept));
        let mut center = vec![0.0_f64; DIM];
        if metric == Metric::Euclidean {
            let sum = |place: usize| vectors.iter().map(|vector| f64::from(vector[place])).sum::<f64>();
            center = (0..DIM).map(|place| sum(place) / 300.0).collect();
        }
        let moved = |vector: &[f32]| -> Vec<f64> {
            vector.iter().zip(&center).map(|(&x, c)| f64::from(x) - c).collect()
        };
        let product = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(l, r)| l * r).sum::<f64>();
        for query in Numbers(74).cone(10, DIM, metric) {
            let found = segment.walk(&query, &Rows::new(&vectors, metric), Width { effort: 300, keep: 300 });
            assert_eq!(found.candidates.len(), 300);
            let query = moved(&query);
            for candidate in found.candidates {
                let vector = moved(&vectors[candidate.row as usize]);
                let lengths = match metric {
                    Metric::Cosine | Metric::Dot => 0.0,
                    Metric::Euclidean => product(&query, &query) + product(&vector, &vector),
                };
                let wanted = product(&query[..kept], &vector[..kept]) - lengths / 2.0;
                let error = (f64::from(candidate.score) - wanted).abs();
                assert!(error < 1e-3, "{metric}: {} {wanted}", candidate.score);
            }
        }
    }
}

#[test]
fn a_constant_in_every_bias_changes_no_answer_by_reduced_codes() {
    for metric in METRICS {
        let vectors = flat(&mut Numbers(75), 1500, metric);
        let mut numbers = Numbers(76);
        let mut rows = Rows::new(&vectors, metric);
        rows.biases.iter_mut().for_each(|bias| *bias = numbers.centred() / 8.0);
        let mut shifted = rows.clone();
        shifted.biases.iter_mut().for_each(|bias| *bias += 0.5);
        for code in CODES {
            let segment = reduced(&vectors, metric, code);
            for query in flat(&mut Numbers(77), 30, metric) {
                let (plain, moved) =
                    (rows.found(&segment, &query, 10, 64), shifted.found(&segment, &query, 10, 64));
                assert_eq!(plain, moved, "{metric} {code:?}");
            }
        }
    }
}

#[test]
fn a_reduced_segment_is_always_the_same_and_its_file_answers_as_it_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("graph.seg");
    for (metric, code) in METRICS.iter().flat_map(|&metric| CODES.map(|code| (metric, code))) {
        let vectors = flat(&mut Numbers(78), 700, metric);
        let built = reduced(&vectors, metric, code);
        assert_eq!(built.as_bytes(), reduced(&vectors, metric, code).as_bytes());
        built.write(&path).expect("writable");
        let opened = Segment::open(&path).expect("whole");
        assert_eq!(
            opened.projection().map(Projection::directions),
            built.projection().map(Projection::directions)
        );
        let rows = Rows::new(&vectors, metric);
        for query in flat(&mut Numbers(79), 20, metric) {
            let width = Width { effort: 20, keep: 20 };
            assert_eq!(opened.walk(&query, &rows, width), built.walk(&query, &rows, width));
        }
    }
}

#[test]
fn the_links_of_a_segment_do_not_depend_on_its_codes() {
    let vectors = flat(&mut Numbers(80), 900, Metric::Cosine);
    let whole = graph(&vectors, Metric::Cosine, BuildOptions::default());
    let reduced = reduced(&vectors, Metric::Cosine, CodeKind::Int8);
    assert_eq!(whole.rows(), reduced.rows());
    assert!(reduced.byte_len() < whole.byte_len());
}

#[test]
fn projections_are_fitted_where_half_the_numbers_hold_most_of_points_and_queries() {
    let flat_vectors = flat(&mut Numbers(81), 1000, Metric::Cosine);
    let round = Numbers(82).cone(1000, DIM, Metric::Cosine);
    let width = |vectors: &[Vec<f32>], queries: &[Vec<f32>], metric| {
        fitted(vectors, queries, metric).map(|projection| projection.width())
    };
    assert_eq!(width(&flat_vectors, &[], Metric::Cosine), Some(WIDTH_STEP));
    assert_eq!(width(&round, &[], Metric::Euclidean), None, "no direction is longer than others");
    assert_eq!(width(&flat_vectors, &round, Metric::Cosine), None, "queries are long in every direction");
    let short: Vec<Vec<f32>> = flat_vectors.iter().map(|vector| unit(&vector[..100])).collect();
    assert_eq!(width(&short, &[], Metric::Cosine), None, "short vectors are coded whole");
    // Far from zero every vector is long in the direction of the mean, which distances do not see.
    let far: Vec<Vec<f32>> = round.iter().map(|vector| vector.iter().map(|x| x + 100.0).collect()).collect();
    assert_eq!(width(&far, &[], Metric::Euclidean), None);
}

#[test]
fn a_reduced_file_with_any_byte_changed_is_refused() {
    let vectors = Numbers(83).cone(20, 6, Metric::Euclidean);
    let directions = [[0.6, 0.8, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]].concat();
    let projection = Some(Projection::from_directions(directions, 6));
    let options = BuildOptions { m: 2, code: CodeKind::Int8, projection, ..BuildOptions::default() };
    check_any_byte_changed(graph(&vectors, Metric::Euclidean, options).as_bytes());
}

#[test]
#[should_panic(expected = "a projection of vectors on fewer numbers")]
fn a_projection_of_other_vectors_is_refused() {
    let projection = Some(Projection::from_directions(vec![1.0, 0.0, 0.0], 3));
    let groups = [vec![0]];
    let vector = |_| &[1.0, 2.0][..];
    let points = Points { metric: Metric::Dot, dim: 2, groups: &groups, vector: &vector };
    build(&points, &BuildOptions { covered: 1, projection, ..BuildOptions::default() });
}
