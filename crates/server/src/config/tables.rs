//! Tables of the configuration file that have no flag: `[limits.*]`, `[[listener]]`, `[[relay-rate]]`,
//! `[[relay-retention]]` and `[[stream]]`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use birdhouse_clients::{Given, Rate};
use birdhouse_electrum::{Limits, LimitsGiven, ServerLimits, ServerLimitsGiven};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

use super::Options;
use super::file::{addr, list};
use super::values::{DirectionName, Kind, KindRange, ListenAddr, PubkeyText};

/// `[limits.public]`, `[limits.private]`, `[limits.server]`, `[limits.relay]`, `[limits.rest]` and
/// `[limits.blossom]`: bounds that differ from the defaults.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsOptions {
    public: LimitsGiven,
    private: LimitsGiven,
    server: ServerLimitsGiven,
    relay: birdhouse_relay::LimitsGiven,
    rest: birdhouse_esplora::LimitsGiven,
    blossom: birdhouse_blossom::LimitsGiven,
}

/// Names of the bounds of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LimitsName {
    /// For unknown clients.
    Public,
    /// For the operator's own clients.
    Private,
}

/// Protocol and transport of a `[[listener]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ListenerKind {
    /// Electrum: lines over TCP.
    Tcp,
    /// Electrum: lines over TLS.
    #[serde(alias = "ssl")]
    Tls,
    /// Electrum over WebSocket.
    Ws,
    /// Electrum over WebSocket over TLS.
    Wss,
    /// The relay, over WebSocket.
    Relay,
    /// The relay, over WebSocket over TLS.
    RelayTls,
    /// Esplora's REST API, over HTTP.
    Rest,
    /// Esplora's REST API, over HTTPS.
    RestTls,
    /// Esplora's REST API with `/internal`, over HTTP.
    RestPrivate,
    /// Watched wallets and invoices for programs, over HTTP.
    WatchApi,
    /// The media store, over HTTP.
    Blossom,
    /// The media store, over HTTPS.
    BlossomTls,
    /// The index for replicas, over HTTP.
    Replicas,
    /// The index for replicas, over HTTPS.
    ReplicasTls,
    /// The explorer and the REST API, over HTTP.
    Http,
    /// The explorer and the REST API, over HTTPS.
    HttpTls,
}

impl ListenerKind {
    /// The kinds that need a certificate.
    pub(super) const WITH_TLS: [Self; 7] =
        [Self::Tls, Self::Wss, Self::RelayTls, Self::RestTls, Self::BlossomTls, Self::ReplicasTls, Self::HttpTls];
}

/// One `[[listener]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ListenerOptions {
    pub(crate) name: String,
    pub(crate) kind: ListenerKind,
    pub(crate) addr: ListenAddr,
    /// Networks of the reverse proxies that connect here, with a PROXY header. Without it clients connect directly.
    pub(crate) proxy_from: Option<Vec<IpNet>>,
    /// Default: private on loopback when clients connect directly, else public.
    pub(crate) limits: Option<LimitsName>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
}

/// The party whose events a rate counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RateOf {
    /// The client that publishes them.
    Client,
    /// Their author.
    Author,
}

/// One `[[relay-rate]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RateOptions {
    /// Default: all.
    pub(crate) kinds: Option<Vec<KindRange>>,
    pub(crate) of: RateOf,
    pub(crate) rate: Given<Rate>,
}

/// One `[[relay-retention]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RetentionOptions {
    /// Default: all but requests to delete and to vanish.
    pub(crate) kinds: Option<Vec<KindRange>>,
    /// Default: all.
    pub(crate) authors: Option<Vec<PubkeyText>>,
    /// Bytes above which an event is covered. Default: all events.
    pub(crate) larger_than: Option<Given<u64>>,
    /// Age at which an event is deleted. Default: none.
    pub(crate) time: Option<Given<Duration>>,
    /// Bytes of covered events that are kept. Default: all.
    pub(crate) bytes: Option<Given<u64>>,
}

/// One `[[stream]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct StreamOptions {
    /// Its name, by which its places are kept.
    pub(crate) name: String,
    /// The other relays.
    #[serde(deserialize_with = "texts")]
    pub(crate) urls: Vec<String>,
    pub(crate) dir: DirectionName,
    /// A filter of NIP-01 as JSON, without `limit` and `search`. Default: all events.
    pub(crate) filter: Option<String>,
    /// Shell command of a program that judges events that come. Default: the relay's own.
    pub(crate) plugin: Option<String>,
    /// File of the secret key for NIP-42. Default: none.
    pub(crate) key_file: Option<PathBuf>,
    /// SOCKS5 proxy. Default: none.
    #[serde(default, deserialize_with = "addr")]
    pub(crate) proxy: Option<SocketAddr>,
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    list(deserializer).map(Option::unwrap_or_default)
}

