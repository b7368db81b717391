//! Filtered searches: recall and speed of what the planner chooses, beside an exact scan of the points that a
//! filter allows and beside the same search without a filter. And gates: what a correction that has one costs.
//!
//! With `DEHUB_PEERS_DATA=FOLDER` it takes `gallery.npy`, `queries_bank.npy` and `queries_test.npy` from there,
//! else made vectors. A filter allows points drawn at random, those nearest to one of them, or those farthest from
//! it. Recall is of the
//! exact ten best that are allowed. Times are those of one thread; ratios are within the run.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::error::Error;

use dehub_benches::{Bed, Random, append_run, named_folder, read_unit, thread_cpu_seconds};
use dehub_index::{Scope, Snapshot};
use dehub_query::{Engine, Query, Ranking, Response, Search, Settings, Source, calibrate_if_due, run_within};
use dehub_vector::{Vector, dot};

const K: usize = 10;
const QUERIES_MAX: usize = 1000;
const ROUNDS: usize = 2;
const SHARES: [f64; 8] = [0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 1.0];

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
    bed.fit_as("c", "IS(beta=20)");
    bed.fit_as("gated", "DIS(beta=20,k=1)");
    bed.fit_as("csls", "CSLS(k=10)");
    bed.fit_as("nnn", "NNN(alpha=0.75,k=16)");
    calibrate_if_due(&bed.collection)?;
    let snapshot = bed.collection.snapshot();
    let mut rows = Vec::new();
    pool.install(|| {
        let corrected = ["c", "gated", "csls", "nnn"].map(Ranking::corrected);
        for ranking in std::iter::once(Ranking::Raw).chain(corrected) {
            rows.extend(filters(&snapshot, &queries, &ranking));
        }
        gates(&snapshot, &queries);
    });
    let columns = "points,dim,ranking,filter,share,exact_us,open_us,chosen_us,recall,engine";
    append_run("filtered.csv", columns, &rows)?;
    Ok(())
}

/// The default search within filters. `exact` scores what is allowed, `open` searches without the filter;
/// `ratio` is the chosen search's speed by the better of the two.
fn filters(snapshot: &Snapshot, queries: &[Vector], ranking: &Ranking) -> Vec<String> {
    let mut rows_of_run = Vec::new();
    let label = match ranking {
        Ranking::Corrected { correction, .. } => {
            snapshot.correction(correction).map_or(String::new(), |found| found.info().method.to_string())
        }
        Ranking::Raw | Ranking::Default | Ranking::Auto { .. } => "raw".to_owned(),
    };
    let (points, dim) = (snapshot.len(), snapshot.config().dim.get());
    let all = snapshot.scope();
    println!("\n{ranking:?}");
    println!(
        "{:8} {:>5} {:>9} {:>9} {:>9} {:>6} {:>7}  plan",
        "filter", "share", "exact us", "open us", "chosen us", "ratio", "recall"
    );
    for share in SHARES {
        for (kind, scope) in [
            ("random", random(&all, share)),
            ("nearest", by_distance(snapshot, &all, share, 1.0)),
            ("farthest", by_distance(snapshot, &all, share, -1.0)),
        ] {
            let ask = |scope: &Scope, search| {
                let answer = |query| rows(&answer(snapshot, scope, query, ranking, search));
                timed(queries.len(), || queries.iter().map(answer).collect::<Vec<_>>())
            };
            let (truth, exact) = ask(&scope, Search::Exact);
            let (_, open) = ask(&all, Search::Auto);
            let (found, chosen) = ask(&scope, Search::Auto);
            let plan = answer(snapshot, &scope, &queries[0], ranking, Search::Auto).plan;
            println!(
                "{kind:8} {share:5} {exact:9.1} {open:9.1} {chosen:9.1} {:6.2} {:7.4}  {:?}",
                exact.min(open) / chosen,
                recall(&found, &truth),
                plan.engine
            );
            let engine = match plan.engine {
                Engine::Exact { .. } => "exact".to_owned(),
                Engine::Graph { effort } => format!("graph {effort}"),
                Engine::Codes { candidates } => format!("codes {candidates}"),
            };
            let found = recall(&found, &truth);
            rows_of_run.push(format!(
                "{points},{dim},\"{label}\",{kind},{share},{exact:.1},{open:.1},{chosen:.1},{found:.4},{engine}"
            ));
        }
    }
    rows_of_run
}

/// What a gate costs: DIS beside IS of the same β, whose walk it is where the gate is open, and beside raw,
/// whose walk it is where it is closed; and for how many queries the gate is as an exact search finds it.
#[expect(clippy::cast_precision_loss, reason = "few queries")]
fn gates(snapshot: &Snapshot, queries: &[Vector]) {
    let all = snapshot.scope();
    let ask = |ranking: &Ranking, search| {
        let gate = |query| answer(snapshot, &all, query, ranking, search).gate_open == Some(true);
        timed(queries.len(), || queries.iter().map(gate).collect::<Vec<bool>>())
    };
    let gated = Ranking::corrected("gated");
    let (truth, _) = ask(&gated, Search::Exact);
    let open = truth.iter().filter(|&&open| open).count() as f64 / truth.len() as f64;
    println!("\ngate open for {open:.3} of the queries");
    println!("{:>6} {:>8} {:>8} {:>8} {:>8} {:>8}", "effort", "raw us", "IS us", "DIS us", "DIS/IS", "agree");
    for effort in [16, 32, 64, 128, 256] {
        let search = Search::Graph { effort };
        let (_, raw) = ask(&Ranking::Raw, search);
        let (_, plain) = ask(&Ranking::corrected("c"), search);
        let (found, spent) = ask(&gated, search);
        let agree = found.iter().zip(&truth).filter(|(a, b)| a == b).count() as f64 / truth.len() as f64;
        println!("{effort:6} {raw:8.1} {plain:8.1} {spent:8.1} {:8.2} {agree:8.4}", spent / plain);
    }
}

fn answer(snapshot: &Snapshot, scope: &Scope, query: &Vector, ranking: &Ranking, search: Search) -> Response {
    let settings = Settings { limit: Some(K), ranking: ranking.clone(), search, ..Settings::default() };
    let query = Query { source: Source::Vector(query.as_slice().to_vec().into()), settings };
    run_within(snapshot, scope, &[query]).expect("a valid query").swap_remove(0)
}

fn rows(response: &Response) -> Vec<u32> {
    response.hits.iter().map(|hit| hit.row).collect()
}

/// What was found, and the least microseconds a query of some rounds.
#[expect(clippy::cast_precision_loss, reason = "few queries")]
fn timed<T>(queries: usize, work: impl Fn() -> T) -> (T, f64) {
    let round = || {
        let start = thread_cpu_seconds().unwrap_or(f64::NAN);
        let found = work();
        (found, thread_cpu_seconds().unwrap_or(f64::NAN) - start)
    };
    let (found, mut least) = round();
    for _ in 1..ROUNDS {
        least = least.min(round().1);
    }
    (found, least / queries as f64 * 1e6)
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

/// The share of the points nearest to one of them, or with the other sign farthest from it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share"
)]
fn by_distance(snapshot: &Snapshot, all: &Scope, share: f64, sign: f32) -> Scope {
    let centre = snapshot.vector(1234);
    let mut rows: Vec<u32> = all.rows().collect();
    let similarity = |row| sign * dot(centre, snapshot.vector(row));
    rows.sort_by(|&a, &b| similarity(b).total_cmp(&similarity(a)));
    rows.truncate((all.len() as f64 * share) as usize);
    all.only(rows)
}
