//! What a parameter does: rankings whose names differ in one number, and parts of a bank.

use maud::Markup;

use super::axis::Axis;
use super::chosen::{main_measure, ordered};
use super::hubness::real;
use super::look::{LOOKS, Look};
use super::plot::{Plot, Point, Series};
use crate::commands::eval::schema::{Curve, Direction, Row};

/// The measure of hubness that is swept beside that of relevance.
const HUBNESS: &str = "RH10";

/// A method and the numbers it was given.
#[derive(Debug, Clone, PartialEq)]
struct Label {
    method: String,
    parameters: Vec<(String, String)>,
}

impl Label {
    /// Reads `NAME(a=1,b=2)`; none if it is anything else.
    fn parse(text: &str) -> Option<Label> {
        let (method, rest) = text.split_once('(')?;
        let pairs = rest.strip_suffix(')')?.split(',').map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        });
        Some(Label { method: method.to_owned(), parameters: pairs.collect::<Option<_>>()? })
    }

    /// The number of a parameter, and the rest of the label.
    fn without(&self, parameter: &str) -> Option<(f64, Label)> {
        let mut rest = self.clone();
        let place = rest.parameters.iter().position(|(name, _)| name == parameter)?;
        let value = rest.parameters.remove(place).1.parse().ok().filter(|value: &f64| value.is_finite())?;
        Some((value, rest))
    }

    fn text(&self) -> String {
        let pairs: Vec<String> =
            self.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { self.method.clone() } else { format!("{}({})", self.method, pairs.join(",")) }
    }
}

/// Rankings by one method that differ in one number.
struct Line<'a> {
    rest: Label,
    steps: Vec<(f64, &'a Row)>,
}

/// All lines along a parameter of a method.
struct Sweep<'a> {
    method: String,
    parameter: String,
    lines: Vec<Line<'a>>,
}

/// The figures of swept parameters.
pub(super) fn figures(direction: &Direction) -> anyhow::Result<Vec<Markup>> {
    let Some(measure) = main_measure(direction) else { return Ok(Vec::new()) };
    let mut figures = Vec::new();
    for sweep in sweeps(direction, measure) {
        for measure in [measure, HUBNESS] {
            let plot = plot(direction, &sweep, measure);
            if plot.series.len() > 1 {
                figures.push(plot.figure(note(&sweep, measure))?);
            }
        }
    }
    Ok(figures)
}

fn note(sweep: &Sweep<'_>, measure: &str) -> &'static str {
    match (measure == HUBNESS, sweep.lines.len() >= usize::from(LOOKS)) {
        (true, _) => "The Robin Hood index of the best ten answers: 0 where all points are found alike.",
        (false, true) => "Only the lines with the best values; bars are 95 % intervals of the first.",
        (false, false) if sweep.lines.len() > 1 => {
            "Bars are 95 % intervals of the first line, which has the best value."
        }
        (false, false) => "Bars are 95 % intervals.",
    }
}

/// Every parameter that has several values while the others stay as they are, those with the best values first.
fn sweeps<'a>(direction: &'a Direction, measure: &str) -> Vec<Sweep<'a>> {
    let mut sweeps: Vec<Sweep<'a>> = Vec::new();
    for row in ordered(direction, measure) {
        let Some(label) = Label::parse(&row.method) else { continue };
        for (parameter, _) in &label.parameters {
            let Some((value, rest)) = label.without(parameter) else { continue };
            let is_it = |sweep: &Sweep<'_>| sweep.method == label.method && sweep.parameter == *parameter;
            let place = sweeps.iter().position(is_it).unwrap_or(sweeps.len());
            if place == sweeps.len() {
                let (method, parameter) = (label.method.clone(), parameter.clone());
                sweeps.push(Sweep { method, parameter, lines: Vec::new() });
            }
            let lines = &mut sweeps[place].lines;
            match lines.iter_mut().find(|line| line.rest == rest) {
                Some(line) => line.steps.push((value, row)),
                None => lines.push(Line { rest, steps: vec![(value, row)] }),
            }
        }
    }
    for sweep in &mut sweeps {
        for line in &mut sweep.lines {
            line.steps.sort_by(|one, other| one.0.total_cmp(&other.0));
            line.steps.dedup_by(|one, other| one.0 == other.0);
        }
        sweep.lines.retain(|line| line.steps.len() > 1);
    }
    sweeps.retain(|sweep| !sweep.lines.is_empty());
    sweeps
}

fn plot(direction: &Direction, sweep: &Sweep<'_>, measure: &str) -> Plot {
    let lines = sweep.lines.iter().take(usize::from(LOOKS) - 1).zip(1..).map(|(line, place)| {
        let point = |&(x, row): &(f64, &Row)| {
            // Those of several lines would hide each other.
            let interval = row.intervals.get(measure).filter(|_| place == 1).map(|it| (it.low, it.high));
            Some(Point { x, y: *row.measures.get(measure)?, interval })
        };
        let points = line.steps.iter().filter_map(point).collect();
        Series { name: line.rest.text(), look: Look::of(place), has_marks: true, points }
    });
    let mut series: Vec<Series> = lines.filter(|series| series.points.len() > 1).collect();
    let values: Vec<f64> = series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
    let raw = direction.rows.first().and_then(|raw| raw.measures.get(measure));
    series.extend(raw.map(|&raw| level(raw, &values)));
    let title = format!("{measure} of {} over {}", sweep.method, sweep.parameter);
    Plot { title, x: Axis::of_parameter(&sweep.parameter, &values), y: height(measure, &series), series }
}

