//! Losses against published numbers, central differences and their laws.

use dehub_rerank::{Batch, Label, Loss, LossError};
use proptest::prelude::*;

const P: Label = Label::Positive;
const N: Label = Label::Negative;
const I: Label = Label::Ignored;

fn batch(scores: &[f64], columns: usize, labels: &[Label]) -> Batch {
    Batch::new(scores.to_vec(), columns, labels.to_vec(), true).expect("good")
}

fn loss(text: &str) -> Loss {
    text.parse().expect(text)
}

fn is_near(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() < 6e-7 * (1.0 + wanted.abs())
}

#[test]
fn losses_have_the_values_worked_out_by_hand() {
    let one = [2.0, 1.5, 1.0, 0.0, -1.0];
    let labels = [P, N, P, N, N];
    let two = [0.80, 0.30, 0.55, 0.20, 0.60, 0.65];
    let of_two = [P, N, N, N, P, N];
    let apart = [0.80 + 0.3, 0.30 + 0.3, 0.55 + 0.3, 0.20, 0.60, 0.65];
    let near = [0.9, 0.7, 0.5, -0.2];
    let of_near = [P, N, N, N];
    for (text, scores, columns, labels, wanted) in [
        ("mw:temperature=1", &[2.0, 1.0, 0.0, -1.0][..], 4, &of_near[..], 0.162926),
        ("mw", &two, 3, &of_two, 0.210586),
        ("infonce", &two, 3, &of_two, 0.660056),
        ("mw", &apart, 3, &of_two, 0.877543),
        ("infonce", &apart, 3, &of_two, 0.660056),
        ("mw:temperature=1", &[1000.0, 0.0, 0.0, -1000.0, 1000.0], 5, &[P, P, N, N, N], 166.897716),
        ("decoupled:temperature=1", &one, 5, &labels, 0.865578),
        ("infonce:temperature=1", &one, 5, &labels, 1.269892),
        ("soft-top-k:k=2,alpha=2,temperature=1", &one, 5, &labels, 0.534433),
        ("psl", &near, 4, &of_near, -2.125700),
        ("psl:activation=atan", &near, 4, &of_near, -2.126565),
        ("sl@k:k=1,temperature=0.1,weight_temperature=1", &near, 4, &of_near, -1.872963 * 0.5),
    ] {
        let found = loss(text).evaluate(&batch(scores, columns, labels)).expect(text).value;
        assert!(is_near(found, wanted), "{text}: {found} for {wanted}");
    }
    let logits =
        batch(&[3.0, 2.0, 1.0, 0.5], 4, &of_near).with_likeness(vec![0.0, 0.6, 0.1, 0.3]).expect("good");
    let found = loss("soft-infonce:temperature=1,beta=1.5").evaluate(&logits).expect("pairs").value;
    assert!(is_near(found, 0.448536), "{found}");
}

#[test]
fn slopes_have_the_values_worked_out_by_hand() {
    let two = batch(&[0.80, 0.30, 0.55, 0.20, 0.60, 0.65], 3, &[P, N, N, N, P, N]);
    let found = loss("mw").evaluate(&two).expect("pairs").gradient;
    let wanted = [-0.135426, 0.006295, 0.689086, 0.000854, -2.507020, 1.946211];
    assert!(found.iter().zip(wanted).all(|(&found, wanted)| is_near(found, wanted)), "{found:?}");
    let apart = batch(&[1.10, 0.60, 0.85, 0.20, 0.60, 0.65], 3, &[P, N, N, N, P, N]);
    let found = loss("mw").evaluate(&apart).expect("pairs").gradient;
    let wanted = [-0.017154, 1.250113, 2.5, 0.000838, -5.561753, 1.827955];
    assert!(found.iter().zip(wanted).all(|(&found, wanted)| is_near(found, wanted)), "{found:?}");
    let extreme = batch(&[1000.0, 0.0, 0.0, -1000.0, 1000.0], 5, &[P, P, N, N, N]);
    let found = loss("mw:temperature=1").evaluate(&extreme).expect("pairs").gradient;
    let wanted = [-1.0 / 12.0, -0.25, 1.0 / 12.0, 0.0, 0.25];
    assert!(found.iter().zip(wanted).all(|(&found, wanted)| is_near(found, wanted)), "{found:?}");
}

const ALL: [&str; 17] = [
    "mw",
    "mw:per_query=true,temperature=0.3",
    "mw:hardest=2",
    "infonce",
    "infonce:both_ways=true,margin=0.1",
    "decoupled",
    "soft-top-k:k=2,temperature=0.5",
    "cprd:hard=3",
    "psl",
    "psl:activation=atan,temperature=0.5",
    "psl:activation=relu,temperature=0.5",
    "sl@k:k=3",
    "soft-infonce",
    "pick-some:positives=1,seed=4",
    "pairwise:kind=logistic",
    "pairwise:kind=hinge,margin=0.5",
    "0.5*mw + 2*infonce:both_ways=true",
];

