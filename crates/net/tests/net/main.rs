//! Streams of messages in both directions, through the public interface of the crate.
#![expect(clippy::unwrap_used, reason = "tests")]

mod connection_slots;
mod frames;
mod incoming;
mod lines;
mod outbox;

use std::time::Duration;

use birdhouse_net::{Bounds, Framing, Incoming, Next, PartialMessages};
use tokio::io::{AsyncRead, AsyncReadExt as _};

const BOUNDS: Bounds = Bounds {
    message_bytes: 1_000_000,
    message: Duration::from_mins(2),
    first_message: Duration::from_mins(1),
    idle: Duration::from_mins(30),
};

/// Every message of a stream that comes in pieces, and its end. Replies of the framing are passed over.
pub(crate) async fn all<F: Framing>(framing: F, pieces: &[&[u8]], message_bytes_max: usize) -> (Vec<Vec<u8>>, Next) {
    let stream = pieces
        .iter()
        .fold(Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin>, |head, piece| Box::new(head.chain(*piece)));
    let bounds = Bounds { message_bytes: message_bytes_max, ..BOUNDS };
    let mut incoming = Incoming::new(stream, Vec::new(), framing, bounds, PartialMessages::new(1 << 20));
    let mut taken = Vec::new();
    loop {
        match incoming.next().await.unwrap() {
            Next::Message => taken.push(incoming.take().bytes.to_vec()),
            Next::Reply(_) => {}
            end => return (taken, end),
        }
    }
}
