//! A file whose pages carry checksums, in a second file beside it.
//!
//! The checksum of a page is the CRC-32C of its written bytes; bytes that were never written are zeros and count for
//! nothing. Pages that are written from end to end have theirs in `NAME.crc`, four bytes at four times the number of
//! the page. Those of other pages, mostly one at the end of the file, are in the state that each synced publish puts
//! into the log. A page is proved when it is first read after the file was opened, which costs 0.3 us; from then on a
//! read tests a bit.
//!
//! Invariants: a written byte that was published never changes, but for a cut that was published first. So the state in
//! the log proves every page after any crash: what was written since lies outside of the ranges that the state lists.

use std::fs::{File, OpenOptions};
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use parking_lot::RwLock;

use super::pages::{PAGE_BYTES, PageMap, Window};
use super::state::ArrayState;
use crate::error::{Error, Result, io_error, written_after_cut};
use crate::store::Scrub;
use crate::sync::sync_folder;

const PAGE: u64 = PAGE_BYTES as u64;
/// Bytes of a checksum.
const SUM_BYTES: u64 = 4;
/// Pages that a scrub reads together.
const SCRUB_PAGES: u64 = 256;

/// A file with checksums; addressed by bytes.
#[derive(Debug)]
pub(super) struct CheckedFile {
    name: String,
    path: PathBuf,
    file: File,
    sums_path: PathBuf,
    sums: File,
    pages: PageMap,
    /// Length of the file.
    bytes: AtomicU64,
    state: RwLock<Changing>,
    /// Set after each write, so that a sync never misses a write that has returned.
    is_dirty: AtomicBool,
    sync_failed: AtomicBool,
}

/// The part of the state that changes under the lock.
#[derive(Debug)]
struct Changing {
    state: ArrayState,
    /// Discarded ranges that the last published state has.
    discarded: Vec<Range<u64>>,
    /// Discarded ranges that the state of the next publish is without.
    freeing: Vec<Range<u64>>,
    /// Discarded ranges that no published state has.
    freed: Vec<Range<u64>>,
    cut: Cut,
}

/// The last cut. Bytes written after it could not be told apart from those that were cut off until it is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Published,
    /// The state of the next publish has it.
    InState,
    New,
}

/// A page after a write.
enum After {
    /// It has the written bytes alone, and this checksum.
    New(u32),
    /// It has the bytes before them, which may be damaged: then this checksum, which follows from the one before, does
    /// not match.
    Longer(u32),
    /// It was proved, so that damage does not get the checksum that it will have.
    Changed,
}

impl Changing {
    fn new(state: ArrayState) -> Self {
        Self { state, discarded: Vec::new(), freeing: Vec::new(), freed: Vec::new(), cut: Cut::Published }
    }
}

