//! The state of the process as a [`Status`], which `birdhouse ctl status`, the dashboard and `birdhouse top` show.
//!
//! It is made when somebody asks: from counters and a few short reads of `/proc` and of folders, never from rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use birdhouse_chain::{Phase, Progress};
use birdhouse_clients::SlowKind as Slow;
use birdhouse_dashboard::{
    Bitcoin, Build, Endpoint, Protocol, Rate, Refusals, Relay, SlowKind, Status, TableSize, Warning, warnings,
};
use birdhouse_store::Store as _;

use crate::operator::control::{BitcoinState, Control, State};
use crate::operator::rates::{Counts, PerSecond};
use crate::operator::shown::Shown;
use crate::operator::stores::{Part, Stores};
use crate::sockets::welcome;

/// Slowest kinds of questions that are shown.
const SLOWEST: usize = 10;
/// Outcomes of events that are no refusals.
const TAKEN: [&str; 3] = ["accepted", "duplicate", "shadowed"];

/// Reads the state of every part.
pub(super) fn status(control: &Control) -> Status {
    let (state, now) = (control.state(), Instant::now());
    let rates = control.rates.per_second(now, &counts(&state, control));
    let memory = state.usage.map(|usage| (usage.rss_bytes, usage.peak_rss_bytes)).unzip();
    let mut status = Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        health: state.health.to_string(),
        state: state.health.to_json()["status"].as_str().unwrap_or("serving").to_owned(),
        is_good: state.health.is_good(),
        uptime_s: control.started.elapsed().as_secs(),
        memory_bytes: memory.0,
        memory_peak_bytes: memory.1,
        open_files: state.usage.map(|usage| usage.open_files),
        open_files_max: state.usage.map(|usage| usage.files_max),
        disk_free_bytes: state.disk_free_bytes,
        bitcoin: state.bitcoin.as_ref().map(|bitcoin| of_bitcoin(bitcoin, control, rates, now)),
        relay: state.relay.as_ref().map(|relay| of_relay(relay, &state, rates)),
        protocols: protocols(&state, &control.shown),
        slowest: slowest(&state),
        disk: disk(&control.stores),
        endpoints: endpoints(&control.shown),
        warnings: Vec::new(),
    };
    status.warnings = warnings(&status);
    let advice = "Change the configuration, or ignore this.";
    let of_settings = control.shown.warnings.iter();
    status.warnings.extend(of_settings.map(|text| Warning { text: text.clone(), advice: advice.to_owned() }));
    status
}

/// Adds a sample for the rates.
pub(crate) fn sample(control: &Control) {
    control.rates.add(Instant::now(), counts(&control.state(), control));
}

fn counts(state: &State, control: &Control) -> Counts {
    let progress = control.bitcoin.as_ref().map(|bitcoin| bitcoin.index.progress());
    let (accepted, refused) = state.relay.as_ref().map(events).unwrap_or_default();
    Counts {
        phase: progress.map_or(Phase::Scanning, Progress::phase),
        built: progress.map_or(0, |progress| progress.done().0),
        accepted,
        refused,
        sent: state.relay.as_ref().map_or(0, |relay| relay.rows + relay.live_sent),
    }
}

/// Returns the numbers of accepted and of refused events.
fn events(overview: &birdhouse_relay::Overview) -> (u64, u64) {
    let sum = |is_meant: &dyn Fn(&str) -> bool| {
        overview.events.iter().filter(|(outcome, _)| is_meant(outcome)).map(|(_, count)| count).sum()
    };
    (sum(&|outcome| outcome == "accepted"), sum(&|outcome| !TAKEN.contains(&outcome)))
}

fn of_bitcoin(state: &BitcoinState, control: &Control, rates: PerSecond, now: Instant) -> Bitcoin {
    let BitcoinState { network, electrum, tip, node, node_calls, mempool, .. } = state;
    let connections: usize = electrum.connections.iter().map(|(_, count)| count).sum();
    let waiting: usize = electrum.turns.iter().map(|(_, waiting)| waiting.now).sum();
    let is_built = tip.is_some();
    let progress = control.bitcoin.as_ref().map(|bitcoin| bitcoin.index.progress());
    Bitcoin {
        network: network.to_string(),
        tip_height: tip.map(|tip| tip.height.0),
        tip_hash: tip.map(|tip| tip.hash.to_string()),
        sync_percent: state.sync_percent,
        node_height: node.and_then(|node| node.tip).map(|tip| tip.height.0),
        node_silent_s: node.map(|node| now.saturating_duration_since(node.answered).as_secs()),
        node_calls: node_calls.as_ref().map(|calls| calls.calls),
        node_failed_calls: node_calls.as_ref().map(|calls| calls.failures),
        mempool_transactions: mempool.map(|(transactions, _)| count_of(transactions)),
        mempool_vbytes: mempool.map(|(_, vbytes)| vbytes),
        cache_bytes: state.cache_bytes,
        connections: count_of(connections),
        clients: count_of(electrum.clients),
        subscriptions: count_of(electrum.subscriptions),
        waiting_clients: count_of(waiting),
        build: progress.filter(|_| !is_built).map(|progress| build(progress, rates)),
    }
}

fn build(progress: &Progress, rates: PerSecond) -> Build {
    let ((done, total), (blocks, blocks_total)) = (progress.done(), progress.blocks());
    let phase = match progress.phase() {
        Phase::Scanning => birdhouse_dashboard::Phase::Scanning,
        Phase::Reading => birdhouse_dashboard::Phase::Reading,
        Phase::Sorting => birdhouse_dashboard::Phase::Sorting,
    };
    let left_s = progress.left().map(|left| left.as_secs());
    Build { phase, done, total, done_per_s: rates.built, blocks, blocks_total, left_s }
}

