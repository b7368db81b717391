//! Creating, opening and copying stores, and the errors a user reads when it does not work.

use std::fs;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;

use dehub_store::{Blame, CheckpointError, Durability, Family, Holder, OpenError, Store};

use crate::support::{
    FAMILIES, Outcome, PAYLOADS, POINTS, child, child_store, files, puts, rows, store_with, table,
};

#[test]
fn store_holds_its_data_when_it_is_reopened() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("missing/above/store");
    drop(store_with(&path, "a=1 b=2")?);
    let store = Store::open(&path, &FAMILIES)?;
    assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=1 b=2"));
    assert_eq!(store.path(), fs::canonicalize(&path)?);
    Ok(())
}

#[test]
fn opening_a_missing_store_names_the_path_and_creates_nothing() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let error = Store::open(&path, &FAMILIES).expect_err("there is no store");
    assert_eq!(error, OpenError::Missing { path: path.clone() });
    assert_eq!(error.blame(), Blame::Caller);
    assert_eq!(error.to_string(), format!("there is no store at {}", path.display()));
    assert!(!path.exists());

    fs::create_dir(&path)?;
    assert!(matches!(Store::open(&path, &FAMILIES), Err(OpenError::Missing { .. })));
    assert_eq!(fs::read_dir(&path)?.count(), 0);
    Ok(())
}

#[test]
fn creating_refuses_an_existing_store_and_leaves_it_alone() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(store_with(&path, "a=1")?);
    let error = Store::create(&path, &FAMILIES).expect_err("there is a store");
    assert_eq!(error, OpenError::Exists { path: path.clone() });
    assert_eq!(error.blame(), Blame::Caller);
    let more = [POINTS, PAYLOADS, Family::new("more")];
    assert_eq!(
        Store::create(&path, &more).expect_err("there is data"),
        OpenError::Exists { path: path.clone() }
    );
    assert_eq!(rows(Store::open(&path, &FAMILIES)?.scan(POINTS, b"", None))?, table("a=1"));
    Ok(())
}

#[test]
fn creating_an_empty_store_twice_is_refused_too() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(Store::create(&path, &FAMILIES)?);
    assert!(matches!(Store::create(&path, &FAMILIES), Err(OpenError::Exists { .. })));
    Ok(())
}

#[test]
fn interrupted_creation_is_completed_by_creating_again() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(Store::create(&path, &[POINTS])?);
    assert!(matches!(Store::open(&path, &FAMILIES), Err(OpenError::MissingFamily { .. })));
    let store = Store::create(&path, &FAMILIES)?;
    store.commit(puts("a=1"), Durability::Strict)?;
    Ok(())
}

#[test]
fn store_of_another_version_is_refused_and_the_family_is_named() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(store_with(&path, "a=1")?);
    let path = fs::canonicalize(path)?;
    let error = Store::open(&path, &[POINTS]).expect_err("a family is unknown");
    assert_eq!(error, OpenError::UnknownFamily { path: path.clone(), family: "payloads".to_owned() });
    assert_eq!(error.blame(), Blame::Environment);
    let error =
        Store::open(&path, &[POINTS, PAYLOADS, Family::new("more")]).expect_err("a family is missing");
    assert_eq!(error, OpenError::MissingFamily { path: path.clone(), family: "more".to_owned() });
    assert!(Store::open(&path, &[POINTS, PAYLOADS, POINTS]).is_ok());
    Ok(())
}

#[test]
fn second_open_in_one_process_is_in_use_by_whatever_path() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let store = store_with(&path, "a=1")?;
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link)?;
    for spelling in [path.clone(), link, path.join("..").join("store")] {
        let error = Store::open(&spelling, &FAMILIES).expect_err("the store is open");
        let holder = Holder::ThisProcess;
        assert_eq!(error, OpenError::InUse { path: store.path().to_owned(), holder });
        assert_eq!(error.blame(), Blame::Environment);
    }
    assert!(matches!(Store::create(&path, &FAMILIES), Err(OpenError::Exists { .. })));
    store.commit(puts("b=1"), Durability::Strict)?;
    drop(store);
    Store::open(&path, &FAMILIES)?;
    Ok(())
}

#[test]
fn second_process_is_told_which_one_uses_the_store() -> Outcome {
    if let Some(path) = child_store() {
        let error = Store::open(&path, &FAMILIES).expect_err("the parent has it open");
        writeln!(stdout(), "\nrefused {error}")?;
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let store = store_with(&path, "a=1")?;
    // A failed second open in this process must not let go of the lock.
    assert!(Store::open(&path, &FAMILIES).is_err());
    assert!(store.bytes_on_disk()? > 0);
    let mut child = child("opening::second_process_is_told_which_one_uses_the_store", &path)?.spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("the child has an output")?).lines();
    let said: Vec<String> = lines.collect::<Result<_, _>>()?;
    assert!(child.wait()?.success(), "the child failed: {said:?}");
    let refusal =
        said.iter().find_map(|line| line.strip_prefix("refused ")).ok_or("the child was not refused")?;
    // Where the system lists no locks, no number is known.
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let is_listed = locks.split_whitespace().any(|word| word == std::process::id().to_string());
    let holder = if is_listed { Holder::Process(std::process::id()) } else { Holder::AnotherProcess };
    let wanted = format!(
        "the store at {} is in use by {holder}; one process at a time can open it, so stop that one first",
        store.path().display()
    );
    assert_eq!(refusal, wanted);
    Ok(())
}

