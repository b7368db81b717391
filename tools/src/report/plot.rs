//! Plots: lines and marks over two axes, and bars. Drawn by plotters as SVG that is part of the page.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged as _;
use plotters::drawing::{DrawingArea, IntoDrawingArea as _};
use plotters::element::{EmptyElement, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::SVGBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontDesc, FontFamily, FontStyle, ShapeStyle, TextStyle};

use super::axis::Axis;
use super::look::{Look, themed};

/// Units of the drawing for a pixel: plotters has whole numbers only, and lines are to be smooth.
const UNITS: u32 = 4;

/// The size of a plot, in pixels. It is scaled to the page, on a phone to about nine tenths.
const WIDTH: u32 = 400;
const HEIGHT: u32 = 280;

/// The size of text, in pixels.
const TEXT: u32 = 14;

/// The height of a bar with its name, in pixels.
const BAR: u32 = 38;

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Lines and marks over two axes.
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// Points that belong together.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) has_marks: bool,
    pub(super) points: Vec<Point>,
}

/// A point of a series.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// An interval of `y`.
    pub(super) interval: Option<(f64, f64)>,
}

impl Point {
    /// A point without an interval.
    pub(super) fn new((x, y): (f64, f64)) -> Point {
        Point { x, y, interval: None }
    }
}

/// Bars from zero, with names above them.
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) axis: Axis,
    pub(super) bars: Vec<Bar>,
    /// A value to compare with.
    pub(super) reference: Option<f64>,
}

/// A bar.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    /// The value as it is written.
    pub(super) text: String,
    pub(super) look: Look,
    pub(super) interval: Option<(f64, f64)>,
}

impl Plot {
    /// The plot with its title and names, and `note` below it.
    pub(super) fn figure(&self, note: &str) -> anyhow::Result<Markup> {
        let drawing = drawing(&self.title, HEIGHT, |canvas| self.draw(canvas))?;
        let names = html! {
            ul.legend {
                @for series in &self.series {
                    li { (series.look.swatch(series.has_marks)) span { (series.name) } }
                }
            }
        };
        Ok(framed(&self.title, &names, &drawing, note))
    }

    fn draw(&self, canvas: &Canvas<'_>) -> anyhow::Result<()> {
        let mut chart = ChartBuilder::on(canvas)
            .margin_top(8 * UNITS)
            .margin_right(12 * UNITS)
            .x_label_area_size(44 * UNITS)
            .y_label_area_size(48 * UNITS)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        chart
            .configure_mesh()
            .axis_style(stroke(Look::Ink, 1))
            .bold_line_style(stroke(Look::Mesh, 1))
            .label_style(text())
            .axis_desc_style(text())
            .set_all_tick_mark_size(4 * UNITS)
            .x_desc(self.x.label.as_str())
            .draw()?;
        for series in &self.series {
            let at = |point: &Point| Some((self.x.at(point.x)?, self.y.at(point.y)?));
            let line: Vec<(f64, f64)> = series.points.iter().filter_map(at).collect();
            let intervals = series.points.iter().filter_map(|point| {
                let (low, high) = point.interval?;
                let x = self.x.at(point.x)?;
                Some(PathElement::new(
                    [(x, self.y.at(low)?), (x, self.y.at(high)?)],
                    series.look.whisker().stroke_width(UNITS),
                ))
            });
            chart.draw_series(intervals)?;
            if series.has_marks {
                chart.draw_series(line.iter().map(|&place| {
                    EmptyElement::at(place) + Polygon::new(mark(series.look), series.look.fill().filled())
                }))?;
            }
            chart.draw_series([PathElement::new(line, stroke(series.look, 2))])?;
        }
        Ok(())
    }
}

impl Bars {
    /// The bars with their title, and `note` below them.
    pub(super) fn figure(&self, note: &str) -> anyhow::Result<Markup> {
        let rows = u32::try_from(self.bars.len())?;
        let drawing = drawing(&self.title, rows * BAR + 52, |canvas| self.draw(canvas))?;
        Ok(framed(&self.title, &html! {}, &drawing, note))
    }

