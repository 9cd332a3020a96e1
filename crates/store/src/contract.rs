//! The suite that every engine passes: what callers may rely on, said as tests.
//!
//! An engine gives a function that makes a fresh place and returns how to open it; opening again after
//! dropping the store is a restart.

mod arrays;
mod bulk;
mod model;
mod pages;
mod rows;

pub(crate) use model::{Operation, agree, operations};

use crate::{ArraySpec, Batch, Direction, KeyRange, PageLimit, Row, Store, Table};

/// Opens the store of one place; only one may be open at a time.
pub(crate) type Open = dyn Fn() -> Box<dyn Store>;

/// Found by whole keys.
pub(crate) const PLAIN: Table = Table { name: "plain", partition_bytes: 0, compress: false };
/// Scanned inside partitions of four bytes.
pub(crate) const PARTS: Table = Table { name: "parts", partition_bytes: 4, compress: true };
pub(crate) const TABLES: &[Table] = &[PLAIN, PARTS];
pub(crate) const NUMBERS: ArraySpec = ArraySpec { name: "numbers", record_bytes: 8 };

/// No limit that a test reaches.
pub(crate) const WHOLE: PageLimit = PageLimit { rows: usize::MAX, bytes: usize::MAX };

/// Runs every case, each in a place of its own.
pub(crate) fn run(make: &dyn Fn() -> Box<Open>) {
    for cases in [rows::CASES, pages::CASES, bulk::CASES, arrays::CASES] {
        for (name, case) in cases {
            println!("{name}");
            case(&*make());
        }
    }
}

/// A behaviour and its name.
type Case = (&'static str, fn(&Open));

/// Names functions as cases.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        pub(super) const CASES: &[super::Case] = &[$((stringify!($case), $case)),*];
    };
}
use cases;

/// Writes rows in one batch.
pub(crate) fn put_all(store: &dyn Store, table: Table, rows: &[Row]) {
    let mut batch = Batch::new();
    for (key, value) in rows {
        batch.put(table, key, value);
    }
    store.write(batch).expect("rows are written");
}

/// All rows of a table, ascending.
pub(crate) fn all(store: &dyn Store, table: Table) -> Vec<Row> {
    scan(store, table, &KeyRange::prefix(b"", Direction::Forward))
}

/// All rows of a range.
pub(crate) fn scan(store: &dyn Store, table: Table, range: &KeyRange) -> Vec<Row> {
    let mut pages = store.scan_many(table, std::slice::from_ref(range), WHOLE).expect("the table is sound");
    let page = pages.pop().expect("one range gives one page");
    assert_eq!(page.rest, None, "an unlimited page left a rest");
    page.rows
}

/// One row, by its key.
pub(crate) fn get(store: &dyn Store, table: Table, key: &[u8]) -> Option<Vec<u8>> {
    let mut values = store.get_many(table, &[key]).expect("the table is sound");
    values.pop().expect("one key gives one answer")
}

/// A row made of text.
pub(crate) fn row(key: &str, value: &str) -> Row {
    (key.into(), value.into())
}
