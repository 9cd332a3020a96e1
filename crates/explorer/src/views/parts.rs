//! Small parts that several pages share.

use std::fmt::Write as _;

use maud::{Markup, html};
use qrcode::{Color, QrCode};

use crate::{amounts, times};

/// An amount in bitcoin.
pub(crate) fn amount(sat: u64) -> Markup {
    html! { span.amount { (bare(sat)) "\u{a0}BTC" } }
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
    html! { (significant) span.zeros { (zeros) } }
}

/// A change of a balance, with its sign.
pub(crate) fn change(sat: i64) -> Markup {
    html! { (change_number(sat)) "\u{a0}BTC" }
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

/// A hash or another long name, which is cut in its middle where there is no room.
pub(crate) fn long_name(text: &str) -> Markup {
    let (head, tail) = text.split_at(text.len() - text.len().min(8));
    html! { span.long { span.head { (head) } span.tail { (tail) } } }
}

/// A link to a transaction.
pub(crate) fn txid(txid: &bitcoin::Txid) -> Markup {
    html! { a.long-link href={ "/tx/" (txid) } { (long_name(&txid.to_string())) } }
}

/// A time in seconds since 1970.
pub(crate) fn time(seconds: u32) -> Markup {
    html! { time datetime=(times::iso(seconds)) { (times::readable(seconds)) " UTC" } }
}

/// A time by its age.
pub(crate) fn age(seconds: u32, now: u64) -> Markup {
    html! { time datetime=(times::iso(seconds)) title={ (times::readable(seconds)) " UTC" } { (times::ago(seconds, now)) } }
}

/// A fee rate.
pub(crate) fn rate(sat_vb: f64) -> Markup {
    html! { span.rate { (amounts::rate(sat_vb)) "\u{a0}sat/vB" } }
}

/// A bar whose length is a share of the whole, in thousandths.
pub(crate) fn bar(thousandths: u64) -> Markup {
    html! {
        svg.share viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            rect width=(thousandths.clamp(4, 1000)) height="10" {}
        }
    }
}

/// A QR code; `None` for a text that is too long for one.
pub(crate) fn qr(text: &str, label: &str) -> Option<Markup> {
    let code = QrCode::new(text).ok()?;
    let width = code.width();
    let mut path = String::new();
    for (at, _) in code.to_colors().iter().enumerate().filter(|(_, color)| **color == Color::Dark) {
        write!(path, "M{} {}h1v1h-1z", at % width, at / width).expect("writing to memory never fails");
    }
    let size = width + 8;
    Some(html! {
        svg.qr viewBox={ "-4 -4 " (size) " " (size) } role="img" aria-label=(label) {
            rect.paper x="-4" y="-4" width=(size) height=(size) {}
            path.ink d=(path) {}
        }
    })
}

/// A term and its description, in a list of facts.
pub(crate) fn fact(term: &str, description: &Markup) -> Markup {
    html! { div { dt { (term) } dd { (description) } } }
}

/// Links between pages of a list: a label and a target, or no target for one that leads nowhere.
pub(crate) fn pager(label: &str, links: &[(&str, Option<String>)]) -> Markup {
    html! {
        nav.pager aria-label=(label) {
            @for (text, target) in links {
                @match target {
                    Some(target) => a href=(target) { (text) },
                    None => span.off { (text) },
                }
            }
        }
    }
}

/// Text as it is, in a box that scrolls.
pub(crate) fn code(text: &str, label: &str) -> Markup {
    html! { pre tabindex="0" aria-label=(label) { (text) } }
}

/// A sign beside something: confirmed, waiting, spent.
pub(crate) fn badge(class: &str, text: &str) -> Markup {
    html! { span class={ "badge " (class) } { (text) } }
}
