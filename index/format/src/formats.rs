//! The formats of files, told by their names or by their first bytes.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::numbers::NumberType;

/// How the rows of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Format {
    /// One numpy array.
    Npy,
    /// A zip archive of numpy arrays.
    Npz,
    /// Rows of 32-bit floats, each after its length.
    Fvecs,
    /// The same of 32-bit integers.
    Ivecs,
    /// The same of bytes.
    Bvecs,
    /// Two lengths, then 32-bit floats.
    Fbin,
    /// The same of 32-bit integers.
    Ibin,
    /// The same of bytes from 0.
    U8bin,
    /// The same of signed bytes.
    I8bin,
    /// Parquet.
    Parquet,
    /// Arrow IPC, a file or a stream: the first bytes tell which.
    Arrow,
    /// HDF5, in the layout of ann-benchmarks or any other.
    Hdf5,
    /// A JSON object a line.
    Jsonl,
    /// Named tensors after a header in JSON.
    Safetensors,
}

/// Every format with its name and the endings of its files; the first ending is the name.
const FORMATS: [(Format, &[&str]); 14] = [
    (Format::Npy, &["npy"]),
    (Format::Npz, &["npz"]),
    (Format::Fvecs, &["fvecs"]),
    (Format::Ivecs, &["ivecs"]),
    (Format::Bvecs, &["bvecs"]),
    (Format::Fbin, &["fbin"]),
    (Format::Ibin, &["ibin"]),
    (Format::U8bin, &["u8bin"]),
    (Format::I8bin, &["i8bin"]),
    (Format::Parquet, &["parquet", "pq"]),
    (Format::Arrow, &["arrow", "arrows", "feather", "ipc"]),
    (Format::Hdf5, &["hdf5", "h5"]),
    (Format::Jsonl, &["jsonl", "ndjson"]),
    (Format::Safetensors, &["safetensors"]),
];

/// The endings that are known, for messages.
pub(crate) const READABLE: &str = ".npy, .npz, .fvecs, .ivecs, .bvecs, .fbin, .ibin, .u8bin, .i8bin, .parquet, .pq, \
     .arrow, .arrows, .feather, .ipc, .hdf5, .h5, .jsonl, .ndjson or .safetensors, and perhaps .gz, .zst or .zstd \
     after it";

impl Format {
    fn of_ending(ending: &str) -> Option<Format> {
        FORMATS.iter().find(|(_, endings)| endings.contains(&ending)).map(|&(format, _)| format)
    }

    /// Whether the rows are one matrix, without names, ids and other fields.
    pub fn is_matrix(self) -> bool {
        match self {
            Format::Npy | Format::Npz | Format::Hdf5 | Format::Safetensors => true,
            Format::Fvecs | Format::Ivecs | Format::Bvecs => true,
            Format::Fbin | Format::Ibin | Format::U8bin | Format::I8bin => true,
            Format::Parquet | Format::Arrow | Format::Jsonl => false,
        }
    }

    /// Whether a file holds several arrays under names.
    pub(crate) fn has_datasets(self) -> bool {
        matches!(self, Format::Npz | Format::Hdf5 | Format::Safetensors)
    }

    /// The type of the numbers, if the name of the format says it.
    pub(crate) fn number(self) -> Option<NumberType> {
        match self {
            Format::Fvecs | Format::Fbin => Some(NumberType::F32),
            Format::Ivecs | Format::Ibin => Some(NumberType::I32),
            Format::Bvecs | Format::U8bin => Some(NumberType::U8),
            Format::I8bin => Some(NumberType::I8),
            Format::Npy | Format::Npz | Format::Hdf5 | Format::Safetensors => None,
            Format::Parquet | Format::Arrow | Format::Jsonl => None,
        }
    }

    /// The format of a file that begins so, if that tells.
    pub(crate) fn of_beginning(bytes: &[u8]) -> Option<Format> {
        let marks: [(&[u8], Format); 6] = [
            (b"\x93NUMPY", Format::Npy),
            (b"PK\x03\x04", Format::Npz),
            (b"PAR1", Format::Parquet),
            (b"ARROW1", Format::Arrow),
            (b"\xff\xff\xff\xff", Format::Arrow),
            (b"\x89HDF\r\n\x1a\n", Format::Hdf5),
        ];
        let marked = marks.iter().find(|(mark, _)| bytes.starts_with(mark)).map(|&(_, format)| format);
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let is_object = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let is_header = bytes.len() > 8 && bytes[8] == b'{' && bytes[6..8] == [0, 0];
        let told = marked.or(is_object.then_some(Format::Jsonl));
        told.or(is_header.then_some(Format::Safetensors))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, endings) = FORMATS.iter().find(|(format, _)| format == self).expect("every format is listed");
        f.write_str(endings[0])
    }
}

