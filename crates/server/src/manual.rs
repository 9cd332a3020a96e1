//! Tests of the documentation: the tables of limits, the configuration examples, the systemd unit.
#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_electrum::{Limits, ServerLimits};
use clap::{CommandFactory as _, Parser as _};

use crate::config::{Command, CommandLine, example, parse_file};
use crate::doctor::METHODS;
use crate::{ctl, ops};

const EXAMPLE_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/birdhouse.toml");
const EXAMPLE: &str = include_str!("../../../contrib/birdhouse.toml");
const LIMITS_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/LIMITS.md");
/// The start of the generated part.
const FIRST_ROW: &str = "| of a listener |";
const LIMITS: &str = include_str!("../../../docs/LIMITS.md");
const PAGES: [&str; 5] = [
    include_str!("../../../README.md"),
    include_str!("../../../docs/listeners.md"),
    include_str!("../../../docs/relay.md"),
    SERVICE,
    LIMITS,
];
const SERVICE: &str = include_str!("../../../docs/service.md");
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
    assert_eq!(examples.len(), 5);
    for example in examples {
        parse_file(example).unwrap_or_else(|error| panic!("{error:#}\n{example}"));
    }
}

#[test]
fn the_example_file_is_current_and_every_line_of_it_is_valid() {
    let current = example();
    if std::env::var_os("BIRDHOUSE_GOLDEN").is_some() {
        std::fs::write(EXAMPLE_PATH, &current).unwrap();
    } else {
        assert!(EXAMPLE == current, "contrib/birdhouse.toml is not current; run `make golden`");
    }
    assert!(parse_file(&current).unwrap().warnings().is_empty());
    let uncommented: Vec<&str> = current
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
            _ => line,
        })
        .collect();
    let uncommented = uncommented.join("\n");
    parse_file(&uncommented).unwrap_or_else(|error| panic!("{error:#}"));
    let command = CommandLine::command();
    let run = command.find_subcommand("run").unwrap();
    for argument in run.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let flag = argument.get_long().unwrap_or("help");
        let is_there = uncommented.lines().any(|line| line.starts_with(&format!("{flag} = ")));
        assert!(is_there || ["help", "config"].contains(&flag), "{flag}");
    }
}

#[test]
fn the_manual_permits_every_method_that_birdhouse_calls() {
    let line = SERVICE.lines().find_map(|line| line.strip_prefix("rpcwhitelist=birdhouse:")).unwrap();
    assert_eq!(line.split(',').collect::<Vec<_>>(), METHODS);
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
