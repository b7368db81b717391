//! The graph: what building costs, and how many queries a second one thread answers at what recall, by
//! kind of code, raw and corrected, beside the graph of a collection and one that hnsw_rs links.
//!
//! With `DEHUB_GRAPH_DATA=FOLDER` it takes `gallery.npy`, `queries_bank.npy` and `queries_test.npy` from
//! there, else made vectors. `DEHUB_GRAPH_ALONE=1` leaves the last two out. Recall is of the exact ten
//! best by the same score; candidates are scored again in 32 bits, which the times include.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dehub_benches::{Bed, Random};
use dehub_format::{ReadOptions, open};
use dehub_graph::{
    BuildOptions, Builder, CodeKind, Points, Ranking, Raw, Segment, Width, build, fit_projection,
};
use dehub_index::Variant;
use dehub_vector::{
    CHUNK_ROWS, Candidate, Dim, Metric, Projection, TopK, Vector, dot, matrix_product, prefetch,
};

const K: usize = 10;
const EFFORTS: [usize; 7] = [10, 16, 24, 32, 64, 128, 256];
const QUERIES_MAX: usize = 2000;
const ROUNDS: usize = 3;
const BETA: f32 = 20.0;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let data = Data::load()?;
    println!("{} points x {}, {} queries", data.gallery.len(), data.dim, data.queries.len());
    let biases = data.inverted_softmax();
    let none = vec![0.0; data.gallery.len()];
    let (raw, corrected) = (data.best(&none), data.best(&biases));
    let groups: Vec<Vec<u32>> = (0..data.rows()).map(|row| vec![row]).collect();
    let vector = |row: u32| data.gallery[row as usize].as_slice();
    let points = Points { metric: Metric::Cosine, dim: data.dim, groups: &groups, vector: &vector };
    let bank: Vec<&[f32]> = data.bank.iter().map(Vector::as_slice).collect();
    let (projection, spent) = measured(|| fit_projection(&points, &bank));
    println!("projection on {:?} numbers: {spent}", projection.as_ref().map(Projection::width));
    for (code, fill, reduced) in [
        (CodeKind::Int8, true, true),
        (CodeKind::Bf16, true, true),
        (CodeKind::Bf16, true, false),
        (CodeKind::Bf16, false, false),
        (CodeKind::F32, true, false),
        (CodeKind::Int8, true, false),
    ] {
        let projection = projection.clone().filter(|_| reduced);
        let options =
            BuildOptions { code, fill, projection, covered: data.rows(), ..BuildOptions::default() };
        let (segment, spent) = measured(|| build(&points, &options));
        let (width, bytes) = (segment.width(), segment.byte_len());
        println!("\n{code:?} x {width}, fill {fill}: build {spent}, {bytes} bytes");
        report("raw", &raw, |effort| data.walk(&segment, &none, effort));
        report("IS(20)", &corrected, |effort| data.walk(&segment, &biases, effort));
        let compared = EFFORTS.map(|effort| data.compared(&segment, effort));
        println!("  nodes compared a query, raw: {compared:?}");
    }
    let options = BuildOptions { threads: 2, covered: data.rows(), ..BuildOptions::default() };
    let (_, spent) = measured(|| build(&points, &options));
    println!("\nBf16 on 2 threads: build {spent}");
    if std::env::var_os("DEHUB_GRAPH_ALONE").is_none() {
        collection(&data, &raw, &corrected);
        let options =
            BuildOptions { builder: Builder::HnswRs, covered: data.rows(), ..BuildOptions::default() };
        let (segment, spent) = measured(|| build(&points, &options));
        println!("\nhnsw_rs: build {spent}");
        report("raw", &raw, |effort| data.walk(&segment, &none, effort));
        report("IS(20)", &corrected, |effort| data.walk(&segment, &biases, effort));
        let compared = EFFORTS.map(|effort| data.compared(&segment, effort));
        println!("  nodes compared a query, raw: {compared:?}");
    }
    Ok(())
}

/// The graph a collection builds and walks.
fn collection(data: &Data, raw: &[Vec<u32>], corrected: &[Vec<u32>]) {
    let bed = Bed::without_graph(&data.gallery, &data.bank, 0);
    let (_, spent) = measured(|| bed.collection.build_graph_if_due().expect("a writable folder"));
    println!("\ncollection: build {spent}");
    bed.fit("IS(beta=20)");
    let snapshot = bed.collection.snapshot();
    let variant = snapshot.correction("c").expect("fitted").variant(&[true], 1.0);
    let walk = |variant: &Variant<'_>, effort| {
        let found = |query| snapshot.walk(query, variant, K, effort).expect("a graph");
        data.queries.iter().map(found).collect()
    };
    report("raw", raw, |effort| walk(&Variant::raw(), effort));
    report("IS(20)", corrected, |effort| walk(&variant, effort));
}

/// Prints recall and queries a second of the thread's own time at each effort, the best of some rounds.
#[expect(clippy::cast_precision_loss, reason = "counts of hits and queries are far below 2^53")]
fn report(name: &str, truth: &[Vec<u32>], answer: impl Fn(usize) -> Vec<Vec<Candidate>>) {
    println!("  {name:8} {:>6} {:>8} {:>10}", "effort", "recall", "queries/s");
    for effort in EFFORTS {
        let mut seconds = f64::INFINITY;
        let mut hits = 0;
        for _ in 0..ROUNDS {
            let start = thread_seconds();
            let answers = answer(effort);
            seconds = seconds.min(thread_seconds() - start);
            let found = |(answer, truth): (&Vec<Candidate>, &Vec<u32>)| {
                answer.iter().filter(|candidate| truth.contains(&candidate.row)).count()
            };
            hits = answers.iter().zip(truth).map(found).sum();
        }
        let recall = hits as f64 / (K * truth.len()) as f64;
        println!("  {:8} {effort:6} {recall:8.4} {:10.0}", "", truth.len() as f64 / seconds);
    }
}

