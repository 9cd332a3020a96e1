//! The subscriptions of one connection. Pure: times are arguments.

use std::fmt;
use std::time::Instant;

use super::registry::Permits;
use super::subscription::{CaughtUp, Entry, Extent, Job, Phase, Progress, Sending, Subscription};
use crate::protocol::SilentId;

/// Subscriptions to silent payments, each to an address of its own.
#[derive(Default)]
pub(crate) struct SilentSubscriptions {
    all: Vec<Subscription>,
    last_id: u32,
    /// Index of the subscription whose history is scanned next.
    turn: usize,
}

/// Next step of a connection for its subscriptions.
pub(crate) enum Step {
    /// There are none.
    Rest,
    /// Wait until responses are written, then call [`SilentSubscriptions::written`].
    Flush(Vec<SilentId>),
    /// Scan a part of a history.
    Scan(Job),
    /// Let the notifier try again what failed for a live subscription.
    Recheck,
    /// Wait for a change, until this time at most.
    Wait(Option<Instant>),
}

impl fmt::Debug for SilentSubscriptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} subscriptions to silent payments", self.all.len())
    }
}

// === requests ===

impl SilentSubscriptions {
    /// Returns the number of subscriptions.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if an address is subscribed to.
    pub(crate) fn contains(&self, address: &str) -> bool {
        self.find(address).is_some()
    }

    /// Returns the blocks of the history of an address that is subscribed to.
    pub(crate) fn extent(&self, address: &str) -> Option<Extent> {
        self.find(address).map(|subscription| subscription.entry.extent)
    }

    /// Returns the permits that the subscription to an address holds.
    pub(crate) fn permits(&self, address: &str) -> Option<&Permits> {
        self.find(address).map(|subscription| &subscription.entry.permits)
    }

    fn find(&self, address: &str) -> Option<&Subscription> {
        self.all.iter().find(|subscription| subscription.entry.address == address)
    }

    /// Enters a subscription, in exchange for an earlier one to the same address: blocks that came after that one's
    /// request are due as before.
    pub(crate) fn enter(&mut self, mut entry: Entry, now: Instant) -> SilentId {
        self.last_id += 1;
        let id = SilentId(self.last_id);
        let before = self.all.iter().position(|subscription| subscription.entry.address == entry.address);
        if let Some(before) = before {
            let earlier = &mut self.all[before].entry;
            let mut permits = std::mem::take(&mut earlier.permits);
            permits.add(entry.permits);
            entry.permits = permits;
            entry.first_live = earlier.first_live.clone();
            self.all[before] = Subscription::new(id, entry, now);
        } else {
            self.all.push(Subscription::new(id, entry, now));
        }
        id
    }

    /// Ends the subscription to an address, if there is one.
    pub(crate) fn leave(&mut self, address: &str) {
        self.all.retain(|subscription| subscription.entry.address != address);
    }

    /// Takes note that a response is in the outbox.
    pub(crate) fn settle(&mut self, id: SilentId) {
        if let Some(subscription) = self.get(id) {
            subscription.phase = Phase::Settled;
        }
    }

    /// Ends a subscription whose response is an error.
    pub(crate) fn fail(&mut self, id: SilentId) {
        self.all.retain(|subscription| subscription.id != id);
    }

    /// Ends all subscriptions.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    fn get(&mut self, id: SilentId) -> Option<&mut Subscription> {
        self.all.iter_mut().find(|subscription| subscription.id == id)
    }
}

// === histories ===

impl SilentSubscriptions {
    /// Returns what to do next. Histories are scanned in turns.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        if self.all.is_empty() {
            return Step::Rest;
        }
        let settled = self.all.iter().filter(|subscription| subscription.phase == Phase::Settled);
        let settled: Vec<SilentId> = settled.map(|subscription| subscription.id).collect();
        if !settled.is_empty() {
            return Step::Flush(settled);
        }
        let mut live = self.all.iter_mut().filter(|subscription| subscription.is_live());
        if let Some(subscription) = live.find(|subscription| subscription.not_before.is_some_and(|time| time <= now)) {
            subscription.not_before = None;
            return Step::Recheck;
        }
        let count = self.all.len();
        let is_due = |subscription: &Subscription| {
            subscription.phase == Phase::History && subscription.not_before.is_none_or(|time| time <= now)
        };
        let next = (0..count).map(|distance| (self.turn + distance) % count).find(|index| is_due(&self.all[*index]));
        if let Some(next) = next {
            self.turn = next + 1;
            return Step::Scan(self.all[next].job());
        }
        let scans = self.all.iter().filter_map(|subscription| subscription.not_before);
        Step::Wait(scans.chain(self.all.iter().filter_map(Subscription::due_at)).min())
    }

    /// Takes note that responses are written.
    pub(crate) fn written(&mut self, ids: &[SilentId], now: Instant) {
        for id in ids {
            if let Some(subscription) = self.get(*id).filter(|subscription| subscription.phase == Phase::Settled) {
                subscription.written(now);
            }
        }
    }

    /// Scans for a subscription at this time at the earliest.
    pub(crate) fn put_off(&mut self, id: SilentId, until: Instant) {
        if let Some(subscription) = self.get(id) {
            subscription.put_off(until);
        }
    }

    /// Takes note that the scan which ends a history begins, at the latest snapshot. Until its result is taken or it is
    /// put off, [`Self::has_ending`] is true.
    pub(crate) fn ends(&mut self, id: SilentId) {
        if let Some(subscription) = self.get(id) {
            subscription.ends();
        }
    }

    /// Returns true if an update may have come after the last snapshot of a history that is not live yet.
    pub(crate) fn has_ending(&self) -> bool {
        self.all.iter().any(Subscription::is_ending)
    }

    /// Returns the notifications that are due without a scan.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.all.iter_mut().flat_map(|subscription| subscription.due(now)).collect()
    }

    /// Takes the result of a part of a history. Returns the notifications of what is new.
    pub(crate) fn advance(&mut self, id: SilentId, scanned: Progress, now: Instant) -> Sending {
        self.get(id).map(|subscription| subscription.advance(scanned, now)).unwrap_or_default()
    }

    /// Takes the result of a scan up to the tip and its mempool. Returns the notifications of what is new.
    pub(crate) fn catch_up(&mut self, id: SilentId, scanned: CaughtUp, now: Instant) -> Sending {
        self.get(id).map(|subscription| subscription.catch_up(scanned, now)).unwrap_or_default()
    }

    // --- live ---

    /// Returns true if an update concerns a subscription.
    pub(crate) fn has_live(&self) -> bool {
        self.all.iter().any(Subscription::is_live)
    }

    /// Returns true if a response waits to be written.
    pub(crate) fn has_settled(&self) -> bool {
        self.all.iter().any(|subscription| subscription.phase == Phase::Settled)
    }

    /// Returns what each live subscription is to scan.
    pub(crate) fn live(&self) -> Vec<Job> {
        let live = self.all.iter().filter(|subscription| subscription.is_live());
        live.map(Subscription::job).collect()
    }
}

#[cfg(test)]
#[path = "subscriptions_tests.rs"]
mod tests;
