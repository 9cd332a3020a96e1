//! A chart of a balance over time.

use std::fmt::Write as _;

use birdhouse_web::amounts;
use maud::{Markup, html};

use crate::times;

/// Units of the drawing.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 140.0;

/// A balance, from this time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    /// In seconds since 1970.
    pub(crate) time: u32,
    /// In satoshis.
    pub(crate) balance: u64,
}

/// The chart of points, the oldest first, up to a time; nothing for less than two of them.
pub(crate) fn chart(points: &[Point], until: u32) -> Markup {
    html! {
        @if let [first, .., last] = points {
            section aria-labelledby="chart" {
                h2 #chart { "Balance over time" }
                svg.chart viewBox={ "0 -2 " (WIDTH) " " (HEIGHT + 4.0) } role="img" aria-label=(label(points, last)) {
                    path d=(steps(points, until)) {}
                }
                p.pair.quiet {
                    span { (date(first.time)) }
                    span { "at most " (amounts::bitcoin(most(points))) " BTC" }
                    span { (date(until.max(last.time))) }
                }
            }
        }
    }
}

fn most(points: &[Point]) -> u64 {
    points.iter().map(|point| point.balance).max().unwrap_or_default()
}

fn label(points: &[Point], last: &Point) -> String {
    let [most, now] = [most(points), last.balance].map(amounts::bitcoin);
    format!("{} changes of the balance: at most {most} BTC, now {now} BTC", points.len())
}

fn date(time: u32) -> String {
    times::readable(time).get(..10).unwrap_or_default().to_owned()
}

/// A line that goes on at a balance until the next change. Times of blocks may go back a little.
#[expect(clippy::cast_precision_loss, reason = "all bitcoin together are below 2^51 satoshis")]
fn steps(points: &[Point], until: u32) -> String {
    let begin = points.first().map_or(0, |point| point.time);
    let span = f64::from(until.saturating_sub(begin).max(1));
    let most = most(points).max(1) as f64;
    let mut path = format!("M0 {HEIGHT:.1}");
    for point in points {
        let x = f64::from(point.time.saturating_sub(begin)) / span * WIDTH;
        let y = HEIGHT - point.balance as f64 / most * HEIGHT;
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
        let points = [(100, 50), (150, 100), (175, 0)].map(|(time, balance)| Point { time, balance });
        assert_eq!(steps(&points, 200), "M0 140.0H0.0V70.0H360.0V0.0H540.0V140.0H720.0");
        assert_eq!(chart(&points[..1], 200).into_string(), "");
        let label = label(&points, &points[2]);
        assert_eq!(label, "3 changes of the balance: at most 0.00000100 BTC, now 0.00000000 BTC");
    }
}
