//! A running Bitcoin Core as a [`Node`]: the tip, the mempool, fees, broadcast.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockId, BlockStanding, ChainView, MempoolSize, MempoolTxids, Node, NodeError, NodeProgress, NodeUpdate, Ranking,
    SourceError, SourceResult,
};
use bitcoin::hex::{DisplayHex as _, FromHex as _};
use bitcoin::{Amount, BlockHash, OutPoint, TxOut, Txid};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{permanent, transient};
use crate::gaps;
use crate::node_view::{self, BlockInfo, ChainInfo, TipInfo};
use crate::prevout::Prevout;
use crate::rpc::{Rpc, to_source_error};
use crate::text::{Parsed, parsed};
use crate::zmq::ZmqSequence;

/// Number of hashes in one request.
const HASHES_PER_BATCH: u32 = 2000;
/// Longest single wait. Core's HTTP server drops a connection after 30 s without traffic.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Longest single wait without `current_tip`: a new tip may be missed for this long.
const BLIND_WAIT_MAX: Duration = Duration::from_secs(1);
/// Time limit of an answer beyond the wait itself.
const WAIT_GRACE: Duration = Duration::from_secs(15);

/// Blocks above ours that are walked back to find out if an invalid branch is ours.
const BRANCH_WALK_MAX: u32 = 100;

/// Core's default for `maxfeerate`, BTC/kvB.
const FEE_RATE_MAX: f64 = 0.1;
/// A bound above all coins, BTC.
const BURN_MAX: u32 = 21_000_000;

/// A running node, reached over RPC.
#[derive(Debug)]
pub struct CoreNode {
    rpc: Arc<Rpc>,
    /// Set when the node lacks the parameter `current_tip` of `waitfornewblock` (before Core 29).
    waits_blindly: AtomicBool,
    zmq: Option<ZmqSequence>,
}

#[derive(Deserialize)]
struct Tip {
    #[serde(deserialize_with = "parsed")]
    hash: BlockHash,
}

#[derive(Deserialize)]
struct ChainTip {
    blocks: u32,
    #[serde(deserialize_with = "parsed")]
    bestblockhash: BlockHash,
}

impl CoreNode {
    /// Returns the node behind `rpc`.
    pub fn new(rpc: Arc<Rpc>) -> Self {
        Self { rpc, waits_blindly: AtomicBool::new(false), zmq: None }
    }

    /// Adds the node's ZMQ messages, which replace polling while they arrive.
    #[must_use]
    pub fn with_zmq(self, zmq: ZmqSequence) -> Self {
        Self { zmq: Some(zmq), ..self }
    }

    /// Waits up to `wait` for another tip than `known`; returns the tip at the end.
    fn wait_once(&self, known: BlockHash, wait: Duration) -> Result<BlockHash, NodeError> {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let params = if self.waits_blindly.load(Ordering::Relaxed) {
            json!([millis])
        } else {
            json!([millis, known.to_string()])
        };
        let tip: Tip = self.rpc.call_slow("waitfornewblock", &params, wait + WAIT_GRACE)?;
        Ok(tip.hash)
    }

    /// Broadcasts with Core's own bound on the fee rate and without a bound on burnt coins: `OP_RETURN` outputs with a
    /// value are valid and intended by their sender.
    fn call_burning<T: DeserializeOwned>(&self, method: &str, what: &Value) -> Result<T, NodeError> {
        match self.rpc.call(method, &json!([what, FEE_RATE_MAX, BURN_MAX])) {
            // RPC_MISC_ERROR carries the help text: too many parameters. A node without this parameter (Core before 25,
            // `submitpackage` before 28) has no bound.
            Err(NodeError::Rejected { code: -1, .. }) => self.rpc.call(method, &json!([what])),
            answer => answer,
        }
    }

