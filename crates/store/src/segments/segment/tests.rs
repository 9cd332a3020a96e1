//! Tests of one segment.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use tempfile::TempDir;

use super::*;

const TABLE: Table = Table { name: "rows", partition_bytes: 4, compress: true };

type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn rows(count: u32) -> Rows {
    (0..count)
        .map(|number| {
            let value = number.to_le_bytes().repeat(1 + number as usize % 40);
            ((2 * number).to_be_bytes().to_vec(), (!number.is_multiple_of(13)).then_some(value))
        })
        .collect()
}

fn open(path: &Path) -> Result<Segment> {
    Segment::open(path, 1, TABLE.name, &Arc::new(BlockCache::new(1 << 20)))
}

fn written(folder: &TempDir, rows: &Rows) -> PathBuf {
    let path = folder.path().join("segment");
    let mut writer = SegmentWriter::create(&path, TABLE).unwrap();
    for (key, value) in rows {
        writer.push(key, value.as_deref()).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn walk(segment: &Segment, cursor: &mut Cursor, step: impl Fn(&Segment, &mut Cursor) -> Result<()>) -> Vec<u32> {
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.row() {
        keys.push(u32::from_be_bytes(key.try_into().unwrap()));
        step(segment, cursor).unwrap();
    }
    keys
}

#[test]
fn rows_are_found_by_key_and_walked_both_ways_from_anywhere() {
    for count in [0, 1, 50, 20_000_u32] {
        let folder = TempDir::new().unwrap();
        let rows = rows(count);
        let segment = open(&written(&folder, &rows)).unwrap();
        assert!(segment.verify(&mut drop).unwrap().is_continue());
        for key in (0..2 * count + 3).step_by(7) {
            let key = key.to_be_bytes();
            assert_eq!(segment.get(&key, &mut LastBlocks::default()).unwrap(), rows.get(key.as_slice()).cloned());
        }
        let all: Vec<u32> = (0..count).map(|number| 2 * number).collect();
        for start in [0, 1, count, 2 * count] {
            let mut cursor = Cursor::default();
            segment.seek(&mut cursor, &start.to_be_bytes()).unwrap();
            let above: Vec<u32> = all.iter().copied().filter(|key| *key >= start).collect();
            assert_eq!(walk(&segment, &mut cursor, Segment::next), above);
            segment.seek_below(&mut cursor, &start.to_be_bytes()).unwrap();
            let below: Vec<u32> = all.iter().copied().rev().filter(|key| *key < start).collect();
            assert_eq!(walk(&segment, &mut cursor, Segment::previous), below);
        }
        let mut cursor = Cursor::default();
        segment.seek_below(&mut cursor, b"").unwrap();
        assert_eq!(walk(&segment, &mut cursor, Segment::previous).len(), all.len());
    }
}

#[test]
fn every_flipped_bit_is_an_error_or_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let rows = rows(700);
    let path = written(&folder, &rows);
    let whole = std::fs::read(&path).unwrap();
    for place in (0..whole.len()).step_by(11) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        std::fs::write(&path, &bytes).unwrap();
        let Ok(segment) = open(&path) else { continue };
        assert!(segment.verify(&mut drop).is_err(), "byte {place}");
        for (key, value) in rows.iter().step_by(29) {
            if let Ok(found) = segment.get(key, &mut LastBlocks::default()) {
                assert_eq!(found.as_ref(), Some(value), "byte {place}");
            }
        }
    }
    for bytes in [0, 10, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..bytes]).unwrap();
        assert!(open(&path).is_err(), "{bytes} bytes");
    }
}
