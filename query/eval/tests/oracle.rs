//! The measures against a brute-force oracle that sees the full ranking, and their laws.

use dehub_eval::{Gain, Kind, Measure, Ranks, evaluate, per_query};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A full ranking: the grade of the document at each rank, if it is judged, and the grades of those that the gallery
/// lacks.
#[derive(Debug, Clone)]
struct Ranking {
    grades: Vec<Option<i32>>,
    missing: Vec<i32>,
}

impl Ranking {
    fn ranks(&self) -> Ranks {
        let judged = (1..).zip(self.grades.iter().copied()).filter_map(|(rank, grade)| Some((rank, grade?)));
        let (found, others): (Vec<_>, Vec<(u32, i32)>) = judged.partition(|&(_, grade)| grade > 0);
        let found = found.into_iter().map(|(rank, grade)| (rank, grade.unsigned_abs())).collect();
        let (missing, lost): (Vec<i32>, Vec<i32>) = self.missing.iter().partition(|&&grade| grade > 0);
        let missing = missing.into_iter().map(i32::unsigned_abs).collect();
        let ranks = Ranks::new(found, self.grades.len() as u32).and_then(|ranks| ranks.with_missing(missing));
        ranks.and_then(|ranks| ranks.with_not_relevant(others, lost)).expect("valid")
    }

    /// The measure from its definition, walking the whole ranking.
    fn value(&self, measure: Measure) -> Option<f64> {
        let judged = |grade: &Option<i32>| grade.is_some_and(|grade| grade >= 0);
        let whole = self.grades.clone();
        let list: Vec<Option<i32>> =
            if measure.judged_only() { whole.into_iter().filter(judged).collect() } else { whole };
        let k = measure.cutoff().map_or(usize::MAX, |k| k.get() as usize);
        let rel = measure.rel().get() as i32;
        let is_good = |grade: &Option<i32>| grade.is_some_and(|grade| grade >= rel);
        let good: Vec<bool> = list.iter().take(k).map(is_good).collect();
        let hits = |until: usize| good[..until].iter().filter(|good| **good).count() as f64;
        let places = || (0..good.len()).filter(|&place| good[place]);
        let all = self.grades.iter().flatten().chain(&self.missing).copied();
        let relevant = all.clone().filter(|&grade| grade >= rel).count() as f64;
        let shared = |sum: f64| if relevant == 0.0 { 0.0 } else { sum / relevant };
        let best =
            self.grades.iter().position(|grade| grade.is_some_and(|it| it > 0)).unwrap_or(self.grades.len());
        match measure.kind() {
            Kind::Recall => Some(shared(hits(good.len()))),
            Kind::Success => Some(if hits(good.len()) > 0.0 { 1.0 } else { 0.0 }),
            Kind::Precision => Some(hits(good.len()) / k as f64),
            Kind::Rr => Some(places().next().map_or(0.0, |place| 1.0 / (place as f64 + 1.0))),
            Kind::Ap => Some(shared(places().map(|place| hits(place + 1) / (place as f64 + 1.0)).sum())),
            Kind::Judged => {
                let within = list.len().min(k);
                let judged = list[..within].iter().filter(|grade| grade.is_some()).count();
                Some(judged as f64 / within as f64)
            }
            Kind::Rbp(p) => Some(places().map(|place| (1.0 - p) * p.powi(place as i32)).sum()),
            Kind::Err => Some(self.expected_reciprocal(k)),
            Kind::InfAp => Some(shared(places().map(|place| self.inferred(place, rel)).sum())),
            Kind::Bpref => {
                let others = all.filter(|grade| (0..rel).contains(grade)).count() as f64;
                let before =
                    |place: usize| list[..place].iter().flatten().filter(|it| (0..rel).contains(*it)).count();
                let term = |place| match before(place) as f64 {
                    0.0 => 1.0,
                    above => 1.0 - above.min(relevant) / relevant.min(others),
                };
                Some(shared(places().map(term).sum()))
            }
            Kind::MedianRank | Kind::MeanRank => Some(best as f64 + 1.0),
            Kind::Ndcg(gain) => Some(Self::ndcg(&list, all.collect(), k, gain)),
            Kind::Auc => self.auc(),
            Kind::AnnRecall => self.nearest(k),
        }
    }

    fn ndcg(list: &[Option<i32>], mut ideal: Vec<i32>, k: usize, gain: Gain) -> f64 {
        ideal.sort_by_key(|&gain| std::cmp::Reverse(gain));
        let worth = |grade: i32| match gain {
            Gain::Linear => f64::from(grade.max(0)),
            Gain::Exponential => f64::from((1 << grade.max(0)) - 1),
        };
        let sum = |grades: &[i32]| -> f64 {
            let term = |(index, &grade): (usize, &i32)| worth(grade) / (index as f64 + 2.0).log2();
            grades.iter().take(k).enumerate().map(term).sum()
        };
        let list: Vec<i32> = list.iter().map(|grade| grade.unwrap_or(0)).collect();
        if sum(&ideal) == 0.0 { 0.0 } else { sum(&list) / sum(&ideal) }
    }

