//! Batches: all or none, in order, within limits; and what a failed write leaves behind.

use std::io::{Write, stdout};

use dehub_store::{BATCH_BYTES_MAX, Batch, Blame, CommitError, Durability, Family, Store};

use crate::support::{
    FAMILIES, Outcome, PAYLOADS, POINTS, child_store, child_with_file_limit, media, puts, rows, table,
};

#[test]
fn batch_changes_both_families_or_neither() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1")?;
        let mut batch = puts("a=2 b=2");
        batch.put(PAYLOADS, b"a", b"two");
        batch.put(Family::new("unheard-of"), b"a", b"2");
        let error = store.commit(batch, Durability::Strict).expect_err("a family is unknown");
        assert!(matches!(&error, CommitError::UnknownFamily { family, .. } if family.name() == "unheard-of"));
        assert_eq!(error.blame(), Blame::Bug);
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=1"));
        assert_eq!(rows(store.scan(PAYLOADS, b"", None))?, table(""));

        let mut batch = puts("a=2 b=2");
        batch.put(PAYLOADS, b"a", b"two");
        store.commit(batch, Durability::Strict)?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=2 b=2"));
        assert_eq!(rows(store.scan(PAYLOADS, b"", None))?, table("a=two"));
    }
    Ok(())
}

#[test]
fn readers_never_see_half_a_batch() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=0 b=0")?;
        std::thread::scope(|scope| -> Outcome {
            let writer = scope.spawn(|| -> Result<(), CommitError> {
                (1..400).try_for_each(|n| store.commit(puts(&format!("a={n} b={n}")), Durability::Relaxed))
            });
            while !writer.is_finished() {
                let both = store.get_many(POINTS, &[b"a", b"b"])?;
                assert_eq!(both[0], both[1]);
                let scanned = rows(store.scan(POINTS, b"", None))?;
                assert_eq!(scanned[0].1, scanned[1].1);
            }
            writer.join().expect("the writer does not panic")?;
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn later_changes_of_a_batch_win() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1 b=1 c=1")?;
        let mut batch = Batch::default();
        batch.put(POINTS, b"a", b"2");
        batch.delete_range(POINTS, b"a", b"c");
        batch.put(POINTS, b"b", b"3");
        batch.put(POINTS, b"c", b"4");
        batch.delete(POINTS, b"c");
        store.commit(batch, Durability::Strict)?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table("b=3"));
    }
    Ok(())
}

#[test]
fn deleted_range_includes_its_start_and_excludes_its_end() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1 b=1 ba=1 c=1 ca=1")?;
        let mut batch = Batch::default();
        batch.delete_range(POINTS, b"b", b"c");
        store.commit(batch, Durability::Strict)?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=1 c=1 ca=1"));
    }
    Ok(())
}

#[test]
fn range_with_its_ends_swapped_deletes_nothing_and_poisons_nothing() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1 b=1")?;
        let mut batch = Batch::default();
        batch.delete_range(POINTS, b"b", b"a");
        batch.delete_range(POINTS, b"a", b"a");
        assert!(batch.is_empty());
        batch.put(POINTS, b"c", b"1");
        store.commit(batch, Durability::Strict)?;
        store.commit(puts("d=1"), Durability::Strict)?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=1 b=1 c=1 d=1"));
    }
    Ok(())
}

#[test]
fn batch_counts_the_bytes_of_keys_and_values() {
    let mut batch = Batch::default();
    assert!(batch.is_empty());
    batch.put(POINTS, b"ab", b"cde");
    batch.delete(POINTS, b"f");
    batch.delete_range(PAYLOADS, b"gh", b"i");
    assert_eq!((batch.bytes(), batch.len(), batch.is_empty()), (9, 3, false));
}

#[test]
fn batch_above_the_limit_is_refused_before_anything_is_written() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1")?;
        let mut batch = puts("a=2");
        batch.put(POINTS, b"b", &vec![0; BATCH_BYTES_MAX]);
        let error = store.commit(batch, Durability::Relaxed).expect_err("the batch is too large");
        assert_eq!(error, CommitError::TooLarge { bytes: BATCH_BYTES_MAX + 3, limit: BATCH_BYTES_MAX });
        assert_eq!(error.blame(), Blame::Caller);
        store.commit(puts("c=3"), Durability::Relaxed)?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=1 c=3"));
    }
    Ok(())
}

#[test]
fn relaxed_commits_are_there_after_sync_and_reopening() -> Outcome {
    for medium in media()? {
        let store = medium.create()?;
        store.commit(puts("a=1"), Durability::Relaxed)?;
        store.sync()?;
        drop(store);
        assert_eq!(rows(medium.open()?.scan(POINTS, b"", None))?, table("a=1"));
    }
    Ok(())
}

/// In blocks of 512 or 1024 bytes; far below the write buffer, so that it is the log that hits it.
const FILE_LIMIT_BLOCKS: u32 = 2048;

#[test]
fn failed_commit_poisons_the_store_until_it_is_reopened() -> Outcome {
    if let Some(path) = child_store() {
        return commit_until_the_log_is_full(&path);
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(Store::create(&path, &FAMILIES)?);
    let test = "committing::failed_commit_poisons_the_store_until_it_is_reopened";
    let output = child_with_file_limit(test, &path, FILE_LIMIT_BLOCKS)?.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "the child failed: {said}");
    let acknowledged = said.lines().find_map(|line| line.strip_prefix("acknowledged "));
    let acknowledged: usize = acknowledged.ok_or("the child has not reported")?.parse()?;
    assert!(acknowledged > 0);

    let store = Store::open(&path, &FAMILIES)?;
    let found = rows(store.scan(POINTS, b"", None))?.len();
    assert!(found == acknowledged || found == acknowledged + 1, "{found} of {acknowledged} are there");
    store.commit(puts("z=1"), Durability::Strict)?;
    Ok(())
}

fn commit_until_the_log_is_full(path: &std::path::Path) -> Outcome {
    let store = Store::open(path, &FAMILIES)?;
    let value = vec![7; 64 * 1024];
    let mut acknowledged = 0_u32;
    let error = loop {
        let mut batch = Batch::default();
        batch.put(POINTS, &acknowledged.to_be_bytes(), &value);
        match store.commit(batch, Durability::Strict) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1000, "the limit has no effect");
    };
    assert!(matches!(error, CommitError::Failed { .. }), "{error}");
    assert_eq!(error.blame(), Blame::Environment);
    assert!(store.is_poisoned());
    let refusal = store.commit(puts("y=1"), Durability::Relaxed).expect_err("the store is poisoned");
    assert!(matches!(refusal, CommitError::Poisoned { .. }), "{refusal}");
    assert!(matches!(store.sync(), Err(CommitError::Poisoned { .. })));

    assert_eq!(store.get(POINTS, &0_u32.to_be_bytes())?, Some(value));
    assert_eq!(store.get(POINTS, &acknowledged.to_be_bytes())?, None);
    assert_eq!(rows(store.view().scan(POINTS, b"", None))?.len(), acknowledged as usize);
    writeln!(stdout(), "\nacknowledged {acknowledged}")?;
    Ok(())
}
