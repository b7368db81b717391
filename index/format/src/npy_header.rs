//! The header of an `.npy` file: a Python dictionary in text, read without trusting its lengths.
//!
//! The npyz crate parses it as well, but allocates what the length field says, recurses as deep as the
//! text nests and multiplies the shape unchecked; it serves for writing and as the tests' oracle.

use std::io::{self, Read};

use crate::error::excerpt;
use crate::numbers::NumberType;

/// The longest header that is read; numpy's own limit is 10,000 and a matrix needs 80.
pub const NPY_HEADER_BYTES_MAX: usize = 64 * 1024;

const MAGIC: &[u8] = b"\x93NUMPY";
const ACCEPTED: &str =
    "float16, float32, float64, int8 or uint8 numbers (<f2, <f4, <f8, |i1, |u1, or > for <)";

/// What the header says, of which only the syntax was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    pub(crate) number: NumberType,
    pub(crate) big_endian: bool,
    pub(crate) fortran_order: bool,
    pub(crate) rows: u64,
    pub(crate) dim: u64,
    /// Where the numbers start.
    pub(crate) data_start: u64,
}

/// Why there is no header to use.
#[derive(Debug)]
pub(crate) enum HeaderError {
    Io(io::Error),
    Bad { wanted: String, found: String },
}

fn bad(wanted: impl Into<String>, found: impl Into<String>) -> HeaderError {
    HeaderError::Bad { wanted: wanted.into(), found: found.into() }
}

