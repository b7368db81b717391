//! What postings tell of a test: which values pass it.

use std::cmp::Ordering;
use std::ops::Range;

use dehub_index::{FieldKind, FieldValue, Postings, RowSet};

use super::test::{Bounds, Exact, Match, OneOf, Test, Words};

/// Runs of [`Postings::values`].
type Ranges = Vec<Range<usize>>;

/// Rows by their values.
pub(super) struct Found {
    /// A row that passes is in the rows of each.
    all: Vec<Ranges>,
    /// Whether a row that is in the rows of each passes. If not, its values tell.
    pub(super) is_exact: bool,
}

impl Found {
    fn any(ranges: Ranges) -> Found {
        Found { all: vec![ranges], is_exact: true }
    }

    /// How many rows there may be.
    pub(super) fn most(&self, postings: Postings<'_>) -> usize {
        let sizes = self.all.iter().map(|ranges| size(postings, ranges));
        sizes.min().unwrap_or(0)
    }

    /// How many rows there are at least; those that changed are to be taken off.
    pub(super) fn least(&self, postings: Postings<'_>) -> usize {
        match &self.all[..] {
            [ranges] if self.is_exact && !postings.has_lists() => size(postings, ranges),
            _ => 0,
        }
    }

    /// How many numbers of rows are read to find them.
    pub(super) fn cost(&self, postings: Postings<'_>) -> usize {
        self.all.iter().map(|ranges| size(postings, ranges)).sum()
    }

    pub(super) fn rows(&self, postings: Postings<'_>) -> RowSet {
        let mut sets = self.all.iter().map(|ranges| postings.rows(ranges));
        let mut rows = sets.next().unwrap_or_default();
        sets.for_each(|set| rows.keep(&set));
        rows
    }
}

fn size(postings: Postings<'_>, ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(|range| postings.count(range)).sum()
}

impl Test {
    /// Which rows pass, if postings of a column of this kind tell without looking at more than so many values.
    pub(super) fn look_up(&self, kind: FieldKind, postings: Postings<'_>, most: usize) -> Option<Found> {
        let values = postings.values();
        match self {
            Test::Match(own) if kind == FieldKind::Text => own.look_up_words(values, postings.has_lists()),
            Test::Match(Match::Value(value)) => Some(Found::any(vec![equal(values, &value.kept())])),
            Test::Match(Match::Any(some)) => Some(Found::any(some.ranges(values))),
            Test::Match(Match::Except(some)) => Some(Found::any(gaps(some.ranges(values), values.len()))),
            Test::Match(Match::Prefix(start)) => Some(Found::any(vec![prefixed(values, start)])),
            Test::Range(bounds) if kind != FieldKind::Text => Some(Found::any(numbers(values, bounds))),
            Test::Moments(bounds) if kind == FieldKind::Datetime => {
                let moments = run(values, |value| match value {
                    FieldValue::Moment(moment) => bounds.place(moment),
                    FieldValue::Geo(_) => Ordering::Greater,
                    FieldValue::Bool(_)
                    | FieldValue::Integer(_)
                    | FieldValue::Float(_)
                    | FieldValue::Text(_) => Ordering::Less,
                });
                Some(Found::any(vec![moments]))
            }
            Test::Range(_) | Test::Moments(_) | Test::Geo(_) if kind == FieldKind::Text => None,
            Test::Match(_) | Test::Range(_) | Test::Moments(_) | Test::Geo(_) => {
                (values.len() <= most).then(|| Found::any(self.passing(values)))
            }
        }
    }

    /// Each value that passes.
    fn passing(&self, values: &[FieldValue]) -> Ranges {
        let passing = values.iter().enumerate().filter(|(_, value)| self.takes(value.scalar()));
        passing.map(|(place, _)| place..place + 1).collect()
    }
}

