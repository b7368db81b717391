//! The exact scan of a batch: screened in 32 bits, in bf16 and in bytes, on one thread and on all, raw and corrected
//! together and with ranks. The ways take turns, so that what else the machine does hits all of them.
//!
//! With `DEHUB_PEERS_DATA=FOLDER` it asks `FOLDER/queries_test.npy` of `FOLDER/gallery.npy`, else made
//! vectors of the same size as those of a set of 25,060 glosses.

#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::error::Error;
use std::hint::black_box;

use dehub_benches::{Bed, Random, median, named_folder, read_unit, seconds, thread_cpu_seconds};
use dehub_index::{Question, Screen, Snapshot, Variant};
use dehub_vector::Vector;
use rayon::{ThreadPool, ThreadPoolBuilder};

const ROUNDS: usize = 5;
const POINTS: usize = 25_060;
const QUERIES: usize = 5000;
const BANK: usize = 1000;
const DIM: usize = 384;
const BATCHES: [usize; 6] = [1, 8, 16, 64, 1000, 5000];

fn main() -> Result<(), Box<dyn Error>> {
    let (points, queries, bank) = match named_folder("DEHUB_PEERS_DATA") {
        Some(folder) => (
            read_unit(&folder.join("gallery.npy"))?,
            read_unit(&folder.join("queries_test.npy"))?,
            read_unit(&folder.join("queries_bank.npy"))?,
        ),
        None => {
            let mut random = Random::new(6);
            (random.cone(POINTS, DIM), random.cone(QUERIES, DIM), random.cone(BANK, DIM))
        }
    };
    let bed = Bed::new(&points, &bank[..bank.len().min(BANK)], false);
    bed.fit("IS(beta=20)");
    let snapshot = bed.collection.snapshot();
    let corrected = snapshot.correction("c").ok_or("fitted above")?.variant(&[true], 1.0);
    let both = [Variant::raw(), corrected];
    println!(
        "{} points x {}, the 10 best; seconds, medians of {ROUNDS}",
        points.len(),
        points[0].as_slice().len()
    );
    let pools = [ThreadPoolBuilder::new().num_threads(1).build()?, ThreadPoolBuilder::new().build()?];
    for count in BATCHES.into_iter().filter(|&count| count <= queries.len()) {
        for pool in &pools {
            let batch = &queries[..count];
            compare(pool, &snapshot, batch, &both[..1], false, "raw");
            compare(pool, &snapshot, batch, &both, false, "raw and IS");
            if count >= 1000 {
                compare(pool, &snapshot, batch, &both, true, "raw and IS, a rank each");
            }
        }
    }
    Ok(())
}

/// Times all screens and holds their answers against each other.
fn compare(
    pool: &ThreadPool,
    snapshot: &Snapshot,
    vectors: &[Vector],
    variants: &[Variant<'_>],
    ranked: bool,
    what: &str,
) {
    // A target anywhere in the ranking, as that of a query that is answered badly.
    let places = if ranked { vectors.len() } else { 0 };
    let targets: Vec<Vec<u32>> =
        (0..snapshot.row_count()).map(|row| vec![row]).cycle().take(places).collect();
    let question = Question { vectors, limit: 10, targets: &targets };
    let screens = [Screen::Wide, Screen::Narrow, Screen::Bytes];
    let mut times = [const { Vec::new() }; 3];
    let rounds = if vectors.len() < 100 { 10 * ROUNDS } else { ROUNDS };
    for _ in 0..rounds {
        for (screen, times) in screens.iter().zip(&mut times) {
            let scan = || snapshot.scan_by(&question, variants, *screen);
            times.push(pool.install(|| busy_seconds(|| _ = black_box(scan()))));
        }
    }
    let answers = screens.map(|screen| pool.install(|| snapshot.scan_by(&question, variants, screen)));
    assert!(answers.iter().all(|it| *it == answers[0]), "answers are the same by every screen");
    let [wide, narrow, bytes] = times.map(median);
    println!(
        "{:5} queries, {} threads, {what:24}  f32 {wide:9.5}   bf16 {narrow:9.5}   bytes {bytes:9.5}   {:.2} x",
        vectors.len(),
        pool.current_num_threads(),
        wide / bytes
    );
}

/// Seconds of the processor on one thread, which what else the machine does hardly changes; else of the clock.
fn busy_seconds(work: impl FnOnce()) -> f64 {
    let before = thread_cpu_seconds().filter(|_| rayon::current_num_threads() == 1);
    let elapsed = seconds(work);
    before.zip(thread_cpu_seconds()).map_or(elapsed, |(before, after)| after - before)
}
