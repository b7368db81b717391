//! A server under twice the load it can carry: queries arrive at a fixed rate whatever becomes of those before them
//! (an open loop), and one client upserts. Nothing but answers and 503s may come back, the slowest answers stay
//! bounded, memory stays where it is, and every upsert that was acknowledged is there after SIGTERM and after SIGKILL.
//!
//! ```text
//! cargo bench --bench load -- [--seconds N] [--points N] [--dim N] [--connections N] [--in-flight N]
//! ```
//!
//! The capacity is measured first, by clients that ask as fast as they are answered. The load is that of `dehub bench`,
//! where a latency counts from the moment at which the query was due, so that a server that stalls is not excused by
//! clients that wait for it. Figures are appended to `benches/runs/load.csv`.

#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dehub_benches::{Random, Served, append_run, program};
use dehub_format::write_npy;
use dehub_vector::{Rows, Vector};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Clients by which the capacity is measured.
const CLIENTS: usize = 16;
const CAPACITY_SECONDS: f64 = 5.0;
/// How long the load lasts before the server is killed.
const KILLED_AFTER: f64 = 8.0;
const QUERIES: usize = 512;
/// Ids of upserts begin here.
const UPSERTED: u64 = 10_000_000;

struct Load {
    seconds: f64,
    points: usize,
    dim: usize,
    connections: usize,
    in_flight: String,
}

/// What came back of a load.
struct Tally {
    /// How often each status came; 0 is a query without an answer.
    statuses: BTreeMap<u16, u64>,
    /// Queries that were due and never sent.
    unsent: u64,
    /// Milliseconds of the queries that were answered, from when they were due and from when they were sent.
    latency: Value,
    service: Value,
}

/// The queries of the load.
struct Queries {
    bodies: Vec<Value>,
    /// The same as a file of vectors.
    file: PathBuf,
}

fn main() -> Outcome<()> {
    let mut load =
        Load { seconds: 60.0, points: 20_000, dim: 128, connections: 256, in_flight: "64".to_owned() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--seconds" => load.seconds = value()?.parse()?,
            "--points" => load.points = value()?.parse()?,
            "--dim" => load.dim = value()?.parse()?,
            "--connections" => load.connections = value()?.parse()?,
            "--in-flight" => load.in_flight = value()?,
            "--bench" => {}
            _ => return Err(format!("unknown argument {argument}; they are listed in load.rs").into()),
        }
    }
    run(&load)
}

fn run(load: &Load) -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("dehub-load-{}", std::process::id()));
    let outcome = under(load, &folder);
    _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn under(load: &Load, folder: &Path) -> Outcome<()> {
    let start = || said(Served::start(folder, &[("DEHUB__SERVICE__REQUESTS_MAX", &load.in_flight)]));
    let served = start()?;
    let queries = fill(load, &served, folder)?;
    let capacity = closed(&served, &queries.bodies)? as f64 / CAPACITY_SECONDS;
    println!("capacity {capacity:.0} queries/s by {CLIENTS} clients; {:.0}/s now", 2.0 * capacity);
    let mut acknowledged = Vec::new();
    let (tally, memory) = flood(load, &served, &queries, 2.0 * capacity, load.seconds, &mut acknowledged)?;
    let rows = report(load, capacity, &tally, &memory, acknowledged.len());
    let (seconds, well) = said(served.terminate())?;
    println!("SIGTERM: stopped after {seconds:.2} s, {}", if well { "exit 0" } else { "NOT exit 0" });
    let served = start()?;
    let lost = missing(&served, &acknowledged)?;
    println!("acknowledged before SIGTERM {}, missing {lost}", acknowledged.len());
    let before = acknowledged.len();
    let flooded = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            thread::sleep(Duration::from_secs_f64(KILLED_AFTER));
            Command::new("kill").args(["-KILL", &served.pid().to_string()]).status()
        });
        let flooded = flood(load, &served, &queries, 2.0 * capacity, KILLED_AFTER + 1.0, &mut acknowledged);
        _ = killer.join();
        flooded
    });
    drop(flooded);
    drop(served);
    let served = start()?;
    let killed = missing(&served, &acknowledged)?;
    println!("acknowledged before SIGKILL {}, missing {killed}", acknowledged.len() - before);
    said(append_run("load.csv", COLUMNS, &rows).map_err(Into::into))?;
    let unexpected: u64 =
        tally.statuses.iter().filter(|(s, _)| ![200, 503].contains(*s)).map(|(_, n)| n).sum();
    if lost + killed > 0 || unexpected > 0 || !well {
        return Err(format!("{} lost, {unexpected} unexpected answers, well: {well}", lost + killed).into());
    }
    Ok(())
}

