//! A look at the logs and the MANIFEST before RocksDB opens them.
//!
//! RocksDB takes the first thing it cannot read in a log for the end of it, drops what follows and deletes the log.
//! After a crash that is right, for what was cut off was not acknowledged; after damage it loses commits without a
//! word. So what a crash can leave is told from what it cannot, and RocksDB is not let near the latter.
//!
//! A crash may leave: the newest log torn at its end; one log more, empty; table files that belong to nothing; a
//! MANIFEST torn at its end. It does not leave: a record that cannot be read before one that can; changes that are
//! missing between two others; a log or a MANIFEST that lost what deleted logs had been replaced by.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::Torn;
use crate::log_file::{self, End, LogError};
use crate::manifest::Manifest;

/// What a batch in a log begins with: the number of its first change (8 bytes) and how many there are (4).
const BATCH_HEADER: usize = 12;

/// Why a store is not to be opened.
#[derive(Debug)]
pub(crate) enum CheckError {
    /// A file is not what was written, or is lost.
    Damaged { file: PathBuf, offset: Option<u64>, cause: String },
    /// It could not be read.
    Io { error: io::Error },
}

fn damaged<T>(file: PathBuf, offset: Option<u64>, cause: impl Into<String>) -> Result<T, CheckError> {
    Err(CheckError::Damaged { file, offset, cause: cause.into() })
}

/// Reads the head, the MANIFEST and the logs of the store in `directory`. A file that goes away meanwhile is a lost
/// one, so this is for a store that nobody has open. Returns what RocksDB is going to drop.
pub(crate) fn check(directory: &Path) -> Result<Option<Torn>, CheckError> {
    let manifest = read_manifest(directory)?;
    let logs = numbers(directory, ".log")?;
    let orphans = numbers(directory, ".sst")?.into_iter().any(|number| !manifest.has_table(number));
    let first = manifest.first_log();
    let mut replay = Replay { manifest: &manifest, next: None, torn: None };
    let alive: Vec<u64> = logs.into_iter().filter(|&number| number >= first).collect();
    for &number in &alive {
        replay.read(&path_of(directory, number), number)?;
    }
    // An opening makes a log before it says that it did, and the last log is never deleted.
    if alive.is_empty() && manifest.last_log() > 0 {
        return damaged(path_of(directory, manifest.last_log()), None, "the log is missing");
    }
    // The oldest log is one that the MANIFEST has heard of, unless the logs before it were deleted, which is done only
    // when the MANIFEST says so.
    let is_unheard_of = alive.first().is_some_and(|&oldest| oldest >= manifest.next_file);
    if is_unheard_of && !manifest.is_partial && (replay.next.is_some() || orphans) {
        let file = directory.join(current_name(directory)?);
        return damaged(file, None, "its end is missing, or a log that it needs is");
    }
    let Some((file, offset)) = replay.torn else { return Ok(None) };
    let bytes = written_after(&file, offset).map_err(|error| CheckError::Io { error })?;
    Ok((bytes > 0).then_some(Torn { file, offset, bytes }))
}

/// How much of the file there is from `offset` on, up to the last byte that is not zero.
fn written_after(file: &Path, offset: u64) -> io::Result<u64> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut written = 0;
    for (position, byte) in (1..).zip(BufReader::new(file).bytes()) {
        if byte? != 0 {
            written = position;
        }
    }
    Ok(written)
}

fn path_of(directory: &Path, log: u64) -> PathBuf {
    directory.join(format!("{log:06}.log"))
}

/// The numbers in the names of files of one kind, ascending.
fn numbers(directory: &Path, suffix: &str) -> Result<Vec<u64>, CheckError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| CheckError::Io { error })? {
        let name = entry.map_err(|error| CheckError::Io { error })?.file_name();
        let number: Option<u64> =
            name.to_str().and_then(|name| name.strip_suffix(suffix)).and_then(|name| name.parse().ok());
        found.extend(number);
    }
    found.sort_unstable();
    Ok(found)
}

