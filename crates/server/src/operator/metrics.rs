//! The page of metrics: those of process, index and node, and those that each service writes. Values are read when a
//! scraper asks.
//!
//! Names follow the [conventions of Prometheus](https://prometheus.io/docs/practices/naming/):
//! `birdhouse_{part}_{noun}_{unit}` in base units; the format adds `_total` to counters and `_info` to information.
//! Metrics of the process have the standard names `process_*`.

use std::fmt::Result;

use birdhouse_chain::DerivedProgress;
use birdhouse_clients::Waiting;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use crate::operator::control::{BitcoinState, Control, ServiceState, State};
use crate::operator::watch;
use crate::process::Usage;
use crate::services::{MetricsWriter, count_of};

/// Prefix of all names but those of the process.
const PREFIX: &str = "birdhouse";

/// Returns all metrics in the text format of `OpenMetrics` 1.0.
pub(crate) fn text(control: &Control) -> String {
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
        let (mut metrics, State { health, bitcoin, services, .. }) = (MetricsWriter(encoder), &self.0);
        metrics.info("build", "Version of the server.", &[("version", env!("CARGO_PKG_VERSION"))])?;
        metrics.gauge("healthy", "1 if /health answers 200, else 0.", u64::from(health.is_good()))?;
        if let Some(usage) = &self.0.usage {
            metrics.gauge(
                "allocated_bytes",
                "Memory in use, without what the allocator keeps for later, stacks and mapped files.",
                usage.allocated_bytes,
            )?;
        }
        if let Some(watches) = &self.0.watches {
            let counts = watch::counts(watches);
            metrics.gauge("watches", "Watches of the watch file.", counts.watches)?;
            metrics.gauge("watch_faults", "Watches that say less than they should.", counts.watch_faults)?;
            metrics.counter("watch_notices", "Notices since the log began.", counts.watch_notices)?;
            metrics.gauge("watch_waiting_notices", "Notices that wait in the outboxes.", counts.watch_waiting)?;
            let failing = count_of(counts.failing_channels.len());
            metrics.gauge("watch_channel_faults", "Channels that do not deliver.", failing)?;
        }
        if let Some(bytes) = self.0.disk_free_bytes {
            metrics.gauge(
                "disk_free_bytes",
                "Bytes that can still be written to the disk of the data folder.",
                bytes,
            )?;
        }
        metrics.labelled_gauges(
            "store_unflushed_bytes",
            "Memory, about, of what is in the log of a store alone: rows in no segment, and writes to arrays since they \
             were synced.",
            self.0.unflushed_bytes.iter().map(|(part, bytes)| ([("part", part.name())], *bytes)),
        )?;
        waits(&self.0.waiting, &mut metrics)?;
        // The index stands behind the first service, as ever.
        let (first, others) = services.split_at(services.len().min(1));
        write(first, &mut metrics)?;
        if let Some(bitcoin) = bitcoin {
            chain(bitcoin, &mut metrics)?;
            rows(bitcoin, &mut metrics)?;
            derived(&bitcoin.derived, &mut metrics)?;
            node(bitcoin, &mut metrics)?;
        }
        write(others, &mut metrics)
    }
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let (mut metrics, Usage { cpu, rss_bytes, open_files, files_max, .. }) = (MetricsWriter(encoder), self.0);
        metrics.counter("process_cpu_seconds", "Processor time of the process.", cpu.as_secs_f64())?;
        metrics.gauge("process_resident_memory_bytes", "Resident memory of the process.", rss_bytes)?;
        metrics.gauge("process_open_fds", "Open files and sockets of the process.", open_files)?;
        metrics.gauge("process_max_fds", "Limit of open files and sockets.", files_max)
    }
}