/// Makes the collection, and the queries.
fn fill(load: &Load, served: &Served, folder: &Path) -> Outcome<Queries> {
    let mut connection = served.connect()?;
    let mut random = Random::new(7);
    let config = json!({"vectors": {"size": load.dim, "distance": "Cosine"}});
    said(connection.json("PUT", "/collections/load", &config)?.ok())?;
    for (batch, first) in random.cone(load.points, load.dim).chunks(1000).zip((0..).step_by(1000)) {
        let ids: Vec<u64> = (first..).take(batch.len()).collect();
        let vectors: Vec<&[f32]> = batch.iter().map(Vector::as_slice).collect();
        let body = json!({"batch": {"ids": ids, "vectors": vectors}});
        said(connection.json("PUT", "/collections/load/points", &body)?.ok())?;
    }
    let bank = random.cone(2000, load.dim);
    let vectors: Vec<&[f32]> = bank.iter().map(Vector::as_slice).collect();
    let bank = json!({"kind": "query", "vectors": vectors});
    said(connection.json("PUT", "/collections/load/banks/queries", &bank)?.ok())?;
    let fit = json!({"method": "IS", "query_bank": "queries"});
    said(connection.json("PUT", "/collections/load/corrections/is", &fit)?.ok())?;
    thread::sleep(Duration::from_secs(5));
    let query =
        |vector: &Vector| json!({"query": vector.as_slice(), "limit": 10, "hubness": {"correction": "is"}});
    let vectors = random.cone(QUERIES, load.dim);
    let numbers = vectors.iter().flat_map(Vector::as_slice).copied().collect();
    let file = folder.join("queries.npy");
    write_npy(&file, &Rows::new(load.dim, numbers)?)?;
    Ok(Queries { bodies: vectors.iter().map(query).collect(), file })
}

const PATH: &str = "/collections/load/points/query";

/// How many queries clients get answered that ask again as soon as they are.
fn closed(served: &Served, queries: &[Value]) -> Outcome<u64> {
    let is_over = AtomicBool::new(false);
    let client = |client: usize| -> Outcome<u64> {
        let mut connection = served.connect()?;
        let mut answered = 0;
        let bodies: Vec<Vec<u8>> = queries.iter().map(|body| ask(&connection, body)).collect();
        for request in bodies.iter().cycle().skip(client * 31) {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            answered += u64::from(connection.send(request)?.status == 200);
        }
        Ok(answered)
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|place| scope.spawn(move || client(place))).collect();
        thread::sleep(Duration::from_secs_f64(CAPACITY_SECONDS));
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?).sum()
    })
}

/// Queries at a rate, and one client that upserts; the memory of the server by the second.
fn flood(
    load: &Load,
    served: &Served,
    queries: &Queries,
    rate: f64,
    seconds: f64,
    acknowledged: &mut Vec<u64>,
) -> Outcome<(Tally, Vec<f64>)> {
    let mut command = Command::new(said(program())?);
    command.args(["bench", "load", "--json", "--quiet", "--url", &format!("http://{}", served.address)]);
    command.arg("--queries").arg(&queries.file).args(["--correction", "is"]);
    command.args(["--rate", &rate.to_string(), "--seconds", &seconds.to_string()]);
    command.args(["--connections", &load.connections.to_string()]);
    let bench = command.stdout(Stdio::piped()).spawn()?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let next = UPSERTED + acknowledged.len() as u64;
    let (memory, upserted) = thread::scope(|scope| {
        let writer = scope.spawn(|| upserts(load, served, next, end));
        let mut memory = Vec::new();
        while Instant::now() < end {
            memory.extend(served.resident_bytes());
            thread::sleep(Duration::from_secs(1));
        }
        (memory, writer.join())
    });
    acknowledged.extend(upserted.map_err(|_| "the writer panicked")?);
    let told = bench.wait_with_output()?;
    Ok((Tally::of(&serde_json::from_slice(&told.stdout)?)?, memory))
}

