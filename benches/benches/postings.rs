//! Filters on indexed fields: point by point, as they are evaluated while nobody asks for them often, and by postings.
//!
//! ```text
//! cargo bench --bench postings -- [--points N]
//! ```
//!
//! Times are those of one thread, the least of some rounds. `changed` is by postings when a thousand points have
//! changed since these were made. Figures are appended to `benches/runs/filters.csv`.

#![expect(clippy::print_stdout, reason = "a bench talks to the person who runs it")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use dehub_benches::{Random, append_run};
use dehub_index::{
    BATCH_POINTS_MAX, Catalogue, Collection, CollectionConfig, FieldKind, GraphConfig, Name, Payload,
    PayloadPath, PointInput, Snapshot,
};
use dehub_query::Filter;
use dehub_vector::{Metric, PointId};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 5;
const SHARES: [f32; 4] = [0.001, 0.01, 0.1, 0.5];
const FIELDS: [(&str, FieldKind); 3] =
    [("word", FieldKind::Keyword), ("number", FieldKind::Float), ("text", FieldKind::Text)];
const CHANGED: usize = 1000;

fn main() -> Outcome<()> {
    let mut points = 200_000;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--points" => points = arguments.next().ok_or("--points wants a number")?.parse()?,
            "--bench" => {}
            _ => return Err(format!("unknown argument {argument}; there is --points").into()),
        }
    }
    let folder = tempfile::tempdir()?;
    let config = CollectionConfig::new(
        2,
        Metric::Dot,
        GraphConfig { full_scan_threshold: usize::MAX, ..GraphConfig::default() },
    )?;
    let collection = Catalogue::new(folder.path()).create(&"c".parse::<Name>()?, config)?;
    let mut random = Random::new(7);
    upsert(&collection, &mut random, 0, points)?;
    for (field, kind) in FIELDS {
        collection.index_payload(&field.parse()?, kind)?;
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()?
        .install(|| measure(&collection, &mut random, points))
}

/// Points of which a share of each of [`SHARES`] has a word of that share, alone and in a text.
fn upsert(collection: &Arc<Collection>, random: &mut Random, first: usize, count: usize) -> Outcome<()> {
    let ids: Vec<usize> = (first..first + count).collect();
    for batch in ids.chunks(BATCH_POINTS_MAX.min(10_000)) {
        let drawn = random.numbers(batch.len() * 6);
        let point = |(&id, drawn): (&usize, &[f32])| -> Outcome<PointInput> {
            let share = |number: f32| number.abs().fract();
            let mut rest = share(drawn[0]);
            let word = SHARES.iter().find(|&&share| {
                rest -= share;
                rest < 0.0
            });
            let text: Vec<String> = SHARES
                .iter()
                .zip(&drawn[1..])
                .map(|(wanted, &number)| {
                    if share(number) < *wanted {
                        format!("has{wanted}").replace('.', "")
                    } else {
                        format!("no{}", id % 5000)
                    }
                })
                .collect();
            let payload = json!({
                "word": word.map_or_else(|| "other".to_owned(), |share| format!("has{share}")),
                "number": share(drawn[5]),
                "text": text.join(" "),
            });
            Ok(PointInput {
                payload: Some(Payload::parse(&payload.to_string())?),
                ..PointInput::new(PointId::Number(id as u64), vec![1.0, 0.0])
            })
        };
        let batch: Vec<PointInput> = batch.iter().zip(drawn.chunks(6)).map(point).collect::<Outcome<_>>()?;
        collection.upsert(&batch)?;
    }
    Ok(())
}

fn filters() -> Outcome<Vec<(&'static str, f32, Filter)>> {
    let mut filters = Vec::new();
    for share in SHARES {
        let word = format!("has{share}").replace('.', "");
        for (what, text) in [
            ("word", format!("word = 'has{share}'")),
            ("number", format!("number < {share}")),
            ("text", format!("text MATCH '{word}'")),
            ("word AND number", format!("number < 0.5 AND word = 'has{share}'")),
            ("NOT word", format!("NOT word = 'has{share}'")),
        ] {
            filters.push((what, share, text.parse()?));
        }
    }
    Ok(filters)
}

fn measure(collection: &Arc<Collection>, random: &mut Random, points: usize) -> Outcome<()> {
    let filters = filters()?;
    let snapshot = collection.snapshot();
    let rows: Vec<u32> = snapshot.rows().collect();
    let mut one_by_one = Vec::new();
    for (.., filter) in &filters {
        let matcher = filter.matcher(&snapshot)?;
        one_by_one.push(least(|| Ok(snapshot.scope().only(matcher.keep(&rows)?).len()))?);
    }
    let write_before = least(|| upsert(collection, &mut Random::new(8), 0, 1))?;
    let snapshot = collection.snapshot();
    for (field, _) in FIELDS {
        println!("{field}: postings made in {:.0} ms", made(&snapshot, &field.parse()?)?);
    }
    let evaluate = |snapshot: &Snapshot, filter: &Filter| {
        least(|| Ok(filter.within(snapshot, &snapshot.scope())?.len()))
    };
    let by_postings =
        filters.iter().map(|(.., filter)| evaluate(&snapshot, filter)).collect::<Outcome<Vec<_>>>()?;
    let write_after = least(|| upsert(collection, &mut Random::new(8), 0, 1))?;
    println!("upsert of a point: {:.2} ms before, {:.2} ms after", write_before.1, write_after.1);
    upsert(collection, random, points / 2, CHANGED)?;
    let snapshot = collection.snapshot();
    let mut lines = Vec::new();
    for (place, (what, share, filter)) in filters.iter().enumerate() {
        let ((wanted, before), (found, after)) = (one_by_one[place], by_postings[place]);
        let (_, changed) = evaluate(&snapshot, filter)?;
        println!("{what:16} {share:6} {before:9.3} ms {after:8.3} ms {changed:8.3} ms  {found} points");
        if wanted.abs_diff(found) > ROUNDS {
            return Err(format!("{filter:?} allows {found} points by postings, {wanted} one by one").into());
        }
        lines.push(format!("{points},\"{what}\",{share},{before:.3},{after:.3},{changed:.3}"));
    }
    append_run("filters.csv", "points,filter,share,one_by_one_ms,postings_ms,changed_ms", &lines)?;
    Ok(())
}

/// What is found, and the least milliseconds it takes.
fn least<T: Copy>(work: impl Fn() -> Outcome<T>) -> Outcome<(T, f64)> {
    let mut best: Option<(T, f64)> = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let found = work()?;
        let spent = start.elapsed().as_secs_f64() * 1e3;
        best = Some(best.map_or((found, spent), |(_, least)| (found, least.min(spent))));
    }
    best.ok_or_else(|| "no rounds".into())
}

/// Has the postings of a field made, and tells in how many milliseconds.
fn made(snapshot: &Snapshot, field: &PayloadPath) -> Outcome<f64> {
    let column = snapshot.payload_column(field).ok_or("no index")?;
    let start = Instant::now();
    while column.postings().is_none() {
        rayon::yield_now();
    }
    Ok(start.elapsed().as_secs_f64() * 1e3)
}
