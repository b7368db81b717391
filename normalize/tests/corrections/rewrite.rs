//! Rewritten vectors against the formula in 64 bits, with a matrix of all similarities.

use dehub_normalize::{Rewrite, Rewriter};
use dehub_vector::{CHUNK_ROWS, Chunked, Metric};

use crate::reference::{Matrix, Numbers, chunked, similarity, unit};

fn random(count: usize, dim: usize, seed: u64) -> Matrix {
    let mut numbers = Numbers(seed);
    unit(&(0..count).map(|_| (0..dim).map(|_| numbers.signed() + 0.25).collect()).collect())
}

fn scaled(vector: &[f64]) -> Vec<f64> {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.iter().map(|x| x / length).collect()
}

fn away(point: &[f32], bank: &[&Vec<f32>], far: f64, pool: Option<f64>) -> Vec<f64> {
    let mut pairs: Vec<(f64, &Vec<f32>)> =
        bank.iter().map(|entry| (similarity(Metric::Cosine, point, entry), *entry)).collect();
    let own_mean = pairs.iter().map(|pair| pair.0).sum::<f64>() / pairs.len() as f64;
    let from = match pool {
        None => own_mean,
        Some(near) => {
            pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
            pairs.truncate(near as usize);
            0.0
        }
    };
    let moved = |(at, &x): (usize, &f32)| {
        let pull = pairs.iter().map(|(s, entry)| (s - from) * f64::from(entry[at])).sum::<f64>();
        f64::from(x) - far * pull / pairs.len() as f64
    };
    scaled(&point.iter().enumerate().map(moved).collect::<Vec<_>>())
}

fn check(method: &str, points: &Matrix, query: &Matrix, gallery: &Matrix, own: &[Option<usize>]) {
    let dim = points[0].len();
    let rewrite: Rewrite = method.parse().expect("a rewrite");
    let (query_bank, gallery_bank) = (chunked(dim, query), chunked(dim, gallery));
    let found = Rewriter::new(rewrite, &query_bank, &gallery_bank).rewrite(&chunked(dim, points), own);
    for (row, point) in points.iter().enumerate() {
        let others: Vec<_> =
            gallery.iter().enumerate().filter(|&(at, _)| own[row] != Some(at)).map(|it| it.1).collect();
        let asked: Vec<_> = query.iter().collect();
        let (a, b) = match rewrite {
            Rewrite::InvGc { rg, rq } => (away(point, &others, rg, None), away(point, &asked, rq, None)),
            Rewrite::LocalAdj { rg, rq, pool } => {
                let near = |bank: &Matrix| Some((pool * bank.len() as f64).floor().max(1.0));
                (away(point, &others, rg, near(gallery)), away(point, &asked, rq, near(query)))
            }
        };
        let wanted = scaled(&a.iter().zip(&b).map(|(a, b)| (a + b) / 2.0).collect::<Vec<_>>());
        for (found, wanted) in found.row(row).iter().zip(&wanted) {
            assert!((f64::from(*found) - wanted).abs() < 1e-5, "{method}, row {row}: {found}, {wanted}");
        }
    }
}

#[test]
fn rewritten_vectors_are_those_of_the_formula() {
    for (points, query, gallery, dim) in
        [(5, 3, 4, 3), (CHUNK_ROWS + 20, 60, CHUNK_ROWS + 9, 7), (30, 200, 150, 12)]
    {
        let (points, query, gallery) =
            (random(points, dim, 1), random(query, dim, 2), random(gallery, dim, 3));
        // Some points are entries of the gallery bank.
        let own: Vec<Option<usize>> =
            (0..points.len()).map(|row| (row % 3 == 0 && row < gallery.len()).then_some(row)).collect();
        let mut gallery = gallery;
        own.iter().flatten().for_each(|&row| gallery[row] = points[row].clone());
        for method in [
            "InvGC",
            "InvGC(rg=0.5,rq=3)",
            "LocalAdj",
            "LocalAdj(rg=0.4,rq=0.2,pool=0.1)",
            "LocalAdj(rg=0,rq=0.3,pool=1)",
        ] {
            check(method, &points, &query, &gallery, &own);
        }
    }
}

#[test]
fn a_vector_depends_on_its_own_point_and_the_banks_alone() {
    let (points, query, gallery) = (random(40, 6, 4), random(50, 6, 5), random(60, 6, 6));
    let (query, gallery) = (chunked(6, &query), chunked(6, &gallery));
    for method in ["InvGC(rg=2,rq=1)", "LocalAdj(pool=0.05)"] {
        let rewriter = Rewriter::new(method.parse().expect("a rewrite"), &query, &gallery);
        let whole = rewriter.rewrite(&chunked(6, &points), &[None; 40]);
        for (row, point) in points.iter().enumerate() {
            let alone = rewriter.rewrite(&chunked(6, std::slice::from_ref(point)), &[None]);
            let apart = alone.row(0).iter().zip(whole.row(row)).map(|(a, b)| (a - b).abs());
            assert!(apart.fold(0.0, f32::max) < 1e-6, "{method}, row {row}");
        }
    }
}

#[test]
fn nothing_to_move_away_from_and_nothing_left_leave_a_point_where_it_is() {
    let points = random(9, 4, 7);
    let (vectors, empty) = (chunked(4, &points), Chunked::new(4));
    let same = |found: &Chunked| {
        let pairs = points.iter().enumerate().flat_map(|(row, point)| point.iter().zip(found.row(row)));
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) < 1e-6
    };
    for method in ["InvGC", "LocalAdj"] {
        let rewriter = Rewriter::new(method.parse().expect("a rewrite"), &empty, &empty);
        assert!(same(&rewriter.rewrite(&vectors, &[None; 9])), "{method}");
    }
    // An entry that is the point pulls at it with all its length, and leaves nothing.
    let rewriter =
        Rewriter::new("LocalAdj(rg=1,rq=1,pool=0.01)".parse().expect("a rewrite"), &vectors, &vectors);
    assert!(same(&rewriter.rewrite(&vectors, &[None; 9])));
}

#[test]
fn what_is_no_rewrite_is_told_why() {
    for (label, part) in [
        ("DN(lambda=0.5)", "fit the correction DN instead"),
        ("centring", "fit the correction Centring instead"),
        ("IS(beta=20)", "unknown rewrite `IS(beta=20)`: wanted InvGC"),
        ("InvGC(rg=", "unknown rewrite"),
        ("InvGC(rg=-1)", "parameter `rg` of InvGC is -1, wanted a number from 0"),
        ("InvGC(pool=0.1)", "parameter `pool` of InvGC is 0.1, wanted one of rg and rq"),
        ("LocalAdj(pool=0)", "wanted a share above 0"),
        ("LocalAdj(k=3)", "wanted one of rg, rq and pool"),
    ] {
        let error = label.parse::<Rewrite>().expect_err("refused").to_string();
        assert!(error.contains(part), "{label}: {error}");
    }
    let shown = |label: &str| label.parse::<Rewrite>().expect("a rewrite").to_string();
    assert_eq!(shown("invgc"), "InvGC(rg=1,rq=1)");
    assert_eq!(shown("LocalAdj(rq=0.5)"), "LocalAdj(rg=0.1,rq=0.5,pool=0.01)");
}
