//! Choice of a block's own undo data among several records. Pure.
//!
//! The checksum of undo data covers only the hash of the block before, so the records of sibling blocks pass for one
//! another's. A record with another number of entries than the block has inputs is not the block's, nor is one whose
//! values do not cover the block's outputs. The rest is decided for certain: an entry holds the height at which its
//! output was funded, and the input beside it names the funding transaction, so the block at that height shows if the
//! two belong together.
//!
//! A block whose own record is lost is refused, though a sibling's is there: by the build when an input meets no output
//! of its script, at the tip by `prove_spent` of `tip/ingest`.
//!
//! Source: Core's `undo.h`; consensus rules `bad-txns-in-belowout`, `bad-cb-amount`.

use crate::block::bytes::Malformed;
use crate::block::parse::{Block, Input};
use crate::block::spent::{SpentOutput, SpentOutputs};
use crate::names::Height;
use crate::outside::{SourceResult, SpentBytes};

/// The highest subsidy of a block: 50 coins.
const SUBSIDY_SAT_MAX: u64 = 5_000_000_000;

/// A block whose undo data is sought.
#[derive(Debug)]
pub struct UndoOwner<'a> {
    block: Block<'a>,
}

impl<'a> UndoOwner<'a> {
    /// Parses the block.
    ///
    /// # Errors
    /// The bytes are not a block.
    pub fn of(block: &'a [u8]) -> Result<Self, Malformed> {
        Ok(Self { block: Block::parse(block)? })
    }

    /// True if a record has the shape of the block's undo data, and its values cover the block's outputs.
    pub fn can_own(&self, undo: &[u8]) -> bool {
        self.decode(undo).is_some_and(|spent| self.is_paid_by(&spent))
    }

    /// Chooses the block's own record among those that it [can own](Self::can_own). Where they differ at an input, at
    /// most one of them is right, and the block that funded the output decides. `block_at` returns the block at a
    /// height of the chain that the block is in, `None` beyond its end.
    ///
    /// # Errors
    /// Those of `block_at`.
    pub fn choose(
        &self,
        records: Vec<Vec<u8>>,
        block_at: impl Fn(Height) -> SourceResult<Option<Vec<u8>>>,
    ) -> SourceResult<Option<Vec<u8>>> {
        let decoded = records.into_iter().filter_map(|undo| self.decode(&undo).map(|spent| (undo, spent)));
        let mut rivals: Vec<(Vec<u8>, SpentOutputs)> = decoded.collect();
        for (at, input) in self.block.inputs.iter().enumerate() {
            if rivals.windows(2).all(|pair| pair[0].1.output(at) == pair[1].1.output(at)) {
                continue;
            }
            let mut right = Vec::with_capacity(1);
            for (undo, spent) in rivals {
                let output = spent.output(at);
                if block_at(output.height)?.is_some_and(|block| is_funded_by(&block, input, &output)) {
                    right.push((undo, spent));
                }
            }
            rivals = right;
        }
        // All records that are left are equal.
        Ok(rivals.into_iter().next().map(|(undo, _)| undo))
    }

    fn decode(&self, undo: &[u8]) -> Option<SpentOutputs> {
        let inputs = self.block.inputs.len();
        SpentOutputs::decode(SpentBytes::Undo(undo), self.block.input_counts(), inputs).ok()
    }

    /// True if no transaction pays out more than it takes in, and the coinbase claims no more than subsidy and fees.
    fn is_paid_by(&self, spent: &SpentOutputs) -> bool {
        let txs = self.block.txs.len();
        let taken = self.block.inputs.iter().zip(spent.values()).map(|(input, value)| (input.tx, value));
        let paid = self.block.outputs.iter().map(|output| (output.tx, output.value));
        let (Some(taken), Some(paid)) = (sums(txs, taken), sums(txs, paid)) else { return false };
        let mut fees = taken.iter().zip(&paid).skip(1).map(|(taken, paid)| taken.checked_sub(*paid));
        let claimable = fees.try_fold(SUBSIDY_SAT_MAX, |sum, fee| sum.checked_add(fee?));
        claimable.zip(paid.first()).is_some_and(|(claimable, claimed)| *claimed <= claimable)
    }
}

/// Sums by transaction; `None` beyond 64 bits.
fn sums(txs: usize, values: impl Iterator<Item = (u32, u64)>) -> Option<Vec<u64>> {
    let mut sums = vec![0_u64; txs];
    for (tx, value) in values {
        let sum = &mut sums[tx as usize];
        *sum = sum.checked_add(value)?;
    }
    Some(sums)
}

