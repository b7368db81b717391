//! Results for people: a table for the terminal, and tables as papers have them.

use super::schema::{Curve, Direction, Results, Row};
use crate::cli::TableForm;
use crate::output::table;

/// All measures of relevance, hubness at ten, and the curves.
pub(super) fn describe(results: &Results) -> String {
    let mut text = describe_direction(&results.forward, "points", "queries");
    if let Some(reverse) = &results.reverse {
        text += "\nPoints as queries for queries:\n";
        text += &describe_direction(reverse, "queries", "points");
    }
    text
}

fn describe_direction(direction: &Direction, ranked: &str, asked: &str) -> String {
    let shown = |name: &str| {
        let hub = ["skew", "max", "anti", "RH"].iter().any(|hub| name.starts_with(hub));
        name != "active" && (!hub || name.ends_with("10"))
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in direction.rows.iter().flat_map(|row| &row.measures.0) {
        if shown(name) && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let rows = direction.rows.iter().map(|row| {
        let cell =
            |name: &&str| row.measures.get(name).map_or(String::new(), |&value| format_value(name, value));
        std::iter::once(row.method.clone()).chain(names.iter().map(cell)).collect()
    });
    let mut head = vec!["method"];
    head.extend(&names);
    let (queries, points) = (direction.queries, direction.points);
    let table = table(&head, 1, rows);
    let curves: String = direction.curves.iter().map(describe_curve).collect();
    format!("{queries} {asked} over {points} {ranked}, exact ranking\n\n{table}{curves}")
}

fn describe_curve(curve: &Curve) -> String {
    let names: Vec<&str> = curve
        .steps
        .iter()
        .find(|step| step.draws > 0)
        .map_or(Vec::new(), |step| step.measures.0.iter().map(|(name, _)| name.as_str()).collect());
    let rows = curve.steps.iter().map(|step| {
        let cell = |name: &&str| {
            step.measures.get(name).map_or("–".to_owned(), |spread| {
                let mean = format_value(name, spread.mean);
                if step.draws > 1 {
                    format!("{mean} ± {}", format_value(name, spread.deviation))
                } else {
                    mean
                }
            })
        };
        std::iter::once(step.entries.to_string()).chain(names.iter().map(cell)).collect()
    });
    let mut head = vec!["bank"];
    head.extend(&names);
    let draws = curve.steps.iter().map(|step| step.draws).max().unwrap_or(0);
    let over = if draws > 1 { format!(", mean ± deviation of {draws} draws") } else { String::new() };
    format!("\n{} over sizes of its bank{over}\n\n{}", curve.method, table(&head, 0, rows))
}

/// A value with as many digits as are told of it.
pub(crate) fn format_value(name: &str, value: f64) -> String {
    match name {
        "MdR" | "MnR" => format!("{value:.1}"),
        name if name.starts_with("max") => format!("{value:.0}"),
        _ => format!("{value:.4}"),
    }
}

/// Whether a smaller value is a better one.
pub(crate) fn is_rank(name: &str) -> bool {
    matches!(name, "MdR" | "MnR")
}

/// A table in the style of papers on cross-modal retrieval: a row a method, shares in percent, each with half its
/// 95 % interval, the best of each column marked.
pub(super) fn paper(results: &Results, form: TableForm) -> String {
    let mut directions = vec![&results.forward];
    directions.extend(&results.reverse);
    let names: Vec<&str> = results
        .forward
        .rows
        .first()
        .map_or(Vec::new(), |raw| raw.intervals.0.iter().map(|(name, _)| name.as_str()).collect());
    let mut methods: Vec<&str> = Vec::new();
    for row in directions.iter().flat_map(|direction| &direction.rows) {
        if !methods.contains(&row.method.as_str()) {
            methods.push(&row.method);
        }
    }
    let cells: Vec<Vec<Cell>> = methods
        .iter()
        .map(|method| directions.iter().flat_map(|direction| cells(direction, method, &names)).collect())
        .collect();
    match form {
        TableForm::Text => {
            let rows = methods.iter().zip(&cells).map(|(method, cells)| line(method, cells, Mark::Star));
            let text = table(&strings(&head(&names, directions.len())), 1, rows);
            format!("{}\n{text}", caption(results))
        }
        TableForm::Markdown => {
            let rows = methods.iter().zip(&cells).map(|(method, cells)| line(method, cells, Mark::Markdown));
            let bar = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
            let head = head(&names, directions.len());
            let rule = format!("|---{}|\n", "|--:".repeat(head.len() - 1));
            let rows: String = rows.map(|row| bar(&row)).collect();
            format!("{}{rule}{rows}\n{}\n", bar(&head), caption(results))
        }
        TableForm::Latex => latex(results, &names, directions.len(), &methods, &cells),
    }
}

/// A value of a table.
struct Cell {
    value: String,
    half: String,
    is_best: bool,
}

fn cells(direction: &Direction, method: &str, names: &[&str]) -> Vec<Cell> {
    let row = direction.rows.iter().find(|row| row.method == method);
    let cell = |name: &&str| {
        let shown = |row: &Row| row.measures.get(name).map(|&value| rounded(name, value));
        let Some((row, value)) = row.and_then(|row| Some((row, shown(row)?))) else {
            return Cell { value: "–".to_owned(), half: String::new(), is_best: false };
        };
        let own: f64 = value.parse().unwrap_or(f64::NAN);
        let others = direction.rows.iter().filter_map(shown).filter_map(|it| it.parse::<f64>().ok());
        let best =
            if is_rank(name) { others.fold(f64::INFINITY, f64::min) } else { others.fold(0.0, f64::max) };
        let half = row.intervals.get(name).map(|it| rounded(name, (it.high - it.low) / 2.0));
        Cell { value, half: half.unwrap_or_default(), is_best: own == best }
    };
    names.iter().map(cell).collect()
}

/// A value to the digits of papers: one, shares in percent.
fn rounded(name: &str, value: f64) -> String {
    if is_rank(name) { format!("{value:.1}") } else { format!("{:.1}", 100.0 * value) }
}

#[derive(Clone, Copy)]
enum Mark {
    Star,
    Markdown,
    Latex,
}

fn line(method: &str, cells: &[Cell], mark: Mark) -> Vec<String> {
    let cell = |cell: &Cell| {
        let Cell { value, half, is_best } = cell;
        match (mark, half.is_empty()) {
            (_, true) => value.clone(),
            (Mark::Star, false) => format!("{value} ± {half}{}", if *is_best { " *" } else { "  " }),
            (Mark::Markdown, false) if *is_best => format!("**{value}** ± {half}"),
            (Mark::Markdown, false) => format!("{value} ± {half}"),
            (Mark::Latex, false) if *is_best => format!(r"$\mathbf{{{value}}}_{{\pm {half}}}$"),
            (Mark::Latex, false) => format!(r"${value}_{{\pm {half}}}$"),
        }
    };
    let name = match mark {
        Mark::Latex => escaped(method),
        Mark::Markdown => method.replace('|', r"\|"),
        Mark::Star => method.to_owned(),
    };
    std::iter::once(name).chain(cells.iter().map(cell)).collect()
}

/// The names of columns; those of the reverse direction are marked where there are two.
fn head(names: &[&str], directions: usize) -> Vec<String> {
    let arrow = |name: &str| format!("{} {}", paper_name(name), if is_rank(name) { "↓" } else { "↑" });
    let column = |direction: usize, name: &str| match (directions, direction) {
        (1, _) => arrow(name),
        (_, 0) => format!("q→p {}", arrow(name)),
        _ => format!("p→q {}", arrow(name)),
    };
    let columns = (0..directions).flat_map(|direction| names.iter().map(move |name| column(direction, name)));
    std::iter::once("method".to_owned()).chain(columns).collect()
}

/// What papers call a measure.
fn paper_name(name: &str) -> String {
    name.replace("Success@", "R@")
}

fn strings(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn caption(results: &Results) -> String {
    let Direction { queries, points, .. } = &results.forward;
    format!(
        "{queries} queries, {points} points, exact rankings by dehub {}; shares in percent; R@k: queries with \
         a relevant point among the first k; ± is half of a 95 % interval over {} resamplings of the queries, seed {}.",
        results.dehub, results.request.rounds, results.request.seed
    )
}

fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '_' | '%' | '&' | '#' | '$' | '{' | '}' => format!("\\{c}"),
        '\\' => r"\textbackslash{}".to_owned(),
        '~' => r"\textasciitilde{}".to_owned(),
        '^' => r"\textasciicircum{}".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

fn latex(
    results: &Results,
    names: &[&str],
    directions: usize,
    methods: &[&str],
    cells: &[Vec<Cell>],
) -> String {
    let columns = names.len() * directions;
    let mut text = format!("\\begin{{tabular}}{{l{}}}\n\\toprule\n", "r".repeat(columns));
    if directions > 1 {
        let width = names.len();
        let (first, last) = (width + 2, 2 * width + 1);
        let span = |title: &str| format!("\\multicolumn{{{width}}}{{c}}{{{title}}}");
        let (forward, reverse) = (span("query $\\to$ point"), span("point $\\to$ query"));
        text += &format!(" & {forward} & {reverse} \\\\\n");
        text += &format!("\\cmidrule(lr){{2-{}}} \\cmidrule(lr){{{first}-{last}}}\n", width + 1);
    }
    let arrow = |name: &&str| {
        format!(
            "{} ${}$",
            escaped(&paper_name(name)),
            if is_rank(name) { r"\downarrow" } else { r"\uparrow" }
        )
    };
    let heads = (0..directions).flat_map(|_| names.iter().map(arrow));
    let heads: Vec<String> = std::iter::once("Method".to_owned()).chain(heads).collect();
    text += &format!("{} \\\\\n\\midrule\n", heads.join(" & "));
    for (method, cells) in methods.iter().zip(cells) {
        text += &format!("{} \\\\\n", line(method, cells, Mark::Latex).join(" & "));
    }
    text + &format!("\\bottomrule\n\\end{{tabular}}\n% {}\n", caption(results))
}
