//! Connections to checked addresses.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_socks::TargetAddr;
use tokio_socks::tcp::Socks5Stream;

use crate::public::is_public;
use crate::refused::{Refused, is_local};
use crate::resolver::{Resolver, SystemResolver};
use crate::target::{Encryption, Host, NamedBy, Target};

/// Bytes that the other side of a short exchange may send, TLS included. No more are read: the exchange has failed.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Addresses of a name that are tried.
pub const ADDRESSES_MAX: usize = 4;
/// Wait for one of several addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait for an address before the next one is tried beside it: RFC 8305's "Connection Attempt Delay".
const NEXT_ADDRESS_DELAY: Duration = Duration::from_millis(250);
/// Wait for a connection through a proxy: Tor builds a circuit first.
pub const PROXY_TIMEOUT: Duration = Duration::from_mins(1);

/// Opens connections.
pub struct Guard {
    resolver: Arc<dyn Resolver>,
    refused: Refused,
    /// Sockets of this server's own relay, which everybody may name.
    own_relay: Vec<SocketAddr>,
    trust: Trust,
    /// Made for the first connection that needs it. A failure is not kept: the certificates may be installed later.
    tls: OnceLock<Arc<ClientConfig>>,
}

/// Certificates that connections trust.
#[derive(Debug, Clone)]
pub enum Trust {
    /// The system's, or those in the file `SSL_CERT_FILE`.
    System,
    /// These.
    Roots(Arc<RootCertStore>),
}

/// A connection, encrypted or not.
pub type Connection = Box<dyn Stream>;

/// A connection, and the address that was chosen for it.
#[derive(Debug)]
pub struct Reached {
    /// The connection.
    pub connection: Connection,
    /// The other side.
    pub address: SocketAddr,
}

/// Both halves of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug> Stream for T {}

impl Guard {
    /// Connections that trust the system's certificates.
    pub fn new(refused: Refused) -> Self {
        Self::with(Arc::new(SystemResolver), refused, Trust::System)
    }

    /// Connections with a resolver and certificates of the caller.
    pub fn with(resolver: Arc<dyn Resolver>, refused: Refused, trust: Trust) -> Self {
        Self { resolver, refused, own_relay: Vec::new(), trust, tls: OnceLock::new() }
    }

    /// Allows everybody to name the server's own relay, at these sockets.
    #[must_use]
    pub fn with_own_relay(mut self, sockets: Vec<SocketAddr>) -> Self {
        self.own_relay = sockets;
        self
    }

    /// Connects to a target for a short exchange, encrypted as its scheme says. The caller bounds the time; the other
    /// side may send [`ANSWER_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// The reason, in one line without secrets.
    pub async fn connect(&self, target: &Target) -> Result<Connection, String> {
        let stream = Bounded { stream: self.open(target).await?, left: ANSWER_BYTES_MAX };
        self.encrypted(target, Box::new(stream)).await
    }

