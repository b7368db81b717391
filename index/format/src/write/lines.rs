//! JSON lines: an object a line, its fields in the order of the columns.

use std::io::Write;
use std::path::Path;

use dehub_vector::PointId;

use super::{Kind, Unfinished};
use crate::arrow::Column;
use crate::error::{Flaw, FormatError, Place};

pub(super) struct LinesSink {
    file: Unfinished,
    lines: u64,
}

impl LinesSink {
    pub(super) fn new(file: Unfinished) -> LinesSink {
        LinesSink { file, lines: 0 }
    }

    /// What is null is left out, and so are numbers that are not finite, which JSON has not; in a vector they are
    /// refused.
    pub(super) fn write(
        &mut self,
        path: &Path,
        names: &[(String, Kind)],
        columns: &[Column],
        rows: usize,
    ) -> Result<(), FormatError> {
        let mut line = Vec::new();
        for row in 0..rows {
            self.lines += 1;
            line.clear();
            for ((name, kind), column) in names.iter().zip(columns) {
                let value = field(name, *kind, column, row);
                let Some(value) = value.map_err(|flaw| flaw.at(path, Place::Line(self.lines)))? else {
                    continue;
                };
                line.push(if line.is_empty() { b'{' } else { b',' });
                line.extend(json(name).bytes());
                line.push(b':');
                line.extend(value.bytes());
            }
            if line.is_empty() {
                line.push(b'{');
            }
            line.extend(b"}\n");
            self.file.write_all(&line).map_err(FormatError::io(path))?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Unfinished {
        self.file
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A value as JSON; `None` if it is left out.
fn field(name: &str, kind: Kind, column: &Column, row: usize) -> Result<Option<String>, Flaw> {
    Ok(match column {
        Column::Whole(numbers) => Some(numbers[row].to_string()),
        Column::Wide(numbers) => Some(numbers[row].to_string()),
        Column::Ids(ids) => Some(match &ids[row] {
            PointId::Number(number) if kind == Kind::NumberIds => number.to_string(),
            PointId::Number(number) => format!("\"{number}\""),
            PointId::Text(text) => json(text),
        }),
        Column::Numbers(numbers) => {
            numbers[row].filter(|number| number.is_finite()).map(|number| number.to_string())
        }
        Column::Texts(texts) => texts[row].as_deref().map(json),
        Column::Json(texts) => match &texts[row] {
            Some(text) => Some(compact(name, text)?),
            None => None,
        },
        Column::Vectors(rows) => Some(vector(name, rows.row(row))?),
        Column::WholeLists(numbers, len) => {
            let list: Vec<String> = numbers[row * len..][..*len].iter().map(u32::to_string).collect();
            Some(format!("[{}]", list.join(",")))
        }
    })
}

/// JSON on one line; what was given is checked to be JSON.
fn compact(name: &str, text: &str) -> Result<String, Flaw> {
    let value: Result<serde_json::Value, _> = serde_json::from_str(text);
    value.map(|value| value.to_string()).map_err(|error| Flaw::value(name, "JSON", error.to_string()))
}

fn vector(name: &str, numbers: &[f32]) -> Result<String, Flaw> {
    let mut text = String::with_capacity(2 + numbers.len() * 12);
    text.push('[');
    for (coordinate, number) in numbers.iter().enumerate() {
        if !number.is_finite() {
            return Err(Flaw::coordinate(name, coordinate, "a finite number", number.to_string()));
        }
        if coordinate > 0 {
            text.push(',');
        }
        text += &number.to_string();
    }
    text.push(']');
    Ok(text)
}
