//! The checks. Pure: each decides on facts alone, and none of its findings if it does not apply.

use std::io::ErrorKind;
use std::path::Path;

use birdhouse_chain::rebuild_advice;
use birdhouse_node::{KeptBlocks, PruneMode};

use super::facts::{Answer, Facts, Media, Node, Plugin, PortState, Store};
use super::finding::Finding;
use crate::index::BuildSpace;
use crate::operator::FORK_ADVICE;
use crate::process::users::OtherUser;
use crate::sockets::{Standing, bind};

/// A check.
pub(super) type Check = fn(&Facts) -> Vec<Finding>;

/// Every check, in the order of the report: causes before effects.
pub(super) const CHECKS: [(&str, Check); 21] = [
    ("settings", settings),
    ("user", user),
    ("node", node),
    ("chain", chain),
    ("rpc rights", rights),
    ("old blocks", old_blocks),
    ("rpc network", clear_rpc),
    ("zmq", zmq),
    ("blocks", blocks),
    ("index", index),
    ("derived index", derived),
    ("relay", relay),
    ("plugin", plugin),
    ("watches", watches),
    ("media store", media),
    ("data folder", data_dir),
    ("disk", disk),
    ("memory", memory),
    ("open files", files),
    ("ports", ports),
    ("clock, TLS", clock_and_certificates),
];

/// Free disk below which nothing can be written safely, bytes.
const DISK_MIN: u64 = 1 << 30;
/// Difference to the clocks of the node's peers that is worth a warning, seconds.
const CLOCK_OFFSET_MAX: u64 = 60;
/// A block may be this far ahead of true time, seconds (Core's `MAX_FUTURE_BLOCK_TIME`).
const BLOCK_AHEAD_MAX: u64 = 2 * 60 * 60;
/// Files that are no connections.
const OWN_FILES: u64 = crate::process::file_limit::RESERVED;

fn settings(facts: &Facts) -> Vec<Finding> {
    let of = facts.file.as_ref().map_or_else(String::new, |file| format!("; read {}", file.display()));
    match &facts.settings {
        Err(error) => vec![Finding::explained(error)],
        Ok(()) if facts.warnings.is_empty() => vec![Finding::ok(format!("no setting is without effect{of}"))],
        Ok(()) => facts
            .warnings
            .iter()
            .map(|warning| Finding::warn(warning, "correct the setting; `birdhouse config` shows all of them"))
            .collect(),
    }
}

fn user(facts: &Facts) -> Vec<Finding> {
    let Some(other) = &facts.other_user else { return Vec::new() };
    let OtherUser { name, own } = other;
    vec![Finding::fail(
        format!(
            "this user is {own}, and the data folder is of {name}: node, index, ports and files are not examined, \
             because {name} may do other things than {own}"
        ),
        other.command("doctor"),
    )]
}

fn node(facts: &Facts) -> Vec<Finding> {
    let Some(node) = node_of(facts) else { return Vec::new() };
    vec![match (&node.answer, &node.other_network) {
        (Answer::Ready { user_agent, height, kept }, _) => {
            let height = shown_height(*height, kept.headers.0);
            Finding::ok(format!("{user_agent} answers, {height}, {}", shown_pruning(kept)))
        }
        (Answer::Waiting(why), _) => Finding::warn(why, "wait: birdhouse starts to build when the node is ready"),
        (Answer::Unfit(why), _) => Finding::explained(why),
        (Answer::Silent(_), Some(message)) => Finding::explained(message),
        (Answer::Silent(why), None) => Finding::fail(
            why,
            "start it (`bitcoind -daemon -server=1`, `systemctl start bitcoind`), or name it by --node-dir, --network \
             and --rpc-addr",
        ),
    }]
}

/// The height of the node's tip. A header may be a moment ahead of its block.
fn shown_height(tip: u32, best_header: u32) -> String {
    if best_header > tip.saturating_add(1) {
        format!("height {tip} of {best_header} (it downloads the chain, and the index follows)")
    } else {
        format!("height {tip}")
    }
}

fn shown_pruning(kept: &KeptBlocks) -> String {
    let blocks = || match kept.first.0 {
        0 => "it has all blocks".to_owned(),
        first => format!("it has the blocks from {first} on"),
    };
    match kept.mode {
        PruneMode::Off => "not pruned".to_owned(),
        PruneMode::Manual => format!("pruned by hand, {}", blocks()),
        PruneMode::Automatic => format!("pruned automatically, {}", blocks()),
    }
}

