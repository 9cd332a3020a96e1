//! One client's connection: both directions of its socket, and its notifications, in one task.
//!
//! Messages that arrive together are admitted together and run as one job, so a client that pipelines pays one hop to
//! the readers for many requests. Reading alone stops while too much is in flight or too much waits to be written.
//!
//! Most connections are idle: they wait for everything that may happen, and nothing does. A task has the memory of its
//! largest state for as long as it lasts, so what a connection does is on the heap while it does it. The futures of
//! `run` are built where they stay; one that is handed to an `async fn` would be there twice.

mod notify;
mod pending_requests;
mod silent_payments;
mod silent_requests;
pub(crate) mod transport;
mod turns;
mod tweak_streams;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_net::{CloseCode, ConnectionGuard, Framing, Incoming, Next, Outbox, Stream};
use birdhouse_silentpayments::wipe_stack;
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{unconstrained, yield_now};
use tokio::time::sleep;
use tracing::debug;

use crate::client::{Client, SENT_AWAY, SERVER_ENDS};
use crate::connection::pending_requests::{PendingRequests, Presence};
use crate::error::RpcError;
use crate::protocol::Id;
use crate::response::error_reply;
use crate::service::Service;

/// Pause in reading from a client that has used more than its limit, after its requests were refused.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Reason for which reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The client has nothing more to ask, is sent away, or the server ends.
    End(CloseCode),
    /// Replies in flight are not worth waiting for.
    Hopeless,
    /// Nor are those that wait to be written, beyond [`Limits::write_timeout`](crate::Limits::write_timeout).
    Disconnected,
}

/// The parts of a connection.
pub(crate) struct Parts<F> {
    pub(crate) service: Arc<Service>,
    pub(crate) client: Arc<Client>,
    pub(crate) framing: F,
    /// Bytes that came with the handshake.
    pub(crate) read_already: Vec<u8>,
    pub(crate) stream: Stream,
    /// Held to the end.
    pub(crate) guard: ConnectionGuard,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Serves one client until it goes, is sent away, or the server ends.
pub(crate) fn run<F: Framing + Send>(parts: Parts<F>) -> impl Future<Output = ()> + Send {
    let Parts { service, client, framing, read_already, stream, guard, permit } = parts;
    let (reader, writer) = split(stream);
    let bounds = client.limits().incoming();
    let mut incoming = Incoming::new(reader, read_already, framing, bounds, service.partial.clone()).with_tolls();
    // Before the first subscription, so that no update falls between.
    service.followers.add(&client);
    async move {
        let _held = (&guard, &permit);
        let ending = {
            let listening = pin!(listen(&service, &client, &mut incoming));
            let writing = pin!(write(&client, writer));
            listen_and_write(&client.outbox, listening, writing).await
        };
        if matches!(ending, Ending::End(code) if !matches!(code, CloseCode::Normal | CloseCode::Away)) {
            Box::pin(incoming.farewell(&client.meter)).await;
        }
    }
}

/// Listens to a client and to what concerns it, to its end, and closes its outbox.
async fn listen<R: AsyncRead + Unpin, F: Framing>(
    service: &Arc<Service>,
    client: &Arc<Client>,
    incoming: &mut Incoming<R, F>,
) -> Ending {
    let ending = tokio::select! {
        ending = read(service, client, incoming) => ending,
        () = client.signals.raised(SERVER_ENDS) => Ending::End(CloseCode::Away),
        () = client.outbox.closed() => Ending::Hopeless,
        () = client.meter.disconnected() => Ending::Disconnected,
        () = notify::run(service, client) => Ending::Hopeless,
        () = silent_payments::run(service, client) => Ending::Hopeless,
        () = tweak_streams::run(service, client) => Ending::Hopeless,
    };
    debug!(?ending, "connection ends");
    let ending = match ending {
        Ending::End(_) => tokio::select! {
            () = client.all_answered() => ending,
            () = client.outbox.closed() => ending,
            () = client.meter.disconnected() => Ending::Disconnected,
        },
        ending => ending,
    };
    client.outbox.close(match ending {
        Ending::End(code) => code,
        Ending::Hopeless | Ending::Disconnected => CloseCode::Away,
    });
    if ending == Ending::Disconnected {
        client.signals.raise(SENT_AWAY);
    }
    ending
}

/// Writes what waits, and of a client that is disconnected for a while only.
async fn write(client: &Client, writer: impl AsyncWrite + Unpin) {
    let patience = client.limits().write_timeout;
    tokio::select! {
        biased;
        () = client.outbox.drain(writer, patience) => {}
        () = async { client.signals.raised(SENT_AWAY).await; Box::pin(sleep(patience)).await } => {}
    }
}

/// Listens and writes in one task, so that a reply is written in the poll in which its request came.
async fn listen_and_write<T>(
    outbox: &Outbox,
    mut listening: Pin<&mut impl Future<Output = T>>,
    writing: Pin<&mut impl Future>,
) -> T {
    let listening = poll_fn(|context| {
        outbox.attend();
        listening.as_mut().poll(context)
    });
    // `unconstrained`: listening to a client that never stops asking uses up the task's budget, and its replies must
    // still be written.
    tokio::join!(biased; listening, unconstrained(writing)).0
}

async fn read<R: AsyncRead + Unpin, F: Framing>(
    service: &Arc<Service>,
    client: &Arc<Client>,
    incoming: &mut Incoming<R, F>,
) -> Ending {
    while client.outbox.room().await {
        let (next, has_waited) = noting_wait(incoming.next()).await;
        match next {
            // Charged as a message.
            Ok(Next::Message) => _ = incoming.take_unpaid(),
            Ok(Next::Reply(owed)) => {
                let work = owed.work();
                client.outbox.push_framed(owed.bytes);
                pay(client, incoming, work).await;
                continue;
            }
            Ok(Next::End(_)) => return Ending::End(CloseCode::Normal),
            Ok(Next::Refused(code)) => return refuse(client, code),
            Ok(Next::Crowded) => {
                let error = RpcError::excessive("the server has no memory for another large request");
                client.outbox.push(error_reply(&Id::null(), &error));
                return Ending::End(CloseCode::Policy);
            }
            Ok(Next::Toll) => {
                pay(client, incoming, Duration::ZERO).await;
                continue;
            }
            Ok(Next::Idle | Next::Unanswered | Next::Slow) | Err(_) => return Ending::Hopeless,
        }
        match Box::pin(take_messages(service, client, incoming)).await {
            Taken::All if has_waited && !incoming.has_message() => {}
            // Otherwise a client that sends without pause would keep this task running, and no thread would poll the
            // other sockets for milliseconds.
            Taken::All => yield_now().await,
            Taken::Refused => Box::pin(sleep(REFUSED_PAUSE)).await,
            Taken::SentAway => return Ending::End(CloseCode::Policy),
        }
    }
    Ending::Hopeless
}

/// Outcome of taking messages that came together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Their requests are answered, or will be.
    All,
    /// The client has used too much: errors answered them.
    Refused,
    /// The client is to go.
    SentAway,
}

