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
use super::undo_pairs::{BATCH_BLOCKS, GENESIS_UNDO, UndoBatch, UndoPairs, Wanted};

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
    for height in inside(chain, heights) {
        let file = chain[height.0 as usize].position.map(|at| at.file);
        files.entry(file).or_default().push(height);
    }
    let part_bytes = if files.len() < FILES_SPLIT_BELOW { PART_BYTES } else { u64::MAX };
    let mut units: Vec<Unit> = files.into_values().flat_map(|all| parts(chain, all, part_bytes)).collect();
    units.sort_by_key(|unit| unit.heights.first().copied());
    units
}

/// Those of the heights that the chain has.
pub(crate) fn inside(chain: &[BlockMeta], heights: Range<Height>) -> impl Iterator<Item = Height> {
    let end = u32::try_from(chain.len()).unwrap_or(u32::MAX);
    (heights.start.0..heights.end.0.min(end)).map(Height)
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
    let blocks: Vec<UnitBlock<'_>> =
        unit.heights.iter().map(|height| UnitBlock::new(chain, *height)).collect::<SourceResult<_>>()?;
    for in_one_file in blocks.chunk_by(|a, b| a.at.file == b.at.file) {
        let number = in_one_file.first().map_or(0, |block| block.at.file);
        OpenFiles::open(folder, number)?.read(in_one_file, forks, visit)?;
    }
    Ok(())
}

/// A block to read.
struct UnitBlock<'a> {
    height: Height,
    meta: &'a BlockMeta,
    at: FilePosition,
}

impl<'a> UnitBlock<'a> {
    fn new(chain: &'a [BlockMeta], height: Height) -> SourceResult<Self> {
        let meta = chain.get(height.0 as usize);
        let meta = meta.ok_or_else(|| permanent(format!("height {height} is not in the chain")))?;
        let at = meta.position.ok_or_else(|| permanent(format!("block {} has no file position", meta.hash)))?;
        Ok(Self { height, meta, at })
    }

    fn wanted(&self) -> Wanted {
        Wanted { previous: previous_hash(&self.meta.header), tx_count: self.meta.tx_count }
    }

    fn is_genesis(&self) -> bool {
        self.wanted().previous == BlockHash::all_zeros()
    }
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

    /// Reads blocks in order; undo data comes in batches, or one by one where the order does not hold.
    /// So does that of a block after a fork, whose siblings' data has to be told apart by its contents.
    fn read(
        mut self,
        mut blocks: &[UnitBlock<'_>],
        forks: Option<&BTreeSet<BlockHash>>,
        visit: &mut Visit<'_>,
    ) -> SourceResult<()> {
        let is_alone = |block: &&UnitBlock<'_>| forks.is_some_and(|forks| !forks.contains(&block.wanted().previous));
        let mut batch = UndoBatch::default();
        while let Some((first, rest)) = blocks.split_first() {
            if first.is_genesis() {
                visit(first.height, body(self.folder, &mut self.blocks, first)?, SpentBytes::Undo(&GENESIS_UNDO))?;
                blocks = rest;
                continue;
            }
            let missing = || no_undo(self.folder, first.meta.hash, self.number);
            let failed = |e| unreadable(&self.folder.rev_path(self.number), &e);
            let pairs = self.undo.as_mut().ok_or_else(missing)?;
            let wanted: Vec<Wanted> =
                blocks.iter().take_while(is_alone).take(BATCH_BLOCKS).map(UnitBlock::wanted).collect();
            pairs.find_in_order(&wanted, &mut batch).map_err(failed)?;
            for (block, undo) in blocks.iter().zip(batch.proved()) {
                visit(block.height, body(self.folder, &mut self.blocks, block)?, SpentBytes::Undo(undo))?;
            }
            blocks = &blocks[batch.proved().len()..];
            if batch.proved().len() == 0 {
                let block = body(self.folder, &mut self.blocks, first)?;
                let alone = is_alone(&first);
                let found = pairs.find(first.wanted(), |undo| alone || fits(undo, block));
                let undo = found.map_err(failed)?.ok_or_else(missing)?;
                visit(first.height, block, SpentBytes::Undo(undo))?;
                blocks = rest;
            }
        }
        Ok(())
    }
}

/// The bytes of a block's record, which begin with its header.
fn body<'a>(folder: &Folder, file: &'a mut Window<File>, block: &UnitBlock<'_>) -> SourceResult<&'a [u8]> {
    let path = || folder.blk_path(block.at.file);
    let size = block.meta.bytes as usize;
    let bytes = file.slice(u64::from(block.at.offset), size).map_err(|e| unreadable(&path(), &e))?;
    if bytes.len() == size && bytes.first_chunk::<HEADER_BYTES>() == Some(&block.meta.header) {
        return Ok(bytes);
    }
    Err(permanent(format!(
        "{} no longer holds block {}: was the node reindexed? Start again",
        path().display(),
        block.meta.hash
    )))
}
