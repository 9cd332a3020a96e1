//! The effects of a power cut on writes that were not published.
//!
//! Invariant: undoing the journal backwards gives the published data; redoing it with every toss kept gives the data
//! before the power cut.

use super::data::{Data, Rows};

/// One write since the last publish, with the bytes it replaced.
#[derive(Debug)]
pub(super) enum Change {
    Row {
        table: &'static str,
        key: Vec<u8>,
        before: Option<Vec<u8>>,
        after: Option<Vec<u8>>,
    },
    Clear {
        table: &'static str,
        before: Rows,
    },
    /// Bytes written over `before`, which is shorter where the array ended, when the array was `bytes_before` bytes
    /// long.
    Records {
        array: &'static str,
        at: usize,
        bytes_before: usize,
        before: Vec<u8>,
        after: Vec<u8>,
    },
    Cut {
        array: &'static str,
        at: usize,
        removed: Vec<u8>,
    },
}

/// The random choice of lost writes: `SplitMix64`, so that a seed replays a crash.
pub(super) struct Coin(u64);

// === impl Change ===

impl Change {
    /// Restores the bytes from before the write.
    pub(super) fn undo(&self, data: &mut Data) {
        match self {
            Self::Row { table, key, before, .. } => {
                data.set_row(table, key.clone(), before.clone());
            }
            Self::Clear { table, before } => {
                data.tables.insert(table, before.clone());
            }
            Self::Records { array, at, bytes_before, before, .. } => {
                if let Some(records) = data.arrays.get_mut(array) {
                    records.bytes.truncate(*bytes_before);
                    if !before.is_empty() {
                        records.write(*at, before);
                    }
                }
            }
            Self::Cut { array, at, removed } => {
                if let Some(records) = data.arrays.get_mut(array) {
                    records.write(*at, removed);
                }
            }
        }
    }

    /// Applies the parts of the write that the coin keeps.
    pub(super) fn redo(&self, data: &mut Data, coin: &mut Coin) {
        match self {
            Self::Row { table, key, after, .. } => {
                if coin.toss() {
                    data.set_row(table, key.clone(), after.clone());
                }
            }
            Self::Clear { table, .. } => {
                if coin.toss() {
                    data.tables.remove(table);
                }
            }
            Self::Records { array, at, after, .. } => {
                let Some(records) = data.arrays.get_mut(array) else { return };
                let size = records.record_bytes;
                for (number, record) in after.chunks_exact(size).enumerate() {
                    if coin.toss() {
                        records.write(at + number * size, record);
                    }
                }
            }
            Self::Cut { array, at, .. } => {
                if coin.toss()
                    && let Some(records) = data.arrays.get_mut(array)
                {
                    records.bytes.truncate(*at);
                }
            }
        }
    }
}

// === impl Coin ===

impl Coin {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next random bit: `true` keeps a write.
    pub(super) fn toss(&mut self) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) & 1 == 1
    }
}