/// True if `output` is the one that `input` names, and `block` holds it.
fn is_funded_by(block: &[u8], input: &Input<'_>, output: &SpentOutput<'_>) -> bool {
    let Ok(block) = Block::parse(block) else { return false };
    let Some(tx) = block.txids().iter().position(|txid| txid == input.prev_txid) else { return false };
    block.outputs.iter().any(|funded| {
        (funded.tx as usize, funded.vout) == (tx, input.prev_vout)
            && (funded.value, funded.script) == (output.value, output.script)
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use bitcoin::absolute::LockTime;
    use bitcoin::consensus::serialize;
    use bitcoin::constants::genesis_block;
    use bitcoin::transaction::Version;
    use bitcoin::{Amount, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};

    use super::*;

    const COIN: u64 = 100_000_000;

    /// A block whose first transaction claims `claimed`, and whose second spends `spent` and pays `paid`.
    fn block(claimed: u64, spent: &[OutPoint], paid: u64) -> Vec<u8> {
        let mut block = genesis_block(Network::Regtest);
        block.txdata = vec![transaction(&[OutPoint::null()], claimed, b"a"), transaction(spent, paid, b"b")];
        serialize(&block)
    }

    fn transaction(spent: &[OutPoint], paid: u64, script: &[u8]) -> Transaction {
        let input = |previous_output: &OutPoint| TxIn {
            previous_output: *previous_output,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        };
        Transaction {
            version: Version::TWO,
            lock_time: LockTime::ZERO,
            input: spent.iter().map(input).collect(),
            output: vec![TxOut {
                value: Amount::from_sat(paid),
                script_pubkey: ScriptBuf::from_bytes(script.to_vec()),
            }],
        }
    }

    /// Undo data of one transaction, by height, coins and script.
    fn undo(inputs: &[(u8, u8, &[u8])]) -> Vec<u8> {
        let mut undo = vec![1, u8::try_from(inputs.len()).unwrap()];
        for (height, coins, script) in inputs {
            let compressed_coins = if *coins == 0 { 0 } else { coins * 10 - 1 };
            undo.extend([height * 2, 0, compressed_coins, 6 + u8::try_from(script.len()).unwrap()]);
            undo.extend(*script);
        }
        undo
    }

    #[test]
    fn undo_data_of_another_shape_or_of_too_little_value_is_not_the_blocks() {
        let inputs = [OutPoint::null(); 2];
        let (one, two) = (undo(&[(1, 3, b"x")]), undo(&[(1, 3, b"x"), (1, 1, b"x")]));
        let bytes = block(51 * COIN, &inputs[..1], 2 * COIN);
        let owner = UndoOwner::of(&bytes).unwrap();
        assert!(owner.can_own(&one));
        assert!(!owner.can_own(&two), "an input too many");
        assert!(!owner.can_own(&one[..one.len() - 1]), "cut off");
        assert!(!owner.can_own(&undo(&[(1, 1, b"x")])), "pays more than it takes");
        let bytes = block(51 * COIN + 1, &inputs[..1], 2 * COIN);
        assert!(!UndoOwner::of(&bytes).unwrap().can_own(&one), "the coinbase claims more than there is");
        let bytes = block(52 * COIN, &inputs, 2 * COIN);
        assert!(UndoOwner::of(&bytes).unwrap().can_own(&two));
    }

    #[test]
    fn where_records_differ_the_funding_block_decides() {
        let funding = block(50 * COIN, &[OutPoint::null()], 2 * COIN);
        let txid = txids_of(&funding)[1];
        let bytes = block(50 * COIN, &[OutPoint { txid, vout: 0 }; 2], COIN);
        let owner = UndoOwner::of(&bytes).unwrap();
        // Its two inputs spend the same output: consensus does not matter here.
        let right = undo(&[(7, 2, b"b"), (7, 2, b"b")]);
        let wrong = [
            undo(&[(7, 2, b"b"), (7, 2, b"a")]),
            undo(&[(7, 2, b"b"), (7, 3, b"b")]),
            undo(&[(6, 2, b"b"), (7, 2, b"b")]),
            undo(&[(8, 2, b"b"), (7, 2, b"b")]),
        ];
        let block_at = |height: Height| {
            let other = block(50 * COIN, &[OutPoint::null()], 3 * COIN);
            Ok((height.0 < 8).then(|| if height.0 == 7 { funding.clone() } else { other }))
        };
        for wrong in &wrong {
            assert!(owner.can_own(wrong));
            for records in [[wrong, &right], [&right, wrong]] {
                let chosen = owner.choose(records.map(Vec::clone).into(), block_at).unwrap();
                assert_eq!(chosen.as_ref(), Some(&right));
            }
        }
        assert_eq!(owner.choose([wrong.to_vec(), vec![right.clone()]].concat(), block_at).unwrap(), Some(right));
        assert_eq!(owner.choose(wrong.to_vec(), block_at).unwrap(), None);
    }

    fn txids_of(block: &[u8]) -> Vec<bitcoin::Txid> {
        let block: bitcoin::Block = bitcoin::consensus::deserialize(block).unwrap();
        block.txdata.iter().map(Transaction::compute_txid).collect()
    }
}
