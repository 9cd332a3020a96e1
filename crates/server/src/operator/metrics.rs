//! The list of metrics: names, help and sources. Values are read when a scraper asks.
//!
//! Names follow the [conventions of Prometheus](https://prometheus.io/docs/practices/naming/):
//! `birdhouse_{part}_{noun}_{unit}` in base units; the format adds `_total` to counters and `_info` to information.
//! Metrics of the process have the standard names `process_*`.

use std::fmt::Result;

use birdhouse_electrum::{Histogram, Overview};
use birdhouse_net::SeatCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::operator::control::{BitcoinState, Control, State};
use crate::process::Usage;

/// Prefix of all names but those of the process.
const PREFIX: &str = "birdhouse";

/// Returns all metrics in the text format of `OpenMetrics` 1.0.
pub(super) fn text(control: &Control) -> String {
    let state = control.state();
    let mut registry = Registry::default();
    if let Some(usage) = state.usage {
        registry.register_collector(Box::new(Process(usage)));
    }
    registry.sub_registry_with_prefix(PREFIX).register_collector(Box::new(Server(state)));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("writing to a string never fails");
    text
}

/// The metrics of the server.
#[derive(Debug)]
struct Server(State);

/// The metrics of the process.
#[derive(Debug)]
struct Process(Usage);

impl Collector for Server {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let (mut page, State { health, bitcoin, rest, relay, .. }) = (Page(encoder), &self.0);
        page.info("build", "Version of the server.", &[("version", env!("CARGO_PKG_VERSION"))])?;
        page.gauge("healthy", "1 if /health answers 200, else 0.", u64::from(health.is_good()))?;
        if let Some(usage) = &self.0.usage {
            page.gauge(
                "allocated_bytes",
                "Memory in use, without what the allocator keeps for later, stacks and mapped files.",
                usage.allocated_bytes,
            )?;
        }
        if let Some(bytes) = self.0.disk_free_bytes {
            page.gauge("disk_free_bytes", "Bytes that can still be written to the disk of the data folder.", bytes)?;
        }
        page.labelled_gauges(
            "store_unflushed_bytes",
            "Memory, about, of what is in the log of a store alone: rows in no segment, and writes to arrays since they \
             were synced.",
            self.0.unflushed_bytes.iter().map(|(part, bytes)| ([("part", part.name())], *bytes)),
        )?;
        if let Some(bitcoin) = bitcoin {
            electrum(&bitcoin.electrum, &mut page)?;
            waits(&bitcoin.electrum, &mut page)?;
            chain(bitcoin, &mut page)?;
            rows(bitcoin, &mut page)?;
            node(bitcoin, &mut page)?;
        }
        if let Some(rest) = rest {
            connections("rest", (&rest.connections, rest.refused_connections), &mut page)?;
        }
        if let Some(relay) = relay {
            events(relay, &mut page)?;
            queries(relay, &mut page)?;
        }
        Ok(())
    }
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let (mut page, Usage { cpu, rss_bytes, open_files, files_max, .. }) = (Page(encoder), self.0);
        page.counter("process_cpu_seconds", "Processor time of the process.", cpu.as_secs_f64())?;
        page.gauge("process_resident_memory_bytes", "Resident memory of the process.", rss_bytes)?;
        page.gauge("process_open_fds", "Open files and sockets of the process.", open_files)?;
        page.gauge("process_max_fds", "Limit of open files and sockets.", files_max)
    }
}

// === the list ===

fn electrum(overview: &Overview, page: &mut Page<'_>) -> Result {
    let counted = &overview.counted;
    let requests = counted.requests.iter().filter(|(_, _, count)| *count > 0);
    page.labelled_counters(
        "electrum_requests",
        "Requests by kind and outcome: answered, rejected (invalid), refused (a limit) or failed.",
        requests.map(|(kind, outcome, count)| ([("kind", *kind), ("outcome", (*outcome).into())], *count)),
    )?;
    page.counter(
        "electrum_invalid_requests",
        "Messages, or items of batches, that are not a request.",
        counted.invalid_requests,
    )?;
    page.histograms(
        "electrum_request_duration_seconds",
        "Time from a message's arrival to its reply's departure, by source of the answer: memory, index or node.",
        "source",
        &counted.latencies,
    )?;
    page.counter("electrum_notifications", "Notifications sent.", counted.traffic.notifications)?;
    page.counter(
        "electrum_received_bytes",
        "Bytes of messages received from clients.",
        counted.traffic.received_bytes,
    )?;
    page.counter("electrum_sent_bytes", "Bytes of messages sent to clients.", counted.traffic.sent_bytes)?;
    connections("electrum", (&overview.connections, overview.refused_connections), page)?;
    page.gauge(
        "electrum_clients",
        "Clients that are connected or whose use is remembered.",
        count_of(overview.clients),
    )?;
    page.gauge(
        "electrum_unsent_bytes",
        "Bytes of replies that wallets have not read.",
        count_of(overview.unsent_bytes),
    )?;
    page.gauge(
        "electrum_subscriptions",
        "Scripts and outpoints that connections subscribe to.",
        count_of(overview.subscriptions),
    )
}

