//! Filtered searches: recall and speed of what the planner chooses, beside an exact scan of the points that a
//! filter allows and beside the same search without a filter. And gates: what a look at them costs.
//!
//! With `DEHUB_PEERS_DATA=FOLDER` it takes `gallery.npy`, `queries_bank.npy` and `queries_test.npy` from there,
//! else made vectors. A filter allows points drawn at random, or those nearest to one of them. Recall is of the
//! exact ten best that are allowed. Times are those of one thread; ratios are within the run.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::error::Error;

use dehub_benches::{Bed, Random, named_folder, read_unit, thread_cpu_seconds};
use dehub_index::{Question, Scope, Snapshot, Variant};
use dehub_query::{Query, Ranking, Response, Search, Settings, Source, run_within};
use dehub_vector::{Vector, dot};

const K: usize = 10;
const QUERIES_MAX: usize = 2000;
const ROUNDS: usize = 2;
const SHARES: [f64; 2] = [0.1, 0.2];
const EFFORTS: [usize; 2] = [32, 40];

fn main() -> Result<(), Box<dyn Error>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let (points, bank, mut queries) = match named_folder("DEHUB_PEERS_DATA") {
        Some(folder) => {
            let read = |name| read_unit(&folder.join(name));
            (read("gallery.npy")?, read("queries_bank.npy")?, read("queries_test.npy")?)
        }
        None => {
            let mut random = Random::new(7);
            (random.cone(20_000, 128), random.cone(2000, 128), random.cone(1000, 128))
        }
    };
    queries.truncate(QUERIES_MAX);
    println!("{} points x {}, {} queries", points.len(), points[0].as_slice().len(), queries.len());
    let bed = Bed::new(&points, &bank, true);
    bed.fit("IS(beta=20)");
    let snapshot = bed.collection.snapshot();
    if !std::env::args().any(|it| it == "gates") {
        pool.install(|| {
            filters(&snapshot, &queries, &Ranking::Raw);
            filters(&snapshot, &queries, &Ranking::corrected("c"));
        });
    }
    drop(snapshot);
    bed.fit("DIS(beta=20,k=1)");
    let snapshot = bed.collection.snapshot();
    pool.install(|| gates(&snapshot, &queries));
    Ok(())
}

fn filters(snapshot: &Snapshot, queries: &[Vector], ranking: &Ranking) {
    let all = snapshot.scope();
    let variant = match snapshot.correction("c") {
        Some(correction) if *ranking != Ranking::Raw => correction.variant(&[true], 1.0),
        Some(_) | None => Variant::raw(),
    };
    println!("\n{ranking:?}");
    for share in SHARES {
        for (kind, scope) in [("random", random(&all, share)), ("nearest", nearest(snapshot, &all, share))] {
            let ask = |search| {
                let answer = |scope: &Scope| -> Vec<Vec<u32>> {
                    queries
                        .iter()
                        .map(|query| rows(&answer(snapshot, scope, query, ranking, search)))
                        .collect()
                };
                (timed(|| answer(&scope)), timed(|| answer(&all)))
            };
            let ((truth, exact), _) = ask(Search::Exact);
            let ((found, chosen), (_, unfiltered)) = ask(Search::Auto);
            let batch = timed(|| {
                let question = Question { vectors: queries, limit: K, targets: &[] };
                snapshot.scan_within(&scope, &question, std::slice::from_ref(&variant))
            })
            .1;
            println!(
                "{kind:8} {share:5}: exact {exact:7.1} us (batch {batch:6.1}), unfiltered {unfiltered:7.1}, chosen {chosen:7.1} recall {:.4} ratio {:.2}",
                recall(&found, &truth),
                exact.min(unfiltered) / chosen
            );
            for effort in EFFORTS {
                let (found, spent) = timed(|| -> Vec<Vec<u32>> {
                    let walk =
                        |query| snapshot.walk_within(&scope, query, &variant, K, effort).expect("a graph");
                    queries.iter().map(|query| walk(query).iter().map(|best| best.row).collect()).collect()
                });
                println!("    walk {effort:4}: {spent:7.1} us recall {:.4}", recall(&found, &truth));
            }
        }
    }
}

