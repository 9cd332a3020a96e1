//! Messages out of a stream of bytes, bounded in size, time and memory.
//!
//! A connection has a buffer while bytes are in it. It is lent by the thread, and given back before the next wait.

use std::future::poll_fn;
use std::io::Result;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, Instant, Sleep, sleep_until, timeout};

use zeroize::Zeroize as _;

use crate::framing::{CloseCode, Cut, Framing, Kind, Owed, Payload};
use crate::lent;
use crate::meter::Meter;

/// The next step of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// It has sent a message, which is there for [`Incoming::take`].
    Message,
    /// The framing owes it an answer.
    Reply(Owed),
    /// It has sent its last message.
    End(CloseCode),
    /// It has been silent for too long.
    Idle,
    /// It has been silent for too long after [`Incoming::ask`].
    Unanswered,
    /// It did not finish a message in time.
    Slow,
    /// It has sent many bytes that make no message yet, and [`Incoming::take_unpaid`] says how many. Only a reader with
    /// [`Incoming::with_tolls`] stops for this.
    Toll,
    /// It needs more memory for a message than all connections together have left.
    Crowded,
    /// Its stream cannot be read on, for this reason.
    Refused(CloseCode),
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its content as its sender declares it.
    pub kind: Kind,
    /// The content. Text was checked to be UTF-8 by framings that distinguish it.
    pub bytes: &'a [u8],
}

/// Capacity of a lent buffer, which a message that is not whole may keep. It is not counted in [`PartialMessages`].
const KEEP_BYTES: usize = lent::BUFFER_BYTES;
/// The most that is read at once, from clients that send more than the buffer takes.
const READ_BYTES_MAX: usize = 32 * 1024;

/// Bytes without a message after which a client pays for them: they may be thousands of frames of a few bytes.
const TOLL_BYTES: usize = 64 * 1024;

/// Time and bytes for which a client that was sent away is still read.
const FAREWELL: Duration = Duration::from_secs(1);
const FAREWELL_BYTES: usize = 8_000_000;

/// Memory for messages that are not whole, of all connections, beyond a few kilobytes for each.
#[derive(Debug, Clone)]
pub struct PartialMessages(Arc<Semaphore>);

/// Bounds of one connection's messages.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of a message, compressed and not.
    pub message_bytes: usize,
    /// From the first byte of a message to its last.
    pub message: Duration,
    /// Silence before the first message.
    pub first_message: Duration,
    /// Silence after it.
    pub idle: Duration,
}

/// A bounded reader of messages.
#[doc(alias = "slow loris")]
#[derive(Debug)]
pub struct Incoming<R, F> {
    stream: R,
    framing: F,
    bounds: Bounds,
    partial: PartialMessages,
    /// One permit for each byte that the buffer may hold beyond [`KEEP_BYTES`].
    held: Option<OwnedSemaphorePermit>,
    /// Without memory while nothing has come.
    buffer: Vec<u8>,
    /// Start of the bytes that are not used up.
    start: usize,
    /// End of the used up bytes that are overwritten.
    wiped: usize,
    /// The result of cutting there, if it was tried.
    found: Option<Cut>,
    /// The message that was taken last, if it is not in the buffer.
    inflated: Vec<u8>,
    /// Longest silence, and the end of the one that has begun.
    patience: Duration,
    silent_until: Option<Instant>,
    is_asked: bool,
    /// Time at which the message that has begun must be whole.
    due: Option<Instant>,
    /// Made once: to register a timer takes the lock of all timers, to move it to a later time does not.
    timer: Option<Pin<Box<Sleep>>>,
    has_ended: bool,
    /// Bytes that were read and that nobody was charged for.
    unpaid: usize,
    /// Unpaid bytes at which reading stops.
    toll_bytes: usize,
}

impl PartialMessages {
    /// Memory of this size.
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes_max.min(Semaphore::MAX_PERMITS))))
    }
}

impl<R: AsyncRead + Unpin, F: Framing> Incoming<R, F> {
    /// A reader of `stream`, of which `read` was read already.
    pub fn new(stream: R, read: Vec<u8>, framing: F, bounds: Bounds, partial: PartialMessages) -> Self {
        Self {
            stream,
            framing,
            patience: bounds.first_message,
            bounds,
            partial,
            held: None,
            buffer: read,
            start: 0,
            wiped: 0,
            found: None,
            inflated: Vec::new(),
            silent_until: None,
            is_asked: false,
            due: None,
            timer: None,
            has_ended: false,
            unpaid: 0,
            toll_bytes: usize::MAX,
        }
    }

