//! Small parts that several pages share.

use birdhouse_web::amounts;
pub(crate) use birdhouse_web::parts::{badge, bar, code, fact, long_name, pager, qr};
use bitcoin::{OutPoint, Txid};
use maud::{Markup, html};

use crate::times;

/// Inputs, or outputs, on a page of a transaction.
pub(crate) const PARTS_PAGE: u32 = 50;

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListPart {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) count: usize,
    /// Entries of a full page.
    pub(crate) most: usize,
}

impl ListPart {
    /// The entries of the page with their indexes.
    pub(crate) fn slice<T>(self, all: &[T]) -> impl Iterator<Item = (usize, &T)> + use<'_, T> {
        all.iter().enumerate().skip(self.start).take(self.end - self.start)
    }

    /// The heading of the list: `1\u{2013}50 of 120 inputs`.
    pub(crate) fn heading(self, noun: &str) -> Markup {
        html! {
            @if self.start > 0 || self.end < self.count { (self.start + 1) "\u{2013}" (self.end) " of " }
            (amounts::count(self.count as u64)) " " (noun) @if self.count != 1 { "s" }
        }
    }

    /// Links to the parts before and after it, whose addresses `target` makes from the index of their first entry.
    pub(crate) fn links(self, label: &str, target: impl Fn(usize) -> String) -> Markup {
        let links = [
            ("Before", (self.start > 0).then(|| target(self.start.saturating_sub(self.most)))),
            ("After", (self.end < self.count).then(|| target(self.end))),
        ];
        html! { @if self.count > self.most { (pager(label, &links)) } }
    }
}

/// An amount in bitcoin.
pub(crate) fn amount(sat: u64) -> Markup {
    html! { span.amount { (bare(sat)) " " (unit()) } }
}

/// The unit of amounts, which a script can switch.
pub(crate) fn unit() -> Markup {
    html! { span.unit { "BTC" } }
}

/// The head of a column of amounts.
pub(crate) fn amounts_head(name: &str) -> Markup {
    html! { (name) " (" (unit()) ")" }
}

/// An amount in a column whose head has the unit.
pub(crate) fn number(sat: u64) -> Markup {
    html! { span.amount { (bare(sat)) } }
}

/// The digits of an amount. Zeros at its end are paler.
fn bare(sat: u64) -> Markup {
    let text = amounts::bitcoin(sat);
    let significant = text.trim_end_matches('0').trim_end_matches('.');
    let zeros = &text[significant.len()..];
    html! { span data-sat=(sat) { (significant) span.zeros { (zeros) } } }
}

/// A change of a balance, with its sign.
pub(crate) fn change(sat: i64) -> Markup {
    html! { (change_number(sat)) "\u{a0}" (unit()) }
}

/// A change in a column whose head has the unit.
pub(crate) fn change_number(sat: i64) -> Markup {
    let (class, sign) = match sat {
        0 => ("", ""),
        1.. => ("plus", "+"),
        _ => ("minus", "\u{2212}"),
    };
    html! { span class={ "change " (class) } { (sign) (number(sat.unsigned_abs())) } }
}

/// A link to a transaction.
pub(crate) fn txid(txid: &Txid) -> Markup {
    html! { a.long-link href={ "/tx/" (txid) } { (long_name(&txid.to_string())) } }
}

/// A link to an output.
pub(crate) fn outpoint(outpoint: &OutPoint) -> Markup {
    let OutPoint { txid, vout } = outpoint;
    html! { a.long-link href=(output_path(outpoint)) { (long_name(&txid.to_string())) ":" (vout) } }
}

/// The path of an output on the page of its transaction.
pub(crate) fn output_path(OutPoint { txid, vout }: &OutPoint) -> String {
    part_path(txid, "output", *vout)
}

/// The path of an input on the page of its transaction.
pub(crate) fn input_path(txid: &Txid, vin: u32) -> String {
    part_path(txid, "input", vin)
}

fn part_path(txid: &Txid, noun: &str, index: u32) -> String {
    match index / PARTS_PAGE * PARTS_PAGE {
        0 => format!("/tx/{txid}#{noun}-{index}"),
        start => format!("/tx/{txid}?{noun}s={start}#{noun}-{index}"),
    }
}

/// A link to an address.
pub(crate) fn address(address: &str) -> Markup {
    html! { a.long-link href={ "/address/" (address) } { (long_name(address)) } }
}

/// A time in seconds since 1970.
pub(crate) fn time(seconds: u32) -> Markup {
    html! { time datetime=(times::iso(seconds)) { (times::readable(seconds)) " UTC" } }
}

/// The time at which this server first saw something, in seconds since 1970.
pub(crate) fn seen(seconds: u64) -> Markup {
    time(u32::try_from(seconds).unwrap_or(u32::MAX))
}

/// A time by its age.
pub(crate) fn age(seconds: u32, now: u64) -> Markup {
    html! { time datetime=(times::iso(seconds)) title={ (times::readable(seconds)) " UTC" } { (times::ago(seconds, now)) } }
}

/// A fee rate.
pub(crate) fn rate(sat_vb: f64) -> Markup {
    html! { span.rate { (amounts::rate(sat_vb)) "\u{a0}sat/vB" } }
}
