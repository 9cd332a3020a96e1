//! The page of the mempool over time.

use birdhouse_esplora::{Record, Span};
use birdhouse_web::{amounts, parts};
use bitcoin::Network;
use maud::{Markup, html};

use super::chart::{Chart, Point};
use super::layout::Frame;
use crate::times;

/// Parts of a sat/vB in a chart of fee rates.
const RATE_PARTS: f64 = 1000.0;

/// Values of the page.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) network: Network,
    pub(crate) span: Span,
    /// The oldest first.
    pub(crate) records: Vec<Record>,
    /// In seconds since 1970.
    pub(crate) now: u32,
}

/// Returns the page.
pub(crate) fn page(history: &History) -> String {
    Frame { title: "Mempool history", network: Some(history.network), ..Frame::default() }.around(&html! {
        h1 { "Mempool history" }
        (spans(history.span))
        @if history.records.len() < 2 {
            p.quiet { "Nothing has been recorded yet: the server adds a record every minute while it has a node." }
        } @else {
            (chart(history, ("rate", "Fee rate of the next block"), rate, |record| thousandths(record.next_rate)))
            (chart(history, ("lowest", "Lowest fee rate"), rate, |record| thousandths(record.lowest_rate)))
            (chart(history, ("size", "Size"), amounts::vbytes, |record| record.weight.div_ceil(4)))
            (chart(history, ("count", "Transactions"), amounts::count, |record| record.transactions.into()))
            (chart(history, ("fees", "Fees"), fees, |record| record.fees))
        }
    })
}

fn spans(shown: Span) -> Markup {
    let target = |span: Span| (span != shown).then(|| format!("/mempool-history/{}", span.name()));
    let links = Span::ALL.map(|span| (span.name(), target(span)));
    parts::pager("Spans of time", &links)
}

/// A chart with this id and title.
fn chart(
    history: &History,
    (id, title): (&'static str, &'static str),
    text: fn(u64) -> String,
    value: fn(&Record) -> u64,
) -> Markup {
    let points: Vec<Point> =
        history.records.iter().map(|record| Point { time: record.time, value: value(record) }).collect();
    let date = if matches!(history.span, Span::Hours2 | Span::Hours24) { minute } else { day };
    Chart { id, title, noun: "values", points: &points, until: history.now, text, date }.markup()
}

fn minute(time: u32) -> String {
    times::readable(time).get(..16).unwrap_or_default().to_owned()
}

fn day(time: u32) -> String {
    times::readable(time).get(..10).unwrap_or_default().to_owned()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are not negative; `as` saturates")]
fn thousandths(sat_vb: f64) -> u64 {
    (sat_vb * RATE_PARTS).round() as u64
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn rate(thousandths: u64) -> String {
    format!("{} sat/vB", amounts::rate(thousandths as f64 / RATE_PARTS))
}

fn fees(satoshis: u64) -> String {
    format!("{} BTC", amounts::bitcoin(satoshis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u32, next_rate: f64, weight: u64) -> Record {
        Record { time, transactions: 1, weight, fees: 100, lowest_rate: 0.1, next_rate, vbytes: [0; _] }
    }

    #[test]
    fn charts_have_the_highest_and_the_newest_value_in_words() {
        let records = vec![record(1_700_000_000, 12.5, 4_000), record(1_700_003_600, 2.25, 8_000)];
        let history = History { network: Network::Regtest, span: Span::Hours2, records, now: 1_700_007_200 };
        let text = page(&history);
        let size = format!("at most {}", amounts::vbytes(2_000));
        for part in ["2 values: at most 12.5 sat/vB, now 2.25 sat/vB", &size, "2023-11-14 22:13"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let empty = page(&History { records: Vec::new(), ..history });
        assert!(empty.contains("Nothing has been recorded yet") && empty.contains("/mempool-history/1y"), "{empty}");
    }
}
