//! Packs and deltas: the places of a chain's rows.
//!
//! A *pack* holds the rows of a range of txnums in its smallest form: one entry per script and transaction, in buckets.
//! It is written whole, in key order, and never changed. A *delta* holds rows of blocks near the tip, one by one. A
//! merge turns the oldest deltas, and packs that are not much larger, into one pack.
//!
//! Each lies in tables of its own, named by a *slot*: dropping it empties these tables. A slot is used again once no
//! snapshot reads it.
//!
//! Buckets share the key, history, unspent outputs and spends of 32 to 64 scripts in one row, which one point lookup
//! reads. One row per script and table would repeat the key in each: that layout was estimated at about twice the
//! bytes, and not built.

use crate::names::{KeyLength, TxNum};

/// Packs that exist at once: those of the manifest, one that is being written, and those that older snapshots read.
pub(crate) const PACK_SLOTS: usize = 8;
/// Deltas that exist at once: buried ones that are being merged, one that is being buried, and the one that grows.
pub(crate) const DELTA_SLOTS: usize = 6;

/// One pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pack {
    /// The number of its tables, below [`PACK_SLOTS`].
    pub(crate) slot: u8,
    pub(crate) key_length: KeyLength,
    /// Bits of a bucket of scripts.
    pub(crate) script_bits: u32,
    /// Bits of a bucket of transactions.
    pub(crate) txnum_bits: u32,
    /// First txnum of its range. The oldest pack begins at 0.
    pub(crate) start: TxNum,
    /// First txnum after its range.
    pub(crate) end: TxNum,
    /// Scripts that it has entries of.
    pub(crate) scripts: u64,
}

/// One delta. It ends where the next one begins; the last one grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delta {
    /// The number of its tables, below [`DELTA_SLOTS`].
    pub(crate) slot: u8,
    /// First txnum of its range.
    pub(crate) start: TxNum,
}

impl Pack {
    /// True for the oldest pack: no other rows come before its own, so it has every output that it spends.
    pub(crate) fn is_oldest(&self) -> bool {
        self.start == TxNum(0)
    }
}
