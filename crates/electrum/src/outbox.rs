//! What waits to be written to one client.
//!
//! Lines enter whole and in order. The outbox itself is not bounded: who fills it asks for [`Outbox::room`]
//! first, so it holds at most its bound and the replies that were already being computed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Capacity that an emptied buffer may keep.
const KEEP_BYTES: usize = 16 * 1024;

/// The outgoing side of a connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    bytes_max: usize,
    state: Mutex<State>,
    filled: Notify,
    drained: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Bytes that the writer has taken and not yet written.
    writing: usize,
    phase: Phase,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// What waits is still written.
    Closing,
    /// Nobody writes any more.
    Closed,
}

impl Outbox {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, state: Mutex::default(), filled: Notify::new(), drained: Notify::new() }
    }

    /// Adds one line, given without its end.
    pub(crate) fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.phase == Phase::Open {
            state.waiting.extend_from_slice(line);
            state.waiting.push(b'\n');
            self.filled.notify_one();
        }
    }

    /// Whether more may be computed for this client now; never once nobody writes any more.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.state();
        state.phase != Phase::Closed && state.waiting.len() + state.writing <= self.bytes_max
    }

    /// Waits until [`Self::has_room`]. False once nobody writes any more.
    pub(crate) async fn room(&self) -> bool {
        loop {
            let drained = self.drained.notified();
            if self.state().phase == Phase::Closed {
                return false;
            }
            if self.has_room() {
                return true;
            }
            drained.await;
        }
    }

    /// Waits until nobody writes any more.
    pub(crate) async fn closed(&self) {
        loop {
            let drained = self.drained.notified();
            if self.state().phase == Phase::Closed {
                return;
            }
            drained.await;
        }
    }

    /// Takes no more lines; those that wait are still written.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
        }
        self.filled.notify_one();
    }

    /// Writes until [`Self::close`], a broken socket, or a client that takes no byte for `stalled`.
    pub(crate) async fn drain(&self, mut socket: impl AsyncWrite + Unpin, stalled: Duration) {
        let mut buffer = Vec::new();
        while self.take(&mut buffer).await {
            if write_all(&mut socket, &buffer, stalled).await.is_err() {
                break;
            }
        }
        // A socket that is broken already needs no farewell.
        let _ = timeout(stalled, socket.shutdown()).await;
        let mut state = self.state();
        *state = State { phase: Phase::Closed, ..State::default() };
        drop(state);
        self.drained.notify_waiters();
    }

    /// Swaps what waits into `buffer`. False when there will be no more.
    async fn take(&self, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        if buffer.capacity() > KEEP_BYTES {
            *buffer = Vec::new();
        }
        loop {
            {
                let mut state = self.state();
                std::mem::swap(&mut state.waiting, buffer);
                state.writing = buffer.len();
                if buffer.is_empty() && state.phase != Phase::Open {
                    return false;
                }
            }
            self.drained.notify_waiters();
            if !buffer.is_empty() {
                return true;
            }
            self.filled.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fails when the client takes nothing for `stalled`; a slow one that takes something goes on.
async fn write_all(socket: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8], stalled: Duration) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let written = timeout(stalled, socket.write(bytes)).await??;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use super::*;
    use tokio::io::AsyncReadExt as _;

    const STALLED: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn lines_leave_whole_and_in_order_until_closed() {
        let outbox = Outbox::new(100);
        let mut written = Vec::new();
        outbox.push(b"one");
        outbox.push(b"two");
        outbox.close();
        outbox.push(b"three");
        outbox.drain(&mut written, STALLED).await;
        assert_eq!(written, b"one\ntwo\n");
        assert!(!outbox.room().await);
        outbox.closed().await;
    }

    #[tokio::test]
    async fn a_full_outbox_has_room_again_once_the_client_has_read() {
        let outbox = Arc::new(Outbox::new(8));
        let (mut client, server) = tokio::io::duplex(4);
        outbox.push(b"0123456789");
        assert!(!outbox.has_room());
        let writer = tokio::spawn({
            let outbox = Arc::clone(&outbox);
            async move { outbox.drain(server, STALLED).await }
        });
        let mut line = [0; 11];
        client.read_exact(&mut line).await.unwrap();
        assert_eq!(&line, b"0123456789\n");
        assert!(outbox.room().await);
        outbox.close();
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_is_gone_closes_the_outbox() {
        let outbox = Outbox::new(8);
        let (client, server) = tokio::io::duplex(4);
        drop(client);
        outbox.push(b"0123456789");
        outbox.drain(server, STALLED).await;
        assert!(!outbox.room().await);
    }
}
