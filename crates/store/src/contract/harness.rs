//! Tables, rows and helpers that all cases share.

use std::path::Path;

use crate::batch::Batch;
use crate::error::Result;
use crate::range::{Direction, KeyRange, PageLimit, Row};
use crate::store::Store;
use crate::table::{ArraySpec, Table};

/// Opens the store of one place. Only one store of a place may be open at a time.
pub(crate) type Open = dyn Fn() -> Box<dyn Store>;

/// Opens the store of a folder.
pub(crate) type OpenAt = fn(&Path) -> Result<Box<dyn Store>>;

/// A table whose rows are found by whole keys.
pub(crate) const PLAIN: Table = Table { name: "plain", partition_bytes: 0, compress: false };
/// A table that is scanned inside partitions of four bytes.
pub(crate) const PARTS: Table = Table { name: "parts", partition_bytes: 4, compress: true };
pub(crate) const TABLES: &[Table] = &[PLAIN, PARTS];
pub(crate) const NUMBERS: ArraySpec = ArraySpec { name: "numbers", record_bytes: 8 };

/// A limit that no test reaches.
pub(crate) const WHOLE: PageLimit = PageLimit { rows: usize::MAX, bytes: usize::MAX };

/// The name of a behaviour and its test.
pub(crate) type Case = (&'static str, fn(&Open));

/// Declares functions as cases.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        pub(super) const CASES: &[crate::contract::harness::Case] = &[$((stringify!($case), $case)),*];
    };
}
pub(crate) use cases;

/// Writes rows in one batch.
pub(crate) fn put_all(store: &dyn Store, table: Table, rows: &[Row]) {
    let mut batch = Batch::new();
    for (key, value) in rows {
        batch.put(table, key, value);
    }
    store.write(batch).expect("rows are written");
}

/// Reads all rows of a table in ascending order.
pub(crate) fn all(store: &dyn Store, table: Table) -> Vec<Row> {
    scan(store, table, &KeyRange::prefix(b"", Direction::Forward))
}

/// Reads all rows of a range.
pub(crate) fn scan(store: &dyn Store, table: Table, range: &KeyRange) -> Vec<Row> {
    let mut pages = store.scan_many(table, std::slice::from_ref(range), WHOLE).expect("the table is sound");
    let page = pages.pop().expect("one range gives one page");
    assert_eq!(page.rest, None, "an unlimited page left a rest");
    page.rows
}

/// Reads one row by its key.
pub(crate) fn get(store: &dyn Store, table: Table, key: &[u8]) -> Option<Vec<u8>> {
    let mut values = store.get_many(table, &[key]).expect("the table is sound");
    values.pop().expect("one key gives one answer")
}

/// Returns a row made of text.
pub(crate) fn row(key: &str, value: &str) -> Row {
    (key.into(), value.into())
}
