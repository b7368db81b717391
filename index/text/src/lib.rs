//! Texts, analysed and ranked by BM25.
//!
//! An [`Index`] is a folder of texts by row number: what they are the texts of, and which rows may be answers, is for
//! its owner to know. It is derived data: its owner keeps the texts and makes the folder again whenever it is missing
//! or damaged. [`Mark`] says what it has taken in.
//!
//! tantivy keeps the postings. Scores are computed here, as the parameters of BM25 are a field's own and what is
//! deleted is to count for nothing; so they are the same however the texts are spread over segments.

mod analyzer;
mod error;
mod field;
mod highlight;
mod index;
mod query;
mod reader;
mod tokens;

pub use analyzer::{Analyzer, AnalyzerError, Language};
pub use error::TextError;
pub use field::{FieldError, TextField};
pub use highlight::{Highlight, highlight};
pub use index::{Index, Mark, Writing};
pub use query::{QUERY_TERMS_MAX, TextQuery};
pub use reader::{FieldStatistics, Reader, TextHit};
