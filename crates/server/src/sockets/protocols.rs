//! The protocols beside the wallets', whose listeners are planned alike: a kind without TLS, and one with it. Planning,
//! the doctor, the links of the dashboard and `birdhouse connect` go over this list.

use crate::config::{Kind, ListenerKind, Options};

/// A protocol of listeners.
#[derive(Debug)]
pub(crate) struct Protocol {
    /// The name of what is served there, for the log: "the relay".
    pub(crate) serves: &'static str,
    /// Kind of its listeners without TLS.
    pub(super) plain: ListenerKind,
    /// Kind of those with TLS, if it has any.
    pub(super) tls: Option<ListenerKind>,
    pub(super) carrier: Carrier,
    pub(super) bounds: Bounds,
    /// The port in an advice.
    pub(super) usual_port: &'static str,
    pub(super) links: Links,
}

/// The carrier of the protocol's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Http,
    WebSocket,
}

/// Encryption of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    Plain,
    Tls,
}

/// The owner of the bounds of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bounds {
    /// `[limits.rest]`, for all protocols that name it together.
    Rest,
    /// `[limits.relay]`.
    Relay,
    /// `[limits.blossom]`.
    Blossom,
    /// A constant.
    Fixed(usize),
}

/// Links to its listeners on the dashboard and in `birdhouse connect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    Shown,
    Hidden,
}

pub(crate) static RELAY: Protocol = Protocol {
    serves: "the relay",
    plain: ListenerKind::Relay,
    tls: Some(ListenerKind::RelayTls),
    carrier: Carrier::WebSocket,
    bounds: Bounds::Relay,
    usual_port: "7777",
    links: Links::Shown,
};

pub(crate) static REST: Protocol = Protocol {
    serves: "the REST API",
    plain: ListenerKind::Rest,
    tls: Some(ListenerKind::RestTls),
    carrier: Carrier::Http,
    bounds: Bounds::Rest,
    usual_port: "3000",
    links: Links::Shown,
};

pub(crate) static PRIVATE_REST: Protocol = Protocol {
    serves: "the REST API with /internal",
    plain: ListenerKind::RestPrivate,
    tls: None,
    carrier: Carrier::Http,
    bounds: Bounds::Rest,
    usual_port: "3001",
    links: Links::Hidden,
};

pub(crate) static EXPLORER: Protocol = Protocol {
    serves: "the explorer",
    plain: ListenerKind::Http,
    tls: Some(ListenerKind::HttpTls),
    carrier: Carrier::Http,
    bounds: Bounds::Rest,
    usual_port: "8080",
    links: Links::Shown,
};

pub(crate) static WATCH_API: Protocol = Protocol {
    serves: "watched wallets and invoices for programs",
    plain: ListenerKind::WatchApi,
    tls: None,
    carrier: Carrier::Http,
    bounds: Bounds::Fixed(birdhouse_watch::limits::API_CONNECTIONS_MAX),
    usual_port: "3060",
    links: Links::Shown,
};

pub(crate) static BLOSSOM: Protocol = Protocol {
    serves: "the media store",
    plain: ListenerKind::Blossom,
    tls: Some(ListenerKind::BlossomTls),
    carrier: Carrier::Http,
    bounds: Bounds::Blossom,
    usual_port: "3070",
    links: Links::Shown,
};

/// Connections of replicas and front ends, with those of clients that have not shown the secret.
pub(crate) const REPLICAS_CONNECTIONS_MAX: usize = 96;

pub(crate) static REPLICAS: Protocol = Protocol {
    serves: "replicas",
    plain: ListenerKind::Replicas,
    tls: Some(ListenerKind::ReplicasTls),
    carrier: Carrier::Http,
    bounds: Bounds::Fixed(REPLICAS_CONNECTIONS_MAX),
    usual_port: "3002",
    links: Links::Hidden,
};

/// The name of what wallets' listeners serve; their kinds and limits are their own.
pub(crate) const ELECTRUM: &str = "the Electrum protocol";

/// All of them but the wallets', in the order of the links.
pub(crate) static PROTOCOLS: [&Protocol; 7] =
    [&REST, &EXPLORER, &RELAY, &PRIVATE_REST, &WATCH_API, &BLOSSOM, &REPLICAS];

// === impl Protocol ===

impl Protocol {
    /// Returns the protocol of a listener by what is served there; `None` for the wallets'.
    pub(crate) fn of(serves: &str) -> Option<&'static Self> {
        PROTOCOLS.into_iter().find(|protocol| protocol.serves == serves)
    }

    /// Returns the transport of a kind of listeners; `None` for those of another protocol.
    pub(super) fn transport(&self, kind: ListenerKind) -> Option<Kind> {
        let kinds = match self.carrier {
            Carrier::Http => [Kind::Tcp, Kind::Tls],
            Carrier::WebSocket => [Kind::Ws, Kind::Wss],
        };
        [Some(self.plain), self.tls].iter().position(|own| *own == Some(kind)).map(|at| kinds[at])
    }

    /// Returns the table of its limits in the settings; `None` if they are no settings.
    pub(super) fn limits_table(&self) -> Option<&'static str> {
        match self.bounds {
            Bounds::Rest => Some("rest"),
            Bounds::Relay => Some("relay"),
            Bounds::Blossom => Some("blossom"),
            Bounds::Fixed(_) => None,
        }
    }

    /// Returns the number of connections that its listeners have at once, with those of the protocols that share its
    /// table.
    pub(crate) fn connections_max(&self, options: &Options) -> usize {
        let limits = options.limits.clone().unwrap_or_default();
        match self.bounds {
            Bounds::Rest => limits.rest().connections,
            Bounds::Relay => limits.relay().connections,
            Bounds::Blossom => limits.blossom().connections,
            Bounds::Fixed(most) => most,
        }
    }

    /// True if the connections of both count towards one bound.
    pub(crate) fn shares_bound(&self, other: &Self) -> bool {
        self.limits_table().is_some() && self.limits_table() == other.limits_table()
    }

    /// True if it is served from the index of the chain alone.
    pub(crate) fn needs_index(&self) -> bool {
        !matches!(self.bounds, Bounds::Relay | Bounds::Blossom)
    }

    /// Returns the scheme of its links; `None` if it has none.
    pub(crate) fn scheme(&self, security: Security) -> Option<&'static str> {
        (self.links == Links::Shown).then_some(match (self.carrier, security) {
            (Carrier::Http, Security::Plain) => "http",
            (Carrier::Http, Security::Tls) => "https",
            (Carrier::WebSocket, Security::Plain) => "ws",
            (Carrier::WebSocket, Security::Tls) => "wss",
        })
    }
}
