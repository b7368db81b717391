//! A contest with the libraries that search the same vectors: the 10 best, one thread each, raw and corrected
//! by IS(beta=20). `benches/peers/run.py` runs the others. All take turns in rounds; a speed is the median of
//! queries per second of the processor, so what else the machine does matters little.
//!
//! ```text
//! cargo bench --bench peers -- [--made N DIM] [--hubness H] [--queries N] [--rounds N] [--seed N] [--only A,B]
//! ```
//!
//! With `DEHUB_PEERS_DATA=FOLDER` the vectors are those of `gallery.npy`, `queries_test.npy` and
//! `queries_bank.npy` in it, else made ones. `DEHUB_PYTHON` names a Python with the libraries; those it lacks
//! are named. Every figure is appended to `benches/runs/peers.csv`.

#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use dehub_benches::{
    Bed, Curve, Mark, Random, append_run, median, named_folder, process_cpu_seconds, read_unit,
    resident_bytes, thread_cpu_seconds,
};
use dehub_format::write_npy;
use dehub_index::Snapshot;
use dehub_query::{Query, Ranking, Search, Settings, Source, calibrate_if_due, run};
use dehub_vector::{Rows, Vector};
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::Value;

const LIMIT: usize = 10;
const CENTRES: usize = 1000;
const MADE_QUERIES: usize = 5000;
const MADE_BANK: usize = 4000;
const EFFORTS: [usize; 12] = [10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512];
const RECALLS: [f64; 3] = [0.95, 0.99, 0.999];
const GRAPH: &str = "dehub-graph";
const EXACT: &str = "dehub-exact";
const CODES: &str = "dehub-codes";
/// What the planner takes for each recall, by its calibration on queries of the bank.
const PLANNED: &str = "dehub-planned";
const OURS: [&str; 4] = [GRAPH, CODES, EXACT, PLANNED];
const CANDIDATES: [usize; 10] = [10, 20, 30, 40, 60, 80, 120, 160, 240, 400];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let options = Options::read(std::env::args().skip(1))?;
    let data = Data::new(&options)?;
    let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
    println!("{}: {} points x {}, {} queries", data.name, data.points.len(), data.dim(), data.queries.len());
    let ours = Ours::build(&data)?;
    let folder = tempfile::tempdir()?;
    ours.write(&data, folder.path())?;
    let mut peers = Peers::start(folder.path(), &options)?;
    let mut results = Results::default();
    let mut contestants = OURS.map(str::to_owned).to_vec();
    contestants.extend(peers.iter().flat_map(|peers| peers.names.iter().cloned()));
    contestants.retain(|name| options.wants(name));
    for round in 0..options.rounds {
        // Each round starts with another contestant.
        let turn = round % contestants.len().max(1);
        for name in contestants[turn..].iter().chain(&contestants[..turn]) {
            match (name.as_str(), &mut peers) {
                (GRAPH | CODES | EXACT | PLANNED, _) => ours.measure(name, &pool, &mut results)?,
                (_, Some(peers)) => peers.measure(name, &mut results)?,
                (_, None) => {}
            }
        }
    }
    results.print();
    results.append(&options, &data.name)
}

/// What was asked for on the command line.
struct Options {
    made: (usize, usize),
    hubness: f32,
    queries: usize,
    rounds: usize,
    seed: u64,
    only: Option<Vec<String>>,
}

impl Options {
    fn read(arguments: impl Iterator<Item = String>) -> Outcome<Options> {
        let mut options =
            Options { made: (25_060, 384), hubness: 0.5, queries: 2000, rounds: 3, seed: 7, only: None };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
            match argument.as_str() {
                "--made" => options.made = (value()?.parse()?, value()?.parse()?),
                "--hubness" => options.hubness = value()?.parse()?,
                "--queries" => options.queries = value()?.parse()?,
                "--rounds" => options.rounds = value()?.parse()?,
                "--seed" => options.seed = value()?.parse()?,
                "--only" => options.only = Some(value()?.split(',').map(str::to_owned).collect()),
                // Cargo says this to every bench.
                "--bench" => {}
                _ => return Err(format!("unknown argument {argument}; they are listed in peers.rs").into()),
            }
        }
        if !(0.0..1.0).contains(&options.hubness) || options.rounds == 0 || options.queries == 0 {
            return Err("wanted a hubness from 0 to below 1, and at least one round and one query".into());
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|it| it == name))
    }
}

