//! The end of the newest log after a power cut: a last record whose pages did not all arrive is cut off and told of,
//! and anything else that cannot be read is refused.

use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use dehub_store::{Batch, Durability, OpenError, Store, Torn};

use crate::support::{FAMILIES, Outcome, POINTS, Rows, files, rows};

const PAGE: usize = 4096;
const BLOCK: usize = 32 * 1024;

/// Closed, with one row from each commit.
struct Fixture {
    path: PathBuf,
    log: PathBuf,
    bytes: Vec<u8>,
    /// Where each record begins in the log, and where the last one ends.
    bounds: Vec<usize>,
    rows: Rows,
}

impl Fixture {
    fn new(path: &Path, values: &[Vec<u8>]) -> Result<Fixture, Box<dyn Error>> {
        let store = Store::create(path, &FAMILIES)?;
        let log = files(path, ".log")?.pop().ok_or("there is a log")?;
        let end = || -> Result<usize, Box<dyn Error>> { Ok(usize::try_from(fs::metadata(&log)?.len())?) };
        let mut bounds = vec![end()?];
        for (n, value) in (0_u32..).zip(values) {
            let mut batch = Batch::default();
            batch.put(POINTS, &n.to_be_bytes(), value);
            store.commit(batch, Durability::Strict)?;
            bounds.push(end()?);
        }
        let rows = rows(store.scan(POINTS, b"", None))?;
        drop(store);
        let bytes = fs::read(&log)?;
        assert_eq!(bounds.last(), Some(&bytes.len()));
        Ok(Fixture { path: path.to_owned(), log, bytes, bounds, rows })
    }

    fn last(&self) -> Range<usize> {
        self.record(self.rows.len() - 1)
    }

    fn record(&self, n: usize) -> Range<usize> {
        self.bounds[n]..self.bounds[n + 1]
    }

    /// A copy whose log is `bytes`.
    fn copy(&self, into: &Path, bytes: &[u8]) -> std::io::Result<()> {
        fs::create_dir(into)?;
        for file in files(&self.path, "")? {
            fs::copy(&file, into.join(file.file_name().unwrap_or_default()))?;
        }
        fs::write(into.join(self.log.file_name().unwrap_or_default()), bytes)
    }

    fn zeroed(&self, zeros: Range<usize>) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[zeros].fill(0);
        bytes
    }

    /// Opens with all but the last commit, says what was cut off, and goes on from there.
    fn expect_torn(&self, what: &str, bytes: &[u8]) -> Outcome {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("store");
        self.copy(&path, bytes)?;
        let store = Store::open(&path, &FAMILIES).map_err(|error| format!("{what}: {error}"))?;
        let mut expected = self.rows[..self.rows.len() - 1].to_vec();
        assert!(rows(store.scan(POINTS, b"", None))? == expected, "{what}: the prefix");
        let start = self.last().start;
        let written = bytes[start..].iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let file = fs::canonicalize(&path)?.join(self.log.file_name().unwrap_or_default());
        let torn = Torn { file, offset: start as u64, bytes: written as u64 };
        assert_eq!(store.torn(), Some(&torn).filter(|torn| torn.bytes > 0), "{what}");

        let mut batch = Batch::default();
        batch.put(POINTS, b"z", b"later");
        store.commit(batch, Durability::Strict)?;
        drop(store);
        expected.push((b"z".to_vec(), b"later".to_vec()));
        let store = Store::open(&path, &FAMILIES)?;
        assert!(rows(store.scan(POINTS, b"", None))? == expected, "{what}: it goes on");
        assert_eq!(store.torn(), None, "{what}: it is told once");
        Ok(())
    }

    fn expect_refused(&self, what: &str, bytes: &[u8]) -> Outcome {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("store");
        self.copy(&path, bytes)?;
        let opened = Store::open(&path, &FAMILIES).map(|store| rows(store.scan(POINTS, b"", None)));
        let names_it = matches!(&opened, Err(OpenError::Corrupt { file: Some(file), .. }) if file.ends_with(self.log.file_name().unwrap_or_default()));
        assert!(names_it, "{what}: {:?}", opened.map(|rows| rows.map(|rows| rows.len())));
        Ok(())
    }
}

/// Without a zero.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8 | 1
    };
    (0..length).map(|_| byte()).collect()
}

/// What the last record is like: in one page, over several, over several blocks, after one that is so too.
fn fixtures(directory: &Path) -> Result<Vec<(String, Fixture)>, Box<dyn Error>> {
    let shapes: [&[usize]; 6] = [
        &[100, 200, 300],
        &[100, 100, 20_000],
        &[100, 100_000],
        &[100, 9000, 70_000],
        &[70_000, 25_000, 120_000],
        &[100, 70_000, 2000],
    ];
    let build = |shape: &&[usize]| -> Result<(String, Fixture), Box<dyn Error>> {
        let values: Vec<Vec<u8>> = shape.iter().zip(1..).map(|(&length, seed)| noise(length, seed)).collect();
        let what = format!("{shape:?}");
        let fixture = Fixture::new(&directory.join(&what), &values)?;
        Ok((what, fixture))
    };
    shapes.iter().map(build).collect()
}

/// The pages that hold a part of `record`; of the first one, what is there of the record.
fn pages(record: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let (start, end) = (record.start, record.end);
    (start / PAGE..end.div_ceil(PAGE)).map(move |page| start.max(page * PAGE)..end.min((page + 1) * PAGE))
}

