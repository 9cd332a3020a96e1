//! What waits to be written to one client.
//!
//! Messages enter whole and in order. The outbox itself is not bounded: who fills it asks for [`Outbox::room`]
//! first, so it holds at most its bound and the replies that were already being computed. All outboxes together, and
//! those of one client, have bounds too ([`Unsent`]).

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::framing::{Closing, Framing};
use crate::unsent::{Unfinished, Unsent};

/// Capacity that each of the two buffers may keep while there is nothing to write.
const KEEP_BYTES: usize = 1024;

/// The outgoing side of a connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    bytes_max: usize,
    unsent: Unsent,
    put: fn(&[u8], &mut Vec<u8>),
    put_end: fn(Closing, &mut Vec<u8>),
    state: Mutex<State>,
    drained: Notify,
    closed: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Bytes that the writer has taken and not yet written.
    writing: usize,
    phase: Phase,
    /// Wakes the writer, which waits for more.
    writer: Option<Waker>,
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
    /// An outbox that frames its messages as `F` says.
    pub(crate) fn new<F: Framing>(bytes_max: usize, unsent: Unsent) -> Self {
        Self {
            bytes_max,
            unsent,
            put: F::put,
            put_end: F::put_end,
            state: Mutex::default(),
            drained: Notify::new(),
            closed: Notify::new(),
        }
    }

    /// Adds one message.
    pub(crate) fn push(&self, message: &[u8]) {
        self.append(|state| (self.put)(message, &mut state.waiting));
    }

    /// A reply that grows to `bytes_max` at most before it comes here, and is counted already.
    pub(crate) fn unfinished(&self, bytes_max: usize) -> Unfinished {
        Unfinished::new(self.unsent.clone(), bytes_max)
    }

    /// Adds what the framing says for itself.
    pub(crate) fn push_framed(&self, bytes: &[u8]) {
        self.append(|state| state.waiting.extend_from_slice(bytes));
    }

    /// Takes no more messages. Those that wait are still written, and the end that the framing puts to them.
    pub(crate) fn close(&self, closing: Closing) {
        self.append(|state| {
            (self.put_end)(closing, &mut state.waiting);
            state.phase = Phase::Closing;
        });
    }

    fn append(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return;
        }
        let before = state.waiting.len();
        change(&mut state);
        self.unsent.add(state.waiting.len() - before);
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Whether more may be computed for this client now; never once nobody writes any more.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.state();
        let bytes = state.bytes();
        state.phase != Phase::Closed && bytes <= self.bytes_max && self.unsent.has_room(bytes)
    }

    /// Whether the client has been sent everything.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.phase == Phase::Open && state.bytes() == 0
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
        let closed = self.closed.notified();
        if self.state().phase != Phase::Closed {
            closed.await;
        }
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
        self.forget();
        self.drained.notify_waiters();
        self.closed.notify_waiters();
    }

    /// Promises that [`Self::drain`] is polled later in this poll of its task: what comes until then wakes nobody. (A
    /// task that wakes itself goes through the scheduler once more, and a second thread is woken for it.)
    pub(crate) fn attend(&self) {
        self.state().writer = None;
    }

    /// Swaps what waits into `buffer`, whose bytes are written. False when there will be no more.
    async fn take(&self, buffer: &mut Vec<u8>) -> bool {
        loop {
            buffer.clear();
            {
                let mut state = self.state();
                self.unsent.subtract(state.writing);
                std::mem::swap(&mut state.waiting, buffer);
                state.writing = buffer.len();
                if buffer.is_empty() {
                    state.waiting.shrink_to(KEEP_BYTES);
                    if state.phase != Phase::Open {
                        return false;
                    }
                }
            }
            self.drained.notify_waiters();
            if !buffer.is_empty() {
                return true;
            }
            buffer.shrink_to(KEEP_BYTES);
            self.filled().await;
        }
    }

    /// Waits until there is something to write, or an end to it.
    async fn filled(&self) {
        poll_fn(|context| {
            let mut state = self.state();
            if !state.waiting.is_empty() || state.phase != Phase::Open {
                return Poll::Ready(());
            }
            state.writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Nobody writes any more.
    fn forget(&self) {
        let mut state = self.state();
        self.unsent.subtract(state.bytes());
        *state = State { phase: Phase::Closed, ..State::default() };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn bytes(&self) -> usize {
        self.waiting.len() + self.writing
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.forget();
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
    // TLS holds back the end of what did not fit the socket.
    timeout(stalled, socket.flush()).await?
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::lines::Lines;
    use crate::unsent::{Pool, SHARE_BYTES};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};
    use tokio::io::AsyncReadExt as _;

    const STALLED: Duration = Duration::from_mins(1);

    fn unsent(bytes_max: usize) -> Unsent {
        Unsent { all: Pool::new(bytes_max), client: Pool::new(usize::MAX) }
    }

    fn outbox(bytes_max: usize, unsent_max: usize) -> Outbox {
        Outbox::new::<Lines>(bytes_max, unsent(unsent_max))
    }

    #[tokio::test]
    async fn lines_leave_whole_and_in_order_until_closed() {
        let outbox = outbox(100, 100);
        let mut written = Vec::new();
        outbox.push(b"one");
        outbox.push(b"two");
        outbox.close(Closing::Ended);
        outbox.push(b"three");
        outbox.drain(&mut written, STALLED).await;
        assert_eq!(written, b"one\ntwo\n");
        assert!(!outbox.room().await);
        outbox.closed().await;
    }

    #[tokio::test]
    async fn a_full_outbox_has_room_again_once_the_client_has_read() {
        let outbox = Arc::new(outbox(8, 100));
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
        outbox.close(Closing::Ended);
        writer.await.unwrap();
    }

    /// Counts how often a task was woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_writer_that_is_polled_anyway_is_woken_by_nobody() {
        let outbox = outbox(100, 100);
        let mut written = Vec::new();
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        {
            let mut draining = pin!(outbox.drain(&mut written, STALLED));
            let mut poll = || assert!(draining.as_mut().poll(&mut context).is_pending());
            poll();
            outbox.push(b"one");
            outbox.push(b"two");
            assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "once for all that waits");
            poll();
            outbox.attend();
            outbox.push(b"three");
            assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
            poll();
            outbox.push(b"four");
            assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
        }
        assert_eq!(written, b"one\ntwo\nthree\n");
    }

    #[tokio::test]
    async fn a_client_that_is_gone_closes_the_outbox() {
        let outbox = outbox(8, 100);
        let (client, server) = tokio::io::duplex(4);
        drop(client);
        outbox.push(b"0123456789");
        outbox.drain(server, STALLED).await;
        assert!(!outbox.room().await);
    }

    #[tokio::test]
    async fn when_all_hold_too_much_each_may_hold_its_share() {
        let unsent = unsent(2 * SHARE_BYTES);
        let greedy = Outbox::new::<Lines>(10 * SHARE_BYTES, unsent.clone());
        let modest = Outbox::new::<Lines>(10 * SHARE_BYTES, unsent.clone());
        greedy.push(&vec![b'x'; 2 * SHARE_BYTES]);
        assert!(!greedy.has_room());
        modest.push(&vec![b'x'; SHARE_BYTES - 1]);
        assert!(modest.has_room());
        modest.push(b"x");
        assert!(!modest.has_room());
        drop(greedy);
        assert!(modest.has_room());
        modest.close(Closing::Ended);
        modest.drain(Vec::new(), STALLED).await;
        assert_eq!(unsent.all.bytes.load(Ordering::Relaxed), 0);
    }
}
