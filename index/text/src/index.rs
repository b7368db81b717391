//! A folder with the postings of texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tantivy::directory::MmapDirectory;
use tantivy::directory::error::OpenReadError;
use tantivy::indexer::IndexWriterOptions;
use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{IndexWriter, TantivyDocument, TantivyError, Term};

use crate::{Reader, TextError, TextField};

/// The field that holds row numbers.
pub(crate) const ROW: &str = "row";

/// Before the name of a field of texts, so that none is [`ROW`].
const TEXT_PREFIX: &str = "text:";

/// Memory for postings that are not on disk yet.
const WRITE_BYTES: usize = 64 * 1024 * 1024;

/// What an index has taken in. It is part of every commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Whose texts these are.
    pub identity: u64,
    /// The newest change of the owner that is in it, with all before.
    pub sequence: u64,
    /// Rows from this one on are not in it.
    pub next_row: u32,
}

/// A mark as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    mark: Mark,
    check: u32,
}

fn checksum(mark: &Mark) -> u32 {
    let Mark { identity, sequence, next_row } = mark;
    let bytes = [&identity.to_le_bytes()[..], &sequence.to_le_bytes(), &next_row.to_le_bytes()];
    crc32fast::hash(&bytes.concat())
}

/// Reads files that may be damaged. tantivy takes lengths and places in them for what it wrote, and panics where
/// they are not.
fn guarded<T>(folder: &Path, read: impl FnOnce() -> Result<T, TextError>) -> Result<T, TextError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let reason = "a file is not what was written".to_owned();
        Err(TextError::Damaged { path: folder.to_owned(), reason })
    })
}

/// An index of texts in a folder.
pub struct Index {
    pub(crate) folder: PathBuf,
    pub(crate) inner: tantivy::Index,
    pub(crate) fields: BTreeMap<String, TextField>,
    /// The number of each, in their order.
    pub(crate) numbers: Vec<Field>,
    row: Field,
}

impl Index {
    /// Makes an empty index in a folder, in place of what is there.
    pub fn create(folder: &Path, fields: &BTreeMap<String, TextField>) -> Result<Index, TextError> {
        let io = |source: io::Error| error(folder, source.into());
        match fs::remove_dir_all(folder) {
            Ok(()) => {}
            Err(missing) if missing.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(io(source)),
        }
        fs::create_dir_all(folder).map_err(io)?;
        let directory = MmapDirectory::open(folder).map_err(|source| error(folder, source.into()))?;
        let settings = tantivy::IndexSettings::default();
        let (schema, _, _) = schema(fields);
        let inner = tantivy::Index::create(directory, schema, settings);
        Ok(Index::of(folder, inner.map_err(|source| error(folder, source))?, fields))
    }

    /// Opens the index in a folder; `None` if there is none with these fields.
    ///
    /// # Errors
    /// [`TextError::Damaged`] if a file is not what was written, and [`TextError::Index`] if one cannot be read.
    pub fn open(folder: &Path, fields: &BTreeMap<String, TextField>) -> Result<Option<Index>, TextError> {
        guarded(folder, || Index::open_unguarded(folder, fields))
    }

    fn open_unguarded(
        folder: &Path,
        fields: &BTreeMap<String, TextField>,
    ) -> Result<Option<Index>, TextError> {
        let failed = |source| error(folder, source);
        if !folder.is_dir() {
            return Ok(None);
        }
        let directory = MmapDirectory::open(folder).map_err(|source| failed(source.into()))?;
        if !tantivy::Index::exists(&directory).map_err(|source| failed(source.into()))? {
            return Ok(None);
        }
        let inner = tantivy::Index::open(directory).map_err(failed)?;
        if inner.schema() != schema(fields).0 {
            return Ok(None);
        }
        let found = Index::of(folder, inner, fields);
        found.check_files()?;
        Ok(Some(found))
    }

    /// Compares every file with its checksum.
    fn check_files(&self) -> Result<(), TextError> {
        let damaged = |reason| TextError::Damaged { path: self.folder.clone(), reason };
        let broken = self.inner.validate_checksum().map_err(|source| error(&self.folder, source))?;
        if broken.is_empty() {
            return Ok(());
        }
        let names: BTreeSet<String> = broken.iter().map(|path| path.display().to_string()).collect();
        Err(damaged(names.into_iter().collect::<Vec<_>>().join(", ")))
    }

    fn of(folder: &Path, mut inner: tantivy::Index, fields: &BTreeMap<String, TextField>) -> Index {
        let (_, row, numbers) = schema(fields);
        let analyzers = TokenizerManager::default();
        for field in fields.values() {
            analyzers.register(&field.analyzer.to_string(), field.analyzer.build());
        }
        inner.set_tokenizers(analyzers);
        Index { folder: folder.to_owned(), inner, fields: fields.clone(), numbers, row }
    }

