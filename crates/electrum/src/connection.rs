//! One client: its socket's two directions, and its notifications, in one task.
//!
//! Messages that arrive together are admitted together and run as one job, so a client that pipelines pays
//! one hop to the readers for many requests. Reading stops, and nothing else does, while too much is in
//! flight or too much waits to be written.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{unconstrained, yield_now};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::apart::apart;
use crate::envelope::{Envelope, Id, Invalid, Item, Line};
use crate::error::RpcError;
use crate::framing::{Closing, Framing, Refusal};
use crate::incoming::{Incoming, Next};
use crate::job::{self, Call, Form, Task};
use crate::limits::Limits;
use crate::listener::Listener;
use crate::meter::Meter;
use crate::meter::Turn;
use crate::notify;
use crate::outbox::{Framed, Outbox};
use crate::request::RequestKind;
use crate::response::error_reply;
use crate::service::Service;
use crate::session::{Admission, Epoch, Session, Settle};
use crate::unsent::Unsent;

/// Requests of one job, when they come one by one.
const GROUP_MAX: usize = 64;
/// A longer message is parsed while others are served: a megabyte takes milliseconds.
const PARSED_HERE_BYTES: usize = 32 * 1024;
/// How long a client that has used more than it may is not listened to after it was told.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// How long, and how much, is still read from a client that is sent away: closing a socket with unread
/// bytes would destroy the reply that says why.
const FAREWELL: Duration = Duration::from_secs(1);
const FAREWELL_BYTES: usize = 8_000_000;

/// What the tasks of one connection share.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Its listener's.
    listener: Arc<Listener>,
    /// Of its client: that of its socket, or the one a PROXY header names.
    pub(crate) address: IpAddr,
    pub(crate) meter: Arc<Meter>,
    /// The last reads waited for the disk.
    pub(crate) is_cold: AtomicBool,
    pub(crate) outbox: Outbox,
    /// Wakes the notifier: an update concerns what the client follows, or a reply was older than one.
    pub(crate) recheck: Notify,
    /// One permit for each request that is read and not yet answered.
    pub(crate) in_flight: Semaphore,
    in_flight_max: u32,
    session: Mutex<Session>,
}

/// Why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The client has nothing more to ask, or there is nobody to ask any more.
    End(Closing),
    /// It is not worth waiting for what is in flight.
    Hopeless,
}

// === impl Connection ===

impl Connection {
    /// A connection whose messages are framed as `F` says.
    pub(crate) fn new<F: Framing>(
        service: &Service,
        listener: Arc<Listener>,
        address: IpAddr,
        meter: Arc<Meter>,
    ) -> Arc<Self> {
        let in_flight_max = listener.limits.requests_in_flight.max(1);
        let unsent = Unsent { all: service.unsent.clone(), client: meter.unsent() };
        Arc::new(Self {
            outbox: Outbox::new::<F>(listener.limits.outgoing_bytes, unsent),
            listener,
            address,
            meter,
            is_cold: AtomicBool::new(false),
            recheck: Notify::new(),
            in_flight: Semaphore::new(in_flight_max as usize),
            in_flight_max,
            session: Mutex::new(Session::new()),
        })
    }

