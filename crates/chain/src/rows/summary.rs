//! `summary`: counts and sums of a long script, over its packed rows.
//!
//! ```text
//! key    script prefix 8 BE | check 2 BE
//! value  transactions | outputs funded | their sum | outputs spent | their sum        (LEB128, satoshis)
//! ```

use birdhouse_store::Table;

use crate::bytes::{Cursor, Malformed, put_leb128};
use crate::prefix::ScriptKey;

pub(crate) const TABLE: Table = Table { name: "summary", partition_bytes: 0, compress: false };

/// Counts, and sums in satoshis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) txs: u64,
    pub(crate) funded: u64,
    pub(crate) funded_sum: u64,
    pub(crate) spent: u64,
    pub(crate) spent_sum: u64,
}

impl Summary {
    /// The balance in satoshis.
    pub(crate) fn balance(&self) -> u64 {
        self.funded_sum - self.spent_sum
    }
}

pub(crate) fn key(script: ScriptKey) -> [u8; ScriptKey::LEN] {
    script.to_bytes()
}

pub(crate) fn value(summary: &Summary) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    for number in [summary.txs, summary.funded, summary.funded_sum, summary.spent, summary.spent_sum] {
        put_leb128(&mut out, number);
    }
    out
}

pub(crate) fn decode(value: &[u8]) -> Result<Summary, Malformed> {
    let mut cursor = Cursor::new(value);
    let mut number = || cursor.leb128("summary");
    let summary =
        Summary { txs: number()?, funded: number()?, funded_sum: number()?, spent: number()?, spent_sum: number()? };
    if !cursor.is_at_end() || summary.spent > summary.funded || summary.spent_sum > summary.funded_sum {
        return Err(cursor.malformed("summary"));
    }
    Ok(summary)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_a_round_trip_and_nonsense_is_refused() {
        let summary = Summary { txs: 300, funded: 200, funded_sum: 1_000_000, spent: 199, spent_sum: 999_999 };
        assert_eq!(value(&summary), [0xac, 2, 0xc8, 1, 0xc0, 0x84, 0x3d, 0xc7, 1, 0xbf, 0x84, 0x3d]);
        assert_eq!(decode(&value(&summary)).unwrap(), summary);
        assert!(decode(&value(&Summary { spent_sum: 2_000_000, ..summary })).is_err());
    }
}
