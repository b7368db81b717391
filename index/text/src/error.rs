//! What can go wrong with an index of texts.

use std::path::PathBuf;

/// Why a text is not found or taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The folder cannot be read or written.
    #[error("the index of texts in {}: {source}", path.display())]
    Index {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: Box<tantivy::TantivyError>,
    },
    /// A file is not what was written.
    #[error("the index of texts in {} is damaged: {reason}", path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// Which files, or what is wrong.
        reason: String,
    },
    /// A field that there is not.
    #[error("there is no text field `{asked}`; there are: {found}")]
    UnknownField {
        /// What was asked for.
        asked: String,
        /// Those there are.
        found: String,
    },
    /// A field's weight that is none.
    #[error("the weight of the text field `{field}` is {found}, wanted a number above 0, at most 1000")]
    Weight {
        /// The field.
        field: String,
        /// What was given.
        found: f32,
    },
    /// A query of too many terms.
    #[error("the query has {found} different terms in the field `{field}`, wanted {most} at most")]
    TooManyTerms {
        /// The field.
        field: String,
        /// How many there are.
        found: usize,
        /// The most taken.
        most: usize,
    },
    /// The search was told to stop.
    #[error("the search was stopped")]
    Stopped,
}
