//! What was found: the table of all rankings, and bars of shares of queries.

use maud::{Markup, html};

use super::axis::Axis;
use super::chosen::{main_measure, ordered};
use super::look::Look;
use super::plot::{Bar, Bars};
use crate::commands::eval::schema::{Direction, Interval, Row};
use crate::commands::eval::{format_value, is_rank};

/// Bars of a figure.
const BARS: usize = 10;

/// Characters of a name above a bar.
const NAME_CHARS: usize = 34;

/// How a ranking compares with raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Better,
    Worse,
    /// The interval of the gain holds 0.
    Unclear,
}

impl Change {
    fn of(measure: &str, interval: &Interval) -> Change {
        let (low, high) = (interval.gain_low, interval.gain_high);
        match (low > 0.0, high < 0.0, is_rank(measure)) {
            (true, _, false) | (_, true, true) => Change::Better,
            (true, _, true) | (_, true, false) => Change::Worse,
            (false, false, _) => Change::Unclear,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Change::Better => " ▲",
            Change::Worse => " ▼",
            Change::Unclear => "",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Change::Better => "better",
            Change::Worse => "worse",
            Change::Unclear => "unclear",
        }
    }
}

/// What signs and intervals mean.
pub(super) fn legend(rounds: u32) -> String {
    format!(
        "In brackets: 95 % intervals over {rounds} resamplings of the queries. Below: the difference from raw and its \
         interval over the same resamplings. ▲ better and ▼ worse than raw: the interval of the difference is on \
         one side of 0."
    )
}

/// All rankings and all measures.
pub(super) fn table(direction: &Direction) -> Markup {
    let raw = direction.rows.first();
    let relevance: Vec<&str> = names(direction, |row, name| row.intervals.get(name).is_some());
    let others: Vec<&str> = names(direction, |row, name| row.intervals.get(name).is_none());
    html! {
        div.scroll tabindex="0" role="region" aria-label="All rankings and measures" {
            table.rankings {
                thead {
                    tr {
                        th { "ranking" }
                        @for name in &relevance { th.number { (name) @if is_rank(name) { " ↓" } @else { " ↑" } } }
                        @for name in &others { th.number { (name) } }
                    }
                }
                tbody {
                    @for row in &direction.rows {
                        tr {
                            th scope="row" {
                                (breakable(&row.method))
                                @if let Some(correction) = &row.correction { small { (correction) } }
                            }
                            @for name in &relevance { (cell(raw, row, name)) }
                            @for name in &others { td.number { (value(row, name)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The names of the measures of all rows that `is_one` is true of.
fn names(direction: &Direction, is_one: impl Fn(&Row, &str) -> bool) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in &direction.rows {
        for (name, _) in &row.measures.0 {
            if is_one(row, name) && !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    names
}

fn value(row: &Row, name: &str) -> String {
    row.measures.get(name).map_or("–".to_owned(), |&value| format_value(name, value))
}

/// A measure of relevance with its intervals.
fn cell(raw: Option<&Row>, row: &Row, name: &str) -> Markup {
    let Some(interval) = row.intervals.get(name) else { return html! { td.number { (value(row, name)) } } };
    let is_raw = raw.is_some_and(|raw| std::ptr::eq(raw, row));
    let gain = raw.and_then(|raw| Some(row.measures.get(name)? - raw.measures.get(name)?));
    let change = Change::of(name, interval);
    let format = |value| format_value(name, value);
    let signed = |value: f64| {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{}", format(value)).replace('-', "−")
    };
    html! {
        td.number {
            (value(row, name)) " " small { "[" (format(interval.low)) ", " (format(interval.high)) "]" }
            @if let (false, Some(gain)) = (is_raw, gain) {
                small.gain.(change.class()) {
                    (signed(gain)) " [" (signed(interval.gain_low)) ", " (signed(interval.gain_high)) "]"
                    (change.sign())
                }
            }
        }
    }
}

/// Bars for each measure that is a share of queries at a depth, or else for the first measure.
pub(super) fn figures(direction: &Direction) -> anyhow::Result<Vec<Markup>> {
    let mut measures =
        names(direction, |row, name| name.starts_with("R@") && row.intervals.get(name).is_some());
    if measures.is_empty() {
        measures.extend(main_measure(direction));
    }
    measures
        .into_iter()
        .filter(|_| direction.rows.len() > 1)
        .map(|measure| figure(direction, measure))
        .collect()
}

fn figure(direction: &Direction, measure: &str) -> anyhow::Result<Markup> {
    let raw = &direction.rows[0];
    let others = ordered(direction, measure).into_iter().filter(|row| !std::ptr::eq(*row, raw));
    let rows: Vec<&Row> = std::iter::once(raw).chain(others.take(BARS - 1)).collect();
    let bar = |row: &&Row| {
        let &value = row.measures.get(measure)?;
        let interval = row.intervals.get(measure);
        let is_raw = std::ptr::eq(*row, raw);
        let sign = if is_raw { "" } else { interval.map_or("", |it| Change::of(measure, it).sign()) };
        Some(Bar {
            name: shortened(&row.method),
            value,
            text: format!("{}{sign}", format_value(measure, value)),
            look: if is_raw { Look::raw() } else { Look::of(1) },
            interval: interval.map(|it| (it.low, it.high)),
        })
    };
    let bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
    let highest =
        bars.iter().flat_map(|bar| [bar.value, bar.interval.map_or(0.0, |it| it.1)]).fold(0.0, f64::max);
    let left_out = direction.rows.len() - rows.len();
    let note = if left_out > 0 {
        format!("Raw and the best {} of {}.", rows.len() - 1, direction.rows.len() - 1)
    } else {
        String::new()
    };
    Bars {
        title: format!("{measure} with 95 % intervals"),
        axis: Axis::between(measure, 0.0, if highest > 0.0 { 1.04 * highest } else { 1.0 }),
        bars,
        reference: raw.measures.get(measure).copied(),
    }
    .figure(&note)
}

/// A name with places after which a line may end.
fn breakable(name: &str) -> Markup {
    html! { @for part in name.split_inclusive([',', ' ']) { (part) wbr; } }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS {
        return name.to_owned();
    }
    name.chars().take(NAME_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_only_when_the_interval_of_the_gain_is_on_one_side_of_zero() {
        let cases = [
            ("R@1", 0.01, 0.05, Change::Better),
            ("R@1", -0.05, -0.01, Change::Worse),
            ("R@1", 0.0, 0.05, Change::Unclear),
            ("R@1", -0.05, 0.05, Change::Unclear),
            ("MdR", -3.0, -1.0, Change::Better),
            ("MdR", 1.0, 3.0, Change::Worse),
        ];
        for (measure, gain_low, gain_high, wanted) in cases {
            let interval = Interval { low: 0.0, high: 1.0, gain_low, gain_high };
            assert_eq!(Change::of(measure, &interval), wanted, "{measure} {gain_low} {gain_high}");
        }
    }

    #[test]
    fn long_names_are_cut_by_characters() {
        assert_eq!(shortened("NNN(alpha=0.75,k=16)"), "NNN(alpha=0.75,k=16)");
        let cut = shortened(&"ä".repeat(50));
        assert_eq!((cut.chars().count(), cut.ends_with("ä…")), (NAME_CHARS, true));
    }
}
