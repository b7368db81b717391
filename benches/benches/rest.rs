//! What REST costs over the call in process, query by query, and how many queries a second the server answers beside
//! milvus-lite's.
//!
//! ```text
//! cargo bench --bench rest -- [--points N] [--dim N] [--queries N] [--rounds N] [--seconds N]
//! ```
//!
//! The first part asks the same queries (10 hits, the same effort) in turns by the call in process and over one kept
//! connection; both collections hold the same points. The second needs `DEHUB_PYTHON`, a Python with `pymilvus` and
//! `milvus-lite`: one client of `benches/peers/rest_run.py` asks both servers in turns, each by a plain connection of
//! its protocol. Figures are appended to `benches/runs/rest.csv`.

#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use dehub_benches::{Bed, Connection, Random, Served, append_run, median};
use dehub_format::{Column, write_arrow};
use dehub_query::{Query, Ranking, Search, Settings, Source, run};
use dehub_vector::{Rows, Vector};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

const EFFORT: usize = 64;
const LIMIT: usize = 10;
const CENTRES: usize = 2000;
const HUBNESS: f32 = 0.5;

struct Asked {
    points: usize,
    dim: usize,
    queries: usize,
    rounds: usize,
    seconds: f64,
}

fn main() -> Outcome<()> {
    let mut asked = Asked { points: 20_000, dim: 384, queries: 500, rounds: 9, seconds: 5.0 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--points" => asked.points = value()?.parse()?,
            "--dim" => asked.dim = value()?.parse()?,
            "--queries" => asked.queries = value()?.parse()?,
            "--rounds" => asked.rounds = value()?.parse()?,
            "--seconds" => asked.seconds = value()?.parse()?,
            "--bench" => {}
            _ => return Err(format!("unknown argument {argument}; they are listed in rest.rs").into()),
        }
    }
    let folder = std::env::temp_dir().join(format!("dehub-rest-{}", std::process::id()));
    let outcome = measure(&asked, &folder);
    _ = fs::remove_dir_all(&folder);
    outcome
}

fn measure(asked: &Asked, folder: &Path) -> Outcome<()> {
    let mut random = Random::new(11);
    let centres = random.cone(CENTRES, asked.dim);
    let points = random.clustered(asked.points, &centres, HUBNESS);
    let bank = random.clustered(2000, &centres, HUBNESS);
    let queries = random.clustered(asked.queries, &centres, HUBNESS);
    let served = Served::start(&folder.join("data"), &[])?;
    fill(&mut served.connect()?, &points, &bank)?;
    let bed = Bed::new(&points, &bank, true);
    bed.fit("IS(beta=20)");
    let mut rows = overhead(asked, &bed, &served, &queries)?;
    drop(bed);
    rows.extend(beside(asked, folder, &served, &points, &queries)?);
    append_run("rest.csv", "points,dim,what,p50_us,overhead_us,clients,qps,recall", &rows)?;
    Ok(())
}

fn fill(connection: &mut Connection, points: &[Vector], bank: &[Vector]) -> Outcome<()> {
    let dim = points[0].as_slice().len();
    let config =
        json!({"vectors": {"size": dim, "distance": "Cosine"}, "hnsw_config": {"full_scan_threshold": 0}});
    connection.json("PUT", "/collections/rest", &config)?.ok()?;
    for (batch, first) in points.chunks(1000).zip((0_u64..).step_by(1000)) {
        let ids: Vec<u64> = (first..).take(batch.len()).collect();
        let body = json!({"batch": {"ids": ids, "vectors": slices(batch)}});
        connection.json("PUT", "/collections/rest/points", &body)?.ok()?;
    }
    let body = json!({"kind": "query", "vectors": slices(bank)});
    connection.json("PUT", "/collections/rest/banks/b", &body)?.ok()?;
    let fit = json!({"method": "IS(beta=20)", "query_bank": "b"});
    connection.json("PUT", "/collections/rest/corrections/c", &fit)?.ok()?;
    // One segment of all points, as the collection in process has.
    let begun = connection.json("POST", "/collections/rest/build", &json!({"whole": true}))?.ok()?;
    let job = format!("/jobs/{}", begun["result"]["job"]);
    let start = Instant::now();
    while start.elapsed().as_secs() < 120 {
        let told = connection.get(&job)?.ok()?;
        match told["result"]["state"].as_str() {
            Some("running") => std::thread::sleep(std::time::Duration::from_millis(200)),
            Some("done") => return Ok(()),
            _ => return Err(format!("the graph was not built: {told}").into()),
        }
    }
    Err("the graph was not built in two minutes".into())
}

fn slices(vectors: &[Vector]) -> Vec<&[f32]> {
    vectors.iter().map(Vector::as_slice).collect()
}