struct Data {
    name: String,
    points: Vec<Vector>,
    queries: Vec<Vector>,
    bank: Vec<Vector>,
}

impl Data {
    fn new(options: &Options) -> Outcome<Data> {
        let mut data = match named_folder("DEHUB_PEERS_DATA") {
            Some(folder) => Data {
                name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                points: read_unit(&folder.join("gallery.npy"))?,
                queries: read_unit(&folder.join("queries_test.npy"))?,
                bank: read_unit(&folder.join("queries_bank.npy"))?,
            },
            None => {
                let ((points, dim), hubness) = (options.made, options.hubness);
                let mut random = Random::new(options.seed);
                let centres = random.cone(CENTRES, dim);
                Data {
                    name: format!("made {points} x {dim} hubness {hubness}"),
                    points: random.clustered(points, &centres, hubness),
                    queries: random.clustered(MADE_QUERIES, &centres, hubness),
                    bank: random.clustered(MADE_BANK, &centres, hubness),
                }
            }
        };
        data.queries.truncate(options.queries);
        Ok(data)
    }

    fn dim(&self) -> usize {
        self.points[0].as_slice().len()
    }
}

/// Ours, as a user of the library has it.
struct Ours {
    bed: Bed,
    queries: Vec<Vec<f32>>,
    /// The exact best of each query, raw and corrected.
    exact: [Vec<Vec<u32>>; 2],
}

const RANKINGS: [&str; 2] = ["raw", "corrected"];

impl Ours {
    fn build(data: &Data) -> Outcome<Ours> {
        let memory = resident_bytes();
        let start = process_cpu_seconds();
        let bed = Bed::without_graph(&data.points, &data.bank, 0);
        let stored = process_cpu_seconds();
        bed.build_graph();
        let built = process_cpu_seconds();
        let grown = resident_bytes().zip(memory).map(|(now, before)| now - before);
        bed.fit("IS(beta=20)");
        calibrate_if_due(&bed.collection)?;
        let spent =
            |from: Option<f64>, to: Option<f64>| to.zip(from).map_or(f64::NAN, |(to, from)| to - from);
        #[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
        let bytes = grown.unwrap_or(f64::NAN) / data.points.len() as f64;
        println!(
            "  {GRAPH:14} graph {:.1} s of the processor, durable import {:.1} s, {bytes:.0} bytes a vector",
            spent(stored, built),
            spent(start, stored)
        );
        let queries = data.queries.iter().map(|query| query.as_slice().to_vec()).collect();
        let mut ours = Ours { bed, queries, exact: [Vec::new(), Vec::new()] };
        let snapshot = ours.bed.collection.snapshot();
        for place in 0..RANKINGS.len() {
            ours.exact[place] = answer(&snapshot, &ours.asked(place, Search::Exact))?;
        }
        Ok(ours)
    }

    /// What the others need to take part.
    fn write(&self, data: &Data, folder: &Path) -> Outcome<()> {
        let write = |name: &str, dim: usize, numbers: Vec<f32>| -> Outcome<()> {
            Ok(write_npy(&folder.join(name), &Rows::new(dim, numbers)?)?)
        };
        let flat = |vectors: &[Vector]| vectors.iter().flat_map(|it| it.as_slice().to_vec()).collect();
        write("gallery.npy", data.dim(), flat(&data.points))?;
        write("queries.npy", data.dim(), flat(&data.queries))?;
        let snapshot = self.bed.collection.snapshot();
        let variant = snapshot.correction("c").ok_or("fitted before")?.variant(&[true], 1.0);
        write("bias.npy", 1, snapshot.rows().map(|row| variant.bias(row)).collect())?;
        for (ranking, exact) in RANKINGS.iter().zip(&self.exact) {
            #[expect(clippy::cast_precision_loss, reason = "galleries of a contest are below 2^24 points")]
            let rows = exact.iter().flatten().map(|&row| row as f32).collect();
            write(&format!("exact_{ranking}.npy"), LIMIT, rows)?;
        }
        Ok(())
    }

