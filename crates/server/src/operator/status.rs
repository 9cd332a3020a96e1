//! The state of the process as a [`Status`], which `birdhouse ctl status`, the dashboard and `birdhouse top` show.
//!
//! It is made when somebody asks: from counters and a few short reads of `/proc` and of folders, never from rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use birdhouse_chain::{DerivedProgress, Height, Phase, Progress};
use birdhouse_clients::SlowKind as Slow;
use birdhouse_dashboard::{
    Bitcoin, Build, Derived, Endpoint, Link, Protocol, SlowKind, Status, Subject, TableSize, Warning, warnings,
};
use birdhouse_node::forked_chain;
use birdhouse_store::Store as _;
use birdhouse_watch::channel::Clock;
use bitcoin::block::Header;
use bitcoin::{Network, consensus};

use crate::operator::certificates;
use crate::operator::control::{self, BitcoinState, Control, ServiceState, State};
use crate::operator::shown::Shown;
use crate::operator::stores::{Part, Stores};
use crate::operator::watch;
use crate::services::{Counts, PerSecond, count_of};
use crate::sockets::welcome::OwnAddress;
use crate::sockets::{BoundListener, welcome};

/// Slowest kinds of questions that are shown.
const SLOWEST: usize = 10;

/// Remedy of a chain that forks from the one of its network.
pub(crate) const FORK_ADVICE: &str = "Find out which chain the node follows: its software, `invalidateblock`, or a wrong data folder. Wallets see that \
     chain's coins.";

/// Reads the state of every part.
pub(super) fn status(control: &Control) -> Status {
    let state = control.state();
    let mut status = of_state(&state, control);
    status.warnings.extend(state.watches.iter().flat_map(watch::warnings));
    let advice = "Change the configuration, or ignore this.";
    let of_settings = control.shown.warnings.iter();
    let of_setting = |text: &String| Warning {
        about: text.clone(),
        text: text.clone(),
        advice: advice.to_owned(),
        ..Warning::default()
    };
    status.warnings.extend(of_settings.map(of_setting));
    status
}

/// Reads the state of every part, without warnings about settings and watches.
pub(super) fn of_server(control: &Control) -> Status {
    of_state(&control.state(), control)
}

fn of_state(state: &State, control: &Control) -> Status {
    let now = Instant::now();
    let rates = control.rates.per_second(now, &counts(state, control));
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
        waiting_clients: count_of(state.waiting.iter().map(|(_, waiting)| waiting.now).sum()),
        bitcoin: state.bitcoin.as_ref().map(|bitcoin| of_bitcoin(bitcoin, control, rates, now)),
        relay: None,
        watched: state.watches.as_ref().map(watch::counts),
        streams: Vec::new(),
        set_aside: Vec::new(),
        protocols: protocols(state),
        slowest: slowest(state),
        disk: disk(&control.stores),
        endpoints: endpoints(&control.shown),
        links: links(&control.shown),
        warnings: Vec::new(),
    };
    for service in &state.services {
        service.overview.show(&mut status, rates);
    }
    status.warnings = warnings(&status);
    status.warnings.extend(control.bitcoin.as_ref().and_then(fork));
    status.warnings.extend(certificates::warnings(&control.shown, Clock::system().now().as_secs()));
    status
}

/// Returns a warning if the index has another chain than its network.
fn fork(bitcoin: &control::Bitcoin) -> Option<Warning> {
    let at = bitcoin.index.snapshot().ok()?;
    fork_of(bitcoin.network, |height| at.header(Height(height)))
}

/// Returns the warning of [`fork`] for a chain of these headers by height.
fn fork_of(network: Network, header: impl Fn(u32) -> Option<[u8; 80]>) -> Option<Warning> {
    let text = forked_chain(network, |height| {
        let header: Header = consensus::deserialize(&header(height)?).ok()?;
        Some(header.block_hash())
    })?;
    Some(Warning { about: "fork".to_owned(), subject: Subject::Node, text, advice: FORK_ADVICE.to_owned() })
}

/// Adds a sample for the rates.
pub(crate) fn sample(control: &Control) {
    control.rates.add(Instant::now(), counts(&control.state(), control));
}

fn counts(state: &State, control: &Control) -> Counts {
    let progress = control.bitcoin.as_ref().map(|bitcoin| bitcoin.index.progress());
    let phase = progress.map_or(Phase::Scanning, Progress::phase);
    let built = progress.map_or(0, |progress| progress.done().0);
    let mut counts = Counts { phase, built, accepted: 0, refused: 0, sent: 0 };
    for service in &state.services {
        service.overview.count(&mut counts);
    }
    counts
}

