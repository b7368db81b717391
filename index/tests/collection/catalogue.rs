//! Collections as a whole: made once, opened once, deleted whole.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dehub_index::{Blame, Catalogue, CatalogueError, CollectionState, MendOutcome, Name, WriteError};
use dehub_vector::Metric;

use crate::made::{config, name, point, store_folder};

fn names(catalogue: &Catalogue) -> Vec<String> {
    catalogue.names().expect("a readable folder").iter().map(Name::to_string).collect()
}

fn catalogue(folder: &Path) -> Catalogue {
    Catalogue::new(folder)
}

#[test]
fn a_file_among_the_collections_is_none_of_them() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = catalogue(folder.path());
    catalogue.create(&name("x"), config(3, Metric::Dot)).expect("free");
    fs::write(folder.path().join("collections/notes"), "mine").expect("writable");
    std::os::unix::fs::symlink("nowhere", folder.path().join("collections/lost")).expect("writable");
    assert_eq!(names(&catalogue), ["x"]);
    assert_eq!(catalogue.states().expect("readable").len(), 1);
    assert!(matches!(catalogue.get(&name("notes")), Err(CatalogueError::Unknown { .. })));
}

#[test]
fn a_collection_whose_folder_is_gone_takes_no_writes_and_serves_what_it_has() {
    for gone in ["", "collections", "collections/x"] {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let catalogue = catalogue(folder.path());
        let collection = catalogue.create(&name("x"), config(3, Metric::Dot)).expect("free");
        collection.upsert(&[point(1, &[1.0, 0.0, 0.0])]).expect("a good point");
        let taken = folder.path().join(gone);
        let away = taken.with_extension("away");
        fs::rename(&taken, &away).expect("writable");
        for _ in 0..2 {
            let refused = collection.upsert(&[point(2, &[1.0, 0.0, 0.0])]).expect_err("nobody would find it");
            assert!(matches!(refused, WriteError::WriterFailed { .. }), "{refused}");
            assert!(refused.to_string().contains("removed or replaced"), "{refused}");
        }
        assert_eq!(collection.snapshot().len(), 1);
        assert!(collection.writer().failure.is_some());
        if gone.is_empty() {
            let refused = catalogue.create(&name("y"), config(3, Metric::Dot)).err().expect("not there");
            assert_eq!(refused.blame(), Blame::Environment, "{refused}");
            assert!(!taken.exists(), "no data directory without a lock");
        }
        drop(collection);
        fs::rename(&away, &taken).expect("writable");
        let mended = catalogue.mend();
        assert!(matches!(mended[0].outcome, MendOutcome::Reopened), "{mended:?}");
        let collection = catalogue.get(&name("x")).expect("there again");
        collection.upsert(&[point(2, &[1.0, 0.0, 0.0])]).expect("it takes writes");
        assert_eq!(collection.snapshot().len(), 2);
    }
}

#[test]
fn a_name_is_taken_once_and_free_again_after_a_delete() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = catalogue(&folder.path().join("not/there/yet"));
    assert!(names(&catalogue).is_empty());
    let (first, second) = (name("b"), name("a(k=1),x"));
    catalogue.create(&first, config(3, Metric::Dot)).expect("free");
    catalogue.create(&second, config(4, Metric::Cosine)).expect("free");
    assert_eq!(names(&catalogue), ["a(k=1),x", "b"]);
    let taken = catalogue.create(&first, config(5, Metric::Dot)).err().expect("taken");
    assert!(matches!(&taken, CatalogueError::Exists { name, .. } if *name == first), "{taken}");
    assert_eq!(taken.blame(), Blame::Caller);
    assert_eq!(catalogue.get(&first).expect("there").snapshot().config(), &config(3, Metric::Dot));
    catalogue.delete(&first).expect("there");
    assert_eq!(names(&catalogue), ["a(k=1),x"]);
    let made = catalogue.create(&first, config(5, Metric::Euclidean)).expect("free again");
    assert_eq!((made.snapshot().config(), made.snapshot().len()), (&config(5, Metric::Euclidean), 0));
}

