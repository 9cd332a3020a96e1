//! Settings of the relay as the types of `birdhouse-relay`.

use std::collections::HashSet;
use std::time::Duration;

use birdhouse_clients::Given;
use birdhouse_events::{Pubkey, Retention, RetentionRule, UnknownKeys};
use birdhouse_net::Connections;
use birdhouse_relay::{
    Compression, Description, EoseHints, FreeDisk, Kinds, KindsRate, Lists, PluginSettings, Policy, PrivateMessages,
    RatedBy, Settings, WhenBroken,
};

use crate::config::{
    KindRange, Options, PubkeyText, RateOf, RateOptions, Readers, RetentionOptions, Switch, UnknownKeysName,
    WhenBrokenName,
};
use crate::sockets::listeners;

/// Returns the settings of the relay, without its members: they need its key.
pub(super) fn settings(options: &Options) -> Settings {
    let default = Description::default();
    let hex = |PubkeyText(pubkey)| pubkey.to_string();
    Settings {
        description: Description {
            name: options.relay_name.clone().unwrap_or(default.name),
            description: options.relay_description.clone().unwrap_or(default.description),
            pubkey: options.relay_pubkey.map(hex),
            own_pubkey: options.relay_self.map(hex),
            contact: options.relay_contact.clone(),
            icon: options.relay_icon.clone(),
            banner: options.relay_banner.clone(),
            terms_of_service: options.relay_terms_of_service.clone(),
        },
        limits: options.limits.clone().unwrap_or_default().relay(),
        private_messages: match options.relay_private_messages {
            Some(Readers::Everyone) => PrivateMessages::ForEveryone,
            Some(Readers::Participants) | None => PrivateMessages::ForParticipants,
        },
        unknown_keys: match options.relay_unknown_keys {
            Some(UnknownKeysName::Refuse) => UnknownKeys::Unsupported,
            Some(UnknownKeysName::Ignore) | None => UnknownKeys::Ignored,
        },
        eose_hints: match options.relay_eose_hints {
            Some(Switch::On) => EoseHints::On,
            Some(Switch::Off) | None => EoseHints::Off,
        },
        proxies: options.relay_proxy_from.clone().unwrap_or_default(),
        pages: listeners::web_pages(options),
        compression: match options.relay_compression {
            Some(Switch::Off) => Compression::Off,
            Some(Switch::On) | None => Compression::Deflate,
        },
        policy: policy(options),
        members: None,
        plugin: options.relay_plugin.clone().map(|command| PluginSettings {
            command,
            broken: match options.relay_plugin_broken {
                Some(WhenBrokenName::Accept) => WhenBroken::Accept,
                Some(WhenBrokenName::Refuse) | None => WhenBroken::Refuse,
            },
        }),
        retention: retention(options),
        disk: FreeDisk::default(),
        connections: Connections::default(),
        reads: std::sync::Arc::default(),
    }
}

fn authors(list: &[PubkeyText]) -> HashSet<Pubkey> {
    list.iter().map(|PubkeyText(pubkey)| *pubkey).collect()
}

fn kinds(list: &[KindRange]) -> Kinds {
    list.iter().map(|KindRange(range)| range.clone()).collect()
}

/// Returns the rules of retention.
pub(crate) fn retention(options: &Options) -> Retention {
    Retention(options.relay_retention.iter().flatten().map(retention_rule).collect())
}

fn retention_rule(rule: &RetentionOptions) -> RetentionRule {
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    RetentionRule {
        kinds: rule.kinds.as_deref().map(kinds),
        authors: rule.authors.as_deref().map(authors),
        larger_than: rule.larger_than.map(|Given(bytes)| bytes),
        seconds: rule.time.map(|Given(time)| seconds(time)),
        bytes: rule.bytes.map(|Given(bytes)| bytes),
    }
}

fn policy(options: &Options) -> Policy {
    let rates =
        options.relay_rate.iter().flatten().map(|RateOptions { kinds: of_kinds, of, rate: Given(rate) }| KindsRate {
            kinds: of_kinds.as_deref().map(kinds),
            of: match of {
                RateOf::Client => RatedBy::Client,
                RateOf::Author => RatedBy::Author,
            },
            rate: *rate,
        });
    Policy {
        admins: options.relay_admins.as_deref().map(authors).unwrap_or_default(),
        authors: Lists {
            allow: options.relay_allow_authors.as_deref().map(authors),
            deny: options.relay_deny_authors.as_deref().map(authors).unwrap_or_default(),
        },
        kinds: Lists {
            allow: options.relay_allow_kinds.as_deref().map(kinds),
            deny: options.relay_deny_kinds.as_deref().map(kinds).unwrap_or_default(),
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
    use birdhouse_clients::Rate;

    use super::*;
    use crate::config::parse_file;

    #[test]
    fn what_the_file_says_of_the_relay_is_what_it_does() {
        let file = r#"
            relay-allow-kinds = [0, "1-9"]
            relay-deny-from = ["203.0.113.0/24"]
            relay-private-messages = "everyone"
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

            [[relay-retention]]
            kinds = [4, 1059]

            [[relay-retention]]
            larger-than = 50000
            time = "30 d"
            bytes = 1000000000
        "#;
        let settings = settings(&parse_file(file).unwrap());
        assert_eq!(settings.policy.kinds.allow, Some(vec![0..=0, 1..=9]));
        assert_eq!(settings.policy.addresses.deny, ["203.0.113.0/24".parse().unwrap()]);
        assert_eq!(settings.private_messages, PrivateMessages::ForEveryone);
        assert_eq!(settings.plugin.unwrap().broken, WhenBroken::Accept);
        assert_eq!((settings.limits.difficulty, settings.limits.client_events), (20, Some(Rate::per_minute(60))));
        assert_eq!(settings.limits.created_at_behind.unwrap().as_secs(), 30 * 86_400);
        let [rate] = &settings.policy.rates[..] else { panic!("one rate") };
        assert_eq!(
            (&rate.kinds, rate.of, rate.rate.count),
            (&Some(vec![7..=7, 20_000..=29_999]), RatedBy::Author, 100)
        );
        let [kept, large] = &settings.retention.0[..] else { panic!("two rules") };
        assert_eq!((&kept.kinds, kept.seconds, kept.bytes), (&Some(vec![4..=4, 1059..=1059]), None, None));
        assert_eq!(
            (&large.kinds, large.larger_than, large.seconds, large.bytes),
            (&None, Some(50_000), Some(30 * 86_400), Some(1_000_000_000))
        );
        for wrong in
            ["relay-allow-kinds = [70000]", "relay-allow-authors = [\"me\"]", "[limits.relay]\nfilters = \"none\""]
        {
            assert!(parse_file(wrong).is_err(), "{wrong}");
        }
    }
}