#[test]
fn regular_file_is_not_taken_for_a_store() -> Outcome {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("file");
    fs::write(&file, "not a store")?;
    for path in [file.clone(), file.join("below")] {
        let opened = Store::open(&path, &FAMILIES).expect_err("a file is in the way");
        assert_eq!(opened, OpenError::NotADirectory { path: path.clone() });
        let created = Store::create(&path, &FAMILIES).expect_err("a file is in the way");
        assert_eq!(created, OpenError::NotADirectory { path });
    }
    assert_eq!(fs::read(&file)?, b"not a store");
    Ok(())
}

#[test]
fn directory_that_may_not_be_written_is_denied() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(store_with(&path, "a=1")?);
    set_writable(&path, false)?;
    let is_enforced = fs::write(path.join("probe"), "").is_err();
    let opened = Store::open(&path, &FAMILIES);
    set_writable(&path, true)?;
    // Permissions do not bind the superuser; `regular_file_is_not_taken_for_a_store` is what can be had then.
    if is_enforced {
        let error = opened.expect_err("the directory is read-only");
        assert!(matches!(error, OpenError::Denied { .. }), "{error}");
        assert_eq!(error.blame(), Blame::Environment);
    }
    Ok(())
}

fn set_writable(directory: &Path, writable: bool) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = |directory_mode, file_mode| if writable { directory_mode } else { file_mode };
    for entry in fs::read_dir(directory)? {
        fs::set_permissions(entry?.path(), fs::Permissions::from_mode(mode(0o644, 0o444)))?;
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(mode(0o755, 0o555)))
}

#[test]
fn damaged_head_is_corrupt_with_path_and_cause() -> Outcome {
    let garbage = b"\x00garbage that no database has ever written\xff".as_slice();
    for (suffix, bytes) in [
        ("CURRENT", garbage),
        ("CURRENT", b"MANIFEST-999999\n"),
        ("CURRENT", b""),
        ("MANIFEST-*", garbage),
        ("MANIFEST-*", b""),
    ] {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("store");
        drop(store_with(&path, "a=1")?);
        let victim = match suffix {
            "CURRENT" => path.join("CURRENT"),
            _ => path.join(fs::read_to_string(path.join("CURRENT"))?.trim()),
        };
        fs::write(victim, bytes)?;
        let error = Store::open(&path, &FAMILIES).expect_err("the head is damaged");
        assert!(matches!(&error, OpenError::Corrupt { cause, .. } if !cause.is_empty()), "{suffix}: {error}");
        assert_eq!(error.blame(), Blame::Environment);
        assert!(error.to_string().contains(&*fs::canonicalize(&path)?.to_string_lossy()));
    }
    Ok(())
}

#[test]
fn data_files_without_a_head_are_neither_opened_nor_overwritten() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(store_with(&path, "a=1")?);
    fs::remove_file(path.join("CURRENT"))?;
    let before = files(&path, "")?;
    assert!(matches!(Store::open(&path, &FAMILIES), Err(OpenError::Corrupt { .. })));
    assert!(matches!(Store::create(&path, &FAMILIES), Err(OpenError::Corrupt { .. })));
    assert_eq!(files(&path, "")?, before);
    Ok(())
}

#[test]
fn lost_table_file_is_corrupt() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let store = store_with(&path, "a=1")?;
    store.compact()?;
    drop(store);
    fs::remove_file(&files(&path, ".sst")?[0])?;
    let error = Store::open(&path, &FAMILIES).expect_err("a file is lost");
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    Ok(())
}

#[test]
fn checkpoint_opens_and_holds_the_data_of_its_moment() -> Outcome {
    let directory = tempfile::tempdir()?;
    let store = store_with(&directory.path().join("store"), "a=1 b=2")?;
    store.compact()?;
    store.commit(puts("c=3"), Durability::Relaxed)?;
    let into = directory.path().join("checkpoint");
    store.checkpoint(&into)?;
    store.commit(puts("a=9 d=4"), Durability::Strict)?;
    assert_eq!(files(&into, ".log")?.len(), 1, "a store without its log is taken for one that lost it");

    let copy = Store::open(&into, &FAMILIES)?;
    assert_eq!(rows(copy.scan(POINTS, b"", None))?, table("a=1 b=2 c=3"));
    copy.commit(puts("a=7"), Durability::Strict)?;
    copy.compact()?;
    assert_eq!(rows(store.scan(POINTS, b"", None))?, table("a=9 b=2 c=3 d=4"));
    Ok(())
}

#[test]
fn checkpoint_needs_a_new_directory_in_an_existing_one() -> Outcome {
    let directory = tempfile::tempdir()?;
    let store = store_with(&directory.path().join("store"), "a=1")?;
    let into = directory.path().join("checkpoint");
    fs::create_dir(&into)?;
    let error = store.checkpoint(&into).expect_err("the directory exists");
    assert_eq!(error, CheckpointError::Exists { into });
    assert_eq!(error.blame(), Blame::Caller);
    let into = directory.path().join("missing/checkpoint");
    let error = store.checkpoint(&into).expect_err("the parent is missing");
    assert_eq!(error, CheckpointError::ParentMissing { into });
    Ok(())
}