#[test]
fn an_unknown_collection_is_named_and_so_are_the_others() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = catalogue(folder.path());
    let missing = |wanted: &str| catalogue.get(&name(wanted)).err().expect("not there").to_string();
    assert!(missing("x").contains("no collection `x`") && missing("x").contains("none"), "{}", missing("x"));
    catalogue.create(&name("y"), config(3, Metric::Dot)).expect("free");
    assert!(missing("x").ends_with("it has: y"), "{}", missing("x"));
    let error = catalogue.delete(&name("x")).expect_err("not there");
    assert!(matches!(error, CatalogueError::Unknown { .. }));
    assert_eq!(error.blame(), Blame::Caller);
    assert_eq!(names(&catalogue), ["y"], "asking makes nothing");
}

#[test]
fn a_folder_that_is_in_use_is_not_opened_twice() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (first, second) = (catalogue(folder.path()), catalogue(folder.path()));
    let made = first.create(&name("x"), config(2, Metric::Dot)).expect("free");
    made.upsert(&[point(1, &[1.0, 2.0])]).expect("a good point");
    for error in [second.get(&name("x")).err(), second.delete(&name("x")).err()] {
        let error = error.expect("in use");
        assert!(matches!(error, CatalogueError::Open(_)) && error.to_string().contains("in use"), "{error}");
        assert_eq!(error.blame(), Blame::Environment);
    }
    assert!(matches!(second.create(&name("x"), config(2, Metric::Dot)), Err(CatalogueError::Exists { .. })));
    made.upsert(&[point(2, &[1.0, 2.0])]).expect("the first is not disturbed");
    drop((made, first));
    assert_eq!(second.get(&name("x")).expect("free now").snapshot().len(), 2);
}

#[test]
fn one_catalogue_gives_out_one_collection() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = catalogue(folder.path());
    let made = catalogue.create(&name("x"), config(2, Metric::Dot)).expect("free");
    let again = catalogue.get(&name("x")).expect("there");
    made.upsert(&[point(1, &[1.0, 2.0])]).expect("a good point");
    assert_eq!(again.snapshot().len(), 1);
}

#[test]
fn a_snapshot_outlives_the_collection_it_is_of() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = catalogue(folder.path());
    let made = catalogue.create(&name("x"), config(2, Metric::Dot)).expect("free");
    made.upsert(&[point(1, &[1.0, 2.0])]).expect("a good point");
    let snapshot = made.snapshot();
    drop(made);
    catalogue.delete(&name("x")).expect("there");
    assert_eq!(snapshot.points(&[0]).expect("still readable")[0].id, 1.into());
    // The name is free at once, whoever still reads what had it.
    let again = catalogue.create(&name("x"), config(3, Metric::Dot)).expect("free");
    again.upsert(&[point(2, &[1.0, 2.0, 3.0])]).expect("a good point");
    assert_eq!(snapshot.points(&[0]).expect("still readable")[0].id, 1.into());
    drop(snapshot);
    drop((again, catalogue));
    let reopened = Catalogue::new(folder.path()).get(&name("x")).expect("whole");
    assert_eq!(reopened.snapshot().points(&[0]).expect("readable")[0].id, 2.into());
}

/// What a crash may leave behind: folders that were being made or deleted.
#[test]
fn remains_of_a_crash_are_no_collections_and_in_nobody_s_way() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = catalogue(folder.path());
    let collections = folder.path().join("collections");
    fs::create_dir_all(collections.join(".deleted-x/store")).expect("writable");
    fs::write(collections.join(".deleted-x/store/old"), "old").expect("writable");
    assert!(names(&catalogue).is_empty());
    catalogue.create(&name("x"), config(2, Metric::Dot)).expect("free");
    catalogue.delete(&name("x")).expect("there");
    assert!(!collections.join(".deleted-x").exists());
    // What others may be at work on is nobody's remains; what is there when the directory is locked alone is.
    fs::create_dir_all(collections.join(".new-y/store")).expect("writable");
    fs::write(collections.join(".new-y/store/CURRENT"), "half").expect("writable");
    assert!(names(&catalogue).is_empty());
    catalogue.lock_exclusively().expect("nobody else is there");
    assert!(!collections.join(".new-y").exists());
    let made = catalogue.create(&name("y"), config(2, Metric::Dot)).expect("half a collection holds no name");
    made.upsert(&[point(1, &[1.0, 2.0])]).expect("a good point");
    assert_eq!(names(&catalogue), ["y"]);
}

