//! Parts of a store: each is a store of its own to whoever has its handle, and one commit changes several.

use dehub_store::{Batch, Durability, Family};

use crate::support::{Outcome, PAYLOADS, POINTS, media, puts, rows, table};

#[test]
fn a_part_has_its_own_records_and_no_others() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1 z=2")?;
        let (first, last) = (store.within(PAYLOADS, 1), store.within(PAYLOADS, u16::MAX));
        first.commit(puts("a=3 b=4 c=5"), Durability::Strict)?;
        last.commit(puts("a=6 \u{ff}=7"), Durability::Strict)?;
        let mut batch = Batch::default();
        batch.put(PAYLOADS, b"a", b"8");
        first.commit(batch, Durability::Strict)?;
        let view = first.view();
        let mut batch = Batch::default();
        batch.delete_range(POINTS, b"b", b"c");
        batch.delete(POINTS, b"a");
        first.commit(batch, Durability::Strict)?;
        for _ in 0..2 {
            assert_eq!(rows(first.scan(POINTS, b"", None))?, table("c=5"));
            assert_eq!(rows(first.scan(PAYLOADS, b"", None))?, table("a=8"));
            assert_eq!(rows(last.scan(POINTS, b"", None))?, table("a=6 \u{ff}=7"));
            assert_eq!(rows(last.scan(POINTS, b"b", None))?, table("\u{ff}=7"));
            assert_eq!(rows(last.scan_prefix(POINTS, b"a"))?, table("a=6"));
            assert_eq!(rows(last.scan(PAYLOADS, b"", None))?, table(""));
            assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=1 z=2"));
            assert_eq!((first.get(POINTS, b"a")?, first.get(POINTS, b"c")?), (None, Some(b"5".to_vec())));
            assert_eq!(last.get_many(POINTS, &["a", "c"])?, [Some(b"6".to_vec()), None]);
        }
        assert_eq!(rows(view.scan(POINTS, b"", None))?, table("a=3 b=4 c=5"));
        assert_eq!(rows(view.within(PAYLOADS, u16::MAX).scan(POINTS, b"", None))?, table("a=6 \u{ff}=7"));
        assert_eq!(rows(view.whole().scan(POINTS, b"", None))?, table("a=1 z=2"));
        let owned = store.owned_view().within(PAYLOADS, 1);
        assert_eq!((owned.get(POINTS, b"c")?, owned.whole().get(POINTS, b"c")?), (Some(b"5".to_vec()), None));
        assert!(first.commit(other(), Durability::Strict).is_err());
        assert!(first.scan(Family::new("other"), b"", None).next().is_some_and(|row| row.is_err()));
    }
    Ok(())
}

fn other() -> Batch {
    let mut batch = Batch::default();
    batch.put(Family::new("other"), b"a", b"1");
    batch
}

#[test]
fn parts_are_changed_together_and_found_again() -> Outcome {
    for medium in media()? {
        let store = medium.store_with("a=1")?;
        let part = store.within(PAYLOADS, 7);
        let mut both = puts("a=2");
        both.append(part.as_of_whole(puts("a=3 b=4")));
        assert_eq!(both.len(), 3);
        store.commit(both, Durability::Strict)?;
        let watch = part.watch();
        assert_eq!(store.handles(), 2);
        drop(store);
        assert!(watch.is_open());
        drop(part);
        assert!(!watch.is_open());
        let store = medium.open()?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=2"));
        assert_eq!(rows(store.within(PAYLOADS, 7).scan(POINTS, b"", None))?, table("a=3 b=4"));
    }
    Ok(())
}
