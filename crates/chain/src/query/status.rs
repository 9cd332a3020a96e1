//! Electrum's status of a script: the SHA-256 of its history as text.
//!
//! Source: [Electrum protocol basics, Status](https://electrumx.readthedocs.io/en/latest/protocol-basics.html#status):
//! `txid:height:` of every entry, the confirmed ones in chain order, then those in the mempool with height 0, or -1
//! where an input is unconfirmed.

use std::sync::Arc;

use crate::error::Result;
use crate::names::ScriptHash;
use crate::state::{Known, Midstate, Snapshot};

/// The status of a script as memory has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownStatus {
    /// It was not asked for yet, or something has touched the script since.
    Unknown,
    /// As [`Snapshot::status`] returns it.
    Known(Option<[u8; 32]>),
}

impl Snapshot {
    /// Returns Electrum's status of a script; `None` when it has no history.
    pub fn status(&self, scripthash: &ScriptHash) -> Result<Option<[u8; 32]>> {
        let cache = &self.shared.status_cache;
        let midstate = match cache.find(self.version, scripthash) {
            Known::Status(status) => return Ok(status),
            Known::Midstate(midstate) if midstate.fits(&self.headers) => midstate,
            Known::Midstate(_) | Known::Nothing => Arc::new(Midstate::empty(&self.headers)),
        };
        let since = self.history_since(scripthash, midstate.end())?;
        let midstate = midstate.extended(&since, &self.headers);
        let status = midstate.status(&self.unconfirmed(scripthash));
        cache.remember(self.version, *scripthash, status, midstate);
        Ok(status)
    }

    /// Returns the status of a script from memory alone.
    pub fn known_status(&self, scripthash: &ScriptHash) -> KnownStatus {
        match self.shared.status_cache.find(self.version, scripthash) {
            Known::Status(status) => KnownStatus::Known(status),
            Known::Midstate(_) | Known::Nothing => KnownStatus::Unknown,
        }
    }
}