    /// Stops reading now and then while no message comes of it, so that the client can be charged.
    #[must_use]
    pub fn with_tolls(self) -> Self {
        Self { toll_bytes: TOLL_BYTES, ..self }
    }

    /// Returns the bytes that were read since the last call, of messages and of anything else.
    pub fn take_unpaid(&mut self) -> usize {
        std::mem::take(&mut self.unpaid)
    }

    /// The stream, to write to it.
    pub fn stream(&mut self) -> &mut R {
        &mut self.stream
    }

    /// True if a whole message is there without waiting.
    pub fn has_message(&mut self) -> bool {
        if self.found.is_none() {
            match self.framing.cut(&mut self.buffer[self.start..], self.bounds.message_bytes) {
                Cut::More { unused } => drop(self.buffer.drain(self.start + unused.start..self.start + unused.end)),
                found => self.found = Some(found),
            }
        }
        matches!(self.found, Some(Cut::Message { .. }))
    }

    /// Waits for a message. Dropping the future loses nothing, nor does it begin a silence anew.
    pub async fn next(&mut self) -> Result<Next> {
        loop {
            if self.has_message() {
                return Ok(Next::Message);
            }
            match self.found.take() {
                Some(Cut::Reply(owed)) => return Ok(Next::Reply(owed)),
                Some(Cut::Refused(code)) => return Ok(Next::Refused(code)),
                Some(Cut::Ended(code)) => return Ok(Next::End(code)),
                _ if self.has_ended => return Ok(Next::End(CloseCode::Normal)),
                _ => {}
            }
            if self.unpaid >= self.toll_bytes {
                return Ok(Next::Toll);
            }
            if !self.make_room() {
                return Ok(Next::Crowded);
            }
            match poll_fn(|context| self.poll_bytes(context)).await? {
                Some(bytes) => self.arrived(bytes),
                None if self.due.is_some() => return Ok(Next::Slow),
                None if self.is_asked => return Ok(Next::Unanswered),
                None => return Ok(Next::Idle),
            }
        }
    }

