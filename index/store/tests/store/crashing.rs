//! Killed processes and torn logs: what was acknowledged is there, and what is there is a prefix of the commits.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;

use dehub_store::{Batch, Durability, OpenError, Store};

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

#[test]
fn store_killed_again_and_again_always_opens() -> Outcome {
    const KILLS: u32 = 48;
    const TEST: &str = "crashing::store_killed_again_and_again_always_opens";
    if let Some(path) = child_store() {
        return commit_and_compact(&path);
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(Store::create(&path, &FAMILIES)?);
    let mut total = 0;
    for kill in 0..KILLS {
        // From the middle of an opening to the middle of a flush: no two children get equally far.
        let wanted = if kill % 4 == 0 { 0 } else { total + kill % 7 };
        let acknowledged = acknowledged_before_kill(TEST, &path, wanted)?;
        total = whole_commits(&path)?;
        assert!(total >= acknowledged, "kill {kill}: {acknowledged} were acknowledged, {total} are there");
    }
    assert!(total > KILLS, "children get on: {total}");
    Ok(())
}

#[test]
fn creation_killed_at_any_moment_is_completed_or_was_complete() -> Outcome {
    const KILLS: u64 = 30;
    const TEST: &str = "crashing::creation_killed_at_any_moment_is_completed_or_was_complete";
    if let Some(path) = child_store() {
        writeln!(stdout(), "\nacknowledged 0")?;
        stdout().flush()?;
        let _store = Store::create(&path, &FAMILIES)?;
        loop {
            std::thread::park();
        }
    }
    for kill in 0..KILLS {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("store");
        let mut child = child(TEST, &path)?.spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("the child has an output")?).lines();
        for line in lines {
            if line?.starts_with("acknowledged") {
                break;
            }
        }
        // Longer each time, so that the kills fall all over the creation.
        std::thread::sleep(std::time::Duration::from_millis(kill));
        child.kill()?;
        child.wait()?;
        let store = match Store::create(&path, &FAMILIES) {
            Err(OpenError::Exists { .. }) => Store::open(&path, &FAMILIES)?,
            created => created?,
        };
        commit(&store, 0, Durability::Strict)?;
        drop(store);
        assert_eq!(whole_commits(&path)?, 1, "kill {kill}");
    }
    Ok(())
}

/// Continues where the store ends, with flushes and compactions beside the commits.
fn commit_and_compact(path: &Path) -> Outcome {
    // The parent may kill from here on.
    writeln!(stdout(), "\nacknowledged 0")?;
    let store = Store::open(path, &FAMILIES)?;
    let first = u32::try_from(store.scan(POINTS, b"", None).count())?;
    std::thread::scope(|scope| -> Outcome {
        let compacting = scope.spawn(|| -> Result<(), dehub_store::CompactError> {
            loop {
                store.compact()?;
            }
        });
        for n in first..COMMITS_MAX {
            let durability = if n % 3 == 0 { Durability::Strict } else { Durability::Relaxed };
            commit(&store, n, durability)?;
            writeln!(stdout(), "\nacknowledged {}", n + 1)?;
        }
        Err(format!("nobody killed this process: {:?}", compacting.join()).into())
    })
}

/// More than the write buffer takes, so that the points go to a table and a new log begins, while the payloads, which
/// are few, keep the old log alive.
const LARGE_COMMITS: u32 = 80;

fn commit_large_points(path: &Path) -> Outcome {
    let store = Store::open(path, &FAMILIES)?;
    for n in 0..LARGE_COMMITS {
        let mut batch = Batch::default();
        batch.put(POINTS, &n.to_be_bytes(), &vec![n as u8; 1024 * 1024]);
        batch.put(PAYLOADS, &n.to_be_bytes(), b"payload");
        store.commit(batch, Durability::Relaxed)?;
    }
    // The table is there, so the log that it came from is not needed for the points.
    while files(path, ".sst")?.is_empty() {
        std::thread::yield_now();
    }
    writeln!(stdout(), "\nacknowledged {LARGE_COMMITS}")?;
    stdout().flush()?;
    loop {
        std::thread::park();
    }
}

#[test]
fn store_with_several_logs_opens_whole_and_damage_to_the_older_one_is_named() -> Outcome {
    const TEST: &str = "crashing::store_with_several_logs_opens_whole_and_damage_to_the_older_one_is_named";
    if let Some(path) = child_store() {
        return commit_large_points(&path);
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    drop(Store::create(&path, &FAMILIES)?);
    assert_eq!(acknowledged_before_kill(TEST, &path, LARGE_COMMITS)?, LARGE_COMMITS);
    let logs = files(&path, ".log")?;
    assert!(logs.len() > 1, "{logs:?}");
    let bytes = fs::read(&logs[0])?;
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    let mut holed = bytes.clone();
    holed.drain(bytes.len() / 2..bytes.len() / 2 + 32 * 1024);
    for damaged in [&flipped, &holed, &bytes[..bytes.len() - 1].to_vec(), &bytes[..40_000].to_vec()] {
        fs::write(&logs[0], damaged)?;
        let error = Store::open(&path, &FAMILIES).expect_err("the older log is damaged");
        let names_it = matches!(&error, OpenError::Corrupt { file: Some(file), .. } if file.ends_with(logs[0].file_name().unwrap_or_default()));
        assert!(names_it, "{error}");
    }
    fs::write(&logs[0], bytes)?;
    assert_eq!(whole_commits(&path)?, LARGE_COMMITS);
    Ok(())
}

#[test]
fn zeros_after_the_last_record_are_space_and_nothing_is_lost() -> Outcome {
    for zeros in [1, 6, 7, 100, 4096, 40_000, 100_000] {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("store");
        let store = Store::create(&path, &FAMILIES)?;
        (0..300).try_for_each(|n| commit(&store, n, Durability::Relaxed))?;
        store.sync()?;
        drop(store);
        let log = files(&path, ".log")?.pop().ok_or("there is a log")?;
        let length = fs::metadata(&log)?.len();
        OpenOptions::new().write(true).open(&log)?.set_len(length + zeros)?;
        assert_eq!(whole_commits(&path)?, 300, "{zeros}");
    }
    Ok(())
}

#[test]
fn pages_that_did_not_arrive_before_a_power_cut_are_a_torn_end() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let store = Store::create(&path, &FAMILIES)?;
    (0..3).try_for_each(|n| commit(&store, n, Durability::Strict))?;
    let mut batch = Batch::default();
    batch.put(POINTS, &3_u32.to_be_bytes(), &[7; 20_000]);
    batch.put(PAYLOADS, &3_u32.to_be_bytes(), b"payload");
    store.commit(batch, Durability::Relaxed)?;
    drop(store);
    let log = files(&path, ".log")?.pop().ok_or("there is a log")?;
    let mut bytes = fs::read(&log)?;
    bytes[8192..].fill(0);
    fs::write(&log, bytes)?;
    assert_eq!(whole_commits(&path)?, 3);
    Ok(())
}
