//! `docs/format.md` describes what the engine writes.

use std::collections::BTreeSet;

use rust_rocksdb::IteratorMode;

use super::*;

const DOCUMENT: &str = include_str!("../../../../../docs/format.md");
const TXIDS: ArraySpec = ArraySpec { name: "txid", record_bytes: 32 };

/// Returns the section "Store".
fn section() -> &'static str {
    let (_, section) = DOCUMENT.split_once("\n## Store\n").expect("the document has the section");
    section.split_once("\n## ").map_or(section, |(section, _)| section)
}

/// Returns the bytes of a fenced example: the pairs of hexadecimal digits that each line begins with.
fn example(fence: &str) -> Vec<u8> {
    let (_, block) = section().split_once(&format!("\n```{fence}\n")).expect("the document has the example");
    let (block, _) = block.split_once("\n```").expect("the example ends");
    let byte = |word: &str| (word.len() == 2).then(|| u8::from_str_radix(word, 16).ok())?;
    block.lines().flat_map(|line| line.split_whitespace().map_while(byte)).collect()
}

#[test]
fn folder_is_as_described() {
    let folder = TempDir::new().unwrap();
    let _store = open(folder.path()).unwrap();
    let found: BTreeSet<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let (table, _) = section().split_once("\n\nA new folder").unwrap();
    let paths = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(found, paths.map(str::to_owned).collect());
    assert_eq!(std::fs::read_to_string(folder.path().join("VERSION")).unwrap(), "1\n");
    assert!(section().contains("the version of this layout, `1`, and a line feed"));
}

#[test]
fn manifest_and_leaf_are_written_as_described() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let array = store.array(TXIDS).unwrap();
    array.write(0, &[0xcd; 32]).unwrap();
    store.publish(b"synced").unwrap();
    array.write(2, &[0xab; 32]).unwrap();
    array.truncate(2).unwrap();
    store.publish(b"with a leaf").unwrap();
    let rows: Vec<_> = store.db.iterator(IteratorMode::Start).map(|row| row.unwrap()).collect();
    let rows: Vec<_> = rows.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert_eq!(rows, [(example("key"), example("leaf")), (b"mark".to_vec(), b"with a leaf".to_vec())]);
    assert!(section().contains("| `mark` | the manifest"));
    drop((array, store));
    let _store = open(folder.path()).unwrap();
    let expected = [[0xcd; 32], [0; 32]].concat();
    assert_eq!(std::fs::read(folder.path().join("arrays/txid")).unwrap(), expected);
}