    /// The bounds of its listener.
    pub(crate) fn limits(&self) -> &Limits {
        &self.listener.limits
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        // A session's methods change it in single steps: a panic elsewhere leaves it whole.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much of [`Self::in_flight`] that many requests take. A batch may be larger than the bound; it
    /// then runs alone.
    pub(crate) fn permits(&self, requests: usize) -> u32 {
        u32::try_from(requests).unwrap_or(u32::MAX).min(self.in_flight_max)
    }

    /// Sends a reply, and notes in the same moment what it tells: no notification comes between.
    pub(crate) fn deliver(&self, reply: Option<Framed>, settles: impl IntoIterator<Item = Settle>, epoch: Epoch) {
        let mut session = self.session();
        if let Some(reply) = reply {
            self.meter.sent(reply.bytes);
            self.outbox.put(reply);
        }
        for settle in settles {
            if session.settle(settle, epoch) {
                self.recheck.notify_one();
            }
        }
    }

    pub(crate) fn push_notification(&self, message: Vec<u8>) {
        self.meter.notified(message.len());
        self.outbox.push(message);
    }

    async fn take_permits(&self, permits: u32) {
        let permits = self.in_flight.acquire_many(permits).await.expect("the semaphore is never closed");
        permits.forget();
    }

    fn try_take_permits(&self, permits: u32) -> bool {
        self.in_flight.try_acquire_many(permits).map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    async fn all_answered(&self) {
        self.take_permits(self.in_flight_max).await;
    }
}

// === one connection's life ===

/// Serves one client until it goes, is sent away, or `shutdown` completes.
pub(crate) async fn run<F: Framing>(
    service: Arc<Service>,
    connection: Arc<Connection>,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    shutdown: impl Future<Output = ()>,
) {
    let mut incoming = Incoming::<_, F>::new(reader, connection.limits(), Arc::clone(&service.unfinished));
    // Before the first subscription, so that no update falls between.
    service.followers.add(&connection);
    let listening = async {
        let ending = tokio::select! {
            ending = read(&service, &connection, &mut incoming) => ending,
            () = shutdown => Ending::End(Closing::GoingAway),
            () = connection.outbox.closed() => Ending::Hopeless,
            () = connection.meter.sent_away() => Ending::Hopeless,
            () = notify::run(&service, &connection) => Ending::Hopeless,
        };
        debug!(?ending, "connection ends");
        if let Ending::End(_) = ending {
            tokio::select! {
                () = connection.all_answered() => {}
                () = connection.outbox.closed() => {}
            }
        }
        connection.outbox.close(match ending {
            Ending::End(closing) => closing,
            Ending::Hopeless => Closing::GoingAway,
        });
        ending
    };
    let writing = connection.outbox.drain(writer, connection.limits().write_timeout);
    let ending = listen_and_write(&connection.outbox, listening, writing).await;
    if let Ending::End(Closing::SentAway | Closing::Refused(_)) = ending {
        // What comes here is of no interest, nor whether it comes.
        let _ = timeout(FAREWELL, incoming.discard(FAREWELL_BYTES)).await;
    }
}

/// Does both in one task, so that a reply is written in the poll in which its request came.
async fn listen_and_write<T>(outbox: &Outbox, listening: impl Future<Output = T>, writing: impl Future) -> T {
    let mut listening = pin!(listening);
    let listening = poll_fn(|context| {
        outbox.attend();
        listening.as_mut().poll(context)
    });
    // A client that never stops asking is answered, too, though listening uses up all that one poll may do.
    tokio::join!(biased; listening, unconstrained(writing)).0
}

async fn read<R: AsyncRead + Unpin, F: Framing>(
    service: &Arc<Service>,
    connection: &Arc<Connection>,
    incoming: &mut Incoming<R, F>,
) -> Ending {
    while connection.outbox.room().await {
        match incoming.next().await {
            Ok(Next::Message) => {}
            Ok(Next::Reply(bytes)) => {
                connection.outbox.push_framed(bytes);
                continue;
            }
            Ok(Next::End) => return Ending::End(Closing::Ended),
            Ok(Next::Refused(refusal)) => return refuse(connection, refusal),
            Ok(Next::Crowded) => {
                let error = RpcError::excessive("the server has no memory for another large request");
                connection.outbox.push(error_reply(&Id::null(), &error));
                return Ending::End(Closing::SentAway);
            }
            Ok(Next::Idle | Next::Slow) | Err(_) => return Ending::Hopeless,
        }
        let mut group = Group::new(service, connection, Instant::now());
        let is_refused = group.refusal.is_some();
        let mut has_message = true;
        while has_message {
            if group.take_message(incoming.take()).await == Presence::SentAway {
                group.end();
                return Ending::End(Closing::SentAway);
            }
            has_message = group.calls.len() < GROUP_MAX && connection.outbox.has_room() && incoming.has_message();
        }
        group.end();
        if is_refused {
            sleep(REFUSED_PAUSE).await;
        } else if incoming.has_message() {
            // What is answered from memory would go on as long as there is something to read.
            yield_now().await;
        }
    }
    Ending::Hopeless
}

/// Tells the client, as far as the protocol has words for it, why nothing more is read.
fn refuse(connection: &Connection, refusal: Refusal) -> Ending {
    if refusal == Refusal::TooLong {
        let bytes_max = connection.limits().message_bytes;
        let error = RpcError::excessive(format_args!("a line may have at most {bytes_max} bytes"));
        connection.outbox.push(error_reply(&Id::null(), &error));
    }
    Ending::End(Closing::Refused(refusal))
}

/// Requests that came in messages of their own and have not started yet.
struct Group<'a> {
    service: &'a Arc<Service>,
    connection: &'a Arc<Connection>,
    calls: Vec<Call>,
    arrived: Instant,
    /// The turn in which they are admitted and begin.
    turn: Option<Turn>,
    /// Why the client is answered nothing for now.
    refusal: Option<RpcError>,
}

/// Whether the client may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Stays,
    SentAway,
}

