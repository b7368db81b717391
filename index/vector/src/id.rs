//! Point ids: a UTF-8 string or an unsigned integer, kept apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest string id, in bytes. A key of the store holds an id, and keys are kept short.
pub const ID_BYTES_MAX: usize = 512;

/// The name a user gives a point. The number `7` and the string `"7"` are two different ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PointId {
    /// An unsigned integer.
    Number(u64),
    /// A UTF-8 string of 1 to [`ID_BYTES_MAX`] bytes.
    Text(Box<str>),
}

/// Why a string cannot be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The string is empty.
    #[error("an id must not be empty")]
    Empty,
    /// The string is longer than a key of the store may be.
    #[error("an id may have {ID_BYTES_MAX} bytes, this one has {found}")]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
}

impl PointId {
    /// An id from a string, kept as a string even if it spells a number.
    pub fn text(text: &str) -> Result<PointId, IdError> {
        match text.len() {
            0 => Err(IdError::Empty),
            1..=ID_BYTES_MAX => Ok(PointId::Text(text.into())),
            found => Err(IdError::TooLong { found }),
        }
    }

    /// The id as a person writes it: digits are a number, all else a string.
    /// For command lines and text files, where the two cannot be told apart.
    pub fn parse(text: &str) -> Result<PointId, IdError> {
        match text.parse::<u64>() {
            Ok(number) if number.to_string() == text => Ok(PointId::Number(number)),
            _ => PointId::text(text),
        }
    }
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PointId::Number(number) => write!(f, "{number}"),
            PointId::Text(text) => f.write_str(text),
        }
    }
}

impl From<u64> for PointId {
    fn from(number: u64) -> Self {
        PointId::Number(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_the_string_that_spells_it_are_different_ids() {
        assert_ne!(PointId::Number(7), PointId::text("7").expect("short"));
        assert_eq!(PointId::parse("7"), Ok(PointId::Number(7)));
        assert_eq!(PointId::parse("007"), PointId::text("007"));
        assert_eq!(PointId::parse("+7"), PointId::text("+7"));
        assert_eq!(PointId::parse("18446744073709551616"), PointId::text("18446744073709551616"));
    }

    #[test]
    fn an_empty_or_overlong_id_is_refused() {
        assert_eq!(PointId::text(""), Err(IdError::Empty));
        assert_eq!(PointId::text(&"x".repeat(513)), Err(IdError::TooLong { found: 513 }));
        assert!(PointId::text(&"x".repeat(512)).is_ok());
    }
}
