//! What is no batch, no parameter, or nothing to compare.

use dehub_rerank::{Batch, InfoNce, Label, Loss, LossError, SCORE_MAX, auc};

use crate::{Case, losses};

#[track_caller]
fn refused(loss: &Loss, case: &Case, wanted: &str) {
    let error = loss.evaluate(&case.batch()).expect_err("a refusal");
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn a_batch_without_positives_is_refused() {
    for loss in losses() {
        let name = if let Loss::Mixed(parts) = &loss { parts[0].1.name() } else { loss.name() };
        refused(
            &loss,
            &Case::read("n.1 n.2 i.3 | n.1 n.3 n.5"),
            &format!("{name}: wanted a positive in the batch, found none"),
        );
    }
    let case = Case::read("n.1 n.2");
    assert_eq!(auc(&case.batch()), Err(LossError::NoPositive { loss: "auc" }));
}

#[test]
fn a_batch_without_negatives_is_refused() {
    for loss in losses() {
        let error = loss.evaluate(&Case::read("p.1 p.2 i.3 | p.1 i.3 p.5").batch()).unwrap_err();
        assert!(matches!(error, LossError::NoNegative { .. }), "{loss}: {error}");
    }
    assert_eq!(auc(&Case::read("p.1 p.2").batch()), Err(LossError::NoNegative { loss: "auc" }));
}

#[test]
fn a_batch_whose_rows_hold_one_kind_each_has_pairs_across_rows_alone() {
    let case = Case::read("p.1 p.2 i.3 | n.1 i.3 n.5");
    for loss in losses() {
        let found = loss.evaluate(&case.batch());
        let is_refused = matches!(found, Err(LossError::NothingToCompare { .. }));
        assert_eq!(is_refused, !matches!(loss, Loss::MannWhitney(_)), "{loss}: {found:?}");
    }
}

#[test]
fn rows_with_nothing_to_compare_are_passed_over() {
    let (alone, among) = ("p.80 n.30 n.55", "p.80 n.30 n.55 | p.10 p.90 i.30 | n.10 n.90 i.30");
    for text in ["infonce", "decoupled", "soft_topk:k=1", "psl", "sl_at_k", "soft_infonce", "pairwise"] {
        let loss: Loss = text.parse().unwrap();
        let alone = loss.evaluate(&Case::read(alone).batch()).unwrap();
        let among = loss.evaluate(&Case::read(among).batch()).unwrap();
        assert_eq!(alone.value, among.value, "{loss}");
        assert_eq!(alone.gradient, among.gradient[..3], "{loss}");
        assert!(among.gradient[3..].iter().all(|slope| *slope == 0.0), "{loss}");
    }
}

#[test]
fn what_a_loss_needs_besides_scores_is_asked_for() {
    let case = Case::read("p.1 n.2");
    let batch = Batch::new(&case.scores, 2, &case.labels).unwrap();
    let of = |text: &str| text.parse::<Loss>().unwrap().evaluate(&batch).unwrap_err().to_string();
    assert_eq!(
        of("partial_ranking"),
        "partial_ranking: wanted a batch with a teacher's scores, found one without"
    );
    assert_eq!(
        of("infonce:both_ways=true"),
        "infonce: wanted a batch whose rows share their candidates, found one whose rows have their own"
    );
    assert_eq!(
        of("soft_topk:k=2"),
        "soft_topk: wanted a row with a positive, a negative and more candidates than k, found none"
    );
    assert_eq!(
        of("soft_infonce"),
        "soft_infonce: wanted beta above alpha / 1, as a row has 1 negatives, found alpha 1 and beta 1"
    );
    refused(
        &"infonce:both_ways=true".parse().unwrap(),
        &Case::read("p.1 n.2 | p.3 n.4"),
        "infonce: wanted a column with a positive and a negative, found none",
    );
}

#[test]
fn a_batch_that_is_none_is_refused_with_its_place() {
    use Label::Positive;
    let message = |scores: &[f64], columns, labels: &[Label]| {
        Batch::new(scores, columns, labels).expect_err("a refusal").to_string()
    };
    let rows = "wanted one or more whole rows of";
    assert_eq!(message(&[], 2, &[]), format!("batch: {rows} 2 scores, found 0 scores"));
    assert_eq!(message(&[1.0], 0, &[Positive]), format!("batch: {rows} 0 scores, found 1 scores"));
    assert_eq!(message(&[1.0; 3], 2, &[Positive; 3]), format!("batch: {rows} 2 scores, found 3 scores"));
    assert_eq!(message(&[1.0; 2], 2, &[Positive]), "batch: wanted 2 labels, one a score, found 1");
    for (bad, found) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (-f64::INFINITY, "-inf")] {
        assert_eq!(
            message(&[0.0, 0.0, 0.0, bad], 2, &[Positive; 4]),
            format!("batch, row 1, column 1: wanted a score from -1e60 to 1e60, found {found}")
        );
    }
    assert!(Batch::new(&[SCORE_MAX, -SCORE_MAX], 2, &[Positive; 2]).is_ok());
    assert!(Batch::new(&[2.0 * SCORE_MAX, 0.0], 2, &[Positive; 2]).is_err());
    let batch = Batch::new(&[0.0; 2], 2, &[Positive; 2]).unwrap();
    let error = batch.with_teacher(&[0.0]).unwrap_err().to_string();
    assert_eq!(error, "batch: wanted 2 scores of the teacher, one a score, found 1");
    let error = batch.with_teacher(&[f64::NEG_INFINITY, f64::NAN]).unwrap_err().to_string();
    assert_eq!(error, "batch, row 0, column 1: wanted a score of the teacher from -1e60 to 1e60, found NaN");
    assert!(batch.with_similarities(&[0.0, f64::NEG_INFINITY]).is_err());
    assert!(batch.with_similarities(&[0.0]).is_err());
    assert_eq!((batch.rows(), batch.columns(), batch.is_shared()), (1, 2, false));
    assert_eq!((batch.teacher(), batch.similarities()), (None, None));
}

#[test]
fn parameters_made_in_code_are_checked_before_use() {
    let case = Case::read("p.1 n.2");
    for temperature in [0.0, -1.0, 1e-7, 1e7, f64::NAN, f64::INFINITY] {
        let loss = Loss::InfoNce(InfoNce { temperature, ..InfoNce::default() });
        let wanted = "wanted temperature to be a number from 0.000001 to 1000000";
        refused(&loss, &case, &format!("infonce: {wanted}, found {temperature}"));
    }
    let mixture = "mixed: wanted one or more losses that are no mixtures themselves, found";
    refused(&Loss::Mixed(Vec::new()), &case, &format!("{mixture} none"));
    let nested = Loss::Mixed(vec![(1.0, Loss::Mixed(vec![(1.0, losses()[0].clone())]))]);
    refused(&nested, &case, &format!("{mixture} a mixture"));
    let weightless = Loss::Mixed(vec![(0.0, losses()[0].clone())]);
    refused(&weightless, &case, "mw: wanted the weight to be a number from 0.000001 to 1000000, found 0");
}
