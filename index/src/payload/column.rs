//! Columns of payload fields in memory: what an index of a field is.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use dehub_vector::CHUNK_ROWS;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::postings::{Inverted, Postings, Shelf, is_stale};
use super::{FieldValue, Payload, PayloadPath, Scalar, moment};
use crate::record::DamagedRecord;

/// Indexes of a collection. Each holds values of every point in memory and is kept by every write.
pub const PAYLOAD_INDEXES_MAX: usize = 64;

/// What values an index of a field keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldKind {
    /// Strings, compared as wholes.
    Keyword,
    /// Whole numbers of 64 bits with a sign.
    Integer,
    /// Numbers.
    Float,
    /// `true` and `false`.
    Bool,
    /// Objects with `lat` and `lon`.
    Geo,
    /// Strings that name a moment.
    Datetime,
    /// Strings, compared word by word.
    Text,
    /// Strings that are UUIDs.
    Uuid,
}

/// No kind of index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no kind of payload index, wanted {}", FieldKind::NAMES)]
pub struct FieldKindError {
    /// What was given.
    pub found: String,
}

impl FieldKind {
    /// Every kind.
    pub const ALL: [FieldKind; 8] = [
        FieldKind::Keyword,
        FieldKind::Integer,
        FieldKind::Float,
        FieldKind::Bool,
        FieldKind::Geo,
        FieldKind::Datetime,
        FieldKind::Text,
        FieldKind::Uuid,
    ];

    /// The names of all, for a message.
    pub const NAMES: &'static str = "keyword, integer, float, bool, geo, datetime, text or uuid";

    /// In a word, Qdrant's.
    pub fn name(self) -> &'static str {
        match self {
            FieldKind::Keyword => "keyword",
            FieldKind::Integer => "integer",
            FieldKind::Float => "float",
            FieldKind::Bool => "bool",
            FieldKind::Geo => "geo",
            FieldKind::Datetime => "datetime",
            FieldKind::Text => "text",
            FieldKind::Uuid => "uuid",
        }
    }

    /// A value as the index keeps it; `None` if it is of another kind.
    fn keep(self, value: Scalar<'_>) -> Option<FieldValue> {
        match (self, value) {
            (FieldKind::Keyword | FieldKind::Text, Scalar::Text(text)) => Some(FieldValue::Text(text.into())),
            (FieldKind::Uuid, Scalar::Text(text)) if is_uuid(text) => Some(FieldValue::Text(text.into())),
            (FieldKind::Integer | FieldKind::Float, Scalar::Integer(number)) => {
                Some(FieldValue::Integer(number))
            }
            (FieldKind::Float, Scalar::Float(number)) => Some(FieldValue::Float(number)),
            (FieldKind::Bool, Scalar::Bool(flag)) => Some(FieldValue::Bool(flag)),
            (FieldKind::Geo, Scalar::Geo(point)) => Some(FieldValue::Geo(point)),
            (FieldKind::Datetime, Scalar::Text(text)) => moment(text).map(FieldValue::Moment),
            (
                FieldKind::Keyword
                | FieldKind::Text
                | FieldKind::Uuid
                | FieldKind::Integer
                | FieldKind::Float
                | FieldKind::Bool
                | FieldKind::Geo
                | FieldKind::Datetime,
                _,
            ) => None,
        }
    }
}

/// Whether text is 32 hexadecimal digits, hyphens apart.
fn is_uuid(text: &str) -> bool {
    text.bytes().filter(|&byte| byte != b'-').count() == 32
        && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FieldKind {
    type Err = FieldKindError;

    fn from_str(text: &str) -> Result<FieldKind, FieldKindError> {
        let kind = FieldKind::ALL.into_iter().find(|kind| kind.name() == text);
        kind.ok_or_else(|| FieldKindError { found: text.to_owned() })
    }
}

/// What the values of a row are.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Cell {
    pub(super) values: Box<[FieldValue]>,
    /// Whether there is a value that is neither null nor of the column's kind, so that the payload has to be read.
    pub(super) has_others: bool,
}

/// Of [`CHUNK_ROWS`] rows each; none where all are empty.
pub(super) type Chunks = Vec<Option<Arc<Vec<Cell>>>>;

impl Cell {
    fn of(kind: FieldKind, path: &PayloadPath, payload: &Value) -> Cell {
        let (mut values, mut has_others) = (Vec::new(), false);
        path.each(payload, |value| match (Scalar::of(value), kind.keep(Scalar::of(value))) {
            (_, Some(value)) => values.push(value),
            (Scalar::Null, None) => {}
            (_, None) => has_others = true,
        });
        Cell { values: values.into(), has_others }
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty() && !self.has_others
    }
}

