//! A process stops where a test wants it to, and can be killed there.

use std::error::Error;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::Stdio;

use dehub_store::{Counts, Durability, FailPoint, Store};

use crate::support::{FAMILIES, Outcome, POINTS, child, child_store, puts, rows, table};

const TEST: &str = "fail_points::armed_point_stops_its_thread_until_the_kill";

#[test]
fn armed_point_stops_its_thread_until_the_kill() -> Outcome {
    if let Some(path) = child_store() {
        return commit_sync_and_compact(&path);
    }
    // A point that is not reached so often stops nothing.
    for (setting, said, left) in [
        ("before-commit", "reached before-commit", ""),
        ("after-commit", "reached after-commit", "a=1"),
        ("before-commit:2", "reached before-commit", "a=1"),
        ("after-commit:2", "reached after-commit", "a=1 b=2"),
        ("after-sync", "reached after-sync", "a=1"),
        ("after-sync:2", "reached after-sync", "a=1 b=2"),
        ("checkpoint-made", "reached checkpoint-made", "a=1 b=2"),
        ("compact-begun", "reached compact-begun", "a=1 b=2"),
        ("compact-done", "reached compact-done", "a=1 b=2"),
        ("compact-done:2", "done", "a=1 b=2"),
    ] {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("store");
        drop(Store::create(&path, &FAMILIES)?);
        assert_eq!(last_word(&path, setting)?, said, "{setting}");
        let store = Store::open(&path, &FAMILIES)?;
        assert_eq!(rows(store.scan(POINTS, b"", None))?, table(left), "{setting}");
    }
    Ok(())
}

fn commit_sync_and_compact(path: &Path) -> Outcome {
    let store = Store::open(path, &FAMILIES)?;
    std::thread::scope(|scope| -> Outcome {
        let writer = scope.spawn(|| -> Result<(), Box<dyn Error + Send + Sync>> {
            store.commit(puts("a=1"), Durability::Strict)?;
            store.commit(puts("b=2"), Durability::Relaxed)?;
            store.sync()?;
            store.checkpoint(&path.with_extension("copy"))?;
            store.compact()?;
            Ok(())
        });
        if writer.join().expect("the writer does not panic").is_err() {
            return Err("the writer failed".into());
        }
        Ok(())
    })?;
    assert_eq!(store.counts(), Counts { commits: 2, syncs: 2 });
    writeln!(stdout(), "\ndone")?;
    stdout().flush()?;
    FailPoint::UpgradeBegun.reach();
    loop {
        std::thread::park();
    }
}

/// Runs a child until it stands still, kills it, and returns the line that said where.
fn last_word(path: &Path, setting: &str) -> Result<String, Box<dyn Error>> {
    let mut command = child(TEST, path)?;
    let mut child = command.env("DEHUB_FAIL_POINT", setting).stderr(Stdio::null()).spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("the child has an output")?).lines();
    let mut word = None;
    for line in lines {
        let line = line?;
        if line.starts_with("reached ") || line == "done" {
            word = Some(line);
            break;
        }
    }
    child.kill()?;
    assert!(!child.wait()?.success());
    Ok(word.ok_or("the child ended early")?)
}

#[test]
fn setting_that_names_no_point_ends_the_process_at_once() -> Outcome {
    if let Some(path) = child_store() {
        return commit_sync_and_compact(&path);
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(Store::create(&path, &FAMILIES)?);
    let mut command = child("fail_points::setting_that_names_no_point_ends_the_process_at_once", &path)?;
    let output = command.env("DEHUB_FAIL_POINT", "after-lunch").stderr(Stdio::piped()).output()?;
    assert!(!output.status.success());
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("after-lunch"), "{said}");
    Ok(())
}
