//! A WebSocket after its handshake: messages from a stream of bytes, and many frames in one write.
//!
//! Invariants: reading can be given up at any moment and nothing is lost; a client that sends and takes nothing holds a few
//! kilobytes; what all clients have begun to say and not finished has a bound.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::frames::{Broken, Frames, Message};
use crate::outgoing::Outgoing;

/// Bytes that are read at once: while nothing has begun, and after that.
const READ_IDLE_BYTES: usize = 1024;
const READ_BYTES: usize = 16 * 1024;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 * 1024;
/// What an idle connection keeps of its buffers.
const KEPT_BYTES: usize = 4 * 1024;
/// How long a client that was told that it is over may go on sending.
const FAREWELL: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    stream: S,
    frames: Frames,
    incoming: Vec<u8>,
    /// Of these, bytes that are done with.
    used: usize,
    /// When the first byte of a message came that is not whole yet.
    begun: Option<Instant>,
    /// How long the rest of it may take.
    patience: Duration,
    beginnings: Arc<Beginnings>,
    /// What is counted there of this connection.
    held: usize,
    /// What is to be written next.
    pub(crate) outgoing: Outgoing,
}

/// Memory for messages that are not whole, of all connections, beyond a little for each.
#[derive(Debug)]
pub(crate) struct Beginnings {
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// Why a conversation is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Over {
    #[error("the client is gone")]
    Gone,
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error("the client takes nothing")]
    Stalled,
    #[error("a message takes too long")]
    Slow,
    #[error("too much has begun")]
    Crowded,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Beginnings {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max }
    }
}

impl<S> Drop for Socket<S> {
    fn drop(&mut self) {
        self.beginnings.bytes.fetch_sub(self.held, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// `patience` is how long a message may take from its first byte to its last.
    pub(crate) fn new(stream: S, frames: Frames, patience: Duration, beginnings: Arc<Beginnings>) -> Self {
        let (incoming, outgoing) = (Vec::new(), Outgoing::new(frames.compression()));
        let (used, begun, held) = (0, None, 0);
        Self { stream, frames, incoming, used, begun, patience, beginnings, held, outgoing }
    }

    /// The next message. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Message, Over> {
        loop {
            if self.used < self.incoming.len() {
                let (used, message) = self.frames.cut(&mut self.incoming[self.used..])?;
                self.used += used;
                if let Some(message) = message {
                    if !self.frames.has_begun() {
                        // What follows it is another message, with time of its own.
                        self.begun = None;
                    }
                    return Ok(message);
                }
            }
            self.make_room()?;
            let read = self.stream.read_buf(&mut self.incoming);
            let read = match self.begun {
                Some(begun) => timeout_at(begun + self.patience, read).await.map_err(|_| Over::Slow)?,
                None => read.await,
            };
            if read? == 0 {
                return Err(Over::Gone);
            }
        }
    }

    /// Drops what is done with, and makes room to read more.
    fn make_room(&mut self) -> Result<(), Over> {
        self.incoming.drain(..self.used);
        self.used = 0;
        if self.incoming.is_empty() && !self.frames.has_begun() {
            self.begun = None;
            self.incoming.shrink_to(KEPT_BYTES);
            self.incoming.reserve(READ_IDLE_BYTES);
        } else {
            self.begun.get_or_insert_with(Instant::now);
            self.incoming.reserve(READ_BYTES);
        }
        self.hold(self.incoming.len() + self.frames.held())
    }

    /// Counts what is held of a message that is not whole.
    fn hold(&mut self, bytes: usize) -> Result<(), Over> {
        let (before, now) = (self.held, bytes.saturating_sub(KEPT_BYTES));
        if now == before {
            return Ok(());
        }
        let Beginnings { bytes, bytes_max } = &*self.beginnings;
        // Wraps around, and back, where it becomes less.
        let all = bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed).wrapping_add(now.wrapping_sub(before));
        self.held = now;
        if now > before && all > *bytes_max { Err(Over::Crowded) } else { Ok(()) }
    }

    /// Writes what there is if it is enough for one write.
    pub(crate) async fn flush_much(&mut self, patience: Duration) -> Result<(), Over> {
        if self.outgoing.bytes().len() >= WRITE_BYTES { self.flush(patience).await } else { Ok(()) }
    }

    /// Writes what there is. `patience` is how long the client may take nothing of it.
    pub(crate) async fn flush(&mut self, patience: Duration) -> Result<(), Over> {
        let mut rest = self.outgoing.bytes();
        while !rest.is_empty() {
            let write = timeout(patience, self.stream.write(rest));
            match write.await.map_err(|_| Over::Stalled)?? {
                0 => return Err(Over::Gone),
                written => rest = &rest[written..],
            }
        }
        self.outgoing.clear();
        Ok(())
    }

    /// Says that it is over, and why; then listens for a moment, for a socket that is closed over unread bytes takes back what was
    /// said last.
    pub(crate) async fn close(mut self, code: CloseCode, reason: &str, patience: Duration) {
        self.outgoing.close(code, reason);
        if self.flush(patience).await.is_err() || self.stream.shutdown().await.is_err() {
            return;
        }
        let rest = async {
            // Not in the task, where every connection would have room for it all the time.
            let mut heard = vec![0; KEPT_BYTES];
            while self.stream.read(&mut heard).await.is_ok_and(|bytes| bytes > 0) {}
        };
        // Who sends for longer has had its time.
        let _ = timeout(FAREWELL, rest).await;
    }
}