impl Match {
    /// The same where the values are the words of texts, of which a row may have several.
    fn look_up_words(&self, values: &[FieldValue], has_lists: bool) -> Option<Found> {
        let each = |Words(words): &Words, is_exact: bool| {
            let all = words.iter().map(|word| vec![word_run(values, word)]).collect();
            // No text has all of no words.
            if words.is_empty() { Found::any(Vec::new()) } else { Found { all, is_exact } }
        };
        match self {
            Match::Text(words) => Some(each(words, words.0.len() == 1 || !has_lists)),
            Match::Phrase(words) => Some(each(words, words.0.len() == 1)),
            Match::AnyWord(Words(words)) => {
                Some(Found::any(words.iter().map(|word| word_run(values, word)).collect()))
            }
            Match::Value(Exact::Text(text)) => {
                Some(Words::of(text)).filter(|words| !words.0.is_empty()).map(|words| each(&words, false))
            }
            Match::Value(Exact::Bool(_) | Exact::Integer(_))
            | Match::Any(_)
            | Match::Except(_)
            | Match::Prefix(_)
            | Match::Substring(_) => None,
        }
    }
}

impl Exact {
    fn kept(&self) -> FieldValue {
        match self {
            Exact::Bool(flag) => FieldValue::Bool(*flag),
            Exact::Integer(number) => FieldValue::Integer(*number),
            Exact::Text(text) => FieldValue::Text(text.clone()),
        }
    }
}

impl OneOf {
    /// The runs of its values that there are, ascending.
    fn ranges(&self, values: &[FieldValue]) -> Ranges {
        let bools = self.bools.iter().map(|&flag| FieldValue::Bool(flag));
        let integers = self.integers.iter().map(|&number| FieldValue::Integer(number));
        let texts = self.texts.iter().map(|text| FieldValue::Text(text.clone()));
        let runs = bools.chain(integers).chain(texts).map(|value| equal(values, &value));
        let mut runs: Ranges = runs.filter(|run| !run.is_empty()).collect();
        runs.sort_unstable_by_key(|run| run.start);
        runs
    }
}

impl<T: PartialOrd> Bounds<T> {
    /// Whether a value is below the bounds, within, or above.
    fn place(&self, value: &T) -> Ordering {
        let from = Bounds { gt: self.gt.as_ref(), gte: self.gte.as_ref(), lt: None, lte: None };
        let to = Bounds { gt: None, gte: None, lt: self.lt.as_ref(), lte: self.lte.as_ref() };
        if !from.contains(&value) {
            Ordering::Less
        } else if to.contains(&value) {
            Ordering::Equal
        } else {
            Ordering::Greater
        }
    }
}

/// The values that lie where `place` says so, which is nowhere above those beyond.
fn run(values: &[FieldValue], place: impl Fn(&FieldValue) -> Ordering) -> Range<usize> {
    let start = values.partition_point(|value| place(value) == Ordering::Less);
    start..start + values[start..].partition_point(|value| place(value) == Ordering::Equal)
}

fn equal(values: &[FieldValue], wanted: &FieldValue) -> Range<usize> {
    run(values, |value| value.order(wanted))
}

fn word_run(words: &[FieldValue], word: &str) -> Range<usize> {
    equal(words, &FieldValue::Text(word.into()))
}

fn prefixed(values: &[FieldValue], start: &str) -> Range<usize> {
    let first = FieldValue::Text(start.into());
    run(values, |value| {
        let begins = matches!(value, FieldValue::Text(text) if text.starts_with(start));
        if begins { Ordering::Equal } else { value.order(&first) }
    })
}

/// Whole numbers and others within bounds, compared as tests do.
#[expect(clippy::cast_precision_loss, reason = "numbers are compared in 64 bits, as Qdrant does")]
fn numbers(values: &[FieldValue], bounds: &Bounds<f64>) -> Ranges {
    let whole = run(values, |value| match value {
        FieldValue::Bool(_) => Ordering::Less,
        FieldValue::Integer(number) => bounds.place(&(*number as f64)),
        FieldValue::Float(_) | FieldValue::Text(_) | FieldValue::Moment(_) | FieldValue::Geo(_) => {
            Ordering::Greater
        }
    });
    let others = run(values, |value| match value {
        FieldValue::Bool(_) | FieldValue::Integer(_) => Ordering::Less,
        FieldValue::Float(number) => bounds.place(number),
        FieldValue::Text(_) | FieldValue::Moment(_) | FieldValue::Geo(_) => Ordering::Greater,
    });
    vec![whole, others]
}

/// What is in none of some ascending runs.
fn gaps(runs: Ranges, end: usize) -> Ranges {
    let mut next = 0;
    let mut gaps = Vec::with_capacity(runs.len() + 1);
    for run in runs.into_iter().chain(std::iter::once(end..end)) {
        gaps.push(next..run.start);
        next = run.end;
    }
    gaps
}