fn gates(snapshot: &Snapshot, queries: &[Vector]) {
    let all = snapshot.scope();
    let correction = snapshot.correction("c").expect("fitted");
    let (raw, open) = (Variant::raw(), correction.variant(&[true], 1.0));
    let question = Question { vectors: queries, limit: 1, targets: &[] };
    let truth: Vec<bool> = snapshot
        .scan(&question, &[Variant::raw()])
        .iter()
        .map(|answers| correction.open(Some(answers[0].best[0].row))[0])
        .collect();
    let share = truth.iter().filter(|&&open| open).count();
    println!("\ngates: {share} open of {}; activated {:?}", truth.len(), correction.info().activated);
    let agree = |gates: &[bool]| gates.iter().zip(&truth).filter(|(a, b)| a == b).count();
    for effort in [8, 12, 16, 24, 32, 48, 64, 128] {
        let gate = |variant: &Variant<'_>, limit| {
            timed(|| -> Vec<bool> {
                queries
                    .iter()
                    .map(|query| {
                        let walked =
                            snapshot.walk_seeing(&all, query, variant, limit, effort).expect("a graph");
                        correction.open(walked.raw_best)[0]
                    })
                    .collect()
            })
        };
        let ((by_raw, raw1), (by_open, open10), (by_raw10, raw10)) =
            (gate(&raw, 1), gate(&open, K), gate(&raw, K));
        println!(
            "effort {effort:4}: raw top 1 {raw1:6.1} us agrees {}; raw top 10 {raw10:6.1} us {}; corrected {open10:6.1} us {}",
            agree(&by_raw),
            agree(&by_raw10),
            agree(&by_open)
        );
    }
}

fn answer(snapshot: &Snapshot, scope: &Scope, query: &Vector, ranking: &Ranking, search: Search) -> Response {
    let settings = Settings { limit: Some(K), ranking: ranking.clone(), search, filter: None };
    let query = Query { source: Source::Vector(query.as_slice().to_vec()), settings };
    run_within(snapshot, scope, &[query]).expect("a valid query").swap_remove(0)
}

fn rows(response: &Response) -> Vec<u32> {
    response.hits.iter().map(|hit| hit.row).collect()
}

/// What was found, and the least microseconds a query of some rounds.
fn timed<T>(work: impl Fn() -> T) -> (T, f64) {
    let mut least = f64::INFINITY;
    let mut found = None;
    for _ in 0..ROUNDS {
        let start = thread_cpu_seconds().unwrap_or(f64::NAN);
        found = Some(work());
        least = least.min(thread_cpu_seconds().unwrap_or(f64::NAN) - start);
    }
    #[expect(clippy::cast_precision_loss, reason = "few queries")]
    let queries = QUERIES_MAX as f64;
    (found.expect("a round"), least / queries * 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "few queries")]
fn recall(found: &[Vec<u32>], truth: &[Vec<u32>]) -> f64 {
    let hits =
        |(found, truth): (&Vec<u32>, &Vec<u32>)| found.iter().filter(|row| truth.contains(row)).count();
    let wanted: usize = truth.iter().map(Vec::len).sum();
    found.iter().zip(truth).map(hits).sum::<usize>() as f64 / wanted as f64
}

/// A share of the points, by a hash of their rows.
fn random(all: &Scope, share: f64) -> Scope {
    let hash = |row: u32| {
        f64::from(row.wrapping_mul(0x9e37_79b1).rotate_left(13).wrapping_mul(0x85eb_ca6b))
            / f64::from(u32::MAX)
    };
    all.only(all.rows().filter(|&row| hash(row) < share))
}

/// The share of the points nearest to one of them.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share"
)]
fn nearest(snapshot: &Snapshot, all: &Scope, share: f64) -> Scope {
    let centre = snapshot.vector(1234);
    let mut rows: Vec<u32> = all.rows().collect();
    rows.sort_by(|&a, &b| dot(centre, snapshot.vector(b)).total_cmp(&dot(centre, snapshot.vector(a))));
    rows.truncate((all.len() as f64 * share) as usize);
    all.only(rows)
}
