//! Settings of the server.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_clients::ClientKeying;
use birdhouse_net::{Connections, Reads, WebPages};
use serde::{Deserialize, Serialize};

use crate::limits::{Limits, ServerLimits};

/// A listener for wallets.
pub type Listener = birdhouse_net::Listener<Limits>;

/// Settings of the server; those of a listener are in [`crate::Listener`].
#[derive(Debug, Clone)]
pub struct Settings {
    /// First element of the answer to `server.version`. Sparrow sends batches only to names it knows, and
    /// "electrumx" anywhere in the name is one of them.
    pub server_version: String,
    /// Text that a wallet shows when it connects.
    pub banner: String,
    /// Bitcoin address for donations to the operator; may be empty.
    pub donation_address: String,
    /// Public names of the server, for `server.features`.
    pub hosts: Vec<Host>,
    /// Search for other servers, which `server.peers.subscribe` lists; `None` turns it off.
    pub discovery: Option<Discovery>,
    /// Web pages that may open a WebSocket over loopback.
    pub pages: WebPages,
    /// Rule by which connections are counted for one client.
    pub keying: ClientKeying,
    /// Numbers and bans of connections; other servers of the process may share them.
    pub connections: Connections,
    /// Methods for wallets that read tweaks of silent payments and scan by themselves.
    pub tweak_dialect: TweakDialect,
    /// Fetching of removed blocks ahead of the client.
    pub prefetch: Prefetch,
    /// Bounds that all listeners share.
    pub limits: ServerLimits,
    /// Turns to read the index and to call the node; `None` makes those of [`ServerLimits::reads`], for this server
    /// alone.
    pub reads: Option<Arc<Reads>>,
    /// Longest time for which requests that came in messages of their own are collected: until they start, their thread
    /// serves nobody else.
    pub collect_time_max: Duration,
}

/// Cake Wallet's dialect for tweaks of silent payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TweakDialect {
    /// No such methods.
    Off,
    /// `blockchain.tweaks.subscribe` in version 1.
    V1,
    /// Also in version 2, with `blockchain.tweaks.get`.
    V2,
}

/// A public name of a server, with its ports. As JSON, its ports as in `server.features`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Domain name, onion address or IP.
    #[serde(skip)]
    pub name: String,
    /// Plain TCP.
    pub tcp_port: Option<u16>,
    /// TLS.
    pub ssl_port: Option<u16>,
    /// WebSocket; not read from other servers.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub ws_port: Option<u16>,
    /// WebSocket over TLS; not read from other servers.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub wss_port: Option<u16>,
}

/// Search for other servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// Servers to begin with; this server announces itself to them. Each needs a port for TCP or TLS.
    pub seeds: Vec<Host>,
    /// Addresses at which other servers may be.
    pub scope: PeerScope,
}

/// Fetching of blocks that a pruned node has removed, before a client asks for what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetch {
    /// Only what a client asks for.
    Off,
    /// The blocks of every history that a client asks for.
    On,
}

/// Addresses of other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerScope {
    /// Addresses of the public Internet.
    Internet,
    /// All addresses, for private chains.
    Everywhere,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server_version: concat!("Birdhouse ", env!("CARGO_PKG_VERSION"), " (ElectrumX-compatible)").into(),
            banner: concat!("Welcome to Birdhouse ", env!("CARGO_PKG_VERSION"), ".").into(),
            donation_address: String::new(),
            hosts: Vec::new(),
            discovery: None,
            keying: ClientKeying::default(),
            pages: WebPages::default(),
            connections: Connections::default(),
            tweak_dialect: TweakDialect::Off,
            prefetch: Prefetch::Off,
            limits: ServerLimits::default(),
            reads: None,
            collect_time_max: Duration::from_micros(100),
        }
    }
}
