//! Scans. All ranges of a call share at most two iterators, because opening one costs more than a short scan.
//!
//! Invariant: a page is returned only after the iterator reported that it met no damage. An iterator that meets a bad
//! block just ends, as at the end of the table.

use rust_rocksdb::{AsColumnFamilyRef, DBRawIteratorWithThreadMode, Error, ReadOptions};

use super::engine::Db;
use crate::range::{Direction, KeyRange, Page, PageBuilder, PageLimit};
use crate::table::Table;

type Iter<'a> = DBRawIteratorWithThreadMode<'a, Db>;

/// Returns one page of every range.
pub(super) fn scan_many(
    db: &Db,
    family: &impl AsColumnFamilyRef,
    table: Table,
    ranges: &[KeyRange],
    limit: PageLimit,
) -> Result<Vec<Page>, Error> {
    let mut within = None;
    let mut across = None;
    ranges
        .iter()
        .map(|range| {
            let iter = if range.fits_partition(table.partition_bytes) {
                within.get_or_insert_with(|| within_partition(db, family))
            } else {
                across.get_or_insert_with(|| across_partitions(db, family))
            };
            page(iter, range, limit)
        })
        .collect()
}

/// Opens an iterator that asks the filters first and ends with the partition of the key it seeks to.
fn within_partition<'a>(db: &'a Db, family: &impl AsColumnFamilyRef) -> Iter<'a> {
    let mut options = ReadOptions::default();
    options.set_prefix_same_as_start(true);
    db.raw_iterator_cf_opt(family, options)
}

/// Opens an iterator over all keys, whatever their partition.
fn across_partitions<'a>(db: &'a Db, family: &impl AsColumnFamilyRef) -> Iter<'a> {
    let mut options = ReadOptions::default();
    options.set_total_order_seek(true);
    db.raw_iterator_cf_opt(family, options)
}

fn page(iter: &mut Iter<'_>, range: &KeyRange, limit: PageLimit) -> Result<Page, Error> {
    let mut page = PageBuilder::new(range, limit);
    if range.is_empty() {
        return Ok(page.finish());
    }
    match range.direction {
        Direction::Forward => iter.seek(&range.start),
        Direction::Backward => seek_below(iter, &range.end),
    }
    while let Some((key, value)) = iter.item()
        && page.offer(key, value)
    {
        match range.direction {
            Direction::Forward => iter.next(),
            Direction::Backward => iter.prev(),
        }
    }
    iter.status()?;
    Ok(page.finish())
}

/// Seeks to the last key before `end`; an empty `end` means the last key of the table.
fn seek_below(iter: &mut Iter<'_>, end: &[u8]) {
    if end.is_empty() {
        iter.seek_to_last();
        return;
    }
    iter.seek_for_prev(end);
    if iter.key() == Some(end) {
        iter.prev();
    }
}
