//! Clients of the server and of the stand-ins, while streams run between them: they publish events, and follow them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use birdhouse_testkit::rng::Rng;
use birdhouse_testkit::stream_history::Passes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::relay::connect;
use super::stand_in::StandIn;
use super::streams::{KIND, STAND_INS, UP, micros};

/// Events that the stand-ins replay in a second, and stand-ins that have each of them.
const OFFERED_PER_S: u32 = 500;
pub(super) const COPIES: u32 = 5;
/// Events that clients of the server publish in a second.
const PUBLISHED_PER_S: u32 = 5;
/// Time in which all copies of an event are published.
const SPREAD: Duration = Duration::from_millis(500);
const AUTHORS: u8 = 5;

/// An event as it is passed on.
#[derive(Debug, Clone)]
struct Note {
    id: String,
    created_at: u64,
    json: Arc<str>,
}

/// Signs a note of this moment; its content differs from those of others.
#[expect(clippy::disallowed_methods, reason = "streams are about events of this moment")]
fn sign(author: u8, content: &str) -> Note {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let tags = vec![Tag(vec!["client".to_owned(), "streams".to_owned()])];
    let draft = UnsignedEvent { created_at: Timestamp(now), kind: Kind(KIND), tags, content: content.to_owned() };
    let event = draft.sign(&Keys::from_secret([author; 32]).unwrap());
    Note { id: event.id.to_string(), created_at: now, json: event.to_json().into() }
}

/// The clients of the stand-ins.
pub(super) struct Replay {
    pub(super) stand_ins: Vec<Arc<StandIn>>,
    pub(super) clock: Instant,
    /// Time at which the first stand-in had each event that goes to the server.
    pub(super) first: Mutex<HashMap<String, u64>>,
    /// Events that were published, each copy counted.
    pub(super) offered: AtomicU32,
}

impl Replay {
    /// Publishes each event on several stand-ins, one of which passes it to the server.
    pub(super) fn run(&self, seed: u64, is_over: &AtomicBool) {
        let mut rng = Rng::new(seed ^ 0x7265_706c);
        let interval = Duration::from_secs(1) * COPIES / OFFERED_PER_S;
        let (mut due, mut waiting) = (Instant::now(), VecDeque::new());
        for count in 0_u64.. {
            let note = sign(1 + u8::try_from(count % u64::from(AUTHORS)).unwrap(), &format!("{seed} {count}"));
            let first = rng.index(STAND_INS - UP);
            let mut copies: BTreeMap<usize, Instant> = BTreeMap::from([(first, due)]);
            while copies.len() < COPIES as usize {
                let later = Duration::from_micros(rng.below(micros(SPREAD)));
                copies.entry(rng.index(STAND_INS)).or_insert(due + later);
            }
            waiting.extend(copies.into_iter().map(|(stand_in, at)| (at, stand_in, note.clone())));
            waiting.make_contiguous().sort_by_key(|(at, ..)| *at);
            due += interval;
            while waiting.front().is_some_and(|(at, ..)| *at <= Instant::now()) {
                let (_, stand_in, note) = waiting.pop_front().unwrap();
                self.publish(stand_in, &note);
            }
            sleep(due.saturating_duration_since(Instant::now()));
            if is_over.load(Ordering::Relaxed) {
                break;
            }
        }
        for (_, stand_in, note) in waiting {
            self.publish(stand_in, &note);
        }
    }

    /// Publishes an event on a stand-in, unless it is down: its clients go elsewhere then.
    fn publish(&self, stand_in: usize, note: &Note) {
        let stand_in = &self.stand_ins[stand_in];
        if !stand_in.publish(&note.id, note.created_at, KIND.into(), &note.json) {
            return;
        }
        self.offered.fetch_add(1, Ordering::Relaxed);
        if stand_in.passes != Passes::Up {
            self.first.lock().entry(note.id.clone()).or_insert(micros(self.clock.elapsed()));
        }
    }
}

/// A client that publishes on the server.
pub(super) struct Publisher {
    pub(super) addr: SocketAddr,
    pub(super) prefix: String,
    pub(super) accepted: Mutex<BTreeSet<String>>,
}

impl Publisher {
    /// Publishes until each event is accepted, whatever happens to the server.
    pub(super) fn run(&self, is_over: &AtomicBool) {
        let (mut socket, mut due) = (None, Instant::now());
        for count in 0_u64.. {
            let note = sign(AUTHORS + 1, &format!("{} here {count}", self.prefix));
            while !self.publish(&mut socket, &note) {
                socket = None;
                sleep(Duration::from_millis(100));
            }
            due += Duration::from_secs(1) / PUBLISHED_PER_S;
            sleep(due.saturating_duration_since(Instant::now()));
            if is_over.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn publish(&self, socket: &mut Option<Socket>, note: &Note) -> bool {
        let Some(socket) = socket.take().or_else(|| connect(self.addr)).map(|new| socket.insert(new)) else {
            return false;
        };
        if socket.send(Message::text(format!("[\"EVENT\",{}]", note.json))).is_err() {
            return false;
        }
        loop {
            match socket.read() {
                Ok(Message::Text(text)) => {
                    let answer: Value = serde_json::from_str(&text).unwrap();
                    if answer[0] == "OK" {
                        assert_eq!(answer[2], true, "{answer}");
                        self.accepted.lock().insert(note.id.clone());
                        return true;
                    }
                }
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

type Socket = tokio_tungstenite::tungstenite::WebSocket<std::net::TcpStream>;

/// A client that follows the events of the server.
pub(super) struct Listener {
    pub(super) addr: SocketAddr,
    pub(super) clock: Instant,
    /// Time at which each event came.
    pub(super) seen: Mutex<HashMap<String, u64>>,
}

impl Listener {
    pub(super) fn run(&self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            if let Some(socket) = connect(self.addr) {
                self.follow(socket, is_over);
            }
            sleep(Duration::from_millis(50));
        }
    }

    fn follow(&self, mut socket: Socket, is_over: &AtomicBool) {
        let _ = socket.get_ref().set_read_timeout(Some(Duration::from_millis(200)));
        let _ = socket.send(Message::text(json!(["REQ", "live", { "kinds": [KIND], "limit": 0 }]).to_string()));
        while !is_over.load(Ordering::Relaxed) {
            match socket.read() {
                Ok(Message::Text(text)) => {
                    if let Some(id) = text.split("\"id\":\"").nth(1) {
                        self.seen.lock().entry(id[..64].to_owned()).or_insert(micros(self.clock.elapsed()));
                    }
                }
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// Returns the times from the first stand-in to a client of the server, ascending, microseconds.
pub(super) fn lags(first: &HashMap<String, u64>, seen: &HashMap<String, u64>, from: u64, to: u64) -> Vec<u64> {
    let meant = first.iter().filter(|(_, at)| (from..to).contains(*at));
    let mut lags: Vec<u64> = meant.filter_map(|(id, at)| Some(seen.get(id)?.saturating_sub(*at))).collect();
    lags.sort_unstable();
    lags
}
