//! Whether undo data can be that of a block: the checksum proves only whose child it is of, and siblings share it.
//!
//! Stale blocks leave their undo data behind, and a sibling may have as many transactions. So the entries must also
//! fit: as many spent outputs as each transaction has inputs, worth no less than its outputs; and the coinbase claims
//! what the others leave to it.
//! Source: Core's `undo.h`, `compressor.cpp`; consensus rules `bad-txns-in-belowout`, `bad-cb-amount`.

use bitcoin::consensus::deserialize;
use bitcoin::{Block, Transaction};

use crate::record::compact_size;

/// Bytes of the scripts that are stored in a special form, by code.
const SPECIAL_SCRIPT_BYTES: [usize; 6] = [20, 20, 32, 32, 32, 32];

/// Whether `undo` can be the undo data of `block`. Nothing fits bytes that are no block.
pub(super) fn fits(undo: &[u8], block: &[u8]) -> bool {
    deserialize::<Block>(block).is_ok_and(|block| fees(undo, &block).is_some_and(|fees| is_claimed(&block, fees)))
}

/// What all transactions leave to the miner; `None` where the entries are not those of their inputs.
fn fees(undo: &[u8], block: &Block) -> Option<u64> {
    let mut cursor = Cursor(undo);
    let (_, spending) = block.txdata.split_first()?;
    if cursor.count()? != spending.len() as u64 {
        return None;
    }
    let mut fees: u64 = 0;
    for tx in spending {
        if cursor.count()? != tx.input.len() as u64 {
            return None;
        }
        let mut spent: u64 = 0;
        for _ in &tx.input {
            spent = spent.checked_add(cursor.value()?)?;
        }
        fees = fees.checked_add(spent.checked_sub(paid(tx)?)?)?;
    }
    cursor.0.is_empty().then_some(fees)
}

fn paid(tx: &Transaction) -> Option<u64> {
    tx.output.iter().try_fold(0_u64, |sum, output| sum.checked_add(output.value.to_sat()))
}

/// A coinbase may claim less than the subsidy and the fees, never more; no subsidy exceeds 50 coins.
fn is_claimed(block: &Block, fees: u64) -> bool {
    const SUBSIDY_MAX_SAT: u64 = 5_000_000_000;
    let claimed = block.txdata.first().and_then(paid);
    claimed.is_some_and(|claimed| claimed <= fees.saturating_add(SUBSIDY_MAX_SAT))
}

/// What is left to read.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn count(&mut self) -> Option<u64> {
        let (count, len) = compact_size(self.0)?;
        self.skip(len)?;
        Some(count)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        self.0 = self.0.get(len..)?;
        Some(())
    }

    /// Core's `VARINT`.
    fn varint(&mut self) -> Option<u64> {
        let mut value: u64 = 0;
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value = value.checked_mul(128)? | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Some(value);
            }
            value = value.checked_add(1)?;
        }
    }

    /// One spent output: its value, its script stepped over.
    fn value(&mut self) -> Option<u64> {
        // Height and coinbase flag; behind a height stands a version that is no longer used.
        if self.varint()? > 1 {
            self.varint()?;
        }
        let value = decompressed(self.varint()?)?;
        let code = usize::try_from(self.varint()?).ok()?;
        let special = SPECIAL_SCRIPT_BYTES.get(code).copied();
        self.skip(special.unwrap_or_else(|| code - SPECIAL_SCRIPT_BYTES.len()))?;
        Some(value)
    }
}

/// Core's `DecompressAmount`.
fn decompressed(coded: u64) -> Option<u64> {
    let Some(coded) = coded.checked_sub(1) else { return Some(0) };
    let (rest, exponent) = (coded / 10, u32::try_from(coded % 10).ok()?);
    let digits = if exponent < 9 { (rest / 9).checked_mul(10)? + rest % 9 + 1 } else { rest + 1 };
    digits.checked_mul(10_u64.pow(exponent))
}
