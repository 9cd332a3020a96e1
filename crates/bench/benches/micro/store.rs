//! The embedded engine: a row of a large table, and the rows of one partition, in the shapes of `chain`'s tables.

use std::hint::black_box;

use birdhouse_store::{Direction, KeyRange, PageLimit, SegmentOptions, SegmentStore, Store, Table};
use criterion::Criterion;

/// As a pack's buckets: a short key, some hundred bytes.
const BUCKETS: Table = Table { name: "buckets", partition_bytes: 0, compress: false };
const BUCKET_ROWS: u32 = 300_000;
const BUCKET_BYTES: usize = 400;
/// As a delta's rows: the first bytes of a key are a script's, the others a txnum.
const RECENT: Table = Table { name: "recent", partition_bytes: 8, compress: false };
const RECENT_ROWS: u64 = 600_000;
/// A step that visits every number below a count that it shares no factor with, in no order.
const STRIDE: u64 = 7_368_787;

pub(crate) fn benches(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = SegmentStore::open(folder.path(), &[BUCKETS, RECENT], SegmentOptions::default()).expect("a new store");
    let mut buckets = store.bulk_run(BUCKETS).expect("the table is known");
    for bucket in 0..BUCKET_ROWS {
        let byte = bucket.to_le_bytes()[0];
        buckets.push(&bucket.to_be_bytes()[1..], &[byte; BUCKET_BYTES]).expect("keys ascend");
    }
    let mut recent = store.bulk_run(RECENT).expect("the table is known");
    for row in 0..RECENT_ROWS {
        recent.push(&recent_key(row), &[7; 20]).expect("keys ascend");
    }
    let runs = vec![buckets.finish().expect("written"), recent.finish().expect("written")];
    store.bulk_load(runs).expect("the runs fit");

    let mut group = criterion.benchmark_group("segments");
    let mut at = 0;
    group.bench_function(format!("lookup among {BUCKET_ROWS} rows"), |bencher| {
        bencher.iter(|| {
            at = (at + STRIDE) % u64::from(BUCKET_ROWS);
            store.get_many(BUCKETS, black_box(&[&at.to_be_bytes()[5..]]))
        });
    });
    group.bench_function(format!("scan of a partition among {RECENT_ROWS} rows"), |bencher| {
        bencher.iter(|| {
            at = (at + STRIDE) % RECENT_ROWS;
            let range = KeyRange::prefix(&recent_key(at)[..8], Direction::Forward);
            store.scan_many(RECENT, black_box(&[range]), PageLimit { rows: 100, bytes: 1 << 16 })
        });
    });
    group.finish();
}

/// Two rows a partition.
fn recent_key(row: u64) -> [u8; 13] {
    let mut key = [0; 13];
    // Partitions are spread over all keys, as hashes are.
    key[..8].copy_from_slice(&((row / 2) * (u64::MAX / RECENT_ROWS)).to_be_bytes());
    key[8..].copy_from_slice(&row.to_be_bytes()[3..]);
    key
}
