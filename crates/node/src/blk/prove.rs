//! Reading of single blocks with their undo data, and the check that a block is complete.

use std::io;

use birdhouse_chain::source::{BlockMeta, FilePosition, SourceError, SourceResult};
use birdhouse_chain::{Hash256, UndoOwner, proved_txids};
use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use crate::error::{permanent, transient, unreadable_blocks};

use super::files::Files;
use super::folder::Folder;
use super::scan::{BlockHead, FoundBlock};
use super::undo_pairs::{GENESIS_UNDO, UndoPairs, Wanted};

/// Bytes read ahead in an undo file in the search for one block's data.
const UNDO_AHEAD_BYTES: usize = 4096;

/// Undo data that can belong to a block, by its checksum and its shape.
#[derive(Debug, Default)]
pub(super) struct PossibleUndo {
    /// Several only when a sibling has the same shape.
    pub(super) records: Vec<Vec<u8>>,
    /// True when the block file has another block on the same one: its undo data lies in the same undo file, and passes
    /// where the block's own is lost.
    pub(super) has_sibling: bool,
}

impl Files {
    /// Returns the possible undo data of a block, which lies in the block file of this number.
    pub(super) fn undo_of(&self, hash: BlockHash, file: u32, block: &[u8]) -> SourceResult<PossibleUndo> {
        let head = BlockHead::parse(block).filter(|head| head.hash == hash);
        let head =
            head.ok_or_else(|| permanent(format!("failed to read block {hash}: its head in the file is invalid")))?;
        self.possible_undo(&head, file, block)
    }

    /// Returns `true` when a block's transactions hash to its merkle root and possible undo data exists.
    pub(super) fn is_complete(&self, found: &FoundBlock) -> SourceResult<bool> {
        let bytes = self.body(found.position(), found.size)?;
        if self.possible_undo(&found.head, found.file, &bytes)?.records.is_empty() {
            return Ok(false);
        }
        Ok(proved_txids(&bytes).is_some())
    }

    /// Returns the block at `position` with its txids, if these hash to its merkle root.
    pub(super) fn whole(&self, position: FilePosition, size: u32) -> SourceResult<Option<(Vec<u8>, Vec<Hash256>)>> {
        let bytes = self.body(position, size)?;
        Ok(proved_txids(&bytes).map(|txids| (bytes, txids)))
    }

    /// Returns a block's possible undo data.
    fn possible_undo(&self, head: &BlockHead, file: u32, block: &[u8]) -> SourceResult<PossibleUndo> {
        if head.previous() == BlockHash::all_zeros() {
            return Ok(PossibleUndo { records: vec![GENESIS_UNDO.to_vec()], has_sibling: false });
        }
        let Some(records) = self.folder.rev_records(file, UNDO_AHEAD_BYTES)? else {
            return Ok(PossibleUndo::default());
        };
        let failed = |e| unreadable_blocks(&self.folder.rev_path(file), &e);
        let hint = self.known(|known| Ok(known.undo_hints.get(&file).copied().unwrap_or(0)))?;
        let mut pairs = UndoPairs::new(records, hint);
        let wanted = Wanted { previous: head.previous(), tx_count: head.tx_count };
        let Some(undo) = pairs.find(wanted).map_err(failed)?.map(<[u8]>::to_vec) else {
            return Ok(PossibleUndo::default());
        };
        // A sibling whose undo data is in the undo file is in the block file by now.
        let looked = self.known(|known| {
            known.look_into(&self.folder, file)?;
            // A file that was overwritten has no hint.
            let is_place_right = hint == 0 || known.undo_hints.contains_key(&file);
            if is_place_right {
                known.undo_hints.insert(file, pairs.hint());
            }
            Ok(is_place_right.then(|| known.is_fork(head.hash, wanted.previous, file)))
        })?;
        let Some(has_sibling) = looked else { return self.possible_undo(head, file, block) };
        let records = if has_sibling {
            pairs.find_all(wanted).map(|all| keep_own(block, all)).map_err(failed)?
        } else {
            vec![undo]
        };
        Ok(PossibleUndo { records, has_sibling })
    }

    /// Chooses a block's own undo data among the possible ones, by the blocks of its chain.
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

/// Keeps the undo data that can belong to the block; none when `block` is malformed.
pub(super) fn keep_own(block: &[u8], mut undo: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let owner = UndoOwner::of(block);
    undo.retain(|undo| owner.as_ref().is_ok_and(|owner| owner.can_own(undo)));
    undo
}

/// Returns the error of missing undo data: transient when the block is in the newest file, "not found" when the node
/// has deleted the block too, else permanent.
pub(super) fn no_undo(folder: &Folder, hash: BlockHash, file: u32) -> SourceError {
    if !folder.blk_path(file).exists() {
        return unreadable_blocks(&folder.blk_path(file), &io::ErrorKind::NotFound.into());
    }
    let path = folder.rev_path(file);
    let path = path.display();
    let newest = folder.numbers().is_ok_and(|numbers| numbers.last() == Some(&file));
    if newest {
        return transient(format!(
            "failed to find undo data of block {hash} in {path}: the node is still connecting the block, or reindexing"
        ));
    }
    permanent(format!(
        "failed to find undo data of block {hash} in {path}; wait if the node is reindexing or loading a snapshot. \
         Otherwise the file is damaged or missing, and bitcoind -reindex writes it again"
    ))
}
