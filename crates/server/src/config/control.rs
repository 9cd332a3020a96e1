//! The commands of `birdhouse ctl` for a running server, on the command line and on its control socket.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use birdhouse_clients::Bound as _;
use birdhouse_events::{EventId, Kind};
use birdhouse_mirror::Purpose;
use birdhouse_relay::Subject;
use clap::ValueEnum;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::PubkeyText;

/// Commands for a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Subcommand)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ControlCommand {
    /// Show the state of the server.
    Status,
    /// List the connections of all clients, with the work done for each.
    Connections,
    /// Close a client's connection.
    Disconnect {
        /// Id of the connection, from `connections`.
        id: u64,
    },
    /// Show how the relay answers a filter, and the cost of its first page.
    Explain {
        /// Filter of NIP-01, like `{"kinds":[1],"limit":100}`.
        filter: String,
    },
    /// Change the log level until the next start.
    LogLevel {
        /// off, error, warn, info, debug or trace, or levels of modules like `info,birdhouse_relay=debug`.
        level: String,
    },
    /// Follow the node through a reorg that is deeper than the setting `reorg-depth-max` allows.
    AcceptReorg,
    /// Ban a client from all listeners, or an author, an event or a kind of events from the relay.
    Ban(Banned),
    /// Take a ban back.
    Unban(Named),
    /// Allow a client of a banned network, or an author, an event or a kind, whatever the lists of the settings say.
    Allow(Decided),
    /// Take an allowance back.
    Unallow(Named),
    /// Ignore what others report of an author or an event: `reports` no longer has it. It is judged as before.
    Ignore(Decided),
    /// List its reports again.
    Unignore(Named),
    /// List everything that is banned, allowed or ignored by these commands and over HTTP (NIP-86).
    Banned,
    /// Show the audit log, the newest entries first: who changed which rule, when, for which reason, and what ended it.
    Audit {
        /// Entries at most.
        #[arg(long, default_value_t = 100)]
        count: usize,
    },
    /// Undo the change of an entry of the audit log.
    Undo {
        /// Its number, from `audit`.
        number: u64,
    },
    /// List the members of the relay (NIP-43): the authors that are allowed. `allow author` adds one, `unallow author`
    /// removes one.
    Members,
    /// List the invites that are not used up.
    Invites,
    /// Make an invite, whose code a client sends to join.
    Invite {
        /// Joins that it allows.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        uses: u32,
        /// Days until it expires.
        #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
        days: u32,
    },
    /// Take an invite back.
    Revoke {
        /// Its code, from `invites`.
        code: String,
    },
    /// List the events and authors that others have reported to the relay, and on which no rule decides.
    Reports,
    /// Show what the relay's rules of retention in the settings file would delete now. SIGHUP puts them into effect.
    Retention,
    /// Show the watches, for `birdhouse watch list`.
    #[command(skip)]
    Watches,
    /// Show notices, for `birdhouse watch notices`.
    #[command(skip)]
    Notices {
        /// Position of the first one; the newest ones without it.
        from: Option<u64>,
        /// Their number at most.
        count: u32,
    },
    /// Read the watch file again, for `birdhouse watch add` and `remove`.
    #[command(skip)]
    ReloadWatches,
    /// Send a test message to a channel, for `birdhouse watch test`.
    #[command(skip)]
    TestChannel {
        /// Its name.
        channel: String,
    },
    /// Store the events that follow, one a line, for `birdhouse import`.
    #[command(skip)]
    Import,
    /// Write all events, one a line, for `birdhouse export`.
    #[command(skip)]
    Export,
    /// Exchange events with another relay, for `birdhouse sync`.
    #[command(skip)]
    Sync(SyncRequest),
    /// Stop the server.
    Stop,
    /// Prove the checksums of every file, for `birdhouse verify --quick`.
    #[command(skip)]
    Verify,
    /// Write a backup, for `birdhouse backup`.
    #[command(skip)]
    Backup {
        /// A new or empty folder.
        folder: PathBuf,
    },
    /// Show what a deletion of the node's blocks would free, for `birdhouse prune`.
    #[command(skip)]
    OfferPrune {
        /// Bytes of blocks that stay.
        keep_bytes: u64,
    },
    /// Delete the node's blocks, for `birdhouse prune`.
    #[command(skip)]
    Prune {
        /// Bytes of blocks that stay.
        keep_bytes: u64,
    },
}

