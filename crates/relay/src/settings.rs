//! The operator's settings of the relay.

use std::sync::Arc;

use birdhouse_events::{FilterLimits, Retention, UnknownKeys};
use birdhouse_net::{Compression, Connections, Reads, WebPages};
use ipnet::IpNet;

use crate::free_disk::FreeDisk;
use crate::limits::{Limits, PrivateMessages};
use crate::policy::{Members, Policy};

/// Settings by the operator.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The relay's description of itself (NIP-11).
    pub description: Description,
    /// Bounds.
    pub limits: Limits,
    /// Readers of private messages.
    pub private_messages: PrivateMessages,
    /// Treatment of filters with unknown keys.
    pub unknown_keys: UnknownKeys,
    /// Hints in EOSE whether stored events were left out (NIP-67).
    pub eose_hints: EoseHints,
    /// Reverse proxies whose `X-Forwarded-For` names the client.
    pub proxies: Vec<IpNet>,
    /// Web pages that may open a WebSocket over loopback.
    pub pages: WebPages,
    /// Compression of messages.
    pub compression: Compression,
    /// Allowed authors, kinds and addresses, and rates.
    pub policy: Policy,
    /// Members (NIP-43); `None` where the relay has none.
    pub members: Option<Members>,
    /// A program that judges events.
    pub plugin: Option<PluginSettings>,
    /// Rules of how long events are kept.
    pub retention: Retention,
    /// The disk of the events.
    pub disk: FreeDisk,
    /// Numbers and bans of connections; other servers of the process may share them.
    pub connections: Connections,
    /// Turns to read events; other servers of the process may take them, too.
    pub reads: Arc<Reads>,
}

impl Settings {
    /// Returns the bounds of filters.
    pub fn filter_limits(&self) -> FilterLimits {
        self.limits.filter(self.unknown_keys)
    }
}

/// Third element of EOSE: hints whether stored events were left out (NIP-67). The NIP has no negotiation, so all
/// clients get it or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EoseHints {
    /// None. Some clients throw an EOSE of three elements away, and wait for the end of the stored events for ever.
    #[default]
    Off,
    /// One, where the relay knows.
    On,
}

/// The operator's description of the relay.
#[derive(Debug, Clone)]
pub struct Description {
    /// The relay's name.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// The operator's public key, in hexadecimal.
    pub pubkey: Option<String>,
    /// The relay's own public key, in hexadecimal.
    pub own_pubkey: Option<String>,
    /// Another way to reach the operator, as a URI.
    pub contact: Option<String>,
    /// URL of a square picture.
    pub icon: Option<String>,
    /// URL of a wide picture.
    pub banner: Option<String>,
    /// URL of the terms of service.
    pub terms_of_service: Option<String>,
}

impl Default for Description {
    fn default() -> Self {
        Self {
            name: "Birdhouse".to_owned(),
            description: "A Nostr relay".to_owned(),
            pubkey: None,
            own_pubkey: None,
            contact: None,
            icon: None,
            banner: None,
            terms_of_service: None,
        }
    }
}

/// A plugin as the operator configures it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSettings {
    /// The command for the shell.
    pub command: String,
    /// Treatment of events while it is broken.
    pub broken: WhenBroken,
}

/// Treatment of events that the plugin does not judge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenBroken {
    /// They are refused.
    #[default]
    Refuse,
    /// They are accepted.
    Accept,
}
