//! Values of payloads as conditions see them.

use std::cmp::Ordering;

use serde_json::Value;

/// A place on earth, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeoPoint {
    /// The latitude.
    pub lat: f64,
    /// The longitude.
    pub lon: f64,
}

/// A value that is looked at by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number of 64 bits with a sign.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(&'a str),
    /// A moment, in microseconds since 1970: a string in an index of datetimes.
    Moment(i64),
    /// An object with the numbers `lat` and `lon`.
    Geo(GeoPoint),
    /// Any other object, or an array.
    Other,
}

/// The same, kept.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number of 64 bits with a sign.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(Box<str>),
    /// A moment, in microseconds since 1970.
    Moment(i64),
    /// A place.
    Geo(GeoPoint),
}

impl<'a> Scalar<'a> {
    /// What a value is.
    pub fn of(value: &'a Value) -> Scalar<'a> {
        match value {
            Value::Null => Scalar::Null,
            Value::Bool(flag) => Scalar::Bool(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(number) => Scalar::Integer(number),
                None => number.as_f64().map_or(Scalar::Other, Scalar::Float),
            },
            Value::String(text) => Scalar::Text(text),
            Value::Object(map) => {
                let degrees = |name| map.get(name).and_then(Value::as_f64);
                match (degrees("lat"), degrees("lon")) {
                    (Some(lat), Some(lon)) => Scalar::Geo(GeoPoint { lat, lon }),
                    (_, _) => Scalar::Other,
                }
            }
            Value::Array(_) => Scalar::Other,
        }
    }
}

impl FieldValue {
    /// As it is looked at.
    pub fn scalar(&self) -> Scalar<'_> {
        match self {
            FieldValue::Bool(flag) => Scalar::Bool(*flag),
            FieldValue::Integer(number) => Scalar::Integer(*number),
            FieldValue::Float(number) => Scalar::Float(*number),
            FieldValue::Text(text) => Scalar::Text(text),
            FieldValue::Moment(moment) => Scalar::Moment(*moment),
            FieldValue::Geo(point) => Scalar::Geo(*point),
        }
    }

    /// The order that values of a field are kept in: `false`, `true`, whole numbers, other numbers, strings by their
    /// bytes, moments. Places have none and come last.
    pub fn order(&self, other: &FieldValue) -> Ordering {
        let rank = |value: &FieldValue| match value {
            FieldValue::Bool(_) => 0,
            FieldValue::Integer(_) => 1,
            FieldValue::Float(_) => 2,
            FieldValue::Text(_) => 3,
            FieldValue::Moment(_) => 4,
            FieldValue::Geo(_) => 5,
        };
        match (self.scalar(), other.scalar()) {
            (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(&b),
            (Scalar::Integer(a), Scalar::Integer(b)) | (Scalar::Moment(a), Scalar::Moment(b)) => a.cmp(&b),
            (Scalar::Float(a), Scalar::Float(b)) => a.total_cmp(&b),
            (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
            (_, _) => rank(self).cmp(&rank(other)),
        }
    }
}
