//! Core's ZMQ `sequence` messages: each change of chain and mempool, the moment the node makes it.
//!
//! A thread of its own keeps the connection and puts what comes into a bounded queue. Whenever something may have been
//! missed (a new connection, a gap in the counter, a full queue) that is put in instead, and whoever follows looks at
//! everything once. Source: Core's `doc/zmq.md` and `zmq/zmqpublishnotifier.cpp`.
//!
//! The wire is spoken here and not through a library: a subscriber of one topic is a greeting and a loop over frames,
//! and it must notice at once when the node goes away, which the Rust libraries at hand do not tell.

mod wire;

use std::io::BufReader;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use birdhouse_chain::source::{MempoolChange, News};
use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

/// Messages that wait to be followed; beyond, all are dropped and everything is looked at.
const QUEUE_MAX: usize = 65_536;
/// After the first message others are awaited this long: transactions come in bursts, and each publish costs.
const GATHER: Duration = Duration::from_millis(10);
/// Time to connect, and until the other side has greeted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before connecting again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// How often a quiet connection is looked after.
const IDLE: Duration = Duration::from_secs(1);
/// The largest message: topic, body and counter are below 100 bytes.
const MESSAGE_BYTES_MAX: usize = 1024;
const TOPIC: &[u8] = b"sequence";

/// A subscription to a node's `sequence` messages. Ends when dropped.
#[derive(Debug)]
pub struct ZmqSequence {
    queue: Mutex<Receiver<Told>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    connected: AtomicBool,
    /// Messages were missed since the queue was last read.
    missed: AtomicBool,
    stop: AtomicBool,
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Mempool(MempoolChange),
    Block,
}

// === impl ZmqSequence ===

impl ZmqSequence {
    /// Subscribes at `host:port`, or at `tcp://host:port` as `zmqpubsequence` says it. A node that is away is waited for.
    pub fn subscribe(address: &str) -> Self {
        let address = address.strip_prefix("tcp://").unwrap_or(address).to_owned();
        let (sender, queue) = sync_channel(QUEUE_MAX);
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::Builder::new()
            .name("zmq".to_owned())
            .spawn(move || keep_reading(&address, &sender, &shared))
            .expect("the system gives a thread at start");
        Self { queue: Mutex::new(queue), state }
    }

    /// Whether the node's messages come in.
    pub(crate) fn is_connected(&self) -> bool {
        self.state.connected.load(Ordering::Acquire)
    }

    /// What the node tells within `timeout`, with what follows closely.
    pub(crate) fn wait(&self, timeout: Duration) -> News {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = match queue.recv_timeout(timeout) {
            Ok(first) => vec![first],
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Vec::new(),
        };
        if !told.is_empty() {
            thread::sleep(GATHER);
            told.extend(queue.try_iter().take(QUEUE_MAX));
        }
        if self.state.missed.swap(false, Ordering::AcqRel) || told.is_empty() {
            return News::Unknown;
        }
        let blocks = told.contains(&Told::Block);
        let mempool = told.into_iter().filter_map(|told| match told {
            Told::Mempool(change) => Some(change),
            Told::Block => None,
        });
        News::Changes { mempool: mempool.collect(), blocks }
    }
}

impl Drop for ZmqSequence {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
    }
}

// === the reading thread ===

fn keep_reading(address: &str, queue: &SyncSender<Told>, state: &State) {
    let mut said = false;
    while !state.stop.load(Ordering::Acquire) {
        let ended = read(address, queue, state);
        if state.connected.swap(false, Ordering::AcqRel) || !said {
            said = true;
            if let Err(error) = ended {
                tracing::warn!(address, %error, "the node's ZMQ messages do not come in: polling meanwhile");
            }
        }
        thread::sleep(RECONNECT_PAUSE);
    }
}

/// Reads messages until the connection breaks or nobody wants them.
fn read(address: &str, queue: &SyncSender<Told>, state: &State) -> io::Result<()> {
    let resolved = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let mut socket = TcpStream::connect_timeout(&resolved, CONNECT_TIMEOUT)?;
    socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    wire::subscribe(&mut socket, TOPIC)?;
    // The node may have changed before it knew of us.
    state.missed.store(true, Ordering::Release);
    state.connected.store(true, Ordering::Release);
    tracing::info!(address, "the node tells its changes by ZMQ");
    let mut counter = None;
    let mut reader = BufReader::new(socket);
    loop {
        reader.get_ref().set_read_timeout(Some(IDLE))?;
        while io::BufRead::fill_buf(&mut reader).is_err_and(|error| is_quiet(&error)) {
            if state.stop.load(Ordering::Acquire) {
                return Ok(());
            }
        }
        // The rest of a message is on its way.
        reader.get_ref().set_read_timeout(Some(CONNECT_TIMEOUT))?;
        let parts = wire::message(&mut reader, MESSAGE_BYTES_MAX)?;
        let Some((told, number)) = parse(&parts) else { continue };
        let is_next = counter.is_none_or(|counter: u32| counter.wrapping_add(1) == number);
        counter = Some(number);
        if !is_next || matches!(queue.try_send(told), Err(TrySendError::Full(_))) {
            state.missed.store(true, Ordering::Release);
        }
    }
}

fn is_quiet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// A message and its place among all of its topic. `None` for what is no `sequence` message. Pure.
///
/// ```text
/// topic   "sequence"
/// body    hash 32 as shown | 'C' or 'D' for a block, 'A' or 'R' and its number u64 LE for a transaction
/// counter u32 LE
/// ```
fn parse(parts: &[Vec<u8>]) -> Option<(Told, u32)> {
    let [topic, body, counter] = parts else { return None };
    let counter = u32::from_le_bytes(counter.as_slice().try_into().ok()?);
    let (hash, rest) = body.split_first_chunk::<32>()?;
    let (label, number) = rest.split_first()?;
    let mut txid = *hash;
    txid.reverse();
    let txid = Txid::from_byte_array(txid);
    let told = match (label, number) {
        (b'C' | b'D', []) => Told::Block,
        (b'A', _) => Told::Mempool(MempoolChange::Added(txid)),
        (b'R', number) => {
            let sequence = u64::from_le_bytes(number.try_into().ok()?);
            Told::Mempool(MempoolChange::Removed { txid, sequence })
        }
        _ => return None,
    };
    (topic == TOPIC).then_some((told, counter))
}

/// Entry point for the fuzz target of messages.
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Ok(parts) = wire::message(&mut &bytes[..], MESSAGE_BYTES_MAX) {
        let _ = parse(&parts);
    }
}

#[cfg(test)]
mod tests;
