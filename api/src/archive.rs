//! A folder as one file, and back: a tar of plain files and folders.
//!
//! What is unpacked comes from outside. Whatever is no plain file or folder, has a path that leads elsewhere, a name
//! twice, or more bytes than there are in the archive, is refused before it is written. The last file has the checksums
//! of all others, so that no byte of them differs from what was packed, and none is missing or new.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use ring::digest::{Context, SHA256};
use tar::{Archive, Builder, EntryType, Header};

use crate::snapshot_files::hex;

/// Files and folders of an archive; a collection has a few hundred.
const ENTRIES_MAX: usize = 100_000;

/// Folders in each other; a collection has two.
const DEPTH_MAX: usize = 8;

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    /// The archive itself.
    #[error("it is no archive of a snapshot: {0}")]
    Archive(String),
    /// Where it was to go.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
}

/// The last file of an archive: the SHA-256 of each file before it, as `sha256sum` writes them.
const SUMS: &str = "SHA256SUMS";

/// Bytes of the checksums of as many files as there may be.
const SUMS_BYTES_MAX: u64 = 512 * ENTRIES_MAX as u64;

/// Writes all that is in `folder` as an archive, in the order of names, and then the checksums.
pub(crate) fn pack(folder: &Path, into: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(into);
    let mut sums = String::new();
    pack_folder(&mut archive, &mut sums, folder, Path::new(""))?;
    let header = header(Path::new(SUMS), EntryType::Regular, sums.len() as u64)?;
    archive.append(&header, sums.as_bytes())?;
    archive.into_inner()?.flush()
}

fn sum_line(path: &Path, context: Context) -> String {
    format!("{}  {}\n", hex(context.finish().as_ref()), path.display())
}

fn pack_folder(
    archive: &mut Builder<impl Write>,
    sums: &mut String,
    folder: &Path,
    below: &Path,
) -> io::Result<()> {
    let mut entries = fs::read_dir(folder.join(below))?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            archive.append(&header(&path, EntryType::Directory, 0)?, io::empty())?;
            pack_folder(archive, sums, folder, &path)?;
        } else {
            let file = File::open(entry.path())?;
            let length = file.metadata()?.len();
            // The header says how long it is, so no more is taken of a file that grew.
            let mut read = Hashed::new(file.take(length));
            archive.append(&header(&path, EntryType::Regular, length)?, &mut read)?;
            sums.push_str(&sum_line(&path, read.context));
        }
    }
    Ok(())
}

fn header(path: &Path, kind: EntryType, length: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(path)?;
    header.set_entry_type(kind);
    header.set_size(length);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_mtime(0);
    header.set_cksum();
    Ok(header)
}

/// Unpacks an archive of `length` bytes into an empty folder.
pub(crate) fn unpack(archive: impl Read, length: u64, folder: &Path) -> Result<(), UnpackError> {
    let mut archive = Archive::new(archive);
    let broken = |error: io::Error| UnpackError::Archive(error.to_string());
    let (mut names, mut bytes) = (BTreeSet::new(), 0_u64);
    let (mut found, mut wanted) = (String::new(), None);
    // Raw: the extensions for long names, which would be read into memory first, are refused like any other kind.
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        let path = checked(entry.header())?;
        let size = entry.header().entry_size().map_err(broken)?;
        bytes = bytes.saturating_add(size);
        if bytes > length {
            let found = path.display();
            return Err(UnpackError::Archive(format!("with {found} it holds more bytes than it has itself")));
        }
        if wanted.is_some() {
            return Err(UnpackError::Archive(format!("{} comes after the checksums", path.display())));
        }
        if path == Path::new(SUMS) {
            let mut text = String::new();
            entry.take(SUMS_BYTES_MAX).read_to_string(&mut text).map_err(broken)?;
            wanted = Some(text);
            continue;
        }
        if !names.insert(path.clone()) {
            return Err(UnpackError::Archive(format!("it has {} twice", path.display())));
        }
        if names.len() > ENTRIES_MAX {
            return Err(UnpackError::Archive(format!("it has more than {ENTRIES_MAX} files")));
        }
        let target = folder.join(&path);
        let failed = |source| UnpackError::File { path: target.clone(), source };
        if entry.header().entry_type() == EntryType::Directory {
            fs::create_dir_all(&target).map_err(failed)?;
            continue;
        }
        fs::create_dir_all(target.parent().unwrap_or(folder)).map_err(failed)?;
        let mut file = File::create_new(&target).map_err(failed)?;
        let mut read = Hashed::new(&mut entry);
        let copied = io::copy(&mut read, &mut file).map_err(failed)?;
        found.push_str(&sum_line(&path, read.context));
        if copied != size {
            let found = path.display();
            return Err(UnpackError::Archive(format!(
                "{found} has {copied} of {size} bytes: it was cut off"
            )));
        }
    }
    if names.is_empty() {
        return Err(UnpackError::Archive("it is empty".to_owned()));
    }
    check_sums(&found, wanted.as_deref())
}

/// Whether the files are those that were packed, each as it was.
fn check_sums(found: &str, wanted: Option<&str>) -> Result<(), UnpackError> {
    let wanted = wanted.ok_or_else(|| UnpackError::Archive(format!("it has no {SUMS} at its end")))?;
    let [found, wanted] = [found, wanted].map(|text| text.lines().collect::<BTreeSet<_>>());
    let name = |line: &str| line.split_once("  ").map_or(line, |(_, name)| name).to_owned();
    if let Some(line) = found.difference(&wanted).next() {
        return Err(UnpackError::Archive(format!("{} has not the checksum it was written with", name(line))));
    }
    let missing = wanted.difference(&found).next();
    missing.map_or(Ok(()), |line| Err(UnpackError::Archive(format!("{} is missing", name(line)))))
}

