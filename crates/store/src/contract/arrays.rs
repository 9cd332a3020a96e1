//! Arrays: records by number.

use std::ops::ControlFlow;

use super::harness::{NUMBERS, Open, cases};
use crate::error::Error;
use crate::store::{Prove, Store};
use crate::table::ArraySpec;

cases![
    array_is_empty_at_first,
    records_are_read_in_the_order_asked,
    runs_are_read_whole,
    visited_runs_equal_read_ones,
    runs_are_visited_in_their_order_until_a_break,
    gaps_become_zeros,
    records_can_be_written_again,
    numbers_past_the_end_are_damage,
    bytes_that_are_not_whole_records_are_refused,
    cut_records_are_gone,
    nothing_is_written_between_a_cut_and_its_publish,
    parts_are_proved_before_they_are_used,
    discarded_records_take_no_space_after_the_next_publish,
    cutting_to_more_than_there_is_is_damage,
    threads_write_disjoint_records,
    all_handles_see_one_array,
    other_record_size_is_refused,
    records_survive_a_restart,
    unpublished_cut_is_kept_or_undone,
];

const NO_RECORDS: [u8; 0] = [];

fn record(number: u64) -> [u8; 8] {
    (number + 1).to_be_bytes()
}

fn records(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(record).collect()
}

fn array_is_empty_at_first(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    assert!(array.is_empty());
    assert_eq!(array.read_run(0, 0).expect("nothing is read"), NO_RECORDS);
    assert_eq!(array.read_many(&[]).expect("nothing is read"), NO_RECORDS);
}

fn records_are_read_in_the_order_asked(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..100)).expect("records are written");
    let numbers = [99, 0, 5, 6, 7, 7, 8, 3, 2, 1];
    assert_eq!(array.read_many(&numbers).expect("all are there"), records(numbers));
}

fn runs_are_read_whole(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..50)).expect("records are written");
    array.write(50, &records(50..100)).expect("records are written");
    assert_eq!(array.len(), 100);
    assert_eq!(array.read_run(0, 100).expect("all are there"), records(0..100));
    assert_eq!(array.read_run(40, 20).expect("all are there"), records(40..60));
    assert_eq!(array.read_run(100, 0).expect("nothing is read"), NO_RECORDS);
}

fn visited_runs_equal_read_ones(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..100)).expect("records are written");
    for (first, count) in [(0, 100), (40, 20), (100, 0), (99, 1)] {
        let mut visited = None;
        array.visit_run(first, count, &mut |bytes| visited = Some(bytes.to_vec())).expect("all are there");
        assert_eq!(visited.expect("the run is visited"), array.read_run(first, count).expect("all are there"));
    }
    let beyond = array.visit_run(99, 2, &mut |_| panic!("no run is visited"));
    assert!(matches!(beyond, Err(Error::Corrupt { .. })), "{beyond:?}");
}

fn runs_are_visited_in_their_order_until_a_break(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..100)).expect("records are written");
    let runs = [(70, 2), (3, 1), (0, 0), (10, 90)];
    for visits in 1..=runs.len() {
        let mut visited = Vec::new();
        let mut visit = |bytes: &[u8]| {
            visited.push(bytes.to_vec());
            if visited.len() == visits { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        array.visit_runs(&runs, &mut visit).expect("all are there");
        let read = |(first, count): &(u64, usize)| array.read_run(*first, *count).expect("all are there");
        assert_eq!(visited, runs[..visits].iter().map(read).collect::<Vec<_>>());
    }
    array.visit_runs(&[], &mut |_| panic!("no run is visited")).expect("nothing is asked for");
    let beyond = array.visit_runs(&[(0, 1), (99, 2)], &mut |_| ControlFlow::Continue(()));
    assert!(matches!(beyond, Err(Error::Corrupt { .. })), "{beyond:?}");
}

fn gaps_become_zeros(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    array.write(3, &records([3])).expect("records are written");
    assert_eq!(array.len(), 4);
    assert_eq!(array.read_run(0, 3).expect("all are there"), [0; 24]);
    array.write(1, &records([1])).expect("records are written");
    assert_eq!(array.len(), 4);
    let whole = array.read_run(0, 4).expect("all are there");
    assert_eq!(whole, [[0; 8], record(1), [0; 8], record(3)].concat());
}

fn records_can_be_written_again(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..10)).expect("records are written");
    array.write(4, &records([70, 71])).expect("records are written");
    array.write(4, &records([70, 71])).expect("records are written");
    let expected = records([0, 1, 2, 3, 70, 71, 6, 7, 8, 9]);
    assert_eq!(array.read_run(0, 10).expect("all are there"), expected);
}

