//! `txpos`: offsets of transactions in their block, in chunks of 64.
//!
//! ```text
//! key    txnum of the chunk's first transaction 5 BE   (chunks are counted from the block's first)
//! value  offset of that transaction in the block, LEB128
//!        | sizes of the chunk's transactions less the smallest of them: smallest LEB128, then one LEB128 each
//! ```

use birdhouse_store::Table;

use crate::block::{Cursor, Malformed, put_leb128};
use crate::names::TxNum;

pub(crate) const TABLE: Table = Table { name: "txpos", partition_bytes: 0, compress: true };

/// Transactions in a chunk.
pub(crate) const CHUNK: usize = 64;

/// The chunk of transaction number `index` of the block that starts at `first`.
pub(crate) fn chunk_of(first: TxNum, index: u64) -> TxNum {
    TxNum(first.0 + index / CHUNK as u64 * CHUNK as u64)
}

/// The rows of one block. `offsets` holds the start of each transaction and the end of the block.
pub(super) fn rows(first: TxNum, offsets: &[u32]) -> impl Iterator<Item = (TxNum, Vec<u8>)> {
    let transactions = offsets.len() - 1;
    (0..transactions).step_by(CHUNK).map(move |start| {
        let end = (start + CHUNK).min(transactions);
        (TxNum(first.0 + start as u64), value(&offsets[start..=end]))
    })
}

fn value(offsets: &[u32]) -> Vec<u8> {
    let sizes = offsets.windows(2).map(|pair| u64::from(pair[1] - pair[0]));
    let smallest = sizes.clone().min().expect("a chunk holds a transaction");
    let mut out = Vec::with_capacity(2 * offsets.len() + 4);
    put_leb128(&mut out, offsets[0].into());
    put_leb128(&mut out, smallest);
    sizes.for_each(|size| put_leb128(&mut out, size - smallest));
    out
}

/// The bytes of a transaction in its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// Returns the span of transaction number `index` of a chunk.
pub(crate) fn locate(value: &[u8], index: usize) -> Result<Span, Malformed> {
    let mut cursor = Cursor::new(value);
    let mut offset = cursor.leb128("offset")?;
    let smallest = cursor.leb128("smallest size")?;
    let mut size = 0;
    for _ in 0..=index {
        offset = offset.saturating_add(size);
        size = cursor.leb128("size")?.saturating_add(smallest);
    }
    match (u32::try_from(offset), u32::try_from(size)) {
        (Ok(offset), Ok(len)) => Ok(Span { offset, len }),
        _ => Err(cursor.malformed("offset")),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_transaction_is_found_where_it_was(sizes in prop::collection::vec(60_u32..100_000, 1..200), first in 0..1_u64 << 39) {
            let offsets: Vec<u32> = std::iter::once(81)
                .chain(sizes.iter().scan(81, |at, size| { *at += size; Some(*at) }))
                .collect();
            let rows: Vec<_> = rows(TxNum(first), &offsets).collect();
            for (index, &size) in sizes.iter().enumerate() {
                let chunk = chunk_of(TxNum(first), index as u64);
                let (_, value) = rows.iter().find(|(key, _)| *key == chunk).unwrap();
                prop_assert_eq!(locate(value, index % CHUNK).unwrap(), Span { offset: offsets[index], len: size });
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, index in 0..70_usize) {
            let _ = locate(&bytes, index);
        }
    }

    #[test]
    fn golden_bytes() {
        let rows: Vec<_> = rows(TxNum(5), &[81, 281, 500]).collect();
        assert_eq!(rows, [(TxNum(5), vec![81, 0xc8, 0x01, 0, 19])]);
    }
}
