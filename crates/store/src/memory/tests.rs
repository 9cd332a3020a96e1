#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::contract::{self, NUMBERS, Open, Operation, PLAIN, agree, all, get, operations, put_all, row};

/// Returns a place whose store is intact after each restart.
fn place() -> Box<Open> {
    let kept = RefCell::new(MemoryStore::new());
    Box::new(move || {
        let store = kept.borrow().reopen();
        kept.replace(store.clone());
        Box::new(store)
    })
}

/// Returns a place whose restarts are power cuts.
fn crashing_place() -> Box<Open> {
    let kept = RefCell::new((MemoryStore::new(), 0));
    Box::new(move || {
        let (last, seed) = kept.borrow().clone();
        let store = last.crash(seed);
        kept.replace((store.clone(), seed + 1));
        Box::new(store)
    })
}

#[test]
fn keeps_the_contract() {
    contract::run(&place);
}

/// Returns a store with published and unpublished rows and records.
fn half_published() -> MemoryStore {
    let store = MemoryStore::new();
    let array = store.array(NUMBERS).unwrap();
    put_all(&store, PLAIN, &[row("a", "old"), row("b", "old")]);
    array.write(0, &[1; 16]).unwrap();
    store.publish(b"one").unwrap();
    put_all(&store, PLAIN, &[row("a", "new"), row("c", "new")]);
    array.write(1, &[2; 24]).unwrap();
    store
}

#[test]
fn crash_keeps_what_was_published_and_loses_any_part_of_the_rest() {
    let store = half_published();
    let mut rows_found = BTreeSet::new();
    let mut lengths_found = BTreeSet::new();
    for seed in 0..200 {
        let found = store.crash(seed);
        assert_eq!(found.manifest().unwrap(), Some(b"one".to_vec()), "seed {seed}");
        assert_eq!(get(&found, PLAIN, b"b"), Some(b"old".to_vec()), "seed {seed}");
        let array = found.array(NUMBERS).unwrap();
        assert_eq!(array.read_run(0, 1).unwrap(), [1; 8], "seed {seed}");
        rows_found.insert((get(&found, PLAIN, b"a"), get(&found, PLAIN, b"c")));
        lengths_found.insert(array.len());
        assert_eq!(all(&found, PLAIN), all(&store.crash(seed), PLAIN), "seed {seed}");
    }
    // Each of two rows is lost or kept; the array has every length between the old end and the new one.
    assert_eq!(rows_found.len(), 4);
    assert_eq!(lengths_found, BTreeSet::from([2, 3, 4]));
}

#[test]
fn crash_right_after_a_publish_loses_nothing() {
    let store = half_published();
    store.clear(PLAIN).unwrap();
    put_all(&store, PLAIN, &[row("d", "last")]);
    store.array(NUMBERS).unwrap().truncate(3).unwrap();
    store.publish(b"two").unwrap();
    for seed in 0..20 {
        let found = store.crash(seed);
        assert_eq!(all(&found, PLAIN), [row("d", "last")]);
        assert_eq!(found.array(NUMBERS).unwrap().len(), 3);
        assert_eq!(found.manifest().unwrap(), Some(b"two".to_vec()));
    }
}

#[test]
fn clears_and_cuts_can_be_lost() {
    let store = half_published();
    store.publish(b"two").unwrap();
    store.clear(PLAIN).unwrap();
    store.array(NUMBERS).unwrap().truncate(1).unwrap();
    let found: BTreeSet<_> = (0..50)
        .map(|seed| store.crash(seed))
        .map(|found| (all(&found, PLAIN).len(), found.array(NUMBERS).unwrap().len()))
        .collect();
    assert_eq!(found, BTreeSet::from([(0, 1), (0, 4), (3, 1), (3, 4)]));
}

#[test]
fn writes_fail_after_the_given_number_and_leave_half() {
    let store = MemoryStore::new();
    let array = store.array(NUMBERS).unwrap();
    store.fail_after(2);
    put_all(&store, PLAIN, &[row("a", "1")]);
    array.write(0, &[1; 8]).unwrap();
    let mut batch = Batch::new();
    batch.put(PLAIN, "b", "2");
    batch.put(PLAIN, "c", "3");
    assert!(store.write(batch).is_err());
    assert!(array.write(1, &[2; 16]).is_err());
    assert!(array.truncate(0).is_err());
    assert!(store.clear(PLAIN).is_err());
    assert!(store.publish(b"manifest").is_err());
    assert_eq!(all(&store, PLAIN), [row("a", "1"), row("b", "2")]);
    assert_eq!(array.read_run(0, 2).unwrap(), [[1; 8], [2; 8]].concat());
    assert_eq!(store.manifest().unwrap(), None);
    put_all(&store.reopen(), PLAIN, &[row("d", "4")]);
}

#[test]
fn failed_publish_may_have_happened_and_then_with_all_before_it() {
    let store = half_published();
    store.fail_after(0);
    assert!(store.publish(b"two").is_err());
    let rows = all(&store, PLAIN);
    let mut manifests = BTreeSet::new();
    for seed in 0..50 {
        let found = store.crash(seed);
        let manifest = found.manifest().unwrap().unwrap();
        if manifest == b"two" {
            assert_eq!(all(&found, PLAIN), rows, "seed {seed}");
            assert_eq!(found.array(NUMBERS).unwrap().len(), 4, "seed {seed}");
        }
        manifests.insert(manifest);
    }
    assert_eq!(manifests, BTreeSet::from([b"one".to_vec(), b"two".to_vec()]));
}

proptest! {
    #[test]
    fn crash_after_every_publish_is_like_no_crash(operations in operations()) {
        // A publish follows each write, so power cuts lose nothing.
        let published: Vec<_> = operations
            .into_iter()
            .flat_map(|operation| [operation, Operation::Publish(b"manifest".to_vec())])
            .collect();
        agree(&*place(), &*crashing_place(), &published);
    }
}