/// Writes how clients of all protocols wait for the resources that they share.
fn waits(resources: &[(&'static str, Waiting); 3], metrics: &mut MetricsWriter<'_>) -> Result {
    metrics.labelled_gauges(
        "waiting_clients",
        "Turns that are waited for, by resource.",
        resources.iter().map(|(resource, waiting)| ([("resource", *resource)], count_of(waiting.now))),
    )?;
    metrics.labelled_counters(
        "waits",
        "Turns that had to be waited for, by resource.",
        resources.iter().map(|(resource, waiting)| ([("resource", *resource)], waiting.turns)),
    )?;
    metrics.labelled_counters(
        "wait_seconds",
        "Time that clients waited for a resource.",
        resources.iter().map(|(resource, waiting)| ([("resource", *resource)], waiting.time.as_secs_f64())),
    )
}

/// Writes the metrics of services.
fn write(services: &[ServiceState], metrics: &mut MetricsWriter<'_>) -> Result {
    services.iter().try_for_each(|service| service.overview.metrics(metrics))
}

// === the index ===

fn chain(state: &BitcoinState, metrics: &mut MetricsWriter<'_>) -> Result {
    if let Some(tip) = state.tip {
        metrics.gauge("chain_tip_height", "Height of the index.", u64::from(tip.height.0))?;
    }
    let sync_ratio = f64::from(state.sync_percent) / 100.0;
    metrics.gauge("chain_sync_ratio", "Progress of the first build of the index, 0 to 1.", sync_ratio)?;
    let tips = state.tip.zip(state.node.and_then(|node| node.tip));
    if let Some((index, node)) = tips {
        let behind = node.height.0.saturating_sub(index.height.0);
        metrics.gauge("chain_behind_blocks", "Blocks of the node that the index lacks.", u64::from(behind))?;
    }
    metrics.gauge("store_cache_bytes", "Memory of cached index blocks.", state.cache_bytes)
}

fn rows(state: &BitcoinState, metrics: &mut MetricsWriter<'_>) -> Result {
    let tables = state.table_bytes.iter().filter(|(_, bytes)| *bytes > 0);
    metrics.labelled_gauges(
        "chain_table_bytes",
        "Bytes on disk of the index by table and array; a number is that of a pack or delta.",
        tables.map(|(table, bytes)| ([("table", table.as_str())], *bytes)),
    )?;
    let Some(merges) = &state.merges else { return Ok(()) };
    let numbers: Vec<String> = (1..=merges.packs.len()).map(|number| number.to_string()).collect();
    let packs = || numbers.iter().map(String::as_str).zip(&merges.packs);
    metrics.labelled_gauges(
        "chain_pack_transactions",
        "Transactions by pack, the oldest first.",
        packs().map(|(number, pack)| ([("pack", number)], pack.transactions)),
    )?;
    metrics.labelled_gauges(
        "chain_pack_scripts",
        "Scripts by pack, the oldest first.",
        packs().map(|(number, pack)| ([("pack", number)], pack.scripts)),
    )?;
    metrics.gauge(
        "chain_delta_transactions",
        "Transactions of rows that are not packed.",
        merges.delta_transactions,
    )?;
    metrics.gauge(
        "chain_unmerged_transactions",
        "Transactions of full deltas that wait for a merge.",
        merges.buried_transactions,
    )
}

fn derived(all: &[DerivedProgress], metrics: &mut MetricsWriter<'_>) -> Result {
    let label = |one: &DerivedProgress| [("index", one.name)];
    let gauges = |value: fn(&DerivedProgress) -> u64| all.iter().map(move |one| (label(one), value(one)));
    metrics.labelled_gauges(
        "derived_blocks",
        "Blocks that a derived index covers.",
        gauges(|one| one.blocks.into()),
    )?;
    metrics.labelled_gauges(
        "derived_behind_blocks",
        "Blocks of the index that a derived index lacks.",
        gauges(|one| (one.of_blocks - one.blocks).into()),
    )?;
    metrics.labelled_gauges("derived_bytes", "Bytes on disk of a derived index.", gauges(|one| one.bytes))?;
    let failures = all.iter().map(|one| (label(one), one.failures));
    metrics.labelled_counters("derived_failures", "Failed attempts to bring a derived index to the tip.", failures)
}

fn node(state: &BitcoinState, metrics: &mut MetricsWriter<'_>) -> Result {
    if let Some(tip) = state.node.and_then(|node| node.tip) {
        metrics.gauge("node_tip_height", "Height of the node at its last answer.", u64::from(tip.height.0))?;
    }
    if let Some(fetches) = state.fetches {
        metrics.counter(
            "fetched_blocks",
            "Blocks that a pruned node had deleted and a peer has sent.",
            fetches.blocks,
        )?;
        metrics.counter(
            "failed_fetches",
            "Blocks that a pruned node had deleted and no peer has sent.",
            fetches.failures,
        )?;
        metrics.gauge("fetched_bytes", "Bytes of old transactions that are kept of them.", fetches.kept_bytes)?;
    }
    let Some(calls) = &state.node_calls else { return Ok(()) };
    metrics.counter("node_calls", "Calls to the node.", calls.calls)?;
    metrics.counter(
        "node_failed_calls",
        "Calls without an answer; an error of the node is an answer.",
        calls.failures,
    )?;
    metrics.counter("node_call_seconds", "Time of calls to the node, without long polls.", calls.time.as_secs_f64())
}
