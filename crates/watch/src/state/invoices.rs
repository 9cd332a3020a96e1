//! Tables of invoices:
//!
//! | table | key | value |
//! |---|---|---|
//! | `invoices` | number u64, ascending | the invoice as JSON |
//! | `invoice-ids` | id, 16 bytes | number u64 |
//! | `reserves` | descriptor of a branch | next u32, end u32, generation u32 |
//! | `invoice-file` | `mark` | time of creation and inode of the file that holds the tables |
//! | | `generation` | number of restores that were noticed, u32 |
//!
//! An invoice and the reserve without its index are one transaction, so an index is never given twice. A file that is a
//! copy has another time of creation than the one that it was copied from: then each branch waits for its operator's
//! word, once.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use birdhouse_database::redb::{self, ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};

use crate::error::{Error, Result};
use crate::invoice::{Invoice, InvoiceId, Reserve};
use crate::limits::INVOICES_MAX;

const INVOICES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("invoices");
const IDS: TableDefinition<'_, &[u8; 16], u64> = TableDefinition::new("invoice-ids");
const RESERVES: TableDefinition<'_, &str, (u32, u32, u32)> = TableDefinition::new("reserves");
const FILE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("invoice-file");
const MARK: &str = "mark";
const GENERATION: &str = "generation";

/// The reserve of a branch as it is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StoredReserve {
    pub(crate) reserve: Reserve,
    /// The restore after which its operator has spoken last.
    pub(crate) generation: u32,
}

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(INVOICES)?;
    transaction.open_table(IDS)?;
    transaction.open_table(RESERVES)?;
    transaction.open_table(FILE)?;
    Ok(())
}

/// Compares the file with the mark in it, and marks it anew if it is another one. Returns the number of restores.
pub(crate) fn generation(transaction: &WriteTransaction, path: &Path) -> Result<u32, redb::Error> {
    let mark = mark_of(path);
    let mut table = transaction.open_table(FILE)?;
    let known = table.get(MARK)?.map(|known| known.value().to_vec());
    let generation = table.get(GENERATION)?.and_then(|number| number.value().try_into().ok().map(u32::from_be_bytes));
    let generation = generation.unwrap_or(0) + u32::from(known.as_ref().is_some_and(|known| *known != mark));
    table.insert(MARK, mark.as_slice())?;
    table.insert(GENERATION, generation.to_be_bytes().as_slice())?;
    Ok(generation)
}

/// Marks a copy, which no file has as its own mark.
pub(crate) fn mark_as_copy(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(FILE)?.insert(MARK, b"copy".as_slice())?;
    Ok(())
}

/// Time of creation in nanoseconds, and the inode, which alone may be used again for the next file.
fn mark_of(path: &Path) -> Vec<u8> {
    let Ok(file) = fs::metadata(path) else { return Vec::new() };
    let created = file.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let created = created.map_or(0, |since| since.as_nanos());
    [&created.to_be_bytes()[..], &file.ino().to_be_bytes()].concat()
}

/// Appends an invoice, with the reserve from then on, and deletes the oldest beyond [`INVOICES_MAX`]. Returns its
/// number.
pub(crate) fn append(
    transaction: &WriteTransaction,
    branch: &str,
    stored: StoredReserve,
    invoice: &Invoice,
) -> Result<u64, redb::Error> {
    put_reserve(transaction, branch, stored)?;
    let mut table = transaction.open_table(INVOICES)?;
    let number = table.last()?.map_or(0, |(number, _)| number.value()) + 1;
    table.insert(number, encode(invoice).as_slice())?;
    let mut ids = transaction.open_table(IDS)?;
    ids.insert(invoice.id.as_bytes(), number)?;
    if let Some(oldest) = number.checked_sub(INVOICES_MAX) {
        let removed = table.remove(oldest)?.and_then(|removed| decode(removed.value()).ok());
        if let Some(removed) = removed {
            ids.remove(removed.id.as_bytes())?;
        }
    }
    Ok(number)
}

/// Writes an invoice that has a number.
pub(crate) fn put(transaction: &WriteTransaction, number: u64, invoice: &Invoice) -> Result<(), redb::Error> {
    transaction.open_table(INVOICES)?.insert(number, encode(invoice).as_slice())?;
    Ok(())
}

pub(crate) fn put_reserve(
    transaction: &WriteTransaction,
    branch: &str,
    StoredReserve { reserve, generation }: StoredReserve,
) -> Result<(), redb::Error> {
    transaction.open_table(RESERVES)?.insert(branch, (reserve.next, reserve.end, generation))?;
    Ok(())
}

pub(crate) fn reserve(transaction: &ReadTransaction, branch: &str) -> Result<StoredReserve, redb::Error> {
    let stored = transaction.open_table(RESERVES)?.get(branch)?;
    Ok(stored.map_or_else(StoredReserve::default, |stored| {
        let (next, end, generation) = stored.value();
        StoredReserve { reserve: Reserve { next, end }, generation }
    }))
}

/// Returns the number of an invoice.
pub(crate) fn number(transaction: &ReadTransaction, id: &InvoiceId) -> Result<Option<u64>, redb::Error> {
    Ok(transaction.open_table(IDS)?.get(id.as_bytes())?.map(|number| number.value()))
}

/// Returns an invoice by its number.
pub(crate) fn get(transaction: &ReadTransaction, number: u64) -> Result<Result<Option<Invoice>>, redb::Error> {
    let row = transaction.open_table(INVOICES)?.get(number)?;
    Ok(row.map(|row| decode(row.value())).transpose())
}

/// Returns invoices before a number, the newest first, at most `count`.
pub(crate) fn before(
    transaction: &ReadTransaction,
    end: u64,
    count: usize,
) -> Result<Result<Vec<(u64, Invoice)>>, redb::Error> {
    let table = transaction.open_table(INVOICES)?;
    let mut invoices = Vec::new();
    for row in table.range(..end)?.rev().take(count) {
        let (number, value) = row?;
        match decode(value.value()) {
            Ok(invoice) => invoices.push((number.value(), invoice)),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(invoices))
}

fn encode(invoice: &Invoice) -> Vec<u8> {
    serde_json::to_vec(invoice).expect("its keys are texts")
}

fn decode(bytes: &[u8]) -> Result<Invoice> {
    serde_json::from_slice(bytes).map_err(|_| Error::Damaged { table: "invoices" })
}
