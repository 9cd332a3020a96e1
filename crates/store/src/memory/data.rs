//! The contents of a store in memory: rows of tables, bytes of arrays, the manifest.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::array::extents::Extents;
use crate::error::{Result, past_end};

/// The rows of one table.
pub(super) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Everything that a store holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Data {
    pub(super) tables: BTreeMap<&'static str, Rows>,
    pub(super) arrays: BTreeMap<&'static str, Records>,
    pub(super) manifest: Option<Vec<u8>>,
}

/// The contents of one array; always whole records.
#[derive(Debug, Clone)]
pub(super) struct Records {
    pub(super) record_bytes: usize,
    pub(super) bytes: Vec<u8>,
    /// Ranges of bytes whose space was freed.
    freed: Extents,
}

// === impl Data ===

impl Data {
    /// Writes or deletes a row and returns its previous value.
    pub(super) fn set_row(&mut self, table: &'static str, key: Vec<u8>, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let rows = self.tables.entry(table).or_default();
        match value {
            Some(value) => rows.insert(key, value),
            None => rows.remove(&key),
        }
    }
}

// === impl Records ===

impl Records {
    pub(super) fn new(record_bytes: usize) -> Self {
        Self { record_bytes, bytes: Vec::new(), freed: Extents::default() }
    }

    pub(super) fn len(&self) -> u64 {
        (self.bytes.len() / self.record_bytes) as u64
    }

    /// Writes `bytes` from byte `at` on; a gap becomes zeros.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
        self.freed.remove(at as u64..end as u64);
    }

    /// Frees the space of a range of bytes, which become zeros as in a hole of a file.
    pub(super) fn free(&mut self, range: Range<usize>) {
        let range = range.start.min(self.bytes.len())..range.end.min(self.bytes.len());
        self.bytes[range.clone()].fill(0);
        self.freed.insert(range.start as u64..range.end as u64);
    }

    /// Returns the bytes that take space.
    pub(super) fn used_bytes(&self) -> u64 {
        let len = self.bytes.len() as u64;
        len - self.freed.within(0..len).map(|range| range.end - range.start).sum::<u64>()
    }

    /// Returns `count` records from number `first` on.
    pub(super) fn run(&self, name: &str, first: u64, count: usize) -> Result<&[u8]> {
        let len = self.len();
        if first.checked_add(count as u64).is_none_or(|end| end > len) {
            return Err(past_end(name, first.max(len), len));
        }
        let at = position(first, self.record_bytes);
        Ok(&self.bytes[at..at + count * self.record_bytes])
    }
}

/// Returns the offset in bytes of record `number`.
pub(super) fn position(number: u64, record_bytes: usize) -> usize {
    usize::try_from(number).expect("a number in memory fits") * record_bytes
}