impl<'a> Group<'a> {
    fn new(service: &'a Arc<Service>, connection: &'a Arc<Connection>, arrived: Instant) -> Self {
        let refusal = connection.meter.check(arrived).err().map(RpcError::overdrawn);
        Self { service, connection, calls: Vec::new(), arrived, turn: None, refusal }
    }

    async fn take_message(&mut self, message: &[u8]) -> Presence {
        let mut turn = self.turn().await;
        let (form, items) = match parse(message, self.connection.limits()) {
            Ok(Line::Single(item)) => (Form::Lines, vec![item]),
            Ok(Line::Batch(items)) => (Form::Batch, items),
            Err(error) => (Form::Lines, vec![Err(Invalid { id: Id::null(), error })]),
        };
        let permits = self.connection.permits(items.len());
        self.connection.meter.received(message.len(), items.len());
        let has_permits = self.connection.try_take_permits(permits);
        if !has_permits || form == Form::Batch && !self.calls.is_empty() {
            // Nobody holds a turn while waiting for something else.
            self.start(turn);
            if !has_permits {
                self.connection.take_permits(permits).await;
            }
            turn = self.turn().await;
        }
        let (calls, presence) = self.admit(items);
        match form {
            Form::Lines => {
                self.calls.extend(calls);
                self.turn = Some(turn);
            }
            Form::Batch => job::start(self.service, self.connection, Form::Batch, calls, self.arrived, turn),
        }
        presence
    }

    fn admit(&self, items: Vec<Item<'_>>) -> (Vec<Call>, Presence) {
        let (settings, meter) = (&self.service.settings, &self.connection.meter);
        let terms = Terms {
            software: &settings.server_version,
            subscriptions_max: meter.subscriptions_max(&settings.limits),
            refusal: self.refusal.as_ref(),
        };
        let mut session = self.connection.session();
        let admitted = admit(items, &mut session, terms);
        meter.follows(session.subscriptions());
        admitted
    }

    async fn turn(&mut self) -> Turn {
        match self.turn.take() {
            Some(turn) => turn,
            None => self.service.processors.take(&self.connection.meter).await,
        }
    }

    fn start(&mut self, turn: Turn) {
        if !self.calls.is_empty() {
            let calls = std::mem::take(&mut self.calls);
            job::start(self.service, self.connection, Form::Lines, calls, self.arrived, turn);
        }
    }

    fn end(mut self) {
        if let Some(turn) = self.turn.take() {
            self.start(turn);
        }
    }
}

fn parse<'a>(message: &'a [u8], limits: &Limits) -> Result<Line<'a>, RpcError> {
    if message.len() > PARSED_HERE_BYTES {
        return apart(|| Line::parse(message, limits));
    }
    Line::parse(message, limits)
}

/// What a client must put up with.
#[derive(Debug, Clone, Copy)]
struct Terms<'a> {
    /// The server's name for itself.
    software: &'a str,
    subscriptions_max: usize,
    /// Why nothing is answered for now.
    refusal: Option<&'a RpcError>,
}

