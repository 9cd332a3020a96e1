//! Addresses where clients connect: their transports, accepting, and the end of it.
//!
//! Everything before the first message (PROXY header, TLS, upgrade) has one deadline; until then a connection costs one
//! task and one socket.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_clients::Origin;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{Instrument as _, debug, debug_span, info, warn};

use crate::io::Io;
use crate::meter::Meter;
use crate::proxy::{self, Proxy};
use crate::registry::Registry;
use crate::seats::{Seat, Seats};
use crate::tls::Certificate;

/// Pause when the system has no socket to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time after which another connection is sent away, if the one before has not left. It doubles each time.
const DISPLACE_PAUSE: Duration = Duration::from_millis(100);
/// Processor time that an accepted socket is charged for: task, HTTP head, upgrade.
const SOCKET_WORK: Duration = Duration::from_micros(100);
/// Processor time that a TLS handshake is charged for, whether it succeeds or not: a signature and two key agreements.
const TLS_WORK: Duration = Duration::from_millis(1);

/// A listener as its operator wants it, with the bounds `L` of its protocol.
#[derive(Debug, Clone)]
pub struct Listener<L> {
    /// Its name in logs.
    pub name: String,
    /// The layers between TCP and the messages.
    pub transport: Transport,
    /// The reverse proxies before it.
    pub proxy: Proxy,
    /// Its bounds.
    pub limits: L,
}

/// Layers between TCP and the messages.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Lines.
    Tcp,
    /// Lines in TLS.
    Tls(Arc<Certificate>),
    /// WebSocket messages.
    Ws,
    /// WebSocket messages in TLS.
    Wss(Arc<Certificate>),
}

/// A connection that was accepted, and has said nothing yet.
#[derive(Debug)]
pub struct Accepted<L> {
    /// Its number.
    pub id: u64,
    /// The listener that accepted it.
    pub listener: Arc<Listener<L>>,
    /// Its socket.
    pub socket: TcpStream,
    /// The other end of it.
    pub from: SocketAddr,
    /// Held while the connection lasts.
    pub permit: OwnedSemaphorePermit,
    /// Its seat, held while it lasts: it ends when [`Seat::displaced`] completes. [`Seated`](crate::Seated) keeps it
    /// active.
    pub seat: Arc<Seat>,
    /// Changes, as its sender is dropped, when the server ends.
    pub stopped: watch::Receiver<()>,
}

/// Slots for connections. When all are taken, the idlest connection of the largest group of clients leaves for a new
/// one.
#[derive(Debug, Clone)]
pub struct ConnectionSlots {
    slots: Arc<Semaphore>,
    seats: Arc<Seats>,
}

/// A stream of any transport, so that the code of a connection exists once.
pub type Stream = Box<dyn Io>;

impl ConnectionSlots {
    /// Slots for this many connections at a time.
    pub fn new(connections: usize, seats: Arc<Seats>) -> Self {
        Self { slots: Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS))), seats }
    }
}

impl Transport {
    /// Its name in settings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls(_) => "tls",
            Self::Ws => "ws",
            Self::Wss(_) => "wss",
        }
    }

    /// The certificate of its TLS, if it has TLS.
    pub fn certificate(&self) -> Option<&Arc<Certificate>> {
        match self {
            Self::Tls(certificate) | Self::Wss(certificate) => Some(certificate),
            Self::Tcp | Self::Ws => None,
        }
    }

    /// Returns the processor time that a client is charged for before the first message.
    pub fn opening_work(&self) -> Duration {
        if self.certificate().is_some() { SOCKET_WORK + TLS_WORK } else { SOCKET_WORK }
    }

    /// Charges the client of a server of HTTP for the opening, before the handshake: that costs more than anything that
    /// a stranger can ask for with as few bytes.
    ///
    /// # Errors
    /// The client has used more than its share, and there is a handshake. Without one the first answer says it.
    pub fn charge_opening(&self, meter: &Meter) -> Result<()> {
        let charged = meter.charge(self.opening_work(), Instant::now());
        if charged.is_err() && self.certificate().is_some() {
            return Err(Error::other("the client has used more than its share"));
        }
        Ok(())
    }

    /// Does the handshake of TLS, where the transport has it.
    pub async fn open(&self, socket: impl Io + 'static) -> Result<Stream> {
        Ok(match self {
            Self::Tcp | Self::Ws => Box::new(socket),
            Self::Tls(certificate) | Self::Wss(certificate) => Box::new(certificate.accept(socket).await?),
        })
    }
}

