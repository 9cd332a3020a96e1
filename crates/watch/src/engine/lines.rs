//! The part of a transaction that belongs to a watch.

use birdhouse_chain::{Error as ChainError, ResolvedTransaction, ScriptHash, Snapshot};
use bitcoin::hex::DisplayHex as _;
use bitcoin::{OutPoint, Script, TxOut, Txid};

use crate::error::Result;
use crate::limits::NOTICE_LINES_MAX;
use crate::notice::{WatchedInput, WatchedOutput, WatchedScript};
use crate::state::Lines;
use crate::wallet::Position;

/// The lines of a transaction, and the outputs that it spends.
pub(super) struct Read {
    pub(super) lines: Lines,
    pub(super) spends: Vec<OutPoint>,
}

/// Reads a transaction of a snapshot. Of one that a pruned node has removed the lines say less.
pub(super) fn read(
    at: &Snapshot,
    txid: Txid,
    position: impl Fn(&ScriptHash) -> Option<Position>,
    only: Option<OutPoint>,
) -> Result<Option<Read>> {
    match at.resolved(txid) {
        Ok(Some(found)) => Ok(Some(lines(&found, position, only))),
        Ok(None) => Ok(None),
        Err(ChainError::Removed { .. }) => {
            Ok(Some(Read { lines: Lines { is_partial: true, ..Lines::default() }, spends: Vec::new() }))
        }
        Err(error) => Err(error.into()),
    }
}

fn lines(
    found: &ResolvedTransaction,
    position: impl Fn(&ScriptHash) -> Option<Position>,
    only: Option<OutPoint>,
) -> Read {
    let mut lines = Lines { is_partial: found.is_unresolved(), ..Lines::default() };
    let watched = |script: &Script| {
        let Position { branch, index } = position(&ScriptHash::of(script.as_bytes()))?;
        Some(WatchedScript { script: script.as_bytes().to_lower_hex_string(), branch, index })
    };
    let is_asked = |outpoint: OutPoint| only.is_none_or(|only| only == outpoint);
    for (vout, TxOut { value, script_pubkey }) in (0..).zip(&found.transaction.output) {
        let Some(script) = watched(script_pubkey).filter(|_| is_asked(OutPoint { txid: found.txid, vout })) else {
            continue;
        };
        lines.amounts.received += value.to_sat();
        if lines.outputs.len() < NOTICE_LINES_MAX {
            lines.outputs.push(WatchedOutput { vout, value: value.to_sat(), script });
        }
    }
    let inputs = found.transaction.input.iter().map(|input| input.previous_output);
    for ((vin, outpoint), TxOut { value, script_pubkey }) in (0..).zip(inputs.clone()).zip(&found.prevouts) {
        let Some(script) = watched(script_pubkey).filter(|_| is_asked(outpoint)) else { continue };
        lines.amounts.spent += value.to_sat();
        if lines.inputs.len() < NOTICE_LINES_MAX {
            lines.inputs.push(WatchedInput { vin, outpoint: outpoint.to_string(), value: value.to_sat(), script });
        }
    }
    Read { lines, spends: if found.transaction.is_coinbase() { Vec::new() } else { inputs.collect() } }
}
