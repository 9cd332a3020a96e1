//! A relay over a store on disk, and a client of raw WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use birdhouse_events::{Events, EventsOptions, Keys, Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_net::{Proxy, Transport};
use birdhouse_relay::{Listener, Relay, Settings};
use birdhouse_store::{SegmentOptions, SegmentStore};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Far longer than any answer takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A relay that ends with the test.
pub(crate) struct App {
    pub(crate) addr: SocketAddr,
    pub(crate) events: Arc<Events>,
    pub(crate) relay: Arc<Relay>,
    shutdown: Arc<Notify>,
    _folder: TempDir,
}

impl App {
    pub(crate) async fn start(settings: Settings) -> Self {
        Self::start_with(settings, EventsOptions::default()).await
    }

    pub(crate) async fn start_with(settings: Settings, options: EventsOptions) -> Self {
        Self::listening(settings, options, Transport::Ws, Proxy::Off).await
    }

    pub(crate) async fn listening(
        settings: Settings,
        options: EventsOptions,
        transport: Transport,
        proxy: Proxy,
    ) -> Self {
        Self::serving(opened(options), settings, transport, proxy).await
    }

    /// Starts a relay that has events.
    pub(crate) async fn start_filled(settings: Settings, stored: &[VerifiedEvent]) -> Self {
        let opened = opened(EventsOptions::default());
        opened.1.accept(&stored.iter().collect::<Vec<_>>()).unwrap();
        Self::serving(opened, settings, Transport::Ws, Proxy::Off).await
    }

    async fn serving(
        (folder, events): (TempDir, Arc<Events>),
        settings: Settings,
        transport: Transport,
        proxy: Proxy,
    ) -> Self {
        // Never closed: the thread that writes may end while the process does.
        std::mem::forget(Arc::clone(&events));
        Self::of(Relay::new(Arc::clone(&events), settings), events, folder, transport, proxy).await
    }