    fn draw(&self, canvas: &Canvas<'_>) -> anyhow::Result<()> {
        let rows = f64::from(u32::try_from(self.bars.len())?);
        let Range { start: left, end: right } = self.axis.range();
        let mut chart = ChartBuilder::on(canvas)
            .margin_left(14 * UNITS)
            .margin_right(12 * UNITS)
            .x_label_area_size(44 * UNITS)
            .build_cartesian_2d(self.axis.clone(), rows..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .axis_style(stroke(Look::Ink, 1))
            .bold_line_style(stroke(Look::Mesh, 1))
            .label_style(text())
            .axis_desc_style(text())
            .set_all_tick_mark_size(4 * UNITS)
            .x_desc(self.axis.label.as_str())
            .draw()?;
        let place = |value: f64| self.axis.at(value).unwrap_or(left);
        for (bar, top) in self.bars.iter().zip((0u32..).map(f64::from)) {
            let (above, below, middle) = (top + 0.52, top + 0.88, top + 0.70);
            let fill = bar.look.fill().filled();
            chart.draw_series([Rectangle::new([(left, above), (place(bar.value), below)], fill)])?;
            let names = [
                Text::new(
                    bar.name.clone(),
                    (left, top + 0.46),
                    text().pos(Pos::new(HPos::Left, VPos::Bottom)),
                ),
                Text::new(
                    bar.text.clone(),
                    (right, top + 0.46),
                    text().pos(Pos::new(HPos::Right, VPos::Bottom)),
                ),
            ];
            chart.draw_series(names)?;
            if let Some((low, high)) = bar.interval {
                let ends = [place(low), place(high)];
                let caps = ends.map(|end| [(end, above + 0.08), (end, below - 0.08)]);
                let lines = [[(ends[0], middle), (ends[1], middle)], caps[0], caps[1]];
                chart.draw_series(
                    lines.map(|line| PathElement::new(line, Look::Ink.whisker().stroke_width(2 * UNITS))),
                )?;
            }
        }
        if let Some(value) = self.reference {
            let line = [(place(value), 0.0), (place(value), rows)];
            chart.draw_series([PathElement::new(line, stroke(Look::Reference, 2))])?;
        }
        Ok(())
    }
}

fn text() -> TextStyle<'static> {
    // plotters takes the height of a line for the size.
    let size = f64::from(TEXT * UNITS) * 1.24;
    FontDesc::new(FontFamily::SansSerif, size, FontStyle::Normal).color(&Look::Ink.fill())
}

fn stroke(look: Look, width: u32) -> ShapeStyle {
    look.line().stroke_width(width * UNITS)
}

/// The corners of a mark in units of the drawing.
fn mark(look: Look) -> Vec<(i32, i32)> {
    let size = f64::from(5 * UNITS);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "corners are at most 1 away, so the size bounds them"
    )]
    let corner = |(x, y): (f64, f64)| ((size * x).round() as i32, (size * y).round() as i32);
    look.mark().into_iter().map(corner).collect()
}

/// An SVG that scales to where it is put.
fn drawing(
    title: &str,
    height: u32,
    draw: impl FnOnce(&Canvas<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Markup> {
    let (width, height) = (WIDTH * UNITS, height * UNITS);
    let mut drawn = String::new();
    {
        let canvas = SVGBackend::with_string(&mut drawn, (width, height)).into_drawing_area();
        draw(&canvas)?;
        canvas.present()?;
    }
    // The element around it has a size in pixels; its own has none.
    let (_, inside) = drawn.split_once('>').unwrap_or_default();
    let inside = themed(inside.trim_end().trim_end_matches("</svg>"));
    Ok(html! {
        svg.plot viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(title) { (PreEscaped(inside)) }
    })
}

fn framed(title: &str, names: &Markup, drawing: &Markup, note: &str) -> Markup {
    html! {
        figure {
            h3 { (title) }
            (names)
            (drawing)
            @if !note.is_empty() { figcaption { (note) } }
        }
    }
}
