//! Random filters on random payloads, against an evaluation written apart from the engine's; each filter as a tree and
//! in its readable form.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use chrono::DateTime;
use dehub_index::{
    Catalogue, Collection, CollectionConfig, FieldKind, GeoPoint, GraphConfig, Payload, PayloadChange,
    PointInput,
};
use dehub_query::{
    Area, Bounds, Condition, EARTH_RADIUS_METRES, Exact, Filter, Match, MinShould, Selectivity, Test, Words,
};
use dehub_vector::{Metric, PointId};
use serde_json::{Map, Value, json};

use super::name;

/// Numbers from a seed (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).expect("small")
    }

    pub(crate) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn some<T>(&mut self, most: usize, mut make: impl FnMut(&mut Dice) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }
}

const INTEGERS: [i64; 8] = [0, 1, 2, -1, 7, i64::MIN, i64::MAX, 1 << 53];
const FLOATS: [f64; 6] = [0.5, 1.0, -0.0, 2.5, 1e300, 9.223_372_036_854_776e18];
const TEXTS: [&str; 9] =
    ["", "red", "Red", "Éclair ßtraße", "red fish", "fish, red!", "東京 red", "a\"b\\c", "7"];
const MOMENTS: [&str; 6] = [
    "2024-06-15T12:00:00Z",
    "2024-06-15T13:30:00+01:30",
    "2024-06-15T12:00:00.000001Z",
    "1969-12-31T23:59:59-05:00",
    "9999-12-31T23:59:59.999999Z",
    "2000-02-29T00:00:00Z",
];
const PLACES: [(f64, f64); 8] = [
    (0.0, 0.0),
    (3.0, -4.0),
    (90.0, 0.0),
    (-90.0, 17.0),
    (0.0, 180.0),
    (0.0, -180.0),
    (52.5, 13.4),
    (-33.9, 151.2),
];

/// A path as its steps: a key, a place, or every entry.
#[derive(Debug, Clone)]
struct At(&'static str, &'static [Step]);

#[derive(Debug, Clone, Copy)]
enum Step {
    Key(&'static str),
    Place(usize),
    Each,
}

const PATHS: [At; 9] = [
    At("a", &[Step::Key("a")]),
    At("b", &[Step::Key("b")]),
    At("b.c", &[Step::Key("b"), Step::Key("c")]),
    At("b[]", &[Step::Key("b"), Step::Each]),
    At("b[1]", &[Step::Key("b"), Step::Place(1)]),
    At("é", &[Step::Key("é")]),
    At("\"odd key\"", &[Step::Key("odd key")]),
    At("n[].a", &[Step::Key("n"), Step::Each, Step::Key("a")]),
    At("n", &[Step::Key("n")]),
];

fn scalar(dice: &mut Dice) -> Value {
    match dice.below(9) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2 | 3 => json!(dice.one(&INTEGERS)),
        4 => json!(dice.one(&FLOATS)),
        5 => json!(u64::MAX - dice.roll() % 2),
        6 => json!(dice.one(&MOMENTS)),
        7 => {
            let (lat, lon) = dice.one(&PLACES);
            json!({"lat": lat, "lon": lon})
        }
        _ => json!(dice.one(&TEXTS)),
    }
}

fn value(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(8) {
        0 if depth > 0 => Value::Array(dice.some(4, |dice| value(dice, depth - 1))),
        1 if depth > 0 => Value::Array(dice.some(3, scalar)),
        2 if depth > 0 => object(dice, depth - 1),
        3 if depth > 0 => Value::Array(dice.some(3, |dice| object(dice, depth - 1))),
        _ => scalar(dice),
    }
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let mut map = Map::new();
    for key in ["a", "b", "c", "é", "odd key", "n"] {
        if dice.below(3) > 0 {
            map.insert(key.to_owned(), value(dice, depth));
        }
    }
    Value::Object(map)
}

