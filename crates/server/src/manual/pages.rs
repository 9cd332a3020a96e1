//! The commands, settings and configuration examples on the pages of the manual, against their definitions.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use birdhouse_electrum::Limits;
use birdhouse_watch::WatchFile;
use bitcoin::Network;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use super::ROOT;
use crate::config::{CommandLine, parse_file};

/// Flags on the pages that belong to other programs.
const FOREIGN_FLAGS: [&str; 8] = ["oneserver", "only", "regtest", "server", "signet", "testnet", "testnet4", "ulimit"];
/// First words of the names of settings: a word in backquotes that begins so is one, and must exist.
const FAMILIES: [&str; 14] = [
    "blossom",
    "build",
    "client",
    "created-at",
    "data",
    "electrum",
    "http",
    "node",
    "ops",
    "relay",
    "rest",
    "rpc",
    "tls",
    "zmq",
];
/// Names that begin like a setting: values of `kind`, crates, credentials.
const NO_SETTINGS: [&str; 8] = [
    "blossom-tls",
    "http-tls",
    "relay-tls",
    "rest-tls",
    "rpc-password",
    "electrum-client",
    "relay-rate",
    "relay-retention",
];

/// The page whose examples are watch files.
const WATCHES: &str = "docs/watching.md";

/// A page: its path and its text.
struct ManualPage {
    path: String,
    text: String,
}

/// Returns the pages for operators.
fn pages() -> Vec<ManualPage> {
    let files = std::fs::read_dir(format!("{ROOT}/docs")).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let names = files.map(|path| format!("docs/{}", path.file_name().unwrap().to_str().unwrap()));
    let paths = names.chain(["README.md".to_owned(), "SECURITY.md".to_owned()]);
    paths.map(ManualPage::read).collect()
}

impl ManualPage {
    fn read(path: String) -> Self {
        Self { text: std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap(), path }
    }

    /// Returns the code blocks of a language; those without one have the name "".
    fn blocks<'a>(&'a self, language: &'a str) -> impl Iterator<Item = &'a str> {
        let blocks = self.text.split("```").skip(1).step_by(2);
        blocks
            .filter_map(move |block| block.split_once('\n'))
            .filter(move |(of, _)| *of == language)
            .map(|(_, code)| code)
    }

    /// Checks an example: a part of the configuration file, or a watch file.
    fn check(&self, example: &str) -> Result<()> {
        if self.path == WATCHES {
            return WatchFile::parse(example, Network::Bitcoin).map(drop).map_err(|mistake| anyhow!("{mistake}"));
        }
        parse_file(example).map(drop)
    }

    /// Returns the text in backquotes, a line break as a space.
    fn spans(&self) -> Vec<String> {
        let prose: String = self.text.split("```").step_by(2).collect();
        let spans = prose.split('`').skip(1).step_by(2);
        spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }
}

/// Returns the commands of a line of a shell, each as its words.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote) = (String::new(), None);
    for char in line.chars().chain([' ']) {
        match quote {
            Some(end) if char == end => quote = None,
            None if char == '#' && word.is_empty() => break,
            None if "'\"".contains(char) => quote = Some(char),
            None if " |;&".contains(char) => {
                if !word.is_empty() {
                    commands.last_mut().unwrap().push(std::mem::take(&mut word));
                }
                if char != ' ' {
                    commands.push(Vec::new());
                }
            }
            _ => word.push(char),
        }
    }
    commands
}

/// Returns the words of a command of Birdhouse, without `sudo -u USER`; `None` for another program's.
fn own(words: &[String]) -> Option<&[String]> {
    let words = match words {
        [sudo, rest @ ..] if sudo == "sudo" => match rest {
            [user, _, rest @ ..] if user == "-u" => rest,
            rest => rest,
        },
        words => words,
    };
    words.first().filter(|program| *program == "birdhouse")?;
    Some(words)
}

