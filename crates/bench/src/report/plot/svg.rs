//! Elements of drawings.

use maud::{Markup, html};

/// Average width of a character of the plots' text (12 px) in a wide font.
const CHARACTER_PX: f64 = 7.2;
const COLOURS: usize = 8;
/// Half of a mark's width.
const MARK_PX: f64 = 4.5;

/// Alignment of a text at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Makes a drawing of this size in pixels.
pub(super) fn drawing(width: f64, height: f64, label: &str, content: &Markup) -> Markup {
    let (width, height) = (px(width), px(height));
    html! {
        svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(label) {
            (content)
        }
    }
}

/// Makes a text; `y` is its baseline.
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

/// Makes a server's mark, with a colour and a shape, because not everyone can distinguish the colours.
pub(super) fn mark(x: f64, y: f64, index: usize) -> Markup {
    let r = MARK_PX;
    let class = colour(index);
    let path = |points: &[(f64, f64)]| {
        let points: Vec<String> = points.iter().map(|(dx, dy)| format!("{},{}", px(x + dx), px(y + dy))).collect();
        html! { polygon.(class) points=(points.join(" ")) {} }
    };
    match index % 4 {
        0 => html! { circle.(class) cx=(px(x)) cy=(px(y)) r=(px(r)) {} },
        1 => path(&[(-r, -r), (r, -r), (r, r), (-r, r)]),
        2 => path(&[(0.0, -r * 1.2), (r * 1.2, r), (-r * 1.2, r)]),
        _ => path(&[(0.0, -r * 1.3), (r * 1.3, 0.0), (0.0, r * 1.3), (-r * 1.3, 0.0)]),
    }
}

/// Makes a mark for a legend.
pub(crate) fn swatch(index: usize) -> Markup {
    html! { svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true" { (mark(7.0, 7.0, index)) } }
}

/// Returns the class of a server's colour.
pub(super) fn colour(index: usize) -> String {
    format!("s{}", index % COLOURS)
}

/// Returns pixels as SVG writes them.
pub(super) fn px(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Returns the largest width of a text.
pub(super) fn width_px(text: &str) -> f64 {
    times(text.chars().count(), CHARACTER_PX)
}

/// Multiplies a length.
#[expect(clippy::cast_precision_loss, reason = "characters of a label, or rows of a table")]
pub(super) fn times(count: usize, length_px: f64) -> f64 {
    count as f64 * length_px
}

/// Returns the text, or its beginning and an ellipsis.
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
        let marks: Vec<String> = (0..8).map(|index| mark(0.0, 0.0, index).into_string()).collect();
        for (index, one) in marks.iter().enumerate() {
            assert!(!marks[..index].contains(one), "{one}");
        }
    }
}
