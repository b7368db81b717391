//! Values worked out in 64 bits with other software.

use dehub_rerank::{
    Activation, DecoupledSoftmax, InfoNce, Loss, MannWhitney, Psl, SoftInfoNce, SoftTopK, auc,
};

use crate::Case;

/// Values are known to six places.
#[track_caller]
fn close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= 5.5e-7, "wanted {wanted}, found {found}");
}

#[track_caller]
fn check(loss: Loss, case: &Case, value: f64, gradient: &[f64]) {
    let found = loss.evaluate(&case.batch()).expect("a value");
    close(found.value, value);
    for (found, wanted) in found.gradient.iter().zip(gradient) {
        close(*found, *wanted);
    }
}

fn mw(temperature: f64) -> Loss {
    Loss::MannWhitney(MannWhitney { temperature, ..MannWhitney::default() })
}

fn info_nce(temperature: f64) -> Loss {
    Loss::InfoNce(InfoNce { temperature, ..InfoNce::default() })
}

#[test]
fn one_positive_above_all_still_costs_what_it_is_near_to_lose() {
    let case = Case::read("p2 n1 n0 n-1");
    check(mw(1.0), &case, 0.162_926, &[-0.145_190, 0.089_647, 0.039_734, 0.015_809]);
    assert_eq!(auc(&case.batch()), Ok(1.0));
}

#[test]
fn pairs_are_pooled_across_queries() {
    let case = Case::read("p.80 n.30 n.55 | n.20 p.60 n.65");
    let gradient = [-0.135_426, 0.006_295, 0.689_086, 0.000_854, -2.507_020, 1.946_211];
    check(mw(0.05), &case, 0.210_586, &gradient);
    assert_eq!(auc(&case.batch()), Ok(0.875));
    check(info_nce(0.05), &case, 0.660_056, &[]);
    let bound = mw(0.05).evaluate(&case.batch()).unwrap().value / std::f64::consts::LN_2;
    close(bound, 0.303_812);
}

#[test]
fn a_query_whose_scores_are_all_too_high_is_seen_by_mann_whitney_alone() {
    let case = Case::read("p1.10 n.60 n.85 | n.20 p.60 n.65");
    check(info_nce(0.05), &case, 0.660_056, &[]);
    let gradient = [-0.017_154, 1.250_113, 2.5, 0.000_838, -5.561_753, 1.827_955];
    check(mw(0.05), &case, 0.877_543, &gradient);
    assert_eq!(auc(&case.batch()), Ok(0.6875));
}

#[test]
fn a_thousand_on_either_side_does_not_overflow() {
    let case = Case::read("p1000 p0 n0 n-1000 n1000");
    check(mw(1.0), &case, 166.897_716, &[-0.083_333, -0.25, 0.083_333, 0.0, 0.25]);
    close(auc(&case.batch()).unwrap(), 0.666_667);
}

#[test]
fn decoupled_softmax_leaves_the_other_positives_out() {
    let case = Case::read("p2 n1.5 p1 n0 n-1");
    check(Loss::DecoupledSoftmax(DecoupledSoftmax { temperature: 1.0 }), &case, 0.865_578, &[]);
    check(info_nce(1.0), &case, 1.269_892, &[]);
}

#[test]
fn soft_top_k_finds_the_border_and_what_is_above_it() {
    let case = Case::read("p2 n1.5 p1 n0 n-1");
    let loss = Loss::SoftTopK(SoftTopK { k: 2, alpha: 2.0 });
    let found = loss.evaluate(&case.batch()).unwrap();
    close(found.value, 0.534_433);
    // α (1 − σ_p) (δ − v / Σ v), of the shares above the border.
    let shares: [f64; 5] = [0.837_116, 0.654_058, 0.410_215, 0.086_032, 0.012_579];
    let v = shares.map(|share| share * (1.0 - share));
    let sum: f64 = v.iter().sum();
    let pull = (1.0 - shares[0]) + (1.0 - shares[2]);
    for (place, slope) in found.gradient.iter().enumerate() {
        let own = if place == 0 || place == 2 { 1.0 - shares[place] } else { 0.0 };
        assert!((slope - (pull * v[place] / sum - own)).abs() < 3e-6, "{place}: {slope}");
    }
}

#[test]
fn pairwise_softmax_takes_its_activations_by_name() {
    let case = Case::read("p.9 n.7 n.5 n-.2");
    let psl = |activation| Loss::Psl(Psl { activation, temperature: 1.0, outer_temperature: 0.1 });
    check(psl(Activation::Tanh), &case, -2.125_700, &[]);
    check(psl(Activation::Atan), &case, -2.126_565, &[]);
    check(psl(Activation::Relu), &case, -2.176_650, &[]);
    check(psl(Activation::Linear), &case, -1.872_963, &[]);
}

#[test]
fn soft_info_nce_weighs_negatives_by_similarity() {
    let case = Case { similarities: Some(vec![0.0, 0.6, 0.1, 0.3]), ..Case::read("p3 n2 n1 n.5") };
    let loss = SoftInfoNce { temperature: 1.0, alpha: 1.0, beta: 1.5, weight_temperature: 1.0 };
    check(Loss::SoftInfoNce(loss), &case, 0.448_536, &[]);
    check(info_nce(1.0), &case, 0.460_773, &[]);
    check(Loss::SoftInfoNce(SoftInfoNce { alpha: 0.0, ..loss }), &case, 0.460_773, &[]);
}
