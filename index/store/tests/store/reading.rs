//! Scans, views and what a damaged file looks like to a reader.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use dehub_store::{Batch, Blame, Durability, Family, OpenError, OwnedView, ReadError, Scan, Store, View};

use crate::support::{FAMILIES, Outcome, PAYLOADS, POINTS, files, media, puts, rows, store_with, table};

#[test]
fn store_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Store>();
    shared::<View<'_>>();
    shared::<OwnedView>();
    fn sent<T: Send>() {}
    sent::<Scan<'_>>();
    sent::<Batch>();
}

#[test]
fn scan_includes_its_start_and_excludes_its_end() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1 b=2 ba=3 c=4")?;
        let scan = |from: &[u8], to: Option<&[u8]>| rows(store.scan(POINTS, from, to));
        assert_eq!(scan(b"", None)?, table("a=1 b=2 ba=3 c=4"));
        assert_eq!(scan(b"b", Some(b"c"))?, table("b=2 ba=3"));
        assert_eq!(scan(b"aa", Some(b"ba"))?, table("b=2"));
        assert_eq!(scan(b"b", Some(b"b"))?, table(""));
        assert_eq!(scan(b"c", Some(b"a"))?, table(""));
        assert_eq!(scan(b"d", None)?, table(""));
        assert_eq!(scan(b"a", Some(b""))?, table(""));
    }
    Ok(())
}

#[test]
fn prefix_scan_stops_at_the_last_key_with_the_prefix_even_at_ff() -> Outcome {
    for medium in media()? {
        let store = medium.create()?;
        let keys: [&[u8]; 8] =
            [b"a", b"a\xfe", b"a\xff", b"a\xff\x00", b"a\xff\xff\xff", b"b", b"\xff", b"\xff\xff\x01"];
        let mut batch = Batch::default();
        for key in keys {
            batch.put(POINTS, key, b"");
        }
        store.commit(batch, Durability::Strict)?;
        let under = |prefix: &[u8]| -> Result<usize, ReadError> {
            Ok(rows(store.scan_prefix(POINTS, prefix))?.len())
        };
        assert_eq!(under(b"a\xff")?, 3);
        assert_eq!(under(b"a\xff\xff")?, 1);
        assert_eq!(under(b"a")?, 5);
        assert_eq!(under(b"\xff")?, 2);
        assert_eq!(under(b"\xff\xff")?, 1);
        assert_eq!(under(b"")?, keys.len());
        assert_eq!(under(b"c")?, 0);
    }
    Ok(())
}

#[test]
fn many_keys_are_answered_in_the_order_they_are_asked() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1 b=2")?;
        let found = store.get_many(POINTS, &["b", "x", "a", "b"])?;
        let two = Some(b"2".to_vec());
        assert_eq!(found, [two.clone(), None, Some(b"1".to_vec()), two]);
        assert!(store.get_many(POINTS, &[] as &[&[u8]])?.is_empty());
    }
    Ok(())
}

#[test]
fn view_stays_as_it_was_while_commits_go_on() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1 b=1 c=1")?;
        let view = store.view();
        let scan = view.scan(POINTS, b"", None);
        let mut batch = puts("a=2 d=2");
        batch.delete_range(POINTS, b"b", b"d");
        batch.put(PAYLOADS, b"a", b"two");
        store.commit(batch, Durability::Strict)?;
        store.compact()?;
        store.commit(puts("e=3"), Durability::Relaxed)?;

        assert_eq!(rows(scan)?, table("a=1 b=1 c=1"));
        assert_eq!(rows(view.scan(POINTS, b"", None))?, table("a=1 b=1 c=1"));
        assert_eq!(rows(view.scan_prefix(POINTS, b"b"))?, table("b=1"));
        assert_eq!(view.get(POINTS, b"b")?, Some(b"1".to_vec()));
        assert_eq!(view.get(PAYLOADS, b"a")?, None);
        assert_eq!(view.get_many(POINTS, &["d", "a"])?, [None, Some(b"1".to_vec())]);
        assert_eq!(rows(store.view().scan(POINTS, b"", None))?, table("a=2 d=2 e=3"));
    }
    Ok(())
}

