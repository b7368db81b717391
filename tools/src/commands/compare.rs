//! Systems side by side: their measures, intervals, tests against the first, and bounds over ties.

use dehub_eval::{Comparison, Gaps, Interval, Measure, Ranks, Resampling, Test, aggregate, holm, per_query};
use serde_json::{Map, Value, json};

use super::Context;
use crate::output::table;

/// Ids named in a note; the rest are counted.
const NAMED_MAX: usize = 5;

/// What a system made of the judged queries, which are the same for all systems and in the same order.
pub(crate) struct System {
    /// What it is called.
    pub name: String,
    /// Where each query has its judged documents.
    pub ranks: Vec<Ranks>,
    /// The same under the worst and the best order of equal scores, if that is asked for.
    pub bounds: Option<(Vec<Ranks>, Vec<Ranks>)>,
}

/// What is shown of systems.
pub(crate) struct Asked {
    /// The measures.
    pub measures: Vec<Measure>,
    /// The test of each system against the first, and how queries are resampled for it.
    pub test: Option<(Test, Resampling)>,
    /// Every query's values too.
    pub by_query: bool,
}

/// The measures that are named, or else those of a table.
pub(crate) fn measures(named: &[String], default: &[Measure]) -> anyhow::Result<Vec<Measure>> {
    if named.is_empty() {
        return Ok(default.to_vec());
    }
    let mut measures: Vec<Measure> = Vec::new();
    for name in named {
        let measure = name.parse()?;
        if !measures.contains(&measure) {
            measures.push(measure);
        }
    }
    Ok(measures)
}

/// A note where `R@k` is shown and some query has several relevant documents.
pub(crate) fn note_several(context: &Context, measures: &[Measure], has_several: bool) {
    let is_recall = |measure: &Measure| measure.kind() == dehub_eval::Kind::Recall;
    if has_several && measures.iter().any(is_recall) {
        context.output.note(
            "some queries have more than one relevant document: R@k is the share of them that is found; papers on \
             cross-modal retrieval mean Success@k by it, which --table prints",
        );
    }
}

/// Notes on what a run, judgements and a gallery lack of each other.
pub(crate) fn note_gaps(context: &Context, run: &str, gaps: &Gaps) {
    for (ids, what) in named_gaps(gaps) {
        if !ids.is_empty() {
            context.output.note(format!("{run}: {} {what}: {}", ids.len(), first_of(ids)));
        }
    }
    let without = &gaps.without_relevant;
    if !without.is_empty() {
        let what = "judged queries have no relevant document and count as having found nothing";
        context.output.note(format!("{run}: {} {what}: {}", without.len(), first_of(without)));
    }
}

