//! Single blocks: fetched with their undo data, and proved complete.

use birdhouse_chain::UndoOwner;
use birdhouse_chain::source::{
    BlockMeta, BlockSource as _, FetchedBlock, FilePosition, SourceError, SourceResult, SpentBuf,
};
use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash;
use bitcoin::{Block, BlockHash};

use crate::error::{permanent, transient, unreadable};

use super::BlockFiles;
use super::folder::Folder;
use super::scan::{BlockHead, FoundBlock};
use super::undo_pairs::{GENESIS_UNDO, UndoPairs, Wanted};

/// Bytes read ahead in an undo file when one block's data is looked for.
const UNDO_AHEAD_BYTES: usize = 4096;

impl BlockFiles {
    /// The block that lies at `position`, with its undo data.
    pub(super) fn fetch(&self, hash: BlockHash, position: FilePosition, size: u32) -> SourceResult<FetchedBlock> {
        let block = self.body(position, size)?;
        let head = BlockHead::parse(&block).filter(|head| head.hash == hash);
        let head = head.ok_or_else(|| permanent(format!("block {hash} has no valid head in its file")))?;
        let undo = self.undo(&head, position.file, &block)?;
        let undo = undo.ok_or_else(|| no_undo(&self.folder, hash, position.file))?;
        Ok(FetchedBlock { block, spent: SpentBuf::Undo(undo), position: Some(position) })
    }

    /// Whether a block's transactions are those its header names, and undo data is there that can be its own.
    pub(super) fn is_complete(&self, found: &FoundBlock) -> SourceResult<bool> {
        let bytes = self.body(found.position(), found.size)?;
        if self.possible_undo(&found.head, found.file, &bytes)?.is_empty() {
            return Ok(false);
        }
        Ok(deserialize::<Block>(&bytes).is_ok_and(|block| block.check_merkle_root()))
    }

    /// Whether a block's transactions are those its header names.
    pub(super) fn is_whole(&self, position: FilePosition, size: u32) -> SourceResult<bool> {
        let bytes = self.body(position, size)?;
        Ok(deserialize::<Block>(&bytes).is_ok_and(|block| block.check_merkle_root()))
    }

    pub(super) fn body(&self, position: FilePosition, size: u32) -> SourceResult<Vec<u8>> {
        let path = self.folder.blk_path(position.file);
        let mut block = vec![0; size as usize];
        let n = self.read_at(position.file, u64::from(position.offset), &mut block);
        if n.map_err(|e| unreadable(&path, &e))? < block.len() {
            return Err(transient(format!("{} ends inside a block: the node is still writing it", path.display())));
        }
        Ok(block)
    }

    fn undo(&self, head: &BlockHead, file: u32, block: &[u8]) -> SourceResult<Option<Vec<u8>>> {
        let mut possible = self.possible_undo(head, file, block)?;
        if possible.len() < 2 {
            return Ok(possible.pop());
        }
        self.choose_undo(&self.chain(Some(head.hash))?, block, possible)
    }

    /// Undo data that can be a block's own: more than one only where a sibling is its like.
    fn possible_undo(&self, head: &BlockHead, file: u32, block: &[u8]) -> SourceResult<Vec<Vec<u8>>> {
        if head.previous() == BlockHash::all_zeros() {
            return Ok(vec![GENESIS_UNDO.to_vec()]);
        }
        let Some(records) = self.folder.rev_records(file, UNDO_AHEAD_BYTES)? else {
            return Ok(Vec::new());
        };
        let failed = |e| unreadable(&self.folder.rev_path(file), &e);
        let hint = self.known(|known| Ok(known.undo_hints.get(&file).copied().unwrap_or(0)))?;
        let mut pairs = UndoPairs::new(records, hint);
        let wanted = Wanted { previous: head.previous(), tx_count: head.tx_count };
        let Some(undo) = pairs.find(wanted).map_err(failed)?.map(<[u8]>::to_vec) else {
            return Ok(Vec::new());
        };
        // A sibling whose undo data could be found lies in the block file by now.
        let is_fork = self.known(|known| {
            known.undo_hints.insert(file, pairs.hint());
            known.look_into(&self.folder, file)?;
            Ok(known.is_fork(wanted.previous, file))
        })?;
        if is_fork { pairs.find_all(wanted).map(|all| those_of(block, all)).map_err(failed) } else { Ok(vec![undo]) }
    }

    /// Of undo data that can be a block's own, the one that is, by the blocks of the chain it is in.
    pub(super) fn choose_undo(
        &self,
        chain: &[BlockMeta],
        block: &[u8],
        possible: Vec<Vec<u8>>,
    ) -> SourceResult<Option<Vec<u8>>> {
        let Ok(owner) = UndoOwner::of(block) else { return Ok(None) };
        owner.choose(possible, |height| {
            let Some(meta) = chain.get(height.0 as usize) else { return Ok(None) };
            meta.position.map(|position| self.body(position, meta.bytes)).transpose()
        })
    }
}

/// The undo data that can be the block's. None is that of bytes that are no block.
pub(super) fn those_of(block: &[u8], mut undo: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let owner = UndoOwner::of(block);
    undo.retain(|undo| owner.as_ref().is_ok_and(|owner| owner.can_own(undo)));
    undo
}

/// Undo data is missing: soon there when the block is in the last file, else never.
pub(super) fn no_undo(folder: &Folder, hash: BlockHash, file: u32) -> SourceError {
    let path = folder.rev_path(file);
    let path = path.display();
    let newest = folder.numbers().is_ok_and(|numbers| numbers.last() == Some(&file));
    if newest {
        return transient(format!(
            "{path} holds no undo data of block {hash} yet: the node is still connecting it, or reindexing"
        ));
    }
    permanent(format!(
        "{path} holds no undo data of block {hash}: wait if the node is reindexing or loading a snapshot; otherwise the \
         file is damaged or missing, and bitcoind -reindex writes it again"
    ))
}
