//! A stand-in for another relay: NIP-01 and NIP-77 in a few lines, with the faults of a far machine. Its cable can be
//! pulled, and it can be killed: connections are reset, and what it had not acknowledged is lost. It notes what it
//! writes and gets.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use birdhouse_testkit::stream_history::Passes;
use bitcoin::hex::{DisplayHex as _, FromHex as _};
use futures_util::{SinkExt as _, StreamExt as _};
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

/// Live events that wait for one connection, after which it is closed.
const LIVE_MAX: usize = 10_000;
/// Stored events of one answer, as of strfry.
const STORED_MAX: usize = 500;
/// Bytes of a negentropy message before hexadecimal encoding.
const FRAME_BYTES: u64 = 60_000;

/// A stand-in.
pub(super) struct StandIn {
    pub(super) addr: SocketAddr,
    pub(super) passes: Passes,
    comparing: Comparing,
    clock: Instant,
    state: Mutex<State>,
    life: watch::Sender<Life>,
    next: AtomicU64,
}

/// Knowledge of NIP-77.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparing {
    Negentropy,
    /// As relays that do not know it.
    Unknown,
}

/// State of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    /// Number of its starts.
    starts: u64,
    is_running: bool,
    is_plugged: bool,
}

#[derive(Default)]
struct State {
    /// By time, then id.
    events: BTreeMap<(u64, String), Arc<str>>,
    ids: HashMap<String, u64>,
    /// Events that came and are not durable.
    unsynced: BTreeSet<String>,
    connections: HashMap<u64, Connection>,
    notes: Notes,
    pulled: Option<u64>,
}

/// The notes of a stand-in; times are microseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    /// Events of its own clients.
    pub(super) own: BTreeSet<String>,
    /// First times of events that it wrote.
    pub(super) offered: HashMap<String, u64>,
    pub(super) came: Vec<(String, u64)>,
    pub(super) cuts: Vec<(u64, u64)>,
    /// Connections that it has accepted.
    pub(super) connections: u64,
}

struct Connection {
    subscriptions: HashMap<String, Filter>,
    live: mpsc::Sender<(String, String, Arc<str>)>,
}

/// The part of NIP-01's filter that streams use.
#[derive(Debug, Clone, Default)]
struct Filter {
    ids: Option<Vec<String>>,
    kinds: Option<Vec<u64>>,
    since: Option<u64>,
    until: Option<u64>,
    limit: Option<usize>,
}

/// A conversation with one client.
struct Conversation<'a> {
    at: &'a StandIn,
    number: u64,
    socket: WebSocketStream<TcpStream>,
    comparisons: HashMap<String, Negentropy<'static, NegentropyStorageVector>>,
}

// === impl StandIn ===

impl StandIn {
    /// Starts one in the current runtime.
    pub(super) async fn start(passes: Passes, comparing: Comparing, clock: Instant) -> Arc<Self> {
        // Not the server's, whose ports are chosen later.
        let socket = TcpListener::bind((own_address(2), 0)).await.unwrap();
        let life = Life { starts: 1, is_running: true, is_plugged: true };
        let stand_in = Arc::new(Self {
            addr: socket.local_addr().unwrap(),
            passes,
            comparing,
            clock,
            state: Mutex::default(),
            life: watch::Sender::new(life),
            next: AtomicU64::new(0),
        });
        tokio::spawn(Arc::clone(&stand_in).listen(socket));
        stand_in
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_micros()).unwrap()
    }

    /// Takes an event of a client of its own. Returns false while it is down.
    pub(super) fn publish(&self, id: &str, created_at: u64, kind: u64, json: &Arc<str>) -> bool {
        if !self.life.borrow().is_running {
            return false;
        }
        let mut state = self.state.lock();
        state.notes.own.insert(id.to_owned());
        state.unsynced.remove(id);
        state.store(id, created_at, kind, json);
        true
    }

    pub(super) fn has(&self) -> BTreeSet<String> {
        self.state.lock().ids.keys().cloned().collect()
    }

    pub(super) fn notes(&self) -> Notes {
        self.state.lock().notes.clone()
    }

    /// Nothing passes from now on, and no connection ends.
    pub(super) fn pull_cable(&self) {
        let now = self.now();
        self.state.lock().pulled.get_or_insert(now);
        self.life.send_modify(|life| life.is_plugged = false);
    }

    pub(super) fn plug_cable(&self) {
        let now = self.now();
        let state = &mut *self.state.lock();
        if let Some(from) = state.pulled.take() {
            state.notes.cuts.push((from, now));
        }
        self.life.send_modify(|life| life.is_plugged = true);
    }

    /// Ends at once.
    pub(super) fn kill(&self) {
        self.life.send_modify(|life| life.is_running = false);
        let state = &mut *self.state.lock();
        state.connections.clear();
        for id in std::mem::take(&mut state.unsynced) {
            if let Some(created_at) = state.ids.remove(&id) {
                state.events.remove(&(created_at, id));
            }
        }
    }

    pub(super) fn start_again(&self) {
        self.state.lock().unsynced.clear();
        self.life.send_modify(|life| {
            life.starts += u64::from(!life.is_running);
            life.is_running = true;
        });
    }

    async fn listen(self: Arc<Self>, mut socket: TcpListener) {
        let mut life = self.life.subscribe();
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = until(&mut life, |life| !life.is_running) => {
                    drop(socket);
                    until(&mut life, |life| life.is_running).await;
                    socket = TcpListener::bind(self.addr).await.unwrap();
                    continue;
                }
            };
            let Ok((client, _)) = accepted else { continue };
            let stand_in = Arc::clone(&self);
            tokio::spawn(async move { stand_in.serve(client).await });
        }
    }

    async fn serve(self: Arc<Self>, client: TcpStream) {
        let mut life = self.life.subscribe();
        let starts = life.borrow().starts;
        // A reset, as of a machine that is gone.
        let _ = client.set_zero_linger();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let talk = async {
            self.plugged().await;
            let Ok(socket) = accept_async(client).await else { return };
            let (live, queue) = mpsc::channel(LIVE_MAX);
            let connection = Connection { subscriptions: HashMap::new(), live };
            {
                let mut state = self.state.lock();
                state.notes.connections += 1;
                state.connections.insert(number, connection);
            }
            Conversation { at: &self, number, socket, comparisons: HashMap::new() }.run(queue).await;
        };
        tokio::select! {
            () = talk => {}
            () = until(&mut life, |life| !life.is_running || life.starts != starts) => {}
        }
        self.state.lock().connections.remove(&number);
    }

    /// Waits until the cable is in.
    async fn plugged(&self) {
        until(&mut self.life.subscribe(), |life| life.is_plugged).await;
    }
}

