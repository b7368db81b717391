//! How answers spread over points: `N_k`, Lorenz curves, and the points found most often.

use maud::{Markup, html};

use super::axis::Axis;
use super::chosen::{Shown, shown};
use super::look::Look;
use super::plot::{Plot, Point, Series};
use crate::commands::eval::schema::Direction;

/// Hubs listed of each ranking.
const HUBS: usize = 10;

/// Steps of the expected distribution that are nearer on a logarithmic axis are left out.
const STEP: f64 = 0.02;

/// The largest count that the expected distribution is computed for, one by one.
const EXPECTED_MAX: f64 = 1e7;

/// The figures; nothing without hubness.
pub(super) fn figures(direction: &Direction) -> anyhow::Result<Vec<Markup>> {
    let shown: Vec<_> = shown(direction).into_iter().filter(|it| it.hubness().is_some()).collect();
    let Some(k) = shown.first().and_then(Shown::hubness).map(|at| at.k) else { return Ok(Vec::new()) };
    let occurrences = occurrences(direction, &shown, k).figure(
        "Both axes are logarithmic, with a place for 0 on the left: the points that are in no answer. Dotted: what \
         it would be if every query drew its answers at random (Poisson).",
    )?;
    let lorenz = lorenz(&shown, k).figure(
        "The points in the order of how often they are found. The nearer to the dotted line, the more evenly the \
         answers are shared; the Robin Hood index is the largest distance from it.",
    )?;
    Ok(vec![occurrences, lorenz])
}

fn occurrences(direction: &Direction, shown: &[Shown<'_>], k: usize) -> Plot {
    let points = real(direction.points.max(1));
    let mut series: Vec<Series> = shown
        .iter()
        .filter_map(|it| {
            let steps = it.hubness()?.histogram.iter().filter(|step| step.2 > 0);
            let point = |&(least, most, found): &(u32, u32, usize)| {
                let (least, most) = (f64::from(least), f64::from(most));
                Point::new(((least * most).sqrt(), real(found) / (most - least + 1.0) / points))
            };
            let points = steps.map(point).collect();
            Some(Series { name: it.row.method.clone(), look: it.look, has_marks: true, points })
        })
        .collect();
    let seen = series.iter().flat_map(|series| &series.points);
    let least = seen.clone().map(|point| point.y).fold(1.0, f64::min);
    let most = shown.iter().filter_map(Shown::hubness).map(|at| f64::from(at.max)).fold(1.0, f64::max);
    let mean = (real(direction.queries) + real(direction.unjudged)) * real(k) / points;
    series.push(Series {
        name: format!("at random (mean {mean:.2})"),
        look: Look::Reference,
        has_marks: false,
        points: poisson(mean, most, least),
    });
    let shares = series.iter().flat_map(|series| &series.points).map(|point| point.y);
    let (x, y) = (format!("N{k}: how often a point is among the best {k}"), "share of points");
    Plot {
        title: format!("Share of points by N{k}"),
        x: Axis::counts(&x, most),
        y: Axis::log(y, shares),
        series,
    }
}

/// The Poisson distribution from 0 to `most`, where it is not below `least`.
fn poisson(mean: f64, most: f64, least: f64) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let (mut count, mut logarithm) = (0.0, -mean);
    while count <= most.min(EXPECTED_MAX) {
        let share: f64 = f64::exp(logarithm);
        let is_apart = points.last().is_none_or(|last| last.x < 1.0 || (count / last.x).log10() >= STEP);
        if share >= least && is_apart {
            points.push(Point::new((count, share)));
        }
        if count > mean && share < least {
            break;
        }
        count += 1.0;
        logarithm += (mean / count).ln();
    }
    points
}

fn lorenz(shown: &[Shown<'_>], k: usize) -> Plot {
    let mut series: Vec<Series> = shown
        .iter()
        .filter_map(|it| {
            let at = it.hubness()?;
            let steps = real(at.lorenz.len().saturating_sub(1).max(1));
            let places = at.lorenz.iter().zip((0u32..).map(f64::from));
            let points = places.map(|(&share, place)| Point::new((place / steps, share))).collect();
            let name = format!("{} (Robin Hood {:.3})", it.row.method, at.robin_hood);
            Some(Series { name, look: it.look, has_marks: false, points })
        })
        .collect();
    series.push(Series {
        name: "all alike".to_owned(),
        look: Look::Reference,
        has_marks: false,
        points: [(0.0, 0.0), (1.0, 1.0)].map(Point::new).to_vec(),
    });
    Plot {
        title: format!("Share of the occurrences among the best {k}"),
        x: Axis::between("share of points, the least frequent first", 0.0, 1.0),
        y: Axis::between("share of occurrences", 0.0, 1.0),
        series,
    }
}

/// The most frequent points before and after.
pub(super) fn hubs(direction: &Direction) -> Option<Markup> {
    let shown: Vec<_> = shown(direction).into_iter().filter(|it| !it.row.hubs.is_empty()).take(2).collect();
    if shown.is_empty() {
        return None;
    }
    Some(html! {
        div.pair {
            @for it in shown {
                div {
                    h3 { "Under " (it.row.method) }
                    div.scroll tabindex="0" role="region" aria-label={ "Hubs under " (it.row.method) } {
                        table {
                            thead { tr { th.number { "times" } th { "id" } th { "text" } } }
                            tbody {
                                @for hub in it.row.hubs.iter().take(HUBS) {
                                    tr {
                                        td.number { (hub.count) }
                                        td { code { (hub.id) } }
                                        td.text { (hub.text.as_deref().unwrap_or("–")) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

#[expect(clippy::cast_precision_loss, reason = "numbers of points and queries are far below 2^53")]
pub(super) fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_distribution_is_that_of_poisson() {
        let points = poisson(2.5, 19.0, 0.0);
        assert_eq!(points.len(), 20);
        let sum: f64 = points.iter().map(|point| point.y).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let mean: f64 = points.iter().map(|point| point.x * point.y).sum();
        assert!((mean - 2.5).abs() < 1e-9, "{mean}");
        assert!((points[2].y - (-2.5f64).exp() * 2.5 * 2.5 / 2.0).abs() < 1e-15);
    }

    #[test]
    fn the_expected_distribution_ends_where_it_cannot_be_seen() {
        let points = poisson(300.0, 1e9, 1e-6);
        assert!(points.iter().all(|point| point.y >= 1e-6 && (200.0..420.0).contains(&point.x)));
        assert!((10..100).contains(&points.len()), "{}", points.len());
    }
}
