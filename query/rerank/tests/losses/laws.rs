//! What holds of losses whatever the numbers.

use dehub_rerank::{InfoNce, Label, Loss, MannWhitney, PickSomeLabel, SCORE_MAX, Weighting, auc};
use proptest::prelude::*;

use crate::{Case, any_loss, cases, cases_of, config, losses};

#[track_caller]
fn close(found: f64, wanted: f64) -> Result<(), TestCaseError> {
    prop_assert!((found - wanted).abs() <= 1e-11 * (1.0 + wanted.abs()), "wanted {wanted}, found {found}");
    Ok(())
}

fn gradients_are_close(found: &[f64], wanted: &[f64]) -> Result<(), TestCaseError> {
    found.iter().zip(wanted).try_for_each(|(&found, &wanted)| close(found, wanted))
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn the_area_over_the_curve_is_bounded_by_the_loss(case in cases(), temperature in 0.001..10.0f64) {
        let loss = Loss::MannWhitney(MannWhitney { temperature, ..MannWhitney::default() });
        if let Ok(found) = loss.evaluate(&case.batch()) {
            let over = 1.0 - auc(&case.batch()).unwrap();
            prop_assert!(over <= found.value / std::f64::consts::LN_2 + 1e-12);
        }
    }

    #[test]
    fn the_area_is_the_share_of_ordered_pairs(case in cases()) {
        let of = |wanted| {
            let cells = case.scores.iter().zip(&case.labels);
            cells.filter(|cell| *cell.1 == wanted).map(|cell| *cell.0).collect::<Vec<f64>>()
        };
        let (positives, negatives) = (of(Label::Positive), of(Label::Negative));
        let pairs = positives.iter().flat_map(|p| negatives.iter().map(move |n| p - n));
        let won: f64 = pairs.map(|gap| if gap > 0.0 { 1.0 } else if gap == 0.0 { 0.5 } else { 0.0 }).sum();
        match auc(&case.batch()) {
            Ok(area) => close(area, won / (positives.len() * negatives.len()) as f64)?,
            Err(_) => prop_assert!(positives.is_empty() || negatives.is_empty()),
        }
    }

    #[test]
    fn a_constant_added_to_a_row_changes_the_losses_within_rows_by_nothing(
        loss in any_loss(), case in cases(), shift in -3.0..3.0f64,
    ) {
        let across_rows = matches!(
            loss,
            Loss::MannWhitney(_)
                | Loss::Mixed(_)
                | Loss::InfoNce(InfoNce { both_ways: true, .. })
                | Loss::InfoNce(InfoNce { adaptive: Some(_), .. })
        );
        let mut moved = case.clone();
        moved.scores[..case.columns].iter_mut().for_each(|score| *score += shift);
        if !across_rows && let Ok(wanted) = loss.evaluate(&case.batch()) {
            close(loss.evaluate(&moved.batch()).unwrap().value, wanted.value)?;
        }
    }

    #[test]
    fn a_constant_added_to_all_scores_changes_nothing_and_gradients_sum_up_to_nothing(
        loss in any_loss(), case in cases(), shift in -3.0..3.0f64,
    ) {
        let mut moved = case.clone();
        moved.scores.iter_mut().for_each(|score| *score += shift);
        let is_adaptive = matches!(loss, Loss::InfoNce(InfoNce { adaptive: Some(_), .. }));
        if let (Ok(found), Ok(wanted)) = (loss.evaluate(&moved.batch()), loss.evaluate(&case.batch())) {
            close(wanted.gradient.iter().sum(), 0.0)?;
            if !is_adaptive {
                close(found.value, wanted.value)?;
            }
        }
    }

    #[test]
    fn rows_and_columns_in_another_order_give_the_same_in_that_order(
        loss in any_loss(), case in cases_of(4, 5), seed in any::<u64>(),
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut rows, mut columns): (Vec<usize>, Vec<usize>) = ((0..4).collect(), (0..5).collect());
        random.shuffle(&mut rows);
        random.shuffle(&mut columns);
        let from: Vec<usize> = rows.iter().flat_map(|row| columns.iter().map(move |at| row * 5 + at)).collect();
        // Of equal scores the first counts as the harder one, so ties are taken apart.
        let mut case = case;
        case.scores.iter_mut().zip(1..).for_each(|(score, at)| *score += f64::from(at) * 1e-3);
        let reordered = case.reordered(&from);
        match (loss.evaluate(&reordered.batch()), loss.evaluate(&case.batch())) {
            (Ok(found), Ok(wanted)) => {
                close(found.value, wanted.value)?;
                let wanted: Vec<f64> = from.iter().map(|&at| wanted.gradient[at]).collect();
                gradients_are_close(&found.gradient, &wanted)?;
            }
            (found, wanted) => prop_assert_eq!(found.is_err(), wanted.is_err()),
        }
    }

    #[test]
    fn scores_of_any_size_give_finite_values(
        loss in any_sharp_loss(), mut case in cases(), power in -20..=60i32,
    ) {
        // The least are below all temperatures, and the largest are the limit.
        let factor = 10f64.powi(power);
        case.scores.iter_mut().for_each(|score| *score = (*score * factor).clamp(-SCORE_MAX, SCORE_MAX));
        if let Ok(found) = loss.evaluate(&case.batch()) {
            prop_assert!(found.value.is_finite(), "{loss}: {}", found.value);
            prop_assert!(found.gradient.iter().all(|slope| slope.is_finite()), "{loss}: {:?}", found.gradient);
        }
    }
}