    /// Serves a relay of these events.
    pub(crate) async fn of(
        relay: Arc<Relay>,
        events: Arc<Events>,
        folder: TempDir,
        transport: Transport,
        proxy: Proxy,
    ) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = socket.local_addr().unwrap();
        let listener = Listener { name: "relay".into(), transport, proxy, limits: () };
        let shutdown = Arc::<Notify>::default();
        let stopped = Arc::clone(&shutdown);
        let stopped = async move { stopped.notified().await };
        tokio::spawn(Arc::clone(&relay).serve(vec![(socket, listener)], PATIENCE, stopped));
        Self { addr, events, relay, shutdown, _folder: folder }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.addr)
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_at("").await.unwrap()
    }

    /// A client of which a reverse proxy on loopback says that it is at this address; else the status that it gets.
    pub(crate) async fn client_at(&self, address: &str) -> Result<Client, u16> {
        let socket = TcpStream::connect(self.addr).await.unwrap();
        let mut request = self.url().into_client_request().unwrap();
        if !address.is_empty() {
            let address = HeaderValue::from_bytes(address.as_bytes()).unwrap();
            request.headers_mut().insert("x-forwarded-for", address);
        }
        let socket = match tokio_tungstenite::client_async(request, socket).await {
            Ok((socket, _)) => socket,
            Err(Error::Http(answer)) => return Err(answer.status().as_u16()),
            Err(error) => panic!("{error}"),
        };
        let mut client = Client { socket, challenge: String::new() };
        let greeting = client.hear().await;
        assert_eq!(greeting[0], "AUTH");
        greeting[1].as_str().unwrap().clone_into(&mut client.challenge);
        Ok(client)
    }

    /// Returns the relay's answer to a request of HTTP.
    pub(crate) async fn get(&self, accept: &str) -> String {
        self.ask("GET /", accept).await
    }

    /// Returns the relay's answer to a method and path.
    pub(crate) async fn ask(&self, what: &str, accept: &str) -> String {
        let mut socket = TcpStream::connect(self.addr).await.unwrap();
        let request = format!("{what} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Returns the information document (NIP-11).
    pub(crate) async fn information(&self) -> Value {
        let answer = self.get("application/nostr+json").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("access-control-allow-origin: *"), "{head}");
        serde_json::from_str(body).unwrap()
    }

    /// Polls until the condition holds, with a deadline.
    pub(crate) async fn until(&self, what: &str, is_met: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        while !is_met() {
            assert!(start.elapsed() < PATIENCE, "never happened: {what}: {:?}", self.relay.overview());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn end(&self) {
        self.shutdown.notify_one();
    }
}

/// Opens events in a new folder.
pub(crate) fn opened(options: EventsOptions) -> (TempDir, Arc<Events>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SegmentStore::open(folder.path(), birdhouse_events::TABLES, SegmentOptions::default()).unwrap();
    let events = Events::open(Arc::new(store), [1; 16], options).unwrap();
    (folder, Arc::new(events))
}

/// A client that sends exactly the given messages.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<TcpStream>,
    /// The challenge that it must sign (NIP-42).
    pub(crate) challenge: String,
}

impl Client {
    pub(crate) async fn say(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    /// The next message.
    pub(crate) async fn hear(&mut self) -> Value {
        loop {
            let message =
                timeout(PATIENCE, self.socket.next()).await.expect("an answer").expect("a connection").unwrap();
            if let Message::Text(text) = message {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// The end of a subscription's stored events, whatever is said of what was left out.
    pub(crate) async fn hear_end(&mut self, id: &str) {
        let message = self.hear().await;
        assert_eq!((&message[0], &message[1]), (&json!("EOSE"), &json!(id)), "{message}");
    }

    /// Publishes an event and gives what is said to it.
    pub(crate) async fn publish(&mut self, event: &VerifiedEvent) -> (bool, String) {
        self.offer("EVENT", event).await
    }

    /// Proves to be an author.
    pub(crate) async fn authenticate(&mut self, author: u8, relay: &str) {
        let proof = proof(author, now(), relay, &self.challenge);
        assert_eq!(self.offer("AUTH", &proof).await, (true, String::new()));
    }

    /// Sends an event and returns the answer to it.
    pub(crate) async fn offer(&mut self, verb: &str, event: &VerifiedEvent) -> (bool, String) {
        self.say(json!([verb, wire(event)])).await;
        let answer = self.hear().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("OK"), &json!(event.id.to_string())), "{answer}");
        (answer[2].as_bool().unwrap(), answer[3].as_str().unwrap().to_owned())
    }

    pub(crate) async fn store(&mut self, event: &VerifiedEvent) {
        assert_eq!(self.publish(event).await, (true, String::new()), "{event:?}");
    }

    /// Returns the number of stored events of a filter.
    pub(crate) async fn count(&mut self, filter: Value) -> u64 {
        self.say(json!(["COUNT", "count", filter])).await;
        let answer = self.hear().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("COUNT"), &json!("count")), "{answer}");
        answer[2]["count"].as_u64().unwrap()
    }

    /// The ids of the stored events of filters, in the order in which they come.
    pub(crate) async fn stored(&mut self, filters: &[Value]) -> Vec<String> {
        let mut message = vec![json!("REQ"), json!("stored")];
        message.extend_from_slice(filters);
        self.say(Value::from(message)).await;
        let mut ids = Vec::new();
        loop {
            let answer = self.hear().await;
            match answer[0].as_str().unwrap() {
                "EVENT" => ids.push(answer[2]["id"].as_str().unwrap().to_owned()),
                "EOSE" => break,
                _ => panic!("{answer}"),
            }
        }
        self.say(json!(["CLOSE", "stored"])).await;
        ids
    }
}

pub(crate) fn wire(event: &VerifiedEvent) -> Value {
    serde_json::from_str(&event.to_json()).unwrap()
}

pub(crate) fn keys(number: u8) -> Keys {
    Keys::from_secret([number; 32]).unwrap()
}

/// An event of an author, some seconds after some beginning.
pub(crate) fn event(author: u8, kind: u16, second: u64, tags: &[&[&str]]) -> VerifiedEvent {
    let tags = tags.iter().map(|tag| Tag(tag.iter().map(|element| (*element).to_owned()).collect())).collect();
    let created_at = Timestamp(1_700_000_000 + second);
    UnsignedEvent { created_at, kind: Kind(kind), tags, content: format!("{second}") }.sign(&keys(author))
}

/// Returns the event that proves a client's identity to a relay.
pub(crate) fn proof(author: u8, created_at: u64, relay: &str, challenge: &str) -> VerifiedEvent {
    let tags = [["relay", relay], ["challenge", challenge]].map(|tag| Tag(tag.map(str::to_owned).to_vec()));
    let (created_at, content) = (Timestamp(created_at), String::new());
    UnsignedEvent { created_at, kind: Kind::CLIENT_AUTH, tags: tags.to_vec(), content }.sign(&keys(author))
}

#[expect(clippy::disallowed_methods, reason = "what is too early or too late is decided by the relay's clock")]
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub(crate) fn ids<'a>(events: impl IntoIterator<Item = &'a VerifiedEvent>) -> Vec<String> {
    events.into_iter().map(|event| event.id.to_string()).collect()
}