fn numbers_past_the_end_are_damage(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..10)).expect("records are written");
    let damaged = |answer| matches!(answer, Err(Error::Corrupt { .. }));
    assert!(damaged(array.read_many(&[0, 10])));
    assert!(damaged(array.read_many(&[u64::MAX])));
    assert!(damaged(array.read_run(5, 6)));
    assert!(damaged(array.read_run(11, 0)));
    assert!(damaged(array.read_run(u64::MAX, 1)));
    assert!(damaged(array.read_run(1, usize::MAX)));
}

fn bytes_that_are_not_whole_records_are_refused(open: &Open) {
    let store = open();
    let array = store.array(NUMBERS).expect("the array opens");
    assert!(array.write(0, &[1; 12]).is_err());
    assert!(array.is_empty());
    assert!(store.array(ArraySpec { name: "nothing", record_bytes: 0 }).is_err());
}

fn nothing_is_written_between_a_cut_and_its_publish(open: &Open) {
    let store = open();
    let array = store.array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..10)).expect("records are written");
    array.truncate(4).expect("the array is cut");
    assert!(matches!(array.write(4, &records([4])), Err(Error::Engine(_))));
    array.truncate(3).expect("it may be cut again");
    store.publish(b"cut").expect("publishes");
    array.truncate(3).expect("nothing is cut");
    array.write(3, &records([3])).expect("records are written");
    assert_eq!(array.read_run(0, 4).expect("all are there"), records(0..4));
}

fn parts_are_proved_before_they_are_used(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..5000)).expect("records are written");
    let mut visited = Vec::new();
    let mut visit = |bytes: &[u8], prove: Prove<'_>| {
        for number in [0, 700, 3999] {
            prove(8 * number..8 * number + 8)?;
            visited.extend_from_slice(&bytes[8 * number..8 * number + 8]);
        }
        Ok(())
    };
    array.visit_parts(1000, 4000, &mut visit).expect("nothing is damaged");
    assert_eq!(visited, records([1000, 1700, 4999]));
    let refused = array.visit_parts(0, 1, &mut |_, _| Err(Error::Engine("enough".to_owned())));
    assert!(matches!(refused, Err(Error::Engine(_))));
}

fn cut_records_are_gone(open: &Open) {
    let store = open();
    let array = store.array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..10)).expect("records are written");
    array.truncate(10).expect("nothing is cut");
    array.truncate(4).expect("the array is cut");
    assert_eq!(array.len(), 4);
    assert!(array.read_many(&[4]).is_err());
    store.publish(b"cut").expect("publishes");
    array.write(6, &records([6])).expect("records are written");
    let expected = [records(0..4), vec![0; 16], records([6])].concat();
    assert_eq!(array.read_run(0, 7).expect("all are there"), expected);
    array.truncate(0).expect("the array is cut");
    assert!(array.is_empty());
}

