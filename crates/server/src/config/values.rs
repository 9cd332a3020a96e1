//! Values of settings, as flags, variables and the configuration file write them.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::{Context as _, Error, Result, bail, ensure};
use birdhouse_chain::Profile;
use birdhouse_events::Pubkey;
use bitcoin::{Network, bech32};
use clap::ValueEnum;
use serde::Deserialize;

/// Networks by the names of Core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NetworkName {
    /// The main network.
    #[value(alias = "main", alias = "mainnet")]
    #[serde(alias = "main", alias = "mainnet")]
    Bitcoin,
    /// Testnet 3.
    #[value(alias = "test", alias = "testnet3")]
    #[serde(alias = "test", alias = "testnet3")]
    Testnet,
    /// Testnet 4.
    Testnet4,
    /// Signet.
    Signet,
    /// A private chain.
    Regtest,
}

/// A setting that is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Switch {
    /// Enabled.
    On,
    /// Disabled.
    Off,
}

/// Direction of events between this relay and another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DirectionName {
    /// From the other relay.
    Down,
    /// To the other relay.
    Up,
    /// Both.
    Both,
}

impl From<DirectionName> for birdhouse_mirror::Direction {
    fn from(direction: DirectionName) -> Self {
        match direction {
            DirectionName::Down => Self::Down,
            DirectionName::Up => Self::Up,
            DirectionName::Both => Self::Both,
        }
    }
}

/// Rule for an invoice beyond the gap of its wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InvoiceGap {
    /// None is made.
    Refuse,
    /// It is made, and the answer warns.
    Warn,
}

impl From<InvoiceGap> for birdhouse_watch::BeyondGap {
    fn from(rule: InvoiceGap) -> Self {
        match rule {
            InvoiceGap::Refuse => Self::Refuse,
            InvoiceGap::Warn => Self::Warn,
        }
    }
}

/// The index of silent payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SilentPayments {
    /// Nothing; what was kept is removed.
    Off,
    /// Enough to scan for a wallet: about 46 bytes a transaction that may be one.
    Scan,
    /// Also enough for wallets that scan by themselves: 38 bytes more for each taproot output.
    Full,
}

/// Methods for wallets that read tweaks and scan by themselves, in Cake Wallet's dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TweakStreams {
    /// None.
    Off,
    /// Version 1.
    V1,
    /// Versions 1 and 2.
    V2,
}

/// Sets of defaults for a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Preset {
    /// Any machine with 8 GB of memory or more.
    Usual,
    /// 4 GB of memory, with a node beside.
    Pi4,
}

/// Profiles of the index by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProfileName {
    /// Stores the txid of every transaction.
    Full,
    /// Hashes txids from the node's blocks when asked.
    Lean,
}

/// Role of a process on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RoleName {
    /// Writes the index, or waits to take over.
    Indexer,
    /// Serves what another process writes.
    Front,
}

/// Readers of private messages on the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Readers {
    /// Author and recipients.
    Participants,
    /// All clients.
    Everyone,
}

/// Members of the relay, and the actions that are for them alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MembersName {
    /// No members.
    Off,
    /// Members; everybody publishes and reads.
    Open,
    /// Only members publish.
    Publish,
    /// Only members publish and read.
    Private,
}

/// Keys that may upload to the media store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UploadsName {
    /// Members of the relay, and those whom its settings allow.
    Members,
    /// All that the relay does not ban.
    Anyone,
}

/// Treatment of filters with keys that the relay does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UnknownKeysName {
    /// Answer the filter as if the key were absent.
    Ignore,
    /// Refuse the filter.
    Refuse,
}

/// Treatment of events while the plugin is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WhenBrokenName {
    /// Refuse every event.
    Refuse,
    /// Accept events that the plugin has not judged.
    Accept,
}

/// The transport of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Lines over TCP.
    Tcp,
    /// Lines over TLS.
    Tls,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

