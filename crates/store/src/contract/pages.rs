//! Scans: ranges, directions, limits and rests.

use super::harness::{Open, PARTS, PLAIN, WHOLE, cases, put_all, row, scan};
use crate::range::{Direction, KeyRange, PageLimit, Row};
use crate::store::Store;
use crate::table::Table;

cases![
    every_range_gives_its_rows_in_both_directions,
    prefixes_find_their_partition_only,
    many_ranges_answer_in_order,
    pages_join_to_the_whole_range_under_every_limit,
    a_page_holds_one_row_whatever_the_limit,
    rest_is_there_only_when_a_row_is_left,
];

fn range(start: &[u8], end: &[u8], direction: Direction) -> KeyRange {
    KeyRange { start: start.to_vec(), end: end.to_vec(), direction }
}

/// Writes rows of two partitions, with an absent one between them; the second is the last of all keys.
fn fill(store: &dyn Store, table: Table) -> Vec<Row> {
    let mut rows = Vec::new();
    for partition in [[0, 0, 0, 1], [0, 0, 0, 3], [255; 4]] {
        for suffix in [&[][..], &[0], &[0, 0], &[9], &[255], &[255, 255]] {
            let key = [&partition[..], suffix].concat();
            rows.push((key.clone(), key));
        }
    }
    put_all(store, table, &rows);
    rows
}

/// Returns the rows of the range by a naive filter.
fn expected(rows: &[Row], range: &KeyRange) -> Vec<Row> {
    let mut rows: Vec<_> = rows.iter().filter(|(key, _)| range.contains(key)).cloned().collect();
    if range.direction == Direction::Backward {
        rows.reverse();
    }
    rows
}

fn every_range_gives_its_rows_in_both_directions(open: &Open) {
    let store = open();
    for table in [PLAIN, PARTS] {
        let rows = fill(&*store, table);
        let mut edges: Vec<Vec<u8>> = rows.iter().map(|(key, _)| key.clone()).collect();
        edges.extend([vec![], vec![0], vec![0, 0, 0, 2], vec![0, 0, 0, 2, 7], vec![0, 0, 0, 4]]);
        for start in &edges {
            for end in &edges {
                for direction in [Direction::Forward, Direction::Backward] {
                    let range = range(start, end, direction);
                    assert_eq!(scan(&*store, table, &range), expected(&rows, &range), "{range:?}");
                }
            }
        }
    }
}

fn prefixes_find_their_partition_only(open: &Open) {
    let store = open();
    let rows = fill(&*store, PARTS);
    for direction in [Direction::Forward, Direction::Backward] {
        for prefix in [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 3], [255; 4]] {
            let range = KeyRange::prefix(&prefix, direction);
            let found = scan(&*store, PARTS, &range);
            assert_eq!(found, expected(&rows, &range));
            assert_eq!(found.len(), if matches!(prefix[3], 0 | 2) { 0 } else { 6 });
        }
    }
}

fn many_ranges_answer_in_order(open: &Open) {
    let store = open();
    let rows = fill(&*store, PARTS);
    let ranges = [
        KeyRange::prefix(&[255; 4], Direction::Backward),
        KeyRange::prefix(&[0, 0, 0, 2], Direction::Forward),
        KeyRange::prefix(&[0, 0, 0, 1], Direction::Forward),
        range(&[9], &[1], Direction::Forward),
        range(&[], &[], Direction::Backward),
        KeyRange::prefix(&[0, 0, 0, 1], Direction::Forward),
    ];
    let pages = store.scan_many(PARTS, &ranges, WHOLE).expect("the table is sound");
    assert_eq!(pages.len(), ranges.len());
    for (page, range) in pages.iter().zip(&ranges) {
        assert_eq!(page.rows, expected(&rows, range), "{range:?}");
    }
}

fn pages_join_to_the_whole_range_under_every_limit(open: &Open) {
    let store = open();
    for table in [PLAIN, PARTS] {
        let rows = fill(&*store, table);
        let in_partition = |direction| KeyRange::prefix(&[0, 0, 0, 3], direction);
        for limit in [(1, 1000), (2, 1000), (5, 1000), (6, 1000), (7, 1000), (100, 1), (100, 25)] {
            let limit = PageLimit { rows: limit.0, bytes: limit.1 };
            for direction in [Direction::Forward, Direction::Backward] {
                for range in [range(&[], &[], direction), in_partition(direction)] {
                    let joined = join_pages(&*store, table, &range, limit);
                    assert_eq!(joined, expected(&rows, &range), "{range:?} {limit:?}");
                }
            }
        }
    }
}

/// Follows `rest` to the end, and holds each page to its limit.
fn join_pages(store: &dyn Store, table: Table, whole: &KeyRange, limit: PageLimit) -> Vec<Row> {
    let mut joined = Vec::new();
    let mut rest = Some(whole.clone());
    while let Some(range) = rest {
        let pages = store.scan_many(table, &[range], limit).expect("the table is sound");
        let page = pages.into_iter().next().expect("one range gives one page");
        let bytes: usize = page.rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(page.rows.len() <= limit.rows, "{limit:?}");
        assert!(bytes <= limit.bytes || page.rows.len() == 1, "{limit:?}");
        assert!(page.rest.is_none() || !page.rows.is_empty(), "a page without progress");
        joined.extend(page.rows);
        rest = page.rest;
    }
    joined
}

fn a_page_holds_one_row_whatever_the_limit(open: &Open) {
    let store = open();
    put_all(&*store, PLAIN, &[row("a", "long value"), row("b", "")]);
    let range = range(&[], &[], Direction::Forward);
    let limit = PageLimit { rows: 0, bytes: 0 };
    let pages = store.scan_many(PLAIN, &[range], limit).expect("the table is sound");
    assert_eq!(pages[0].rows, [row("a", "long value")]);
    assert!(pages[0].rest.is_some());
}

fn rest_is_there_only_when_a_row_is_left(open: &Open) {
    let store = open();
    let rows = fill(&*store, PARTS);
    for direction in [Direction::Forward, Direction::Backward] {
        for prefix in [[0, 0, 0, 1], [0, 0, 0, 3]] {
            let range = KeyRange::prefix(&prefix, direction);
            for (limit, left) in [(5, true), (6, false), (7, false)] {
                let limit = PageLimit { rows: limit, bytes: 1000 };
                let pages = store.scan_many(PARTS, std::slice::from_ref(&range), limit).expect("the table is sound");
                assert_eq!(pages[0].rest.is_some(), left, "{range:?} {limit:?}");
                assert_eq!(pages[0].rows, expected(&rows, &range)[..limit.rows.min(6)]);
            }
        }
    }
}
