//! What the relay has done, counted for whoever watches it. Nothing here says for whom.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use birdhouse_clients::{Ledger, Waiting};

/// Counts of the whole relay, by addition, from any thread.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicUsize,
    pub(crate) reqs: AtomicU64,
    pub(crate) counts: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) news: AtomicU64,
    query_us: AtomicU64,
    /// Events by what became of them.
    events: Mutex<BTreeMap<&'static str, u64>>,
    /// REQs and COUNTs that were closed, by why.
    closed: Mutex<BTreeMap<&'static str, u64>>,
}

/// The relay at one moment.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Open connections.
    pub connections: usize,
    /// Clients that are connected, or have not been forgiven what they used.
    pub clients: usize,
    /// Open subscriptions.
    pub subscriptions: usize,
    /// Events that are kept and not deleted.
    pub live_events: u64,
    /// Events that came, by what became of them: `accepted`, `duplicate`, `shadowed`, or the prefix of the refusal.
    pub events: Vec<(&'static str, u64)>,
    /// REQs.
    pub reqs: u64,
    /// COUNTs.
    pub counts: u64,
    /// REQs and COUNTs that were refused or ended, by the prefix of why.
    pub closed: Vec<(&'static str, u64)>,
    /// Stored events that were sent.
    pub rows: u64,
    /// New events that were told.
    pub news: u64,
    /// Time spent on finding stored events.
    pub query: Duration,
    /// Turns of processors.
    pub turns: Waiting,
}

impl Counters {
    pub(crate) fn event(&self, outcome: &'static str) {
        add(&self.events, outcome);
    }

    pub(crate) fn closed(&self, prefix: &'static str) {
        add(&self.closed, prefix);
    }

    pub(crate) fn queried(&self, time: Duration) {
        self.query_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn overview(&self, ledger: &Ledger, live_events: u64, turns: Waiting) -> Overview {
        Overview {
            connections: self.connections.load(Ordering::Relaxed),
            clients: ledger.len(),
            subscriptions: ledger.subscriptions(),
            live_events,
            events: list(&self.events),
            reqs: self.reqs.load(Ordering::Relaxed),
            counts: self.counts.load(Ordering::Relaxed),
            closed: list(&self.closed),
            rows: self.rows.load(Ordering::Relaxed),
            news: self.news.load(Ordering::Relaxed),
            query: Duration::from_micros(self.query_us.load(Ordering::Relaxed)),
            turns,
        }
    }
}

fn add(counts: &Mutex<BTreeMap<&'static str, u64>>, what: &'static str) {
    *counts.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
}

fn list(counts: &Mutex<BTreeMap<&'static str, u64>>) -> Vec<(&'static str, u64)> {
    counts.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(what, count)| (*what, *count)).collect()
}