/// The gaps that `--strict` fails for, with what is said of them.
pub(crate) fn named_gaps(gaps: &Gaps) -> [(&[String], &'static str); 3] {
    [
        (&gaps.missing, "judged queries are missing and count as having found nothing"),
        (&gaps.extra, "queries have no judgement and are not measured"),
        (&gaps.dangling, "ids are not in the gallery"),
    ]
}

fn first_of(ids: &[String]) -> String {
    let named = ids.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if ids.len() > NAMED_MAX { format!("{named}, …") } else { named }
}

/// The gaps as JSON, all ids.
pub(crate) fn gaps_to_json(gaps: &Gaps) -> Value {
    json!({
        "missing": gaps.missing,
        "extra": gaps.extra,
        "without_relevant": gaps.without_relevant,
        "dangling": gaps.dangling,
    })
}

/// Systems measured side by side.
pub(crate) struct Compared {
    queries: Vec<String>,
    measures: Vec<Measure>,
    by_query: bool,
    test: Option<Test>,
    /// One a system; the first is the baseline.
    rows: Vec<Row>,
}

struct Row {
    name: String,
    /// One a measure.
    cells: Vec<Cell>,
}

struct Cell {
    /// One a query, where the measure has one.
    values: Vec<Option<f64>>,
    /// `None` if no query has a value.
    value: Option<f64>,
    interval: Option<Interval>,
    /// Under the worst and the best order of equal scores.
    bounds: Option<(Option<f64>, Option<f64>)>,
    /// With the probability after Holm's correction.
    against: Option<(Comparison, f64)>,
}

/// Measures systems over the same queries.
pub(crate) fn compare(queries: &[String], systems: &[System], asked: &Asked) -> Compared {
    let mut rows: Vec<Row> = systems.iter().map(|system| row(system, asked)).collect();
    if let Some((test, resampling)) = asked.test {
        test_all(&mut rows, asked, test, &resampling);
    }
    Compared {
        queries: queries.to_vec(),
        measures: asked.measures.clone(),
        by_query: asked.by_query,
        test: asked.test.map(|(test, _)| test),
        rows,
    }
}

fn row(system: &System, asked: &Asked) -> Row {
    let cell = |&measure: &Measure| {
        let values = |ranks: &[Ranks]| ranks.iter().map(|it| per_query(it, measure)).collect::<Vec<_>>();
        let value = |values: &[Option<f64>]| aggregate(values.iter().copied().flatten().collect(), measure);
        let own = values(&system.ranks);
        let bounds = system.bounds.as_ref();
        Cell {
            value: value(&own),
            interval: asked.test.and_then(|(_, resampling)| {
                resampling.interval(&own.iter().copied().flatten().collect::<Vec<_>>(), measure)
            }),
            bounds: bounds.map(|(worst, best)| (value(&values(worst)), value(&values(best)))),
            against: None,
            values: own,
        }
    };
    Row { name: system.name.clone(), cells: asked.measures.iter().map(cell).collect() }
}

/// Tests every system but the first by every measure; all tests together are one family.
fn test_all(rows: &mut [Row], asked: &Asked, test: Test, resampling: &Resampling) {
    let Some((baseline, others)) = rows.split_first_mut() else { return };
    let mut found = Vec::new();
    for (row, other) in others.iter().enumerate() {
        for (place, &measure) in asked.measures.iter().enumerate() {
            let (first, second) = (&baseline.cells[place].values, &other.cells[place].values);
            let comparison = resampling.compare(first, second, measure, test);
            found.extend(comparison.map(|comparison| (row, place, comparison)));
        }
    }
    let corrected = holm(&found.iter().map(|(_, _, comparison)| comparison.p).collect::<Vec<_>>());
    for ((row, place, comparison), p) in found.into_iter().zip(corrected) {
        others[row].cells[place].against = Some((comparison, p));
    }
}

impl Compared {
    /// One object a system.
    pub(crate) fn to_json(&self) -> Vec<Value> {
        let name = |measure: &Measure| measure.to_string();
        let row = |row: &Row| {
            let cells = || self.measures.iter().map(name).zip(&row.cells);
            let values: Map<String, Value> = cells().map(|(name, cell)| (name, json!(cell.value))).collect();
            let mut object = json!({ "name": row.name, "measures": values });
            let mut add = |key: &str, of: &dyn Fn(&Cell) -> Option<Value>| {
                let found: Map<String, Value> =
                    cells().filter_map(|(name, cell)| Some((name, of(cell)?))).collect();
                if !found.is_empty() {
                    object[key] = Value::Object(found);
                }
            };
            add("intervals", &|cell| cell.interval.map(|it| json!([it.low, it.high])));
            add("bounds", &|cell| cell.bounds.map(|(worst, best)| json!([worst, best])));
            add("against_first", &|cell| cell.against.map(|(it, corrected)| against(&it, corrected)));
            if self.by_query {
                let of_query = |place: usize| -> Value {
                    cells()
                        .map(|(name, cell)| (name, json!(cell.values[place])))
                        .collect::<Map<_, _>>()
                        .into()
                };
                let places = self.queries.iter().cloned().zip((0..).map(of_query));
                object["by_query"] = Value::Object(places.collect());
            }
            object
        };
        self.rows.iter().map(row).collect()
    }

    /// Tables: of values, of tests if there are any, and of queries if they are asked for.
    pub(crate) fn describe(&self) -> String {
        let names: Vec<String> = self.measures.iter().map(Measure::to_string).collect();
        let mut head = vec!["run"];
        head.extend(names.iter().map(String::as_str));
        let rows = self.rows.iter().map(|row| {
            let cells = self.measures.iter().zip(&row.cells).map(|(measure, cell)| written(*measure, cell));
            std::iter::once(row.name.clone()).chain(cells).collect()
        });
        let mut text = table(&head, 1, rows);
        if let Some(test) = self.test {
            text = format!("{text}\n{}", self.describe_tests(test));
        }
        if self.by_query {
            text = format!("{text}\n{}", self.describe_queries(&names));
        }
        text
    }

    fn describe_tests(&self, test: Test) -> String {
        let head = ["measure", "run", "value", "95 %", "difference", "95 %", "p", "p after Holm"];
        let mut lines = Vec::new();
        for (place, &measure) in self.measures.iter().enumerate() {
            for row in &self.rows {
                let cell = &row.cells[place];
                let ends = |it: Interval, sign: bool| {
                    let end = |value| if sign { signed(measure, value) } else { number(measure, value) };
                    format!("{} to {}", end(it.low), end(it.high))
                };
                let mut line = vec![measure.to_string(), row.name.clone()];
                line.push(cell.value.map_or(String::new(), |value| number(measure, value)));
                line.push(cell.interval.map_or(String::new(), |it| ends(it, false)));
                match cell.against {
                    None => line.extend(std::iter::repeat_n(String::new(), 4)),
                    Some((Comparison { difference, p }, corrected)) => line.extend([
                        signed(measure, difference.value),
                        ends(difference, true),
                        format!("{p:.4}"),
                        format!("{corrected:.4}"),
                    ]),
                }
                lines.push(line);
            }
        }
        let name = match test {
            Test::Bootstrap => "paired bootstrap",
            Test::Randomisation => "randomisation",
        };
        format!("{name} test against {}\n\n{}", self.rows[0].name, table(&head, 2, lines))
    }

    fn describe_queries(&self, names: &[String]) -> String {
        let mut head = vec!["query", "run"];
        head.extend(names.iter().map(String::as_str));
        let mut lines = Vec::new();
        for (place, query) in self.queries.iter().enumerate() {
            for row in &self.rows {
                let value = |(measure, cell): (&Measure, &Cell)| {
                    cell.values[place].map_or(String::new(), |value| number(*measure, value))
                };
                let mut line = vec![query.clone(), row.name.clone()];
                line.extend(self.measures.iter().zip(&row.cells).map(value));
                lines.push(line);
            }
        }
        table(&head, 2, lines)
    }
}

fn against(comparison: &Comparison, corrected: f64) -> Value {
    let Comparison { difference, p } = comparison;
    json!({
        "difference": difference.value,
        "interval": [difference.low, difference.high],
        "p": p,
        "p_holm": corrected,
    })
}

fn written(measure: Measure, cell: &Cell) -> String {
    let value = |value: Option<f64>| value.map_or("–".to_owned(), |value| number(measure, value));
    match cell.bounds {
        None => value(cell.value),
        Some((worst, best)) => format!("{} [{}, {}]", value(cell.value), value(worst), value(best)),
    }
}

fn number(measure: Measure, value: f64) -> String {
    if measure.is_smaller_better() { format!("{value:.1}") } else { format!("{value:.4}") }
}

fn signed(measure: Measure, value: f64) -> String {
    if measure.is_smaller_better() { format!("{value:+.1}") } else { format!("{value:+.4}") }
}
