//! `header`: one row per block.
//!
//! ```text
//! key    first txnum 5 BE
//! value  header 80 | height 4 | transactions 4 | bytes 4 | weight 4 | located 1 [file 4 | offset 4]      (LE)
//! ```
//! A stale block keeps its row, but its txnums are in no live range.

use birdhouse_store::Table;

use crate::block::{Cursor, Malformed};
use crate::names::{Height, TxNum};
use crate::outside::FilePosition;
use crate::rows::{txnum_bytes, txnum_from};

pub(crate) const TABLE: Table = Table { name: "header", partition_bytes: 0, compress: true };

/// One indexed block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderRow {
    pub(crate) first_txnum: TxNum,
    pub(crate) header: [u8; 80],
    pub(crate) height: Height,
    pub(crate) tx_count: u32,
    pub(crate) bytes: u32,
    pub(crate) weight: u32,
    pub(crate) position: Option<FilePosition>,
}

impl HeaderRow {
    /// First txnum after the block.
    pub(crate) fn end_txnum(&self) -> TxNum {
        TxNum(self.first_txnum.0 + u64::from(self.tx_count))
    }
}

pub(crate) fn key(first_txnum: TxNum) -> [u8; TxNum::LEN] {
    txnum_bytes(first_txnum)
}

pub(super) fn value(row: &HeaderRow) -> Vec<u8> {
    let mut out = row.header.to_vec();
    for number in [row.height.0, row.tx_count, row.bytes, row.weight] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(u8::from(row.position.is_some()));
    if let Some(position) = row.position {
        out.extend_from_slice(&position.file.to_le_bytes());
        out.extend_from_slice(&position.offset.to_le_bytes());
    }
    out
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<HeaderRow, Malformed> {
    let first_txnum = txnum_from(*Cursor::new(key).array("txnum")?);
    let mut cursor = Cursor::new(value);
    let header = *cursor.array("header")?;
    let height = Height(cursor.u32_le("height")?);
    let tx_count = cursor.u32_le("transactions")?;
    let bytes = cursor.u32_le("bytes")?;
    let weight = cursor.u32_le("weight")?;
    let position = match cursor.u8("located")? {
        0 => None,
        1 => Some(FilePosition { file: cursor.u32_le("file")?, offset: cursor.u32_le("offset")? }),
        _ => return Err(cursor.malformed("located")),
    };
    if !cursor.is_at_end() || tx_count == 0 {
        return Err(cursor.malformed("header row"));
    }
    Ok(HeaderRow { first_txnum, header, height, tx_count, bytes, weight, position })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_a_round_trip() {
        for position in [None, Some(FilePosition { file: 7, offset: 0x0102_0304 })] {
            let row = HeaderRow {
                first_txnum: TxNum(0x01_0203_0405),
                header: [9; 80],
                height: Height(800_000),
                tx_count: 3,
                bytes: 1000,
                weight: 3700,
                position,
            };
            assert_eq!(decode(&key(row.first_txnum), &value(&row)).unwrap(), row);
        }
        assert_eq!(key(TxNum(0x01_0203_0405)), [1, 2, 3, 4, 5]);
    }
}
