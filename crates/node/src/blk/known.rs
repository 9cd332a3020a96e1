//! Progress and results of the scans: the scanned length of each file, and the positions of blocks.
//!
//! A node that was killed overwrites blocks that it had not noted: the last ones, or all of them in initial download,
//! where it begins again with the first file. A file that was written to, and has nothing new behind its scanned part,
//! may be such a one. One whose scanned part ends with another block is such a one, and is scanned from its beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use birdhouse_chain::source::SourceResult;
use bitcoin::BlockHash;
use parking_lot::Mutex;

use crate::error::unreadable_blocks;
use crate::record::{ReadAt as _, Zeros};

use super::folder::{FileIdentity, Folder};
use super::positions::Positions;
use super::scan::{FoundBlock, HEADER_BYTES, header_hash, scan_blocks};

/// Number of threads that scan files. A scan waits for the disk more than it computes.
const SCAN_THREADS: usize = 8;
/// Bytes that a scan reads ahead: it needs only heads, but small blocks lie close together.
const SCAN_AHEAD_BYTES: usize = 4096;
/// Number of newest files that are scanned first for an unknown block.
const NEWEST_FILES: usize = 4;

/// Age from which the time of a file's last change tells whether it has changed since: file systems round it.
const SETTLED_AGE: Duration = Duration::from_secs(1);

/// The extent of a search for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Known positions alone.
    Known,
    /// The new parts of the newest files.
    Newest,
    /// The new parts of all files.
    All,
    /// Files that may have been overwritten, the newest among them, from their beginning.
    Rewritten,
}

/// The order of a search.
pub(crate) const STEPS: [Step; 4] = [Step::Known, Step::Newest, Step::All, Step::Rewritten];

/// The last scan of a file.
#[derive(Debug, Clone, Copy)]
struct Scanned {
    file: FileIdentity,
    /// Offset at which it began: that at which the scan before has ended, unless the file is another one or was
    /// overwritten.
    from: u64,
    /// Offset at which the next scan resumes, if it is the same file.
    resume: u64,
    /// The last block before that offset.
    last: Option<LastBlock>,
    /// Time of its last change before the scan; `None` if that cannot tell later changes.
    changed: Option<SystemTime>,
}

/// The last block of the scanned part of a file.
#[derive(Debug, Clone, Copy)]
struct LastBlock {
    offset: u32,
    hash: BlockHash,
}

/// Scanned lengths and found positions.
///
/// A node that is wiped, restored or downloaded again makes new files under the old names. A pruned node deletes files,
/// the first one among them, so each is known by an identity of its own.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// File number -> its last scan.
    scanned: BTreeMap<u32, Scanned>,
    /// Files that may have been overwritten since they were scanned.
    overwritten: BTreeSet<u32>,
    pub(crate) positions: Positions,
    /// Positions of blocks by the hash of their previous block.
    children: Positions,
    /// File number -> end of the last undo data found there.
    pub(crate) undo_hints: BTreeMap<u32, u64>,
}

impl Known {
    /// Extends the scan by a step of the search.
    pub(crate) fn look(&mut self, folder: &Folder, step: Step) -> SourceResult<()> {
        let mut numbers = match step {
            Step::Known => return Ok(()),
            Step::Newest | Step::All | Step::Rewritten => folder.numbers()?,
        };
        if step != Step::All {
            let older = numbers.len().saturating_sub(NEWEST_FILES);
            let is_wanted = |number: &u32| step == Step::Rewritten && self.overwritten.contains(number);
            let older: Vec<u32> = numbers.drain(..older).filter(is_wanted).collect();
            numbers.splice(..0, older);
        }
        if step == Step::Rewritten {
            self.scanned.retain(|number, _| !numbers.contains(number));
            self.undo_hints.retain(|number, _| !numbers.contains(number));
        }
        self.scan(folder, &numbers, Zeros::End).map(drop)
    }

    /// Scans every file from its beginning and returns all blocks.
    pub(crate) fn scan_all(&mut self, folder: &Folder) -> SourceResult<Vec<FoundBlock>> {
        let numbers = folder.numbers()?;
        *self = Self::default();
        self.scan(folder, &numbers, Zeros::Skip)
    }

    /// Scans the new part of one file.
    pub(crate) fn look_into(&mut self, folder: &Folder, number: u32) -> SourceResult<()> {
        self.scan(folder, &[number], Zeros::End).map(drop)
    }