/// Returns an address of this machine on which no other test listens: a port is free for a moment after each kill.
pub(super) fn own_address(host: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 1 + high % 250, low, host)
}

/// Waits for a state of the machine.
async fn until(life: &mut watch::Receiver<Life>, is_so: impl FnMut(&Life) -> bool) {
    life.wait_for(is_so).await.unwrap();
}

// === impl State ===

impl State {
    /// Stores an event, and sends it to whoever wants it. Returns false if it is there.
    fn store(&mut self, id: &str, created_at: u64, kind: u64, json: &Arc<str>) -> bool {
        if self.ids.insert(id.to_owned(), created_at).is_some() {
            return false;
        }
        self.events.insert((created_at, id.to_owned()), Arc::clone(json));
        let mut slow = Vec::new();
        for (number, connection) in &self.connections {
            for (name, filter) in &connection.subscriptions {
                let event = (name.clone(), id.to_owned(), Arc::clone(json));
                if filter.matches(id, created_at, kind) && connection.live.try_send(event).is_err() {
                    slow.push(*number);
                }
            }
        }
        for number in slow {
            self.connections.remove(&number);
        }
        true
    }

    /// Returns the acknowledged events of a filter, the newest first.
    fn matching(&self, filter: &Filter) -> Vec<(u64, String, Arc<str>)> {
        let row = |id: &String| {
            let created_at = *self.ids.get(id)?;
            Some((created_at, id.clone(), Arc::clone(&self.events[&(created_at, id.clone())])))
        };
        let limit = filter.limit.unwrap_or(usize::MAX);
        let is_meant = |(created_at, id, json): &(u64, String, Arc<str>)| {
            let kind = filter.kinds.as_ref().map_or(0, |_| kind_of(json));
            filter.matches(id, *created_at, kind) && !self.unsynced.contains(id)
        };
        if let Some(ids) = &filter.ids {
            return ids.iter().filter_map(row).filter(is_meant).take(limit).collect();
        }
        let from = Bound::Included((filter.since.unwrap_or(0), String::new()));
        let to = filter.until.map_or(Bound::Unbounded, |until| Bound::Excluded((until + 1, String::new())));
        let all = self.events.range((from, to)).rev();
        let rows = all.map(|((created_at, id), json)| (*created_at, id.clone(), Arc::clone(json)));
        rows.filter(is_meant).take(limit).collect()
    }
}

/// Returns the kind of an event, which stands nowhere else in those of these tests.
fn kind_of(json: &str) -> u64 {
    let kind = json.split("\"kind\":").nth(1).and_then(|rest| rest.split(',').next());
    kind.and_then(|kind| kind.parse().ok()).unwrap_or(0)
}

// === impl Filter ===

impl Filter {
    fn parse(value: &Value) -> Self {
        let number = |name: &str| value[name].as_u64();
        Self {
            ids: value["ids"].as_array().map(|ids| ids.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            kinds: value["kinds"].as_array().map(|kinds| kinds.iter().filter_map(Value::as_u64).collect()),
            since: number("since"),
            until: number("until"),
            limit: number("limit").map(|limit| usize::try_from(limit).unwrap()),
        }
    }

    fn matches(&self, id: &str, created_at: u64, kind: u64) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.iter().any(|one| one == id))
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
            && self.since.is_none_or(|since| created_at >= since)
            && self.until.is_none_or(|until| created_at <= until)
    }
}

// === impl Conversation ===