    /// What it has taken in; `None` before the first commit.
    pub fn mark(&self) -> Result<Option<Mark>, TextError> {
        let metas = self.inner.load_metas().map_err(|source| error(&self.folder, source))?;
        let read = |payload: String| {
            let stored: Option<Stored> = serde_json::from_str(&payload).ok();
            let mark =
                stored.filter(|stored| stored.check == checksum(&stored.mark)).map(|stored| stored.mark);
            let reason = "its mark is not what was written".to_owned();
            mark.ok_or_else(|| TextError::Damaged { path: self.folder.clone(), reason })
        };
        metas.payload.map(read).transpose()
    }

    /// Begins to change it. One at a time can.
    pub fn write(&self) -> Result<Writing<'_>, TextError> {
        let options = IndexWriterOptions::builder()
            .memory_budget_per_thread(WRITE_BYTES)
            .num_worker_threads(1)
            .num_merge_threads(1)
            .build();
        let failed = |source| error(&self.folder, source);
        let writer: IndexWriter = self.inner.writer_with_options(options).map_err(failed)?;
        // What a change left that was cut off would be in the way of one with the same number.
        writer.garbage_collect_files().wait().map_err(failed)?;
        Ok(Writing { index: self, writer })
    }

    /// What is in it since the newest commit, ready to be searched.
    pub fn read(&self) -> Result<Reader, TextError> {
        guarded(&self.folder, || Reader::of(self))
    }

    fn term_of(&self, row: u32) -> Term {
        Term::from_field_u64(self.row, u64::from(row))
    }
}

/// A change of an index in the making. What is not committed is gone with it.
pub struct Writing<'a> {
    index: &'a Index,
    writer: IndexWriter,
}

impl Writing<'_> {
    /// Takes in the texts of a row, in place of those it had. Each names its field; other fields are passed over.
    pub fn put<'a>(
        &mut self,
        row: u32,
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), TextError> {
        self.remove(row);
        self.add(row, texts)
    }

    /// The same of a row that has none yet.
    pub fn add<'a>(
        &mut self,
        row: u32,
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), TextError> {
        let mut document = TantivyDocument::new();
        document.add_u64(self.index.row, u64::from(row));
        let mut is_empty = true;
        for (name, text) in texts {
            let field = self.index.fields.keys().position(|own| own == name);
            if let Some(&field) = field.and_then(|place| self.index.numbers.get(place)) {
                document.add_text(field, text);
                is_empty = false;
            }
        }
        if is_empty {
            return Ok(());
        }
        self.writer.add_document(document).map_err(|source| error(&self.index.folder, source))?;
        Ok(())
    }

    /// Takes out the texts of a row.
    pub fn remove(&mut self, row: u32) {
        self.writer.delete_term(self.index.term_of(row));
    }

    /// Makes what was changed durable, all of it or nothing.
    pub fn commit(&mut self, mark: Mark) -> Result<(), TextError> {
        let failed = |source| error(&self.index.folder, source);
        let payload = serde_json::to_string(&Stored { mark, check: checksum(&mark) });
        let payload = payload.expect("numbers are JSON");
        let mut prepared = self.writer.prepare_commit().map_err(failed)?;
        prepared.set_payload(&payload);
        prepared.commit().map_err(|source| error(&self.index.folder, source))?;
        Ok(())
    }

    /// Waits until segments that are merged in the background are.
    pub fn finish(self) -> Result<(), TextError> {
        let folder = &self.index.folder;
        self.writer.wait_merging_threads().map_err(|source| error(folder, source))
    }
}

/// The schema of some fields, the field of rows, and those of texts in their order.
fn schema(fields: &BTreeMap<String, TextField>) -> (Schema, Field, Vec<Field>) {
    let mut builder = Schema::builder();
    let row = builder.add_u64_field(ROW, FAST | INDEXED);
    let numbers = fields.iter().map(|(name, field)| {
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(&field.analyzer.to_string())
            .set_index_option(IndexRecordOption::WithFreqs)
            .set_fieldnorms(true);
        let options = TextOptions::default().set_indexing_options(indexing);
        builder.add_text_field(&format!("{TEXT_PREFIX}{name}"), options)
    });
    let numbers = numbers.collect();
    (builder.build(), row, numbers)
}

/// A failure of tantivy: a file that is not what was written or is gone, or something else.
pub(crate) fn error(folder: &Path, source: TantivyError) -> TextError {
    let path = folder.to_owned();
    let is_short =
        |error: &io::Error| matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData);
    let is_cut_off = if let TantivyError::IoError(error) = &source {
        is_short(error)
    } else if let TantivyError::OpenReadError(OpenReadError::IoError { io_error, .. }) = &source {
        is_short(io_error)
    } else {
        false
    };
    let is_damage = matches!(
        source,
        TantivyError::DataCorruption(_)
            | TantivyError::IncompatibleIndex(_)
            | TantivyError::DeserializeError(_)
            | TantivyError::OpenReadError(
                OpenReadError::FileDoesNotExist(_) | OpenReadError::IncompatibleIndex(_)
            )
    );
    if is_damage || is_cut_off {
        return TextError::Damaged { path, reason: source.to_string() };
    }
    TextError::Index { path, source: Box::new(source) }
}