/// Writes the connections of a server: those that are open, by listener, and those that had to leave.
fn connections(server: &str, (open, left): (&[(String, usize)], SeatCounts), page: &mut Page<'_>) -> Result {
    page.labelled_gauges(
        &format!("{server}_connections"),
        "Open connections by listener.",
        open.iter().map(|(listener, count)| ([("listener", listener.as_str())], count_of(*count))),
    )?;
    let SeatCounts { network, displaced, half_open: _ } = left;
    page.labelled_counters(
        &format!("{server}_refused_connections"),
        "Connections that were closed for a newcomer of their network, which has too many, or for any when all places \
         were taken.",
        [("network", network), ("displaced", displaced)]
            .map(|(reason, count)| ([("reason", reason)], count))
            .into_iter(),
    )
}

fn waits(overview: &Overview, page: &mut Page<'_>) -> Result {
    let turns = &overview.turns;
    page.labelled_gauges(
        "electrum_waiting_clients",
        "Turns that are waited for: of processors and node by wallets and REST, of the disk by wallets.",
        turns.iter().map(|(resource, waiting)| ([("resource", *resource)], count_of(waiting.now))),
    )?;
    page.labelled_counters(
        "electrum_waits",
        "Turns that had to be waited for, by resource.",
        turns.iter().map(|(resource, waiting)| ([("resource", *resource)], waiting.turns)),
    )?;
    page.labelled_counters(
        "electrum_wait_seconds",
        "Time that clients waited for a resource.",
        turns.iter().map(|(resource, waiting)| ([("resource", *resource)], waiting.time.as_secs_f64())),
    )
}

fn chain(state: &BitcoinState, page: &mut Page<'_>) -> Result {
    if let Some(tip) = state.tip {
        page.gauge("chain_tip_height", "Height of the index.", u64::from(tip.height.0))?;
    }
    let sync_ratio = f64::from(state.sync_percent) / 100.0;
    page.gauge("chain_sync_ratio", "Progress of the first build of the index, 0 to 1.", sync_ratio)?;
    let tips = state.tip.zip(state.node.and_then(|node| node.tip));
    if let Some((index, node)) = tips {
        let behind = node.height.0.saturating_sub(index.height.0);
        page.gauge("chain_behind_blocks", "Blocks of the node that the index lacks.", u64::from(behind))?;
    }
    page.gauge("store_cache_bytes", "Memory of cached index blocks.", state.cache_bytes)
}

fn rows(state: &BitcoinState, page: &mut Page<'_>) -> Result {
    let tables = state.table_bytes.iter().filter(|(_, bytes)| *bytes > 0);
    page.labelled_gauges(
        "chain_table_bytes",
        "Bytes on disk of the index by table and array; a number is that of a pack or delta.",
        tables.map(|(table, bytes)| ([("table", table.as_str())], *bytes)),
    )?;
    let Some(merges) = &state.merges else { return Ok(()) };
    let numbers: Vec<String> = (1..=merges.packs.len()).map(|number| number.to_string()).collect();
    let packs = || numbers.iter().map(String::as_str).zip(&merges.packs);
    page.labelled_gauges(
        "chain_pack_transactions",
        "Transactions by pack, the oldest first.",
        packs().map(|(number, pack)| ([("pack", number)], pack.transactions)),
    )?;
    page.labelled_gauges(
        "chain_pack_scripts",
        "Scripts by pack, the oldest first.",
        packs().map(|(number, pack)| ([("pack", number)], pack.scripts)),
    )?;
    page.gauge("chain_delta_transactions", "Transactions of rows that are not packed.", merges.delta_transactions)?;
    page.gauge(
        "chain_unmerged_transactions",
        "Transactions of full deltas that wait for a merge.",
        merges.buried_transactions,
    )
}

