//! The block and undo files of a folder, as long as it is the same folder.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;

use birdhouse_chain::source::{
    BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceResult, SpentBuf, Unit, Visit,
};
use birdhouse_chain::{Hash256, Height};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::{BlockHash, Network};
use parking_lot::Mutex;

use super::best_chain::{FoundBlocks, MissingBlock};
use super::files::Files;
use super::folder::{Folder, NETWORKS, network_flag};
use super::known::{self, Step};
use super::prove::{PossibleUndo, no_undo};
use super::scan::FoundBlock;
use super::unit;
use crate::error::{not_found, permanent, unreadable_blocks};

/// Blocks of which it is noted that they lie elsewhere, in some 8 MB. A node flushes once an hour in initial download,
/// and writes no more than that again after a crash.
const MOVED_MAX: usize = 100_000;

/// The files of one folder, from its opening until it is replaced.
#[derive(Debug)]
pub(super) struct Opened {
    files: Files,
    /// Positions of blocks that do not lie where they were indexed: a node that was killed has written them again.
    moved: Mutex<HashMap<BlockHash, FilePosition>>,
}

impl Opened {
    /// Opens the folder `blocks` of a node of this network. It scans no file yet.
    pub(super) fn open(blocks_dir: &Path, network: Network) -> SourceResult<Self> {
        Ok(Self { files: Files::new(Folder::open(blocks_dir, network)?), moved: Mutex::default() })
    }

    /// Returns true if other files lie in the folder now: the node was wiped, restored or downloaded again.
    pub(super) fn is_replaced(&self) -> bool {
        self.folder().is_replaced()
    }

    /// Notes where a block was found, so that its next parts are read from there and it is not proved again.
    fn note_moved(&self, hash: BlockHash, position: FilePosition) {
        let mut moved = self.moved.lock();
        if moved.len() >= MOVED_MAX {
            moved.clear();
        }
        moved.insert(hash, position);
    }

    /// Returns true if the node has deleted files. The first one may be left: blocks of a download lie out of order, so
    /// it may have a late one.
    pub(super) fn is_pruned(&self) -> bool {
        let has_gap = |numbers: &[u32]| numbers.last().is_some_and(|last| numbers.len() <= *last as usize);
        self.folder().numbers().is_ok_and(|numbers| has_gap(&numbers))
    }

    fn folder(&self) -> &Folder {
        &self.files.folder
    }

    /// Returns the tip with most work whose data and undo data exist. A block that was never connected has no undo
    /// data.
    fn best_tip(&self, blocks: &FoundBlocks) -> SourceResult<BlockHash> {
        for hash in blocks.candidates() {
            for block in blocks.copies(hash) {
                if self.files.is_complete(block)? {
                    return Ok(hash);
                }
            }
        }
        Err(permanent(format!(
            "failed to find a complete block in {}: no file has a genesis block; the folder is of a pruned node, or an \
             incomplete copy",
            self.folder().path().display()
        )))
    }

    fn missing(&self, tip: BlockHash, missing: &MissingBlock) -> birdhouse_chain::source::SourceError {
        let path = self.folder().path().display();
        if missing.found_above == 0 {
            return not_found(format!("failed to find block {tip} in {path}; is this the folder of the same node?"));
        }
        permanent(format!(
            "failed to find block {}, {} blocks below {tip}, in {path}: files are missing (a pruned node or an \
             incomplete copy); copy the whole folder, or set prune=1 in bitcoin.conf and start bitcoind -reindex once, \
             which downloads the chain again",
            missing.hash, missing.found_above
        ))
    }

    fn check_genesis(&self, first: BlockHash) -> SourceResult<()> {
        let network = self.folder().network;
        if first == genesis_block(network).block_hash() {
            return Ok(());
        }
        let other = NETWORKS.into_iter().find(|n| genesis_block(*n).block_hash() == first);
        Err(permanent(format!(
            "the block files in {} are of {}, not of the network {}; choose another --network, --node-dir or \
             --blocks-dir",
            self.folder().path().display(),
            other.map_or("an unknown network", network_flag),
            network_flag(network)
        )))
    }

