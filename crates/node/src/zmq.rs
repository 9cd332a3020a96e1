//! Core's ZMQ `sequence` messages: each change of chain and mempool, as soon as the node makes it.
//!
//! A thread keeps the connection and puts messages into a bounded queue. When messages may have been missed (a new
//! connection, a gap in the counter, a full queue) it sets a flag, and the follower then lists the whole mempool once.
//! Source: Core's `doc/zmq.md` and `zmq/zmqpublishnotifier.cpp`.
//!
//! The wire protocol is implemented here: a subscriber of one topic is a greeting and a loop over frames, and it must
//! notice a lost connection at once, which the available Rust libraries do not report.

mod wire;

use std::io::BufReader;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use std::{io, thread};

use birdhouse_chain::source::{MempoolChange, NodeUpdate};
use bitcoin::Txid;
use bitcoin::hashes::Hash as _;
use parking_lot::Mutex;

/// Length of the queue. A full queue drops messages, and the follower lists the whole mempool.
const QUEUE_MAX: usize = 65_536;
/// Time to wait for more messages after the first: transactions come in bursts, and each publish costs.
const GATHER: Duration = Duration::from_millis(10);
/// Time limit of connecting and of the greeting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before connecting again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Time between checks of a quiet connection.
const IDLE: Duration = Duration::from_secs(1);
/// Largest message, in bytes: topic, body and counter take less than 100.
const MESSAGE_BYTES_MAX: usize = 1024;
const TOPIC: &[u8] = b"sequence";

/// A subscription to a node's `sequence` messages. Dropping it ends the subscription.
#[derive(Debug)]
pub struct ZmqSequence {
    queue: Mutex<Receiver<ZmqEvent>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    connected: AtomicBool,
    /// Set when messages were missed since the queue was last read.
    missed: AtomicBool,
    stop: AtomicBool,
}

/// One message of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZmqEvent {
    Mempool(MempoolChange),
    Block,
}

// === impl ZmqSequence ===

impl ZmqSequence {
    /// Subscribes at `host:port`, or at `tcp://host:port` in the notation of `zmqpubsequence`. It keeps trying while
    /// the node is unreachable.
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

    /// Returns `true` while the connection stands.
    pub(crate) fn is_connected(&self) -> bool {
        self.state.connected.load(Ordering::Acquire)
    }

    /// Waits up to `timeout` for a message; returns it with those that follow closely.
    pub(crate) fn wait(&self, timeout: Duration) -> NodeUpdate {
        let queue = self.queue.lock();
        let mut events = match queue.recv_timeout(timeout) {
            Ok(first) => vec![first],
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Vec::new(),
        };
        if !events.is_empty() {
            thread::sleep(GATHER);
            events.extend(queue.try_iter().take(QUEUE_MAX));
        }
        if self.state.missed.swap(false, Ordering::AcqRel) || events.is_empty() {
            return NodeUpdate::Unknown;
        }
        let blocks = events.contains(&ZmqEvent::Block);
        let mempool = events.into_iter().filter_map(|event| match event {
            ZmqEvent::Mempool(change) => Some(change),
            ZmqEvent::Block => None,
        });
        NodeUpdate::Changes { mempool: mempool.collect(), blocks }
    }
}

impl Drop for ZmqSequence {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Release);
    }
}

// === the reading thread ===

fn keep_reading(address: &str, queue: &SyncSender<ZmqEvent>, state: &State) {
    let mut is_logged = false;
    while !state.stop.load(Ordering::Acquire) {
        let ended = read(address, queue, state);
        if state.connected.swap(false, Ordering::AcqRel) || !is_logged {
            is_logged = true;
            if let Err(error) = ended {
                tracing::warn!(address, %error, "lost the ZMQ connection to the node; polling until it returns");
            }
        }
        thread::sleep(RECONNECT_PAUSE);
    }
}

/// Reads messages until the connection breaks or the subscription ends.
fn read(address: &str, queue: &SyncSender<ZmqEvent>, state: &State) -> io::Result<()> {
    let resolved = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let mut socket = TcpStream::connect_timeout(&resolved, CONNECT_TIMEOUT)?;
    socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    wire::subscribe(&mut socket, TOPIC)?;
    // The node may have changed before the subscription.
    state.missed.store(true, Ordering::Release);
    state.connected.store(true, Ordering::Release);
    tracing::info!(address, "connected to the node's ZMQ publisher");
    let mut counter = None;
    let mut reader = BufReader::new(socket);
    loop {
        reader.get_ref().set_read_timeout(Some(IDLE))?;
        while io::BufRead::fill_buf(&mut reader).is_err_and(|error| is_quiet(&error)) {
            if state.stop.load(Ordering::Acquire) {
                return Ok(());
            }
        }
        // The rest of the message follows at once.
        reader.get_ref().set_read_timeout(Some(CONNECT_TIMEOUT))?;
        let parts = wire::message(&mut reader, MESSAGE_BYTES_MAX)?;
        let Some((event, number)) = parse(&parts) else { continue };
        let is_next = counter.is_none_or(|counter: u32| counter.wrapping_add(1) == number);
        counter = Some(number);
        if !is_next || matches!(queue.try_send(event), Err(TrySendError::Full(_))) {
            state.missed.store(true, Ordering::Release);
        }
    }
}

fn is_quiet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Parses a `sequence` message: returns it and its counter. `None` for other messages. Pure.
///
/// ```text
/// topic   "sequence"
/// body    hash 32 in displayed order | 'C' or 'D' for a block, 'A' or 'R' and its number u64 LE for a transaction
/// counter u32 LE
/// ```
fn parse(parts: &[Vec<u8>]) -> Option<(ZmqEvent, u32)> {
    let [topic, body, counter] = parts else { return None };
    let counter = u32::from_le_bytes(counter.as_slice().try_into().ok()?);
    let (hash, rest) = body.split_first_chunk::<32>()?;
    let (label, number) = rest.split_first()?;
    let mut txid = *hash;
    txid.reverse();
    let txid = Txid::from_byte_array(txid);
    let event = match (label, number) {
        (b'C' | b'D', []) => ZmqEvent::Block,
        (b'A', _) => ZmqEvent::Mempool(MempoolChange::Added(txid)),
        (b'R', number) => {
            let sequence = u64::from_le_bytes(number.try_into().ok()?);
            ZmqEvent::Mempool(MempoolChange::Removed { txid, sequence })
        }
        _ => return None,
    };
    (topic == TOPIC).then_some((event, counter))
}

/// Parses arbitrary bytes, for the fuzz target of messages.
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Ok(parts) = wire::message(&mut &bytes[..], MESSAGE_BYTES_MAX) {
        let _ = parse(&parts);
    }
}

#[cfg(test)]
mod tests;
