//! Results on standard output, progress on standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// Not at all: a step of a larger command.
    Nothing,
}

/// Where a command's results go, and in which form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// The form of results.
    pub form: Form,
    /// No progress.
    pub quiet: bool,
}

impl Output {
    /// Prints the result: `value` as JSON, or else `text`.
    pub(crate) fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self.form {
            Form::Text => writeln!(out, "{}", text().trim_end()),
            Form::Json => {
                serde_json::to_writer(&mut out, value)?;
                writeln!(out)
            }
            Form::Nothing => Ok(()),
        }
    }

    /// Prints a line of text that belongs to no result, for people only.
    pub(crate) fn line(&self, line: impl Display) -> io::Result<()> {
        match self.form {
            Form::Text => writeln!(io::stdout().lock(), "{line}"),
            Form::Json | Form::Nothing => Ok(()),
        }
    }

    /// A note for the person watching; not part of the result.
    pub(crate) fn note(&self, line: impl Display) {
        if !self.quiet {
            // A closed standard error is no reason to fail.
            _ = writeln!(io::stderr().lock(), "{line}");
        }
    }

    /// A bar over `total` steps, or a spinner when the total is unknown. Drawn on a terminal only.
    pub(crate) fn progress(&self, what: &'static str, total: Option<u64>) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), "{msg} {wide_bar} {human_pos}/{human_len} {eta}"),
            None => (ProgressBar::new_spinner(), "{spinner} {msg} {human_pos} {elapsed}"),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

/// A table with the numbers to the right of the first `left` columns.
pub(crate) fn table(head: &[&str], left: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head);
    // What a stored text could do to a terminal is shown, not done.
    let visible = |cell: String| cell.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    for row in rows {
        table.add_row(row.into_iter().map(visible));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    // Padding at the ends of lines is of no use to anyone.
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
