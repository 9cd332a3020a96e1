//! The part of a transaction that belongs to a watch.
//!
//! Beside a pruned node the outputs that it spends may be gone. The mempool has their script hashes and values all the
//! same, so a spend is known as one when it is seen.

use std::collections::HashMap;

use birdhouse_chain::{Error as ChainError, ResolvedTransaction, ScriptHash, Snapshot, SpentOutput};
use bitcoin::hex::DisplayHex as _;
use bitcoin::{OutPoint, Script, ScriptBuf, TxOut, Txid};

use crate::error::Result;
use crate::limits::NOTICE_LINES_MAX;
use crate::notice::{WatchedInput, WatchedOutput, WatchedScript};
use crate::state::Lines;
use crate::wallet::{Position, Wallet};

/// The scripts of a watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) positions: &'a HashMap<ScriptHash, Position>,
    pub(super) wallet: &'a Wallet,
}

/// The lines of a transaction, and the outputs that it spends.
pub(super) struct Read {
    pub(super) lines: Lines,
    pub(super) spends: Vec<OutPoint>,
}

/// An output that a transaction spends.
struct Spent {
    output: SpentOutput,
    /// `None` where the node has removed its block.
    script: Option<ScriptBuf>,
}

/// Reads a transaction of a snapshot. Of one that a pruned node has removed the lines say less.
pub(super) fn read(at: &Snapshot, txid: Txid, own: Own<'_>) -> Result<Option<Read>> {
    match at.resolved(txid) {
        Ok(Some(found)) => Ok(Some(lines(at, &found, own))),
        Ok(None) => Ok(None),
        Err(ChainError::Removed { .. }) => {
            Ok(Some(Read { lines: Lines { is_partial: true, ..Lines::default() }, spends: Vec::new() }))
        }
        Err(error) => Err(error.into()),
    }
}

fn lines(at: &Snapshot, found: &ResolvedTransaction, own: Own<'_>) -> Read {
    let mut lines = Lines::default();
    for (vout, TxOut { value, script_pubkey }) in (0..).zip(&found.transaction.output) {
        let outpoint = OutPoint { txid: found.txid, vout };
        let Some(position) = own.position(&ScriptHash::of(script_pubkey.as_bytes()), outpoint) else { continue };
        lines.amounts.received += value.to_sat();
        if lines.outputs.len() < NOTICE_LINES_MAX {
            let script = watched(script_pubkey, position);
            lines.outputs.push(WatchedOutput { vout, value: value.to_sat(), script });
        }
    }
    let spent = spent(at, found);
    lines.is_partial = spent.is_none();
    for (vin, Spent { output, script }) in (0..).zip(spent.into_iter().flatten()) {
        let SpentOutput { outpoint, scripthash, value } = output;
        let Some(position) = own.position(&scripthash, outpoint) else { continue };
        lines.amounts.spent += value;
        // Of the script of a watched output, the watch knows the hash alone.
        let Some(script) = script.or_else(|| own.wallet.script(position)) else {
            lines.is_partial = true;
            continue;
        };
        if lines.inputs.len() < NOTICE_LINES_MAX {
            let (outpoint, script) = (outpoint.to_string(), watched(&script, position));
            lines.inputs.push(WatchedInput { vin, outpoint, value, script });
        }
    }
    let inputs = found.transaction.input.iter().map(|input| input.previous_output);
    Read { lines, spends: if found.transaction.is_coinbase() { Vec::new() } else { inputs.collect() } }
}

/// The outputs that a transaction spends, in the order of its inputs; `None` if they are unknown.
fn spent(at: &Snapshot, found: &ResolvedTransaction) -> Option<Vec<Spent>> {
    if found.is_unresolved() {
        let outputs = at.mempool().get(&found.txid)?.spent_outputs();
        return Some(outputs.map(|output| Spent { output, script: None }).collect());
    }
    let spent = found.transaction.input.iter().zip(&found.prevouts).map(|(input, TxOut { value, script_pubkey })| {
        let scripthash = ScriptHash::of(script_pubkey.as_bytes());
        let output = SpentOutput { outpoint: input.previous_output, scripthash, value: value.to_sat() };
        Spent { output, script: Some(script_pubkey.clone()) }
    });
    Some(spent.collect())
}

fn watched(script: &Script, Position { branch, index }: Position) -> WatchedScript {
    WatchedScript { script: script.as_bytes().to_lower_hex_string(), branch, index }
}

impl Own<'_> {
    /// The position of an output's script, if the watch has it, and watches no other output of it.
    fn position(&self, script: &ScriptHash, outpoint: OutPoint) -> Option<Position> {
        let is_asked = self.wallet.outpoint.is_none_or(|only| only == outpoint);
        self.positions.get(script).copied().filter(|_| is_asked)
    }
}
