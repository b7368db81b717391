//! The scan of codes: recall, and queries a second of one thread's own time, by the number of candidates, raw
//! and corrected, for single queries and batches; beside the exact scan of the same batches.
//!
//! With `DEHUB_PEERS_DATA=FOLDER` it takes `gallery.npy`, `queries_bank.npy` and `queries_test.npy` from there,
//! else made vectors of the same size as those of a set of 25,060 glosses. Recall is of the exact ten best by
//! the same score.

#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::error::Error;

use dehub_benches::{Bed, Random, named_folder, read_unit, thread_cpu_seconds};
use dehub_index::{Answer, GraphConfig, Quantization, Question, Snapshot, Sought, Variant};
use dehub_vector::Vector;
use rayon::ThreadPoolBuilder;

const LIMIT: usize = 10;
const CANDIDATES: [usize; 6] = [40, 60, 80, 120, 160, 240];
const BATCHES: [usize; 3] = [1, 16, 5000];
const ROUNDS: usize = 3;
/// The queries asked, and those asked in small batches.
const ASKED_MAX: usize = 5000;
const ASKED_SMALL: usize = 480;

fn main() -> Result<(), Box<dyn Error>> {
    let (points, mut queries, bank) = match named_folder("DEHUB_PEERS_DATA") {
        Some(folder) => {
            let read = |name| read_unit(&folder.join(name));
            (read("gallery.npy")?, read("queries_test.npy")?, read("queries_bank.npy")?)
        }
        None => {
            let mut random = Random::new(6);
            (random.cone(25_060, 384), random.cone(5000, 384), random.cone(5000, 384))
        }
    };
    queries.truncate(ASKED_MAX);
    let graph = GraphConfig {
        full_scan_threshold: 0,
        ef_construction: 20,
        m: 4,
        quantization: Quantization::Reduced,
    };
    let bed = Bed::with(&points, &bank, graph);
    bed.build_graph();
    bed.fit("IS(beta=20)");
    let snapshot = bed.collection.snapshot();
    let bytes: Vec<usize> = snapshot.segment_infos().iter().map(|segment| segment.vector_bytes).collect();
    println!("{} points, {} queries, codes of {bytes:?} bytes", points.len(), queries.len());
    println!("queries a second in batches of {BATCHES:?}, by candidates");
    let corrected = snapshot.correction("c").ok_or("fitted above")?.variant(&[true], 1.0);
    let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
    pool.install(|| {
        report(&snapshot, &queries, "raw", &Variant::raw());
        report(&snapshot, &queries, "IS(20)", &corrected);
    });
    Ok(())
}

fn report(snapshot: &Snapshot, queries: &[Vector], name: &str, variant: &Variant<'_>) {
    let scope = snapshot.scope();
    let scan = |vectors: &[Vector]| {
        let question = Question { vectors, limit: LIMIT, targets: &[] };
        snapshot.scan(&question, std::slice::from_ref(variant))
    };
    let exact = scan(queries);
    print!("{name:8} {:>6}", "exact");
    for batch in BATCHES {
        print!(" {:9.0}", rate(queries, batch, &scan));
    }
    println!();
    for candidates in CANDIDATES {
        let sought = [Sought { variant, limit: LIMIT, candidates }];
        let scan = |vectors: &[Vector]| snapshot.scan_codes(&scope, vectors, &sought).expect("no deadline");
        print!("{name:8} {candidates:6}");
        for batch in BATCHES {
            print!(" {:9.0}", rate(queries, batch, &scan));
        }
        println!("   recall {:.4}", recall(&exact, &scan(queries)));
    }
}

/// Queries a second in batches, the best of some rounds.
#[expect(clippy::cast_precision_loss, reason = "a count of queries is far below 2^53")]
fn rate(queries: &[Vector], batch: usize, scan: &dyn Fn(&[Vector]) -> Vec<Vec<Answer>>) -> f64 {
    let queries = &queries[..queries.len().min(batch.max(ASKED_SMALL))];
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let before = thread_cpu_seconds().unwrap_or_default();
        queries.chunks(batch).for_each(|queries| _ = std::hint::black_box(scan(queries)));
        let spent = thread_cpu_seconds().unwrap_or_default() - before;
        best = best.max(queries.len() as f64 / spent);
    }
    best
}

#[expect(clippy::cast_precision_loss, reason = "a count of hits is far below 2^53")]
fn recall(exact: &[Vec<Answer>], found: &[Vec<Answer>]) -> f64 {
    let hits = |(exact, found): (&Vec<Answer>, &Vec<Answer>)| {
        let wanted = &exact[0].best;
        found[0].best.iter().filter(|candidate| wanted.iter().any(|it| it.row == candidate.row)).count()
    };
    exact.iter().zip(found).map(hits).sum::<usize>() as f64 / (exact.len() * LIMIT) as f64
}
