//! Dynamic inverted softmax on a matrix of similarities, from the matrices to the ranks of the true points, beside
//! the published procedure in numpy. Both hold the matrices in memory and take turns, so that what else the machine
//! does hits both; the ratio is of medians. Ours ranks raw as well.
//!
//! `DEHUB_PYTHON` names a Python with numpy.
#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use dehub_benches::{Random, median, seconds};
use dehub_format::write_npy;
use dehub_query::{
    MatrixBank, MatrixBanks, MatrixQuestion, Measure, Method, QueryTruth, Relevant, Similarities,
    SourceError, fit_matrix, measured, rank_matrix, values,
};
use dehub_vector::{Metric, Rows, Vector, dot};
use rayon::prelude::*;

const ROUNDS: usize = 3;
const SIZE: usize = 10_000;
const DIM: usize = 64;
const METHOD: &str = "DIS(beta=20,k=1)";

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How much of its point is in a query.
const SIGNAL: f32 = 0.4;

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let mut random = Random::new(7);
    let points = random.cone(SIZE, DIM);
    let noise = random.cone(SIZE, DIM);
    // A query lies between its point and something else, so that it often finds it, but not always.
    let queries =
        points.iter().zip(&noise).map(|(point, noise)| mixed(point, noise)).collect::<Outcome<Vec<_>>>()?;
    let (test, bank) = (Matrix::of(&queries, &points), Matrix::of(&random.cone(SIZE, DIM), &points));
    println!("{METHOD} on {SIZE} x {SIZE} with a bank of {SIZE}, {} threads", rayon::current_num_threads());
    let peer = Numpy::start(folder.path(), &test, &bank)?;
    let Some(mut peer) = peer else { return Ok(()) };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut ranks = Vec::new();
    for _ in 0..ROUNDS {
        let mut found = Ok(Vec::new());
        ours.push(seconds(|| found = evaluate(&test, &bank)));
        ranks = found?;
        theirs.push(peer.round()?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("  dehub   {ours:8.3} s");
    println!("  numpy   {theirs:8.3} s   {:.2} x ours", theirs / ours);
    println!("  R@1, R@5, R@10, MdR, MnR of numpy {}", peer.stop()?.trim());
    println!("  R@1, R@5, R@10, MdR, MnR of ours  {:?}", measures(&ranks)?);
    Ok(())
}

fn mixed(point: &Vector, noise: &Vector) -> Outcome<Vector> {
    let sum: Vec<f32> = point
        .as_slice()
        .iter()
        .zip(noise.as_slice())
        .map(|(&point, &noise)| SIGNAL * point + noise)
        .collect();
    Ok(Vector::new(&sum, dehub_vector::Dim::new(DIM)?, Metric::Cosine)?)
}

/// Numbers row by row.
struct Matrix(Vec<f32>);

impl Matrix {
    fn of(rows: &[Vector], columns: &[Vector]) -> Matrix {
        let mut numbers = vec![0.0; rows.len() * columns.len()];
        numbers.par_chunks_mut(columns.len()).zip(rows).for_each(|(line, row)| {
            let products = columns.iter().map(|column| dot(row.as_slice(), column.as_slice()));
            line.iter_mut().zip(products).for_each(|(number, product)| *number = product);
        });
        Matrix(numbers)
    }
}

impl Similarities for Matrix {
    fn name(&self) -> String {
        "a made matrix".to_owned()
    }

    fn rows(&self) -> usize {
        self.0.len() / SIZE
    }

    fn columns(&self) -> usize {
        SIZE
    }

    fn read(&self, rows: &[u32], out: &mut [f32]) -> Result<(), SourceError> {
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(SIZE)) {
            out.copy_from_slice(&self.0[row as usize * SIZE..][..SIZE]);
        }
        Ok(())
    }
}

/// The rank of each query's point.
fn evaluate(test: &Matrix, bank: &Matrix) -> Outcome<Vec<Vec<u32>>> {
    let query = Some(MatrixBank { similarities: bank, own_entries: &[] });
    let banks = MatrixBanks { query, gallery: None, metric: Metric::Cosine };
    let fitted = fit_matrix(&banks, &[METHOD.parse::<Method>()?])?;
    let targets: Vec<Vec<u32>> = (0..).take(SIZE).map(|point| vec![point]).collect();
    let sample = vec![Vec::new(); SIZE];
    let question = MatrixQuestion { similarities: test, targets: &targets, sample: &sample, limit: 10 };
    let ranked = rank_matrix(&question, &[&fitted[0]])?.pop();
    Ok(ranked.ok_or("one correction was fitted")?.ranks)
}

fn measures(ranks: &[Vec<u32>]) -> Outcome<Vec<f64>> {
    let relevant = Relevant {
        is_judged: vec![true; SIZE],
        points: (0..).take(SIZE).map(|point| vec![point]).collect(),
        truths: vec![QueryTruth { gains: vec![1], ..QueryTruth::default() }; SIZE],
    };
    let ranks = relevant.ranks(ranks, SIZE);
    let value = |name: &str| {
        let measure: Measure = name.parse()?;
        let found = measured(&[values(&ranks, measure)], measure, 0, 0).remove(0);
        Ok(found.ok_or("every query has a value")?.value)
    };
    ["R@1", "R@5", "R@10", "MdR", "MnR"].into_iter().map(value).collect()
}

/// The process that does it in numpy.
struct Numpy {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Numpy {
    /// Starts it; `None` where there is no Python with numpy, which is said.
    fn start(folder: &Path, test: &Matrix, bank: &Matrix) -> Outcome<Option<Numpy>> {
        for (name, matrix) in [("test.npy", test), ("bank.npy", bank)] {
            write_npy(&folder.join(name), &Rows::new(SIZE, matrix.0.clone())?)?;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/matrix_numpy.py");
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
        if numpy.line()?.is_empty() {
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

    /// Evaluates once and gives the seconds that took.
    fn round(&mut self) -> Outcome<f64> {
        writeln!(self.input, "evaluate")?;
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
