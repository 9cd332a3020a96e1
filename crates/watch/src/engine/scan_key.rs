//! The scan key of a watch at work: how far it has scanned, and what it found.

use std::collections::HashMap;

use birdhouse_chain::ScriptHash;
use birdhouse_chain::source::BlockPart;
use birdhouse_silentpayments::Scanner;

use crate::state::Unread;

/// A scan key at work.
#[derive(Default)]
pub(super) struct Silent {
    pub(super) scanner: Option<Scanner>,
    /// The next block to scan.
    pub(super) scanned: u32,
    /// The first unconfirmed transaction to scan.
    pub(super) arrival: u64,
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

impl std::fmt::Debug for Silent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Silent").field("scanned", &self.scanned).finish_non_exhaustive()
    }
}