    /// The mean of 1 / rank over where a reader stops, place by place.
    fn expected_reciprocal(&self, k: usize) -> f64 {
        let stops = |grade: &Option<i32>| f64::from((1 << grade.unwrap_or(0).clamp(0, 4)) - 1) / 16.0;
        let at = |place: usize| {
            let reads_on: f64 = self.grades[..place].iter().map(|grade| 1.0 - stops(grade)).product();
            reads_on * stops(&self.grades[place]) / (place as f64 + 1.0)
        };
        (0..self.grades.len().min(k)).map(at).sum()
    }

    /// The expected precision at a relevant document.
    fn inferred(&self, place: usize, rel: i32) -> f64 {
        let above: Vec<i32> = self.grades[..place].iter().flatten().copied().collect();
        let good = above.iter().filter(|&&grade| grade >= rel).count() as f64;
        let bad = above.iter().filter(|&&grade| (0..rel).contains(&grade)).count() as f64;
        let rank = place as f64 + 1.0;
        if place == 0 {
            return 1.0;
        }
        let pooled = above.len() as f64 / place as f64;
        1.0 / rank + place as f64 / rank * pooled * (good + 1e-5) / (good + bad + 2e-5)
    }

    /// Counts the pairs one by one; missing documents stand after everything.
    fn auc(&self) -> Option<f64> {
        let is_good = |grade: &Option<i32>| grade.is_some_and(|grade| grade > 0);
        let (good, bad): (Vec<usize>, Vec<usize>) =
            (0..self.grades.len()).partition(|&place| is_good(&self.grades[place]));
        let ordered = good.iter().map(|&good| bad.iter().filter(|&&bad| good < bad).count()).sum::<usize>();
        let relevant = good.len() + self.missing.iter().filter(|grade| **grade > 0).count();
        match (relevant, bad.len()) {
            (_, 0) => None,
            (0, _) => Some(0.0),
            (goods, bads) => Some(ordered as f64 / (goods * bads) as f64),
        }
    }

    /// Of the k nearest, where a grade is nearness, how many of the first k places have one.
    fn nearest(&self, k: usize) -> Option<f64> {
        let mut all: Vec<i32> =
            self.grades.iter().flatten().chain(&self.missing).copied().filter(|&grade| grade > 0).collect();
        all.sort_by_key(|&grade| std::cmp::Reverse(grade));
        let wanted = k.min(all.len());
        let least = all.get(wanted.checked_sub(1)?)?;
        let found = self.grades.iter().take(k).flatten().filter(|grade| *grade >= least).count();
        Some(found.min(wanted) as f64 / wanted as f64)
    }
}

/// Mostly irrelevant galleries, so that all shares of relevant documents occur, and 0 and all.
fn ranking() -> impl Strategy<Value = Ranking> {
    let sparse = vec(
        prop_oneof![5 => Just(None), 2 => (1i32..=4).prop_map(Some), 2 => (-2i32..=0).prop_map(Some)],
        1..40,
    );
    let dense = vec((1i32..=3).prop_map(Some), 1..6);
    let grades = prop_oneof![8 => sparse, 1 => dense];
    (grades, vec(-1i32..=4, 0..3)).prop_map(|(grades, missing)| Ranking { grades, missing })
}

const MEASURES: [&str; 42] = [
    "R@1",
    "R@3",
    "R@50",
    "R(rel=2)@5",
    "R(judged_only=True)@3",
    "Success@1",
    "Success@3",
    "Success(rel=3)@50",
    "P@1",
    "P@7",
    "P(rel=2,judged_only=True)@3",
    "MdR",
    "MnR",
    "RR",
    "RR@1",
    "RR@4",
    "RR(rel=2)@50",
    "RR(judged_only=True)",
    "AP",
    "AP@5",
    "AP(rel=2)@10",
    "AP(judged_only=True)",
    "nDCG",
    "nDCG@1",
    "nDCG@3",
    "nDCG@50",
    "nDCG(judged_only=True)@5",
    "nDCG(dcg='exp-log2')",
    "nDCG(dcg='exp-log2')@4",
    "AUC",
    "Judged",
    "Judged@4",
    "RBP",
    "RBP(p=0.5)@3",
    "RBP(rel=3)",
    "ERR",
    "ERR@3",
    "infAP",
    "infAP(rel=2)",
    "Bpref",
    "Bpref(rel=2)",
    "ann_recall@3",
];

