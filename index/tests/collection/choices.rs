//! The default correction: it needs a verdict, stays what was judged, and is there after opening.

use dehub_index::{DefaultCorrection, DefaultEvidence, Interval, WriteError};
use dehub_vector::Metric;

use crate::made::{Home, Numbers, config, fit, name, points, queries};

const DIM: usize = 8;

fn home() -> Home {
    let mut numbers = Numbers(7);
    let home = Home::new(config(DIM, Metric::Cosine));
    home.add(&queries("queries", &numbers.vectors(30, DIM)));
    home.upsert(&points(0, &numbers.vectors(60, DIM)));
    home.fit(&["IS(beta=20)", "CSLS(k=3)"]);
    home
}

fn evidence(approved: bool) -> DefaultEvidence {
    DefaultEvidence {
        approved,
        share: Some(Interval { value: 0.7, low: 0.6, high: 0.1 + 0.7 }),
        gain: None,
        queries: 400,
        judged: None,
        seed: 9,
        rounds: 200,
        reason: "it removes 70 %".to_owned(),
    }
}

fn default(version: u32, evidence: Option<DefaultEvidence>, forced: bool) -> DefaultCorrection {
    DefaultCorrection { correction: name("IS(beta=20)"), version, evidence, forced }
}

#[test]
fn a_default_needs_a_yes_or_force_and_the_version_that_was_judged() {
    let home = home();
    let set = |default| home.collection().set_default(&default);
    for refused in [default(1, None, false), default(1, Some(evidence(false)), false)] {
        assert!(matches!(set(refused), Err(WriteError::Vetoed { .. })));
    }
    let changed = set(default(2, Some(evidence(true)), false));
    assert!(matches!(changed, Err(WriteError::CorrectionChanged { judged: 2, found: 1, .. })), "{changed:?}");
    let unknown = DefaultCorrection { correction: name("other"), ..default(1, None, true) };
    assert!(matches!(set(unknown), Err(WriteError::UnknownCorrection { .. })));
    assert_eq!(home.snapshot().default_correction(), None);
    for accepted in [default(1, None, true), default(1, Some(evidence(true)), false)] {
        set(accepted.clone()).expect("it may be");
        assert_eq!(home.snapshot().default_correction(), Some(&accepted));
    }
}

#[test]
fn a_default_survives_opening_and_growth_and_is_cleared_for_good() {
    let mut home = home();
    let wanted = default(1, Some(evidence(true)), false);
    home.collection().set_default(&wanted).expect("it may be");
    home.add(&queries("queries", &Numbers(8).vectors(3, DIM)));
    home.reopen();
    assert_eq!(home.snapshot().default_correction(), Some(&wanted));
    assert!(home.collection().clear_default().expect("a write"));
    assert!(!home.collection().clear_default().expect("a write"));
    home.reopen();
    assert_eq!(home.snapshot().default_correction(), None);
}

#[test]
fn a_default_is_not_dropped_nor_made_another_method_until_it_is_cleared() {
    let home = home();
    let default_name = name("IS(beta=20)");
    home.collection().set_default(&default(1, None, true)).expect("forced");
    let dropped = home.collection().drop_correction(&default_name).expect_err("it is the default");
    assert!(dropped.to_string().contains("--clear"), "{dropped}");
    let other = dehub_index::FitInput { name: default_name.clone(), ..fit("CSLS(k=3)") };
    let replaced = home.collection().fit(std::slice::from_ref(&other));
    assert!(matches!(replaced, Err(WriteError::CorrectionInUse { .. })), "{replaced:?}");
    home.collection().fit(&[fit("IS(beta=20)")]).expect("the same again");
    home.collection().drop_correction(&name("CSLS(k=3)")).expect("it is not the default");
    // What is judged with the fit may take the name.
    let fitted = home.collection().fit_as_default(&other, Some(&evidence(true)), false).expect("judged");
    assert_eq!((fitted.version, fitted.forced), (3, false));
    let vetoed = home.collection().fit_as_default(&fit("IS(beta=5)"), Some(&evidence(false)), false);
    assert!(matches!(vetoed, Err(WriteError::Vetoed { .. })));
    assert!(home.snapshot().correction("IS(beta=5)").is_none(), "nothing is done by half");
    home.collection().clear_default().expect("a write");
    home.collection().drop_correction(&default_name).expect("it is no default any more");
}