    fn asked(&self, ranking: usize, search: Search) -> Vec<Query> {
        let ranking = if ranking == 0 { Ranking::Raw } else { Ranking::corrected("c") };
        let settings = Settings { limit: Some(LIMIT), ranking, search, ..Settings::default() };
        let query = |numbers: &Vec<f32>| Query {
            source: Source::Vector(numbers.clone().into()),
            settings: settings.clone(),
        };
        self.queries.iter().map(query).collect()
    }

    fn measure(&self, name: &str, pool: &ThreadPool, results: &mut Results) -> Outcome<()> {
        let snapshot = self.bed.collection.snapshot();
        let searches: Vec<(String, Search)> = match name {
            EXACT => vec![("batch".to_owned(), Search::Exact)],
            CODES => {
                CANDIDATES.map(|candidates| (candidates.to_string(), Search::Codes { candidates })).to_vec()
            }
            PLANNED => RECALLS.map(|target| (format!("recall {target}"), Search::Recall { target })).to_vec(),
            _ => EFFORTS.map(|effort| (effort.to_string(), Search::Graph { effort })).to_vec(),
        };
        for (place, ranking) in RANKINGS.iter().enumerate() {
            for (parameters, search) in &searches {
                let asked = self.asked(place, *search);
                let timed = || {
                    let start = thread_cpu_seconds();
                    let found = answer(&snapshot, &asked).map_err(|error| error.to_string());
                    (found, start, thread_cpu_seconds())
                };
                let (found, start, end) = pool.install(timed);
                let seconds = end.zip(start).map(|(end, start)| end - start).ok_or("no /proc to time by")?;
                #[expect(clippy::cast_precision_loss, reason = "a count of queries is far below 2^53")]
                let speed = asked.len() as f64 / seconds;
                let mark = Mark { recall: recall(&found?, &self.exact[place]), speed };
                results.add(name, ranking, parameters, mark);
            }
        }
        Ok(())
    }
}

fn answer(snapshot: &Snapshot, queries: &[Query]) -> Outcome<Vec<Vec<u32>>> {
    let responses = run(snapshot, queries)?;
    Ok(responses.iter().map(|response| response.hits.iter().map(|hit| hit.row).collect()).collect())
}

#[expect(clippy::cast_precision_loss, reason = "a count of hits is far below 2^53")]
fn recall(found: &[Vec<u32>], exact: &[Vec<u32>]) -> f64 {
    let hits = found.iter().zip(exact).map(|(found, exact)| {
        let exact: HashSet<_> = exact.iter().collect();
        found.iter().filter(|row| exact.contains(row)).count()
    });
    hits.sum::<usize>() as f64 / (exact.len() * LIMIT) as f64
}

/// The process of the others.
struct Peers {
    names: Vec<String>,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peers {
    /// Starts it and lets it build; `None` where there is no Python with numpy, which is said.
    fn start(folder: &Path, options: &Options) -> Outcome<Option<Peers>> {
        let python = std::env::var_os("DEHUB_PYTHON").unwrap_or_else(|| "python3".into());
        let mut command = Command::new(&python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/run.py")).arg(folder);
        if let Some(only) = &options.only {
            command.arg("--only").arg(only.join(","));
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the peers have no output".into());
        };
        let mut peers = Peers { names: Vec::new(), child, input, output: BufReader::new(output) };
        loop {
            let Some(line) = peers.line()? else {
                println!("  {} has no numpy: no peers. `make bench-peers` installs them", python.display());
                return Ok(None);
            };
            let name = line["contestant"].as_str().unwrap_or_default();
            if let Some(why) = line["absent"].as_str() {
                println!("  {name:14} absent: {why}");
            } else if !name.is_empty() {
                let number = |field: &str| line[field].as_f64().unwrap_or(f64::NAN);
                let (seconds, bytes) = (number("build_cpu_seconds"), number("bytes_per_vector"));
                println!("  {name:14} built in {seconds:.1} s of the processor, {bytes:.0} bytes a vector");
                peers.names.push(name.to_owned());
            } else if line["ready"].as_bool() == Some(true) {
                return Ok(Some(peers));
            } else {
                println!("  exact answers worked out again in numpy: {line}");
            }
        }
    }

    /// The next line that is JSON: libraries write lines of their own. `None` at the end.
    fn line(&mut self) -> Outcome<Option<Value>> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            if let Ok(value) = serde_json::from_str(&line) {
                return Ok(Some(value));
            }
        }
    }