fn chain(facts: &Facts) -> Vec<Finding> {
    let Some(node) = node_of(facts).filter(|node| matches!(node.answer, Answer::Ready { .. } | Answer::Waiting(_)))
    else {
        return Vec::new();
    };
    vec![match &node.fork {
        None => Finding::ok("it has the blocks of its network that are known"),
        Some(fork) => Finding::warn(fork, FORK_ADVICE),
    }]
}

fn rights(facts: &Facts) -> Vec<Finding> {
    let Some(node) = node_of(facts).filter(|node| matches!(node.answer, Answer::Ready { .. } | Answer::Waiting(_)))
    else {
        return Vec::new();
    };
    if node.forbidden.is_empty() {
        return vec![Finding::ok("the login may call every method that is needed")];
    }
    let methods = node.forbidden.join(",");
    vec![Finding::fail(
        format!("the login may not call {methods}"),
        format!("add {methods} to the user's rpcwhitelist in bitcoin.conf and restart bitcoind"),
    )]
}

fn old_blocks(facts: &Facts) -> Vec<Finding> {
    let Some(peers) = node_of(facts).and_then(|node| node.full_peers) else { return Vec::new() };
    vec![match peers {
        0 => Finding::warn(
            "none of the node's peers has all blocks, so old transactions of deleted blocks cannot be fetched",
            "let the node connect to others (`bitcoin-cli getpeerinfo`), or add one that has: `bitcoin-cli addnode`",
        ),
        peers => Finding::ok(format!("old transactions are fetched from {peers} of the node's peers")),
    }]
}

fn clear_rpc(facts: &Facts) -> Vec<Finding> {
    let warning = node_of(facts).and_then(|node| node.clear_rpc.as_ref());
    warning.map(|warning| Finding::warn(warning, "`ssh -L 8332:127.0.0.1:8332 NODE`")).into_iter().collect()
}

fn zmq(facts: &Facts) -> Vec<Finding> {
    let Some(node) = node_of(facts) else { return Vec::new() };
    vec![match &node.zmq {
        None => Finding::ok("not configured: the mempool is polled, which works"),
        Some((addr, true)) => Finding::ok(format!("something listens at {addr}")),
        Some((addr, false)) => Finding::warn(
            format!("nothing listens at {addr}; the mempool is polled meanwhile"),
            format!(
                "add zmqpubsequence=tcp://{addr} to bitcoin.conf and restart bitcoind, or correct zmq-sequence-addr"
            ),
        ),
    }]
}

fn blocks(facts: &Facts) -> Vec<Finding> {
    let Some(bitcoin) = &facts.bitcoin else { return Vec::new() };
    vec![match &bitcoin.source {
        Ok(source) if bitcoin.skipped.is_empty() => Finding::ok(source),
        Ok(source) => {
            let found = format!("{source}, at several times the cost of reading the node's files");
            Finding::warn(found, bitcoin.skipped.join("; "))
        }
        // The node's own failure is reported above.
        Err(_) if node_of(facts).is_some_and(|node| matches!(node.answer, Answer::Silent(_) | Answer::Unfit(_))) => {
            return Vec::new();
        }
        Err(error) => Finding::explained(error),
    }]
}

fn index(facts: &Facts) -> Vec<Finding> {
    let Some(bitcoin) = &facts.bitcoin else { return Vec::new() };
    let node_height = match node_of(facts).map(|node| &node.answer) {
        Some(Answer::Ready { height, .. }) => Some(*height),
        _ => None,
    };
    vec![match (&bitcoin.index, bitcoin.height, bitcoin.tip_is_known, node_height) {
        (Store::Failing(message), ..) => Finding::explained(message),
        (Store::Damaged { folder, error }, ..) => Finding::fail(error, rebuild_advice(folder)),
        (_, Some(height), Some(false), Some(node)) => Finding::fail(
            format!("the index is at height {height}, and the node, at {node}, does not have that block"),
            format!(
                "if the node was wiped or is syncing, wait until it has caught up; if it is another node than the \
                 index was built beside, set node-dir and rpc-addr back; if the chain of that node is another one for \
                 good, {}",
                rebuild_advice(bitcoin.index_dir.as_deref().unwrap_or(Path::new("of the index")))
            ),
        ),
        (Store::Absent, ..) => match &bitcoin.other_indexes {
            None => Finding::ok("not built yet: the next run builds it"),
            Some(others) => Finding::warn(
                format!("not built yet, and the data folder holds an index of {others}"),
                "set network back if that is the one to serve; otherwise the next run builds another index",
            ),
        },
        (_, Some(height), _, Some(node)) if height < node => {
            Finding::ok(format!("at height {height}; a running server follows the node to {node}"))
        }
        (_, Some(height), ..) => Finding::ok(format!("at height {height}")),
        (_, None, ..) => Finding::ok("the first build is not finished: the next run resumes it"),
    }]
}

