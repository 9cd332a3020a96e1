//! The connections of one attack and the bytes that each of them sends.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use birdhouse_regtest::rng::Rng;
use bitcoin::hex::DisplayHex as _;
use serde_json::{Value, json};

use super::kind::{Attack, Outcome};
use super::target::Target;
use crate::clients::http_client::{get, rest_path};

/// Pause between two rounds over all connections: the attackers share the machine with the server.
const ROUND: Duration = Duration::from_millis(2);
/// Most connections made in a round: a few thousand a second.
const ROUND_CONNECTS: usize = 8;
/// Most bytes of one write.
const CHUNK_BYTES: usize = 64 << 10;
/// Subscriptions sent together.
const FLOOD_LINES: usize = 100;
/// Most requests that the server accepts in a batch.
const BATCH_ITEMS: usize = 2000;
/// Slightly less than the server accepts as one line.
const BATCH_BYTES: usize = 900_000;
/// Requests to the REST API sent together.
const REST_REQUESTS: usize = 100;

/// The connections of one attack.
pub(super) struct Attackers {
    attack: Attack,
    target: Target,
    address: Ipv4Addr,
    rng: Rng,
    outcome: Outcome,
    /// The message, for an attack that always sends the same one.
    message: Option<Rc<[u8]>>,
    connections: Vec<Option<Connection>>,
}

/// A connection with the rest of its current message.
struct Connection {
    stream: TcpStream,
    outgoing: Rc<[u8]>,
    sent: usize,
}

impl Attackers {
    pub(super) fn new(attack: Attack, target: Target, address: Ipv4Addr, scripthash: &str) -> Self {
        let history = request("blockchain.scripthash.get_history", &json!([scripthash]));
        Self {
            attack,
            target,
            address,
            rng: Rng::new(attack as u64),
            outcome: Outcome::default(),
            message: constant(attack, &history, scripthash).map(Rc::from),
            connections: (0..attack.connections()).map(|_| None).collect(),
        }
    }

    /// Runs the attack until `stop` is set.
    pub(super) fn attack(mut self, stop: &AtomicBool) -> Outcome {
        while !stop.load(Ordering::Relaxed) {
            self.round(stop);
            thread::sleep(ROUND);
        }
        self.outcome
    }

    fn round(&mut self, stop: &AtomicBool) {
        let mut connects_left = ROUND_CONNECTS;
        for index in 0..self.connections.len() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let connection = match self.connections[index].take() {
                Some(connection) => Some(connection),
                None if connects_left > 0 => {
                    connects_left -= 1;
                    self.connect()
                }
                None => None,
            };
            self.connections[index] = connection.and_then(|connection| self.advance(connection));
        }
    }

    fn connect(&mut self) -> Option<Connection> {
        let stream = self.target.connect(self.address).ok()?;
        stream.set_nonblocking(true).ok()?;
        self.outcome.connected += 1;
        Some(Connection { stream, outgoing: Rc::new([]), sent: 0 })
    }

    /// Sends and receives on a connection, and returns it unless it has ended.
    fn advance(&mut self, mut connection: Connection) -> Option<Connection> {
        if connection.sent == connection.outgoing.len() {
            connection.sent = 0;
            connection.outgoing = self.message();
        }
        let is_alive = self.send(&mut connection) && self.receive(&mut connection);
        self.outcome.closed += u64::from(!is_alive);
        (is_alive && self.attack != Attack::ComeAndGo).then_some(connection)
    }

    /// Number of requests in a message.
    fn requests(&self) -> u64 {
        let requests = match self.attack {
            Attack::SlowReaders | Attack::ComeAndGo => 1,
            Attack::SubscriptionFlood => FLOOD_LINES,
            Attack::GiantBatches => BATCH_ITEMS,
            Attack::RestFlood => REST_REQUESTS,
            Attack::SlowWriters
            | Attack::ImpossibleBatches
            | Attack::EndlessLines
            | Attack::TlsGarbage
            | Attack::ManyConnections => 0,
        };
        requests as u64
    }

    /// Returns the next message of a connection that has sent its last one.
    fn message(&mut self) -> Rc<[u8]> {
        if let Some(message) = &self.message {
            return Rc::clone(message);
        }
        match self.attack {
            Attack::SlowWriters if self.rng.per_mille(20) => Rc::from(*b" "),
            Attack::SubscriptionFlood => {
                let mut unused = || self.rng.bytes::<32>().to_lower_hex_string();
                let mut one = || request("blockchain.scripthash.subscribe", &json!([unused()])) + "\n";
                (0..FLOOD_LINES).map(|_| one()).collect::<String>().into_bytes().into()
            }
            Attack::TlsGarbage => {
                let mut bytes = [0; 300];
                self.rng.fill(&mut bytes);
                if self.rng.per_mille(500) {
                    // A handshake record of TLS 1.0 with a length of more bytes than follow.
                    bytes[..5].copy_from_slice(&[0x16, 3, 1, 0x3f, 0xff]);
                }
                Rc::from(bytes)
            }
            _ => Rc::new([]),
        }
    }

    /// Sends as much as the socket accepts; returns false when the server has closed the connection.
    fn send(&mut self, connection: &mut Connection) -> bool {
        while connection.sent < connection.outgoing.len() {
            let rest = &connection.outgoing[connection.sent..];
            match connection.stream.write(&rest[..rest.len().min(CHUNK_BYTES)]) {
                Ok(sent) => {
                    self.outcome.sent += sent as u64;
                    connection.sent += sent;
                    if connection.sent == connection.outgoing.len() {
                        self.outcome.requests += self.requests();
                    }
                }
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn receive(&mut self, connection: &mut Connection) -> bool {
        if matches!(self.attack, Attack::SlowReaders | Attack::ComeAndGo) {
            return true;
        }
        let mut bytes = [0; 16 << 10];
        match connection.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(received) => {
                self.outcome.received += received as u64;
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Returns the message of an attack that always sends the same one.
fn constant(attack: Attack, history: &str, scripthash: &str) -> Option<Vec<u8>> {
    let batch = |items: usize| format!("[{}]\n", vec![history; items].join(",")).into_bytes();
    match attack {
        Attack::SlowReaders | Attack::ComeAndGo => Some(format!("{history}\n").into_bytes()),
        Attack::GiantBatches => Some(batch(BATCH_ITEMS)),
        Attack::ImpossibleBatches => Some(batch(BATCH_BYTES / (history.len() + 1))),
        Attack::EndlessLines => Some(vec![b'{'; CHUNK_BYTES]),
        Attack::RestFlood => Some(rest_flood(scripthash)),
        Attack::SlowWriters | Attack::SubscriptionFlood | Attack::TlsGarbage | Attack::ManyConnections => None,
    }
}

/// Requests that are wrong, that name nothing, and that read as much as one may.
fn rest_flood(scripthash: &str) -> Vec<u8> {
    let (script, unknown) = (rest_path(scripthash), "00".repeat(32));
    let paths = [
        format!("{script}/txs/summary"),
        format!("{script}/utxo"),
        format!("{script}/txs"),
        format!("{script}/txs/chain/{unknown}"),
        format!("/tx/{unknown}"),
        format!("/tx/{unknown}/outspends"),
        format!("/block/{unknown}/txs/25"),
        "/address/%00/txs".to_owned(),
        "/tx/../../etc/passwd".to_owned(),
        "/blocks/999999999999999999999".to_owned(),
    ];
    paths.iter().cycle().take(REST_REQUESTS).flat_map(|path| get(path)).collect()
}

fn request(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params }).to_string()
}
