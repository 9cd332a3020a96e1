//! What the manual says is so: the table of limits, the examples of configuration, the unit of systemd.
#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_electrum::{Limits, ServerLimits};
use clap::Parser as _;

use crate::config::{Command, CommandLine, parse_file};
use crate::{ctl, ops};

const LIMITS: &str = include_str!("../../../docs/LIMITS.md");
const PAGES: [&str; 4] = [
    include_str!("../../../README.md"),
    include_str!("../../../docs/listeners.md"),
    include_str!("../../../docs/relay.md"),
    LIMITS,
];
const UNIT: &str = include_str!("../../../contrib/birdhouse.service");

#[test]
fn every_limit_is_in_the_table_with_its_default_and_what_happens() {
    let operator = format!(
        "| Connections of metrics and health | {} | the newcomer waits |\n\
         | Connections of `birdhouse ctl` | {} | the newcomer waits |\n",
        ops::CONNECTIONS_MAX,
        ctl::CONNECTIONS_MAX,
    );
    let tables = Limits::manual() + &operator + "\n" + &birdhouse_relay::Limits::manual();
    assert!(LIMITS.ends_with(&tables), "docs/LIMITS.md must end with these tables:\n\n{tables}");
}

#[test]
fn the_examples_of_configuration_are_understood() {
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

/// The value of a setting of the unit.
fn unit(name: &str) -> &str {
    UNIT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap()
}

#[test]
fn the_unit_of_systemd_starts_this_program_and_gives_it_time_to_end() {
    let words = unit("ExecStart").split_whitespace();
    let command = CommandLine::try_parse_from(words).unwrap().command;
    let Command::Run { options } = command else { panic!("it runs something else") };
    assert_eq!(options.config.unwrap().to_str().unwrap(), "/etc/birdhouse.toml");
    let stop_seconds: u64 = unit("TimeoutStopSec").parse().unwrap();
    assert!(stop_seconds > ServerLimits::default().shutdown.as_secs() + 2);
}
