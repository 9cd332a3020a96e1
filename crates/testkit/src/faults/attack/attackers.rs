//! The connections of one attack and the bytes that each of them sends.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use birdhouse_regtest::rng::Rng;
use bitcoin::hex::DisplayHex as _;
use serde_json::json;

use super::asked_of_electrum::{LEAVES_PER_MILLE, SCANS_PER_MILLE, hostile_scan, request, scan};
use super::asked_of_relay::{SEARCHES_PER_MILLE, author, search, upgrade};
use super::asked_of_web::{REST_REQUESTS, derivation, nesting, outspends, pages, rest_flood, strangers, streams};
use super::kind::{Attack, Outcome};
use super::prey::Prey;
use super::target::Target;
use crate::events::corpus::sign::People;

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
/// Output numbers from here on: no transaction has as many outputs.
const IMPOSSIBLE: u64 = 1 << 24;

/// The connections of one attack.
pub(super) struct Attackers {
    attack: Attack,
    target: Target,
    address: Ipv4Addr,
    rng: Rng,
    outcome: Outcome,
    /// The message, for an attack that always sends the same one.
    message: Option<Rc<[u8]>>,
    /// Bytes that a connection sends once, before all messages.
    greeting: Rc<[u8]>,
    prey: Prey,
    /// The author of the events that are sent to the relay.
    author: People,
    connections: Vec<Option<Connection>>,
}

/// A connection with the rest of its current message.
struct Connection {
    stream: TcpStream,
    outgoing: Rc<[u8]>,
    sent: usize,
}

impl Attackers {
    pub(super) fn new(attack: Attack, target: Target, address: Ipv4Addr, prey: &Prey) -> Self {
        let history = request("blockchain.scripthash.get_history", &json!([prey.scripthash]));
        let greeting = match attack {
            Attack::Streams => streams(),
            Attack::Searches => upgrade(),
            Attack::ImpossibleOutpoints => {
                (request("server.version", &json!(["birdhouse-testkit", "1.7"])) + "\n").into_bytes()
            }
            _ => Vec::new(),
        };
        Self {
            attack,
            target,
            address,
            rng: Rng::new(attack as u64),
            outcome: Outcome::default(),
            message: constant(attack, &history, prey).map(Rc::from),
            greeting: greeting.into(),
            prey: prey.clone(),
            author: author(),
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
        Some(Connection { stream, outgoing: Rc::clone(&self.greeting), sent: 0 })
    }

    /// Sends and receives on a connection, and returns it unless it has ended.
    fn advance(&mut self, mut connection: Connection) -> Option<Connection> {
        if connection.sent == connection.outgoing.len() {
            connection.sent = 0;
            connection.outgoing = self.message();
        }
        let is_alive = self.send(&mut connection) && self.receive(&mut connection);
        self.outcome.closed += u64::from(!is_alive);
        (is_alive && !self.leaves()).then_some(connection)
    }

    /// Returns true if a connection ends now.
    fn leaves(&mut self) -> bool {
        match self.attack {
            Attack::ComeAndGo => true,
            Attack::ScanKeys | Attack::HostileSpendKeys => self.rng.per_mille(LEAVES_PER_MILLE),
            _ => false,
        }
    }

    /// Number of requests in a message.
    fn requests(&self) -> u64 {
        let requests = match self.attack {
            Attack::SlowReaders
            | Attack::ComeAndGo
            | Attack::Derivation
            | Attack::Nesting
            | Attack::Outspends
            | Attack::ScanKeys
            | Attack::HostileSpendKeys
            | Attack::ReplicaStrangers
            | Attack::UnreadPages
            | Attack::Searches => 1,
            Attack::SubscriptionFlood | Attack::ImpossibleOutpoints => FLOOD_LINES,
            Attack::GiantBatches => BATCH_ITEMS,
            Attack::RestFlood => REST_REQUESTS,
            Attack::SlowWriters
            | Attack::ImpossibleBatches
            | Attack::EndlessLines
            | Attack::TlsGarbage
            | Attack::ManyConnections
            | Attack::Streams => 0,
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
            Attack::ImpossibleOutpoints => {
                let mut vout = || IMPOSSIBLE + self.rng.below(IMPOSSIBLE);
                let mut one =
                    || request("blockchain.outpoint.subscribe", &json!([self.prey.txid, vout(), "51"])) + "\n";
                (0..FLOOD_LINES).map(|_| one()).collect::<String>().into_bytes().into()
            }
            Attack::ScanKeys if self.rng.per_mille(SCANS_PER_MILLE) => scan(&mut self.rng).into(),
            Attack::HostileSpendKeys if self.rng.per_mille(SCANS_PER_MILLE) => {
                hostile_scan(&mut self.rng, &self.prey.tweak).into()
            }
            Attack::Searches if self.rng.per_mille(SEARCHES_PER_MILLE) => {
                search(&mut self.rng, &self.author, self.outcome.requests).into()
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
        if !self.attack.reads() {
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
fn constant(attack: Attack, history: &str, prey: &Prey) -> Option<Vec<u8>> {
    let batch = |items: usize| format!("[{}]\n", vec![history; items].join(",")).into_bytes();
    match attack {
        Attack::SlowReaders | Attack::ComeAndGo => Some(format!("{history}\n").into_bytes()),
        Attack::GiantBatches => Some(batch(BATCH_ITEMS)),
        Attack::ImpossibleBatches => Some(batch(BATCH_BYTES / (history.len() + 1))),
        Attack::EndlessLines => Some(vec![b'{'; CHUNK_BYTES]),
        Attack::RestFlood => Some(rest_flood(&prey.scripthash)),
        Attack::Derivation => Some(derivation()),
        Attack::Nesting => Some(nesting()),
        Attack::Outspends => Some(outspends(&prey.txid)),
        Attack::ReplicaStrangers => Some(strangers()),
        Attack::UnreadPages => Some(pages()),
        Attack::SlowWriters
        | Attack::SubscriptionFlood
        | Attack::TlsGarbage
        | Attack::ManyConnections
        | Attack::Streams
        | Attack::ImpossibleOutpoints
        | Attack::ScanKeys
        | Attack::HostileSpendKeys
        | Attack::Searches => None,
    }
}
