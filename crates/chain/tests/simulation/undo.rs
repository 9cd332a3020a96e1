//! The outputs that a block spends, in the two forms in which a node delivers them.
//!
//! Sources: Core's `undo.h` (`CBlockUndo`), `rest.cpp` (`SerializeBlockUndo`).

use birdhouse_testkit::core_coding::{SPECIAL_SCRIPTS, compressed_amount, put_varint};
use bitcoin::TxOut;
use bitcoin::consensus::encode::{VarInt, serialize};

/// An output that a block spends, and the transaction that funded it.
pub(crate) struct Spent {
    pub(crate) height: u32,
    pub(crate) is_coinbase: bool,
    pub(crate) output: TxOut,
}

/// `CBlockUndo`: the spent outputs of each transaction but the coinbase, with the heights that funded them.
pub(crate) fn core(spent: &[Vec<Spent>]) -> Vec<u8> {
    let mut bytes = serialize(&VarInt(spent.len() as u64));
    for outputs in spent {
        bytes.extend(serialize(&VarInt(outputs.len() as u64)));
        for Spent { height, is_coinbase, output } in outputs {
            put_varint(&mut bytes, u64::from(*height) * 2 + u64::from(*is_coinbase));
            if *height > 0 {
                bytes.push(0);
            }
            put_varint(&mut bytes, compressed_amount(output.value.to_sat()));
            let script = output.script_pubkey.as_bytes();
            put_varint(&mut bytes, script.len() as u64 + SPECIAL_SCRIPTS);
            bytes.extend_from_slice(script);
        }
    }
    bytes
}

/// The answer of `/rest/spenttxouts`: plain outputs, and an empty entry for the coinbase.
pub(crate) fn rest(spent: &[Vec<Spent>]) -> Vec<u8> {
    let mut bytes = serialize(&VarInt(spent.len() as u64 + 1));
    bytes.push(0);
    for outputs in spent {
        bytes.extend(serialize(&VarInt(outputs.len() as u64)));
        bytes.extend(outputs.iter().flat_map(|spent| serialize(&spent.output)));
    }
    bytes
}
