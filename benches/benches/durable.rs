//! How many points a second become durable, beside other engines: batches of 1, 100 and 1,000 points, each synced
//! before the next, with ids that are new or those of 10,000 points. Each turn is a process and a folder of its own.
//! Engines take turns, as a disk is not always as fast; a speed is the median of the rounds.
//!
//! ```text
//! cargo bench --bench durable -- [--dim N] [--seconds N] [--rounds N] [--only A,B] [--endure N]
//! ```
//!
//! `DEHUB_PYTHON` names a Python with the others, which `benches/peers/durable_run.py` runs; those it lacks are named.
//! Where there is strace, a few more batches tell how often the system was asked to sync for one. Every figure is
//! appended to `benches/runs/durable.csv`. `--endure` instead upserts so many points over 10,000 ids, and prints what
//! memory and files the collection has as it goes.

#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dehub_benches::{Random, append_run, median, resident_bytes};
use dehub_index::{Catalogue, Collection, CollectionConfig, GraphConfig, Payload, PointInput};
use dehub_vector::Metric;
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error>>;

const OURS: &str = "dehub";
/// Writers that wait for syncs together.
const TOGETHER: &str = "dehub-8-writers";
const WRITERS: usize = 8;
const PEERS: [&str; 3] = ["qdrant-edge", "lancedb", "lancedb-synced"];
const BATCHES: [usize; 3] = [1, 100, 1000];
const IDS: [&str; 2] = ["fresh", "overwriting"];
const OVERWRITTEN: u64 = 10_000;
const ROWS_MADE: usize = 4096;
/// Batches for strace, beside none, whose difference is what batches take.
const TRACED: u64 = 40;
const TRACED_CALLS: &str = "trace=fsync,fdatasync,msync,sync_file_range,sync,syncfs";
/// Between two looks at the memory.
const ENDURED_STEP: u64 = 50_000;
const ENDURED_BATCH: usize = 1000;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let (mut dim, mut seconds, mut rounds, mut only, mut endure) = (128, 2.0, 3_usize, None, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--dim" => dim = value()?.parse()?,
            "--seconds" => seconds = value()?.parse()?,
            "--rounds" => rounds = value()?.parse()?,
            "--only" => only = Some(value()?),
            "--endure" => endure = Some(value()?.parse()?),
            // One of our own turns, in a process of its own.
            "--turn" => return turn(&arguments.collect::<Vec<_>>()),
            // Cargo says this to every bench.
            "--bench" => {}
            _ => return Err(format!("unknown argument {argument}; they are listed in durable.rs").into()),
        }
    }
    if let Some(upserts) = endure {
        return endured(dim, upserts);
    }
    contest(dim, seconds, rounds, only.as_deref())
}

/// Every engine at every batch, the engines in turns.
fn contest(dim: usize, seconds: f64, rounds: usize, only: Option<&str>) -> Outcome<()> {
    let is_wanted = |name: &&str| only.as_ref().is_none_or(|only| only.split(',').any(|it| it == *name));
    if rounds == 0 {
        return Err("wanted at least one round".into());
    }
    let mut rows = Vec::new();
    println!("{:16} {:12} {:>6} {:>12} {:>14}", "engine", "ids", "batch", "points/s", "syncs/batch");
    let engines: Vec<&str> = [OURS, TOGETHER].iter().chain(&PEERS).copied().filter(is_wanted).collect();
    for (ids, batch) in IDS.iter().flat_map(|ids| BATCHES.map(|batch| (ids, batch))) {
        let mut speeds: Vec<Outcome<Vec<f64>>> = engines.iter().map(|_| Ok(Vec::new())).collect();
        for _ in 0..rounds {
            for (&engine, speeds) in engines.iter().zip(&mut speeds) {
                let speed = Turn { engine, ids, batch, dim }.speed(seconds);
                match (speeds.as_mut(), speed) {
                    (Ok(speeds), Ok(speed)) => speeds.push(speed),
                    (Ok(_), Err(error)) => *speeds = Err(error),
                    (Err(_), _) => {}
                }
            }
        }
        for (engine, speeds) in engines.iter().copied().zip(speeds) {
            match speeds {
                Ok(speeds) => {
                    let (speed, turn) = (median(speeds), Turn { engine, ids, batch, dim });
                    let syncs = turn.syncs().map_or_else(|_| "unknown".to_owned(), |it| format!("{it:.1}"));
                    println!("{engine:16} {ids:12} {batch:6} {speed:12.0} {syncs:>14}");
                    rows.push(format!("{engine},{ids},{batch},{dim},{speed:.1},{syncs}"));
                }
                Err(error) => println!("{engine:16} {ids:12} {batch:6} absent: {error}"),
            }
        }
    }
    Ok(append_run("durable.csv", "engine,ids,batch,dim,points_per_second,syncs_per_batch", &rows)?)
}

