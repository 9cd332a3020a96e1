//! The outputs that a block spends, in the two forms in which a node delivers them.
//!
//! Sources: Core's `undo.h` (`CBlockUndo`), `compressor.cpp`, `rest.cpp` (`SerializeBlockUndo`).

use bitcoin::TxOut;
use bitcoin::consensus::encode::{VarInt, serialize};

/// Codes of Core's script compression below this stand for usual forms. Every script may also have its length, plus
/// this, before it.
const SPECIAL_SCRIPTS: u64 = 6;

/// `CBlockUndo`: the spent outputs of each transaction but the coinbase, with the heights that funded them.
pub(crate) fn core(spent: &[Vec<(u32, TxOut)>]) -> Vec<u8> {
    let mut bytes = serialize(&VarInt(spent.len() as u64));
    for outputs in spent {
        bytes.extend(serialize(&VarInt(outputs.len() as u64)));
        for (height, output) in outputs {
            put_varint(&mut bytes, u64::from(*height) * 2);
            if *height > 0 {
                bytes.push(0);
            }
            put_varint(&mut bytes, compressed(output.value.to_sat()));
            let script = output.script_pubkey.as_bytes();
            put_varint(&mut bytes, script.len() as u64 + SPECIAL_SCRIPTS);
            bytes.extend_from_slice(script);
        }
    }
    bytes
}

/// The answer of `/rest/spenttxouts`: plain outputs, and an empty entry for the coinbase.
pub(crate) fn rest(spent: &[Vec<(u32, TxOut)>]) -> Vec<u8> {
    let mut bytes = serialize(&VarInt(spent.len() as u64 + 1));
    bytes.push(0);
    for outputs in spent {
        bytes.extend(serialize(&VarInt(outputs.len() as u64)));
        bytes.extend(outputs.iter().flat_map(|(_, output)| serialize(output)));
    }
    bytes
}

/// Core's `VARINT`: base 128, the most significant group first, one added to each group but the last.
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    let mut groups = vec![number.to_le_bytes()[0] & 0x7f];
    while number > 0x7f {
        number = (number >> 7) - 1;
        groups.push(number.to_le_bytes()[0] & 0x7f | 0x80);
    }
    out.extend(groups.iter().rev());
}

/// Core's `CompressAmount`: trailing zeros in decimal become an exponent.
fn compressed(satoshis: u64) -> u64 {
    if satoshis == 0 {
        return 0;
    }
    let (mut rest, mut exponent) = (satoshis, 0);
    while rest.is_multiple_of(10) && exponent < 9 {
        rest /= 10;
        exponent += 1;
    }
    if exponent < 9 { 1 + (rest / 10 * 9 + rest % 10 - 1) * 10 + exponent } else { 1 + (rest - 1) * 10 + 9 }
}
