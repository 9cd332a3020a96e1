//! A drawing of the values that flow through a transaction: bands from its inputs to its outputs and fee.

use birdhouse_chain::ResolvedTransaction;
use birdhouse_web::amounts;
use maud::{Markup, html};

/// Bands on one side; the rest is one more.
const BANDS_MAX: usize = 12;
/// Units of the drawing: its width, the thickness of all bands together, of the thinnest, and between two.
const WIDTH: f64 = 720.0;
const THICKNESS: f64 = 110.0;
const THINNEST: f64 = 2.0;
const GAP: f64 = 10.0;
/// Length of the bars at both ends.
const BAR: f64 = 10.0;

/// Values of a transaction, from its inputs to its outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    /// In satoshis.
    inputs: Vec<u64>,
    outputs: Vec<u64>,
    fee: u64,
}

/// One band: its class, its name and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Band {
    class: &'static str,
    name: String,
    value: u64,
}

/// A band with its place: at its end and in the middle of the drawing, from top to bottom.
#[derive(Debug, Clone, PartialEq)]
struct Placed {
    band: Band,
    end: (f64, f64),
    middle: (f64, f64),
}

/// Distances of a side from the top of the drawing: at its end, and in the middle.
#[derive(Debug, Clone, Copy)]
struct Offsets {
    end: f64,
    middle: f64,
}

/// The x coordinates between which a band lies: from its bar to the middle.
#[derive(Debug, Clone, Copy)]
struct Reach {
    from: f64,
    to: f64,
}

impl Flow {
    /// Returns `None` where what the transaction spends is unknown.
    pub(crate) fn of(found: &ResolvedTransaction) -> Option<Self> {
        let fee = found.fee()?;
        Some(Self {
            inputs: found.prevouts.iter().map(|output| output.value.to_sat()).collect(),
            outputs: found.transaction.output.iter().map(|output| output.value.to_sat()).collect(),
            fee,
        })
    }

    fn sides(&self) -> (Vec<Band>, Vec<Band>) {
        let paid: u64 = self.outputs.iter().sum();
        let mut inputs = bands("input", &self.inputs);
        if inputs.is_empty() {
            inputs.push(Band { class: "input", name: "New coins and fees".into(), value: paid });
        }
        let mut outputs = bands("output", &self.outputs);
        if self.fee > 0 {
            outputs.push(Band { class: "fee", name: "Fee".into(), value: self.fee });
        }
        (inputs, outputs)
    }
}

/// One band for each value; the last one has the rest of many.
fn bands(class: &'static str, values: &[u64]) -> Vec<Band> {
    let noun = if class == "input" { "Input" } else { "Output" };
    let own = values.iter().take(BANDS_MAX).enumerate();
    let mut bands: Vec<Band> =
        own.map(|(index, value)| Band { class, name: format!("{noun} {index}"), value: *value }).collect();
    let rest = &values[bands.len()..];
    if !rest.is_empty() {
        bands.push(Band { class, name: format!("{} more {class}s", rest.len()), value: rest.iter().sum() });
    }
    bands
}

/// Places the bands of one side below each other; returns them with the height of the side.
#[expect(clippy::cast_precision_loss, reason = "all bitcoin together are below 2^51 satoshis")]
fn placed(bands: Vec<Band>) -> (Vec<Placed>, f64) {
    let total = bands.iter().map(|band| band.value).sum::<u64>().max(1) as f64;
    let (mut end, mut middle) = (0.0, 0.0);
    let mut all = Vec::with_capacity(bands.len());
    for band in bands {
        let share = band.value as f64 / total * THICKNESS;
        let thickness = share.max(THINNEST);
        all.push(Placed { band, end: (end, end + thickness), middle: (middle, middle + share) });
        end += thickness + GAP;
        middle += share;
    }
    (all, end - GAP)
}

/// Returns the drawing.
pub(crate) fn drawing(flow: &Flow) -> Markup {
    let (inputs, outputs) = flow.sides();
    let label = label(flow, &inputs);
    let ((inputs, left), (outputs, right)) = (placed(inputs), placed(outputs));
    let height = left.max(right).max(THICKNESS);
    let offsets = |side: f64| Offsets { end: (height - side) / 2.0, middle: (height - THICKNESS) / 2.0 };
    html! {
        svg.flow viewBox={ "0 0 " (WIDTH) " " (format!("{height:.1}")) } role="img" aria-label=(label) {
            @for placed in &inputs { (band(placed, offsets(left), Reach { from: BAR, to: WIDTH / 2.0 })) }
            @for placed in &outputs { (band(placed, offsets(right), Reach { from: WIDTH - BAR, to: WIDTH / 2.0 })) }
        }
    }
}

fn label(flow: &Flow, inputs: &[Band]) -> String {
    let total: u64 = inputs.iter().map(|band| band.value).sum();
    let number = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let fee = if flow.fee > 0 { format!(" and a fee of {} BTC", amounts::bitcoin(flow.fee)) } else { String::new() };
    let outputs = number(flow.outputs.len(), "output");
    format!("{} BTC flow from {} to {outputs}{fee}", amounts::bitcoin(total), number(flow.inputs.len().max(1), "input"))
}

/// A bar at the end of a band and its curve to the middle.
fn band(placed: &Placed, offsets: Offsets, Reach { from, to }: Reach) -> Markup {
    let Offsets { end, middle } = offsets;
    let half = f64::midpoint(from, to);
    let (top, bottom) = (placed.end.0 + end, placed.end.1 + end);
    let (inner_top, inner_bottom) = (placed.middle.0 + middle, placed.middle.1 + middle);
    let path = format!(
        "M{from:.1} {top:.1}C{half:.1} {top:.1} {half:.1} {inner_top:.1} {to:.1} {inner_top:.1}V{inner_bottom:.1}\
         C{half:.1} {inner_bottom:.1} {half:.1} {bottom:.1} {from:.1} {bottom:.1}Z"
    );
    let bar = if from < to { 0.0 } else { from };
    let Band { class, name, value } = &placed.band;
    html! {
        g class=(class) {
            title { (name) ": " (amounts::bitcoin(*value)) " BTC" }
            path d=(path) {}
            rect x=(bar) y=(format!("{top:.1}")) width=(BAR) height=(format!("{:.1}", bottom - top)) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_of_both_sides_fill_the_middle_and_none_vanishes() {
        let flow = Flow { inputs: vec![100_000, 1], outputs: vec![60_000, 39_001], fee: 1_000 };
        let (inputs, outputs) = flow.sides();
        assert_eq!((inputs.len(), outputs.len()), (2, 3));
        for side in [inputs, outputs] {
            let (placed, height) = placed(side);
            assert!((placed.last().expect("a band").middle.1 - THICKNESS).abs() < 1e-6);
            assert!(placed.iter().all(|one| one.end.1 - one.end.0 >= THINNEST), "{placed:?}");
            assert!((height - placed.last().expect("a band").end.1).abs() < 1e-6);
        }
        let label = label(&flow, &flow.sides().0);
        assert_eq!(label, "0.00100001 BTC flow from 2 inputs to 2 outputs and a fee of 0.00001000 BTC");
    }

    #[test]
    fn many_outputs_share_the_last_band() {
        let flow = Flow { inputs: vec![50], outputs: vec![1; 50], fee: 0 };
        let (_, outputs) = flow.sides();
        assert_eq!((outputs.len(), outputs.last().map(|band| band.value)), (BANDS_MAX + 1, Some(38)));
    }
}
