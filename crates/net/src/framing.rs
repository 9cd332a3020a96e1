//! The place of messages in a stream of bytes: all that the transports of a protocol differ in.
//!
//! A framing is a pure function from bytes to messages and back. It keeps positions, never bytes: the buffer is
//! [`Incoming`](crate::Incoming)'s on the way in and [`Outbox`](crate::Outbox)'s on the way out, so that a message is
//! not copied for it on either.

use std::ops::Range;
use std::time::Duration;

pub use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::meter::PING_WORK;

/// A way to put messages into a stream and to find them again.
pub trait Framing {
    /// Finds what stands next in `bytes`, which begin behind the last message that was cut.
    ///
    /// After [`Cut::More`] and [`Cut::Reply`] the same bytes are given again, so a framing may remember how far it
    /// has scanned, and may change what it has scanned.
    fn cut(&mut self, bytes: &mut [u8], message_bytes_max: usize) -> Cut;

    /// Interprets bytes that are not a whole message when nothing follows: [`Cut::Message`] or [`Cut::Ended`].
    fn last(&mut self, bytes: &[u8]) -> Cut;

    /// True while parts of a message have come and its end has not, even if these parts have no bytes.
    fn has_begun(&self) -> bool {
        false
    }

    /// Appends what stands before a message of this length.
    fn put_before(message_bytes: usize, outgoing: &mut Vec<u8>);

    /// Appends what stands after a message.
    fn put_after(outgoing: &mut Vec<u8>);

    /// Appends what is sent before the connection is closed.
    fn put_end(code: CloseCode, outgoing: &mut Vec<u8>);
}

/// The next item of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// A message, and the end of the bytes that are used up with it.
    Message {
        /// Its bytes.
        payload: Payload,
        /// Its content as its sender declares it.
        kind: Kind,
        /// Start of the next one.
        end: usize,
    },
    /// Nothing for the server, but the framing owes the client an answer.
    Reply(Owed),
    /// More must come. Meanwhile these bytes may be taken out.
    More {
        /// They lie between what is kept and what is not read yet.
        unused: Range<usize>,
    },
    /// The client says that it will send no more, and why if its framing has words for it.
    Ended(CloseCode),
    /// The stream cannot be read on: a message is longer than its bound ([`CloseCode::Size`]), declared as text and not
    /// UTF-8 ([`CloseCode::Invalid`]), or against the rules of the framing ([`CloseCode::Protocol`]).
    Refused(CloseCode),
}

/// The answer to pings that came together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owed {
    /// Its bytes, framed.
    pub bytes: Vec<u8>,
    /// Number of pings that it answers.
    pub pings: u32,
}

impl Owed {
    /// Returns the processor time that the client is charged for them.
    pub fn work(&self) -> Duration {
        PING_WORK * self.pings
    }
}

/// The bytes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// They lie in the buffer.
    InPlace(Range<usize>),
    /// They were compressed there.
    Inflated(Vec<u8>),
}

/// Content of a message, as its sender declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8, where the framing distinguishes it; a line may be anything.
    Text,
    /// Any bytes.
    Binary,
}
