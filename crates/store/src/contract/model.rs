//! Random sequences of operations, and two stores that must agree on every answer.

use proptest::prelude::*;

use super::harness::{NUMBERS, Open, PARTS, PLAIN, TABLES, all};
use crate::batch::Batch;
use crate::error::Result;
use crate::range::{Direction, KeyRange, PageLimit};
use crate::store::Store;
use crate::table::Table;

/// One call, or a restart.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Write(Vec<Write>),
    /// Sorted and split into two runs before it is loaded.
    Bulk(Table, Vec<(Vec<u8>, Vec<u8>)>),
    Clear(Table),
    Publish(Vec<u8>),
    Restart,
    Get(Table, Vec<Vec<u8>>),
    Scan(Table, Vec<KeyRange>, PageLimit),
    WriteRecords(u64, Vec<u64>),
    ReadRecords(Vec<u64>),
    Cut(u64),
}

/// A row to write, or to delete.
pub(crate) type Write = (Table, Vec<u8>, Option<Vec<u8>>);

/// Generates sequences whose keys and numbers collide often.
pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(), 1..40)
}

fn operation() -> impl Strategy<Value = Operation> {
    let value = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        6 => prop::collection::vec((table(), key(), prop::option::weighted(0.7, value())), 0..30)
            .prop_map(Operation::Write),
        3 => (table(), prop::collection::btree_map(key(), value(), 0..30))
            .prop_map(|(table, rows)| Operation::Bulk(table, rows.into_iter().collect())),
        1 => table().prop_map(Operation::Clear),
        2 => value().prop_map(Operation::Publish),
        1 => Just(Operation::Restart),
        4 => (table(), prop::collection::vec(key(), 0..8)).prop_map(|(t, k)| Operation::Get(t, k)),
        8 => (table(), prop::collection::vec(range(), 1..5), limit())
            .prop_map(|(table, ranges, limit)| Operation::Scan(table, ranges, limit)),
        2 => (0..30_u64, prop::collection::vec(any::<u64>(), 0..10))
            .prop_map(|(first, records)| Operation::WriteRecords(first, records)),
        2 => prop::collection::vec(0..40_u64, 0..8).prop_map(Operation::ReadRecords),
        1 => (0..40_u64).prop_map(Operation::Cut),
    ]
}

fn table() -> impl Strategy<Value = Table> {
    prop::sample::select(TABLES)
}

/// Generates keys of few partitions of four bytes and few suffixes, sometimes shorter than a partition.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let edge = || prop::sample::select(vec![0, 1, 254, 255_u8]);
    prop_oneof![
        9 => (edge(), prop::collection::vec(edge(), 0..3))
            .prop_map(|(last, suffix)| [vec![255, 255, 255, last], suffix].concat()),
        1 => prop::collection::vec(edge(), 0..4),
    ]
}

fn range() -> impl Strategy<Value = KeyRange> {
    let direction = || prop::sample::select(vec![Direction::Forward, Direction::Backward]);
    prop_oneof![
        (key(), key(), direction()).prop_map(|(start, end, direction)| KeyRange { start, end, direction }),
        (key(), direction()).prop_map(|(prefix, direction)| KeyRange::prefix(&prefix, direction)),
    ]
}

fn limit() -> impl Strategy<Value = PageLimit> {
    (0..20_usize, 0..400_usize).prop_map(|(rows, bytes)| PageLimit { rows, bytes })
}

/// Runs the operations on the stores of both places; compares every answer, and all rows at the end.
pub(crate) fn agree(left: &Open, right: &Open, operations: &[Operation]) {
    let (mut one, mut other) = (Some(left()), Some(right()));
    let mut are_records_published = true;
    for operation in operations {
        match operation {
            Operation::WriteRecords(..) | Operation::Cut(_) => are_records_published = false,
            Operation::Publish(_) => are_records_published = true,
            Operation::Restart => {
                if !are_records_published {
                    // Unpublished records may be restored to their published state or not.
                    for store in [&one, &other].map(|store| open_store(store.as_deref())) {
                        store.publish(b"again").expect("nothing is damaged");
                    }
                    are_records_published = true;
                }
                // Only one store of a place may be open.
                (one, other) = (None, None);
                assert!(one.is_none() && other.is_none());
                (one, other) = (Some(left()), Some(right()));
                continue;
            }
            _ => {}
        }
        let (one, other) = (open_store(one.as_deref()), open_store(other.as_deref()));
        assert_eq!(answer(one, operation), answer(other, operation), "{operation:?}");
    }
    for table in [PLAIN, PARTS] {
        assert_eq!(all(open_store(one.as_deref()), table), all(open_store(other.as_deref()), table));
    }
}

fn open_store(store: Option<&dyn Store>) -> &dyn Store {
    store.expect("a restart opens the store again")
}

/// Returns the store's answer as text; every error is the same answer.
fn answer(store: &dyn Store, operation: &Operation) -> Result<String, ()> {
    let answer = match operation {
        Operation::Write(rows) => store.write(batch(rows)).map(|()| String::new()),
        Operation::Bulk(table, rows) => load(store, *table, rows).map(|()| String::new()),
        Operation::Clear(table) => store.clear(*table).map(|()| String::new()),
        Operation::Publish(manifest) => store.publish(manifest).map(|()| String::new()),
        Operation::Restart => unreachable!("the caller handles restarts"),
        Operation::Get(table, keys) => {
            let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
            store.get_many(*table, &keys).map(|values| format!("{values:?}"))
        }
        Operation::Scan(table, ranges, limit) => {
            store.scan_many(*table, ranges, *limit).map(|pages| format!("{pages:?}"))
        }
        Operation::WriteRecords(first, records) => {
            let bytes: Vec<_> = records.iter().flat_map(|record| record.to_be_bytes()).collect();
            store.array(NUMBERS).and_then(|array| array.write(*first, &bytes).map(|()| format!("{}", array.len())))
        }
        Operation::ReadRecords(numbers) => {
            store.array(NUMBERS).and_then(|array| array.read_many(numbers)).map(|records| format!("{records:?}"))
        }
        Operation::Cut(len) => {
            store.array(NUMBERS).and_then(|array| array.truncate(*len).map(|()| format!("{}", array.len())))
        }
    };
    let manifest = store.manifest().map(|manifest| format!("{manifest:?}"));
    match (answer, manifest) {
        (Ok(answer), Ok(manifest)) => Ok(answer + &manifest),
        _ => Err(()),
    }
}

fn batch(rows: &[Write]) -> Batch {
    let mut batch = Batch::new();
    for (table, key, value) in rows {
        match value {
            Some(value) => batch.put(*table, key, value),
            None => batch.delete(*table, key),
        }
    }
    batch
}

fn load(store: &dyn Store, table: Table, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
    let (low, high) = rows.split_at(rows.len() / 2);
    let mut runs = Vec::new();
    for part in [high, low] {
        let mut run = store.bulk_run(table)?;
        for (key, value) in part {
            run.push(key, value)?;
        }
        runs.push(run.finish()?);
    }
    store.bulk_load(runs)
}
