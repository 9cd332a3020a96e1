//! Units of work: the blocks of one file, read in order of height together with their undo data.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;

use birdhouse_chain::Height;
use birdhouse_chain::source::{BlockMeta, FilePosition, SourceError, SourceResult, SpentBytes, Unit, Visit};
use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use crate::error::{permanent, unreadable_blocks};
use crate::record::Window;

use super::files::Files;
use super::prove::{keep_own, no_undo};
use super::scan::{HEADER_BYTES, previous_hash};
use super::undo_pairs::{BATCH_BLOCKS, GENESIS_UNDO, UndoBatch, UndoPairs, Wanted};

/// Bytes of blocks read at a time, where blocks are smaller.
const BLOCKS_AHEAD_BYTES: usize = 128 * 1024;
/// Bytes of undo data read at a time.
const UNDO_AHEAD_BYTES: usize = 128 * 1024;
/// Number of files below which files are split, so that all threads have work.
const FILES_SPLIT_BELOW: usize = 16;
/// Approximate bytes of blocks in a part of a split file.
const PART_BYTES: u64 = 16 * 1024 * 1024;

/// Returns one unit per file; the few files of a short chain are split.
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

/// Returns the heights that lie in the chain.
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

impl Files {
    /// Reads the blocks of a unit. Verifies each block by its header and its undo data by checksum; the undo data of a
    /// block with siblings also by content.
    pub(super) fn read_blocks(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        let mut blocks: Vec<UnitBlock<'_>> =
            unit.heights.iter().map(|height| UnitBlock::new(chain, *height)).collect::<SourceResult<_>>()?;
        for in_one_file in blocks.chunk_by_mut(|a, b| a.at.file == b.at.file) {
            let number = in_one_file.first().map_or(0, |block| block.at.file);
            self.known(|known| {
                known.look_into(&self.folder, number)?;
                for block in &mut *in_one_file {
                    block.has_siblings = known.is_fork(block.meta.hash, block.wanted().previous, number);
                }
                Ok(())
            })?;
            OpenFiles::open(self, chain, number)?.read(in_one_file, visit)?;
        }
        Ok(())
    }
}

/// A block to read.
struct UnitBlock<'a> {
    height: Height,
    meta: &'a BlockMeta,
    at: FilePosition,
    /// Set when siblings lie in the same file: the undo file may then hold their undo data too.
    has_siblings: bool,
}

impl<'a> UnitBlock<'a> {
    fn new(chain: &'a [BlockMeta], height: Height) -> SourceResult<Self> {
        let meta = chain.get(height.0 as usize);
        let meta = meta.ok_or_else(|| permanent(format!("failed to read height {height}: it is not in the chain")))?;
        let at = meta
            .position
            .ok_or_else(|| permanent(format!("failed to read block {}: it has no file position", meta.hash)))?;
        Ok(Self { height, meta, at, has_siblings: false })
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
    files: &'a Files,
    chain: &'a [BlockMeta],
    number: u32,
    blocks: Window<File>,
    undo: Option<UndoPairs<File>>,
}

impl<'a> OpenFiles<'a> {
    fn open(files: &'a Files, chain: &'a [BlockMeta], number: u32) -> SourceResult<Self> {
        let path = files.folder.blk_path(number);
        let file = File::open(&path).map_err(|e| unreadable_blocks(&path, &e))?;
        let records = files.folder.rev_records(number, UNDO_AHEAD_BYTES)?;
        Ok(Self {
            files,
            chain,
            number,
            blocks: Window::new(file, files.folder.key, BLOCKS_AHEAD_BYTES),
            undo: records.map(|records| UndoPairs::new(records, 0)),
        })
    }

    /// Reads blocks in order. Undo data is read in batches; one by one where it is out of order or must be
    /// distinguished from that of siblings.
    fn read(mut self, mut blocks: &[UnitBlock<'_>], visit: &mut Visit<'_>) -> SourceResult<()> {
        let mut batch = UndoBatch::default();
        while let Some((first, rest)) = blocks.split_first() {
            if first.is_genesis() {
                visit(first.height, self.body(first)?, SpentBytes::Undo(&GENESIS_UNDO))?;
                blocks = rest;
                continue;
            }
            let alone = blocks.iter().take_while(|block| !block.has_siblings);
            let wanted: Vec<Wanted> = alone.take(BATCH_BLOCKS).map(UnitBlock::wanted).collect();
            self.undo(first, |pairs| pairs.find_in_order(&wanted, &mut batch))?;
            for (block, undo) in blocks.iter().zip(batch.proved()) {
                visit(block.height, self.body(block)?, SpentBytes::Undo(undo))?;
            }
            blocks = &blocks[batch.proved().len()..];
            if batch.proved().len() == 0 {
                let undo = self.single_undo(first)?;
                visit(first.height, self.body(first)?, SpentBytes::Undo(&undo))?;
                blocks = rest;
            }
        }
        Ok(())
    }

    fn single_undo(&mut self, block: &UnitBlock<'_>) -> SourceResult<Vec<u8>> {
        let undo = if block.has_siblings {
            let all = self.undo(block, |pairs| pairs.find_all(block.wanted()))?;
            let (files, chain) = (self.files, self.chain);
            let bytes = self.body(block)?;
            files.choose_undo(chain, bytes, keep_own(bytes, all))?
        } else {
            self.undo(block, |pairs| Ok(pairs.find(block.wanted())?.map(<[u8]>::to_vec)))?
        };
        undo.ok_or_else(|| self.no_undo(block))
    }

    /// Searches the undo file, which must exist, for a block's undo data.
    fn undo<T>(
        &mut self,
        block: &UnitBlock<'_>,
        look: impl FnOnce(&mut UndoPairs<File>) -> io::Result<T>,
    ) -> SourceResult<T> {
        match &mut self.undo {
            Some(pairs) => look(pairs).map_err(|e| unreadable_blocks(&self.files.folder.rev_path(self.number), &e)),
            None => Err(self.no_undo(block)),
        }
    }

    fn no_undo(&self, block: &UnitBlock<'_>) -> SourceError {
        no_undo(&self.files.folder, block.meta.hash, self.number)
    }

    /// Returns the bytes of a block's record, which begin with its header.
    fn body(&mut self, block: &UnitBlock<'_>) -> SourceResult<&[u8]> {
        let path = || self.files.folder.blk_path(self.number);
        let size = block.meta.bytes as usize;
        let bytes = self.blocks.slice(u64::from(block.at.offset), size).map_err(|e| unreadable_blocks(&path(), &e))?;
        if bytes.len() == size && bytes.first_chunk::<HEADER_BYTES>() == Some(&block.meta.header) {
            return Ok(bytes);
        }
        Err(permanent(format!(
            "failed to read {}: it no longer holds block {}; was the node reindexed? Start again",
            path().display(),
            block.meta.hash
        )))
    }
}
