//! The kernels beside what they replace: products of blocks, and of one query with rows.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dehub_benches::Random;
use dehub_vector::{CHUNK_ROWS, Kernels, Pairs, Panels, QuadPanels, Quads, dot, matrix_product};
use half::bf16;

const QUERIES: usize = 64;

fn products(criterion: &mut Criterion) {
    for dim in [128, 384] {
        let mut random = Random::new(3);
        let numbers = |random: &mut Random, rows| -> Vec<f32> {
            random.cone(rows, dim).iter().flat_map(|vector| vector.as_slice().to_vec()).collect()
        };
        let (queries, rows) = (numbers(&mut random, QUERIES), numbers(&mut random, CHUNK_ROWS));
        let mut out = vec![0.0; QUERIES * CHUNK_ROWS];
        let mut group = criterion.benchmark_group(format!("{QUERIES} x {CHUNK_ROWS} x {dim}"));
        group.throughput(Throughput::Elements((2 * QUERIES * CHUNK_ROWS * dim) as u64));
        group.bench_function("f32 (gemm)", |bencher| {
            bencher.iter(|| matrix_product(&queries, &rows, dim, black_box(&mut out)));
        });
        let (pairs, mut panels) = (Pairs::new(&queries, dim), Panels::default());
        panels.fill(&rows, dim);
        group.bench_function("bf16 panels", |bencher| {
            bencher.iter(|| Kernels::best().panel_product(&pairs, &panels, black_box(&mut out)));
        });
        let (quads, mut quad_panels) = (Quads::new(&queries, dim), QuadPanels::default());
        quad_panels.fill(&rows, dim);
        for kernels in Kernels::all() {
            let mut out = vec![0.0; QUERIES * quad_panels.rows()];
            group.bench_function(format!("bytes, {}", kernels.name), |bencher| {
                bencher.iter(|| kernels.quad_product(&quads, &quad_panels, black_box(&mut out)));
            });
        }
        group.bench_function("filling the panels of bytes", |bencher| {
            bencher.iter(|| black_box(&mut quad_panels).fill(&rows, dim));
        });
        group.bench_function("filling the panels", |bencher| {
            bencher.iter(|| black_box(&mut panels).fill(&rows, dim));
        });
        group.finish();
        let mut group = criterion.benchmark_group(format!("1 x {CHUNK_ROWS} x {dim}"));
        group.throughput(Throughput::Elements((2 * CHUNK_ROWS * dim) as u64));
        let query = &queries[..dim];
        group.bench_function("f32", |bencher| {
            bencher.iter(|| rows.chunks_exact(dim).map(|row| dot(query, row)).sum::<f32>());
        });
        let coded = |rows: &[f32]| rows.iter().map(|&number| bf16::from_f32(number)).collect::<Vec<_>>();
        let (query, rows) = (coded(query), coded(&rows));
        for kernels in Kernels::all() {
            group.bench_function(format!("bf16, {}", kernels.name), |bencher| {
                bencher.iter(|| rows.chunks_exact(dim).map(|row| kernels.dot_bf16(&query, row)).sum::<f32>());
            });
        }
        group.finish();
    }
}

criterion_group!(benches, products);
criterion_main!(benches);
