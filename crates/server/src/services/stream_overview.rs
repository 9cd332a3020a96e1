//! The state of streams: metrics, and lines of the status.

use std::fmt::Result as Written;

use birdhouse_dashboard::{SetAside, Stream};
use birdhouse_mirror::{Direction, StreamState, StreamStatus, Tally};
use birdhouse_watch::channel::Clock;

use super::metrics_writer::MetricsWriter;

/// A figure of a stream.
type Figure = fn(&Tally) -> u64;

/// Counters: name, meaning, figure.
const COUNTERS: [(&str, &str, Figure); 7] = [
    ("relay_stream_received_events", "Events that came by a stream.", |tally| tally.received),
    ("relay_stream_stored_events", "Events that came by a stream and were new.", |tally| tally.stored),
    ("relay_stream_refused_events", "Events that came by a stream and were refused.", |tally| {
        tally.refused_here.total()
    }),
    ("relay_stream_sent_events", "Events that a stream sent.", |tally| tally.sent),
    ("relay_stream_accepted_events", "Events that the other relay of a stream has accepted.", |tally| tally.accepted),
    ("relay_stream_rejected_events", "Events that the other relay of a stream has refused.", |tally| {
        tally.refused_there.total()
    }),
    (
        "relay_stream_set_aside_events",
        "Events that a stream has given up, because the other relay does not answer them.",
        |tally| tally.set_aside,
    ),
];

/// Writes the metrics, each by stream and URL; the settings bound their number.
pub(super) fn metrics(streams: &[StreamStatus], metrics: &mut MetricsWriter<'_>) -> Written {
    for (name, help, figure) in COUNTERS {
        metrics.labelled_counters(
            name,
            help,
            streams.iter().map(|stream| (labels_of(stream), figure(&stream.tally))),
        )?;
    }
    metrics.labelled_counters(
        "relay_stream_failures",
        "Connections of a stream that have ended.",
        streams.iter().map(|stream| (labels_of(stream), stream.failures)),
    )?;
    metrics.labelled_gauges(
        "relay_stream_live",
        "1 if events of a stream pass as they are published, else 0.",
        streams.iter().map(|stream| (labels_of(stream), u64::from(stream.state == StreamState::Live))),
    )?;
    metrics.labelled_gauges(
        "relay_stream_waiting_events",
        "Events of this relay that a stream has not sent, or whose outcome it does not know.",
        streams.iter().filter_map(|stream| Some((labels_of(stream), stream.behind?))),
    )
}

fn labels_of(stream: &StreamStatus) -> [(&str, &str); 2] {
    [("stream", &stream.name), ("url", &stream.url)]
}

/// Returns the lines of the status.
pub(super) fn shown(streams: &[StreamStatus]) -> Vec<Stream> {
    let now = Clock::system().now().as_secs();
    streams.iter().map(|stream| line(stream, now)).collect()
}

/// Returns the events that streams have given up.
pub(super) fn set_aside(streams: &[StreamStatus]) -> Vec<SetAside> {
    let of = |stream: &StreamStatus| {
        let (name, url) = (stream.name.clone(), stream.url.clone());
        let event = move |one: &birdhouse_mirror::SetAside| SetAside {
            stream: name.clone(),
            url: url.clone(),
            event: one.id.clone(),
            reason: one.why.clone(),
        };
        stream.set_aside.iter().map(event).collect::<Vec<_>>()
    };
    streams.iter().flat_map(of).collect()
}

fn line(status: &StreamStatus, now: u64) -> Stream {
    let StreamStatus { name, url, direction, state, since, why, last_refusal, behind, tally, .. } = status;
    let dir = match direction {
        Direction::Down => "down",
        Direction::Up => "up",
        Direction::Both => "both",
    };
    Stream {
        stream: name.clone(),
        url: url.clone(),
        dir: dir.to_owned(),
        state: state.name().to_owned(),
        state_s: now.saturating_sub(*since),
        received: tally.received,
        stored: tally.stored,
        refused: tally.refused_here.total(),
        sent: tally.sent,
        accepted: tally.accepted,
        refused_there: tally.refused_there.total(),
        set_aside: tally.set_aside,
        waiting: *behind,
        last_refusal: last_refusal.clone(),
        failure: why.clone(),
    }
}
