//! Names and shapes of tables and arrays. The callers own the list; an engine is opened with it.

use crate::Result;
use crate::error::not_whole_records;

/// One table: its name, and what the engine may assume of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Name, also of the column family; lower-case ASCII.
    pub name: &'static str,
    /// How many leading key bytes name the partition that every scan stays inside (for filters).
    /// Zero: rows are found by their whole key, and mostly are there, or scanned as a whole.
    pub partition_bytes: usize,
    /// Whether values repeat enough that compressing them pays.
    pub compress: bool,
}

/// One array: its name and the size of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArraySpec {
    /// Name, also of the file; lower-case ASCII.
    pub name: &'static str,
    /// Bytes of one record.
    pub record_bytes: usize,
}

impl ArraySpec {
    /// How many records these bytes are; an error where they are not whole ones.
    pub(crate) fn count(&self, bytes: &[u8]) -> Result<usize> {
        if bytes.len().is_multiple_of(self.record_bytes) {
            return Ok(bytes.len() / self.record_bytes);
        }
        Err(not_whole_records(self.name, bytes.len(), self.record_bytes))
    }
}
