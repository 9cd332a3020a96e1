//! The list of metrics: every name, what it means, and where its value comes from. Names are
//! `{crate}_{noun}_{unit}`; counters end in `_total`, which the format adds. Values are read when somebody asks.

use std::fmt::Result;

use birdhouse_electrum::{Histogram, Overview};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::control::{BitcoinSeen, Control, Seen};
use crate::usage::Usage;

/// All metrics in the text format of `OpenMetrics` 1.0.
pub(crate) fn text(control: &Control) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(control.see())));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("a string takes everything");
    text
}

/// The server at one moment.
#[derive(Debug)]
struct Metrics(Seen);

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let (mut page, Seen { health, bitcoin, relay, usage }) = (Page(encoder), &self.0);
        if let Some(bitcoin) = bitcoin {
            electrum(&bitcoin.electrum, &mut page)?;
            turns(&bitcoin.electrum, &mut page)?;
            chain(bitcoin, &mut page)?;
            node(bitcoin, &mut page)?;
        }
        if let Some(relay) = relay {
            events(relay, &mut page)?;
            queries(relay, &mut page)?;
        }
        page.gauge("server_healthy", "1 when /health says so.", u64::from(health.is_good()))?;
        usage.as_ref().map_or(Ok(()), |usage| process(usage, &mut page))
    }
}

// === the list ===

fn electrum(overview: &Overview, page: &mut Page<'_>) -> Result {
    let counted = &overview.counted;
    let requests = counted.requests.iter().filter(|(_, _, count)| *count > 0);
    page.labelled_counters(
        "electrum_requests",
        "Requests by kind, and by what became of them: answered, rejected (the request is wrong), refused (a limit), failed.",
        requests.map(|(kind, outcome, count)| ([("kind", *kind), ("outcome", (*outcome).into())], *count)),
    )?;
    page.counter(
        "electrum_invalid_requests",
        "Messages, or items of batches, that were no request.",
        counted.invalid_requests,
    )?;
    page.histograms(
        "electrum_request_seconds",
        "From a message's arrival to the reply's departure, by what the request needs: memory, index or node.",
        "needs",
        &counted.latencies,
    )?;
    page.counter("electrum_notifications", "Notifications sent.", counted.notifications)?;
    page.counter("electrum_received_bytes", "Bytes of messages from clients.", counted.received_bytes)?;
    page.counter("electrum_sent_bytes", "Bytes of messages to clients.", counted.sent_bytes)?;
    let listeners = overview.connections.iter();
    page.labelled_gauges(
        "electrum_connections",
        "Open connections, by listener.",
        listeners.map(|(listener, count)| ([("listener", listener.as_str())], count_of(*count))),
    )?;
    page.gauge(
        "electrum_clients",
        "Clients that are connected, or have not been forgiven what they used.",
        count_of(overview.clients),
    )?;
    page.gauge(
        "electrum_subscriptions",
        "Scripts and outpoints that connections follow.",
        count_of(overview.subscriptions),
    )
}

fn turns(overview: &Overview, page: &mut Page<'_>) -> Result {
    let turns = &overview.turns;
    page.labelled_gauges(
        "electrum_turns_waiting",
        "Clients that wait for their turn: for a processor, the disk, or the node.",
        turns.iter().map(|(name, waiting)| ([("turn", *name)], count_of(waiting.now))),
    )?;
    page.labelled_counters(
        "electrum_turns_waited",
        "Turns that had to be waited for.",
        turns.iter().map(|(name, waiting)| ([("turn", *name)], waiting.turns)),
    )?;
    page.labelled_counters(
        "electrum_turns_waited_seconds",
        "Time that clients waited for their turns.",
        turns.iter().map(|(name, waiting)| ([("turn", *name)], waiting.time.as_secs_f64())),
    )
}

fn chain(seen: &BitcoinSeen, page: &mut Page<'_>) -> Result {
    if let Some(tip) = seen.tip {
        page.gauge("chain_tip_height", "Height of the index.", u64::from(tip.height.0))?;
    }
    page.gauge("chain_sync_percent", "How far the first build of the index is.", u64::from(seen.sync_percent))?;
    page.gauge("store_cache_bytes", "Memory that cached blocks of the index take.", seen.cache_bytes)
}

