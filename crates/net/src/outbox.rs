//! Messages that wait to be written to one client.
//!
//! Messages enter whole and in order. The outbox itself is not bounded: its callers wait for [`Outbox::room`] before
//! they compute a reply, so it holds at most its bound and the replies that were already being computed. All outboxes
//! together, and those of one client, have bounds too ([`Unsent`]).
//!
//! A message may have megabytes, and a thread that moves bytes waits whenever a lock is held that it needs. So messages
//! come here in pieces, which are put together outside and are not copied, and are written a little at a time.
//!
//! A task that makes its messages itself, one page after the other, needs no queue: [`write_now`] writes them in the
//! same small steps, and counts in the same pools.

mod chunks;

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep, timeout};

use self::chunks::Chunks;
use crate::framing::{CloseCode, Framing};
use crate::unsent::{Unfinished, Unsent};

/// Bytes that are written before others of the thread's clients have their turn. A system call that takes all that a
/// socket has room for, some megabytes, takes a millisecond.
const WRITE_BYTES: usize = 128 << 10;

/// The outgoing side of a connection.
#[doc(alias("back-pressure", "backpressure", "slow consumer"))]
#[derive(Debug)]
pub struct Outbox {
    bytes_max: usize,
    unsent: Unsent,
    framing: &'static Wrapping,
    state: Mutex<State>,
    drained: Notify,
}

/// The functions of a [`Framing`] by which messages leave.
#[derive(Debug)]
struct Wrapping {
    before: fn(usize, &mut Vec<u8>),
    after: fn(&mut Vec<u8>),
    end: fn(CloseCode, &mut Vec<u8>),
}

/// Holds the [`Wrapping`] of a framing.
struct WrappingOf<F>(PhantomData<F>);

impl<F: Framing> WrappingOf<F> {
    const WRAPPING: Wrapping = Wrapping { before: F::put_before, after: F::put_after, end: F::put_end };
}

/// A message, framed.
#[derive(Debug)]
pub struct Framed {
    /// Bytes of the message itself.
    pub bytes: usize,
    chunks: Chunks,
}

#[derive(Debug, Default)]
struct State {
    waiting: Chunks,
    /// Bytes that were ever added.
    added: u64,
    /// Bytes that the writer has taken and not yet written.
    writing: usize,
    phase: Phase,
    /// Wakes the writer, which waits for more.
    writer: Option<Waker>,
    /// Wakes the task that waits for the end of writing.
    end: Option<Waker>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// Messages that wait are still written.
    Closing,
    /// The writer has ended.
    Closed,
}

/// The one that writes what waits. When it goes, nobody does.
struct Writer<'a>(&'a Outbox);

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let end = self.0.forget();
        self.0.drained.notify_waiters();
        if let Some(end) = end {
            end.wake();
        }
    }
}

impl Outbox {
    /// An outbox that frames its messages as `F` says.
    pub fn new<F: Framing>(bytes_max: usize, unsent: Unsent) -> Self {
        Self { bytes_max, unsent, framing: &WrappingOf::<F>::WRAPPING, state: Mutex::default(), drained: Notify::new() }
    }

    /// Frames a message that is made of these parts.
    pub fn frame(&self, parts: impl AsRef<[Vec<u8>]> + IntoIterator<Item = Vec<u8>>) -> Framed {
        let bytes = parts.as_ref().iter().map(Vec::len).sum();
        let mut chunks = Chunks::default();
        chunks.end_with(|before| (self.framing.before)(bytes, before));
        for part in parts {
            chunks.add(part);
        }
        chunks.end_with(self.framing.after);
        Framed { bytes, chunks }
    }

    /// Adds a message that is framed.
    pub fn put(&self, message: Framed) {
        self.append(|state| state.waiting.append(message.chunks));
    }

    /// Frames and adds a message.
    pub fn push(&self, message: Vec<u8>) {
        self.put(self.frame([message]));
    }

    /// Begins a reply of `bytes_max` at most, which is counted while it grows.
    pub fn unfinished(&self, bytes_max: usize) -> Unfinished {
        Unfinished::new(self.unsent.clone(), bytes_max)
    }

    /// Adds what the framing sends for itself.
    pub fn push_framed(&self, bytes: Vec<u8>) {
        self.append(|state| state.waiting.add(bytes));
    }

