//! Charts of values over time, such as a balance.

use std::fmt::Write as _;

use birdhouse_web::amounts;
use maud::{Markup, html};

use crate::times;

/// Units of the drawing.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 140.0;

/// A value, from this time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    /// In seconds since 1970.
    pub(crate) time: u32,
    /// Satoshis, or the unit of its chart.
    pub(crate) value: u64,
}

/// A chart of points, the oldest first, up to a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chart<'a> {
    /// The id of its heading.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// Noun for the points, such as "values".
    pub(crate) noun: &'static str,
    pub(crate) points: &'a [Point],
    pub(crate) until: u32,
    /// Writes a value with its unit.
    pub(crate) text: fn(u64) -> String,
    /// Writes a time at an end of the chart.
    pub(crate) date: fn(u32) -> String,
}

/// The balance of an address or a wallet over time, or the reason for which there is no chart of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BalanceChart {
    /// After each change.
    Points(Vec<Point>),
    /// The histories have more entries than this.
    TooLong(usize),
    /// The history takes more reads than a page may.
    Costly,
    /// The node has removed the block of an entry, or of what it spends.
    Removed,
    /// Another page has it.
    Elsewhere,
}

impl BalanceChart {
    /// Returns the chart up to a time, or a sentence in its stead.
    pub(crate) fn markup(&self, until: u32) -> Markup {
        let reason = match self {
            Self::Points(points) => return chart(points, until),
            Self::Elsewhere => return html! {},
            Self::TooLong(most) => format!("more than {} entries", amounts::count(*most as u64)),
            Self::Costly => "entries in many parts of the index".to_owned(),
            Self::Removed => "entries in blocks that the node has deleted".to_owned(),
        };
        html! { p.quiet { "No chart of the balance over time: the history has " (reason) "." } }
    }
}

/// The chart of a balance in satoshis; nothing for less than two points.
fn chart(points: &[Point], until: u32) -> Markup {
    let text = |satoshis| format!("{} BTC", amounts::bitcoin(satoshis));
    let (id, title, noun) = ("chart", "Balance over time", "changes of the balance");
    Chart { id, title, noun, points, until, text, date }.markup()
}

impl Chart<'_> {
    /// The drawing with its heading; nothing for less than two points.
    pub(crate) fn markup(self) -> Markup {
        let Self { id, title, points, until, text, date, .. } = self;
        html! {
            @if let [first, .., last] = points {
                section aria-labelledby=(id) {
                    h2 id=(id) { (title) }
                    svg.chart viewBox={ "0 -2 " (WIDTH) " " (HEIGHT + 4.0) } role="img" aria-label=(self.label(last)) {
                        path d=(steps(points, until)) {}
                    }
                    p.pair.quiet {
                        span { (date(first.time)) }
                        span { "at most " (text(most(points))) }
                        span { (date(until.max(last.time))) }
                    }
                }
            }
        }
    }

    fn label(self, last: &Point) -> String {
        let [most, now] = [most(self.points), last.value].map(self.text);
        format!("{} {}: at most {most}, now {now}", self.points.len(), self.noun)
    }
}

fn most(points: &[Point]) -> u64 {
    points.iter().map(|point| point.value).max().unwrap_or_default()
}

fn date(time: u32) -> String {
    times::readable(time).get(..10).unwrap_or_default().to_owned()
}

/// A line that goes on at a value until the next one. Times of blocks may go back a little.
#[expect(clippy::cast_precision_loss, reason = "all bitcoin together are below 2^51 satoshis")]
fn steps(points: &[Point], until: u32) -> String {
    let begin = points.first().map_or(0, |point| point.time);
    let span = f64::from(until.saturating_sub(begin).max(1));
    let most = most(points).max(1) as f64;
    let mut path = format!("M0 {HEIGHT:.1}");
    for point in points {
        let x = f64::from(point.time.saturating_sub(begin)) / span * WIDTH;
        let y = HEIGHT - point.value as f64 / most * HEIGHT;
        write!(path, "H{:.1}V{y:.1}", x.min(WIDTH)).expect("writing to memory never fails");
    }
    write!(path, "H{WIDTH:.1}").expect("writing to memory never fails");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_stays_until_the_next_change() {
        let points = [(100, 50), (150, 100), (175, 0)].map(|(time, value)| Point { time, value });
        assert_eq!(steps(&points, 200), "M0 140.0H0.0V70.0H360.0V0.0H540.0V140.0H720.0");
        assert_eq!(chart(&points[..1], 200).into_string(), "");
        let page = chart(&points, 200).into_string();
        let label = "3 changes of the balance: at most 0.00000100 BTC, now 0.00000000 BTC";
        assert!(page.contains(label) && page.contains("at most 0.00000100 BTC</span>"), "{page}");
    }

    #[test]
    fn a_page_without_a_chart_says_why() {
        let said = |balances: BalanceChart| balances.markup(200).into_string();
        assert!(said(BalanceChart::TooLong(1000)).contains("the history has more than 1\u{202f}000 entries."));
        assert!(said(BalanceChart::Costly).contains("the history has entries in many parts of the index."));
        assert_eq!(said(BalanceChart::Elsewhere) + &said(BalanceChart::Points(Vec::new())), "");
    }
}
