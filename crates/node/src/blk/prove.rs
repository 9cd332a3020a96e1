//! Single blocks: fetched with their undo data, and proved complete.

use birdhouse_chain::source::{FetchedBlock, FilePosition, SourceError, SourceResult, SpentBuf};
use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash;
use bitcoin::{Block, BlockHash};

use crate::error::{permanent, transient, unreadable};

use super::BlockFiles;
use super::folder::Folder;
use super::scan::{BlockHead, FoundBlock};
use super::undo_fit::fits;
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

    /// Whether a block's transactions are those its header names, and its undo data is there.
    pub(super) fn is_complete(&self, found: &FoundBlock) -> SourceResult<bool> {
        let bytes = self.body(FilePosition { file: found.file, offset: found.offset }, found.size)?;
        if self.undo(&found.head, found.file, &bytes)?.is_none() {
            return Ok(false);
        }
        Ok(deserialize::<Block>(&bytes).is_ok_and(|block| block.check_merkle_root()))
    }

    /// Whether a block's transactions are those its header names.
    pub(super) fn is_whole(&self, position: FilePosition, size: u32) -> SourceResult<bool> {
        let bytes = self.body(position, size)?;
        Ok(deserialize::<Block>(&bytes).is_ok_and(|block| block.check_merkle_root()))
    }

    fn body(&self, position: FilePosition, size: u32) -> SourceResult<Vec<u8>> {
        let path = self.folder.blk_path(position.file);
        let mut block = vec![0; size as usize];
        let n = self.read_at(position.file, u64::from(position.offset), &mut block);
        if n.map_err(|e| unreadable(&path, &e))? < block.len() {
            return Err(transient(format!("{} ends inside a block: the node is still writing it", path.display())));
        }
        Ok(block)
    }

    fn undo(&self, head: &BlockHead, file: u32, block: &[u8]) -> SourceResult<Option<Vec<u8>>> {
        if head.previous() == BlockHash::all_zeros() {
            return Ok(Some(GENESIS_UNDO.to_vec()));
        }
        let Some(records) = self.folder.rev_records(file, UNDO_AHEAD_BYTES)? else {
            return Ok(None);
        };
        let hint = self.known(|known| Ok(known.undo_hints.get(&file).copied().unwrap_or(0)))?;
        let mut pairs = UndoPairs::new(records, hint);
        let wanted = Wanted { previous: head.previous(), tx_count: head.tx_count };
        let found = pairs.find(wanted, |undo| fits(undo, block));
        let undo = found.map_err(|e| unreadable(&self.folder.rev_path(file), &e))?.map(<[u8]>::to_vec);
        if undo.is_some() {
            self.known(|known| Ok(known.undo_hints.insert(file, pairs.hint())))?;
        }
        Ok(undo)
    }
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
