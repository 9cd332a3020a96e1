//! TOML to settings, with the line of each mistake.

use std::collections::HashSet;
use std::time::Duration;

use birdhouse_descriptors::{Steps, parse};
use bitcoin::hex::FromHex as _;
use bitcoin::{Network, OutPoint};
use serde::Deserialize;
use toml::Spanned;

use crate::file::names::{ChannelName, WatchName};
use crate::file::settings::{
    ChannelKind, ChannelSettings, Directions, HealthSettings, InvoiceChange, Source, WatchFile, WatchSettings,
};
use crate::limits::{
    CHANNELS_MAX, CONFIRMATIONS_MAX, GAP_DEFAULT, GAP_MAX, HEALTH_AFTER_DEFAULT, HEALTH_AFTER_MAX, LEVELS_MAX,
    NAME_CHARS_MAX, SCRIPT_CHARS_MAX, WATCHES_MAX,
};

/// Confirmations that a watch tells unless it says otherwise.
const LEVELS: [u32; 3] = [0, 1, 6];

/// A mistake of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// Its line, from 1 on, where it is known.
    pub line: Option<usize>,
    /// The mistake.
    pub message: String,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "line {line}: {}", self.message),
            None => formatter.write_str(&self.message),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawFile {
    explorer: Option<String>,
    #[serde(default)]
    channel: Vec<Spanned<RawChannel>>,
    #[serde(default)]
    watch: Vec<Spanned<RawWatch>>,
    #[serde(default)]
    health: RawHealth,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawHealth {
    #[serde(default)]
    channels: Vec<String>,
    /// Seconds.
    after: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawChannel {
    name: String,
    kind: Kind,
    amounts: Option<bool>,
    to: Option<String>,
    relays: Option<Vec<String>>,
    url: Option<String>,
    token: Option<String>,
    secrets: Option<Vec<String>>,
    from: Option<String>,
    server: Option<String>,
    user: Option<String>,
    password: Option<String>,
    command: Option<Vec<String>>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Nostr,
    Ntfy,
    Webhook,
    Mail,
    Command,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawWatch {
    name: String,
    descriptor: Option<String>,
    xpub: Option<String>,
    address: Option<String>,
    script: Option<String>,
    outpoint: Option<String>,
    silent_payment: Option<String>,
    gap: Option<u32>,
    #[serde(default)]
    from_height: u32,
    #[serde(default)]
    tell_history: bool,
    #[serde(default)]
    directions: Directions,
    #[serde(default)]
    least_amount: u64,
    confirmations: Option<Vec<u32>>,
    #[serde(default)]
    cold: bool,
    #[serde(default)]
    invoices: Vec<InvoiceChange>,
    #[serde(default)]
    channels: Vec<String>,
}

impl WatchFile {
    /// Parses and checks a file for a network.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str, network: Network) -> Result<Self, FileError> {
        let raw: RawFile = toml::from_str(text).map_err(|error| FileError {
            line: error.span().map(|span| line_of(text, span.start)),
            message: without_value(error.message()),
        })?;
        let at = |start: usize| move |message: String| FileError { line: Some(line_of(text, start)), message };
        let mut file = Self::default();
        for channel in raw.channel {
            let at = at(channel.span().start);
            let channel = channel.into_inner().settings().map_err(&at)?;
            if file.channels.iter().any(|other| other.name == channel.name) {
                return Err(at(format!("two channels have the name \"{}\"", channel.name)));
            }
            file.channels.push(channel);
        }
        let channels: HashSet<ChannelName> = file.channels.iter().map(|channel| channel.name.clone()).collect();
        for watch in raw.watch {
            let at = at(watch.span().start);
            let watch = watch.into_inner().settings(network, &channels).map_err(&at)?;
            if file.watches.iter().any(|other| other.name == watch.name) {
                return Err(at(format!("two watches have the name \"{}\"", watch.name)));
            }
            file.watches.push(watch);
        }
        if let Some(url) = raw.explorer {
            if !url.starts_with("http://") && !url.starts_with("https://") {
                let message = "explorer is a URL such as http://192.0.2.7:8080".to_owned();
                return Err(FileError { line: None, message });
            }
            file.explorer = Some(url);
        }
        file.health = raw.health.settings(&channels).map_err(|message| FileError { line: None, message })?;
        if file.channels.len() > CHANNELS_MAX || file.watches.len() > WATCHES_MAX {
            let message = format!("a file has at most {WATCHES_MAX} watches and {CHANNELS_MAX} channels");
            return Err(FileError { line: None, message });
        }
        Ok(file)
    }
}

/// Returns a message of the parser without the value of the file in it, which may be a secret: of
/// `invalid type: string "..", expected a sequence` the kind of the value stays.
fn without_value(message: &str) -> String {
    let parts = message.split_once(": ").filter(|(what, _)| what.starts_with("invalid "));
    let parts = parts.and_then(|(what, rest)| Some((what, rest.rsplit_once(", expected ")?)));
    let Some((what, (value, expected))) = parts else { return message.to_owned() };
    let kind = value.split(['"', '`']).next().unwrap_or_default().trim_end();
    format!("{what}: {kind}, expected {expected}")
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].split(|byte| *byte == b'\n').count()
}

fn checked_name(name: &str) -> Result<(), String> {
    let is_good = !name.trim().is_empty() && name.trim() == name && !name.chars().any(char::is_control);
    if is_good && name.chars().count() <= NAME_CHARS_MAX {
        return Ok(());
    }
    Err(format!("a name has 1 to {NAME_CHARS_MAX} characters, none of them for control, and no space at its ends"))
}

fn known(names: Vec<String>, channels: &HashSet<ChannelName>) -> Result<Vec<ChannelName>, String> {
    let names = names.into_iter().map(ChannelName::new);
    let check = |name: ChannelName| {
        if channels.contains(&name) { Ok(name) } else { Err(format!("no channel has the name \"{name}\"")) }
    };
    names.map(check).collect()
}

// === impl RawHealth ===

impl RawHealth {
    fn settings(self, channels: &HashSet<ChannelName>) -> Result<HealthSettings, String> {
        let after = self.after.map_or(HEALTH_AFTER_DEFAULT, Duration::from_secs);
        if after.is_zero() || after > HEALTH_AFTER_MAX {
            return Err(format!("`after` of [health] is 1 to {} seconds", HEALTH_AFTER_MAX.as_secs()));
        }
        Ok(HealthSettings { channels: known(self.channels, channels)?, after })
    }
}

// === impl RawChannel ===

impl RawChannel {
    fn settings(mut self) -> Result<ChannelSettings, String> {
        checked_name(&self.name)?;
        let kind = self.take_kind()?;
        if let Some(key) = self.left() {
            return Err(format!("a channel of kind \"{}\" has no key `{key}`", kind.name()));
        }
        let amounts = self.amounts.unwrap_or(matches!(kind, ChannelKind::Nostr { .. }));
        Ok(ChannelSettings { name: ChannelName::new(self.name), kind, amounts })
    }

    fn take_kind(&mut self) -> Result<ChannelKind, String> {
        let needs = |key: &str, value: Option<String>| value.ok_or(format!("this channel needs the key `{key}`"));
        Ok(match self.kind {
            Kind::Nostr => {
                ChannelKind::Nostr { to: needs("to", self.to.take())?, relays: self.relays.take().unwrap_or_default() }
            }
            Kind::Ntfy => ChannelKind::Ntfy { url: needs("url", self.url.take())?, token: self.token.take() },
            Kind::Webhook => ChannelKind::Webhook {
                url: needs("url", self.url.take())?,
                secrets: self.secrets.take().unwrap_or_default(),
            },
            Kind::Mail => ChannelKind::Mail {
                to: needs("to", self.to.take())?,
                from: needs("from", self.from.take())?,
                server: needs("server", self.server.take())?,
                user: self.user.take(),
                password: self.password.take(),
            },
            Kind::Command => match self.command.take().filter(|argv| !argv.is_empty()) {
                Some(argv) => ChannelKind::Command { argv },
                None => {
                    return Err("this channel needs the key `command`, a list: the program and its arguments".into());
                }
            },
        })
    }

    /// The first key that the kind did not take.
    fn left(&self) -> Option<&'static str> {
        let keys = [
            ("to", self.to.is_some()),
            ("relays", self.relays.is_some()),
            ("url", self.url.is_some()),
            ("token", self.token.is_some()),
            ("secrets", self.secrets.is_some()),
            ("from", self.from.is_some()),
            ("server", self.server.is_some()),
            ("user", self.user.is_some()),
            ("password", self.password.is_some()),
            ("command", self.command.is_some()),
        ];
        keys.into_iter().find(|(_, is_there)| *is_there).map(|(key, _)| key)
    }
}

