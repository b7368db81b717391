//! How well queries find their answers among all points.

use dehub_vector::matrix_product;
use rayon::prelude::*;

use super::dataset::Dataset;

/// Queries that are measured together.
const BLOCK: usize = 64;

/// Points that are looked at together.
const POINTS: usize = 2048;

/// Others of each query that are drawn for the pooled AUC.
const DRAWN: usize = 200;

/// What queries found. Lists have a number for each query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    /// Whether the best point is an answer: 1 or 0.
    pub first: Vec<f64>,
    /// nDCG@10 with gains of 1.
    pub ndcg: Vec<f64>,
    /// The share of points that are no answer and below one.
    pub auc: Vec<f64>,
    /// The AUC of all queries' scores together: answers against 200 others of each, drawn by the seed.
    pub pooled_auc: f64,
}

impl Measured {
    /// The mean of a list.
    #[expect(clippy::cast_precision_loss, reason = "a count of queries is far below 2^53")]
    pub fn mean(list: &[f64]) -> f64 {
        list.iter().sum::<f64>() / list.len().max(1) as f64
    }
}

/// What one query found.
struct Found {
    first: f64,
    ndcg: f64,
    auc: f64,
    answers: Vec<f32>,
    others: Vec<f32>,
}

/// Measures queries, by their numbers in the dataset and their vectors one after the other, against all points.
pub fn measure(dataset: &Dataset, queries: &[usize], vectors: &[f32], seed: u64) -> Measured {
    let dim = dataset.dim();
    let blocks = queries.par_chunks(BLOCK).zip(vectors.par_chunks(BLOCK * dim)).enumerate();
    let found: Vec<Found> = blocks
        .flat_map_iter(|(place, (queries, vectors))| {
            let mut scores = vec![Vec::with_capacity(dataset.points_len()); queries.len()];
            let mut products = Vec::new();
            for points in dataset.points().chunks(POINTS * dim) {
                let across = points.len() / dim;
                products.clear();
                products.resize(queries.len() * across, 0.0);
                matrix_product(vectors, points, dim, &mut products);
                scores.iter_mut().zip(products.chunks_exact(across)).for_each(|(all, line)| all.extend(line));
            }
            let mut draws =
                fastrand::Rng::with_seed(seed ^ (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let found =
                queries.iter().zip(&scores).map(|(&query, scores)| one(dataset, query, scores, &mut draws));
            found.collect::<Vec<_>>()
        })
        .collect();
    let mut measured = Measured::default();
    let (mut answers, mut others) = (Vec::new(), Vec::new());
    for one in found {
        measured.first.push(one.first);
        measured.ndcg.push(one.ndcg);
        measured.auc.push(one.auc);
        answers.extend(one.answers);
        others.extend(one.others);
    }
    measured.pooled_auc = auc(&answers, &mut others);
    measured
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn one(dataset: &Dataset, query: usize, scores: &[f32], draws: &mut fastrand::Rng) -> Found {
    let answers: Vec<f32> = dataset.answers(query).iter().map(|&row| scores[row as usize]).collect();
    // Equal scores are in the order of rows.
    let better = |row: u32| {
        let own = scores[row as usize];
        let is_better = |(other, &score): (u32, &f32)| score > own || (score == own && other < row);
        (0_u32..).zip(scores).filter(|&(other, score)| is_better((other, score))).count()
    };
    let ranks: Vec<usize> = dataset.answers(query).iter().map(|&row| better(row)).collect();
    let gain = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
    let found: f64 = ranks.iter().filter(|&&rank| rank < 10).map(|&rank| gain(rank)).sum();
    let ideal: f64 = (0..ranks.len().min(10)).map(gain).sum();
    let relevant = ranks.len() as f64;
    let pairs = relevant * (scores.len() as f64 - relevant);
    let above: f64 = ranks.iter().map(|&rank| rank as f64).sum::<f64>() - relevant * (relevant - 1.0) / 2.0;
    let mut others = Vec::with_capacity(DRAWN);
    let left = u32::try_from(scores.len()).unwrap_or(u32::MAX);
    for _ in 0..DRAWN.min(scores.len()) {
        let row = draws.u32(0..left);
        if !dataset.is_answer(query, row) {
            others.push(scores[row as usize]);
        }
    }
    Found {
        first: if ranks.contains(&0) { 1.0 } else { 0.0 },
        ndcg: found / ideal,
        auc: if pairs > 0.0 { 1.0 - above / pairs } else { 1.0 },
        answers,
        others,
    }
}

/// The share of pairs in the right order, equal ones counting half.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn auc(answers: &[f32], others: &mut [f32]) -> f64 {
    if answers.is_empty() || others.is_empty() {
        return 1.0;
    }
    others.sort_unstable_by(f32::total_cmp);
    let below = |score: &f32| {
        let less = others.partition_point(|other| other < score);
        let at_most = others.partition_point(|other| other <= score);
        (less + at_most) as f64 / 2.0
    };
    answers.iter().map(below).sum::<f64>() / (answers.len() as f64 * others.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_those_of_plain_loops() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut numbers = |count: usize| (0..count).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
        let (queries, points) = (numbers(70 * 4), numbers(300 * 4));
        let answers: Vec<Vec<u32>> = (0..70).map(|query| vec![query, 299 - query]).collect();
        let dataset = Dataset::new(4, queries.clone(), points, answers).expect("good");
        let asked: Vec<usize> = (0..70).collect();
        let found = measure(&dataset, &asked, &queries, 5);
        for &query in &asked {
            let score = |row: u32| -> f32 { dehub_vector::dot(dataset.query(query), dataset.point(row)) };
            let mut order: Vec<u32> = (0..300).collect();
            order.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
            let is_answer = |row: &u32| dataset.is_answer(query, *row);
            let gain = |place: usize| 1.0 / (f64::from(u32::try_from(place).expect("few")) + 2.0).log2();
            let dcg: f64 = (0..10).filter(|&place| is_answer(&order[place])).map(gain).sum();
            assert!((found.ndcg[query] - dcg / (gain(0) + gain(1))).abs() < 1e-9);
            assert_eq!(found.first[query] > 0.5, is_answer(&order[0]));
            let answers = order.iter().filter(|row| is_answer(row));
            let pairs: usize =
                answers.map(|&a| (0..300).filter(|b| !is_answer(b) && score(a) > score(*b)).count()).sum();
            let share = f64::from(u32::try_from(pairs).expect("few")) / (2.0 * 298.0);
            assert!((found.auc[query] - share).abs() < 1e-9);
        }
        assert!(found.pooled_auc > 0.3 && found.pooled_auc < 0.7);
        assert_eq!(found, measure(&dataset, &asked, &queries, 5));
    }

    #[test]
    fn the_pooled_auc_counts_equal_scores_half() {
        assert_eq!(auc(&[1.0, 2.0], &mut [1.0, 0.0, 3.0]), (1.5 + 2.0) / 6.0);
    }
}
