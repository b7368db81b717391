//! Where values are along a side of a plot, and which of them are written beside it.

use std::ops::Range;

use plotters::coord::ranged1d::{BoldPoints, KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

/// How many values are written beside an axis, about.
const TICKS: usize = 6;

/// The largest value an axis goes to, and the shortest axis, for each 1 that its least value has.
const LARGEST: f64 = 1e12;
const SMALLEST: f64 = 1e-6;

/// Where zero is on an axis of counts, on which 1 is at 0 and 10 at 1.
const PLACE_OF_ZERO: f64 = -0.5;

/// A side of a plot.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// What is measured along it.
    pub(super) label: String,
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Log,
    /// Logarithmic, with a place for zero.
    Counts,
}

impl Axis {
    /// From the least to the largest of `values`, and a little more.
    pub(super) fn linear(label: &str, values: impl IntoIterator<Item = f64>) -> Axis {
        let (low, high) = span(values);
        let margin = if high > low { 0.06 * (high - low) } else { 0.5 * low.abs().max(1e-3) };
        // Nothing that is counted or a share is below zero.
        let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        Axis::between(label, (low - margin).max(floor), high + margin)
    }

    /// From `low` to `high`, which is larger.
    pub(super) fn between(label: &str, low: f64, high: f64) -> Axis {
        // Steps are found for what has a sensible size only; whatever is beyond the ends is drawn there.
        let [low, high] = [low, high].map(|end| end.clamp(-LARGEST, LARGEST));
        let high = high.max(low + SMALLEST * low.abs().max(1.0));
        let values = RangedCoordf64::from(low..high).key_points(BoldPoints(TICKS));
        let step = values.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        let digits = (0..9).find(|&digits| step >= 0.999 * 10f64.powi(-digits)).unwrap_or(9);
        let digits = usize::try_from(digits).unwrap_or(0);
        let text = |value: f64| {
            // Not "-0".
            let value = if value.abs() < step / 2.0 { 0.0 } else { value };
            (value, format!("{value:.digits$}"))
        };
        let ticks = values.into_iter().map(text).collect();
        Axis { label: label.to_owned(), scale: Scale::Linear, low, high, ticks }
    }

    /// Logarithmic, over values larger than 0.
    pub(super) fn log(label: &str, values: impl IntoIterator<Item = f64>) -> Axis {
        let (low, high) = span(values.into_iter().filter(|&value| value > 0.0).map(f64::log10));
        let margin = 0.05 * (high - low).max(0.4);
        let (low, high) = (low - margin, high + margin);
        Axis { label: label.to_owned(), scale: Scale::Log, low, high, ticks: decades(low, high) }
    }

    /// Logarithmic, over counts from 0 to `most`.
    pub(super) fn counts(label: &str, most: f64) -> Axis {
        let high = most.max(10.0).log10() + 0.1;
        let mut ticks = decades(0.0, high);
        ticks.insert(0, (PLACE_OF_ZERO, "0".to_owned()));
        let low = PLACE_OF_ZERO - 0.12;
        Axis { label: label.to_owned(), scale: Scale::Counts, low, high, ticks }
    }

    /// Linear if the values are within a decade, else logarithmic.
    pub(super) fn of_parameter(label: &str, values: &[f64]) -> Axis {
        let (low, high) = span(values.iter().copied());
        if low > 0.0 && high / low >= 8.0 {
            Axis::log(label, values.iter().copied())
        } else {
            Axis::linear(label, values.iter().copied())
        }
    }

    /// Where a value is; none if it has no place.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear => value,
            Scale::Counts if value < 1.0 => PLACE_OF_ZERO,
            Scale::Log | Scale::Counts => value.log10(),
        };
        place.is_finite().then(|| place.clamp(self.low, self.high))
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.low..self.high).map(place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.iter().map(|tick| tick.0).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(place: &f64) -> String {
        place.to_string()
    }

    fn format_ext(&self, place: &f64) -> String {
        self.ticks.iter().find(|tick| tick.0 == *place).map_or(String::new(), |tick| tick.1.clone())
    }
}