fn derived(facts: &Facts) -> Vec<Finding> {
    let finding = |(name, store): &(&str, Store)| match store {
        Store::Absent => None,
        Store::InUse => Some(Finding::ok(format!("{name}: a running server has it open"))),
        Store::Failing(message) => Some(Finding::warn(
            format!("{name}: {message}"),
            "do what the message says; everything else goes on, and birdhouse tries again by itself",
        )),
        Store::Whole { bytes } => Some(Finding::ok(format!("{name}: {} MB", bytes / 1_000_000))),
        Store::Damaged { folder, error } => Some(Finding::fail(
            format!("{name}: {error}"),
            format!("stop birdhouse, remove {} and nothing else, and start it: it is made again", folder.display()),
        )),
    };
    facts.derived.iter().filter_map(finding).collect()
}

fn relay(facts: &Facts) -> Vec<Finding> {
    let Some(store) = &facts.relay else { return Vec::new() };
    vec![match store {
        Store::Absent => Finding::ok("no events yet"),
        Store::InUse => Finding::ok("a running server has the events open"),
        Store::Failing(message) => Finding::explained(message),
        Store::Whole { bytes } => Finding::ok(format!("events on {} MB", bytes / 1_000_000)),
        Store::Damaged { folder, error } => Finding::fail(
            error,
            format!(
                "make a copy of {} first, because it is the only copy of the events; then `birdhouse export` what can \
                 be read, or bring back a backup",
                folder.display()
            ),
        ),
    }]
}

fn plugin(facts: &Facts) -> Vec<Finding> {
    let Some(Plugin { program, can_run }) = &facts.plugin else { return Vec::new() };
    vec![if *can_run {
        Finding::ok(format!("{program} can be run"))
    } else {
        Finding::fail(
            format!("{program} is no program that this user can run: every event would be refused or accepted unseen"),
            "correct relay-plugin, or make the program executable (`chmod +x`)",
        )
    }]
}

fn watches(facts: &Facts) -> Vec<Finding> {
    let finding = |watches: &Result<String, String>| match watches {
        Ok(found) => Finding::ok(found),
        Err(error) => Finding::explained(error),
    };
    facts.watches.iter().map(finding).collect()
}

fn media(facts: &Facts) -> Vec<Finding> {
    let Some(Media { folder, disk_free_bytes, floor_bytes }) = &facts.media else { return Vec::new() };
    let path = folder.path.display();
    if !folder.is_writable {
        return vec![Finding::fail(
            format!("{path} cannot be written by this user"),
            format!("run birdhouse as its owner, or `chown -R USER {path}`"),
        )];
    }
    let free = disk_free_bytes.unwrap_or(u64::MAX) / 1_000_000;
    let floor = floor_bytes.unwrap_or(0) / 1_000_000;
    vec![if free < floor {
        Finding::warn(
            format!("{free} MB are free, and uploads are refused below {floor} MB"),
            "free some space, or lower disk-free-bytes in [limits.blossom]",
        )
    } else {
        Finding::ok(format!("{path} is writable; uploads are taken while {floor} MB are free"))
    }]
}

fn data_dir(facts: &Facts) -> Vec<Finding> {
    let Some(folder) = &facts.data_dir else { return Vec::new() };
    let path = folder.path.display();
    vec![match folder.mode {
        _ if !folder.is_writable => Finding::fail(
            format!("{path} cannot be written by this user"),
            format!("run birdhouse as its owner, or `chown -R USER {path}`"),
        ),
        None => Finding::ok(format!("{path} will be created")),
        Some(mode) if mode & 0o022 != 0 => {
            Finding::warn(format!("other users can change {path} (mode {mode:o})"), format!("chmod go-w {path}"))
        }
        Some(_) => Finding::ok(format!("{path} is writable for this user alone")),
    }]
}

fn disk(facts: &Facts) -> Vec<Finding> {
    let Some(free) = facts.machine.disk_free_bytes else { return Vec::new() };
    if free < DISK_MIN {
        return vec![Finding::fail(
            format!("{} MB are free", free / 1_000_000),
            "free some space, or move the data folder to another disk (--data-dir)",
        )];
    }
    let is_unbuilt = |bitcoin: &&super::facts::Bitcoin| bitcoin.height.is_none();
    let Some(blocks) = facts.bitcoin.as_ref().filter(is_unbuilt).and_then(|bitcoin| bitcoin.blocks_bytes) else {
        return vec![Finding::ok(format!("{} MB are free{}", free / 1_000_000, shown_use(facts)))];
    };
    let BuildSpace { index, peak, .. } =
        BuildSpace::estimate(blocks, facts.machine.index_percent, facts.machine.build_temp_bytes);
    let estimate = format!(
        "{} MB are free; the first build needs about {} MB, and the index about {} MB",
        free / 1_000_000,
        peak / 1_000_000,
        index / 1_000_000
    );
    vec![if free < peak {
        Finding::warn(estimate, "lower build-temp-mib, choose profile = \"lean\", or another disk (--data-dir)")
    } else {
        Finding::ok(estimate)
    }]
}

