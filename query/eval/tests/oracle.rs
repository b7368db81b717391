//! The measures against a brute-force oracle that sees the full ranking, and their laws.

use dehub_eval::{Measure, Ranks, evaluate, per_query};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A full ranking: the gain of the document at each rank, 0 for an irrelevant one, and the
/// gains of the relevant documents that the gallery lacks.
#[derive(Debug, Clone)]
struct Ranking {
    gains: Vec<u32>,
    missing: Vec<u32>,
}

impl Ranking {
    fn ranks(&self) -> Ranks {
        let gallery = self.gains.len() as u32;
        let found = (1..).zip(self.gains.iter().copied()).filter(|&(_, gain)| gain > 0).collect();
        Ranks::new(found, gallery).and_then(|ranks| ranks.with_missing(self.missing.clone())).expect("valid")
    }

    /// The measure from its definition, walking the whole ranking.
    fn value(&self, measure: Measure) -> Option<f64> {
        let best =
            self.gains.iter().position(|&gain| gain > 0).map_or(self.gains.len() + 1, |index| index + 1);
        let within = |k: u32| best <= k as usize && best <= self.gains.len();
        match measure {
            Measure::Recall(k) => Some(f64::from(u8::from(within(k.get())))),
            Measure::MedianRank | Measure::MeanRank => Some(best as f64),
            Measure::ReciprocalRank(k) if within(k.get()) => Some(1.0 / best as f64),
            Measure::ReciprocalRank(_) => Some(0.0),
            Measure::Ndcg(k) => Some(self.ndcg(k.get() as usize)),
            Measure::Auc => self.auc(),
        }
    }

    fn ndcg(&self, k: usize) -> f64 {
        let mut ideal = [self.gains.clone(), self.missing.clone()].concat();
        ideal.sort_by_key(|&gain| std::cmp::Reverse(gain));
        let sum = |gains: &[u32]| -> f64 {
            let term = |(index, &gain): (usize, &u32)| f64::from(gain) / (index as f64 + 2.0).log2();
            gains.iter().take(k).enumerate().map(term).sum()
        };
        if sum(&ideal) == 0.0 { 0.0 } else { sum(&self.gains) / sum(&ideal) }
    }

    /// Counts the pairs one by one; missing documents stand after everything.
    fn auc(&self) -> Option<f64> {
        let all = [self.gains.clone(), self.missing.clone()].concat();
        let irrelevant: Vec<usize> = (0..self.gains.len()).filter(|&index| all[index] == 0).collect();
        let relevant: Vec<usize> = (0..all.len()).filter(|&index| all[index] > 0).collect();
        let mut ordered = 0;
        for &good in &relevant {
            ordered += irrelevant.iter().filter(|&&bad| good < bad).count();
        }
        match (relevant.len(), irrelevant.len()) {
            (_, 0) => None,
            (0, _) => Some(0.0),
            (goods, bads) => Some(ordered as f64 / (goods * bads) as f64),
        }
    }
}

/// Mostly irrelevant galleries, so that all shares of relevant documents occur, and 0 and all.
fn ranking() -> impl Strategy<Value = Ranking> {
    let sparse = vec(prop_oneof![5 => Just(0u32), 2 => 1u32..=4], 1..40);
    let dense = vec(1u32..=3, 1..6);
    let gains = prop_oneof![8 => sparse, 1 => dense];
    (gains, vec(1u32..=4, 0..3)).prop_map(|(gains, missing)| Ranking { gains, missing })
}

fn measures() -> Vec<Measure> {
    let names = "R@1 R@3 R@50 MdR MnR MRR@1 MRR@4 MRR@50 nDCG@1 nDCG@3 nDCG@10 nDCG@50 AUC";
    names.split(' ').map(|name| name.parse().expect("a measure")).collect()
}

