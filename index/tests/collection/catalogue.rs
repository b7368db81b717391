//! Collections as a whole: made once, opened once, deleted whole.

use std::fs;
use std::path::Path;

use dehub_index::{Blame, Catalogue, CatalogueError, Name};
use dehub_vector::Metric;

use crate::made::{config, name, point, store_folder};

fn names(catalogue: &Catalogue) -> Vec<String> {
    catalogue.names().expect("a readable folder").iter().map(Name::to_string).collect()
}

fn catalogue(folder: &Path) -> Catalogue {
    Catalogue::new(folder)
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
    fs::create_dir_all(collections.join(".new-y/store")).expect("writable");
    fs::write(collections.join(".new-y/store/CURRENT"), "half").expect("writable");
    assert!(names(&catalogue).is_empty());
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
