//! A damaged repository: an error that names what is wrong, never wrong files.

use std::fs;
use std::ops::ControlFlow;

use dehub_backup::{BackupError, Repository};

use crate::{COPY, Files, LINK, about, bytes, collection, fetch, go_on, read, store, write};

/// A repository in a directory with one backup of small files, and its files.
fn small() -> (tempfile::TempDir, Repository, Files) {
    let work = tempfile::tempdir().expect("a folder");
    let repository = Repository::in_directory(work.path());
    let files: Files = [("a", bytes(1, 40)), ("b/c", bytes(2, 7)), ("b/d", Vec::new())]
        .map(|(path, bytes)| (path.to_owned(), bytes))
        .into();
    store(&repository, &files, 5, COPY);
    (work, repository, files)
}

#[test]
fn any_bit_flipped_any_end_cut_off_and_any_file_missing_is_found_and_named() {
    let (work, repository, files) = small();
    let everything: Files = read(work.path()).into_iter().filter(|(path, _)| path != "x/.lock").collect();
    assert_eq!(everything.len(), 4, "three objects and a manifest");
    let refused = |what: &str| {
        let error = fetch(&repository, None).err();
        let error = error.unwrap_or_else(|| panic!("{what}: it is fetched"));
        let checked = repository.check("x", None, &mut go_on);
        let found = checked.as_ref().map_or_else(|_| 1, |checked| checked.damage.len());
        assert!(found > 0, "{what}: the check finds nothing");
        error
    };
    for (name, held) in &everything {
        let path = work.path().join(name);
        let is_manifest = name.ends_with(".json");
        let is_named = |error: &BackupError| {
            matches!(error, BackupError::Object { object, .. } if !is_manifest && object == name)
                || matches!(error, BackupError::Manifest { backup, .. } if is_manifest && name.contains(backup))
        };
        for at in 0..held.len() {
            let mut flipped = held.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, flipped).expect("writable");
            let error = refused(&format!("{name}, byte {at}"));
            assert!(is_named(&error) && error.is_damage(), "{name}, byte {at}: {error}");
            fs::write(&path, &held[..at]).expect("writable");
            let error = refused(&format!("{name}, cut to {at}"));
            assert!(is_named(&error), "{name}, cut to {at}: {error}");
        }
        fs::write(&path, [held.as_slice(), b"x"].concat()).expect("writable");
        assert!(is_named(&refused(&format!("{name}, longer"))), "{name}");
        fs::remove_file(&path).expect("there");
        let error = refused(&format!("{name}, missing"));
        assert!(is_named(&error) || is_manifest && matches!(error, BackupError::Unknown { .. }), "{error}");
        fs::write(&path, held).expect("writable");
    }
    assert_eq!(fetch(&repository, None).expect("it is whole again"), files);
}

#[test]
fn a_check_names_every_damaged_file() {
    let (work, repository, _) = small();
    for path in fs::read_dir(work.path().join("x/objects")).expect("readable").flatten() {
        fs::write(path.path(), "damaged").expect("writable");
    }
    let checked = repository.check("x", None, &mut go_on).expect("the manifest is right");
    let texts: Vec<String> = checked.damage.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(
        ["file a of", "file b/c of", "file b/d of"]
            .iter()
            .zip(&texts)
            .all(|(part, text)| text.contains(part))
    );
}

#[test]
fn the_newest_backup_is_not_passed_over_when_it_is_damaged() {
    let (work, repository, files) = small();
    let first = repository.list("x").expect("readable").backups[0].id.clone();
    let second = store(&repository, &files, 6, COPY).info.id;
    let manifest = work.path().join(format!("x/backups/{second}.json"));
    fs::write(&manifest, "{}").expect("writable");
    let error = fetch(&repository, None).expect_err("damaged");
    assert!(
        matches!(&error, BackupError::Manifest { backup, .. } if *backup == second.to_string()),
        "{error}"
    );
    let listing = repository.list("x").expect("readable");
    assert_eq!((listing.backups.len(), listing.damaged.len()), (1, 1));
    assert_eq!(fetch(&repository, Some(&first)).expect("the other is whole"), files);
    // Nobody knows what it needs, so nothing is removed beside it; it can be removed itself.
    assert!(matches!(repository.prune("x", 2), Err(BackupError::Manifest { .. })));
    assert!(matches!(repository.remove("x", &first), Err(BackupError::Manifest { .. })));
    assert_eq!(repository.remove("x", &second).expect("removed").objects, 0);
    assert_eq!(fetch(&repository, None).expect("the other is whole"), files);
}

#[test]
fn a_manifest_under_another_name_is_damage() {
    let (work, repository, _) = small();
    let id = repository.list("x").expect("readable").backups[0].id.clone();
    let backups = work.path().join("x/backups");
    let other = backups.join("20990101T000000Z-9.json");
    fs::copy(backups.join(format!("{id}.json")), &other).expect("copied");
    let error = fetch(&repository, None).expect_err("it is not what it is called");
    assert!(matches!(error, BackupError::Manifest { .. }), "{error}");
    fs::create_dir_all(work.path().join("y")).expect("writable");
    fs::rename(&backups, work.path().join("y/backups")).expect("renamed");
    let error = repository.check("y", Some(&id), &mut go_on).expect_err("it is of x");
    assert!(error.to_string().contains("wanted `y`"), "{error}");
}

#[test]
fn a_backup_that_is_stopped_anywhere_leaves_none_and_the_next_is_whole() {
    let work = tempfile::tempdir().expect("a folder");
    let source = work.path().join("source");
    write(&source, &collection());
    for after in 0..40 {
        let repository = Repository::in_directory(&work.path().join(format!("repository {after}")));
        let mut told = 0;
        let stored = repository.store("x", &source, about(1), COPY, &mut |_| {
            told += 1;
            if told > after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match stored {
            Err(error) => {
                assert!(matches!(error, BackupError::Stopped), "{error}");
                assert!(repository.list("x").expect("readable").backups.is_empty());
            }
            Ok(_) => assert!(after > 10, "it was stopped after {after} steps"),
        }
        repository.store("x", &source, about(1), LINK, &mut go_on).expect("stored");
        assert_eq!(fetch(&repository, None).expect("there"), collection());
    }
}

#[test]
fn nothing_is_fetched_over_what_is_there() {
    let (work, repository, _) = small();
    let into = work.path().join("x/objects");
    let error = repository.fetch("x", None, &into, &mut go_on).expect_err("it is not empty");
    assert!(matches!(error, BackupError::Unfit { .. }), "{error}");
}
