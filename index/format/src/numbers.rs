//! Numbers as files hold them, and as 32-bit floats.

use dehub_vector::DIM_MAX;
use half::{bf16, f16};

use crate::error::{Flaw, FormatError};
use crate::narrow::narrow;

/// How one number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberType {
    F16,
    Bf16,
    F32,
    F64,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
}

impl NumberType {
    pub(crate) fn bytes(self) -> usize {
        match self {
            NumberType::I8 | NumberType::U8 => 1,
            NumberType::F16 | NumberType::Bf16 | NumberType::I16 | NumberType::U16 => 2,
            NumberType::F32 | NumberType::I32 | NumberType::U32 => 4,
            NumberType::F64 | NumberType::I64 | NumberType::U64 => 8,
        }
    }
}

/// A number that 32 bits cannot hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Misfit {
    /// It would become infinite.
    Overflow(f64),
    /// It would become another integer.
    Inexact(i128),
}

impl Misfit {
    pub(crate) fn flaw(self, field: &str, coordinate: usize) -> Flaw {
        match self {
            Misfit::Overflow(found) => Flaw::overflow(field, coordinate, found),
            Misfit::Inexact(found) => {
                let wanted = "an integer that a 32-bit float is exactly";
                Flaw::coordinate(field, coordinate, wanted, found.to_string())
            }
        }
    }
}

/// Decodes as many numbers as `numbers` has. The error is the index of one that does not fit.
pub(crate) fn decode(
    bytes: &[u8],
    number: NumberType,
    big_endian: bool,
    numbers: &mut [f32],
) -> Result<(), (usize, Misfit)> {
    match number {
        NumberType::I8 => each(bytes, numbers, |[byte]| f32::from(i8::from_le_bytes([byte]))),
        NumberType::U8 => each(bytes, numbers, |[byte]| f32::from(byte)),
        NumberType::I16 => each(bytes, numbers, |bytes| f32::from(i16::from_le_bytes(le(bytes, big_endian)))),
        NumberType::U16 => each(bytes, numbers, |bytes| f32::from(u16::from_le_bytes(le(bytes, big_endian)))),
        NumberType::F16 => each(bytes, numbers, |bytes| f16::from_le_bytes(le(bytes, big_endian)).to_f32()),
        NumberType::Bf16 => each(bytes, numbers, |bytes| bf16::from_le_bytes(le(bytes, big_endian)).to_f32()),
        NumberType::F32 => each(bytes, numbers, |bytes| f32::from_le_bytes(le(bytes, big_endian))),
        NumberType::F64 => {
            return try_each(bytes, numbers, |bytes| {
                let value = f64::from_le_bytes(le(bytes, big_endian));
                narrow(value).ok_or(Misfit::Overflow(value))
            });
        }
        NumberType::I32 => {
            return try_each(bytes, numbers, |bytes| exact(i32::from_le_bytes(le(bytes, big_endian)).into()));
        }
        NumberType::U32 => {
            return try_each(bytes, numbers, |bytes| exact(u32::from_le_bytes(le(bytes, big_endian)).into()));
        }
        NumberType::I64 => {
            return try_each(bytes, numbers, |bytes| exact(i64::from_le_bytes(le(bytes, big_endian)).into()));
        }
        NumberType::U64 => {
            return try_each(bytes, numbers, |bytes| exact(u64::from_le_bytes(le(bytes, big_endian)).into()));
        }
    }
    Ok(())
}

/// The bytes of a number with the lowest first.
fn le<const N: usize>(mut bytes: [u8; N], big_endian: bool) -> [u8; N] {
    if big_endian {
        bytes.reverse();
    }
    bytes
}

fn exact(value: i128) -> Result<f32, Misfit> {
    let number = value as f32;
    if number as i128 == value { Ok(number) } else { Err(Misfit::Inexact(value)) }
}

fn each<const N: usize>(bytes: &[u8], numbers: &mut [f32], decode: impl Fn([u8; N]) -> f32) {
    let (values, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty() && values.len() == numbers.len(), "the bytes of exactly these numbers");
    for (number, &value) in numbers.iter_mut().zip(values) {
        *number = decode(value);
    }
}

fn try_each<const N: usize>(
    bytes: &[u8],
    numbers: &mut [f32],
    decode: impl Fn([u8; N]) -> Result<f32, Misfit>,
) -> Result<(), (usize, Misfit)> {
    let (values, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty() && values.len() == numbers.len(), "the bytes of exactly these numbers");
    for (index, (number, &value)) in numbers.iter_mut().zip(values).enumerate() {
        *number = decode(value).map_err(|misfit| (index, misfit))?;
    }
    Ok(())
}

/// The dimension of vectors, if a collection can have it.
pub(crate) fn vector_dim(path: &std::path::Path, found: u64) -> Result<usize, FormatError> {
    let dim = usize::try_from(found).ok().filter(|dim| (1..=DIM_MAX).contains(dim));
    dim.ok_or_else(|| FormatError::Dimension { path: path.to_owned(), found })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(number: NumberType, big_endian: bool, bytes: &[u8]) -> Result<Vec<f32>, (usize, Misfit)> {
        let mut numbers = vec![0.0; bytes.len() / number.bytes()];
        decode(bytes, number, big_endian, &mut numbers).map(|()| numbers)
    }

    #[test]
    fn integers_are_taken_if_a_float_is_exactly_them() {
        let bytes = |values: &[i64]| values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<u8>>();
        let good = [0, -1, 1 << 24, -(1 << 24), 1 << 40];
        let wanted: Vec<f32> = good.iter().map(|&value| value as f32).collect();
        assert_eq!(decoded(NumberType::I64, true, &bytes(&good)), Ok(wanted));
        let refused = decoded(NumberType::I64, true, &bytes(&[5, (1 << 24) + 1]));
        assert_eq!(refused, Err((1, Misfit::Inexact((1 << 24) + 1))));
        let top = decoded(NumberType::U64, false, &u64::MAX.to_le_bytes());
        assert_eq!(top, Err((0, Misfit::Inexact(u64::MAX.into()))));
        assert_eq!(decoded(NumberType::I32, false, &i32::MIN.to_le_bytes()), Ok(vec![-2_147_483_648.0]));
    }

    #[test]
    fn halves_of_both_kinds_are_told_apart() {
        assert_eq!(decoded(NumberType::F16, true, &[0x3c, 0]), Ok(vec![1.0]));
        assert_eq!(decoded(NumberType::Bf16, false, &[0x80, 0x3f]), Ok(vec![1.0]));
        assert_eq!(decoded(NumberType::U16, true, &[1, 2]), Ok(vec![258.0]));
    }
}