/// Cosines of 5 queries and 7 candidates, each query with a positive, one with two, some cells ignored, and a teacher.
fn batches() -> impl Strategy<Value = Batch> {
    let cells = prop::collection::vec(-1.0_f64..1.0, 35);
    (cells.clone(), cells, prop::collection::vec(0_u8..10, 35)).prop_map(|(scores, teacher, dice)| {
        let label = |(cell, &die): (usize, &u8)| match (cell % 7 == cell / 7, die) {
            (true, _) => P,
            (false, 0) => I,
            (false, 1) if cell / 7 == 2 => P,
            (false, _) => N,
        };
        let labels: Vec<Label> = dice.iter().enumerate().map(label).collect();
        let silent = |(&score, &die): (&f64, &u8)| if die == 5 { f64::NEG_INFINITY } else { score };
        let teacher = teacher.iter().zip(&dice).map(silent).collect();
        // Likenesses of their own, or weights that are taken for constants would move with the scores.
        let likeness = scores.iter().map(|score| score * score).collect();
        let batch = Batch::new(scores, 7, labels, true).expect("good");
        batch.with_teacher(teacher).expect("good").with_likeness(likeness).expect("good")
    })
}

/// The same batch with other scores.
fn with_scores(batch: &Batch, scores: Vec<f64>, of: &Batch) -> Option<Batch> {
    let columns = batch.columns();
    let new = Batch::new(scores, columns, batch.labels().to_vec(), batch.is_shared()).ok()?;
    new.like(of)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn slopes_are_central_differences(batch in batches()) {
        for text in ALL {
            // The weight of SL@K is taken for a constant, and so no derivative of it is in the slope.
            if text.starts_with("sl@k") {
                continue;
            }
            let loss = loss(text);
            let Ok(found) = loss.evaluate(&batch) else { continue };
            for cell in 0..batch.scores().len() {
                let step = 1e-6;
                let at = |step: f64| {
                    let mut scores = batch.scores().to_vec();
                    scores[cell] += step;
                    let moved = with_scores(&batch, scores, &batch).expect("good");
                    loss.evaluate(&moved).expect("pairs").value
                };
                let (above, below) = (at(step), at(-step));
                let slope = (above - below) / (2.0 * step);
                let bend = (above + below - 2.0 * found.value).abs() / step;
                // At a kink, or where the order of the hardest changes, there is no slope.
                if bend < 1e-2 {
                    let own = found.gradient[cell];
                    let is_near = (slope - own).abs() < 1e-3 * (1.0 + slope.abs());
                    prop_assert!(is_near, "{}: cell {}: {} for {}", text, cell, own, slope);
                }
            }
        }
    }

    #[test]
    fn ignored_cells_have_no_slope_and_no_say(batch in batches()) {
        for text in ALL {
            let loss = loss(text);
            let Ok(found) = loss.evaluate(&batch) else { continue };
            let scores = batch.scores().iter().zip(batch.labels());
            let scores = scores.map(|(&score, &label)| if label == I { 55.0 } else { score }).collect();
            let other = loss.evaluate(&with_scores(&batch, scores, &batch).expect("good")).expect("pairs");
            prop_assert_eq!(&other, &found, "{}", text);
            let ignored = batch.labels().iter().zip(&found.gradient).filter(|(label, _)| **label == I);
            prop_assert!(ignored.clone().all(|(_, &slope)| slope == 0.0), "{}", text);
        }
    }

    #[test]
    fn scores_of_any_size_leave_all_finite(batch in batches(), scale in prop::sample::select(vec![1e3, 1e6])) {
        for text in ALL {
            let scores: Vec<f64> = batch.scores().iter().map(|score| score * scale).collect();
            let Some(large) = with_scores(&batch, scores, &batch) else { continue };
            if let Ok(found) = loss(text).evaluate(&large) {
                prop_assert!(found.value.is_finite(), "{}: {}", text, found.value);
                prop_assert!(found.gradient.iter().all(|slope| slope.is_finite()), "{}", text);
            }
        }
    }

    #[test]
    fn what_is_added_to_a_row_changes_only_what_looks_across(batch in batches(), added in -1.0_f64..1.0) {
        let mut scores = batch.scores().to_vec();
        scores[..7].iter_mut().for_each(|score| *score += added);
        let moved = with_scores(&batch, scores, &batch).expect("good");
        for text in ["infonce", "decoupled", "soft-top-k:k=2,temperature=0.5", "psl", "pairwise", "sl@k:k=3"] {
            let loss = loss(text);
            let (Ok(a), Ok(b)) = (loss.evaluate(&batch), loss.evaluate(&moved)) else { continue };
            prop_assert!((a.value - b.value).abs() < 1e-9 * (1.0 + a.value.abs()), "{}", text);
        }
    }
}

#[test]
fn a_batch_with_nothing_to_learn_from_is_refused() {
    for labels in [[P, P, I], [N, N, I], [I, I, I]] {
        let batch = batch(&[0.1, 0.2, 0.3], 3, &labels);
        for text in ALL.iter().filter(|text| !text.starts_with("cprd")) {
            assert!(
                matches!(loss(text).evaluate(&batch), Err(LossError::NoPairs { .. })),
                "{text} {labels:?}"
            );
        }
    }
    let good = batch(&[0.1, 0.2, 0.3], 3, &[P, N, N]);
    assert!(matches!(loss("cprd").evaluate(&good), Err(LossError::Missing { .. })));
    assert!(matches!(loss("soft-top-k:k=3").evaluate(&good), Err(LossError::Unsuited { .. })));
    assert!(matches!(loss("soft-infonce:beta=0.5").evaluate(&good), Err(LossError::Unsuited { .. })));
    let alone = Batch::new(vec![0.1, 0.2], 2, vec![P, N], false).expect("good");
    assert!(matches!(loss("infonce:both_ways=true").evaluate(&alone), Err(LossError::Missing { .. })));
    assert!(Batch::new(vec![0.1, f64::NAN], 2, vec![P, N], false).is_err());
    assert!(Batch::new(vec![0.1, 0.2, 0.3], 2, vec![P, N, N], false).is_err());
}