// === impl RawWatch ===

impl RawWatch {
    fn settings(self, network: Network, channels: &HashSet<ChannelName>) -> Result<WatchSettings, String> {
        checked_name(&self.name)?;
        let gap = self.gap.unwrap_or(GAP_DEFAULT);
        if !(1..=GAP_MAX).contains(&gap) {
            return Err(format!("the gap is 1 to {GAP_MAX}"));
        }
        let mut confirmations = self.confirmations.unwrap_or(LEVELS.to_vec());
        confirmations.sort_unstable();
        confirmations.dedup();
        let is_beyond = confirmations.last().is_none_or(|most| *most > CONFIRMATIONS_MAX);
        if is_beyond || confirmations.len() > LEVELS_MAX {
            return Err(format!("`confirmations` are 1 to {LEVELS_MAX} numbers of at most {CONFIRMATIONS_MAX}"));
        }
        let sources = [
            self.descriptor.map(Source::Descriptor),
            self.xpub.map(Source::Descriptor),
            self.address.map(Source::Descriptor),
            self.script.map(Source::Script),
            self.outpoint.map(Source::Outpoint),
            self.silent_payment.map(Source::SilentPayment),
        ];
        let mut sources = sources.into_iter().flatten();
        let (Some(source), None) = (sources.next(), sources.next()) else {
            return Err("a watch has one of: descriptor, xpub, address, script, outpoint, silent-payment".into());
        };
        source.check(network)?;
        Ok(WatchSettings {
            name: WatchName::new(self.name),
            source,
            gap,
            history_from: self.tell_history.then_some(self.from_height),
            directions: self.directions,
            least_amount: self.least_amount,
            confirmations,
            is_cold: self.cold,
            invoices: self.invoices,
            channels: known(self.channels, channels)?,
        })
    }
}

