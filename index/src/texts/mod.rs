//! Fields of texts: what of a point is found by words, and the index of that, which is derived.
//!
//! The index of a collection is in a folder of its own, and is brought up to date in steps: by whoever calls
//! [`Collection::refresh_text`], and when the collection is opened. Rows are never reused, so what is new is the rows
//! beyond those it has; payloads that changed under their row are noted in the store, in the commit that changes them.

mod catch_up;
mod search;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use dehub_store::View;
use dehub_text::{FieldError, Index, Reader, TextField};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::{META, TEXTS_KEY, damaged, from_json};
use crate::{PathError, PayloadPath, Point, ReadError};

pub use search::{TextAnswer, TextHighlight, TextSearchError};

/// The most fields of texts of a collection.
pub const TEXT_FIELDS_MAX: usize = 16;

/// The field of a point's own text; where a point has none, of the payload's `text`.
pub const TEXT_FIELD: &str = "text";

/// How the folder of an index of texts starts.
const FOLDER: &str = "text-";

/// The fields of texts of a collection, by name: [`TEXT_FIELD`], or a path into payloads, whose strings are then the
/// texts.
pub type TextFields = BTreeMap<String, TextField>;

/// Fields that a collection cannot have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TextFieldsError {
    /// A name that is no path.
    #[error("a text field is named `text` or by a path into payloads: {0}")]
    Path(#[from] PathError),
    /// A parameter out of range.
    #[error("the text field `{name}`: {source}")]
    Field {
        /// The field.
        name: String,
        /// Which parameter.
        source: FieldError,
    },
    /// Too many.
    #[error("a collection has at most {TEXT_FIELDS_MAX} text fields, found {found}")]
    TooMany {
        /// How many there are.
        found: usize,
    },
}

/// The fields as they are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextRecord {
    pub(crate) fields: TextFields,
}

/// The texts of a collection, with the index of them as far as it has come. States and snapshots share it.
pub(crate) struct Texts {
    fields: TextFields,
    /// Where the texts of each field are.
    sources: Vec<Source>,
    folder: PathBuf,
    identity: u64,
    /// What is searched; none until the index was read.
    reader: ArcSwapOption<Reader>,
    /// Held while the index is changed.
    index: Mutex<Option<Index>>,
    /// The commit whose changes are all in what is searched.
    known: AtomicU64,
    /// The commit whose changes are all on disk, in the index.
    kept: AtomicU64,
}

enum Source {
    /// A point's own text, or what its payload has there.
    Own(PayloadPath),
    Payload(PayloadPath),
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Texts")
            .field("fields", &self.fields)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Checks the fields of a collection.
pub(crate) fn check(fields: &TextFields) -> Result<(), TextFieldsError> {
    if fields.len() > TEXT_FIELDS_MAX {
        return Err(TextFieldsError::TooMany { found: fields.len() });
    }
    for (name, field) in fields {
        name.parse::<PayloadPath>()?;
        field.check().map_err(|source| TextFieldsError::Field { name: name.clone(), source })?;
    }
    Ok(())
}

/// The texts of a collection in a folder, as its store has them; the index is not looked at yet.
pub(crate) fn read(view: &View<'_>, collection: &Path, identity: u64) -> Result<Option<Texts>, ReadError> {
    let Some(bytes) = view.get(META, TEXTS_KEY)? else { return Ok(None) };
    let TextRecord { fields } = from_json(META, &bytes)?;
    Texts::new(fields, collection, identity).map(Some).map_err(|error| damaged(META, error).into())
}

impl Texts {
    /// The texts of fields that are checked.
    pub(crate) fn new(fields: TextFields, collection: &Path, identity: u64) -> Result<Texts, PathError> {
        let source = |name: &String| {
            let path: PayloadPath = name.parse()?;
            Ok(if name == TEXT_FIELD { Source::Own(path) } else { Source::Payload(path) })
        };
        let sources = fields.keys().map(source).collect::<Result<_, PathError>>()?;
        // An index of other fields is another folder: what is half made of the one is never taken for the other.
        let described = serde_json::to_string(&fields).expect("fields are JSON");
        let hash = blake3::hash(format!("{identity:016x} {described}").as_bytes()).to_hex();
        let folder = collection.join(format!("{FOLDER}{}", &hash[..16]));
        Ok(Texts {
            fields,
            sources,
            folder,
            identity,
            reader: ArcSwapOption::empty(),
            index: Mutex::new(None),
            known: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        })
    }

    pub(crate) fn fields(&self) -> &TextFields {
        &self.fields
    }

    /// The commit up to which notes of changed payloads are needed no more.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Acquire)
    }

    /// Its folder's name.
    pub(crate) fn place(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The texts of a point, each with its field.
    pub(crate) fn texts_of(&self, point: &Point) -> Result<Vec<(&str, String)>, ReadError> {
        let payload = point.payload.as_ref().map(|payload| payload.read().map(Value::Object)).transpose()?;
        let mut texts = Vec::new();
        for (name, source) in self.fields.keys().zip(&self.sources) {
            let mut add = |text: &str| texts.push((name.as_str(), text.to_owned()));
            let path = match (source, &point.text) {
                (Source::Own(_), Some(text)) => {
                    add(text);
                    continue;
                }
                (Source::Own(path), None) | (Source::Payload(path), _) => path,
            };
            if let Some(payload) = &payload {
                path.each(payload, |value| value.as_str().into_iter().for_each(&mut add));
            }
        }
        Ok(texts)
    }

    /// Removes indexes that are not this one.
    fn sweep(&self) {
        self.folder.parent().into_iter().for_each(|collection| sweep(collection, Some(&self.folder)));
    }
}

/// Removes the indexes of texts in the folder of a collection, but one.
pub(crate) fn sweep(collection: &Path, but: Option<&Path>) {
    for path in fs::read_dir(collection).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(FOLDER)) && but != Some(&path) {
            // Derived, and in nobody's way: the next who looks removes it.
            _ = fs::remove_dir_all(&path);
        }
    }
}
