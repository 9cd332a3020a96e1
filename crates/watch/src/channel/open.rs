//! From the settings of a channel to the channel.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use birdhouse_dial::{Guard, Refused};

use super::clock::Clock;
use super::command::Command;
use super::mail::{Login, Mail, Parties};
use super::message::{Channel, Wording};
use super::nostr::{Identity, Nostr, OwnRelay, Sender};
use super::ntfy::Ntfy;
use super::secret::Secret;
use super::webhook::Webhook;
use crate::file::{ChannelKind, ChannelName, ChannelSettings, WatchFile};

/// Everything that channels need of the server.
pub struct Surroundings {
    /// Addresses that no channel may reach: those of the node, and of the server's own operator.
    pub refused: Refused,
    /// The file of the server's secret key at Nostr; made at first use.
    pub key_file: PathBuf,
    /// The server's own relay.
    pub relay: Option<Arc<dyn OwnRelay>>,
    /// The sockets at which it is served.
    pub relay_sockets: Vec<SocketAddr>,
    /// The clock.
    pub clock: Clock,
}

/// A channel and its name.
pub struct OpenChannel {
    /// Its name in the file.
    pub name: ChannelName,
    /// The channel.
    pub channel: Arc<dyn Channel>,
}

/// Opens channels.
#[derive(Clone)]
pub struct Channels {
    guard: Arc<Guard>,
    clock: Clock,
    sender: Arc<Sender>,
}

impl Channels {
    /// Channels of a server.
    pub fn new(surroundings: Surroundings) -> Self {
        let Surroundings { refused, key_file, relay, relay_sockets, clock } = surroundings;
        Self::with_guard(Guard::new(refused).with_own_relay(relay_sockets), key_file, relay, clock)
    }

    pub(super) fn with_guard(guard: Guard, key_file: PathBuf, relay: Option<Arc<dyn OwnRelay>>, clock: Clock) -> Self {
        let guard = Arc::new(guard);
        let sender = Sender::new(Arc::clone(&guard), clock.clone(), Identity::new(key_file), relay);
        Self { guard, clock, sender: Arc::new(sender) }
    }

    /// Opens the channels of a file.
    ///
    /// # Errors
    /// The first channel that cannot be opened, by name, and the reason.
    pub fn open_all(&self, file: &WatchFile) -> Result<Vec<OpenChannel>, String> {
        let open = |settings: &ChannelSettings| match self.open(settings) {
            Ok(channel) => Ok(OpenChannel { name: settings.name.clone(), channel }),
            Err(why) => Err(format!("channel \"{}\": {why}", settings.name)),
        };
        file.channels.iter().map(open).collect()
    }

    /// Opens a channel: checks its settings, and connects to nothing.
    ///
    /// # Errors
    /// The reason, for the author of the file, without secrets.
    pub fn open(&self, settings: &ChannelSettings) -> Result<Arc<dyn Channel>, String> {
        let wording = if settings.amounts { Wording::WithAmounts } else { Wording::WithoutAmounts };
        let guard = || Arc::clone(&self.guard);
        let opened: Arc<dyn Channel> = match &settings.kind {
            ChannelKind::Nostr { to, relays } => Arc::new(Nostr::new(Arc::clone(&self.sender), to, relays, wording)?),
            ChannelKind::Ntfy { url, token } => {
                let token = token.as_deref().map(Secret::new);
                Arc::new(Ntfy::new(guard(), url, token.as_ref(), wording)?)
            }
            ChannelKind::Webhook { url, secrets } => {
                let secrets: Vec<_> = secrets.iter().map(|secret| Secret::new(secret)).collect();
                Arc::new(Webhook::new(guard(), self.clock.clone(), url, &secrets, wording)?)
            }
            ChannelKind::Mail { to, from, server, user, password } => {
                let login = match (user, password) {
                    (Some(user), Some(password)) => Some(Login { user: user.clone(), password: Secret::new(password) }),
                    (None, None) => None,
                    _ => return Err("mail needs both user and password, or neither".into()),
                };
                Arc::new(Mail::new(guard(), server, login, &Parties { from, to }, wording)?)
            }
            ChannelKind::Command { argv } => Arc::new(Command::new(argv, wording)?),
        };
        Ok(opened)
    }
}
