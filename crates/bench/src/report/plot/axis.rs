//! Axes, which map a quantity to a pixel, with round ticks whose labels do not touch.

use super::svg::width_px;
use crate::report::record::{Scale, grouped};

/// Largest ratio of values on a linear axis; with a larger one small values would vanish.
const LINEAR_FACTOR_MAX: f64 = 30.0;
/// Least distance between two labels.
const GAP_PX: f64 = 12.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Linear,
    Logarithmic,
}

/// An axis between two positions of the drawing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    form: Form,
    scale: Scale,
    /// Ends of the axis in the scale's units.
    low: f64,
    high: f64,
    from_px: f64,
    to_px: f64,
    pub(super) ticks: Vec<Tick>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) px: f64,
    pub(super) label: String,
}

/// Direction of the labels along the axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Labels {
    /// Side by side.
    Horizontal,
    /// One above the other.
    Vertical,
}

impl Axis {
    /// Makes a logarithmic axis for all positive values.
    pub(super) fn logarithmic(values: &[f64], scale: Scale, px: (f64, f64), labels: Labels) -> Self {
        let positive = || values.iter().filter(|value| **value > 0.0).map(|value| value / scale.factor);
        let (low, high) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
        let (low, high) = if low > high { (1.0, 10.0) } else { (round_down(low), round_up(high)) };
        let high = if high > low { high } else { low * 10.0 };
        Self { form: Form::Logarithmic, scale, low, high, from_px: px.0, to_px: px.1, ticks: Vec::new() }.ticked(labels)
    }

    /// Makes an axis for bars: linear from zero, or logarithmic where the values differ too much for that.
    pub(super) fn for_bars(values: &[f64], scale: Scale, px: (f64, f64)) -> Self {
        let positive = || values.iter().copied().filter(|value| *value > 0.0);
        let (low, high) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
        if high > low * LINEAR_FACTOR_MAX {
            // The axis begins below the least value, so that its bar has a length.
            return Self::logarithmic(&[values, &[low / 3.0]].concat(), scale, px, Labels::Horizontal);
        }
        let high = if high > 0.0 { high / scale.factor } else { 1.0 };
        Self { form: Form::Linear, scale, low: 0.0, high, from_px: px.0, to_px: px.1, ticks: Vec::new() }
            .ticked(Labels::Horizontal)
    }

    /// Returns the title of the axis.
    pub(super) fn title(&self, quantity: &str) -> String {
        let form = if self.form == Form::Logarithmic { " (log)" } else { "" };
        self.scale.titled(quantity) + form
    }

    pub(super) fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the pixel of a quantity in the base unit; one beyond an end is at that end.
    pub(super) fn at(&self, value: f64) -> f64 {
        self.position(value / self.scale.factor)
    }

    fn position(&self, scaled: f64) -> f64 {
        let share = match self.form {
            Form::Linear => (scaled - self.low) / (self.high - self.low),
            Form::Logarithmic => (scaled.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        };
        self.from_px + share.clamp(0.0, 1.0) * (self.to_px - self.from_px)
    }

    /// Adds the finest ticks whose labels do not touch.
    fn ticked(mut self, labels: Labels) -> Self {
        let candidates = match self.form {
            Form::Linear => linear_ticks(self.high),
            Form::Logarithmic => logarithmic_ticks(self.low, self.high),
        };
        for values in candidates {
            let tick = |value: &f64| Tick { px: self.position(*value), label: label(*value) };
            let ticks: Vec<Tick> = values.iter().map(tick).collect();
            if ticks.windows(2).all(|two| are_apart(&two[0], &two[1], labels)) {
                self.ticks = ticks;
                break;
            }
        }
        self
    }
}

fn are_apart(one: &Tick, other: &Tick, labels: Labels) -> bool {
    let needed = match labels {
        Labels::Vertical => 20.0,
        Labels::Horizontal => f64::midpoint(width_px(&one.label), width_px(&other.label)) + GAP_PX,
    };
    (one.px - other.px).abs() >= needed
}

/// Returns candidates of ticks: 1, 2 and 5 of each decade; then 1 of each, of each second one, and so on.
fn logarithmic_ticks(low: f64, high: f64) -> Vec<Vec<f64>> {
    let within = |value: &f64| *value >= low * 0.999 && *value <= high * 1.001;
    let decades = exponent(low)..=exponent(high);
    let fine = decades.clone().flat_map(|exponent| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(exponent)));
    let mut all = vec![fine.filter(within).collect::<Vec<f64>>()];
    for step in 1..12 {
        let decades = decades.clone().step_by(step);
        all.push(decades.map(|exponent| 10f64.powi(exponent)).filter(within).collect());
    }
    all
}

