//! JSON lines: one object a line, with or without a vector in it.

use std::ops::Range;
use std::path::Path;

use dehub_vector::Rows;

use crate::error::{FormatError, excerpt};
use crate::fields::{Columns, Payload, Roles, TEXT_NAMES, UniqueFields};
use crate::input::Input;
use crate::lines::Lines;
use crate::narrow::Dimension;
use crate::options::{BATCH_BYTES_MAX, ReadOptions};
use crate::reader::{Batch, FieldBatch, batch};

/// A cursor over the objects of a file.
pub(crate) struct Jsonl {
    lines: Lines,
    options: ReadOptions,
    with_vectors: bool,
    /// Known from the first row on.
    roles: Option<Roles>,
    dimension: Dimension,
    next_row: u64,
    range: Range<u64>,
}

impl Jsonl {
    pub(crate) fn open(path: &Path, options: ReadOptions, with_vectors: bool) -> Result<Jsonl, FormatError> {
        Jsonl::of(&Input::open(path)?, options, with_vectors)
    }

    pub(crate) fn of(input: &Input, options: ReadOptions, with_vectors: bool) -> Result<Jsonl, FormatError> {
        Ok(Jsonl {
            lines: Lines::of(input)?,
            with_vectors,
            roles: None,
            dimension: Dimension::default(),
            next_row: 0,
            range: options.range(),
            options,
        })
    }

    pub(crate) fn dim(&self) -> Option<usize> {
        self.dimension.get()
    }

    pub(crate) fn path(&self) -> &Path {
        self.lines.path()
    }

    /// The next rows with their vectors; `None` at the end.
    pub(crate) fn batch(&mut self) -> Result<Option<Batch>, FormatError> {
        let mut numbers = Vec::new();
        let (first_row, columns) = self.collect(self.options.batch_rows(), &mut numbers)?;
        let Some(dim) = self.dimension.get().filter(|_| columns.len() > 0) else {
            return Ok(None);
        };
        let vectors = Rows::new(dim, numbers).expect("every row was checked to have `dim` numbers");
        Ok(Some(batch(first_row, vectors, columns)))
    }

    /// The next rows without vectors; `None` at the end.
    pub(crate) fn field_batch(&mut self) -> Result<Option<FieldBatch>, FormatError> {
        let (first_row, mut columns) = self.collect(self.options.batch_rows(), &mut Vec::new())?;
        Ok((columns.len() > 0).then(|| FieldBatch {
            first_row,
            rows: columns.len(),
            ids: columns.ids(),
            payloads: columns.payloads(),
            texts: columns.texts(),
        }))
    }

    /// At most `rows_max` rows, fewer when they are large, and the number of the first.
    pub(crate) fn collect(
        &mut self,
        rows_max: usize,
        numbers: &mut Vec<f32>,
    ) -> Result<(u64, Columns), FormatError> {
        while self.next_row < self.range.start && self.lines.advance()? {
            self.next_row += 1;
        }
        let first_row = self.next_row;
        let mut columns = Columns::default();
        let mut bytes = 0;
        while columns.len() < rows_max && bytes < BATCH_BYTES_MAX && self.next_row < self.range.end {
            if !self.lines.advance()? {
                break;
            }
            bytes += self.lines.bytes().len();
            self.take_line(numbers, &mut columns)?;
            self.next_row += 1;
        }
        Ok((first_row, columns))
    }

    fn take_line(&mut self, numbers: &mut Vec<f32>, columns: &mut Columns) -> Result<(), FormatError> {
        let mut fields = object(&self.lines)?;
        let roles = self.roles.get_or_insert_with(|| {
            // Rows may be without a text, the first one too.
            let has = |name: &str| fields.contains_key(name) || TEXT_NAMES.contains(&name);
            Roles::new(&self.options, self.with_vectors, has)
        });
        let mut take = || {
            if self.with_vectors {
                roles.vector(&mut fields, &mut self.dimension, numbers)?;
            }
            roles.row(std::mem::take(&mut fields))
        };
        let row = take().map_err(|flaw| flaw.at(self.lines.path(), self.lines.place()))?;
        columns.push(row);
        Ok(())
    }
}

fn object(lines: &Lines) -> Result<Payload, FormatError> {
    serde_json::from_slice(lines.bytes()).map(|UniqueFields(fields)| fields).map_err(|error| {
        // The decoder counts lines within this one; its place is the column.
        let message = error.to_string();
        let reason = message.rsplit_once(" at line ").map_or(message.as_str(), |(reason, _)| reason);
        lines.flaw("a JSON object", format!("{} at column {}", excerpt(reason), error.column()))
    })
}
