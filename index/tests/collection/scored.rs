//! Rankings by scores that are no weighted sums: against brute force in f64, by every finder of
//! candidates, and through the life of a collection.

use std::collections::BTreeMap;

use dehub_index::{Correction, Question, Scored, ScoredAnswer, Snapshot, Variant};
use dehub_normalize::Method;
use dehub_vector::{Candidate, Metric, PointId, Vector};

use crate::made::{Home, Numbers, config, config_with_graph, fit, gallery, name, points, queries};
use crate::reference::{similarity, top_mean};
use crate::wordnet;

const LABELS: [&str; 6] =
    ["GC(k=7)", "GC(k=500)", "RatioMargin(k=4)", "MP2", "DualSoftmax(beta=20)", "DualSoftmax(beta=1000)"];

/// Those that have a meaning under a metric.
fn labels(metric: Metric) -> Vec<&'static str> {
    let serves = |label: &&str| fit(label).method.refuses(metric).is_none();
    LABELS.into_iter().filter(serves).collect()
}

/// Points, query bank, gallery bank and queries.
struct Contents {
    metric: Metric,
    points: Vec<Vec<f32>>,
    bank: Vec<Vec<f32>>,
    references: Vec<Vec<f32>>,
    asked: Vec<Vec<f32>>,
}

impl Contents {
    fn random(metric: Metric, seed: u64, dim: usize) -> Contents {
        let mut numbers = Numbers(seed);
        let mut some = |count| numbers.vectors(count, dim);
        Contents { metric, points: some(150), bank: some(60), references: some(40), asked: some(6) }
    }

    /// Small whole numbers: similarities are exact, and ties and copies are everywhere.
    fn whole(seed: u64) -> Contents {
        let mut contents = Contents::random(Metric::Dot, seed, 3);
        contents.each(|x| *x = (*x * 2.0).round());
        contents
    }

    fn each(&mut self, change: impl Fn(&mut f32)) {
        let all = [&mut self.points, &mut self.bank, &mut self.references, &mut self.asked];
        all.into_iter().flatten().flatten().for_each(change);
    }

    fn home(&self) -> Home {
        let home = Home::new(config(self.points[0].len(), self.metric));
        home.upsert(&points(0, &self.points));
        home.add(&queries("queries", &self.bank));
        home.add(&gallery("gallery", 10_000, &self.references));
        home.fit(&labels(self.metric).into_iter().filter(|it| fits(it, self.bank.len())).collect::<Vec<_>>());
        home
    }
}

/// Whether a bank of this size is large enough.
fn fits(label: &str, entries: usize) -> bool {
    fit(label).method.banks(Metric::Dot).iter().all(|&(_, least)| least <= entries)
}

fn adversarial() -> Vec<(&'static str, Contents)> {
    let mut logits = Contents::random(Metric::Dot, 3, 8);
    logits.each(|x| *x *= 10.0);
    let mut opposite = Contents::random(Metric::Cosine, 4, 8);
    opposite.bank.iter_mut().flatten().for_each(|x| *x = -*x);
    opposite.asked.iter_mut().flatten().for_each(|x| *x = -*x);
    let mut single = Contents::random(Metric::Cosine, 5, 8);
    single.bank.truncate(1);
    single.references.truncate(1);
    let mut copies = Contents::random(Metric::Cosine, 6, 8);
    copies.bank = vec![copies.bank[0].clone(); 20];
    let copied = copies.points[3].clone();
    copies.points[20..].fill(copied);
    let mut known = Contents::random(Metric::Cosine, 7, 8);
    known.asked = known.bank[..6].to_vec();
    vec![
        ("cosine", Contents::random(Metric::Cosine, 1, 16)),
        ("euclidean", Contents::random(Metric::Euclidean, 2, 16)),
        ("logits a hundredfold", logits),
        ("negative similarities", opposite),
        ("a bank of one", single),
        ("copies", copies),
        ("queries of the bank", known),
        ("ties", Contents::whole(8)),
        ("more ties", Contents::whole(9)),
    ]
}

fn asked(home: &Home, vectors: &[Vec<f32>]) -> Vec<Vector> {
    vectors.iter().map(|vector| home.query(vector)).collect()
}

