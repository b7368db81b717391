//! Filters in their readable form, as they print and as they are read again.

use dehub_index::{GeoPoint, PayloadPath};
use dehub_query::{Area, Bounds, Condition, Exact, Filter, Match, MinShould, OneOf, Slice, Test, Words};
use dehub_vector::PointId;

use super::random_filters::Dice;

fn read(text: &str) -> Filter {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_filter_prints_in_one_form() {
    for (text, printed) in [
        ("a=1 and b != 'x' or not c in [true,'z',2]", "(a = 1 AND b != \"x\") OR c NOT IN [true, 2, \"z\"]"),
        ("((a = 1))", "a = 1"),
        ("(a = 1 OR b = 2) AND c < 3.50", "(a = 1 OR b = 2) AND c < 3.5"),
        ("NOT NOT a != 1", "NOT NOT a != 1"),
        ("NOT (a = 1 AND b = 2)", "NOT (a = 1 AND b = 2)"),
        ("a = 2.5", "a BETWEEN 2.5 AND 2.5"),
        ("a WITHIN (1, 2]", "a WITHIN (1, 2]"),
        ("a > 1e300 AND b <= -7.0", "a > 1e300 AND b <= -7"),
        ("t >= '2024-06-15'", "t >= \"2024-06-15T00:00:00Z\""),
        ("t < '2024-06-15T13:30:00.25+01:30'", "t < \"2024-06-15T12:00:00.250Z\""),
        ("exists(a.b[])", "a.b[] IS NOT EMPTY"),
        ("count(a) between 1 and 2", "COUNT(a) BETWEEN 1 AND 2"),
        ("any(r: s > 3 and l = 'en')", "ANY(r: s > 3 AND l = \"en\")"),
        ("id in [1, 'a', 18446744073709551615]", "id IN [1, \"a\", 18446744073709551615]"),
        ("\"id\" = 1 AND \"NOT\".b = 1 AND ident = 1", "\"id\" = 1 AND \"NOT\".b = 1 AND ident = 1"),
        ("a = 'it''s'", ""),
        ("a = \"it's\\t\\\\\"", "a = \"it's\\t\\\\\""),
        ("a MATCH 'Two, WORDS'", "a MATCH \"two words\""),
        ("a match phrase 'İ x'", "a MATCH PHRASE \"İ x\""),
        ("radius(p, 1, -2.5, 3km)", "RADIUS(p, 1, -2.5, 3000)"),
        ("radius(p, 1, -2.5, 0.5 m)", "RADIUS(p, 1, -2.5, 0.5)"),
        ("box(p, 2, 1, 1, 2)", "BOX(p, 2, 1, 1, 2)"),
        ("polygon(p,[(0,0),(0,9),(9,9),(0,0)])", "POLYGON(p, [(0, 0), (0, 9), (9, 9), (0, 0)])"),
        ("has vector 'title'", "HAS VECTOR \"title\""),
        ("slice(1,4)", "SLICE(1, 4)"),
        ("at least 2 of (a = 1, b = 2 or c = 3)", "AT LEAST 2 OF (a = 1, (b = 2 OR c = 3))"),
        ("at least 0 of ()", "AT LEAST 0 OF ()"),
        ("a EXCEPT [3, 1]", "a EXCEPT [1, 3]"),
        ("NOT a STARTS WITH 'x' AND b CONTAINS 'y'", "NOT a STARTS WITH \"x\" AND b CONTAINS \"y\""),
    ] {
        match text.parse::<Filter>() {
            Ok(filter) => {
                assert_eq!(filter.to_string(), printed, "{text}");
                assert_eq!(read(printed), filter, "{text}");
            }
            Err(error) => assert!(printed.is_empty(), "{error}"),
        }
    }
}

#[test]
fn filters_that_no_text_gives_print_as_what_means_the_same() {
    let key: PayloadPath = "a".parse().expect("a path");
    let field = |test| Condition::Field { key: key.clone(), test };
    let none = Bounds::default();
    let range = |bounds| field(Test::Range(bounds));
    let moments = |bounds| field(Test::Moments(bounds));
    let filter = |filter| Condition::Filter(Box::new(filter));
    let years = 10_000_i64 * 31_556_952_000_000 - 62_167_219_200_000_000;
    for (condition, printed) in [
        (range(none), "a >= -1.7976931348623157e308"),
        (range(Bounds { gt: Some(1.0), gte: Some(1.0), lt: Some(3.0), lte: Some(2.0) }), "a WITHIN (1, 2]"),
        (range(Bounds { gt: Some(-1.0), gte: Some(0.0), ..none }), "a >= 0"),
        (moments(Bounds { gte: None, ..Bounds::default() }), "a >= \"0001-01-01T00:00:00+23:59\""),
        (moments(Bounds { lt: Some(years), ..Bounds::default() }), "a < \"9999-12-31T00:01:00-23:59\""),
        (
            Condition::Count { key: key.clone(), bounds: Bounds { lte: None, ..Bounds::default() } },
            "COUNT(a) >= 0",
        ),
        (filter(Filter::default()), "AT LEAST 0 OF ()"),
        (
            filter(Filter {
                min_should: Some(MinShould { conditions: Vec::new(), least: 1 }),
                ..Filter::default()
            }),
            "AT LEAST 1 OF ()",
        ),
        (
            filter(Filter {
                must: vec![Condition::IsNull(key.clone())],
                should: vec![Condition::Slice(Slice { total: 2, index: 1 })],
                must_not: vec![Condition::HasVector("".into()), Condition::HasId(vec![PointId::Number(1)])],
                min_should: None,
            }),
            "(a IS NULL AND (SLICE(1, 2)) AND NOT HAS VECTOR \"\" AND id NOT IN [1])",
        ),
        (field(Test::Match(Match::Any(OneOf::default()))), "a IN []"),
        (field(Test::Match(Match::Text(Words::of("")))), "a MATCH \"\""),
        (field(Test::Match(Match::Value(Exact::Integer(i64::MIN)))), "a = -9223372036854775808"),
        (
            field(Test::Geo(Area::Circle { center: GeoPoint { lat: 0.1, lon: -0.2 }, radius: 1e20 })),
            "RADIUS(a, 0.1, -0.2, 1e20)",
        ),
    ] {
        let filter = Filter { must: vec![condition], ..Filter::default() };
        assert_eq!(filter.to_string(), printed);
        // What is read from it prints as itself.
        let again = read(printed);
        assert_eq!(read(&again.to_string()), again, "{printed}");
    }
}

/// What texts are made of, with what is at the edges of being read.
const PARTS: [&str; 58] = [
    "a",
    "b[].c",
    "\"x y\"",
    "é",
    "id",
    "not",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "<>",
    "AND",
    "OR",
    "NOT",
    "IN",
    "EXCEPT",
    "BETWEEN",
    "WITHIN",
    "IS",
    "NULL",
    "EMPTY",
    "MATCH",
    "ANY",
    "PHRASE",
    "STARTS WITH",
    "CONTAINS",
    "COUNT(",
    "ANY(",
    "EXISTS(",
    "RADIUS(",
    "BOX(",
    "POLYGON(",
    "SLICE(",
    "HAS VECTOR",
    "AT LEAST",
    "OF",
    "(",
    ")",
    "[",
    "]",
    ",",
    ":",
    "0",
    "1",
    "-7",
    "2.5",
    "1e400",
    "18446744073709551616",
    "'t'",
    "\"u\\",
    "'2024-06-15'",
    "km",
    "true",
    "\u{3000}",
    "İ",
];

#[test]
fn no_text_is_read_with_a_panic_and_what_is_read_prints_as_itself() {
    let mut dice = Dice(5);
    let mut read = 0;
    for _ in 0..20_000 {
        // From the predicates that there are, with a part changed or added, or of parts alone.
        let start =
            dice.one(&["a = 1", "a IN [1, 't']", "ANY(a: b < 2)", "COUNT(a) > 1 AND NOT a IS NULL", ""]);
        let mut words: Vec<&str> = start.split(' ').collect();
        for _ in 0..=dice.below(4) {
            let (place, part) = (dice.below(words.len() + 1), dice.one(&PARTS));
            match dice.below(2) {
                0 if place < words.len() => words[place] = part,
                _ => words.insert(place, part),
            }
        }
        let text = words.join(dice.one(&[" ", " ", ""]));
        match text.parse::<Filter>() {
            Ok(filter) => {
                let printed = filter.to_string();
                assert_eq!(printed.parse().as_ref(), Ok(&filter), "{text}: {printed}");
                read += 1;
            }
            Err(error) => assert!(error.column <= text.chars().count() && error.to_string().ends_with('^')),
        }
    }
    assert!(read > 200, "only {read} were filters");
}
