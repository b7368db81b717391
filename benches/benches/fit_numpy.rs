//! Fitting IS, CSLS and NNN together, beside the bare matrix product on the same threads and beside the
//! numpy way (matrix product, log-sum-exp, partition). The three take turns, so that what else the machine
//! does hits all of them; ratios are of medians.
//!
//! With `DEHUB_FIT_DATA=FOLDER` it fits `FOLDER/gallery.npy` from `FOLDER/queries_bank.npy`, else made
//! vectors of the same size as those of a set of 25,060 glosses. `DEHUB_PYTHON` names a Python with numpy.
#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use dehub_benches::{Random, median, read_unit, seconds};
use dehub_format::{ReadOptions, open, write_npy};
use dehub_normalize::{Bank, Points, Statistic, fit_states};
use dehub_vector::{CHUNK_ROWS, Chunked, Metric, Rows, Vector, matrix_product};
use rayon::prelude::*;

const ROUNDS: usize = 5;
const POINTS: usize = 25_060;
const BANK: usize = 15_000;
const DIM: usize = 384;

/// What the child of the memory measurement is told.
const MEMORY: &str = "DEHUB_FIT_MEMORY";

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    if let Some(folder) = std::env::var_os(MEMORY) {
        return report_memory(Path::new(&folder));
    }
    let folder = tempfile::tempdir()?;
    let (gallery, bank) = inputs(folder.path())?;
    let size = format!("{} points x {} bank entries x {}", gallery.len(), bank.len(), gallery.width());
    println!("fit IS(beta=20) + CSLS(k=10) + NNN(k=16): {size}, {} threads", rayon::current_num_threads());
    let mut numpy = Numpy::start(folder.path())?;
    let (mut bare, mut fused, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(seconds(|| product(&gallery, &bank)));
        fused.push(seconds(|| _ = black_box(fit(&gallery, &bank))));
        if let Some(numpy) = &mut numpy {
            peer.push(numpy.round()?);
        }
    }
    let (bare, fused) = (median(bare), median(fused));
    println!("  bare matrix product    {bare:8.3} s");
    println!("  fused fit              {fused:8.3} s   {:.2} x the bare product", fused / bare);
    if let Some(numpy) = numpy {
        let (peer, last) = (median(peer), numpy.stop()?);
        println!("  numpy                  {peer:8.3} s   {:.2} x the fused fit", peer / fused);
        println!("  numpy says {}", last.trim());
        println!("  ours, the same means: {:?}", means(&fit(&gallery, &bank)));
    }
    let child = Command::new(std::env::current_exe()?).env(MEMORY, folder.path()).output()?;
    print!("{}", String::from_utf8_lossy(&child.stdout));
    Ok(())
}

/// The gallery and the bank, which are also written to `folder` for the other processes.
fn inputs(folder: &Path) -> Outcome<(Chunked, Chunked)> {
    let (gallery, bank) = match std::env::var_os("DEHUB_FIT_DATA") {
        Some(data) => {
            let data = Path::new(&data);
            (read_unit(&data.join("gallery.npy"))?, read_unit(&data.join("queries_bank.npy"))?)
        }
        None => {
            let mut random = Random::new(5);
            (random.cone(POINTS, DIM), random.cone(BANK, DIM))
        }
    };
    for (name, vectors) in [("gallery.npy", &gallery), ("bank.npy", &bank)] {
        let numbers = vectors.iter().flat_map(|vector| vector.as_slice().iter().copied()).collect();
        write_npy(&folder.join(name), &Rows::new(vectors[0].as_slice().len(), numbers)?)?;
    }
    Ok((chunked(&gallery), chunked(&bank)))
}

fn chunked(vectors: &[Vector]) -> Chunked {
    let mut rows = Chunked::new(vectors[0].as_slice().len());
    vectors.iter().for_each(|vector| rows.push(vector.as_slice()));
    rows
}

/// Every inner product, in the blocks that a fit makes them in, on all threads.
fn product(gallery: &Chunked, bank: &Chunked) {
    (0..gallery.chunk_count()).into_par_iter().for_each_init(
        || vec![0.0; CHUNK_ROWS * CHUNK_ROWS],
        |block, left| {
            for right in 0..bank.chunk_count() {
                let (left, right) = (gallery.chunk(left), bank.chunk(right));
                let pairs = (left.len() / gallery.width()) * (right.len() / gallery.width());
                matrix_product(left, right, gallery.width(), &mut block[..pairs]);
                black_box(&block);
            }
        },
    );
}

