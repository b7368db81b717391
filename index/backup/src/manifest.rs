//! The manifest of a backup: what files it has, and of what.
//!
//! One JSON object in one line. Its last member is the BLAKE3 hash of all bytes before that member, so that
//! nothing of it can change unnoticed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::hash::Content;

/// The format of manifests that this version writes, and the newest it reads.
pub const FORMAT: u32 = 1;

/// The largest manifest that is read: a few hundred thousand files.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The longest path of a file in a collection.
const PATH_BYTES_MAX: usize = 1024;

/// What stands before the hash, and after it.
const BEFORE_HASH: &str = ",\"checksum\":\"";
const AFTER_HASH: &str = "\"}\n";
const HASH_LEN: usize = 2 * blake3::OUT_LEN;

/// What a backup is of, as whoever stores it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The version of the program that wrote it.
    pub version: String,
    /// The collection's own number, which it keeps when it is restored.
    pub identity: u64,
    /// The number of the newest commit it has.
    pub sequence: u64,
    /// Points in it.
    pub points: u64,
    /// Dimensions of its vectors.
    pub dim: u64,
    /// How they are compared.
    pub metric: String,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEntry {
    /// Its path in the collection, with `/` between parts.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// The hash of what it holds, 64 hexadecimal digits.
    pub(crate) blake3: String,
}

impl FileEntry {
    pub(crate) fn new(path: String, content: Content) -> FileEntry {
        FileEntry { path, bytes: content.bytes, blake3: content.hash.to_hex().to_string() }
    }
}

/// All that is known of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    pub(crate) collection: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) about: About,
    /// In the order of their paths.
    pub(crate) files: Vec<FileEntry>,
}

/// Why bytes are no manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is from a newer version.
    Newer(u32),
    /// It is not what was written.
    Damaged(String),
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_string(self).expect("text and numbers always have a JSON form");
        // Its last brace comes after the hash.
        text.pop();
        let hash = blake3::hash(text.as_bytes()).to_hex();
        format!("{text}{BEFORE_HASH}{hash}{AFTER_HASH}").into_bytes()
    }

    /// Reads a manifest of `collection`. Nothing in it is trusted before its hash is found right, and no path
    /// in it leaves the folder it is fetched to.
    pub(crate) fn decode(bytes: &[u8], collection: &str) -> Result<Manifest, Refusal> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let damaged = |reason: &str| Refusal::Damaged(reason.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
        let body = checked_body(text).map_err(Refusal::Damaged)?;
        let whole = format!("{body}}}");
        // A later format may have other members, but it has its number.
        let Format { format } =
            serde_json::from_str(&whole).map_err(|error| Refusal::Damaged(error.to_string()))?;
        if format > FORMAT {
            return Err(Refusal::Newer(format));
        }
        let read: Manifest =
            serde_json::from_str(&whole).map_err(|error| Refusal::Damaged(error.to_string()))?;
        if read.format == 0 {
            return Err(damaged("it has format 0, wanted 1"));
        }
        if read.collection != collection {
            let reason = format!("it is of `{}`, wanted `{collection}`", read.collection);
            return Err(Refusal::Damaged(reason));
        }
        check_files(&read.files).map_err(Refusal::Damaged)?;
        Ok(read)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}

/// What the hash is of, if it is right.
fn checked_body(text: &str) -> Result<&str, String> {
    let cut = || format!("its end is missing: it has {} bytes", text.len());
    let rest = text.strip_suffix(AFTER_HASH).ok_or_else(cut)?;
    let (rest, found) =
        rest.len().checked_sub(HASH_LEN).and_then(|at| rest.split_at_checked(at)).ok_or_else(cut)?;
    let body = rest.strip_suffix(BEFORE_HASH).ok_or_else(|| "it has no checksum at its end".to_owned())?;
    let wanted = blake3::hash(body.as_bytes()).to_hex();
    if wanted.as_str() == found { Ok(body) } else { Err(format!("its checksum is {found}, wanted {wanted}")) }
}

fn check_files(files: &[FileEntry]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for FileEntry { path, blake3, .. } in files {
        if !is_inside(path) {
            return Err(format!("the path {path:?} is none of a file in a collection"));
        }
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if blake3.len() != HASH_LEN || !blake3.bytes().all(is_digit) {
            return Err(format!("the hash of {path} is {blake3:?}, wanted {HASH_LEN} hexadecimal digits"));
        }
        if !seen.insert(path.as_str()) {
            return Err(format!("the path {path} is there twice"));
        }
    }
    let is_folder = |path: &&str| path.match_indices('/').any(|(at, _)| seen.contains(&path[..at]));
    match seen.iter().copied().find(is_folder) {
        Some(path) => Err(format!("the path {path} goes through a file")),
        None => Ok(()),
    }
}

