//! Guards: biases shrunk to their mean, and none below a quantile.

use dehub_vector::Metric;

use crate::made::{Home, Numbers, config, points, queries};

const DIM: usize = 8;
const POINTS: usize = 200;

fn home(labels: &[&str]) -> Home {
    let mut numbers = Numbers(31);
    let home = Home::new(config(DIM, Metric::Cosine));
    home.upsert(&points(0, &numbers.vectors(POINTS, DIM)));
    home.add(&queries("queries", &numbers.vectors(60, DIM)));
    home.fit(labels);
    home
}

/// The biases that are served, in the order of rows.
fn served(home: &Home, label: &str) -> Vec<f32> {
    let snapshot = home.snapshot();
    let correction = snapshot.correction(label).expect("fitted");
    let variant = correction.variant(&[true], 1.0);
    (0..snapshot.row_count()).map(|row| variant.bias(row)).collect()
}

#[test]
fn a_floor_raises_the_lowest_share_and_leaves_the_rest() {
    let home = home(&["IS(beta=50)", "IS(beta=50,floor=0.25)"]);
    let (plain, floored) = (served(&home, "IS(beta=50)"), served(&home, "IS(beta=50,floor=0.25)"));
    let lowest = floored.iter().copied().fold(f32::INFINITY, f32::min);
    let raised = plain.iter().filter(|&&bias| bias < lowest).count();
    assert_eq!(raised, POINTS / 4, "a quarter of the points");
    assert!(plain.iter().zip(&floored).all(|(plain, floored)| *floored == plain.max(lowest)));
}

#[test]
fn shrinking_draws_biases_to_their_mean() {
    let home = home(&["NNN(alpha=1.0,k=5)", "NNN(alpha=1.0,k=5,shrink=0.25)"]);
    let plain = served(&home, "NNN(alpha=1.0,k=5)");
    let shrunk = served(&home, "NNN(alpha=1.0,k=5,shrink=0.25)");
    assert!(plain.iter().zip(&shrunk).all(|(plain, shrunk)| *shrunk == plain * 0.75));
}

#[test]
fn a_point_that_comes_later_meets_the_same_floor_and_so_does_a_reopened_collection() {
    let mut home = home(&["IS(beta=50,floor=0.1,shrink=0.5)"]);
    let label = "IS(beta=50,floor=0.1,shrink=0.5)";
    let lowest = served(&home, label).into_iter().fold(f32::INFINITY, f32::min);
    home.upsert(&points(1000, &Numbers(32).vectors(300, DIM)));
    let before = served(&home, label);
    assert_eq!(before.iter().copied().fold(f32::INFINITY, f32::min), lowest);
    assert!(before[POINTS..].iter().filter(|&&bias| bias == lowest).count() > 3, "some are raised");
    home.reopen();
    assert_eq!(served(&home, label), before);
    // New bank entries change the biases, and so the floor.
    home.add(&queries("queries", &Numbers(33).vectors(200, DIM)));
    assert_ne!(served(&home, label).into_iter().fold(f32::INFINITY, f32::min), lowest);
}
