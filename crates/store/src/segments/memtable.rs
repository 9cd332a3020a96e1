//! The memtable: rows that are in the log and in no segment yet, of all tables, in order.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;
use std::ops::Bound;

use super::block::Value;
use super::log::TableNumber;
use crate::range::{Direction, KeyRange, PageLimit};

/// Memory of a row beside its key and value, an estimate: two allocations and its part of a node of the tree.
const ROW_OVERHEAD_BYTES: usize = 96;

/// `None` of a deleted row.
type StoredValue = Option<Box<[u8]>>;
type Rows = BTreeMap<Box<[u8]>, StoredValue>;

/// Rows of all tables.
#[derive(Debug, Default)]
pub(super) struct Memtable {
    tables: Vec<Rows>,
    bytes: usize,
}

/// A copied row.
pub(super) type OwnedRow = (Box<[u8]>, StoredValue);

impl Memtable {
    pub(super) fn put(&mut self, table: TableNumber, key: &[u8], value: Value<'_>) {
        let table = usize::from(table);
        if self.tables.len() <= table {
            self.tables.resize_with(table + 1, Rows::default);
        }
        self.bytes += ROW_OVERHEAD_BYTES + key.len() + value.map_or(0, <[u8]>::len);
        self.tables[table].insert(key.into(), value.map(Into::into));
    }

    /// The row of a key: its value, or `None` where it was deleted.
    pub(super) fn get(&self, table: TableNumber, key: &[u8]) -> Option<Value<'_>> {
        self.rows(table)?.get(key).map(Option::as_deref)
    }

    /// About how much memory the rows take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tables.iter().all(BTreeMap::is_empty)
    }

    /// All rows of a table, ascending.
    pub(super) fn rows(&self, table: TableNumber) -> Option<&Rows> {
        self.tables.get(usize::from(table))
    }

    fn range<'a>(
        &'a self,
        table: TableNumber,
        range: &'a KeyRange,
    ) -> Option<btree_map::Range<'a, Box<[u8]>, StoredValue>> {
        let end = if range.end.is_empty() { Bound::Unbounded } else { Bound::Excluded(range.end.as_slice()) };
        let rows = self.rows(table).filter(|_| !range.is_empty())?;
        Some(rows.range::<[u8], _>((Bound::Included(range.start.as_slice()), end)))
    }
}

/// Copies the first rows of a range out of several memtables, the newest first, in the order of the scan: as many that
/// are not deleted as a page of `limit` takes and one more, and the deleted ones among them.
pub(super) fn copy(memtables: &[&Memtable], table: TableNumber, range: &KeyRange, limit: PageLimit) -> Vec<OwnedRow> {
    let ranges = memtables.iter().filter_map(|memtable| memtable.range(table, range));
    match range.direction {
        Direction::Forward => copy_merged(ranges.map(Iterator::peekable).collect(), limit, Ordering::Less),
        Direction::Backward => {
            copy_merged(ranges.map(|rows| rows.rev().peekable()).collect(), limit, Ordering::Greater)
        }
    }
}

fn copy_merged<'a, I>(mut sources: Vec<Peekable<I>>, limit: PageLimit, before: Ordering) -> Vec<OwnedRow>
where
    I: Iterator<Item = (&'a Box<[u8]>, &'a StoredValue)>,
{
    let (mut copied, mut rows, mut bytes) = (Vec::new(), 0, 0);
    while rows <= limit.rows.max(1) && (rows <= 1 || bytes <= limit.bytes) {
        let keys = sources.iter_mut().map(|source| source.peek().map(|(key, _)| *key));
        let Some(next) = keys.flatten().reduce(|best, key| if key.cmp(best) == before { key } else { best }) else {
            break;
        };
        let mut newest = None;
        for source in &mut sources {
            if let Some((_, value)) = source.next_if(|(key, _)| *key == next) {
                newest.get_or_insert(value);
            }
        }
        let value = newest.expect("the key is that of a source").clone();
        if let Some(value) = &value {
            rows += 1;
            bytes += next.len() + value.len();
        }
        copied.push((next.clone(), value));
    }
    copied
}
