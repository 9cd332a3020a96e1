//! A transaction that a WebSocket client tracks, and what the client knows of it.

use std::collections::HashSet;

use birdhouse_chain::{Error, Height, Result, Snapshot};
use bitcoin::{OutPoint, Txid};
use serde_json::{Map, Value, json};

use crate::fees::Projection;
use crate::limits::TRACKED_OUTPUTS;

/// The knowledge of a client about one transaction.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    is_confirmed: bool,
    replaced_by: Option<Txid>,
    /// Index of the projected block, and virtual bytes in it up to the middle of the transaction.
    position: Option<(usize, u64)>,
    /// The number of its outputs, once something has it.
    outputs: u32,
    /// Outputs whose spending in the mempool the client knows.
    spent: HashSet<u32>,
}

/// Changes of a transaction since the client last heard of it.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) has_confirmed: bool,
    pub(super) replaced_by: Option<Txid>,
    pub(super) position: Option<(usize, u64)>,
    /// Inputs that spend its outputs, by vout.
    pub(super) spent: Map<String, Value>,
}

impl Tracked {
    /// Notes a transaction that a block has already: its confirmation is no change.
    pub(crate) fn begin(at: &Snapshot, txid: &Txid) -> Result<Self> {
        let mut tracked = Self { is_confirmed: at.transaction_block(*txid)?.is_some(), ..Self::default() };
        tracked.count_outputs(at, txid)?;
        Ok(tracked)
    }

    /// True if a block has it, as far as the client knows.
    pub(super) fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// True if a replacement is new to the client.
    pub(super) fn is_replaced_anew(&self, at: &Snapshot, txid: &Txid) -> bool {
        at.mempool().replacements().replacement(txid) != self.replaced_by
    }

    fn count_outputs(&mut self, at: &Snapshot, txid: &Txid) -> Result<()> {
        let outputs = match at.mempool().get(txid) {
            Some(found) => found.output_count(),
            None if self.is_confirmed => match at.output_count(*txid) {
                // As many as are followed: the node has removed the block. What it does not have, nobody spends.
                Err(Error::Removed { .. }) => TRACKED_OUTPUTS,
                count => count?.unwrap_or(0) as usize,
            },
            None => return Ok(()),
        };
        self.outputs = u32::try_from(outputs.min(TRACKED_OUTPUTS)).unwrap_or(0);
        Ok(())
    }

    /// Returns what is new in a block or by a replacement. Blocks from `new_from` on are new; none without it.
    pub(crate) fn changed(&mut self, at: &Snapshot, txid: &Txid, new_from: Option<Height>) -> Result<Changes> {
        let mut changes = Changes::default();
        if new_from.is_some() {
            let is_confirmed = at.transaction_block(*txid)?.is_some();
            changes.has_confirmed = is_confirmed && !self.is_confirmed;
            self.is_confirmed = is_confirmed;
        }
        let replaced_by = at.mempool().replacements().replacement(txid);
        if replaced_by != self.replaced_by {
            self.replaced_by = replaced_by;
            changes.replaced_by = replaced_by;
        }
        if changes.replaced_by.is_some() || changes.has_confirmed {
            self.position = None;
        }
        Ok(changes)
    }

    /// Returns what is new in the order of the mempool, and about its outputs.
    pub(super) fn moved(&mut self, at: &Snapshot, txid: &Txid, projection: &Projection) -> Result<Changes> {
        let mut changes = Changes::default();
        let found = at.mempool().get(txid);
        let position = found.and_then(|found| projection.position(txid, found.adjusted_vsize()));
        if position != self.position {
            self.position = position;
            changes.position = position;
        }
        if self.outputs == 0 {
            self.count_outputs(at, txid)?;
        }
        for vout in 0..self.outputs {
            match at.mempool().spending_input(&OutPoint { txid: *txid, vout }) {
                Some((spender, vin)) if self.spent.insert(vout) => {
                    changes.spent.insert(vout.to_string(), json!({ "vin": vin, "txid": spender }));
                }
                Some(_) => {}
                // Another one may spend it later.
                None => drop(self.spent.remove(&vout)),
            }
        }
        Ok(changes)
    }
}

impl Changes {
    /// Returns the members of `tracked-txs` for a transaction; `None` if nothing is new.
    pub(super) fn members(self) -> Option<Value> {
        let mut members = Map::new();
        if let Some((block, vsize)) = self.position {
            members.insert("position".into(), json!({ "block": block, "vsize": vsize }));
        }
        if self.has_confirmed {
            members.insert("confirmed".into(), json!(true));
        }
        if let Some(txid) = self.replaced_by {
            members.insert("replacedBy".into(), json!(txid));
        }
        if !self.spent.is_empty() {
            members.insert("utxoSpent".into(), Value::Object(self.spent));
        }
        (!members.is_empty()).then_some(Value::Object(members))
    }

    /// Adds what another look found.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.has_confirmed |= other.has_confirmed;
        self.replaced_by = self.replaced_by.or(other.replaced_by);
        self.position = self.position.or(other.position);
        self.spent.extend(other.spent);
        self
    }
}
