//! Tests of the documentation: the tables of limits, the configuration examples, the systemd unit.
#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_electrum::{Limits, ServerLimits};
use clap::Parser as _;

use crate::config::{Command, CommandLine, parse_file};
use crate::{ctl, ops};

const LIMITS_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/LIMITS.md");
/// The start of the generated part.
const FIRST_ROW: &str = "| of a listener |";
const LIMITS: &str = include_str!("../../../docs/LIMITS.md");
const PAGES: [&str; 4] = [
    include_str!("../../../README.md"),
    include_str!("../../../docs/listeners.md"),
    include_str!("../../../docs/relay.md"),
    LIMITS,
];
const UNIT: &str = include_str!("../../../contrib/birdhouse.service");

#[test]
fn every_limit_is_in_the_tables_with_default_and_consequence() {
    let operator = format!(
        "| Connections of metrics and health | {} | a new connection waits |\n\
         | Connections of `birdhouse ctl` | {} | a new connection waits |\n",
        ops::CONNECTIONS_MAX,
        ctl::CONNECTIONS_MAX,
    );
    let tables = Limits::manual()
        + &operator
        + "\n"
        + &birdhouse_relay::Limits::manual()
        + "\n"
        + &birdhouse_esplora::Limits::manual();
    let (text, _) = LIMITS.split_once(FIRST_ROW).expect("docs/LIMITS.md has the table of a listener");
    let current = format!("{text}{tables}");
    if std::env::var_os("BIRDHOUSE_GOLDEN").is_some() {
        std::fs::write(LIMITS_PATH, current).unwrap();
    } else {
        assert!(LIMITS == current, "docs/LIMITS.md is not current; run `make golden`");
    }
}

#[test]
fn the_configuration_examples_are_valid() {
    let examples: Vec<&str> = PAGES
        .iter()
        .flat_map(|text| text.split("```toml\n").skip(1))
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(examples.len(), 4);
    for example in examples {
        parse_file(example).unwrap_or_else(|error| panic!("{error:#}\n{example}"));
    }
}

/// Returns the value of a setting of the unit.
fn unit(name: &str) -> &str {
    UNIT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap()
}

#[test]
fn the_systemd_unit_starts_this_program_and_gives_it_time_to_stop() {
    let words = unit("ExecStart").split_whitespace();
    let command = CommandLine::try_parse_from(words).unwrap().command;
    let Command::Run { options } = command else { panic!("the unit runs another command") };
    assert_eq!(options.config.unwrap().to_str().unwrap(), "/etc/birdhouse.toml");
    let stop_seconds: u64 = unit("TimeoutStopSec").parse().unwrap();
    assert!(stop_seconds > ServerLimits::default().shutdown_timeout.as_secs() + 2);
}
