//! A memory map of a growing file, and which of its pages were proved: the only `unsafe` code of this crate.
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
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, Mmap, MmapOptions};
use parking_lot::RwLock;

/// Bytes of a page: the unit that is mapped, and proved by a checksum.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes of the map beyond the end of the file, so that a growing file is rarely mapped again.
const SPARE_BYTES: u64 = 64 << 20;

/// The map, created by the first read.
#[derive(Debug, Default)]
pub(super) struct Pages {
    map: RwLock<Option<Map>>,
    /// A lower bound of the file's length, in bytes.
    known_bytes: AtomicU64,
}

#[derive(Debug)]
struct Map {
    bytes: Mmap,
    /// A bit for each page whose checksum was proved, or that this process wrote.
    proved: Vec<AtomicU64>,
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
                if let Some(map) = map.as_ref().filter(|map| map.bytes.len() >= len) {
                    return Ok(Some(read(Window { map, len })));
                }
            }
            self.map(file)?;
        }
    }

    /// Calls `cut`, which changes the file's length, after the current reads.
    pub(super) fn cut<T>(&self, bytes: u64, cut: impl FnOnce() -> T) -> T {
        let _nobody_reads = self.map.write();
        self.known_bytes.store(bytes, Ordering::Release);
        cut()
    }

    /// Notes pages as proved.
    pub(super) fn note_proved(&self, pages: Range<u64>) {
        if let Some(map) = self.map.read().as_ref() {
            pages.for_each(|page| map.note_proved(page));
        }
    }

    #[expect(unsafe_code, reason = "another process can change a mapped file: see the invariant")]
    fn map(&self, file: &File) -> io::Result<()> {
        let mut map = self.map.write();
        let len = usize::try_from(file.metadata()?.len().saturating_add(SPARE_BYTES)).map_err(io::Error::other)?;
        // SAFETY: readers get a window on records that are in the file. No writer overwrites them with other bytes, and
        // a cut holds the write lock.
        let bytes = unsafe { MmapOptions::new().len(len).map(file)? };
        // Reads are random, so reading ahead is of no use. (Ignored advice does no harm.)
        let _ = bytes.advise(Advice::Random);
        let mut proved = map.take().map(|before| before.proved).unwrap_or_default();
        proved.resize_with(len.div_ceil(PAGE_BYTES).div_ceil(64), AtomicU64::default);
        *map = Some(Map { bytes, proved });
        Ok(())
    }
}

impl Map {
    fn note_proved(&self, page: u64) {
        let word = usize::try_from(page / 64).ok().and_then(|word| self.proved.get(word));
        if let Some(word) = word {
            word.fetch_or(1 << (page % 64), Ordering::Release);
        }
    }
}

/// The first bytes of a mapped file.
pub(super) struct Window<'a> {
    map: &'a Map,
    len: usize,
}

impl<'a> Window<'a> {
    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.map.bytes[..self.len]
    }

    /// Returns the bytes of a page that the window has bytes of, to the end of the page or of the map. What lies
    /// beyond the end of the file is zeros.
    pub(super) fn page(&self, page: usize) -> &'a [u8] {
        let start = page * PAGE_BYTES;
        &self.map.bytes[start..(start + PAGE_BYTES).min(self.map.bytes.len())]
    }

    pub(super) fn is_proved(&self, page: usize) -> bool {
        self.map.proved.get(page / 64).is_some_and(|word| word.load(Ordering::Acquire) >> (page % 64) & 1 == 1)
    }

    pub(super) fn note_proved(&self, page: usize) {
        self.map.note_proved(page as u64);
    }

    /// Advises the system that most pages of a range will be read.
    pub(super) fn will_need(&self, range: Range<usize>) {
        let _ = self.map.bytes.advise_range(Advice::WillNeed, range.start, range.len());
    }
}
