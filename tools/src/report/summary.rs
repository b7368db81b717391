//! What was measured, and from what.

use maud::{Markup, html};

use super::chosen::{main_measure, shown};
use crate::commands::eval::format_value;
use crate::commands::eval::schema::{Direction, Results};

/// Measures of hubness at the head of the page, and what they are.
const HUBNESS: [(&str, &str); 4] = [
    ("RH10", "Robin Hood index"),
    ("skew10", "skewness of N10"),
    ("anti10", "points never found"),
    ("max10", "largest N10"),
];

/// What the page is about.
pub(super) fn title(results: &Results) -> String {
    let request = &results.request;
    let file = request.gallery.as_ref().or(request.similarities.as_ref());
    let subject = match (&results.collection, file) {
        (Some(collection), _) => collection.name.clone(),
        (None, Some(file)) => file.file_name().unwrap_or(file.as_os_str()).display().to_string(),
        (None, None) => "an evaluation".to_owned(),
    };
    match &results.using {
        Some(vector) => format!("{subject}, vector {vector}"),
        None => subject,
    }
}

/// Banks that hold test queries.
pub(super) fn warnings(results: &Results) -> Markup {
    html! {
        @for leak in &results.leaks {
            p.warning role="note" {
                strong { "Warning: " }
                "the bank " code { (leak.bank) } " holds " (leak.queries) " of the test queries. Corrections fitted \
                 from it look better than they are."
            }
        }
    }
}

/// The main measure and hubness, raw and under the best correction.
pub(super) fn tiles(direction: &Direction) -> Markup {
    let shown = shown(direction);
    let (Some(raw), Some(best), Some(measure)) = (shown.first(), shown.get(1), main_measure(direction))
    else {
        return html! {};
    };
    let tiles: Vec<(&str, &str, f64, f64)> = std::iter::once((measure, ""))
        .chain(HUBNESS)
        .filter_map(|(name, what)| {
            let (&before, &after) = (raw.row.measures.get(name)?, best.row.measures.get(name)?);
            Some((name, what, before, after))
        })
        .collect();
    html! {
        p {
            "Raw → " strong { (best.row.method) } ", the best of " (direction.rows.len() - 1) " by " (measure)
            "."
            @if direction.rows.len() > 2 {
                " It was chosen on these same queries, so expect a little less of it on others."
            }
        }
        dl.tiles {
            @for (name, what, before, after) in tiles {
                div {
                    dt { (name) @if !what.is_empty() { span { " " (what) } } }
                    dd { (format_value(name, before)) " → " strong { (format_value(name, after)) } }
                }
            }
        }
    }
}

/// What was read, and by which options.
pub(super) fn provenance(results: &Results) -> anyhow::Result<Markup> {
    let request = &results.request;
    let options = serde_json::to_string_pretty(&told(serde_json::to_value(request)?))?;
    let counts = counts(&results.forward);
    Ok(html! {
        dl.facts {
            dt { "Made by" } dd { "dehub " (results.dehub) }
            @if let Some(collection) = &results.collection {
                dt { "Collection" }
                dd {
                    code { (collection.name) } ", " (collection.points) " points, as of commit "
                    (collection.sequence)
                }
                @for (bank, entries) in &collection.banks.0 {
                    dt { "Bank" } dd { code { (bank) } ", " (entries) " entries" }
                }
            }
            dt { "Measured" } dd { (counts) }
            dt { "Seed" } dd { (request.seed) ", " (request.rounds) " resamplings of the queries" }
        }
        @if !results.inputs.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Files read" {
                table {
                    thead { tr { th { "file" } th { "read as" } th.number { "shape" } th { "BLAKE3" } } }
                    tbody {
                        @for input in &results.inputs {
                            tr {
                                td { code { (input.path.display()) } }
                                td { (input.role) }
                                td.number { @if let Some([rows, columns]) = input.shape { (rows) " × " (columns) } }
                                td { code { (input.blake3) } }
                            }
                        }
                    }
                }
            }
        }
        details { summary { "Options that were given" } pre.scroll tabindex="0" { (options) } }
    })
}

/// Options without those that say nothing.
fn told(options: serde_json::Value) -> serde_json::Value {
    let serde_json::Value::Object(fields) = options else { return options };
    let says = |value: &serde_json::Value| {
        !(value.is_null() || value.as_array().is_some_and(Vec::is_empty) || *value == false)
    };
    fields.into_iter().filter(|(_, value)| says(value)).collect()
}

/// Who was measured, and who could not be.
pub(super) fn counts(direction: &Direction) -> String {
    let Direction { points, queries, unjudged, not_given, not_in_gallery, .. } = direction;
    let mut text = format!("{queries} queries over {points} points, exact rankings");
    let parts = [
        (unjudged, "queries without judgements count for hubness only"),
        (not_given, "judged queries were not given"),
        (not_in_gallery, "judged ids are of no point and count as never found"),
    ];
    for (count, what) in parts {
        if *count > 0 {
            text += &format!("; {count} {what}");
        }
    }
    text
}