fn scan(snapshot: &Snapshot, asked: &[Vector], label: &str, limit: usize) -> Vec<ScoredAnswer> {
    let correction = snapshot.correction(label).expect("fitted");
    snapshot
        .scan_scored(&snapshot.scope(), &Question { vectors: asked, limit, targets: &[] }, correction, &[])
        .expect("no deadline")
}

/// `ln Φ(z)`; the tail by the continued fraction of Mills' ratio.
fn ln_normal(z: f64) -> f64 {
    if z > 6.0 {
        return (-ln_normal(-z).exp()).ln_1p();
    }
    if z > -6.0 {
        // The series of the central half, and its mirror image.
        let (mut term, mut sum) = (z.abs(), z.abs());
        for n in 1..200 {
            term *= z * z / f64::from(2 * n + 1);
            sum += term;
        }
        let half = sum * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        return if z < 0.0 { (0.5 - half).ln() } else { (-(0.5 - half)).ln_1p() };
    }
    let mills = (1..200).rev().fold(0.0, |rest, n| f64::from(n) / (-z + rest));
    -z * z / 2.0 - (2.0 * std::f64::consts::PI).ln() / 2.0 - (-z + mills).ln()
}

/// Everything a published score is made of.
struct Formula<'a> {
    method: &'a Method,
    /// Of the query to the gallery, largest first.
    near: Vec<f64>,
    to_references: Vec<f64>,
}

impl Formula<'_> {
    fn parameter(&self, name: &str) -> f64 {
        self.method.parameters().find(|(own, _)| *own == name).expect("it has it").1
    }

    /// The score of a similarity less `off`, which also lowers what it is compared with.
    fn score(&self, s: f64, to_bank: &[f64], off: f64) -> f64 {
        match self.method.name() {
            "GC" => -(to_bank.iter().filter(|&&other| other > s).count() as f64).min(self.parameter("k")),
            "RatioMargin" => {
                let mean = |all: &[f64]| (top_mean(self.parameter("k") as usize, all) + off).max(1e-6);
                s / ((mean(&self.near) + mean(to_bank)) / 2.0)
            }
            "MP2" => ln_below(s - off, &self.to_references) + ln_below(s - off, to_bank),
            "DualSoftmax" if s <= 0.0 => f64::from(f32::MIN),
            "DualSoftmax" => {
                let beta = self.parameter("beta");
                let top = to_bank.iter().copied().fold(s - off, f64::max);
                let sum: f64 = to_bank.iter().chain([&(s - off)]).map(|x| (beta * (x - top)).exp()).sum();
                s.ln() + beta * (s - off - top) - sum.ln()
            }
            other => panic!("no formula for {other}"),
        }
    }
}

fn ln_below(s: f64, numbers: &[f64]) -> f64 {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
    ln_normal((s - mean) / variance.sqrt().max(1e-6))
}

/// Checks a full answer: every score lies between those of the formula with what 32 bits leave of a
/// column put on either side of it, and the order is that of the scores.
fn check(snapshot: &Snapshot, query: &Vector, correction: &Correction, found: &[Scored], what: &str) {
    let wide = |queries: &[Vector], row: u32| -> Vec<f64> {
        queries.iter().map(|query| f64::from(snapshot.similarity(query, row))).collect()
    };
    let bank = snapshot.bank_queries(&name("queries"), usize::MAX);
    let mut near: Vec<f64> = snapshot.rows().map(|row| wide(std::slice::from_ref(query), row)[0]).collect();
    near.sort_by(|a, b| b.total_cmp(a));
    let metric = snapshot.config().metric;
    let references = snapshot.bank_queries(&name("gallery"), usize::MAX);
    let to_references =
        references.iter().map(|it| similarity(metric, query.as_slice(), it.as_slice())).collect();
    let formula = Formula { method: &correction.info().method, near, to_references };
    assert_eq!(found.len(), snapshot.len(), "{what}");
    assert!(found.is_sorted_by(|a, b| a > b), "{what}");
    for scored in found {
        let s = snapshot.similarity(query, scored.row);
        assert_eq!(scored.similarity, s, "{what}");
        let to_bank = wide(&bank, scored.row);
        let size = to_bank.iter().fold(1.0_f64, |size, s| size.max(s.abs()));
        let off = 1e-6 * size;
        let ends = [-off, 0.0, off].map(|off| formula.score(f64::from(s), &to_bank, off));
        let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let slack = 1e-7 * high.abs().max(low.abs()).max(1.0);
        assert!(
            (low - slack..=high + slack).contains(&scored.score),
            "{what}, row {}: {} is not in {low}..={high}",
            scored.row,
            scored.score
        );
    }
}

