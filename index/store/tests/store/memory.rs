//! A disk in memory keeps what a process leaves behind, and loses in a power cut what a disk may lose.

use dehub_store::{Batch, Durability, Family, Holder, MemoryDisk, OpenError, Store};

use crate::support::{FAMILIES, Outcome, PAYLOADS, POINTS, puts, rows, table};

#[test]
fn power_cut_leaves_what_was_synced_and_the_first_commits_after_it() -> Outcome {
    for (keep, left) in [(0, "a=1 b=2"), (1, "a=1 b=2 c=3"), (2, "a=4 b=2 c=3"), (3, "d=5"), (9, "d=5")] {
        let disk = MemoryDisk::new();
        let store = Store::create_in(&disk, &FAMILIES)?;
        store.commit(puts("a=1"), Durability::Relaxed)?;
        store.commit(puts("b=2"), Durability::Strict)?;
        assert_eq!(disk.unsynced(), 0, "a strict commit syncs those before it");
        store.commit(puts("c=3"), Durability::Relaxed)?;
        store.commit(puts("a=4"), Durability::Relaxed)?;
        let mut batch = puts("d=5");
        batch.delete_range(POINTS, b"a", b"d");
        store.commit(batch, Durability::Relaxed)?;
        assert_eq!(disk.unsynced(), 3);
        disk.power_cut(keep);
        assert!(store.get(POINTS, b"a").is_err(), "the store went with the power");
        assert!(store.commit(puts("e=6"), Durability::Strict).is_err());

        let store = Store::open_in(&disk, &FAMILIES)?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table(left), "{keep}");
        disk.power_cut(0);
        let store = Store::open_in(&disk, &FAMILIES)?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table(left), "what survived is synced");
    }
    Ok(())
}

#[test]
fn sync_keeps_all_that_is_written_and_reopening_syncs_nothing() -> Outcome {
    let disk = MemoryDisk::new();
    let store = Store::create_in(&disk, &FAMILIES)?;
    store.commit(puts("a=1"), Durability::Relaxed)?;
    store.sync()?;
    store.commit(puts("b=2"), Durability::Relaxed)?;
    drop(store);
    let store = Store::open_in(&disk, &FAMILIES)?;
    assert_eq!(
        rows(store.scan(POINTS, b"", None))?,
        table("a=1 b=2"),
        "the death of a process loses nothing"
    );
    drop(store);
    disk.power_cut(0);
    let store = Store::open_in(&disk, &FAMILIES)?;
    assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=1"));
    Ok(())
}

#[test]
fn views_and_scans_see_their_moment_through_rewrites_and_compactions() -> Outcome {
    let disk = MemoryDisk::new();
    let store = Store::create_in(&disk, &FAMILIES)?;
    for n in 0..50 {
        store.commit(puts(&format!("a={n} b={n}")), Durability::Strict)?;
        let view = store.view();
        let mut scan = view.scan(POINTS, b"", None);
        let first = scan.next().ok_or("there is a row")??;
        let mut batch = puts("c=1");
        batch.delete(POINTS, b"b");
        store.commit(batch, Durability::Strict)?;
        store.compact()?;
        let rest = rows(scan)?;
        assert_eq!((&*first.1, &*rest[0].1), (n.to_string().as_bytes(), n.to_string().as_bytes()));
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table(&format!("a={n} c=1")));
    }
    Ok(())
}

#[test]
fn one_store_at_a_time_uses_a_disk() -> Outcome {
    let disk = MemoryDisk::new();
    assert!(matches!(Store::open_in(&disk, &FAMILIES), Err(OpenError::Missing { .. })));
    let store = Store::create_in(&disk, &FAMILIES)?;
    let error = Store::open_in(&disk.clone(), &FAMILIES).expect_err("it is in use");
    assert!(matches!(error, OpenError::InUse { holder: Holder::ThisProcess, .. }), "{error}");
    assert!(matches!(Store::create_in(&disk, &FAMILIES), Err(OpenError::Exists { .. })));
    drop(store);
    let more = [POINTS, PAYLOADS, Family::new("more")];
    let error = Store::open_in(&disk, &more).expect_err("a family is missing");
    assert!(matches!(&error, OpenError::MissingFamily { family, .. } if family == "more"), "{error}");
    let error = Store::open_in(&disk, &[POINTS]).expect_err("a family is unknown");
    assert!(matches!(&error, OpenError::UnknownFamily { family, .. } if family == "payloads"), "{error}");
    Store::open_in(&disk, &FAMILIES)?;
    Ok(())
}

#[test]
fn checkpoint_of_a_store_in_memory_is_a_store_in_a_directory() -> Outcome {
    let directory = tempfile::tempdir()?;
    let into = directory.path().join("checkpoint");
    let store = Store::create_in(&MemoryDisk::new(), &FAMILIES)?;
    let mut batch = puts("a=1 b=2");
    batch.put(PAYLOADS, b"a", b"one");
    store.commit(batch, Durability::Relaxed)?;
    store.commit(Batch::default(), Durability::Relaxed)?;
    store.checkpoint(&into)?;
    store.commit(puts("c=3"), Durability::Relaxed)?;
    let copy = Store::open(&into, &FAMILIES)?;
    assert_eq!(rows(copy.scan(POINTS, b"", None))?, table("a=1 b=2"));
    assert_eq!(rows(copy.scan(PAYLOADS, b"", None))?, table("a=one"));
    assert_eq!(std::fs::read_dir(directory.path())?.count(), 1, "nothing else is left");
    Ok(())
}