#[test]
fn bytes_on_disk_are_counted() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let made = catalogue(folder.path()).create(&name("x"), config(2, Metric::Dot)).expect("free");
    made.upsert(&[point(1, &[1.0, 2.0])]).expect("a good point");
    assert!(made.bytes_on_disk() > 0);
}

#[test]
fn a_collection_that_does_not_open_can_still_be_deleted() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let made = Catalogue::new(folder.path()).create(&name("x"), config(3, Metric::Cosine)).expect("free");
    drop(made);
    let current = store_folder(&folder.path().join("collections/x")).join("CURRENT");
    fs::write(current, "nonsense").expect("writable");
    let catalogue = Catalogue::new(folder.path());
    assert!(matches!(catalogue.get(&name("x")), Err(CatalogueError::Open(_))));
    catalogue.delete(&name("x")).expect("damage is no reason to stay");
    assert!(catalogue.names().expect("readable").is_empty());
    catalogue.create(&name("x"), config(3, Metric::Cosine)).expect("the name is free again");
}

/// Holds a collection's place with `with_closed` in a thread until told to let go.
fn while_closed(catalogue: &Catalogue, closed: &str, meanwhile: impl FnOnce()) {
    let (is_closed, may_end) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let closing = scope.spawn(|| {
            catalogue.with_closed(&name(closed), |path| {
                assert!(path.ends_with(closed) && path.is_dir());
                is_closed.store(true, Ordering::Release);
                while !may_end.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(1));
                }
            })
        });
        while !is_closed.load(Ordering::Acquire) {
            assert!(!closing.is_finished(), "it closes");
            thread::sleep(Duration::from_millis(1));
        }
        meanwhile();
        may_end.store(true, Ordering::Release);
        closing.join().expect("no panic").expect("nobody held it");
    });
}

#[test]
fn who_asks_for_a_closed_collection_waits_and_who_asks_for_another_does_not() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = catalogue(folder.path());
    for held in ["a", "b"] {
        catalogue.create(&name(held), config(2, Metric::Dot)).expect("free");
    }
    thread::scope(|scope| {
        let mut waiting = None;
        while_closed(&catalogue, "a", || {
            assert!(matches!(catalogue.begin(&name("a")), Ok(CollectionState::Closing)));
            let late = catalogue.get_within(&name("a"), Duration::from_millis(20)).err().expect("closed");
            assert!(matches!(&late, CatalogueError::Late { name, .. } if name.as_str() == "a"), "{late}");
            assert_eq!(late.blame(), Blame::Environment);
            waiting = Some(scope.spawn(|| catalogue.get(&name("a")).map(|it| it.snapshot().len())));
            catalogue.get(&name("b")).expect("open").upsert(&[point(1, &[1.0, 2.0])]).expect("a good point");
            catalogue.delete(&name("b")).expect("open");
            catalogue.create(&name("c"), config(2, Metric::Dot)).expect("free");
            assert!(!waiting.as_ref().expect("it waits").is_finished());
        });
        assert_eq!(waiting.expect("it waited").join().expect("no panic").expect("it opens"), 0);
    });
    let states = catalogue.states().expect("readable");
    let states: Vec<_> = states.iter().map(|(name, state)| (name.as_str(), state.name())).collect();
    assert_eq!(states, [("a", "open"), ("c", "open")]);
}

#[test]
fn a_collection_that_is_held_or_read_is_not_closed() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = catalogue(folder.path());
    let made = catalogue.create(&name("x"), config(2, Metric::Dot)).expect("free");
    made.upsert(&[point(1, &[1.0, 2.0])]).expect("a good point");
    let read = made.snapshot();
    made.upsert(&[point(2, &[1.0, 2.0])]).expect("a good point");
    let (held, snapshot) = (AtomicBool::new(true), AtomicBool::new(true));
    thread::scope(|scope| {
        let closed = scope.spawn(|| {
            catalogue.with_closed(&name("x"), |_| {
                assert!(
                    !held.load(Ordering::Acquire) && !snapshot.load(Ordering::Acquire),
                    "let go of first"
                );
            })
        });
        thread::sleep(Duration::from_millis(30));
        held.store(false, Ordering::Release);
        drop(made);
        thread::sleep(Duration::from_millis(30));
        assert_eq!(read.points(&[0]).expect("still readable")[0].id, 1.into());
        snapshot.store(false, Ordering::Release);
        drop(read);
        closed.join().expect("no panic").expect("let go of");
    });
    assert_eq!(catalogue.get(&name("x")).expect("it opens").snapshot().len(), 2);
}

