//! The node's own changes as ZMQ `sequence` messages, for a Bitcoin Core that was built without ZMQ.
//!
//! Core logs its validation events (`-debug=validation`) in the order in which it would publish them by ZMQ. The
//! publisher reads the log and sends each event in ZMQ's form: topic `sequence`; 32 bytes of hash in display order, a
//! letter (`C` and `D` for blocks, `A` and `R` for transactions), for transactions the mempool sequence (u64 LE); the
//! message's own number (u32 LE). Source: `doc/zmq.md` and `src/zmq/zmqpublishnotifier.cpp` of Core.
//!
//! The mempool sequence is counted as Core counts it: one for each transaction that enters or leaves, without a message
//! for those that a block confirms. Where a block also evicts conflicting transactions, these are numbered before the
//! confirmed ones, while Core numbers them in the order of the block. No client can see the mempool between the two.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use birdhouse_regtest::bitcoind::Bitcoind;
use bitcoin::hashes::{Hash, sha256d};

use crate::chains::zmtp::PubSocket;
use crate::error::{Error, Result, at};

const TOPIC: &[u8] = b"sequence";
/// Interval between two reads of the log; well below the 100 ms that are promised to clients.
const POLL: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_mins(1);
/// The first mempool sequence of a node.
const FIRST_SEQUENCE: u64 = 1;

/// Publishes the changes of a node that was started with [`Options::logging_changes`](crate::Options::logging_changes).
/// Dropping it closes its socket.
#[derive(Debug)]
pub struct SequencePublisher {
    socket: Arc<PubSocket>,
    switches: Arc<Switches>,
    follower: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Switches {
    stop: AtomicBool,
    /// Number of next messages that are numbered and not sent.
    lose: AtomicU32,
    /// The number of the next message.
    next: AtomicU32,
}

impl SequencePublisher {
    /// Listens on a loopback port and publishes from here on.
    pub fn start(node: &Bitcoind) -> Result<Self> {
        let log = node.log();
        let file = File::open(&log).map_err(at(&log))?;
        let socket = Arc::new(PubSocket::bind()?);
        let switches = Arc::new(Switches::default());
        let follower = {
            let (socket, switches) = (Arc::clone(&socket), Arc::clone(&switches));
            thread::spawn(move || LogFollower::new(&socket, &switches).follow(file, &log))
        };
        Ok(Self { socket, switches, follower: Some(follower) })
    }

    /// Returns the address in the form of `-zmqpubsequence`.
    pub fn address(&self) -> String {
        format!("tcp://127.0.0.1:{}", self.socket.port())
    }

    /// Numbers the next `count` messages without sending them: subscribers see a gap.
    pub fn lose(&self, count: u32) {
        self.switches.lose.store(count, Ordering::Relaxed);
    }

    /// Returns true when nothing is published for 100 ms.
    #[cfg(test)]
    fn is_quiet(&self) -> bool {
        let before = self.published();
        thread::sleep(50 * POLL);
        self.published() == before
    }

    /// Returns the number of messages since the node started, lost ones included.
    pub fn published(&self) -> u32 {
        self.switches.next.load(Ordering::Relaxed)
    }

    /// Closes all connections, as a node that restarts does.
    pub fn disconnect_all(&self) {
        self.socket.disconnect_all();
    }

    /// Waits until a client subscribes.
    pub fn wait_for_subscriber(&self) -> Result<()> {
        let start = Instant::now();
        while self.socket.subscribers(TOPIC) == 0 {
            if start.elapsed() > PATIENCE {
                return Err(Error::Protocol(format!("no client subscribed to {} within a minute", self.address())));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for SequencePublisher {
    fn drop(&mut self) {
        self.switches.stop.store(true, Ordering::Relaxed);
        if let Some(follower) = self.follower.take() {
            let _ = follower.join();
        }
    }
}

/// An event of the node's log.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LogEvent {
    /// Another process writes the log from here on.
    Started,
    Ended,
    Entered([u8; 32]),
    Left([u8; 32]),
    /// A block confirmed this number of transactions.
    Confirmed(u64),
    Connected([u8; 32]),
    Disconnected([u8; 32]),
}

impl LogEvent {
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
            "TransactionAddedToMempool" => Self::Entered(display_bytes(fact("txid=")?)?),
            "TransactionRemovedFromMempool" => Self::Left(display_bytes(fact("txid=")?)?),
            "MempoolTransactionsRemovedForBlock" => Self::Confirmed(fact("removed=")?.parse().ok()?),
            "BlockConnected" => Self::Connected(display_bytes(fact("hash=")?)?),
            "BlockDisconnected" => Self::Disconnected(display_bytes(fact("hash=")?)?),
            _ => return None,
        })
    }
}

/// Returns the bytes of a hash in display order.
fn display_bytes(hex: &str) -> Option<[u8; 32]> {
    let hash: sha256d::Hash = hex.parse().ok()?;
    let mut bytes = hash.to_byte_array();
    bytes.reverse();
    Some(bytes)
}

struct LogFollower<'a> {
    socket: &'a PubSocket,
    switches: &'a Switches,
    mempool_sequence: u64,
}