    /// Takes no more messages. Those that wait are still written, and then the end that the framing has.
    pub fn close(&self, code: CloseCode) {
        self.append(|state| {
            state.waiting.end_with(|end| (self.framing.end)(code, end));
            state.phase = Phase::Closing;
        });
    }

    fn append(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        if state.phase != Phase::Open {
            return;
        }
        let before = state.waiting.len();
        change(&mut state);
        let added = state.waiting.len() - before;
        state.added += added as u64;
        self.unsent.add(added);
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// True if more may be computed for this client now; never once nobody writes any more.
    pub fn has_room(&self) -> bool {
        let state = self.state.lock();
        let bytes = state.bytes();
        state.phase != Phase::Closed && bytes <= self.bytes_max && self.unsent.has_room(bytes)
    }

    /// True if a reply of this length may wait here ([`Unsent::takes`]).
    pub fn takes(&self, bytes: usize) -> bool {
        let held = self.state.lock().bytes();
        self.unsent.takes(held, bytes)
    }

    /// True if the client has been sent everything.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.phase == Phase::Open && state.bytes() == 0
    }

    /// Waits until [`Self::has_room`]. False once nobody writes any more.
    pub async fn room(&self) -> bool {
        // A client that reads has room. The wait is on the heap, for its memory would stay with every connection.
        self.has_room() || Box::pin(self.wait_for_room()).await
    }

    async fn wait_for_room(&self) -> bool {
        loop {
            let drained = self.drained.notified();
            if self.state.lock().phase == Phase::Closed {
                return false;
            }
            if self.has_room() {
                return true;
            }
            drained.await;
        }
    }

    /// Waits until everything that was added before is written to the socket. False once nobody writes any more.
    pub async fn flushed(&self) -> bool {
        let added = self.state.lock().added;
        loop {
            let drained = self.drained.notified();
            {
                let state = self.state.lock();
                if state.phase == Phase::Closed {
                    return false;
                }
                if state.added - state.bytes() as u64 >= added {
                    return true;
                }
            }
            drained.await;
        }
    }