fn is_rank(measure: Measure) -> bool {
    matches!(measure, Measure::MedianRank | Measure::MeanRank)
}

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(20_240_229),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ranks_alone_give_what_the_full_ranking_gives(ranking in ranking()) {
        for measure in measures() {
            match (per_query(&ranking.ranks(), measure), ranking.value(measure)) {
                (Some(found), Some(wanted)) => {
                    prop_assert!((found - wanted).abs() < 1e-12, "{measure}: wanted {wanted}, found {found}");
                }
                (found, wanted) => prop_assert_eq!(found, wanted, "{}", measure),
            }
        }
    }

    #[test]
    fn values_stay_within_their_bounds(rankings in vec(ranking(), 1..12)) {
        let queries: Vec<Ranks> = rankings.iter().map(Ranking::ranks).collect();
        let largest = queries.iter().map(Ranks::gallery).max().map_or(0.0, f64::from);
        for (measure, value) in measures().into_iter().zip(evaluate(&queries, &measures())) {
            let (low, high) = if is_rank(measure) { (1.0, largest + 1.0) } else { (0.0, 1.0) };
            let all_left_out = value.is_nan() && measure == Measure::Auc;
            prop_assert!(all_left_out || (low..=high).contains(&value), "{measure} {value}");
        }
    }

    #[test]
    fn the_order_of_queries_and_of_ranks_changes_no_bit(
        (rankings, shuffled) in vec(ranking(), 1..12)
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        let bits = |rankings: &[Ranking]| -> Vec<u64> {
            let queries: Vec<Ranks> = rankings.iter().map(Ranking::ranks).collect();
            evaluate(&queries, &measures()).into_iter().map(f64::to_bits).collect()
        };
        prop_assert_eq!(bits(&rankings), bits(&shuffled));

        let ranks = rankings[0].ranks();
        let reversed = Ranks::new(ranks.found().iter().rev().copied().collect(), ranks.gallery())
            .and_then(|reversed| reversed.with_missing(rankings[0].missing.clone()));
        prop_assert_eq!(reversed, Ok(ranks));
    }

    #[test]
    fn a_perfect_ranking_is_worth_one_and_a_reversed_one_has_auc_zero(mut ranking in ranking()) {
        ranking.missing.clear();
        prop_assume!(ranking.gains.iter().any(|&gain| gain > 0));
        ranking.gains.sort_unstable();
        let reversed = per_query(&ranking.ranks(), Measure::Auc);
        prop_assert!(reversed.is_none_or(|auc| auc == 0.0), "{reversed:?}");

        ranking.gains.reverse();
        for measure in measures() {
            let value = per_query(&ranking.ranks(), measure);
            prop_assert!(value.is_none_or(|value| value == 1.0), "{measure} {value:?}");
        }
    }

    #[test]
    fn swapping_a_better_document_forward_makes_nothing_worse(
        ranking in ranking(),
        at in any::<prop::sample::Index>(),
    ) {
        let mut better = ranking.clone();
        let at = at.index(ranking.gains.len());
        if at > 0 && ranking.gains[at - 1] < ranking.gains[at] {
            better.gains.swap(at - 1, at);
        }
        for measure in measures() {
            let [before, after] = [&ranking, &better].map(|ranking| per_query(&ranking.ranks(), measure));
            let gained = after.zip(before).map(|(after, before)| after - before);
            let gained = if is_rank(measure) { gained.map(|gained| -gained) } else { gained };
            prop_assert!(gained.is_none_or(|gained| gained >= 0.0), "{measure}: {before:?} to {after:?}");
        }
    }

    #[test]
    fn a_deeper_cut_finds_no_less(ranking in ranking(), k in 1u32..45) {
        for family in ["R", "MRR"] {
            let [at, deeper] = [k, k + 1].map(|k| {
                per_query(&ranking.ranks(), format!("{family}@{k}").parse().expect("a measure"))
            });
            prop_assert!(at <= deeper);
        }
    }

    #[test]
    fn a_missing_document_is_worth_less_than_one_ranked_last(ranking in ranking(), gain in 1u32..5) {
        let [mut found, mut missing] = [ranking.clone(), ranking];
        found.gains.push(gain);
        missing.gains.push(0);
        missing.missing.push(gain);
        let compared = |measure: &Measure| !is_rank(*measure) && *measure != Measure::Auc;
        for measure in measures().into_iter().filter(compared) {
            let [found, missing] = [&found, &missing].map(|ranking| per_query(&ranking.ranks(), measure));
            prop_assert!(missing <= found, "{measure}: {missing:?} over {found:?}");
        }
    }

    #[test]
    fn any_text_is_a_measure_that_prints_as_itself_or_an_error(
        name in "(R|MRR|nDCG|MdR|AUC|x)?@?[0-9+]{0,11}",
    ) {
        if let Ok(measure) = name.parse::<Measure>() {
            prop_assert_eq!(measure.to_string(), name);
        }
    }
}