#[test]
fn any_missing_page_of_the_last_record_is_a_torn_end() -> Outcome {
    let directory = tempfile::tempdir()?;
    for (shape, fixture) in fixtures(directory.path())? {
        let all: Vec<Range<usize>> = pages(&fixture.last()).collect();
        // Each page, and each page together with another one that is missing as well.
        for (n, page) in all.iter().enumerate() {
            let mut bytes = fixture.zeroed(page.clone());
            fixture.expect_torn(&format!("{shape}, page {n} of {}", all.len()), &bytes)?;
            let other = (n * 7 + 3) % all.len();
            bytes[all[other].clone()].fill(0);
            fixture.expect_torn(&format!("{shape}, pages {n} and {other} of {}", all.len()), &bytes)?;
        }
    }
    Ok(())
}

#[test]
fn zeros_from_the_inside_of_the_last_record_on_are_a_torn_end() -> Outcome {
    let directory = tempfile::tempdir()?;
    for (shape, fixture) in fixtures(directory.path())? {
        let last = fixture.last();
        let pages = (1..).map(|pages| pages * PAGE).take_while(|&zeros| zeros < last.len());
        let blocks = [BLOCK - 1, BLOCK, BLOCK + 1].into_iter().filter(|&zeros| zeros < last.len());
        for zeros in (2..=64).chain(pages).chain(blocks).chain([last.len()]) {
            let bytes = fixture.zeroed(last.end - zeros..last.end);
            fixture.expect_torn(&format!("{shape}, {zeros} zeros"), &bytes)?;
        }
        // The file got longer than what is in it.
        let mut bytes = fixture.zeroed(last.end - 5..last.end);
        bytes.resize(bytes.len() + 3 * PAGE, 0);
        fixture.expect_torn(&format!("{shape}, zeros beyond"), &bytes)?;
        // One zero is one changed byte.
        let bytes = fixture.zeroed(last.end - 1..last.end);
        fixture.expect_refused(&format!("{shape}, a zero"), &bytes)?;
    }
    Ok(())
}

#[test]
fn missing_page_of_an_earlier_record_is_damage() -> Outcome {
    let directory = tempfile::tempdir()?;
    let mut tried = 0;
    for (shape, fixture) in fixtures(directory.path())? {
        let last = fixture.last();
        for n in 0..fixture.rows.len() - 1 {
            for page in pages(&fixture.record(n)) {
                fixture.expect_refused(&format!("{shape}, record {n}, {page:?}"), &fixture.zeroed(page))?;
                tried += 1;
            }
        }
        // It does not help that the last one is torn, for it still can be read that it was begun.
        if last.len() > 2 * BLOCK && fixture.rows.len() > 2 {
            let mut bytes = fixture.zeroed(pages(&fixture.record(1)).nth(1).ok_or("there are two pages")?);
            bytes.truncate(last.end - 5000);
            fixture.expect_refused(&format!("{shape}, cut"), &bytes)?;
        }
    }
    assert!(tried > 50, "{tried}");
    Ok(())
}

#[test]
fn changed_byte_of_a_last_record_that_ends_in_zeros_is_damage() -> Outcome {
    let directory = tempfile::tempdir()?;
    for zeros in [1, 2, 8, 100] {
        let mut value = noise(120, 5);
        value.extend(vec![0; zeros]);
        let fixture =
            Fixture::new(&directory.path().join(zeros.to_string()), &[noise(50, 1), noise(50, 2), value])?;
        for space in [0, 1000, 2 * PAGE] {
            let mut bytes = fixture.bytes.clone();
            bytes.resize(bytes.len() + space, 0);
            for at in fixture.last() {
                for by in [0x01, 0x04, 0xff] {
                    bytes[at] ^= by;
                    fixture.expect_refused(&format!("{zeros} zeros, {space} more, {at} by {by}"), &bytes)?;
                    bytes[at] ^= by;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn changed_byte_of_a_last_record_of_several_blocks_is_damage() -> Outcome {
    let directory = tempfile::tempdir()?;
    for (shape, fixture) in fixtures(directory.path())? {
        let last = fixture.last();
        let headers = (last.start.next_multiple_of(BLOCK)..last.end).step_by(BLOCK).flat_map(|at| at..at + 7);
        for at in last.clone().step_by(997).chain(last.start..last.start + 7).chain(headers) {
            let mut bytes = fixture.bytes.clone();
            bytes[at] ^= 0xff;
            fixture.expect_refused(&format!("{shape}, {at}"), &bytes)?;
        }
    }
    Ok(())
}

#[test]
fn whole_log_and_space_after_it_are_not_told() -> Outcome {
    let directory = tempfile::tempdir()?;
    for (shape, fixture) in fixtures(directory.path())? {
        for space in [0, 5, PAGE, 3 * BLOCK] {
            let mut bytes = fixture.bytes.clone();
            bytes.resize(bytes.len() + space, 0);
            let path = directory.path().join("copy");
            fixture.copy(&path, &bytes)?;
            let store = Store::open(&path, &FAMILIES)?;
            assert_eq!(store.torn(), None, "{shape}, {space}");
            assert!(rows(store.scan(POINTS, b"", None))? == fixture.rows, "{shape}, {space}");
            drop(store);
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}
