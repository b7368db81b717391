//! Arrow arrays as plain numbers and JSON values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, Float16Array, Float32Array, Float64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde_json::{Map, Number, Value};

use crate::error::Flaw;
use crate::narrow::{Dimension, narrow};

/// How deep lists and structs may nest in a payload: as deep as anything a filter can name, and far
/// from where recursion would end the thread.
const DEPTH_MAX: usize = 16;

pub(crate) const VECTOR_TYPES: &str = "a list of float16, float32 or float64";
pub(crate) const ID_TYPES: &str = "strings or integers";
pub(crate) const TEXT_TYPES: &str = "strings";
pub(crate) const PAYLOAD_TYPES: &str = "strings, booleans, integers, floats, or lists and structs of them \
     (name the column in `leave_out` to read the file without it)";

/// The dimension of a column of vectors, if the type fixes it; `None` if it holds no vectors.
#[expect(clippy::wildcard_enum_match_arm, reason = "most of Arrow's forty types hold no vectors")]
pub(crate) fn vector_dim(data_type: &DataType) -> Option<Option<i32>> {
    let (item, dim) = match data_type {
        DataType::FixedSizeList(item, dim) => (item, Some(*dim)),
        DataType::List(item) | DataType::LargeList(item) => (item, None),
        _ => return None,
    };
    matches!(item.data_type(), DataType::Float16 | DataType::Float32 | DataType::Float64).then_some(dim)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "most of Arrow's forty types hold no text")]
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

pub(crate) fn is_id(data_type: &DataType) -> bool {
    data_type.is_integer() || is_text(data_type)
}

/// Whether [`cell`] can read the type.
pub(crate) fn is_payload(data_type: &DataType) -> bool {
    is_payload_within(data_type, DEPTH_MAX)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of Arrow's forty types these have a JSON form")]
fn is_payload_within(data_type: &DataType, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else {
        return false;
    };
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_payload_within(item.data_type(), below)
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_payload_within(field.data_type(), below)),
        DataType::Dictionary(_, values) => is_text(values),
        DataType::Null | DataType::Boolean | DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            true
        }
        other => is_id(other),
    }
}

/// One value as JSON; `None` if it is null. `field` is its name in messages.
///
/// Only types that [`is_payload`] accepts come here.
#[expect(clippy::wildcard_enum_match_arm, reason = "the type was checked when the file was opened")]
pub(crate) fn cell(
    array: &dyn Array,
    row: usize,
    field: &str,
    budget: &mut Budget,
) -> Result<Option<Value>, Flaw> {
    if array.is_null(row) {
        return Ok(None);
    }
    budget.take(size_of::<Value>())?;
    let value = match array.data_type() {
        DataType::Null => return Ok(None),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float16 => float(array.as_primitive::<Float16Type>().value(row).to_f64(), field)?,
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).into(), field)?,
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row), field)?,
        DataType::Utf8 => text(array.as_string::<i32>().value(row), budget)?,
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(row), budget)?,
        DataType::Utf8View => text(array.as_string_view().value(row), budget)?,
        DataType::Dictionary(..) => return dictionary_cell(array, row, field, budget),
        DataType::List(_) => list(array.as_list::<i32>().value(row).as_ref(), field, budget)?,
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row).as_ref(), field, budget)?,
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row).as_ref(), field, budget)?,
        DataType::Struct(_) => object(array, row, field, budget)?,
        other => return Err(Flaw::value(field, PAYLOAD_TYPES, other.to_string())),
    };
    Ok(Some(value))
}

/// How many bytes values may take yet. A few bytes of a dictionary or a view can name a long text in every row.
pub(crate) struct Budget {
    limit: usize,
    left: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Budget {
        Budget { limit, left: limit }
    }

    pub(crate) fn refill(&mut self) {
        self.left = self.limit;
    }

    fn take(&mut self, bytes: usize) -> Result<(), Flaw> {
        self.left = self.left.checked_sub(bytes).ok_or(Flaw::TooLarge { limit: self.limit })?;
        Ok(())
    }
}

fn text(text: &str, budget: &mut Budget) -> Result<Value, Flaw> {
    budget.take(text.len())?;
    Ok(text.into())
}

