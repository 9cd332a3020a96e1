//! The operator's settings of who may publish what: allowed authors, kinds and addresses, and rates of events.
//!
//! A list refuses for good (`blocked`, `restricted`), a rate refuses for now (`rate-limited`, with the time to retry).
//! Everything but an author's own rate is decided before the signature is verified: a client that forges events must
//! not use up the rate of their author. Time is an argument.

mod identity;
mod members;
mod used;

pub(crate) use self::identity::{Identity, Local};
pub use self::members::{Members, MembersAlone};
pub(crate) use self::used::UsedEvents;

use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use birdhouse_clients::{Buckets, ClientKey, Rate};
use birdhouse_events::{Event, Kind, Pubkey, Rejection};
use ipnet::IpNet;
use parking_lot::Mutex;

use crate::limits::{Limits, RATED_MAX};
use crate::rules::{Rules, Subject, UNWANTED_AUTHOR, Verdict};

/// Kinds of events.
pub type Kinds = Vec<RangeInclusive<u16>>;

/// Kinds of requests to join and to leave, and of invites, which no client publishes (NIP-43).
const MEMBER_REQUESTS: RangeInclusive<u16> = 28_934..=28_936;

/// Lists and rates of the settings.
#[doc(alias = "rate limit")]
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Authors that may change the rules over HTTP (NIP-86).
    pub admins: HashSet<Pubkey>,
    /// Authors that may publish.
    pub authors: Lists<HashSet<Pubkey>>,
    /// Kinds that may be published.
    pub kinds: Lists<Kinds>,
    /// Networks that may connect.
    pub addresses: Lists<Vec<IpNet>>,
    /// Rates of events, beside those of [`Limits`].
    pub rates: Vec<KindsRate>,
}

/// A list of what is allowed, and one of exceptions.
#[derive(Debug, Clone, Default)]
pub struct Lists<T> {
    /// `None`: all.
    pub allow: Option<T>,
    /// Refused even if allowed.
    pub deny: T,
}

/// A rate of events of some kinds.
#[derive(Debug, Clone)]
pub struct KindsRate {
    /// The kinds; `None` for all.
    pub kinds: Option<Kinds>,
    /// The events that are counted together.
    pub of: RatedBy,
    /// The rate.
    pub rate: Rate,
}

/// Events that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatedBy {
    /// Those that one client publishes; the pool of those who cannot be told apart counts for many.
    Client,
    /// Those of one author.
    Author,
}

/// The policy, and the use of its rates.
#[derive(Debug)]
pub(crate) struct Gate {
    policy: Policy,
    /// Reason for authors that the lists do not allow.
    outsiders: &'static str,
    clients: Vec<Rated<ClientKey>>,
    /// The same for the pool.
    pool: Vec<Rated<ClientKey>>,
    authors: Vec<Rated<Pubkey>>,
}

/// A rate, and its use by each client or author.
#[derive(Debug)]
struct Rated<K> {
    kinds: Option<Kinds>,
    buckets: Mutex<Buckets<K>>,
}

// === impl Policy ===

impl Policy {
    /// True if only some authors may publish, or only some kinds are accepted (NIP-11).
    fn is_restricted(&self) -> bool {
        self.authors.allow.is_some() || self.kinds.allow.is_some()
    }
}

// === impl Gate ===

impl Gate {
    /// Returns the gate of a policy. Where something is for members alone, only they and those whom the settings name
    /// pass: a rule allows each member, so it precedes the list.
    pub(crate) fn new(mut policy: Policy, members: Option<MembersAlone>, limits: &Limits) -> Self {
        let mut outsiders = "only some authors may publish here";
        if members.is_some_and(|alone| alone != MembersAlone::Nothing) {
            policy.authors.allow.get_or_insert_default().extend(&policy.admins);
            outsiders = "only members may publish here";
        }
        let joins = limits.client_joins.filter(|_| members.is_some());
        let general = [
            (RatedBy::Client, None, limits.client_events),
            (RatedBy::Author, None, limits.author_events),
            (RatedBy::Client, Some(vec![MEMBER_REQUESTS]), joins),
        ];
        let general = general.into_iter().filter_map(|(of, kinds, rate)| Some(KindsRate { kinds, of, rate: rate? }));
        let (clients, authors): (Vec<_>, Vec<_>) =
            general.chain(policy.rates.iter().cloned()).partition(|rate| rate.of == RatedBy::Client);
        let pooled = |rate: &KindsRate| {
            let count = rate.rate.count.saturating_mul(ClientKey::Pool.clients());
            KindsRate { rate: Rate { count, ..rate.rate }, ..rate.clone() }
        };
        Self {
            pool: clients.iter().map(pooled).map(Rated::new).collect(),
            clients: clients.into_iter().map(Rated::new).collect(),
            authors: authors.into_iter().map(Rated::new).collect(),
            policy,
            outsiders,
        }
    }

    /// True if the lists let only some authors or kinds in (NIP-11).
    pub(crate) fn is_restricted(&self) -> bool {
        self.policy.is_restricted()
    }

    /// Authors that may change the rules over HTTP.
    pub(crate) fn admins(&self) -> &HashSet<Pubkey> {
        &self.policy.admins
    }

