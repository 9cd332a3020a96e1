//! The tables of the cluster, and the place of a row and of a record in them. Pure, apart from no clock and no I/O.
//!
//! ```text
//! manifest  place                                     -> epoch, owner, beat, published, state
//! rows      (name, generation, bucket)  | key         -> value
//! buckets   (name, generation)          | bucket      -> nothing: the bucket may have rows
//! chunks    (name, part)                | chunk       -> records
//! ```
//! The partition is in parentheses. `name` is `place/table` or `place/array`. A *bucket* is the first bytes of a key,
//! and `key` the others, so the rows of a table are spread evenly, and a scan inside a bucket reads one partition. A
//! scan over several reads their names first. A *chunk* is 4 KiB of records, and a *part* is 256 chunks.
//!
//! Invariant: buckets ascend as their keys do.

use crate::table::{ArraySpec, Table};

/// The statements that create the tables, in a keyspace that is in use.
pub(super) const TABLES: [(&str, &str); 4] = [
    (
        "manifest",
        "CREATE TABLE IF NOT EXISTS manifest \
         (place text PRIMARY KEY, epoch bigint, owner text, beat bigint, published bigint, state blob)",
    ),
    (
        "rows",
        "CREATE TABLE IF NOT EXISTS rows (name text, generation bigint, bucket blob, key blob, value blob, \
         PRIMARY KEY ((name, generation, bucket), key)) WITH speculative_retry = '20ms'",
    ),
    (
        "buckets",
        "CREATE TABLE IF NOT EXISTS buckets (name text, generation bigint, bucket blob, \
         PRIMARY KEY ((name, generation), bucket)) WITH speculative_retry = '20ms'",
    ),
    (
        "chunks",
        "CREATE TABLE IF NOT EXISTS chunks (name text, part bigint, chunk bigint, records blob, \
         PRIMARY KEY ((name, part), chunk)) WITH speculative_retry = '20ms'",
    ),
];

/// Key bytes of a bucket where keys begin with a hash: at most 65 536 buckets, of even size.
const HASH_BUCKET_BYTES: usize = 2;
/// Key bytes of a bucket where keys are numbers, big-endian. Txnums have five bytes and buckets of packs four, so a
/// bucket has 65 536 txnums or 256 rows of a pack.
const NUMBER_BUCKET_BYTES: usize = 3;
/// Bytes of a chunk of an array: a lookup reads 128 txids.
pub(super) const CHUNK_BYTES: usize = 4096;
/// Chunks in a partition: 1 MiB.
pub(super) const PART_CHUNKS: u64 = 256;
/// Bits of a timestamp that count the writes of one epoch.
const WRITE_BITS: u32 = 40;
/// Bits of a generation that count the generations that one epoch began.
const GENERATION_BITS: u32 = 24;

/// Returns the number of key bytes that name the bucket of a row.
pub(super) fn bucket_bytes(table: Table) -> usize {
    if table.partition_bytes == 0 { NUMBER_BUCKET_BYTES } else { HASH_BUCKET_BYTES.min(table.partition_bytes) }
}

/// Splits a key into its bucket and its place there.
pub(super) fn split(key: &[u8], bucket_bytes: usize) -> (&[u8], &[u8]) {
    key.split_at(bucket_bytes.min(key.len()))
}

/// Returns the number of records in a chunk.
pub(super) fn records_per_chunk(spec: ArraySpec) -> u64 {
    (CHUNK_BYTES / spec.record_bytes).max(1) as u64
}

/// Returns the name of a table or array of a place.
pub(super) fn name_of(place: &str, name: &str) -> String {
    format!("{place}/{name}")
}

/// Returns the timestamp before the first write of an epoch.
pub(super) fn first_timestamp(epoch: i64) -> i64 {
    epoch << WRITE_BITS
}

/// Returns the number before the first generation that an epoch begins.
pub(super) fn first_generation(epoch: i64) -> i64 {
    epoch << GENERATION_BITS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_later_epoch_overrules_every_write_of_an_earlier_one() {
        assert!(first_timestamp(8) >= first_timestamp(7) + 1_000_000_000_000);
        assert!(first_generation(8) > first_generation(7) + 1_000_000);
    }

    #[test]
    fn a_chunk_has_at_least_one_record() {
        let of = |record_bytes| records_per_chunk(ArraySpec { name: "numbers", record_bytes });
        assert_eq!((of(32), of(8), of(3), of(5000)), (128, 512, 1365, 1));
    }

    proptest! {
        #[test]
        fn buckets_ascend_as_their_keys_do(one: Vec<u8>, other: Vec<u8>, bytes in 1..4_usize) {
            let (left, right) = (split(&one, bytes), split(&other, bytes));
            prop_assert_eq!(one.cmp(&other), left.cmp(&right));
            prop_assert_eq!([left.0, left.1].concat(), one);
        }
    }
}