/// A synchronization with another relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SyncRequest {
    /// URL of the other relay.
    pub(crate) url: String,
    /// The use of the difference.
    pub(crate) purpose: Purpose,
    /// A filter of NIP-01.
    pub(crate) filter: String,
    /// First second, since 1970.
    pub(crate) since: Option<u64>,
    /// Last second, since 1970.
    pub(crate) until: Option<u64>,
    /// File with the secret key that answers challenges of the other relay.
    pub(crate) key_file: Option<PathBuf>,
    /// SOCKS5 proxy between this relay and the other one.
    #[serde(default)]
    pub(crate) proxy: Option<SocketAddr>,
}

/// Types of subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SubjectType {
    /// The events of an author: hexadecimal or npub.
    Author,
    /// An event by its id in hexadecimal.
    Event,
    /// The events of a kind, by its number.
    Kind,
    /// The clients at an IP address or in a network.
    Client,
}

/// A subject as the command line has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub(crate) struct Named {
    /// Type of the subject.
    #[arg(value_name = "TYPE")]
    #[serde(rename = "type")]
    kind: SubjectType,
    /// The author, event, kind or client.
    value: String,
}

/// A subject and a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub(crate) struct Decided {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) subject: Named,
    /// Reason for your own records; no client sees it.
    #[arg(long, default_value = "")]
    #[serde(default)]
    pub(crate) reason: String,
}

/// A ban.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub(crate) struct Banned {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) decided: Decided,
    /// Time after which it ends by itself, like `12h` or `7d`; without it, it lasts until `unban`.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    #[serde(default)]
    pub(crate) seconds: Option<u64>,
}

/// Returns the seconds of a time like `7 d`.
///
/// # Errors
/// It is no time.
pub(crate) fn time(text: &str) -> Result<u64, String> {
    let time = Duration::from_text(text).map(|time| time.as_secs()).filter(|seconds| *seconds > 0);
    time.ok_or_else(|| format!("expected {} of at least a second", Duration::expected()))
}

impl Named {
    /// Names a subject by the words of the command line.
    ///
    /// # Errors
    /// There is no such type.
    pub(crate) fn new(kind: &str, value: String) -> Result<Self> {
        let kind = SubjectType::from_str(kind, false).map_err(|_| anyhow!("{kind:?} is no type of subject"))?;
        Ok(Self { kind, value })
    }

    /// Returns the subject that the text names.
    pub(crate) fn parse(&self) -> Result<Subject> {
        let text = self.value.as_str();
        match self.kind {
            SubjectType::Author => text.parse().map(|PubkeyText(key)| Subject::Author(key)),
            SubjectType::Event => {
                let id = EventId::parse(text).map(Subject::Event);
                id.with_context(|| format!("{text:?} is not an event id: use 64 lowercase hexadecimal digits"))
            }
            SubjectType::Kind => {
                let kind = text.parse().ok().map(|kind| Subject::Kind(Kind(kind)));
                kind.with_context(|| format!("{text:?} is not a kind from 0 to 65535"))
            }
            SubjectType::Client => {
                let address = text.parse::<IpAddr>().ok().map(Subject::client);
                let network = || text.parse::<IpNet>().ok().map(Subject::clients);
                address
                    .or_else(network)
                    .with_context(|| format!("{text:?} is not an IP address, or a network like 203.0.113.0/24"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn commands_are_as_documented() {
        let table = [
            (ControlCommand::Status, r#"{"command":"status"}"#),
            (ControlCommand::Disconnect { id: 7 }, r#"{"command":"disconnect","id":7}"#),
            (ControlCommand::LogLevel { level: "debug".into() }, r#"{"command":"log-level","level":"debug"}"#),
        ];
        for (command, json) in table {
            assert_eq!(serde_json::to_string(&command).unwrap(), json);
            assert_eq!(serde_json::from_str::<ControlCommand>(json).unwrap(), command);
        }
    }
}
