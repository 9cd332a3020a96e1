//! `birdhouse man`: the man pages and the completions of shells, made from the definitions of the command line.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::config::CommandLine;

/// Name of the program.
const NAME: &str = "birdhouse";
/// Shells with completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes a man page for each command, and the completions of each shell.
///
/// # Errors
/// The folder cannot be made or written.
pub(crate) fn run(folder: &Path) -> Result<ExitCode> {
    let failed = || format!("failed to write man pages into {}", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(CommandLine::command(), folder).with_context(failed)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut CommandLine::command(), NAME, folder).with_context(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_in_its_man_page_and_in_the_completions() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        // A hyphen is escaped in a man page.
        let page = read("birdhouse-run.1").replace('\\', "");
        let completions = [read("birdhouse.bash"), read("_birdhouse"), read("birdhouse.fish")];
        let command = CommandLine::command();
        let run = command.find_subcommand("run").unwrap();
        for argument in run.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let flag = argument.get_long().unwrap_or("help");
            assert!(page.contains(&format!("--{flag}")), "{flag}");
            assert!(completions.iter().all(|text| text.contains(flag)), "{flag}");
        }
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(read("birdhouse.1").replace('\\', "").contains(&format!("birdhouse-{}(1)", command.get_name())));
        }
    }
}