/// Any loss, and those with a temperature at the least that it may be.
fn any_sharp_loss() -> impl Strategy<Value = Loss> {
    let sharpest = [
        "mw:temperature=1e-6",
        "infonce:temperature=1e-6,both_ways=true",
        "decoupled:temperature=1e-6",
        "soft_topk:k=1,alpha=1e6",
        "partial_ranking:temperature=1e-6",
        "psl:temperature=1e-6,outer_temperature=1e-6",
        "psl:temperature=1e-6,outer_temperature=1e-6,activation=relu",
        "psl:temperature=1e-6,outer_temperature=1e-6,activation=atan",
        "psl:temperature=1e-6,outer_temperature=1e-6,activation=linear",
        "sl_at_k:temperature=1e-6,weight_temperature=1e-6",
        "soft_infonce:temperature=1e-6,weight_temperature=1e-6,beta=2",
        "pick_some_label:temperature=1e-6",
        "pairwise:temperature=1e-6",
        "1e6*pairwise:temperature=1e-6,surrogate=hinge,margin=1e6 + 1e6*mw:temperature=1e-6",
    ];
    let sharpest: Vec<Loss> = sharpest.iter().map(|text| text.parse().expect("a loss")).collect();
    prop_oneof![any_loss(), prop::sample::select(sharpest)]
}

#[test]
fn a_thousand_on_either_side_is_finite_for_every_loss() {
    let mut teacher = vec![f64::NEG_INFINITY; 10];
    teacher[..5].copy_from_slice(&[5.0, 4.0, 3.0, 2.0, 1.0]);
    for scale in [1000.0, -1000.0, 1e6, -1e6] {
        let mut case = Case::read("p1 p0 n0 n-1 n1 | n1 p0 n-1 n0 p-1").with_teacher(&teacher);
        case.scores.iter_mut().for_each(|score| *score *= scale);
        for loss in losses() {
            let found = loss.evaluate(&case.batch()).unwrap_or_else(|error| panic!("{loss}: {error}"));
            assert!(found.value.is_finite(), "{loss} at {scale}: {}", found.value);
            assert!(found.gradient.iter().all(|slope| slope.is_finite()), "{loss} at {scale}");
        }
    }
}