/// The values of a field of every point. A clone shares them.
#[derive(Debug, Clone)]
pub struct PayloadColumn {
    kind: FieldKind,
    chunks: Arc<Chunks>,
    points: usize,
    shelf: Arc<Shelf>,
    /// Rows whose cells are others than those that the postings on the shelf are made from.
    changed: Arc<RoaringBitmap>,
}

impl PayloadColumn {
    fn new(kind: FieldKind) -> PayloadColumn {
        PayloadColumn {
            kind,
            chunks: Arc::default(),
            points: 0,
            shelf: Arc::default(),
            changed: Arc::default(),
        }
    }

    /// What values it keeps.
    pub fn kind(&self) -> FieldKind {
        self.kind
    }

    /// How many points have a value of its kind.
    pub fn points(&self) -> usize {
        self.points
    }

    /// The values of a row, the entries of arrays one by one, without nulls; `None` if there are some that it does
    /// not keep.
    pub fn values(&self, row: u32) -> Option<&[FieldValue]> {
        match self.cell(row) {
            None => Some(&[]),
            Some(cell) => (!cell.has_others).then_some(&*cell.values),
        }
    }

    /// Which rows have which values, if this was asked often enough lately that it pays to keep; a thread of the
    /// pool makes it then. Of places there is none.
    pub fn postings(&self) -> Option<Postings<'_>> {
        if self.kind == FieldKind::Geo {
            return None;
        }
        if self.shelf.ask() {
            let (kind, chunks, shelf) = (self.kind, self.chunks.clone(), self.shelf.clone());
            rayon::spawn(move || shelf.put(Inverted::of(kind, &chunks)));
        }
        self.shelf.get().map(|made| Postings { made, changed: &self.changed })
    }

    /// The same, if it is there.
    pub fn postings_made(&self) -> Option<Postings<'_>> {
        self.shelf.get().map(|made| Postings { made, changed: &self.changed })
    }

    /// Tells that a row's cell becomes another.
    fn note_change(&mut self, row: u32) {
        if self.shelf.is_taken() {
            Arc::make_mut(&mut self.changed).insert(row);
            if is_stale(&self.changed, self.points) {
                (self.shelf, self.changed) = (Arc::default(), Arc::default());
            }
        } else if Arc::get_mut(&mut self.shelf).is_none() {
            self.shelf = Arc::new(self.shelf.anew());
        }
    }

    fn cell(&self, row: u32) -> Option<&Cell> {
        let (chunk, place) = place(row);
        self.chunks.get(chunk)?.as_ref()?.get(place)
    }

    fn set(&mut self, row: u32, cell: Cell) {
        let (chunk, place) = place(row);
        if self.cell(row).map_or(cell.is_empty(), |old| *old == cell) {
            return;
        }
        self.note_change(row);
        self.points -= usize::from(self.cell(row).is_some_and(|cell| !cell.values.is_empty()));
        self.points += usize::from(!cell.values.is_empty());
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.len() <= chunk {
            chunks.resize(chunk + 1, None);
        }
        let cells = chunks[chunk].get_or_insert_with(|| Arc::new(vec![Cell::default(); CHUNK_ROWS]));
        Arc::make_mut(cells)[place] = cell;
        if cells.iter().all(Cell::is_empty) {
            chunks[chunk] = None;
        }
    }
}

fn place(row: u32) -> (usize, usize) {
    (row as usize / CHUNK_ROWS, row as usize % CHUNK_ROWS)
}

/// The columns of a collection, by the path of their field.
#[derive(Debug, Clone, Default)]
pub(crate) struct PayloadColumns(BTreeMap<PayloadPath, PayloadColumn>);

/// An index as it is stored under its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FieldRecord {
    pub(crate) kind: FieldKind,
}

impl PayloadColumns {
    pub(crate) fn get(&self, path: &PayloadPath) -> Option<&PayloadColumn> {
        self.0.get(path)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&PayloadPath, &PayloadColumn)> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A new column without values, in place of one there may be.
    pub(crate) fn insert(&mut self, path: PayloadPath, kind: FieldKind) {
        self.0.insert(path, PayloadColumn::new(kind));
    }

    pub(crate) fn remove(&mut self, path: &PayloadPath) -> bool {
        self.0.remove(path).is_some()
    }

