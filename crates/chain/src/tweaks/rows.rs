//! Rows as they are read: the records of consecutive blocks, and views of each transaction.

use birdhouse_silentpayments::TWEAK_BYTES;
use birdhouse_store::ArraySpec;

use crate::error::{Error, Result};
use crate::names::Height;
use crate::tweaks::derived::{OUTPUT, OUTPUT_BYTES, PREFIX, PREFIX_BYTES, TRANSACTION, VALUE_BYTES, VOUT_BYTES};
use crate::tweaks::record::Transaction;
use crate::tweaks::value_class::ValueClass;

/// The rows of consecutive blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TweakRows {
    start: Height,
    /// Number of transactions up to the end of each block.
    ends: Vec<usize>,
    transactions: Vec<Transaction>,
    prefixes: Vec<[u8; PREFIX_BYTES]>,
    outputs: Option<Vec<[u8; OUTPUT_BYTES]>>,
}

/// A transaction that may pay silent payment addresses.
#[derive(Debug, Clone, Copy)]
pub struct TweakRow<'a> {
    /// Height of its block.
    pub height: Height,
    /// Its index in the block.
    pub position: u32,
    /// The tweak, a compressed point.
    pub tweak: &'a [u8; TWEAK_BYTES],
    /// The class of its largest taproot output.
    pub largest: ValueClass,
    /// The first bytes of the key of each taproot output.
    pub prefixes: &'a [[u8; PREFIX_BYTES]],
    /// Its taproot outputs, where the index has them.
    pub outputs: Option<TweakOutputs<'a>>,
}

/// The taproot outputs of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct TweakOutputs<'a> {
    prefixes: &'a [[u8; PREFIX_BYTES]],
    records: &'a [[u8; OUTPUT_BYTES]],
}

/// A taproot output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TweakOutput {
    /// Its number in the transaction.
    pub vout: u32,
    /// Its key, an x coordinate.
    pub key: [u8; 32],
    /// Its value in satoshis.
    pub value: u64,
}

// === impl TweakRows ===

impl TweakRows {
    /// Takes what the arrays have for the blocks from `start` on; `ends` are those of the blocks, counted from the
    /// first one.
    ///
    /// # Errors
    /// The arrays contradict each other.
    pub(super) fn new(
        start: Height,
        ends: Vec<usize>,
        transactions: &[u8],
        prefixes: &[u8],
        outputs: Option<&[u8]>,
    ) -> Result<Self> {
        let rows = Self {
            start,
            ends,
            transactions: transactions.as_chunks().0.iter().map(Transaction::decode).collect(),
            prefixes: records(prefixes),
            outputs: outputs.map(records),
        };
        let fans = rows.transactions.iter().map(|transaction| usize::from(transaction.fan)).sum();
        check(TRANSACTION, rows.transactions.len(), rows.ends.last().copied().unwrap_or_default())?;
        check(PREFIX, rows.prefixes.len(), fans)?;
        check(OUTPUT, rows.outputs.as_ref().map_or(fans, Vec::len), fans)?;
        Ok(rows)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    /// Returns true if there is no row.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// Returns the rows, in the order of the chain.
    pub fn iter(&self) -> impl Iterator<Item = TweakRow<'_>> {
        let (mut block, mut output) = (0, 0);
        self.transactions.iter().enumerate().map(move |(index, transaction)| {
            while index >= self.ends[block] {
                block += 1;
            }
            let height = Height(self.start.0 + u32::try_from(block).expect("heights fit 32 bits"));
            let outputs = output..output + usize::from(transaction.fan);
            output = outputs.end;
            let prefixes = &self.prefixes[outputs.clone()];
            let records = self.outputs.as_ref().map(|records| &records[outputs]);
            TweakRow {
                height,
                position: transaction.position.into(),
                tweak: &transaction.tweak,
                largest: transaction.largest,
                prefixes,
                outputs: records.map(|records| TweakOutputs { prefixes, records }),
            }
        })
    }
}

impl<'a> TweakOutputs<'a> {
    /// Returns the outputs, in the order of the transaction.
    pub fn iter(&self) -> impl Iterator<Item = TweakOutput> + use<'a> {
        self.prefixes.iter().zip(self.records).map(|(prefix, record)| {
            let (rest, numbers) = record.split_at(32 - PREFIX_BYTES);
            let (vout, value) = numbers.split_at(VOUT_BYTES);
            let mut key = [0; 32];
            key[..PREFIX_BYTES].copy_from_slice(prefix);
            key[PREFIX_BYTES..].copy_from_slice(rest);
            let (mut vout_bytes, mut value_bytes) = ([0; 4], [0; 8]);
            vout_bytes[..VOUT_BYTES].copy_from_slice(vout);
            value_bytes[..VALUE_BYTES].copy_from_slice(value);
            TweakOutput { vout: u32::from_le_bytes(vout_bytes), key, value: u64::from_le_bytes(value_bytes) }
        })
    }
}

fn records<const LEN: usize>(bytes: &[u8]) -> Vec<[u8; LEN]> {
    bytes.as_chunks().0.to_vec()
}

fn check(array: ArraySpec, found: usize, needed: usize) -> Result<()> {
    if found == needed { Ok(()) } else { Err(Error::truncated_array(array, found as u64, needed as u64)) }
}