/// Returns candidates of ticks: multiples of 1, 2 or 5 in some decade, the finest first.
fn linear_ticks(high: f64) -> Vec<Vec<f64>> {
    let start = exponent(high) - 1;
    let steps = (start..start + 3).flat_map(|exponent| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(exponent)));
    let multiples =
        |step: f64| (0..100).map(f64::from).map(|n| n * step).take_while(|value| *value <= high * 1.001).collect();
    steps.map(multiples).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "a decimal exponent is small")]
fn exponent(number: f64) -> i32 {
    (number.log10() + 1e-9).floor() as i32
}

fn round_down(number: f64) -> f64 {
    let decade = 10f64.powi(exponent(number));
    [5.0, 2.0].iter().map(|digit| digit * decade).find(|round| *round <= number * 1.000_001).unwrap_or(decade)
}

fn round_up(number: f64) -> f64 {
    let decade = 10f64.powi(exponent(number));
    [1.0, 2.0, 5.0]
        .iter()
        .map(|digit| digit * decade)
        .find(|round| *round >= number * 0.999_999)
        .unwrap_or(decade * 10.0)
}

/// Returns a round number with thin spaces between thousands.
fn label(number: f64) -> String {
    if number < 1.0 && number > 0.0 {
        let decimals = usize::try_from(-exponent(number)).unwrap_or(0);
        return format!("{number:.decimals$}");
    }
    if number < 10.0 && number.fract() > 0.01 { format!("{number:.1}") } else { grouped(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::record::Unit;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| &*tick.label).collect()
    }

    #[test]
    fn a_logarithmic_axis_has_round_ends_and_decades() {
        let axis = Axis::logarithmic(&[0.000_045, 0.38], Unit::Seconds.scale(0.002), (0.0, 200.0), Labels::Vertical);
        assert_eq!(labels(&axis), ["0.1", "1", "10", "100"]);
        assert_eq!(axis.title("time"), "time, ms (log)");
        assert!(axis.at(0.000_045) > 0.0 && axis.at(0.38) < 200.0);
        assert!((axis.at(0.01) - axis.at(0.001) - (axis.at(0.001) - axis.at(0.000_1))).abs() < 1e-6);
    }

    #[test]
    fn labels_never_touch() {
        for (low, high) in [(1.0, 2.0), (0.9, 1.1), (3.0, 3.0), (1e-6, 1e6), (10.0, 127_972.0), (1.0, 1e9)] {
            for width in [150.0, 300.0, 700.0] {
                let axis = Axis::logarithmic(&[low, high], Unit::Count.scale(1.0), (0.0, width), Labels::Horizontal);
                assert!(axis.ticks.len() > 1, "{low} to {high} on {width}: {:?}", labels(&axis));
                assert!(axis.ticks.windows(2).all(|two| are_apart(&two[0], &two[1], Labels::Horizontal)));
            }
        }
    }

    #[test]
    fn bars_are_linear_until_small_ones_would_vanish() {
        let near = Axis::for_bars(&[10.8, 72.2], Unit::Seconds.scale(10.0), (0.0, 300.0));
        assert_eq!((near.at(0.0), near.title("wall")), (0.0, "wall, s".to_owned()));
        assert_eq!(labels(&near), ["0", "10", "20", "30", "40", "50", "60", "70"]);
        let far = Axis::for_bars(&[0.013, 1.352], Unit::Seconds.scale(0.002), (0.0, 300.0));
        assert!(far.title("wall").ends_with("(log)") && far.at(0.013) > 20.0, "{far:?}");
        assert!(Axis::for_bars(&[0.0], Unit::Seconds.scale(0.002), (0.0, 300.0)).at(0.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!([0.05, 0.1, 0.0, 2.5, 20.0, 1000.0].map(label), ["0.05", "0.1", "0", "2.5", "20", "1000"]);
        assert_eq!([10_000.0, 1_000_000.0].map(label), ["10\u{202f}000", "1\u{202f}000\u{202f}000"]);
    }
}
