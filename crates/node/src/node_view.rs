//! The node's chain beside ours, from its answers to `getblockchaininfo`, `getblockheader` and `getchaintips`. Pure.
//!
//! Source: Core's `rpc/blockchain.cpp`.

use birdhouse_chain::Height;
use birdhouse_chain::source::{BlockId, BlockStanding, ChainView, NodeProgress};
use bitcoin::hex::FromHex as _;
use bitcoin::{BlockHash, Work};
use serde::{Deserialize, Deserializer};

use crate::text::{Parsed, parsed};

/// The part of `getblockchaininfo` that concerns the active chain.
#[derive(Debug, Deserialize)]
pub(crate) struct ChainInfo {
    chain: String,
    blocks: u32,
    headers: u32,
    #[serde(rename = "bestblockhash", deserialize_with = "parsed")]
    tip: BlockHash,
    #[serde(rename = "chainwork", deserialize_with = "work")]
    work: Work,
    #[serde(default, rename = "initialblockdownload")]
    initial_download: bool,
}

impl ChainInfo {
    /// Returns the node's tip and download.
    pub(crate) fn progress(&self) -> NodeProgress {
        let best_header = self.is_downloading().then_some(Height(self.headers));
        NodeProgress { tip: BlockId { height: Height(self.blocks), hash: self.tip }, best_header }
    }

    /// True in initial download. An idle regtest chain stays in it, because its last block is old.
    fn is_downloading(&self) -> bool {
        self.initial_download && (self.chain != "regtest" || self.headers > self.blocks)
    }
}

/// The answer of `getblockheader`.
#[derive(Debug, Deserialize)]
pub(crate) struct BlockInfo {
    pub(crate) height: u32,
    /// -1 outside the active chain.
    pub(crate) confirmations: i64,
    #[serde(rename = "chainwork", deserialize_with = "work")]
    pub(crate) work: Work,
    /// 0 while the node has the header alone.
    #[serde(default, rename = "nTx")]
    pub(crate) tx_count: u64,
    #[serde(default, rename = "previousblockhash")]
    pub(crate) previous: Option<Parsed<BlockHash>>,
}

/// One tip of `getchaintips`.
#[derive(Debug, Deserialize)]
pub(crate) struct TipInfo {
    pub(crate) height: u32,
    #[serde(deserialize_with = "parsed")]
    pub(crate) hash: BlockHash,
    status: String,
}

impl TipInfo {
    pub(crate) fn standing(&self) -> BlockStanding {
        match self.status.as_str() {
            "invalid" => BlockStanding::Invalid,
            "valid-fork" | "active" => BlockStanding::Fork,
            // "valid-headers", "headers-only", and words of later versions.
            _ => BlockStanding::Unconnected,
        }
    }
}

/// Returns the node's chain above a fork; `None` if the answers are of different moments.
pub(crate) fn view(info: &ChainInfo, fork_work: Work, ours: BlockStanding) -> Option<ChainView> {
    Some(ChainView {
        tip: BlockId { height: Height(info.blocks), hash: info.tip },
        work: (info.work >= fork_work).then(|| info.work - fork_work)?,
        is_syncing: info.is_downloading() || info.headers > info.blocks,
        ours,
    })
}

fn work<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Work, D::Error> {
    let hex = String::deserialize(deserializer)?;
    let bytes = <[u8; 32]>::from_hex(&hex).map_err(serde::de::Error::custom)?;
    Ok(Work::from_be_bytes(bytes))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn info(chain: &str, blocks: u32, headers: u32) -> ChainInfo {
        serde_json::from_value(serde_json::json!({
            "chain": chain, "blocks": blocks, "headers": headers, "initialblockdownload": false,
            "bestblockhash": "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206",
            "chainwork": "00000000000000000000000000000000000000000000000000000000000000c8",
        }))
        .unwrap()
    }

    fn work_of(units: u8) -> Work {
        let mut bytes = [0; 32];
        bytes[31] = units;
        Work::from_be_bytes(bytes)
    }

    #[test]
    fn work_counts_from_the_fork_and_a_fork_above_the_tip_is_of_another_moment() {
        let at = |fork| view(&info("main", 99, 99), work_of(fork), BlockStanding::Unknown);
        assert_eq!(at(180).unwrap().work, work_of(20));
        assert_eq!(at(200).unwrap().work, work_of(0));
        assert_eq!(at(201), None);
    }

    #[test]
    fn a_node_syncs_in_initial_download_and_while_headers_are_ahead() {
        let is_syncing = |info: ChainInfo| view(&info, work_of(0), BlockStanding::Unknown).unwrap().is_syncing;
        let loading = |info| ChainInfo { initial_download: true, ..info };
        assert!(!is_syncing(info("main", 99, 99)));
        assert!(is_syncing(loading(info("main", 99, 99))));
        assert!(is_syncing(info("main", 98, 99)));
        assert!(!is_syncing(loading(info("regtest", 99, 99))));
        assert!(is_syncing(loading(info("regtest", 98, 99))));
    }
}
