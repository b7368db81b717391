//! A running server under a load.

use std::env;
use std::time::Duration;

use anyhow::{Context as _, bail};
use dehub_index::Name;
use serde_json::{Map, Value, json};
use ureq::Agent;

use super::super::{Context, Outcome};
use super::latencies::QUANTILES;
use super::open_loop::{Load, NO_ANSWER, Tally, drive, schedule};
use crate::cli::Bench;
use crate::load;
use crate::output::table;

/// The variable with the key to ask with.
const KEY_VARIABLE: &str = "DEHUB_API_KEY";

/// The most queries of one load; their times are kept in memory.
const ARRIVALS_MAX: f64 = 20e6;

/// A client that wakes later than this for more than a hundredth of its queries measures itself.
const LATE_MILLIS: f64 = 1.0;

/// The share of queries that may wait for a connection before it is told.
const WAITED_SHARE: f64 = 0.01;

/// Where queries go.
struct Server<'a> {
    path: String,
    url: &'a str,
    key: Option<String>,
    patience: Duration,
}

/// What queries ask for beside their vector.
struct Setting {
    correction: Option<String>,
    params: Option<(&'static str, Value)>,
}

/// One load and what came of it.
struct Row {
    setting: Setting,
    rate: f64,
    queries: usize,
    tally: Tally,
}

/// Puts each load on the server, one after the other.
pub(super) fn run(context: &Context, command: &Bench, url: &str) -> anyhow::Result<Outcome> {
    let options = &command.open_loop;
    let name: Name = command.collection.parse()?;
    let url = url.trim_end_matches('/');
    if !url.starts_with("http://") {
        bail!("--url: wanted http://HOST:PORT, found {url}; TLS is not spoken here");
    }
    for &rate in &options.rate {
        let queries = rate * options.seconds.as_secs_f64();
        if !rate.is_finite() || rate <= 0.0 || queries > ARRIVALS_MAX {
            bail!("--rate: wanted a rate above 0 that makes {ARRIVALS_MAX} queries at most, found {rate}");
        }
    }
    let key = options.api_key.clone().or_else(|| env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty()));
    let path = format!("{url}/collections/{name}/points/query");
    let server = Server { path, url, key, patience: options.patience };
    let vectors = load::vectors(&command.queries, &command.format)?;
    if vectors.is_empty() {
        bail!("{}: wanted queries, found none", command.queries.display());
    }
    let mut rows = Vec::new();
    for setting in settings(command) {
        let bodies: Vec<String> =
            vectors.iter().map(|vector| setting.body(context, command, vector)).collect();
        let agent = server.agent();
        for body in bodies.iter().cycle().take(command.warm_up.max(1)) {
            server.check(&agent, body)?;
        }
        for &rate in &options.rate {
            rows.push(measure(context, command, &server, (&setting, &bodies), rate));
        }
    }
    rows.iter()
        .flat_map(Row::warnings)
        .for_each(|warning| context.output.note(format!("warning: {warning}")));
    let value = to_json(command, url, vectors.len(), &rows);
    context.output.result(&value, || describe(command, url, vectors.len(), &rows))?;
    let is_answered = rows.iter().all(|row| row.tally.latency.count() > 0);
    Ok(if is_answered { Outcome::Done } else { Outcome::NotWhole })
}

/// Each correction with each way of searching.
fn settings(command: &Bench) -> Vec<Setting> {
    let named = command.correction.iter().cloned().map(Some);
    let corrections = if command.correction.is_empty() { vec![None] } else { named.collect() };
    let efforts = command.effort.iter().map(|effort| Some(("hnsw_ef", json!(effort))));
    let recalls = command.recall.iter().map(|recall| Some(("recall", json!(recall))));
    let mut ways: Vec<_> = efforts.chain(recalls).collect();
    if ways.is_empty() {
        ways.push(None);
    }
    let each = |correction: Option<String>| {
        ways.iter().cloned().map(move |params| Setting { correction: correction.clone(), params })
    };
    corrections.into_iter().flat_map(each).collect()
}

fn measure(
    context: &Context,
    command: &Bench,
    server: &Server<'_>,
    (setting, bodies): (&Setting, &[String]),
    rate: f64,
) -> Row {
    let options = &command.open_loop;
    let due = schedule(options.arrivals, rate, options.seconds, options.seed);
    let load = Load {
        due: &due,
        length: options.seconds,
        patience: options.patience,
        connections: options.connections,
    };
    let bar = context.output.progress("asking the server", Some(due.len() as u64));
    let ask = |agent: &mut Agent, place: usize| {
        let status = server.ask(agent, &bodies[place % bodies.len()]).map_or(NO_ANSWER, |(status, _)| status);
        bar.inc(1);
        status
    };
    let tally = drive(&load, || server.agent(), ask);
    bar.finish_and_clear();
    let setting = Setting { correction: setting.correction.clone(), params: setting.params.clone() };
    Row { setting, rate, queries: due.len(), tally }
}

impl Server<'_> {
    /// A client with one connection, which is kept.
    fn agent(&self) -> Agent {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .timeout_global(Some(self.patience))
            // A variable of the environment must not put a proxy between.
            .proxy(None);
        Agent::new_with_config(config.build())
    }

    fn ask(&self, agent: &Agent, body: &str) -> Result<(u16, Vec<u8>), ureq::Error> {
        let mut request = agent.post(&self.path).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("api-key", key);
        }
        let mut response = request.send(body)?;
        let status = response.status().as_u16();
        // The answer is there when all of it is.
        Ok((status, response.body_mut().read_to_vec()?))
    }

    /// A query that must be answered.
    fn check(&self, agent: &Agent, body: &str) -> anyhow::Result<()> {
        let answer = self.ask(agent, body).with_context(|| format!("no server answers on {}", self.url))?;
        let (status, said) = answer;
        if status != 200 {
            let said = String::from_utf8_lossy(&said);
            bail!("the server on {} answered a query with {status}: {}", self.url, said.trim());
        }
        Ok(())
    }
}