fn of_relay(overview: &birdhouse_relay::Overview, state: &State, rates: PerSecond) -> Relay {
    let health = state.health.relay.as_ref();
    let (accepted, refused) = events(overview);
    let refusals = overview.events.iter().filter(|(outcome, _)| !TAKEN.contains(outcome));
    let mut refusals: Vec<Refusals> =
        refusals.map(|(outcome, events)| Refusals { reason: (*outcome).to_owned(), events: *events }).collect();
    refusals.sort_by_key(|refusals| std::cmp::Reverse(refusals.events));
    let failures = health.into_iter().flat_map(|health| &health.failures);
    Relay {
        relay_state: health.map_or("serving", |health| health.storing.name()).to_owned(),
        relay_reason: health.and_then(|health| health.storing.reason()),
        relay_failures: failures.map(|(thread, failure)| format!("{thread}: {failure}")).collect(),
        relay_connections: count_of(overview.connections),
        relay_clients: count_of(overview.clients),
        relay_subscriptions: count_of(overview.subscriptions),
        relay_events: overview.live_events,
        relay_waiting_clients: count_of(overview.turns.now),
        relay_accepted: Rate { total: accepted, per_s: rates.accepted },
        relay_refused: Rate { total: refused, per_s: rates.refused },
        relay_sent: Rate { total: overview.rows + overview.live_sent, per_s: rates.sent },
        relay_refusals: refusals,
    }
}

/// Returns the connections of every listener, also of one that nobody uses.
fn protocols(state: &State, shown: &Shown) -> Vec<Protocol> {
    let lines = |protocol: &str, listeners: &[String], open: &[(String, usize)]| -> Vec<Protocol> {
        let connections =
            |name: &String| open.iter().find(|(listener, _)| listener == name).map_or(0, |(_, count)| *count);
        let line = |name: &String| Protocol {
            protocol: protocol.to_owned(),
            listener: name.clone(),
            connections: count_of(connections(name)),
        };
        listeners.iter().map(line).collect()
    };
    let wallets: Vec<String> = shown.listeners.iter().map(|(_, listener)| listener.name.clone()).collect();
    let mut all = Vec::new();
    all.extend(state.bitcoin.iter().flat_map(|bitcoin| lines("Electrum", &wallets, &bitcoin.electrum.connections)));
    all.extend(state.rest.iter().flat_map(|rest| lines("REST", &shown.rest, &rest.connections)));
    let nostr = |relay: &birdhouse_relay::Overview| [("all".to_owned(), relay.connections)];
    all.extend(state.relay.iter().flat_map(|relay| lines("Nostr", &["all".to_owned()], &nostr(relay))));
    all
}

fn slowest(state: &State) -> Vec<SlowKind> {
    let kinds = |protocol: &'static str, kinds: &[Slow]| -> Vec<SlowKind> {
        kinds.iter().map(|kind| slow_kind(protocol, kind)).collect()
    };
    let mut all = Vec::new();
    all.extend(state.bitcoin.iter().flat_map(|bitcoin| kinds("Electrum", &bitcoin.electrum.slowest)));
    all.extend(state.rest.iter().flat_map(|rest| kinds("REST", &rest.slowest)));
    all.extend(state.relay.iter().flat_map(|relay| kinds("Nostr", &relay.slowest)));
    all.sort_by(|one, other| other.longest_ms.total_cmp(&one.longest_ms));
    all.truncate(SLOWEST);
    all
}

#[expect(clippy::cast_precision_loss, reason = "a count of an hour is far below 2^52")]
fn slow_kind(protocol: &str, kind: &Slow) -> SlowKind {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    SlowKind {
        protocol: protocol.to_owned(),
        shape: kind.shape.clone(),
        count: kind.count,
        mean_ms: ms(kind.total) / kind.count as f64,
        longest_ms: ms(kind.longest),
    }
}

/// Returns the bytes of all tables, those of one sort together, the largest first.
fn disk(stores: &Stores) -> Vec<TableSize> {
    let mut sizes: BTreeMap<(&'static str, String), u64> = BTreeMap::new();
    for (part, folder, store) in &stores.stores {
        // A size that cannot be read is left out: the page is about everything else, too.
        for (table, bytes) in store.sizes().unwrap_or_default() {
            // `script.3` is the table of a slot.
            let sort = table.split('.').next().unwrap_or(&table).to_owned();
            *sizes.entry((part.name(), sort)).or_default() += bytes;
        }
        let folders: &[&str] = if *part == Part::Relay { &["log", "search"] } else { &["log"] };
        for name in folders {
            *sizes.entry((part.name(), (*name).to_owned())).or_default() += folder_bytes(&folder.join(name));
        }
    }
    let sizes = sizes.into_iter().filter(|(_, bytes)| *bytes > 0);
    let mut sizes: Vec<TableSize> =
        sizes.map(|((part, table), bytes)| TableSize { part: part.to_owned(), table, bytes }).collect();
    sizes.sort_by_key(|size| std::cmp::Reverse(size.bytes));
    sizes
}

/// Returns the bytes of the files in a folder, without those of its folders.
fn folder_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
}

/// Returns the addresses for wallets: those of this network, then the public ones.
fn endpoints(shown: &Shown) -> Vec<Endpoint> {
    let own = welcome::own_address();
    let bound = shown.listeners.iter().filter_map(|(addr, listener)| welcome::Endpoint::of(*addr, listener));
    let bound = bound.map(|endpoint| Endpoint {
        host: endpoint.host(own),
        port: endpoint.addr.port(),
        is_tls: endpoint.fingerprint.is_some(),
        is_local: endpoint.addr.ip().is_loopback(),
        fingerprint: endpoint.fingerprint,
    });
    bound.chain(shown.public.iter().cloned()).collect()
}

fn count_of(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