const STATISTICS: [Statistic; 3] =
    [Statistic::LogSumExp { beta: 20.0 }, Statistic::TopMean { k: 10 }, Statistic::TopMean { k: 16 }];

/// The three columns.
fn fit(gallery: &Chunked, bank: &Chunked) -> Vec<Vec<f32>> {
    let points = Points { vectors: gallery, live: &|_| true, own_entry: &|_| None };
    let states = fit_states(&points, 0, Bank::new(bank, Metric::Cosine), 0, &STATISTICS);
    #[expect(clippy::cast_possible_truncation, reason = "columns are served in 32 bits")]
    let column = |(statistic, states): (&Statistic, Vec<_>)| {
        states.iter().map(|state| statistic.value(state, bank) as f32).collect()
    };
    STATISTICS.iter().zip(states).map(column).collect()
}

/// The mean of each correction's bias, to compare with the peer's.
#[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
fn means(columns: &[Vec<f32>]) -> Vec<f64> {
    let mean = |(column, weight): (&Vec<f32>, f64)| {
        weight * column.iter().copied().map(f64::from).sum::<f64>() / column.len() as f64
    };
    columns.iter().zip([1.0, 0.5, 1.0]).map(mean).collect()
}

/// The process that does it in numpy.
struct Numpy {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Numpy {
    /// Starts it; `None` where there is no Python with numpy, which is said.
    fn start(folder: &Path) -> Outcome<Option<Numpy>> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/fit_numpy.py");
        let python = std::env::var_os("DEHUB_PYTHON").unwrap_or_else(|| "python3".into());
        let mut child = Command::new(&python)
            .arg(script)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the peer has no input or output".into());
        };
        let mut numpy = Numpy { child, input, output: BufReader::new(output) };
        let first = numpy.line()?;
        if first.is_empty() {
            println!("  {} has no numpy: no peer. `make bench-numpy` installs one", python.display());
            return Ok(None);
        }
        Ok(Some(numpy))
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    /// Fits once and gives the seconds that took.
    fn round(&mut self) -> Outcome<f64> {
        writeln!(self.input, "fit")?;
        self.input.flush()?;
        Ok(self.line()?.trim().parse()?)
    }

    /// Ends it and gives its last words.
    fn stop(self) -> Outcome<String> {
        let Numpy { mut child, input, mut output } = self;
        drop(input);
        let mut last = String::new();
        output.read_line(&mut last)?;
        child.wait()?;
        Ok(last)
    }
}

/// Fits in a process of its own, whose peak memory is that of reading and fitting.
fn report_memory(folder: &Path) -> Outcome<()> {
    let (gallery, bank) =
        (read_chunked(&folder.join("gallery.npy"))?, read_chunked(&folder.join("bank.npy"))?);
    let before = peak_kilobytes()?;
    black_box(fit(&gallery, &bank));
    let inputs = (gallery.len() + bank.len()) * gallery.width() * size_of::<f32>() / 1024;
    let peak = peak_kilobytes()?;
    #[expect(clippy::cast_precision_loss, reason = "kilobytes of a process are far below 2^53")]
    let ratio = peak as f64 / inputs as f64;
    println!("  peak memory of the process {peak} kB, of them {before} kB after reading; inputs {inputs} kB");
    println!("  peak memory / inputs       {ratio:.2}");
    Ok(())
}

/// Rows straight into chunks, so that reading holds nothing twice.
fn read_chunked(path: &Path) -> Outcome<Chunked> {
    let mut chunked: Option<Chunked> = None;
    for batch in open(path, ReadOptions { batch_rows: CHUNK_ROWS, ..ReadOptions::default() })? {
        let rows = batch?.vectors;
        let chunked = chunked.get_or_insert_with(|| Chunked::new(rows.dim()));
        rows.as_slice().chunks_exact(rows.dim()).for_each(|row| chunked.push(row));
    }
    chunked.ok_or_else(|| "an empty file".into())
}

/// The largest resident size this process had, as Linux counts it.
fn peak_kilobytes() -> Outcome<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM in /proc")?;
    Ok(number.parse()?)
}