#[test]
fn scores_are_the_formulas_on_friendly_and_unfriendly_contents() {
    for (what, contents) in adversarial() {
        let home = contents.home();
        let (snapshot, asked) = (home.snapshot(), asked(&home, &contents.asked));
        for correction in snapshot.corrections() {
            let label = correction.info().name.as_str();
            for (query, answer) in asked.iter().zip(scan(&snapshot, &asked, label, contents.points.len())) {
                check(&snapshot, query, correction, &answer.best, &format!("{label}: {what}"));
            }
        }
    }
}

#[test]
fn a_batch_is_its_queries_a_list_the_head_of_the_whole_and_a_rank_a_place_in_it() {
    for (what, contents) in adversarial() {
        let home = contents.home();
        let (snapshot, asked) = (home.snapshot(), asked(&home, &contents.asked));
        let all: Vec<u32> = snapshot.rows().collect();
        for correction in snapshot.corrections() {
            let label = correction.info().name.as_str();
            let whole = scan(&snapshot, &asked, label, all.len());
            let targets = vec![all.clone(); asked.len()];
            let question = Question { vectors: &asked, limit: 9, targets: &targets };
            let heads =
                snapshot.scan_scored(&snapshot.scope(), &question, correction, &[]).expect("no deadline");
            for ((query, whole), head) in asked.iter().zip(&whole).zip(&heads) {
                assert_eq!(head.best, whole.best[..9], "{label}: {what}");
                let alone = scan(&snapshot, std::slice::from_ref(query), label, all.len());
                assert_eq!(&alone[0], whole, "{label}: {what}");
                for (place, scored) in (1..).zip(&whole.best) {
                    assert_eq!(head.ranks[scored.row as usize], place, "{label}: {what}");
                }
            }
        }
    }
}

/// The exact scan as a finder of candidates.
fn by_scan<'a>(
    snapshot: &'a Snapshot,
    query: &'a Vector,
) -> impl Fn(&Variant<'_>, usize) -> Vec<Candidate> + 'a {
    move |variant, limit| {
        let question = Question { vectors: std::slice::from_ref(query), limit, targets: &[] };
        snapshot.scan(&question, std::slice::from_ref(variant)).remove(0).remove(0).best
    }
}

#[test]
fn with_exact_candidates_sweep_and_iteration_are_exact() {
    let mut numbers = Numbers(21);
    for (metric, k) in [(Metric::Cosine, 3), (Metric::Cosine, 64), (Metric::Dot, 20), (Metric::Euclidean, 9)]
    {
        let contents = Contents {
            points: numbers.vectors(2500, 12),
            bank: numbers.vectors(200, 12),
            asked: numbers.vectors(40, 12),
            ..Contents::random(metric, 22, 12)
        };
        let home = contents.home();
        let exact = [format!("GC(k={k})"), format!("RatioMargin(k={k})")];
        let exact: Vec<&str> =
            exact.iter().map(String::as_str).filter(|it| fit(it).method.refuses(metric).is_none()).collect();
        home.fit(&exact);
        let (snapshot, asked) = (home.snapshot(), asked(&home, &contents.asked));
        for label in exact {
            let correction = snapshot.correction(label).expect("fitted");
            for limit in [1, 10] {
                for (query, wanted) in asked.iter().zip(scan(&snapshot, &asked, label, limit)) {
                    let walks = std::cell::Cell::new(0);
                    let finder = by_scan(&snapshot, query);
                    let counted = |variant: &Variant<'_>, limit: usize| {
                        walks.set(walks.get() + 1);
                        finder(variant, limit)
                    };
                    let found = snapshot.search_scored(correction, query, None, limit, &counted);
                    assert_eq!(found, wanted.best, "{label} under {metric}, limit {limit}");
                    assert!(walks.get() <= 10, "{label}: {} walks", walks.get());
                }
            }
        }
    }
}