impl Source {
    /// Checks that it names scripts of a network.
    ///
    /// # Errors
    /// The mistake, in words.
    pub fn check(&self, network: Network) -> Result<(), String> {
        match self {
            Self::Descriptor(text) => {
                parse(text.trim(), network, &mut Steps::default()).map_err(|reason| reason.to_string())?;
            }
            Self::Script(hex) => {
                let is_script =
                    hex.len() <= SCRIPT_CHARS_MAX && Vec::<u8>::from_hex(hex).is_ok_and(|it| !it.is_empty());
                if !is_script {
                    return Err("`script` is the script of an output in hexadecimal".into());
                }
            }
            Self::Outpoint(text) => {
                text.parse::<OutPoint>().map_err(|_| "`outpoint` is a txid, a colon and a number".to_owned())?;
            }
            Self::SilentPayment(text) => {
                birdhouse_silentpayments::scan_key(text.trim(), network).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The second test vector of BIP 32, and its form of SLIP 132.
    const XPUB: &str = "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8";
    const ZPUB: &str = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs";
    const XPRV: &str = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi";

    fn mistake(text: &str) -> String {
        WatchFile::parse(text, Network::Bitcoin).unwrap_err().to_string()
    }

    fn of_source(key: &str, source: &str) -> Result<WatchFile, FileError> {
        WatchFile::parse(&format!("\n[[watch]]\nname = \"w\"\n{key} = \"{source}\"\n"), Network::Bitcoin)
    }

    #[test]
    fn a_file_has_channels_and_watches_with_defaults() {
        let text = format!(
            "[[channel]]\nname = \"me\"\nkind = \"nostr\"\nto = \"npub1\"\n\
             [[channel]]\nname = \"topic\"\nkind = \"ntfy\"\nurl = \"https://ntfy.sh/x\"\n\
             [[watch]]\nname = \"Savings\"\nxpub = \"{ZPUB}\"\ncold = true\nchannels = [\"me\"]\n\
             [health]\nchannels = [\"topic\"]\n"
        );
        let file = WatchFile::parse(&text, Network::Bitcoin).unwrap();
        assert_eq!(file.channels.iter().map(|channel| channel.amounts).collect::<Vec<_>>(), [true, false]);
        let watch = &file.watches[0];
        assert_eq!((watch.gap, &watch.confirmations[..], watch.history_from), (20, &[0, 1, 6][..], None));
        assert!(
            watch.is_cold && watch.channels == file.channels[..1].iter().map(|it| it.name.clone()).collect::<Vec<_>>()
        );
        assert_eq!(file.health.channels, [file.channels[1].name.clone()]);
        assert_eq!(file.health.after, Duration::from_mins(1));
        let file = WatchFile::parse(&format!("{text}after = 600\n"), Network::Bitcoin).unwrap();
        assert_eq!(file.health.after, Duration::from_mins(10));
        assert!(of_source("descriptor", &format!("wpkh([d34db33f/84h/0h/0h]{XPUB}/<0;1>/*)")).is_ok());
        assert!(of_source("address", "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu").is_ok());
    }

    #[test]
    fn mistakes_have_their_line_and_their_reason() {
        for (key, source, reason) in [
            ("descriptor", format!("wpkh({XPRV}/0/*)"), "this is a private key: never give one to a server"),
            ("descriptor", format!("wpkh({XPUB}/0h/*)"), "a hardened step of derivation needs the private key"),
            ("descriptor", format!("wpkh({XPUB}/1/2/3/4/5/6/7/8/9/*)"), "a key has more than 8 steps of derivation"),
            ("descriptor", format!("wsh({}:pk({XPUB}))", "v".repeat(21)), "nests deeper than 20 levels"),
            ("address", "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080".into(), "of another network"),
            ("script", "zz".into(), "`script` is the script of an output in hexadecimal"),
            ("outpoint", "ab:1".into(), "`outpoint` is a txid, a colon and a number"),
            ("silent-payment", "sp(spspend1qqq)".into(), "this holds the private spend key"),
            ("silent-payment", "sp(tspscan1qqq)".into(), "the scan key is of another network"),
        ] {
            let found = of_source(key, &source).unwrap_err().to_string();
            assert!(found.starts_with("line 2: ") && found.contains(reason), "{key}: {found}");
        }
        assert!(mistake("[[watch]]\nname = \"w\"\nscirpt = \"51\"\n").starts_with("line 3: unknown field `scirpt`"));
        let two = "[[watch]]\nname = \"w\"\nscript = \"51\"\naddress = \"x\"\n";
        assert!(mistake(two).starts_with("line 1: a watch has one of"));
        let unknown = "[[watch]]\nname = \"w\"\nscript = \"51\"\nchannels = [\"me\"]\n";
        assert_eq!(mistake(unknown), "line 1: no channel has the name \"me\"");
        let other = "[[channel]]\nname = \"c\"\nkind = \"ntfy\"\nurl = \"x\"\nto = \"y\"\n";
        assert_eq!(mistake(other), "line 1: a channel of kind \"ntfy\" has no key `to`");
        // A value may be a secret in the wrong form.
        for (key, kind, expected) in [
            ("secrets = \"whsec_s3cret, expected x\"", "string", "a sequence"),
            ("password = 1234567890", "integer", "a string"),
            ("token = 12.5", "floating point", "a string"),
            ("token = [\"s3cret\"]", "sequence", "a string"),
        ] {
            let said = mistake(&format!("[[channel]]\nname = \"c\"\nkind = \"mail\"\n{key}\n"));
            assert_eq!(said, format!("line 4: invalid type: {kind}, expected {expected}"));
        }
        for after in [0, 86_401] {
            let said = mistake(&format!("[health]\nafter = {after}\n"));
            assert_eq!(said, "`after` of [health] is 1 to 86400 seconds");
        }
    }
}
