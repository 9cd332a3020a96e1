//! The list of other servers over time: which ones are known, found to work, and due to be probed. Pure of sockets.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use birdhouse_clients::ClientKey;
use tokio::time::Instant;

use crate::limits::{PEERS_MAX, PEERS_PER_NETWORK, WAITING_MAX};
use crate::protocol::Peer;
use crate::settings::Host;

/// Interval at which a server that answers is probed.
const PROBE_EVERY: Duration = Duration::from_hours(2);
/// Pause before a server that does not answer is probed again.
const RETRY_AFTER: Duration = Duration::from_mins(10);
/// Time without an answer after which a server is forgotten.
const FORGET_AFTER: Duration = Duration::from_hours(24);

/// Servers by name.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    host: Host,
    introduced_by: Introducer,
    found: Option<Peer>,
    /// Time of the last successful probe, or of the announcement.
    answered: Instant,
    probe_at: Instant,
}

/// Source of a server's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Introducer {
    Operator,
    /// The server itself, from this address.
    Itself(IpAddr),
}

impl Known {
    /// Notes a server. Returns true if it is known already or will be probed.
    pub(super) fn note(&mut self, host: Host, introduced_by: Introducer, now: Instant) -> bool {
        if self.0.contains_key(&host.name) {
            return true;
        }
        if !self.has_room(introduced_by) {
            return false;
        }
        let entry = Entry { host: host.clone(), introduced_by, found: None, answered: now, probe_at: now };
        self.0.insert(host.name, entry);
        true
    }

    /// Returns true if another server may wait for its first probe.
    fn has_room(&self, introduced_by: Introducer) -> bool {
        let Introducer::Itself(from) = introduced_by else { return true };
        let waiting = self.0.values().filter(|entry| entry.found.is_none());
        let from_there = waiting.clone().filter(|entry| match entry.introduced_by {
            Introducer::Operator => false,
            Introducer::Itself(other) => network(other) == network(from),
        });
        waiting.count() < WAITING_MAX && from_there.count() < PEERS_PER_NETWORK
    }

    /// Returns every server that works.
    pub(super) fn found(&self) -> impl Iterator<Item = &Peer> + Clone {
        self.0.values().filter_map(|entry| entry.found.as_ref())
    }

    /// Returns the server to probe next, and the time to do so.
    pub(super) fn due(&self) -> Option<(Host, Introducer, Instant)> {
        let entry = self.0.values().min_by_key(|entry| entry.probe_at)?;
        Some((entry.host.clone(), entry.introduced_by, entry.probe_at))
    }

    /// Takes the result of a probe.
    pub(super) fn settle(&mut self, name: &str, found: Option<Peer>, now: Instant) {
        let found = found.filter(|peer| self.may_list(peer));
        let Some(entry) = self.0.get_mut(name) else { return };
        if let Some(peer) = found {
            // The server may have moved to other ports.
            entry.host = peer.host.clone();
            entry.found = Some(peer);
            entry.answered = now;
            entry.probe_at = now + PROBE_EVERY;
            return;
        }
        entry.probe_at = now + RETRY_AFTER;
        if now - entry.answered > FORGET_AFTER {
            entry.found = None;
        }
        // A server that announces itself and does not work is probed once.
        if entry.found.is_none() && entry.introduced_by != Introducer::Operator {
            self.0.remove(name);
        }
    }

    fn may_list(&self, peer: &Peer) -> bool {
        let others = self.found().filter(|other| other.host.name != peer.host.name);
        let near = others.clone().filter(|other| network(other.address) == network(peer.address));
        others.count() < PEERS_MAX && near.count() < PEERS_PER_NETWORK
    }
}

/// Returns the part of an address that one owner may well have all of.
fn network(address: IpAddr) -> ClientKey {
    ClientKey::network(address, 16, 32)
}

#[cfg(test)]
#[path = "known_tests.rs"]
pub(super) mod tests;