impl Conversation<'_> {
    async fn run(mut self, mut queue: mpsc::Receiver<(String, String, Arc<str>)>) {
        let mut life = self.at.life.subscribe();
        loop {
            self.at.plugged().await;
            let said = tokio::select! {
                said = self.socket.next() => said,
                live = queue.recv() => {
                    // The sender goes if this connection is too slow.
                    let Some((name, id, json)) = live else { return };
                    if self.event(&name, &id, &json).await.is_none() {
                        return;
                    }
                    continue;
                }
                () = until(&mut life, |life| !life.is_plugged) => continue,
            };
            let Some(Ok(message)) = said else { return };
            // What was read and not looked at waits as if it lay in the cable.
            self.at.plugged().await;
            let Message::Text(text) = message else { continue };
            if self.hear(&text).await.is_none() {
                return;
            }
        }
    }

    /// Writes a message; `None` if the connection has ended.
    async fn say(&mut self, message: String) -> Option<()> {
        self.at.plugged().await;
        self.socket.send(Message::text(message)).await.ok()
    }

    /// Writes an event.
    async fn event(&mut self, name: &str, id: &str, json: &str) -> Option<()> {
        self.at.plugged().await;
        let now = self.at.now();
        self.at.state.lock().notes.offered.entry(id.to_owned()).or_insert(now);
        self.say(format!("[\"EVENT\",\"{name}\",{json}]")).await
    }

    async fn hear(&mut self, text: &str) -> Option<()> {
        let message: Value = serde_json::from_str(text).unwrap();
        let name = message[1].as_str().unwrap_or_default();
        match message[0].as_str().unwrap_or_default() {
            "EVENT" => self.take(&message[1]).await,
            "REQ" => self.answer(name, Filter::parse(&message[2])).await,
            "CLOSE" => {
                if let Some(connection) = self.at.state.lock().connections.get_mut(&self.number) {
                    connection.subscriptions.remove(name);
                }
                Some(())
            }
            "NEG-OPEN" | "NEG-MSG" if self.at.comparing == Comparing::Unknown => {
                self.say(r#"["NOTICE","ERROR: bad msg: unknown cmd"]"#.into()).await
            }
            "NEG-OPEN" => {
                let filter = Filter::parse(&message[2]);
                self.compare(name, &filter);
                self.reconcile(name, &message[3]).await
            }
            "NEG-MSG" => self.reconcile(name, &message[2]).await,
            "NEG-CLOSE" => {
                self.comparisons.remove(name);
                Some(())
            }
            other => panic!("a stream says {other}"),
        }
    }

    async fn take(&mut self, event: &Value) -> Option<()> {
        let (id, created_at) = (event["id"].as_str().unwrap().to_owned(), event["created_at"].as_u64().unwrap());
        let (json, now): (Arc<str>, u64) = (event.to_string().into(), self.at.now());
        let is_new = {
            let state = &mut *self.at.state.lock();
            state.notes.came.push((id.clone(), now));
            let is_new = state.store(&id, created_at, event["kind"].as_u64().unwrap(), &json);
            if is_new {
                state.unsynced.insert(id.clone());
            }
            is_new
        };
        // It may be killed before the event is durable.
        yield_now().await;
        {
            let state = &mut *self.at.state.lock();
            state.unsynced.remove(&id);
            if !state.ids.contains_key(&id) {
                return None;
            }
        }
        self.say(json!(["OK", id, true, if is_new { "" } else { "duplicate: it is here" }]).to_string()).await
    }

    async fn answer(&mut self, name: &str, mut filter: Filter) -> Option<()> {
        filter.limit = Some(filter.limit.unwrap_or(STORED_MAX).min(STORED_MAX));
        let stored = {
            let state = &mut *self.at.state.lock();
            let stored = state.matching(&filter);
            let connection = state.connections.get_mut(&self.number)?;
            connection.subscriptions.insert(name.to_owned(), filter);
            stored
        };
        for (_, id, json) in stored {
            self.event(name, &id, &json).await?;
        }
        self.say(json!(["EOSE", name]).to_string()).await
    }

    fn compare(&mut self, name: &str, filter: &Filter) {
        let mut storage = NegentropyStorageVector::new();
        for (created_at, id, _) in self.at.state.lock().matching(filter) {
            storage.insert(created_at, Id::from_byte_array(<[u8; 32]>::from_hex(&id).unwrap())).unwrap();
        }
        storage.seal().unwrap();
        self.comparisons.insert(name.to_owned(), Negentropy::owned(storage, FRAME_BYTES).unwrap());
    }

    async fn reconcile(&mut self, name: &str, message: &Value) -> Option<()> {
        let Some(comparison) = self.comparisons.get_mut(name) else {
            return self.say(json!(["NEG-ERR", name, "closed: unknown"]).to_string()).await;
        };
        let query = Vec::<u8>::from_hex(message.as_str().unwrap()).unwrap();
        let answer = comparison.reconcile(&query).unwrap();
        self.say(json!(["NEG-MSG", name, answer.to_lower_hex_string()]).to_string()).await
    }
}
