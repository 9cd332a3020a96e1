//! Statuses of the current tip, shared by all connections: many clients follow the same script.
//!
//! A status belongs to one tip; a new tip empties the cache. So does the bound, so that a client that asks
//! for ever new scripts cannot freeze the cache on them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use birdhouse_chain::{ScriptHash, Snapshot};
use bitcoin::BlockHash;

use crate::response::Status;

/// The cache.
#[derive(Debug)]
pub(crate) struct Statuses {
    entries_max: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    tip: Option<BlockHash>,
    statuses: HashMap<ScriptHash, Status>,
}

impl Statuses {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries_max, known: Mutex::default() }
    }

    /// The status of a script at a snapshot.
    pub(crate) fn get(&self, snapshot: &Snapshot, scripthash: &ScriptHash) -> birdhouse_chain::Result<Status> {
        let tip = snapshot.tip().hash;
        if let Some(status) = self.known().get(tip, scripthash) {
            return Ok(status);
        }
        let status = snapshot.status(scripthash)?;
        self.known().put(tip, *scripthash, status, self.entries_max);
        Ok(status)
    }

    /// A new tip: what is asked from now on is asked there.
    pub(crate) fn advance(&self, tip: BlockHash) {
        let mut known = self.known();
        if known.tip != Some(tip) {
            *known = Known { tip: Some(tip), statuses: HashMap::new() };
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // Every change of the map is one insertion: a panic elsewhere leaves it whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn get(&self, tip: BlockHash, scripthash: &ScriptHash) -> Option<Status> {
        self.statuses.get(scripthash).filter(|_| self.tip == Some(tip)).copied()
    }

    fn put(&mut self, tip: BlockHash, scripthash: ScriptHash, status: Status, entries_max: usize) {
        if self.tip != Some(tip) {
            return;
        }
        if self.statuses.len() >= entries_max {
            self.statuses.clear();
        }
        self.statuses.insert(scripthash, status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hashes::Hash as _;

    fn tip(number: u8) -> BlockHash {
        BlockHash::from_byte_array([number; 32])
    }

    fn script(number: u8) -> ScriptHash {
        ScriptHash([number; 32])
    }

    #[test]
    fn a_status_is_known_at_its_tip_only() {
        let mut known = Known { tip: Some(tip(1)), ..Known::default() };
        known.put(tip(1), script(1), Some([7; 32]), 10);
        known.put(tip(2), script(2), Some([8; 32]), 10);
        assert_eq!(known.get(tip(1), &script(1)), Some(Some([7; 32])));
        assert_eq!(known.get(tip(2), &script(1)), None);
        assert_eq!(known.get(tip(2), &script(2)), None);
    }

    #[test]
    fn at_its_bound_the_cache_starts_anew() {
        let mut known = Known { tip: Some(tip(1)), ..Known::default() };
        for number in 0..3 {
            known.put(tip(1), script(number), None, 2);
        }
        assert_eq!(known.statuses.len(), 1);
        assert_eq!(known.get(tip(1), &script(2)), Some(None));
    }

    #[test]
    fn a_new_tip_empties_the_cache_and_the_same_one_does_not() {
        let statuses = Statuses::new(10);
        statuses.advance(tip(1));
        statuses.known().put(tip(1), script(1), None, 10);
        statuses.advance(tip(1));
        assert_eq!(statuses.known().get(tip(1), &script(1)), Some(None));
        statuses.advance(tip(2));
        assert_eq!(statuses.known().get(tip(2), &script(1)), None);
    }
}