    /// Connects to a target for a conversation of any length. The caller bounds what it holds of it.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_at_length(&self, target: &Target) -> Result<Reached, String> {
        let stream = self.open(target).await?;
        let address = stream.peer_addr().map_err(|error| format!("failed to connect to {target}: {error}"))?;
        Ok(Reached { connection: self.encrypted(target, Box::new(stream)).await?, address })
    }

    async fn encrypted(&self, target: &Target, stream: Connection) -> Result<Connection, String> {
        match target.scheme.encryption() {
            Encryption::None => Ok(stream),
            Encryption::Tls => self.encrypt(target, stream).await,
        }
    }

    /// Encrypts a connection.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn encrypt(&self, target: &Target, stream: Connection) -> Result<Connection, String> {
        let config = self.tls()?;
        let name = match &target.host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| "the name is not valid in TLS")?,
            Host::Address(address) => ServerName::IpAddress((*address).into()),
        };
        let encrypted = TlsConnector::from(config).connect(name, stream).await;
        Ok(Box::new(encrypted.map_err(|error| format!("failed to set up TLS with {target}: {error}"))?))
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(known) = self.tls.get() {
            return Ok(Arc::clone(known));
        }
        let config = self.trust.config()?;
        Ok(Arc::clone(self.tls.get_or_init(|| config)))
    }

    async fn open(&self, target: &Target) -> Result<TcpStream, String> {
        if let Some(proxy) = target.proxy {
            return self.open_through(proxy, target).await;
        }
        connect_first(target, self.checked(target).await?).await
    }

    /// Connects through a SOCKS5 proxy, which looks the name up. An address, and a name that is one of the operator's
    /// own, is checked here.
    async fn open_through(&self, proxy: SocketAddr, target: &Target) -> Result<TcpStream, String> {
        match &target.host {
            Host::Name(name) if name != "localhost" && !name.ends_with(".localhost") => {
                let now = self.refused.now(&*self.resolver).await;
                now.check_name(target).map_err(|name| refused_name(target, name))?;
            }
            _ => drop(self.checked(target).await?),
        }
        let failed = |why: String| format!("failed to connect to {target} through the proxy {proxy}: {why}");
        let host = match &target.host {
            Host::Name(name) => TargetAddr::Domain(name.as_str().into(), target.port),
            Host::Address(address) => TargetAddr::Ip(SocketAddr::new(*address, target.port)),
        };
        match tokio::time::timeout(PROXY_TIMEOUT, Socks5Stream::connect(proxy, host)).await {
            Ok(Ok(stream)) => Ok(stream.into_inner()),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("no answer".to_owned())),
        }
    }

    /// Looks the addresses of a target up, and checks them all.
    async fn checked(&self, target: &Target) -> Result<Vec<SocketAddr>, String> {
        if target.host.is_of_tor() {
            return Err(format!("failed to find {}: a name of Tor's network needs a SOCKS5 proxy", target.host));
        }
        let refused = |name| refused_name(target, name);
        let now = self.refused.now(&*self.resolver).await;
        now.check_name(target).map_err(refused)?;
        let addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let found = self.resolver.resolve(name).await;
                found.map_err(|error| format!("failed to find {name}: {error}"))?
            }
        };
        let addresses: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, target.port)).collect();
        for address in &addresses {
            now.check(*address).map_err(refused)?;
            if target.named_by == NamedBy::Recipient && !is_public(address.ip()) && !self.is_own_relay(*address) {
                return Err(format!(
                    "{target} is an address of a private network, which a recipient's list may not name; add it to \
                     `relays` of the channel"
                ));
            }
        }
        let mut addresses = interleaved(addresses);
        addresses.truncate(ADDRESSES_MAX);
        Ok(addresses)
    }

    /// True for a socket of this machine at which the server's own relay is served.
    fn is_own_relay(&self, address: SocketAddr) -> bool {
        let is_served = |own: &SocketAddr| {
            own.port() == address.port() && (own.ip().is_unspecified() || own.ip() == address.ip().to_canonical())
        };
        self.own_relay.iter().any(is_served) && is_local(address.ip().to_canonical())
    }
}

/// Orders addresses so that both families take turns, beginning with that of the first one: a network that has lost one
/// family costs one delay ([RFC 8305](https://www.rfc-editor.org/rfc/rfc8305#section-4)).
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first = addresses.first().map(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| Some(address.is_ipv4()) == first);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut ordered = Vec::new();
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return ordered;
        }
        ordered.extend(pair.into_iter().flatten());
    }
}

/// Connects to the first address that answers. Each begins while those before it are tried, after
/// [`NEXT_ADDRESS_DELAY`], or at once when one of these has failed.
async fn connect_first(target: &Target, addresses: Vec<SocketAddr>) -> Result<TcpStream, String> {
    let mut failure = format!("failed to find {}: the name has no address", target.host);
    let (mut waiting, mut attempts) = (addresses.into_iter(), FuturesUnordered::new());
    loop {
        attempts.extend(waiting.next().map(|address| connect(target, address)));
        tokio::select! {
            attempt = attempts.next() => match attempt {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(why)) => failure = why,
                None => return Err(failure),
            },
            () = tokio::time::sleep(NEXT_ADDRESS_DELAY), if waiting.len() > 0 => {}
        }
    }
}

async fn connect(target: &Target, address: SocketAddr) -> Result<TcpStream, String> {
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(connected) => connected.map_err(|error| format!("failed to connect to {target}: {error}")),
        Err(_) => Err(format!("failed to connect to {target}: no answer")),
    }
}

fn refused_name(target: &Target, name: impl std::fmt::Display) -> String {
    format!("{target} is {name}, which nothing may reach from here; use another address")
}

impl Trust {
    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let roots = match self {
            Self::Roots(roots) => Arc::clone(roots),
            Self::System => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    let missing = "no root certificates to verify others; install ca-certificates or set SSL_CERT_FILE";
                    return Err(missing.into());
                }
                Arc::new(roots)
            }
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }
}

/// A connection that fails once the other side has sent too much.
#[derive(Debug)]
struct Bounded {
    stream: TcpStream,
    left: usize,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        Poll::Ready(match self.left.checked_sub(read) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(io::Error::other(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"))),
        })
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