    /// Takes in the payload of a row.
    pub(crate) fn set(&mut self, row: u32, payload: Option<&Payload>) -> Result<(), DamagedRecord> {
        if self.is_empty() {
            return Ok(());
        }
        let payload = read(payload)?;
        for (path, column) in &mut self.0 {
            column.set(row, Cell::of(column.kind, path, &payload));
        }
        Ok(())
    }

    /// The same for one column.
    pub(crate) fn set_one(
        &mut self,
        path: &PayloadPath,
        row: u32,
        payload: Option<&Payload>,
    ) -> Result<(), DamagedRecord> {
        let payload = read(payload)?;
        self.0.get_mut(path).into_iter().for_each(|it| it.set(row, Cell::of(it.kind, path, &payload)));
        Ok(())
    }

    /// Takes out a row.
    pub(crate) fn forget(&mut self, row: u32) {
        self.0.values_mut().for_each(|column| column.set(row, Cell::default()));
    }

    /// The paths whose columns have other values for a row than its payload.
    pub(crate) fn differing(
        &self,
        row: u32,
        payload: Option<&Payload>,
    ) -> Result<Vec<&PayloadPath>, DamagedRecord> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let payload = read(payload)?;
        let differs = |(path, column): &(&PayloadPath, &PayloadColumn)| {
            let wanted = Cell::of(column.kind, path, &payload);
            column.cell(row).map_or(!wanted.is_empty(), |cell| *cell != wanted)
        };
        Ok(self.iter().filter(differs).map(|(path, _)| path).collect())
    }
}

