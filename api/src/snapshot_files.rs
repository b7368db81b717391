//! The files of snapshots: `DATA/snapshots/COLLECTION/NAME.snapshot`, and beside each its SHA-256.
//!
//! A snapshot is there once it has its name, and is whole then. While it is written it has another name and is
//! locked, so whoever finds such a file that is not locked removes it.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use dehub_index::{Catalogue, Name};
use ring::digest::{Context, SHA256};

use crate::archive;

/// How the names of snapshots end …
const ENDING: &str = ".snapshot";
/// … of their checksums …
const CHECKSUM: &str = ".checksum";
/// … and of snapshots that are being written.
const PARTIAL: &str = ".partial";

/// The longest name of a file.
const NAME_BYTES_MAX: usize = 255 - CHECKSUM.len() - PARTIAL.len();

/// Bytes that are hashed at a time.
const BLOCK_BYTES: usize = 1 << 16;

/// The snapshots of a data directory.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotFiles {
    folder: PathBuf,
}

/// A snapshot that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotInfo {
    pub(crate) name: String,
    /// In UTC, such as `2026-01-31T23:59:59`.
    pub(crate) created: String,
    pub(crate) bytes: u64,
    /// SHA-256 in hexadecimal digits; none of one that was put there by hand.
    pub(crate) checksum: Option<String>,
}

/// Why there is no such snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    /// No file of this name is a snapshot.
    #[error("there is no snapshot `{wanted}` of `{collection}`; there are: {found}")]
    Unknown { collection: Name, wanted: String, found: String },
    /// The place of a snapshot is none where there may be one.
    #[error("{0}")]
    Location(&'static str),
    /// It has another checksum.
    #[error("the snapshot has the SHA-256 {found}, wanted {wanted}: it is not what was written")]
    Checksum { wanted: String, found: String },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
}

impl SnapshotFiles {
    pub(crate) fn new(catalogue: &Catalogue) -> SnapshotFiles {
        SnapshotFiles { folder: catalogue.folder().join("snapshots") }
    }

