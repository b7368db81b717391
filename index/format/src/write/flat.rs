//! Matrices whose numbers lie one after the other: npy, `.fvecs` and `.fbin` and their kin.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use dehub_vector::Rows;

use super::Unfinished;
use crate::error::{Flaw, FormatError, Place};
use crate::formats::Format;
use crate::numbers::NumberType;

/// The bytes of the header of an npy file: numpy's own is as long, with a place for a growing number of rows.
const NPY_HEADER_BYTES: usize = 128;

pub(super) struct FlatSink {
    file: Unfinished,
    dim: usize,
    number: NumberType,
    head: Head,
    begun: bool,
}

/// What stands before numbers.
#[derive(Clone, Copy)]
enum Head {
    /// A header that says how many rows there are.
    Npy,
    /// Two lengths.
    Lengths,
    /// The length of each row.
    EachRow,
}

impl FlatSink {
    /// An array of 32-bit floats or integers.
    pub(super) fn npy(file: Unfinished, dim: usize, number: NumberType) -> FlatSink {
        FlatSink { file, dim, number, head: Head::Npy, begun: false }
    }

    pub(super) fn bin(file: Unfinished, dim: usize, format: Format) -> FlatSink {
        FlatSink { file, dim, number: number(format), head: Head::Lengths, begun: false }
    }

    pub(super) fn vecs(file: Unfinished, dim: usize, format: Format) -> FlatSink {
        FlatSink { file, dim, number: number(format), head: Head::EachRow, begun: false }
    }

    pub(super) fn write(&mut self, path: &Path, first_row: u64, rows: &Rows) -> Result<(), FormatError> {
        self.begin(path)?;
        let mut bytes = Vec::with_capacity(4 + self.dim * self.number.bytes());
        for (row, vector) in (first_row..).zip(rows.iter()) {
            bytes.clear();
            if let Head::EachRow = self.head {
                bytes.extend(length(self.dim));
            }
            for (coordinate, &value) in vector.iter().enumerate() {
                if !encode(value, self.number, &mut bytes) {
                    let wanted = format!("a number that is one of {:?}", self.number);
                    let flaw = Flaw::coordinate("vector", coordinate, &wanted, value.to_string());
                    return Err(flaw.at(path, Place::Row(row)));
                }
            }
            self.file.write_all(&bytes).map_err(FormatError::io(path))?;
        }
        Ok(())
    }

    /// The same of integers, for a sink of these.
    pub(super) fn write_whole(
        &mut self,
        path: &Path,
        first_row: u64,
        numbers: &[u32],
    ) -> Result<(), FormatError> {
        self.begin(path)?;
        for (row, list) in (first_row..).zip(numbers.chunks_exact(self.dim)) {
            let mut bytes = Vec::with_capacity(4 + self.dim * self.number.bytes());
            if let Head::EachRow = self.head {
                bytes.extend(length(self.dim));
            }
            for (coordinate, &number) in list.iter().enumerate() {
                let signed = i32::try_from(number).map_err(|_| {
                    let flaw =
                        Flaw::coordinate("list", coordinate, "a number below 2^31", number.to_string());
                    flaw.at(path, Place::Row(row))
                })?;
                bytes.extend(signed.to_le_bytes());
            }
            self.file.write_all(&bytes).map_err(FormatError::io(path))?;
        }
        Ok(())
    }

    /// The place of the header, which is written at the end.
    fn begin(&mut self, path: &Path) -> Result<(), FormatError> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        let place = match self.head {
            Head::Npy => NPY_HEADER_BYTES,
            Head::Lengths => 8,
            Head::EachRow => 0,
        };
        self.file.write_all(&vec![0; place]).map_err(FormatError::io(path))
    }

    pub(super) fn finish(mut self, path: &Path, rows: u64) -> Result<Unfinished, FormatError> {
        self.begin(path)?;
        let header = match self.head {
            Head::EachRow => return Ok(self.file),
            Head::Npy => npy_header(rows, self.dim, self.number),
            Head::Lengths => {
                let rows = u32::try_from(rows).map_err(|_| FormatError::Options {
                    path: path.to_owned(),
                    reason: format!("{rows} rows are more than the format can say"),
                })?;
                [rows.to_le_bytes(), length(self.dim)].concat()
            }
        };
        let mut write = || -> io::Result<()> {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(&header)
        };
        write().map_err(FormatError::io(path))?;
        Ok(self.file)
    }
}

fn number(format: Format) -> NumberType {
    format.number().expect("the formats whose names tell the type of their numbers")
}

fn length(dim: usize) -> [u8; 4] {
    u32::try_from(dim).expect("a dimension is below 65,536").to_le_bytes()
}

/// A header of version 1, filled with spaces.
fn npy_header(rows: u64, dim: usize, number: NumberType) -> Vec<u8> {
    let kind = if number == NumberType::I32 { "i4" } else { "f4" };
    let dictionary = format!("{{'descr': '<{kind}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}");
    let text = NPY_HEADER_BYTES - 10;
    let mut header = b"\x93NUMPY\x01\0".to_vec();
    header.extend(u16::try_from(text).expect("below 65,536").to_le_bytes());
    header.extend(format!("{dictionary:<width$}\n", width = text - 1).bytes());
    assert_eq!(header.len(), NPY_HEADER_BYTES, "two numbers of at most 20 digits leave room");
    header
}

/// Appends a number if it is one of the type.
fn encode(value: f32, number: NumberType, bytes: &mut Vec<u8>) -> bool {
    let whole = |lowest: f64, highest: f64| {
        let value = f64::from(value);
        // The comparison is false for NaN.
        (value.fract() == 0.0 && (lowest..=highest).contains(&value)).then_some(value as i64)
    };
    match number {
        NumberType::F32 => bytes.extend(value.to_le_bytes()),
        NumberType::I8 => match whole(-128.0, 127.0) {
            Some(value) => bytes.push(value.to_le_bytes()[0]),
            None => return false,
        },
        NumberType::U8 => match whole(0.0, 255.0) {
            Some(value) => bytes.push(value.to_le_bytes()[0]),
            None => return false,
        },
        NumberType::I32 => match whole(f64::from(i32::MIN), f64::from(i32::MAX)) {
            Some(value) => bytes.extend(&value.to_le_bytes()[..4]),
            None => return false,
        },
        NumberType::F16
        | NumberType::Bf16
        | NumberType::F64
        | NumberType::I16
        | NumberType::U16
        | NumberType::U32
        | NumberType::I64
        | NumberType::U64 => unreachable!("no format that is written has numbers of this type"),
    }
    true
}