struct Data {
    dim: usize,
    gallery: Vec<Vector>,
    bank: Vec<Vector>,
    queries: Vec<Vector>,
}

struct Biased<'a>(&'a [f32]);

impl Ranking for Biased<'_> {
    fn score(&self, row: u32, similarity: f32) -> f32 {
        similarity - self.0[row as usize]
    }

    fn is_live(&self, _row: u32) -> bool {
        true
    }
}

impl Data {
    fn load() -> Outcome<Data> {
        let (gallery, bank, mut queries) = match std::env::var_os("DEHUB_GRAPH_DATA") {
            Some(folder) => {
                let read = |name| read(&Path::new(&folder).join(name));
                (read("gallery.npy")?, read("queries_bank.npy")?, read("queries_test.npy")?)
            }
            None => {
                let mut random = Random::new(7);
                (random.cone(30_000, 128), random.cone(2000, 128), random.cone(1000, 128))
            }
        };
        queries.truncate(QUERIES_MAX);
        Ok(Data { dim: gallery[0].as_slice().len(), gallery, bank, queries })
    }

    fn rows(&self) -> u32 {
        u32::try_from(self.gallery.len()).expect("fewer rows than 2^32")
    }

    fn walk(&self, segment: &Segment, biases: &[f32], effort: usize) -> Vec<Vec<Candidate>> {
        // Reduced codes misplace more.
        let keep = if segment.width() < self.dim { 48 } else { 4 * K };
        let width = Width { effort: effort.max(K), keep };
        let answer = |query: &Vector| {
            let query = query.as_slice();
            let exact = |row: u32| dot(query, self.gallery[row as usize].as_slice()) - biases[row as usize];
            let fetch = |row: u32| prefetch(self.gallery[row as usize].as_slice());
            segment.walk(query, &Biased(biases), width).rescored_from(K, fetch, exact)
        };
        self.queries.iter().map(answer).collect()
    }

    /// The nodes a raw walk compares with a query, on average: a cost that no other load disturbs.
    fn compared(&self, segment: &Segment, effort: usize) -> usize {
        let width = Width { effort: effort.max(K), keep: K };
        let walk = |query: &Vector| segment.walk(query.as_slice(), &Raw, width).compared;
        self.queries.iter().map(walk).sum::<usize>() / self.queries.len()
    }

    /// The exact ten best of each query.
    fn best(&self, biases: &[f32]) -> Vec<Vec<u32>> {
        let mut best: Vec<TopK> = self.queries.iter().map(|_| TopK::new(K)).collect();
        products(&self.queries, &self.gallery, |query, row, similarity| {
            let row = u32::try_from(row).expect("fewer rows than 2^32");
            best[query].push(Candidate::new(similarity - biases[row as usize], row));
        });
        let rows = |top: TopK| top.into_sorted().iter().map(|candidate| candidate.row).collect();
        best.into_iter().map(rows).collect()
    }

    /// `LSE_β / β` of each point over the bank, less the mean.
    #[expect(clippy::cast_precision_loss, reason = "points are far fewer than 2^24")]
    fn inverted_softmax(&self) -> Vec<f32> {
        let mut sums = vec![0.0_f32; self.gallery.len()];
        products(&self.bank, &self.gallery, |_, row, similarity| sums[row] += (BETA * similarity).exp());
        let biases: Vec<f32> = sums.iter().map(|sum| sum.ln() / BETA).collect();
        let mean = biases.iter().sum::<f32>() / biases.len() as f32;
        biases.iter().map(|bias| bias - mean).collect()
    }
}

/// Every product of a query with a row.
fn products(queries: &[Vector], rows: &[Vector], mut each: impl FnMut(usize, usize, f32)) {
    let dim = rows[0].as_slice().len();
    let flat = |vectors: &[Vector]| -> Vec<f32> {
        vectors.iter().flat_map(|vector| vector.as_slice().iter().copied()).collect()
    };
    for (block, first_query) in queries.chunks(CHUNK_ROWS).zip((0..).step_by(CHUNK_ROWS)) {
        let block = flat(block);
        for (chunk, first_row) in rows.chunks(CHUNK_ROWS).zip((0..).step_by(CHUNK_ROWS)) {
            let mut out = vec![0.0; block.len() / dim * chunk.len()];
            matrix_product(&block, &flat(chunk), dim, &mut out);
            for (place, &similarity) in out.iter().enumerate() {
                each(first_query + place / chunk.len(), first_row + place % chunk.len(), similarity);
            }
        }
    }
}

fn read(path: &Path) -> Outcome<Vec<Vector>> {
    let mut vectors = Vec::new();
    for batch in open(path, ReadOptions::default())? {
        let rows = batch?.vectors;
        let dim = Dim::new(rows.dim())?;
        for row in rows.iter() {
            vectors.push(Vector::new(row, dim, Metric::Cosine)?);
        }
    }
    Ok(vectors)
}

/// Does something, and says what time it took.
fn measured<T>(work: impl FnOnce() -> T) -> (T, String) {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let outcome = work();
    let spent = format!("{:.2} s, {:.2} CPU-s", start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    (outcome, spent)
}

/// The time this thread has run, as Linux counts it; on other systems there is nothing to print.
fn thread_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

/// What all threads of this process have used, as Linux counts it; 0 elsewhere.
fn cpu_seconds() -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = after_name.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_A_SECOND
}
