//! Bulk runs: sorted rows beside the table, then moved in.

use super::harness::{Open, PARTS, PLAIN, all, cases, get, put_all, row, scan};
use crate::range::{Direction, KeyRange, Row};
use crate::store::{FinishedRun, Store};
use crate::table::Table;

cases![
    bulk_rows_appear_with_the_load,
    many_runs_of_several_tables_load_together,
    runs_written_by_several_threads_load_together,
    loads_of_ascending_and_overlapping_parts_are_one_table,
    bulk_rows_replace_older_ones,
    later_writes_replace_bulk_rows,
    keys_that_do_not_ascend_are_refused,
    empty_run_loads_nothing,
    run_that_was_not_loaded_leaves_nothing,
    bulk_rows_survive_a_restart,
];

/// Returns a row with a long value, so that runs reach several files.
fn wide(number: u32) -> Row {
    let value = number.to_le_bytes().repeat(25);
    (number.to_be_bytes().to_vec(), value)
}

fn finished(store: &dyn Store, table: Table, rows: impl Iterator<Item = Row>) -> FinishedRun {
    let mut run = store.bulk_run(table).expect("a run begins");
    for (key, value) in rows {
        run.push(&key, &value).expect("keys ascend");
    }
    run.finish().expect("the run ends")
}

fn bulk_rows_appear_with_the_load(open: &Open) {
    let store = open();
    let run = finished(&*store, PARTS, (0..3000).map(wide));
    assert_eq!(all(&*store, PARTS), []);
    store.bulk_load(vec![run]).expect("the run is taken in");
    let rows: Vec<_> = (0..3000).map(wide).collect();
    assert_eq!(all(&*store, PARTS), rows);
    assert_eq!(get(&*store, PARTS, &1234_u32.to_be_bytes()), Some(wide(1234).1));
    let range = KeyRange::prefix(&2999_u32.to_be_bytes(), Direction::Forward);
    assert_eq!(scan(&*store, PARTS, &range), [wide(2999)]);
}

fn many_runs_of_several_tables_load_together(open: &Open) {
    let store = open();
    let mut runs = Vec::new();
    for part in [3, 0, 2, 1] {
        let numbers = part * 500..(part + 1) * 500;
        runs.push(finished(&*store, PARTS, numbers.clone().map(wide)));
        runs.push(finished(&*store, PLAIN, numbers.map(wide)));
    }
    store.bulk_load(runs).expect("the runs are taken in");
    let rows: Vec<_> = (0..2000).map(wide).collect();
    assert_eq!(all(&*store, PARTS), rows);
    assert_eq!(all(&*store, PLAIN), rows);
    store.bulk_load(Vec::new()).expect("nothing is taken in");
}

fn runs_written_by_several_threads_load_together(open: &Open) {
    let store = open();
    let store = &*store;
    let runs = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|part| scope.spawn(move || finished(store, PLAIN, (0..1000).map(|n| wide(part * 1000 + n)))))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    store.bulk_load(runs).expect("the runs are taken in");
    assert_eq!(all(store, PLAIN), (0..4000).map(wide).collect::<Vec<_>>());
}

fn loads_of_ascending_and_overlapping_parts_are_one_table(open: &Open) {
    let store = open();
    let load = |numbers: std::ops::Range<u32>, part: u32| {
        let rows = numbers.map(|number| (wide(number).0, part.to_le_bytes().to_vec()));
        store.bulk_load(vec![finished(&*store, PLAIN, rows)]).expect("the run is taken in");
    };
    load(0..1000, 1);
    load(1000..2000, 2);
    load(2500..3000, 3);
    // Not above the part before, and over the end of one.
    load(2000..2600, 4);
    load(3000..3100, 5);
    let part = |number: u32| match number {
        0..1000 => 1_u32,
        1000..2000 => 2,
        2000..2600 => 4,
        2600..3000 => 3,
        _ => 5,
    };
    let rows: Vec<_> = (0..3100).map(|number| (wide(number).0, part(number).to_le_bytes().to_vec())).collect();
    assert_eq!(all(&*store, PLAIN), rows);
    store.publish(b"manifest").expect("the manifest is written");
    drop(store);
    assert_eq!(all(&*open(), PLAIN), rows);
}

fn bulk_rows_replace_older_ones(open: &Open) {
    let store = open();
    put_all(&*store, PLAIN, &[row("a", "old"), row("b", "kept")]);
    let run = finished(&*store, PLAIN, [row("a", "new")].into_iter());
    store.bulk_load(vec![run]).expect("the run is taken in");
    assert_eq!(all(&*store, PLAIN), [row("a", "new"), row("b", "kept")]);
}

fn later_writes_replace_bulk_rows(open: &Open) {
    let store = open();
    let run = finished(&*store, PLAIN, [row("a", "old"), row("b", "old")].into_iter());
    store.bulk_load(vec![run]).expect("the run is taken in");
    put_all(&*store, PLAIN, &[row("b", "new")]);
    assert_eq!(all(&*store, PLAIN), [row("a", "old"), row("b", "new")]);
}

fn keys_that_do_not_ascend_are_refused(open: &Open) {
    let store = open();
    for second in [b"b".as_slice(), b"a", b""] {
        let mut run = store.bulk_run(PLAIN).expect("a run begins");
        run.push(b"b", b"").expect("a first key always ascends");
        assert!(run.push(second, b"").is_err(), "{second:?} was taken after b");
    }
    // The same where a file ends between the two keys.
    let mut run = store.bulk_run(PLAIN).expect("a run begins");
    run.push(b"b", &vec![7; 4 << 20]).expect("a first key always ascends");
    assert!(run.push(b"a", b"").is_err());
}

fn empty_run_loads_nothing(open: &Open) {
    let store = open();
    let run = finished(&*store, PLAIN, std::iter::empty());
    store.bulk_load(vec![run]).expect("nothing is taken in");
    assert_eq!(all(&*store, PLAIN), []);
}

fn run_that_was_not_loaded_leaves_nothing(open: &Open) {
    let store = open();
    drop(finished(&*store, PLAIN, (0..100).map(wide)));
    let mut run = store.bulk_run(PLAIN).expect("a run begins");
    run.push(b"key", b"value").expect("a first key always ascends");
    drop(run);
    store.publish(b"manifest").expect("the manifest is written");
    drop(store);
    let store = open();
    assert_eq!(all(&*store, PLAIN), []);
    let run = finished(&*store, PLAIN, (0..100).map(wide));
    store.bulk_load(vec![run]).expect("the run is taken in");
    assert_eq!(all(&*store, PLAIN).len(), 100);
}

fn bulk_rows_survive_a_restart(open: &Open) {
    let store = open();
    let run = finished(&*store, PARTS, (0..3000).map(wide));
    store.bulk_load(vec![run]).expect("the run is taken in");
    store.publish(b"manifest").expect("the manifest is written");
    drop(store);
    assert_eq!(all(&*open(), PARTS), (0..3000).map(wide).collect::<Vec<_>>());
}