#[test]
fn every_command_of_a_page_is_understood() {
    let (mut seen, mut problems) = (0, Vec::new());
    for page in pages() {
        for line in page.blocks("").flat_map(str::lines) {
            for words in commands(line).iter().filter_map(|words| own(words)) {
                seen += 1;
                let error = CommandLine::try_parse_from(words).err();
                let error = error.filter(|error| error.kind() != ErrorKind::DisplayVersion);
                problems.extend(error.map(|error| format!("{}: {line}: {error}", page.path)));
            }
        }
        for span in page.spans().iter().filter(|span| span.starts_with("birdhouse ") && !span.contains('|')) {
            seen += 1;
            let words = commands(&span.replace(['[', ']'], "")).swap_remove(0);
            let error = CommandLine::try_parse_from(&words).err().filter(|error| !is_mention(error.kind()));
            problems.extend(error.map(|error| format!("{}: {span}: {error}", page.path)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(seen > 60, "{seen} commands were found");
}

/// Returns true for the error of a command that lacks what a real one needs, as a mention of `birdhouse import` does.
fn is_mention(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

#[test]
fn every_configuration_example_is_valid() {
    let mut seen = 0;
    for page in pages() {
        for example in page.blocks("toml") {
            seen += 1;
            page.check(example).unwrap_or_else(|error| panic!("{}: {error:#}\n{example}", page.path));
        }
    }
    assert!(seen >= 8, "{seen} examples were found");
}

#[test]
fn every_setting_of_a_page_exists() {
    let (flags, variables) = flags();
    let limits = limits();
    let is_known = |name: &str| flags.contains(name) || limits.contains(name) || NO_SETTINGS.contains(&name);
    let mut problems = Vec::new();
    for page in pages() {
        for span in page.spans() {
            let first = span.split([' ', '=']).next().unwrap_or_default();
            let is_fine = match first.strip_prefix("--") {
                Some(flag) => flags.contains(flag) || FOREIGN_FLAGS.contains(&flag),
                None if first.starts_with("BIRDHOUSE_") && !first.contains('*') => variables.contains(first),
                None if is_setting(first) => is_known(first),
                None => true,
            };
            if !is_fine {
                problems.push(format!("{}: no such setting: `{span}`", page.path));
            }
            let assigned = span.split_once(" = ").filter(|(name, _)| flags.contains(*name));
            let error = assigned.filter(|_| page.path != WATCHES).and_then(|_| page.check(&span).err());
            problems.extend(error.map(|error| format!("{}: `{span}`: {error:#}", page.path)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns true for a name that begins as those of settings do.
fn is_setting(word: &str) -> bool {
    let is_name = word.chars().all(|char| char.is_ascii_lowercase() || char == '-') && !word.ends_with('-');
    is_name && FAMILIES.iter().any(|family| word.strip_prefix(family).is_some_and(|rest| rest.starts_with('-')))
}

/// Returns the flags of all commands and their variables.
fn flags() -> (BTreeSet<String>, BTreeSet<String>) {
    let mut command = CommandLine::command();
    command.build();
    let (mut flags, mut variables) = (BTreeSet::new(), BTreeSet::new());
    let mut commands: Vec<&clap::Command> = vec![&command];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands());
        for argument in command.get_arguments() {
            flags.extend(argument.get_long().map(str::to_owned));
            variables.extend(argument.get_env().map(|name| name.to_str().unwrap().to_owned()));
        }
    }
    (flags, variables)
}

/// Returns the names of all limits that are settings.
fn limits() -> BTreeSet<String> {
    let tables = [
        Limits::manual(),
        birdhouse_relay::Limits::manual(),
        birdhouse_esplora::Limits::manual(),
        birdhouse_blossom::Limits::manual(),
    ];
    let tables = tables.join("\n");
    let names = tables.lines().filter_map(|row| row.strip_prefix("| `")?.split('`').next().map(str::to_owned));
    names.collect()
}

#[test]
fn a_line_of_a_shell_is_taken_apart() {
    let line = r#"strfry export | sudo -u birdhouse birdhouse import - && birdhouse ctl explain '{"kinds":[1]}' # why"#;
    let own: Vec<String> = commands(line).iter().filter_map(|words| own(words)).map(|words| words.join(",")).collect();
    assert_eq!(own, ["birdhouse,import,-", r#"birdhouse,ctl,explain,{"kinds":[1]}"#]);
}
