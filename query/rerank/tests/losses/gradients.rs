//! Values and gradients against the oracle: gradients by central differences.

use dehub_rerank::{Label, Loss};
use proptest::prelude::*;

use crate::{Case, any_loss, cases, cases_of, config, losses, oracle};

/// The slope of the oracle at one score, by differences that leave an error of the fourth order.
fn slope(loss: &Loss, case: &Case, place: usize) -> f64 {
    const STEP: f64 = 2e-4;
    let at = |steps: f64| {
        let mut scores = case.scores.clone();
        scores[place] += steps * STEP;
        oracle::value(loss, case, &scores).expect("a value")
    };
    (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * STEP)
}

fn check(loss: &Loss, case: &Case) -> Result<(), TestCaseError> {
    let found = loss.evaluate(&case.batch());
    let has = |label| case.labels.contains(&label);
    let wanted = match has(Label::Positive) && has(Label::Negative) {
        true => oracle::value(loss, case, &case.scores),
        false => None,
    };
    let (found, wanted) = match (found, wanted) {
        (Ok(found), Some(wanted)) => (found, wanted),
        (Err(_), None) => return Ok(()),
        (found, wanted) => {
            return Err(TestCaseError::fail(format!("{loss}: found {found:?}, wanted {wanted:?}")));
        }
    };
    let error = (found.value - wanted).abs();
    prop_assert!(error <= 1e-12 * (1.0 + wanted.abs()), "{loss}: found {}, wanted {wanted}", found.value);
    for (place, &found) in found.gradient.iter().enumerate() {
        let wanted = slope(loss, case, place);
        prop_assert!(
            (found - wanted).abs() <= 2e-8 * (1.0 + wanted.abs()),
            "{loss}, {place}: {found}, {wanted}"
        );
        prop_assert!(case.labels[place] != Label::Ignored || found == 0.0, "{loss}: {place} is ignored");
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn values_and_gradients_are_those_of_the_formulas(loss in any_loss(), case in cases()) {
        check(&loss, &case)?;
    }

    #[test]
    fn a_row_of_one_positive_is_no_special_case(loss in any_loss(), mut case in cases_of(3, 6)) {
        for row in case.labels.chunks_mut(6) {
            row.iter_mut().skip(1).filter(|label| **label == Label::Positive).for_each(|it| *it = Label::Negative);
            row[0] = Label::Positive;
        }
        check(&loss, &case)?;
    }
}

/// Two positives and ties on both sides, an ignored cell, a row without negatives, and one without positives.
#[test]
fn all_losses_agree_with_their_formulas_where_rows_lack_a_kind() {
    let case = Case::read(
        "p.30 p.55 n.30 n.10 i.90 n-.20 | p.10 p.20 i.30 p.10 i.0 i.0 | n.10 n.20 n.30 i.10 n.0 n.0 \
         | n.40 n.40 n.35 n.15 p.40 n.05",
    );
    let mut teacher = vec![f64::NEG_INFINITY; 24];
    teacher[..6].copy_from_slice(&[0.9, 0.8, 0.7, 0.1, 0.2, f64::NEG_INFINITY]);
    teacher[18..24].copy_from_slice(&[0.3, 0.3, 0.1, 0.9, 0.8, 0.35]);
    let case = case.with_teacher(&teacher);
    for loss in losses() {
        check(&loss, &case).unwrap_or_else(|error| panic!("{error}"));
    }
}