fn discarded_records_take_no_space_after_the_next_publish(open: &Open) {
    const PAGE: u64 = 4096 / 8;
    let used = |store: &dyn Store| {
        let sizes = store.sizes().expect("sizes are known");
        sizes.into_iter().find(|(name, _)| name == NUMBERS.name).map_or(0, |(_, bytes)| bytes)
    };
    let store = open();
    let array = store.array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..100 * PAGE)).expect("records are written");
    store.publish(b"one").expect("publishes");
    let before = used(&*store);
    array.discard(10 * PAGE, 80 * PAGE).expect("discards");
    assert_eq!(used(&*store), before, "a reader may still need them");
    store.publish(b"two").expect("publishes");
    assert_eq!(before - used(&*store), 80 * 4096);
    array.discard(100 * PAGE, u64::MAX).expect("nothing is there");
    store.publish(b"three").expect("publishes");
    assert_eq!(array.len(), 100 * PAGE);
    // The space may be used again.
    array.write(20 * PAGE, &records(0..PAGE)).expect("records are written");
    store.publish(b"four").expect("publishes");
    assert_eq!(before - used(&*store), 79 * 4096);
    drop((array, store));
    let array = open().array(NUMBERS).expect("the array opens");
    assert_eq!(array.read_run(0, 10 * 512).expect("these were left"), records(0..10 * PAGE));
    assert_eq!(array.read_run(20 * PAGE, 512).expect("these were written"), records(0..PAGE));
    assert_eq!(array.read_run(90 * PAGE, 10 * 512).expect("these were left"), records(90 * PAGE..100 * PAGE));
}

fn cutting_to_more_than_there_is_is_damage(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    array.write(0, &records(0..3)).expect("records are written");
    assert!(matches!(array.truncate(4), Err(Error::Corrupt { .. })));
    assert_eq!(array.len(), 3);
}

fn threads_write_disjoint_records(open: &Open) {
    let array = open().array(NUMBERS).expect("the array opens");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let array = &array;
            scope.spawn(move || {
                for first in (thread * 10..1000).step_by(40) {
                    array.write(first, &records(first..first + 10)).expect("records are written");
                }
            });
        }
    });
    assert_eq!(array.len(), 1000);
    assert_eq!(array.read_run(0, 1000).expect("all are there"), records(0..1000));
}

fn all_handles_see_one_array(open: &Open) {
    let store = open();
    let writer = store.array(NUMBERS).expect("the array opens");
    let reader = store.array(NUMBERS).expect("the array opens");
    writer.write(0, &records(0..5)).expect("records are written");
    assert_eq!(reader.read_run(0, 5).expect("all are there"), records(0..5));
    let other = store.array(ArraySpec { name: "other", record_bytes: 8 }).expect("it opens");
    assert!(other.is_empty());
}

fn other_record_size_is_refused(open: &Open) {
    let store = open();
    let _array = store.array(NUMBERS).expect("the array opens");
    assert!(store.array(ArraySpec { record_bytes: 4, ..NUMBERS }).is_err());
}

fn records_survive_a_restart(open: &Open) {
    let store = open();
    let array = store.array(NUMBERS).expect("the array opens");
    array.write(2, &records(2..10)).expect("records are written");
    store.publish(b"manifest").expect("the manifest is written");
    array.write(10, &records(10..12)).expect("records are written");
    store.publish(b"later").expect("the manifest is written");
    drop((array, store));
    let array = open().array(NUMBERS).expect("the array opens");
    assert_eq!(array.len(), 12);
    assert_eq!(array.read_run(2, 10).expect("all are there"), records(2..12));
}

fn unpublished_cut_is_kept_or_undone(open: &Open) {
    let store = open();
    let array = store.array(NUMBERS).expect("the array opens");
    // An engine may treat its first publish differently.
    store.publish(b"one").expect("publishes");
    array.write(0, &records(0..10)).expect("records are written");
    store.publish(b"two").expect("publishes");
    array.truncate(4).expect("cuts");
    drop(array);
    drop(store);
    let store = open();
    let array = store.array(NUMBERS).expect("the array opens");
    assert!(array.len() == 4 || array.len() == 10, "{}", array.len());
    assert_eq!(array.read_run(0, 4).expect("these were left"), records(0..4));
    if array.len() == 10 {
        assert_eq!(array.read_run(4, 6).expect("these are back"), records(4..10));
    }
    array.truncate(4).expect("cuts");
    store.publish(b"three").expect("publishes");
    drop(array);
    drop(store);
    assert_eq!(open().array(NUMBERS).expect("the array opens").len(), 4);
}
