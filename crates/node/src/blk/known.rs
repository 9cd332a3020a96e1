//! What was walked over so far: how far in each file, and where blocks lie.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use birdhouse_chain::source::{FilePosition, SourceResult};
use bitcoin::BlockHash;

use crate::error::unreadable;
use crate::record::Zeros;

use super::BlockFiles;
use super::folder::Folder;
use super::positions::Positions;
use super::scan::{FoundBlock, scan_blocks};

/// Threads that walk over files. The walk waits for the disk more than it computes.
const SCAN_THREADS: usize = 8;
/// Bytes read ahead by the walk: it needs only heads, but small blocks lie close together.
const SCAN_AHEAD_BYTES: usize = 4096;
/// The files that are looked at first for an unknown block.
const NEWEST_FILES: usize = 4;

/// How far to look for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Where it is known to lie.
    Known,
    /// What was added to the newest files.
    Newest,
    /// All files.
    All,
    /// The newest files from their beginning: a node that was killed may write over blocks it had not noted yet.
    Rewritten,
}

/// In the order in which a block is looked for.
pub(crate) const STEPS: [Step; 4] = [Step::Known, Step::Newest, Step::All, Step::Rewritten];

/// How far each file was walked over, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// File number to where its walk goes on.
    resume: BTreeMap<u32, u64>,
    pub(crate) positions: Positions,
    /// Blocks that several blocks follow, once all files were walked over.
    pub(crate) forks: Option<Arc<BTreeSet<BlockHash>>>,
    /// File number to where the last undo data found there ended.
    pub(crate) undo_hints: BTreeMap<u32, u64>,
}

impl Known {
    /// Looks further for blocks.
    pub(crate) fn look(&mut self, folder: &Folder, step: Step) -> SourceResult<()> {
        let mut numbers = match step {
            Step::Known => return Ok(()),
            Step::Newest | Step::All | Step::Rewritten => folder.numbers()?,
        };
        if step != Step::All {
            numbers.drain(..numbers.len().saturating_sub(NEWEST_FILES));
        }
        if step == Step::Rewritten {
            self.resume.retain(|number, _| !numbers.contains(number));
        }
        self.scan(folder, &numbers, Zeros::End).map(drop)
    }

    /// Walks over every file from its beginning.
    pub(crate) fn scan_all(&mut self, folder: &Folder) -> SourceResult<Vec<FoundBlock>> {
        let numbers = folder.numbers()?;
        if numbers.first() != Some(&0) {
            return Err(folder.pruned());
        }
        *self = Self::default();
        let blocks = self.scan(folder, &numbers, Zeros::Skip)?;
        self.forks = Some(Arc::new(forks_among(&blocks)));
        Ok(blocks)
    }

    /// Walks over files in parallel, each from where its last walk ended.
    fn scan(&mut self, folder: &Folder, numbers: &[u32], zeros: Zeros) -> SourceResult<Vec<FoundBlock>> {
        let jobs: Vec<(u32, u64)> = numbers.iter().map(|n| (*n, self.resume.get(n).copied().unwrap_or(0))).collect();
        let (next, found) = (AtomicUsize::new(0), Mutex::new((Vec::new(), Vec::new())));
        let work = || -> SourceResult<()> {
            while let Some(&(number, from)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut blocks = Vec::new();
                let resume = scan_file(folder, number, from, zeros, &mut blocks);
                let resume = resume.map_err(|e| unreadable(&folder.blk_path(number), &e))?;
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.0.append(&mut blocks);
                found.1.push((number, resume));
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (1..jobs.len().min(SCAN_THREADS)).map(|_| scope.spawn(work)).collect();
            let own = work();
            threads.into_iter().map(|t| t.join().expect("the walk does not panic")).fold(own, Result::and)
        })?;
        let (blocks, resumes) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.resume.extend(resumes);
        self.positions
            .extend(blocks.iter().map(|b: &FoundBlock| (b.head.hash, FilePosition { file: b.file, offset: b.offset })));
        Ok(blocks)
    }
}

impl BlockFiles {
    /// Works with what is known, alone.
    pub(super) fn known<T>(&self, work: impl FnOnce(&mut Known) -> SourceResult<T>) -> SourceResult<T> {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The blocks that several others name as the one before them.
fn forks_among(blocks: &[FoundBlock]) -> BTreeSet<BlockHash> {
    let mut edges: Vec<_> = blocks.iter().map(|block| (block.head.previous(), block.head.hash)).collect();
    edges.sort_unstable();
    edges.dedup();
    edges.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0).collect()
}

fn scan_file(folder: &Folder, number: u32, from: u64, zeros: Zeros, blocks: &mut Vec<FoundBlock>) -> io::Result<u64> {
    let mut records = folder.blk_records(number, SCAN_AHEAD_BYTES, zeros, from)?;
    scan_blocks(&mut records, number, &mut |block| blocks.push(block))
}
