//! Which undo record belongs to which block.
//!
//! Core writes a block's undo data when it first connects the block, into the `rev` file with the number of its
//! `blk` file. A block is connected after its parent, so the blocks of one chain appear in ascending height, with
//! records of stale blocks in between. Order only guides the search. The proof is the checksum that follows the
//! data, SHA256d(previous block's hash ‖ undo data): only data of a sibling can pass too, which has to be told apart
//! by its contents (see `undo_fit`). And where the order does not hold
//! (a node started from a UTXO snapshot, a reindex) the search begins again at the start of the file.
//! Source: Core's `WriteBlockUndo` in `node/blockstorage.cpp`, `undo.h`.

use std::io;

use bitcoin::BlockHash;
use bitcoin::hashes::{Hash, HashEngine, sha256d};

use crate::record::{ReadAt, Record, Records, compact_size};

/// Bytes of the checksum after the undo data.
const CHECKSUM_BYTES: usize = 32;
/// Undo data of the genesis block, which has no record: no transaction but the coinbase.
pub(crate) const GENESIS_UNDO: [u8; 1] = [0];

/// Finds undo data in one `rev` file, remembering where the last find ended.
#[derive(Debug)]
pub(crate) struct UndoPairs<R> {
    records: Records<R>,
    next: u64,
}

impl<R: ReadAt> UndoPairs<R> {
    /// Searches `records` from `hint` on, the end of an earlier find, or 0.
    pub(crate) fn new(records: Records<R>, hint: u64) -> Self {
        Self { records, next: hint }
    }

    /// Where the last find ended.
    pub(crate) fn hint(&self) -> u64 {
        self.next
    }

    /// Undo data of the block after `previous` that has `tx_count` transactions, and that `fits` it: siblings leave
    /// undo data that passes the other tests.
    pub(crate) fn find(
        &mut self,
        previous: BlockHash,
        tx_count: u32,
        fits: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Option<&[u8]>> {
        let start = self.next;
        let mut found = self.find_within(previous, tx_count, &fits, start, u64::MAX)?;
        if found.is_none() && start > 0 {
            found = self.find_within(previous, tx_count, &fits, 0, start)?;
        }
        let Some(record) = found else { return Ok(None) };
        self.next = record.offset + u64::from(record.size) + CHECKSUM_BYTES as u64;
        self.records.slice(record.offset, record.size as usize).map(Some)
    }

    fn find_within(
        &mut self,
        previous: BlockHash,
        tx_count: u32,
        fits: &impl Fn(&[u8]) -> bool,
        from: u64,
        until: u64,
    ) -> io::Result<Option<Record>> {
        self.records.seek(from);
        while let Some(record) = self.records.advance()? {
            if record.offset >= until {
                break;
            }
            if self.has_entries(record, tx_count)?
                && self.is_of(record, previous)?
                && fits(self.records.slice(record.offset, record.size as usize)?)
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The cheap test: an entry for every transaction but the coinbase.
    fn has_entries(&mut self, record: Record, tx_count: u32) -> io::Result<bool> {
        let start = self.records.slice(record.offset, 9.min(record.size as usize))?;
        Ok(compact_size(start)
            .is_some_and(|(entries, _)| entries.checked_add(1) == Some(u64::from(tx_count))))
    }

    /// The proof.
    fn is_of(&mut self, record: Record, previous: BlockHash) -> io::Result<bool> {
        let size = record.size as usize;
        let bytes = self.records.slice(record.offset, size + CHECKSUM_BYTES)?;
        let Some((undo, checksum)) = bytes.split_at_checked(size) else { return Ok(false) };
        Ok(checksum == undo_checksum(previous, undo))
    }
}

/// SHA256d(previous block's hash ‖ undo data).
pub(crate) fn undo_checksum(previous: BlockHash, undo: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut engine = sha256d::Hash::engine();
    engine.input(previous.as_byte_array());
    engine.input(undo);
    sha256d::Hash::from_engine(engine).to_byte_array()
}