    /// Returns the complete copy of a block. A block is written twice when the node stopped before it noted the first
    /// copy.
    fn copy_of<'a>(&self, copies: &'a [FoundBlock]) -> SourceResult<&'a FoundBlock> {
        if let [only] = copies {
            return Ok(only);
        }
        for block in copies {
            if self.files.is_complete(block)? {
                return Ok(block);
            }
        }
        copies.first().ok_or_else(|| permanent("failed to read a block: no copy of it was found"))
    }

    /// Finds a block, proves it, and returns what `take` makes of it. Where that fails it is asked about another copy:
    /// after a crash of the node in initial download, one may be left that has lost its undo data.
    fn locate<T>(
        &self,
        hash: BlockHash,
        take: impl Fn(FilePosition, Vec<u8>, Vec<Hash256>) -> SourceResult<T>,
    ) -> SourceResult<T> {
        let mut failure = None;
        for step in known::STEPS {
            // Every new block of the chain comes here: a file that was deleted or replaced does not stay open long.
            if step == Step::Newest {
                self.files.handles.close_deleted();
            }
            let candidates = self.files.known(|known| {
                known.look(self.folder(), step)?;
                Ok(known.positions.of(hash))
            })?;
            for position in candidates {
                // One copy of a block that was written twice may be overwritten behind its header.
                if let Some(size) = self.files.size_at(hash, position)?
                    && let Some((block, txids)) = self.files.whole(position, size)?
                {
                    match take(position, block, txids) {
                        Ok(taken) => return Ok(taken),
                        Err(error) => failure = Some(error),
                    }
                }
                self.files.handles.close(position.file);
            }
        }
        let missing = || not_found(format!("failed to find block {hash} in {}", self.folder().path().display()));
        Err(failure.unwrap_or_else(missing))
    }

    /// Returns `true` if a block file and all before it are gone.
    pub(super) fn has_removed(&self, file: u32) -> bool {
        self.folder().numbers().is_ok_and(|numbers| numbers.first().is_some_and(|first| *first > file))
    }

    /// Returns a copy of a block with its undo data.
    fn with_undo(
        &self,
        hash: BlockHash,
        position: FilePosition,
        block: Vec<u8>,
        txids: Vec<Hash256>,
    ) -> SourceResult<FetchedBlock> {
        let PossibleUndo { mut records, has_sibling } = self.files.undo_of(hash, position.file, &block)?;
        let undo = match records.len() {
            0 | 1 => records.pop(),
            // The blocks before it distinguish its undo data from a sibling's. A pruned node may lack them.
            _ => {
                let chain = self.chain(Some(hash)).map_err(|error| not_found(error.message))?;
                self.files.choose_undo(&chain, &block, records)?
            }
        };
        let undo = undo.ok_or_else(|| no_undo(self.folder(), hash, position.file))?;
        let (spent, position, txids) = (SpentBuf::Undo(undo), Some(position), Some(txids));
        Ok(FetchedBlock { block, txids, spent, position, has_sibling })
    }
}

impl BlockSource for Opened {
    fn describe(&self) -> String {
        let key = if self.folder().key.is_zero() { "plain" } else { "obfuscated" };
        format!("block files in {} ({}, {key})", self.folder().path().display(), network_flag(self.folder().network))
    }

    fn gives_undo_data(&self) -> bool {
        true
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        let blocks = FoundBlocks::new(self.files.known(|known| known.scan_all(self.folder()))?);
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
        self.files.read_blocks(chain, unit, visit)
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        self.locate(hash, |position, block, txids| self.with_undo(hash, position, block, txids))
    }

    fn close_deleted(&self) {
        self.files.handles.close_deleted();
    }

    fn first_file(&self) -> SourceResult<u32> {
        Ok(self.folder().numbers()?.first().copied().unwrap_or(0))
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        match self.files.part(position, offset, len) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            part => part.map_err(|e| unreadable_blocks(&self.folder().blk_path(position.file), &e)),
        }
    }

    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>> {
        let position = self.moved.lock().get(&hash).copied().or(position);
        let at_hint = match position {
            Some(position) => self.files.size_at(hash, position)?.map(|size| (position, size)),
            None => None,
        };
        let beyond = |size| permanent(format!("failed to read {len} bytes at {offset} of block {hash}: it has {size}"));
        let Some((position, size)) = at_hint else {
            if position.is_some_and(|position| self.has_removed(position.file)) {
                return Err(not_found(format!("the node has removed block {hash}")));
            }
            let end = (offset as usize).saturating_add(len as usize);
            let part = |position, block: Vec<u8>, _| {
                let part = block.get(offset as usize..end).map(|part| (position, part.to_vec()));
                part.ok_or_else(|| beyond(block.len()))
            };
            let (position, part) = self.locate(hash, part)?;
            self.note_moved(hash, position);
            return Ok(part);
        };
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(beyond(size as usize));
        }
        let path = || self.folder().blk_path(position.file);
        let part = self.files.part(position, offset, len).map_err(|e| unreadable_blocks(&path(), &e))?;
        part.ok_or_else(|| permanent(format!("{} ends inside block {hash}", path().display())))
    }
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