impl ListenerOptions {
    /// Returns a listener with defaults for everything but these.
    pub(crate) fn simple(kind: ListenerKind, name: &str, addr: ListenAddr) -> Self {
        Self { name: name.into(), kind, addr, proxy_from: None, limits: None, tls_cert: None, tls_key: None }
    }
}

impl Options {
    /// Returns the listeners of flags and tables.
    pub(crate) fn listeners(&self) -> Vec<ListenerOptions> {
        let simple = [
            (ListenerKind::Tcp, "tcp", self.electrum_addr),
            (ListenerKind::Tls, "tls", self.electrum_tls_addr),
            (ListenerKind::Ws, "ws", self.electrum_ws_addr),
            (ListenerKind::Wss, "wss", self.electrum_wss_addr),
            (ListenerKind::Relay, "relay", self.relay_addr.map(Into::into)),
            (ListenerKind::RelayTls, "relay-tls", self.relay_tls_addr.map(Into::into)),
            (ListenerKind::Rest, "rest", self.rest_addr.map(Into::into)),
            (ListenerKind::RestTls, "rest-tls", self.rest_tls_addr.map(Into::into)),
            (ListenerKind::RestPrivate, "rest-private", self.rest_private_addr.map(Into::into)),
            (ListenerKind::WatchApi, "watch-api", self.watch_api_addr.map(Into::into)),
            (ListenerKind::Blossom, "blossom", self.blossom_addr.map(Into::into)),
            (ListenerKind::BlossomTls, "blossom-tls", self.blossom_tls_addr.map(Into::into)),
            (ListenerKind::Replicas, "replicas", self.replicas_addr.map(Into::into)),
            (ListenerKind::ReplicasTls, "replicas-tls", self.replicas_tls_addr.map(Into::into)),
            (ListenerKind::Http, "http", self.http_addr.map(Into::into)),
            (ListenerKind::HttpTls, "http-tls", self.http_tls_addr.map(Into::into)),
        ];
        let simple =
            simple.into_iter().filter_map(|(kind, name, addr)| Some(ListenerOptions::simple(kind, name, addr?)));
        simple.chain(self.listener.iter().flatten().cloned()).collect()
    }
}

impl ListenerKind {
    /// Returns the transport of an Electrum listener; `None` for another one.
    pub(crate) fn electrum(self) -> Option<Kind> {
        match self {
            Self::Tcp => Some(Kind::Tcp),
            Self::Tls => Some(Kind::Tls),
            Self::Ws => Some(Kind::Ws),
            Self::Wss => Some(Kind::Wss),
            Self::Relay
            | Self::RelayTls
            | Self::Rest
            | Self::RestTls
            | Self::RestPrivate
            | Self::WatchApi
            | Self::Blossom
            | Self::BlossomTls
            | Self::Replicas
            | Self::ReplicasTls
            | Self::Http
            | Self::HttpTls => None,
        }
    }
}

impl LimitsOptions {
    /// Returns the bounds of a listener.
    pub(crate) fn listener(&self, name: LimitsName) -> Limits {
        let (mut limits, given) = match name {
            LimitsName::Public => (Limits::public(), &self.public),
            LimitsName::Private => (Limits::private(), &self.private),
        };
        given.apply_to(&mut limits);
        limits
    }

    /// Returns the bounds that all listeners share.
    pub(crate) fn server(&self) -> ServerLimits {
        let mut limits = ServerLimits::default();
        self.server.apply_to(&mut limits);
        limits
    }

    /// Returns the bounds of the REST API.
    pub(crate) fn rest(&self) -> birdhouse_esplora::Limits {
        let mut limits = birdhouse_esplora::Limits::default();
        self.rest.apply_to(&mut limits);
        limits
    }

    /// Returns the bounds of the media store.
    pub(crate) fn blossom(&self) -> birdhouse_blossom::Limits {
        let mut limits = birdhouse_blossom::Limits::default();
        self.blossom.apply_to(&mut limits);
        limits
    }

    /// Returns the bounds of the relay.
    pub(crate) fn relay(&self) -> birdhouse_relay::Limits {
        let mut limits = birdhouse_relay::Limits::default();
        self.relay.apply_to(&mut limits);
        limits
    }
}