/// An address to listen on; without a port, the conventional one of kind and network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ListenAddr {
    pub(crate) ip: IpAddr,
    pub(crate) port: Option<u16>,
}

/// An address at which the public reaches the server: `ssl://electrum.example.org:50002`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PublicHost {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) port: Option<u16>,
}

/// An author: 64 hexadecimal digits, or npub (NIP-19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PubkeyText(pub(crate) Pubkey);

/// A size on disk in bytes: `30GB`, `2 TB`, `500MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct DiskSize(pub(crate) u64);

/// Units of a size, by their bytes.
const DISK_UNITS: [(&str, u64); 7] = [
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// One kind of event or a range of kinds: `1`, `30000-39999`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "KindOrText")]
pub(crate) struct KindRange(pub(crate) RangeInclusive<u16>);

/// In the configuration file a single kind may be a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum KindOrText {
    Kind(u16),
    Text(String),
}

impl NetworkName {
    /// Returns all networks.
    pub(crate) fn all() -> impl Iterator<Item = Network> {
        Self::value_variants().iter().map(|name| Network::from(*name))
    }
}

// === conversions ===

impl From<NetworkName> for Network {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::Bitcoin => Self::Bitcoin,
            NetworkName::Testnet => Self::Testnet,
            NetworkName::Testnet4 => Self::Testnet4,
            NetworkName::Signet => Self::Signet,
            NetworkName::Regtest => Self::Regtest,
        }
    }
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Full => Self::Full,
            ProfileName::Lean => Self::Lean,
        }
    }
}

impl Kind {
    /// Returns the conventional port of Electrum servers.
    pub(crate) fn port(self, network: Network) -> u16 {
        let tcp = match network {
            Network::Bitcoin => 50001,
            Network::Testnet => 60001,
            Network::Testnet4 => 40001,
            Network::Signet => 60601,
            Network::Regtest => 60401,
        };
        match self {
            Self::Tcp => tcp,
            Self::Tls => tcp + 1,
            Self::Ws => tcp + 2,
            Self::Wss => tcp + 3,
        }
    }
}

impl From<SocketAddr> for ListenAddr {
    fn from(addr: SocketAddr) -> Self {
        Self { ip: addr.ip(), port: Some(addr.port()) }
    }
}

// === parsing ===

/// Parses an address with a port, like `127.0.0.1:7777`.
pub(super) fn socket_addr(text: &str) -> Result<SocketAddr> {
    if let Ok(addr) = text.parse() {
        return Ok(addr);
    }
    match text.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(ip)) => bail!("{text:?} needs a port, for example {ip}:7777"),
        Ok(IpAddr::V6(ip)) => bail!("{text:?} needs a port, for example [{ip}]:7777"),
        Err(_) => bail!("{text:?} is not an IP address with a port, for example 127.0.0.1:7777"),
    }
}

impl FromStr for ListenAddr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Ok(addr) = text.parse::<SocketAddr>() {
            return Ok(addr.into());
        }
        let wrong = || format!("{text:?} is not an IP address, for example 0.0.0.0 or 0.0.0.0:50002");
        Ok(Self { ip: text.parse().ok().with_context(wrong)?, port: None })
    }
}

impl FromStr for PublicHost {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("{text:?} is not a URL like ssl://electrum.example.org:50002 (tcp, ssl, ws, wss)");
        let (scheme, rest) = text.split_once("://").with_context(wrong)?;
        let kind = match scheme {
            "tcp" => Kind::Tcp,
            "ssl" | "tls" => Kind::Tls,
            "ws" => Kind::Ws,
            "wss" => Kind::Wss,
            _ => bail!(wrong()),
        };
        let (name, port) = match rest.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port.parse().with_context(wrong)?)),
            _ => (rest, None),
        };
        let name = name.trim_matches(['[', ']']).to_ascii_lowercase();
        if name.is_empty() || name.contains(['/', ' ']) {
            bail!(wrong());
        }
        Ok(Self { kind, name, port })
    }
}