#[test]
fn a_panic_while_a_collection_is_closed_frees_its_place() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let catalogue = catalogue(folder.path());
    catalogue.create(&name("x"), config(2, Metric::Dot)).expect("free");
    thread::scope(|scope| {
        let panicked = scope.spawn(|| catalogue.with_closed(&name("x"), |_| panic!("while it is closed")));
        panicked.join().expect_err("it panics");
    });
    assert_eq!(catalogue.get(&name("x")).expect("the place is free").snapshot().len(), 0);
}

#[test]
fn many_who_ask_at_once_get_one_collection_or_one_error() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let made = Catalogue::new(folder.path()).create(&name("x"), config(2, Metric::Dot)).expect("free");
    made.upsert(&[point(1, &[1.0, 2.0])]).expect("a good point");
    drop(made);
    let ask_all = |catalogue: &Catalogue| {
        thread::scope(|scope| {
            let askers: Vec<_> = (0..8)
                .map(|place| {
                    scope.spawn(move || match place % 2 {
                        0 => catalogue.get(&name("x")),
                        _ => catalogue.get_within(&name("x"), Duration::from_secs(20)),
                    })
                })
                .collect();
            askers.into_iter().map(|asker| asker.join().expect("no panic")).collect::<Vec<_>>()
        })
    };
    let opened = ask_all(&catalogue(folder.path()));
    let first = opened[0].as_ref().expect("it opens");
    for other in &opened {
        assert!(std::ptr::eq(&raw const **first, &raw const **other.as_ref().expect("it opens")));
    }
    drop(opened);
    let current = store_folder(&folder.path().join("collections/x")).join("CURRENT");
    fs::write(current, "nonsense").expect("writable");
    let catalogue = catalogue(folder.path());
    for outcome in ask_all(&catalogue) {
        let error = outcome.err().expect("damaged");
        assert!(matches!(&error, CatalogueError::Open(error) if error.is_damage()), "{error}");
    }
    let states = catalogue.states().expect("readable");
    assert!(matches!(&states[&name("x")], CollectionState::Failed { error } if error.is_damage()));
}

#[test]
fn a_collection_that_is_begun_opens_by_itself() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    drop(catalogue(folder.path()).create(&name("x"), config(2, Metric::Dot)).expect("free"));
    let catalogue = catalogue(folder.path());
    assert!(matches!(catalogue.begin(&name("y")), Err(CatalogueError::Unknown { .. })));
    assert_eq!(catalogue.states().expect("readable")[&name("x")].name(), "closed");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !matches!(catalogue.begin(&name("x")), Ok(CollectionState::Open)) {
        assert!(Instant::now() < deadline, "it opens");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(catalogue.open_ones().len(), 1);
}

#[test]
fn a_data_directory_has_one_server_or_any_number_of_others() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let data = folder.path().join("data");
    let (first, second) = (catalogue(&data), catalogue(&data));
    assert!(matches!(first.get(&name("x")), Err(CatalogueError::Unknown { .. })));
    assert!(!data.exists(), "asking makes nothing");
    first.create(&name("x"), config(2, Metric::Dot)).expect("free");
    second.create(&name("y"), config(2, Metric::Dot)).expect("beside the first");
    let in_use = |error: CatalogueError| {
        let CatalogueError::InUse { holders, .. } = &error else { panic!("{error}") };
        assert!(holders.iter().any(|holder| holder.process == std::process::id()), "{error}");
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        assert_eq!(error.blame(), Blame::Environment);
    };
    in_use(first.lock_exclusively().expect_err("there is another"));
    drop(second);
    first.lock_exclusively().expect("nobody else is there");
    first.lock_exclusively().expect("held already");
    let second = catalogue(&data);
    in_use(second.get(&name("x")).err().expect("served"));
    in_use(second.delete(&name("x")).expect_err("served"));
    in_use(second.create(&name("z"), config(2, Metric::Dot)).err().expect("served"));
    in_use(second.lock_exclusively().expect_err("served"));
    assert_eq!(names(&second), ["x", "y"], "names are read without the lock");
    drop(first);
    second.get(&name("x")).expect("free again");
}
