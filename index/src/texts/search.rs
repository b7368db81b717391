//! Finding points by words.

use std::ops::Range;
use std::sync::atomic::Ordering;

use dehub_text::{FieldStatistics, TextError, TextHit, TextQuery, highlight};

use super::TextFields;
use crate::{Blame, Point, ReadError, Scope, Snapshot, TimeUp};

/// What a search for words found.
#[derive(Debug, Clone, PartialEq)]
pub struct TextAnswer {
    /// The rows, best first, ties by the lower row.
    pub hits: Vec<TextHit>,
    /// The newest commit that the index of texts knows of, with all before. What was written later is not found; what
    /// was deleted later is no answer.
    pub sequence: u64,
}

/// A part of a text with words that were looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextHighlight {
    /// The field of the text.
    pub field: String,
    /// The part.
    pub fragment: String,
    /// Where in it the words are, in bytes, ascending and apart.
    pub spans: Vec<Range<usize>>,
}

/// Why words are not looked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextSearchError {
    /// No field of texts is set.
    #[error("the collection has no text fields to search by words; set some first")]
    NoFields,
    /// Their index is being made.
    #[error("the index of texts is being made; try again")]
    NotReady,
    /// The query cannot be asked, or the index cannot be read or written.
    #[error(transparent)]
    Text(TextError),
    /// The time was up.
    #[error(transparent)]
    TimeUp(#[from] TimeUp),
    /// A point cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl TextSearchError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            TextSearchError::NotReady
            | TextSearchError::Read(_)
            | TextSearchError::Text(TextError::Index { .. } | TextError::Damaged { .. }) => {
                Blame::Environment
            }
            TextSearchError::NoFields | TextSearchError::TimeUp(_) | TextSearchError::Text(_) => {
                Blame::Caller
            }
        }
    }
}

impl From<TextError> for TextSearchError {
    fn from(error: TextError) -> TextSearchError {
        TextSearchError::Text(error)
    }
}

impl Snapshot {
    /// The fields of texts; none where points are not found by words.
    pub fn text_fields(&self) -> Option<&TextFields> {
        self.texts.as_ref().map(|texts| texts.fields())
    }

    /// The newest commit that the index of texts knows of; `None` where there are no fields of texts.
    pub fn text_sequence(&self) -> Option<u64> {
        self.texts.as_ref().map(|texts| texts.known.load(Ordering::Acquire))
    }

    /// What the scores of each field of texts are made from, in the order of the fields; empty until their index is
    /// made.
    pub fn text_statistics(&self) -> Vec<FieldStatistics> {
        let reader = self.texts.as_ref().and_then(|texts| texts.reader.load_full());
        reader.map_or_else(Vec::new, |reader| reader.statistics().map(|(_, counts)| counts).collect())
    }

    /// The bytes of the index of texts; `None` where there are no fields of texts.
    pub fn text_bytes(&self) -> Option<u64> {
        self.texts.as_ref().map(|texts| texts.reader.load().as_ref().map_or(0, |reader| reader.bytes()))
    }

    /// The best `limit` points of a scope by the words of a query, as [`dehub_text::Reader::search`] ranks them.
    ///
    /// # Errors
    /// [`TextSearchError`], of which all but [`TextSearchError::NotReady`], [`TextSearchError::Read`] and a damaged or
    /// unreadable index are the query's.
    pub fn search_text(
        &self,
        scope: &Scope,
        query: &TextQuery,
        limit: usize,
    ) -> Result<TextAnswer, TextSearchError> {
        let texts = self.texts.as_ref().ok_or(TextSearchError::NoFields)?;
        query.check(texts.fields())?;
        // The number first: what is read after it knows at least as much.
        let sequence = texts.known.load(Ordering::Acquire);
        let reader = texts.reader.load_full().ok_or(TextSearchError::NotReady)?;
        let found = reader.search(query, &|row| scope.contains(row), limit, &|| scope.is_over());
        match found {
            Err(TextError::Stopped) => Ok(scope.in_time(TextAnswer { hits: Vec::new(), sequence })?),
            Err(error) => Err(error.into()),
            Ok(hits) => Ok(scope.in_time(TextAnswer { hits, sequence })?),
        }
    }

    /// The parts of a point's texts that have most of the words of a query, of about so many characters each, at most
    /// one for each text; of the fields that the query asks.
    pub fn highlight(
        &self,
        query: &TextQuery,
        point: &Point,
        max_chars: usize,
    ) -> Result<Vec<TextHighlight>, TextSearchError> {
        let texts = self.texts.as_ref().ok_or(TextSearchError::NoFields)?;
        query.check(texts.fields())?;
        let is_asked =
            |name: &str| query.fields.is_empty() || query.fields.iter().any(|(own, _)| own == name);
        let mut found = Vec::new();
        for (name, text) in texts.texts_of(point)? {
            let Some(field) = texts.fields().get(name).filter(|_| is_asked(name)) else { continue };
            let part = highlight(field.analyzer, query, &text, max_chars);
            let whole = |part: dehub_text::Highlight| {
                let dehub_text::Highlight { fragment, spans } = part;
                TextHighlight { field: name.to_owned(), fragment, spans }
            };
            found.extend(part.map(whole));
        }
        Ok(found)
    }
}
