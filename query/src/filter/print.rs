//! Filters in their readable form, which `parse.rs` reads.
//!
//! What was read prints as text that is read as the same filter. Any other filter prints as one that allows the same
//! points. Only what no text says is beyond that: numbers that are not finite, moments outside of years 1 to 9999,
//! and trees that are deeper or longer than is read.

use std::fmt::{self, Display, Formatter, Write};

use chrono::{DateTime, FixedOffset, SecondsFormat};
use dehub_index::{GeoPoint, PathStep, PayloadPath};
use dehub_vector::PointId;

use super::{Area, Bounds, Condition, Exact, Filter, Match, MinShould, Test};

/// What allows every point.
const ALL: &str = "AT LEAST 0 OF ()";

/// What must hold, as one condition.
enum Clause<'a> {
    Holds(&'a Condition),
    Not(&'a Condition),
    Any(&'a [Condition]),
    AtLeast(&'a MinShould),
}

impl Filter {
    fn clauses(&self) -> Vec<Clause<'_>> {
        let Filter { must, should, must_not, min_should } = self;
        let mut all: Vec<Clause<'_>> = must.iter().map(Clause::Holds).collect();
        all.extend((!should.is_empty()).then_some(Clause::Any(should)));
        all.extend(must_not.iter().map(Clause::Not));
        all.extend(min_should.as_ref().map(Clause::AtLeast));
        all
    }
}

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let clauses = self.clauses();
        match clauses.as_slice() {
            [] => f.write_str(ALL),
            [Clause::Any(list)] => joined(f, list.iter().map(Operand), " OR "),
            several => joined(f, several, " AND "),
        }
    }
}

impl Display for Clause<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Clause::Holds(condition) => Operand(condition).fmt(f),
            Clause::Not(condition) => negated(f, condition),
            Clause::Any(list) => {
                f.write_char('(')?;
                joined(f, list.iter().map(Operand), " OR ")?;
                f.write_char(')')
            }
            Clause::AtLeast(MinShould { conditions, least }) => {
                write!(f, "AT LEAST {least} OF (")?;
                joined(f, conditions.iter().map(Operand), ", ")?;
                f.write_char(')')
            }
        }
    }
}

/// A condition as a part of another: in parentheses if it would fall apart.
struct Operand<'a>(&'a Condition);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Condition::Filter(filter) => match filter.clauses().as_slice() {
                [] | [Clause::AtLeast(_)] => filter.fmt(f),
                _ => write!(f, "({filter})"),
            },
            Condition::Field { .. }
            | Condition::Count { .. }
            | Condition::IsEmpty(_)
            | Condition::IsNull(_)
            | Condition::HasId(_)
            | Condition::Slice(_)
            | Condition::HasVector(_)
            | Condition::Nested { .. }
            | Condition::Not(_) => self.0.fmt(f),
        }
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Field { key, test } => field(f, key, test),
            Condition::Count { key, bounds } => {
                write!(f, "COUNT({}) ", Path(key))?;
                interval(f, bounds, 0, |count| count.to_string())
            }
            Condition::IsEmpty(key) => write!(f, "{} IS EMPTY", Path(key)),
            Condition::IsNull(key) => write!(f, "{} IS NULL", Path(key)),
            Condition::HasId(ids) => ids_in(f, "IN", ids),
            Condition::Slice(slice) => write!(f, "SLICE({}, {})", slice.index, slice.total),
            Condition::HasVector(name) => write!(f, "HAS VECTOR {}", Quoted(name)),
            Condition::Nested { key, filter } => write!(f, "ANY({}: {filter})", Path(key)),
            Condition::Filter(filter) => filter.fmt(f),
            Condition::Not(condition) => negated(f, condition),
        }
    }
}

fn joined<T: Display>(f: &mut Formatter<'_>, parts: impl IntoIterator<Item = T>, by: &str) -> fmt::Result {
    for (place, part) in parts.into_iter().enumerate() {
        f.write_str(if place == 0 { "" } else { by })?;
        part.fmt(f)?;
    }
    Ok(())
}

fn listed<T: Display>(f: &mut Formatter<'_>, values: impl IntoIterator<Item = T>) -> fmt::Result {
    f.write_char('[')?;
    joined(f, values, ", ")?;
    f.write_char(']')
}

fn ids_in(f: &mut Formatter<'_>, word: &str, ids: &[PointId]) -> fmt::Result {
    write!(f, "id {word} ")?;
    listed(
        f,
        ids.iter().map(|id| match id {
            PointId::Number(number) => number.to_string(),
            PointId::Text(text) => Quoted(text).to_string(),
        }),
    )
}

fn negated(f: &mut Formatter<'_>, condition: &Condition) -> fmt::Result {
    match condition {
        Condition::IsEmpty(key) => write!(f, "{} IS NOT EMPTY", Path(key)),
        Condition::IsNull(key) => write!(f, "{} IS NOT NULL", Path(key)),
        Condition::HasId(ids) => ids_in(f, "NOT IN", ids),
        Condition::Field { key, test: Test::Match(Match::Value(value)) } => {
            write!(f, "{} != {value}", Path(key))
        }
        Condition::Field { key, test: Test::Match(Match::Any(values)) } => {
            write!(f, "{} NOT IN ", Path(key))?;
            listed(f, values.sorted())
        }
        Condition::Field { .. }
        | Condition::Count { .. }
        | Condition::Slice(_)
        | Condition::HasVector(_)
        | Condition::Nested { .. }
        | Condition::Filter(_)
        | Condition::Not(_) => write!(f, "NOT {}", Operand(condition)),
    }
}

