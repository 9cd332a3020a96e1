//! The node's own block and undo files as a source of blocks: `blkNNNNN.dat`, `revNNNNN.dat`, `xor.dat`.
//!
//! They are read while the node writes them. What is delivered is what its header says (the hash is compared), and
//! undo data is proved by its checksum; the merkle root is for the visitor to prove. The node's database is never
//! opened: which block is where comes from one walk over the record heads, and from a look at the newest files when
//! an unknown block is asked for.
//! Source: Core's `node/blockstorage.cpp`, `flatfile.cpp`.

mod best_chain;
mod folder;
mod handles;
mod known;
mod positions;
mod prove;
mod scan;
mod undo_pairs;
mod unit;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

use birdhouse_chain::Height;
use birdhouse_chain::source::{BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceResult, Unit, Visit};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::{BlockHash, Network};

use crate::error::{not_found, permanent, unreadable};
use crate::record::{RECORD_HEADER, RECORD_HEADER_BYTES, ReadAt};
use best_chain::{FoundBlocks, MissingBlock};
use folder::Folder;
use handles::Handles;
use known::Known;
use scan::{FoundBlock, HEADER_BYTES, header_hash};

pub(crate) use folder::network_flag;
pub use scan::BlockHead;
pub(crate) use unit::inside;

/// `magic | size | header`: what is read to prove that a block lies at a position.
const RECORD_AND_HEADER_BYTES: usize = RECORD_HEADER_BYTES + HEADER_BYTES;

/// The folder `blocks` of a node.
#[derive(Debug)]
pub struct BlockFiles {
    folder: Folder,
    handles: Handles,
    known: Mutex<Known>,
}

impl BlockFiles {
    /// Opens the folder `blocks` of a node of this network. Its files are not walked over yet.
    pub fn open(blocks_dir: &Path, network: Network) -> SourceResult<Self> {
        let folder = Folder::open(blocks_dir, network)?;
        Ok(Self { folder, handles: Handles::default(), known: Mutex::default() })
    }

    /// The tip with most work whose data and undo data are there. A block that was never connected has no undo data.
    fn best_tip(&self, blocks: &FoundBlocks) -> SourceResult<BlockHash> {
        for hash in blocks.candidates() {
            for block in blocks.copies(hash) {
                if self.is_complete(block)? {
                    return Ok(hash);
                }
            }
        }
        Err(permanent(format!(
            "no complete block in {}: blk00000.dat does not begin with a genesis block",
            self.folder.path().display()
        )))
    }

    fn missing(&self, tip: BlockHash, missing: &MissingBlock) -> birdhouse_chain::source::SourceError {
        let path = self.folder.path().display();
        if missing.found_above == 0 {
            return not_found(format!("block {tip} is not in {path}: is this the folder of the node that is asked?"));
        }
        permanent(format!(
            "block {}, {} blocks below {tip}, is not in {path}: files are missing (a pruned node, or a copy that is \
             not complete). Copy the whole folder, or set prune=0 in bitcoin.conf and start bitcoind -reindex",
            missing.hash, missing.found_above
        ))
    }

    fn check_genesis(&self, first: BlockHash) -> SourceResult<()> {
        let network = self.folder.network;
        if first == genesis_block(network).block_hash() {
            return Ok(());
        }
        let all = [Network::Bitcoin, Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest];
        let other = all.into_iter().find(|n| genesis_block(*n).block_hash() == first);
        Err(permanent(format!(
            "the block files in {} are of {}, but the network {} is asked for: choose --network, --node-dir or \
             --blocks-dir accordingly",
            self.folder.path().display(),
            other.map_or("an unknown network", network_flag),
            network_flag(network)
        )))
    }

