//! Ranges of keys and pages of rows: pure values, and the one place that decides where a page ends.
//!
//! Invariant: a caller that follows `rest` from page to page gets every row of the range exactly once; `rest` is `Some`
//! exactly when a row is left.

/// Keys from `start` (included) to `end` (excluded; empty = to the end of the table).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// First key that belongs to the range.
    pub start: Vec<u8>,
    /// First key beyond it.
    pub end: Vec<u8>,
    /// The order of the scan.
    pub direction: Direction,
}

/// The order in which a scan returns rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// The bounds of one page: a scan stops before it exceeds either, but returns at least one row.
#[derive(Debug, Clone, Copy)]
pub struct PageLimit {
    /// The largest number of rows in a page.
    pub rows: usize,
    /// The largest number of bytes of keys and values in a page.
    pub bytes: usize,
}

/// One row: key and value.
pub type Row = (Vec<u8>, Vec<u8>);

/// The result of one step of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows, in the order of the scan.
    pub rows: Vec<Row>,
    /// The rest of the range, when the limit ended the page.
    pub rest: Option<KeyRange>,
}

// === impl KeyRange ===

impl KeyRange {
    /// Returns the range of every key that begins with `prefix`; an empty prefix gives all keys.
    pub fn prefix(prefix: &[u8], direction: Direction) -> Self {
        Self { start: prefix.to_vec(), end: after_prefix(prefix), direction }
    }

    /// Returns `true` when no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        !self.end.is_empty() && self.start >= self.end
    }

    /// Returns `true` when `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && (self.end.is_empty() || key < self.end.as_slice())
    }

    /// Returns `true` when all keys of the range share their first `bytes` bytes, so that a scan may consult the
    /// partition's Bloom filter.
    ///
    /// The engine asks the filter with the key that the scan seeks to. A backward scan seeks to `end`, which must then
    /// lie inside the partition.
    pub(crate) fn fits_partition(&self, bytes: usize) -> bool {
        if bytes == 0 || self.start.len() < bytes {
            return false;
        }
        let partition = &self.start[..bytes];
        match self.direction {
            Direction::Forward => self.end.starts_with(partition) || self.end == after_prefix(partition),
            Direction::Backward => self.end.starts_with(partition),
        }
    }
}

/// Returns the first key past all keys that begin with `prefix`; empty when there is none.
fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

// === impl PageBuilder ===

/// Collects the rows of one page while an engine walks over a range.
pub(crate) struct PageBuilder<'a> {
    range: &'a KeyRange,
    limit: PageLimit,
    bytes: usize,
    page: Page,
}

impl<'a> PageBuilder<'a> {
    pub(crate) fn new(range: &'a KeyRange, limit: PageLimit) -> Self {
        Self { range, limit, bytes: 0, page: Page::default() }
    }

    /// Adds the next row of the walk; returns `false` when the page ends before it.
    pub(crate) fn offer(&mut self, key: &[u8], value: &[u8]) -> bool {
        if !self.range.contains(key) {
            return false;
        }
        let bytes = self.bytes + key.len() + value.len();
        let full = self.page.rows.len() >= self.limit.rows || bytes > self.limit.bytes;
        if full && let Some((last, _)) = self.page.rows.last() {
            self.page.rest = Some(rest(self.range, last, key));
            return false;
        }
        self.bytes = bytes;
        self.page.rows.push((key.to_vec(), value.to_vec()));
        true
    }

    pub(crate) fn finish(self) -> Page {
        self.page
    }
}

/// Returns the rest of `range` after the row `last`, where `next` is the row that follows it.
fn rest(range: &KeyRange, last: &[u8], next: &[u8]) -> KeyRange {
    match range.direction {
        Direction::Forward => KeyRange { start: next.to_vec(), ..range.clone() },
        Direction::Backward => KeyRange { end: last.to_vec(), ..range.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &[u8], end: &[u8], direction: Direction) -> KeyRange {
        KeyRange { start: start.to_vec(), end: end.to_vec(), direction }
    }

    #[test]
    fn prefix_of_high_bytes_ends_at_the_table() {
        assert_eq!(KeyRange::prefix(&[1, 255], Direction::Forward).end, [2]);
        assert_eq!(KeyRange::prefix(&[255, 255], Direction::Forward).end, Vec::<u8>::new());
        assert!(KeyRange::prefix(&[255, 255], Direction::Forward).contains(&[255, 255, 255]));
        assert!(!KeyRange::prefix(&[1, 255], Direction::Forward).contains(&[2]));
    }

    #[test]
    fn partition_is_recognised_only_when_every_key_shares_it() {
        use Direction::{Backward, Forward};
        assert!(KeyRange::prefix(b"ab", Forward).fits_partition(2));
        assert!(KeyRange::prefix(&[255, 255], Forward).fits_partition(2));
        assert!(range(b"ab1", b"ab7", Forward).fits_partition(2));
        assert!(range(b"ab1", b"ab7", Backward).fits_partition(2));
        assert!(!KeyRange::prefix(b"ab", Backward).fits_partition(2));
        assert!(!range(b"ab", b"b", Forward).fits_partition(2));
        assert!(!range(b"ab", b"", Forward).fits_partition(2));
        assert!(!range(b"a", b"b", Forward).fits_partition(2));
        assert!(!range(b"ab", b"ac", Forward).fits_partition(0));
    }
}