/// Returns the figures of the index; those of the wallets are added by their service.
fn of_bitcoin(state: &BitcoinState, control: &Control, rates: PerSecond, now: Instant) -> Bitcoin {
    let BitcoinState { network, tip, node, node_calls, mempool, .. } = state;
    let is_built = control.bitcoin.as_ref().is_some_and(|bitcoin| bitcoin.index.is_ready());
    let progress = control.bitcoin.as_ref().map(|bitcoin| bitcoin.index.progress());
    Bitcoin {
        network: network.to_string(),
        tip_height: tip.map(|tip| tip.height.0),
        tip_hash: tip.map(|tip| tip.hash.to_string()),
        sync_percent: state.sync_percent,
        node_height: node.and_then(|node| node.tip).map(|tip| tip.height.0),
        node_silent_s: node.map(|node| now.saturating_duration_since(node.answered).as_secs()),
        node_calls: node_calls.as_ref().map(|calls| calls.calls),
        index_bytes: state.table_bytes.iter().map(|(_, bytes)| bytes).sum(),
        node_bytes: state.node_blocks.map(|blocks| blocks.bytes),
        node_first_block: state.node_blocks.map(|blocks| blocks.first.0),
        node_prunable_bytes: state.node_blocks.and_then(|blocks| blocks.prunable_bytes),
        fetched_blocks: state.fetches.map(|fetches| fetches.blocks),
        failed_fetches: state.fetches.map(|fetches| fetches.failures),
        fetched_bytes: state.fetches.map(|fetches| fetches.kept_bytes),
        node_failed_calls: node_calls.as_ref().map(|calls| calls.failures),
        mempool_transactions: mempool.map(|(transactions, _)| count_of(transactions)),
        mempool_vbytes: mempool.map(|(_, vbytes)| vbytes),
        cache_bytes: state.cache_bytes,
        connections: 0,
        clients: 0,
        subscriptions: 0,
        derived: state.derived.iter().map(derived).collect(),
        build: progress.filter(|_| !is_built).map(|progress| build(progress, rates)),
    }
}

fn derived(progress: &DerivedProgress) -> Derived {
    let DerivedProgress { name, blocks, of_blocks, bytes: _, failures: _, failure } = progress;
    Derived { name: (*name).to_owned(), blocks: *blocks, of_blocks: *of_blocks, failure: failure.clone() }
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

/// Returns the connections of every listener, also of one that nobody uses.
fn protocols(state: &State) -> Vec<Protocol> {
    let lines = |service: &ServiceState| {
        let protocol = service.name;
        let line =
            move |(listener, open)| Protocol { protocol: protocol.to_owned(), listener, connections: count_of(open) };
        service.overview.connections().into_iter().map(line)
    };
    state.services.iter().flat_map(lines).collect()
}

fn slowest(state: &State) -> Vec<SlowKind> {
    let kinds = |service: &ServiceState| -> Vec<SlowKind> {
        service.overview.slowest().iter().map(|kind| slow_kind(service.name, kind)).collect()
    };
    let mut all: Vec<SlowKind> = state.services.iter().flat_map(kinds).collect();
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
    for (part, folder, store) in &stores.open {
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
    let own = OwnAddress::find();
    let bound = shown.listeners.iter().filter_map(welcome::Endpoint::of);
    bound.map(|endpoint| endpoint.shown(own)).chain(shown.public.iter().cloned()).collect()
}

/// Returns the addresses of the other services.
pub(super) fn links(shown: &Shown) -> Vec<Link> {
    let other =
        |one: &BoundListener| Some(welcome::Other { serves: one.serves, scheme: one.scheme()?, addr: one.addr });
    let others: Vec<_> = shown.others.iter().filter_map(other).collect();
    welcome::links(&others, OwnAddress::find(), &shown.public, &shown.relay_urls)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_dashboard::status_page;
    use bitcoin::constants::genesis_block;

    use super::*;

    /// Heights of `BIP34Hash` in Core's `chainparams.cpp`, at which every node knows the block.
    #[test]
    fn a_chain_that_forks_from_its_network_is_a_warning_on_the_page() {
        let header = genesis_block(Network::Bitcoin).header;
        let bytes: [u8; 80] = consensus::serialize(&header).try_into().unwrap();
        for (network, height) in [(Network::Bitcoin, 227_931), (Network::Testnet, 21_111)] {
            let to = |tip: u32| fork_of(network, |height| (height <= tip).then_some(bytes));
            assert_eq!(to(height - 1), None, "{network}");
            let warning = to(height).unwrap();
            assert_eq!((warning.about.as_str(), warning.advice.as_str()), ("fork", FORK_ADVICE));
            let page = status_page(&Status { warnings: vec![warning], ..Status::default() });
            let (hash, said) = (header.block_hash().to_string(), format!("forks from {network} at height {height}"));
            for part in ["<code>invalidateblock</code>", &hash, &said] {
                assert!(page.contains(part), "{part}: {page}");
            }
        }
        assert_eq!(fork_of(Network::Regtest, |_| Some(bytes)), None);
        assert_eq!(fork_of(Network::Bitcoin, |_| None), None);
    }
}
