//! Counts of an exchange, for people.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use birdhouse_events::Rejection;
use birdhouse_relay::Taken;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::limits::{REASONS_MAX, UPLOAD_BYTES_MAX};

/// Name under which further reasons are counted.
const OTHER: &str = "other reasons";

/// Refusals by their reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasons(pub BTreeMap<String, u64>);

/// Counts of one exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// Windows of time that were compared, or pages that were read.
    pub windows: u64,
    /// First second of the last of them; everything from there on was compared.
    pub compared_from: Option<u64>,
    /// Own events that were compared.
    pub compared: u64,
    /// Events that only this relay has.
    pub only_here: u64,
    /// Events that only the peer has.
    pub only_there: u64,
    /// Events that came from the peer.
    pub received: u64,
    /// Those that are stored.
    pub stored: u64,
    /// Those that were here meanwhile.
    pub duplicates: u64,
    /// Those that this relay refuses.
    pub refused_here: Reasons,
    /// Events that the peer named and did not send.
    pub withheld: u64,
    /// Events that were sent to the peer.
    pub sent: u64,
    /// Those that it has now.
    pub accepted: u64,
    /// Those that it refuses.
    pub refused_there: Reasons,
    /// Events that were not sent: protected ones (NIP-70), and private messages whose kind the filter does not name.
    pub kept: u64,
    /// Events that were not sent because their messages are longer than relays take.
    pub too_long: u64,
    /// Events that a stream has set aside, because the peer does not answer them.
    pub set_aside: u64,
    /// Seconds with more events than a page of the peer, of which some may be missing.
    pub crowded_seconds: u64,
    /// Bytes of messages from the peer.
    pub bytes_in: u64,
    /// Bytes of messages to the peer.
    pub bytes_out: u64,
}

/// Counts that several tasks change.
#[derive(Debug, Clone, Default)]
pub struct SharedTally(Arc<Mutex<Tally>>);

impl Reasons {
    /// Counts a refusal.
    pub fn add(&mut self, reason: &str) {
        let is_known = self.0.contains_key(reason) || self.0.len() < REASONS_MAX;
        let reason = if reason.is_empty() { "no reason" } else { reason };
        *self.0.entry(if is_known { reason } else { OTHER }.to_owned()).or_default() += 1;
    }

    /// Returns the number of refusals.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the number of refusals but those of the relay's own policy (`blocked:`): an event that was deleted,
    /// replaced or banned is refused by each comparison that finds it.
    pub fn unexpected(&self) -> u64 {
        self.0.iter().filter(|(reason, _)| !reason.starts_with("blocked:")).map(|(_, count)| count).sum()
    }
}

impl SharedTally {
    /// Changes the counts.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Tally) -> T) -> T {
        change(&mut self.0.lock())
    }

    /// Counts the outcome of an event that was offered. Returns true if it was no valid one.
    pub fn took(&self, taken: Taken) -> bool {
        self.change(|tally| match taken {
            Taken::Stored => {
                tally.stored += 1;
                false
            }
            Taken::Duplicate => {
                tally.duplicates += 1;
                false
            }
            Taken::Refused(rejection) => {
                tally.refused_here.add(&rejection.to_string());
                matches!(rejection, Rejection::Invalid(_))
            }
        })
    }

    /// Returns the counts as they are now.
    pub fn now(&self) -> Tally {
        self.0.lock().clone()
    }
}

/// A line for the way.
impl Tally {
    /// Returns one line about the progress.
    pub fn line(&self) -> String {
        format!(
            "{} windows, {} own events compared; received {}, stored {}; sent {}, accepted {}",
            self.windows, self.compared, self.received, self.stored, self.sent, self.accepted
        )
    }
}

/// The summary at the end.
impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { windows, compared, only_here, only_there, received, stored, duplicates, .. } = self;
        writeln!(
            out,
            "compared {compared} own events in {windows} windows: {only_here} only here, {only_there} only there"
        )?;
        write!(out, "received {received} events: {stored} stored, {duplicates} duplicates")?;
        if self.refused_here.total() > 0 {
            write!(out, ", {} refused here", self.refused_here.total())?;
        }
        if self.withheld > 0 {
            write!(out, ", {} named and not sent", self.withheld)?;
        }
        write!(out, "\nsent {} events: {} accepted", self.sent, self.accepted)?;
        if self.refused_there.total() > 0 {
            write!(out, ", {} refused there", self.refused_there.total())?;
        }
        if self.kept > 0 {
            write!(out, "; {} protected or private ones were not sent", self.kept)?;
        }
        if self.too_long > 0 {
            write!(out, "; {} of more than {} KiB were not sent", self.too_long, UPLOAD_BYTES_MAX / 1024)?;
        }
        for (side, reasons) in [("here", &self.refused_here), ("there", &self.refused_there)] {
            for (reason, count) in &reasons.0 {
                write!(out, "\nrefused {side}, {count} times: {reason}")?;
            }
        }
        if self.crowded_seconds > 0 {
            let seconds = self.crowded_seconds;
            write!(out, "\n{seconds} seconds have more events than a page of the peer: some may be missing")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_bounded() {
        let mut reasons = Reasons::default();
        for number in 0..1000 {
            reasons.add(&format!("blocked: {number}"));
        }
        reasons.add("blocked: 1");
        reasons.add("");
        assert_eq!((reasons.0.len(), reasons.total(), reasons.0["blocked: 1"]), (REASONS_MAX + 1, 1002, 2));
    }
}