/// An engine and what it is to write.
struct Turn<'a> {
    engine: &'a str,
    ids: &'a str,
    batch: usize,
    dim: usize,
}

impl Turn<'_> {
    /// Points a second.
    fn speed(&self, seconds: f64) -> Outcome<f64> {
        let said = self.take(None, seconds, u64::MAX >> 1)?;
        let number = |field: &str| said[field].as_f64().ok_or_else(|| format!("no {field} in {said}"));
        Ok(number("points")? / number("seconds")?)
    }

    /// How often the system is asked to sync for a batch.
    fn syncs(&self) -> Outcome<f64> {
        let folder = tempfile::tempdir()?;
        let calls = |batches: u64| -> Outcome<f64> {
            let table = folder.path().join(batches.to_string());
            _ = self.take(Some(&table), f64::from(u32::MAX), batches)?;
            // Columns: share, seconds, microseconds a call, calls, perhaps errors, name.
            let line =
                |line: &str| line.split_whitespace().nth(3).and_then(|calls| calls.parse::<f64>().ok());
            Ok(fs::read_to_string(table)?.lines().filter(|it| !it.ends_with("total")).filter_map(line).sum())
        };
        #[expect(clippy::cast_precision_loss, reason = "a few")]
        let batches = TRACED as f64;
        Ok((calls(TRACED)? - calls(0)?) / batches)
    }

    /// Writes in a process of its own; what that says at its end.
    fn take(&self, traced: Option<&Path>, seconds: f64, batches: u64) -> Outcome<Value> {
        let folder = tempfile::tempdir()?;
        let own = std::env::current_exe()?;
        let python = std::env::var("DEHUB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/durable_run.py");
        let start = match self.engine {
            OURS | TOGETHER => [own.as_os_str(), "--turn".as_ref()],
            _ => [python.as_ref(), script.as_os_str()],
        };
        let mut command = Command::new(traced.map_or(start[0], |_| "strace".as_ref()));
        if let Some(table) = traced {
            command.args(["-f", "-qq", "-c", "-e", TRACED_CALLS, "-o"]).arg(table).arg(start[0]);
        }
        command.arg(start[1]).arg(self.engine).arg(folder.path()).arg(self.ids);
        command.args([
            self.batch.to_string(),
            self.dim.to_string(),
            seconds.to_string(),
            batches.to_string(),
        ]);
        let output = command.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.lines().last().unwrap_or("it failed").to_owned().into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Ours, as the Python beside it: engine, folder, ids, batch, dim, seconds and batches.
fn turn(arguments: &[String]) -> Outcome<()> {
    let [engine, folder, ids, batch, dim, seconds, batches] = arguments else {
        return Err("wanted an engine, a folder, ids, a batch, a dim, seconds and batches".into());
    };
    let (batch, dim): (usize, usize) = (batch.parse()?, dim.parse()?);
    let (seconds, batches): (f64, u64) = (seconds.parse()?, batches.parse()?);
    let collection = new_collection(Path::new(folder), dim)?;
    let source = Source::new(dim, ids == "overwriting");
    let begun = AtomicU64::new(0);
    let write_on = |elapsed: &dyn Fn(f64) -> f64| -> Outcome<f64> {
        let mut own = 0.0;
        while elapsed(own) < seconds {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            if number >= batches {
                break;
            }
            let points = source.batch(number, batch)?;
            let start = Instant::now();
            collection.upsert(&points)?;
            own += start.elapsed().as_secs_f64();
        }
        Ok(own)
    };
    // Alone, what counts is the time of its writes; of many, the time they all take, making points included.
    let spent = if engine == TOGETHER {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let write = || write_on(&|_| start.elapsed().as_secs_f64()).map_err(|error| error.to_string());
            let threads: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(outcome) => outcome.map(drop),
                Err(_) => Err("a writer panicked".to_owned()),
            })
        })?;
        start.elapsed().as_secs_f64()
    } else {
        write_on(&|own| own)?
    };
    let points = collection.snapshot().row_count();
    let batches = collection.snapshot().sequence();
    println!("{{\"points\": {points}, \"batches\": {batches}, \"seconds\": {spent}}}");
    Ok(())
}

