//! A relay in memory that is served on loopback, and a front that changes what a client of it hears.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use birdhouse_dial::{Guard, Refused};
use birdhouse_events::{
    Events, EventsOptions, Filter, Keys, Kind, Query, Tag, Timestamp, UnsignedEvent, VerifiedEvent,
};
use birdhouse_mirror::{Job, Missing, Peer, Purpose, SharedTally, Tally, WallClock, relay_url, sync};
use birdhouse_net::{Proxy, Transport};
use birdhouse_relay::{Exchange, Listener, Relay, Settings};
use birdhouse_store::MemoryStore;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{accept_async, client_async};

/// A relay that is served.
pub(crate) struct App {
    pub(crate) relay: Arc<Relay>,
    pub(crate) events: Arc<Events>,
    pub(crate) addr: SocketAddr,
}

/// The end of a synchronization.
pub(crate) struct Outcome {
    pub(crate) ended: Result<(), String>,
    pub(crate) tally: Tally,
    pub(crate) missing: Vec<Missing>,
}

impl App {
    pub(crate) async fn start(settings: Settings, stored: &[&VerifiedEvent]) -> Self {
        let events = Events::open(Arc::new(MemoryStore::new()), [1; 16], EventsOptions::default()).unwrap();
        let events = Arc::new(events);
        events.accept(stored).unwrap();
        let relay = Relay::new(Arc::clone(&events), settings);
        // Never closed: its threads may end while the process does.
        std::mem::forget(Arc::clone(&relay));
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = socket.local_addr().unwrap();
        let listener = Listener { name: "relay".into(), transport: Transport::Ws, proxy: Proxy::Off, limits: () };
        let serving = Arc::clone(&relay).serve(vec![(socket, listener)], Duration::ZERO, std::future::pending());
        tokio::spawn(serving);
        Self { relay, events, addr }
    }

    /// Ids of all events that can be found.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        let (filter, mut ids) = (Filter::default(), BTreeSet::new());
        let mut visit = |_, packed: birdhouse_events::Packed<'_>| {
            ids.insert(packed.id().to_string());
            ControlFlow::Continue(())
        };
        self.events.page(Query::of(&filter), None, usize::MAX, &mut visit).unwrap();
        ids
    }

    /// Synchronizes this relay with the one at an address.
    pub(crate) async fn sync(&self, with: SocketAddr, purpose: Purpose, filter: &str) -> Outcome {
        self.sync_as(with, purpose, filter, None).await
    }

    /// The same as a client with keys.
    pub(crate) async fn sync_as(
        &self,
        with: SocketAddr,
        purpose: Purpose,
        filter: &str,
        keys: Option<Arc<Keys>>,
    ) -> Outcome {
        self.sync_by(with, purpose, filter, keys, WallClock::system()).await
    }

    /// The same by a clock.
    pub(crate) async fn sync_by(
        &self,
        with: SocketAddr,
        purpose: Purpose,
        filter: &str,
        keys: Option<Arc<Keys>>,
        clock: WallClock,
    ) -> Outcome {
        let job = Job::new(&self.relay.filter_limits(), purpose, filter).unwrap();
        let (guard, target) = (Guard::new(Refused::default()), relay_url(&format!("ws://{with}")).unwrap());
        let (tally, mut missing) = (SharedTally::default(), Vec::new());
        let (found, mut listed) = mpsc::channel(10);
        let working = async {
            let mut peer = Peer::connect(&guard, target, keys, clock).await?;
            let exchange = Arc::new(Exchange::enter(&self.relay, "sync", peer.address.ip())?);
            sync(&exchange, &mut peer, &job, &tally, Some(found)).await
        };
        tokio::pin!(working);
        let ended = loop {
            tokio::select! {
                biased;
                Some(one) = listed.recv() => missing.push(one),
                ended = &mut working => break ended,
            }
        };
        while let Ok(one) = listed.try_recv() {
            missing.push(one);
        }
        Outcome { ended, tally: tally.now(), missing }
    }
}

/// An event of an author, some seconds after some beginning.
pub(crate) fn event(author: u8, kind: u16, second: u64, tags: &[&[&str]]) -> VerifiedEvent {
    let tags = tags.iter().map(|tag| Tag(tag.iter().map(|element| (*element).to_owned()).collect())).collect();
    let created_at = Timestamp(1_700_000_000 + second);
    let keys = Keys::from_secret([author; 32]).unwrap();
    UnsignedEvent { created_at, kind: Kind(kind), tags, content: format!("{second}") }.sign(&keys)
}

/// Events of several authors, some of them in one second, over some months.
pub(crate) fn many(count: u64) -> Vec<VerifiedEvent> {
    (0..count).map(|n| event(1 + u8::try_from(n % 5).unwrap(), 1, n / 3 * 1000, &[&["n", &n.to_string()]])).collect()
}

/// Every event of which the number passes.
pub(crate) fn those(all: &[VerifiedEvent], passes: impl Fn(usize) -> bool) -> Vec<&VerifiedEvent> {
    all.iter().enumerate().filter(|(n, _)| passes(*n)).map(|(_, event)| event).collect()
}

pub(crate) fn ids_of<'a>(events: impl IntoIterator<Item = &'a VerifiedEvent>) -> BTreeSet<String> {
    events.into_iter().map(|event| event.id.to_string()).collect()
}

/// Compares two sets; a difference is short.
pub(crate) fn assert_same(found: &BTreeSet<String>, expected: &BTreeSet<String>) {
    let (lacks, extra) = (expected.difference(found).count(), found.difference(expected).count());
    assert_eq!((lacks, extra), (0, 0), "missing, and not expected, of {}", expected.len());
}

/// A decision on a message on its way.
pub(crate) enum Pass {
    On,
    /// The client hears this instead.
    Answered(String),
    /// The connection ends.
    Cut,
}

/// Starts a front of a relay, which decides on every message of the client and of the relay. Returns its address, and
/// the number of messages that passed.
pub(crate) async fn front(
    relay: SocketAddr,
    decide: impl Fn(&str, usize) -> Pass + Clone + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = socket.local_addr().unwrap();
    let passed = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&passed);
    tokio::spawn(async move {
        while let Ok((socket, _)) = socket.accept().await {
            let (decide, count) = (decide.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                let mut client = accept_async(socket).await.unwrap();
                let to = TcpStream::connect(relay).await.unwrap();
                let (mut server, _) = client_async(format!("ws://{relay}"), to).await.unwrap();
                loop {
                    let (said, from_client) = tokio::select! {
                        said = client.next() => (said, true),
                        said = server.next() => (said, false),
                    };
                    let text = match said {
                        Some(Ok(Message::Text(text))) => text,
                        // A stream sends a ping every half minute.
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                        _ => return,
                    };
                    match decide(&text, count.fetch_add(1, Ordering::Relaxed)) {
                        Pass::On if from_client => server.send(Message::Text(text)).await.unwrap(),
                        Pass::On => {
                            if client.send(Message::Text(text)).await.is_err() {
                                return;
                            }
                        }
                        Pass::Answered(answer) => client.send(Message::text(answer)).await.unwrap(),
                        Pass::Cut => return,
                    }
                }
            });
        }
    });
    (addr, passed)
}
