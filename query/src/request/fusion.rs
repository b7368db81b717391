//! Fusion: one ranking out of several.

use std::collections::HashMap;

/// The constant of reciprocal rank fusion that Qdrant takes unless told otherwise.
pub const RRF_K_DEFAULT: u32 = 2;

/// A score of a list without any spread.
const MIDDLE: f64 = 0.5;

/// How rankings become one.
#[derive(Debug, Clone, PartialEq)]
pub enum Fusion {
    /// Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009), with weights as Qdrant has them: a point at
    /// place `i` of a list, from 0, gets `1 / ((i + 1)/weight + k − 1)` of it.
    Rrf {
        /// How little the first places count more than the others; at least 1.
        k: u32,
        /// A weight for each prefetch; none is 1 for all. A list of weight 0 or less gives nothing.
        weights: Option<Vec<f32>>,
    },
    /// Distribution-based score fusion: the sum of `(score − low)/(high − low)`, where `low` and `high` are three
    /// deviations from the mean of the list. Scores are taken as they are served, distances too.
    Dbsf,
}

impl Fusion {
    /// The best `limit` rows with their fused scores, best first; of equal ones the one met first.
    pub(crate) fn fuse(&self, lists: &[Vec<(u32, f32)>], limit: usize) -> Vec<(u32, f64)> {
        let mut fused: Vec<(u32, f64)> = Vec::new();
        let mut place_of: HashMap<u32, usize> = HashMap::new();
        for (number, list) in lists.iter().enumerate() {
            for (&(row, _), part) in list.iter().zip(self.parts(number, list)) {
                let place = *place_of.entry(row).or_insert(fused.len());
                match fused.get_mut(place) {
                    Some((_, score)) => *score += part,
                    None => fused.push((row, part)),
                }
            }
        }
        fused.sort_by(|left, right| right.1.total_cmp(&left.1));
        fused.truncate(limit);
        fused
    }

    /// What each entry of a list adds to its row's score.
    fn parts(&self, number: usize, list: &[(u32, f32)]) -> Vec<f64> {
        match self {
            Fusion::Rrf { k, weights } => {
                let given = weights.as_ref().and_then(|weights| weights.get(number));
                let weight = given.map_or(1.0, |&weight| f64::from(weight));
                (1..=list.len()).map(|rank| reciprocal(rank, weight, *k)).collect()
            }
            Fusion::Dbsf => spread(list),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^52")]
fn reciprocal(rank: usize, weight: f64, k: u32) -> f64 {
    if weight <= 0.0 {
        return 0.0;
    }
    1.0 / (rank as f64 / weight + f64::from(k) - 1.0)
}

/// Where each score of a list lies between three deviations below the mean and three above.
#[expect(clippy::cast_precision_loss, reason = "lists are far shorter than 2^52")]
fn spread(list: &[(u32, f32)]) -> Vec<f64> {
    let scores: Vec<f64> = list.iter().map(|&(_, score)| f64::from(score)).collect();
    let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
    let squares: f64 = scores.iter().map(|score| (score - mean) * (score - mean)).sum();
    let deviation = (squares / scores.len().saturating_sub(1).max(1) as f64).sqrt();
    if deviation == 0.0 {
        return vec![MIDDLE; scores.len()];
    }
    scores.iter().map(|score| (score - (mean - 3.0 * deviation)) / (6.0 * deviation)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rows: &[u32]) -> Vec<(u32, f32)> {
        rows.iter().map(|&row| (row, 0.0)).collect()
    }

    fn close(found: &[(u32, f64)], wanted: &[(u32, f64)]) {
        assert_eq!(found.len(), wanted.len(), "{found:?} {wanted:?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(found.0 == wanted.0 && (found.1 - wanted.1).abs() < 1e-12, "{found:?} {wanted:?}");
        }
    }

    #[test]
    fn ranks_are_fused_by_their_reciprocals_and_ties_go_to_the_list_that_is_first() {
        let fusion = Fusion::Rrf { k: 2, weights: None };
        let lists = [list(&[7, 8, 9]), list(&[9, 5])];
        // 9: 1/4 + 1/2; 7: 1/2; 8 and 5: 1/3 each.
        close(&fusion.fuse(&lists, 10), &[(9, 0.75), (7, 0.5), (8, 1.0 / 3.0), (5, 1.0 / 3.0)]);
        close(&fusion.fuse(&lists, 2), &[(9, 0.75), (7, 0.5)]);
        assert!(fusion.fuse(&[], 3).is_empty());
    }

    #[test]
    fn a_weight_stretches_ranks_and_a_list_of_weight_0_gives_nothing() {
        let fusion = Fusion::Rrf { k: 60, weights: Some(vec![3.0, 0.0]) };
        let found = fusion.fuse(&[list(&[1, 2]), list(&[3])], 10);
        close(&found, &[(1, 1.0 / (1.0 / 3.0 + 59.0)), (2, 1.0 / (2.0 / 3.0 + 59.0)), (3, 0.0)]);
    }

    #[test]
    fn scores_are_fused_by_their_deviations_from_the_mean() {
        // Mean 2, deviation 1: from −1 to 5. A list of one, or of equals, has no spread.
        let lists = [vec![(1, 3.0), (2, 2.0), (3, 1.0)], vec![(3, 9.0)], vec![(1, 4.0), (4, 4.0)], vec![]];
        let wanted = [(1, 4.0 / 6.0 + 0.5), (3, 2.0 / 6.0 + 0.5), (2, 0.5), (4, 0.5)];
        close(&Fusion::Dbsf.fuse(&lists, 10), &wanted);
    }
}