/// The level of raw from the least to the largest of values.
fn level(raw: f64, values: &[f64]) -> Series {
    let ends =
        [values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max)];
    Series {
        name: "raw".to_owned(),
        look: Look::raw(),
        has_marks: false,
        points: ends.map(|x| Point::new((x, raw))).to_vec(),
    }
}

fn height(measure: &str, series: &[Series]) -> Axis {
    let points = series.iter().flat_map(|series| &series.points);
    Axis::linear(
        measure,
        points.flat_map(|point| {
            let (low, high) = point.interval.unwrap_or((point.y, point.y));
            [low, high]
        }),
    )
}

/// The figures of parts of the bank.
pub(super) fn bank_figures(direction: &Direction) -> anyhow::Result<Vec<Markup>> {
    let Some(main) = main_measure(direction) else { return Ok(Vec::new()) };
    let best = ordered(direction, main);
    let mut curves: Vec<&Curve> = direction.curves.iter().collect();
    curves.sort_by_key(|curve| best.iter().position(|row| row.method == curve.method));
    curves.truncate(usize::from(LOOKS) - 1);
    let mut figures = Vec::new();
    for measure in [main, HUBNESS] {
        let plot = bank_plot(direction, &curves, measure);
        if plot.series.iter().any(|series| series.has_marks) {
            figures.push(plot.figure(
                "Bars are a standard deviation to each side, where parts were drawn several times.",
            )?);
        }
    }
    Ok(figures)
}

fn bank_plot(direction: &Direction, curves: &[&Curve], measure: &str) -> Plot {
    let lines = curves.iter().zip(1..).map(|(curve, place)| {
        let points = curve.steps.iter().filter_map(|step| {
            let spread = step.measures.get(measure)?;
            let (low, high) = (spread.mean - spread.deviation, spread.mean + spread.deviation);
            let interval = (step.draws > 1).then_some((low, high));
            Some(Point { x: real(step.entries), y: spread.mean, interval })
        });
        Series {
            name: curve.method.clone(),
            look: Look::of(place),
            has_marks: true,
            points: points.collect(),
        }
    });
    let mut series: Vec<Series> = lines.filter(|series| !series.points.is_empty()).collect();
    let sizes: Vec<f64> = series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
    let raw = direction.rows.first().and_then(|raw| raw.measures.get(measure));
    series.extend(raw.filter(|_| !sizes.is_empty()).map(|&raw| level(raw, &sizes)));
    Plot {
        title: format!("{measure} over the size of the query bank"),
        x: Axis::of_parameter("entries of the query bank", &sizes),
        y: height(measure, &series),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::eval::schema::{Interval, Named};

    fn direction(rows: &[(&str, f64)]) -> Direction {
        let interval = Interval { low: 0.0, high: 1.0, gain_low: 0.0, gain_high: 0.0 };
        let row = |&(method, value): &(&str, f64)| Row {
            method: method.to_owned(),
            correction: None,
            measures: Named(vec![("R@1".to_owned(), value)]),
            intervals: Named(vec![("R@1".to_owned(), interval)]),
            hubness: Vec::new(),
            hubs: Vec::new(),
            roc: None,
            by_query: None,
        };
        Direction { rows: rows.iter().map(row).collect(), ..Direction::default() }
    }

    /// `method.parameter: rest value value | rest …`.
    fn told(direction: &Direction) -> Vec<String> {
        let line = |line: &Line<'_>| {
            let values: String = line.steps.iter().map(|step| format!(" {}", step.0)).collect();
            format!("{}{values}", line.rest.text())
        };
        let sweep = |sweep: &Sweep<'_>| {
            let lines: Vec<String> = sweep.lines.iter().map(line).collect();
            format!("{}.{}: {}", sweep.method, sweep.parameter, lines.join(" | "))
        };
        sweeps(direction, "R@1").iter().map(sweep).collect()
    }

    #[test]
    fn rankings_that_differ_in_one_number_are_a_line_and_the_best_line_is_first() {
        let rows = [
            ("raw", 0.1),
            ("IS(beta=100)", 0.2),
            ("IS(beta=20)", 0.3),
            ("IS(beta=5)", 0.25),
            ("NNN(alpha=1.0,k=4)", 0.5),
            ("NNN(alpha=0.5,k=16)", 0.4),
            ("NNN(alpha=1.0,k=16)", 0.6),
            ("CSLS(k=10)", 0.7),
            ("SinkhornLike", 0.8),
            ("Odd(k=)", 0.8),
            ("Odd(k=x)", 0.8),
            ("Open(k=1", 0.8),
        ];
        let wanted = ["NNN.alpha: NNN(k=16) 0.5 1", "NNN.k: NNN(alpha=1.0) 4 16", "IS.beta: IS 5 20 100"];
        assert_eq!(told(&direction(&rows)), wanted);
        assert_eq!(told(&direction(&rows[..2])), [""; 0]);
    }

    #[test]
    fn a_ranking_that_is_there_twice_is_one_step() {
        let rows = [("raw", 0.1), ("IS(beta=5)", 0.2), ("IS(beta=5)", 0.2), ("IS(beta=5.0)", 0.2)];
        assert_eq!(told(&direction(&rows)), [""; 0]);
    }
}
