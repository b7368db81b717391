//! Whatever call fails, the answer is right or an error, and nothing acknowledged is lost.

use std::error::Error;

use dehub_store::{Batch, CommitError, Durability, Fault, Faults, ReadError, Store};

use crate::support::{Medium, Outcome, PAYLOADS, POINTS, Rows, media, rows, table};

/// The points after each commit of the script.
const STATES: [&str; 5] = ["", "a=1 b=1", "a=2 b=1 c=2", "a=2", "a=2 d=4"];

fn batch(n: usize) -> Batch {
    let mut batch = Batch::default();
    match n {
        1 => ["a", "b"].iter().for_each(|key| batch.put(POINTS, key.as_bytes(), b"1")),
        2 => ["a", "c"].iter().for_each(|key| batch.put(POINTS, key.as_bytes(), b"2")),
        3 => batch.delete_range(POINTS, b"b", b"d"),
        _ => batch.put(POINTS, b"d", b"4"),
    }
    batch.put(PAYLOADS, b"n", n.to_string().as_bytes());
    batch
}

/// Checks an answer if there is one; a failed read has none and is no fault of the store.
fn check<T: PartialEq + std::fmt::Debug>(answer: Result<T, ReadError>, right: &T, errors: &mut u32) {
    match answer {
        Ok(answer) => assert_eq!(answer, *right),
        Err(_) => *errors += 1,
    }
}

/// Commits and reads everything, and returns the number of commits acknowledged and of errors seen.
fn run(store: &Store, into: &std::path::Path) -> Result<(usize, u32), Box<dyn Error>> {
    let (mut acknowledged, mut errors) = (0, 0);
    for n in 1..STATES.len() {
        let durability = if n % 2 == 0 { Durability::Strict } else { Durability::Relaxed };
        match store.commit(batch(n), durability) {
            Ok(()) => acknowledged = n,
            Err(CommitError::Failed { .. } | CommitError::Poisoned { .. }) => errors += 1,
            Err(error) => return Err(error.into()),
        }
        errors += u32::from(store.sync().is_err());
        // After a commit that took effect and was not acknowledged, the store may show it or not.
        if store.is_poisoned() {
            continue;
        }
        let state = table(STATES[n]);
        let right: Vec<Option<Vec<u8>>> = ["a", "d"]
            .iter()
            .map(|key| {
                state.iter().find(|(found, _)| found == key.as_bytes()).map(|(_, value)| value.clone())
            })
            .collect();
        check(store.get(POINTS, b"a"), &right[0], &mut errors);
        check(store.get_many(POINTS, &["a", "d"]), &right, &mut errors);
        check(rows(store.scan(POINTS, b"", None)), &state, &mut errors);
        let view = store.view();
        check(view.get(POINTS, b"a"), &right[0], &mut errors);
        check(rows(view.scan(POINTS, b"", None)), &state, &mut errors);
    }
    errors += u32::from(store.compact().is_err());
    errors += u32::from(store.checkpoint(into).is_err());
    Ok((acknowledged, errors))
}

/// The number of commits whose result is there; both families must agree.
fn commits(store: &Store) -> Result<usize, Box<dyn Error>> {
    let points: Rows = rows(store.scan(POINTS, b"", None))?;
    let n = match store.get(PAYLOADS, b"n")? {
        Some(text) => String::from_utf8(text)?.parse()?,
        None => 0,
    };
    assert_eq!(points, table(STATES[n]), "a prefix of the commits");
    Ok(n)
}

#[test]
fn whatever_call_fails_the_answers_are_right_and_what_was_acknowledged_stays() -> Outcome {
    for reference in media()? {
        let faults = Faults::none();
        let copies = tempfile::tempdir()?;
        let (acknowledged, errors) =
            run(&reference.create()?.with_faults(&faults), &copies.path().join("all"))?;
        assert_eq!((acknowledged, errors), (STATES.len() - 1, 0));
        assert!(faults.calls() > 50, "{}", faults.calls());
        // A store of files takes its time, and its calls fail by the same code.
        let step = if matches!(reference, Medium::Memory(_)) { 1 } else { 7 };
        for call in (1..=faults.calls()).step_by(step) {
            for fault in [Fault::Refused, Fault::Unacknowledged] {
                let mut fresh = media()?.into_iter();
                let medium =
                    fresh.find(|medium| std::mem::discriminant(medium) == std::mem::discriminant(&reference));
                let medium = medium.ok_or("there is one of each")?;
                let faults = Faults::at(call, fault);
                let store = medium.create()?.with_faults(&faults);
                let into = copies.path().join(format!("{call}-{fault:?}"));
                let (acknowledged, errors) = run(&store, &into)?;
                assert!(errors > 0, "call {call} fails and somebody is told");
                drop(store);
                let left = commits(&medium.open()?)?;
                assert!((acknowledged..=acknowledged + 1).contains(&left), "call {call}, {fault:?}");
                if let Medium::Memory(disk) = &medium {
                    disk.power_cut(0);
                    let synced = commits(&medium.open()?)?;
                    assert!(synced <= left && synced + 1 >= acknowledged, "call {call}, {fault:?}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn failed_write_poisons_until_reopening_and_a_disarmed_plan_fails_nothing() -> Outcome {
    for medium in media()? {
        for (fault, left) in [(Fault::Refused, ""), (Fault::Unacknowledged, "a=1 b=1")] {
            let store = match medium.open() {
                Ok(store) => store,
                Err(_) => medium.create()?,
            };
            let faults = Faults::at(1, fault);
            let store = store.with_faults(&faults);
            let error = store.commit(batch(1), Durability::Strict).expect_err("the call fails");
            assert!(matches!(error, CommitError::Failed { .. }), "{error}");
            assert!(store.is_poisoned());
            let error = store.commit(batch(2), Durability::Strict).expect_err("the store is poisoned");
            assert!(matches!(error, CommitError::Poisoned { .. }), "{error}");
            drop(store);
            assert_eq!(rows(medium.open()?.scan(POINTS, b"", None))?, table(left));
        }
        let faults = Faults::at(2, Fault::Refused);
        let store = medium.open()?.with_faults(&faults);
        store.commit(batch(2), Durability::Strict)?;
        faults.disarm();
        store.commit(batch(3), Durability::Strict)?;
        assert_eq!(faults.calls(), 2);
    }
    Ok(())
}

#[test]
fn view_that_fails_answers_no_read() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1")?.with_faults(&Faults::at(1, Fault::Refused));
        let view = store.view();
        assert!(view.get(POINTS, b"a").is_err());
        assert!(view.get_many(POINTS, &["a"]).is_err());
        assert!(rows(view.scan(POINTS, b"", None)).is_err());
        assert_eq!(rows(store.view().scan(POINTS, b"", None))?, table("a=1"));
    }
    Ok(())
}
