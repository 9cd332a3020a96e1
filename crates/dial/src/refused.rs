//! Addresses that no connection of ours may reach: a message there would be a command.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::resolver::Resolver;
use crate::target::{Host, Target, split_port};

/// Wait for the addresses of a name that is refused; beyond it those count that it had last.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Wait for the node's addresses. A connection goes on without them: a node that hangs is no reason to lose a message.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns addresses that only the node knows, such as those at which it listens for peers; `None` if it does not
/// answer. May wait for it.
pub type AskNode = dyn Fn() -> Option<Vec<RefusedAddress>> + Send + Sync;

/// Addresses that no connection may reach. Names are looked up at the moment of use: one that was unknown when the
/// server started is refused as soon as it is known. Clones share what was found.
#[derive(Clone, Default)]
pub struct Refused {
    addresses: Vec<RefusedAddress>,
    node: Option<Arc<AskNode>>,
    found: Arc<Mutex<Found>>,
}

/// Knowledge of earlier look-ups.
#[derive(Default)]
struct Found {
    of_names: HashMap<String, Vec<IpAddr>>,
    /// The node's answer, once there is one.
    of_node: Option<Vec<RefusedAddress>>,
    /// Closed once the question to the node has ended that was asked last.
    asking: Option<watch::Receiver<()>>,
}

/// An address that no connection may reach. One of this machine stands for all addresses of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedAddress {
    /// Its owner, as in "the port of the node's RPC".
    name: String,
    /// With `0.0.0.0` or `[::]`, every address of this machine.
    host: Host,
    port: u16,
}

/// The sockets of refused addresses at one moment.
pub(super) struct RefusedNow<'a> {
    all: &'a Refused,
    sockets: Vec<RefusedSocket>,
}

struct RefusedSocket {
    name: String,
    socket: SocketAddr,
}

impl RefusedAddress {
    /// Returns the address of a socket.
    pub fn of_socket(name: &str, socket: SocketAddr) -> Self {
        Self { name: name.to_owned(), host: Host::Address(socket.ip()), port: socket.port() }
    }

    /// Parses `host:port`, with or without a scheme; `None` if it is none.
    pub fn parse(name: &str, text: &str) -> Option<Self> {
        let text = text.rsplit_once("://").map_or(text, |(_, address)| address).trim_end_matches('/');
        let (host, port) = split_port(text)?;
        Some(Self { name: name.to_owned(), host: Host::parse(host)?, port: port? })
    }

    /// Returns another port of the same host.
    #[must_use]
    pub fn with_port(&self, name: &str, port: u16) -> Self {
        Self { name: name.to_owned(), host: self.host.clone(), port }
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Refused {
    /// Refuses these addresses.
    pub fn new(addresses: Vec<RefusedAddress>) -> Self {
        Self { addresses, ..Self::default() }
    }

    /// Refuses what the node names as well, from its first answer on.
    #[must_use]
    pub fn with_node(mut self, node: Arc<AskNode>) -> Self {
        self.node = Some(node);
        self
    }

    /// Returns the addresses without those that only the node knows.
    pub fn addresses(&self) -> &[RefusedAddress] {
        &self.addresses
    }

    /// Looks up all names.
    pub(super) async fn now(&self, resolver: &dyn Resolver) -> RefusedNow<'_> {
        let mut sockets = Vec::new();
        for RefusedAddress { name, host, port } in self.addresses.iter().chain(&self.of_node().await) {
            let addresses = match host {
                Host::Address(address) => vec![*address],
                Host::Name(host) => self.resolved(resolver, host).await,
            };
            let socket = |ip| RefusedSocket { name: name.clone(), socket: SocketAddr::new(ip, *port) };
            sockets.extend(addresses.into_iter().map(socket));
        }
        RefusedNow { all: self, sockets }
    }

    /// Returns the node's answer. Asks it until there is one, once at a time.
    async fn of_node(&self) -> Vec<RefusedAddress> {
        let Some(node) = &self.node else { return Vec::new() };
        let mut asking = {
            let mut found = self.found.lock();
            if let Some(known) = &found.of_node {
                return known.clone();
            }
            let under_way = found.asking.clone().filter(|asking| asking.has_changed().is_ok());
            found.asking.insert(under_way.unwrap_or_else(|| self.ask(Arc::clone(node)))).clone()
        };
        // It ends by an error: nothing is ever sent.
        let _ = tokio::time::timeout(NODE_TIMEOUT, asking.changed()).await;
        self.found.lock().of_node.clone().unwrap_or_default()
    }

    /// Asks the node. An answer counts, however late it comes.
    fn ask(&self, node: Arc<AskNode>) -> watch::Receiver<()> {
        let (ended, asking) = watch::channel(());
        let found = Arc::clone(&self.found);
        tokio::task::spawn_blocking(move || {
            if let Some(answer) = node() {
                found.lock().of_node = Some(answer);
            }
            drop(ended);
        });
        asking
    }

    /// Returns the addresses of a name: those of now, else those that it had last.
    async fn resolved(&self, resolver: &dyn Resolver, name: &str) -> Vec<IpAddr> {
        let looked_up = tokio::time::timeout(RESOLVE_TIMEOUT, resolver.resolve(name)).await;
        let mut found = self.found.lock();
        match looked_up {
            Ok(Ok(addresses)) if !addresses.is_empty() => {
                found.of_names.insert(name.to_owned(), addresses.clone());
                addresses
            }
            _ => found.of_names.get(name).cloned().unwrap_or_default(),
        }
    }
}

impl std::fmt::Debug for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Refused").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl RefusedNow<'_> {
    /// Checks a target by its name.
    ///
    /// # Errors
    /// The name of the address that is refused.
    pub(super) fn check_name(&self, target: &Target) -> Result<(), String> {
        let is_same = |refused: &&RefusedAddress| refused.port == target.port && refused.host == target.host;
        self.all.addresses.iter().find(is_same).map_or(Ok(()), |refused| Err(refused.name.clone()))
    }

