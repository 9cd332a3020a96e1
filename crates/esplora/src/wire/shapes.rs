//! Shapes of the API's JSON. Amounts are in satoshis, times in seconds since 1970. An absent member is left out.

use std::collections::HashMap;

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{BlockSummary, Height, ResolvedTransaction, ScriptStats, Snapshot, Spender};
use bitcoin::block::Header;
use bitcoin::hashes::Hash as _;
use bitcoin::hex::DisplayHex;
use bitcoin::{Network, OutPoint, TxIn, TxOut, Txid, consensus};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::wire::answer_memory::Each;
use crate::wire::failure::Failure;
use crate::wire::script;

/// A block.
#[derive(Debug, Serialize)]
pub(crate) struct BlockJson {
    pub(super) id: String,
    pub(crate) height: u32,
    version: u32,
    pub(crate) timestamp: u32,
    pub(super) tx_count: u32,
    size: u32,
    weight: u32,
    merkle_root: String,
    previousblockhash: Option<String>,
    mediantime: u32,
    nonce: u32,
    bits: u32,
    difficulty: f64,
}

/// A block's relation to the chain.
#[derive(Debug, Serialize)]
pub(crate) struct BlockStatusJson {
    pub(crate) in_best_chain: bool,
    pub(crate) height: Option<u32>,
    pub(crate) next_best: Option<String>,
}

/// A transaction, whose inputs and outputs are made as they are written.
#[derive(Debug)]
pub(crate) struct TransactionJson<'a> {
    found: &'a ResolvedTransaction,
    network: Network,
    status: StatusJson,
}

#[derive(Debug, Serialize)]
struct InputJson {
    txid: Txid,
    vout: u32,
    prevout: Option<OutputJson>,
    scriptsig: String,
    scriptsig_asm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    witness: Option<Vec<String>>,
    is_coinbase: bool,
    sequence: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    inner_redeemscript_asm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inner_witnessscript_asm: Option<String>,
}

#[derive(Debug, Serialize)]
struct OutputJson {
    scriptpubkey: String,
    scriptpubkey_asm: String,
    scriptpubkey_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scriptpubkey_address: Option<String>,
    value: u64,
}

/// The block of a transaction, or its absence.
#[derive(Debug, Default, Serialize)]
pub(crate) struct StatusJson {
    pub(super) confirmed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_time: Option<u32>,
}

/// Counts and sums of a script.
#[derive(Debug, Serialize)]
pub(crate) struct StatsJson {
    tx_count: u64,
    funded_txo_count: u64,
    funded_txo_sum: u64,
    spent_txo_count: u64,
    spent_txo_sum: u64,
}

/// An unspent output.
#[derive(Debug, Serialize)]
pub(crate) struct UnspentJson {
    pub(crate) txid: Txid,
    pub(crate) vout: u32,
    pub(crate) status: StatusJson,
    pub(crate) value: u64,
}

/// The spending of an output.
#[derive(Debug, Default, Serialize)]
pub(crate) struct OutspendJson {
    spent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    txid: Option<Txid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vin: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusJson>,
}

/// A merkle branch as in the Electrum protocol.
#[derive(Debug, Serialize)]
pub(crate) struct MerkleProofJson {
    pub(crate) block_height: u32,
    pub(crate) merkle: Vec<String>,
    pub(crate) pos: u32,
}

/// The mempool in numbers.
#[derive(Debug, Serialize)]
pub(crate) struct MempoolJson {
    pub(crate) count: usize,
    pub(crate) vsize: u64,
    pub(crate) total_fee: u64,
    pub(crate) fee_histogram: Vec<(f64, u64)>,
}

/// A transaction that came lately.
#[derive(Debug, Serialize)]
pub(crate) struct RecentJson {
    pub(crate) txid: Txid,
    pub(crate) fee: u64,
    pub(crate) vsize: u64,
    pub(crate) value: u64,
}

/// One transaction of a script in short: the change of the script's balance.
#[derive(Debug, Serialize)]
pub(crate) struct SummaryJson {
    pub(crate) txid: Txid,
    pub(crate) value: i64,
    pub(crate) height: u32,
    pub(crate) time: u32,
    pub(crate) tx_position: u32,
}

impl BlockJson {
    pub(crate) fn of(at: &Snapshot, height: Height) -> Result<Option<Self>, Failure> {
        let Some(block) = at.block_summary(height) else { return Ok(None) };
        let BlockSummary { id, header, tx_count, bytes, weight } = block;
        let header: Header = consensus::deserialize(&header).map_err(|_| Failure::internal())?;
        let previous = header.prev_blockhash;
        Ok(Some(Self {
            id: id.hash.to_string(),
            height: height.0,
            version: header.version.to_consensus().cast_unsigned(),
            timestamp: header.time,
            tx_count,
            size: bytes,
            weight,
            merkle_root: header.merkle_root.to_string(),
            previousblockhash: (previous.to_byte_array() != [0; 32]).then(|| previous.to_string()),
            mediantime: at.median_time(height).ok_or_else(Failure::internal)?,
            nonce: header.nonce,
            bits: header.bits.to_consensus(),
            difficulty: header.difficulty_float(),
        }))
    }
}

