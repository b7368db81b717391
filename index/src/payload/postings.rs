//! Which rows have which value of a field: columns the other way round.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering as Access};

use dehub_vector::CHUNK_ROWS;
use roaring::RoaringBitmap;

use super::column::{Cell, Chunks};
use super::{FieldKind, FieldValue};
use crate::RowSet;

/// Postings are made once a column was asked for them so often. To make them takes as long as to look at its rows once
/// (texts), or up to twenty times (numbers that are all different); see the bench `postings`. Nobody waits for them.
const ASKED_MIN: u32 = 8;

/// So many rows may have changed since postings were made, and a share of the points beside, before they are made
/// anew: these rows are looked at one by one in every answer.
const CHANGED_MIN: u64 = 2048;
const CHANGED_SHARE: usize = 64;

/// The rows of each value of a field as they were at some commit.
#[derive(Debug)]
pub(super) struct Inverted {
    /// Each value that a row has, once, in their order. Of a column of texts: each word.
    values: Vec<FieldValue>,
    /// Where the rows of each value end in `rows`.
    ends: Vec<u32>,
    /// The rows of one value after those of another, ascending.
    rows: Vec<u32>,
    /// Rows with values that the column does not keep.
    open: RoaringBitmap,
    /// Whether some row has several values.
    has_lists: bool,
}

/// A place for postings, which the versions of a column share from when they are asked for until too many rows have
/// changed.
// INVARIANT: until it was asked so often that they are made, all columns that share it have the same cells.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    asked: AtomicU32,
    made: OnceLock<Inverted>,
}

impl Shelf {
    /// One that nobody shares yet, asked as often.
    pub(super) fn anew(&self) -> Shelf {
        // Whoever asks next has it made if the postings of the old one are being made at this moment.
        let asked = self.asked.load(Access::SeqCst).min(ASKED_MIN - 1);
        Shelf { asked: AtomicU32::new(asked), made: OnceLock::new() }
    }

    /// Whether postings are made or about to be.
    pub(super) fn is_taken(&self) -> bool {
        self.asked.load(Access::SeqCst) >= ASKED_MIN
    }

    /// Counts that postings are wanted; says whether they are to be made now, which it does once.
    pub(super) fn ask(&self) -> bool {
        !self.is_taken() && self.asked.fetch_add(1, Access::SeqCst) + 1 == ASKED_MIN
    }

    pub(super) fn put(&self, made: Inverted) {
        // It is made by the one that `ask` told to, so that there is none.
        _ = self.made.set(made);
    }

    pub(super) fn get(&self) -> Option<&Inverted> {
        self.made.get()
    }
}

/// Whether so many rows have changed that postings are not worth keeping.
pub(super) fn is_stale(changed: &RoaringBitmap, points: usize) -> bool {
    changed.len() > CHANGED_MIN + (points / CHANGED_SHARE) as u64
}

/// The rows of a column by their values, but for those that changed since.
#[derive(Debug, Clone, Copy)]
pub struct Postings<'a> {
    pub(super) made: &'a Inverted,
    pub(super) changed: &'a RoaringBitmap,
}

impl<'a> Postings<'a> {
    /// The values that rows have, each once, in their [`FieldValue::order`]. Of an index of texts the words that they
    /// have, as [`words`] makes them.
    pub fn values(self) -> &'a [FieldValue] {
        &self.made.values
    }

    /// How many rows have a value in a range of [`Postings::values`]; one that has several may count several times.
    pub fn count(self, values: &Range<usize>) -> usize {
        self.made.places(values).len()
    }

    /// The rows that have a value in one of the ranges.
    pub fn rows(self, ranges: &[Range<usize>]) -> RowSet {
        let mut rows = RowSet::default();
        for range in ranges {
            rows.extend(self.made.rows[self.made.places(range)].iter().copied());
        }
        self.changed.iter().for_each(|row| _ = rows.remove(row));
        rows
    }

    /// Rows with values that the index does not keep.
    pub fn open(self) -> impl Iterator<Item = u32> + 'a {
        self.made.open.iter().filter(|&row| !self.changed.contains(row))
    }

    /// How many rows had such values.
    pub fn open_count(self) -> usize {
        usize::try_from(self.made.open.len()).unwrap_or(usize::MAX)
    }

    /// Rows of which the postings tell nothing, as they changed since.
    pub fn changed(self) -> impl Iterator<Item = u32> + 'a {
        self.changed.iter()
    }

    /// How many these are.
    pub fn changed_count(self) -> usize {
        usize::try_from(self.changed.len()).unwrap_or(usize::MAX)
    }

    /// Whether some row has several values.
    pub fn has_lists(self) -> bool {
        self.made.has_lists
    }
}

