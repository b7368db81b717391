//! Hub alarms at insert: a planted hub is seen, ordinary points seldom are.

use dehub_vector::Metric;

use crate::made::{Home, Numbers, config, point, points, queries};

const DIM: usize = 16;
const POINTS: usize = 2000;

/// Vectors about a common direction, as those of encoders are.
fn cone(numbers: &mut Numbers, count: usize) -> Vec<Vec<f32>> {
    let mut vectors = numbers.vectors(count, DIM);
    vectors.iter_mut().for_each(|vector| vector[0] += 0.7);
    vectors
}

fn home(numbers: &mut Numbers) -> Home {
    let home = Home::new(config(DIM, Metric::Cosine));
    home.add(&queries("queries", &cone(numbers, 400)));
    home.upsert(&points(0, &cone(numbers, POINTS)));
    home.fit(&["IS(beta=20)", "NNN(alpha=1.0,k=16)"]);
    home
}

/// The rows of the points that came last.
fn last(home: &Home, count: usize) -> Vec<u32> {
    let mut rows: Vec<u32> = home.snapshot().rows().collect();
    rows.split_off(rows.len() - count)
}

#[test]
fn the_mean_of_a_hundred_queries_is_seen_as_a_hub_when_it_comes() {
    let mut numbers = Numbers(41);
    let home = home(&mut numbers);
    let asked = cone(&mut numbers, 100);
    let unit = |vector: &Vec<f32>| {
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter().map(|x| x / length).collect::<Vec<_>>()
    };
    let units: Vec<Vec<f32>> = asked.iter().map(unit).collect();
    let hub: Vec<f32> = (0..DIM).map(|at| units.iter().map(|unit| unit[at]).sum::<f32>()).collect();
    home.upsert(&[point(9999, &hub)]);
    let snapshot = home.snapshot();
    for label in ["IS(beta=20)", "NNN(alpha=1.0,k=16)"] {
        let correction = snapshot.correction(label).expect("fitted");
        let alarms = snapshot.hub_alarms(correction, &last(&home, 1), 0.01);
        assert_eq!(alarms.len(), 1, "{label}");
        assert!(alarms[0].p <= 0.005, "{label}: {alarms:?}");
    }
}

#[test]
fn ordinary_points_raise_few_alarms_one_by_one_and_fewer_in_a_batch() {
    let mut numbers = Numbers(42);
    let home = home(&mut numbers);
    let count = 1000;
    home.upsert(&points(5000, &cone(&mut numbers, count)));
    let snapshot = home.snapshot();
    let correction = snapshot.correction("IS(beta=20)").expect("fitted");
    let new = last(&home, count);
    // Each against the old points alone, as if it had come by itself.
    let variant = correction.variant(&[true], 1.0);
    let old: Vec<f32> = (0..2000).map(|row| variant.bias(row)).collect();
    let alone = |row: &&u32| {
        let as_large = old.iter().filter(|&&other| other >= variant.bias(**row)).count();
        (1 + as_large) as f64 / 2001.0 <= 0.01
    };
    let alarms = new.iter().filter(alone).count();
    assert!(alarms <= count * 2 / 100, "{alarms} of {count} ordinary points");
    assert!(snapshot.hub_alarms(correction, &new, 0.01).len() <= 2);
}

#[test]
fn too_few_others_or_no_new_point_is_no_alarm() {
    let home = Home::new(config(DIM, Metric::Cosine));
    let mut numbers = Numbers(43);
    home.add(&queries("queries", &cone(&mut numbers, 20)));
    home.upsert(&points(0, &cone(&mut numbers, 50)));
    home.fit(&["IS(beta=20)"]);
    let snapshot = home.snapshot();
    let correction = snapshot.correction("IS(beta=20)").expect("fitted");
    let rows: Vec<u32> = snapshot.rows().collect();
    assert_eq!(snapshot.hub_alarms(correction, &rows[..1], 0.01), []);
    assert_eq!(snapshot.hub_alarms(correction, &[], 0.01), []);
    assert_eq!(snapshot.hub_alarms(correction, &rows, 0.5), [], "no others at all");
}
