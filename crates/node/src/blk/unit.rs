//! Units: the blocks of one file, read in order of height with their undo data beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;

use birdhouse_chain::Height;
use birdhouse_chain::source::{BlockMeta, FilePosition, SourceResult, SpentBytes, Unit, Visit};
use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use crate::error::{permanent, unreadable};
use crate::record::Window;

use super::folder::Folder;
use super::prove::no_undo;
use super::scan::{HEADER_BYTES, previous_hash};
use super::undo_fit::fits;
use super::undo_pairs::{GENESIS_UNDO, UndoPairs};

/// Bytes read at a time where blocks are smaller.
const BLOCKS_AHEAD_BYTES: usize = 128 * 1024;
/// Bytes of undo data read at a time.
const UNDO_AHEAD_BYTES: usize = 128 * 1024;
/// With fewer files than this, files are split so that several threads find work.
const FILES_SPLIT_BELOW: usize = 16;
/// Bytes of blocks in a part of a split file, about.
const PART_BYTES: u64 = 16 * 1024 * 1024;

/// One unit per file; the few files of a short chain are split.
pub(super) fn split(chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
    let mut files: BTreeMap<Option<u32>, Vec<Height>> = BTreeMap::new();
    for height in heights.start.0..heights.end.0 {
        if let Some(meta) = chain.get(height as usize) {
            files.entry(meta.position.map(|at| at.file)).or_default().push(Height(height));
        }
    }
    let part_bytes = if files.len() < FILES_SPLIT_BELOW { PART_BYTES } else { u64::MAX };
    let mut units: Vec<Unit> =
        files.into_values().flat_map(|all| parts(chain, all, part_bytes)).collect();
    units.sort_by_key(|unit| unit.heights.first().copied());
    units
}

fn parts(chain: &[BlockMeta], heights: Vec<Height>, part_bytes: u64) -> Vec<Unit> {
    let mut units = Vec::new();
    let (mut part, mut bytes) = (Vec::new(), 0);
    for height in heights {
        part.push(height);
        bytes += chain.get(height.0 as usize).map_or(0, |meta| u64::from(meta.bytes));
        if bytes >= part_bytes {
            units.push(Unit { heights: std::mem::take(&mut part) });
            bytes = 0;
        }
    }
    if !part.is_empty() {
        units.push(Unit { heights: part });
    }
    units
}

/// Reads a unit's blocks, each proved by its header, with undo data proved by its checksum; of a block with siblings
/// (those after one of `forks`; any, where these are not known) by its contents too.
pub(super) fn read(
    folder: &Folder,
    chain: &[BlockMeta],
    unit: &Unit,
    forks: Option<&BTreeSet<BlockHash>>,
    visit: &mut Visit<'_>,
) -> SourceResult<()> {
    let mut open: Option<OpenFiles<'_>> = None;
    for &height in &unit.heights {
        let meta = chain.get(height.0 as usize);
        let meta = meta.ok_or_else(|| permanent(format!("height {height} is not in the chain")))?;
        let at = meta
            .position
            .ok_or_else(|| permanent(format!("block {} has no file position", meta.hash)))?;
        let files = match open.take().filter(|files| files.number == at.file) {
            Some(files) => open.insert(files),
            None => open.insert(OpenFiles::open(folder, at.file)?),
        };
        files.read(height, meta, at, forks, visit)?;
    }
    Ok(())
}

/// A block file and its undo file.
struct OpenFiles<'a> {
    folder: &'a Folder,
    number: u32,
    blocks: Window<File>,
    undo: Option<UndoPairs<File>>,
}

impl<'a> OpenFiles<'a> {
    fn open(folder: &'a Folder, number: u32) -> SourceResult<Self> {
        let path = folder.blk_path(number);
        let file = File::open(&path).map_err(|e| unreadable(&path, &e))?;
        let records = folder.rev_records(number, UNDO_AHEAD_BYTES)?;
        Ok(Self {
            folder,
            number,
            blocks: Window::new(file, folder.key, BLOCKS_AHEAD_BYTES),
            undo: records.map(|records| UndoPairs::new(records, 0)),
        })
    }

    fn read(
        &mut self,
        height: Height,
        meta: &BlockMeta,
        at: FilePosition,
        forks: Option<&BTreeSet<BlockHash>>,
        visit: &mut Visit<'_>,
    ) -> SourceResult<()> {
        let block = self.blocks.slice(u64::from(at.offset), meta.bytes as usize);
        let block = block.map_err(|e| unreadable(&self.folder.blk_path(self.number), &e))?;
        if block.len() != meta.bytes as usize
            || block.first_chunk::<HEADER_BYTES>() != Some(&meta.header)
        {
            return Err(permanent(format!(
                "{} no longer holds block {}: was the node reindexed? Start again",
                self.folder.blk_path(self.number).display(),
                meta.hash
            )));
        }
        let previous = previous_hash(&meta.header);
        if previous == BlockHash::all_zeros() {
            return visit(height, block, SpentBytes::Undo(&GENESIS_UNDO));
        }
        let undo = match &mut self.undo {
            Some(pairs) => {
                let has_no_sibling = forks.is_some_and(|forks| !forks.contains(&previous));
                pairs.find(previous, meta.tx_count, |undo| has_no_sibling || fits(undo, block))
            }
            None => Ok(None),
        };
        match undo.map_err(|e| unreadable(&self.folder.rev_path(self.number), &e))? {
            Some(undo) => visit(height, block, SpentBytes::Undo(undo)),
            None => Err(no_undo(self.folder, meta.hash, self.number)),
        }
    }
}