    /// Checks an address.
    ///
    /// # Errors
    /// The name of the address that is refused.
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), String> {
        let ip = address.ip().to_canonical();
        let of_port = || self.sockets.iter().filter(|refused| refused.socket.port() == address.port());
        let is_same = |refused: &&RefusedSocket| refused.socket.ip().to_canonical() == ip;
        let is_here = |refused: &&RefusedSocket| is_local(refused.socket.ip().to_canonical());
        let found = of_port().find(is_same).or_else(|| of_port().find(is_here).filter(|_| is_local(ip)));
        match found {
            Some(refused) => Err(refused.name.clone()),
            None => Ok(()),
        }
    }
}

/// True for an address of this machine: only these can be bound.
pub(super) fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io;
    use std::time::Instant;

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::resolver::SystemResolver;

    fn refused(address: &str) -> Refused {
        Refused::new(vec![RefusedAddress::parse("the node's RPC", address).unwrap()])
    }

    async fn check(refused: &Refused, address: &str) -> Result<(), String> {
        refused.now(&SystemResolver).await.check(address.parse().unwrap())
    }

    #[tokio::test]
    async fn every_address_of_this_machine_is_refused_on_a_port_of_its_own() {
        for own in ["127.0.0.1:8332", "0.0.0.0:8332", "[::]:8332", "[::1]:8332"] {
            for tried in ["127.0.0.1", "127.0.0.9", "[::1]", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]"] {
                let address = format!("{tried}:8332");
                assert_eq!(check(&refused(own), &address).await, Err("the node's RPC".into()), "{own} {tried}");
            }
            assert_eq!(check(&refused(own), "127.0.0.1:8080").await, Ok(()));
            assert_eq!(check(&refused(own), "192.0.2.7:8332").await, Ok(()));
        }
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_refused_alone() {
        let refused = refused("192.0.2.7:8332");
        assert!(check(&refused, "192.0.2.7:8332").await.is_err());
        assert!(check(&refused, "[::ffff:192.0.2.7]:8332").await.is_err());
        assert!(check(&refused, "127.0.0.1:8332").await.is_ok());
        assert!(check(&refused, "192.0.2.8:8332").await.is_ok());
    }

    /// Knows a name from some moment on, and later no more.
    struct Late(Mutex<Vec<io::Result<Vec<IpAddr>>>>);

    impl Resolver for Late {
        fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            assert_eq!(name, "bitcoind");
            let answer = self.0.lock().remove(0);
            Box::pin(async move { answer })
        }
    }

    #[tokio::test]
    async fn a_name_that_was_unknown_at_first_is_refused_once_it_is_known() {
        let unknown = || Err(io::Error::other("unknown"));
        let resolver = Late(Mutex::new(vec![unknown(), Ok(vec!["192.0.2.7".parse().unwrap()]), unknown()]));
        let refused = refused("tcp://bitcoind:8332");
        let node = "192.0.2.7:8332".parse().unwrap();
        assert_eq!(refused.now(&resolver).await.check(node), Ok(()), "nobody knows the name");
        assert!(refused.now(&resolver).await.check(node).is_err());
        assert!(refused.now(&resolver).await.check(node).is_err(), "what it was counts while it cannot be looked up");
    }

    #[tokio::test]
    async fn ports_that_the_node_names_are_refused_from_its_first_answer_on() {
        let answers = Mutex::new(vec![None, Some(vec![RefusedAddress::parse("its peers", "127.0.0.1:9").unwrap()])]);
        let refused = Refused::default().with_node(Arc::new(move || answers.lock().remove(0)));
        assert!(check(&refused, "127.0.0.1:9").await.is_ok(), "it has not answered");
        assert!(check(&refused, "127.0.0.1:9").await.is_err());
        assert!(check(&refused, "127.0.0.2:9").await.is_err(), "it is asked no more");
    }

    #[tokio::test]
    async fn a_node_that_names_no_port_is_asked_once() {
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let refused = Refused::default().with_node(Arc::new(move || {
            *count.lock() += 1;
            Some(Vec::new())
        }));
        for _ in 0..3 {
            assert!(check(&refused, "127.0.0.1:9").await.is_ok());
        }
        assert_eq!(*asked.lock(), 1);
    }

    #[tokio::test]
    async fn a_silent_node_delays_a_connection_by_a_moment_and_is_asked_once_at_a_time() {
        let asked = Arc::new(Mutex::new(0));
        let (count, silence) = (Arc::clone(&asked), Duration::from_secs(5));
        let refused = Refused::default().with_node(Arc::new(move || {
            *count.lock() += 1;
            std::thread::sleep(silence);
            Some(vec![RefusedAddress::parse("its peers", "127.0.0.1:9").unwrap()])
        }));
        let began = Instant::now();
        let both = tokio::join!(check(&refused, "127.0.0.1:9"), check(&refused, "127.0.0.1:9"));
        assert_eq!(both, (Ok(()), Ok(())), "it has not answered");
        assert!(began.elapsed() < silence / 2, "{:?}", began.elapsed());
        tokio::time::sleep(silence.saturating_sub(began.elapsed())).await;
        assert!(check(&refused, "127.0.0.1:9").await.is_err(), "its late answer counts");
        assert_eq!(*asked.lock(), 1);
    }
}