fn field(f: &mut Formatter<'_>, key: &PayloadPath, test: &Test) -> fmt::Result {
    let key = Path(key);
    match test {
        Test::Match(Match::Value(value)) => write!(f, "{key} = {value}"),
        Test::Match(Match::Any(values)) => {
            write!(f, "{key} IN ")?;
            listed(f, values.sorted())
        }
        Test::Match(Match::Except(values)) => {
            write!(f, "{key} EXCEPT ")?;
            listed(f, values.sorted())
        }
        Test::Match(Match::Text(words)) => write!(f, "{key} MATCH {}", Quoted(&words.text())),
        Test::Match(Match::AnyWord(words)) => write!(f, "{key} MATCH ANY {}", Quoted(&words.text())),
        Test::Match(Match::Phrase(words)) => write!(f, "{key} MATCH PHRASE {}", Quoted(&words.text())),
        Test::Match(Match::Prefix(text)) => write!(f, "{key} STARTS WITH {}", Quoted(text)),
        Test::Match(Match::Substring(text)) => write!(f, "{key} CONTAINS {}", Quoted(text)),
        Test::Range(bounds) => {
            write!(f, "{key} ")?;
            interval(f, bounds, f64::MIN, number)
        }
        Test::Moments(bounds) => {
            write!(f, "{key} ")?;
            interval(f, bounds, FIRST_MOMENT, when)
        }
        Test::Geo(Area::Circle { center, radius }) => {
            write!(f, "RADIUS({key}, {}, {})", Place(*center), number(*radius))
        }
        Test::Geo(Area::Box { top_left, bottom_right }) => {
            write!(f, "BOX({key}, {}, {})", Place(*top_left), Place(*bottom_right))
        }
        Test::Geo(Area::Polygon { exterior, interiors }) => {
            write!(f, "POLYGON({key}")?;
            for ring in std::iter::once(exterior).chain(interiors) {
                f.write_str(", ")?;
                listed(f, ring.iter().map(|&point| format!("({})", Place(point))))?;
            }
            f.write_char(')')
        }
    }
}

/// What is left of bounds on one value; the least there is where there are none.
fn interval<T: PartialOrd + Copy>(
    f: &mut Formatter<'_>,
    bounds: &Bounds<T>,
    least: T,
    show: impl Fn(T) -> String,
) -> fmt::Result {
    let Bounds { gt, gte, lt, lte } = *bounds;
    // Of two bounds on a side the narrower one is enough.
    let low = match (gt, gte) {
        (Some(open), Some(closed)) if open < closed => Some((closed, true)),
        (Some(open), _) => Some((open, false)),
        (None, closed) => closed.map(|closed| (closed, true)),
    };
    let high = match (lt, lte) {
        (Some(open), Some(closed)) if open > closed => Some((closed, true)),
        (Some(open), _) => Some((open, false)),
        (None, closed) => closed.map(|closed| (closed, true)),
    };
    match (low, high) {
        (Some((low, true)), Some((high, true))) => write!(f, "BETWEEN {} AND {}", show(low), show(high)),
        (Some((low, is_in)), Some((high, high_is_in))) => {
            let (open, close) = (if is_in { '[' } else { '(' }, if high_is_in { ']' } else { ')' });
            write!(f, "WITHIN {open}{}, {}{close}", show(low), show(high))
        }
        (Some((low, is_in)), None) => write!(f, "{} {}", if is_in { ">=" } else { ">" }, show(low)),
        (None, Some((high, is_in))) => write!(f, "{} {}", if is_in { "<=" } else { "<" }, show(high)),
        (None, None) => write!(f, ">= {}", show(least)),
    }
}

/// The shortest digits that stand for a number.
fn number(number: f64) -> String {
    // Whole numbers below 2⁵³ need no fraction to be read as they are.
    let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
    if is_whole { format!("{number}") } else { format!("{number:?}") }
}

/// The first moment that a text names, 0001-01-01T00:00:00+23:59, in microseconds since 1970.
const FIRST_MOMENT: i64 = -62_135_683_140_000_000;

/// A moment. At the ends of the years that texts name it is told in the time of another zone.
fn when(micros: i64) -> String {
    const MINUTE: i32 = 60;
    let zones = [0, 1439, -1439].into_iter().filter_map(|minutes| FixedOffset::east_opt(minutes * MINUTE));
    let moment = DateTime::from_timestamp_micros(micros);
    let mut told = zones
        .filter_map(|zone| Some(moment?.with_timezone(&zone).to_rfc3339_opts(SecondsFormat::AutoSi, true)));
    let found = told.find(|text| dehub_index::moment(text) == Some(micros));
    Quoted(&found.unwrap_or_else(|| format!("{micros} µs"))).to_string()
}

impl Display for Exact {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Exact::Bool(flag) => flag.fmt(f),
            Exact::Integer(number) => number.fmt(f),
            Exact::Text(text) => Quoted(text).fmt(f),
        }
    }
}

struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}

/// A path, with its first key in quotes if it would be read as a word.
struct Path<'a>(&'a PayloadPath);

impl Display for Path<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        match self.0.steps().first() {
            Some(PathStep::Key(key)) if ["not", "id"].iter().any(|word| key.eq_ignore_ascii_case(word)) => {
                write!(f, "\"{key}\"{}", &text[key.len()..])
            }
            Some(PathStep::Key(_) | PathStep::Index(_) | PathStep::Each) | None => f.write_str(&text),
        }
    }
}

/// A place as `lat, lon`.
struct Place(GeoPoint);

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", number(self.0.lat), number(self.0.lon))
    }
}
