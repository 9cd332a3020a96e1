//! The scan key of a watch at work: how far it has scanned, and what it found.

use std::collections::HashMap;

use birdhouse_chain::source::BlockPart;
use birdhouse_chain::{Found, Height, ScriptHash, Snapshot, Tweaks};
use birdhouse_silentpayments::Scanner;

use super::retry::Retry;
use crate::error::Result;
use crate::state::Unread;

/// Blocks that one update scans for a key: their tweaks keep a core busy for about a second.
const SCANNED_AT_ONCE: u32 = 100;

/// A scan key at work.
#[derive(Default)]
pub(super) struct Silent {
    pub(super) scanner: Option<Scanner>,
    /// The next block to scan; `None` before the first sight.
    pub(super) scanned: Option<u32>,
    /// True if there are blocks that no update has scanned yet.
    pub(super) is_behind: bool,
    /// The pause after the last scan failed.
    pub(super) retry: Option<Retry>,
    /// The first unconfirmed transaction to scan.
    arrival: u64,
    /// Scripts found, in hexadecimal.
    pub(super) found: Vec<String>,
    /// Heights of the blocks in which scripts were found, until their histories are read.
    pub(super) since: HashMap<ScriptHash, u32>,
    /// Transactions that pay the key, in blocks that the node has removed.
    pub(super) unread: Vec<Unread>,
    /// Their parts of blocks that were missing last.
    pub(super) wanted: Vec<BlockPart>,
    /// The reason why it finds less than it should.
    pub(super) fault: Option<String>,
}

/// The place from which a scan goes on.
pub(super) struct ScanPlace {
    scanned: Option<u32>,
    arrival: u64,
    unread: Vec<Unread>,
}

impl std::fmt::Debug for Silent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Silent").field("scanned", &self.scanned).finish_non_exhaustive()
    }
}

impl Silent {
    /// Returns the place from which the next scan goes on.
    pub(super) fn place(&self) -> ScanPlace {
        ScanPlace { scanned: self.scanned, arrival: self.arrival, unread: self.unread.clone() }
    }

    /// Goes back to where a scan began that failed. Scripts that it found stay.
    pub(super) fn go_back(&mut self, ScanPlace { scanned, arrival, unread }: ScanPlace) {
        (self.scanned, self.arrival, self.unread) = (scanned, arrival, unread);
        self.is_behind = false;
    }

    /// Scans the next blocks, and what is new in the mempool.
    pub(super) fn find(&mut self, tweaks: &Tweaks, at: &Snapshot) -> Result<Vec<Found>> {
        let (Some(scanner), Some(scanned)) = (&self.scanner, self.scanned) else { return Ok(Vec::new()) };
        let (start, end) = (scanned.max(tweaks.start().0), tweaks.len(at).min(at.tip().height.0 + 1));
        let next = start.saturating_add(SCANNED_AT_ONCE).min(end);
        let mut found = Vec::new();
        self.is_behind = false;
        if start < next
            && let Some(in_blocks) = tweaks.find(at, scanner, Height(start)..Height(next))?
        {
            found = in_blocks;
            (self.scanned, self.is_behind) = (Some(next), next < end);
        }
        let mempool = at.mempool();
        if mempool.next_arrival() < self.arrival {
            self.arrival = 0;
        }
        found.extend(tweaks.find_unconfirmed(scanner, mempool.arrived_since(self.arrival))?);
        self.arrival = mempool.next_arrival();
        Ok(found)
    }
}
