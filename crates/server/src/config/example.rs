//! The example of a configuration file, made from the definitions of the flags and of the limits.

use std::fmt;

use birdhouse_electrum::Limits;
use clap::{Arg, CommandFactory as _};

use super::CommandLine;

/// The head of the file.
const HEAD: &str = "\
# Settings of Birdhouse, each with its default or an example. Every line is a comment: remove the first # of those
# that you want. `birdhouse config` shows what is in effect and where it comes from.
#
# Made by `birdhouse config --example`.
";
/// Tables that have no flag, but for the limits.
const TABLES: &str = r#"
# === Further listeners ===

# kind: tcp, tls, ws, wss, relay, relay-tls, rest, rest-tls, rest-private, watch-api, http, http-tls,
# blossom, blossom-tls, replicas or replicas-tls.
# proxy-from: reverse proxies that send a PROXY header.
#[[listener]]
#name = "onion"
#kind = "tcp"
#addr = "127.0.0.1:50011"
#proxy-from = ["127.0.0.1/32"]
#limits = "public"

# === Further rates of the relay ===

# of: client or author.
#[[relay-rate]]
#kinds = [7, "20000-29999"]
#of = "author"
#rate = "100/h"

# === How long the relay keeps events ===

# The first rule that covers an event decides; without time and bytes it keeps the event.
#[[relay-retention]]
#kinds = [0, 3, 4, 1059, "10000-19999"]
#[[relay-retention]]
#larger-than = 50000
#time = "30 d"
#[[relay-retention]]
#time = "365 d"
#bytes = 50000000000

# === Streams: events that pass from and to other relays as they are published ===

# dir: down (from the other relays), up (to them) or both. filter: a filter of NIP-01 as JSON.
# plugin: judges events that come, instead of relay-plugin. key-file: a secret key for NIP-42. proxy: SOCKS5.
#[[stream]]
#name = "friends"
#urls = ["wss://relay.example.org", "wss://other.example.org"]
#dir = "both"
#filter = '{"kinds":[0,1,3,10002]}'
#plugin = "/usr/local/bin/policy"
#key-file = "/etc/birdhouse.stream.nsec"
#proxy = "127.0.0.1:9050"
"#;
/// Text columns of the file.
const COLUMNS: usize = 100;

/// Returns the text of the example.
pub(crate) fn example() -> String {
    let command = CommandLine::command();
    let run = command.find_subcommand("run").expect("it is defined above");
    let mut text = HEAD.to_owned();
    let mut heading = None;
    for argument in run.get_arguments().filter(|argument| !["help", "config"].contains(&argument.get_id().as_str())) {
        if argument.is_hide_set() {
            continue;
        }
        if argument.get_help_heading() != heading {
            heading = argument.get_help_heading();
            push(&mut text, format_args!("\n# === {} ===\n", heading.unwrap_or("Other")));
        }
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        push(&mut text, format_args!("\n{}#{} = {}\n", comment(&help), name_of(argument), value(argument, &help)));
    }
    // A table reaches to the next one, so tables come last.
    text + TABLES + &limits()
}

/// Returns the name of a setting in the file.
pub(super) fn name_of(argument: &Arg) -> &str {
    argument.get_long().unwrap_or_else(|| argument.get_id().as_str())
}

/// Returns the default in the help of a setting, if it is a value.
pub(super) fn default_of(help: &str) -> Option<&str> {
    let default = help.rsplit_once("[default: ")?.1.strip_suffix(']')?;
    let default = default.split([';', ',']).next()?.trim();
    (!default.contains(' ') && !["all", "none"].contains(&default)).then_some(default)
}

/// Returns a value for a setting, as TOML: its default, or an example.
pub(super) fn value(argument: &Arg, help: &str) -> String {
    let kind = argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let default = default_of(help);
    if ["MIB", "N", "BLOCKS", "PERCENT"].contains(&kind) {
        return default.filter(|text| text.parse::<u64>().is_ok()).unwrap_or("2").to_owned();
    }
    let possible = argument.get_possible_values();
    let text = match (default, possible.first()) {
        (Some(default), Some(_)) if possible.iter().any(|value| value.matches(default, false)) => default,
        (_, Some(first)) => first.get_name(),
        (_, None) => plain(name_of(argument), kind, default),
    };
    format!("{text:?}")
}