impl<'a> TransactionJson<'a> {
    pub(crate) fn of(at: &Snapshot, found: &'a ResolvedTransaction, network: Network) -> Self {
        Self { found, network, status: StatusJson::of(at, found.block) }
    }

    fn sigops(&self) -> usize {
        let ResolvedTransaction { transaction, prevouts, .. } = self.found;
        let known: HashMap<OutPoint, &TxOut> =
            transaction.input.iter().map(|input| input.previous_output).zip(prevouts).collect();
        transaction.total_sigop_cost(|outpoint| known.get(outpoint).map(|output| (*output).clone()))
    }
}

impl Serialize for TransactionJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ResolvedTransaction { txid, transaction, .. } = self.found;
        let network = self.network;
        let inputs = transaction.input.iter().enumerate();
        let inputs = inputs.map(|(vin, input)| InputJson::of(input, self.found.prevout(vin), network));
        let outputs = transaction.output.iter().map(|output| OutputJson::of(output, network));
        let mut shape = serializer.serialize_struct("Transaction", 10)?;
        shape.serialize_field("txid", txid)?;
        shape.serialize_field("version", &transaction.version.0.cast_unsigned())?;
        shape.serialize_field("locktime", &transaction.lock_time.to_consensus_u32())?;
        shape.serialize_field("vin", &Each::of(inputs))?;
        shape.serialize_field("vout", &Each::of(outputs))?;
        shape.serialize_field("size", &transaction.total_size())?;
        shape.serialize_field("weight", &transaction.weight().to_wu())?;
        if self.found.is_unresolved() {
            shape.serialize_field("unresolved", &true)?;
        } else {
            shape.serialize_field("sigops", &self.sigops())?;
        }
        shape.serialize_field("fee", &self.found.fee().unwrap_or(0))?;
        shape.serialize_field("status", &self.status)?;
        shape.end()
    }
}

impl InputJson {
    /// The input of a coinbase spends nothing.
    fn of(input: &TxIn, prevout: Option<&TxOut>, network: Network) -> Self {
        let inner = prevout.map(|prevout| script::inner_scripts(input, prevout));
        let (redeem, witness) = inner.unwrap_or_default();
        Self {
            txid: input.previous_output.txid,
            vout: input.previous_output.vout,
            prevout: prevout.map(|output| OutputJson::of(output, network)),
            scriptsig: input.script_sig.to_hex_string(),
            scriptsig_asm: script::asm(&input.script_sig),
            witness: (!input.witness.is_empty())
                .then(|| input.witness.iter().map(DisplayHex::to_lower_hex_string).collect()),
            is_coinbase: input.previous_output.is_null(),
            sequence: input.sequence.0,
            inner_redeemscript_asm: redeem,
            inner_witnessscript_asm: witness,
        }
    }
}

impl OutputJson {
    fn of(output: &TxOut, network: Network) -> Self {
        let script = &output.script_pubkey;
        Self {
            scriptpubkey: script.to_hex_string(),
            scriptpubkey_asm: script::asm(script),
            scriptpubkey_type: script::type_of(script),
            scriptpubkey_address: script::address_of(script, network),
            value: output.value.to_sat(),
        }
    }
}

impl StatusJson {
    pub(crate) fn of(at: &Snapshot, block: Option<BlockId>) -> Self {
        let Some(BlockId { height, hash }) = block else { return Self::default() };
        Self {
            confirmed: true,
            block_height: Some(height.0),
            block_hash: Some(hash.to_string()),
            block_time: at.block_time(height),
        }
    }
}

impl From<ScriptStats> for StatsJson {
    fn from(stats: ScriptStats) -> Self {
        Self {
            tx_count: stats.txs,
            funded_txo_count: stats.funded,
            funded_txo_sum: stats.funded_sum,
            spent_txo_count: stats.spent,
            spent_txo_sum: stats.spent_sum,
        }
    }
}

impl OutspendJson {
    pub(crate) fn of(at: &Snapshot, spender: Option<Spender>) -> Self {
        let Some(Spender { txid, vin, block }) = spender else { return Self::default() };
        Self { spent: true, txid: Some(txid), vin: Some(vin), status: Some(StatusJson::of(at, block)) }
    }
}
