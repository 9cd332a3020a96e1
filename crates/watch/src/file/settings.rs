//! Settings of the file, as values.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::file::names::{ChannelName, WatchName};
use crate::limits::HEALTH_AFTER_DEFAULT;

/// A watch file that was checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchFile {
    /// Its channels.
    pub channels: Vec<ChannelSettings>,
    /// Its watches.
    pub watches: Vec<WatchSettings>,
    /// Notices of the state of the server itself.
    pub health: HealthSettings,
    /// URL of an explorer, below which messages lead to `/tx/<txid>`.
    pub explorer: Option<String>,
}

/// Notices of the state of the server itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSettings {
    /// Their channels; without one there are no such notices.
    pub channels: Vec<ChannelName>,
    /// Time for which a warning stands, or is gone, before that is announced.
    pub after: Duration,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { channels: Vec::new(), after: HEALTH_AFTER_DEFAULT }
    }
}

/// A way to a person or a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSettings {
    /// Its name.
    pub name: ChannelName,
    /// Its kind, with what that kind needs.
    pub kind: ChannelKind,
    /// True if messages have amounts; by default only those that are encrypted.
    pub amounts: bool,
}

/// Kind of a channel. Texts are as in the file: the channel checks them.
#[derive(Clone, PartialEq, Eq)]
pub enum ChannelKind {
    /// An encrypted message over Nostr
    /// ([NIP-17](https://github.com/nostr-protocol/nips/blob/master/17.md)).
    Nostr {
        /// Public key of the recipient, `npub1..` or hexadecimal.
        to: String,
        /// Relays that are asked for the recipient's relays, and tried.
        relays: Vec<String>,
    },
    /// A topic of a server of ntfy.
    Ntfy {
        /// `https://ntfy.sh/topic`.
        url: String,
        /// Access token.
        token: Option<String>,
    },
    /// A webhook ([Standard Webhooks](https://www.standardwebhooks.com/)).
    Webhook {
        /// Address that takes the POST.
        url: String,
        /// `whsec_..`; more than one while they are rotated.
        secrets: Vec<String>,
    },
    /// Mail.
    Mail {
        /// Recipient.
        to: String,
        /// Sender.
        from: String,
        /// `smtps://mail.example.com` or `smtp://mail.example.com:587`.
        server: String,
        /// Account at the server.
        user: Option<String>,
        /// Its password.
        password: Option<String>,
    },
    /// A program that gets the notice as JSON on its standard input.
    Command {
        /// The program and its arguments; no shell.
        argv: Vec<String>,
    },
}

/// Prints the kind without secrets.
impl std::fmt::Debug for ChannelKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl ChannelKind {
    /// Returns its name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nostr { .. } => "nostr",
            Self::Ntfy { .. } => "ntfy",
            Self::Webhook { .. } => "webhook",
            Self::Mail { .. } => "mail",
            Self::Command { .. } => "command",
        }
    }
}

/// One watched wallet, address, script or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSettings {
    /// Its name.
    pub name: WatchName,
    /// The scripts that it watches.
    pub source: Source,
    /// Unused scripts of each branch that are watched after the last used one.
    pub gap: u32,
    /// Height from which its history is announced, as one digest; `None`: the past is not announced.
    pub history_from: Option<u32>,
    /// Payments that are announced.
    pub directions: Directions,
    /// Least change of the balance that is announced, in satoshis.
    pub least_amount: u64,
    /// Levels of confirmations that are announced, ascending; 0 is the mempool.
    pub confirmations: Vec<u32>,
    /// True for a wallet from which nobody should spend: a spend has the highest priority.
    pub is_cold: bool,
    /// Changes of its invoices that are announced.
    pub invoices: Vec<InvoiceChange>,
    /// Channels for its notices.
    pub channels: Vec<ChannelName>,
}

/// A change of an invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvoiceChange {
    /// The amount came in time.
    Paid,
    /// Less than the amount came, and there is time left.
    Underpaid,
    /// The time ended before the amount came.
    Expired,
    /// The amount has its confirmations.
    Confirmed,
    /// A replacement or a reorg took a payment, or its confirmations, back.
    TakenBack,
}

/// The scripts that a watch names, as its text in the file.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// An output descriptor, an extended key or an address.
    Descriptor(String),
    /// A script in hexadecimal.
    Script(String),
    /// An output, `txid:vout`.
    Outpoint(String),
    /// The scan key of silent payments
    /// ([BIP 392](https://github.com/bitcoin/bips/blob/master/bip-0392.mediawiki)).
    SilentPayment(String),
}

/// Prints no key.
impl std::fmt::Debug for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Source {
    /// Returns the kind of the source, in the words of the file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Descriptor(_) => "descriptor",
            Self::Script(_) => "script",
            Self::Outpoint(_) => "outpoint",
            Self::SilentPayment(_) => "silent-payment",
        }
    }

    /// Returns a text that no other source has, for the file of notices. A scan key finds all payments of its wallet,
    /// so its hash stands there.
    pub(crate) fn mark(&self) -> String {
        match self {
            Self::SilentPayment(text) => format!("sha256:{}", const_hex::encode(Sha256::digest(text))),
            other => other.text().to_owned(),
        }
    }

    /// True for the mark of this source; earlier versions used the text, which the next update replaces.
    pub(crate) fn is_marked_by(&self, mark: &str) -> bool {
        mark == self.mark() || mark == self.text()
    }

    /// Returns its text in the file.
    pub fn text(&self) -> &str {
        match self {
            Self::Descriptor(text) | Self::Script(text) | Self::Outpoint(text) | Self::SilentPayment(text) => text,
        }
    }
}

/// Payments that are announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Those that raise the balance.
    In,
    /// Those that spend from the wallet.
    Out,
    /// All.
    #[default]
    Both,
}