/// A name that is no format's.
#[derive(Debug, thiserror::Error)]
#[error("wanted a format ({}), found {found}", FORMATS.map(|(format, _)| format.to_string()).join(", "))]
pub struct UnknownFormat {
    found: String,
}

impl From<Format> for String {
    fn from(format: Format) -> String {
        format.to_string()
    }
}

impl TryFrom<String> for Format {
    type Error = UnknownFormat;

    fn try_from(name: String) -> Result<Format, UnknownFormat> {
        name.parse()
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        Format::of_ending(&text.to_ascii_lowercase()).ok_or_else(|| UnknownFormat { found: text.to_owned() })
    }
}

/// How a whole file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    fn of_ending(ending: &str) -> Option<Packing> {
        match ending {
            "gz" => Some(Packing::Gzip),
            "zst" | "zstd" => Some(Packing::Zstd),
            _ => None,
        }
    }

    pub(crate) fn of_beginning(bytes: &[u8]) -> Option<Packing> {
        if bytes.starts_with(b"\x1f\x8b\x08") {
            Some(Packing::Gzip)
        } else {
            bytes.starts_with(b"\x28\xb5\x2f\xfd").then_some(Packing::Zstd)
        }
    }
}

/// What a name says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) packing: Option<Packing>,
    /// The format, or the ending that is no format's; `None` without an ending.
    pub(crate) format: Option<Result<Format, String>>,
}

impl Told {
    pub(crate) fn by(path: &Path) -> Told {
        let mut path = path.to_owned();
        let ending = |path: &mut std::path::PathBuf| {
            let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
            path.set_extension("");
            ending
        };
        let mut last = ending(&mut path);
        let packing = last.as_deref().and_then(Packing::of_ending);
        if packing.is_some() {
            last = ending(&mut path);
        }
        Told { packing, format: last.map(|ending| Format::of_ending(&ending).ok_or(ending)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_formats_and_how_they_are_packed() {
        let table = [
            ("a.npy", None, Some(Ok(Format::Npy))),
            ("a.b.NPY.GZ", Some(Packing::Gzip), Some(Ok(Format::Npy))),
            ("a.jsonl.zst", Some(Packing::Zstd), Some(Ok(Format::Jsonl))),
            ("a.zstd", Some(Packing::Zstd), None),
            ("a.csv", None, Some(Err("csv".to_owned()))),
            ("-", None, None),
            ("folder.npy/a", None, None),
        ];
        for (name, packing, format) in table {
            assert_eq!(Told::by(Path::new(name)), Told { packing, format }, "{name}");
        }
    }

    #[test]
    fn every_ending_and_every_name_is_readable_and_listed() {
        for (format, endings) in FORMATS {
            assert_eq!(format.to_string().parse::<Format>().expect("its own name"), format);
            for ending in endings {
                assert!(READABLE.contains(&format!(".{ending}")), "{ending}");
                assert_eq!(ending.parse::<Format>().expect("an ending"), format);
            }
        }
        let message = "csv".parse::<Format>().expect_err("none").to_string();
        assert!(message.contains("npy, npz") && message.ends_with("found csv"), "{message}");
    }

    #[test]
    fn first_bytes_tell_what_they_can() {
        let table: [(&[u8], Option<Format>); 9] = [
            (b"\x93NUMPY\x01\x00", Some(Format::Npy)),
            (b"PK\x03\x04", Some(Format::Npz)),
            (b"PAR1\x15", Some(Format::Parquet)),
            (b"ARROW1\0\0", Some(Format::Arrow)),
            (b"\xff\xff\xff\xff\x10\0\0\0", Some(Format::Arrow)),
            (b"\xef\xbb\xbf \n{\"id\"", Some(Format::Jsonl)),
            (b"\x40\0\0\0\0\0\0\0{\"", Some(Format::Safetensors)),
            (b"\x03\0\0\0\0\0\x80\x3f", None),
            (b"", None),
        ];
        for (bytes, wanted) in table {
            assert_eq!(Format::of_beginning(bytes), wanted, "{}", bytes.escape_ascii());
        }
    }
}