    /// Returns when the tip is no longer `known`, or after `timeout`.
    fn wait_for_tip(&self, known: BlockHash, timeout: Duration) -> SourceResult<()> {
        let mut left = timeout;
        loop {
            let blind = self.waits_blindly.load(Ordering::Relaxed);
            if blind && self.best_hash().map_err(to_source_error)? != known {
                return Ok(());
            }
            let wait = left.min(if blind { BLIND_WAIT_MAX } else { WAIT_MAX });
            match self.wait_once(known, wait) {
                Ok(tip) if tip != known => return Ok(()),
                Ok(_) => left -= wait,
                // RPC_MISC_ERROR carries the help text: too many parameters.
                Err(NodeError::Rejected { code: -1, .. }) if !blind => {
                    self.waits_blindly.store(true, Ordering::Relaxed);
                }
                Err(e) => return Err(to_source_error(e)),
            }
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    /// Calls `getblockheader`; `None` for an unknown block.
    fn block_info(&self, hash: BlockHash) -> SourceResult<Option<BlockInfo>> {
        match self.rpc.call("getblockheader", &json!([hash.to_string()])) {
            Ok(info) => Ok(Some(info)),
            // RPC_INVALID_ADDRESS_OR_KEY: block not found.
            Err(NodeError::Rejected { code: -5, .. }) => Ok(None),
            Err(error) => Err(to_source_error(error)),
        }
    }

    /// Returns the node's knowledge of a block outside its active chain.
    fn standing(&self, hash: BlockHash, info: &BlockInfo) -> SourceResult<BlockStanding> {
        if info.tx_count == 0 {
            return Ok(BlockStanding::Unconnected);
        }
        let tips: Vec<TipInfo> = self.rpc.call("getchaintips", &json!([])).map_err(to_source_error)?;
        if let Some(tip) = tips.iter().find(|tip| tip.hash == hash) {
            return Ok(tip.standing());
        }
        // The node has blocks above ours: the branch that ends with an invalid block may be ours.
        for tip in tips.iter().filter(|tip| tip.height > info.height && tip.standing() == BlockStanding::Invalid) {
            let (mut at, mut steps) = (tip.hash, (tip.height - info.height).min(BRANCH_WALK_MAX));
            while at != hash && steps > 0 {
                let Some(Parsed(previous)) = self.block_info(at)?.and_then(|info| info.previous) else { break };
                (at, steps) = (previous, steps - 1);
            }
            if at == hash {
                return Ok(BlockStanding::Invalid);
            }
        }
        Ok(BlockStanding::Fork)
    }

    fn best_hash(&self) -> Result<BlockHash, NodeError> {
        let Parsed(hash) = self.rpc.call("getbestblockhash", &json!([]))?;
        Ok(hash)
    }
}

impl Node for CoreNode {
    fn best_block(&self) -> SourceResult<BlockId> {
        let tip: ChainTip = self.rpc.call("getblockchaininfo", &json!([])).map_err(to_source_error)?;
        Ok(BlockId { height: Height(tip.blocks), hash: tip.bestblockhash })
    }

    fn progress(&self) -> SourceResult<NodeProgress> {
        let info: ChainInfo = self.rpc.call("getblockchaininfo", &json!([])).map_err(to_source_error)?;
        Ok(info.progress())
    }

    fn chain_view(&self, ours: BlockHash, fork: BlockHash) -> SourceResult<ChainView> {
        let info: ChainInfo = self.rpc.call("getblockchaininfo", &json!([])).map_err(to_source_error)?;
        let fork = self.block_info(fork)?.ok_or_else(moved)?;
        let standing = match self.block_info(ours)? {
            None => BlockStanding::Unknown,
            Some(info) if info.confirmations >= 0 => return Err(moved()),
            Some(info) => self.standing(ours, &info)?,
        };
        node_view::view(&info, fork.work, standing).ok_or_else(moved)
    }

    fn missing_blocks(&self, indexed: Height) -> SourceResult<Option<String>> {
        gaps::missing_blocks(&self.rpc, indexed)
    }

    fn block_hashes(&self, heights: Range<Height>) -> SourceResult<Vec<BlockHash>> {
        let mut hashes = Vec::new();
        let mut from = heights.start.0;
        while from < heights.end.0 {
            let until = heights.end.0.min(from.saturating_add(HASHES_PER_BATCH));
            let params: Vec<Value> = (from..until).map(|height| json!([height])).collect();
            for answer in self.rpc.batch("getblockhash", &params).map_err(to_source_error)? {
                match answer {
                    Ok(Parsed(hash)) => hashes.push(hash),
                    // RPC_INVALID_PARAMETER: the chain ends before.
                    Err(NodeError::Rejected { code: -8, .. }) => return Ok(hashes),
                    Err(e) => return Err(to_source_error(e)),
                }
            }
            from = until;
        }
        Ok(hashes)
    }

    fn wait_for_update(&self, known: BlockHash, timeout: Duration) -> SourceResult<NodeUpdate> {
        match &self.zmq {
            Some(zmq) if zmq.is_connected() => Ok(zmq.wait(timeout)),
            _ => {
                self.wait_for_tip(known, timeout)?;
                Ok(NodeUpdate::Unknown)
            }
        }
    }

    fn mempool_size(&self) -> SourceResult<Option<MempoolSize>> {
        #[derive(Deserialize)]
        struct Info {
            loaded: bool,
            size: u64,
            total_fee: f64,
            /// Since Core 31, which mines by clusters.
            limitclustercount: Option<u64>,
        }
        let info: Info = self.rpc.call("getmempoolinfo", &json!([])).map_err(to_source_error)?;
        let ranking = if info.limitclustercount.is_some() { Ranking::Chunks } else { Ranking::Ancestors };
        let size = MempoolSize { ranking, transactions: info.size, fees: satoshis(info.total_fee) };
        Ok(info.loaded.then_some(size))
    }

    fn fee_deltas(&self) -> SourceResult<HashMap<Txid, i64>> {
        #[derive(Deserialize)]
        struct Prioritised {
            fee_delta: i64,
            in_mempool: bool,
        }
        let all: HashMap<String, Prioritised> = match self.rpc.call("getprioritisedtransactions", &json!([])) {
            Ok(all) => all,
            // RPC_METHOD_NOT_FOUND: Core before 26.
            Err(NodeError::Rejected { code: -32601, .. }) => HashMap::new(),
            Err(error) => return Err(to_source_error(error)),
        };
        let waiting = all.into_iter().filter(|(_, found)| found.in_mempool);
        Ok(waiting.filter_map(|(txid, found)| Some((txid.parse().ok()?, found.fee_delta))).collect())
    }

    fn mempool_txids(&self) -> SourceResult<MempoolTxids> {
        #[derive(Deserialize)]
        struct Listed {
            txids: Vec<Parsed<Txid>>,
            mempool_sequence: u64,
        }
        let listed: Listed = self.rpc.call("getrawmempool", &json!([false, true])).map_err(to_source_error)?;
        let txids = listed.txids.into_iter().map(|Parsed(txid)| txid).collect();
        Ok(MempoolTxids { txids, sequence: listed.mempool_sequence })
    }

    fn mempool_transactions(&self, txids: &[Txid]) -> SourceResult<Vec<Option<Vec<u8>>>> {
        let params: Vec<Value> = txids.iter().map(|txid| json!([txid.to_string(), false])).collect();
        let answers = self.rpc.batch::<String>("getrawtransaction", &params).map_err(to_source_error)?;
        let raw = |answer: Result<String, NodeError>| match answer {
            Ok(hex) => Ok(Some(Vec::from_hex(&hex).map_err(|_| no_hex())?)),
            // RPC_INVALID_ADDRESS_OR_KEY: it has left the mempool.
            Err(NodeError::Rejected { code: -5, .. }) => Ok(None),
            Err(error) => Err(to_source_error(error)),
        };
        answers.into_iter().map(raw).collect()
    }

    fn spending_txids(&self, outputs: &[OutPoint]) -> Result<Vec<Txid>, NodeError> {
        #[derive(Deserialize)]
        struct SpentOutput {
            /// Absent where the output is unspent, or where the node keeps no index.
            spendingtxid: Option<Parsed<Txid>>,
        }
        let asked: Vec<Value> =
            outputs.iter().map(|output| json!({ "txid": output.txid.to_string(), "vout": output.vout })).collect();
        // Without options the node asks its index, if it has one, after its mempool (Core's `rpc/mempool.cpp`).
        let spent: Vec<SpentOutput> = self.rpc.call("gettxspendingprevout", &json!([asked]))?;
        Ok(spent.into_iter().filter_map(|output| Some(output.spendingtxid?.0)).collect())
    }

    fn estimate_fee(&self, blocks: u16, mode: Option<&str>) -> Result<Option<f64>, NodeError> {
        #[derive(Deserialize)]
        struct Estimate {
            feerate: Option<f64>,
        }
        let params = mode.map_or_else(|| json!([blocks]), |mode| json!([blocks, mode]));
        let estimate: Estimate = self.rpc.call_quick("estimatesmartfee", &params)?;
        Ok(estimate.feerate)
    }

    fn relay_fee(&self) -> Result<f64, NodeError> {
        #[derive(Deserialize)]
        struct NetworkInfo {
            relayfee: f64,
        }
        let info: NetworkInfo = self.rpc.call_quick("getnetworkinfo", &json!([]))?;
        Ok(info.relayfee)
    }

    fn broadcast(&self, raw_hex: &str) -> Result<Txid, NodeError> {
        let Parsed(txid) = self.call_burning("sendrawtransaction", &json!(raw_hex))?;
        Ok(txid)
    }

    fn transaction_verbose(&self, txid: Txid) -> Result<Box<RawValue>, NodeError> {
        self.rpc.call("getrawtransaction", &json!([txid.to_string(), true]))
    }

    fn decode_transaction(&self, raw: &[u8]) -> Result<Box<RawValue>, NodeError> {
        // The hint saves Core a guess. A marker of 0 in place of the number of inputs announces witnesses.
        let has_witness = raw.get(4) == Some(&0);
        self.rpc.call("decoderawtransaction", &json!([raw.to_lower_hex_string(), has_witness]))
    }

    fn mempool_transaction(&self, txid: Txid) -> Result<String, NodeError> {
        self.rpc.call("getrawtransaction", &json!([txid.to_string(), false]))
    }

    fn mempool_info(&self) -> Result<Box<RawValue>, NodeError> {
        self.rpc.call_quick("getmempoolinfo", &json!([]))
    }

    fn validate_address(&self, text: &str) -> Result<Box<RawValue>, NodeError> {
        self.rpc.call_quick("validateaddress", &json!([text]))
    }

    fn unspent_outputs(&self, outputs: &[OutPoint]) -> SourceResult<Vec<Option<TxOut>>> {
        let params: Vec<Value> =
            outputs.iter().map(|output| json!([output.txid.to_string(), output.vout, false])).collect();
        let answers = self.rpc.batch::<Option<Prevout>>("gettxout", &params).map_err(to_source_error)?;
        let output = |answer: Result<Option<Prevout>, NodeError>| match answer.map_err(to_source_error)? {
            Some(output) => Ok(Some(output.tx_out().ok_or_else(no_hex)?)),
            None => Ok(None),
        };
        answers.into_iter().map(output).collect()
    }

    fn submit_package(&self, raw_hex: &[String]) -> Result<Box<RawValue>, NodeError> {
        self.call_burning("submitpackage", &json!(raw_hex))
    }

    fn test_mempool_accept(&self, raw_hex: &[String]) -> Result<Box<RawValue>, NodeError> {
        self.rpc.call("testmempoolaccept", &json!([raw_hex]))
    }
}

/// Converts Core's amounts from bitcoin to satoshis.
fn satoshis(btc: f64) -> u64 {
    Amount::from_btc(btc).map_or(0, Amount::to_sat)
}

fn moved() -> SourceError {
    transient("failed to compare the chains: the node's tip moved meanwhile")
}

fn no_hex() -> SourceError {
    permanent("the node sent a transaction that is not hexadecimal; is this Bitcoin Core?")
}