/// Takes the items of a message into the session, in order: one call each.
fn admit(items: Vec<Item<'_>>, session: &mut Session, terms: Terms<'_>) -> (Vec<Call>, Presence) {
    let mut presence = Presence::Stays;
    let calls = items
        .into_iter()
        .map(|item| {
            let Envelope { id, method, args } = match item {
                Ok(envelope) => envelope,
                Err(Invalid { id, error }) => {
                    return Call { id: Some(id), kind: None, task: Task::Answered(Err(error)) };
                }
            };
            let request = match session.read(&method, args) {
                Ok(request) => request,
                Err(error) => return Call { id, kind: None, task: Task::Answered(Err(error)) },
            };
            let kind = Some(RequestKind::from(&request));
            if let Some(refusal) = terms.refusal {
                return Call { id, kind, task: Task::Answered(Err(refusal.clone())) };
            }
            let task = match session.admit(request, terms.software, terms.subscriptions_max) {
                Admission::Run(request) => Task::Run(request),
                Admission::Answer(result) => Task::Answered(result),
                Admission::Farewell(error) => {
                    presence = Presence::SentAway;
                    Task::Answered(Err(error))
                }
            };
            Call { id, kind, task }
        })
        .collect();
    (calls, presence)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::request::Request;
    use proptest::prelude::*;

    /// The calls of a line that a fresh client sends.
    fn calls(line: &[u8]) -> Result<Vec<Call>, RpcError> {
        let terms = Terms { software: "test", subscriptions_max: 10, refusal: None };
        let items = match Line::parse(line, &Limits::default())? {
            Line::Single(item) => vec![item],
            Line::Batch(items) => items,
        };
        Ok(admit(items, &mut Session::new(), terms).0)
    }

    /// JSON that is nearly a request.
    fn near_request() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".{0,8}".prop_map(Into::into),
            "[0-9a-f]{64}".prop_map(Into::into),
        ];
        let params = prop_oneof![
            proptest::collection::vec(leaf.clone(), 0..4).prop_map(serde_json::Value::from),
            proptest::collection::btree_map("scripthash|height|tx_hash|cp_height", leaf.clone(), 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            leaf.clone(),
        ];
        let method = prop_oneof![
            Just("blockchain.scripthash.subscribe"),
            Just("blockchain.scripthash.get_history"),
            Just("blockchain.block.headers"),
            Just("blockchain.transaction.get"),
            Just("blockchain.transaction.id_from_pos"),
            Just("blockchain.estimatefee"),
            Just("server.version"),
            Just("server.ping"),
            Just("none"),
        ];
        (leaf, method, params)
            .prop_map(|(id, method, params)| serde_json::json!({ "id": id, "method": method, "params": params }))
    }

    proptest! {
        #[test]
        fn any_bytes_become_one_call_an_item_or_one_error(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(calls) = calls(&line) {
                prop_assert!(!calls.is_empty());
            }
        }

        #[test]
        fn any_near_request_becomes_exactly_one_call(request in near_request()) {
            let calls = calls(request.to_string().as_bytes()).unwrap();
            prop_assert_eq!(calls.len(), 1);
            // `null`, numbers and strings are ids; what else stands there is answered under null.
            prop_assert!(calls[0].id.is_some());
        }

        #[test]
        fn a_batch_becomes_a_call_for_each_item(requests in proptest::collection::vec(near_request(), 1..5)) {
            let line = serde_json::Value::from(requests.clone()).to_string();
            prop_assert_eq!(calls(line.as_bytes()).unwrap().len(), requests.len());
        }

        #[test]
        fn a_cut_request_is_no_json(request in near_request(), cut in 1usize..100) {
            let line = request.to_string();
            let cut = line.len().saturating_sub(cut);
            prop_assert_eq!(calls(&line.as_bytes()[..cut]).unwrap_err(), RpcError::parse());
        }
    }

    #[test]
    fn a_request_without_id_is_a_call_without_reply() {
        let calls = calls(br#"{"method":"server.ping"}"#).unwrap();
        assert!(matches!(&calls[..], [Call { id: None, task: Task::Run(Request::Ping), .. }]));
    }

    #[test]
    fn a_version_counts_for_the_rest_of_its_batch() {
        let line = br#"[{"id":0,"method":"server.version","params":["c",["1.4","1.6"]]},
            {"id":1,"method":"mempool.get_info"}]"#;
        let calls = calls(&line[..]).unwrap();
        assert!(matches!(&calls[1].task, Task::Run(Request::MempoolInfo)));
    }
}