impl CheckedFile {
    /// Opens a file as its published state describes it, creating what is missing, and cuts what was not published.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the file is shorter than its state.
    pub(super) fn open(folder: &Path, name: &str, state: ArrayState) -> Result<Self> {
        let (path, sums_path) = (folder.join(name), folder.join(format!("{name}.crc")));
        let open = |path: &Path| {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            opened.map_err(|source| io_error("open", path, source))
        };
        let (file, sums) = (open(&path)?, open(&sums_path)?);
        sync_folder(folder)?;
        let found = file.metadata().map_err(|source| io_error("open", &path, source))?.len();
        if found < state.bytes {
            let reason = format!("{} has {found} of {} bytes", path.display(), state.bytes);
            return Err(Error::Corrupt { table: name.to_owned(), reason });
        }
        if found > state.bytes {
            file.set_len(state.bytes).map_err(|source| io_error("cut", &path, source))?;
        }
        let opened = Self {
            name: name.to_owned(),
            path,
            file,
            sums_path,
            sums,
            pages: PageMap::default(),
            bytes: AtomicU64::new(state.bytes),
            state: RwLock::new(Changing::new(state)),
            // Writes of an earlier process may not have reached the disk.
            is_dirty: AtomicBool::new(true),
            sync_failed: AtomicBool::new(false),
        };
        let gaps = opened.state.read().state.written.gaps(opened.bytes());
        gaps.iter().try_for_each(|gap| opened.punch(gap))?;
        Ok(opened)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    // === reading ===

    /// Calls `read` with the first `bytes` bytes; `None` when another process has cut the file below them. `read`
    /// proves what it uses.
    pub(super) fn read<T>(&self, bytes: u64, read: impl FnOnce(Window<'_>) -> T) -> Result<Option<T>> {
        self.pages.read(&self.file, bytes, read).map_err(|source| io_error("read", &self.path, source))
    }

    /// Proves the pages of a range of a window.
    pub(super) fn prove(&self, window: &Window<'_>, range: &Range<usize>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let mut pages = range.start / PAGE_BYTES..(range.end - 1) / PAGE_BYTES + 1;
        match pages.find(|page| !window.is_proved(*page)) {
            None => Ok(()),
            Some(first) => self.prove_pages(window, first..pages.end),
        }
    }

    #[cold]
    fn prove_pages(&self, window: &Window<'_>, pages: Range<usize>) -> Result<()> {
        for page in pages {
            if !window.is_proved(page) {
                let content = window.page(page);
                // Whoever waits for the disk holds no lock.
                std::hint::black_box(content.first().copied());
                self.prove_page(&self.state.read().state, page as u64, content)?;
                window.note_proved(page);
            }
        }
        Ok(())
    }

    /// Compares a page with its checksum.
    fn prove_page(&self, state: &ArrayState, page: u64, content: &[u8]) -> Result<()> {
        let range = range_of(page);
        let expected = if state.written.covers(range.clone()) {
            self.sums_of(page..page + 1)?.first().copied()
        } else if state.written.within(range).next().is_some() {
            state.edges.get(&page).copied()
        } else {
            return Ok(());
        };
        if expected == sum(state, page, content) { Ok(()) } else { Err(self.damaged(page)) }
    }

    fn damaged(&self, page: u64) -> Error {
        let range = range_of(page);
        let reason = format!(
            "bytes {} to {} of {} do not match their checksum",
            range.start,
            range.end.min(self.bytes()),
            self.path.display()
        );
        Error::Corrupt { table: self.name.clone(), reason }
    }

    /// Returns the checksums of whole pages; fewer where the file of checksums ends.
    fn sums_of(&self, pages: Range<u64>) -> Result<Vec<u32>> {
        let mut bytes = vec![0; usize::try_from((pages.end - pages.start) * SUM_BYTES).expect("a few pages")];
        let read = read_up_to(&self.sums, &mut bytes, pages.start * SUM_BYTES);
        let read = read.map_err(|source| io_error("read", &self.sums_path, source))?;
        Ok(bytes[..read].as_chunks().0.iter().map(|sum| u32::from_le_bytes(*sum)).collect())
    }

    fn page_from_disk(&self, page: u64) -> Result<Vec<u8>> {
        let mut content = vec![0; PAGE_BYTES];
        read_up_to(&self.file, &mut content, page * PAGE).map_err(|source| io_error("read", &self.path, source))?;
        Ok(content)
    }

    /// Reads every page from the disk and proves it.
    pub(super) fn scrub(&self, scrub: &mut dyn Scrub) -> Result<ControlFlow<()>> {
        let mut content = vec![0; usize::try_from(SCRUB_PAGES).expect("few") * PAGE_BYTES];
        let mut first = 0;
        while first * PAGE < self.bytes() {
            let read = {
                // A writer that changes a page waits.
                let changing = self.state.read();
                let read = read_up_to(&self.file, &mut content, first * PAGE);
                let read = read.map_err(|source| io_error("read", &self.path, source))?;
                content[read..].fill(0);
                for (page, content) in (first..).zip(content.chunks(PAGE_BYTES)) {
                    match self.prove_page(&changing.state, page, content) {
                        Err(error @ Error::Corrupt { .. }) => scrub.found(error),
                        proved => proved?,
                    }
                }
                read
            };
            if scrub.read(read as u64).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            first += SCRUB_PAGES;
        }
        Ok(ControlFlow::Continue(()))
    }

    // === changing ===

    /// Writes bytes. Returns true if all of them are in places that had none.
    ///
    /// # Errors
    /// [`Error::Engine`] after a cut that was not published.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<bool> {
        let range = at..at + bytes.len() as u64;
        let (first, last) = (range.start / PAGE, (range.end - 1) / PAGE);
        let mut changing = self.state.write();
        if changing.cut != Cut::Published {
            return Err(written_after_cut(&self.name));
        }
        let state = &mut changing.state;
        let is_new = state.written.within(range.clone()).next().is_none();
        let mut sums = Vec::with_capacity(usize::try_from(last - first + 1).expect("a write fits in memory"));
        let mut first_proved = first;
        for page in first..=last {
            match self.after_write(state, page, &range, bytes)? {
                After::New(sum) => sums.push(Some(sum)),
                After::Longer(sum) => {
                    sums.push(Some(sum));
                    // The page of the write's beginning.
                    first_proved = page + 1;
                }
                After::Changed => sums.push(None),
            }
        }
        self.file.write_all_at(bytes, at).map_err(|source| io_error("write", &self.path, source))?;
        self.is_dirty.store(true, Ordering::Release);
        state.written.insert(range.clone());
        for (page, after) in (first..).zip(&mut sums) {
            if after.is_none() {
                *after = sum(state, page, &self.page_from_disk(page)?);
            }
        }
        self.keep_sums(state, first, &sums.into_iter().flatten().collect::<Vec<_>>())?;
        self.bytes.fetch_max(range.end, Ordering::AcqRel);
        state.bytes = self.bytes();
        // A reader takes this lock under that of the map.
        drop(changing);
        let page = |page: u64| usize::try_from(page).expect("a file that is mapped");
        self.pages.note_proved(page(first_proved)..page(last + 1));
        Ok(is_new)
    }

    /// Returns what becomes of a page when bytes are written, before they are.
    fn after_write(&self, state: &ArrayState, page: u64, written: &Range<u64>, bytes: &[u8]) -> Result<After> {
        let whole = range_of(page);
        let part = whole.start.max(written.start)..whole.end.min(written.end);
        let offset = |at: u64| usize::try_from(at - written.start).expect("within the bytes");
        let piece = &bytes[offset(part.start)..offset(part.end)];
        match state.written.within(whole.clone()).last() {
            Some(before) if part != whole => {
                if before.end <= part.start {
                    let before = state.edges.get(&page).ok_or_else(|| self.damaged(page))?;
                    return Ok(After::Longer(crc32c::crc32c_append(*before, piece)));
                }
                self.prove_page(state, page, &self.page_from_disk(page)?)?;
                Ok(After::Changed)
            }
            _ => Ok(After::New(crc32c::crc32c(piece))),
        }
    }

    /// Keeps the checksums of pages from `first` on: of whole pages in the file, of others in the state.
    fn keep_sums(&self, state: &mut ArrayState, first: u64, sums: &[u32]) -> Result<()> {
        let mut whole: Vec<u8> = Vec::with_capacity(4 * sums.len());
        let mut whole_first = first;
        for (page, sum) in (first..).zip(sums) {
            if state.written.covers(range_of(page)) {
                state.edges.remove(&page);
                whole.extend(sum.to_le_bytes());
            } else {
                state.edges.insert(page, *sum);
                // Only the first and the last page of a write can have bytes that are not written.
                if whole.is_empty() {
                    whole_first = page + 1;
                }
            }
        }
        let written = self.sums.write_all_at(&whole, whole_first * SUM_BYTES);
        written.map_err(|source| io_error("write", &self.sums_path, source))
    }

    /// Cuts the file to a length that is not above its own.
    pub(super) fn cut(&self, bytes: u64) -> Result<()> {
        self.pages.cut(bytes, || {
            let mut changing = self.state.write();
            let state = &mut changing.state;
            if bytes == state.bytes {
                return Ok(());
            }
            let page = bytes / PAGE;
            let has = |state: &ArrayState, part: Range<u64>| state.written.within(part).next().is_some();
            let (kept, cut) = (page * PAGE..bytes, bytes..range_of(page).end);
            let split =
                if has(state, kept.clone()) && has(state, cut) { Some(self.page_from_disk(page)?) } else { None };
            if let Some(content) = &split {
                self.prove_page(state, page, content)?;
            }
            let end = state.bytes;
            state.written.remove(bytes..end);
            state.edges.split_off(&(page + 1));
            if let Some(content) = &split {
                state.edges.insert(page, sum(state, page, content).expect("some bytes are left"));
            } else if !has(state, kept) {
                state.edges.remove(&page);
            }
            self.bytes.store(bytes, Ordering::Release);
            (state.bytes, changing.cut) = (bytes, Cut::New);
            self.is_dirty.store(true, Ordering::Release);
            self.file.set_len(bytes).map_err(|source| io_error("cut", &self.path, source))
        })
    }

    /// Gives back the space of the whole pages in a range after the next publish.
    pub(super) fn discard(&self, range: &Range<u64>) {
        let pages = range.start.div_ceil(PAGE)..range.end / PAGE;
        if pages.start < pages.end {
            let inner = pages.start * PAGE..pages.end * PAGE;
            let mut changing = self.state.write();
            changing.state.written.remove(inner.clone());
            changing.state.edges.retain(|page, _| !pages.contains(page));
            changing.discarded.push(inner);
        }
    }

    // === durability ===

    /// Returns the state for a publish. What it describes is durable after the next [`sync`](Self::sync).
    pub(super) fn state(&self) -> ArrayState {
        let mut changing = self.state.write();
        let discarded = std::mem::take(&mut changing.discarded);
        changing.freeing.extend(discarded);
        if changing.cut == Cut::New {
            changing.cut = Cut::InState;
        }
        changing.state.clone()
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.is_dirty.load(Ordering::Acquire)
    }

    /// Syncs the files if they were written since the last sync.
    pub(super) fn sync(&self) -> Result<()> {
        if self.is_dirty.swap(false, Ordering::AcqRel)
            && let Err(source) = self.file.sync_data().and_then(|()| self.sums.sync_data())
        {
            self.sync_failed.store(true, Ordering::Release);
            return Err(io_error("sync", &self.path, source));
        }
        if self.sync_failed.load(Ordering::Acquire) {
            let source = std::io::Error::other("an earlier sync failed; restart the server");
            return Err(io_error("sync", &self.path, source));
        }
        Ok(())
    }

    /// Takes note that a publish has made the changes durable.
    pub(super) fn published(&self) {
        let mut changing = self.state.write();
        if changing.cut == Cut::InState {
            changing.cut = Cut::Published;
        }
        let freeing = std::mem::take(&mut changing.freeing);
        changing.freed.extend(freeing);
    }

    /// Gives back the space of ranges that no published state has.
    pub(super) fn free(&self) -> Result<()> {
        let freed = std::mem::take(&mut self.state.write().freed);
        freed.iter().try_for_each(|range| self.punch(range))
    }

    fn punch(&self, range: &Range<u64>) -> Result<()> {
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let offset = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        match fallocate(&self.file, hole, offset(range.start), offset(range.end - range.start)) {
            // A file system without holes keeps the space.
            Ok(()) | Err(Errno::EOPNOTSUPP) => Ok(()),
            Err(error) => Err(io_error("free space in", &self.path, error.into())),
        }
    }
}

fn range_of(page: u64) -> Range<u64> {
    page * PAGE..(page + 1) * PAGE
}

/// Returns the checksum of the written bytes of a page; `None` if it has none.
fn sum(state: &ArrayState, page: u64, content: &[u8]) -> Option<u32> {
    let start = page * PAGE;
    let offset = |at: u64| usize::try_from(at - start).expect("within the page").min(content.len());
    let parts = state.written.within(range_of(page)).map(|part| &content[offset(part.start)..offset(part.end)]);
    parts.fold(None, |sum, part| Some(sum.map_or_else(|| crc32c::crc32c(part), |sum| crc32c::crc32c_append(sum, part))))
}

/// Fills as much of a buffer as the file has bytes from an offset on.
fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], at + read as u64) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
