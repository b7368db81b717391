//! Search: one query and a batch, exact and by the graph, raw and corrected.
//! The peer of the exact batch is the plain loop of inner products over the same vectors.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dehub_benches::{Bed, Random};
use dehub_index::{Question, Variant};
use dehub_vector::{Candidate, TopK, dot};

const POINTS: usize = 10_000;
const DIM: usize = 384;
const QUERIES: usize = 256;

fn search(criterion: &mut Criterion) {
    let mut random = Random::new(1);
    let (points, bank) = (random.cone(POINTS, DIM), random.cone(1000, DIM));
    let queries = random.cone(QUERIES, DIM);
    let bed = Bed::new(&points, &bank, true);
    bed.fit("IS(beta=20)");
    let snapshot = bed.collection.snapshot();
    let correction = snapshot.correction("c").expect("fitted");
    let raw = Variant::raw();
    let corrected = correction.variant(&[true], 1.0);

    let mut group = criterion.benchmark_group("batch of 256, 10000 x 384, top 10");
    group.sample_size(20).throughput(Throughput::Elements(QUERIES as u64));
    group.bench_function("plain loop", |bencher| {
        bencher.iter(|| {
            for query in &queries {
                let mut top = TopK::new(10);
                for (point, row) in points.iter().zip(0..) {
                    top.push(Candidate::new(dot(query.as_slice(), point.as_slice()), row));
                }
                black_box(top.into_sorted());
            }
        });
    });
    let question = Question { vectors: &queries, limit: 10, targets: &[] };
    for (name, variant) in [("exact scan, raw", &raw), ("exact scan, IS", &corrected)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(snapshot.scan(&question, std::slice::from_ref(variant))));
        });
    }
    for (name, variant) in [("graph walk, raw", &raw), ("graph walk, IS", &corrected)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for query in &queries {
                    black_box(snapshot.walk(query, variant, 10, 64));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, search);
criterion_main!(benches);
