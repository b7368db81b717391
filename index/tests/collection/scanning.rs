//! The exact scan against single pairs, bit for bit, and against f64 up to rounding.

use dehub_index::{Answer, Question, Screen, Snapshot, Variant};
use dehub_vector::{Candidate, Metric, Vector};

use crate::made::{Home, Numbers, config, point, points, queries};
use crate::reference::{answer_bits, bits, full_sort, score_error, similarity, wide};

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];
const SCREENS: [Screen; 3] = [Screen::Wide, Screen::Narrow, Screen::Bytes];
const LABELS: [&str; 3] = ["IS(beta=20)", "NNN(alpha=0.75,k=5)", "CSLS(k=3)"];

/// A gallery with copies and dead rows, over several chunks; queries over several blocks.
struct Setting {
    home: Home,
    asked: Vec<Vector>,
}

fn setting(metric: Metric, dim: usize, scale: f32, seed: u64) -> Setting {
    let mut numbers = Numbers(seed);
    let scaled = |vectors: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
        vectors.into_iter().map(|vector| vector.into_iter().map(|x| x * scale).collect()).collect()
    };
    let home = Home::new(config(dim, metric));
    let mut vectors = scaled(numbers.vectors(700, dim));
    for row in (0..700).step_by(7) {
        vectors[row] = vectors[row / 2].clone();
    }
    home.upsert(&points(0, &vectors));
    home.add(&queries("queries", &scaled(numbers.vectors(40, dim))));
    home.fit(&LABELS);
    home.delete((0..700).filter(|id| id % 5 == 1 || (256..300).contains(id)));
    home.upsert(&points(650, &scaled(numbers.vectors(90, dim))));
    let mut asked = scaled(numbers.vectors(130, dim));
    asked.extend_from_slice(&vectors[..20]);
    let asked = asked.iter().map(|vector| home.query(vector)).collect();
    Setting { home, asked }
}

fn variants(snapshot: &Snapshot) -> Vec<Variant<'_>> {
    let corrected = LABELS.map(|label| snapshot.correction(label).expect("fitted").variant(&[true], 1.0));
    std::iter::once(Variant::raw()).chain(corrected).collect()
}

fn scan(snapshot: &Snapshot, vectors: &[Vector], limit: usize, variants: &[Variant<'_>]) -> Vec<Vec<Answer>> {
    snapshot.scan(&Question { vectors, limit, targets: &[] }, variants)
}

#[test]
fn a_batch_answers_bit_for_bit_what_single_queries_and_a_full_sort_do() {
    for (metric, seed) in METRICS.into_iter().zip(1..) {
        for (dim, scale) in [(3, 1.0), (40, 1.0), (40, 100.0), (17, 1e-20)] {
            let Setting { home, asked } = setting(metric, dim, scale, seed);
            let snapshot = home.snapshot();
            let variants = variants(&snapshot);
            let batch = scan(&snapshot, &asked, 10, &variants);
            assert_eq!(batch.len(), asked.len());
            for screen in SCREENS {
                let question = Question { vectors: &asked, limit: 10, targets: &[] };
                let screened = snapshot.scan_by(&question, &variants, screen);
                assert_eq!(answer_bits(&screened), answer_bits(&batch), "{metric} {dim} {screen:?}");
            }
            for (query, answers) in asked.iter().zip(&batch) {
                let single = scan(&snapshot, std::slice::from_ref(query), 10, &variants);
                assert_eq!(
                    answer_bits(&single),
                    answer_bits(std::slice::from_ref(answers)),
                    "{metric} {dim}"
                );
                for (answer, variant) in answers.iter().zip(&variants) {
                    let sorted = full_sort(&snapshot, query, variant);
                    assert_eq!(bits(&answer.best), bits(&sorted[..10]), "{metric} {dim}");
                }
            }
        }
    }
}

/// Enough chunks for several threads, few and many queries, a scaled ranking among the others.
#[test]
fn every_screen_and_any_number_of_threads_answer_the_same() {
    for (metric, seed) in METRICS.into_iter().zip(20..) {
        let (mut numbers, dim) = (Numbers(seed), 12);
        let home = Home::new(config(dim, metric));
        home.upsert(&points(0, &numbers.vectors(8500, dim)));
        home.add(&queries("queries", &numbers.vectors(40, dim)));
        home.fit(&["IS(beta=20)", "ZScore"]);
        home.delete((0..8500).filter(|id| id % 7 == 1));
        let snapshot = home.snapshot();
        let rows: Vec<u32> = snapshot.rows().collect();
        let corrected = |label| snapshot.correction(label).expect("fitted").variant(&[true], 1.0);
        let variants = [Variant::raw(), corrected("IS(beta=20)"), corrected("ZScore")];
        let asked = numbers.vectors(210, dim);
        let asked: Vec<Vector> = asked.iter().map(|vector| home.query(vector)).collect();
        let targets: Vec<Vec<u32>> = asked
            .iter()
            .map(|_| vec![rows[numbers.below(rows.len())], rows[numbers.below(rows.len())]])
            .collect();
        let sorted: Vec<Vec<Vec<Candidate>>> = asked[..6]
            .iter()
            .map(|query| variants.iter().map(|variant| full_sort(&snapshot, query, variant)).collect())
            .collect();
        for count in [1, 6, 210] {
            let question = Question { vectors: &asked[..count], limit: 7, targets: &targets[..count] };
            let mut all = Vec::new();
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                for screen in SCREENS {
                    all.push(answer_bits(&pool.install(|| snapshot.scan_by(&question, &variants, screen))));
                }
            }
            assert!(all.iter().all(|answers| *answers == all[0]), "{metric}: {count} queries");
            for ((answers, sorted), targets) in all[0].iter().zip(&sorted).zip(&targets) {
                for ((best, ranks), sorted) in answers.iter().zip(sorted) {
                    let rank = |&row| sorted.iter().position(|it| it.row == row).expect("live") as u32 + 1;
                    assert_eq!(
                        (best, ranks),
                        (&bits(&sorted[..7]), &targets.iter().map(rank).collect()),
                        "{metric}"
                    );
                }
            }
        }
    }
}

