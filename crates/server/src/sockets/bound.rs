//! The bound listeners of a service.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use birdhouse_net::{Listener, Transport};
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::listeners::{self, Plan};
use super::protocols::{Protocol, Security};

/// A bound listener, as operator and users see it.
#[derive(Debug, Clone)]
pub(crate) struct BoundListener {
    pub(crate) name: String,
    /// Name of what is served there, for the log: "the relay".
    pub(crate) serves: &'static str,
    pub(crate) addr: SocketAddr,
    pub(crate) transport: Transport,
}

impl BoundListener {
    /// Returns the scheme of links to it; `None` for wallets', and where no page links it.
    pub(crate) fn scheme(&self) -> Option<&'static str> {
        let security = match self.transport {
            Transport::Tcp | Transport::Ws => Security::Plain,
            Transport::Tls(_) | Transport::Wss(_) => Security::Tls,
        };
        Protocol::of(self.serves)?.scheme(security)
    }
}

/// Bound sockets, until they are served.
pub(crate) struct Sockets<L> {
    listeners: Vec<BoundListener>,
    sockets: Mutex<Vec<(TcpListener, Listener<L>)>>,
}

impl<L: Clone> Sockets<L> {
    /// Binds the listeners, where `serves` is served. A self-signed certificate is for `names` and is kept in `folder`.
    pub(crate) async fn open(serves: &'static str, plans: &[Plan<L>], folder: &Path, names: &[String]) -> Result<Self> {
        let sockets = listeners::open(plans, folder, names).await?;
        let mut bound = Vec::new();
        for (socket, Listener { name, transport, .. }) in &sockets {
            let addr = socket.local_addr()?;
            tracing::info!(%addr, listener = name, "serving {serves}");
            bound.push(BoundListener { name: name.clone(), serves, addr, transport: transport.clone() });
        }
        Ok(Self { listeners: bound, sockets: Mutex::new(sockets) })
    }

    /// Returns the listeners.
    pub(crate) fn listeners(&self) -> &[BoundListener] {
        &self.listeners
    }

    /// Returns the sockets, to serve them; none the second time.
    pub(crate) fn take(&self) -> Vec<(TcpListener, Listener<L>)> {
        std::mem::take(&mut *self.sockets.lock())
    }
}