/// Hashes what is read.
struct Hashed<R> {
    inner: R,
    context: Context,
}

impl<R> Hashed<R> {
    fn new(inner: R) -> Hashed<R> {
        Hashed { inner, context: Context::new(&SHA256) }
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.context.update(&bytes[..read]);
        Ok(read)
    }
}

/// The path of an entry that may be unpacked.
fn checked(header: &Header) -> Result<PathBuf, UnpackError> {
    let path = header.path().map_err(|error| UnpackError::Archive(error.to_string()))?;
    let kind = header.entry_type();
    if kind != EntryType::Regular && kind != EntryType::Directory {
        let found = path.display();
        return Err(UnpackError::Archive(format!("{found} is of kind {kind:?}, wanted files and folders")));
    }
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let depth = path.components().count();
    if !is_plain || depth == 0 || depth > DEPTH_MAX {
        let found = path.display();
        return Err(UnpackError::Archive(format!("the path {found} does not stay in the folder")));
    }
    Ok(path.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: EntryType, size: u64, content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_ustar();
        // As bytes, since the crate writes no path that leads elsewhere.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    fn file(path: &str, content: &str) -> Vec<u8> {
        entry(path, EntryType::Regular, content.len() as u64, content.as_bytes())
    }

    fn sums(files: &[(&str, &str)]) -> Vec<u8> {
        let line = |(path, content): &(&str, &str)| {
            let mut context = Context::new(&SHA256);
            context.update(content.as_bytes());
            sum_line(Path::new(path), context)
        };
        file(SUMS, &files.iter().map(line).collect::<String>())
    }

    fn unpacked(bytes: &[u8]) -> (tempfile::TempDir, Result<(), UnpackError>) {
        let folder = tempfile::tempdir().expect("a folder");
        let outcome = unpack(bytes, bytes.len() as u64, &folder.path().join("in"));
        (folder, outcome)
    }

    #[test]
    fn what_is_packed_is_unpacked_the_same() {
        let (from, into) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        fs::create_dir_all(from.path().join("store/empty")).expect("made");
        for (path, content) in [("graph", "abc"), ("store/CURRENT", ""), ("store/1.sst", &"x".repeat(10_000))]
        {
            fs::write(from.path().join(path), content).expect("written");
        }
        let mut bytes = Vec::new();
        pack(from.path(), &mut bytes).expect("packed");
        unpack(bytes.as_slice(), bytes.len() as u64, into.path()).expect("unpacked");
        let mut again = Vec::new();
        pack(into.path(), &mut again).expect("packed");
        assert_eq!(bytes, again);
        assert_eq!(
            fs::read(into.path().join("store/1.sst")).expect("there"),
            "x".repeat(10_000).into_bytes()
        );
    }

    #[test]
    fn a_hostile_archive_is_refused_and_writes_nothing_elsewhere() {
        let huge = entry("a", EntryType::Regular, 1 << 40, b"x");
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("does not stay", file("../out", "x")),
            ("does not stay", file("/out-of-a-snapshot", "x")),
            ("does not stay", file("a/../../out", "x")),
            ("does not stay", file(".", "x")),
            ("does not stay", file("a/b/c/d/e/f/g/h/i", "x")),
            ("kind", entry("a", EntryType::Symlink, 0, b"")),
            ("kind", entry("a", EntryType::Link, 0, b"")),
            ("kind", entry("a", EntryType::Fifo, 0, b"")),
            ("kind", entry("a", EntryType::Char, 0, b"")),
            ("kind", entry("a", EntryType::GNULongName, 1 << 40, b"x")),
            ("kind", entry("a", EntryType::XHeader, 9, b"9 path=/x")),
            ("kind", entry("a", EntryType::GNUSparse, 1 << 40, b"x")),
            ("more bytes", huge),
            ("twice", [file("a", "x"), file("a", "y")].concat()),
            ("cut off", file("a", &"x".repeat(2000))[..1024].to_vec()),
            ("no SHA256SUMS", file("a", "x")),
            ("a has not the checksum", [file("a", "x"), sums(&[("a", "y")])].concat()),
            ("junk has not the checksum", [file("a", "x"), file("junk", ""), sums(&[("a", "x")])].concat()),
            ("b is missing", [file("a", "x"), sums(&[("a", "x"), ("b", "x")])].concat()),
            ("after the checksums", [file("a", "x"), sums(&[("a", "x")]), file("b", "x")].concat()),
            ("empty", Vec::new()),
            ("empty", vec![0; 1024]),
            ("no archive", b"nonsense".repeat(200)),
        ];
        for (wanted, bytes) in cases {
            let length = bytes.len() as u64 + 2000;
            let folder = tempfile::tempdir().expect("a folder");
            let outcome = unpack(bytes.as_slice(), length, &folder.path().join("in"));
            let message = outcome.expect_err(wanted).to_string();
            assert!(message.contains(wanted), "{wanted}: {message}");
            assert!(!folder.path().join("out").exists(), "{wanted}");
            assert!(!Path::new("/out-of-a-snapshot").exists(), "{wanted}");
        }
    }

    #[test]
    fn a_file_in_the_place_of_a_folder_is_an_error() {
        let (_folder, outcome) = unpacked(&[file("a", "x"), file("a/b", "y")].concat());
        assert!(outcome.is_err());
    }
}
