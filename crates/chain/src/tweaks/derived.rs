//! The records of one block.

use std::sync::LazyLock;

use birdhouse_silentpayments::{Eligible, Engine};
use birdhouse_store::ArraySpec;
use bitcoin::Network;

use crate::block::{BlockError, ProvedBlock, ProvedTransaction};
use crate::derived::{Derived, DerivedArray, Records};
use crate::names::Height;
use crate::outside::BlockId;
use crate::tweaks::record::{TRANSACTION_BYTES, Transaction};
use crate::tweaks::transaction;
use crate::tweaks::value_class::ValueClass;

/// Name of the derived index.
pub(super) const NAME: &str = "silent-payments";

/// Multiplies the points of a block together.
static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::new);

/// Numbers of the arrays.
pub(super) const TRANSACTIONS: usize = 0;
pub(super) const PREFIXES: usize = 1;
pub(super) const OUTPUTS: usize = 2;

/// Bytes of the records.
pub(super) const PREFIX_BYTES: usize = 4;
pub(super) const OUTPUT_BYTES: usize = (32 - PREFIX_BYTES) + VOUT_BYTES + VALUE_BYTES;
pub(super) const VOUT_BYTES: usize = 3;
pub(super) const VALUE_BYTES: usize = 7;

pub(super) const TRANSACTION: ArraySpec = ArraySpec { name: "silent-transaction", record_bytes: TRANSACTION_BYTES };
pub(super) const PREFIX: ArraySpec = ArraySpec { name: "silent-prefix", record_bytes: PREFIX_BYTES };
pub(super) const OUTPUT: ArraySpec = ArraySpec { name: "silent-output", record_bytes: OUTPUT_BYTES };

const ARRAYS: &[DerivedArray] = &[
    DerivedArray::PerItem { records: TRANSACTION, ends: "silent-transaction-end" },
    DerivedArray::PerItem { records: PREFIX, ends: "silent-prefix-end" },
    DerivedArray::PerItem { records: OUTPUT, ends: "silent-output-end" },
];

/// The records that the index has for each transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TweakDetail {
    /// The tweak, and the first bytes of each key: enough for a scan.
    Scan,
    /// Also whole keys, output numbers and values, for those who scan by themselves.
    Full,
}

/// Computes the rows of blocks on a network.
pub(super) struct Computation {
    pub(super) network: Network,
    pub(super) detail: TweakDetail,
}

impl Computation {
    /// Returns the arrays of an index with this detail.
    pub(super) fn arrays_of(detail: TweakDetail) -> &'static [DerivedArray] {
        match detail {
            TweakDetail::Scan => &ARRAYS[..OUTPUTS],
            TweakDetail::Full => ARRAYS,
        }
    }
}

impl Derived for Computation {
    fn name(&self) -> &'static str {
        NAME
    }

    fn format(&self) -> u8 {
        match self.detail {
            TweakDetail::Scan => 3,
            TweakDetail::Full => 4,
        }
    }

    /// Returns the height from which taproot holds; where it always did, that of the genesis block.
    fn start(&self) -> Height {
        Height(match self.network {
            Network::Bitcoin => 709_632,
            Network::Testnet => 2_011_968,
            _ => 0,
        })
    }

    fn arrays(&self) -> &'static [DerivedArray] {
        Self::arrays_of(self.detail)
    }

    fn of_block(&self, _id: BlockId, block: &ProvedBlock<'_>) -> Result<Records, BlockError> {
        let mut arrays = vec![Vec::new(); self.arrays().len()];
        let (mut transactions, mut summed) = (Vec::new(), Vec::new());
        for transaction in block.transactions() {
            let scripts = transaction.outputs.iter().map(|output| output.script);
            if let Some(sum) = transaction::summed(transaction.raw, scripts, transaction.spent_scripts())? {
                transactions.push(transaction);
                summed.push(sum);
            }
        }
        for (transaction, eligible) in transactions.iter().zip(ENGINE.tweaked(summed)) {
            push(&mut arrays, transaction, &eligible);
        }
        Ok(Records::new(arrays))
    }
}

/// Appends the records of a transaction to each array.
fn push(arrays: &mut [Vec<u8>], transaction: &ProvedTransaction<'_>, eligible: &Eligible<'_>) {
    let value = |vout: u32| transaction.outputs[vout as usize].value;
    let largest = eligible.outputs.iter().map(|output| value(output.vout)).max().unwrap_or_default();
    // A block has fewer transactions and fewer taproot outputs: 4 million units of weight, 240 and 172 for each.
    let narrow = |count: usize| u16::try_from(count).expect("a block has fewer than 2^16");
    let record = Transaction {
        tweak: eligible.tweak,
        position: narrow(transaction.index),
        fan: narrow(eligible.outputs.len()),
        largest: ValueClass::of(largest),
    };
    arrays[TRANSACTIONS].extend(record.encode());
    for output in &eligible.outputs {
        let (prefix, rest) = output.key.split_at(PREFIX_BYTES);
        arrays[PREFIXES].extend(prefix);
        if let Some(record) = arrays.get_mut(OUTPUTS) {
            record.extend(rest);
            record.extend(&output.vout.to_le_bytes()[..VOUT_BYTES]);
            record.extend(&value(output.vout).to_le_bytes()[..VALUE_BYTES]);
        }
    }
}
