//! The node's own changes as ZMQ `sequence` messages, for a Bitcoin Core that was built without ZMQ.
//!
//! Core tells its validation events to its log (`-debug=validation`) in the order in which it would hand them to ZMQ;
//! this reads them there and publishes each in ZMQ's form. Messages: topic `sequence`; 32 bytes of hash as it is shown,
//! a letter (`C` and `D` for blocks, `A` and `R` for transactions), for transactions the mempool sequence (u64 LE);
//! the message's own number (u32 LE). Source: `doc/zmq.md` and `src/zmq/zmqpublishnotifier.cpp` of Core.
//!
//! The mempool sequence is counted as Core counts it: one for each transaction that enters or leaves, silently for those
//! that a block confirms. (Where a block also evicts conflicting transactions, these are numbered before the confirmed
//! ones; Core mixes them by their place in the block. Nobody can see the mempool between the two.)

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use birdhouse_regtest::bitcoind::Bitcoind;
use bitcoin::hashes::{Hash, sha256d};

use crate::error::{Error, Result, at};
use crate::zmtp::PubSocket;

const TOPIC: &[u8] = b"sequence";
/// How soon a change is seen; well below the 100 ms that are promised to clients.
const POLL: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_mins(1);
/// The first mempool sequence that a node of Core hands out.
const FIRST_SEQUENCE: u64 = 1;

/// Publishes the changes of a node that was started with [`Options::logging_changes`](crate::Options::logging_changes).
/// Dropping it closes its socket.
#[derive(Debug)]
pub struct SequencePublisher {
    socket: Arc<PubSocket>,
    switches: Arc<Switches>,
    tail: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Switches {
    stop: AtomicBool,
    /// So many of the next messages are numbered and not sent.
    lose: AtomicU32,
    /// The number of the next message.
    next: AtomicU32,
}

impl SequencePublisher {
    /// Listens on a loopback port, and publishes from here on.
    pub fn start(node: &Bitcoind) -> Result<Self> {
        let log = node.log();
        let file = File::open(&log).map_err(at(&log))?;
        let socket = Arc::new(PubSocket::bind()?);
        let switches = Arc::new(Switches::default());
        let tail = {
            let (socket, switches) = (Arc::clone(&socket), Arc::clone(&switches));
            thread::spawn(move || Tail::new(&socket, &switches).follow(file, &log))
        };
        Ok(Self { socket, switches, tail: Some(tail) })
    }

    /// As `-zmqpubsequence` names it.
    pub fn address(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.socket.port())
    }

    /// Numbers the next `count` messages but does not send them: subscribers see a gap.
    pub fn lose(&self, count: u32) {
        self.switches.lose.store(count, Ordering::Relaxed);
    }

    /// Whether nothing was published for a while.
    #[cfg(test)]
    fn is_quiet(&self) -> bool {
        let before = self.published();
        thread::sleep(50 * POLL);
        self.published() == before
    }

    /// How many messages the node has had to tell since it started, lost ones included.
    pub fn published(&self) -> u32 {
        self.switches.next.load(Ordering::Relaxed)
    }

    /// Closes all connections, as a node that restarts does.
    pub fn disconnect_all(&self) {
        self.socket.disconnect_all();
    }

