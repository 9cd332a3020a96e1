//! Answers as values: history entries, unspent outputs, transactions, proofs.

use bitcoin::{OutPoint, Transaction, TxOut, Txid};

use crate::names::{Height, ScriptHash};
use crate::outside::BlockId;

/// The place of a transaction: a block or the mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confirmation {
    /// In the block at this height.
    Confirmed(Height),
    /// In the mempool.
    Unconfirmed {
        /// True if it spends an output that is itself in the mempool.
        has_unconfirmed_inputs: bool,
    },
}

/// One transaction of a script's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The transaction.
    pub txid: Txid,
    /// Height of its block.
    pub height: Height,
}

/// An unspent output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unspent {
    /// The funding transaction.
    pub txid: Txid,
    /// Index of the output in it.
    pub vout: u32,
    /// Confirmation of the funding transaction.
    pub confirmation: Confirmation,
    /// Value in satoshis.
    pub value: u64,
}

/// One transaction of a script in the mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnconfirmedEntry {
    /// The transaction.
    pub txid: Txid,
    /// Fee in satoshis.
    pub fee: u64,
    /// True if it spends an output that is itself in the mempool.
    pub has_unconfirmed_inputs: bool,
}

/// Balance of a script, in satoshis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balance {
    /// Sum of the outputs that no block spends; the mempool may spend some.
    pub confirmed: u64,
    /// Change of the balance by the mempool; negative when it spends more than it pays.
    pub unconfirmed: i64,
}

/// An output and its spender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundOutput {
    /// The output.
    pub outpoint: OutPoint,
    /// Hash of its script.
    pub scripthash: ScriptHash,
    /// Value in satoshis.
    pub value: u64,
    /// Confirmation of the funding transaction.
    pub funding: Confirmation,
    /// The spending transaction and its confirmation.
    pub spender: Option<(Txid, Confirmation)>,
}

/// An output that an input spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpentOutput {
    /// The output.
    pub outpoint: OutPoint,
    /// Hash of its script.
    pub scripthash: ScriptHash,
    /// Value in satoshis.
    pub value: u64,
}

/// Bytes and block of a confirmed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmedTransaction {
    /// Serialised with witness.
    pub raw: Vec<u8>,
    /// Its block.
    pub block: BlockId,
}

/// Header and sizes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSummary {
    /// Its height and hash.
    pub id: BlockId,
    /// Its serialised header.
    pub header: [u8; 80],
    /// Its transactions, the coinbase included.
    pub tx_count: u32,
    /// Its serialised size with witness, in bytes.
    pub bytes: u32,
    /// Its weight, in weight units ([BIP 141](https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki)).
    pub weight: u32,
}

/// A transaction with the outputs that it spends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedTransaction {
    /// Its txid.
    pub txid: Txid,
    /// The transaction.
    pub transaction: Transaction,
    /// The outputs that its inputs spend, in their order; none for a coinbase, and where one of them is
    /// [unknown](Self::is_unresolved).
    pub prevouts: Vec<TxOut>,
    /// Where one is unknown: those that are known, in the order of the inputs; otherwise none.
    pub known_prevouts: Vec<Option<TxOut>>,
    /// Its block; `None` for one in the mempool.
    pub block: Option<BlockId>,
}

impl ResolvedTransaction {
    /// Returns a transaction with those outputs that are known, one for each input but a coinbase's.
    pub(crate) fn new(
        txid: Txid,
        transaction: Transaction,
        prevouts: Vec<Option<TxOut>>,
        block: Option<BlockId>,
    ) -> Self {
        let (prevouts, known_prevouts) = if prevouts.iter().all(Option::is_some) {
            (prevouts.into_iter().flatten().collect(), Vec::new())
        } else {
            (Vec::new(), prevouts)
        };
        Self { txid, transaction, prevouts, known_prevouts, block }
    }

    /// Returns the bytes of the transaction, serialised, and of the outputs that it spends.
    pub fn bytes(&self) -> usize {
        let prevouts = self.prevouts.iter().chain(self.known_prevouts.iter().flatten());
        self.transaction.total_size() + prevouts.map(TxOut::size).sum::<usize>()
    }

    /// Returns the output that an input spends; `None` for a coinbase, and where it is unknown.
    pub fn prevout(&self, vin: usize) -> Option<&TxOut> {
        self.prevouts.get(vin).or_else(|| self.known_prevouts.get(vin)?.as_ref())
    }

    /// Returns true if an output that it spends is unknown: the node has removed its block.
    pub fn is_unresolved(&self) -> bool {
        self.prevouts.is_empty() && !self.transaction.is_coinbase()
    }

    /// Returns its fee in satoshis, 0 for a coinbase; `None` where it is unknown.
    pub fn fee(&self) -> Option<u64> {
        let taken: u64 = self.prevouts.iter().map(|output| output.value.to_sat()).sum();
        let paid: u64 = self.transaction.output.iter().map(|output| output.value.to_sat()).sum();
        (!self.is_unresolved()).then(|| taken.saturating_sub(paid))
    }
}

/// Counts, and sums in satoshis, over all outputs that pay a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptStats {
    /// Transactions that pay the script or spend from it, each counted once.
    pub txs: u64,
    /// Outputs that pay it.
    pub funded: u64,
    /// Their sum.
    pub funded_sum: u64,
    /// Those that were spent.
    pub spent: u64,
    /// Their sum.
    pub spent_sum: u64,
}

/// The change of a script's balance by one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalanceChange {
    /// The transaction.
    pub txid: Txid,
    /// Satoshis that it pays the script, less those that it spends from it.
    pub value: i64,
    /// Height of its block.
    pub height: Height,
    /// Its index in the block.
    pub index: u32,
}

/// An input that spends an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spender {
    /// The spending transaction.
    pub txid: Txid,
    /// Index of the input in it.
    pub vin: u32,
    /// Its block; `None` for one in the mempool.
    pub block: Option<BlockId>,
}

/// A merkle branch in the byte order of the hash function; displays reverse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MerkleBranch {
    /// Sibling hashes, from the leaf upwards.
    pub siblings: Vec<[u8; 32]>,
    /// Index of the leaf.
    pub position: u32,
    /// The root.
    pub root: [u8; 32],
}