/// A ranking that is asked for in process and over REST.
struct Case<'a> {
    queries: Vec<Query>,
    /// The form of the bodies, and whole requests.
    requests: [(&'a str, Vec<Vec<u8>>); 2],
}

impl<'a> Case<'a> {
    fn new(
        (ranking, correction): (Ranking, &str),
        connection: &Connection,
        vectors: &[Vector],
    ) -> Outcome<Case<'a>> {
        let search = Search::Graph { effort: EFFORT };
        let settings = Settings { limit: Some(LIMIT), ranking, search, ..Settings::default() };
        let ask = |vector: &Vector| Query {
            source: Source::Vector(vector.as_slice().to_vec().into()),
            settings: settings.clone(),
        };
        let asked =
            json!({"limit": LIMIT, "params": {"hnsw_ef": EFFORT}, "hubness": {"correction": correction}});
        let path = "/collections/rest/points/query";
        let as_json = |vector: &Vector| {
            let mut body = asked.clone();
            body["query"] = json!(vector.as_slice());
            connection.request("POST", path, "application/json", body.to_string().as_bytes())
        };
        let encoded = |byte: u8| match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        let settings: String = asked.to_string().bytes().map(encoded).collect();
        let path = format!("{path}/batch?settings={settings}");
        let as_arrow = |vector: &Vector| -> Outcome<Vec<u8>> {
            let body = write_arrow(
                vec![(
                    "vector",
                    Column::Vectors(Rows::new(vector.as_slice().len(), vector.as_slice().to_vec())?),
                )],
                [],
            )?;
            Ok(connection.request("POST", &path, "application/vnd.apache.arrow.stream", &body))
        };
        let requests = [
            ("JSON", vectors.iter().map(as_json).collect()),
            ("Arrow", vectors.iter().map(as_arrow).collect::<Outcome<_>>()?),
        ];
        Ok(Case { queries: vectors.iter().map(ask).collect(), requests })
    }
}

/// The medians in process and over REST, raw and corrected, and that of a request for nothing.
fn overhead(asked: &Asked, bed: &Bed, served: &Served, queries: &[Vector]) -> Outcome<Vec<String>> {
    let mut connection = served.connect()?;
    let mut rows = Vec::new();
    let size = format!("{},{}", asked.points, asked.dim);
    println!("{:28} {:>10} {:>12}", "what", "p50 µs", "overhead µs");
    for (what, ranking, correction) in
        [("raw", Ranking::Raw, "none"), ("corrected", Ranking::corrected("c"), "c")]
    {
        let case = Case::new((ranking, correction), &connection, queries)?;
        let nothing = connection.request("GET", "/livez", "application/json", b"");
        let (mut inside, mut outside, mut bare) = (Vec::new(), [Vec::new(), Vec::new()], Vec::new());
        for _ in 0..asked.rounds {
            for query in &case.queries {
                let start = Instant::now();
                let snapshot = bed.collection.snapshot();
                let found = run(&snapshot, std::slice::from_ref(query))?;
                inside.push(start.elapsed().as_secs_f64());
                assert_eq!(found[0].hits.len(), LIMIT, "as many hits as were asked for");
            }
            for ((_, requests), outside) in case.requests.iter().zip(&mut outside) {
                for request in requests {
                    outside.push(timed(&mut connection, request)?);
                }
            }
            for _ in &case.queries {
                bare.push(timed(&mut connection, &nothing)?);
            }
        }
        let inside = 1e6 * median(inside);
        let mut row = |how: &str, took: f64, overhead: Option<f64>| {
            let overhead = overhead.map(|it| format!("{it:.1}")).unwrap_or_default();
            println!("{:28} {took:10.1} {overhead:>12}", format!("{what} {how}"));
            rows.push(format!("{size},{what} {how},{took:.1},{overhead},1,,"));
        };
        row("in process", inside, None);
        for ((form, _), outside) in case.requests.iter().zip(outside) {
            let outside = 1e6 * median(outside);
            row(&format!("over REST as {form}"), outside, Some(outside - inside));
        }
        row("beside a request for /livez", 1e6 * median(bare), None);
    }
    Ok(rows)
}

fn timed(connection: &mut Connection, request: &[u8]) -> Outcome<f64> {
    let start = Instant::now();
    let reply = connection.send(request)?;
    let took = start.elapsed().as_secs_f64();
    if reply.status != 200 {
        return Err(format!("status {}: {}", reply.status, String::from_utf8_lossy(&reply.body)).into());
    }
    Ok(took)
}

/// Queries a second of both servers, by the same client program.
fn beside(
    asked: &Asked,
    folder: &Path,
    served: &Served,
    points: &[Vector],
    queries: &[Vector],
) -> Outcome<Vec<String>> {
    let Some(python) = std::env::var_os("DEHUB_PYTHON") else {
        println!("without DEHUB_PYTHON there is no other server");
        return Ok(Vec::new());
    };
    let raw = |name: &str, vectors: &[Vector]| -> Outcome<std::path::PathBuf> {
        let bytes: Vec<u8> = vectors
            .iter()
            .flat_map(|vector| vector.as_slice().iter().flat_map(|x| x.to_le_bytes()))
            .collect();
        let path = folder.join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/rest_run.py");
    let output = Command::new(python)
        .arg(script)
        .args(["--address", &served.address, "--dim", &asked.dim.to_string()])
        .args(["--seconds", &asked.seconds.to_string(), "--effort", &EFFORT.to_string()])
        .arg("--folder")
        .arg(folder)
        .arg("--points")
        .arg(raw("points.f32", points)?)
        .arg("--queries")
        .arg(raw("queries.f32", queries)?)
        .output()?;
    if !output.status.success() {
        println!("the other server was not measured: {}", String::from_utf8_lossy(&output.stderr));
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let said: Value = serde_json::from_str(line)?;
        let number = |field: &str| said[field].as_f64().ok_or_else(|| format!("no {field} in {line}"));
        let server = said["server"].as_str().ok_or("no server")?;
        let (clients, qps, recall) = (number("clients")?, number("qps")?, number("recall")?);
        println!("{server:24} {clients:>3} clients {qps:>10.0} queries/s, recall@10 {recall:.4}");
        rows.push(format!("{},{},{server},,,{clients},{qps:.0},{recall:.4}", asked.points, asked.dim));
    }
    Ok(rows)
}
