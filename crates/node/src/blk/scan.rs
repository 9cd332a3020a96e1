//! The scan of block files: it reads the head of every record and skips the bodies of blocks.
//!
//! A record counts as a block when its header has the proof of work it claims. The scan searches everything else
//! (garbage, a half overwritten record) for further records.

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
/// Bytes of a header and the longest count of transactions.
const HEAD_BYTES: usize = HEADER_BYTES + 9;

/// The head of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHead {
    /// Its hash.
    pub hash: BlockHash,
    /// Its header.
    pub header: [u8; HEADER_BYTES],
    /// Number of its transactions, from the count after the header.
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
    /// Parses the head at the beginning of a block; `None` when it is cut or lacks its proof of work.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header: [u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let (count, _) = compact_size(&bytes[HEADER_BYTES..])?;
        let tx_count = u32::try_from(count).ok().filter(|n| *n > 0)?;
        let hash = header_hash(&header);
        proven_target(&header, hash)?;
        Some(Self { hash, header, tx_count })
    }

    /// Returns the hash of the previous block.
    pub fn previous(&self) -> BlockHash {
        previous_hash(&self.header)
    }
}

impl FoundBlock {
    pub(crate) fn position(&self) -> FilePosition {
        FilePosition { file: self.file, offset: self.offset }
    }
}

/// Returns the hash of a serialised header.
pub(crate) fn header_hash(header: &[u8; HEADER_BYTES]) -> BlockHash {
    BlockHash::from_byte_array(sha256d(header))
}

/// Returns the field `hashPrevBlock` of a serialised header.
pub(crate) fn previous_hash(header: &[u8; HEADER_BYTES]) -> BlockHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(&header[4..36]);
    BlockHash::from_byte_array(hash)
}

/// Returns the target that the header claims, when its hash meets it.
pub(crate) fn proven_target(header: &[u8; HEADER_BYTES], hash: BlockHash) -> Option<Target> {
    let bits = deserialize::<Header>(header).ok()?.bits;
    // A mantissa shifted out of 256 bits is no target (Core's `fOverflow`).
    if bits.to_consensus() >> 24 > 32 {
        return None;
    }
    Some(Target::from_compact(bits)).filter(|target| target.is_met_by(hash))
}

/// Calls `each` for every block among the records of block file `file`; returns the offset at which a later scan
/// resumes.
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