/// Far beyond the exponents that 64 bits hold, differences are all there is: the closed forms are exact.
#[test]
fn a_border_between_scores_far_apart_lies_halfway() {
    let loss: Loss = "soft_topk:k=1,alpha=2".parse().unwrap();
    let found = loss.evaluate(&Case::read("p-1000 n1000 n-3000").batch()).unwrap();
    // Halfway between the first and the second, t = 0: −ln σ(2 · −1000) = 2000, and both slopes are half of 2.
    assert!((found.value - 2000.0).abs() < 1e-9, "{}", found.value);
    for (slope, wanted) in found.gradient.iter().zip([-1.0, 1.0, 0.0]) {
        assert!((slope - wanted).abs() < 1e-9, "{:?}", found.gradient);
    }
}

#[test]
fn a_mixture_is_the_weighted_sum_of_its_parts() {
    let case = Case::read("p.80 n.30 n.55 | n.20 p.60 n.65");
    let of = |text: &str| text.parse::<Loss>().unwrap().evaluate(&case.batch()).unwrap();
    let (mw, info_nce) = (of("mw"), of("infonce:both_ways=true"));
    let mixed = of("0.5*mw + 2*infonce:both_ways=true");
    assert_eq!(mixed.value, 0.5 * mw.value + 2.0 * info_nce.value);
    for (at, slope) in mixed.gradient.iter().enumerate() {
        assert_eq!(*slope, 0.5 * mw.gradient[at] + 2.0 * info_nce.gradient[at]);
    }
}

#[test]
fn only_the_hardest_negatives_of_each_row_count() {
    let case = Case::read("p.80 n.30 n.55 n.55 | n.20 p.60 n.65 n.10");
    let loss = |hardest| MannWhitney { hardest, ..MannWhitney::default() };
    let found = Loss::MannWhitney(loss(Some(1))).evaluate(&case.batch()).unwrap();
    let alone = Case::read("p.80 i.30 n.55 i.55 | i.20 p.60 n.65 i.10");
    assert_eq!(found, Loss::MannWhitney(loss(None)).evaluate(&alone.batch()).unwrap());
}

#[test]
fn queries_count_alike_however_many_negatives_they_have() {
    let few = Case::read("p.80 n.30 i0 i0 i0 | n.50 p.60 i0 i0 i0");
    let many = Case::read("p.80 n.30 n.30 n.30 n.30 | n.50 p.60 i0 i0 i0");
    let loss = |weighting| Loss::MannWhitney(MannWhitney { weighting, ..MannWhitney::default() });
    let of = |weighting, case: &Case| loss(weighting).evaluate(&case.batch()).unwrap().value;
    assert!((of(Weighting::Queries, &few) - of(Weighting::Queries, &many)).abs() < 1e-15);
    assert!((of(Weighting::Pairs, &few) - of(Weighting::Pairs, &many)).abs() > 1e-3);
}

#[test]
fn an_adaptive_margin_gives_the_median_positive_its_probability() {
    let case = Case::read("p.80 n.30 n.55 | n.20 p.60 n.59 | n.20 n.10 p.30");
    let found = Loss::InfoNce(InfoNce { adaptive: Some(0.1), ..InfoNce::default() });
    let found = found.evaluate(&case.batch()).unwrap();
    // The median positive is that of the second row. Its slope is −(1 − probability) / τ, over three rows.
    let scale = (9_999_999.0f64 * 0.9 / 0.1).ln() / (1.0 - 0.6);
    assert!((found.gradient[4] + 0.9 * scale / 3.0).abs() < 1e-9, "{:?}", found.gradient);
}

