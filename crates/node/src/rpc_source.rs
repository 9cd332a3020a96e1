//! Blocks over plain RPC: the slow path for nodes with neither files in reach nor a recent REST interface (Core 23 on).
//!
//! `getblock 0` gives a block as hex, `getblock 3` the outputs it spends; they are converted to the format of
//! `/rest/spenttxouts`.

use std::ops::Range;
use std::sync::Arc;

use birdhouse_chain::Height;
use birdhouse_chain::source::{BlockMeta, Node, SourceResult};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::consensus::encode::VarInt;
use bitcoin::consensus::serialize;
use bitcoin::hex::FromHex;
use bitcoin::{BlockHash, Network};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core_node::CoreNode;
use crate::error::{not_found, permanent};
use crate::header_json::HeaderJson;
use crate::prevout::Prevout;
use crate::remote::{self, Interface, RemoteSource};
use crate::rpc::{Rpc, to_source_error};

/// Number of headers in one request.
const HEADERS_PER_BATCH: u32 = 500;
/// A node's RPC server as a source of blocks.
pub type RpcSource = RemoteSource<RpcBlocks>;

/// A node's RPC server as an interface for blocks.
#[derive(Debug)]
pub struct RpcBlocks {
    rpc: Arc<Rpc>,
    node: CoreNode,
    network: Network,
}

#[derive(Deserialize)]
struct VerboseBlock {
    tx: Vec<VerboseTransaction>,
}

#[derive(Deserialize)]
struct VerboseTransaction {
    vin: Vec<Input>,
}

#[derive(Deserialize)]
struct Input {
    prevout: Option<Prevout>,
}

impl RpcSource {
    /// Opens the node behind `rpc` as a source.
    ///
    /// # Errors
    /// The node is of another network or cannot be reached.
    pub fn open(rpc: Arc<Rpc>, network: Network) -> SourceResult<Self> {
        let source = Self::behind(rpc, network);
        let blocks = &source.0;
        let first = blocks.node.block_hashes(Height(0)..Height(1))?;
        if first.first() != Some(&genesis_block(network).block_hash()) {
            return Err(permanent(format!(
                "the node at {} is not of the network {}; choose another --network or another node",
                blocks.rpc.address(),
                network.to_core_arg()
            )));
        }
        Ok(source)
    }

    /// Returns the node behind `rpc` as a source, without asking it.
    pub(crate) fn behind(rpc: Arc<Rpc>, network: Network) -> Self {
        Self(RpcBlocks { node: CoreNode::new(Arc::clone(&rpc)), rpc, network })
    }
}

impl RpcBlocks {
    fn tip_height(&self, tip: Option<BlockHash>) -> SourceResult<Height> {
        #[derive(Deserialize)]
        struct Place {
            height: u32,
            confirmations: i64,
        }
        let Some(hash) = tip else { return Ok(self.node.best_block()?.height) };
        let place: Place = self.rpc.call("getblockheader", &json!([hash.to_string()])).map_err(to_source_error)?;
        if place.confirmations < 0 {
            return Err(remote::moved(hash));
        }
        Ok(Height(place.height))
    }

    fn headers(&self, heights: Range<u32>) -> SourceResult<Vec<HeaderJson>> {
        let wanted = heights.len();
        let hashes = self.node.block_hashes(Height(heights.start)..Height(heights.end))?;
        if hashes.len() < wanted {
            return Err(not_found("the node's chain became shorter during the read"));
        }
        let params: Vec<Value> = hashes.iter().map(|hash| json!([hash.to_string()])).collect();
        let answers = self.rpc.batch("getblockheader", &params).map_err(to_source_error)?;
        answers.into_iter().map(|answer| answer.map_err(to_source_error)).collect()
    }
}

impl Interface for RpcBlocks {
    fn describe(&self) -> String {
        format!("RPC at {} ({}; slow)", self.rpc.address(), self.network.to_core_arg())
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        let end = self.tip_height(tip)?.0 + 1;
        let mut chain: Vec<BlockMeta> = Vec::new();
        while (chain.len() as u64) < u64::from(end) {
            let from = u32::try_from(chain.len()).unwrap_or(end);
            for header in self.headers(from..end.min(from + HEADERS_PER_BATCH))? {
                let hash = header.hash;
                let previous = chain.last().map(|meta| meta.hash);
                chain.push(header.into_meta(previous).ok_or_else(|| remote::moved(hash))?);
            }
        }
        match (tip, chain.last()) {
            (Some(tip), Some(last)) if last.hash != tip => Err(remote::moved(tip)),
            _ => Ok(chain),
        }
    }

    fn raw_block(&self, hash: BlockHash) -> SourceResult<Vec<u8>> {
        let hex: String = self.rpc.call("getblock", &json!([hash.to_string(), 0])).map_err(to_source_error)?;
        Vec::from_hex(&hex).map_err(|e| permanent(format!("failed to decode the node's hex of block {hash}: {e}")))
    }

    fn spent(&self, hash: BlockHash) -> SourceResult<Vec<u8>> {
        let block: VerboseBlock = self.rpc.call("getblock", &json!([hash.to_string(), 3])).map_err(to_source_error)?;
        spent_outputs(&block).ok_or_else(|| {
            permanent(format!(
                "the node sent no previous outputs in block {hash}: it is older than Bitcoin Core 23, or pruned"
            ))
        })
    }
}

/// Returns the bytes of `/rest/spenttxouts`: per transaction a count and its `CTxOut`s, none for the coinbase. `None`
/// when a previous output is missing or malformed.
fn spent_outputs(block: &VerboseBlock) -> Option<Vec<u8>> {
    let count = |n: usize| serialize(&VarInt(n as u64));
    let mut bytes = count(block.tx.len());
    for (at, tx) in block.tx.iter().enumerate() {
        let inputs = if at == 0 { &[] } else { tx.vin.as_slice() };
        bytes.extend(count(inputs.len()));
        for input in inputs {
            let prevout = input.prevout.as_ref()?;
            bytes.extend(serialize(&prevout.tx_out()?));
        }
    }
    Some(bytes)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn prevouts_are_written_as_rest_writes_them() {
        let json = r#"{"tx":[{"vin":[{"coinbase":"00"}]},
            {"vin":[{"prevout":{"value":0.00000258,"scriptPubKey":{"hex":"51"}}}]}]}"#;
        let block: VerboseBlock = serde_json::from_str(json).unwrap();
        assert_eq!(spent_outputs(&block).unwrap(), [2, 0, 1, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0x51]);
        let pruned: VerboseBlock = serde_json::from_str(r#"{"tx":[{"vin":[]},{"vin":[{}]}]}"#).unwrap();
        assert!(spent_outputs(&pruned).is_none());
    }
}