fn node(state: &BitcoinState, page: &mut Page<'_>) -> Result {
    if let Some(tip) = state.node.and_then(|node| node.tip) {
        page.gauge("node_tip_height", "Height of the node at its last answer.", u64::from(tip.height.0))?;
    }
    let Some(calls) = &state.node_calls else { return Ok(()) };
    page.counter("node_calls", "Calls to the node.", calls.calls)?;
    page.counter("node_failed_calls", "Calls without an answer; an error of the node is an answer.", calls.failures)?;
    page.counter("node_call_seconds", "Time of calls to the node, without long polls.", calls.time.as_secs_f64())
}

fn events(overview: &birdhouse_relay::Overview, page: &mut Page<'_>) -> Result {
    page.labelled_counters(
        "relay_received_events",
        "Events received, by outcome: accepted, duplicate, shadowed (by the plugin), or the prefix of the refusal.",
        overview.events.iter().map(|(outcome, count)| ([("outcome", *outcome)], *count)),
    )?;
    page.gauge("relay_stored_events", "Events in the relay.", overview.live_events)?;
    page.gauge(
        "relay_unreclaimed_events",
        "Deleted, replaced and expired events that still take space.",
        overview.unreclaimed_events,
    )?;
    page.gauge(
        "relay_memtable_bytes",
        "Memory, about, of index rows of the newest events, which are in no segment yet.",
        count_of(overview.memtable_bytes),
    )?;
    page.counter("relay_sent_live_events", "Live events sent to subscriptions.", overview.live_sent)?;
    page.gauge("relay_connections", "Open connections of the relay.", count_of(overview.connections))?;
    page.gauge(
        "relay_clients",
        "Clients of the relay that are connected or whose use is remembered.",
        count_of(overview.clients),
    )?;
    page.gauge(
        "relay_half_open_connections",
        "Sockets of the relay on which no WebSocket is open yet.",
        count_of(overview.half_open),
    )?;
    page.labelled_counters(
        "relay_refused_connections",
        "Connections that were closed because of a bound: half-open, network, overdrawn, or displaced by a newcomer.",
        overview.refused_connections.iter().map(|(reason, count)| ([("reason", *reason)], *count)),
    )?;
    page.gauge("relay_subscriptions", "Open subscriptions of the relay.", count_of(overview.subscriptions))
}

fn queries(overview: &birdhouse_relay::Overview, page: &mut Page<'_>) -> Result {
    page.labelled_counters(
        "relay_queries",
        "REQ and COUNT messages.",
        [("REQ", overview.reqs), ("COUNT", overview.counts)].map(|(verb, count)| ([("verb", verb)], count)).into_iter(),
    )?;
    page.labelled_counters(
        "relay_closed_queries",
        "REQ and COUNT that the relay closed, by the prefix of the reason.",
        overview.closed.iter().map(|(reason, count)| ([("reason", *reason)], *count)),
    )?;
    page.counter("relay_sent_stored_events", "Stored events sent to subscriptions.", overview.rows)?;
    page.counter("relay_query_seconds", "Time spent on finding stored events.", overview.query.as_secs_f64())?;
    page.counter("relay_pauses", "Pauses in which a client that has used up its share was not read.", overview.pauses)?;
    page.gauge(
        "relay_waiting_event_bytes",
        "Bytes of events that wait to be judged and stored.",
        count_of(overview.waiting_event_bytes),
    )?;
    page.gauge("relay_waiting_clients", "Clients that wait for a processor.", count_of(overview.turns.now))?;
    page.counter("relay_waits", "Waits of clients for a processor.", overview.turns.turns)?;
    page.counter("relay_wait_seconds", "Time that clients waited for a processor.", overview.turns.time.as_secs_f64())
}

// === writing ===

/// A writer of metrics.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    /// Writes facts as the labels of one value.
    fn info(&mut self, name: &str, help: &str, facts: &[(&str, &str); 1]) -> Result {
        self.0.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(facts)
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue + Copy) -> Result {
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
            family.encode_family(&[(label, *value)])?.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)?;
        }
        Ok(())
    }
}

fn count_of(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
