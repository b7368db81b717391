//! `dehub import` of a large Parquet file: how long it takes, and the most memory of its process.
//!
//! ```text
//! cargo bench --bench import -- [--rows N] [--dim N] [--store]
//! ```
//!
//! The file is made of random vectors with ids, in row groups of 64 MiB. `--dry-run` reads and checks all of it and
//! stores nothing, so its memory is that of the reader and of what is kept of ids; with `--store` the rows are imported
//! too, into a collection without a graph, and what memory the collection itself has comes on top. Figures are appended
//! to `benches/runs/import.csv`.

#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dehub_benches::{Random, append_run, peak_bytes_of, program};
use dehub_format::{Column, Kind, WriteOptions, Writer};
use dehub_vector::{PointId, Rows};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Rows written at once.
const BATCH: u64 = 100_000;

/// What the import has to stay within.
const BUDGET_MB: f64 = 1024.0;

fn main() -> Outcome<()> {
    let (mut rows, mut dim, mut stores) = (10_000_000u64, 8usize, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--rows" => rows = value()?.parse()?,
            "--dim" => dim = value()?.parse()?,
            "--store" => stores = true,
            "--bench" => {}
            _ => return Err(format!("unknown argument {argument}; they are listed in import.rs").into()),
        }
    }
    let folder = std::env::temp_dir().join(format!("dehub-import-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = measure(&folder, rows, dim, stores);
    _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn measure(folder: &Path, rows: u64, dim: usize, stores: bool) -> Outcome<()> {
    let file = folder.join("a.parquet");
    make(&file, rows, dim)?;
    let megabytes = std::fs::metadata(&file)?.len() as f64 / 1e6;
    let dim_text = dim.to_string();
    let create =
        ["create", "c", "--dim", &dim_text, "--metric", "euclidean", "--full-scan-threshold", "1000000000"];
    run(folder, &create)?;
    let file = file.to_str().ok_or("a path of text")?;
    let import = ["import", "c", file];
    let mut ways = vec![("check", [&import[..], &["--dry-run"]].concat())];
    if stores {
        ways.push(("store", import.to_vec()));
    }
    let mut lines = Vec::new();
    for (way, arguments) in ways {
        let (seconds, peak_mb) = run(folder, &arguments)?;
        let within = if peak_mb <= BUDGET_MB { "within" } else { "ABOVE" };
        println!(
            "{way}: {rows} rows of {dim} in {seconds:.1} s, at most {peak_mb:.0} MiB, {within} {BUDGET_MB} MiB"
        );
        lines.push(format!("{way},{rows},{dim},{megabytes:.0},{seconds:.1},{peak_mb:.0}"));
    }
    append_run("import.csv", "way,rows,dim,file_mb,seconds,peak_mib", &lines)?;
    Ok(())
}

fn make(file: &Path, rows: u64, dim: usize) -> Outcome<()> {
    let columns = vec![("id".to_owned(), Kind::NumberIds), ("vector".to_owned(), Kind::Vectors(dim))];
    let mut writer = Writer::create(file, columns, &WriteOptions::default())?;
    let mut random = Random::new(1);
    for first in (0..rows).step_by(usize::try_from(BATCH)?) {
        let ids: Vec<PointId> = (first..rows.min(first + BATCH)).map(PointId::Number).collect();
        let numbers = random.numbers(ids.len() * dim);
        writer.write(vec![Column::Ids(ids), Column::Vectors(Rows::new(dim, numbers)?)])?;
    }
    writer.finish()?;
    Ok(())
}

/// Runs `dehub` of this build: its seconds, and the most MiB of memory it had.
fn run(folder: &Path, arguments: &[&str]) -> Outcome<(f64, f64)> {
    let mut command = Command::new(program().map_err(|error| error.to_string())?);
    command.args(["--quiet", "--data-dir"]).arg(folder.join("data")).args(arguments);
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let mut peak = 0.0;
    let status = loop {
        peak = peak_bytes_of(child.id()).unwrap_or(peak);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(10));
    };
    if !status.success() {
        return Err(format!("dehub {}: {status}", arguments.join(" ")).into());
    }
    Ok((start.elapsed().as_secs_f64(), peak / 1_048_576.0))
}