    fn measure(&mut self, name: &str, results: &mut Results) -> Outcome<()> {
        let input = self.input.as_mut().ok_or("the peers have no input")?;
        writeln!(input, "{name}")?;
        input.flush()?;
        loop {
            let line = self.line()?.ok_or("the peers ended early; what they said is above")?;
            if line["done"].as_bool() == Some(true) {
                return Ok(());
            }
            let text = |field: &str| line[field].as_str().unwrap_or_default();
            let number = |field: &str| line[field].as_f64().unwrap_or(f64::NAN);
            let mark = Mark { recall: number("recall"), speed: number("qps") };
            results.add(name, text("ranking"), text("parameters"), mark);
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // Without input it ends by itself.
        self.input = None;
        _ = self.child.wait();
    }
}

/// The marks of each round by ranking, contestant and parameters, in the order they first came.
#[derive(Default)]
struct Results(Vec<(Key, Vec<Mark>)>);

#[derive(PartialEq, Eq)]
struct Key {
    ranking: String,
    contestant: String,
    parameters: String,
}

impl Results {
    fn add(&mut self, contestant: &str, ranking: &str, parameters: &str, mark: Mark) {
        let [ranking, contestant, parameters] = [ranking, contestant, parameters].map(str::to_owned);
        let key = Key { ranking, contestant, parameters };
        match self.0.iter_mut().find(|(own, _)| *own == key) {
            Some((_, marks)) => marks.push(mark),
            None => self.0.push((key, vec![mark])),
        }
    }

    /// Each setting with its recall and the median of its speeds.
    fn marks(&self) -> impl Iterator<Item = (&Key, Mark)> {
        self.0.iter().map(|(key, marks)| {
            let speed = median(marks.iter().map(|mark| mark.speed).collect());
            (key, Mark { recall: marks[0].recall, speed })
        })
    }

    fn print(&self) {
        for ranking in RANKINGS {
            let mut contestants: BTreeMap<&str, Vec<Mark>> = BTreeMap::new();
            println!("\n{ranking}: contestant, setting, recall@{LIMIT}, queries/s");
            for (key, mark) in self.marks().filter(|(key, _)| key.ranking == ranking) {
                println!(
                    "  {:14} {:24} {:.4} {:9.0}",
                    key.contestant, key.parameters, mark.recall, mark.speed
                );
                contestants.entry(&key.contestant).or_default().push(mark);
            }
            let curves: BTreeMap<&str, Curve> =
                contestants.into_iter().map(|(name, marks)| (name, Curve::new(marks))).collect();
            println!("{ranking}: at a recall, log(queries/s) taken as linear in recall between two settings");
            RECALLS.iter().for_each(|&recall| compare(&curves, recall));
        }
    }

    fn append(&self, options: &Options, data: &str) -> Outcome<()> {
        let columns = "seed,data,ranking,contestant,parameters,recall,queries_per_second";
        let seed = options.seed;
        let row = |(Key { ranking, contestant, parameters }, Mark { recall, speed }): (&Key, Mark)| {
            format!("{seed},{data},{ranking},{contestant},\"{parameters}\",{recall:.5},{speed:.1}")
        };
        Ok(append_run("peers.csv", columns, &self.marks().map(row).collect::<Vec<_>>())?)
    }
}

/// The speeds at a recall, and ours beside the best of the others.
fn compare(curves: &BTreeMap<&str, Curve>, recall: f64) {
    let speeds = curves.iter().filter_map(|(&name, curve)| Some((name, curve.speed_at(recall)?)));
    let (ours, others): (Vec<_>, Vec<_>) = speeds.partition(|&(name, _)| OURS.contains(&name));
    for (name, speed) in &others {
        println!("  {recall}: {name:14} {speed:9.0}");
    }
    let best = others.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    for own in OURS {
        match (ours.iter().find(|(name, _)| *name == own), best) {
            (Some((_, mine)), Some((name, theirs))) => {
                println!("  {recall}: {own:14} {mine:9.0}   {:.2} x the best peer, {name}", mine / theirs);
            }
            (Some((_, mine)), None) => println!("  {recall}: {own:14} {mine:9.0}   no peer reaches it"),
            (None, _) => println!("  {recall}: {own:14} did not take part or does not reach it"),
        }
    }
}