    /// Waits until nobody writes any more. One task at a time may wait.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + Unpin {
        poll_fn(|context| {
            let mut state = self.state.lock();
            if state.phase == Phase::Closed {
                return Poll::Ready(());
            }
            if !state.end.as_ref().is_some_and(|end| end.will_wake(context.waker())) {
                state.end = Some(context.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Writes until [`Self::close`], a broken socket, or a client that takes no byte for `stalled`. When the returned
    /// future ends or is dropped, the outbox is closed.
    pub fn drain<'a>(
        &'a self,
        mut socket: impl AsyncWrite + Unpin + 'a,
        stalled: Duration,
    ) -> impl Future<Output = ()> + 'a {
        let writer = Writer(self);
        async move {
            // The whole value, and not what is in it: it is dropped with the future.
            let _writer = writer;
            let mut written = Vec::new();
            while let Some(bytes) = self.take(written).await {
                if write_all(&mut socket, &bytes, WRITE_BYTES, Waits::Always(stalled)).await.is_err() {
                    break;
                }
                if self.state.lock().waiting.len() > 0 {
                    yield_now().await;
                }
                written = bytes;
            }
            // A socket that is broken already needs no farewell.
            let _ = Box::pin(timeout(stalled, socket.shutdown())).await;
        }
    }

    /// Promises that [`Self::drain`] is polled later in this poll of its task: what comes until then wakes nobody. (A
    /// task that wakes itself goes through the scheduler once more, and a second thread is woken for it.)
    pub fn attend(&self) {
        self.state.lock().writer = None;
    }

    /// Takes the piece that is written next, and gives `written`, the one before, back; `None` when there will be no
    /// more.
    async fn take(&self, mut written: Vec<u8>) -> Option<Vec<u8>> {
        loop {
            let (taken, needless) = {
                let mut state = self.state.lock();
                self.unsent.subtract(state.writing);
                let needless = state.waiting.reuse(std::mem::take(&mut written));
                let taken = state.waiting.pop();
                state.writing = taken.as_ref().map_or(0, Vec::len);
                if taken.is_none() {
                    state.waiting.rest();
                    if state.phase != Phase::Open {
                        return None;
                    }
                }
                (taken, needless)
            };
            // Now nobody waits for the lock.
            drop(needless);
            self.drained.notify_waiters();
            if taken.is_some() {
                return taken;
            }
            self.filled().await;
        }
    }

    /// Waits until there is something to write, or an end to it.
    async fn filled(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock();
            if state.waiting.len() > 0 || state.phase != Phase::Open {
                return Poll::Ready(());
            }
            state.writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Nobody writes any more. Returns the waker of the task that waits for this.
    fn forget(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        self.unsent.subtract(state.bytes());
        let end = state.end.take();
        *state = State { phase: Phase::Closed, ..State::default() };
        end
    }
}

impl State {
    fn bytes(&self) -> usize {
        self.waiting.len() + self.writing
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        drop(self.forget());
    }
}

/// Writes frames that their owner makes one after the other. What the socket takes at once, which is nearly everything,
/// costs no lock and is not counted; the rest counts as unsent until it is taken. All of it is offered in one system
/// call: in parts with other tasks between them, pages of 512 KiB took 1.6 times the processor time.
///
/// # Errors
/// The socket's, and `TimedOut` when the client takes no byte for `stalled`.
pub async fn write_now(
    socket: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    patience: Patience,
    unsent: &Unsent,
) -> std::io::Result<()> {
    let mut writing = pin!(write_all(socket, bytes, usize::MAX, Waits::Memory(patience, unsent)));
    let at_once = poll_fn(|context| match writing.as_mut().poll(context) {
        Poll::Ready(written) => Poll::Ready(Some(written)),
        Poll::Pending => Poll::Ready(None),
    });
    if let Some(written) = at_once.await {
        return written;
    }
    let mut waiting = Unfinished::new(unsent.clone(), usize::MAX);
    waiting.add(bytes.len());
    writing.await
}

/// Times in which a client must take something of what is written to it.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// As long as there is memory for what waits.
    pub usual: Duration,
    /// While the memory for what waits is used up, that of the client or that of all.
    pub crowded: Duration,
}

/// Times for which a writer waits for a client that takes nothing.
#[derive(Clone, Copy)]
enum Waits<'a> {
    /// Always as long.
    Always(Duration),
    /// Less while the memory for what waits is used up.
    Memory(Patience, &'a Unsent),
}

/// Fails when the client takes nothing for so long; a slow one that takes something goes on. After each `part_bytes`
/// other tasks have their turn.
async fn write_all(
    socket: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    part_bytes: usize,
    waits: Waits<'_>,
) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let part = &bytes[..bytes.len().min(part_bytes)];
        let written = match waits {
            Waits::Always(stalled) => {
                in_time(stalled, |context| Pin::new(&mut *socket).poll_write(context, part)).await??
            }
            Waits::Memory(patience, unsent) => write_some(socket, part, patience, unsent).await?,
        };
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        if written == part_bytes {
            yield_now().await;
        }
    }
    // TLS holds back the end of what did not fit the socket.
    let (Waits::Always(stalled) | Waits::Memory(Patience { usual: stalled, .. }, _)) = waits;
    in_time(stalled, |context| Pin::new(&mut *socket).poll_flush(context)).await?
}

/// The time of a step has passed.
struct Elapsed;

impl From<Elapsed> for std::io::Error {
    fn from(_: Elapsed) -> Self {
        std::io::ErrorKind::TimedOut.into()
    }
}

/// Completes a step of a socket in time. Nearly always it is done at once, and then takes no timer.
async fn in_time<T>(
    stalled: Duration,
    mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> std::result::Result<T, Elapsed> {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = step(context) {
            return Poll::Ready(Ok(done));
        }
        let timer = timer.get_or_insert_with(|| Box::pin(sleep(stalled)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(Elapsed))
    })
    .await
}

/// Writes some of a part, and waits less for it while memory is short.
async fn write_some(
    socket: &mut (impl AsyncWrite + Unpin),
    part: &[u8],
    patience: Patience,
    unsent: &Unsent,
) -> std::io::Result<usize> {
    let step = patience.crowded.clamp(Duration::from_millis(1), patience.usual);
    let mut silent = Duration::ZERO;
    loop {
        match in_time(step, |context| Pin::new(&mut *socket).poll_write(context, part)).await {
            Ok(written) => return written,
            Err(elapsed) => {
                silent += step;
                if silent >= patience.usual || !unsent.has_room(usize::MAX) {
                    return Err(elapsed.into());
                }
            }
        }
    }
}
