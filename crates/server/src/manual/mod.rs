//! Tests of the documentation: the tables of limits and settings, the commands and configuration examples of all pages,
//! the systemd unit. The table of contents and the links are checked by `tidy` of the crate `birdhouse-testkit`.
#![expect(clippy::unwrap_used, reason = "tests")]

mod pages;
mod settings;

use std::collections::BTreeSet;

use birdhouse_electrum::{Limits, ServerLimits};
use clap::{CommandFactory as _, Parser as _};

use crate::cluster::replicas;
use crate::config::{Command, CommandLine, example, parse_file};
use crate::doctor::{METHODS, PRUNED_METHODS};
use crate::operator::{ctl, ops};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const EXAMPLE: &str = include_str!("../../../../contrib/birdhouse.toml");
/// The start of the generated part.
const FIRST_ROW: &str = "| of a listener |";
const LIMITS: &str = include_str!("../../../../docs/LIMITS.md");
const PRUNED: &str = include_str!("../../../../docs/pruned-node.md");
const SERVICE: &str = include_str!("../../../../docs/service.md");
const UNIT: &str = include_str!("../../../../contrib/birdhouse.service");

#[test]
fn every_limit_is_in_the_tables_with_default_and_consequence() {
    let operator = format!(
        "| Connections of dashboard, metrics and health | {} | the idlest is closed for a new one |\n\
         | Connections of `birdhouse ctl` | {} | a new connection waits |\n\
         | Connections of replicas and front ends | {} | status 503 |\n\
         | Connections that have not shown `replica-secret-file`, for {} s each | {}, {} of an address | the oldest \
         is closed; those beyond {} of an address are closed at once |\n",
        ops::CONNECTIONS_MAX,
        ctl::CONNECTIONS_MAX,
        replicas::KNOWN_MAX,
        replicas::STRANGER_PATIENCE.as_secs(),
        replicas::STRANGERS_MAX,
        replicas::STRANGERS_OF_ADDRESS_MAX,
        replicas::STRANGERS_OF_ADDRESS_MAX,
    );
    let tables = Limits::manual()
        + &operator
        + "\n"
        + &birdhouse_relay::Limits::manual()
        + "\n"
        + &birdhouse_mirror::limits::manual()
        + "\n"
        + &birdhouse_esplora::Limits::manual()
        + "\n"
        + &birdhouse_blossom::Limits::manual()
        + "\n"
        + &birdhouse_watch::limits::manual();
    let (text, _) = LIMITS.split_once(FIRST_ROW).expect("docs/LIMITS.md has the table of a listener");
    golden("docs/LIMITS.md", LIMITS, &format!("{text}{tables}"));
}

/// Compares a generated file with its current text, or writes it if `make golden` asks for it.
fn golden(path: &str, found: &str, current: &str) {
    if std::env::var_os("BIRDHOUSE_GOLDEN").is_some() {
        std::fs::write(format!("{ROOT}/{path}"), current).unwrap();
    } else {
        assert!(found == current, "{path} is not current; run `make golden`");
    }
}

#[test]
fn the_example_file_is_current_and_every_line_of_it_is_valid() {
    let current = example();
    golden("contrib/birdhouse.toml", EXAMPLE, &current);
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
    let beside_pruned = PRUNED_METHODS.map(|method| format!("`{method}`"));
    assert!(beside_pruned.iter().all(|method| PRUNED.contains(method)), "{beside_pruned:?}");
}

#[test]
fn every_method_that_the_sources_call_is_known() {
    let mut called = BTreeSet::new();
    let mut folders = vec![std::path::PathBuf::from(format!("{ROOT}/crates/node/src"))];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(path).unwrap();
            let source = source.split("#[cfg(test)]").next().unwrap();
            let calls = source.split(".call").skip(1).chain(source.split(".batch").skip(1));
            let named = calls.filter_map(|call| call.split_once('(')?.1.strip_prefix('"')?.split_once('"'));
            called.extend(named.map(|(method, _)| method.to_owned()));
        }
    }
    let known: BTreeSet<String> = METHODS.into_iter().chain(PRUNED_METHODS).map(str::to_owned).collect();
    assert_eq!(called, known);
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
    assert_eq!(unit("LimitCORE"), "0", "docs/security-model.md says so");
}