/// Serves the clients of all listeners until `shutdown` completes; then waits `grace` for what is in flight. `slots`
/// gives those of a listener, and `converse` serves one client, in a task of its own.
pub async fn serve<L: Send + Sync + 'static, C: Future<Output = ()> + Send + 'static>(
    listeners: Vec<(TcpListener, Listener<L>)>,
    registry: &Arc<Registry>,
    slots: impl Fn(&L) -> ConnectionSlots,
    shutdown: impl Future<Output = ()>,
    grace: Duration,
    converse: impl Fn(Accepted<L>) -> C + Clone + Send + 'static,
) {
    let (stop, stopped) = watch::channel(());
    let mut running = JoinSet::new();
    for (socket, listener) in listeners {
        let (slots, registry) = (slots(&listener.limits), Arc::clone(registry));
        running.spawn(accept(socket, listener.into(), slots, registry, stopped.clone(), grace, converse.clone()));
    }
    shutdown.await;
    drop(stop);
    while running.join_next().await.is_some() {}
}

/// Accepts connections until the sender of `stopped` is dropped.
async fn accept<L: Send + Sync + 'static, C: Future<Output = ()> + Send + 'static>(
    socket: TcpListener,
    listener: Arc<Listener<L>>,
    ConnectionSlots { slots, seats }: ConnectionSlots,
    registry: Arc<Registry>,
    mut stopped: watch::Receiver<()>,
    grace: Duration,
    converse: impl Fn(Accepted<L>) -> C,
) {
    let mut connections = JoinSet::new();
    let mut accepted_count: u64 = 0;
    let for_connections = stopped.clone();
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => break,
            accepted = socket.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (socket, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(listener = listener.name, %error, "failed to accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let id = registry.next_id();
        let Some(seat) = seats.enter(id, from.ip(), &listener.proxy, Instant::now()) else {
            // Closed without a word: to answer would cost more than to ask.
            continue;
        };
        let mut pause = DISPLACE_PAUSE;
        let permit = loop {
            if let Ok(permit) = Arc::clone(&slots).try_acquire_owned() {
                break Some(permit);
            }
            // It is not idle, though it waits.
            seat.touch(Instant::now());
            seats.displace();
            tokio::select! {
                _ = stopped.changed() => break None,
                permit = Arc::clone(&slots).acquire_owned() => {
                    break Some(permit.expect("the semaphore is never closed"));
                }
                // That one waits for the node or the disk, and cannot leave before.
                () = sleep(pause) => pause *= 2,
            }
        };
        let Some(permit) = permit else { break };
        accepted_count += 1;
        let (listener, stopped) = (Arc::clone(&listener), for_connections.clone());
        let span = debug_span!("connection", listener = listener.name, id);
        connections.spawn(converse(Accepted { id, listener, socket, from, permit, seat, stopped }).instrument(span));
    }
    drop(socket);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let in_time = timeout(grace, all_ended).await.is_ok();
    info!(listener = listener.name, connections = accepted_count, in_time, "stopped listening");
}

impl<L> Accepted<L> {
    /// Returns true for a connection over loopback that no reverse proxy announces.
    pub fn is_local(&self) -> bool {
        let local = self.socket.local_addr().map(|local| local.ip().to_canonical());
        matches!(self.listener.proxy, Proxy::Off) && local.is_ok_and(|ip| ip.is_loopback())
    }

    /// Returns the origin of the connection: its socket's address, or what the PROXY header names, which is read.
    ///
    /// # Errors
    /// There is no PROXY header where one must be, or none may be sent.
    pub async fn origin(&mut self) -> Result<Origin> {
        // Answers are written whole; waiting for more would only delay them, by 40 ms. It fails on dead sockets only.
        let _ = self.socket.set_nodelay(true);
        proxy::origin(&self.listener.proxy, &mut self.socket, self.from).await
    }
}

/// Completes a handshake within this time and while the server runs, or not at all. It is on the heap, for it is soon
/// over, and its memory would stay with the task.
pub async fn handshake<T>(
    within: Duration,
    mut stopped: watch::Receiver<()>,
    handshake: impl Future<Output = Result<T>>,
) -> Option<T> {
    let shaken = tokio::select! {
        shaken = timeout(within, Box::pin(handshake)) => shaken.map_err(Error::from).flatten(),
        _ = stopped.changed() => return None,
    };
    shaken.inspect_err(|error| debug!(%error, "handshake failed")).ok()
}
