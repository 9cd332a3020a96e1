//! One client's connection: both directions of its socket, and its notifications, in one task.
//!
//! Messages that arrive together are admitted together and run as one job, so a client that pipelines pays one hop to
//! the readers for many requests. Reading alone stops while too much is in flight or too much waits to be written.

mod notify;
mod pending_requests;
mod silent_payments;
mod silent_requests;
pub(crate) mod transport;
mod turns;
mod tweak_streams;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_net::{CloseCode, Framing, Incoming, Next, Outbox, Stream};
use birdhouse_silentpayments::wipe_stack;
use tokio::io::{AsyncRead, split};
use tokio::sync::Notify;
use tokio::task::{unconstrained, yield_now};
use tokio::time::sleep;
use tracing::debug;

use crate::client::Client;
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

/// Serves one client until it goes, is sent away, or `shutdown` completes.
pub(crate) async fn run<F: Framing>(
    service: Arc<Service>,
    client: Arc<Client>,
    framing: F,
    read_already: Vec<u8>,
    stream: Stream,
    shutdown: impl Future<Output = ()>,
) {
    let (reader, writer) = split(stream);
    let bounds = client.limits().incoming();
    let mut incoming = Incoming::new(reader, read_already, framing, bounds, service.partial.clone()).with_tolls();
    // Before the first subscription, so that no update falls between.
    service.followers.add(&client);
    let (disconnected, patience) = (Notify::new(), client.limits().write_timeout);
    let listening = async {
        let ending = tokio::select! {
            ending = read(&service, &client, &mut incoming) => ending,
            () = shutdown => Ending::End(CloseCode::Away),
            () = client.outbox.closed() => Ending::Hopeless,
            () = client.meter.disconnected() => Ending::Disconnected,
            () = notify::run(&service, &client) => Ending::Hopeless,
            () = silent_payments::run(&service, &client) => Ending::Hopeless,
            () = tweak_streams::run(&service, &client) => Ending::Hopeless,
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
            disconnected.notify_one();
        }
        ending
    };
    // What waits is still written, and of a client that is disconnected for a while only.
    let writing = async {
        tokio::select! {
            biased;
            () = client.outbox.drain(writer, patience) => {}
            () = async { disconnected.notified().await; sleep(patience).await } => {}
        }
    };
    let ending = listen_and_write(&client.outbox, listening, writing).await;
    if matches!(ending, Ending::End(code) if !matches!(code, CloseCode::Normal | CloseCode::Away)) {
        incoming.farewell(&client.meter).await;
    }
}

/// Listens and writes in one task, so that a reply is written in the poll in which its request came.
async fn listen_and_write<T>(outbox: &Outbox, listening: impl Future<Output = T>, writing: impl Future) -> T {
    let mut listening = pin!(listening);
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
                return Ending::End(CloseCode::Policy);
            }
            has_message = pending.has_room() && client.outbox.has_room() && incoming.has_message();
        }
        pending.end();
        if is_refused {
            sleep(REFUSED_PAUSE).await;
        } else if !has_waited || incoming.has_message() {
            // Otherwise a client that sends without pause would keep this task running, and no thread would poll the
            // other sockets for milliseconds.
            yield_now().await;
        }
    }
    Ending::Hopeless
}

/// Charges the client for work that was done in no turn, and for what it has sent beside messages. Reads nothing for a
/// while if it has used up its share, and lets other connections be served.
async fn pay<R: AsyncRead + Unpin, F: Framing>(client: &Client, incoming: &mut Incoming<R, F>, work: Duration) {
    client.meter.read_beside(incoming.take_unpaid());
    if client.meter.charge(work, Instant::now()).is_err() {
        sleep(REFUSED_PAUSE).await;
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
