//! What freezing a collection costs in memory and processor time, by kind of quantization, and how long it
//! takes from opening to the first answer; and what a walk costs with points outside the graph.
//!
//! `DEHUB_FREEZE_POINTS` says how many points (300,000), `DEHUB_FREEZE_KINDS` which quantizations (`bf16`),
//! `DEHUB_FREEZE_BEAM` the width of the beam that finds links (200). Points have 128 dimensions and lie around
//! a thousand centres.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use dehub_benches::{Random, peak_bytes, process_cpu_seconds, resident_bytes, thread_cpu_seconds};
use dehub_index::{Catalogue, CollectionConfig, GraphConfig, Name, PointInput, Quantization, Variant};
use dehub_vector::{Metric, Vector};

const DIM: usize = 128;
const BATCH: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let text = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let count: usize = text("DEHUB_FREEZE_POINTS", "300000").parse()?;
    let folder = tempfile::tempdir()?;
    let collection = "frozen".parse()?;
    let raw = megabytes((count * DIM * 4) as u64);
    println!("{count} points of {DIM} dimensions, {raw:.0} MB of vectors");
    import(folder.path(), &collection, count, text("DEHUB_FREEZE_BEAM", "200").parse()?)?;
    for kind in text("DEHUB_FREEZE_KINDS", "bf16").split(',') {
        freeze(folder.path(), &collection, kind.parse()?)?;
        reopen(folder.path(), &collection)?;
    }
    wait_outside(folder.path(), &collection, count)
}

fn import(folder: &Path, name: &Name, count: usize, ef_construction: usize) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(5);
    let centres = random.cone(1000, DIM);
    let graph = GraphConfig { full_scan_threshold: 0, ef_construction, ..GraphConfig::default() };
    let config = CollectionConfig::new(DIM, Metric::Cosine, graph)?;
    let collection = Catalogue::new(folder).create(name, config)?;
    let start = Instant::now();
    for first in (0..count).step_by(BATCH) {
        let vectors = random.clustered(BATCH.min(count - first), &centres, 0.5);
        collection.upsert(&points(first, &vectors))?;
    }
    println!("import {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn points(first: usize, vectors: &[Vector]) -> Vec<PointInput> {
    let point = |(id, vector): (u64, &Vector)| PointInput {
        id: id.into(),
        vector: vector.as_slice().to_vec().into(),
        named: Vec::new(),
        payload: None,
        text: None,
    };
    (first as u64..).zip(vectors).map(point).collect()
}

fn freeze(folder: &Path, name: &Name, quantization: Quantization) -> Result<(), Box<dyn Error>> {
    let collection = Catalogue::new(folder).get(name)?;
    collection.set_quantization(quantization)?;
    let before = resident_bytes().unwrap_or(f64::NAN);
    forget_peak();
    let (start, spent) = (Instant::now(), process_cpu_seconds());
    collection.freeze()?;
    let seconds = (start.elapsed().as_secs_f64(), spent.zip(process_cpu_seconds()).map(|(a, b)| b - a));
    let segment = collection.snapshot().segment_infos().pop().ok_or("a segment")?;
    println!(
        "{quantization}: freeze {:.1} s ({:.1} s of the processor), {:.0} MB resident before, {:.0} MB at most; \
         file {:.0} MB, {} bytes a vector",
        seconds.0,
        seconds.1.unwrap_or(f64::NAN),
        before / 1e6,
        peak_bytes().unwrap_or(f64::NAN) / 1e6,
        megabytes(segment.bytes as u64),
        segment.vector_bytes,
    );
    Ok(())
}

fn reopen(folder: &Path, name: &Name) -> Result<(), Box<dyn Error>> {
    for _ in 0..2 {
        let (start, spent) = (Instant::now(), process_cpu_seconds());
        let collection = Catalogue::new(folder).get(name)?;
        let opened = start.elapsed().as_secs_f64();
        let snapshot = collection.snapshot();
        let found = snapshot.walk(&snapshot.query_of(7), &Variant::raw(), 10, 128).ok_or("a graph")?;
        assert_eq!(found[0].row, 7, "a point finds itself");
        println!(
            "reopened in {opened:.2} s, first answer after {:.2} s ({:.2} s of the processor)",
            start.elapsed().as_secs_f64(),
            spent.zip(process_cpu_seconds()).map_or(f64::NAN, |(a, b)| b - a),
        );
    }
    Ok(())
}

/// What a walk costs while so many points are outside the graph.
fn wait_outside(folder: &Path, name: &Name, count: usize) -> Result<(), Box<dyn Error>> {
    let collection = Catalogue::new(folder).get(name)?;
    let mut random = Random::new(6);
    let centres = random.cone(1000, DIM);
    for outside in (0..=8192).step_by(1024) {
        let snapshot = collection.snapshot();
        let asked: Vec<Vector> = (0..1000).map(|row| snapshot.query_of(row)).collect();
        let spent = thread_cpu_seconds();
        for query in &asked {
            assert!(snapshot.walk(query, &Variant::raw(), 10, 128).is_some());
        }
        let spent = spent.zip(thread_cpu_seconds()).map_or(f64::NAN, |(a, b)| b - a);
        println!("a walk with {outside} points outside the graph: {:.0} us", spent * 1e3);
        collection.upsert(&points(count + outside, &random.clustered(1024, &centres, 0.5)))?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a size to be read")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Lets the peak start anew, where the system can.
fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}
