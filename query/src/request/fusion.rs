//! Fusion: one ranking out of several.

use std::collections::HashMap;
use std::fmt;

use crate::QueryError;

/// The constant of reciprocal rank fusion that Qdrant takes unless told otherwise.
pub const RRF_K_DEFAULT: u32 = 2;

/// A score of a list without any spread, by distributions.
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
    /// deviations from the mean of the list. Scores are taken as they are served and larger as better, as Qdrant
    /// does; so a list of distances counts the wrong way round. [`Fusion::Convex`] turns it.
    Dbsf,
    /// A convex combination `Σ weight · normalised(score)` (Bruch, Gai and Ingber 2023, "An Analysis of Fusion
    /// Functions for Hybrid Retrieval", section 4), from 0 to 1. A point that a list has not gets 0 of it, as the
    /// least that normalising gives. Distances are negated first.
    Convex {
        /// What makes scores of different kinds comparable: without it they cannot be added.
        normalization: Normalization,
        /// A weight from 0 for each prefetch, of which they are divided by the sum; none is the same for all.
        weights: Option<Vec<f32>>,
    },
}

/// How the scores of a list are brought into [0, 1], so that neither their unit nor their zero matters.
///
/// The theoretical minimum of Bruch et al. in the place of the list's own is not offered: a corrected score has no
/// least value that is known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Normalization {
    /// `(score − min)/(max − min)` over the list. Where all are equal, each is 1.
    #[default]
    MinMax,
    /// `(score − mean + 3σ)/6σ`, cut to [0, 1], with σ the sample's standard deviation. Where all are equal, each
    /// is ½.
    Distribution,
}

/// A ranking that is fused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct List {
    /// Rows with the scores that they are served with, best first.
    pub(crate) scores: Vec<(u32, f32)>,
    /// Whether smaller scores are better.
    pub(crate) is_distance: bool,
}

/// What an entry of a list adds to the score of its row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// What became of its score; `None` if only its place counts.
    pub(crate) normalized: Option<f64>,
    pub(crate) contribution: f64,
}

impl Fusion {
    /// Whether it can be of so many prefetches.
    pub(crate) fn check(&self, prefetches: usize) -> Result<(), QueryError> {
        let malformed = |reason| Err(QueryError::Malformed { reason });
        if prefetches == 0 {
            return malformed("a fusion needs prefetches to fuse");
        }
        if matches!(self, Fusion::Rrf { k: 0, .. }) {
            return malformed("the k of a reciprocal rank fusion is 0, wanted 1 or more");
        }
        match self {
            Fusion::Rrf { weights: Some(weights), .. } | Fusion::Convex { weights: Some(weights), .. }
                if weights.len() != prefetches =>
            {
                malformed("a fusion has a weight for each prefetch, or none")
            }
            Fusion::Convex { weights: Some(weights), .. } if !are_convex(weights) => {
                malformed("the weights of a convex combination are numbers from 0, one of them above 0")
            }
            Fusion::Rrf { .. } | Fusion::Dbsf | Fusion::Convex { .. } => Ok(()),
        }
    }

    /// The best `limit` rows with their fused scores, best first; of equal ones the one met first.
    pub(crate) fn fuse(&self, lists: &[List], limit: usize) -> Vec<(u32, f64)> {
        let mut fused: Vec<(u32, f64)> = Vec::new();
        let mut place_of: HashMap<u32, usize> = HashMap::new();
        for (number, list) in lists.iter().enumerate() {
            let weight = self.weight(number, lists.len());
            for (&(row, _), share) in list.scores.iter().zip(self.shares(weight, list)) {
                let place = *place_of.entry(row).or_insert(fused.len());
                match fused.get_mut(place) {
                    Some((_, score)) => *score += share.contribution,
                    None => fused.push((row, share.contribution)),
                }
            }
        }
        fused.sort_by(|left, right| right.1.total_cmp(&left.1));
        fused.truncate(limit);
        fused
    }