fn read(payload: Option<&Payload>) -> Result<Value, DamagedRecord> {
    Ok(Value::Object(payload.map(Payload::read).transpose()?.unwrap_or_else(Map::new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(json: &str) -> Payload {
        Payload::parse(json).expect("an object")
    }

    #[test]
    fn a_column_has_the_values_of_its_kind_and_knows_of_others() {
        let field: PayloadPath = "a[].b".parse().expect("a path");
        for (kind, json, wanted) in [
            (FieldKind::Keyword, r#"{"a": [{"b": "x"}, {"b": ["y", null]}]}"#, Some(2)),
            (FieldKind::Keyword, r#"{"a": [{"b": "x"}, {"b": 1}]}"#, None),
            (FieldKind::Integer, r#"{"a": [{"b": 1.5}]}"#, None),
            (FieldKind::Float, r#"{"a": [{"b": [1.5, 2]}]}"#, Some(2)),
            (FieldKind::Datetime, r#"{"a": [{"b": "2024-01-01"}]}"#, Some(1)),
            (FieldKind::Datetime, r#"{"a": [{"b": "later"}]}"#, None),
            (FieldKind::Geo, r#"{"a": [{"b": {"lat": 1, "lon": 2}}]}"#, Some(1)),
            (FieldKind::Uuid, r#"{"a": [{"b": "00000000-0000-0000-0000-000000000000"}]}"#, Some(1)),
            (FieldKind::Bool, r#"{"a": {"b": true}}"#, Some(0)),
        ] {
            let mut columns = PayloadColumns::default();
            columns.insert(field.clone(), kind);
            columns.set(300, Some(&payload(json))).expect("JSON");
            let column = columns.get(&field).expect("inserted");
            assert_eq!(column.values(300).map(<[FieldValue]>::len), wanted, "{kind} {json}");
            assert_eq!(column.values(0), Some(&[][..]));
            columns.forget(300);
            let column = columns.get(&field).expect("inserted");
            assert_eq!((column.points(), column.values(300)), (0, Some(&[][..])));
            assert!(column.chunks.iter().all(Option::is_none), "no memory for rows without values");
        }
    }

    #[test]
    fn a_clone_of_a_column_does_not_change() {
        let field: PayloadPath = "n".parse().expect("a path");
        let mut columns = PayloadColumns::default();
        columns.insert(field.clone(), FieldKind::Integer);
        columns.set(5, Some(&payload(r#"{"n": 1}"#))).expect("JSON");
        let before = columns.clone();
        columns.set(5, Some(&payload(r#"{"n": 2}"#))).expect("JSON");
        let values =
            |columns: &PayloadColumns| columns.get(&field).and_then(|it| it.values(5).map(<[_]>::to_vec));
        assert_eq!(values(&before), Some(vec![FieldValue::Integer(1)]));
        assert_eq!(values(&columns), Some(vec![FieldValue::Integer(2)]));
        assert_eq!(columns.get(&field).map(PayloadColumn::points), Some(1));
    }

    fn set(columns: &mut PayloadColumns, row: u32, json: &str) {
        columns.set(row, Some(&payload(json))).expect("JSON");
    }

    /// The postings, which are made by a thread.
    fn made<'a>(columns: &'a PayloadColumns, field: &PayloadPath) -> Postings<'a> {
        let column = columns.get(field).expect("indexed");
        loop {
            match column.postings() {
                Some(postings) => return postings,
                None => std::thread::yield_now(),
            }
        }
    }

    /// The rows of each value, and those that changed since.
    fn told(postings: Postings<'_>) -> (Vec<(FieldValue, Vec<u32>)>, Vec<u32>) {
        let rows = |place: usize| postings.rows(std::slice::from_ref(&(place..place + 1))).iter().collect();
        let values = postings.values().iter().cloned().enumerate();
        (values.map(|(place, value)| (value, rows(place))).collect(), postings.changed().collect())
    }

    #[test]
    fn postings_are_of_the_version_that_was_asked_and_later_ones_know_what_changed() {
        let field: PayloadPath = "n".parse().expect("a path");
        let mut first = PayloadColumns::default();
        first.insert(field.clone(), FieldKind::Float);
        set(&mut first, 3, r#"{"n": [2, -1.5, 2]}"#);
        set(&mut first, 700, r#"{"n": [2, "two"]}"#);
        let mut unasked = first.clone();
        set(&mut unasked, 3, r#"{"n": 9}"#);
        let (two, negative) = (FieldValue::Integer(2), FieldValue::Float(-1.5));
        let wanted = vec![(two.clone(), vec![3, 700]), (negative.clone(), vec![3])];
        assert_eq!(told(made(&first, &field)), (wanted.clone(), vec![]));
        assert_eq!(made(&first, &field).open().collect::<Vec<_>>(), [700]);
        assert!(made(&first, &field).has_lists());
        // What was changed before anybody asked is in postings of its own.
        let nine = FieldValue::Integer(9);
        assert_eq!(told(made(&unasked, &field)), (vec![(two.clone(), vec![700]), (nine, vec![3])], vec![]));
        let mut later = first.clone();
        set(&mut later, 700, r#"{"n": 4}"#);
        set(&mut later, 3, r#"{"n": [2, -1.5, 2]}"#);
        let less = vec![(two, vec![3]), (negative, vec![3])];
        assert_eq!(told(made(&later, &field)), (less, vec![700]), "an equal value is no change");
        assert_eq!(made(&later, &field).open().count(), 0);
        assert_eq!(told(made(&first, &field)), (wanted, vec![]));
    }

    #[test]
    fn postings_of_which_too_much_changed_are_made_anew() {
        let field: PayloadPath = "n".parse().expect("a path");
        let mut columns = PayloadColumns::default();
        columns.insert(field.clone(), FieldKind::Integer);
        (0..3000).for_each(|row| set(&mut columns, row, r#"{"n": 1}"#));
        assert_eq!(made(&columns, &field).values(), [FieldValue::Integer(1)]);
        (0..2000).for_each(|row| set(&mut columns, row, r#"{"n": 2}"#));
        assert_eq!(made(&columns, &field).changed_count(), 2000);
        (2000..2200).for_each(|row| set(&mut columns, row, r#"{"n": 2}"#));
        let column = columns.get(&field).expect("indexed");
        assert!(column.postings_made().is_none(), "nothing is known of so many changes");
        let rows: Vec<Vec<u32>> = told(made(&columns, &field)).0.into_iter().map(|(_, rows)| rows).collect();
        assert_eq!(rows, [(2200..3000).collect::<Vec<u32>>(), (0..2200).collect()]);
    }

    #[test]
    fn postings_of_texts_are_of_their_words() {
        let field: PayloadPath = "t".parse().expect("a path");
        let mut columns = PayloadColumns::default();
        columns.insert(field.clone(), FieldKind::Text);
        set(&mut columns, 1, r#"{"t": "The hub, the HUB"}"#);
        set(&mut columns, 2, r#"{"t": ["a hub", "an é"]}"#);
        let word = |text: &str| FieldValue::Text(text.into());
        let wanted = [("a", vec![2]), ("an", vec![2]), ("hub", vec![1, 2]), ("the", vec![1]), ("é", vec![2])];
        assert_eq!(told(made(&columns, &field)).0, wanted.map(|(text, rows)| (word(text), rows)));
    }
}