    /// Reads what comes next; `None` if it does not come in time. What is there already takes no timer.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<usize>>> {
        if self.buffer.capacity() == 0 {
            self.buffer = lent::take();
        }
        let read = pin!(self.stream.read_buf(&mut self.buffer)).poll(context);
        if let Poll::Ready(read) = read {
            return Poll::Ready(read.map(Some));
        }
        self.give_back();
        let until = match self.due {
            Some(due) => due,
            None => *self.silent_until.get_or_insert_with(|| Instant::now() + self.patience),
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if timer.deadline() != until {
            timer.as_mut().reset(until);
        }
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Ok(None))
    }

    fn arrived(&mut self, bytes: usize) {
        self.patience = self.bounds.idle;
        self.silent_until = None;
        self.is_asked = false;
        self.unpaid += bytes;
        if bytes == 0 {
            self.has_ended = true;
            self.found = Some(self.framing.last(&self.buffer[self.start..]));
        }
    }

    /// Notes that the client was asked whether it is there, and has this long to send anything.
    pub fn ask(&mut self, patience: Duration) {
        self.patience = patience;
        self.silent_until = None;
        self.is_asked = true;
    }

    /// The message that [`Self::next`] or [`Self::has_message`] found, if they found one.
    pub fn peek(&self) -> Option<&[u8]> {
        match &self.found {
            Some(Cut::Message { payload: Payload::InPlace(bytes), .. }) => {
                Some(&self.buffer[self.start + bytes.start..self.start + bytes.end])
            }
            Some(Cut::Message { payload: Payload::Inflated(bytes), .. }) => Some(bytes),
            _ => None,
        }
    }

    /// Takes the message that [`Self::next`] or [`Self::has_message`] found.
    ///
    /// # Panics
    /// If they found none.
    pub fn take(&mut self) -> Message<'_> {
        let Some(Cut::Message { payload, kind, end }) = self.found.take() else { unreachable!("a message was found") };
        let start = self.start;
        self.start += end;
        self.due = None;
        let bytes = match payload {
            Payload::InPlace(bytes) => &self.buffer[start + bytes.start..start + bytes.end],
            Payload::Inflated(bytes) => {
                self.inflated = bytes;
                &self.inflated
            }
        };
        Message { kind, bytes }
    }

    /// Overwrites the messages that were taken, because one holds a secret.
    pub fn wipe(&mut self) {
        self.buffer[self.wiped..self.start].zeroize();
        if self.wiped == 0 {
            // What was moved to the front before is there still.
            self.buffer.spare_capacity_mut().zeroize();
        }
        self.wiped = self.start;
        self.inflated.zeroize();
    }

    /// Drops what still comes for a moment, and charges its sender: closing a socket with unread bytes would destroy
    /// what was written to it last. Of one that has used up its share only the next bytes are read.
    pub async fn farewell(&mut self, meter: &Meter) {
        self.release_all();
        if !self.grow_to(READ_BYTES_MAX) {
            // In smaller steps, which cost more.
            self.buffer = lent::take();
        }
        let reading = async {
            let mut seen = 0;
            while seen < FAREWELL_BYTES {
                self.buffer.clear();
                let Ok(read @ 1..) = self.stream.read_buf(&mut self.buffer).await else { return };
                seen += read;
                meter.read_beside(read);
                if meter.charge(Duration::ZERO, Instant::now().into_std()).is_err() {
                    return;
                }
            }
        };
        // A client that sends for longer has had its time.
        let _ = timeout(FAREWELL, reading).await;
    }

    /// Drops what has come, and gives its memory back. Nothing can be read after it but [`Self::farewell`].
    pub fn release_all(&mut self) {
        self.buffer = Vec::new();
        self.inflated = Vec::new();
        (self.held, self.start, self.wiped, self.found) = (None, 0, 0, None);
    }

    /// Makes room to read into. False if that would take more than all connections together may have.
    fn make_room(&mut self) -> bool {
        let was_full = !self.buffer.is_empty() && self.buffer.len() == self.buffer.capacity();
        self.buffer.drain(..self.start);
        (self.start, self.wiped) = (0, 0);
        if self.inflated.capacity() > 0 {
            self.inflated = Vec::new();
        }
        if self.buffer.capacity() > READ_BYTES_MAX {
            self.give_back();
        }
        self.due = match self.due {
            _ if self.buffer.is_empty() && !self.framing.has_begun() => None,
            None => Some(Instant::now() + self.bounds.message),
            due => due,
        };
        let (used, capacity) = (self.buffer.len(), self.buffer.capacity());
        if used > 0 && capacity < (used + KEEP_BYTES / 2).max(KEEP_BYTES) {
            return self.grow_to((2 * used).max(KEEP_BYTES));
        } else if was_full && (1..READ_BYTES_MAX).contains(&capacity) {
            // A client that pipelines. Without the memory it goes on in smaller steps.
            self.grow_to(2 * capacity);
        }
        true
    }

    /// Gives an emptied buffer back.
    fn give_back(&mut self) {
        if self.buffer.is_empty() {
            lent::give(std::mem::take(&mut self.buffer));
            self.held = None;
        }
    }

    fn grow_to(&mut self, capacity: usize) -> bool {
        let is_allowed = self.hold(capacity.saturating_sub(KEEP_BYTES));
        if is_allowed {
            // By hand, so that no part of a secret is left in memory that is given back.
            let mut grown = Vec::with_capacity(capacity);
            grown.extend_from_slice(&self.buffer);
            self.buffer.zeroize();
            self.buffer = grown;
        }
        is_allowed
    }

    /// Takes the permits that are missing for `bytes`.
    fn hold(&mut self, bytes: usize) -> bool {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Ok(missing) = u32::try_from(bytes.saturating_sub(held)) else { return false };
        match Arc::clone(&self.partial.0).try_acquire_many_owned(missing) {
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
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;
    use crate::lines::Lines;

    /// True if memory of the buffer, used or not, holds this.
    fn holds<R, F>(incoming: &mut Incoming<R, F>, secret: &[u8]) -> bool {
        // The rest of the capacity was written before.
        let len = incoming.buffer.len();
        incoming.buffer.resize(incoming.buffer.capacity(), 0);
        let holds = incoming.buffer.windows(secret.len()).any(|bytes| bytes == secret);
        incoming.buffer.truncate(len);
        holds
    }

    #[tokio::test]
    async fn a_message_that_is_wiped_is_gone_and_the_next_is_there() {
        let wait = Duration::from_mins(1);
        let bounds = Bounds { message_bytes: 100_000, message: wait, first_message: wait, idle: wait };
        let (mut client, server) = duplex(1 << 20);
        let mut incoming = Incoming::new(server, Vec::new(), Lines::default(), bounds, PartialMessages::new(1 << 20));
        client.write_all(b"before\nthe secret\nafter\n").await.unwrap();
        for expected in [&b"before"[..], b"the secret"] {
            assert_eq!(incoming.next().await.unwrap(), Next::Message);
            assert_eq!(incoming.take().bytes, expected);
        }
        incoming.wipe();
        assert!(!holds(&mut incoming, b"secret"));
        assert_eq!(incoming.next().await.unwrap(), Next::Message);
        assert_eq!(incoming.take().bytes, b"after");
    }
}