#[test]
fn a_level_is_zero_or_more_exactly_where_fewer_are_more_similar() {
    for (what, contents) in adversarial() {
        let home = contents.home();
        let (snapshot, asked) = (home.snapshot(), asked(&home, &contents.asked));
        let correction = snapshot.correction("GC(k=7)").expect("fitted");
        let lists = &correction.columns()[0];
        assert_eq!(lists.list_len(), 7.min(contents.bank.len()));
        for place in 0..lists.list_len() {
            let variant = Variant::level(lists, place);
            for (query, answer) in asked.iter().zip(scan(&snapshot, &asked, "GC(k=7)", 150)) {
                for scored in &answer.best {
                    let passes = variant.score(scored.similarity, scored.row) >= 0.0;
                    assert_eq!(passes, -scored.score <= place as f64, "{what}, level {place}, {scored:?}");
                }
                let scanned = by_scan(&snapshot, query)(&variant, 150);
                assert!(scanned.is_sorted_by(|a, b| a > b));
                assert!(
                    scanned
                        .iter()
                        .all(|it| { it.score == variant.score(snapshot.similarity(query, it.row), it.row) })
                );
            }
        }
    }
}

#[test]
fn the_order_of_the_points_does_not_matter() {
    let contents = Contents::random(Metric::Cosine, 31, 16);
    let order = Numbers(32).order(contents.points.len());
    let moved = Contents {
        points: order.iter().map(|&row| contents.points[row].clone()).collect(),
        bank: contents.bank.iter().rev().cloned().collect(),
        references: contents.references.iter().rev().cloned().collect(),
        ..Contents::random(Metric::Cosine, 31, 16)
    };
    let (before, after) = (contents.home(), moved.home());
    for label in labels(Metric::Cosine) {
        let list = |home: &Home| scan(&home.snapshot(), &asked(home, &contents.asked), label, 50);
        for (before, after) in list(&before).iter().zip(&list(&after)) {
            let back: Vec<u32> = after.best.iter().map(|it| order[it.row as usize] as u32).collect();
            assert_eq!(before.best.iter().map(|it| it.row).collect::<Vec<_>>(), back, "{label}");
        }
    }
}

/// Each query's full ranking: id → score.
fn scores(home: &Home, contents: &Contents) -> Vec<BTreeMap<PointId, f64>> {
    let (snapshot, asked) = (home.snapshot(), asked(home, &contents.asked));
    let mut scores = Vec::new();
    for label in labels(contents.metric) {
        for answer in scan(&snapshot, &asked, label, snapshot.len()) {
            let rows: Vec<u32> = answer.best.iter().map(|it| it.row).collect();
            let ids = snapshot.points(&rows).expect("records").into_iter().map(|point| point.id);
            scores.push(ids.zip(answer.best.iter().map(|it| it.score)).collect());
        }
    }
    scores
}

#[test]
fn however_it_grew_and_after_reopening_a_collection_scores_as_one_fitted_at_once() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
        let contents = Contents::random(metric, 41, 16);
        let at_once = contents.home();
        let first = Contents {
            points: contents.points[..30].to_vec(),
            bank: contents.bank[..10].to_vec(),
            references: contents.references[..5].to_vec(),
            ..Contents::random(metric, 41, 16)
        };
        let mut grown = first.home();
        let version =
            |home: &Home| home.snapshot().corrections().map(|it| it.info().version).collect::<Vec<_>>();
        let before = version(&grown);
        grown.add(&gallery("gallery", 10_005, &contents.references[5..]));
        let raised = version(&grown).iter().zip(&before).filter(|(after, before)| after > before).count();
        assert_eq!(raised, 1, "the one that compares queries with the gallery bank");
        grown.upsert(&points(30, &contents.points[30..90]));
        grown.add(&queries("queries", &contents.bank[10..40]));
        grown.upsert(&points(90, &contents.points[90..]));
        // Points that come and go, and one that moves and returns.
        grown.upsert(&points(7000, &contents.asked));
        grown.upsert(&points(17, &contents.asked[..1]));
        grown.delete(7000..7006);
        grown.upsert(&points(17, &contents.points[17..18]));
        grown.reopen();
        grown.add(&queries("queries", &contents.bank[40..]));
        let kept = crate::dump::dump(&grown.snapshot());
        grown.reopen();
        assert_eq!(crate::dump::dump(&grown.snapshot()), kept);
        for (found, wanted) in scores(&grown, &contents).iter().zip(&scores(&at_once, &contents)) {
            assert!(found.keys().eq(wanted.keys()));
            for (id, score) in found {
                let error = 1e-4 * wanted[id].abs().max(1.0);
                assert!((score - wanted[id]).abs() <= error, "{metric}, {id}: {score}, {}", wanted[id]);
            }
        }
    }
}