    /// Returns `true` when the scanned part of this file has another block than `hash` after `previous`: it may have
    /// undo data in the file's undo file. A second copy, which a node writes after a crash, is no other block.
    pub(crate) fn is_fork(&self, hash: BlockHash, previous: BlockHash, number: u32) -> bool {
        let own = self.positions.of(hash);
        self.children.of(previous).iter().any(|child| child.file == number && !own.contains(child))
    }

    /// Scans files in parallel, each from the end of its last scan; returns the new blocks. A file that is gone has
    /// none.
    fn scan(&mut self, folder: &Folder, numbers: &[u32], zeros: Zeros) -> SourceResult<Vec<FoundBlock>> {
        let jobs: Vec<(u32, Option<Scanned>)> =
            numbers.iter().map(|number| (*number, self.scanned.get(number).copied())).collect();
        let (next, found) = (AtomicUsize::new(0), Mutex::new((Vec::<FoundBlock>::new(), Vec::new())));
        let work = || -> SourceResult<()> {
            while let Some(&(number, before)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut blocks = Vec::new();
                let scanned = match scan_file(folder, number, before, zeros, &mut blocks) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                    scanned => Some(scanned.map_err(|e| unreadable_blocks(&folder.blk_path(number), &e))?),
                };
                let mut found = found.lock();
                found.0.append(&mut blocks);
                found.1.push((number, scanned));
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (1..jobs.len().min(SCAN_THREADS)).map(|_| scope.spawn(work)).collect();
            let own = work();
            threads.into_iter().map(|t| t.join().expect("a scan does not panic")).fold(own, Result::and)
        })?;
        let (blocks, scans) = found.into_inner();
        for (number, scanned) in scans {
            self.note(number, scanned);
        }
        self.positions.extend(blocks.iter().map(|block| (block.head.hash, block.position())));
        self.children.extend(blocks.iter().map(|block| (block.head.previous(), block.position())));
        Ok(blocks)
    }

    /// Notes a scan. A file that has changed, and not behind its scanned part, may have been overwritten.
    fn note(&mut self, number: u32, scanned: Option<Scanned>) {
        let before = match scanned {
            Some(scanned) => self.scanned.insert(number, scanned),
            None => self.scanned.remove(&number),
        };
        match (before, scanned) {
            (Some(before), Some(now)) if before.file == now.file && before.resume == now.from => {
                let is_same = before.changed.is_some() && before.changed == now.changed;
                if before.resume == now.resume && !is_same {
                    self.overwritten.insert(number);
                }
            }
            _ => {
                self.overwritten.remove(&number);
                if before.is_some() {
                    self.undo_hints.remove(&number);
                }
            }
        }
    }
}

fn scan_file(
    folder: &Folder,
    number: u32,
    before: Option<Scanned>,
    zeros: Zeros,
    blocks: &mut Vec<FoundBlock>,
) -> io::Result<Scanned> {
    let file = File::open(folder.blk_path(number))?;
    let (identity, changed) = (FileIdentity::of(&file)?, file.metadata()?.modified()?);
    let is_settled = changed.elapsed().is_ok_and(|age| age >= SETTLED_AGE);
    let before = before.filter(|before| before.file == identity);
    let before = if before.is_some_and(|before| is_overwritten(folder, &file, before.last)) { None } else { before };
    let from = before.map_or(0, |before| before.resume);
    let mut last = before.and_then(|before| before.last);
    let mut records = folder.blk_records(file, SCAN_AHEAD_BYTES, zeros, from)?;
    let resume = scan_blocks(&mut records, number, &mut |block| {
        last = Some(LastBlock { offset: block.offset, hash: block.head.hash });
        blocks.push(block);
    })?;
    Ok(Scanned { file: identity, from, resume, last, changed: is_settled.then_some(changed) })
}

/// Returns `true` if the last block of the scanned part is no longer there. Blocks that a node writes anew end at the
/// same offset if they are the same ones, in whatever order, so the next record's place says nothing.
fn is_overwritten(folder: &Folder, file: &File, last: Option<LastBlock>) -> bool {
    let Some(LastBlock { offset, hash }) = last else { return false };
    let mut header = [0; HEADER_BYTES];
    let Ok(HEADER_BYTES) = file.read_at(offset.into(), &mut header) else { return true };
    folder.key.apply(offset.into(), &mut header);
    header_hash(&header) != hash
}
