//! The state of the relay: its metrics, its counts for rates, and its half of the status.

use std::fmt::Result as Written;

use birdhouse_clients::SlowKind;
use birdhouse_dashboard::{Rate, Refusals, Relay, Status};
use birdhouse_mirror::StreamStatus;
use birdhouse_relay::{Health, Overview};

use super::metrics_writer::{MetricsWriter, count_of};
use super::rates::{Counts, PerSecond};
use super::{service, stream_overview};

/// Outcomes of events that are no refusals.
const TAKEN: [&str; 3] = ["accepted", "duplicate", "shadowed"];

/// The state of the relay.
#[derive(Debug)]
pub(super) struct State {
    pub(super) overview: Overview,
    pub(super) health: Health,
    pub(super) streams: Vec<StreamStatus>,
}

impl service::Overview for State {
    fn connections(&self) -> Vec<(String, usize)> {
        // It does not count by listener.
        vec![("all".to_owned(), self.overview.connections)]
    }

    fn slowest(&self) -> &[SlowKind] {
        &self.overview.slowest
    }

    fn metrics(&self, metrics: &mut MetricsWriter<'_>) -> Written {
        events(&self.overview, metrics)?;
        queries(&self.overview, metrics)?;
        stream_overview::metrics(&self.streams, metrics)
    }

    fn count(&self, counts: &mut Counts) {
        (counts.accepted, counts.refused) = decided(&self.overview);
        counts.sent = self.overview.rows + self.overview.live_sent;
    }

    fn show(&self, status: &mut Status, rates: PerSecond) {
        status.relay = Some(of_relay(&self.overview, &self.health, rates));
        status.streams = stream_overview::shown(&self.streams);
        status.set_aside = stream_overview::set_aside(&self.streams);
    }
}

/// Returns the numbers of accepted and of refused events.
fn decided(overview: &Overview) -> (u64, u64) {
    let sum = |is_meant: &dyn Fn(&str) -> bool| {
        overview.events.iter().filter(|(outcome, _)| is_meant(outcome)).map(|(_, count)| count).sum()
    };
    (sum(&|outcome| outcome == "accepted"), sum(&|outcome| !TAKEN.contains(&outcome)))
}

fn of_relay(overview: &Overview, health: &Health, rates: PerSecond) -> Relay {
    let (accepted, refused) = decided(overview);
    let refusals = overview.events.iter().filter(|(outcome, _)| !TAKEN.contains(outcome));
    let mut refusals: Vec<Refusals> =
        refusals.map(|(outcome, events)| Refusals { reason: (*outcome).to_owned(), events: *events }).collect();
    refusals.sort_by_key(|refusals| std::cmp::Reverse(refusals.events));
    let failures = health.failures.iter();
    Relay {
        relay_state: health.storing.name().to_owned(),
        relay_reason: health.storing.reason(),
        relay_failures: failures.map(|(thread, failure)| format!("{thread}: {failure}")).collect(),
        relay_connections: count_of(overview.connections),
        relay_clients: count_of(overview.clients),
        relay_subscriptions: count_of(overview.subscriptions),
        relay_events: overview.live_events,
        relay_accepted: Rate { total: accepted, per_s: rates.accepted },
        relay_refused: Rate { total: refused, per_s: rates.refused },
        relay_sent: Rate { total: overview.rows + overview.live_sent, per_s: rates.sent },
        relay_refusals: refusals,
    }
}

// === metrics ===

fn events(overview: &Overview, metrics: &mut MetricsWriter<'_>) -> Written {
    metrics.labelled_counters(
        "relay_received_events",
        "Events received, by outcome: accepted, duplicate, shadowed (by the plugin), or the prefix of the refusal.",
        overview.events.iter().map(|(outcome, count)| ([("outcome", *outcome)], *count)),
    )?;
    metrics.gauge("relay_stored_events", "Events in the relay.", overview.live_events)?;
    metrics.gauge(
        "relay_unreclaimed_events",
        "Deleted, replaced and expired events that still take space.",
        overview.unreclaimed_events,
    )?;
    metrics.gauge(
        "relay_memtable_bytes",
        "Memory, about, of index rows of the newest events, which are in no segment yet.",
        count_of(overview.memtable_bytes),
    )?;
    metrics.counter("relay_sent_live_events", "Live events sent to subscriptions.", overview.live_sent)?;
    metrics.gauge("relay_connections", "Open connections of the relay.", count_of(overview.connections))?;
    metrics.gauge(
        "relay_clients",
        "Clients of the relay that are connected or whose use is remembered.",
        count_of(overview.clients),
    )?;
    metrics.gauge(
        "relay_half_open_connections",
        "Sockets of the relay on which no WebSocket is open yet.",
        count_of(overview.half_open),
    )?;
    metrics.labelled_counters(
        "relay_refused_connections",
        "Connections that were closed because of a bound: half-open, network, overdrawn, or displaced by a newcomer.",
        overview.refused_connections.iter().map(|(reason, count)| ([("reason", *reason)], *count)),
    )?;
    metrics.gauge("relay_subscriptions", "Open subscriptions of the relay.", count_of(overview.subscriptions))
}

fn queries(overview: &Overview, metrics: &mut MetricsWriter<'_>) -> Written {
    metrics.labelled_counters(
        "relay_queries",
        "REQ and COUNT messages.",
        [("REQ", overview.reqs), ("COUNT", overview.counts)].map(|(verb, count)| ([("verb", verb)], count)).into_iter(),
    )?;
    metrics.labelled_counters(
        "relay_closed_queries",
        "REQ and COUNT that the relay closed, by the prefix of the reason.",
        overview.closed.iter().map(|(reason, count)| ([("reason", *reason)], *count)),
    )?;
    metrics.counter("relay_sent_stored_events", "Stored events sent to subscriptions.", overview.rows)?;
    metrics.counter("relay_query_seconds", "Time spent on finding stored events.", overview.query.as_secs_f64())?;
    metrics.counter(
        "relay_pauses",
        "Pauses in which a client that has used up its share was not read.",
        overview.pauses,
    )?;
    metrics.gauge(
        "relay_waiting_event_bytes",
        "Bytes of events that wait to be judged and stored.",
        count_of(overview.waiting_event_bytes),
    )
}