#[test]
fn the_point_searched_by_is_no_neighbour_of_its_own() {
    let contents = Contents::random(Metric::Cosine, 51, 16);
    let home = contents.home();
    let snapshot = home.snapshot();
    let correction = snapshot.correction("RatioMargin(k=4)").expect("fitted");
    let query = [snapshot.query_of(12)];
    let question = Question { vectors: &query, limit: 150, targets: &[] };
    let scan = |question: &Question<'_>, left_out| {
        let answers = snapshot.scan_scored(&snapshot.scope(), question, correction, left_out);
        answers.expect("no deadline")
    };
    let with = scan(&question, &[]).remove(0).best;
    let without = scan(&question, &[Some(12)]).remove(0).best;
    let mut near: Vec<f64> = with.iter().map(|it| f64::from(it.similarity)).collect();
    near.sort_by(|a, b| b.total_cmp(a));
    // Ratios of one point are to each other as the denominators, which differ by the query's mean alone.
    let [with, without] = [&with, &without].map(|list| list.iter().find(|it| it.row == 40).expect("all"));
    let halves = (top_mean(4, &near[1..]) - top_mean(4, &near)) / 2.0;
    let similarity = f64::from(with.similarity);
    assert!((similarity / without.score - similarity / with.score - halves).abs() < 1e-6);
    let searched = snapshot.search_scored(correction, &query[0], Some(12), 9, &by_scan(&snapshot, &query[0]));
    let wanted = scan(&Question { limit: 10, ..question }, &[Some(12)]);
    assert_eq!(searched, wanted[0].best);
}

#[test]
fn walks_find_the_best_of_the_bundled_words() {
    let home = Home::new(config_with_graph(wordnet::DIM, Metric::Cosine));
    home.upsert(&points(0, &wordnet::gallery()));
    home.add(&queries("queries", &wordnet::bank()));
    home.collection().bank_from_gallery(&name("gallery")).expect("a bank");
    let labels = ["GC(k=64)", "GC(k=1000)", "RatioMargin(k=4)", "MP2", "DualSoftmax(beta=20)"];
    home.fit(&labels);
    home.build_graph();
    let (snapshot, asked) = (home.snapshot(), asked(&home, &wordnet::queries()));
    for label in labels {
        let correction = snapshot.correction(label).expect("fitted");
        let share = |(query, wanted): (&Vector, &ScoredAnswer)| {
            let walk = |variant: &Variant<'_>, limit: usize| {
                snapshot.walk(query, variant, limit, 128).expect("there is a graph")
            };
            let found = snapshot.search_scored(correction, query, None, 10, &walk);
            assert_eq!(found.len(), 10);
            let good = found.iter().filter(|it| wanted.best.contains(it)).count();
            good as f64 / 10.0
        };
        let wanted = scan(&snapshot, &asked, label, 10);
        let recall = asked.iter().zip(&wanted).map(share).sum::<f64>() / asked.len() as f64;
        println!("{label:20} {recall:.4}");
        assert!(recall >= 0.95, "{label}: {recall}");
    }
}

#[test]
fn a_method_without_biases_raises_no_alarm() {
    let contents = Contents::random(Metric::Cosine, 61, 8);
    let home = contents.home();
    let snapshot = home.snapshot();
    let rows: Vec<u32> = snapshot.rows().collect();
    for correction in snapshot.corrections() {
        assert_eq!(snapshot.hub_alarms(correction, &rows[..3], 1.0), []);
    }
}
