//! `dehub bank … --compress-from`: a smaller bank, and what it costs.

use anyhow::{Context as _, bail};
use dehub_index::{BankUpdate, Collection, EntryInput, Snapshot};
use dehub_normalize::{BiasError, WeightedBank, bias_error, herd, kmeans};
use dehub_query::BankKind;
use dehub_vector::Chunked;
use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::cli::{Bank, By};
use crate::output::table;

/// Points looked at, at most: half of them to choose by, half to measure on.
const POINTS_MAX: usize = 2048;

/// Compresses a query bank and tells how far its biases move.
pub(crate) fn run(
    context: &Context,
    command: &Bank,
    from: &str,
    collection: &Collection,
) -> anyhow::Result<Outcome> {
    let (asked, snapshot) = (&command.compress, &*collection.snapshot());
    if let Some(there) = snapshot.bank(&command.bank).filter(|_| !asked.dry_run) {
        bail!(
            "there is a bank `{}` already, with {} entries: name one that is not there",
            there.name,
            there.entries
        );
    }
    let Some(info) = snapshot.bank(from) else { bail!("there is no bank `{from}` to compress") };
    if info.kind != BankKind::Query {
        bail!("bank `{from}` is a {} bank, wanted a query bank", info.kind);
    }
    let to = asked.to.context("--to is needed: how many entries are left")?;
    if to == 0 || to >= info.entries {
        bail!("--to is {to}, wanted 1 to {}: bank `{from}` has {} entries", info.entries - 1, info.entries);
    }
    if !(1e-6..=1e6).contains(&asked.beta) {
        bail!("--beta is {}, wanted a number from 0.000001 to 1000000", asked.beta);
    }
    if snapshot.is_empty() {
        bail!("the collection has no points to compare biases of");
    }
    if snapshot.config().multi {
        bail!("compressing is not for multi-vectors: it takes means of vectors");
    }
    let whole = whole(snapshot, from);
    let (choosing, measuring) = sample(snapshot);
    let metric = snapshot.config().metric;
    let bar = context.output.progress("compressing", None);
    let compressed = match asked.by {
        By::Kmeans => kmeans(&whole, metric, to, &mut draws(asked.seed)),
        By::Herding => herd(&whole, metric, &choosing, to, asked.beta),
    };
    let error = |part: &WeightedBank| bias_error(&measuring, metric, &whole, part, asked.beta);
    let (found, spread) = (error(&compressed), error(&evenly(&whole.vectors, to)));
    bar.finish_and_clear();
    if !asked.dry_run {
        collection.add_to_bank(&update(command, &compressed)?)?;
    }
    report(context, command, (from, whole.vectors.len()), (&compressed, found, spread), measuring.len())
}

/// The live entries of a bank, with their weights.
fn whole(snapshot: &Snapshot, bank: &str) -> WeightedBank {
    let mut vectors = Chunked::new(snapshot.config().dim.get());
    let mut weights = Vec::new();
    for (_, vector, weight) in snapshot.live_entries(bank) {
        vectors.push(vector);
        weights.push(f64::from(weight));
    }
    WeightedBank { vectors, weights }
}

fn update(command: &Bank, compressed: &WeightedBank) -> anyhow::Result<BankUpdate> {
    #[expect(clippy::cast_possible_truncation, reason = "weights are kept in 32 bits")]
    let entry = |(place, &weight): (usize, &f64)| EntryInput {
        id: None,
        vector: compressed.vectors.row(place).to_vec().into(),
        weight: weight as f32,
    };
    Ok(BankUpdate {
        name: command.bank.parse()?,
        kind: BankKind::Query,
        entries: compressed.weights.iter().enumerate().map(entry).collect(),
        defer: false,
    })
}

fn report(
    context: &Context,
    command: &Bank,
    (from, entries): (&str, usize),
    (compressed, found, spread): (&WeightedBank, BiasError, BiasError),
    points: usize,
) -> anyhow::Result<Outcome> {
    let by = match command.compress.by {
        By::Kmeans => "kmeans",
        By::Herding => "herding",
    };
    let left = compressed.vectors.len();
    let result = json!({
        "collection": command.collection,
        "from": from,
        "entries": entries,
        "to": left,
        "by": by,
        "beta": command.compress.beta,
        "points": points,
        "error": to_json(found),
        "error_of_evenly_spread": to_json(spread),
        "dry_run": command.compress.dry_run,
    });
    context.output.result(&result, || {
        let row = |name: &str, error: BiasError| {
            vec![
                name.to_owned(),
                format!("{:.4}", error.correlation),
                format!("{:.5}", error.mean),
                format!("{:.5}", error.max),
            ]
        };
        let rows = [row(by, found), row("evenly spread", spread)];
        format!(
            "bank `{from}`: {entries} entries to {left}; biases at beta {} of {points} points\n\n{}\n{}",
            command.compress.beta,
            table(&["", "correlation", "mean change", "largest"], 1, rows),
            if command.compress.dry_run {
                "Nothing was stored.".to_owned()
            } else {
                format!("Stored as bank `{}`.", command.bank)
            }
        )
    })?;
    Ok(Outcome::Done)
}

fn to_json(error: BiasError) -> Value {
    json!({ "correlation": error.correlation, "mean": error.mean, "max": error.max })
}

/// Points evenly spread: those to choose by, and others to measure on.
fn sample(snapshot: &Snapshot) -> (Chunked, Chunked) {
    let rows: Vec<u32> = snapshot.rows().collect();
    let taken = rows.len().min(POINTS_MAX);
    let dim = snapshot.config().dim.get();
    let (mut choosing, mut measuring) = (Chunked::new(dim), Chunked::new(dim));
    for place in 0..taken {
        let vector = snapshot.vector(rows[place * rows.len() / taken]);
        // A single point is all there is to measure on.
        (if place % 2 == 0 && taken > 1 { &mut choosing } else { &mut measuring }).push(vector);
    }
    (choosing, measuring)
}

/// As many entries evenly spread, the plain way to a smaller bank.
fn evenly(vectors: &Chunked, to: usize) -> WeightedBank {
    let mut spread = Chunked::new(vectors.width());
    (0..to).for_each(|place| spread.push(vectors.row(place * vectors.len() / to)));
    WeightedBank::plain(spread)
}

/// Numbers from 0 to below 1, the same for the same seed (SplitMix64).
fn draws(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let share = (z >> 11) as f64 / (1_u64 << 53) as f64;
        share
    }
}
