//! Scripts that own the outpoints of one client, which decide when an outpoint is checked again.
//!
//! There is no index of spenders to notify clients by. But every transaction that funds or spends an output touches its
//! script, so an outpoint is checked again when its script is touched. Where the script is unknown, because the
//! funding transaction is and the client gave no hint, it is checked again at every update. So is an output that can
//! never be spent, for the index has no script of it; such a check looks for the transaction alone, and does not
//! read it.

use std::collections::{BTreeSet, HashMap, HashSet};

use birdhouse_chain::ScriptHash;
use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};

use crate::protocol::Output;

/// Outpoints that one client follows, with their scripts.
#[derive(Debug, Default)]
pub(super) struct Owners {
    known: HashMap<OutPoint, ScriptHash>,
    by_owner: BTreeSet<(ScriptHash, OutPoint)>,
    /// Outpoints without a script.
    unowned: HashSet<OutPoint>,
    /// Those of them whose output can never be spent.
    unspendable: HashSet<OutPoint>,
    /// Outpoints whose script the client names; their funding transaction, which would prove it, was not seen yet.
    hinted: HashSet<OutPoint>,
}

impl Owners {
    /// Follows an outpoint by the script that its client names, if it names one.
    pub(super) fn enter(&mut self, outpoint: OutPoint, hint: Option<ScriptHash>) {
        self.follow(outpoint, hint);
        if hint.is_some() {
            self.hinted.insert(outpoint);
        }
    }

    /// Follows an outpoint as its output allows; one whose output was not seen, as it was followed before.
    pub(super) fn put(&mut self, outpoint: OutPoint, output: Output) {
        match output {
            Output::Unseen => self.follow(outpoint, None),
            Output::Of(script) => {
                self.follow(outpoint, Some(script));
                self.hinted.remove(&outpoint);
            }
            Output::Unspendable => {
                // A hint was wrong: nothing ever touches the script of such an output.
                self.remove(&outpoint);
                self.unowned.insert(outpoint);
                self.unspendable.insert(outpoint);
            }
        }
    }

    /// Returns true for an outpoint whose output can never be spent.
    pub(super) fn is_unspendable(&self, outpoint: &OutPoint) -> bool {
        self.unspendable.contains(outpoint)
    }

    fn follow(&mut self, outpoint: OutPoint, script: Option<ScriptHash>) {
        match (self.known.get(&outpoint), script) {
            (None, None) => {
                self.unowned.insert(outpoint);
            }
            (before, Some(script)) if before != Some(&script) => {
                self.remove(&outpoint);
                self.known.insert(outpoint, script);
                self.by_owner.insert((script, outpoint));
            }
            _ => {}
        }
    }

    /// Stops following an outpoint.
    pub(super) fn remove(&mut self, outpoint: &OutPoint) {
        self.unowned.remove(outpoint);
        self.unspendable.remove(outpoint);
        self.hinted.remove(outpoint);
        if let Some(script) = self.known.remove(outpoint) {
            self.by_owner.remove(&(script, *outpoint));
        }
    }

    /// Calls `touch` with the outpoints of these scripts (sorted), and with those that have no script.
    pub(super) fn touched(&self, touched: &[ScriptHash], mut touch: impl FnMut(&OutPoint)) {
        self.unowned.iter().for_each(&mut touch);
        // The shorter list leads.
        if touched.len() < self.by_owner.len() {
            for script in touched {
                let (first, last) = (edge(0), edge(u8::MAX));
                self.by_owner.range((*script, first)..=(*script, last)).for_each(|(_, outpoint)| touch(outpoint));
            }
        } else {
            let own = self.by_owner.iter().filter(|(script, _)| touched.binary_search(script).is_ok());
            own.for_each(|(_, outpoint)| touch(outpoint));
        }
    }

    /// Returns the number of outpoints without a script.
    pub(super) fn unowned_len(&self) -> usize {
        self.unowned.len()
    }

    /// Returns the number of outpoints whose script only the client has named.
    pub(super) fn hinted_len(&self) -> usize {
        self.hinted.len()
    }
}

/// Returns the lowest or the highest outpoint.
fn edge(byte: u8) -> OutPoint {
    OutPoint { txid: Txid::from_byte_array([byte; 32]), vout: u32::from_be_bytes([byte; 4]) }
}