#[test]
fn owned_view_keeps_its_moment_and_its_store_open() -> Outcome {
    for medium in media()? {
        let store = Arc::new(medium.store_with("a=1")?);
        let view = store.owned_view();
        store.commit(puts("a=2 b=2"), Durability::Strict)?;
        drop(store);
        assert_eq!(view.get(POINTS, b"a")?, Some(b"1".to_vec()));
        assert_eq!(view.get_many(POINTS, &["b", "a"])?, [None, Some(b"1".to_vec())]);
        assert!(matches!(medium.open(), Err(OpenError::InUse { .. })));
        drop(view);
        assert_eq!(rows(medium.open()?.scan(POINTS, b"", None))?, table("a=2 b=2"));
    }
    Ok(())
}

#[test]
fn unknown_family_is_an_error_of_every_read() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1")?;
        let other = Family::new("other");
        let error = store.get(other, b"a").expect_err("the family is unknown");
        assert!(matches!(error, ReadError::UnknownFamily { family, .. } if family == other));
        assert_eq!(error.blame(), Blame::Bug);
        assert!(store.get_many(other, &["a"]).is_err());
        let mut scan = store.scan(other, b"", None);
        assert!(matches!(scan.next(), Some(Err(ReadError::UnknownFamily { .. }))));
        assert!(scan.next().is_none());
    }
    Ok(())
}

#[test]
fn damaged_table_file_is_an_error_and_not_an_early_end() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let store = Store::create(&path, &FAMILIES)?;
    let mut batch = Batch::default();
    for n in 0..20_000_u32 {
        batch.put(POINTS, &n.to_be_bytes(), format!("payload number {n}").as_bytes());
    }
    store.commit(batch, Durability::Strict)?;
    store.compact()?;
    drop(store);
    damage_the_middle(&files(&path, ".sst")?[0])?;

    let store = Store::open(&path, &FAMILIES)?;
    let error = rows(store.scan(POINTS, b"", None)).expect_err("a block does not match its checksum");
    assert!(matches!(error, ReadError::Corrupt { .. }), "{error}");
    assert_eq!(error.blame(), Blame::Environment);
    let good = store.scan(POINTS, b"", None).take_while(Result::is_ok).count();
    assert!((1..20_000).contains(&good), "{good} rows come before the damage");
    let failures = (0..20_000_u32).filter(|n| store.get(POINTS, &n.to_be_bytes()).is_err()).count();
    assert!(failures > 0, "a lookup in the damaged block fails");
    Ok(())
}

fn damage_the_middle(file: &Path) -> std::io::Result<()> {
    let mut bytes = fs::read(file)?;
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0x55;
    fs::write(file, bytes)
}

#[test]
fn size_on_disk_grows_with_the_data_and_shrinks_when_it_is_deleted_and_compacted() -> Outcome {
    for medium in media()? {
        let store = medium.create()?;
        let empty = store.bytes_on_disk()?;
        let mut batch = Batch::default();
        // Bytes that do not compress: a multiplicative sequence of full period.
        let noise = |n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes();
        for n in 0..100_000 {
            batch.put(POINTS, &noise(n), &noise(!n));
        }
        store.commit(batch, Durability::Relaxed)?;
        let full = store.bytes_on_disk()?;
        assert!(full >= empty + 100_000 * 8);
        let mut batch = Batch::default();
        batch.delete_range(POINTS, b"", &[0xff; 5]);
        store.commit(batch, Durability::Strict)?;
        store.compact()?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table(""));
        assert!(store.bytes_on_disk()? < full / 2);
    }
    Ok(())
}

#[test]
fn a_read_of_a_damaged_table_names_the_file_and_the_block() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let store = store_with(&path, "a=1")?;
    let mut batch = Batch::default();
    (0..20_000_u32).for_each(|n| batch.put(POINTS, &n.to_be_bytes(), &n.to_le_bytes()));
    store.commit(batch, Durability::Strict)?;
    let compacted = store.compact()?;
    assert!(compacted.after < compacted.before, "{compacted:?}: the log is gone");
    drop(store);
    let table = files(&path, ".sst")?.remove(0);
    damage_the_middle(&table)?;
    let store = Store::open(&path, &FAMILIES)?;
    let error = store.scan(POINTS, b"", None).find_map(Result::err).ok_or("a checksum does not match")?;
    let file = fs::canonicalize(&table)?;
    assert!(error.to_string().contains(&*file.to_string_lossy()), "{error}");
    let ReadError::Corrupt { file: Some(found), offset: Some(offset), .. } = error else {
        return Err("the error says where".into());
    };
    assert_eq!(found, file);
    assert!(offset < fs::metadata(&table)?.len() / 3, "the block begins before the changed byte: {offset}");
    Ok(())
}
