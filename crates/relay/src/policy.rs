//! Whose events, and which, the operator wants, and how many in a time.
//!
//! What is refused by a list is refused for good (`blocked`, `restricted`); what is too much, for now (`rate-limited`, with when to try
//! again). Everything but an author's own rate is decided before the signature is looked at: whoever forges events must not use up
//! what their author may publish. Time is an argument.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use birdhouse_clients::{Buckets, ClientKey, Rate};
use birdhouse_events::{Event, Kind, Pubkey, Rejection};
use ipnet::IpNet;

use crate::limits::{Limits, RATED_MAX};

/// Kinds of events.
pub type Kinds = Vec<RangeInclusive<u16>>;

/// What the operator wants.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Who may publish.
    pub authors: Lists<HashSet<Pubkey>>,
    /// What may be published.
    pub kinds: Lists<Kinds>,
    /// Who may connect.
    pub addresses: Lists<Vec<IpNet>>,
    /// How many events in a time, beside the rates of [`Limits`].
    pub rates: Vec<KindsRate>,
}

/// Who is wanted, and who is not.
#[derive(Debug, Clone, Default)]
pub struct Lists<T> {
    /// `None`: all.
    pub allow: Option<T>,
    /// Not even if allowed.
    pub deny: T,
}

/// How many events of some kinds are taken in a time.
#[derive(Debug, Clone)]
pub struct KindsRate {
    /// Of which kinds; `None`: of all.
    pub kinds: Option<Kinds>,
    /// Whose events are counted together.
    pub of: RatedBy,
    /// How many.
    pub rate: Rate,
}

/// Whose events are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatedBy {
    /// Those that one client publishes. Of loopback and private addresses nothing is counted.
    Client,
    /// Those of one author.
    Author,
}

/// A policy, and what has been published lately.
#[derive(Debug)]
pub(crate) struct Gate {
    policy: Policy,
    clients: Vec<Rated<ClientKey>>,
    authors: Vec<Rated<Pubkey>>,
}

/// A rate, and who has used how much of it.
#[derive(Debug)]
struct Rated<K> {
    kinds: Option<Kinds>,
    buckets: Mutex<Buckets<K>>,
}

// === impl Policy ===

impl Policy {
    /// Whether only some may publish, or only some kinds are taken (NIP-11).
    pub(crate) fn is_restricted(&self) -> bool {
        self.authors.allow.is_some() || self.kinds.allow.is_some()
    }
}

// === impl Gate ===

impl Gate {
    pub(crate) fn new(policy: Policy, limits: &Limits) -> Self {
        let general = [(RatedBy::Client, limits.client_events), (RatedBy::Author, limits.author_events)];
        let general = general.into_iter().filter_map(|(of, rate)| Some(KindsRate { kinds: None, of, rate: rate? }));
        let (clients, authors): (Vec<_>, Vec<_>) =
            general.chain(policy.rates.iter().cloned()).partition(|rate| rate.of == RatedBy::Client);
        Self {
            clients: clients.into_iter().map(Rated::new).collect(),
            authors: authors.into_iter().map(Rated::new).collect(),
            policy,
        }
    }

    /// Whether somebody at this address may connect.
    pub(crate) fn is_welcome(&self, address: IpAddr) -> bool {
        let is_in = |networks: &Vec<IpNet>| networks.iter().any(|network| network.contains(&address));
        self.policy.addresses.allow.as_ref().is_none_or(is_in) && !is_in(&self.policy.addresses.deny)
    }

    /// Whether an event that may be forged is wanted, and a client may publish it now.
    pub(crate) fn check(&self, event: &Event, client: ClientKey, now: Instant) -> Result<(), Rejection> {
        let Policy { authors, kinds, .. } = &self.policy;
        if authors.deny.contains(&event.pubkey) {
            return Err(Rejection::Blocked("events of this author are not wanted here".into()));
        }
        if authors.allow.as_ref().is_some_and(|allowed| !allowed.contains(&event.pubkey)) {
            return Err(Rejection::Restricted("only some authors may publish here".into()));
        }
        let is_wanted =
            kinds.allow.as_ref().is_none_or(|kinds| has(kinds, event.kind)) && !has(&kinds.deny, event.kind);
        if !is_wanted {
            return Err(Rejection::Blocked("events of this kind are not wanted here".into()));
        }
        if client.is_exempt() {
            return Ok(());
        }
        self.clients.iter().try_for_each(|rated| rated.take(event.kind, client, now)).map_err(too_many)
    }

    /// Whether the author of a verified event may publish it now.
    pub(crate) fn check_author(&self, event: &Event, now: Instant) -> Result<(), Rejection> {
        self.authors.iter().try_for_each(|rated| rated.take(event.kind, event.pubkey, now)).map_err(too_many)
    }
}

impl<K: Eq + std::hash::Hash> Rated<K> {
    fn new(KindsRate { kinds, rate, .. }: KindsRate) -> Self {
        Self { kinds, buckets: Mutex::new(Buckets::new(rate, RATED_MAX)) }
    }

    fn take(&self, kind: Kind, key: K, now: Instant) -> Result<(), Duration> {
        if self.kinds.as_ref().is_some_and(|kinds| !has(kinds, kind)) {
            return Ok(());
        }
        // A panic elsewhere leaves the buckets whole.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner).take(key, now)
    }
}

fn has(kinds: &Kinds, kind: Kind) -> bool {
    kinds.iter().any(|range| range.contains(&kind.0))
}

fn too_many(wait: Duration) -> Rejection {
    try_again("too many events", wait)
}

/// Too much for now.
pub(crate) fn try_again(what: &str, wait: Duration) -> Rejection {
    // Rounded up: who waits so long is not refused again.
    Rejection::RateLimited(format!("{what}, try again in {} s", wait.as_secs() + 1).into())
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
