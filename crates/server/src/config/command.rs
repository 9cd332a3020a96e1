//! The command line: its commands, its parsing, and errors that name what was meant.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::control::ControlCommand;
use super::{DirectionName, DiskSize, Moment, Options, SECRETS, VARIABLE, renamed};

/// Arguments that `birdhouse ctl` shows in its help.
const CTL_FLAGS: [&str; 6] = ["config", "data_dir", "network", "node_dir", "bitcoin", "json"];
/// Arguments that `birdhouse watch` shows in its help.
const WATCH_FLAGS: [&str; 5] = ["config", "data_dir", "network", "node_dir", "watch_file"];

/// Variables of the project's tests and scripts, without their prefix: a server that they start has them, too.
const OF_DEVELOPERS: [&str; 13] = [
    "CLIENTS",
    "FROM",
    "GOLDEN",
    "INDEX_KILL_FOLDER",
    "JOBS",
    "MINUTES",
    "ROOT",
    "ROUNDS",
    "SEED",
    "SEEDS",
    "STORE_CQL_HOSTS",
    "STORE_KILL_FOLDER",
    "TEST_DOOMED_DATADIR",
];
/// Beginnings of the variables that Kubernetes gives every container beside a service with the name `birdhouse`.
///
/// Source: <https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables>
const OF_KUBERNETES: [&str; 2] = ["SERVICE_", "PORT"];

/// One server for the light clients of a self-hosted Bitcoin node.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Arguments and variables of the command, with their sources.
#[derive(Debug, Default)]
pub(crate) struct Given(pub(super) ArgMatches);

/// Programs whose settings are read.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Print the streams of `strfry router` as tables for the configuration file; what is left out goes to standard
    /// error.
    StrfryRouter {
        /// File of the router.
        file: PathBuf,
    },
}

/// Commands about the watch file and what was told.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum WatchCommand {
    /// Add a watch to the file, which is made if there is none. A running server takes it up at once.
    Add {
        /// Name of the watch.
        name: String,
        /// An output descriptor, extended public key, address, script in hexadecimal, output (`txid:vout`) or scan key
        /// of silent payments; `-` reads it from standard input.
        source: String,
        /// Channels to tell it on, by their names in the file.
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        channels: Vec<String>,
        /// Confirmations to announce; 0 is the mempool.
        #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_value = "0,1,6")]
        confirmations: Vec<u32>,
        /// A wallet from which nobody should spend: a spend is an alarm.
        #[arg(long)]
        cold: bool,
    },
    /// Remove a watch from the file, and what is known of it.
    Remove {
        /// Name of the watch.
        name: String,
    },
    /// Show the watches: scripts, used addresses, balance, open transactions, faults.
    List {
        /// Print them as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the last notices, each as a line of JSON.
    Notices {
        /// Position of the first one [default: the newest ones].
        #[arg(long, value_name = "SEQ")]
        from: Option<u64>,
        /// Their number at most.
        #[arg(long, default_value_t = 20)]
        count: u32,
    },
    /// Send a test message to a channel.
    Test {
        /// Name of the channel.
        channel: String,
    },
    /// Print the watch file, checked, as it is in effect.
    Export,
}