fn measures() -> Vec<Measure> {
    MEASURES.iter().map(|name| name.parse().expect("a measure")).collect()
}

fn is_rank(measure: Measure) -> bool {
    measure.is_smaller_better()
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
            let (low, high) = if is_rank(measure) { (1.0, largest + 1.0) } else { (0.0, 1.0 + 1e-12) };
            let all_left_out = value.is_nan() && matches!(measure.kind(), Kind::Auc | Kind::AnnRecall);
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
            .and_then(|reversed| reversed.with_missing(ranks.missing_gains().to_vec()))
            .and_then(|reversed| {
                let others = ranks.not_relevant().iter().rev().copied().collect();
                reversed.with_not_relevant(others, ranks.missing_not_relevant().to_vec())
            });
        prop_assert_eq!(reversed, Ok(ranks));
    }

    #[test]
    fn a_perfect_ranking_is_worth_one_and_a_reversed_one_has_auc_zero(mut ranking in ranking()) {
        ranking.missing.clear();
        prop_assume!(ranking.grades.iter().flatten().any(|&grade| grade > 0));
        // What is not judged comes first, then the lowest grades.
        ranking.grades.sort_unstable();
        let reversed = per_query(&ranking.ranks(), "AUC".parse().expect("a measure"));
        prop_assert!(reversed.is_none_or(|auc| auc == 0.0), "{reversed:?}");

        ranking.grades.reverse();
        let perfect = ["nDCG", "nDCG@3", "nDCG(dcg='exp-log2')@4", "AP", "RR", "Success@1", "P@1", "MdR", "AUC", "Bpref"];
        for name in perfect {
            let value = per_query(&ranking.ranks(), name.parse().expect("a measure"));
            prop_assert!(value.is_none_or(|value| value == 1.0), "{name} {value:?}");
        }
    }

    #[test]
    fn swapping_a_better_document_forward_makes_nothing_worse(
        ranking in ranking(),
        at in any::<prop::sample::Index>(),
    ) {
        let mut better = ranking.clone();
        let at = at.index(ranking.grades.len());
        // Of documents that are not relevant, some count as judged and others not.
        let gain = |place: usize| ranking.grades[place].unwrap_or(0).max(0);
        if at > 0 && gain(at - 1) < gain(at) {
            better.grades.swap(at - 1, at);
        }
        // infAP takes a document of negative relevance for a sign that more above are relevant.
        let is_monotone = |measure: &Measure| !matches!(measure.kind(), Kind::Judged | Kind::InfAp);
        for measure in measures().into_iter().filter(is_monotone) {
            let [before, after] = [&ranking, &better].map(|ranking| per_query(&ranking.ranks(), measure));
            let gained = after.zip(before).map(|(after, before)| after - before);
            let gained = if is_rank(measure) { gained.map(|gained| -gained) } else { gained };
            prop_assert!(gained.is_none_or(|gained| gained >= -1e-12), "{measure}: {before:?} to {after:?}");
        }
    }

    #[test]
    fn a_deeper_cut_finds_no_less(ranking in ranking(), k in 1u32..45) {
        for family in ["R", "RR", "Success", "AP", "ERR"] {
            let [at, deeper] = [k, k + 1].map(|k| {
                per_query(&ranking.ranks(), format!("{family}@{k}").parse().expect("a measure"))
            });
            prop_assert!(at <= deeper);
        }
    }

    #[test]
    fn a_missing_document_is_worth_less_than_one_ranked_last(ranking in ranking(), gain in 1i32..5) {
        let [mut found, mut missing] = [ranking.clone(), ranking];
        found.grades.push(Some(gain));
        missing.grades.push(None);
        missing.missing.push(gain);
        let compared = |measure: &Measure| !is_rank(*measure) && measure.kind() != Kind::Auc;
        for measure in measures().into_iter().filter(compared) {
            let [found, missing] = [&found, &missing].map(|ranking| per_query(&ranking.ranks(), measure));
            prop_assert!(missing <= found, "{measure}: {missing:?} over {found:?}");
        }
    }

    #[test]
    fn any_text_is_a_measure_that_prints_as_a_name_of_it_or_an_error(
        name in "(R|RR|nDCG|MdR|AUC|RBP|infAP|x)?([(](rel|p|dcg|judged_only)?=?[0-9.a-zA-Z'-]{0,4}[)])?@?[0-9+]{0,11}",
    ) {
        if let Ok(measure) = name.parse::<Measure>() {
            prop_assert_eq!(measure.to_string().parse(), Ok(measure));
        }
    }
}
