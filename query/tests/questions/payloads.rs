//! Filters, facets and orders over random payloads, with and without indexes, against a plain reading of what they say.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the kinds of JSON values one or two matter at a time"
)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use dehub_index::{Deadline, FieldKind, GeoPoint, Payload, PayloadPath, PointInput, Snapshot, moment};
use dehub_query::{
    Area, Bounds, Condition, Exact, Filter, Match, MinShould, OrderBy, OrderValue, QueryError, Test, Words,
    facets, ordered, page,
};
use dehub_vector::{Metric, PointId};
use serde_json::{Value, json};

use crate::Bed;

const POINTS: u64 = 300;
const PATHS: [&str; 7] = ["a", "b", "a.x", "l", "l[]", "l[].y", "none"];
const TEXTS: [&str; 5] = ["red", "FOX red", "dog", "", "red dog"];

/// Numbers that look random and are the same for the same seed (SplitMix64).
struct Random(u64);

/// What a filter says.
#[derive(Debug, Clone)]
enum Said {
    All(Vec<Said>),
    Any(Vec<Said>),
    Neither(Vec<Said>),
    AtLeast(usize, Vec<Said>),
    Not(Box<Said>),
    Value(&'static str, Of),
    Count(&'static str, u64, u64),
    Empty(&'static str),
    Null(&'static str),
    Ids(Vec<u64>),
    Vector(&'static str),
    Element(&'static str, Box<Said>),
}

/// What it says of a value.
#[derive(Debug, Clone)]
enum Of {
    Is(Value),
    In(Vec<Value>),
    NotIn(Vec<Value>),
    AllWords(&'static str),
    AnyWord(&'static str),
    Phrase(&'static str),
    Prefix(&'static str),
    Substring(&'static str),
    /// At least the one, less than the other.
    Between(f64, f64),
    /// Later than the one, not later than the other.
    Times(&'static str, &'static str),
    /// South-western and north-eastern corner.
    Within((f64, f64), (f64, f64)),
}

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).expect("below a usize")
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn list<T>(&mut self, below: usize, mut one: impl FnMut(&mut Random) -> T) -> Vec<T> {
        (0..self.below(below)).map(|_| one(self)).collect()
    }

    fn single(&mut self) -> Value {
        let values = json!([
            null, true, false, 0, 1, 2, 0.5, 1.0, -3, "red", "Red fox", "fox, red_dog", "2024-01-01",
            "2024-01-01T02:00:00+01:00", {"lat": 10, "lon": 20.5}, {"lat": 50, "lon": -20}, {"lat": "x"}
        ]);
        self.pick(values.as_array().expect("an array"))
    }

    fn value(&mut self) -> Value {
        match self.below(10) {
            0 => Value::Array(self.list(4, Random::single)),
            1 => json!({"x": self.single()}),
            2 => json!({"x": [self.single(), [self.single()]]}),
            _ => self.single(),
        }
    }

    fn payload(&mut self) -> Value {
        let mut payload = json!({});
        for key in ["a", "b"] {
            if self.below(4) > 0 {
                payload[key] = self.value();
            }
        }
        if self.below(2) > 0 {
            let entry = |random: &mut Random| match random.below(4) {
                0 => random.single(),
                1 => json!({"y": random.single(), "z": random.single()}),
                _ => json!({"y": random.value()}),
            };
            payload["l"] = Value::Array(self.list(4, entry));
        }
        payload
    }

    fn exact(&mut self) -> Value {
        self.pick(
            json!([true, false, 0, 1, -3, "red", "Red fox", "2024-01-01"]).as_array().expect("an array"),
        )
    }

    fn of(&mut self) -> Of {
        match self.below(12) {
            0 | 1 => Of::Is(self.exact()),
            2 => Of::In(self.list(3, Random::exact)),
            3 => Of::NotIn(self.list(3, Random::exact)),
            4 => Of::AllWords(self.pick(&TEXTS)),
            5 => Of::AnyWord(self.pick(&TEXTS)),
            6 => Of::Phrase(self.pick(&TEXTS)),
            7 => Of::Prefix(self.pick(&["Red", "", "fox,"])),
            8 => Of::Substring(self.pick(&["ed f", "red"])),
            9 => Of::Between(self.pick(&[-3.0, 0.5, 1.0]), self.pick(&[1.0, 1.5, 9.0])),
            10 => Of::Times(self.pick(&["2023-01-01", "2024-01-01"]), "2024-01-01T01:00:00Z"),
            _ => Of::Within((0.0, 0.0), (45.0, self.pick(&[20.0, 30.0]))),
        }
    }

    fn said(&mut self, depth: usize, paths: &[&'static str]) -> Said {
        let path = self.pick(paths);
        let several = |random: &mut Random| -> Vec<Said> {
            (0..=random.below(3)).map(|_| random.said(depth.saturating_sub(1), paths)).collect()
        };
        match self.below(if depth == 0 { 9 } else { 16 }) {
            0..=3 => Said::Value(path, self.of()),
            4 => Said::Count(path, self.pick(&[0, 1, 2]), self.pick(&[1, 2, 9])),
            5 => Said::Empty(path),
            6 => Said::Null(path),
            7 => Said::Ids(self.list(200, |random| random.below(350) as u64)),
            8 => Said::Vector(self.pick(&["", "other"])),
            9 | 10 => Said::All(several(self)),
            11 | 12 => Said::Any(several(self)),
            13 => Said::Neither(several(self)),
            14 => Said::AtLeast(1 + self.below(2), several(self)),
            _ => match self.below(3) {
                0 => Said::Not(Box::new(self.said(depth - 1, paths))),
                _ => {
                    Said::Element(self.pick(&["l", "l[]", "a"]), Box::new(self.said(depth - 1, &["y", "z"])))
                }
            },
        }
    }
}

fn path(text: &str) -> PayloadPath {
    text.parse().expect("a path")
}

fn exact(value: &Value) -> Exact {
    match value {
        Value::Bool(flag) => Exact::Bool(*flag),
        Value::String(text) => Exact::Text(text.as_str().into()),
        other => Exact::Integer(other.as_i64().expect("a whole number")),
    }
}

impl Said {
    fn filter(&self) -> Filter {
        let list = |said: &[Said]| said.iter().map(Said::condition).collect();
        match self {
            Said::All(said) => Filter { must: list(said), ..Filter::default() },
            Said::Any(said) => Filter { should: list(said), ..Filter::default() },
            Said::Neither(said) => Filter { must_not: list(said), ..Filter::default() },
            Said::AtLeast(least, said) => {
                let min_should = Some(MinShould { conditions: list(said), least: *least });
                Filter { min_should, ..Filter::default() }
            }
            other => Filter { must: vec![other.condition()], ..Filter::default() },
        }
    }

    fn condition(&self) -> Condition {
        match self {
            Said::All(_) | Said::Any(_) | Said::Neither(_) | Said::AtLeast(..) => {
                Condition::Filter(Box::new(self.filter()))
            }
            Said::Not(said) => Condition::Not(Box::new(said.condition())),
            Said::Value(key, of) => Condition::Field { key: path(key), test: of.test() },
            Said::Count(key, least, end) => {
                let bounds = Bounds { gte: Some(*least), lt: Some(*end), ..Bounds::default() };
                Condition::Count { key: path(key), bounds }
            }
            Said::Empty(key) => Condition::IsEmpty(path(key)),
            Said::Null(key) => Condition::IsNull(path(key)),
            Said::Ids(ids) => Condition::HasId(ids.iter().map(|&id| PointId::Number(id)).collect()),
            Said::Vector(name) => Condition::HasVector((*name).into()),
            Said::Element(key, said) => Condition::Nested { key: path(key), filter: Box::new(said.filter()) },
        }
    }

    /// Whether it is true of the point with this id, or of an object in a payload.
    fn holds(&self, id: Option<u64>, payload: &Value) -> bool {
        let holds = |said: &Said| said.holds(id, payload);
        match self {
            Said::All(said) => said.iter().all(holds),
            Said::Any(said) => said.iter().any(holds),
            Said::Neither(said) => !said.iter().any(holds),
            Said::AtLeast(least, said) => said.iter().filter(|said| holds(said)).count() >= *least,
            Said::Not(said) => !holds(said),
            Said::Value(key, of) => entries(follow(payload, key)).iter().any(|value| of.holds(value)),
            Said::Count(key, least, end) => {
                let mut values = follow(payload, key);
                if values.is_empty() {
                    values.push(Value::Null);
                }
                let count = |value: &Value| match value {
                    Value::Null => 0,
                    Value::Array(entries) => entries.len() as u64,
                    _ => 1,
                };
                values.iter().any(|value| (*least..*end).contains(&count(value)))
            }
            Said::Empty(key) => {
                follow(payload, key).iter().all(|value| *value == Value::Null || *value == json!([]))
            }
            Said::Null(key) => {
                let nulls = follow(payload, key).into_iter().flat_map(|value| match value {
                    Value::Array(entries) => entries,
                    other => vec![other],
                });
                nulls.into_iter().any(|value| value.is_null())
            }
            Said::Ids(ids) => id.is_some_and(|id| ids.contains(&id)),
            Said::Vector(name) => id.is_some() && name.is_empty(),
            Said::Element(key, said) => {
                let arrays = follow(payload, key.trim_end_matches("[]"));
                let entries = arrays.iter().filter_map(Value::as_array).flatten();
                entries.filter(|entry| entry.is_object()).any(|entry| said.holds(None, entry))
            }
        }
    }
}

impl Of {
    fn test(&self) -> Test {
        let at = |(lat, lon): (f64, f64)| GeoPoint { lat, lon };
        Test::Match(match self {
            Of::Is(value) => Match::Value(exact(value)),
            Of::In(values) => Match::Any(values.iter().map(exact).collect()),
            Of::NotIn(values) => Match::Except(values.iter().map(exact).collect()),
            Of::AllWords(text) => Match::Text(Words::of(text)),
            Of::AnyWord(text) => Match::AnyWord(Words::of(text)),
            Of::Phrase(text) => Match::Phrase(Words::of(text)),
            Of::Prefix(text) => Match::Prefix((*text).into()),
            Of::Substring(text) => Match::Substring((*text).into()),
            Of::Between(least, end) => {
                return Test::Range(Bounds { gte: Some(*least), lt: Some(*end), ..Bounds::default() });
            }
            Of::Times(after, last) => {
                return Test::Moments(Bounds { gt: moment(after), lte: moment(last), ..Bounds::default() });
            }
            Of::Within(south_west, north_east) => {
                let top_left = at((north_east.0, south_west.1));
                return Test::Geo(Area::Box { top_left, bottom_right: at((south_west.0, north_east.1)) });
            }
        })
    }

    fn holds(&self, value: &Value) -> bool {
        let words = |text: &str| -> Vec<String> {
            let spaced: String = text.chars().map(|it| if it.is_alphanumeric() { it } else { ' ' }).collect();
            spaced.to_lowercase().split_whitespace().map(str::to_owned).collect()
        };
        let text = value.as_str();
        match self {
            Of::Is(own) => own == value,
            Of::In(own) => own.contains(value),
            Of::NotIn(own) => !value.is_null() && !own.contains(value),
            Of::AllWords(own) => text.is_some_and(|text| {
                !words(own).is_empty() && words(own).iter().all(|word| words(text).contains(word))
            }),
            Of::AnyWord(own) => {
                text.is_some_and(|text| words(own).iter().any(|word| words(text).contains(word)))
            }
            Of::Phrase(own) => text.is_some_and(|text| {
                let joined = |text| format!(" {} ", words(text).join(" "));
                !words(own).is_empty() && joined(text).contains(&joined(own))
            }),
            Of::Prefix(own) => text.is_some_and(|text| text.starts_with(own)),
            Of::Substring(own) => text.is_some_and(|text| text.contains(own)),
            Of::Between(least, end) => value.as_f64().is_some_and(|number| *least <= number && number < *end),
            Of::Times(after, last) => {
                let found = text.and_then(moment);
                found.is_some_and(|found| Some(found) > moment(after) && Some(found) <= moment(last))
            }
            Of::Within((south, west), (north, east)) => {
                let degrees = |name: &str| value.get(name).and_then(Value::as_f64);
                let is_in = |lat, lon| *south < lat && lat < *north && *west < lon && lon < *east;
                degrees("lat").zip(degrees("lon")).is_some_and(|(lat, lon)| is_in(lat, lon))
            }
        }
    }
}

/// What a path leads to, step by step.
fn follow(payload: &Value, path: &str) -> Vec<Value> {
    let mut found = vec![payload.clone()];
    for step in path.replace("[]", ".[]").split('.') {
        let next = found.into_iter().flat_map(|value| match step {
            "[]" => value.as_array().cloned().unwrap_or_default(),
            key => value.get(key).cloned().into_iter().collect(),
        });
        found = next.collect();
    }
    found
}

fn entries(values: Vec<Value>) -> Vec<Value> {
    let entries = values.into_iter().flat_map(|value| match value {
        Value::Array(entries) => entries,
        other => vec![other],
    });
    entries.collect()
}

/// Points with random payloads, some of them written twice and some deleted, and what they have.
fn bed(random: &mut Random) -> (Bed, BTreeMap<u64, Value>) {
    let bed = Bed::new(Metric::Dot, 2, &[1.0, 0.0], &[0.0, 1.0], false);
    let mut payloads = BTreeMap::new();
    for first in [0, 200, 100, 50] {
        let ids = first..first + 100;
        let inputs: Vec<PointInput> = ids
            .map(|id| {
                let payload = random.payload();
                payloads.insert(id, payload.clone());
                let payload = Some(Payload::parse(&payload.to_string()).expect("an object"));
                PointInput {
                    id: id.into(),
                    vector: vec![1.0, 1.0].into(),
                    named: Vec::new(),
                    payload,
                    text: None,
                }
            })
            .collect();
        bed.collection.upsert(&inputs).expect("valid");
    }
    let gone: Vec<u64> = (0..POINTS).step_by(17).collect();
    let ids: Vec<PointId> = gone.iter().map(|&id| PointId::Number(id)).collect();
    bed.collection.delete(&ids).expect("they are there");
    payloads.retain(|id, _| !gone.contains(id));
    (bed, payloads)
}

fn ids(snapshot: &Snapshot, rows: &[u32]) -> Vec<u64> {
    let id = |point: dehub_index::Point| match point.id {
        PointId::Number(id) => id,
        PointId::Text(text) => panic!("{text} is no number"),
    };
    snapshot.points(rows).expect("points").into_iter().map(id).collect()
}

/// With no index, and with one of a random kind on most fields.
fn with_and_without_indexes(
    seeds: std::ops::Range<u64>,
    check: impl Fn(&Snapshot, &BTreeMap<u64, Value>, &mut Random),
) {
    for seed in seeds {
        let mut random = Random(seed);
        let (bed, payloads) = bed(&mut random);
        check(&bed.collection.snapshot(), &payloads, &mut Random(seed));
        for _ in 0..3 {
            for field in PATHS {
                let kind = random.pick(&FieldKind::ALL);
                if random.below(5) > 0 {
                    bed.collection.index_payload(&path(field), kind).expect("indexed");
                }
            }
            check(&bed.collection.snapshot(), &payloads, &mut Random(seed));
        }
    }
}

#[test]
fn a_filter_allows_the_points_it_is_true_of() {
    with_and_without_indexes(0..6, |snapshot, payloads, random| {
        for _ in 0..150 {
            let said = random.said(3, &PATHS);
            let wanted: Vec<u64> = payloads
                .iter()
                .filter(|&(&id, payload)| said.holds(Some(id), payload))
                .map(|(&id, _)| id)
                .collect();
            let scope = said.filter().within(snapshot, &snapshot.scope()).expect("read");
            let mut found = ids(snapshot, &scope.rows().collect::<Vec<_>>());
            found.sort_unstable();
            assert_eq!(found, wanted, "{said:?}");
        }
    });
}

#[test]
fn pages_go_over_the_points_of_a_filter_in_the_order_of_ids() {
    with_and_without_indexes(10..13, |snapshot, payloads, random| {
        for _ in 0..10 {
            let (said, limit) = (random.said(2, &PATHS), 1 + random.below(40));
            let filter = said.filter();
            let (mut found, mut next) = (Vec::new(), None);
            loop {
                let page = page(snapshot, &snapshot.scope(), &filter, next.as_ref(), limit).expect("read");
                assert!(page.rows.len() == limit || page.next.is_none(), "only the last page is short");
                found.extend(ids(snapshot, &page.rows));
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
            let wanted = payloads.iter().filter(|&(&id, payload)| said.holds(Some(id), payload));
            assert_eq!(found, wanted.map(|(&id, _)| id).collect::<Vec<_>>(), "{said:?}");
        }
    });
}

#[test]
fn facets_count_the_points_of_each_value() {
    with_and_without_indexes(20..24, |snapshot, payloads, random| {
        for field in PATHS {
            let said = random.said(1, &PATHS);
            let mut counts: BTreeMap<Exact, usize> = BTreeMap::new();
            for (_, payload) in payloads.iter().filter(|&(&id, payload)| said.holds(Some(id), payload)) {
                let values = entries(follow(payload, field)).into_iter();
                let kept = values.filter(|it| it.is_boolean() || it.is_string() || it.is_i64());
                let values: BTreeSet<Exact> = kept.map(|value| exact(&value)).collect();
                values.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
            }
            let mut wanted: Vec<(Exact, usize)> = counts.into_iter().collect();
            wanted.sort_by_key(|(value, count)| (Reverse(*count), value.clone()));
            wanted.truncate(4);
            let scope = said.filter().within(snapshot, &snapshot.scope()).expect("read");
            let found = facets(snapshot, &scope, &path(field), 4).expect("read");
            let found: Vec<(Exact, usize)> = found.into_iter().map(|it| (it.value, it.count)).collect();
            assert_eq!(found, wanted, "{field} {said:?}");
        }
    });
}

#[test]
fn points_are_ordered_by_their_numbers_and_moments() {
    with_and_without_indexes(30..34, |snapshot, payloads, random| {
        for field in PATHS {
            let descending = random.below(2) == 0;
            let start = random.pick(&[None, Some(0.0), Some(0.75), Some(1.0)]);
            let mut wanted: Vec<(f64, u64)> = Vec::new();
            for (&id, payload) in payloads {
                for value in entries(follow(payload, field)) {
                    #[expect(clippy::cast_precision_loss, reason = "moments of 2024 are whole seconds")]
                    let number =
                        value.as_f64().or_else(|| value.as_str().and_then(moment).map(|it| it as f64));
                    let Some(number) = number else { continue };
                    let is_before = |start: f64| if descending { number > start } else { number < start };
                    if !start.is_some_and(is_before) && !wanted.contains(&(number, id)) {
                        wanted.push((number, id));
                    }
                }
            }
            wanted.sort_by(|a, b| {
                let by_number = a.0.total_cmp(&b.0);
                (if descending { by_number.reverse() } else { by_number }).then(a.1.cmp(&b.1))
            });
            wanted.truncate(25);
            let order = OrderBy { key: path(field), descending, start_from: start.map(OrderValue::Float) };
            let found = ordered(snapshot, &snapshot.scope(), &order, 25).expect("read");
            let rows: Vec<u32> = found.iter().map(|&(row, _)| row).collect();
            let numbers = found.iter().map(|&(_, value)| match value {
                #[expect(clippy::cast_precision_loss, reason = "moments of 2024 are whole seconds")]
                OrderValue::Integer(number) => number as f64,
                OrderValue::Float(number) => number,
            });
            let found: Vec<(f64, u64)> = numbers.zip(ids(snapshot, &rows)).collect();
            assert_eq!(found, wanted, "{order:?}");
        }
    });
}

#[test]
fn a_filter_that_is_not_evaluated_in_time_is_refused() {
    let (bed, _) = bed(&mut Random(40));
    let snapshot = bed.collection.snapshot();
    let late = Deadline::after(Instant::now(), Duration::ZERO);
    let scope = snapshot.scope().until(Some(late));
    let filter = Said::Empty("a").filter();
    let is_late = |error: QueryError| matches!(error, QueryError::TimeUp(_));
    assert!(filter.within(&snapshot, &scope).is_err_and(is_late));
    assert!(page(&snapshot, &scope, &filter, None, 5).is_err_and(is_late));
    assert!(facets(&snapshot, &scope, &path("a"), 5).is_err_and(is_late));
    let order = OrderBy { key: path("a"), descending: false, start_from: None };
    assert!(ordered(&snapshot, &scope, &order, 5).is_err_and(is_late));
}