/// The commands of the binary.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build the index if needed, follow the node, and serve wallets and the relay.
    Run {
        #[command(flatten)]
        options: Options,
    },
    /// Build the index and exit.
    Index {
        #[command(flatten)]
        options: Options,
        /// Print the figures as one line of JSON.
        #[arg(long)]
        json: bool,
    },
    /// Rebuild rows from the blocks and compare them with the stored ones [default: of the last 1000 blocks].
    Verify {
        #[command(flatten)]
        options: Options,
        /// First height.
        #[arg(long, default_value_t = 0)]
        from: u32,
        /// Last height (default: the tip).
        #[arg(long)]
        to: Option<u32>,
        /// Verify the whole chain, and that the index has no other rows.
        #[arg(long, conflicts_with_all = ["from", "to"])]
        all: bool,
        /// Prove the checksums of every file of index and relay instead, without blocks; a running server does it.
        #[arg(long, conflicts_with_all = ["from", "to", "all"])]
        quick: bool,
    },
    /// Write a data folder with the present state of index and relay, for any machine; a running server does it.
    Backup {
        #[command(flatten)]
        options: Options,
        /// A new or empty folder.
        folder: PathBuf,
    },
    /// Delete the node's old blocks, which the index has read; a running server does it. Shows first what it frees and
    /// what no longer works, and asks. Needs `prune=1` in `bitcoin.conf`.
    Prune {
        #[command(flatten)]
        options: Options,
        /// Disk for the blocks that stay, like `30GB`.
        #[arg(long, value_name = "SIZE")]
        keep: DiskSize,
        /// Delete without asking.
        #[arg(long)]
        yes: bool,
    },
    /// Be told of payments to wallets of your own: add, remove and list watches, and try their channels.
    Watch {
        #[command(flatten)]
        options: Options,
        #[command(subcommand)]
        command: WatchCommand,
    },
    #[cfg(feature = "top")]
    /// Show the state of a running server in this terminal, every two seconds; q quits.
    Top {
        #[command(flatten)]
        options: Options,
        /// Print one frame as text and exit.
        #[arg(long)]
        once: bool,
    },
    /// Inspect and control a running server.
    Ctl {
        #[command(flatten)]
        options: Options,
        /// Print the answer as JSON.
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: ControlCommand,
    },
    /// Import events into the relay, from lines of JSON (the export of strfry and nak) or from a Nostream database. A
    /// running server stores those of lines, and checks them as those of clients; it must not run for a Nostream.
    Import {
        #[command(flatten)]
        options: Options,
        /// File to read; `-` is standard input.
        #[arg(required_unless_present_any = ["nostream", "nostream_file"], conflicts_with_all = ["nostream", "nostream_file"])]
        file: Option<PathBuf>,
        /// PostgreSQL database of a Nostream, which may be running; `?sslmode=require` connects by TLS and verifies the
        /// certificate with the system's. A second import takes only new events.
        #[arg(
            long,
            env = "BIRDHOUSE_NOSTREAM",
            hide_env_values = true,
            value_name = "postgres://USER:PASSWORD@HOST/DATABASE"
        )]
        nostream: Option<String>,
        /// File with the URL of the Nostream's database in its first line.
        #[arg(long, env = "BIRDHOUSE_NOSTREAM_FILE", value_name = "FILE", conflicts_with = "nostream")]
        nostream_file: Option<PathBuf>,
        /// Fail if an event is invalid, after importing the others.
        #[arg(long)]
        strict: bool,
    },
    /// Write all events of the relay as lines of JSON, newest first; a running server does it.
    Export {
        #[command(flatten)]
        options: Options,
        /// File to write; `-` is standard output.
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Exchange events with another relay: finds out what either side lacks (NIP-77) and transfers it. A running server
    /// does it; otherwise this process. Interrupted, it is run again.
    Sync {
        #[command(flatten)]
        options: Options,
        /// URL of the other relay.
        #[arg(value_name = "URL")]
        relay: String,
        /// Direction of events: down from the other relay, up to it, or both.
        #[arg(long, value_enum, default_value = "both")]
        dir: DirectionName,
        /// Filter of the events, like `{"kinds":[0,3],"authors":["..."]}`.
        #[arg(long, value_name = "JSON", default_value = "{}")]
        filter: String,
        /// Only events from then on: seconds since 1970, or a time ago like 3w.
        #[arg(long, value_name = "TIME")]
        since: Option<Moment>,
        /// Only events until then.
        #[arg(long, value_name = "TIME")]
        until: Option<Moment>,
        /// Transfer nothing, and print the ids that one side lacks: `have,ID` if the other one does, `need,ID` if this
        /// one does.
        #[arg(long, conflicts_with = "dir")]
        print_missing: bool,
        /// File with the secret key (nsec) by which the other relay knows you (NIP-42).
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// SOCKS5 proxy, such as Tor's, that looks the relay's name up and connects.
        #[arg(long, value_name = "ADDR")]
        proxy: Option<SocketAddr>,
    },
    /// Print settings of another relay as settings of this one.
    Migrate {
        #[command(subcommand)]
        from: MigrateCommand,
    },
    /// Show what to type into a wallet: host, port and certificate.
    Connect {
        #[command(flatten)]
        options: Options,
        /// Also show QR codes for the wallet of a phone.
        #[arg(long)]
        qr: bool,
    },
    /// Show the settings in effect and where each comes from.
    Config {
        #[command(flatten)]
        options: Options,
        /// Print an example of a configuration file with every setting.
        #[arg(long)]
        example: bool,
    },
    /// Look for everything that keeps the server from serving, and say how to mend it. Changes nothing.
    Doctor {
        #[command(flatten)]
        options: Options,
        /// Print the findings as one line of JSON.
        #[arg(long)]
        json: bool,
        /// Also read the whole index and compare its checksums; takes as long as reading these files.
        #[arg(long)]
        checksums: bool,
    },
    #[cfg(feature = "demo")]
    /// Run everything on a private regtest node with a sample chain; leaves nothing behind.
    Demo {
        /// Ask a few questions, print the answers, and exit.
        #[arg(long)]
        once: bool,
    },
    /// Write the man pages, and the completions of bash, zsh and fish.
    #[command(hide = true)]
    Man {
        /// Folder for the files; made if it is missing.
        folder: PathBuf,
    },
    /// Benchmark servers and relays: runs the program birdhouse-bench from the folder of this one.
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of birdhouse-bench, for example `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

impl CommandLine {
    /// Parses the command line and the environment; exits with a message where that fails.
    pub(crate) fn parse_or_exit() -> (Self, Given) {
        Self::parse(std::env::args_os()).unwrap_or_else(|error| with_present_name(error).exit())
    }

    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<(Self, Given), clap::Error> {
        let matches = Self::definition().try_get_matches_from(arguments)?;
        let command_line = Self::from_arg_matches(&matches)?;
        let matches = matches.subcommand().map(|(_, matches)| matches.clone()).unwrap_or_default();
        Ok((command_line, Given(matches)))
    }

    /// Returns the definition of the command line. `ctl` and `watch` take their flags before and after their own
    /// subcommands; their help shows those that choose the server.
    fn definition() -> clap::Command {
        let to_global = |shown: &'static [&'static str]| {
            move |argument: clap::Arg| {
                let is_shown = shown.contains(&argument.get_id().as_str());
                argument.global(true).hide(!is_shown)
            }
        };
        Self::command()
            .mut_subcommand("ctl", |ctl| ctl.mut_args(to_global(&CTL_FLAGS)))
            .mut_subcommand("watch", |watch| watch.mut_args(to_global(&WATCH_FLAGS)))
    }

    /// Refuses a `BIRDHOUSE_*` variable among `names` that nothing reads: a setting that is misspelt has no effect.
    ///
    /// # Errors
    /// Names the variable, and the similar one that is read.
    pub(crate) fn refuse_unknown_variables(names: impl Iterator<Item = String>) -> Result<()> {
        let command = Self::command();
        let arguments = command.get_subcommands().flat_map(clap::Command::get_arguments);
        let variables = arguments.filter_map(|argument| argument.get_env()?.to_str()?.strip_prefix(VARIABLE));
        let known: Vec<&str> = variables.collect();
        for name in names {
            let Some(unknown) = name.strip_prefix(VARIABLE) else { continue };
            let is_of_others =
                OF_DEVELOPERS.contains(&unknown) || OF_KUBERNETES.iter().any(|of| unknown.starts_with(of));
            if known.contains(&unknown) || is_of_others {
                continue;
            }
            let hint = match renamed::nearest(unknown, &known) {
                Some(nearest) => format!("did you mean {VARIABLE}{nearest}?"),
                None => "`birdhouse run --help` has all of them".to_owned(),
            };
            bail!("unknown environment variable {name}; {hint}");
        }
        Ok(())
    }
}

impl Given {
    /// Returns the flags that show a secret to other users of the machine.
    pub(crate) fn secrets_shown(&self) -> Vec<&'static str> {
        let is_shown = |(id, _): &(&str, &str)| {
            self.0.ids().any(|known| known == id) && self.0.value_source(id) == Some(ValueSource::CommandLine)
        };
        SECRETS.into_iter().filter(is_shown).map(|(_, flag)| flag).collect()
    }
}

/// Adds the present name to an error about a former value or command.
fn with_present_name(mut error: clap::Error) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let hint = match (text(ContextKind::InvalidValue), text(ContextKind::InvalidSubcommand)) {
        (Some(value), _) => {
            let Some(ContextValue::Strings(allowed)) = error.get(ContextKind::ValidValue) else { return error };
            renamed::hint(&value, &allowed.iter().map(String::as_str).collect::<Vec<_>>())
        }
        (None, Some(name)) => {
            // The error does not say whose command is unknown.
            let command = CommandLine::command();
            let all = command.get_subcommands().flat_map(|command| command.get_subcommands().chain([command]));
            renamed::hint(&name, &all.map(clap::Command::get_name).collect::<Vec<_>>())
        }
        (None, None) => None,
    };
    if let Some(hint) = hint {
        error.remove(ContextKind::SuggestedValue);
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::parse_file;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::definition().debug_assert();
    }

    #[test]
    fn ctl_takes_its_flags_before_and_after_the_subcommand() {
        for words in [&["--data-dir=/d", "--json", "status"][..], &["status", "--data-dir=/d", "--json"]] {
            let words = [&["birdhouse", "ctl"], words].concat();
            let (CommandLine { command }, _) = CommandLine::parse(words.iter().map(OsString::from)).unwrap();
            let Command::Ctl { options, json, .. } = command else { panic!("another command") };
            assert_eq!((options.data_dir, json), (Some("/d".into()), true));
        }
    }

    #[test]
    fn watch_takes_its_flags_before_and_after_the_subcommand() {
        for words in [&["--data-dir=/d", "list", "--json"][..], &["list", "--data-dir=/d", "--json"]] {
            let words = [&["birdhouse", "watch"], words].concat();
            let (CommandLine { command }, _) = CommandLine::parse(words.iter().map(OsString::from)).unwrap();
            let Command::Watch { options, command } = command else { panic!("another command") };
            assert_eq!((options.data_dir, command), (Some("/d".into()), WatchCommand::List { json: true }));
        }
    }

    #[test]
    fn every_flag_has_a_variable_and_a_name_in_the_file() {
        let command = CommandLine::command();
        let run = command.find_subcommand("run").unwrap();
        for argument in run.get_arguments().filter(|argument| argument.get_id() != "help") {
            let flag = argument.get_long().unwrap();
            let variable = argument.get_env().unwrap().to_str().unwrap();
            assert_eq!(variable, format!("BIRDHOUSE_{}", flag.replace('-', "_").to_uppercase()));
            if flag != "config" {
                let unknown = parse_file(&format!("{flag} = {{}}")).unwrap_err().to_string();
                assert!(!unknown.contains("unknown setting"), "{flag}: {unknown}");
            }
        }
    }

    #[test]
    fn every_former_name_is_an_error_that_says_the_present_one() {
        let text = |table: &str, name: &str| format!("[limits.{table}]\n{name} = true");
        let error = |text: &str| parse_file(text).unwrap_err().to_string();
        let mut settings = 0;
        for (former, present) in renamed::RENAMED {
            for table in ["public", "server", "relay"] {
                let is_present = !error(&text(table, present)).contains("unknown setting");
                let message = error(&text(table, former));
                settings += u32::from(is_present);
                let expected = format!("unknown setting {former:?}; it is now called {present:?}");
                assert_eq!(message.contains(&expected), is_present, "{table} {message}");
            }
        }
        assert!(settings >= 15, "{settings}");
        let wrong = error("relay-private-messages = 'everybody'");
        assert_eq!(wrong, "line 1: unknown value \"everybody\"; it is now called \"everyone\"");
        for arguments in
            [&["birdhouse", "run", "--relay-private-messages=people"][..], &["birdhouse", "ctl", "sessions"]]
        {
            let error = CommandLine::try_parse_from(arguments).unwrap_err();
            let error = with_present_name(error).to_string();
            assert!(error.contains("it is now called \""), "{error}");
        }
    }

    #[test]
    fn secrets_on_the_command_line_are_found() {
        let shown = |words: &[&str]| CommandLine::parse(words.iter().map(OsString::from)).unwrap().1.secrets_shown();
        let login = ["birdhouse", "run", "--rpc-user=a", "--rpc-password=secret"];
        assert_eq!(shown(&login), ["--rpc-password"]);
        assert_eq!(shown(&["birdhouse", "run", "--rpc-user=a", "--rpc-password-file=f"]), [""; 0]);
        assert_eq!(shown(&["birdhouse", "import", "--nostream=postgres://u:p@h/d"]), ["--nostream"]);
        assert_eq!(shown(&["birdhouse", "demo"]), [""; 0]);
    }

    #[test]
    fn a_misspelt_variable_is_refused_with_the_nearest_one() {
        let refused = |name: &str| CommandLine::refuse_unknown_variables([name.to_owned()].into_iter());
        for known in ["BIRDHOUSE_NETWORK", "BIRDHOUSE_NOSTREAM", "HOME", "BIRDHOUSE_PORT_50001_TCP_ADDR", "BIRDHOUSEX"]
        {
            assert!(refused(known).is_ok(), "{known}");
        }
        let error = refused("BIRDHOUSE_NETWROK").unwrap_err().to_string();
        assert_eq!(error, "unknown environment variable BIRDHOUSE_NETWROK; did you mean BIRDHOUSE_NETWORK?");
        assert!(refused("BIRDHOUSE_XYZ").unwrap_err().to_string().contains("birdhouse run --help"));
    }

    #[test]
    fn variables_of_the_makefile_are_allowed() {
        let makefile = include_str!("../../../../Makefile");
        let words = makefile.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        let names: Vec<String> = words.filter(|word| word.starts_with(VARIABLE)).map(str::to_owned).collect();
        assert!(names.len() >= 5, "{names:?}");
        CommandLine::refuse_unknown_variables(names.into_iter()).unwrap();
    }
}
