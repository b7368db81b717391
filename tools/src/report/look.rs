//! How series differ from each other: by colour, by dashes and by the shape of their marks, so that no two differ by
//! colour alone.
//!
//! plotters knows fixed colours only, and a page has light and dark ones. So a plot is drawn in colours that stand for
//! classes of `style.css`, and these are put in their place in the text of the SVG.

use std::f64::consts::TAU;

use maud::{Markup, html};
use plotters::style::RGBColor;

/// How many looks there are; [`Look::raw`] is the first.
pub(super) const LOOKS: u8 = 7;

/// How a series looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// One of [`LOOKS`].
    Series(u8),
    /// What is expected, or a line to compare with.
    Reference,
    /// Text and axes.
    Ink,
    /// The lines of the mesh.
    Mesh,
}

const STROKE: u8 = 1;
const FILL: u8 = 2;
const WHISKER: u8 = 3;

impl Look {
    /// The look of raw, in every plot.
    pub(super) fn raw() -> Look {
        Look::Series(0)
    }

    /// The look of a place in a list, those after the last beginning anew.
    pub(super) fn of(place: usize) -> Look {
        let place = place % usize::from(LOOKS);
        Look::Series(u8::try_from(place).unwrap_or(0))
    }

    fn number(self) -> u8 {
        match self {
            Look::Series(number) => number,
            Look::Reference => LOOKS,
            Look::Ink => LOOKS + 1,
            Look::Mesh => LOOKS + 2,
        }
    }

    fn name(self) -> String {
        match self {
            Look::Series(number) => number.to_string(),
            Look::Reference => "reference".to_owned(),
            Look::Ink => "ink".to_owned(),
            Look::Mesh => "mesh".to_owned(),
        }
    }

    fn all() -> impl Iterator<Item = Look> {
        (0..LOOKS).map(Look::Series).chain([Look::Reference, Look::Ink, Look::Mesh])
    }

    /// The colour that stands for lines.
    pub(super) fn line(self) -> RGBColor {
        RGBColor(STROKE, STROKE, self.number())
    }

    /// The colour that stands for lines that are never dashed.
    pub(super) fn whisker(self) -> RGBColor {
        RGBColor(WHISKER, WHISKER, self.number())
    }

    /// The colour that stands for areas, marks and text.
    pub(super) fn fill(self) -> RGBColor {
        RGBColor(FILL, FILL, self.number())
    }

    /// The corners of the mark around (0, 0), at most 1 away.
    pub(super) fn mark(self) -> Vec<(f64, f64)> {
        let (corners, turn) = match self {
            Look::Series(1) => (4, 0.125),
            Look::Series(2) => (3, 0.75),
            Look::Series(3) => (4, 0.0),
            Look::Series(4) => (3, 0.25),
            Look::Series(5) => (5, 0.75),
            Look::Series(6) => (6, 0.0),
            Look::Series(_) | Look::Reference | Look::Ink | Look::Mesh => (16, 0.0),
        };
        let corner = |at: u8| {
            let angle = TAU * (f64::from(at) / f64::from(corners) + turn);
            (angle.cos(), angle.sin())
        };
        (0..corners).map(corner).collect()
    }

    /// The look beside a name.
    pub(super) fn swatch(self, with_mark: bool) -> Markup {
        let corners: Vec<String> = self
            .mark()
            .into_iter()
            .map(|(x, y)| format!("{:.2},{:.2}", 18.0 + 4.5 * x, 6.0 + 4.5 * y))
            .collect();
        html! {
            svg.swatch viewBox="0 0 36 12" aria-hidden="true" {
                line class={ "line-" (self.name()) } x1="1" y1="6" x2="35" y2="6" {}
                @if with_mark { polygon class={ "fill-" (self.name()) } points=(corners.join(" ")) {} }
            }
        }
    }
}

/// Puts classes in the place of the colours that stand for them.
pub(super) fn themed(svg: &str) -> String {
    Look::all().fold(svg.to_owned(), |svg, look| {
        let hex = |RGBColor(red, green, blue): RGBColor| format!("#{red:02X}{green:02X}{blue:02X}");
        let class = |attribute: &str, color: RGBColor, class: &str| {
            // In the text of an SVG a quotation mark is escaped, so no label can be taken for an attribute.
            (format!("{attribute}=\"{}\"", hex(color)), format!("class=\"{class}-{}\"", look.name()))
        };
        let classes = [
            class("stroke", look.line(), "line"),
            class("stroke", look.whisker(), "whisker"),
            class("fill", look.fill(), "fill"),
        ];
        classes.iter().fold(svg, |svg, (color, class)| svg.replace(color, class))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: &str = include_str!("style.css");

    /// The colour of a variable, for light pages or for dark ones.
    fn color(name: &str, is_dark: bool) -> [f64; 3] {
        let (light, dark) = STYLE.split_once("prefers-color-scheme: dark").expect("two schemes");
        let scheme = if is_dark { dark } else { light };
        let (_, rest) = scheme.split_once(&format!("--{name}: #")).expect("the variable is there");
        [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&rest[at..at + 2], 16).expect("six digits")) / 255.0)
    }

    /// WCAG 2.1, relative luminance and contrast ratio.
    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let linear =
            |part: f64| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
        let luminance = |color: [f64; 3]| {
            let [red, green, blue] = color.map(linear);
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn text_and_lines_stand_out_from_the_page_in_light_and_dark() {
        let series: Vec<String> = (0..LOOKS).map(|number| format!("series-{number}")).collect();
        let lines = series.iter().map(|name| (name.as_str(), 3.0)).chain([("reference", 3.0)]);
        let texts = ["ink", "soft", "better", "worse"].map(|name| (name, 4.5));
        for (name, least) in lines.chain(texts) {
            for (ground, is_dark) in [("page", false), ("card", false), ("page", true), ("card", true)] {
                let found = contrast(color(name, is_dark), color(ground, is_dark));
                assert!(found >= least, "{name} on {ground}, dark: {is_dark}: {found:.2}");
            }
        }
    }

    #[test]
    fn colours_that_stand_for_classes_are_replaced_and_texts_are_not() {
        let look = Look::Series(2);
        let hex = |RGBColor(red, green, blue): RGBColor| format!("#{red:02X}{green:02X}{blue:02X}");
        let (line, fill, whisker) = (hex(look.line()), hex(look.fill()), hex(look.whisker()));
        let svg = format!(
            "<g stroke=\"{line}\"/><g fill=\"{fill}\"/><g stroke=\"{whisker}\"/><text>stroke=&quot;{line}&quot;</text>"
        );
        let wanted = format!(
            "<g class=\"line-2\"/><g class=\"fill-2\"/><g class=\"whisker-2\"/><text>stroke=&quot;{line}&quot;</text>"
        );
        assert_eq!(themed(&svg), wanted);
    }

    #[test]
    fn looks_differ_in_marks_and_every_class_is_in_the_style() {
        for one in Look::all() {
            for class in [format!(".line-{}", one.name()), format!(".fill-{}", one.name())] {
                let is_drawn = match one {
                    Look::Series(_) => true,
                    Look::Reference | Look::Mesh => class.starts_with(".line"),
                    Look::Ink => class.starts_with(".fill"),
                };
                assert!(
                    !is_drawn || [" ", ","].iter().any(|end| STYLE.contains(&format!("{class}{end}"))),
                    "{class}"
                );
            }
        }
        let marks: Vec<_> = (0..LOOKS).map(|number| Look::Series(number).mark()).collect();
        for (place, mark) in marks.iter().enumerate() {
            assert!(!marks[..place].contains(mark), "look {place}");
        }
    }
}