/// An empty collection of strict durability.
fn new_collection(folder: &Path, dim: usize) -> Outcome<Arc<Collection>> {
    let config = CollectionConfig::new(dim, Metric::Dot, GraphConfig::default())?;
    Ok(Catalogue::new(folder).create(&"durable".parse()?, config)?)
}

/// Points with a vector and a payload of one field.
struct Source {
    rows: Vec<Vec<f32>>,
    overwrites: bool,
}

impl Source {
    fn new(dim: usize, overwrites: bool) -> Source {
        let rows = Random::new(7).cone(ROWS_MADE, dim);
        Source { rows: rows.iter().map(|row| row.as_slice().to_vec()).collect(), overwrites }
    }

    fn batch(&self, number: u64, batch: usize) -> Outcome<Vec<PointInput>> {
        let first = number * batch as u64;
        let point = |place: u64| -> Outcome<PointInput> {
            let id = if self.overwrites { place % OVERWRITTEN } else { place };
            let row = usize::try_from(place % ROWS_MADE as u64)?;
            let payload = Payload::parse(&format!("{{\"name\":\"n{id}\"}}"))?;
            Ok(PointInput {
                id: id.into(),
                vector: self.rows[row].clone().into(),
                named: Vec::new(),
                payload: Some(payload),
                text: None,
            })
        };
        (first..first + batch as u64).map(point).collect()
    }
}

/// Upserts so many points over 10,000 ids, and prints what the process and the collection hold meanwhile.
fn endured(dim: usize, upserts: u64) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let collection = new_collection(folder.path(), dim)?;
    let source = Source::new(dim, true);
    let start = Instant::now();
    let mut shown = Duration::ZERO;
    println!("{:>10} {:>14} {:>14} {:>10}", "upserts", "memory in MB", "files in MB", "points/s");
    for number in 0..upserts.div_ceil(ENDURED_BATCH as u64) {
        collection.upsert(&source.batch(number, ENDURED_BATCH)?)?;
        let done = (number + 1) * ENDURED_BATCH as u64;
        if done.is_multiple_of(ENDURED_STEP) {
            #[expect(clippy::cast_precision_loss, reason = "for people to read")]
            let files = collection.bytes_on_disk() as f64 / 1e6;
            let memory = resident_bytes().unwrap_or(f64::NAN) / 1e6;
            #[expect(clippy::cast_precision_loss, reason = "for people to read")]
            let speed = ENDURED_STEP as f64 / (start.elapsed() - shown).as_secs_f64();
            shown = start.elapsed();
            println!("{done:10} {memory:14.0} {files:14.0} {speed:10.0}");
        }
    }
    Ok(())
}
