//! The exact scan where points have several vectors: products of whole chunks find the pairs that may matter, which
//! are then scored one by one.

use dehub_vector::{CHUNK_ROWS, Chunked, longest_square, max_sim_block, product_error};
use rayon::prelude::*;

use crate::gather::{Block, Running, merge};
use crate::scan::{Answer, Question, Variant, first_row};
use crate::{Scope, Snapshot};

/// Queries that a chunk is multiplied with together.
const QUERY_BLOCK: usize = 64;

/// Answers `question` from the points of the scope, bit for bit as scoring each does.
pub(crate) fn scan(
    snapshot: &Snapshot,
    question: &Question<'_>,
    variants: &[Variant<'_>],
    scope: &Scope,
) -> Vec<Vec<Answer>> {
    let answers = question.vectors.chunks(QUERY_BLOCK).enumerate().map(|(place, vectors)| {
        let targets = question.targets.chunks(QUERY_BLOCK).nth(place).unwrap_or_default();
        let block = Block::new(snapshot, &Question { vectors, targets, ..*question }, variants, scope);
        let dim = snapshot.vectors.width();
        let mut queries = Chunked::ragged(dim);
        vectors.iter().for_each(|vector| queries.push(vector.as_slice()));
        let longest = vectors.iter().map(|vector| longest_square(vector.as_slice(), dim)).fold(0.0, f32::max);
        let slack = 2.0 * product_error(dim, longest.sqrt(), snapshot.norm_max);
        let chunks = (0..snapshot.vectors.chunk_count()).into_par_iter();
        let found = chunks.fold(
            || block.start(),
            |mut states, chunk| {
                scan_chunk(snapshot, (&queries, &block), chunk, slack, scope, &mut states);
                states
            },
        );
        block.answers(found.reduce(|| block.start(), merge))
    });
    answers.flatten().collect()
}

fn scan_chunk(
    snapshot: &Snapshot,
    (queries, block): (&Chunked, &Block<'_>),
    chunk: usize,
    slack: f32,
    scope: &Scope,
    states: &mut [Running],
) {
    let (first, end) = (chunk * CHUNK_ROWS, snapshot.vectors.len().min((chunk + 1) * CHUNK_ROWS));
    let rows = || (first_row(chunk)..).take(end - first);
    if scope.is_over() || !rows().any(|row| scope.contains(row)) {
        return;
    }
    let mut similarities = vec![0.0; (end - first) * queries.len()];
    max_sim_block(queries, &(0..queries.len()), &snapshot.vectors, &(first..end), &mut similarities);
    for (row, line) in rows().zip(similarities.chunks_exact(queries.len())) {
        if scope.contains(row) {
            for (query, &near) in line.iter().enumerate() {
                block.take_near(query, row, near, slack, states);
            }
        }
    }
}