    /// The weight of one of several lists: those of a convex combination have the sum 1.
    #[expect(clippy::cast_precision_loss, reason = "lists are few")]
    pub(crate) fn weight(&self, number: usize, lists: usize) -> f64 {
        let given = |weights: &[f32]| weights.get(number).map_or(0.0, |&weight| f64::from(weight));
        match self {
            Fusion::Rrf { weights: None, .. } | Fusion::Dbsf => 1.0,
            Fusion::Rrf { weights: Some(weights), .. } => given(weights),
            Fusion::Convex { weights: None, .. } => 1.0 / lists as f64,
            Fusion::Convex { weights: Some(weights), .. } => given(weights) / total(weights),
        }
    }

    /// What each entry of a list adds to its row's score.
    pub(crate) fn shares(&self, weight: f64, list: &List) -> Vec<Share> {
        match self {
            Fusion::Rrf { k, .. } => {
                let share = |rank| Share { normalized: None, contribution: reciprocal(rank, weight, *k) };
                (1..=list.scores.len()).map(share).collect()
            }
            Fusion::Dbsf => weighted(weight, distribution(&list.served())),
            Fusion::Convex { normalization, .. } => weighted(weight, normalization.of(&list.upward())),
        }
    }
}

impl fmt::Display for Fusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fusion::Rrf { k, .. } => write!(f, "rrf(k={k})"),
            Fusion::Dbsf => write!(f, "dbsf"),
            Fusion::Convex { normalization, .. } => write!(f, "convex({})", normalization.name()),
        }
    }
}

impl Normalization {
    /// Its name, as users give it.
    pub fn name(self) -> &'static str {
        match self {
            Normalization::MinMax => "minmax",
            Normalization::Distribution => "distribution",
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Normalization> {
        [Normalization::MinMax, Normalization::Distribution].into_iter().find(|it| it.name() == name)
    }

    fn of(self, scores: &[f64]) -> Vec<f64> {
        match self {
            Normalization::MinMax => min_max(scores),
            Normalization::Distribution => {
                distribution(scores).into_iter().map(|score| score.clamp(0.0, 1.0)).collect()
            }
        }
    }
}

impl List {
    fn served(&self) -> Vec<f64> {
        self.scores.iter().map(|&(_, score)| f64::from(score)).collect()
    }

    /// The scores such that larger is better.
    fn upward(&self) -> Vec<f64> {
        let sign = if self.is_distance { -1.0 } else { 1.0 };
        self.served().into_iter().map(|score| sign * score).collect()
    }
}

fn are_convex(weights: &[f32]) -> bool {
    weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0) && total(weights) > 0.0
}

fn total(weights: &[f32]) -> f64 {
    weights.iter().copied().map(f64::from).sum()
}

fn weighted(weight: f64, normalized: Vec<f64>) -> Vec<Share> {
    let share = |score| Share { normalized: Some(score), contribution: weight * score };
    normalized.into_iter().map(share).collect()
}

#[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^52")]
fn reciprocal(rank: usize, weight: f64, k: u32) -> f64 {
    if weight <= 0.0 {
        return 0.0;
    }
    1.0 / (rank as f64 / weight + f64::from(k) - 1.0)
}

/// Where each score lies between the least and the largest.
fn min_max(scores: &[f64]) -> Vec<f64> {
    let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let spread = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    let place = |score: &f64| if spread > 0.0 { (score - least) / spread } else { 1.0 };
    scores.iter().map(place).collect()
}

