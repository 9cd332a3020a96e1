//! A memory map of a growing file: the only `unsafe` code of this crate.
//!
//! A record in the file cache costs 30 ns through the map and 1100 ns through a system call (650 random records of 32
//! bytes, on a virtual machine); a long history reads a hundred thousand.
//!
//! Invariant: nobody touches a page beyond the end of the file. A read past the known length asks the file for its
//! length first, and a cut waits for the reads. Two cases remain, in which the system ends the process (SIGBUS): a page
//! that the disk cannot read, and a file that another process cuts while this one has it open. (Asking for the length
//! before every read took a tenth of the time of a relay that ingests events.)

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, Mmap, MmapOptions};
use parking_lot::RwLock;

/// Bytes of the map beyond the end of the file, so that a growing file is rarely mapped again.
const SPARE_BYTES: u64 = 64 << 20;

/// The map, created by the first read.
#[derive(Debug, Default)]
pub(super) struct Pages {
    map: RwLock<Option<Mmap>>,
    /// A lower bound of the file's length, in bytes.
    known_bytes: AtomicU64,
}

impl Pages {
    /// Calls `read` with the first `bytes` bytes of the file; returns `None` when the file is shorter.
    pub(super) fn read<T>(&self, file: &File, bytes: u64, read: impl FnOnce(Window<'_>) -> T) -> io::Result<Option<T>> {
        loop {
            {
                let map = self.map.read();
                if self.known_bytes.load(Ordering::Acquire) < bytes {
                    let file_bytes = file.metadata()?.len();
                    if file_bytes < bytes {
                        return Ok(None);
                    }
                    self.known_bytes.fetch_max(file_bytes, Ordering::AcqRel);
                }
                let len = usize::try_from(bytes).map_err(io::Error::other)?;
                if let Some(map) = map.as_ref().filter(|map| map.len() >= len) {
                    return Ok(Some(read(Window { map, len })));
                }
            }
            self.map(file)?;
        }
    }

    /// Changes the file's length after the current reads.
    pub(super) fn cut(&self, file: &File, bytes: u64) -> io::Result<()> {
        let _nobody_reads = self.map.write();
        self.known_bytes.store(bytes, Ordering::Release);
        file.set_len(bytes)
    }

    #[expect(unsafe_code, reason = "another process can change a mapped file: see the invariant")]
    fn map(&self, file: &File) -> io::Result<()> {
        let mut map = self.map.write();
        let len = usize::try_from(file.metadata()?.len().saturating_add(SPARE_BYTES)).map_err(io::Error::other)?;
        // SAFETY: readers get a window on records that are in the file. No writer overwrites them with other bytes, and
        // a cut holds the write lock.
        let new = unsafe { MmapOptions::new().len(len).map(file)? };
        // Reads are random, so reading ahead is of no use. (Ignored advice does no harm.)
        let _ = new.advise(Advice::Random);
        *map = Some(new);
        Ok(())
    }
}

/// The first bytes of a mapped file.
pub(super) struct Window<'a> {
    map: &'a Mmap,
    len: usize,
}

impl<'a> Window<'a> {
    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.map[..self.len]
    }

    /// Advises the system that most pages of a range will be read.
    pub(super) fn will_need(&self, range: std::ops::Range<usize>) {
        let _ = self.map.advise_range(Advice::WillNeed, range.start, range.len());
    }
}
