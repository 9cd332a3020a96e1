//! Asks the node's peers for a block, and proves what comes.
//!
//! Blocks that are wanted at the same time are asked of different peers first, so that several of them send, and a
//! silent one delays only its share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::source::{NodeError, SourceResult};
use bitcoin::consensus::deserialize;
use bitcoin::hex::FromHex as _;
use bitcoin::{Block, BlockHash};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::{Asking, PEERS_ASKED_MAX, Step};
use crate::error::{permanent, transient};
use crate::rpc::{Rpc, to_source_error};

/// Time for which a peer that was late with a block is asked after the others.
const LATENESS_REMEMBERED: Duration = Duration::from_mins(10);
/// The service that a peer with all blocks announces.
const ALL_BLOCKS: &str = "NETWORK";

/// The peers of a node.
pub(super) struct Peers {
    rpc: Rpc,
    /// Number of a peer -> when it was late with a block.
    late: Mutex<HashMap<u64, Instant>>,
    /// Blocks that were asked for.
    turns: AtomicUsize,
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
        Self { rpc, late: Mutex::default(), turns: AtomicUsize::new(0) }
    }

    /// Returns a block, after the node has got it from a peer.
    pub(super) fn bring(&self, hash: BlockHash) -> SourceResult<Vec<u8>> {
        // It may be there: another program has asked for it, or the node keeps more than it says.
        if let Some(block) = self.look(hash)? {
            return Ok(block);
        }
        let peers = self.with_all_blocks()?;
        let count = peers.len();
        let block = self.ask_all(hash, Asking::new(peers.iter().map(|peer| peer.id)))?;
        block.ok_or_else(|| {
            transient(format!(
                "the node has removed block {hash}, and none of its {count} peers with all blocks has sent it; try \
                 again later"
            ))
        })
    }

    /// Asks peers until the block is there, or none is left.
    fn ask_all(&self, hash: BlockHash, mut asking: Asking) -> SourceResult<Option<Vec<u8>>> {
        let began = Instant::now();
        loop {
            match asking.step(began.elapsed()) {
                Step::Ask(peer) => {
                    self.note_late(asking.last_asked());
                    if self.ask(hash, peer)? {
                        asking.note_asked(peer, began.elapsed());
                    }
                }
                Step::Look(pause) => {
                    thread::sleep(pause);
                    if let Some(block) = self.look(hash)? {
                        if let Some(peer) = asking.only_asked() {
                            self.late.lock().remove(&peer);
                        }
                        return Ok(Some(block));
                    }
                }
                Step::GiveUp => {
                    self.note_late(asking.last_asked());
                    return Ok(None);
                }
            }
        }
    }

    /// Has the node ask a peer for a block; returns false if this peer cannot be asked.
    fn ask(&self, hash: BlockHash, peer: u64) -> SourceResult<bool> {
        match self.rpc.call::<Value>("getblockfrompeer", &json!([hash.to_string(), peer])) {
            Ok(_) => Ok(true),
            // It has just come.
            Err(NodeError::Rejected { message, .. }) if message.contains("already") => Ok(true),
            Err(NodeError::Rejected { message, .. }) => {
                tracing::debug!(%hash, peer, message, "a peer cannot be asked for a block");
                Ok(false)
            }
            Err(error) => Err(to_source_error(error)),
        }
    }

    fn note_late(&self, peer: Option<u64>) {
        if let Some(peer) = peer {
            self.late.lock().insert(peer, Instant::now());
        }
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

    /// Returns the peers that have all blocks, in the order in which they are asked for the next one.
    fn with_all_blocks(&self) -> SourceResult<Vec<Peer>> {
        let mut peers = peers_of(&self.rpc)?;
        peers.retain(Peer::has_all_blocks);
        let mut late = self.late.lock();
        late.retain(|_, since| since.elapsed() < LATENESS_REMEMBERED);
        rank(&mut peers, &late, self.turns.fetch_add(1, Ordering::Relaxed));
        Ok(peers)
    }
}

/// Sorts the peers: those that answer fast first, those that were late last. Of those that are asked for one block at
/// most, each one in turn is the first, unless it was late.
fn rank(peers: &mut [Peer], late: &HashMap<u64, Instant>, turn: usize) {
    let ping = |peer: &Peer| peer.ping.unwrap_or(f64::MAX);
    let since = |peer: &Peer| late.get(&peer.id).copied();
    peers.sort_by(|one, other| since(one).cmp(&since(other)).then(ping(one).total_cmp(&ping(other))));
    let asked = peers.len().min(PEERS_ASKED_MAX);
    let prompt = peers[..asked].iter().filter(|peer| since(peer).is_none()).count();
    let in_turn = if prompt == 0 { asked } else { prompt };
    if in_turn > 0 {
        peers[..in_turn].rotate_left(turn % in_turn);
    }
}

/// Returns `true` if these bytes are the block: header, transactions and witnesses.
fn is_proven(hash: BlockHash, bytes: &[u8]) -> bool {
    let block: Result<Block, _> = deserialize(bytes);
    block.is_ok_and(|block| block.block_hash() == hash && block.check_merkle_root() && block.check_witness_commitment())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(pings: &[Option<f64>], late: &HashMap<u64, Instant>, turn: usize) -> Vec<u64> {
        let mut peers: Vec<Peer> =
            (1..).zip(pings).map(|(id, ping)| Peer { id, services: Vec::new(), ping: *ping }).collect();
        rank(&mut peers, late, turn);
        peers.iter().map(|peer| peer.id).collect()
    }

    #[test]
    fn peers_that_were_late_are_asked_after_those_that_are_slow() {
        let now = Instant::now();
        let late = HashMap::from([(4, now + Duration::from_secs(1)), (3, now)]);
        let pings = [None, Some(0.5), Some(0.1), Some(0.2), Some(0.3)];
        assert_eq!(ranked(&pings, &late, 0), [5, 2, 1, 3, 4]);
    }

    #[test]
    fn each_of_the_five_fastest_peers_is_the_first_in_turn() {
        let pings = [Some(0.1), Some(0.2), Some(0.3), Some(0.4), Some(0.5), Some(0.6), None];
        let none = HashMap::new();
        assert_eq!(ranked(&pings, &none, 10), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(ranked(&pings, &none, 12), [3, 4, 5, 1, 2, 6, 7]);
        let late = HashMap::from([2, 3, 4, 6, 7].map(|peer| (peer, Instant::now())));
        let firsts: Vec<u64> = (0..4).map(|turn| ranked(&pings, &late, turn)[0]).collect();
        assert_eq!(firsts, [1, 5, 1, 5]);
        // Where all were late, none is spared.
        let late = HashMap::from([(1, Instant::now()), (2, Instant::now() + Duration::from_secs(1))]);
        assert_eq!([ranked(&pings[..2], &late, 0), ranked(&pings[..2], &late, 1)], [[1, 2], [2, 1]]);
        assert_eq!(ranked(&[], &none, 3), Vec::<u64>::new());
    }
}
