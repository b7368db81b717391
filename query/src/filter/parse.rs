//! The readable form of a filter: `lang = "en" AND year >= 2020`. `docs/filters.md` has the grammar.

use std::fmt;
use std::str::FromStr;

use dehub_index::{GeoPoint, PayloadPath, moment};
use dehub_vector::PointId;

use super::{Area, Bounds, Condition, Exact, Filter, Match, MinShould, Slice, Test, Words};

/// The longest text, in bytes.
const BYTES_MAX: usize = 64 * 1024;

/// How deep conditions may be within each other.
const DEPTH_MAX: usize = 64;

/// Text that is no filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterTextError {
    /// What was given.
    pub text: String,
    /// Where it is wrong, in characters from 0.
    pub column: usize,
    /// What was wanted there.
    pub wanted: &'static str,
}

impl fmt::Display for FilterTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const AROUND: usize = 60;
        let FilterTextError { text, column, wanted } = self;
        let found: String = text.chars().skip(*column).take(20).collect();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("{found:?}") };
        writeln!(f, "at column {} of the filter: wanted {wanted}, found {found}", column + 1)?;
        let first = column.saturating_sub(AROUND);
        let shown: String = text.chars().skip(first).take(2 * AROUND).collect();
        writeln!(f, "  {}", shown.replace(char::is_control, " "))?;
        write!(f, "  {}^", " ".repeat(column - first))
    }
}

impl std::error::Error for FilterTextError {}

impl FromStr for Filter {
    type Err = FilterTextError;

    fn from_str(text: &str) -> Result<Filter, FilterTextError> {
        let mut parser = Parser { text, place: 0, depth: 0 };
        if text.len() > BYTES_MAX {
            return Err(parser.error("a text of at most 65,536 bytes"));
        }
        let filter = parser.any_of()?;
        parser.blanks();
        if parser.rest().is_empty() { Ok(filter) } else { Err(parser.error("AND, OR or the end")) }
    }
}

type Parsed<T> = Result<T, FilterTextError>;

/// A value that a field is compared with.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Bool(bool),
    /// As wide as ids and values together.
    Integer(i128),
    Float(f64),
    Text(String),
}

struct Parser<'a> {
    text: &'a str,
    /// In bytes.
    place: usize,
    depth: usize,
}

const VALUE: &str = "a value: a number, true, false or a text in quotes";
const AFTER_PATH: &str = "a test: =, !=, <, <=, >, >=, IN, NOT IN, EXCEPT, BETWEEN, WITHIN, IS, MATCH, STARTS WITH or \
                          CONTAINS";
