//! A segment: one immutable file of sorted rows of one table.
//!
//! ```text
//! segment  blocks of rows | blocks of fences | pages of the filter | block of the root | trailer
//! fence    key: last key of a block of rows       value: its offset LEB128, its bytes LEB128
//! root     key: last key of a block of fences     value: its offset LEB128, its bytes LEB128
//! trailer  offset of the filter u64 LE | its pages u32 LE | offset of the root u64 LE | its bytes u32 LE
//!          | partition bytes u32 LE | rows u64 LE | "birdseg1" | CRC-32C of the trailer before u32 LE
//! ```
//! The root is in memory: a lookup reads one block of fences and one block of rows. Both are proved whenever they are
//! read, by processor instructions for CRC-32C. Files are read by system calls and not by a map, so that a place that
//! the disk cannot give is an error for that answer and not the end of the process.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::block::{Block, BlockBuilder, BlockCursor, Coding, Damage, Entries, OwnedValue, Value, leb128, put_leb128};
use super::cache::{BlockCache, BlockId, Proved};
use super::filter::{self, FilterBuilder};
use crate::error::{Error, Result, io_error};
use crate::store::Scrub;
use crate::table::Table;

/// Rows are asked for one by one, all over a table: a larger block is read and proved for nothing.
const BLOCK_BYTES: usize = 4 << 10;
/// A lookup walks half of a block of fences on average, so these are smaller: some hundred entries would cost more than
/// the row. The root, in memory, has 60 bytes for each: about 10 MB for an index of 60 GB.
const FENCE_BLOCK_BYTES: usize = 1 << 10;
/// Bytes that are written at a time.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes of rows after which a scrub may pause.
const SCRUB_BYTES: u64 = 1 << 20;
const MAGIC: &[u8; 8] = b"birdseg1";
const TRAILER_BYTES: usize = 8 + 4 + 8 + 4 + 4 + 8 + 8 + 4;

/// Where a block lies in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockPlace {
    offset: u64,
    bytes: u32,
}

/// Writes a segment.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    path: PathBuf,
    file: File,
    table: Table,
    waiting: Vec<u8>,
    /// Bytes in the file, before those that wait.
    written: u64,
    block: BlockBuilder,
    /// Finished blocks of fences, behind each other, and their lengths.
    fences: Vec<u8>,
    fence_block: BlockBuilder,
    root: Vec<(Vec<u8>, usize)>,
    filter: FilterBuilder,
    rows: u64,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    path: PathBuf,
    /// Names it in the cache.
    number: u64,
    cache: Arc<BlockCache>,
    table: &'static str,
    file: File,
    bytes: u64,
    rows: u64,
    filter_offset: u64,
    filter_pages: u32,
    partition_bytes: usize,
    /// Last keys of the blocks of fences, and where these lie.
    root: Vec<(Box<[u8]>, BlockPlace)>,
}

/// A place between the rows of a segment, for walks in both directions.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// At the fence that names the block of rows.
    fences: BlockCursor,
    /// The number of the block of fences.
    fence_block: usize,
    rows: BlockCursor,
    use_of_cache: UseOfCache,
}

/// The blocks that the last lookup read: the next one mostly needs the same, where keys are asked for in order.
#[derive(Debug, Default)]
pub(super) struct LastBlocks {
    filter: LastBlock,
    fences: LastBlock,
    rows: LastBlock,
}

type LastBlock = Option<(BlockId, Proved)>;

/// Treatment of the blocks that a walk reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum UseOfCache {
    #[default]
    Keep,
    /// For a walk over everything, which would drive out what others need.
    PassBy,
}

// === impl BlockPlace ===

impl BlockPlace {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8);
        put_leb128(&mut out, self.offset);
        put_leb128(&mut out, self.bytes.into());
        out
    }

    fn decode(value: Value<'_>) -> Result<Self, Damage> {
        const WRONG: Damage = "a fence names no block";
        let value = value.ok_or(WRONG)?;
        let mut at = 0;
        let offset = leb128(value, &mut at).ok_or(WRONG)?;
        let bytes = leb128(value, &mut at).and_then(|bytes| u32::try_from(bytes).ok()).ok_or(WRONG)?;
        Ok(Self { offset, bytes })
    }
}

