//! Rows that are written, batch by batch.

use dehub_format::{TableBatch, TableFormat};
use dehub_index::BATCH_POINTS_MAX;
use serde_json::Value;

use crate::bodies::{LEAVE_OUT, LineBatch, refused};
use crate::call::{Answer, Task};
use crate::decode::{self, Place};
use crate::errors::EMPTY_BATCH;
use crate::problem::Problem;

/// Where rows are written to.
pub(crate) trait RowSink: Send + 'static {
    /// The parameters of the query string that say what a JSON body says beside its rows.
    const PARAMETERS: &'static [&'static str];

    /// Looks at all there is to know before the first row.
    fn begin(task: &Task) -> Result<Self, Problem>
    where
        Self: Sized;

    /// Takes a row of JSON, with its number from 0.
    fn take(&mut self, value: Value, row: u64, place: Place<'_>) -> Result<(), Problem>;

    /// Takes rows of a table.
    fn take_table(&mut self, batch: TableBatch) -> Result<(), Problem>;

    /// Writes what was taken since, in one commit. Gives the number of rows.
    fn write(&mut self, task: &Task) -> Result<usize, Problem>;

    /// The answer when all is written.
    fn reply(self, task: &Task) -> Result<Answer, Problem>;
}

/// Rows under way to a sink.
pub(crate) struct Rows<S> {
    task: Task,
    sink: S,
    /// The rows that are stored.
    stored: usize,
}

impl<S: RowSink> Rows<S> {
    pub(crate) fn begin(task: Task) -> Result<Rows<S>, Problem> {
        let sink = S::begin(&task)?;
        Ok(Rows { task, sink, stored: 0 })
    }

    /// The rows that are stored.
    pub(crate) fn stored(&self) -> usize {
        self.stored
    }

    /// Decodes and writes lines, in one commit.
    pub(crate) fn write_lines(&mut self, lines: &LineBatch) -> Result<(), Problem> {
        for (row, line) in lines.iter() {
            let taken = decode_line(row, line, |value, place| self.sink.take(value, row, place));
            taken.map_err(|problem| problem.stored(self.stored))?;
        }
        self.write().map_err(|problem| match problem.row() {
            Some(row) => problem.on_line(row + 1),
            None => problem,
        })
    }

    /// Decodes and writes a table that is there as a whole, batch by batch.
    pub(crate) fn write_table(
        &mut self,
        format: TableFormat,
        bytes: Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), Problem> {
        let mut table = super::open(format, bytes, bytes_max, self.task.parameters.text(LEAVE_OUT))?;
        // How long the batches of a table are is its writer's affair: they are put together to ours.
        let mut pending = 0;
        while let Some(batch) = table.next() {
            let batch = batch.map_err(|error| refused(&error).stored(self.stored))?;
            if pending + batch.rows > BATCH_POINTS_MAX {
                self.write()?;
                table.forget();
                pending = 0;
            }
            pending += batch.rows;
            self.sink.take_table(batch).map_err(|problem| problem.stored(self.stored))?;
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), Problem> {
        let written = self.sink.write(&self.task);
        self.stored += written.map_err(|problem| problem.stored(self.stored))?;
        Ok(())
    }

    /// The answer when all is written.
    pub(crate) fn reply(self) -> Result<Answer, Problem> {
        if self.stored == 0 {
            return Err(Problem::new(EMPTY_BATCH, "the body has no rows, wanted at least one").at(""));
        }
        self.sink.reply(&self.task)
    }
}

/// Decodes a line, which is the row of this number.
pub(crate) fn decode_line<T>(
    row: u64,
    line: &[u8],
    read: impl FnOnce(Value, Place<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let body = Place::Body;
    let rows = body.field("rows");
    let place = rows.entry(usize::try_from(row).unwrap_or(usize::MAX));
    let decoded = decode::line(line, place).and_then(|value| read(value, place));
    decoded.map_err(|problem| problem.on_line(row + 1))
}