    /// Waits until somebody subscribes.
    pub fn wait_for_subscriber(&self) -> Result<()> {
        let start = Instant::now();
        while self.socket.subscribers(TOPIC) == 0 {
            if start.elapsed() > PATIENCE {
                return Err(Error::Protocol(format!("nobody subscribes to {}", self.address())));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for SequencePublisher {
    fn drop(&mut self) {
        self.switches.stop.store(true, Ordering::Relaxed);
        if let Some(tail) = self.tail.take() {
            let _ = tail.join();
        }
    }
}

/// What a line of the node's log tells.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    /// Another process writes this log from here on.
    Started,
    Ended,
    Entered([u8; 32]),
    Left([u8; 32]),
    /// So many transactions left with a block.
    Confirmed(u64),
    Connected([u8; 32]),
    Disconnected([u8; 32]),
}

impl Told {
    fn parse(line: &str) -> Option<Self> {
        if line.contains("Bitcoin Core version") {
            return Some(Self::Started);
        }
        if line.trim_end().ends_with("Shutdown done") {
            return Some(Self::Ended);
        }
        let (_, event) = line.split_once("[validation] ")?;
        let (name, facts) = event.split_once(": ")?;
        let fact = |key| facts.split(' ').find_map(|fact: &str| fact.strip_prefix(key)).map(str::trim_end);
        Some(match name {
            "TransactionAddedToMempool" => Self::Entered(shown(fact("txid=")?)?),
            "TransactionRemovedFromMempool" => Self::Left(shown(fact("txid=")?)?),
            "MempoolTransactionsRemovedForBlock" => Self::Confirmed(fact("removed=")?.parse().ok()?),
            "BlockConnected" => Self::Connected(shown(fact("hash=")?)?),
            "BlockDisconnected" => Self::Disconnected(shown(fact("hash=")?)?),
            _ => return None,
        })
    }
}

/// The bytes of a hash in the order in which it is shown.
fn shown(hex: &str) -> Option<[u8; 32]> {
    let hash: sha256d::Hash = hex.parse().ok()?;
    let mut bytes = hash.to_byte_array();
    bytes.reverse();
    Some(bytes)
}

struct Tail<'a> {
    socket: &'a PubSocket,
    switches: &'a Switches,
    mempool_sequence: u64,
}

impl<'a> Tail<'a> {
    fn new(socket: &'a PubSocket, switches: &'a Switches) -> Self {
        Self { socket, switches, mempool_sequence: FIRST_SEQUENCE }
    }

    /// Reads the log from its beginning, so that the count of the mempool sequence is that of the node.
    fn follow(&mut self, file: File, path: &Path) {
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while !self.switches.stop.load(Ordering::Relaxed) {
            match reader.read_until(b'\n', &mut line) {
                Ok(_) if line.last() == Some(&b'\n') => {
                    if let Some(told) = Told::parse(&String::from_utf8_lossy(&line)) {
                        self.tell(&told);
                    }
                    line.clear();
                }
                // The rest of the line is not there yet.
                Ok(_) => thread::sleep(POLL),
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    fn tell(&mut self, told: &Told) {
        match told {
            Told::Started => {
                self.mempool_sequence = FIRST_SEQUENCE;
                self.switches.next.store(0, Ordering::Relaxed);
                self.socket.disconnect_all();
            }
            Told::Ended => self.socket.disconnect_all(),
            Told::Confirmed(count) => self.mempool_sequence += count,
            Told::Entered(hash) => self.publish_transaction(hash, b'A'),
            Told::Left(hash) => self.publish_transaction(hash, b'R'),
            Told::Connected(hash) => self.publish(&[&hash[..], b"C"].concat()),
            Told::Disconnected(hash) => self.publish(&[&hash[..], b"D"].concat()),
        }
    }

    fn publish_transaction(&mut self, hash: &[u8; 32], label: u8) {
        self.publish(&[&hash[..], &[label], &self.mempool_sequence.to_le_bytes()].concat());
        self.mempool_sequence += 1;
    }

    fn publish(&self, body: &[u8]) {
        let number = self.switches.next.fetch_add(1, Ordering::Relaxed);
        let lose = self.switches.lose.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if lose.is_err() {
            self.socket.send(&[TOPIC, body, &number.to_le_bytes()]);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use birdhouse_regtest::mix::Size;
    use bitcoin::Block;
    use bitcoin::hex::DisplayHex as _;
    use serde_json::json;

    use super::*;
    use crate::Options;
    use crate::live::LiveNode;
    use crate::zmtp::{receive, subscribe};

    const HASH: &str = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";

    fn line(event: &str) -> Option<Told> {
        Told::parse(&format!("2026-01-01T00:00:00Z [validation] {event}\n"))
    }

    #[test]
    fn events_are_told_when_they_happen_and_not_when_they_are_queued() {
        let added = format!("TransactionAddedToMempool: txid={HASH} wtxid={HASH}");
        let hash = shown(HASH).unwrap();
        assert_eq!((hash[0], hash[31]), (0x0f, 0x06));
        assert_eq!(line(&added), Some(Told::Entered(hash)));
        assert_eq!(line(&format!("Enqueuing {added}")), None);
        let removed = format!("TransactionRemovedFromMempool: txid={HASH} wtxid={HASH} reason=sizelimit");
        assert_eq!(line(&removed), Some(Told::Left(hash)));
        assert_eq!(
            line("MempoolTransactionsRemovedForBlock: block height=7 txs removed=12"),
            Some(Told::Confirmed(12))
        );
        assert_eq!(line(&format!("BlockConnected: block hash={HASH} block height=7")), Some(Told::Connected(hash)));
    }

    /// Plays the messages on the mempool that was, with every number in its place.
    struct Replay {
        mempool: BTreeSet<String>,
        mempool_sequence: u64,
        next: Option<u32>,
    }

    impl Replay {
        fn play(&mut self, parts: &[Vec<u8>], node: &Bitcoind) {
            let [topic, body, number] = parts else { panic!("{} parts", parts.len()) };
            let number = u32::from_le_bytes(number[..].try_into().unwrap());
            assert_eq!(number, *self.next.get_or_insert(number));
            self.next = Some(number + 1);
            assert_eq!(topic, TOPIC);
            let hash: String = body[..32].to_lower_hex_string();
            match (body[32], &body[33..]) {
                (b'C', []) => {
                    let block = node.rpc("getblock", json!([hash, 0])).unwrap();
                    let block: Block = bitcoin::consensus::encode::deserialize_hex(block.as_str().unwrap()).unwrap();
                    for tx in block.txdata {
                        self.mempool_sequence += u64::from(self.mempool.remove(&tx.compute_txid().to_string()));
                    }
                }
                (b'D', []) => {}
                (label, sequence) => {
                    // In a reorg Core tells who came back before it tells the blocks of the new branch.
                    assert!(u64::from_le_bytes(sequence.try_into().unwrap()) >= self.mempool_sequence);
                    self.mempool_sequence += 1;
                    match label {
                        b'A' => assert!(self.mempool.insert(hash)),
                        // What is evicted as it enters was never told to enter.
                        b'R' => drop(self.mempool.remove(&hash)),
                        _ => panic!("label {label}"),
                    }
                }
            }
        }
    }

    fn mempool(node: &Bitcoind) -> (BTreeSet<String>, u64) {
        let mempool = node.rpc("getrawmempool", json!([false, true])).unwrap();
        let txids = mempool["txids"].as_array().unwrap().iter();
        let txids = txids.map(|txid| txid.as_str().unwrap().to_owned()).collect();
        (txids, mempool["mempool_sequence"].as_u64().unwrap())
    }

    #[test]
    fn messages_played_on_the_mempool_that_was_give_the_one_that_is() {
        let tiny = Size { blocks: 5, block_txs: 4, scripts_per_form: 10, busy: &[] };
        let small = ["-maxmempool=1", "-limitclustersize=25", "-mempoolexpiry=1"];
        let options = small.into_iter().fold(Options::default().logging_changes(), Options::arg);
        let mut live = LiveNode::start(81, tiny, options).unwrap();
        live.random_move().unwrap();
        let publisher = SequencePublisher::start(live.node()).unwrap();
        // Past what happened before: nothing of it is told to a late subscriber.
        while publisher.published() == 0 || !publisher.is_quiet() {
            thread::sleep(POLL);
        }
        let mut subscriber = subscribe(publisher.socket.port(), TOPIC);
        publisher.wait_for_subscriber().unwrap();
        let (before, mempool_sequence) = mempool(live.node());
        let mut replay = Replay { mempool: before, mempool_sequence, next: None };
        let told = publisher.published();
        for _ in 0..150 {
            live.random_move().unwrap();
        }
        let (after, mempool_sequence) = mempool(live.node());
        while replay.mempool != after || replay.mempool_sequence != mempool_sequence {
            replay.play(&receive(&mut subscriber).unwrap(), live.node());
        }
        assert!(replay.next.unwrap() > told + 100, "much has happened");
    }
}
