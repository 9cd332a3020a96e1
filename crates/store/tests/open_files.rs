//! A process that has used up its open files. A program of its own: the limit is the process's.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::File;
use std::os::fd::AsRawFd as _;

use birdhouse_store::{Batch, SegmentOptions, SegmentStore, Store as _, Table};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

const TABLE: Table = Table { name: "rows", partition_bytes: 0, compress: false };

/// The log that could not be begun has the publish before, and is read last.
#[test]
fn a_publish_after_a_log_that_could_not_be_begun_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let options = SegmentOptions { memtable_bytes: 1_000, ..SegmentOptions::default() };
    let store = SegmentStore::open(folder.path(), &[TABLE], options.clone()).unwrap();
    store.publish(b"one").unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let free = File::open("/dev/null").unwrap().as_raw_fd();
    // One more file: the new log, and not its folder.
    setrlimit(Resource::RLIMIT_NOFILE, u64::try_from(free).unwrap() + 1, hard).unwrap();
    let mut batch = Batch::default();
    batch.put(TABLE, b"key", [7; 2_000]);
    let failed = store.write(batch);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    assert!(failed.unwrap_err().to_string().contains("Too many open files"));
    store.publish(b"two").unwrap();
    drop(store);
    let store = SegmentStore::open(folder.path(), &[TABLE], options).unwrap();
    assert_eq!(store.manifest().unwrap().as_deref(), Some(&b"two"[..]));
}
