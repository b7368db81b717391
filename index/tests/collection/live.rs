//! The live bank's policy: durable, checked, and in the way of dropping its bank.

use dehub_index::{EntryInput, LIVE_CAPACITY_MAX, LIVE_RETENTION_MAX, LiveBank, WriteError};
use dehub_vector::{Metric, PointId};

use crate::made::{Home, config, gallery, name, queries};

fn policy() -> LiveBank {
    LiveBank { bank: name("live"), rate: 0.5, capacity: 100, retention_seconds: 3600, per_client: 10 }
}

#[test]
fn a_policy_makes_its_bank_and_outlives_the_process() {
    let mut home = Home::new(config(2, Metric::Cosine));
    assert_eq!(home.snapshot().live_bank(), None);
    home.collection().set_live_bank(Some(&policy())).expect("a good policy");
    home.reopen();
    assert_eq!(home.snapshot().live_bank(), Some(&policy()));
    assert_eq!(home.snapshot().bank("live").map(|bank| bank.entries), Some(0));
    home.add(&queries("live", &[vec![1.0, 0.0]]));
    let other = LiveBank { capacity: 7, ..policy() };
    home.collection().set_live_bank(Some(&other)).expect("a bank that is there stays");
    home.reopen();
    assert_eq!(home.snapshot().live_bank(), Some(&other));
    assert_eq!(home.snapshot().bank("live").map(|bank| bank.entries), Some(1));
    home.collection().set_live_bank(None).expect("it can always be ended");
    home.reopen();
    assert_eq!(home.snapshot().live_bank(), None);
}

#[test]
fn numbers_out_of_range_are_refused_by_name_and_change_nothing() {
    let home = Home::new(config(2, Metric::Cosine));
    let cases = [
        ("rate", LiveBank { rate: 0.0, ..policy() }),
        ("rate", LiveBank { rate: 1.1, ..policy() }),
        ("rate", LiveBank { rate: f64::NAN, ..policy() }),
        ("capacity", LiveBank { capacity: 0, ..policy() }),
        ("capacity", LiveBank { capacity: LIVE_CAPACITY_MAX + 1, ..policy() }),
        ("retention_seconds", LiveBank { retention_seconds: 0, ..policy() }),
        ("retention_seconds", LiveBank { retention_seconds: LIVE_RETENTION_MAX + 1, ..policy() }),
        ("per_client", LiveBank { per_client: 0, ..policy() }),
    ];
    for (wanted, policy) in cases {
        let refused = home.collection().set_live_bank(Some(&policy));
        assert!(
            matches!(refused, Err(WriteError::Live { parameter, .. }) if parameter == wanted),
            "{policy:?}"
        );
    }
    let snapshot = home.snapshot();
    assert_eq!((snapshot.live_bank(), snapshot.banks().len(), snapshot.sequence()), (None, 0, 0));
}

#[test]
fn a_gallery_bank_keeps_no_queries() {
    let home = Home::new(config(2, Metric::Cosine));
    home.add(&gallery("live", 0, &[vec![1.0, 0.0]]));
    let refused = home.collection().set_live_bank(Some(&policy()));
    assert!(matches!(refused, Err(WriteError::BankKind { .. })), "{refused:?}");
}

#[test]
fn a_live_bank_is_dropped_only_when_it_keeps_no_more() {
    let home = Home::new(config(2, Metric::Cosine));
    home.collection().set_live_bank(Some(&policy())).expect("a good policy");
    let refused = home.collection().drop_bank(&name("live")).expect_err("it is live");
    assert!(refused.to_string().contains("dehub live COLLECTION --off"), "{refused}");
    home.collection().set_live_bank(None).expect("ended");
    home.collection().drop_bank(&name("live")).expect("nothing needs it");
}

#[test]
fn an_exchange_that_cannot_be_made_changes_nothing() {
    let home = Home::new(config(2, Metric::Cosine));
    let entry = |id: u64, vector: &[f32]| EntryInput::new(Some(PointId::Number(id)), vector.to_vec());
    let exchange = |bank: &str, removed: &[u64], added: Vec<EntryInput>| {
        let removed: Vec<PointId> = removed.iter().copied().map(PointId::Number).collect();
        home.collection().exchange_in_bank(&name(bank), &removed, added)
    };
    assert!(matches!(exchange("live", &[], Vec::new()), Err(WriteError::UnknownBank { .. })));
    home.add(&queries("live", &[]));
    exchange("live", &[], vec![entry(1, &[1.0, 0.0]), entry(2, &[0.0, 1.0])]).expect("new entries");
    let before = home.snapshot();
    let wrong = exchange("live", &[1], vec![entry(3, &[1.0, 1.0]), entry(4, &[0.0, 0.0])]);
    assert!(matches!(wrong, Err(WriteError::Vector { place: 1, .. })), "{wrong:?}");
    let taken = exchange("live", &[1], vec![entry(2, &[1.0, 1.0])]);
    assert!(matches!(taken, Err(WriteError::EntryExists { .. })), "{taken:?}");
    assert_eq!(home.snapshot().bank("live"), before.bank("live"));
    let receipt = exchange("live", &[1, 99], vec![entry(1, &[1.0, 1.0])]).expect("an id that goes is free");
    assert_eq!((receipt.added, receipt.deleted), (1, 1));
}
