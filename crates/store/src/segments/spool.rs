//! Sorted rows in a file of their own, with the checksums of a segment, for an engine that sends them elsewhere.

use std::path::Path;
use std::sync::Arc;

use super::cache::BlockCache;
use super::segment::{Cursor, Segment, SegmentWriter, UseOfCache};
use crate::error::Result;
use crate::table::Table;

/// A writer of rows in ascending key order.
pub(crate) struct SpoolWriter(SegmentWriter);

impl SpoolWriter {
    pub(crate) fn create(path: &Path, table: Table) -> Result<Self> {
        SegmentWriter::create(path, table).map(Self)
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.push(key, Some(value))
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.0.finish()
    }
}

/// Calls `visit` with every row of a finished file, ascending.
///
/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) when the file is damaged; the errors of `visit`.
pub(crate) fn read(path: &Path, table: Table, mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let segment = Segment::open(path, 0, table.name, &Arc::new(BlockCache::new(0)))?;
    let mut cursor = Cursor::new(UseOfCache::PassBy);
    segment.first(&mut cursor)?;
    while let Some((key, value)) = cursor.row() {
        visit(key, value.unwrap_or_default())?;
        segment.next(&mut cursor)?;
    }
    Ok(())
}