/// The least and the largest.
fn span(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let values = values.into_iter().filter(|value| value.is_finite());
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Values to write between two powers of ten: 1, 2 and 5 of each, or the powers, or some of them.
fn decades(low: f64, high: f64) -> Vec<(f64, String)> {
    #[expect(clippy::cast_possible_truncation, reason = "logarithms of 64-bit floats are within ±324")]
    let powers = low.floor() as i32..=high.ceil() as i32;
    let of = |factors: &[f64], every: usize| -> Vec<(f64, String)> {
        let values = powers.clone().step_by(every);
        let values = values.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        let inside = values.filter(|value| (low..=high).contains(&value.log10()));
        inside.map(|value| (value.log10(), short(value))).collect()
    };
    let every = powers.clone().count().div_ceil(TICKS);
    let choices = [of(&[1.0, 2.0, 5.0], 1), of(&[1.0], 1)];
    let few = choices.into_iter().find(|ticks| (2..=TICKS + 1).contains(&ticks.len()));
    few.unwrap_or_else(|| of(&[1.0], every))
}

/// A value of a logarithmic axis in few characters.
fn short(value: f64) -> String {
    if !(0.99e-3..1e6).contains(&value) {
        format!("{value:.0e}")
    } else if value >= 0.99e3 {
        format!("{}k", value.round() / 1e3)
    } else if value >= 0.99 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}").trim_end_matches('0').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.1.as_str()).collect()
    }

    #[test]
    fn values_beside_an_axis_are_few_and_have_the_digits_they_need() {
        let cases = [
            (Axis::between("", 0.0, 1.0), "0.0 0.2 0.4 0.6 0.8 1.0"),
            (Axis::between("", -1.0, 1.0), "-1.0 -0.5 0.0 0.5 1.0"),
            (Axis::linear("", [0.283, 0.341]), "0.28 0.30 0.32 0.34"),
            (Axis::linear("", [3.0, f64::NAN]), "2 3 4"),
            (Axis::linear("", []), "0.0 0.2 0.4 0.6 0.8 1.0"),
            (Axis::log("", [5.0, 100.0, 0.0, f64::NAN]), "5 10 20 50 100"),
            (Axis::log("", [1e-4, 0.5]), "1e-4 0.001 0.01 0.1"),
            (Axis::log("", [900.0, 9000.0]), "1k 2k 5k 10k"),
            (Axis::log("", [1e-300, 1e300]), "1e-219 1e-108 1k 1e114 1e225"),
            (Axis::linear("", [-1e308, 1e308]), "-1000000000000 -500000000000 0 500000000000 1000000000000"),
            (Axis::linear("", [0.0, 1e-300]), "0.0000000 0.0000002 0.0000004 0.0000006 0.0000008 0.0000010"),
            (Axis::counts("", 900.0), "0 1 10 100 1k"),
            (Axis::of_parameter("", &[1.0, 2.0]), "1.0 1.2 1.4 1.6 1.8 2.0"),
            (Axis::of_parameter("", &[4.0, 64.0]), "5 10 20 50"),
        ];
        for (axis, wanted) in cases {
            assert_eq!(texts(&axis).join(" "), wanted, "{axis:?}");
        }
    }

    #[test]
    fn every_value_has_a_place_between_the_ends_and_what_is_no_number_has_none() {
        let counts = Axis::counts("", 50.0);
        assert_eq!(counts.at(0.0), Some(PLACE_OF_ZERO));
        assert_eq!(counts.at(10.0), Some(1.0));
        assert_eq!(counts.at(f64::NAN), None);
        assert_eq!(Axis::between("", 0.0, 1.0).at(2.0), Some(1.0));
        assert_eq!(Axis::log("", [1.0, 10.0]).at(0.0), None);
    }
}