    /// True if a client at this address may connect. A rule precedes the lists.
    pub(crate) fn is_welcome(&self, address: IpAddr, rules: &Rules) -> bool {
        if let Some(verdict) = rules.on_client(address) {
            return verdict == Verdict::Allow;
        }
        let is_in = |networks: &Vec<IpNet>| networks.iter().any(|network| network.contains(&address));
        self.policy.addresses.allow.as_ref().is_none_or(is_in) && !is_in(&self.policy.addresses.deny)
    }

    /// Checks an event that may be forged against rules and lists.
    pub(crate) fn check(&self, event: &Event, rules: &Rules) -> Result<(), Rejection> {
        match rules.on_event(event) {
            Some((Verdict::Ban, why)) => return Err(Rejection::Blocked(why.into())),
            Some((Verdict::Allow, _)) => {}
            Some((Verdict::Ignore, _)) | None => self.check_lists_of_authors(event)?,
        }
        if !rules.is_allowed_by_id(event) {
            self.check_kind(event.kind, rules)?;
        }
        Ok(())
    }

    /// Checks an event that may be forged against what is banned, by a rule or by the settings.
    pub(crate) fn check_bans(&self, event: &Event, rules: &Rules) -> Result<(), Rejection> {
        match rules.on_event(event) {
            Some((Verdict::Ban, why)) => Err(Rejection::Blocked(why.into())),
            None if self.policy.authors.deny.contains(&event.pubkey) => Err(Rejection::Blocked(UNWANTED_AUTHOR.into())),
            _ => Ok(()),
        }
    }

    /// Checks the kind of an event alone.
    pub(crate) fn check_kind_of(&self, event: &Event, rules: &Rules) -> Result<(), Rejection> {
        self.check_kind(event.kind, rules)
    }

    /// True for members, and for the admins and authors that the settings allow.
    pub(crate) fn has_access(&self, author: &Pubkey, rules: &Rules) -> bool {
        match rules.of(Subject::Author(*author)).map(|rule| rule.verdict) {
            Some(Verdict::Allow) => true,
            Some(Verdict::Ban) => false,
            Some(Verdict::Ignore) | None => {
                let Lists { allow, deny } = &self.policy.authors;
                let is_allowed = allow.as_ref().is_some_and(|allowed| allowed.contains(author));
                (is_allowed || self.policy.admins.contains(author)) && !deny.contains(author)
            }
        }
    }

    /// True for authors that a rule or the settings ban.
    pub(crate) fn is_banned(&self, author: &Pubkey, rules: &Rules) -> bool {
        match rules.of(Subject::Author(*author)).map(|rule| rule.verdict) {
            Some(Verdict::Ban) => true,
            Some(Verdict::Allow) => false,
            Some(Verdict::Ignore) | None => self.policy.authors.deny.contains(author),
        }
    }

    /// True for members and admins.
    pub(crate) fn may_invite(&self, author: &Pubkey, rules: &Rules) -> bool {
        let is_host = rules.is_member(author) || self.policy.admins.contains(author);
        is_host && self.has_access(author, rules)
    }

    /// True if any events are counted in a rate.
    pub(crate) fn has_rates(&self) -> bool {
        !self.clients.is_empty() || !self.authors.is_empty()
    }

    /// Checks an event that may be forged against the rates of its client.
    pub(crate) fn check_client(&self, event: &Event, client: ClientKey, now: Instant) -> Result<(), Rejection> {
        let rates = if client == ClientKey::Pool { &self.pool } else { &self.clients };
        rates.iter().try_for_each(|rated| rated.take(event.kind, client, now)).map_err(too_many)
    }

    fn check_lists_of_authors(&self, event: &Event) -> Result<(), Rejection> {
        let Lists { allow, deny } = &self.policy.authors;
        if deny.contains(&event.pubkey) {
            return Err(Rejection::Blocked(UNWANTED_AUTHOR.into()));
        }
        if allow.as_ref().is_some_and(|allowed| !allowed.contains(&event.pubkey)) {
            return Err(Rejection::Restricted(self.outsiders.into()));
        }
        Ok(())
    }

    fn check_kind(&self, kind: Kind, rules: &Rules) -> Result<(), Rejection> {
        let Lists { allow, deny } = &self.policy.kinds;
        let is_wanted = match rules.on_kind(kind) {
            Some(verdict) => verdict == Verdict::Allow,
            None => allow.as_ref().is_none_or(|kinds| has(kinds, kind)) && !has(deny, kind),
        };
        if is_wanted { Ok(()) } else { Err(Rejection::Blocked("events of this kind are not wanted here".into())) }
    }

    /// Checks a verified event against the rates of its author.
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
        self.buckets.lock().take(key, now)
    }
}

fn has(kinds: &Kinds, kind: Kind) -> bool {
    kinds.iter().any(|range| range.contains(&kind.0))
}

fn too_many(wait: Duration) -> Rejection {
    try_again("too many events", wait)
}

/// Refuses for now.
pub(crate) fn try_again(what: &str, wait: Duration) -> Rejection {
    // Rounded up: a client that waits this long is not refused again.
    Rejection::RateLimited(format!("{what}, try again in {} s", wait.as_secs() + 1).into())
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