/// A condition, apart from the engine's.
#[derive(Debug, Clone)]
enum Asked {
    Equal(At, Value),
    In(At, Vec<Value>),
    Except(At, Vec<Value>),
    Range(At, Ends<f64>),
    When(At, Ends<&'static str>),
    Words(At, &'static str, Mode),
    Prefix(At, &'static str),
    Contains(At, &'static str),
    Count(At, Ends<u64>),
    Empty(At),
    Null(At),
    Ids(Vec<u64>),
    Radius(At, (f64, f64), f64),
    Box(At, (f64, f64), (f64, f64)),
    Polygon(At, f64, f64),
    Nested(At, Box<Asked>),
    /// What a filter has in `must`, `should` and `must_not`.
    Mixed([Vec<Asked>; 3]),
    And(Vec<Asked>),
    Or(Vec<Asked>),
    Not(Box<Asked>),
    AtLeast(usize, Vec<Asked>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    All,
    Any,
    Phrase,
}

/// An end, and whether it is in.
#[derive(Debug, Clone, Copy)]
struct Ends<T> {
    low: Option<(T, bool)>,
    high: Option<(T, bool)>,
}

impl<T: Copy> Ends<T> {
    fn random(dice: &mut Dice, mut end: impl FnMut(&mut Dice) -> T) -> Ends<T> {
        let which = dice.below(3);
        let mut one = |dice: &mut Dice| Some((end(dice), dice.below(2) == 0));
        Ends {
            low: if which == 1 { None } else { one(dice) },
            high: if which == 0 { None } else { one(dice) },
        }
    }

    fn bounds<U: Copy>(&self, read: impl Fn(T) -> U) -> Bounds<U> {
        let mut bounds = Bounds { gt: None, gte: None, lt: None, lte: None };
        match self.low {
            Some((low, true)) => bounds.gte = Some(read(low)),
            Some((low, false)) => bounds.gt = Some(read(low)),
            None => {}
        }
        match self.high {
            Some((high, true)) => bounds.lte = Some(read(high)),
            Some((high, false)) => bounds.lt = Some(read(high)),
            None => {}
        }
        bounds
    }

    fn hold<U: PartialOrd>(&self, found: &U, read: impl Fn(T) -> U) -> bool {
        let above = self.low.is_none_or(|(low, is_in)| {
            let low = read(low);
            *found > low || (is_in && *found == low)
        });
        let below = self.high.is_none_or(|(high, is_in)| {
            let high = read(high);
            *found < high || (is_in && *found == high)
        });
        above && below
    }

    fn text(&self, show: impl Fn(T) -> String) -> String {
        match (self.low, self.high) {
            (Some((low, is_in)), None) => format!("{} {}", if is_in { ">=" } else { ">" }, show(low)),
            (None, Some((high, is_in))) => format!("{} {}", if is_in { "<=" } else { "<" }, show(high)),
            (Some((low, true)), Some((high, true))) => format!("between {} and {}", show(low), show(high)),
            (Some((low, low_in)), Some((high, high_in))) => format!(
                "WITHIN {}{}, {}{}",
                if low_in { "[" } else { "(" },
                show(low),
                show(high),
                if high_in { "]" } else { ")" }
            ),
            (None, None) => unreachable!("an end at least"),
        }
    }
}

fn exact_value(dice: &mut Dice) -> Value {
    match dice.below(4) {
        0 => json!(dice.below(2) == 0),
        1 => json!(dice.one(&INTEGERS)),
        2 => json!(dice.one(&MOMENTS)),
        _ => json!(dice.one(&TEXTS)),
    }
}

fn asked(dice: &mut Dice, depth: usize) -> Asked {
    let at = dice.one(&PATHS);
    if depth > 0 && dice.below(2) == 0 {
        let list = |dice: &mut Dice| -> Vec<Asked> {
            (0..1 + dice.below(3)).map(|_| asked(dice, depth - 1)).collect()
        };
        return match dice.below(6) {
            5 => Asked::Mixed([0; 3].map(|_| {
                let list = list(dice);
                if dice.below(3) == 0 { Vec::new() } else { list }
            })),
            0 => Asked::And(list(dice)),
            1 => Asked::Or(list(dice)),
            2 => {
                let list = list(dice);
                Asked::AtLeast(dice.below(list.len() + 2), list)
            }
            3 => Asked::Nested(at, Box::new(asked(dice, depth - 1))),
            _ => Asked::Not(Box::new(asked(dice, depth - 1))),
        };
    }
    let word =
        |dice: &mut Dice| dice.one(&["red", "fish", "RED fish", "fish red", "éclair", "東京", "", "b c"]);
    match dice.below(15) {
        0 | 1 => Asked::Equal(at, exact_value(dice)),
        2 => Asked::In(at, dice.some(4, exact_value)),
        3 => Asked::Except(at, dice.some(4, exact_value)),
        4 | 5 => Asked::Range(
            at,
            Ends::random(dice, |dice| match dice.below(3) {
                0 => dice.one(&FLOATS),
                #[expect(clippy::cast_precision_loss, reason = "as it is compared")]
                _ => dice.one(&INTEGERS) as f64,
            }),
        ),
        6 => Asked::When(at, Ends::random(dice, |dice| dice.one(&MOMENTS))),
        7 => Asked::Words(at, word(dice), dice.one(&[Mode::All, Mode::Any, Mode::Phrase])),
        8 => Asked::Prefix(at, dice.one(&["", "re", "É", "a\""])),
        9 => Asked::Contains(at, dice.one(&["", "ed", "ß", "\\c", "京"])),
        10 => Asked::Count(at, Ends::random(dice, |dice| dice.below(4) as u64)),
        11 => match dice.below(3) {
            0 => Asked::Ids(dice.some(5, |dice| dice.below(IDS) as u64)),
            1 => Asked::Empty(at),
            _ => Asked::Null(at),
        },
        12 => Asked::Radius(at, dice.one(&PLACES), dice.one(&[1.0, 1e6, 1.1e7, 2.1e7])),
        13 => Asked::Polygon(at, dice.one(&[12.0, 53.5, 90.0]), dice.one(&[0.5, 12.5])),
        _ => Asked::Box(at, dice.one(&PLACES), dice.one(&PLACES)),
    }
}

fn exact(value: &Value) -> Exact {
    match value {
        Value::Bool(flag) => Exact::Bool(*flag),
        Value::Number(number) => Exact::Integer(number.as_i64().expect("an integer")),
        Value::String(text) => Exact::Text(text.as_str().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => unreachable!("no such value is asked for"),
    }
}

fn micros(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).expect("a moment").timestamp_micros()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), quoted)
}

fn list_text(values: &[Value]) -> String {
    format!("[{}]", values.iter().map(value_text).collect::<Vec<_>>().join(" , "))
}

fn joined(list: &[Asked], by: &str) -> String {
    list.iter().map(|one| format!("({})", one.text())).collect::<Vec<_>>().join(by)
}

impl Asked {
    fn condition(&self) -> Condition {
        let field = |At(path, _): &At, test| Condition::Field { key: path.parse().expect("a path"), test };
        let matched = |at, test| field(at, Test::Match(test));
        let all = |list: &[Asked]| list.iter().map(Asked::condition).collect::<Vec<_>>();
        let filter = |filter| Condition::Filter(Box::new(filter));
        let place = |&(lat, lon): &(f64, f64)| GeoPoint { lat, lon };
        match self {
            Asked::Equal(at, value) => matched(at, Match::Value(exact(value))),
            Asked::In(at, values) => matched(at, Match::Any(values.iter().map(exact).collect())),
            Asked::Except(at, values) => matched(at, Match::Except(values.iter().map(exact).collect())),
            Asked::Range(at, ends) => field(at, Test::Range(ends.bounds(|end| end))),
            Asked::When(at, ends) => field(at, Test::Moments(ends.bounds(micros))),
            Asked::Words(at, words, Mode::All) => matched(at, Match::Text(Words::of(words))),
            Asked::Words(at, words, Mode::Any) => matched(at, Match::AnyWord(Words::of(words))),
            Asked::Words(at, words, Mode::Phrase) => matched(at, Match::Phrase(Words::of(words))),
            Asked::Prefix(at, text) => matched(at, Match::Prefix((*text).into())),
            Asked::Contains(at, text) => matched(at, Match::Substring((*text).into())),
            Asked::Count(At(path, _), ends) => {
                Condition::Count { key: path.parse().expect("a path"), bounds: ends.bounds(|end| end) }
            }
            Asked::Empty(At(path, _)) => Condition::IsEmpty(path.parse().expect("a path")),
            Asked::Null(At(path, _)) => Condition::IsNull(path.parse().expect("a path")),
            Asked::Ids(ids) => Condition::HasId(ids.iter().copied().map(PointId::Number).collect()),
            Asked::Radius(at, center, radius) => {
                field(at, Test::Geo(Area::Circle { center: place(center), radius: *radius }))
            }
            Asked::Box(at, top_left, bottom_right) => field(
                at,
                Test::Geo(Area::Box { top_left: place(top_left), bottom_right: place(bottom_right) }),
            ),
            Asked::Polygon(at, outer, inner) => {
                let ring = |end| diamond(end).map(|it| place(&it)).to_vec();
                field(at, Test::Geo(Area::Polygon { exterior: ring(*outer), interiors: vec![ring(*inner)] }))
            }
            Asked::Nested(At(path, _), inside) => Condition::Nested {
                key: path.parse().expect("a path"),
                filter: Box::new(Filter { must: vec![inside.condition()], ..Filter::default() }),
            },
            Asked::Mixed([must, should, must_not]) => filter(Filter {
                must: all(must),
                should: all(should),
                must_not: all(must_not),
                min_should: None,
            }),
            Asked::And(list) => filter(Filter { must: all(list), ..Filter::default() }),
            Asked::Or(list) => filter(Filter { should: all(list), ..Filter::default() }),
            Asked::Not(one) => filter(Filter { must_not: vec![one.condition()], ..Filter::default() }),
            Asked::AtLeast(least, list) => filter(Filter {
                min_should: Some(MinShould { conditions: all(list), least: *least }),
                ..Filter::default()
            }),
        }
    }

    /// The readable form.
    fn text(&self) -> String {
        let number = |number: f64| format!("{number:?}");
        match self {
            Asked::Equal(At(path, _), value) => format!("{path}={}", value_text(value)),
            Asked::In(At(path, _), values) => format!("{path} in {}", list_text(values)),
            Asked::Except(At(path, _), values) => format!("{path} EXCEPT{}", list_text(values)),
            Asked::Range(At(path, _), ends) => format!("{path} {}", ends.text(number)),
            Asked::When(At(path, _), ends) => format!("{path} {}", ends.text(quoted)),
            Asked::Words(At(path, _), words, mode) => {
                let mode = match mode {
                    Mode::All => "",
                    Mode::Any => "any",
                    Mode::Phrase => "PHRASE",
                };
                format!("{path}  Match {mode} {}", quoted(words))
            }
            Asked::Prefix(At(path, _), text) => format!("{path} starts with {}", quoted(text)),
            Asked::Contains(At(path, _), text) => format!("{path} CONTAINS {}", quoted(text)),
            Asked::Count(At(path, _), ends) => format!("count({path}) {}", ends.text(|end| end.to_string())),
            Asked::Empty(At(path, _)) => format!("{path} IS EMPTY"),
            Asked::Null(At(path, _)) => format!("{path} is null"),
            Asked::Ids(ids) => format!("id IN {ids:?}"),
            Asked::Radius(At(path, _), (lat, lon), radius) => {
                format!("RADIUS({path}, {lat:?}, {lon:?}, {radius:?})")
            }
            Asked::Box(At(path, _), (top, left), (bottom, right)) => {
                format!("box({path}, {top:?}, {left:?}, {bottom:?}, {right:?})")
            }
            Asked::Polygon(At(path, _), outer, inner) => {
                let ring = |end| diamond(end).map(|(lat, lon)| format!("({lat:?},{lon:?})")).join(", ");
                format!("Polygon ({path}, [{}], [ {} ])", ring(*outer), ring(*inner))
            }
            Asked::Mixed([must, should, must_not]) => {
                let should: Vec<String> =
                    (!should.is_empty()).then(|| joined(should, " OR ")).into_iter().collect();
                let must_not = must_not.iter().map(|one| format!("NOT ({})", one.text()));
                let all = must.iter().map(Asked::text).chain(should).chain(must_not);
                let all: Vec<String> = all.map(|one| format!("({one})")).collect();
                if all.is_empty() { "AT LEAST 0 OF ()".to_owned() } else { all.join(" AND ") }
            }
            Asked::Nested(At(path, _), inside) => format!("ANY({path}: {})", inside.text()),
            Asked::And(list) => joined(list, " AND "),
            Asked::Or(list) => joined(list, " or "),
            Asked::Not(one) => format!("NOT ({})", one.text()),
            Asked::AtLeast(least, list) => format!("AT LEAST {least} OF ({})", joined(list, ", ")),
        }
    }

    fn holds(&self, payload: &Value, id: Option<u64>) -> bool {
        let any = |at: &At, test: &dyn Fn(&Value) -> bool| entries(at, payload).into_iter().any(test);
        match self {
            Asked::Equal(at, value) => any(at, &|found| is(found, value)),
            Asked::In(at, values) => any(at, &|found| values.iter().any(|value| is(found, value))),
            Asked::Except(at, values) => {
                any(at, &|found| !found.is_null() && !values.iter().any(|value| is(found, value)))
            }
            Asked::Range(at, ends) => {
                any(at, &|found| found.as_f64().is_some_and(|it| ends.hold(&it, |end| end)))
            }
            Asked::When(at, ends) => any(at, &|found| {
                let found = found.as_str().and_then(|text| DateTime::parse_from_rfc3339(text).ok());
                found.is_some_and(|it| ends.hold(&it.timestamp_micros(), micros))
            }),
            Asked::Words(at, asked, mode) => any(at, &|found| {
                found.as_str().is_some_and(|text| has_words(&words(text), &words(asked), *mode))
            }),
            Asked::Prefix(at, start) => {
                any(at, &|found| found.as_str().is_some_and(|text| text.starts_with(start)))
            }
            Asked::Contains(at, part) => {
                any(at, &|found| found.as_str().is_some_and(|text| text.contains(part)))
            }
            Asked::Count(at, ends) => {
                let counts = follow(at.1, payload).into_iter().map(|found| match found {
                    Value::Null => 0,
                    Value::Array(entries) => entries.len() as u64,
                    Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => 1,
                });
                let counts: Vec<u64> = counts.collect();
                let counts = if counts.is_empty() { vec![0] } else { counts };
                counts.iter().any(|count| ends.hold(count, |end| end))
            }
            Asked::Empty(at) => {
                follow(at.1, payload).into_iter().all(|found| *found == json!([]) || found.is_null())
            }
            Asked::Null(at) => follow(at.1, payload).into_iter().any(|found| {
                found.is_null() || found.as_array().is_some_and(|entries| entries.contains(&Value::Null))
            }),
            Asked::Ids(ids) => id.is_some_and(|id| ids.contains(&id)),
            Asked::Radius(at, ..) | Asked::Polygon(at, ..) | Asked::Box(at, ..) => {
                any(at, &|found| geo(found).is_some_and(|place| self.has_place(place)))
            }
            Asked::Mixed([must, should, must_not]) => {
                let holds = |one: &Asked| one.holds(payload, id);
                let is_any = should.is_empty() || should.iter().any(holds);
                is_any && must.iter().all(holds) && !must_not.iter().any(holds)
            }
            Asked::Nested(At(_, steps), inside) => {
                let steps = match steps {
                    [steps @ .., Step::Each] => steps,
                    steps => steps,
                };
                let arrays = follow(steps, payload).into_iter().filter_map(Value::as_array).flatten();
                arrays.filter(|element| element.is_object()).any(|element| inside.holds(element, None))
            }
            Asked::And(list) => list.iter().all(|one| one.holds(payload, id)),
            Asked::Or(list) => list.iter().any(|one| one.holds(payload, id)),
            Asked::Not(one) => !one.holds(payload, id),
            Asked::AtLeast(least, list) => list.iter().filter(|one| one.holds(payload, id)).count() >= *least,
        }
    }

    /// Whether a place is in the area, if it is one that is asked for.
    fn has_place(&self, (lat, lon): (f64, f64)) -> bool {
        if let Asked::Radius(_, center, radius) = self {
            return great_circle(*center, (lat, lon)) < *radius;
        }
        if let Asked::Polygon(_, outer, inner) = self {
            let far = lat.abs() + lon.abs();
            return far < *outer && far > *inner;
        }
        let Asked::Box(_, (top, left), (bottom, right)) = self else { return false };
        let (east, west) = (lon > *left, lon < *right);
        (if left > right { east || west } else { east && west }) && lat < *top && lat > *bottom
    }
}

fn follow<'a>(steps: &[Step], value: &'a Value) -> Vec<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return vec![value] };
    let next: Vec<&Value> = match step {
        Step::Key(key) => value.as_object().and_then(|map| map.get(*key)).into_iter().collect(),
        Step::Place(place) => value.as_array().and_then(|list| list.get(*place)).into_iter().collect(),
        Step::Each => value.as_array().into_iter().flatten().collect(),
    };
    next.into_iter().flat_map(|value| follow(rest, value)).collect()
}

