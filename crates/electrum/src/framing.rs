//! How messages lie in a stream of bytes: all that the transports of the protocol differ in.
//!
//! A framing is a pure function from bytes to messages and back. It keeps positions, never bytes: the buffer is
//! [`Incoming`](crate::incoming::Incoming)'s on the way in and [`Outbox`](crate::outbox::Outbox)'s on the way out, so
//! that a message is not copied for it on either.

use std::ops::Range;

/// A way to put messages into a stream and to find them again.
pub(crate) trait Framing: Default {
    /// Says what stands next in `bytes`, which begin behind the last message that was cut.
    ///
    /// After [`Cut::More`] and [`Cut::Reply`] the same bytes are shown again, so a framing may remember how far it
    /// has looked, and may change what it has looked at.
    fn cut(&mut self, bytes: &mut [u8], message_bytes_max: usize) -> Cut;

    /// What bytes that are not a whole message mean when nothing follows: [`Cut::Message`] or [`Cut::Ended`].
    fn last(&mut self, bytes: &[u8]) -> Cut;

    /// Appends what stands before a message of so many bytes.
    fn put_before(message_bytes: usize, outgoing: &mut Vec<u8>);

    /// Appends what stands after a message.
    fn put_after(outgoing: &mut Vec<u8>);

    /// Appends what is said before the connection is closed.
    fn put_end(closing: Closing, outgoing: &mut Vec<u8>);
}

/// What stands next in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A message, and the end of the bytes that are used up with it.
    Message { message: Range<usize>, end: usize },
    /// Nothing for the server, but the framing owes the client these bytes.
    Reply(Vec<u8>),
    /// More must come. Meanwhile these bytes may be taken out.
    More { unused: Range<usize> },
    /// The client says that it will send no more.
    Ended,
    /// The stream cannot be read on.
    Refused(Refusal),
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The message is longer than its bound.
    TooLong,
    /// What says that it is text is not UTF-8.
    NotText,
    /// Against the rules of the framing.
    Malformed,
}

/// Why the server closes a connection, for a framing that tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The client has ended.
    Ended,
    /// The server ends, or waits no longer.
    GoingAway,
    /// An error that was sent says why.
    SentAway,
    /// The stream could not be read on.
    Refused(Refusal),
}