impl Setting {
    fn body(&self, context: &Context, command: &Bench, vector: &[f32]) -> String {
        let mut body = json!({ "query": vector, "limit": command.k });
        if let Some(using) = &context.using {
            body["using"] = json!(using);
        }
        if let Some(correction) = &self.correction {
            body["hubness"] = json!({ "correction": correction });
        }
        if let Some((name, value)) = &self.params {
            body["params"] = json!({ *name: value });
        }
        body.to_string()
    }

    fn correction(&self) -> &str {
        self.correction.as_deref().unwrap_or("the server's")
    }

    fn search(&self) -> String {
        match &self.params {
            Some((name, value)) => format!("{name} {value}"),
            None => "the server's".to_owned(),
        }
    }
}

impl Row {
    /// How often this status came.
    fn count(&self, status: u16) -> u64 {
        self.tally.statuses.get(&status).copied().unwrap_or(0)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of queries are far below 2^53")]
    fn answered_per_second(&self) -> f64 {
        self.count(200) as f64 / self.tally.seconds.max(f64::MIN_POSITIVE)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of queries are far below 2^53")]
    fn warnings(&self) -> Vec<String> {
        let (tally, rate) = (&self.tally, self.rate);
        let mut warnings = Vec::new();
        let late = tally.late.millis(0.99);
        if late > LATE_MILLIS {
            warnings.push(format!(
                "at {rate}/s the client itself was late: by {late:.1} ms or more for one query of a hundred, which is \
                 part of the latencies"
            ));
        }
        if tally.waited as f64 > WAITED_SHARE * self.queries as f64 {
            warnings.push(format!(
                "at {rate}/s {} of {} queries waited until one of the connections was free, which is part of the \
                 latencies: the server falls behind, or --connections are too few",
                tally.waited, self.queries
            ));
        }
        if tally.unsent > 0 {
            warnings.push(format!(
                "at {rate}/s {} of {} queries were never sent; the latencies are of the others and better than the \
                 truth",
                tally.unsent, self.queries
            ));
        }
        warnings
    }

    fn to_json(&self) -> Value {
        let Row { setting, rate, queries, tally } = self;
        let statuses: Map<String, Value> = tally
            .statuses
            .iter()
            .map(|(&status, count)| {
                let name = if status == NO_ANSWER { "no_answer".to_owned() } else { status.to_string() };
                (name, json!(count))
            })
            .collect();
        let params: Map<String, Value> =
            setting.params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        json!({
            "correction": setting.correction,
            "params": params,
            "rate": rate,
            "queries": queries,
            "statuses": statuses,
            "answered_per_second": self.answered_per_second(),
            "latency_ms": tally.latency.to_json(),
            "service_ms": tally.service.to_json(),
            "client_late_ms": tally.late.to_json(),
            "waited_for_connection": tally.waited,
            "unsent": tally.unsent,
            "warnings": self.warnings(),
        })
    }

    fn cells(&self) -> Vec<String> {
        let Row { setting, rate, tally, .. } = self;
        let other: u64 =
            tally.statuses.iter().filter(|(status, _)| **status != 200).map(|(_, count)| count).sum();
        let mut cells = vec![setting.correction().to_owned(), setting.search(), rate.to_string()];
        cells.push(format!("{:.0}", self.answered_per_second()));
        cells.extend([self.count(200), other, tally.unsent, tally.waited].map(|count| count.to_string()));
        cells.extend(tally.latency.cells());
        cells.push(tally.service.cells().nth(3).unwrap_or_default());
        cells
    }
}

fn to_json(command: &Bench, url: &str, vectors: usize, rows: &[Row]) -> Value {
    let options = &command.open_loop;
    json!({
        "url": url,
        "collection": command.collection,
        "vectors": vectors,
        "limit": command.k,
        "arrivals": format!("{:?}", options.arrivals).to_lowercase(),
        "seconds": options.seconds.as_secs_f64(),
        "connections": options.connections,
        "loads": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
    })
}

fn describe(command: &Bench, url: &str, vectors: usize, rows: &[Row]) -> String {
    let options = &command.open_loop;
    let arrivals = format!("{:?}", options.arrivals).to_lowercase();
    let (seconds, connections) = (options.seconds.as_secs_f64(), options.connections);
    let mut head = vec!["ranking", "search", "rate", "answered/s", "200", "other", "unsent", "waited"];
    head.extend(QUANTILES.iter().map(|(name, _)| *name));
    head.push("served p99");
    let statuses = rows.iter().flat_map(|row| {
        let unusual = row.tally.statuses.iter().filter(|(status, _)| **status != 200);
        unusual.map(|(&status, count)| match status {
            NO_ANSWER => format!("at {}/s: no answer, {count} times\n", row.rate),
            status => format!("at {}/s: status {status}, {count} times\n", row.rate),
        })
    });
    format!(
        "{url}, {vectors} vectors, {} answers each; {arrivals} arrivals for {seconds} s, {connections} connections at \
         most\nmilliseconds from when a query was due; served: from when it was sent\n\n{}{}",
        command.k,
        table(&head, 2, rows.iter().map(Row::cells)),
        statuses.collect::<String>(),
    )
}
