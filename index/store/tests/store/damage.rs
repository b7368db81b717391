//! Every byte of a small store changed, every file cut at every length: the rows are right, or the error names the file.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use dehub_store::{Batch, Durability, OpenError, Store};

use crate::support::{FAMILIES, Outcome, PAYLOADS, POINTS, Rows, files, rows};

/// The rows of both families.
type State = [Rows; 2];

/// A closed store, and what it held after each of its commits.
struct Fixture {
    path: PathBuf,
    states: Vec<State>,
}

fn state(store: &Store) -> Result<State, Box<dyn Error + Send + Sync>> {
    let points = rows(store.scan(POINTS, b"", None))?;
    let payloads = rows(store.scan(PAYLOADS, b"", None))?;
    for (family, rows) in FAMILIES.into_iter().zip([&points, &payloads]) {
        let keys: Vec<&[u8]> = rows.iter().map(|(key, _)| key.as_slice()).collect();
        let values = store.get_many(family, &keys)?;
        assert!(values.iter().zip(rows).all(|(found, (_, value))| found.as_ref() == Some(value)));
    }
    Ok([points, payloads])
}

/// Commits of both families, the last ones only in the log; those before in table files if `compacted`.
fn fixture(path: &Path, compacted: bool) -> Result<Fixture, Box<dyn Error>> {
    let store = Store::create(path, &FAMILIES)?;
    let mut states = vec![state(&store).map_err(|error| error.to_string())?];
    for n in 0..8_u8 {
        let mut batch = Batch::default();
        batch.put(POINTS, &[b'a' + n], &[n + 1; 24]);
        batch.put(PAYLOADS, &[b'a' + n], format!("payload {n}").as_bytes());
        if n % 3 == 2 {
            batch.delete_range(PAYLOADS, &[b'a' + n - 2], &[b'a' + n - 1]);
        }
        store.commit(batch, Durability::Strict)?;
        states.push(state(&store).map_err(|error| error.to_string())?);
        if n == 4 && compacted {
            store.compact()?;
        }
    }
    Ok(Fixture { path: path.to_owned(), states })
}

/// A change to one file.
#[derive(Debug, Clone)]
enum Damage {
    Flip { at: usize, by: u8 },
    Cut { to: usize },
    Remove,
}

impl Damage {
    fn of(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = bytes.to_vec();
        match *self {
            Damage::Flip { at, by } => bytes[at] ^= by,
            Damage::Cut { to } => bytes.truncate(to),
            Damage::Remove => return None,
        }
        Some(bytes)
    }
}

/// What came of a damaged store.
enum Verdict {
    /// The number of commits it holds.
    Opened(usize),
    /// It holds what it never held.
    Wrong,
    Refused(String),
}

fn copy_but_for(source: &Path, into: &Path, victim: &Path, bytes: Option<&[u8]>) -> std::io::Result<()> {
    fs::create_dir(into)?;
    for file in files(source, "")? {
        let name = file.file_name().unwrap_or_default();
        // Neither belongs to the data, and RocksDB writes to both.
        if name == "LOCK" || name.to_string_lossy().starts_with("LOG") {
            continue;
        }
        if file != victim {
            fs::hard_link(&file, into.join(name))?;
        } else if let Some(bytes) = bytes {
            fs::write(into.join(name), bytes)?;
        }
    }
    Ok(())
}

fn verdict(fixture: &Fixture, path: &Path) -> Verdict {
    let opened = Store::open(path, &FAMILIES).map_err(|error| error.to_string());
    let read = opened.and_then(|store| state(&store).map_err(|error| error.to_string()));
    match read {
        Err(error) => Verdict::Refused(error),
        Ok(found) => match fixture.states.iter().rposition(|state| *state == found) {
            Some(commits) => Verdict::Opened(commits),
            None => Verdict::Wrong,
        },
    }
}

/// Tries all damages to `victim`, and returns those for which `is_right` says no.
fn holes(
    fixture: &Fixture,
    victim: &Path,
    damages: &[Damage],
    is_right: &(dyn Fn(&Damage, &Verdict) -> bool + Sync),
) -> Result<Vec<String>, Box<dyn Error>> {
    const THREADS: usize = 4;
    let original = fs::read(victim)?;
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<String>, std::io::Error> {
        let directory = tempfile::tempdir()?;
        let mut found = Vec::new();
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let Some(damage) = damages.get(turn) else { return Ok(found) };
            let path = directory.path().join("store");
            copy_but_for(&fixture.path, &path, victim, damage.of(&original).as_deref())?;
            let verdict = verdict(fixture, &path);
            if !is_right(damage, &verdict) {
                let name = victim.file_name().unwrap_or_default().display();
                let said = match verdict {
                    Verdict::Opened(commits) => format!("opened with {commits} commits"),
                    Verdict::Wrong => "opened with wrong rows".to_owned(),
                    Verdict::Refused(error) => error,
                };
                found.push(format!("{name} of {} bytes, {damage:?}: {said}", original.len()));
            }
            fs::remove_dir_all(&path)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let mut found = Vec::new();
        for worker in workers {
            found.extend(worker.join().map_err(|_| "opening panicked")??);
        }
        Ok(found)
    })
}

/// All flips of a file; of one that nothing is read from, some.
fn flips(file: &Path) -> Result<Vec<Damage>, Box<dyn Error>> {
    let length = usize::try_from(fs::metadata(file)?.len())?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let step = if name.starts_with("OPTIONS") { 211 } else { 1 };
    // A table is opened for each of its bytes, so it is flipped in two ways by turns.
    let by = |at: usize| -> &[u8] {
        match (name.ends_with(".sst"), at % 2) {
            (false, _) => &[0x01, 0xff],
            (true, 0) => &[0x01],
            (true, _) => &[0xff],
        }
    };
    Ok((0..length)
        .step_by(step)
        .flat_map(|at| by(at).iter().map(move |&by| Damage::Flip { at, by }))
        .collect())
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files that count, of a store that was closed.
fn victims(fixture: &Fixture) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = files(&fixture.path, "")?;
    found.retain(|file| {
        let name = name_of(file);
        name != "LOCK" && !name.starts_with("LOG")
    });
    Ok(found)
}

