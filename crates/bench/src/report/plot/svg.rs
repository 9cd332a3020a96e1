//! Small parts of drawings.

use maud::{Markup, html};

/// What a character of the plots' text (12 px) takes at most, on average: fonts differ.
const CHARACTER_PX: f64 = 7.2;
const COLOURS: usize = 8;
/// Half of a mark's width.
const MARK_PX: f64 = 4.5;

/// Where a text stands about its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing of so many pixels.
pub(super) fn drawing(width: f64, height: f64, label: &str, content: &Markup) -> Markup {
    html! {
        svg width=(px(width)) height=(px(height)) viewBox={ "0 0 " (px(width)) " " (px(height)) } role="img" aria-label=(label) {
            (content)
        }
    }
}

/// `y` is the line on which the text stands.
pub(super) fn text(x: f64, y: f64, anchor: Anchor, class: &str, content: &str) -> Markup {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    html! { text.(class) x=(px(x)) y=(px(y)) text-anchor=(anchor) { (content) } }
}

pub(super) fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) -> Markup {
    html! { line.(class) x1=(px(x1)) y1=(px(y1)) x2=(px(x2)) y2=(px(y2)) {} }
}

/// A server's mark: colour and shape, for who cannot tell colours apart.
pub(super) fn mark(x: f64, y: f64, place: usize) -> Markup {
    let r = MARK_PX;
    let class = colour(place);
    let path = |points: &[(f64, f64)]| {
        let points: Vec<String> = points.iter().map(|(dx, dy)| format!("{},{}", px(x + dx), px(y + dy))).collect();
        html! { polygon.(class) points=(points.join(" ")) {} }
    };
    match place % 4 {
        0 => html! { circle.(class) cx=(px(x)) cy=(px(y)) r=(px(r)) {} },
        1 => path(&[(-r, -r), (r, -r), (r, r), (-r, r)]),
        2 => path(&[(0.0, -r * 1.2), (r * 1.2, r), (-r * 1.2, r)]),
        _ => path(&[(0.0, -r * 1.3), (r * 1.3, 0.0), (0.0, r * 1.3), (-r * 1.3, 0.0)]),
    }
}

/// A mark for a legend.
pub(crate) fn swatch(place: usize) -> Markup {
    html! { svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true" { (mark(7.0, 7.0, place)) } }
}

/// The class of a server's colour.
pub(super) fn colour(place: usize) -> String {
    format!("s{}", place % COLOURS)
}

/// Pixels as SVG writes them.
pub(super) fn px(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The most that a text may take.
pub(super) fn width_px(text: &str) -> f64 {
    times(text.chars().count(), CHARACTER_PX)
}

/// So many times a length.
#[expect(clippy::cast_precision_loss, reason = "characters of a label, or rows of a table")]
pub(super) fn times(count: usize, length_px: f64) -> f64 {
    count as f64 * length_px
}

/// The text, or its beginning and an ellipsis.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width of a page, not negative")]
pub(super) fn fitted(text: &str, most_px: f64) -> String {
    let fitting = (most_px.max(0.0) / CHARACTER_PX) as usize;
    if text.chars().count() <= fitting {
        return text.to_owned();
    }
    text.chars().take(fitting.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_ends_in_an_ellipsis() {
        assert_eq!(fitted("feed-150", 100.0), "feed-150");
        assert_eq!(fitted("feed-150-dense-and-long", 72.0), "feed-150-…");
        assert!(width_px(&fitted("feed-150-dense-and-long", 72.0)) <= 72.0);
    }

    #[test]
    fn neighbours_differ_in_shape_and_colour() {
        let marks: Vec<String> = (0..8).map(|place| mark(0.0, 0.0, place).into_string()).collect();
        for (place, one) in marks.iter().enumerate() {
            assert!(!marks[..place].contains(one), "{one}");
        }
    }
}
