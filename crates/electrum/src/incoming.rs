//! Messages out of a stream of bytes, bounded in size, time and memory.

use std::io::Result;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::error::Elapsed;
use tokio::time::{Duration, Instant, timeout};

use crate::framing::{Cut, Framing, Refusal};
use crate::limits::Limits;

/// What the client does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A message is there for [`Incoming::take`].
    Message,
    /// The framing owes the client these bytes.
    Reply(Vec<u8>),
    /// The client has sent its last message.
    End,
    /// The client has been silent for too long.
    Idle,
    /// A message that has begun did not become whole in time.
    Slow,
    /// All memory for messages that have begun is in use.
    Crowded,
    /// The stream cannot be read on.
    Refused(Refusal),
}

/// Capacity that the buffer may keep while nothing comes, and the least that is read at once. It is not counted as
/// unfinished.
const KEEP_BYTES: usize = 4 * 1024;
/// The most that is read at once, from clients that send more than the buffer takes.
const READ_BYTES_MAX: usize = 32 * 1024;

/// A bounded reader of messages.
#[derive(Debug)]
pub(crate) struct Incoming<R, F> {
    stream: R,
    framing: F,
    bounds: Bounds,
    /// One permit for each byte that buffers may hold beyond [`KEEP_BYTES`], for all connections.
    unfinished: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    buffer: Vec<u8>,
    /// Where the bytes begin that are not used up.
    start: usize,
    /// What stands there, if that is known.
    found: Option<Cut>,
    /// How long the silence may last.
    patience: Duration,
    /// When the message that has begun must be whole.
    due: Option<Instant>,
    has_ended: bool,
}

/// The bounds of [`Limits`] that count here.
#[derive(Debug)]
struct Bounds {
    message_bytes: usize,
    message: Duration,
    idle: Duration,
}

impl<R: AsyncRead + Unpin, F: Framing> Incoming<R, F> {
    pub(crate) fn new(stream: R, limits: &Limits, unfinished: Arc<Semaphore>) -> Self {
        Self {
            stream,
            framing: F::default(),
            bounds: Bounds {
                message_bytes: limits.message_bytes,
                message: limits.message_timeout,
                idle: limits.idle_timeout,
            },
            unfinished,
            held: None,
            buffer: Vec::new(),
            start: 0,
            found: None,
            patience: limits.first_message_timeout,
            due: None,
            has_ended: false,
        }
    }

    /// Whether a whole message is there without waiting.
    pub(crate) fn has_message(&mut self) -> bool {
        if self.found.is_none() {
            match self.framing.cut(&mut self.buffer[self.start..], self.bounds.message_bytes) {
                Cut::More { unused } => drop(self.buffer.drain(self.start + unused.start..self.start + unused.end)),
                found => self.found = Some(found),
            }
        }
        matches!(self.found, Some(Cut::Message { .. }))
    }

    /// Waits for a message. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Next> {
        loop {
            if self.has_message() {
                return Ok(Next::Message);
            }
            match self.found.take() {
                Some(Cut::Reply(bytes)) => return Ok(Next::Reply(bytes)),
                Some(Cut::Refused(refusal)) => return Ok(Next::Refused(refusal)),
                Some(_) => return Ok(Next::End),
                None if self.has_ended => return Ok(Next::End),
                None => {}
            }
            if !self.make_room() {
                return Ok(Next::Crowded);
            }
            // What is there already takes no timer.
            let read = tokio::select! {
                biased;
                read = self.stream.read_buf(&mut self.buffer) => read?,
                () = std::future::ready(()) => match self.wait().await {
                    Ok(read) => read?,
                    Err(_) if self.due.is_some() => return Ok(Next::Slow),
                    Err(_) => return Ok(Next::Idle),
                },
            };
            self.arrived(read);
        }
    }

    /// Reads what comes next, in time.
    async fn wait(&mut self) -> std::result::Result<Result<usize>, Elapsed> {
        let patience = match self.due {
            Some(due) => due.saturating_duration_since(Instant::now()),
            None => self.patience,
        };
        self.release(KEEP_BYTES);
        timeout(patience, self.stream.read_buf(&mut self.buffer)).await
    }

    fn arrived(&mut self, bytes: usize) {
        self.patience = self.bounds.idle;
        if bytes == 0 {
            self.has_ended = true;
            self.found = Some(self.framing.last(&self.buffer[self.start..]));
        }
    }

    /// The message that [`Self::next`] or [`Self::has_message`] found.
    pub(crate) fn take(&mut self) -> &[u8] {
        let Some(Cut::Message { message, end }) = self.found.take() else { unreachable!("a message was found") };
        let bytes = self.start + message.start..self.start + message.end;
        self.start += end;
        self.due = None;
        &self.buffer[bytes]
    }

    /// Reads what still comes, and forgets it, up to `bytes`.
    pub(crate) async fn discard(mut self, bytes: usize) -> Result<()> {
        let mut seen = 0;
        while seen < bytes {
            self.buffer.clear();
            self.buffer.reserve(KEEP_BYTES);
            match self.stream.read_buf(&mut self.buffer).await? {
                0 => return Ok(()),
                read => seen += read,
            }
        }
        Ok(())
    }

    /// Makes room to read into. False if that would take more than all connections together may have.
    fn make_room(&mut self) -> bool {
        let was_full = self.buffer.len() == self.buffer.capacity();
        self.buffer.drain(..self.start);
        self.start = 0;
        self.release(READ_BYTES_MAX);
        self.due = match self.due {
            _ if self.buffer.is_empty() => None,
            None => Some(Instant::now() + self.bounds.message),
            due => due,
        };
        let used = self.buffer.len();
        let needed = (used + KEEP_BYTES / 2).max(KEEP_BYTES);
        if needed > self.buffer.capacity() {
            return self.grow_to((2 * used).max(KEEP_BYTES));
        }
        if was_full && self.buffer.capacity() < READ_BYTES_MAX {
            // A client that pipelines. Without the memory it goes on in smaller steps.
            self.grow_to(2 * self.buffer.capacity());
        }
        true
    }

    /// Gives back an emptied buffer that is larger than this.
    fn release(&mut self, capacity_max: usize) {
        if self.buffer.is_empty() && self.buffer.capacity() > capacity_max {
            self.buffer = Vec::with_capacity(KEEP_BYTES);
            self.held = None;
        }
    }

    fn grow_to(&mut self, capacity: usize) -> bool {
        let is_allowed = self.hold(capacity - KEEP_BYTES);
        if is_allowed {
            self.buffer.reserve_exact(capacity - self.buffer.len());
        }
        is_allowed
    }

    /// Takes the permits that are missing for `bytes`.
    fn hold(&mut self, bytes: usize) -> bool {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Ok(missing) = u32::try_from(bytes.saturating_sub(held)) else { return false };
        match Arc::clone(&self.unfinished).try_acquire_many_owned(missing) {
            Ok(permit) => {
                match &mut self.held {
                    Some(held) => held.merge(permit),
                    None => self.held = Some(permit),
                }
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
pub(crate) mod testing;
