//! Small parts of pages.

use std::fmt::Write as _;

use maud::{Markup, html};
use qrcode::{Color, QrCode};

/// A hash or another long name, which is cut in its middle where there is no room.
pub fn long_name(text: &str) -> Markup {
    let (head, tail) = text.split_at(text.len() - text.len().min(8));
    html! { span.long { span.head { (head) } span.tail { (tail) } } }
}

/// A bar whose length is a share of the whole, in thousandths.
pub fn bar(thousandths: u64) -> Markup {
    html! {
        svg.share viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            rect width=(thousandths.clamp(4, 1000)) height="10" {}
        }
    }
}

/// A QR code; `None` for a text that is too long for one.
pub fn qr(text: &str, label: &str) -> Option<Markup> {
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
pub fn fact(term: &str, description: &Markup) -> Markup {
    html! { div { dt { (term) } dd { (description) } } }
}

/// Links between pages of a list: a label and a target, or no target for one that leads nowhere.
pub fn pager(label: &str, links: &[(&str, Option<String>)]) -> Markup {
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
pub fn code(text: &str, label: &str) -> Markup {
    html! { pre tabindex="0" aria-label=(label) { (text) } }
}

/// A sign beside something: confirmed, waiting, spent.
pub fn badge(class: &str, text: &str) -> Markup {
    html! { span class={ "badge " (class) } { (text) } }
}

/// Returns a text with a capital letter at its start and a full stop at its end.
pub fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

#[test]
fn a_text_becomes_a_sentence() {
    assert_eq!(sentence("the node is busy"), "The node is busy.");
    assert_eq!(sentence("There is no such page."), "There is no such page.");
}