    /// Writes the files below `checkpoint` as a new snapshot of a collection.
    pub(crate) fn write(&self, collection: &Name, checkpoint: &Path) -> Result<SnapshotInfo, SnapshotError> {
        let folder = self.folder.join(collection.as_str());
        let failed = |source| SnapshotError::File { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        sync(&self.folder).map_err(failed)?;
        sweep(&folder);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = time(now.as_secs()).replace([':', 'T'], "-");
        // Of two that are begun in one second the second has a number.
        let name = |copy: u32| {
            let number = if copy == 1 { String::new() } else { format!("-{copy}") };
            format!("{collection}-{time}{number}{ENDING}")
        };
        let mut copy = 1;
        let (name, partial, file) = loop {
            let name = name(copy);
            let partial = folder.join(format!("{name}{PARTIAL}"));
            match File::create_new(&partial) {
                Ok(_) if folder.join(&name).exists() => fs::remove_file(&partial).map_err(failed)?,
                Ok(file) => break (name, partial, file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // An upload that ended left no snapshot and took the folder with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(&folder).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
            copy += 1;
        };
        let written = write_file(&file, checkpoint, &partial, &folder.join(&name));
        if written.is_err() {
            _ = fs::remove_file(&partial);
        }
        written.map_err(failed)?;
        sync(&folder).map_err(failed)?;
        drop(file);
        self.describe(collection, &name)
    }

    /// A place for a snapshot that comes from outside, and is removed again when it is dropped.
    pub(crate) fn begin(&self, collection: &Name) -> Result<Partial, SnapshotError> {
        let folder = self.folder.join(collection.as_str());
        let failed = |source| SnapshotError::File { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        sweep(&folder);
        for number in 0_u64.. {
            let path = folder.join(format!("uploaded-{number}{ENDING}{PARTIAL}"));
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    lock(&file).map_err(failed)?;
                    return Ok(Partial { path, file });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // An upload that ended left no snapshot and took the folder with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(&folder).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// The snapshots of a collection, in the order of their names.
    pub(crate) fn list(&self, collection: &Name) -> Result<Vec<SnapshotInfo>, SnapshotError> {
        let folder = self.folder.join(collection.as_str());
        let failed = |source| SnapshotError::File { path: folder.clone(), source };
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            names.extend(name.to_str().filter(|name| is_name(name)).map(str::to_owned));
        }
        names.sort_unstable();
        // One that is deleted meanwhile is not there.
        let known = |name: &String| match info(&folder, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found.map_err(failed)),
        };
        names.iter().filter_map(known).collect()
    }

    /// The path of a snapshot that is there.
    pub(crate) fn find(&self, collection: &Name, name: &str) -> Result<PathBuf, SnapshotError> {
        let path = self.folder.join(collection.as_str()).join(name);
        if is_name(name) && path.is_file() {
            return Ok(path);
        }
        let names: Vec<String> = self.list(collection)?.into_iter().map(|info| info.name).collect();
        let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let wanted = name.chars().take(NAME_BYTES_MAX).collect();
        Err(SnapshotError::Unknown { collection: collection.clone(), wanted, found })
    }

    /// Removes a snapshot.
    pub(crate) fn remove(&self, collection: &Name, name: &str) -> Result<(), SnapshotError> {
        let path = self.find(collection, name)?;
        let failed = |source| SnapshotError::File { path: path.clone(), source };
        fs::remove_file(&path).map_err(failed)?;
        match fs::remove_file(beside(&path, CHECKSUM)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        sync(path.parent().unwrap_or(&self.folder)).map_err(failed)
    }

    /// The file that a location names: `file://` and a path to a snapshot in the folder of snapshots.
    pub(crate) fn locate(&self, location: &str) -> Result<PathBuf, SnapshotError> {
        const ELSEWHERE: &str = "a snapshot is recovered from the server's own folder of snapshots: wanted file:// \
                                 and the path of a file there";
        let elsewhere = || SnapshotError::Location(ELSEWHERE);
        let path = Path::new(location.strip_prefix("file://").ok_or_else(elsewhere)?);
        let is_plain = path.is_absolute()
            && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_name(name));
        if !is_plain || name.is_none() {
            return Err(elsewhere());
        }
        // As the system sees them, so that no link leads elsewhere. One that is not there is elsewhere as well: who
        // asks learns nothing of other folders.
        let real = |path: &Path| fs::canonicalize(path).map_err(|_| elsewhere());
        let (found, folder) = (real(path)?, real(&self.folder)?);
        let is_inside = found.starts_with(&folder) && found.is_file();
        if is_inside { Ok(found) } else { Err(elsewhere()) }
    }

    /// Opens a snapshot, if it has the checksum that was written with it, and the one that is `wanted`.
    pub(crate) fn open_checked(path: &Path, wanted: Option<&str>) -> Result<File, SnapshotError> {
        let failed = |source| SnapshotError::File { path: path.to_owned(), source };
        let written = checksum(path).map_err(failed)?;
        if let Some(wanted) = wanted.or(written.as_deref()) {
            let found = hash(path).map_err(failed)?;
            for wanted in [Some(wanted), written.as_deref()].into_iter().flatten() {
                if !wanted.eq_ignore_ascii_case(&found) {
                    return Err(SnapshotError::Checksum { wanted: wanted.to_owned(), found });
                }
            }
        }
        File::open(path).map_err(failed)
    }

    fn describe(&self, collection: &Name, name: &str) -> Result<SnapshotInfo, SnapshotError> {
        let folder = self.folder.join(collection.as_str());
        info(&folder, name).map_err(|source| SnapshotError::File { path: folder, source })
    }
}

/// A snapshot that is being uploaded.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), SnapshotError> {
        let Partial { path, file } = self;
        file.write_all(piece).map_err(|source| SnapshotError::File { path: path.clone(), source })
    }

    /// Opens what came, if it has the checksum that is `wanted`.
    pub(crate) fn open_checked(&self, wanted: Option<&str>) -> Result<File, SnapshotError> {
        SnapshotFiles::open_checked(&self.path, wanted)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "an uploaded snapshot was not removed");
        }
        // Of a collection without snapshots nothing stays; with some, its folder cannot be removed.
        _ = self.path.parent().map(fs::remove_dir);
    }
}

/// Whether a file of this name may be a snapshot. A name is one part of a path.
fn is_name(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.=(),".contains(c);
    starts_well && name.len() <= NAME_BYTES_MAX && name.ends_with(ENDING) && name.chars().all(allowed)
}

fn write_file(file: &File, checkpoint: &Path, partial: &Path, path: &Path) -> io::Result<()> {
    lock(file)?;
    let mut hashed =
        Hashed { inner: BufWriter::with_capacity(BLOCK_BYTES, file), context: Context::new(&SHA256) };
    archive::pack(checkpoint, &mut hashed)?;
    hashed.inner.flush()?;
    file.sync_all()?;
    let digest = hex(hashed.context.finish().as_ref());
    let mut checksum = File::create(beside(path, CHECKSUM))?;
    checksum.write_all(digest.as_bytes())?;
    checksum.sync_all()?;
    fs::rename(partial, path)
}

/// So that nobody takes it for what a process left that died.
fn lock(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => Err(error),
        Ok(()) | Err(TryLockError::Error(_) | TryLockError::WouldBlock) => Ok(()),
    }
}

