//! Other servers: those that the operator names, and those that announce themselves by `server.add_peer`.
//!
//! Nobody waits for it. An announcement is noted, if there is room, and answered at once; one task looks at one server
//! at a time ([`probe`]). A server is listed while it answers for our chain under its own name; one that announced
//! itself must do so at the address from which it did. It is looked at again and again, and forgotten once it has not
//! answered for a day. Nothing of it is stored.
//!
//! Off unless [`Settings::discovery`] is there.

mod features;
mod probe;
mod talk;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bitcoin::BlockHash;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use birdhouse_clients::ClientKey;

use crate::peers::features::Features;
use crate::peers::probe::Prober;
use crate::settings::{Host, Settings};

/// Servers in the list; one more is left out.
pub(crate) const PEERS_MAX: usize = 200;
/// Servers of one network that are listed, or announced and not looked at yet, so that nobody takes all places.
pub(crate) const PEERS_PER_NETWORK: usize = 2;
/// Announced servers that were not looked at yet; one more is refused.
pub(crate) const WAITING_MAX: usize = 32;
/// How often a server that answers is looked at.
const LOOK_EVERY: Duration = Duration::from_hours(2);
/// How soon one that does not is looked at again.
const RETRY_AFTER: Duration = Duration::from_mins(10);
/// After this long without an answer it is forgotten.
const FORGET_AFTER: Duration = Duration::from_hours(24);

/// A server that was seen to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) host: Host,
    pub(crate) address: IpAddr,
    /// The newest protocol version that it speaks.
    pub(crate) protocol_max: String,
}

/// The list, and what is on its way into it.
#[derive(Debug)]
pub(crate) struct Peers {
    /// `None`: nothing is listed, and nothing is noted.
    prober: Option<Prober>,
    known: Mutex<Known>,
    noted: Notify,
}

/// Servers by name.
#[derive(Debug, Default)]
struct Known(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    host: Host,
    introduced_by: Introducer,
    found: Option<Peer>,
    /// When it was found last, or noted.
    answered: Instant,
    look_at: Instant,
}

/// Who named a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Introducer {
    Operator,
    /// It itself, from this address.
    Itself(IpAddr),
}

impl Peers {
    pub(crate) fn new(settings: &Settings, genesis_hash: BlockHash) -> Arc<Self> {
        let mut known = Known::default();
        for seed in settings.discovery.iter().flat_map(|discovery| &discovery.seeds) {
            known.note(seed.clone(), Introducer::Operator, Instant::now());
        }
        Arc::new(Self {
            prober: settings.discovery.as_ref().map(|discovery| Prober::new(discovery.reach, settings, genesis_hash)),
            known: Mutex::new(known),
            noted: Notify::new(),
        })
    }

    /// Notes a server that announces itself with its features. False if it will not be looked at.
    pub(crate) fn announce(&self, features: &str, from: IpAddr) -> bool {
        let Some(prober) = &self.prober else { return false };
        let Ok(features) = Features::parse(features, prober.genesis_hash) else { return false };
        let mut known = self.known();
        let mut is_noted = false;
        for host in features.hosts().filter(|host| !prober.is_own(&host.name)) {
            is_noted |= known.note(host, Introducer::Itself(from.to_canonical()), Instant::now());
        }
        self.noted.notify_one();
        is_noted
    }

    /// Every server that was seen to work.
    pub(crate) fn list(&self) -> Vec<Peer> {
        self.known().0.values().filter_map(|entry| entry.found.clone()).collect()
    }

    /// Looks at one server after the other, for ever.
    pub(crate) async fn run(&self) {
        let Some(prober) = &self.prober else { return };
        loop {
            let due = self.known().due();
            match due {
                Some((host, introduced_by, look_at)) if look_at <= Instant::now() => {
                    let found = prober.look(&host, introduced_by).await;
                    if let Err(error) = &found {
                        debug!(%error, "a peer is not as announced");
                    }
                    self.known().settle(&host.name, found.ok(), Instant::now());
                }
                Some((_, _, look_at)) => tokio::select! {
                    () = self.noted.notified() => {}
                    () = sleep_until(look_at) => {}
                },
                None => self.noted.notified().await,
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing under this lock can panic halfway.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// True if the server is known already or will be looked at.
    fn note(&mut self, host: Host, introduced_by: Introducer, now: Instant) -> bool {
        if self.0.contains_key(&host.name) {
            return true;
        }
        if !self.has_room(introduced_by) {
            return false;
        }
        let entry = Entry { host: host.clone(), introduced_by, found: None, answered: now, look_at: now };
        self.0.insert(host.name, entry);
        true
    }

    /// Whether another server may wait for its first look.
    fn has_room(&self, introduced_by: Introducer) -> bool {
        let Introducer::Itself(from) = introduced_by else { return true };
        let waiting = self.0.values().filter(|entry| entry.found.is_none());
        let from_there = waiting.clone().filter(|entry| match entry.introduced_by {
            Introducer::Operator => false,
            Introducer::Itself(other) => network(other) == network(from),
        });
        waiting.count() < WAITING_MAX && from_there.count() < PEERS_PER_NETWORK
    }

    /// Whom to look at next, and when.
    fn due(&self) -> Option<(Host, Introducer, Instant)> {
        let entry = self.0.values().min_by_key(|entry| entry.look_at)?;
        Some((entry.host.clone(), entry.introduced_by, entry.look_at))
    }

    /// Takes what looking at a server has shown.
    fn settle(&mut self, name: &str, found: Option<Peer>, now: Instant) {
        let found = found.filter(|peer| self.has_place(peer));
        let Some(entry) = self.0.get_mut(name) else { return };
        if let Some(peer) = found {
            // It may have moved to other ports.
            entry.host = peer.host.clone();
            entry.found = Some(peer);
            entry.answered = now;
            entry.look_at = now + LOOK_EVERY;
            return;
        }
        entry.look_at = now + RETRY_AFTER;
        if now - entry.answered > FORGET_AFTER {
            entry.found = None;
        }
        // Who announces what does not work gets no second look.
        if entry.found.is_none() && entry.introduced_by != Introducer::Operator {
            self.0.remove(name);
        }
    }

    fn has_place(&self, peer: &Peer) -> bool {
        let found = self.0.values().filter_map(|entry| entry.found.as_ref());
        let others = found.filter(|other| other.host.name != peer.host.name);
        let near = others.clone().filter(|other| network(other.address) == network(peer.address));
        others.count() < PEERS_MAX && near.count() < PEERS_PER_NETWORK
    }
}

/// The part of an address that one owner may well have all of.
fn network(address: IpAddr) -> ClientKey {
    ClientKey::network(address, 16, 32)
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
