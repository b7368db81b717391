//! Fitting: the statistics of every point over a bank, beside the bare matrix product that any
//! exact fit has to make, and the cost of one more point.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use dehub_benches::{Bed, Random};
use dehub_index::PointInput;
use dehub_normalize::{Bank, Points, Statistic, fit_states};
use dehub_vector::{CHUNK_ROWS, Chunked, Metric, Vector, matrix_product};

const POINTS: usize = 8192;
const BANK: usize = 4096;
const DIM: usize = 384;

fn chunked(vectors: &[Vector]) -> Chunked {
    let mut rows = Chunked::new(DIM);
    vectors.iter().for_each(|vector| rows.push(vector.as_slice()));
    rows
}

fn fit(criterion: &mut Criterion) {
    let mut random = Random::new(2);
    let (points, bank) = (random.cone(POINTS, DIM), random.cone(BANK, DIM));
    let (gallery, entries) = (chunked(&points), chunked(&bank));
    let mut group = criterion.benchmark_group("fit 8192 x 4096 x 384");
    group.sample_size(10);
    group.bench_function("bare matrix product, one thread", |bencher| {
        let mut block = vec![0.0; CHUNK_ROWS * CHUNK_ROWS];
        bencher.iter(|| {
            for left in 0..gallery.chunk_count() {
                for right in 0..entries.chunk_count() {
                    matrix_product(gallery.chunk(left), entries.chunk(right), DIM, &mut block);
                    black_box(&block);
                }
            }
        });
    });
    let all = |statistics: &[Statistic]| {
        let points = Points { vectors: &gallery, live: &|_| true, own_entry: &|_| None };
        let bank = Bank::new(&entries, Metric::Cosine);
        black_box(fit_states(&points, 0, bank, 0, statistics));
    };
    let is = Statistic::LogSumExp { beta: 20.0 };
    let csls = Statistic::TopMean { k: 10 };
    group.bench_function("log-sum-exp, all threads", |bencher| bencher.iter(|| all(&[is])));
    group.bench_function("top-mean, all threads", |bencher| bencher.iter(|| all(&[csls])));
    group.bench_function("both, all threads", |bencher| bencher.iter(|| all(&[is, csls])));
    group.finish();

    let bed = Bed::new(&points[..1024], &bank, false);
    bed.fit("IS(beta=20)");
    let mut id = 1_000_000;
    criterion.bench_function("one durable point with its bias, bank of 4096", |bencher| {
        bencher.iter(|| {
            id += 1;
            let vector = points[id as usize % POINTS].as_slice().to_vec();
            let point = PointInput {
                id: id.into(),
                vector: vector.into(),
                named: Vec::new(),
                payload: None,
                text: None,
            };
            bed.collection.upsert(&[point]).expect("a valid point")
        });
    });
}

criterion_group!(benches, fit);
criterion_main!(benches);