    /// Of a block that was written twice (the node stopped before it noted the first), the copy that is complete.
    fn copy_of<'a>(&self, copies: &'a [FoundBlock]) -> SourceResult<&'a FoundBlock> {
        if let [only] = copies {
            return Ok(only);
        }
        for block in copies {
            if self.is_complete(block)? {
                return Ok(block);
            }
        }
        copies.first().ok_or_else(|| permanent("no copy of a block that was found"))
    }

    /// Size and header of the block at a position, where that block is what lies there.
    fn size_at(&self, hash: BlockHash, position: FilePosition) -> SourceResult<Option<u32>> {
        let Some(start) = u64::from(position.offset).checked_sub(RECORD_HEADER) else {
            return Ok(None);
        };
        let mut head = [0; RECORD_AND_HEADER_BYTES];
        let n = match self.read_at(position.file, start, &mut head) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| unreadable(&self.folder.blk_path(position.file), &e))?,
        };
        let ([_, _, _, _, s0, s1, s2, s3], header) = head
            .split_first_chunk()
            .map_or(([0; 8], None), |(first, rest)| (*first, rest.first_chunk::<HEADER_BYTES>()));
        let there = n == head.len() && header.is_some_and(|header| header_hash(header) == hash);
        Ok(there.then(|| u32::from_le_bytes([s0, s1, s2, s3])))
    }

    /// De-obfuscated bytes of a block file, over a handle that stays open.
    fn read_at(&self, file: u32, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let handle = self.handles.get(file, || File::open(self.folder.blk_path(file)))?;
        let n = ReadAt::read_at(&*handle, offset, buf)?;
        self.folder.key.apply(offset, &mut buf[..n]);
        Ok(n)
    }

    /// Bytes of the block at a position; `None` where the file ends before.
    fn part(&self, position: FilePosition, offset: u32, len: u32) -> io::Result<Option<Vec<u8>>> {
        let mut part = vec![0; len as usize];
        let n = self.read_at(position.file, u64::from(position.offset) + u64::from(offset), &mut part)?;
        Ok((n == part.len()).then_some(part))
    }

    /// Where a block lies now, and its size.
    fn locate(&self, hash: BlockHash) -> SourceResult<(FilePosition, u32)> {
        for step in known::STEPS {
            let candidates = self.known(|known| {
                known.look(&self.folder, step)?;
                Ok(known.positions.of(hash))
            })?;
            for position in candidates {
                // Of a block that was written twice, one copy may be written over behind its header.
                if let Some(size) = self.size_at(hash, position)?
                    && self.is_whole(position, size)?
                {
                    return Ok((position, size));
                }
                self.handles.close(position.file);
            }
        }
        Err(not_found(format!("block {hash} is not in {}", self.folder.path().display())))
    }
}

impl BlockSource for BlockFiles {
    fn describe(&self) -> String {
        let key = if self.folder.key.is_zero() { "plain" } else { "obfuscated" };
        format!("block files in {} ({}, {key})", self.folder.path().display(), network_flag(self.folder.network))
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        let blocks = FoundBlocks::new(self.known(|known| known.scan_all(&self.folder))?);
        let tip = tip.map_or_else(|| self.best_tip(&blocks), Ok)?;
        let hashes = blocks.chain_to(tip).map_err(|missing| self.missing(tip, &missing))?;
        if let Some(first) = hashes.first() {
            self.check_genesis(*first)?;
        }
        hashes.into_iter().map(|hash| self.copy_of(blocks.copies(hash)).map(meta)).collect()
    }

    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        unit::split(chain, heights)
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        self.read_blocks(chain, unit, visit)
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        let (position, size) = self.locate(hash)?;
        self.fetch(hash, position, size)
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        match self.part(position, offset, len) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            part => part.map_err(|e| unreadable(&self.folder.blk_path(position.file), &e)),
        }
    }

    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>> {
        let at_hint = match position {
            Some(position) => self.size_at(hash, position)?.map(|size| (position, size)),
            None => None,
        };
        let (position, size) = at_hint.map_or_else(|| self.locate(hash), Ok)?;
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(permanent(format!("bytes {offset}+{len} asked of block {hash}, which has {size}")));
        }
        let path = || self.folder.blk_path(position.file);
        let part = self.part(position, offset, len).map_err(|e| unreadable(&path(), &e))?;
        part.ok_or_else(|| permanent(format!("{} ends inside block {hash}", path().display())))
    }
}

/// The hash of the header that these bytes begin with.
pub(crate) fn header_hash_of(block: &[u8]) -> Option<BlockHash> {
    block.first_chunk::<HEADER_BYTES>().map(header_hash)
}

fn meta(block: &FoundBlock) -> BlockMeta {
    BlockMeta {
        hash: block.head.hash,
        header: block.head.header,
        tx_count: block.head.tx_count,
        bytes: block.size,
        position: Some(block.position()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
