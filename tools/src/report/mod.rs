//! The results of an evaluation as one HTML page: no scripts, nothing loaded from elsewhere, light and dark as the
//! reader's system is. All text goes through maud and plotters, which escape it.

mod axis;
mod bench;
mod chosen;
mod curves;
mod hubness;
mod look;
mod plot;
mod relevance;
mod summary;
mod sweeps;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(crate) use self::bench::Bench;
use crate::commands::eval::schema::{Direction, Results};

const STYLE: &str = include_str!("style.css");

/// Writes the page of results, with curves of speed if there are any.
pub(crate) fn write(file: &Path, results: &Results, bench: Option<&Bench>) -> anyhow::Result<()> {
    let page = page(results, bench).context("drawing the report")?;
    fs::write(file, page.into_string()).with_context(|| file.display().to_string())
}

fn page(results: &Results, bench: Option<&Bench>) -> anyhow::Result<Markup> {
    let title = summary::title(results);
    let speed = bench.map(curves::speed).transpose()?;
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Hubness of " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Hubness of " (title) }
                    p { (summary::counts(&results.forward)) "." }
                    (summary::warnings(results))
                }
                main {
                    @if let Some(reverse) = &results.reverse {
                        h2.direction { "Queries for points" }
                        (direction(results, &results.forward)?)
                        h2.direction { "Points for queries" }
                        p { "The points are the queries here: " (summary::counts(reverse)) "." }
                        (direction(results, reverse)?)
                    } @else {
                        (direction(results, &results.forward)?)
                    }
                    @if let Some(speed) = speed { (section("Recall and speed", &speed)) }
                    (section("What was measured, and from what", &summary::provenance(results)?))
                }
            }
        }
    })
}

/// The sections of one direction, without those that have nothing to show.
fn direction(results: &Results, direction: &Direction) -> anyhow::Result<Markup> {
    let relevance = html! {
        (summary::tiles(direction))
        (relevance::table(direction))
        p.note { (relevance::legend(results.request.rounds)) }
        (figures(&relevance::figures(direction)?))
    };
    let parts = [
        ("What is found", Some(relevance)),
        ("How answers spread over points", shown(&hubness::figures(direction)?)),
        ("The points found most often", hubness::hubs(direction)),
        ("What parameters do", shown(&sweeps::figures(direction)?)),
        ("What the size of the bank does", shown(&sweeps::bank_figures(direction)?)),
        ("One threshold for all queries", curves::roc(direction)?.map(|roc| figures(&[roc]))),
    ];
    Ok(html! {
        @for (title, content) in &parts {
            @if let Some(content) = content { (section(title, content)) }
        }
    })
}

fn section(title: &str, content: &Markup) -> Markup {
    html! { section { h2 { (title) } (content) } }
}

/// Figures beside each other where there is room; none if there are none.
fn shown(all: &[Markup]) -> Option<Markup> {
    (!all.is_empty()).then(|| figures(all))
}

fn figures(all: &[Markup]) -> Markup {
    html! { div.figures { @for figure in all { (figure) } } }
}