/// The same schema, with texts that are views of their buffers.
pub(crate) fn views_of(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema.fields().iter().map(|field| view_of(field)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of Arrow's forty types these hold texts")]
fn view_of(field: &Field) -> Field {
    let within = |item: &Arc<Field>| Arc::new(view_of(item));
    let data_type = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Dictionary(_, values) if is_text(values) => DataType::Utf8View,
        DataType::List(item) => DataType::List(within(item)),
        DataType::LargeList(item) => DataType::LargeList(within(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(within(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(within).collect()),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// JSON has no NaN and no infinity.
fn float(number: f64, field: &str) -> Result<Value, Flaw> {
    Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| Flaw::value(field, "a finite number or null", number.to_string()))
}

fn dictionary_cell(
    array: &dyn Array,
    row: usize,
    field: &str,
    budget: &mut Budget,
) -> Result<Option<Value>, Flaw> {
    let dictionary = array.as_any_dictionary();
    let key = cell(dictionary.keys(), row, field, budget)?.and_then(|key| key.as_u64());
    match key.and_then(|key| usize::try_from(key).ok()) {
        Some(key) if key < dictionary.values().len() => cell(dictionary.values(), key, field, budget),
        _ => Err(Flaw::value(field, "a key of the column's dictionary", "another key")),
    }
}

/// A null within a list stays one, so that the places of the others do not change.
fn list(items: &dyn Array, field: &str, budget: &mut Budget) -> Result<Value, Flaw> {
    (0..items.len()).map(|row| Ok(cell(items, row, field, budget)?.unwrap_or(Value::Null))).collect()
}

/// A null within a struct is a field that is not there.
fn object(array: &dyn Array, row: usize, field: &str, budget: &mut Budget) -> Result<Value, Flaw> {
    let members = array.as_struct();
    let mut object = Map::new();
    for (name, column) in members.column_names().into_iter().zip(members.columns()) {
        if let Some(value) = cell(column, row, &format!("{field}.{name}"), budget)?
            && object.insert(name.to_owned(), value).is_some()
        {
            return Err(Flaw::value(field, "each name once", format!("{name} twice")));
        }
    }
    Ok(Value::Object(object))
}

/// The numbers of a column of vectors, appended to `numbers`. The error has the row within `array`.
pub(crate) fn append_vectors(
    array: &dyn Array,
    field: &str,
    dimension: &mut Dimension,
    numbers: &mut Vec<f32>,
) -> Result<(), (usize, Flaw)> {
    let lists = Lists::new(array);
    for row in 0..array.len() {
        let mut append = || {
            if array.is_null(row) {
                return Err(Flaw::value(field, "a vector", "null"));
            }
            let (start, length) = lists.span(row);
            dimension.check(field, length)?;
            lists.items.append(start, length, field, numbers)
        };
        append().map_err(|flaw| (row, flaw))?;
    }
    Ok(())
}

/// Lists of floats, whatever the type of their offsets.
struct Lists<'a> {
    items: Items<'a>,
    offsets: Offsets<'a>,
}

enum Offsets<'a> {
    Fixed(usize),
    Small(&'a [i32]),
    Large(&'a [i64]),
}

enum Items<'a> {
    F16(&'a Float16Array),
    F32(&'a Float32Array),
    F64(&'a Float64Array),
}

impl<'a> Lists<'a> {
    /// Panics unless [`vector_dim`] accepts the array's type.
    fn new(array: &'a dyn Array) -> Lists<'a> {
        let (items, offsets) = if let Some(lists) = array.as_list_opt::<i32>() {
            (lists.values(), Offsets::Small(lists.value_offsets()))
        } else if let Some(lists) = array.as_list_opt::<i64>() {
            (lists.values(), Offsets::Large(lists.value_offsets()))
        } else {
            let lists = array.as_fixed_size_list();
            let dim = usize::try_from(lists.value_length()).expect("arrow allows no negative length");
            (lists.values(), Offsets::Fixed(dim))
        };
        let items = if let Some(items) = items.as_primitive_opt::<Float16Type>() {
            Items::F16(items)
        } else if let Some(items) = items.as_primitive_opt::<Float32Type>() {
            Items::F32(items)
        } else {
            Items::F64(items.as_primitive::<Float64Type>())
        };
        Lists { items, offsets }
    }

    /// The first item of a row and how many it has.
    fn span(&self, row: usize) -> (usize, usize) {
        const ORDERED: &str = "arrow keeps offsets ascending from 0";
        let span = |start: usize, end: usize| (start, end - start);
        match self.offsets {
            Offsets::Fixed(dim) => (row * dim, dim),
            Offsets::Small(offsets) => {
                let offset = |row: usize| usize::try_from(offsets[row]).expect(ORDERED);
                span(offset(row), offset(row + 1))
            }
            Offsets::Large(offsets) => {
                let offset = |row: usize| usize::try_from(offsets[row]).expect(ORDERED);
                span(offset(row), offset(row + 1))
            }
        }
    }
}

impl Items<'_> {
    fn append(&self, start: usize, length: usize, field: &str, numbers: &mut Vec<f32>) -> Result<(), Flaw> {
        let items: &dyn Array = match self {
            Items::F16(items) => items,
            Items::F32(items) => items,
            Items::F64(items) => items,
        };
        if items.null_count() > 0
            && let Some(coordinate) = (0..length).find(|coordinate| items.is_null(start + coordinate))
        {
            return Err(Flaw::coordinate(field, coordinate, "a number", "null".to_owned()));
        }
        let span = start..start + length;
        match self {
            Items::F16(items) => numbers.extend(items.values()[span].iter().map(|number| number.to_f32())),
            Items::F32(items) => numbers.extend_from_slice(&items.values()[span]),
            Items::F64(items) => {
                for (coordinate, &number) in items.values()[span].iter().enumerate() {
                    numbers.push(narrow(number).ok_or_else(|| Flaw::overflow(field, coordinate, number))?);
                }
            }
        }
        Ok(())
    }
}
