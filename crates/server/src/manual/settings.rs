//! The tables of `docs/settings.md`, made from the definitions of the flags.

use std::fmt::Write as _;

use clap::{Arg, CommandFactory as _};

use super::golden;
use crate::config::CommandLine;

const PAGE: &str = include_str!("../../../../docs/settings.md");
/// The start of the generated part.
const FIRST_HEADING: &str = "## Node\n";
const TABLE: &str = "| setting | meaning | default |\n|---|---|---|\n";

#[test]
fn every_setting_is_in_the_tables_with_meaning_and_default() {
    let (text, _) = PAGE.split_once(FIRST_HEADING).expect("docs/settings.md has the settings of the node");
    golden("docs/settings.md", PAGE, &format!("{text}{}", tables().trim_start()));
}

/// Returns a table for each heading of `birdhouse run --help`.
fn tables() -> String {
    let command = CommandLine::command();
    let run = command.find_subcommand("run").unwrap();
    let mut text = String::new();
    let mut heading = None;
    for argument in run.get_arguments().filter(|argument| argument.get_help_heading().is_some()) {
        if argument.get_help_heading() != heading {
            heading = argument.get_help_heading();
            write!(text, "\n## {}\n\n{TABLE}", heading.unwrap()).unwrap();
        }
        text.push_str(&row(argument));
    }
    text
}

fn row(argument: &Arg) -> String {
    let name = argument.get_long().unwrap();
    let help = argument.get_help().unwrap().to_string();
    let (meaning, default) = split(&help);
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let values = if values.is_empty() { String::new() } else { format!(" Values: {}.", values.join(", ")) };
    let purpose = if argument.is_hide_set() { " For tests." } else { "" };
    format!("| `{name}` | {meaning}{values}{purpose} | {default} |\n")
}

/// Splits the help of a setting into its meaning and its default.
fn split(help: &str) -> (String, String) {
    let whole = || (format!("{}.", help.trim_end_matches('.')), "none".to_owned());
    let Some((meaning, default)) =
        help.rsplit_once(" [default").map(|(meaning, rest)| (meaning, rest.trim_end_matches(['.', ']'])))
    else {
        return whole();
    };
    let default = match default.split_once(": ") {
        Some(("", value)) => value.to_owned(),
        Some((_, port)) => format!("none; port {port}"),
        None => return whole(),
    };
    (format!("{meaning}."), default)
}

#[test]
fn a_default_is_told_from_the_meaning() {
    let parts = |help: &str| split(help);
    assert_eq!(parts("Level [default: info]"), ("Level.".into(), "info".into()));
    assert_eq!(
        parts("Address [default port: 50002 on bitcoin]"),
        ("Address.".into(), "none; port 50002 on bitcoin".into())
    );
    assert_eq!(parts("Banner."), ("Banner.".into(), "none".into()));
}