/// Whether a path, joined to a folder, is of a file in it.
pub(crate) fn is_inside(path: &str) -> bool {
    let is_part = |part: &str| !["", ".", ".."].contains(&part) && part.len() <= 255;
    path.len() <= PATH_BYTES_MAX && !path.contains(['\\', '\0']) && path.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest(paths: &[&str]) -> Manifest {
        let entry = |path: &&str| {
            let hash = blake3::hash(path.as_bytes());
            FileEntry::new((*path).to_owned(), Content { bytes: path.len() as u64, hash })
        };
        Manifest {
            format: FORMAT,
            collection: "x".to_owned(),
            created: 1_800_000_000,
            about: About {
                version: "0.1.0".to_owned(),
                identity: u64::MAX,
                sequence: 42,
                points: 7,
                dim: 3,
                metric: "cosine".to_owned(),
            },
            files: paths.iter().map(entry).collect(),
        }
    }

    fn refused(manifest: &Manifest) -> Refusal {
        Manifest::decode(&manifest.encode(), "x").expect_err("it is not right")
    }

    fn reason(refusal: Refusal) -> String {
        match refusal {
            Refusal::Damaged(reason) => reason,
            Refusal::Newer(format) => panic!("format {format}"),
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_is_written() {
        let written = manifest(&["store-1/CURRENT", "store-1/000007.sst", "graph-0-5-f32.bin"]);
        let bytes = written.encode();
        assert_eq!(Manifest::decode(&bytes, "x"), Ok(written));
        let json: serde_json::Value = serde_json::from_slice(&bytes).expect("it is JSON");
        assert!(json["checksum"].is_string() && json["format"] == FORMAT);
    }

    #[test]
    fn a_manifest_with_any_bit_flipped_or_any_end_cut_off_is_refused() {
        let bytes = manifest(&["store-1/CURRENT", "b"]).encode();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let refusal = Manifest::decode(&flipped, "x").expect_err("a bit is flipped");
                assert!(matches!(refusal, Refusal::Damaged(_)), "byte {at}, bit {bit}: {refusal:?}");
            }
            assert!(Manifest::decode(&bytes[..at], "x").is_err(), "cut to {at}");
        }
        assert!(Manifest::decode(&[&bytes[..], b"\n"].concat(), "x").is_err());
    }

    #[test]
    fn a_newer_format_is_refused_by_its_number() {
        let mut newer = manifest(&["a"]);
        newer.format = FORMAT + 6;
        assert_eq!(refused(&newer), Refusal::Newer(FORMAT + 6));
        newer.format = 0;
        assert!(reason(refused(&newer)).contains("format 0"));
    }

    #[test]
    fn a_path_that_leaves_the_folder_is_refused() {
        for path in
            ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a\\..\\b", "a\0b", "..", "a/."]
        {
            assert!(reason(refused(&manifest(&["b", path]))).contains("path"), "{path:?}");
        }
        assert!(reason(refused(&manifest(&[&"a/".repeat(600), "b"]))).contains("path"));
        assert!(reason(refused(&manifest(&["a", "b", "a"]))).contains("twice"));
        assert!(reason(refused(&manifest(&["a/b/c", "a/b"]))).contains("through a file"));
    }

    #[test]
    fn a_manifest_of_another_collection_or_with_odd_hashes_is_refused() {
        let bytes = manifest(&["a"]).encode();
        assert!(reason(Manifest::decode(&bytes, "y").expect_err("of x")).contains("wanted `y`"));
        for hash in ["", "../..", &"A".repeat(HASH_LEN), &"g".repeat(HASH_LEN), &"0".repeat(HASH_LEN + 1)] {
            let mut odd = manifest(&["a"]);
            odd.files[0].blake3 = hash.to_owned();
            assert!(reason(refused(&odd)).contains("hash"), "{hash}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(Manifest::decode(&bytes, "x").is_err());
        }

        #[test]
        fn no_json_with_a_right_checksum_makes_the_decoder_panic_or_leave_the_folder(
            body in "\\{\"format\":[0-9]{1,2}(,\"(files|collection|created|about)\":(\\[\\]|\"x\"|7|\\{\\})){0,4}",
            paths in proptest::collection::vec("[a./\\\\]{0,6}", 0..5),
        ) {
            let hash = blake3::hash(body.as_bytes()).to_hex();
            let text = format!("{body}{BEFORE_HASH}{hash}{AFTER_HASH}");
            prop_assert!(Manifest::decode(text.as_bytes(), "x").is_err());
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            if let Ok(read) = Manifest::decode(&manifest(&paths).encode(), "x") {
                for file in read.files {
                    let path = std::path::Path::new("/folder").join(&file.path);
                    let parts = path.components().skip(2);
                    let is_normal = |part| matches!(part, std::path::Component::Normal(_));
                    prop_assert!(path.starts_with("/folder") && parts.into_iter().all(is_normal));
                }
            }
        }
    }
}