#[test]
fn scores_are_those_of_f64_up_to_rounding() {
    for (metric, seed) in METRICS.into_iter().zip(4..) {
        let Setting { home, asked } = setting(metric, 33, 2.0, seed);
        let snapshot = home.snapshot();
        let variants = variants(&snapshot);
        for (query, answers) in asked.iter().zip(scan(&snapshot, &asked, 12, &variants)) {
            for (answer, variant) in answers.iter().zip(&variants) {
                let bias = |row| if variant.is_raw() { 0.0 } else { f64::from(variant.bias(row)) };
                let wanted = |row| similarity(metric, query.as_slice(), snapshot.vector(row)) - bias(row);
                let error = |row| score_error(metric, query.as_slice(), snapshot.vector(row), bias(row));
                assert!(answer.best.is_sorted_by(|a, b| a > b));
                let found: Vec<u32> = answer.best.iter().map(|best| best.row).collect();
                for best in &answer.best {
                    assert!((f64::from(best.score) - wanted(best.row)).abs() <= error(best.row));
                }
                let worst = f64::from(answer.best[11].score);
                for row in snapshot.rows().filter(|row| !found.contains(row)) {
                    assert!(
                        wanted(row) <= worst + error(row),
                        "{metric}: row {row} is better than the last hit"
                    );
                }
            }
        }
    }
}

#[test]
fn ranks_are_places_in_a_full_sort() {
    for (metric, seed) in METRICS.into_iter().zip(7..) {
        let Setting { home, asked } = setting(metric, 20, 1.0, seed);
        let snapshot = home.snapshot();
        let variants = variants(&snapshot);
        let rows: Vec<u32> = snapshot.rows().collect();
        let mut numbers = Numbers(seed);
        let mut some =
            |place: usize| -> Vec<u32> { (0..place % 4).map(|_| rows[numbers.below(rows.len())]).collect() };
        let targets: Vec<Vec<u32>> = (0..asked.len()).map(&mut some).collect();
        for limit in [0, 3] {
            let question = Question { vectors: &asked, limit, targets: &targets };
            let answers = snapshot.scan(&question, &variants);
            for ((query, targets), answers) in asked.iter().zip(&targets).zip(&answers) {
                for (answer, variant) in answers.iter().zip(&variants) {
                    let sorted = full_sort(&snapshot, query, variant);
                    let rank =
                        |&row: &u32| sorted.iter().position(|it| it.row == row).expect("live") as u32 + 1;
                    assert_eq!(answer.ranks, targets.iter().map(rank).collect::<Vec<_>>(), "{metric}");
                    assert_eq!(answer.best.len(), limit);
                }
            }
            for (place, query) in asked.iter().enumerate().step_by(17) {
                let alone = std::slice::from_ref(query);
                let question = Question { vectors: alone, limit, targets: &targets[place..=place] };
                let single = snapshot.scan(&question, &variants);
                assert_eq!(answer_bits(&single), answer_bits(&answers[place..=place]));
            }
            for screen in SCREENS {
                let question = Question { vectors: &asked, limit, targets: &targets };
                let screened = snapshot.scan_by(&question, &variants, screen);
                assert_eq!(answer_bits(&screened), answer_bits(&answers), "{metric} {screen:?}");
            }
        }
    }
}