/// Takes the message that has come, and those that came with it.
async fn take_messages<R: AsyncRead + Unpin, F: Framing>(
    service: &Arc<Service>,
    client: &Arc<Client>,
    incoming: &mut Incoming<R, F>,
) -> Taken {
    let mut pending = PendingRequests::new(service, client, Instant::now());
    let is_refused = pending.is_refused();
    let mut has_message = true;
    while has_message {
        let presence = pending.take_message(incoming.take().bytes).await;
        if pending.is_secret() {
            incoming.wipe();
            wipe_stack();
        }
        if presence == Presence::SentAway {
            pending.end();
            return Taken::SentAway;
        }
        has_message = pending.has_room() && client.outbox.has_room() && incoming.has_message();
    }
    pending.end();
    if is_refused { Taken::Refused } else { Taken::All }
}

/// Charges the client for work that was done in no turn, and for what it has sent beside messages. Reads nothing for a
/// while if it has used up its share, and lets other connections be served.
async fn pay<R: AsyncRead + Unpin, F: Framing>(client: &Client, incoming: &mut Incoming<R, F>, work: Duration) {
    client.meter.read_beside(incoming.take_unpaid());
    if client.meter.charge(work, Instant::now()).is_err() {
        Box::pin(sleep(REFUSED_PAUSE)).await;
    } else {
        yield_now().await;
    }
}

/// Returns the output of a future, and true if there was a wait for it.
async fn noting_wait<T>(future: impl Future<Output = T>) -> (T, bool) {
    let (mut future, mut has_waited) = (pin!(future), false);
    poll_fn(|context| {
        let poll = future.as_mut().poll(context);
        has_waited |= poll.is_pending();
        poll.map(|output| (output, has_waited))
    })
    .await
}

/// Ends reading, with an error reply where the protocol has one.
fn refuse(client: &Client, code: CloseCode) -> Ending {
    if code == CloseCode::Size {
        let bytes_max = client.limits().message_bytes;
        let error = RpcError::excessive(format_args!("a line may have at most {bytes_max} bytes"));
        client.outbox.push(error_reply(&Id::null(), &error));
    }
    Ending::End(code)
}
