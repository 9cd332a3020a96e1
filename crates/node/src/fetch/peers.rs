//! Asks the node's peers for a block, one after the other, and proves what comes.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::source::{NodeError, SourceResult};
use bitcoin::consensus::deserialize;
use bitcoin::hex::FromHex as _;
use bitcoin::{Block, BlockHash};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{permanent, transient};
use crate::rpc::{Rpc, to_source_error};

/// Time in which a peer must send a block. Over Tor a block takes some seconds.
const PEER_PATIENCE: Duration = Duration::from_secs(8);
/// Peers that are asked for one block.
const PEERS_ASKED_MAX: usize = 5;
/// Pauses between two looks for a block that is under way: doubled each time, from the first to the second.
const LOOK_MIN: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(100);
/// Time for which a peer that did not send a block is asked after the others.
const FAILURE_REMEMBERED: Duration = Duration::from_mins(10);
/// The service that a peer with all blocks announces.
const ALL_BLOCKS: &str = "NETWORK";

/// The peers of a node.
pub(super) struct Peers {
    rpc: Rpc,
    /// Number of a peer -> when it did not send a block.
    failures: Mutex<HashMap<u64, Instant>>,
}

/// A peer in the answer of `getpeerinfo`.
#[derive(Debug, Clone, Deserialize)]
struct Peer {
    id: u64,
    #[serde(rename = "servicesnames", default)]
    services: Vec<String>,
    /// Seconds.
    #[serde(rename = "minping", default)]
    ping: Option<f64>,
}

/// Counts the peers of a node that have all blocks, so that they can send what it has deleted.
///
/// # Errors
/// The node does not answer.
pub fn full_peers(rpc: &Rpc) -> SourceResult<usize> {
    Ok(peers_of(rpc)?.iter().filter(|peer| peer.has_all_blocks()).count())
}

fn peers_of(rpc: &Rpc) -> SourceResult<Vec<Peer>> {
    rpc.call("getpeerinfo", &json!([])).map_err(to_source_error)
}

impl Peer {
    fn has_all_blocks(&self) -> bool {
        self.services.iter().any(|service| service == ALL_BLOCKS)
    }
}

impl Peers {
    pub(super) fn new(rpc: Rpc) -> Self {
        Self { rpc, failures: Mutex::default() }
    }

    /// Returns a block, after the node has got it from a peer.
    pub(super) fn bring(&self, hash: BlockHash) -> SourceResult<Vec<u8>> {
        // It may be there: another program has asked for it, or the node keeps more than it says.
        if let Some(block) = self.look(hash)? {
            return Ok(block);
        }
        let peers = self.with_all_blocks()?;
        for peer in peers.iter().take(PEERS_ASKED_MAX) {
            match self.rpc.call::<Value>("getblockfrompeer", &json!([hash.to_string(), peer.id])) {
                Ok(_) => {}
                Err(NodeError::Rejected { message, .. }) if message.contains("already") => {}
                Err(NodeError::Rejected { message, .. }) => {
                    tracing::debug!(%hash, peer = peer.id, message, "a peer cannot be asked for a block");
                    continue;
                }
                Err(error) => return Err(to_source_error(error)),
            }
            if let Some(block) = self.await_block(hash)? {
                self.failures.lock().remove(&peer.id);
                return Ok(block);
            }
            self.failures.lock().insert(peer.id, Instant::now());
        }
        Err(transient(format!(
            "the node has removed block {hash}, and none of its {} peers with all blocks has sent it; try again later",
            peers.len()
        )))
    }

    /// Looks for a block until [`PEER_PATIENCE`] is over.
    fn await_block(&self, hash: BlockHash) -> SourceResult<Option<Vec<u8>>> {
        let (began, mut pause) = (Instant::now(), LOOK_MIN);
        while began.elapsed() < PEER_PATIENCE {
            thread::sleep(pause);
            if let Some(block) = self.look(hash)? {
                return Ok(Some(block));
            }
            pause = (pause * 2).min(LOOK_MAX);
        }
        Ok(None)
    }

    /// Asks the node for a block; `None` if it has removed it.
    fn look(&self, hash: BlockHash) -> SourceResult<Option<Vec<u8>>> {
        let hex: String = match self.rpc.call("getblock", &json!([hash.to_string(), 0])) {
            // RPC_MISC_ERROR: pruned, or not there yet.
            Err(NodeError::Rejected { code: -1, .. }) => return Ok(None),
            answer => answer.map_err(to_source_error)?,
        };
        let bytes = Vec::from_hex(&hex).ok().filter(|bytes| is_proven(hash, bytes));
        bytes.map(Some).ok_or_else(|| permanent(format!("the node sent another block than {hash}, or one that is cut")))
    }

    /// Returns the peers that have all blocks: those that answer fast first, those that failed lately last.
    fn with_all_blocks(&self) -> SourceResult<Vec<Peer>> {
        let mut peers = peers_of(&self.rpc)?;
        peers.retain(Peer::has_all_blocks);
        let mut failures = self.failures.lock();
        failures.retain(|_, failed| failed.elapsed() < FAILURE_REMEMBERED);
        rank(&mut peers, &failures);
        Ok(peers)
    }
}

fn rank(peers: &mut [Peer], failures: &HashMap<u64, Instant>) {
    let ping = |peer: &Peer| peer.ping.unwrap_or(f64::MAX);
    peers.sort_by(|one, other| {
        let failed = |peer: &Peer| failures.get(&peer.id).copied();
        failed(one).cmp(&failed(other)).then(ping(one).total_cmp(&ping(other)))
    });
}

/// Returns `true` if these bytes are the block: header, transactions and witnesses.
fn is_proven(hash: BlockHash, bytes: &[u8]) -> bool {
    let block: Result<Block, _> = deserialize(bytes);
    block.is_ok_and(|block| block.block_hash() == hash && block.check_merkle_root() && block.check_witness_commitment())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_failed_are_asked_after_those_that_are_slow() {
        let peer = |id, ping| Peer { id, services: Vec::new(), ping };
        let mut peers =
            vec![peer(1, None), peer(2, Some(0.5)), peer(3, Some(0.1)), peer(4, Some(0.2)), peer(5, Some(0.3))];
        let now = Instant::now();
        rank(&mut peers, &HashMap::from([(4, now + Duration::from_secs(1)), (3, now)]));
        assert_eq!(peers.iter().map(|peer| peer.id).collect::<Vec<_>>(), [5, 2, 1, 3, 4]);
    }
}