#[test]
fn a_limit_above_the_live_points_lists_each_of_them_once() {
    let Setting { home, asked } = setting(Metric::Cosine, 6, 1.0, 10);
    let snapshot = home.snapshot();
    let live: Vec<u32> = snapshot.rows().collect();
    assert_eq!(live.len(), snapshot.len());
    for answers in scan(&snapshot, &asked[..70], 5000, &variants(&snapshot)) {
        for answer in answers {
            let mut rows: Vec<u32> = answer.best.iter().map(|best| best.row).collect();
            rows.sort_unstable();
            assert_eq!(rows, live);
        }
    }
}

/// A few points far longer than the others make the error bound of all wide, so that most rows wait for their
/// exact score, more than room is kept for.
#[test]
fn an_error_as_large_as_the_scores_changes_no_answer() {
    for (metric, seed) in [Metric::Dot, Metric::Euclidean].into_iter().zip(30..) {
        let (mut numbers, dim) = (Numbers(seed), 24);
        let mut vectors = numbers.vectors(2000, dim);
        for vector in vectors.iter_mut().step_by(500) {
            vector.iter_mut().for_each(|x| *x *= 3000.0);
        }
        let home = Home::new(config(dim, metric));
        home.upsert(&points(0, &vectors));
        let asked: Vec<Vector> = numbers.vectors(12, dim).iter().map(|vector| home.query(vector)).collect();
        let (snapshot, raw) = (home.snapshot(), [Variant::raw()]);
        for limit in [1, 5, 40] {
            for screen in SCREENS {
                let question = Question { vectors: &asked, limit, targets: &[] };
                for (query, answers) in asked.iter().zip(snapshot.scan_by(&question, &raw, screen)) {
                    let sorted = full_sort(&snapshot, query, &raw[0]);
                    assert_eq!(bits(&answers[0].best), bits(&sorted[..limit]), "{metric} {screen:?}");
                }
            }
        }
    }
}

#[test]
fn a_weight_of_0_is_the_raw_ranking_bit_for_bit() {
    let Setting { home, asked } = setting(Metric::Cosine, 24, 1.0, 11);
    let snapshot = home.snapshot();
    let off = LABELS.map(|label| snapshot.correction(label).expect("fitted").variant(&[true], 0.0));
    assert!(off.iter().all(Variant::is_raw));
    let raw = scan(&snapshot, &asked, 20, &[Variant::raw()]);
    for (answers, raw) in scan(&snapshot, &asked, 20, &off).iter().zip(&raw) {
        assert!(answers.iter().all(|answer| bits(&answer.best) == bits(&raw[0].best)));
    }
}

#[test]
fn a_correction_that_is_not_asked_for_changes_no_bit() {
    let mut numbers = Numbers(12);
    let (vectors, entries, asked) =
        (numbers.vectors(400, 16), numbers.vectors(30, 16), numbers.vectors(80, 16));
    let (plain, fitted) = (Home::new(config(16, Metric::Dot)), Home::new(config(16, Metric::Dot)));
    plain.upsert(&points(0, &vectors));
    fitted.upsert(&points(0, &vectors));
    fitted.add(&queries("queries", &entries));
    fitted.fit(&LABELS);
    let asked: Vec<Vector> = asked.iter().map(|vector| plain.query(vector)).collect();
    let raw = [Variant::raw()];
    let (plain, fitted) = (plain.snapshot(), fitted.snapshot());
    let off = [fitted.correction(LABELS[0]).expect("fitted").variant(&[true], 0.0)];
    let wanted = answer_bits(&scan(&plain, &asked, 15, &raw));
    assert_eq!(answer_bits(&scan(&fitted, &asked, 15, &raw)), wanted);
    assert_eq!(answer_bits(&scan(&fitted, &asked, 15, &off)), wanted);
}