impl FromStr for PubkeyText {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("{text:?} is not a public key: use 64 lowercase hexadecimal digits, or npub1..");
        if let Some(pubkey) = Pubkey::parse(text) {
            return Ok(Self(pubkey));
        }
        let (prefix, bytes) = bech32::decode(text).ok().with_context(wrong)?;
        ensure!(prefix.as_str() == "npub", wrong());
        Ok(Self(Pubkey(bytes.try_into().ok().with_context(wrong)?)))
    }
}

impl FromStr for DiskSize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("{text:?} is not a size like 30GB (KB, MB, GB, TB, MiB, GiB, TiB)");
        let digits = text.find(|char: char| !char.is_ascii_digit()).with_context(wrong)?;
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let (_, bytes) = DISK_UNITS.into_iter().find(|(name, _)| *name == unit).with_context(wrong)?;
        let number: u64 = number.parse().ok().with_context(wrong)?;
        number.checked_mul(bytes).map(Self).with_context(wrong)
    }
}

impl FromStr for KindRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let kind = |digits: &str| digits.trim().parse().ok();
        let range = kind(first).zip(kind(last)).filter(|(first, last)| first <= last);
        let (first, last) =
            range.with_context(|| format!("{text:?} is not a kind from 0 to 65535, or a range like 30000-39999"))?;
        Ok(Self(first..=last))
    }
}

impl TryFrom<KindOrText> for KindRange {
    type Error = Error;

    fn try_from(given: KindOrText) -> Result<Self> {
        match given {
            KindOrText::Kind(kind) => Ok(Self(kind..=kind)),
            KindOrText::Text(text) => text.parse(),
        }
    }
}

/// The configuration file writes these types as flags do.
macro_rules! from_text {
    ($($type:ty),+) => {$(
        impl TryFrom<String> for $type {
            type Error = Error;

            fn try_from(text: String) -> Result<Self> {
                text.parse()
            }
        }
    )+};
}

from_text!(DiskSize, ListenAddr, PublicHost, PubkeyText);

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit() {
        for (text, bytes) in [("30GB", 30_000_000_000), ("2 tb", 2_000_000_000_000), ("500MiB", 500 << 20), ("0KB", 0)]
        {
            assert_eq!(text.parse::<DiskSize>().unwrap(), DiskSize(bytes));
        }
        for wrong in ["30", "GB", "", "-1GB", "1.5GB", "30GBs", "99999999999TB", "3 0GB"] {
            assert!(wrong.parse::<DiskSize>().unwrap_err().to_string().contains("30GB"), "{wrong}");
        }
    }

    #[test]
    fn an_address_without_a_port_is_refused_with_an_example() {
        assert_eq!(socket_addr("127.0.0.1:7777").unwrap().port(), 7777);
        let error = |text: &str| socket_addr(text).unwrap_err().to_string();
        assert_eq!(error("127.0.0.1"), "\"127.0.0.1\" needs a port, for example 127.0.0.1:7777");
        assert_eq!(error("::1"), "\"::1\" needs a port, for example [::1]:7777");
        assert!(error("localhost:7777").contains("is not an IP address with a port"));
    }

    #[test]
    fn authors_are_written_in_hexadecimal_or_as_npub() {
        // The example of NIP-19.
        let hex = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e";
        let npub = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg";
        assert_eq!(npub.parse::<PubkeyText>().unwrap(), hex.parse().unwrap());
        let nsec = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5";
        for wrong in ["", "7e7e", nsec, &hex.to_uppercase()] {
            assert!(wrong.parse::<PubkeyText>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn kinds_are_single_or_ranges() {
        let parse = |text: &str| text.parse::<KindRange>().ok().map(|KindRange(range)| range);
        assert_eq!((parse("1"), parse("30000-39999")), (Some(1..=1), Some(30_000..=39_999)));
        for wrong in ["", "-1", "2-1", "65536", "1-", "a"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