// === impl SegmentWriter ===

impl SegmentWriter {
    pub(super) fn create(path: &Path, table: Table) -> Result<Self> {
        let file = File::options().write(true).create_new(true).open(path);
        Ok(Self {
            file: file.map_err(|source| io_error("create", path, source))?,
            path: path.to_owned(),
            table,
            waiting: Vec::with_capacity(WRITE_BYTES + 2 * BLOCK_BYTES),
            written: 0,
            block: BlockBuilder::default(),
            fences: Vec::new(),
            fence_block: BlockBuilder::default(),
            root: Vec::new(),
            filter: FilterBuilder::default(),
            rows: 0,
        })
    }

    /// Adds a row. Keys must ascend strictly.
    pub(super) fn push(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        if self.table.partition_bytes > 0 {
            self.filter.add(partition(key, self.table.partition_bytes));
        }
        self.block.push(key, value);
        self.rows += 1;
        if self.block.bytes() >= BLOCK_BYTES { self.finish_block() } else { Ok(()) }
    }

    /// Bytes of the file so far.
    pub(super) fn bytes(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    fn finish_block(&mut self) -> Result<()> {
        let offset = self.bytes();
        let key = self.block.last_key().to_vec();
        let coding = if self.table.compress { Coding::Lz4 } else { Coding::Plain };
        self.block.finish(coding, &mut self.waiting);
        let bytes = u32::try_from(self.bytes() - offset).map_err(|_| too_large(self.table.name))?;
        self.fence_block.push(&key, Some(&BlockPlace { offset, bytes }.encode()));
        if self.fence_block.bytes() >= FENCE_BLOCK_BYTES {
            self.finish_fence_block();
        }
        if self.waiting.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn finish_fence_block(&mut self) {
        let (key, before) = (self.fence_block.last_key().to_vec(), self.fences.len());
        self.fence_block.finish(Coding::Plain, &mut self.fences);
        self.root.push((key, self.fences.len() - before));
    }

    fn write(&mut self) -> Result<()> {
        self.file.write_all(&self.waiting).map_err(|source| io_error("write", &self.path, source))?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Ends the file, durably.
    pub(super) fn finish(mut self) -> Result<()> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        if !self.fence_block.is_empty() {
            self.finish_fence_block();
        }
        let mut offset = self.bytes();
        let mut root = BlockBuilder::default();
        for (key, bytes) in &self.root {
            let bytes = u32::try_from(*bytes).map_err(|_| too_large(self.table.name))?;
            root.push(key, Some(&BlockPlace { offset, bytes }.encode()));
            offset += u64::from(bytes);
        }
        self.waiting.append(&mut self.fences);
        let filter_offset = self.bytes();
        let filter_pages = self.filter.finish(&mut self.waiting);
        let root_offset = self.bytes();
        root.finish(Coding::Plain, &mut self.waiting);
        let root_bytes = u32::try_from(self.bytes() - root_offset).map_err(|_| too_large(self.table.name))?;
        let trailer = self.waiting.len();
        self.waiting.extend(filter_offset.to_le_bytes());
        self.waiting.extend(filter_pages.to_le_bytes());
        self.waiting.extend(root_offset.to_le_bytes());
        self.waiting.extend(root_bytes.to_le_bytes());
        self.waiting.extend(u32::try_from(self.table.partition_bytes).expect("some bytes").to_le_bytes());
        self.waiting.extend(self.rows.to_le_bytes());
        self.waiting.extend(MAGIC);
        let checksum = crc32c::crc32c(&self.waiting[trailer..]);
        self.waiting.extend(checksum.to_le_bytes());
        self.write()?;
        self.file.sync_data().map_err(|source| io_error("sync", &self.path, source))
    }
}

fn too_large(table: &str) -> Error {
    Error::Engine(format!("table {table}: a row is too large"))
}

/// The part of a key that names its partition; all of a shorter one.
fn partition(key: &[u8], bytes: usize) -> &[u8] {
    &key[..bytes.min(key.len())]
}

// === impl Segment ===

impl Segment {
    /// Opens a finished segment and proves its trailer and root.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the file is damaged.
    pub(super) fn open(path: &Path, number: u64, table: &'static str, cache: &Arc<BlockCache>) -> Result<Self> {
        let failed = |source| io_error("open", path, source);
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let mut segment = Self {
            path: path.to_owned(),
            number,
            cache: Arc::clone(cache),
            table,
            file,
            bytes,
            rows: 0,
            filter_offset: 0,
            filter_pages: 0,
            partition_bytes: 0,
            root: Vec::new(),
        };
        segment.load()?;
        Ok(segment)
    }

    fn load(&mut self) -> Result<()> {
        let start =
            self.bytes.checked_sub(TRAILER_BYTES as u64).ok_or_else(|| self.damaged("the file is too short"))?;
        let trailer = self.read(start, TRAILER_BYTES)?;
        let (proved, checksum) = trailer.split_last_chunk::<4>().expect("it has more bytes");
        if crc32c::crc32c(proved) != u32::from_le_bytes(*checksum) || !proved.ends_with(MAGIC) {
            return Err(self.damaged("the trailer is wrong"));
        }
        let u64_at = |at: usize| u64::from_le_bytes(proved[at..at + 8].try_into().expect("eight bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(proved[at..at + 4].try_into().expect("four bytes"));
        (self.filter_offset, self.filter_pages) = (u64_at(0), u32_at(8));
        self.partition_bytes = u32_at(24) as usize;
        self.rows = u64_at(28);
        let root = self.entries(BlockPlace { offset: u64_at(12), bytes: u32_at(20) }, UseOfCache::PassBy)?;
        let root = Block::decode(root).map_err(|damage| self.damaged(damage))?;
        let places = (0..root.len()).map(|number| {
            let (key, value) = root.row(number);
            BlockPlace::decode(value).map(|place| (Box::from(key), place))
        });
        self.root = places.collect::<Result<_, _>>().map_err(|damage| self.damaged(damage))?;
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The highest key; `None` of an empty segment.
    pub(super) fn last_key(&self) -> Option<&[u8]> {
        self.root.last().map(|(key, _)| &**key)
    }

    /// The row of a key, if the segment has one: its value, or `None` where it was deleted.
    pub(super) fn get(&self, key: &[u8], last: &mut LastBlocks) -> Result<Option<OwnedValue>> {
        if !self.may_have(key, &mut last.filter)? {
            return Ok(None);
        }
        let root = self.root.partition_point(|(last, _)| &**last < key);
        let Some((_, place)) = self.root.get(root) else { return Ok(None) };
        let fences = self.entries_near(*place, &mut last.fences)?;
        let fence = fences.value_from(key).map_err(|damage| self.damaged(damage))?;
        let fence = fence.ok_or_else(|| self.damaged("a block of fences ends before its last key"))?;
        let place = BlockPlace::decode(fence).map_err(|damage| self.damaged(damage))?;
        let rows = self.entries_near(place, &mut last.rows)?;
        let found = rows.get(key).map_err(|damage| self.damaged(damage))?;
        Ok(found.map(|value| value.map(<[u8]>::to_vec)))
    }

    /// Returns `false` when the segment has no row in the partition of a key.
    pub(super) fn may_have(&self, key: &[u8], last: &mut LastBlock) -> Result<bool> {
        if self.filter_pages == 0 {
            return Ok(true);
        }
        let hash = filter::hash(partition(key, self.partition_bytes));
        let (page, line) = filter::place(hash, self.filter_pages);
        let offset = self.filter_page_offset(page);
        let lines = self.near(offset, last, || self.filter_page(offset))?;
        Ok(filter::may_contain(&lines, line, hash))
    }

    /// Reads every block and proves it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at the first damage.
    pub(super) fn verify(&self, scrub: &mut dyn Scrub) -> Result<ControlFlow<()>> {
        let mut cursor = Cursor::new(UseOfCache::PassBy);
        let (mut rows, mut bytes) = (0, 0);
        self.first(&mut cursor)?;
        while let Some((key, value)) = cursor.row() {
            rows += 1;
            bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
            if bytes >= SCRUB_BYTES && scrub.read(std::mem::take(&mut bytes)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.next(&mut cursor)?;
        }
        for page in 0..self.filter_pages {
            self.filter_page(self.filter_page_offset(page))?;
        }
        if rows == self.rows { Ok(scrub.read(bytes)) } else { Err(self.damaged("rows are missing")) }
    }

    /// Moves to the first row.
    pub(super) fn first(&self, cursor: &mut Cursor) -> Result<()> {
        self.seek(cursor, b"")
    }

    /// Moves to the first row whose key is not below `key`.
    pub(super) fn seek(&self, cursor: &mut Cursor, key: &[u8]) -> Result<()> {
        cursor.rows = BlockCursor::default();
        let root = self.root.partition_point(|(last, _)| &**last < key);
        if root == self.root.len() {
            return Ok(());
        }
        self.enter_fences(cursor, root, |entries| BlockCursor::seek(entries, key))?;
        self.enter_rows(cursor, |entries| BlockCursor::seek(entries, key))
    }

    /// Moves to the last row whose key is below `key`; an empty `key` is above all.
    pub(super) fn seek_below(&self, cursor: &mut Cursor, key: &[u8]) -> Result<()> {
        if !key.is_empty() {
            self.seek(cursor, key)?;
            if cursor.row().is_some() {
                return self.previous(cursor);
            }
        }
        cursor.rows = BlockCursor::default();
        let Some(last) = self.root.len().checked_sub(1) else { return Ok(()) };
        self.enter_fences(cursor, last, BlockCursor::last)?;
        self.enter_rows(cursor, BlockCursor::last)
    }

    pub(super) fn next(&self, cursor: &mut Cursor) -> Result<()> {
        if self.step(&mut cursor.rows, BlockCursor::next)? {
            return Ok(());
        }
        if !self.step(&mut cursor.fences, BlockCursor::next)? {
            let next = cursor.fence_block + 1;
            if next == self.root.len() {
                return Ok(());
            }
            self.enter_fences(cursor, next, BlockCursor::first)?;
        }
        self.enter_rows(cursor, BlockCursor::first)
    }

    pub(super) fn previous(&self, cursor: &mut Cursor) -> Result<()> {
        if self.step(&mut cursor.rows, BlockCursor::previous)? {
            return Ok(());
        }
        if !self.step(&mut cursor.fences, BlockCursor::previous)? {
            let Some(previous) = cursor.fence_block.checked_sub(1) else { return Ok(()) };
            self.enter_fences(cursor, previous, BlockCursor::last)?;
        }
        self.enter_rows(cursor, BlockCursor::last)
    }

    fn step(
        &self,
        cursor: &mut BlockCursor,
        step: impl FnOnce(&mut BlockCursor) -> Result<bool, Damage>,
    ) -> Result<bool> {
        step(cursor).map_err(|damage| self.damaged(damage))
    }

    /// Goes into a block of fences, to the fence that `enter` chooses.
    fn enter_fences(
        &self,
        cursor: &mut Cursor,
        number: usize,
        enter: impl FnOnce(Entries) -> Result<BlockCursor, Damage>,
    ) -> Result<()> {
        let entries = self.entries(self.root[number].1, cursor.use_of_cache)?;
        cursor.fences = enter(entries).map_err(|damage| self.damaged(damage))?;
        cursor.fence_block = number;
        Ok(())
    }

    /// Goes into the block of rows that the current fence names, to the row that `enter` chooses.
    fn enter_rows(
        &self,
        cursor: &mut Cursor,
        enter: impl FnOnce(Entries) -> Result<BlockCursor, Damage>,
    ) -> Result<()> {
        cursor.rows = BlockCursor::default();
        let (_, fence) =
            cursor.fences.row().ok_or_else(|| self.damaged("a block of fences ends before its last key"))?;
        let place = BlockPlace::decode(fence).map_err(|damage| self.damaged(damage))?;
        let rows = enter(self.entries(place, cursor.use_of_cache)?).map_err(|damage| self.damaged(damage))?;
        if rows.row().is_none() {
            return Err(self.damaged("a block ends before its last key"));
        }
        cursor.rows = rows;
        Ok(())
    }

    /// The entries of a block, from the cache or proved.
    fn entries(&self, place: BlockPlace, use_of_cache: UseOfCache) -> Result<Entries> {
        match use_of_cache {
            UseOfCache::Keep => self.cached(place.offset, || self.proved(place)),
            UseOfCache::PassBy => self.proved(place),
        }
        .map(Entries)
    }

    /// The entries of a block: those of the last one, or as [`Self::entries`] finds them.
    fn entries_near(&self, place: BlockPlace, last: &mut LastBlock) -> Result<Entries> {
        self.near(place.offset, last, || self.proved(place)).map(Entries)
    }

    fn proved(&self, place: BlockPlace) -> Result<Proved> {
        let block = self.read(place.offset, place.bytes as usize)?;
        Ok(Entries::prove(&block).map_err(|damage| self.damaged(damage))?.0)
    }

    /// The proved bytes at an offset: those of the last block, or as [`Self::cached`] finds them.
    fn near(&self, offset: u64, last: &mut LastBlock, read: impl FnOnce() -> Result<Proved>) -> Result<Proved> {
        let id = (self.number, offset);
        if let Some((_, proved)) = last.as_ref().filter(|(known, _)| *known == id) {
            return Ok(Arc::clone(proved));
        }
        let proved = self.cached(offset, read)?;
        *last = Some((id, Arc::clone(&proved)));
        Ok(proved)
    }

    /// The proved bytes at an offset: from the cache, or as `read` reads them.
    fn cached(&self, offset: u64, read: impl FnOnce() -> Result<Proved>) -> Result<Proved> {
        let id = (self.number, offset);
        if let Some(proved) = self.cache.get(id) {
            return Ok(proved);
        }
        let proved = read()?;
        self.cache.insert(id, Arc::clone(&proved));
        Ok(proved)
    }

    /// The lines of a page of the filter, proved.
    fn filter_page(&self, offset: u64) -> Result<Proved> {
        let page = self.read(offset, filter::PAGE_BYTES)?;
        filter::prove(&page).map(Proved::from).map_err(|damage| self.damaged(damage))
    }

    fn filter_page_offset(&self, page: u32) -> u64 {
        self.filter_offset + u64::from(page) * filter::PAGE_BYTES as u64
    }

    fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        // Before memory is taken for it.
        if offset.checked_add(bytes as u64).is_none_or(|end| end > self.bytes) {
            return Err(self.damaged("a place lies beyond the end of the file"));
        }
        let mut buffer = vec![0; bytes];
        match self.file.read_exact_at(&mut buffer, offset) {
            Ok(()) => Ok(buffer),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.damaged("the file was cut while it was open"))
            }
            Err(source) => Err(io_error("read", &self.path, source)),
        }
    }

    fn damaged(&self, damage: Damage) -> Error {
        Error::Corrupt { table: self.table.to_owned(), reason: format!("{}: {damage}", self.path.display()) }
    }
}

// === impl Cursor ===

impl Cursor {
    pub(super) fn new(use_of_cache: UseOfCache) -> Self {
        Self { use_of_cache, ..Self::default() }
    }

    /// The row the cursor is at; `None` past either end.
    pub(super) fn row(&self) -> Option<(&[u8], Value<'_>)> {
        self.rows.row()
    }
}
