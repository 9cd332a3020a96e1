//! `docs/format.md` describes what the engine writes.

use std::collections::BTreeSet;

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
    let found: BTreeSet<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let (table, _) = section().split_once("\n\nA new folder").unwrap();
    let paths = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(found, paths.map(str::to_owned).collect());
    assert_eq!(fs::read_to_string(folder.path().join("VERSION")).unwrap(), "3\n");
    assert!(section().contains("the version of this layout, `3`, and a line feed"));
}

#[test]
fn log_state_and_segment_are_written_as_described() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let array = store.array(TXIDS).unwrap();
    array.write(0, &[0xcd; 32]).unwrap();
    store.publish(b"synced").unwrap();
    put_all(&store, PARTS, &[row("aaaa1", "first"), row("aaaa2", "second")]);
    array.write(2, &[0xab; 32]).unwrap();
    store.publish(b"with a leaf").unwrap();
    let log = fs::read(log_path(&store.shared.folder, 1)).unwrap();
    assert_eq!(hex(&log), hex(&[example("checkpoint"), example("synced"), example("rows"), example("leaf")].concat()));
    store.shared.flush_all().unwrap();
    assert_eq!(hex(&fs::read(folder.path().join("STATE")).unwrap()), hex(&example("state")));
    let segments = numbers(&folder.path().join("segments"), "seg").unwrap();
    let segment = fs::read(segment_path(&store.shared.folder, segments[0])).unwrap();
    let [rows, fences, trailer] = ["block", "fences", "trailer"].map(example);
    assert_eq!(hex(&segment[..rows.len()]), hex(&rows));
    assert_eq!(hex(&segment[rows.len()..rows.len() + fences.len()]), hex(&fences));
    assert_eq!(hex(&segment[segment.len() - trailer.len()..]), hex(&trailer));
    drop((array, store));
    let _store = open(folder.path()).unwrap();
    let expected = [[0xcd; 32], [0; 32], [0xab; 32]].concat();
    assert_eq!(fs::read(folder.path().join("arrays/txid")).unwrap(), expected);
}

/// Sixteen bytes a line, so that a difference is seen.
fn hex(bytes: &[u8]) -> Vec<String> {
    let digits = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    bytes.chunks(16).map(digits).collect()
}
