//! Names and shapes of tables and arrays. The caller owns the list and opens an engine with it.

use crate::error::{Result, not_whole_records};

/// One table: its name, and the properties of its keys and values that an engine may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Name of the table and of its column family; lower-case ASCII.
    pub name: &'static str,
    /// Number of leading key bytes that name the partition. Every scan stays inside one partition, so filters are built
    /// on it. Zero: readers look rows up by whole keys, which mostly exist, or scan the whole table.
    pub partition_bytes: usize,
    /// `true` when values repeat enough that compression pays.
    pub compress: bool,
}

/// One array: its name and the size of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArraySpec {
    /// Name of the array and of its file; lower-case ASCII.
    pub name: &'static str,
    /// Bytes of one record.
    pub record_bytes: usize,
}

impl ArraySpec {
    /// Returns the number of records in `bytes`.
    ///
    /// # Errors
    /// [`Error::Engine`](crate::Error::Engine) when `bytes` are not whole records.
    pub(crate) fn count(&self, bytes: &[u8]) -> Result<usize> {
        if bytes.len().is_multiple_of(self.record_bytes) {
            return Ok(bytes.len() / self.record_bytes);
        }
        Err(not_whole_records(self.name, bytes.len(), self.record_bytes))
    }
}
