//! A stream over a WebSocket ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455)): the items of a feed as messages, the
//! cursor as their member `id`.
//!
//! Nothing is made for a client that does not read. One that takes nothing for too long is sent what it has begun to
//! take, then the end of the conversation, whose reason is the cursor to come back with.

mod outgoing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::source::BlockId;
use birdhouse_net::{Bounds, CloseCode, Compression, FrameWriter, Frames, Incoming, Meter, Next, Stream};
use futures_util::StreamExt as _;
use hyper::HeaderMap;
use hyper::header::UPGRADE;
use hyper::upgrade::OnUpgrade;
use tokio::io::AsyncWriteExt as _;
use tokio::time::sleep;

use self::outgoing::{Outgoing, Unwritten};
use crate::api::feed::{self, Caller};
use crate::api::item::{Item, position_text};
use crate::api::wish::Feed;
use crate::limits::{
    API_BODY_TIMEOUT, API_SOCKET_ANSWER, API_SOCKET_FAREWELL, API_SOCKET_MESSAGE_BYTES_MAX, API_SOCKET_SILENCE,
    API_WRITE_TIMEOUT,
};

/// A connection that becomes a WebSocket.
pub(super) struct Switching {
    /// Gives the stream once the answer is written.
    pub(super) stream: OnUpgrade,
    pub(super) caller: Caller,
    pub(super) feed: Feed,
}

/// Reason for the end of a conversation.
enum Ending {
    /// The client is gone.
    Gone,
    /// It closed the WebSocket.
    Farewell(CloseCode),
    /// It broke a rule.
    Refused(CloseCode, &'static str),
    /// It takes nothing of what is written.
    Slow,
    /// The feed has ended: the client has used its share, or the index cannot be read.
    Over,
    /// The server ends.
    Shutdown,
}

type Step = Result<(), Ending>;

struct Connection {
    incoming: Incoming<Stream, Frames>,
    outgoing: Outgoing,
    meter: Arc<Meter>,
    /// The last block that the client has whole.
    position: Option<BlockId>,
}

/// Returns true for a request that asks for a WebSocket.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|upgrade| upgrade.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Serves a client until it goes, is sent away, or the server ends.
pub(super) async fn converse(stream: Stream, read: Vec<u8>, caller: Caller, feed: Feed) {
    let bounds = Bounds {
        message_bytes: API_SOCKET_MESSAGE_BYTES_MAX,
        message: API_BODY_TIMEOUT,
        first_message: API_SOCKET_SILENCE,
        idle: API_SOCKET_SILENCE,
    };
    let (partial, frames) = (caller.service.partial.clone(), Frames::new(Compression::Off));
    let (meter, mut stopped) = (Arc::clone(&caller.meter), caller.stopped.clone());
    let mut connection = Connection {
        incoming: Incoming::new(stream, read, frames, bounds, partial).with_tolls(),
        outgoing: Outgoing::new(FrameWriter::new(Compression::Off)),
        meter: Arc::clone(&meter),
        position: None,
    };
    let mut items = feed::open(caller, feed);
    let ending = loop {
        let step = tokio::select! {
            biased;
            _ = stopped.changed() => Err(Ending::Shutdown),
            () = meter.disconnected() => Err(Ending::Gone),
            items = items.next() => match items {
                Some(items) => connection.send(&items).await,
                None => Err(Ending::Over),
            },
            next = connection.incoming.next() => match next {
                Ok(next) => connection.take(next).await,
                Err(_) => Err(Ending::Gone),
            },
        };
        if let Err(ending) = step {
            break ending;
        }
    };
    connection.end(&ending).await;
}

impl Connection {
    /// Sends the items, and waits until the client has taken them.
    async fn send(&mut self, items: &[Item]) -> Step {
        let messages: Vec<String> = items.iter().filter_map(Item::to_message).collect();
        if messages.is_empty() {
            self.outgoing.frames.ping();
        }
        for message in messages {
            self.meter.notified(message.len());
            self.outgoing.frames.text(&[message.as_bytes()]);
        }
        self.flush(API_WRITE_TIMEOUT).await?;
        self.position = items.iter().rev().find_map(Item::position).or(self.position);
        Ok(())
    }

    async fn take(&mut self, next: Next) -> Step {
        match next {
            Next::Message => Err(Ending::Refused(CloseCode::Policy, "this stream takes no messages")),
            Next::Reply(owed) => {
                self.outgoing.frames.framed(&owed.bytes);
                self.flush(API_WRITE_TIMEOUT).await?;
                self.pay(owed.work())
            }
            Next::Idle => {
                self.incoming.ask(API_SOCKET_ANSWER);
                self.outgoing.frames.ping();
                self.flush(API_WRITE_TIMEOUT).await
            }
            Next::Toll => self.pay(Duration::ZERO),
            Next::End(CloseCode::Abnormal) | Next::Unanswered => Err(Ending::Gone),
            Next::End(code) => Err(Ending::Farewell(code)),
            Next::Slow => Err(Ending::Refused(CloseCode::Policy, "the message takes too long")),
            Next::Crowded => Err(Ending::Over),
            Next::Refused(code) => Err(Ending::Refused(code, "this stream takes no messages")),
        }
    }

    /// Charges the client for what it has sent.
    fn pay(&mut self, work: Duration) -> Step {
        self.meter.read_beside(self.incoming.take_unpaid());
        self.meter.charge(work, Instant::now()).map_err(|_| Ending::Over)
    }

    async fn flush(&mut self, patience: Duration) -> Step {
        // A client that the operator disconnects is ended in the middle of a write, too.
        let meter = Arc::clone(&self.meter);
        tokio::select! {
            biased;
            () = meter.disconnected() => Err(Ending::Gone),
            written = self.outgoing.flush(self.incoming.stream(), patience) => written.map_err(|why| match why {
                Unwritten::Gone => Ending::Gone,
                Unwritten::Slow => Ending::Slow,
            }),
        }
    }

    /// Closes the WebSocket with a status, and with the cursor where the client may come back.
    async fn end(&mut self, ending: &Ending) {
        let (code, reason) = match ending {
            Ending::Gone => return,
            Ending::Farewell(code) => (*code, None),
            Ending::Refused(code, reason) => (*code, Some((*reason).to_owned())),
            Ending::Slow | Ending::Over => (CloseCode::Again, self.position.map(position_text)),
            Ending::Shutdown => (CloseCode::Away, self.position.map(position_text)),
        };
        self.incoming.release_all();
        self.outgoing.frames.close(code, reason.as_deref().unwrap_or_default());
        let all = async {
            let is_sent = self.flush(API_SOCKET_FAREWELL).await.is_ok();
            is_sent && self.incoming.stream().shutdown().await.is_ok()
        };
        let is_closed = tokio::select! {
            is_closed = all => is_closed,
            () = sleep(API_SOCKET_FAREWELL) => false,
        };
        if is_closed {
            self.incoming.farewell(&self.meter).await;
        }
    }
}