impl NpyHeader {
    /// Reads from the start of a file to the first number.
    pub(crate) fn read(reader: &mut impl Read) -> Result<NpyHeader, HeaderError> {
        let start = read_at_most(reader, 8)?;
        let magic = &start[..start.len().min(MAGIC.len())];
        if magic != MAGIC {
            let found = format!("a file that starts with \"{}\"", magic.escape_ascii());
            return Err(bad(r#"an npy file, which starts with "\x93NUMPY""#, found));
        }
        let length_bytes = match start.get(6..8) {
            Some([1, 0]) => 2,
            Some([2 | 3, 0]) => 4,
            Some([major, minor]) => {
                return Err(bad("npy version 1.0, 2.0 or 3.0", format!("version {major}.{minor}")));
            }
            _ => return Err(cut_off()),
        };
        let length = read_at_most(reader, length_bytes)?;
        if length.len() != length_bytes {
            return Err(cut_off());
        }
        let length = length.iter().rev().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
        if length > NPY_HEADER_BYTES_MAX {
            return Err(bad(
                format!("a header of at most {NPY_HEADER_BYTES_MAX} bytes"),
                format!("{length} bytes"),
            ));
        }
        let text = read_at_most(reader, length)?;
        if text.len() != length {
            return Err(cut_off());
        }
        let text = str::from_utf8(&text).map_err(|_| bad("a header in UTF-8", "other bytes"))?;
        NpyHeader::parse(text, (8 + length_bytes + length) as u64)
    }

    fn parse(text: &str, data_start: u64) -> Result<NpyHeader, HeaderError> {
        let mut number_type = None;
        let mut fortran_order = None;
        let mut shape = None;
        for (name, value) in dictionary(text).ok_or_else(|| {
            bad(
                "a header like {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                excerpt(text.trim_end()),
            )
        })? {
            match (name, value) {
                ("descr", Literal::Text(descr)) => number_type = Some(parse_descr(descr)?),
                ("descr", Literal::List) => return Err(bad(ACCEPTED, "a structured type")),
                ("fortran_order", Literal::Bool(order)) => fortran_order = Some(order),
                ("shape", Literal::Tuple(lengths)) => shape = Some(lengths),
                (name, _) => {
                    return Err(bad("descr, fortran_order and shape in the header", format!("{name:?}")));
                }
            }
        }
        let (Some((number, big_endian)), Some(fortran_order), Some(shape)) =
            (number_type, fortran_order, shape)
        else {
            return Err(bad("descr, fortran_order and shape in the header", "not all of them"));
        };
        let [rows, dim] = shape[..] else {
            let shape = shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            return Err(bad(
                "an array of two dimensions (rows, numbers in a row)",
                format!("shape ({shape})"),
            ));
        };
        Ok(NpyHeader { number, big_endian, fortran_order, rows, dim, data_start })
    }
}

fn cut_off() -> HeaderError {
    bad("a whole npy header", "a file that ends within it")
}

fn read_at_most(reader: &mut impl Read, count: usize) -> Result<Vec<u8>, HeaderError> {
    let mut bytes = Vec::new();
    reader.take(count as u64).read_to_end(&mut bytes).map_err(HeaderError::Io)?;
    Ok(bytes)
}

fn parse_descr(descr: &str) -> Result<(NumberType, bool), HeaderError> {
    let refused = || {
        let remark = if descr.contains('O') { " (Python objects, never unpickled)" } else { "" };
        bad(ACCEPTED, format!("{:?}{remark}", excerpt(descr)))
    };
    let mut chars = descr.chars();
    let big_endian = match chars.next() {
        Some('<') => false,
        Some('>') => true,
        Some('=') => cfg!(target_endian = "big"),
        Some('|') if chars.as_str().ends_with('1') => false,
        _ => return Err(refused()),
    };
    let number = match chars.as_str() {
        "f2" => NumberType::F16,
        "f4" => NumberType::F32,
        "f8" => NumberType::F64,
        "i1" => NumberType::I8,
        "u1" => NumberType::U8,
        _ => return Err(refused()),
    };
    Ok((number, big_endian))
}

/// A value of the dictionary, as far as it is needed.
#[derive(Debug, PartialEq)]
enum Literal<'a> {
    Text(&'a str),
    Bool(bool),
    Tuple(Vec<u64>),
    List,
}

/// The entries of a Python dictionary; `None` if it is not one that numpy writes.
fn dictionary(text: &str) -> Option<Vec<(&str, Literal<'_>)>> {
    let mut rest = text.trim().strip_prefix('{')?.trim_start();
    let mut entries = Vec::new();
    loop {
        if let Some(end) = rest.strip_prefix('}') {
            return end.is_empty().then_some(entries);
        }
        let (name, after) = string(rest)?;
        let (value, after) = literal(after.trim_start().strip_prefix(':')?.trim_start())?;
        entries.push((name, value));
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.starts_with('}') => {}
            None => return None,
        }
    }
}

fn literal(text: &str) -> Option<(Literal<'_>, &str)> {
    if let Some(rest) = text.strip_prefix("True") {
        return Some((Literal::Bool(true), rest));
    }
    if let Some(rest) = text.strip_prefix("False") {
        return Some((Literal::Bool(false), rest));
    }
    if let Some(rest) = text.strip_prefix('(') {
        let (inside, rest) = rest.split_once(')')?;
        let inside = inside.trim();
        let lengths: Option<Vec<u64>> = match inside {
            "" => Some(Vec::new()),
            _ => inside.strip_suffix(',').unwrap_or(inside).split(',').map(length).collect(),
        };
        return Some((Literal::Tuple(lengths?), rest));
    }
    if text.starts_with('[') {
        let end = text.rfind(']')?;
        return Some((Literal::List, &text[end + 1..]));
    }
    string(text).map(|(text, rest)| (Literal::Text(text), rest))
}

/// A length as Python writes it; Python 2 ends a long one in `L`.
fn length(text: &str) -> Option<u64> {
    let digits = text.trim();
    let digits = digits.strip_suffix('L').unwrap_or(digits);
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn string(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let (inside, rest) = text[1..].split_once(quote)?;
    (!inside.contains('\\')).then_some((inside, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: u8, text: &str) -> Vec<u8> {
        let length = text.len().to_le_bytes();
        let length_bytes = if version == 1 { 2 } else { 4 };
        [MAGIC, &[version, 0], &length[..length_bytes], text.as_bytes()].concat()
    }

    fn read(bytes: &[u8]) -> Result<NpyHeader, String> {
        NpyHeader::read(&mut &*bytes).map_err(|error| match error {
            HeaderError::Io(error) => error.to_string(),
            HeaderError::Bad { wanted, found } => format!("wanted {wanted}, found {found}"),
        })
    }

    #[test]
    fn every_way_numpy_writes_a_header_is_read() {
        let texts = [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }            \n",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }\n",
            "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}",
            "  { 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' , 'fortran_order' : False }  \n\n",
        ];
        for text in texts {
            for version in 1..=3 {
                let found = read(&header(version, text)).expect(text);
                let data_start = header(version, text).len() as u64;
                let number = NumberType::F32;
                let wanted = NpyHeader {
                    number,
                    big_endian: false,
                    fortran_order: false,
                    rows: 2,
                    dim: 3,
                    data_start,
                };
                assert_eq!(found, wanted, "{text}");
            }
        }
    }

    #[test]
    fn a_header_that_is_none_says_what_was_wanted_and_found() {
        let descr = |descr: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2, 3), }}");
        let shape = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        let table = [
            (descr("'|O'"), "Python objects"),
            (descr("'<i8'"), "int8 or uint8 numbers (<f2, <f4, <f8, |i1, |u1, or > for <), found \"<i8\""),
            (descr("'<c8'"), "found \"<c8\""),
            (descr("'|f4'"), "found \"|f4\""),
            (descr("'é4'"), "found \"é4\""),
            (descr("''"), "found \"\""),
            (descr("[('a', '<f4'), ('b', '<i8')]"), "a structured type"),
            (descr("True"), "found \"descr\""),
            (shape("(5,)"), "found shape (5)"),
            (shape("(5, 2, 3)"), "found shape (5, 2, 3)"),
            (shape("()"), "found shape ()"),
            (shape("(-1, 3)"), "wanted a header like"),
            (shape("(,)"), "wanted a header like"),
            (shape("(18446744073709551616, 3)"), "wanted a header like"),
            ("{'descr': '<f4'}".to_owned(), "not all of them"),
            ("{'descr': '<f4', 'other': True}".to_owned(), "found \"other\""),
            ("(".repeat(60_000), "wanted a header like"),
            (String::new(), "wanted a header like"),
            ("{'descr': '<f4' 'shape': (2, 3)}".to_owned(), "wanted a header like"),
        ];
        for (text, fragment) in table {
            let message = read(&header(1, &text)).expect_err(&text);
            assert!(message.contains(fragment), "{message}\n  lacks {fragment}");
        }
        let mut long = header(2, "{}");
        long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(
            read(&long),
            Err("wanted a header of at most 65536 bytes, found 4294967295 bytes".to_owned())
        );
        assert!(read(&header(4, "{}")).is_err_and(|message| message.contains("found version 4.0")));
        assert!(read(b"PK\x03\x04 and so on").is_err_and(|message| message.contains(r#""PK\x03\x04 a""#)));
    }

    #[test]
    fn every_beginning_of_a_header_is_refused() {
        let whole = header(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n");
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
    }
}
