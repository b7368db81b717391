//! Tests of one value.

use std::collections::{BTreeSet, HashSet};

use dehub_index::{FieldKind, Scalar, moment, words};

use super::geo::Area;

/// A test of one value of a payload.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// It is equal, or has these words.
    Match(Match),
    /// It is a number within bounds.
    Range(Bounds<f64>),
    /// It is a string that names a moment within bounds, in microseconds since 1970.
    Moments(Bounds<i64>),
    /// It is a place in an area.
    Geo(Area),
}

/// What a value is compared with. Values of different types are never equal, nor is `1.0` equal to `1`.
#[derive(Debug, Clone, PartialEq)]
pub enum Match {
    /// One value.
    Value(Exact),
    /// Any of some.
    Any(OneOf),
    /// None of some, and not null.
    Except(OneOf),
    /// Has all of some words, in any order.
    Text(Words),
    /// Has any of some words.
    AnyWord(Words),
    /// Has some words one after the other.
    Phrase(Words),
    /// Begins with this.
    Prefix(Box<str>),
    /// Contains this.
    Substring(Box<str>),
}

/// A value to be equal to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exact {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A string.
    Text(Box<str>),
}

/// Values of which one is to be equal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OneOf {
    pub(super) integers: HashSet<i64>,
    pub(super) texts: HashSet<Box<str>>,
    pub(super) bools: BTreeSet<bool>,
}

/// The [`words`] of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(pub(super) Vec<String>);

/// Bounds on both sides, each with or without its own value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds<T> {
    /// Greater than.
    pub gt: Option<T>,
    /// Greater than or equal to.
    pub gte: Option<T>,
    /// Less than.
    pub lt: Option<T>,
    /// Less than or equal to.
    pub lte: Option<T>,
}

impl<T> Default for Bounds<T> {
    fn default() -> Bounds<T> {
        Bounds { gt: None, gte: None, lt: None, lte: None }
    }
}

impl<T: PartialOrd> Bounds<T> {
    /// Whether a value is within all of them.
    pub fn contains(&self, value: &T) -> bool {
        self.gt.as_ref().is_none_or(|bound| value > bound)
            && self.gte.as_ref().is_none_or(|bound| value >= bound)
            && self.lt.as_ref().is_none_or(|bound| value < bound)
            && self.lte.as_ref().is_none_or(|bound| value <= bound)
    }
}

impl FromIterator<Exact> for OneOf {
    fn from_iter<I: IntoIterator<Item = Exact>>(values: I) -> OneOf {
        let mut all = OneOf::default();
        for value in values {
            match value {
                Exact::Bool(flag) => _ = all.bools.insert(flag),
                Exact::Integer(number) => _ = all.integers.insert(number),
                Exact::Text(text) => _ = all.texts.insert(text),
            }
        }
        all
    }
}

impl OneOf {
    /// The values, in an order that is always the same.
    pub(super) fn sorted(&self) -> BTreeSet<Exact> {
        let bools = self.bools.iter().copied().map(Exact::Bool);
        let integers = self.integers.iter().copied().map(Exact::Integer);
        bools.chain(integers).chain(self.texts.iter().cloned().map(Exact::Text)).collect()
    }

    fn has(&self, value: Scalar<'_>) -> bool {
        match value {
            Scalar::Bool(flag) => self.bools.contains(&flag),
            Scalar::Integer(number) => self.integers.contains(&number),
            Scalar::Text(text) => self.texts.contains(text),
            Scalar::Null | Scalar::Float(_) | Scalar::Moment(_) | Scalar::Geo(_) | Scalar::Other => false,
        }
    }
}

impl Exact {
    fn is(&self, value: Scalar<'_>) -> bool {
        match (self, value) {
            (Exact::Bool(own), Scalar::Bool(flag)) => *own == flag,
            (Exact::Integer(own), Scalar::Integer(number)) => *own == number,
            (Exact::Text(own), Scalar::Text(text)) => **own == *text,
            (Exact::Bool(_) | Exact::Integer(_) | Exact::Text(_), _) => false,
        }
    }
}

impl Words {
    /// The words of a text.
    pub fn of(text: &str) -> Words {
        Words(words(text).collect())
    }

    /// A text with these words.
    pub(super) fn text(&self) -> String {
        // İ alone has a mark in its lower case that is no letter, at which the word would end.
        self.0.join(" ").replace("i\u{307}", "İ")
    }
}

impl Match {
    fn takes(&self, value: Scalar<'_>) -> bool {
        match (self, value) {
            (Match::Value(own), _) => own.is(value),
            (Match::Any(own), _) => own.has(value),
            (Match::Except(own), _) => value != Scalar::Null && !own.has(value),
            (Match::Text(Words(own)), Scalar::Text(text)) => {
                let found: HashSet<String> = words(text).collect();
                !own.is_empty() && own.iter().all(|word| found.contains(word))
            }
            (Match::AnyWord(Words(own)), Scalar::Text(text)) => words(text).any(|word| own.contains(&word)),
            (Match::Phrase(Words(own)), Scalar::Text(text)) => {
                let found: Vec<String> = words(text).collect();
                !own.is_empty() && found.windows(own.len()).any(|run| run == own)
            }
            (Match::Prefix(own), Scalar::Text(text)) => text.starts_with(&**own),
            (Match::Substring(own), Scalar::Text(text)) => text.contains(&**own),
            (
                Match::Text(_)
                | Match::AnyWord(_)
                | Match::Phrase(_)
                | Match::Prefix(_)
                | Match::Substring(_),
                _,
            ) => false,
        }
    }
}

impl Test {
    /// Whether a value passes.
    #[expect(clippy::cast_precision_loss, reason = "numbers are compared in 64 bits, as Qdrant does")]
    pub(crate) fn takes(&self, value: Scalar<'_>) -> bool {
        match (self, value) {
            (Test::Match(own), _) => own.takes(value),
            (Test::Range(bounds), Scalar::Integer(number)) => bounds.contains(&(number as f64)),
            (Test::Range(bounds), Scalar::Float(number)) => bounds.contains(&number),
            (Test::Moments(bounds), Scalar::Moment(found)) => bounds.contains(&found),
            (Test::Moments(bounds), Scalar::Text(text)) => {
                moment(text).is_some_and(|it| bounds.contains(&it))
            }
            (Test::Geo(area), Scalar::Geo(point)) => area.contains(point),
            (Test::Range(_) | Test::Moments(_) | Test::Geo(_), _) => false,
        }
    }

    /// Whether the values that an index of this kind keeps tell: one of datetimes keeps no string.
    pub(crate) fn can_use(&self, kind: FieldKind) -> bool {
        match self {
            Test::Match(_) => kind != FieldKind::Datetime,
            Test::Range(_) | Test::Moments(_) | Test::Geo(_) => true,
        }
    }
}