fn node(seen: &BitcoinSeen, page: &mut Page<'_>) -> Result {
    if let Some(tip) = seen.node.and_then(|node| node.tip) {
        page.gauge("node_tip_height", "Height of the node, when it last answered.", u64::from(tip.height.0))?;
    }
    let Some(calls) = &seen.node_calls else { return Ok(()) };
    page.counter("node_calls", "Calls to the node.", calls.calls)?;
    page.counter("node_failures", "Calls that the node did not answer; its refusals are answers.", calls.failures)?;
    page.counter("node_call_seconds", "Time spent in calls, long polls left out.", calls.time.as_secs_f64())
}

fn process(usage: &Usage, page: &mut Page<'_>) -> Result {
    page.counter("process_cpu_seconds", "Processor time of the process.", usage.cpu.as_secs_f64())?;
    page.gauge("process_resident_memory_bytes", "Memory of the process.", usage.rss_bytes)?;
    page.gauge("process_open_fds", "Open files and sockets of the process.", usage.open_files)
}

fn events(seen: &birdhouse_relay::Overview, page: &mut Page<'_>) -> Result {
    page.labelled_counters(
        "relay_events",
        "Events that came, by what became of them: accepted, duplicate, shadowed (by the plugin), or the prefix of the refusal.",
        seen.events.iter().map(|(outcome, count)| ([("outcome", *outcome)], *count)),
    )?;
    page.gauge("relay_events_live", "Events that are kept.", seen.live_events)?;
    page.counter("relay_news", "New events told to subscriptions.", seen.news)?;
    page.gauge("relay_connections", "Open connections of the relay.", count_of(seen.connections))?;
    page.gauge(
        "relay_clients",
        "Clients of the relay that are connected, or have not been forgiven what they used.",
        count_of(seen.clients),
    )?;
    page.gauge("relay_subscriptions", "Open subscriptions of the relay.", count_of(seen.subscriptions))
}

fn queries(seen: &birdhouse_relay::Overview, page: &mut Page<'_>) -> Result {
    page.labelled_counters(
        "relay_queries",
        "REQ and COUNT messages.",
        [("REQ", seen.reqs), ("COUNT", seen.counts)].map(|(verb, count)| ([("verb", verb)], count)).into_iter(),
    )?;
    page.labelled_counters(
        "relay_closed",
        "Subscriptions and counts that were refused or ended, by the prefix of why.",
        seen.closed.iter().map(|(prefix, count)| ([("prefix", *prefix)], *count)),
    )?;
    page.counter("relay_rows", "Stored events sent.", seen.rows)?;
    page.counter("relay_query_seconds", "Time spent on finding stored events.", seen.query.as_secs_f64())?;
    page.gauge("relay_turns_waiting", "Clients of the relay that wait for a processor.", count_of(seen.turns.now))?;
    page.counter("relay_turns_waited", "Turns of the relay that had to be waited for.", seen.turns.turns)?;
    page.counter(
        "relay_turns_waited_seconds",
        "Time that clients of the relay waited for their turns.",
        seen.turns.time.as_secs_f64(),
    )
}

// === writing ===

/// The text that is being written.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue + Copy) -> Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn labelled_gauges<'v, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = ([(&'v str, &'v str); N], u64)>,
    ) -> Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn labelled_counters<'v, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = ([(&'v str, &'v str); N], impl EncodeCounterValue)>,
    ) -> Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn histograms(&mut self, name: &str, help: &str, label: &str, values: &[(&str, Histogram)]) -> Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (value, Histogram { buckets, sum }) in values {
            let count = buckets.iter().map(|(_, count)| count).sum();
            let bounded: Vec<(f64, u64)> = buckets
                .iter()
                .map(|(bound, count)| (if bound.is_finite() { *bound } else { f64::MAX }, *count))
                .collect();
            family.encode_family(&[(label, *value)])?.encode_histogram::<NoLabelSet>(*sum, count, &bounded, None)?;
        }
        Ok(())
    }
}

fn count_of(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
