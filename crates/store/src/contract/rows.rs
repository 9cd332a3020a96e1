//! Single rows: reading, writing, deleting, publishing, clearing, sizes.

use super::harness::{NUMBERS, Open, PARTS, PLAIN, all, cases, get, put_all, row};
use crate::batch::Batch;

cases![
    answers_stand_in_the_order_of_keys,
    rows_are_visible_before_the_publish,
    last_operation_on_a_key_holds,
    writing_twice_changes_nothing,
    keys_compare_as_unsigned_bytes,
    tables_are_apart,
    there_is_no_manifest_at_first,
    published_rows_and_manifest_survive_a_restart,
    clear_empties_one_table_for_good,
    sizes_name_every_table_and_array,
];

fn answers_stand_in_the_order_of_keys(open: &Open) {
    let store = open();
    for table in [PLAIN, PARTS] {
        put_all(&*store, table, &[row("aaaa1", "1"), row("bbbb2", "2"), row("cccc3", "")]);
        let keys: [&[u8]; 6] = [b"cccc3", b"none0", b"aaaa1", b"aaaa1", b"aaaa0", b"bbbb2"];
        let values = store.get_many(table, &keys).expect("the table is sound");
        let expected = [Some(vec![]), None, Some(b"1".to_vec()), Some(b"1".to_vec()), None, Some(b"2".to_vec())];
        assert_eq!(values, expected);
        assert_eq!(store.get_many(table, &[]).expect("nothing is read"), Vec::<Option<_>>::new());
    }
}

fn rows_are_visible_before_the_publish(open: &Open) {
    let store = open();
    put_all(&*store, PLAIN, &[row("key", "value")]);
    assert_eq!(get(&*store, PLAIN, b"key"), Some(b"value".to_vec()));
    assert_eq!(store.manifest().expect("the manifest is sound"), None);
}

fn last_operation_on_a_key_holds(open: &Open) {
    let store = open();
    let mut batch = Batch::new();
    batch.put(PLAIN, "twice", "first");
    batch.put(PLAIN, "twice", "second");
    batch.put(PLAIN, "gone", "value");
    batch.delete(PLAIN, "gone");
    batch.delete(PLAIN, "back");
    batch.put(PLAIN, "back", "value");
    batch.delete(PLAIN, "never was");
    store.write(batch).expect("rows are written");
    store.write(Batch::new()).expect("nothing is written");
    assert_eq!(all(&*store, PLAIN), [row("back", "value"), row("twice", "second")]);
}

fn writing_twice_changes_nothing(open: &Open) {
    let store = open();
    let rows = [row("aaaa1", "1"), row("aaaa2", "2")];
    put_all(&*store, PARTS, &rows);
    put_all(&*store, PARTS, &rows);
    assert_eq!(all(&*store, PARTS), rows);
}

fn keys_compare_as_unsigned_bytes(open: &Open) {
    let store = open();
    let keys: [&[u8]; 7] = [&[], &[0], &[0, 0], &[0, 255], &[127, 255], &[128], &[255, 255, 255, 255, 255]];
    for table in [PLAIN, PARTS] {
        let rows: Vec<_> = keys.iter().rev().map(|key| (key.to_vec(), vec![1])).collect();
        put_all(&*store, table, &rows);
        let found: Vec<_> = all(&*store, table).into_iter().map(|(key, _)| key).collect();
        assert_eq!(found, keys);
    }
}

fn tables_are_apart(open: &Open) {
    let store = open();
    put_all(&*store, PLAIN, &[row("aaaa1", "plain")]);
    put_all(&*store, PARTS, &[row("aaaa1", "parts")]);
    assert_eq!(get(&*store, PLAIN, b"aaaa1"), Some(b"plain".to_vec()));
    assert_eq!(get(&*store, PARTS, b"aaaa1"), Some(b"parts".to_vec()));
}

fn there_is_no_manifest_at_first(open: &Open) {
    let store = open();
    assert_eq!(store.manifest().expect("the manifest is sound"), None);
    store.publish(b"").expect("the manifest is written");
    assert_eq!(store.manifest().expect("the manifest is sound"), Some(vec![]));
}

fn published_rows_and_manifest_survive_a_restart(open: &Open) {
    let store = open();
    put_all(&*store, PLAIN, &[row("key", "1")]);
    store.publish(b"one").expect("the manifest is written");
    put_all(&*store, PLAIN, &[row("key", "2")]);
    store.publish(b"two").expect("the manifest is written");
    assert_eq!(store.manifest().expect("the manifest is sound"), Some(b"two".to_vec()));
    drop(store);
    let store = open();
    assert_eq!(store.manifest().expect("the manifest is sound"), Some(b"two".to_vec()));
    assert_eq!(all(&*store, PLAIN), [row("key", "2")]);
}

fn clear_empties_one_table_for_good(open: &Open) {
    let store = open();
    put_all(&*store, PLAIN, &[row("key", "kept")]);
    put_all(&*store, PARTS, &[row("aaaa1", "old")]);
    store.clear(PARTS).expect("the table is emptied");
    assert_eq!(all(&*store, PARTS), []);
    put_all(&*store, PARTS, &[row("aaaa2", "new")]);
    store.publish(b"manifest").expect("the manifest is written");
    drop(store);
    let store = open();
    assert_eq!(all(&*store, PARTS), [row("aaaa2", "new")]);
    assert_eq!(all(&*store, PLAIN), [row("key", "kept")]);
}

fn sizes_name_every_table_and_array(open: &Open) {
    let store = open();
    for table in [PLAIN, PARTS] {
        let mut run = store.bulk_run(table).expect("a run begins");
        for number in 0..2000_u32 {
            run.push(&number.to_be_bytes(), &[7; 100]).expect("keys ascend");
        }
        store.bulk_load(vec![run.finish().expect("the run ends")]).expect("the run is taken in");
    }
    let array = store.array(NUMBERS).expect("the array opens");
    array.write(0, &vec![7; 80_000]).expect("records are written");
    store.publish(b"manifest").expect("the manifest is written");
    let sizes = store.sizes().expect("sizes are known");
    let bytes = |name: &str| sizes.iter().find(|(known, _)| known == name).map(|(_, size)| *size);
    assert!(bytes("plain") > Some(200_000), "{sizes:?}");
    assert!(bytes("parts") > Some(0), "{sizes:?}");
    assert!(bytes("numbers") >= Some(80_000), "{sizes:?}");
    assert_eq!(sizes.len(), 3, "{sizes:?}");
}
