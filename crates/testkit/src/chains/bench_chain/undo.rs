//! Undo data of a block as Core stores it in `rev*.dat`: every output that the block spends.
//!
//! Source: Core's `undo.h` (`CBlockUndo`, `TxInUndoFormatter`), `compressor.cpp`.

use super::coins::Coin;
use super::scripts::Scripts;
use crate::chains::core_coding::{SPECIAL_SCRIPTS, compact_size, compressed_amount, put_varint};

/// The undo data of the block under way.
#[derive(Debug, Default)]
pub(super) struct UndoBytes {
    txs: usize,
    bytes: Vec<u8>,
    /// Length before the last transaction.
    before_last: usize,
}

impl UndoBytes {
    /// Adds the outputs that one transaction spends.
    pub(super) fn push(&mut self, spent: &[Coin], scripts: &Scripts) {
        self.before_last = self.bytes.len();
        self.txs += 1;
        compact_size(&mut self.bytes, spent.len());
        for coin in spent {
            put_varint(&mut self.bytes, u64::from(coin.height) * 2 + u64::from(coin.is_coinbase));
            // The version of the transaction, which Core no longer uses.
            self.bytes.push(0);
            put_varint(&mut self.bytes, compressed_amount(coin.value));
            let script = scripts.script_pubkey(coin.script);
            put_varint(&mut self.bytes, script.len() as u64 + SPECIAL_SCRIPTS);
            self.bytes.extend_from_slice(&script);
        }
    }

    /// Removes the last transaction, which did not fit the block.
    pub(super) fn take_back(&mut self) {
        self.bytes.truncate(self.before_last);
        self.txs -= 1;
    }

    /// Returns the undo data, and begins the next block.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut undo = Vec::with_capacity(self.bytes.len() + 5);
        compact_size(&mut undo, self.txs);
        undo.append(&mut self.bytes);
        self.txs = 0;
        undo
    }
}