const BOUND: &str = "a number, or a moment in quotes such as \"2024-06-15T12:00Z\"";

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.place..]
    }

    fn error_at(&self, place: usize, wanted: &'static str) -> FilterTextError {
        let column = self.text[..place].chars().count();
        FilterTextError { text: self.text.to_owned(), column, wanted }
    }

    fn error(&mut self, wanted: &'static str) -> FilterTextError {
        self.blanks();
        self.error_at(self.place, wanted)
    }

    fn blanks(&mut self) {
        self.place += self.rest().len() - self.rest().trim_start().len();
    }

    /// Takes a sign, if it comes next.
    fn sign(&mut self, sign: &str) -> bool {
        self.blanks();
        let is_next = self.rest().starts_with(sign);
        self.place += if is_next { sign.len() } else { 0 };
        is_next
    }

    fn want_sign(&mut self, sign: &str, wanted: &'static str) -> Parsed<()> {
        if self.sign(sign) { Ok(()) } else { Err(self.error(wanted)) }
    }

    /// Takes words in any case, if they come next, each whole.
    fn words(&mut self, words: &str) -> bool {
        let start = self.place;
        for word in words.split(' ') {
            self.blanks();
            let next = self.rest().get(..word.len());
            let is_whole = !self.rest().get(word.len()..).unwrap_or_default().starts_with(is_of_a_word);
            if !next.is_some_and(|next| next.eq_ignore_ascii_case(word)) || !is_whole {
                self.place = start;
                return false;
            }
            self.place += word.len();
        }
        true
    }

    /// Takes a name with the parenthesis after it.
    fn function(&mut self, name: &str) -> bool {
        let start = self.place;
        let is_next = self.words(name) && self.sign("(");
        if !is_next {
            self.place = start;
        }
        is_next
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.error("conditions at most 64 deep"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Conditions joined by OR.
    fn any_of(&mut self) -> Parsed<Filter> {
        let first = self.all_of()?;
        let mut alternatives = Vec::new();
        while self.words("OR") {
            alternatives.push(condition_of(self.all_of()?));
        }
        if alternatives.is_empty() {
            return Ok(first);
        }
        alternatives.insert(0, condition_of(first));
        Ok(Filter { should: alternatives, ..Filter::default() })
    }

    /// Conditions joined by AND.
    fn all_of(&mut self) -> Parsed<Filter> {
        let mut must = vec![self.one()?];
        while self.words("AND") {
            must.push(self.one()?);
        }
        Ok(Filter { must, ..Filter::default() })
    }

    fn one(&mut self) -> Parsed<Condition> {
        if self.words("NOT") {
            return Ok(Condition::Not(Box::new(self.deeper(Self::one)?)));
        }
        if self.sign("(") {
            return self.in_parentheses();
        }
        self.predicate()
    }

    /// What is left of conditions within parentheses.
    fn in_parentheses(&mut self) -> Parsed<Condition> {
        let filter = self.deeper(Self::any_of)?;
        self.want_sign(")", "AND, OR or )")?;
        Ok(condition_of(filter))
    }

    fn predicate(&mut self) -> Parsed<Condition> {
        if self.function("COUNT") {
            let key = self.path()?;
            self.want_sign(")", ")")?;
            return Ok(Condition::Count { key, bounds: self.count_bounds()? });
        }
        if self.function("ANY") {
            let key = self.path()?;
            self.want_sign(":", ": and a condition on the objects there")?;
            let filter = Box::new(self.deeper(Self::any_of)?);
            self.want_sign(")", "AND, OR or )")?;
            return Ok(Condition::Nested { key, filter });
        }
        if self.function("EXISTS") {
            let key = self.path()?;
            self.want_sign(")", ")")?;
            return Ok(Condition::Not(Box::new(Condition::IsEmpty(key))));
        }
        for (name, area) in [
            ("RADIUS", Self::circle as fn(&mut Self) -> Parsed<Area>),
            ("BOX", Self::between_corners),
            ("POLYGON", Self::polygon),
        ] {
            if self.function(name) {
                let key = self.path()?;
                self.comma()?;
                let test = Test::Geo(area(self)?);
                self.want_sign(")", ")")?;
                return Ok(Condition::Field { key, test });
            }
        }
        if self.function("SLICE") {
            let index = self.whole("the number of a slice, from 0")?;
            self.comma()?;
            let total = self.whole("how many slices there are")?;
            if index >= total {
                return Err(self.error("more slices than the number of this one"));
            }
            self.want_sign(")", ")")?;
            return Ok(Condition::Slice(Slice { total, index }));
        }
        if self.words("HAS VECTOR") {
            return Ok(Condition::HasVector(self.quoted("the name of a vector in quotes")?.into()));
        }
        if self.words("AT LEAST") {
            return self.at_least();
        }
        if let Some(ids) = self.ids()? {
            return Ok(ids);
        }
        let start = self.place;
        let key = self.path()?;
        let path = self.text[start..self.place].trim();
        if path.is_empty() {
            return Err(self.error("a condition"));
        }
        self.test(key)
    }

    /// `2 OF (a, b, c)`.
    fn at_least(&mut self) -> Parsed<Condition> {
        let least = self.whole("how many conditions are to hold")?;
        if !self.words("OF") {
            return Err(self.error("OF"));
        }
        self.want_sign("(", "(")?;
        let mut conditions = Vec::new();
        if !self.sign(")") {
            conditions.push(condition_of(self.deeper(Self::any_of)?));
            while self.sign(",") {
                conditions.push(condition_of(self.deeper(Self::any_of)?));
            }
            self.want_sign(")", "AND, OR, a comma or )")?;
        }
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        let min_should = Some(MinShould { conditions, least });
        Ok(Condition::Filter(Box::new(Filter { min_should, ..Filter::default() })))
    }

    /// A condition on the id, which is not a field.
    fn ids(&mut self) -> Parsed<Option<Condition>> {
        let start = self.place;
        if !self.words("ID") {
            return Ok(None);
        }
        let (is_in, is_not) = (self.words("IN"), self.words("NOT IN"));
        let ids = if is_in || is_not {
            self.list()?
        } else if self.sign("=") {
            vec![self.value()?]
        } else if self.sign("!=") {
            let ids = vec![self.value()?];
            return Ok(Some(Condition::Not(Box::new(self.has_id(ids)?))));
        } else {
            self.place = start;
            return Ok(None);
        };
        let ids = self.has_id(ids)?;
        Ok(Some(if is_not { Condition::Not(Box::new(ids)) } else { ids }))
    }

    fn has_id(&mut self, values: Vec<Value>) -> Parsed<Condition> {
        let id = |value: Value| match value {
            Value::Integer(number) => u64::try_from(number).ok().map(PointId::Number),
            Value::Text(text) => PointId::text(&text).ok(),
            Value::Bool(_) | Value::Float(_) => None,
        };
        let ids: Option<Vec<PointId>> = values.into_iter().map(id).collect();
        ids.map(Condition::HasId).ok_or_else(|| self.error("ids before this: whole numbers from 0, or texts"))
    }

    /// What comes after a path.
    fn test(&mut self, key: PayloadPath) -> Parsed<Condition> {
        if self.words("IS") {
            return self.is(key);
        }
        let is_not = self.words("NOT");
        let negated = |condition: Condition| {
            if is_not { Condition::Not(Box::new(condition)) } else { condition }
        };
        let matched = |test| Condition::Field { key: key.clone(), test: Test::Match(test) };
        if self.words("IN") {
            let values = self.exact_list()?;
            return Ok(negated(matched(Match::Any(values.into_iter().collect()))));
        }
        if self.words("MATCH") {
            let (any, phrase) = (self.words("ANY"), self.words("PHRASE"));
            let words = Words::of(&self.quoted("words in quotes")?);
            let test = match (any, phrase) {
                (true, _) => Match::AnyWord(words),
                (_, true) => Match::Phrase(words),
                (false, false) => Match::Text(words),
            };
            return Ok(negated(matched(test)));
        }
        if self.words("STARTS WITH") {
            return Ok(negated(matched(Match::Prefix(self.quoted("a text in quotes")?.into()))));
        }
        if self.words("CONTAINS") {
            return Ok(negated(matched(Match::Substring(self.quoted("a text in quotes")?.into()))));
        }
        if is_not {
            return Err(self.error("IN, MATCH, STARTS WITH or CONTAINS"));
        }
        if self.words("EXCEPT") {
            let values = self.exact_list()?;
            return Ok(matched(Match::Except(values.into_iter().collect())));
        }
        let test = self.comparison()?;
        match test {
            (false, test) => Ok(Condition::Field { key, test }),
            (true, test) => Ok(Condition::Not(Box::new(Condition::Field { key, test }))),
        }
    }

    /// `IS [NOT] NULL` and `IS [NOT] EMPTY`.
    fn is(&mut self, key: PayloadPath) -> Parsed<Condition> {
        let is_not = self.words("NOT");
        let condition = if self.words("NULL") {
            Condition::IsNull(key)
        } else if self.words("EMPTY") {
            Condition::IsEmpty(key)
        } else {
            return Err(self.error("NULL, EMPTY, NOT NULL or NOT EMPTY"));
        };
        Ok(if is_not { Condition::Not(Box::new(condition)) } else { condition })
    }

    /// A comparison by a sign or with bounds, and whether it is not to hold.
    fn comparison(&mut self) -> Parsed<(bool, Test)> {
        if self.words("BETWEEN") {
            let low = self.bound()?;
            if !self.words("AND") {
                return Err(self.error("AND and the upper bound"));
            }
            let high = self.bound()?;
            return Ok((false, self.bounded(Ends { low: Some((low, true)), high: Some((high, true)) })?));
        }
        if self.words("WITHIN") {
            let ends = self.interval(Self::bound)?;
            return Ok((false, self.bounded(ends)?));
        }
        let is_not = self.sign("!=") || self.sign("<>");
        for (sign, is_low, is_closed) in
            [("<=", false, true), (">=", true, true), ("<", false, false), (">", true, false)]
        {
            if !is_not && self.sign(sign) {
                let end = Some((self.bound()?, is_closed));
                let ends = if is_low { Ends { low: end, high: None } } else { Ends { low: None, high: end } };
                return Ok((false, self.bounded(ends)?));
            }
        }
        if !is_not && !self.sign("=") {
            return Err(self.error(AFTER_PATH));
        }
        // `==` is the same.
        _ = !is_not && self.sign("=");
        Ok((is_not, self.equal_to()?))
    }

    /// The test of being equal to a value. Numbers that payloads have as 64 bits with a fraction are a range of one.
    #[expect(clippy::cast_precision_loss, reason = "such numbers are compared in 64 bits, as Qdrant does")]
    fn equal_to(&mut self) -> Parsed<Test> {
        let only = |number| Test::Range(Bounds { gte: Some(number), lte: Some(number), ..Bounds::default() });
        let value = self.value()?;
        Ok(match exact(value.clone()) {
            Some(value) => Test::Match(Match::Value(value)),
            None => match value {
                Value::Float(number) => only(number),
                Value::Integer(number) => only(number as f64),
                Value::Bool(_) | Value::Text(_) => return Err(self.error(VALUE)),
            },
        })
    }

    /// `[low, high]`, with `(` or `)` where an end is not in it, and nothing where there is none.
    fn interval<T>(&mut self, mut end: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Ends<T>> {
        let low_closed = self.sign("[");
        if !low_closed {
            self.want_sign("(", "an interval: [low, high], with ( or ) where an end is not in it")?;
        }
        let low = if self.sign(",") {
            None
        } else {
            let low = end(self)?;
            self.comma()?;
            Some((low, low_closed))
        };
        let (mut high_closed, mut is_closed) = (self.sign("]"), false);
        let mut high = None;
        if !high_closed && !self.sign(")") {
            high = Some(end(self)?);
            high_closed = self.sign("]");
            is_closed = true;
            if !high_closed {
                self.want_sign(")", "] or )")?;
            }
        }
        if low.is_none() && high.is_none() {
            return Err(self.error("an interval with an end before this"));
        }
        let high = high.filter(|_| is_closed).map(|high| (high, high_closed));
        Ok(Ends { low, high })
    }

    /// The test of bounds that are all numbers or all moments.
    #[expect(clippy::cast_precision_loss, reason = "numbers are compared in 64 bits, as Qdrant does")]
    fn bounded(&mut self, ends: Ends<Value>) -> Parsed<Test> {
        let number = |value: &Value| match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Bool(_) | Value::Text(_) => None,
        };
        let when = |value: &Value| match value {
            Value::Text(text) => moment(text),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => None,
        };
        if let Some(bounds) = ends.read(number) {
            return Ok(Test::Range(bounds));
        }
        match ends.read(when) {
            Some(bounds) => Ok(Test::Moments(bounds)),
            None => Err(self.error("bounds of one kind before this, numbers or moments")),
        }
    }

    fn bound(&mut self) -> Parsed<Value> {
        self.blanks();
        let start = self.place;
        match self.value() {
            Ok(value @ (Value::Integer(_) | Value::Float(_))) => Ok(value),
            Ok(Value::Text(text)) if moment(&text).is_some() => Ok(Value::Text(text)),
            Ok(Value::Bool(_) | Value::Text(_)) | Err(_) => Err(self.error_at(start, BOUND)),
        }
    }

    fn count_bounds(&mut self) -> Parsed<Bounds<u64>> {
        const COUNT: &str = "how many: a whole number from 0";
        let none = Bounds::default();
        if self.words("BETWEEN") {
            let low = self.whole(COUNT)?;
            if !self.words("AND") {
                return Err(self.error("AND and the upper bound"));
            }
            return Ok(Bounds { gte: Some(low), lte: Some(self.whole(COUNT)?), ..none });
        }
        if self.words("WITHIN") {
            let ends = self.interval(|parser| parser.whole(COUNT))?;
            return Ok(ends.read(|&count| Some(count)).unwrap_or_default());
        }
        if self.sign("<=") {
            return Ok(Bounds { lte: Some(self.whole(COUNT)?), ..none });
        }
        if self.sign(">=") {
            return Ok(Bounds { gte: Some(self.whole(COUNT)?), ..none });
        }
        if self.sign("<") {
            return Ok(Bounds { lt: Some(self.whole(COUNT)?), ..none });
        }
        if self.sign(">") {
            return Ok(Bounds { gt: Some(self.whole(COUNT)?), ..none });
        }
        self.want_sign("=", "=, <, <=, >, >=, BETWEEN or WITHIN")?;
        let count = self.whole(COUNT)?;
        Ok(Bounds { gte: Some(count), lte: Some(count), ..none })
    }

    fn comma(&mut self) -> Parsed<()> {
        self.want_sign(",", "a comma")
    }

    fn geo_point(&mut self) -> Parsed<GeoPoint> {
        self.blanks();
        let start = self.place;
        let lat = self.number("a latitude in degrees")?;
        self.comma()?;
        let lon = self.number("a longitude in degrees")?;
        if !(-90.0..=90.0).contains(&lat) || !(-180.0..=180.0).contains(&lon) {
            return Err(self.error_at(start, "a latitude within 90 and a longitude within 180 degrees"));
        }
        Ok(GeoPoint { lat, lon })
    }

    /// A centre and a radius, in metres or with its unit.
    fn circle(&mut self) -> Parsed<Area> {
        const RADIUS: &str = "a radius from 0, in metres or with the unit m or km";
        let center = self.geo_point()?;
        self.comma()?;
        self.blanks();
        let start = self.place;
        let radius = self.number(RADIUS)?;
        let radius = if self.words("KM") { 1000.0 * radius } else { radius };
        _ = self.words("M");
        let is_length = radius >= 0.0 && radius.is_finite();
        if is_length { Ok(Area::Circle { center, radius }) } else { Err(self.error_at(start, RADIUS)) }
    }

    /// The north-western and the south-eastern corner of a box.
    fn between_corners(&mut self) -> Parsed<Area> {
        let top_left = self.geo_point()?;
        self.comma()?;
        Ok(Area::Box { top_left, bottom_right: self.geo_point()? })
    }

    /// A ring, and rings of holes in it.
    fn polygon(&mut self) -> Parsed<Area> {
        let exterior = self.ring()?;
        let mut interiors = Vec::new();
        while self.sign(",") {
            interiors.push(self.ring()?);
        }
        Ok(Area::Polygon { exterior, interiors })
    }

    /// `[(lat, lon), …]`: closed, so with its first place at its end.
    fn ring(&mut self) -> Parsed<Vec<GeoPoint>> {
        self.want_sign("[", "a ring in brackets: [(lat, lon), …]")?;
        let start = self.place - 1;
        let mut points = Vec::new();
        loop {
            self.want_sign("(", "a place: (lat, lon)")?;
            points.push(self.geo_point()?);
            self.want_sign(")", ")")?;
            if self.sign("]") {
                break;
            }
            self.want_sign(",", "a comma or ]")?;
        }
        let is_ring = points.len() >= 4 && points.first() == points.last();
        let wanted = "at least 4 places, the last of which is the first";
        if is_ring { Ok(points) } else { Err(self.error_at(start, wanted)) }
    }

    #[expect(clippy::cast_precision_loss, reason = "places and radii are of 64 bits")]
    fn number(&mut self, wanted: &'static str) -> Parsed<f64> {
        self.blanks();
        let start = self.place;
        match self.value() {
            Ok(Value::Integer(number)) => Ok(number as f64),
            Ok(Value::Float(number)) => Ok(number),
            Ok(Value::Bool(_) | Value::Text(_)) | Err(_) => Err(self.error_at(start, wanted)),
        }
    }

    fn whole(&mut self, wanted: &'static str) -> Parsed<u64> {
        self.blanks();
        let start = self.place;
        match self.value() {
            Ok(Value::Integer(number)) => u64::try_from(number).map_err(|_| self.error_at(start, wanted)),
            Ok(Value::Float(_) | Value::Bool(_) | Value::Text(_)) | Err(_) => {
                Err(self.error_at(start, wanted))
            }
        }
    }

    fn exact_list(&mut self) -> Parsed<Vec<Exact>> {
        let values = self.list()?;
        let values: Option<Vec<Exact>> = values.into_iter().map(exact).collect();
        values.ok_or_else(|| self.error("whole numbers, texts, true or false in the list before this"))
    }

    fn list(&mut self) -> Parsed<Vec<Value>> {
        self.want_sign("[", "a list in brackets")?;
        let mut values = Vec::new();
        if self.sign("]") {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            if self.sign("]") {
                return Ok(values);
            }
            self.want_sign(",", "a comma or ]")?;
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        const LEAST: i128 = i64::MIN as i128;
        const MOST: i128 = u64::MAX as i128;
        if self.words("TRUE") {
            return Ok(Value::Bool(true));
        }
        if self.words("FALSE") {
            return Ok(Value::Bool(false));
        }
        self.blanks();
        if self.rest().starts_with(['"', '\'']) {
            return self.quoted(VALUE).map(Value::Text);
        }
        let end = self.rest().find(|it: char| !it.is_ascii_digit() && !"+-.eE".contains(it));
        let word = &self.rest()[..end.unwrap_or(self.rest().len())];
        let is_number = word.starts_with(|it: char| it.is_ascii_digit() || it == '-' || it == '.');
        let integer = word.parse::<i128>().ok().filter(|number| (LEAST..=MOST).contains(number));
        let number = match integer {
            Some(number) => Some(Value::Integer(number)),
            None => word.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::Float),
        };
        let Some(number) = number.filter(|_| is_number) else { return Err(self.error(VALUE)) };
        self.place += word.len();
        Ok(number)
    }

    /// A text in single or double quotes; a backslash takes the next character as it is, but for `\n`, `\t` and `\r`.
    fn quoted(&mut self, wanted: &'static str) -> Parsed<String> {
        self.blanks();
        let start = self.place;
        let mut characters = self.rest().char_indices();
        let quote = characters.next().map(|(_, quote)| quote).filter(|quote| ['"', '\''].contains(quote));
        let Some(quote) = quote else { return Err(self.error(wanted)) };
        let mut text = String::new();
        while let Some((place, character)) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                _ if character == quote => {
                    self.place = start + place + quote.len_utf8();
                    return Ok(text);
                }
                _ => text.push(character),
            }
        }
        Err(self.error_at(start, "a quote that is closed"))
    }

    /// A path into payloads.
    fn path(&mut self) -> Parsed<PayloadPath> {
        const PATH: &str = "a condition: the path of a field, NOT, (, ID, COUNT, ANY, EXISTS, AT LEAST, HAS VECTOR, \
                            RADIUS, BOX, POLYGON or SLICE";
        self.blanks();
        let rest = self.rest();
        let mut is_quoted = false;
        let mut in_brackets = false;
        let end = rest.find(|it: char| {
            match it {
                '"' => is_quoted = !is_quoted,
                '[' if !is_quoted => in_brackets = true,
                ']' if !is_quoted => in_brackets = false,
                _ => {}
            }
            !is_quoted && !in_brackets && !is_of_a_word(it) && !"\".[]".contains(it)
        });
        let text = &rest[..end.unwrap_or(rest.len())];
        let path = text.parse().map_err(|_| self.error_at(self.place, PATH))?;
        self.place += text.len();
        Ok(path)
    }
}

