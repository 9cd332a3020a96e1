//! Clients that mean harm: each attack is one thread with many connections, which does one wrong thing as hard as it can.
//!
//! All connections of an attack come from one address, as the PROXY header of each says where the listener takes such
//! headers ([`Target::Proxied`]); so a server that counts by address has something to count. Nothing here waits for a
//! server: a socket that takes or gives nothing at the moment is left for the next round.

mod crowd;
mod exposed;
mod stage;
mod visitors;

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use self::crowd::Crowd;
pub use self::exposed::Exposed;
pub use self::stage::Stage;
pub use self::visitors::{Served, Visitors};
use crate::error::{Error, Result};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Attack {
    /// Asks for large answers and reads none of them.
    SlowReaders,
    /// Sends a byte of a request now and then, and never its end.
    SlowWriters,
    /// Subscribes to script hashes that nobody uses, without end.
    SubscriptionFlood,
    /// Batches of 2000 requests, as large as they may be, each for a large answer.
    GiantBatches,
    /// Lines of 900 kB, each a batch of more requests than are allowed.
    ImpossibleBatches,
    /// A line that never ends.
    EndlessLines,
    /// Bytes that are no TLS handshake, and handshakes that stop in the middle.
    TlsGarbage,
    /// Thousands of connections that say nothing.
    ManyConnections,
    /// Connects, asks one thing and is gone before the answer.
    ComeAndGo,
}

/// Where the server listens.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Clients connect themselves.
    Direct(u16),
    /// A reverse proxy says where they come from.
    Proxied(u16),
}

/// A running attack. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Outcome>>,
}

/// What an attack has done and suffered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Connections made.
    pub connected: u64,
    /// Connections that the server closed.
    pub closed: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

impl Attack {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::SlowReaders,
        Self::SlowWriters,
        Self::SubscriptionFlood,
        Self::GiantBatches,
        Self::ImpossibleBatches,
        Self::EndlessLines,
        Self::TlsGarbage,
        Self::ManyConnections,
        Self::ComeAndGo,
    ];

    fn connections(self) -> usize {
        match self {
            Self::SlowReaders | Self::TlsGarbage => 50,
            Self::SlowWriters => 300,
            Self::SubscriptionFlood | Self::EndlessLines => 8,
            Self::GiantBatches | Self::ImpossibleBatches => 4,
            Self::ManyConnections => 3000,
            Self::ComeAndGo => 20,
        }
    }

    /// Starts it, from `address`. `scripthash` is one with a long history.
    pub fn start(self, target: Target, address: Ipv4Addr, scripthash: &str) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (stop, scripthash) = (Arc::clone(&stop), scripthash.to_owned());
            thread::spawn(move || Crowd::new(self, target, address, &scripthash).attack(&stop))
        };
        Running { stop, thread: Some(thread) }
    }
}

impl Target {
    /// A connection that comes from this address, as far as the listener can be told so.
    pub fn connect(self, address: Ipv4Addr) -> Result<TcpStream> {
        match self {
            Self::Direct(port) => Ok(TcpStream::connect(("127.0.0.1", port))?),
            Self::Proxied(port) => {
                let mut stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.write_all(format!("PROXY TCP4 {address} 198.51.100.1 40000 50001\r\n").as_bytes())?;
                Ok(stream)
            }
        }
    }
}

impl Running {
    /// Ends the attack, and says what came of it.
    pub fn stop(mut self) -> Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("an attack is stopped once");
        thread.join().map_err(|_| Error::Protocol("an attack panicked".into()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