/// Returns a default or an example of a value that is no number and has no fixed choices.
fn plain<'a>(name: &str, kind: &str, default: Option<&'a str>) -> &'a str {
    match (name, kind) {
        ("node-dir", _) => "/var/lib/bitcoind",
        ("blocks-dir", _) => "/srv/blocks",
        ("store", _) => "cql://10.0.0.1,10.0.0.2,10.0.0.3/birdhouse",
        ("store-tls-ca", _) => "/etc/birdhouse.cluster-ca.pem",
        ("store-password-file", _) => "/etc/birdhouse.cluster-password",
        ("follow", _) => "https://primary.example.org:3002",
        ("replicas-addr", _) => "127.0.0.1:3002",
        ("replicas-tls-addr", _) => "0.0.0.0:3002",
        ("replica-secret-file", _) => "/etc/birdhouse.replica-secret",
        ("data-dir", _) => "/var/lib/birdhouse",
        ("build-temp-dir", _) => "/mnt/fast",
        ("node-prune-keep", _) => "30GB",
        ("rpc-addr", _) => "127.0.0.1:8332",
        ("store-user" | "rpc-user", _) => "birdhouse",
        ("rpc-password-file", _) => "/etc/birdhouse.rpc-password",
        ("rpc-cookie-file", _) => "/var/lib/bitcoind/.cookie",
        ("zmq-sequence-addr", _) => "127.0.0.1:28332",
        ("tor-control-addr", _) => "127.0.0.1:9051",
        ("tls-cert", _) => "/etc/letsencrypt/live/example.org/fullchain.pem",
        ("tls-key", _) => "/etc/letsencrypt/live/example.org/privkey.pem",
        ("relay-url", _) => "wss://relay.example.org",
        ("relay-writer", _) => "http://10.0.0.1:3002",
        ("relay-icon", _) => "https://relay.example.org/icon.png",
        ("relay-banner", _) => "https://relay.example.org/banner.png",
        ("relay-terms-of-service", _) => "https://relay.example.org/terms",
        ("blossom-addr" | "blossom-tls-addr", _) => "127.0.0.1:3070",
        ("blossom-url", _) => "https://media.example.org",
        ("blossom-types", _) => "image/*",
        ("watch-file", _) => "/etc/birdhouse.watches.toml",
        ("ops-addr", _) => "127.0.0.1:9400",
        ("ops-host", _) => "birdhouse.lan",
        ("web-origin", _) => "https://client.example.org",
        ("rest-addr" | "rest-tls-addr", _) => "127.0.0.1:3000",
        ("rest-private-addr", _) => "127.0.0.1:3001",
        ("watch-api-addr", _) => "127.0.0.1:3060",
        ("watch-api-token-file", _) => "/etc/birdhouse.watch-api-token",
        ("http-addr", _) => "127.0.0.1:8080",
        ("http-tls-addr", _) => "127.0.0.1:8443",
        ("electrum-addr", _) => "127.0.0.1",
        ("server-name", _) => "Birdhouse (ElectrumX-compatible)",
        (_, "IP[:PORT]") => "0.0.0.0",
        (_, "IP:PORT") => "127.0.0.1:7777",
        (_, "URL") => "ssl://electrum.example.org:50002",
        (_, "NETWORK") => "10.0.0.0/8",
        (_, "KIND") => "0-9,30000-39999",
        (_, "PUBKEY") => "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg",
        (_, "URI") => "mailto:owner@example.org",
        (_, "COMMAND") => "/usr/local/bin/policy",
        (_, "LEVEL") => default.unwrap_or("info"),
        (_, "DIR" | "FILE") => "/srv/file",
        _ => "..",
    }
}

/// Appends formatted text.
fn push(text: &mut String, more: fmt::Arguments<'_>) {
    fmt::Write::write_fmt(text, more).expect("writing to memory never fails");
}

/// Returns a text as lines of comments.
fn comment(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, String::len);
        if last + 1 + word.len() > COLUMNS {
            lines.push("#".into());
        }
        let line = lines.last_mut().expect("there is always one");
        line.push(' ');
        line.push_str(word);
    }
    lines.join("\n") + "\n"
}

/// Returns the tables of limits, from those of the manual.
fn limits() -> String {
    let mut text = String::new();
    let tables: [(&str, &str, usize, String); 6] = [
        ("public", "Limits for unknown clients of wallets' listeners", 2, Limits::manual()),
        ("private", "Limits for the operator's own clients", 3, Limits::manual()),
        (
            "server",
            "Limits that all listeners of wallets share; the first three hold for REST and relay, too",
            2,
            Limits::manual(),
        ),
        ("relay", "Limits of the relay", 2, birdhouse_relay::Limits::manual()),
        ("rest", "Limits of the REST API", 2, birdhouse_esplora::Limits::manual()),
        ("blossom", "Limits of the media store", 2, birdhouse_blossom::Limits::manual()),
    ];
    for (name, title, column, manual) in tables {
        push(&mut text, format_args!("\n# === {title} ===\n\n#[limits.{name}]\n"));
        let wanted = usize::from(name == "server");
        for row in manual.split("\n\n").nth(wanted).unwrap_or_default().lines() {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let (Some(setting), Some(value)) = (cells[0].strip_prefix('`'), cells.get(column)) else { continue };
            push(
                &mut text,
                format_args!("{}#{} = {}\n", comment(cells[1]), setting.trim_end_matches('`'), limit(value)),
            );
        }
    }
    text
}

/// Returns a limit of the manual as TOML: `10 000` is a number, `5 min` a text.
fn limit(value: &str) -> String {
    let digits = value.replace(' ', "_");
    if digits.replace('_', "").parse::<u64>().is_ok() { digits } else { format!("{value:?}") }
}