/// The ends of an interval, and whether each is in it.
struct Ends<T> {
    low: Option<(T, bool)>,
    high: Option<(T, bool)>,
}

impl<T> Ends<T> {
    /// The bounds, if all ends can be read.
    fn read<U: Copy>(&self, read: impl Fn(&T) -> Option<U>) -> Option<Bounds<U>> {
        let mut bounds = Bounds { gt: None, gte: None, lt: None, lte: None };
        if let Some((low, is_closed)) = &self.low {
            *(if *is_closed { &mut bounds.gte } else { &mut bounds.gt }) = Some(read(low)?);
        }
        if let Some((high, is_closed)) = &self.high {
            *(if *is_closed { &mut bounds.lte } else { &mut bounds.lt }) = Some(read(high)?);
        }
        Some(bounds)
    }
}

/// A value that payloads have as such, so not a number with a fraction or beyond 64 bits with a sign.
fn exact(value: Value) -> Option<Exact> {
    match value {
        Value::Bool(flag) => Some(Exact::Bool(flag)),
        Value::Integer(number) => i64::try_from(number).ok().map(Exact::Integer),
        Value::Text(text) => Some(Exact::Text(text.into())),
        Value::Float(_) => None,
    }
}

/// A filter as one condition.
fn condition_of(mut filter: Filter) -> Condition {
    match filter.must.len() {
        1 if filter.should.is_empty() && filter.must_not.is_empty() && filter.min_should.is_none() => {
            filter.must.remove(0)
        }
        _ => Condition::Filter(Box::new(filter)),
    }
}

fn is_of_a_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '-'
}