/// The disk that node and index take together, and what pruning would free.
fn shown_use(facts: &Facts) -> String {
    let Some(bitcoin) = &facts.bitcoin else { return String::new() };
    let (Some(blocks), Some(index)) = (bitcoin.blocks_bytes, bitcoin.index_bytes) else { return String::new() };
    let [blocks, index] = [blocks, index].map(|bytes| bytes / 1_000_000);
    let prunable = match bitcoin.prunable_bytes.filter(|bytes| *bytes > 0) {
        Some(bytes) => format!("; `birdhouse prune` can free {} MB", bytes / 1_000_000),
        None => String::new(),
    };
    format!("; the node's blocks take {blocks} MB and the index {index} MB, together {} MB{prunable}", blocks + index)
}

fn memory(facts: &Facts) -> Vec<Finding> {
    let (Some(free), wanted) = (facts.machine.memory_free_bytes, facts.machine.memory_wanted_bytes) else {
        return Vec::new();
    };
    let found = format!("{} MB are available; the settings allow {} MB", free / 1_000_000, wanted / 1_000_000);
    vec![if free < wanted { Finding::warn(found, "lower build-memory-mib and cache-mib") } else { Finding::ok(found) }]
}

fn files(facts: &Facts) -> Vec<Finding> {
    let (files, connections) = (facts.machine.files_max, facts.machine.connections_max);
    let found = format!("{files} for {connections} connections and {OWN_FILES} files of the server");
    vec![if files < connections + OWN_FILES {
        Finding::warn(found, format!("LimitNOFILE={} in the unit, or `ulimit -n`", connections + OWN_FILES))
    } else {
        Finding::ok(found)
    }]
}

fn ports(facts: &Facts) -> Vec<Finding> {
    let finding = |port: &super::facts::Port| {
        let (name, addr) = (&port.name, port.addr);
        match &port.state {
            PortState::Free => Finding::ok(format!("{name}: {addr} is free")),
            PortState::Ours => Finding::ok(format!("{name}: {addr} accepts connections")),
            PortState::Taken => Finding::fail(
                format!("{name}: {addr} is taken by another program"),
                bind::advice(ErrorKind::AddrInUse, addr),
            ),
            PortState::Refused(error) => Finding::fail(
                format!("{name}: failed to listen on {addr}: {error}"),
                bind::advice(ErrorKind::Other, addr),
            ),
        }
    };
    facts.ports.iter().map(finding).collect()
}

fn clock_and_certificates(facts: &Facts) -> Vec<Finding> {
    let now = facts.machine.now;
    let clock = node_of(facts).and_then(|node| node.clock).map(|(tip, offset)| {
        if now + BLOCK_AHEAD_MAX < tip {
            let behind = tip - now;
            Finding::fail(format!("this clock is {behind} s behind the newest block"), "timedatectl set-ntp true")
        } else if offset.unsigned_abs() > CLOCK_OFFSET_MAX {
            Finding::warn(format!("the node's peers are {offset} s off its clock"), "timedatectl set-ntp true")
        } else {
            Finding::ok("the clock agrees with the node")
        }
    });
    let certificates = facts.certificates.iter().map(|certificate| {
        let name = &certificate.listener;
        let validity = match &certificate.validity {
            Err(error) => return Finding::explained(format!("{name}: {error}")),
            Ok(None) => return Finding::ok(format!("{name}: a self-signed certificate will be made")),
            Ok(Some(validity)) => validity,
        };
        let remedy = "renew it; SIGHUP makes birdhouse read it";
        match validity.at(now) {
            Standing::Expired => Finding::fail(format!("{name}: the certificate has expired"), remedy),
            Standing::Ending { days_left } => {
                Finding::warn(format!("{name}: the certificate ends in {days_left} days"), remedy)
            }
            Standing::Valid { days_left } => Finding::ok(format!("{name}: valid for {days_left} days")),
        }
    });
    clock.into_iter().chain(certificates).collect()
}

fn node_of(facts: &Facts) -> Option<&Node> {
    facts.bitcoin.as_ref()?.node.as_ref()
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
