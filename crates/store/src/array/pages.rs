//! The bytes of a growing file as memory.
//!
//! A record that the file cache holds costs 30 ns this way, and 1100 ns by a system call (650 random records of 32 bytes,
//! on a virtual machine); a long history asks for a hundred thousand.
//!
//! Invariant: nobody touches a page that lies beyond the end of the file. The file is asked for its length before more of it is
//! read than was known to be there, and cutting it waits for the reads. What is left to the system, which then ends the process
//! (SIGBUS), is a page that the disk cannot give, and a file that another process cuts while this one has it open. (Asking
//! before every read took a tenth of the time of a relay that takes in events.)

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use memmap2::{Advice, Mmap, MmapOptions};

/// A map reaches so far beyond the end of the file, in bytes: one that grows is mapped anew once in a while only.
const BEYOND: u64 = 64 << 20;

/// The map, made when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Pages {
    map: RwLock<Option<Mmap>>,
    /// The file has so many bytes at least.
    known: AtomicU64,
}

impl Pages {
    /// Gives `read` the first `bytes` bytes of the file; `None` when it has fewer.
    pub(super) fn read<T>(&self, file: &File, bytes: u64, read: impl FnOnce(Window<'_>) -> T) -> io::Result<Option<T>> {
        loop {
            {
                let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
                if self.known.load(Ordering::Acquire) < bytes {
                    let there = file.metadata()?.len();
                    if there < bytes {
                        return Ok(None);
                    }
                    self.known.fetch_max(there, Ordering::AcqRel);
                }
                let len = usize::try_from(bytes).map_err(io::Error::other)?;
                if let Some(map) = map.as_ref().filter(|map| map.len() >= len) {
                    return Ok(Some(read(Window { map, len })));
                }
            }
            self.map(file)?;
        }
    }

    /// Changes the file's length while nobody reads.
    pub(super) fn cut(&self, file: &File, bytes: u64) -> io::Result<()> {
        let _nobody_reads = self.map.write().unwrap_or_else(PoisonError::into_inner);
        self.known.store(bytes, Ordering::Release);
        file.set_len(bytes)
    }

    #[expect(unsafe_code, reason = "a map can be changed from outside: see the invariant")]
    fn map(&self, file: &File) -> io::Result<()> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let len = usize::try_from(file.metadata()?.len().saturating_add(BEYOND)).map_err(io::Error::other)?;
        // SAFETY: readers get a window on records that are in the file. Those are never written again with other bytes,
        // and are cut under the lock only.
        let new = unsafe { MmapOptions::new().len(len).map(file)? };
        // Records are asked for here and there: what lies around one is of no use. (Advice that is not taken does no harm.)
        let _ = new.advise(Advice::Random);
        *map = Some(new);
        Ok(())
    }
}

/// The beginning of a file.
pub(super) struct Window<'a> {
    map: &'a Mmap,
    len: usize,
}

impl<'a> Window<'a> {
    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.map[..self.len]
    }

    /// Says that most pages of a range will be read.
    pub(super) fn will_need(&self, range: std::ops::Range<usize>) {
        let _ = self.map.advise_range(Advice::WillNeed, range.start, range.len());
    }
}