/// What a path leads to, the entries of arrays in their place.
fn entries<'a>(at: &At, payload: &'a Value) -> Vec<&'a Value> {
    let found = follow(at.1, payload).into_iter();
    found
        .flat_map(|value| value.as_array().map_or_else(|| vec![value], |list| list.iter().collect()))
        .collect()
}

fn is(found: &Value, value: &Value) -> bool {
    match (found, value) {
        // A whole number is one only as such: 1.0 is not 1, and what is beyond 64 bits with a sign is none.
        (Value::Number(found), Value::Number(value)) => {
            found.as_i64().is_some() && found.as_i64() == value.as_i64()
        }
        (found, value) => found == value,
    }
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in text.chars() {
        match character.is_alphanumeric() {
            true => words.last_mut().expect("one").extend(character.to_lowercase()),
            false => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn has_words(found: &[String], asked: &[String], mode: Mode) -> bool {
    match mode {
        Mode::Any => asked.iter().any(|word| found.contains(word)),
        Mode::All => !asked.is_empty() && asked.iter().all(|word| found.contains(word)),
        Mode::Phrase => !asked.is_empty() && (0..found.len()).any(|start| found[start..].starts_with(asked)),
    }
}

fn geo(value: &Value) -> Option<(f64, f64)> {
    Some((value.get("lat")?.as_f64()?, value.get("lon")?.as_f64()?))
}

/// The places at which the degrees of latitude and of longitude are together so many, as a ring.
fn diamond(end: f64) -> [(f64, f64); 5] {
    [(end, 0.0), (0.0, end), (-end, 0.0), (0.0, -end), (end, 0.0)]
}

/// By the law of cosines of chords.
fn great_circle(a: (f64, f64), b: (f64, f64)) -> f64 {
    let unit = |(lat, lon): (f64, f64)| {
        let (lat, lon) = (lat.to_radians(), lon.to_radians());
        [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()]
    };
    let chord = unit(a).iter().zip(unit(b)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
    2.0 * EARTH_RADIUS_METRES * (chord / 2.0).min(1.0).asin()
}

/// Points that a world may have, by their ids: more than are looked at without postings.
const IDS: usize = 200;

/// A collection, and what it should hold.
struct World {
    collection: Arc<Collection>,
    payloads: BTreeMap<u64, Value>,
}

fn open(folder: &Path) -> Arc<Collection> {
    Catalogue::new(folder).get(&name("world")).expect("it opens")
}

impl World {
    fn new(folder: &Path) -> World {
        let config = CollectionConfig::new(2, Metric::Dot, GraphConfig::default()).expect("valid");
        let collection = Catalogue::new(folder).create(&name("world"), config).expect("a new folder");
        World { collection, payloads: BTreeMap::new() }
    }

    fn upsert(&mut self, dice: &mut Dice, count: usize) {
        let ids: BTreeMap<u64, Value> =
            (0..count).map(|_| (dice.below(IDS) as u64, object(dice, 2))).collect();
        let point = |(&id, payload): (&u64, &Value)| PointInput {
            payload: Some(Payload::parse(&payload.to_string()).expect("an object")),
            ..PointInput::new(PointId::Number(id), vec![1.0, 0.0])
        };
        self.collection.upsert(&ids.iter().map(point).collect::<Vec<_>>()).expect("valid");
        self.payloads.extend(ids);
    }

    fn change(&mut self, dice: &mut Dice) {
        let id = dice.below(IDS) as u64;
        let ids = [PointId::Number(id)];
        if dice.below(3) == 0 {
            self.collection.delete(&ids).expect("writable");
            self.payloads.remove(&id);
        } else if let Some(payload) = self.payloads.get_mut(&id) {
            *payload = object(dice, 2);
            let whole = Payload::parse(&payload.to_string()).expect("an object");
            self.collection.change_payloads(&ids, &PayloadChange::Overwrite(whole)).expect("valid");
        }
    }

    /// Indexes of any kind on any fields, so that most do not keep what is there.
    fn index(&self, dice: &mut Dice) {
        for At(path, _) in PATHS {
            let path = path.parse().expect("a path");
            if dice.below(4) == 0 {
                self.collection.drop_payload_index(&path).expect("writable");
            } else {
                self.collection.index_payload(&path, dice.one(&FieldKind::ALL)).expect("writable");
            }
        }
    }

    /// Has postings made of all columns that can have them.
    fn invert(&self) {
        let snapshot = self.collection.snapshot();
        for (_, column) in snapshot.payload_columns().filter(|(_, column)| column.kind() != FieldKind::Geo) {
            while column.postings().is_none() {
                std::thread::yield_now();
            }
        }
    }

    fn check(&self, dice: &mut Dice, filters: usize) {
        let snapshot = self.collection.snapshot();
        let found = |filter: &Filter| -> Vec<u64> {
            let scope = filter.within(&snapshot, &snapshot.scope()).expect("readable");
            let rows: Vec<u32> = scope.rows().collect();
            let number = |id: &PointId| match id {
                PointId::Number(number) => *number,
                PointId::Text(text) => panic!("{text}"),
            };
            let points = snapshot.points(&rows).expect("readable");
            let mut ids: Vec<u64> = points.iter().map(|point| number(&point.id)).collect();
            ids.sort_unstable();
            ids
        };
        for _ in 0..filters {
            let asked = asked(dice, 3);
            let holding = self.payloads.iter().filter(|(id, payload)| asked.holds(payload, Some(**id)));
            let wanted: Vec<u64> = holding.map(|(id, _)| *id).collect();
            let tree = Filter { must: vec![asked.condition()], ..Filter::default() };
            assert_eq!(found(&tree), wanted, "{}", asked.text());
            let Selectivity { least, most, likely } = tree.estimate(&snapshot).expect("readable");
            assert!(least <= wanted.len() && wanted.len() <= most, "{least}..={most}: {}", asked.text());
            assert!(least as f64 <= likely && likely <= most as f64, "{likely}: {}", asked.text());
            let text = asked.text();
            let read: Filter = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(found(&read), wanted, "{text}");
            // What was read prints as itself, and any other filter as one that allows the same.
            let again: Filter = read.to_string().parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(again, read, "{read}");
            let again: Filter = tree.to_string().parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(found(&again), wanted, "{tree}");
        }
    }
}

#[test]
fn random_filters_allow_what_an_evaluation_apart_says_whatever_is_indexed_and_was_changed() {
    for seed in 0..6 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut dice = Dice(seed);
        let mut world = World::new(folder.path());
        world.upsert(&mut dice, 300);
        world.check(&mut dice, 150);
        world.index(&mut dice);
        world.invert();
        world.check(&mut dice, 150);
        (0..20).for_each(|_| world.change(&mut dice));
        world.upsert(&mut dice, 10);
        world.check(&mut dice, 150);
        world.upsert(&mut dice, 100);
        world.invert();
        world.check(&mut dice, 150);
        let World { collection, payloads } = world;
        drop(collection);
        let world = World { collection: open(folder.path()), payloads };
        world.check(&mut dice, 150);
    }
}

#[test]
fn text_that_is_no_filter_is_refused_where_it_goes_wrong() {
    for (text, column, wanted) in [
        ("", 0, "a condition"),
        ("a =", 3, "a value"),
        ("a = 1 b = 2", 6, "AND, OR or the end"),
        ("a = 1 AND", 9, "a condition"),
        ("(a = 1", 6, "AND, OR or )"),
        ("a IN 1", 5, "a list in brackets"),
        ("a IN [1, 2", 10, "a comma or ]"),
        ("a IN [1.5]", 10, "whole numbers, texts"),
        ("a < true", 4, "a number, or a moment"),
        ("a < 'yesterday'", 4, "a number, or a moment"),
        ("a BETWEEN 1 AND '2024-01-01'", 28, "bounds of one kind"),
        ("a WITHIN (,)", 12, "an interval with an end"),
        ("a LIKE 'x'", 2, "a test"),
        ("a NOT 1", 6, "IN, MATCH"),
        ("a IS 1", 5, "NULL, EMPTY"),
        ("a = 'x", 4, "a quote that is closed"),
        ("RADIUS(a, 91, 0, 1)", 10, "a latitude within 90"),
        ("COUNT(a) > -1", 11, "how many"),
        ("SLICE(3, 3)", 10, "more slices"),
        ("id IN [-1]", 10, "ids before this"),
        ("id = 18446744073709551616", 25, "ids before this"),
        ("RADIUS(a, 0, 0, -1 km)", 16, "a radius from 0"),
        ("POLYGON(a, [(0, 0), (0, 1), (0, 0)])", 11, "at least 4 places"),
        ("a..b = 1", 0, "a condition"),
        ("é = 1 oder b = 2", 6, "AND, OR or the end"),
    ] {
        let error = text.parse::<Filter>().expect_err(text);
        assert!(error.wanted.starts_with(wanted) && error.column == column, "{text}: {error:?}");
        let shown = error.to_string();
        assert!(shown.ends_with('^') && shown.contains(&format!("at column {}", column + 1)), "{shown}");
    }
    let deep = format!("{}a = 1{}", "(".repeat(1000), ")".repeat(1000));
    assert!(deep.parse::<Filter>().expect_err("too deep").wanted.contains("64 deep"));
    let deep = format!("{}a = 1", "NOT ".repeat(1000));
    assert!(deep.parse::<Filter>().expect_err("too deep").wanted.contains("64 deep"));
    let long = format!("a = '{}'", "x".repeat(70_000));
    assert!(long.parse::<Filter>().expect_err("too long").wanted.contains("65,536"));
}

#[test]
fn the_readable_form_means_what_it_says() {
    let same = |text: &str, other: &str| {
        let read = |text: &str| text.parse::<Filter>().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read(text), read(other), "{text}");
    };
    same("a = 1 AND b = 2 OR c = 3", "(a = 1 and b = 2) or c = 3");
    same("NOT a = 1 AND b = 2", "(NOT a = 1) AND b = 2");
    same("a != 'x'", "NOT a = \"x\"");
    same("a <> 1", "NOT a == 1");
    same("a NOT IN [1]", "NOT a IN [1]");
    same("a IS NOT NULL", "NOT a IS NULL");
    same("a BETWEEN 1 AND 2.5", "a WITHIN [1, 2.5]");
    same("a >= 1", "a WITHIN [1, )");
    same("id = 7", "id IN [7]");
    same("id != 'x'", "NOT id IN ['x']");
    same("COUNT(a) = 2", "COUNT(a) BETWEEN 2 AND 2");
    // A field that is called as a word is, stands in quotes.
    let quoted: Filter = "\"id\" = 7 AND \"not\" = 1 AND count = 2".parse().expect("fields");
    assert_eq!(quoted.must.len(), 3);
    assert!(quoted.must.iter().all(|one| matches!(one, Condition::Field { .. })));
}