/// The center a column is served less of depends on when it was fitted; no order does.
#[test]
fn a_constant_shift_of_a_column_changes_no_order() {
    let mut numbers = Numbers(13);
    let (vectors, entries) = (numbers.vectors(500, 16), numbers.vectors(30, 16));
    let early = Home::new(config(16, Metric::Cosine));
    early.add(&queries("queries", &entries));
    // The first points are far from the bank: their mean is not that of all.
    let far: Vec<Vec<f32>> = entries[..3].iter().map(|entry| entry.iter().map(|x| -x).collect()).collect();
    early.upsert(&points(1000, &far));
    early.fit(&LABELS);
    let late = Home::new(config(16, Metric::Cosine));
    late.upsert(&points(1000, &far));
    [&early, &late].into_iter().for_each(|home| home.upsert(&points(0, &vectors)));
    late.add(&queries("queries", &entries));
    late.fit(&LABELS);
    let asked: Vec<Vector> = numbers.vectors(100, 16).iter().map(|vector| late.query(vector)).collect();
    let (early, late) = (early.snapshot(), late.snapshot());
    for label in LABELS {
        let [left, right] = [&early, &late].map(|it| it.correction(label).expect("fitted"));
        assert!((left.columns()[0].center() - right.columns()[0].center()).abs() > 0.05, "{label}");
        let found = scan(&early, &asked, 20, &[left.variant(&[true], 1.0)]);
        let wanted = scan(&late, &asked, 20, &[right.variant(&[true], 1.0)]);
        for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
            let weight = f64::from(left.variant(&[true], 1.0).bias(0)) / f64::from(left.columns()[0].at(0));
            let shift = weight * (left.columns()[0].center() - right.columns()[0].center());
            for (place, (a, b)) in found.best.iter().zip(&wanted.best).enumerate() {
                let (a_score, b_score) = (f64::from(a.score) - shift, f64::from(b.score));
                assert!((a_score - b_score).abs() < 2e-6, "{label}: {a_score} and {b_score}");
                let tied = wanted
                    .best
                    .iter()
                    .enumerate()
                    .any(|(other, it)| other != place && (it.score - b.score).abs() < 1e-6);
                assert!(a.row == b.row || tied || place == 19, "{label}: place {place}");
            }
        }
    }
}

#[test]
fn an_empty_gallery_or_no_queries_answer_nothing() {
    let home = Home::new(config(4, Metric::Dot));
    let query = [home.query(&[1.0; 4]), home.query(&[2.0; 4])];
    let empty = vec![vec![Answer::default()]; 2];
    assert_eq!(scan(&home.snapshot(), &query, 3, &[Variant::raw()]), empty);
    home.upsert(&[point(1, &[1.0; 4])]);
    home.delete([1]);
    assert_eq!(scan(&home.snapshot(), &query, 3, &[Variant::raw()]), empty);
    assert_eq!(scan(&home.snapshot(), &query[..1], 3, &[Variant::raw()]), empty[..1]);
    assert!(scan(&home.snapshot(), &[], 3, &[Variant::raw()]).is_empty());
}

#[test]
fn the_largest_vectors_the_border_lets_in_overflow_nothing() {
    for metric in [Metric::Dot, Metric::Euclidean] {
        let home = Home::new(config(2, metric));
        let largest = 6.5e18;
        let corners = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]];
        let vectors: Vec<Vec<f32>> =
            corners.iter().map(|it| it.iter().map(|x| x * largest).collect()).collect();
        home.upsert(&points(0, &vectors));
        home.add(&queries("queries", &vectors));
        home.fit(&["IS(beta=1000)", "NNN(alpha=0.75,k=5)", "CSLS(k=3)"]);
        let snapshot = home.snapshot();
        let is = snapshot.correction("IS(beta=1000)").expect("fitted").variant(&[true], 1.0);
        let asked: Vec<Vector> = vectors.iter().map(|vector| home.query(vector)).collect();
        for answers in scan(&snapshot, &asked, 5, &[Variant::raw(), is]) {
            for answer in answers {
                assert_eq!(answer.best.len(), 5);
                assert!(answer.best.iter().all(|best| best.score.is_finite()));
            }
        }
        let own = scan(&snapshot, &asked[..4], 1, &[Variant::raw()]);
        assert!(own.iter().zip(0..).all(|(answers, row)| answers[0].best[0].row == row));
        assert!(wide(snapshot.vector(0)).iter().all(|x| x.is_finite()));
    }
}