/// Removes what processes that died were writing.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_partial = path.to_str().is_some_and(|path| path.ends_with(PARTIAL));
        // One that was just made is not locked yet, but young.
        let age = entry.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        if is_partial
            && age.is_some_and(|age| age.as_secs() > 60)
            && File::open(&path).is_ok_and(|file| file.try_lock().is_ok())
        {
            match fs::remove_file(&path) {
                Ok(()) => tracing::info!(path = %path.display(), "removed what an interruption left"),
                Err(error) => tracing::warn!(path = %path.display(), %error, "not removed"),
            }
        }
    }
}

fn info(folder: &Path, name: &str) -> io::Result<SnapshotInfo> {
    let path = folder.join(name);
    let found = fs::metadata(&path)?;
    let created = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(SnapshotInfo {
        name: name.to_owned(),
        created: time(created.as_secs()),
        bytes: found.len(),
        checksum: checksum(&path)?,
    })
}

/// The checksum that was written with a snapshot.
fn checksum(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(beside(path, CHECKSUM)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = BufReader::with_capacity(BLOCK_BYTES, File::open(path)?);
    let mut hashed = Hashed { inner: io::sink(), context: Context::new(&SHA256) };
    io::copy(&mut file.by_ref(), &mut hashed)?;
    Ok(hex(hashed.context.finish().as_ref()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Hashes what is written.
struct Hashed<W> {
    inner: W,
    context: Context,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.context.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// `YYYY-MM-DDTHH:MM:SS` of seconds since 1970.
fn time(seconds: u64) -> String {
    let utc = dehub_backup::utc(seconds);
    let part = |from: usize, until: usize| utc.get(from..until).unwrap_or_default();
    format!("{}-{}-{}T{}:{}:{}", part(0, 4), part(4, 6), part(6, 8), part(9, 11), part(11, 13), part(13, 15))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> SnapshotFiles {
        SnapshotFiles::new(&Catalogue::new(folder))
    }

    #[test]
    fn a_time_is_the_one_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_868_799, "2000-02-29T23:59:59"),
            (1_769_903_999, "2026-01-31T23:59:59"),
        ] {
            assert_eq!(time(seconds), wanted);
        }
    }

    #[test]
    fn the_checksum_is_sha_256() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        fs::write(&path, "abc").expect("written");
        let wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash(&path).expect("read"), wanted);
    }

    #[test]
    fn two_of_one_second_have_two_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let checkpoint = folder.path().join("checkpoint");
        fs::create_dir(&checkpoint).expect("made");
        fs::write(checkpoint.join("CURRENT"), "x").expect("written");
        let (files, collection) = (files(folder.path()), "c".parse().expect("a name"));
        let written: Vec<_> =
            (0..3).map(|_| files.write(&collection, &checkpoint).expect("written")).collect();
        let mut names: Vec<_> = written.iter().map(|info| info.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 3);
        assert_eq!(files.list(&collection).expect("listed").len(), 3);
        assert!(written.iter().all(|info| info.checksum == written[0].checksum && info.bytes > 0));
    }

    #[test]
    fn a_location_elsewhere_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = files(folder.path());
        let inside = folder.path().join("snapshots/c");
        fs::create_dir_all(&inside).expect("made");
        fs::write(inside.join("a.snapshot"), "x").expect("written");
        fs::write(folder.path().join("b.snapshot"), "x").expect("written");
        std::os::unix::fs::symlink(folder.path().join("b.snapshot"), inside.join("l.snapshot"))
            .expect("linked");
        let at = |path: &str| format!("file://{}/{path}", folder.path().display());
        files.locate(&at("snapshots/c/a.snapshot")).expect("inside");
        for elsewhere in [
            at("b.snapshot"),
            at("snapshots/c/l.snapshot"),
            at("snapshots/c/none.snapshot"),
            at("snapshots/c"),
            at("snapshots/c/../../b.snapshot"),
            at("snapshots/../b.snapshot"),
            "file://a.snapshot".to_owned(),
            "file:///etc/passwd".to_owned(),
            "http://localhost/collections/c/snapshots/a.snapshot".to_owned(),
            "FILE:///x.snapshot".to_owned(),
            String::new(),
        ] {
            assert!(matches!(files.locate(&elsewhere), Err(SnapshotError::Location(_))), "{elsewhere}");
        }
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        for good in ["c-2026-01-31-23-59-59.snapshot", "IS(beta=20).snapshot"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".snapshot",
            "../c.snapshot",
            "a/b.snapshot",
            "a.snapshot.checksum",
            "a b.snapshot",
            "a\0.snapshot",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