/// Where each score lies between three deviations below the mean and three above.
#[expect(clippy::cast_precision_loss, reason = "lists are far shorter than 2^52")]
fn distribution(scores: &[f64]) -> Vec<f64> {
    let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
    let squares: f64 = scores.iter().map(|score| (score - mean) * (score - mean)).sum();
    let deviation = (squares / scores.len().saturating_sub(1).max(1) as f64).sqrt();
    if deviation == 0.0 {
        return vec![MIDDLE; scores.len()];
    }
    scores.iter().map(|score| (score - (mean - 3.0 * deviation)) / (6.0 * deviation)).collect()
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "lists are short")]
#[expect(clippy::float_cmp, reason = "equal scores are the same number")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn scored(scores: &[(u32, f32)]) -> List {
        List { scores: scores.to_vec(), is_distance: false }
    }

    fn list(rows: &[u32]) -> List {
        scored(&rows.iter().map(|&row| (row, 0.0)).collect::<Vec<_>>())
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
        let lists = [
            scored(&[(1, 3.0), (2, 2.0), (3, 1.0)]),
            scored(&[(3, 9.0)]),
            scored(&[(1, 4.0), (4, 4.0)]),
            scored(&[]),
        ];
        let wanted = [(1, 4.0 / 6.0 + 0.5), (3, 2.0 / 6.0 + 0.5), (2, 0.5), (4, 0.5)];
        close(&Fusion::Dbsf.fuse(&lists, 10), &wanted);
    }

    fn convex(normalization: Normalization, weights: Option<Vec<f32>>) -> Fusion {
        Fusion::Convex { normalization, weights }
    }

    #[test]
    fn a_convex_combination_weighs_normalised_scores_and_what_is_missing_counts_as_the_least() {
        let lists = [scored(&[(1, 9.0), (2, 6.0), (3, 5.0)]), scored(&[(4, 0.2), (2, 0.1)])];
        let even = convex(Normalization::MinMax, None);
        close(&even.fuse(&lists, 10), &[(1, 0.5), (4, 0.5), (2, 0.125), (3, 0.0)]);
        let weighted = convex(Normalization::MinMax, Some(vec![3.0, 1.0]));
        close(&weighted.fuse(&lists, 10), &[(1, 0.75), (4, 0.25), (2, 0.1875), (3, 0.0)]);
        // Without any spread a list says of all its points that they are its best, or in the middle.
        let flat = [scored(&[(1, 2.0), (2, 2.0)]), scored(&[(3, 7.0)]), scored(&[])];
        close(&even.fuse(&flat, 10), &[(1, 1.0 / 3.0), (2, 1.0 / 3.0), (3, 1.0 / 3.0)]);
        let middle = convex(Normalization::Distribution, None);
        close(&middle.fuse(&flat, 10), &[(1, 1.0 / 6.0), (2, 1.0 / 6.0), (3, 1.0 / 6.0)]);
        // Beyond three deviations there is no more to be had: 30 of 31 are equal.
        let outlier: Vec<(u32, f32)> = (0..31).map(|row| (row, if row == 0 { 100.0 } else { 1.0 })).collect();
        assert_eq!(middle.fuse(&[scored(&outlier)], 1), [(0, 1.0)]);
    }

    #[test]
    fn distances_are_turned_for_a_convex_combination_and_taken_as_they_are_by_distributions_as_qdrant_does() {
        let near_first = List { scores: vec![(1, 1.0), (2, 2.0), (3, 3.0)], is_distance: true };
        for normalization in [Normalization::MinMax, Normalization::Distribution] {
            let fused = convex(normalization, None).fuse(std::slice::from_ref(&near_first), 3);
            assert_eq!(fused.iter().map(|&(row, _)| row).collect::<Vec<_>>(), [1, 2, 3]);
        }
        let fused = Fusion::Dbsf.fuse(&[near_first], 3);
        assert_eq!(fused.iter().map(|&(row, _)| row).collect::<Vec<_>>(), [3, 2, 1]);
    }

    #[test]
    fn weights_that_are_no_weights_are_refused() {
        let refused = |fusion: Fusion| matches!(fusion.check(2), Err(QueryError::Malformed { .. }));
        for weights in
            [vec![1.0], vec![0.0, 0.0], vec![-1.0, 2.0], vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0]]
        {
            assert!(refused(convex(Normalization::MinMax, Some(weights.clone()))), "{weights:?}");
        }
        assert!(!refused(convex(Normalization::MinMax, Some(vec![0.0, 2.0]))));
    }

    /// The words of every fusion, one point after the other, in 64 bits.
    fn by_the_words(fusion: &Fusion, lists: &[List]) -> BTreeMap<u32, f64> {
        let rows = lists.iter().flat_map(|list| list.scores.iter().map(|&(row, _)| row));
        let mut wanted: BTreeMap<u32, f64> = rows.map(|row| (row, 0.0)).collect();
        for (row, score) in &mut wanted {
            for (number, list) in lists.iter().enumerate() {
                let Some(place) = list.scores.iter().position(|entry| entry.0 == *row) else { continue };
                let sign =
                    if list.is_distance && matches!(fusion, Fusion::Convex { .. }) { -1.0 } else { 1.0 };
                let all: Vec<f64> = list.scores.iter().map(|entry| sign * f64::from(entry.1)).collect();
                let own = all[place];
                *score += match fusion {
                    Fusion::Rrf { k, .. } => 1.0 / (place as f64 + f64::from(*k)),
                    Fusion::Dbsf => three_deviations(&all, own),
                    Fusion::Convex { normalization, weights } => {
                        let weight = weights.as_ref().map_or(1.0 / lists.len() as f64, |weights| {
                            f64::from(weights[number]) / weights.iter().map(|&it| f64::from(it)).sum::<f64>()
                        });
                        weight
                            * match normalization {
                                Normalization::MinMax => least_to_largest(&all, own),
                                Normalization::Distribution => three_deviations(&all, own).clamp(0.0, 1.0),
                            }
                    }
                };
            }
        }
        wanted
    }

    fn least_to_largest(all: &[f64], own: f64) -> f64 {
        let mut sorted = all.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, largest) = (sorted[0], sorted[sorted.len() - 1]);
        if least == largest { 1.0 } else { (own - least) / (largest - least) }
    }

    fn three_deviations(all: &[f64], own: f64) -> f64 {
        if all.iter().all(|&score| score == all[0]) {
            return 0.5;
        }
        let count = all.len() as f64;
        let (sum, squares) = all.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let deviation = ((squares - sum * sum / count) / (count - 1.0)).sqrt();
        0.5 + (own - sum / count) / (6.0 * deviation)
    }

    fn config() -> ProptestConfig {
        ProptestConfig {
            rng_seed: RngSeed::Fixed(17),
            failure_persistence: None,
            ..ProptestConfig::with_cases(256)
        }
    }

    /// Lists of some of 12 rows in any order of their scores, which are quarters and often equal.
    fn lists() -> impl Strategy<Value = Vec<List>> {
        let list = (vec(proptest::option::weighted(0.7, -40_i16..40), 12), any::<bool>());
        let list = list.prop_map(|(scores, is_distance)| {
            let present = (0..).zip(scores).filter_map(|(row, score)| Some((row, f32::from(score?) / 4.0)));
            let mut scores: Vec<(u32, f32)> = present.collect();
            let sign = if is_distance { 1.0 } else { -1.0 };
            scores.sort_by(|left, right| (sign * left.1).total_cmp(&(sign * right.1)));
            List { scores, is_distance }
        });
        vec(list, 1..4)
    }

    fn fusions(lists: usize) -> Vec<Fusion> {
        let weights = [0.5, 2.0, 0.25, 1.0][..lists].to_vec();
        let convex =
            |normalization| [convex(normalization, None), convex(normalization, Some(weights.clone()))];
        let mut fusions =
            vec![Fusion::Rrf { k: 2, weights: None }, Fusion::Rrf { k: 60, weights: None }, Fusion::Dbsf];
        fusions.extend(convex(Normalization::MinMax));
        fusions.extend(convex(Normalization::Distribution));
        fusions
    }

    fn scores_of(fusion: &Fusion, lists: &[List]) -> BTreeMap<u32, f64> {
        fusion.fuse(lists, usize::MAX).into_iter().collect()
    }

    fn differ(left: &BTreeMap<u32, f64>, right: &BTreeMap<u32, f64>) -> bool {
        left.len() != right.len()
            || left
                .iter()
                .zip(right)
                .any(|(left, right)| left.0 != right.0 || (left.1 - right.1).abs() > 1e-9)
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn every_fusion_is_what_its_words_say(lists in lists()) {
            for fusion in fusions(lists.len()) {
                let found = fusion.fuse(&lists, usize::MAX);
                prop_assert!(found.is_sorted_by(|left, right| left.1 >= right.1));
                let (found, wanted) = (found.into_iter().collect(), by_the_words(&fusion, &lists));
                prop_assert!(!differ(&found, &wanted), "{fusion:?}: {found:?}, wanted {wanted:?}");
            }
        }

        #[test]
        fn the_order_of_the_sources_changes_no_score(lists in lists()) {
            for fusion in fusions(lists.len()) {
                let mut turned = fusion.clone();
                if let Fusion::Rrf { weights: Some(weights), .. } | Fusion::Convex { weights: Some(weights), .. } =
                    &mut turned
                {
                    weights.reverse();
                }
                let reversed: Vec<List> = lists.iter().rev().cloned().collect();
                prop_assert!(!differ(&scores_of(&fusion, &lists), &scores_of(&turned, &reversed)), "{fusion:?}");
            }
        }

        #[test]
        fn neither_the_unit_nor_the_zero_of_a_source_changes_a_score(
            lists in lists(), factor in 1_u8..20, shift in -50_i8..50,
        ) {
            for fusion in fusions(lists.len()) {
                let mut moved = lists.clone();
                // Exact in 32 bits, so that no two scores come to be equal.
                let unit = f32::from(factor) / 4.0;
                moved[0].scores.iter_mut().for_each(|entry| entry.1 = unit * entry.1 + f32::from(shift));
                prop_assert!(!differ(&scores_of(&fusion, &lists), &scores_of(&fusion, &moved)), "{fusion:?}");
            }
        }

        #[test]
        fn a_point_that_gets_better_in_a_list_gets_no_lower_a_score(
            lists in lists(), pick in any::<prop::sample::Index>(), by in 1_u8..40,
        ) {
            prop_assume!(!lists[0].scores.is_empty());
            let place = pick.index(lists[0].scores.len());
            let row = lists[0].scores[place].0;
            let mut better = lists.clone();
            let sign = if better[0].is_distance { -1.0 } else { 1.0 };
            better[0].scores[place].1 += sign * f32::from(by) / 4.0;
            better[0].scores.sort_by(|left, right| (sign * right.1).total_cmp(&(sign * left.1)));
            for fusion in fusions(lists.len()) {
                let is_turned = fusion == Fusion::Dbsf && lists[0].is_distance;
                let (before, after) = (scores_of(&fusion, &lists)[&row], scores_of(&fusion, &better)[&row]);
                prop_assert!(is_turned || after >= before - 1e-9, "{fusion:?}: {before} {after}");
            }
        }

        #[test]
        fn a_source_of_weight_0_is_as_good_as_none(lists in lists(), last in lists()) {
            let mut more = lists.clone();
            more.push(last[0].clone());
            let weights = |extra: Option<f32>| Some(lists.iter().map(|_| 1.0).chain(extra).collect::<Vec<f32>>());
            let both = |extra| {
                [
                    Fusion::Rrf { k: 2, weights: weights(extra) },
                    convex(Normalization::MinMax, weights(extra)),
                    convex(Normalization::Distribution, weights(extra)),
                ]
            };
            for (fusion, without) in both(Some(0.0)).iter().zip(both(None)) {
                let found = scores_of(fusion, &more);
                let mut wanted = scores_of(&without, &lists);
                last[0].scores.iter().for_each(|&(row, _)| _ = wanted.entry(row).or_insert(0.0));
                prop_assert!(!differ(&found, &wanted), "{fusion:?}");
            }
        }
    }
}
