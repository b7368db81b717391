//! The ROC curve of a run over all queries together.

use crate::{Qrels, Run};

/// What a threshold on scores lets through, over the documents of all judged queries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RocPoint {
    /// Documents of this score or a larger one pass.
    pub threshold: f64,
    /// The share of documents passing among those that are not relevant.
    pub false_positives: f64,
    /// The share of documents passing among those that are relevant.
    pub true_positives: f64,
}

/// The curve of shares over all thresholds, from none passing to all that is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Roc {
    /// One a distinct score, the largest first.
    pub points: Vec<RocPoint>,
    /// The share of pairs of a relevant and another document, of whatever queries, in which the relevant one has the
    /// higher score; equal scores count half, and a relevant document that is not listed loses all its pairs. `None`
    /// without a pair.
    pub auc: Option<f64>,
}

impl Roc {
    /// The curve of the judged queries of a run. A document without a judgement is not relevant. Relevant documents
    /// that are not listed pass no threshold; others that are not listed are not known of.
    #[expect(clippy::cast_precision_loss, reason = "counts of documents are far below 2^53")]
    pub fn of(run: &Run, qrels: &Qrels) -> Roc {
        let mut scores: Vec<(f64, bool)> = Vec::new();
        let mut relevant = 0u64;
        for query in qrels.queries() {
            let judged = qrels.relevant(query);
            relevant += judged.len() as u64;
            let numbers: std::collections::HashSet<u32> =
                judged.iter().filter_map(|(document, _)| run.number(document)).collect();
            scores.extend(run.list(query).iter().map(|it| (it.score, numbers.contains(&it.document))));
        }
        scores.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let found = scores.iter().filter(|(_, is_relevant)| *is_relevant).count() as u64;
        let others = scores.len() as u64 - found;
        let (mut passing, mut false_passing, mut halves) = (0u64, 0u64, 0u128);
        let mut points = Vec::new();
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        for group in scores.chunk_by(|a, b| a.0 == b.0) {
            let good = group.iter().filter(|(_, is_relevant)| *is_relevant).count() as u64;
            let bad = group.len() as u64 - good;
            // Each relevant document beats what comes after its group, and half of the others in it.
            halves += u128::from(good) * u128::from(2 * (others - false_passing - bad) + bad);
            passing += good;
            false_passing += bad;
            points.push(RocPoint {
                threshold: group[0].0,
                false_positives: share(false_passing, others),
                true_positives: share(passing, relevant),
            });
        }
        let pairs = 2.0 * relevant as f64 * others as f64;
        Roc { points, auc: (pairs > 0.0).then(|| halves as f64 / pairs) }
    }
}