fn expect_no_holes(found: Vec<String>) {
    assert!(found.is_empty(), "{} holes:\n{}", found.len(), found.join("\n"));
}

fn no_flip_goes_unnoticed(compacted: bool) -> Outcome {
    let directory = tempfile::tempdir()?;
    let fixture = fixture(&directory.path().join("store"), compacted)?;
    let all = fixture.states.len() - 1;
    let mut found = Vec::new();
    for victim in victims(&fixture)? {
        let name = name_of(&victim);
        let is_right = |_: &Damage, verdict: &Verdict| match verdict {
            Verdict::Opened(commits) => *commits == all,
            Verdict::Wrong => false,
            // RocksDB does not say which table it could not open.
            Verdict::Refused(error) => {
                error.contains(&name)
                    || name.ends_with(".sst") && error.contains("a table file that MANIFEST")
            }
        };
        found.extend(holes(&fixture, &victim, &flips(&victim)?, &is_right)?);
    }
    expect_no_holes(found);
    Ok(())
}

#[test]
fn changed_byte_of_a_store_in_its_log_is_harmless_or_its_file_is_named() -> Outcome {
    no_flip_goes_unnoticed(false)
}

#[test]
fn changed_byte_of_a_store_in_tables_is_harmless_or_its_file_is_named() -> Outcome {
    no_flip_goes_unnoticed(true)
}

fn no_cut_goes_unnoticed(compacted: bool) -> Outcome {
    let directory = tempfile::tempdir()?;
    let fixture = fixture(&directory.path().join("store"), compacted)?;
    let all = fixture.states.len() - 1;
    let newest = files(&fixture.path, ".log")?.pop().ok_or("there is a log")?;
    let mut found = Vec::new();
    for victim in victims(&fixture)? {
        let length = usize::try_from(fs::metadata(&victim)?.len())?;
        let step = if name_of(&victim).starts_with("OPTIONS") { 211 } else { 1 };
        let cuts: Vec<Damage> = (0..length).step_by(step).map(|to| Damage::Cut { to }).collect();
        let is_newest = victim == newest;
        let is_right = |damage: &Damage, verdict: &Verdict| match verdict {
            // What is cut from the newest log is what a crash may take: the last commits, one for one byte.
            Verdict::Opened(commits) if is_newest => match damage {
                Damage::Cut { to } if to + 40 >= length => *commits == all - 1,
                Damage::Flip { .. } | Damage::Cut { .. } | Damage::Remove => *commits < all,
            },
            Verdict::Opened(commits) => *commits == all,
            Verdict::Wrong => false,
            Verdict::Refused(error) => error.contains(&*fixture_names(error)),
        };
        found.extend(holes(&fixture, &victim, &cuts, &is_right)?);
    }
    expect_no_holes(found);
    Ok(())
}

/// The kind of file an error names; what a MANIFEST no longer says may be seen in another file.
fn fixture_names(error: &str) -> String {
    let kinds = ["MANIFEST-", ".log", ".sst", "CURRENT", "family"];
    kinds.into_iter().find(|kind| error.contains(kind)).unwrap_or("no file").to_owned()
}

#[test]
fn cut_file_of_a_store_in_its_log_is_harmless_or_refused() -> Outcome {
    no_cut_goes_unnoticed(false)
}

#[test]
fn cut_file_of_a_store_in_tables_is_harmless_or_refused() -> Outcome {
    no_cut_goes_unnoticed(true)
}

#[test]
fn lost_file_is_harmless_or_refused() -> Outcome {
    for compacted in [false, true] {
        let directory = tempfile::tempdir()?;
        let fixture = fixture(&directory.path().join("store"), compacted)?;
        let all = fixture.states.len() - 1;
        for victim in victims(&fixture)? {
            let is_right = |_: &Damage, verdict: &Verdict| match verdict {
                Verdict::Opened(commits) => *commits == all,
                Verdict::Wrong => false,
                Verdict::Refused(_) => true,
            };
            expect_no_holes(holes(&fixture, &victim, &[Damage::Remove], &is_right)?);
        }
    }
    Ok(())
}

#[test]
fn log_of_another_time_is_refused_and_named() -> Outcome {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store");
    let store = Store::create(&path, &FAMILIES)?;
    let put = |n: u8| -> Batch {
        let mut batch = Batch::default();
        batch.put(POINTS, b"key", &[n]);
        batch
    };
    let mut old = Vec::new();
    for n in 0..3 {
        store.commit(put(n), Durability::Strict)?;
        let log = files(&path, ".log")?.pop().ok_or("there is a log")?;
        old.push(fs::read(log)?);
        store.compact()?;
    }
    store.commit(put(9), Durability::Strict)?;
    drop(store);
    let log = files(&path, ".log")?.pop().ok_or("there is a log")?;
    let own = fs::read(&log)?;
    for other in old {
        fs::write(&log, other)?;
        let error = Store::open(&path, &FAMILIES).expect_err("the log is an older one");
        let names_it =
            matches!(&error, OpenError::Corrupt { file: Some(file), .. } if file.ends_with(name_of(&log)));
        assert!(names_it, "{error}");
    }
    fs::write(&log, own)?;
    assert_eq!(Store::open(&path, &FAMILIES)?.get(POINTS, b"key")?, Some(vec![9]));
    Ok(())
}
