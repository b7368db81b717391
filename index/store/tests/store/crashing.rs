//! Killed processes and torn logs: what was acknowledged is there, and what is there is a prefix of the commits.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;

use dehub_store::{Batch, Durability, Store};

use crate::support::{FAMILIES, Outcome, PAYLOADS, POINTS, child, child_store, files, rows};

/// A child that is not killed stops here, so that a broken test ends.
const COMMITS_MAX: u32 = 100_000;

/// Commit `n` writes one row to each family, so that half a commit shows.
fn commit(store: &Store, n: u32, durability: Durability) -> Outcome {
    let mut batch = Batch::default();
    batch.put(POINTS, &n.to_be_bytes(), &[n as u8; 100]);
    batch.put(PAYLOADS, &n.to_be_bytes(), b"payload");
    Ok(store.commit(batch, durability)?)
}

/// The number of commits in the store, which must be the first ones and whole.
fn whole_commits(path: &Path) -> Result<u32, Box<dyn Error>> {
    let store = Store::open(path, &FAMILIES)?;
    let keys = |family| -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
        Ok(rows(store.scan(family, b"", None))?.into_iter().map(|(key, _)| key).collect())
    };
    let points = keys(POINTS)?;
    let count = u32::try_from(points.len())?;
    assert_eq!(
        points,
        (0..count).map(|n| n.to_be_bytes().to_vec()).collect::<Vec<_>>(),
        "a prefix of the commits"
    );
    assert_eq!(points, keys(PAYLOADS)?, "each commit is whole");
    Ok(count)
}

#[test]
fn killed_process_loses_no_strict_commit() -> Outcome {
    kill_after_some_commits("crashing::killed_process_loses_no_strict_commit", Durability::Strict)
}

#[test]
fn killed_process_loses_no_relaxed_commit_either() -> Outcome {
    kill_after_some_commits("crashing::killed_process_loses_no_relaxed_commit_either", Durability::Relaxed)
}

fn kill_after_some_commits(test: &str, durability: Durability) -> Outcome {
    if let Some(path) = child_store() {
        return commit_and_report(&path, durability);
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(Store::create(&path, &FAMILIES)?);
    let mut total = 0;
    for wanted in [1, 20, 150] {
        let acknowledged = acknowledged_before_kill(test, &path, total + wanted)?;
        total = whole_commits(&path)?;
        assert!(total >= acknowledged, "{acknowledged} were acknowledged, {total} are there");
    }
    Ok(())
}

/// Continues where the store ends, and reports the number of commits in it after each one.
fn commit_and_report(path: &Path, durability: Durability) -> Outcome {
    let first = whole_commits(path)?;
    let store = Store::open(path, &FAMILIES)?;
    for n in first..COMMITS_MAX {
        commit(&store, n, durability)?;
        writeln!(stdout(), "\nacknowledged {}", n + 1)?;
    }
    Err("nobody killed this process".into())
}

/// Runs a child until it reports `wanted` commits, kills it, and returns the last number it reported.
fn acknowledged_before_kill(test: &str, path: &Path, wanted: u32) -> Result<u32, Box<dyn Error>> {
    let mut child = child(test, path)?.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("the child has an output")?).lines();
    let mut acknowledged = 0;
    while acknowledged < wanted {
        let line = lines.next().ok_or("the child ended early")??;
        if let Some(number) = line.strip_prefix("acknowledged ") {
            acknowledged = number.parse()?;
        }
    }
    child.kill()?;
    // Commits that it acknowledged before it died count as well.
    for line in lines {
        if let Some(number) = line?.strip_prefix("acknowledged ") {
            acknowledged = number.parse().unwrap_or(acknowledged);
        }
    }
    assert!(!child.wait()?.success());
    Ok(acknowledged)
}

#[test]
fn truncated_log_opens_with_a_prefix_of_the_commits() -> Outcome {
    const COMMITS: u32 = 40;
    let mut found = Vec::new();
    for cut in [0, 1, 7, 50, 500, 3000, u64::MAX] {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("store");
        let store = Store::create(&path, &FAMILIES)?;
        (0..COMMITS).try_for_each(|n| commit(&store, n, Durability::Strict))?;
        drop(store);
        let logs = files(&path, ".log")?;
        let newest = logs.last().ok_or("there is a log")?;
        let length = fs::metadata(newest)?.len();
        OpenOptions::new().write(true).open(newest)?.set_len(length.saturating_sub(cut))?;

        let count = whole_commits(&path)?;
        let store = Store::open(&path, &FAMILIES)?;
        commit(&store, count, Durability::Strict)?;
        drop(store);
        assert_eq!(whole_commits(&path)?, count + 1, "the store goes on where it ends");
        found.push(count);
    }
    assert_eq!(found[0], COMMITS, "nothing is cut, nothing is lost");
    assert_eq!(found[1], COMMITS - 1, "one byte takes one commit");
    assert!(found.is_sorted_by(|longer, shorter| longer >= shorter), "{found:?}");
    assert_eq!(found.last(), Some(&0));
    Ok(())
}
