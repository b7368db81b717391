//! Curves of scores and of speed.

use maud::{Markup, html};

use super::axis::Axis;
use super::bench::{Bench, BenchRow};
use super::chosen::shown;
use super::look::{LOOKS, Look};
use super::plot::{Plot, Point, Series};
use crate::commands::eval::schema::Direction;

/// One threshold for all queries; none where no ranking has a curve.
pub(super) fn roc(direction: &Direction) -> anyhow::Result<Option<Markup>> {
    let mut series: Vec<Series> = shown(direction)
        .into_iter()
        .filter_map(|it| {
            let roc = it.row.roc.as_ref()?;
            let name = format!("{} (area {:.3})", it.row.method, roc.auc);
            let points = roc.points.iter().copied().map(Point::new).collect();
            Some(Series { name, look: it.look, has_marks: false, points })
        })
        .collect();
    if series.is_empty() {
        return Ok(None);
    }
    series.push(Series {
        name: "by chance".to_owned(),
        look: Look::Reference,
        has_marks: false,
        points: [(0.0, 0.0), (1.0, 1.0)].map(Point::new).to_vec(),
    });
    let plot = Plot {
        title: "Relevant points against others, at one threshold for all queries".to_owned(),
        x: Axis::between("share of other points at or above it", 0.0, 1.0),
        y: Axis::between("share of relevant points", 0.0, 1.0),
        series,
    };
    Ok(Some(plot.figure("Upwards: the share of relevant points with a score at or above the threshold.")?))
}

/// Recall beside speed.
pub(super) fn speed(bench: &Bench) -> anyhow::Result<Markup> {
    let mut rankings: Vec<&str> = Vec::new();
    for row in &bench.rows {
        if !rankings.contains(&row.ranking.as_str()) {
            rankings.push(&row.ranking);
        }
    }
    let series = rankings.into_iter().take(usize::from(LOOKS)).zip(0..).map(|(ranking, place)| {
        let own = bench.rows.iter().filter(|row| row.ranking == ranking);
        let mut points: Vec<Point> =
            own.map(|row| Point::new((row.recall, row.queries_per_second))).collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x).then(other.y.total_cmp(&one.y)));
        Series { name: ranking.to_owned(), look: Look::of(place), has_marks: true, points }
    });
    let recalls = bench.rows.iter().map(|row| row.recall);
    let speeds = bench.rows.iter().map(|row| row.queries_per_second);
    let plot = Plot {
        title: "Queries a second over recall".to_owned(),
        x: Axis::linear(&format!("recall among the best {}", bench.limit), recalls),
        y: Axis::log("queries a second", speeds),
        series: series.collect(),
    };
    let figure = plot.figure(
        "Recall is the share of the exact best answers of the same ranking that are found. Higher and further to the \
         right is better.",
    )?;
    Ok(html! {
        p {
            (bench.queries) " queries over the " (bench.points) " points of " code { (bench.collection) } ", "
            (bench.limit) " answers each, threads: " (bench.threads) "."
        }
        div.figures { (figure) }
        (speeds_table(&bench.rows))
    })
}

fn speeds_table(rows: &[BenchRow]) -> Markup {
    html! {
        details {
            summary { "All measured settings" }
            div.scroll tabindex="0" role="region" aria-label="All measured settings" {
                table {
                    thead { tr { th { "ranking" } th { "search" } th.number { "recall" } th.number { "queries/s" } } }
                    tbody {
                        @for row in rows {
                            tr {
                                td { (row.ranking) }
                                td { (row.search) }
                                td.number { (format!("{:.4}", row.recall)) }
                                td.number { (format!("{:.0}", row.queries_per_second)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