impl<'a> LogFollower<'a> {
    fn new(socket: &'a PubSocket, switches: &'a Switches) -> Self {
        Self { socket, switches, mempool_sequence: FIRST_SEQUENCE }
    }

    /// Reads the log from its beginning, so that the mempool sequence equals the node's.
    fn follow(&mut self, file: File, path: &Path) {
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while !self.switches.stop.load(Ordering::Relaxed) {
            match reader.read_until(b'\n', &mut line) {
                Ok(_) if line.last() == Some(&b'\n') => {
                    if let Some(event) = LogEvent::parse(&String::from_utf8_lossy(&line)) {
                        self.publish_event(&event);
                    }
                    line.clear();
                }
                // The rest of the line is not written yet.
                Ok(_) => thread::sleep(POLL),
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    fn publish_event(&mut self, event: &LogEvent) {
        match event {
            LogEvent::Started => {
                self.mempool_sequence = FIRST_SEQUENCE;
                self.switches.next.store(0, Ordering::Relaxed);
                self.socket.disconnect_all();
            }
            LogEvent::Ended => self.socket.disconnect_all(),
            LogEvent::Confirmed(count) => self.mempool_sequence += count,
            LogEvent::Entered(hash) => self.publish_transaction(hash, b'A'),
            LogEvent::Left(hash) => self.publish_transaction(hash, b'R'),
            LogEvent::Connected(hash) => self.publish(&[&hash[..], b"C"].concat()),
            LogEvent::Disconnected(hash) => self.publish(&[&hash[..], b"D"].concat()),
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
    use crate::chains::live::LiveNode;
    use crate::chains::zmtp::{receive, subscribe};

    const HASH: &str = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";

    fn line(event: &str) -> Option<LogEvent> {
        LogEvent::parse(&format!("2026-01-01T00:00:00Z [validation] {event}\n"))
    }

    #[test]
    fn events_are_parsed_when_they_happen_and_not_when_they_are_queued() {
        let added = format!("TransactionAddedToMempool: txid={HASH} wtxid={HASH}");
        let hash = display_bytes(HASH).unwrap();
        assert_eq!((hash[0], hash[31]), (0x0f, 0x06));
        assert_eq!(line(&added), Some(LogEvent::Entered(hash)));
        assert_eq!(line(&format!("Enqueuing {added}")), None);
        let removed = format!("TransactionRemovedFromMempool: txid={HASH} wtxid={HASH} reason=sizelimit");
        assert_eq!(line(&removed), Some(LogEvent::Left(hash)));
        assert_eq!(
            line("MempoolTransactionsRemovedForBlock: block height=7 txs removed=12"),
            Some(LogEvent::Confirmed(12))
        );
        assert_eq!(line(&format!("BlockConnected: block hash={HASH} block height=7")), Some(LogEvent::Connected(hash)));
    }

    /// Applies the messages to the earlier mempool and checks every number.
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
                    // In a reorg Core publishes returning transactions before the blocks of the new branch.
                    assert!(u64::from_le_bytes(sequence.try_into().unwrap()) >= self.mempool_sequence);
                    self.mempool_sequence += 1;
                    match label {
                        b'A' => assert!(self.mempool.insert(hash)),
                        // A transaction that is evicted as it enters was never published as entering.
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
        // Skips earlier events: a late subscriber gets none of them.
        while publisher.published() == 0 || !publisher.is_quiet() {
            thread::sleep(POLL);
        }
        let mut subscriber = subscribe(publisher.socket.port(), TOPIC);
        publisher.wait_for_subscriber().unwrap();
        let (mempool_before, mempool_sequence) = mempool(live.node());
        let mut replay = Replay { mempool: mempool_before, mempool_sequence, next: None };
        let published = publisher.published();
        for _ in 0..150 {
            live.random_move().unwrap();
        }
        let (after, mempool_sequence) = mempool(live.node());
        while replay.mempool != after || replay.mempool_sequence != mempool_sequence {
            replay.play(&receive(&mut subscriber).unwrap(), live.node());
        }
        assert!(replay.next.unwrap() > published + 100, "more than 100 messages");
    }
}
