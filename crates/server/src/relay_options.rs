//! What the operator says of the relay, as types: whose events, which kinds, how many.

use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};
use birdhouse_clients::{Given, Rate};
use birdhouse_events::{Pubkey, UnknownKeys};
use birdhouse_relay::{
    Compression, Description, KindsRate, Lists, PluginSettings, Policy, PrivateMessages, RatedBy, Settings, WhenBroken,
};
use bitcoin::bech32;
use clap::ValueEnum;
use serde::Deserialize;

use crate::config::{Options, Switch};

/// An author: 64 hexadecimal digits, or npub (NIP-19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PubkeyText(Pubkey);

/// A kind or several: `1`, `30000-39999`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "KindOrText")]
pub(crate) struct KindRange(RangeInclusive<u16>);

/// In the file one kind may be a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum KindOrText {
    Kind(u16),
    Text(String),
}

/// Who may read private messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Readers {
    /// Author and recipients.
    People,
    /// All.
    Everybody,
}

/// What becomes of filters that say more than is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UnknownKeysName {
    /// They are answered without that.
    Ignore,
    /// They are refused.
    Refuse,
}

/// What happens to events while the plugin is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WhenBrokenName {
    /// They are refused.
    Refuse,
    /// They are taken.
    Accept,
}

/// Whose events are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// A client's.
    Client,
    /// An author's.
    Author,
}

/// One `[[relay-rate]]` of the configuration file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RateOptions {
    /// Default: all.
    kinds: Option<Vec<KindRange>>,
    of: Of,
    rate: Given<Rate>,
}

impl FromStr for PubkeyText {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("{text:?} is no public key: 64 hexadecimal digits, or npub1..");
        if let Some(pubkey) = Pubkey::parse(text) {
            return Ok(Self(pubkey));
        }
        let (prefix, bytes) = bech32::decode(text).ok().with_context(wrong)?;
        ensure!(prefix.as_str() == "npub", wrong());
        Ok(Self(Pubkey(bytes.try_into().ok().with_context(wrong)?)))
    }
}

impl TryFrom<String> for PubkeyText {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for KindRange {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let kind = |digits: &str| digits.trim().parse().ok();
        let range = kind(first).zip(kind(last)).filter(|(first, last)| first <= last);
        let (first, last) = range.with_context(|| format!("{text:?} is no kind, or kinds like 30000-39999"))?;
        Ok(Self(first..=last))
    }
}

impl TryFrom<KindOrText> for KindRange {
    type Error = anyhow::Error;

    fn try_from(said: KindOrText) -> Result<Self> {
        match said {
            KindOrText::Kind(kind) => Ok(Self(kind..=kind)),
            KindOrText::Text(text) => text.parse(),
        }
    }
}

/// The relay that the options ask for.
pub(crate) fn settings(options: &Options) -> Settings {
    let usual = Description::default();
    let pubkey = options.relay_pubkey.map(|PubkeyText(pubkey)| pubkey.to_string());
    Settings {
        description: Description {
            name: options.relay_name.clone().unwrap_or(usual.name),
            description: options.relay_description.clone().unwrap_or(usual.description),
            pubkey,
            contact: options.relay_contact.clone(),
        },
        limits: options.limits.clone().unwrap_or_default().of_relay(),
        private_messages: match options.relay_private_messages {
            Some(Readers::Everybody) => PrivateMessages::ForEverybody,
            Some(Readers::People) | None => PrivateMessages::ForTheirPeople,
        },
        unknown_keys: match options.relay_unknown_keys {
            Some(UnknownKeysName::Refuse) => UnknownKeys::Unsupported,
            Some(UnknownKeysName::Ignore) | None => UnknownKeys::Ignored,
        },
        proxies: options.relay_proxy_from.clone().unwrap_or_default(),
        compression: match options.relay_compression {
            Some(Switch::Off) => Compression::Off,
            Some(Switch::On) | None => Compression::Deflate,
        },
        policy: policy(options),
        plugin: options.relay_plugin.clone().map(|command| PluginSettings {
            command,
            broken: match options.relay_plugin_broken {
                Some(WhenBrokenName::Accept) => WhenBroken::Accept,
                Some(WhenBrokenName::Refuse) | None => WhenBroken::Refuse,
            },
        }),
    }
}

fn policy(options: &Options) -> Policy {
    let authors = |list: &Vec<PubkeyText>| list.iter().map(|PubkeyText(pubkey)| *pubkey).collect();
    let kinds = |list: &Vec<KindRange>| list.iter().map(|KindRange(range)| range.clone()).collect();
    let rates =
        options.relay_rate.iter().flatten().map(|RateOptions { kinds: of_kinds, of, rate: Given(rate) }| KindsRate {
            kinds: of_kinds.as_ref().map(kinds),
            of: match of {
                Of::Client => RatedBy::Client,
                Of::Author => RatedBy::Author,
            },
            rate: *rate,
        });
    Policy {
        authors: Lists {
            allow: options.relay_allow_authors.as_ref().map(authors),
            deny: options.relay_deny_authors.as_ref().map(authors).unwrap_or_default(),
        },
        kinds: Lists {
            allow: options.relay_allow_kinds.as_ref().map(kinds),
            deny: options.relay_deny_kinds.as_ref().map(kinds).unwrap_or_default(),
        },
        addresses: Lists {
            allow: options.relay_allow_from.clone(),
            deny: options.relay_deny_from.clone().unwrap_or_default(),
        },
        rates: rates.collect(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::parse_file;

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

    #[test]
    fn what_the_file_says_of_the_relay_is_what_it_does() {
        let file = r#"
            relay-allow-kinds = [0, "1-9"]
            relay-deny-from = ["203.0.113.0/24"]
            relay-private-messages = "everybody"
            relay-plugin = "/usr/local/bin/policy"
            relay-plugin-broken = "accept"

            [limits.relay]
            difficulty = 20
            created-at-behind = "30 d"
            client-events = "60/min"

            [[relay-rate]]
            kinds = [7, "20000-29999"]
            of = "author"
            rate = "100/h"
        "#;
        let settings = settings(&parse_file(file).unwrap());
        assert_eq!(settings.policy.kinds.allow, Some(vec![0..=0, 1..=9]));
        assert_eq!(settings.policy.addresses.deny, ["203.0.113.0/24".parse().unwrap()]);
        assert_eq!(settings.private_messages, PrivateMessages::ForEverybody);
        assert_eq!(settings.plugin.unwrap().broken, WhenBroken::Accept);
        assert_eq!((settings.limits.difficulty, settings.limits.client_events), (20, Some(Rate::per_minute(60))));
        assert_eq!(settings.limits.created_at_behind.unwrap().as_secs(), 30 * 86_400);
        let [rate] = &settings.policy.rates[..] else { panic!("one rate") };
        assert_eq!(
            (&rate.kinds, rate.of, rate.rate.count),
            (&Some(vec![7..=7, 20_000..=29_999]), RatedBy::Author, 100)
        );
        for wrong in
            ["relay-allow-kinds = [70000]", "relay-allow-authors = [\"me\"]", "[limits.relay]\nfilters = \"none\""]
        {
            assert!(parse_file(wrong).is_err(), "{wrong}");
        }
    }
}