#[test]
fn what_is_drawn_depends_on_seed_and_step_alone() {
    // The last column is nobody's positive.
    let case = Case::read("p.50 p.30 p.10 n.20 n.40 | n.10 n.20 p.60 p.30 n.15");
    let loss = |positives, seed| Loss::PickSomeLabel(PickSomeLabel { positives, seed, temperature: 0.5 });
    let value = |loss: &Loss, case: &Case| loss.evaluate(&case.batch()).unwrap().value;
    let first = loss(1, 1);
    assert_eq!(first.at_step(0), first);
    assert_eq!(value(&first.at_step(3), &case), value(&first.at_step(3), &case));
    let mut found: Vec<f64> = (0..200).map(|step| value(&first.at_step(step), &case)).collect();
    // One column of the first row's three, one of the second row's two.
    let pools = [[0, 2], [0, 3], [1, 2], [1, 3], [2, 2], [2, 3]];
    let mut wanted = pools.map(|pool| {
        let mut masked = case.clone();
        let others = (0..10).filter(|place| place % 5 < 4 && !pool.contains(&(place % 5)));
        others.for_each(|place| masked.labels[place] = Label::Ignored);
        value(&loss(9, 0), &masked)
    });
    found.sort_by(f64::total_cmp);
    found.dedup();
    wanted.sort_by(f64::total_cmp);
    assert_eq!(found, wanted);
}

#[test]
fn a_row_with_candidates_of_its_own_draws_for_itself() {
    let case = Case { shared: false, ..Case::read("p.50 p.30 n.40 | n.10 n.20 p.60") };
    let loss = Loss::PickSomeLabel(PickSomeLabel { positives: 1, seed: 0, temperature: 0.5 });
    let found = loss.evaluate(&case.batch()).unwrap();
    let drawn = found.gradient.iter().take(2).filter(|slope| **slope < 0.0).count();
    let left_out = found.gradient.iter().take(2).filter(|slope| **slope == 0.0).count();
    assert_eq!((drawn, left_out), (1, 1), "{:?}", found.gradient);
    assert!(found.gradient[3] > 0.0 && found.gradient[4] > 0.0 && found.gradient[5] < 0.0);
}

/// So many pairs are summed by ranges of scores, of whatever distance.
#[test]
fn a_large_batch_has_the_value_and_the_gradient_of_its_pairs() {
    let mut random = fastrand::Rng::with_seed(5);
    let (rows, columns) = (60, 80);
    let mut case = Case {
        scores: (0..rows * columns).map(|_| random.f64() * 2.0 - 1.0).collect(),
        columns,
        labels: vec![Label::Negative; rows * columns],
        teacher: vec![f64::NEG_INFINITY; rows * columns],
        similarities: None,
        shared: true,
    };
    for row in 0..rows {
        case.labels[row * columns + row] = Label::Positive;
        case.labels[row * columns + row + 1] = Label::Ignored;
    }
    for temperature in [0.001, 0.05, 2.0] {
        let loss = Loss::MannWhitney(MannWhitney { temperature, ..MannWhitney::default() });
        let found = loss.evaluate(&case.batch()).unwrap();
        let cells = || case.scores.iter().zip(&case.labels).enumerate();
        let of = |label| cells().filter(move |(_, cell)| *cell.1 == label).map(|(at, cell)| (at, *cell.0));
        let (mut value, mut gradient) = (0.0, vec![0.0; rows * columns]);
        let pairs = (of(Label::Positive).count() * of(Label::Negative).count()) as f64;
        for (positive, high) in of(Label::Positive) {
            for (negative, low) in of(Label::Negative) {
                let z = (low - high) / temperature;
                value += (z.max(0.0) + (-z.abs()).exp().ln_1p()) / pairs;
                let slope = 1.0 / (1.0 + (-z).exp()) / temperature / pairs;
                gradient[positive] -= slope;
                gradient[negative] += slope;
            }
        }
        assert!((found.value - value).abs() <= 1e-9 * value, "{} {value}", found.value);
        for (found, wanted) in found.gradient.iter().zip(&gradient) {
            assert!((found - wanted).abs() <= 1e-8 * wanted.abs(), "{found} {wanted}");
        }
    }
}