/// The words of a text: its runs of letters and digits, in lower case.
pub fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// A value as a key of a map.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Bool(bool),
    Integer(i64),
    Float(u64),
    Text(Cow<'a, str>),
    Moment(i64),
}

impl Key<'_> {
    fn value(self) -> FieldValue {
        match self {
            Key::Bool(flag) => FieldValue::Bool(flag),
            Key::Integer(number) => FieldValue::Integer(number),
            Key::Float(bits) => FieldValue::Float(f64::from_bits(bits)),
            Key::Text(text) => FieldValue::Text(text.into()),
            Key::Moment(moment) => FieldValue::Moment(moment),
        }
    }
}

/// Shows the keys of a value. A place has none: areas have no order in which their places lie together.
fn each_key<'a>(kind: FieldKind, value: &'a FieldValue, mut show: impl FnMut(Key<'a>)) {
    match value {
        FieldValue::Bool(flag) => show(Key::Bool(*flag)),
        FieldValue::Integer(number) => show(Key::Integer(*number)),
        FieldValue::Float(number) => show(Key::Float(number.to_bits())),
        FieldValue::Text(text) if kind == FieldKind::Text => {
            words(text).for_each(|word| show(Key::Text(word.into())));
        }
        FieldValue::Text(text) => show(Key::Text(Cow::Borrowed(text))),
        FieldValue::Moment(moment) => show(Key::Moment(*moment)),
        FieldValue::Geo(_) => {}
    }
}

impl Inverted {
    /// Turns a column round.
    pub(super) fn of(kind: FieldKind, chunks: &Chunks) -> Inverted {
        let mut open = RoaringBitmap::new();
        let mut has_lists = false;
        let mut numbers: HashMap<Key<'_>, u32> = HashMap::new();
        // By number of value: how many rows have it, and the last of them.
        let mut known: Vec<(u32, u32)> = Vec::new();
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for (row, cell) in cells(chunks) {
            if cell.has_others {
                open.insert(row);
            }
            has_lists |= cell.values.len() > 1;
            for value in &cell.values {
                each_key(kind, value, |key| {
                    let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
                    let number = match numbers.entry(key) {
                        Entry::Occupied(entry) => *entry.get(),
                        Entry::Vacant(entry) => {
                            known.push((0, u32::MAX));
                            *entry.insert(next)
                        }
                    };
                    let (count, last) = &mut known[number as usize];
                    if *last != row {
                        (*count, *last) = (*count + 1, row);
                        pairs.push((number, row));
                    }
                });
            }
        }
        let mut sorted: Vec<(FieldValue, u32)> =
            numbers.into_iter().map(|(key, number)| (key.value(), number)).collect();
        sorted.sort_unstable_by(|(a, _), (b, _)| a.order(b));
        let counts: Vec<u32> = known.into_iter().map(|(count, _)| count).collect();
        let (ends, rows) = laid_out(&sorted, &counts, &pairs);
        let values = sorted.into_iter().map(|(value, _)| value).collect();
        Inverted { values, ends, rows, open, has_lists }
    }

    fn places(&self, values: &Range<usize>) -> Range<usize> {
        let end = |value: usize| match value.checked_sub(1) {
            Some(last) => self.ends[last] as usize,
            None => 0,
        };
        end(values.start)..end(values.end)
    }
}

/// The rows that have a value.
fn cells(chunks: &Chunks) -> impl Iterator<Item = (u32, &Cell)> {
    let kept = chunks.iter().enumerate().filter_map(|(chunk, cells)| Some((chunk, cells.as_ref()?)));
    kept.flat_map(|(chunk, cells)| {
        let row = move |place: usize| u32::try_from(chunk * CHUNK_ROWS + place).unwrap_or(u32::MAX);
        cells.iter().enumerate().map(move |(place, cell)| (row(place), cell))
    })
}

/// Pairs of a value's number and a row, by the values in their order: where each ends, and the rows.
fn laid_out(sorted: &[(FieldValue, u32)], counts: &[u32], pairs: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
    let (mut ends, mut end) = (Vec::with_capacity(sorted.len()), 0);
    let mut free = vec![0; counts.len()];
    for &(_, number) in sorted {
        free[number as usize] = end;
        end += counts[number as usize];
        ends.push(end);
    }
    let mut rows = vec![0; pairs.len()];
    for &(number, row) in pairs {
        let place = &mut free[number as usize];
        rows[*place as usize] = row;
        *place += 1;
    }
    (ends, rows)
}