/// The name of the MANIFEST, which is all that the file CURRENT holds.
fn current_name(directory: &Path) -> Result<String, CheckError> {
    let file = directory.join("CURRENT");
    let text = fs::read(&file).map_err(|error| CheckError::Io { error })?;
    let name = str::from_utf8(&text).ok().and_then(|text| text.strip_suffix('\n'));
    let number = name.and_then(|name| name.strip_prefix("MANIFEST-"));
    match (name, number) {
        (Some(name), Some(number))
            if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            Ok(name.to_owned())
        }
        _ => damaged(file, None, "it does not name a MANIFEST"),
    }
}

fn read_manifest(directory: &Path) -> Result<Manifest, CheckError> {
    let name = current_name(directory)?;
    let path = directory.join(&name);
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return damaged(directory.join("CURRENT"), None, format!("it names {name}, which is missing"));
        }
        file => file.map_err(|error| CheckError::Io { error })?,
    };
    let number = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let mut manifest = Manifest::default();
    let end = log_file::read(file, number, usize::MAX, |edit, _| {
        manifest.apply(edit);
        Ok(())
    });
    // What a torn end would have said did not come into force.
    end.map_err(|error| in_file(path, error))?;
    Ok(manifest)
}

fn in_file(file: PathBuf, error: LogError) -> CheckError {
    match error {
        LogError::Damaged { offset, cause } => CheckError::Damaged { file, offset: Some(offset), cause },
        LogError::Io(error) => CheckError::Io { error },
    }
}

/// The logs one after the other, as RocksDB would replay them.
struct Replay<'a> {
    manifest: &'a Manifest,
    /// The number that the next change has to have; `None` before the first one.
    next: Option<u64>,
    /// The log that is torn, and where.
    torn: Option<(PathBuf, u64)>,
}

impl Replay<'_> {
    fn read(&mut self, path: &Path, number: u64) -> Result<(), CheckError> {
        let file = File::open(path).map_err(|error| CheckError::Io { error })?;
        let mut is_first = true;
        let mut torn = None;
        let end = log_file::read(file, number, BATCH_HEADER, |batch, offset| {
            torn = torn.take().or_else(|| self.torn.take());
            if torn.is_some() {
                return Err(LogError::Damaged { offset, cause: String::new() });
            }
            self.take(batch, number, is_first).map_err(|cause| LogError::Damaged { offset, cause })?;
            is_first = false;
            Ok(())
        });
        if let Some((file, offset)) = torn {
            let later = path.file_name().unwrap_or_default().display();
            return damaged(file, Some(offset), format!("a record is cut off, and {later} goes on after it"));
        }
        if let End::Torn(offset) = end.map_err(|error| in_file(path.to_owned(), error))? {
            self.torn = Some((path.to_owned(), offset));
        }
        Ok(())
    }

    /// Holds a batch against those before it.
    fn take(&mut self, batch: &[u8], log: u64, is_first: bool) -> Result<(), String> {
        let Some((header, _)) = batch.split_first_chunk::<BATCH_HEADER>() else {
            return Err("a record is too short for a batch".to_owned());
        };
        let [a, b, c, d, e, f, g, h, count @ ..] = *header;
        let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let count = u64::from(u32::from_le_bytes(count));
        if !self.manifest.is_partial {
            let before = self.manifest.before_log(log);
            if is_first && first <= before {
                return Err(format!("change {first} is in it, and {before} is older than this log"));
            }
            let latest = self.manifest.last_sequence + 1;
            if self.next.is_none() && first > latest {
                return Err(format!("the changes from {latest} up to {first} are missing"));
            }
        }
        if let Some(next) = self.next.filter(|&next| next != first) {
            return Err(format!("change {first} follows where {next} was to come"));
        }
        self.next = Some(first.saturating_add(count));
        Ok(())
    }
}
