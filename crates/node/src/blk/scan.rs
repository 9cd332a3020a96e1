//! What the block files hold: the head of every record, read without the blocks' bodies.
//!
//! A record counts as a block when its header has the proof of work it claims; whatever else is found (garbage,
//! an overwritten half) is searched for further records.

use std::io;

use birdhouse_chain::sha256d;
use birdhouse_chain::source::FilePosition;
use bitcoin::block::Header;
use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Target};

use crate::record::{ReadAt, Record, Records, compact_size};

/// Bytes of a block header.
pub(crate) const HEADER_BYTES: usize = 80;
/// A header and the longest count of transactions.
const HEAD_BYTES: usize = HEADER_BYTES + 9;

/// The head of a block, wherever it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHead {
    /// Its hash.
    pub hash: BlockHash,
    /// Its header.
    pub header: [u8; HEADER_BYTES],
    /// Its transactions, as the count after the header says.
    pub tx_count: u32,
}

/// A block in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundBlock {
    pub(crate) head: BlockHead,
    pub(crate) file: u32,
    pub(crate) offset: u32,
    pub(crate) size: u32,
}

impl BlockHead {
    /// The head of the block that these bytes begin with; `None` where its work is not done.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header: [u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let (count, _) = compact_size(&bytes[HEADER_BYTES..])?;
        let tx_count = u32::try_from(count).ok().filter(|n| *n > 0)?;
        let hash = header_hash(&header);
        proven_target(&header, hash)?;
        Some(Self { hash, header, tx_count })
    }

    /// The hash of the block before.
    pub fn previous(&self) -> BlockHash {
        previous_hash(&self.header)
    }
}

impl FoundBlock {
    pub(crate) fn position(&self) -> FilePosition {
        FilePosition { file: self.file, offset: self.offset }
    }
}

/// The hash of a serialised header.
pub(crate) fn header_hash(header: &[u8; HEADER_BYTES]) -> BlockHash {
    BlockHash::from_byte_array(sha256d(header))
}

/// The field `hashPrevBlock` of a serialised header.
pub(crate) fn previous_hash(header: &[u8; HEADER_BYTES]) -> BlockHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(&header[4..36]);
    BlockHash::from_byte_array(hash)
}

/// The target that the header claims, where its hash meets it.
pub(crate) fn proven_target(header: &[u8; HEADER_BYTES], hash: BlockHash) -> Option<Target> {
    let bits = deserialize::<Header>(header).ok()?.bits;
    // A mantissa shifted out of 256 bits is no target (Core's `fOverflow`).
    if bits.to_consensus() >> 24 > 32 {
        return None;
    }
    Some(Target::from_compact(bits)).filter(|target| target.is_met_by(hash))
}

/// Calls `each` for every block among the records of block file `file`, and returns where a later scan goes on.
pub(crate) fn scan_blocks<R: ReadAt>(
    records: &mut Records<R>,
    file: u32,
    each: &mut impl FnMut(FoundBlock),
) -> io::Result<u64> {
    loop {
        let resume = records.resume();
        let Some(record) = records.advance()? else { return Ok(resume) };
        if let Some(block) = block_of(records, file, record)? {
            each(block);
        } else if !records.reject(record, resume)? {
            return Ok(resume);
        }
    }
}

fn block_of<R: ReadAt>(records: &mut Records<R>, file: u32, record: Record) -> io::Result<Option<FoundBlock>> {
    let len = HEAD_BYTES.min(record.size as usize);
    let head = BlockHead::parse(records.slice(record.offset, len)?);
    let offset = u32::try_from(record.offset).ok();
    Ok(head.zip(offset).map(|(head, offset)| FoundBlock { head, file, offset, size: record.size }))
}
