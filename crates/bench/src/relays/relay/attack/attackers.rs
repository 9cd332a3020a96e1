//! The connections of an attack, in one thread: each repeats its frames as fast as the relay takes them. A connection
//! that ends is made again. Nothing here waits for the relay.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use birdhouse_testkit::attack::Outcome;

use super::kind::{ADDRESS, RelayAttack};

/// Pause between two rounds over all connections: the attackers share the machine with the relay.
const ROUND: Duration = Duration::from_millis(2);
/// Most connections made in a round: a few thousand a second.
const ROUND_CONNECTS: usize = 8;
/// Most bytes of one write.
const CHUNK_BYTES: usize = 64 << 10;

/// The connections of an attack.
pub(super) struct Attackers {
    attack: RelayAttack,
    port: u16,
    frames: Vec<Rc<[u8]>>,
    connections: Vec<Option<Connection>>,
    outcome: Outcome,
}

struct Connection {
    stream: TcpStream,
    /// The bytes under way, and how many of them are sent.
    outgoing: Rc<[u8]>,
    sent: usize,
    /// Number of the next frame.
    next: usize,
}

// === impl Attackers ===

impl Attackers {
    pub(super) fn new(attack: RelayAttack, port: u16) -> Result<Self> {
        let connections = (0..attack.connections()).map(|_| None).collect();
        Ok(Self { attack, port, frames: attack.frames()?, connections, outcome: Outcome::default() })
    }

    /// Attacks until `stop` is set.
    pub(super) fn attack(mut self, stop: &AtomicBool) -> Outcome {
        let mut buffer = vec![0; CHUNK_BYTES];
        while !stop.load(Ordering::Relaxed) {
            let mut connects = ROUND_CONNECTS;
            for index in 0..self.connections.len() {
                match self.connections[index].take() {
                    Some(mut connection) => {
                        if connection.turn(self.attack, &self.frames, &mut self.outcome, &mut buffer) {
                            self.connections[index] = Some(connection);
                        } else {
                            self.outcome.closed += 1;
                        }
                    }
                    None if connects > 0 => {
                        connects -= 1;
                        self.connections[index] = Connection::open(self.attack, self.port).ok();
                        self.outcome.connected += u64::from(self.connections[index].is_some());
                    }
                    None => {}
                }
            }
            thread::sleep(ROUND);
        }
        self.outcome
    }
}

// === impl Connection ===

impl Connection {
    fn open(attack: RelayAttack, port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, outgoing: request(attack).into_bytes().into(), sent: 0, next: 0 })
    }

    /// Sends and reads what goes at once; false if the relay has closed the connection.
    fn turn(&mut self, attack: RelayAttack, frames: &[Rc<[u8]>], outcome: &mut Outcome, buffer: &mut [u8]) -> bool {
        let end = self.outgoing.len().min(self.sent + CHUNK_BYTES);
        match self.stream.write(&self.outgoing[self.sent..end]) {
            Ok(bytes) => {
                self.sent += bytes;
                outcome.sent += bytes as u64;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
        if self.sent == self.outgoing.len() && !frames.is_empty() {
            (self.outgoing, self.sent) = (Rc::clone(&frames[self.next % frames.len()]), 0);
            self.next += 1;
            outcome.requests += 1;
        }
        // Those that do not read still see the end of the connection, by their writes.
        if !attack.reads() {
            return true;
        }
        match self.stream.read(buffer) {
            Ok(0) => false,
            Ok(bytes) => {
                outcome.received += bytes as u64;
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Returns the head of the request; half of one for a socket that only takes a place, none for one that asks by HTTP.
fn request(attack: RelayAttack) -> String {
    if attack == RelayAttack::Replays {
        return String::new();
    }
    let extensions = if attack.compresses() { "Sec-WebSocket-Extensions: permessage-deflate\r\n" } else { "" };
    let head = format!(
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: {ADDRESS}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{extensions}"
    );
    if attack.upgrades() { head + "\r\n" } else { head }
}