/// Upserts one point after the other; gives the ids of those that were acknowledged.
fn upserts(load: &Load, served: &Served, first: u64, end: Instant) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    let Ok(mut connection) = served.connect() else { return acknowledged };
    let mut random = Random::new(first);
    for id in first.. {
        if Instant::now() >= end {
            break;
        }
        let vector = random.cone(1, load.dim).remove(0);
        let body = json!({"points": [{"id": id, "vector": vector.as_slice()}]});
        match connection.json("PUT", "/collections/load/points", &body) {
            Ok(reply) if reply.status == 200 => acknowledged.push(id),
            // It is told by the queries, which are many more.
            Ok(_) => {}
            Err(_) => break,
        }
    }
    acknowledged
}

/// How many of these ids have no point.
fn missing(served: &Served, ids: &[u64]) -> Outcome<usize> {
    let mut connection = served.connect()?;
    let mut found = 0;
    for ids in ids.chunks(1000) {
        let body = json!({"ids": ids, "with_payload": false});
        let reply = said(connection.json("POST", "/collections/load/points", &body)?.ok())?;
        found += reply["result"].as_array().map_or(0, Vec::len);
    }
    Ok(ids.len() - found)
}

fn ask(connection: &dehub_benches::Connection, body: &Value) -> Vec<u8> {
    connection.request("POST", PATH, "application/json", body.to_string().as_bytes())
}

impl Tally {
    /// What `dehub bench` tells of its only load.
    fn of(told: &Value) -> Outcome<Tally> {
        let load = &told["loads"][0];
        let statuses = load["statuses"].as_object().ok_or_else(|| format!("no load in {told}"))?;
        let count = |(status, count): (&String, &Value)| {
            let status = if status == "no_answer" { Some(0) } else { status.parse().ok() };
            Some((status?, count.as_u64()?))
        };
        let counts = statuses.iter().map(count).collect::<Option<_>>();
        Ok(Tally {
            statuses: counts.ok_or_else(|| format!("strange statuses in {told}"))?,
            unsent: load["unsent"].as_u64().unwrap_or_default(),
            latency: load["latency_ms"].clone(),
            service: load["service_ms"].clone(),
        })
    }
}

const COLUMNS: &str = "points,dim,connections,in_flight,seconds,capacity_qps,offered_qps,answered,refused_503,\
    other,p50_ms,p99_ms,p99_sent_ms,max_ms,memory_first_mb,memory_last_mb,memory_max_mb,upserts";

fn report(load: &Load, capacity: f64, tally: &Tally, memory: &[f64], upserts: usize) -> Vec<String> {
    let of = |status| tally.statuses.get(&status).copied().unwrap_or(0);
    let other: u64 = tally.statuses.values().sum::<u64>() - of(200) - of(503);
    let millis = |times: &Value, name: &str| times[name].as_f64().unwrap_or_default();
    let (p50, p99) = (millis(&tally.latency, "p50"), millis(&tally.latency, "p99"));
    let (sent, most) = (millis(&tally.service, "p99"), millis(&tally.latency, "max"));
    let megabytes = |bytes: Option<&f64>| bytes.map_or(0.0, |bytes| bytes / 1e6);
    // The first seconds are those in which buffers find their size.
    let first = megabytes(memory.get(memory.len() / 6));
    let last = megabytes(memory.last());
    let most_memory = megabytes(memory.iter().max_by(|a, b| a.total_cmp(b)));
    println!("statuses {:?}, never sent {}", tally.statuses, tally.unsent);
    println!(
        "answered p50 {p50:.1} ms, p99 {p99:.1} ms, max {most:.1} ms from when due; p99 {sent:.1} ms from when sent"
    );
    println!(
        "memory {first:.0} MB after a sixth, {last:.0} at the end, {most_memory:.0} at most; {upserts} upserts"
    );
    let Load { seconds, points, dim, connections, in_flight } = load;
    vec![format!(
        "{points},{dim},{connections},{in_flight},{seconds},{capacity:.0},{:.0},{},{},{other},{p50:.2},{p99:.2},\
         {sent:.2},{most:.2},{first:.0},{last:.0},{most_memory:.0},{upserts}",
        2.0 * capacity,
        of(200),
        of(503)
    )]
}

/// The same error, as it can cross threads.
fn said<T>(outcome: Result<T, Box<dyn Error>>) -> Outcome<T> {
    outcome.map_err(|error| error.to_string().into())
}
