//! What the operator says: flags, then `BIRDHOUSE_*` variables, then the configuration file, then defaults.
//!
//! All three use the same names: `--data-dir`, `BIRDHOUSE_DATA_DIR`, `data-dir = ".."`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use birdhouse_chain::Profile;
use bitcoin::Network;
use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use serde::Deserialize;

use crate::listeners::{LimitsOptions, ListenAddr, ListenerOptions, PublicHost};
use crate::relay_options::{KindRange, PubkeyText, RateOptions, Readers, UnknownKeysName, WhenBrokenName};

/// One server for the light clients of a self-hosted Bitcoin node.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build the index if needed, follow the node, and serve wallets.
    Run {
        #[command(flatten)]
        options: Options,
    },
    /// Build the index and exit.
    Index {
        #[command(flatten)]
        options: Options,
        /// Print one line of JSON with figures.
        #[arg(long)]
        json: bool,
    },
    /// Rebuild rows from the blocks and prove the stored ones equal.
    Verify {
        #[command(flatten)]
        options: Options,
        /// First height.
        #[arg(long, default_value_t = 0)]
        from: u32,
        /// Last height (default: the tip).
        #[arg(long)]
        to: Option<u32>,
        /// The whole chain: proves also that there is no row too many. Without --from, --to and --all the last
        /// 1000 blocks are verified.
        #[arg(long, conflicts_with_all = ["from", "to"])]
        all: bool,
    },
    /// Tell a running server something.
    Ctl {
        #[command(flatten)]
        options: Options,
        /// Print the answer as JSON.
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: crate::ctl::Command,
    },
    /// Take events into the relay, which is not running, from lines of JSON (strfry's and nak's export) or from a Nostream.
    Import {
        #[command(flatten)]
        options: Options,
        /// The file; `-` for standard input.
        #[arg(required_unless_present = "nostream")]
        file: Option<PathBuf>,
        /// The database of a Nostream, which may be running. With `?sslmode=require` by TLS, verified by the system's
        /// certificates. Run again, it takes what has come since.
        #[arg(
            long,
            env = "BIRDHOUSE_NOSTREAM",
            hide_env_values = true,
            conflicts_with = "file",
            value_name = "postgres://USER:PASSWORD@HOST/DATABASE"
        )]
        nostream: Option<String>,
    },
    /// Write all events of the relay, which is not running, as lines of JSON, the newest first.
    Export {
        #[command(flatten)]
        options: Options,
        /// The file; `-` for standard output.
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Show everything on a private regtest node with a sample chain; leaves nothing behind.
    Demo {
        /// Ask a few questions, print the answers, and end.
        #[arg(long)]
        once: bool,
    },
    /// Measure servers and relays beside each other: the program birdhouse-bench, which lies beside this one.
    #[command(disable_help_flag = true)]
    Bench {
        /// Its arguments; `--help` tells them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Settings of `run`, `index` and `verify`.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Options {
    /// TOML file with the same names as these flags.
    #[arg(long, env = "BIRDHOUSE_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Data directory of the Bitcoin node [default: ~/.bitcoin].
    #[arg(long, env = "BIRDHOUSE_NODE_DIR", value_name = "DIR")]
    pub(crate) node_dir: Option<PathBuf>,
    /// Index a node's blocks directory without a node: no new blocks, no broadcast.
    #[arg(long, env = "BIRDHOUSE_BLOCKS_DIR", value_name = "DIR")]
    pub(crate) blocks_dir: Option<PathBuf>,
    /// Network [default: what bitcoin.conf says, else bitcoin].
    #[arg(long, env = "BIRDHOUSE_NETWORK", value_name = "NAME")]
    pub(crate) network: Option<NetworkName>,
    /// Where the index lives [default: ~/.birdhouse].
    #[arg(long, env = "BIRDHOUSE_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address of the node's RPC [default: 127.0.0.1 and the port of bitcoin.conf or of the network].
    #[arg(long, env = "BIRDHOUSE_RPC_ADDR", value_name = "HOST:PORT")]
    pub(crate) rpc_addr: Option<String>,
    /// RPC user, when there is no cookie file.
    #[arg(long, env = "BIRDHOUSE_RPC_USER", value_name = "NAME")]
    pub(crate) rpc_user: Option<String>,
    /// RPC password.
    #[arg(long, env = "BIRDHOUSE_RPC_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    pub(crate) rpc_password: Option<String>,
    /// Where the node publishes ZMQ `sequence` messages [default: `zmqpubsequence` of bitcoin.conf; without, the
    /// mempool is looked at every second].
    #[arg(long, env = "BIRDHOUSE_ZMQ_SEQUENCE_ADDR", value_name = "HOST:PORT")]
    pub(crate) zmq_sequence_addr: Option<String>,
    /// What the index keeps: `full` has txids too, 32 bytes a transaction; `lean` hashes them when asked
    /// [default: full].
    #[arg(long, env = "BIRDHOUSE_PROFILE", value_name = "NAME")]
    pub(crate) profile: Option<ProfileName>,
    /// Memory for the first build beyond the file cache, MiB [default: 1024].
    #[arg(long, env = "BIRDHOUSE_BUILD_MEMORY_MIB", value_name = "MIB")]
    pub(crate) build_memory_mib: Option<u64>,
    /// Temporary disk for one generation of the first build, MiB [default: 16384].
    #[arg(long, env = "BIRDHOUSE_BUILD_TEMP_MIB", value_name = "MIB")]
    pub(crate) build_temp_mib: Option<u64>,
    /// Blocks below the tip that only the last generation of the first build may hold [default: 1000].
    #[arg(long, env = "BIRDHOUSE_BUILD_REORG_BLOCKS", value_name = "N", hide = true)]
    pub(crate) build_reorg_blocks: Option<u32>,
    /// Threads of the first build [default: one per processor].
    #[arg(long, env = "BIRDHOUSE_BUILD_THREADS", value_name = "N")]
    pub(crate) build_threads: Option<usize>,
    /// Memory for cached index blocks, MiB [default: 256].
    #[arg(long, env = "BIRDHOUSE_CACHE_MIB", value_name = "MIB")]
    pub(crate) cache_mib: Option<usize>,
    /// Whether wallets are served: `on` or `off`. Off, no node is needed, and there is the relay alone [default: on].
    #[arg(long, env = "BIRDHOUSE_BITCOIN", value_name = "SWITCH")]
    pub(crate) bitcoin: Option<Switch>,
    /// Where wallets connect by TCP [default, if no other address is said: 127.0.0.1]. Ports left out are the usual
    /// ones: 50001 on bitcoin.
    #[arg(long, env = "BIRDHOUSE_ELECTRUM_ADDR", value_name = "IP[:PORT]")]
    pub(crate) electrum_addr: Option<ListenAddr>,
    /// Where wallets connect by TLS (50002).
    #[arg(long, env = "BIRDHOUSE_ELECTRUM_TLS_ADDR", value_name = "IP[:PORT]")]
    pub(crate) electrum_tls_addr: Option<ListenAddr>,
    /// Where wallets connect by WebSocket (50003).
    #[arg(long, env = "BIRDHOUSE_ELECTRUM_WS_ADDR", value_name = "IP[:PORT]")]
    pub(crate) electrum_ws_addr: Option<ListenAddr>,
    /// Where wallets connect by WebSocket in TLS (50004).
    #[arg(long, env = "BIRDHOUSE_ELECTRUM_WSS_ADDR", value_name = "IP[:PORT]")]
    pub(crate) electrum_wss_addr: Option<ListenAddr>,
    /// Certificate chain in PEM, read again when it changes [default: a self-signed one, kept in the data folder].
    #[arg(long, env = "BIRDHOUSE_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[arg(long, env = "BIRDHOUSE_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Addresses told to wallets and other servers, like `ssl://electrum.example.org:50002` (tcp, ssl, ws, wss).
    #[arg(long, env = "BIRDHOUSE_PUBLIC_HOST", value_name = "URL", value_delimiter = ',')]
    pub(crate) public_host: Option<Vec<PublicHost>>,
    /// Other servers to look at, like `ssl://electrum.example.org:50002` (tcp, ssl); then servers that announce
    /// themselves are looked at too, and those that work are listed [default: nobody is looked at].
    #[arg(long, env = "BIRDHOUSE_PEER", value_name = "URL", value_delimiter = ',')]
    pub(crate) peer: Option<Vec<PublicHost>>,
    /// Further listeners; tables of the file only.
    #[arg(skip)]
    pub(crate) listener: Option<Vec<ListenerOptions>>,
    /// Bounds that differ from the usual ones; tables of the file only.
    #[arg(skip)]
    pub(crate) limits: Option<LimitsOptions>,
    /// Where Nostr clients connect, by WebSocket [default: there is no relay].
    #[arg(long, env = "BIRDHOUSE_RELAY_ADDR", value_name = "IP:PORT")]
    pub(crate) relay_addr: Option<SocketAddr>,
    /// What the relay is called by clients, like `wss://relay.example.org`: who proves who they are names it (NIP-42), and
    /// requests to vanish do (NIP-62) [default: what each client called it].
    #[arg(long, env = "BIRDHOUSE_RELAY_URL", value_name = "URL", value_delimiter = ',')]
    pub(crate) relay_url: Option<Vec<String>>,
    /// The relay's name for people.
    #[arg(long, env = "BIRDHOUSE_RELAY_NAME", value_name = "TEXT")]
    pub(crate) relay_name: Option<String>,
    /// Some words about the relay.
    #[arg(long, env = "BIRDHOUSE_RELAY_DESCRIPTION", value_name = "TEXT")]
    pub(crate) relay_description: Option<String>,
    /// Whether the relay finds events by their words (NIP-50): an index of words beside them. `on` or `off` [default: on].
    #[arg(long, env = "BIRDHOUSE_RELAY_SEARCH", value_name = "SWITCH")]
    pub(crate) relay_search: Option<Switch>,
    /// The operator's public key, told to clients (NIP-11): hexadecimal or npub.
    #[arg(long, env = "BIRDHOUSE_RELAY_PUBKEY", value_name = "PUBKEY")]
    pub(crate) relay_pubkey: Option<PubkeyText>,
    /// Another way to reach the operator, told to clients, like `mailto:owner@example.org`.
    #[arg(long, env = "BIRDHOUSE_RELAY_CONTACT", value_name = "URI")]
    pub(crate) relay_contact: Option<String>,
    /// Reverse proxies before the relay, whose `X-Forwarded-For` says who a client is.
    #[arg(long, env = "BIRDHOUSE_RELAY_PROXY_FROM", value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) relay_proxy_from: Option<Vec<IpNet>>,
    /// Who may read messages of kinds 4, 1059 and 21059: `people`, their author and recipients, or `everybody` [default: people].
    #[arg(long, env = "BIRDHOUSE_RELAY_PRIVATE_MESSAGES", value_name = "WHO")]
    pub(crate) relay_private_messages: Option<Readers>,
    /// Whether messages are compressed for clients that can: `on` or `off` [default: on].
    #[arg(long, env = "BIRDHOUSE_RELAY_COMPRESSION", value_name = "SWITCH")]
    pub(crate) relay_compression: Option<Switch>,
    /// What becomes of filters that say more than is understood: `ignore` or `refuse` [default: ignore].
    #[arg(long, env = "BIRDHOUSE_RELAY_UNKNOWN_KEYS", value_name = "WHAT")]
    pub(crate) relay_unknown_keys: Option<UnknownKeysName>,
    /// Authors whose events are taken, hexadecimal or npub [default: all].
    #[arg(long, env = "BIRDHOUSE_RELAY_ALLOW_AUTHORS", value_name = "PUBKEY", value_delimiter = ',')]
    pub(crate) relay_allow_authors: Option<Vec<PubkeyText>>,
    /// Authors whose events are refused.
    #[arg(long, env = "BIRDHOUSE_RELAY_DENY_AUTHORS", value_name = "PUBKEY", value_delimiter = ',')]
    pub(crate) relay_deny_authors: Option<Vec<PubkeyText>>,
    /// Kinds that are taken, like `0-9,30000-39999` [default: all].
    #[arg(long, env = "BIRDHOUSE_RELAY_ALLOW_KINDS", value_name = "KIND", value_delimiter = ',')]
    pub(crate) relay_allow_kinds: Option<Vec<KindRange>>,
    /// Kinds that are refused.
    #[arg(long, env = "BIRDHOUSE_RELAY_DENY_KINDS", value_name = "KIND", value_delimiter = ',')]
    pub(crate) relay_deny_kinds: Option<Vec<KindRange>>,
    /// Networks that may connect to the relay [default: all].
    #[arg(long, env = "BIRDHOUSE_RELAY_ALLOW_FROM", value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) relay_allow_from: Option<Vec<IpNet>>,
    /// Networks that may not.
    #[arg(long, env = "BIRDHOUSE_RELAY_DENY_FROM", value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) relay_deny_from: Option<Vec<IpNet>>,
    /// Further rates of events by kind; tables of the file only.
    #[arg(skip)]
    pub(crate) relay_rate: Option<Vec<RateOptions>>,
    /// A program that judges every event, run by the shell: strfry's plugins work.
    #[arg(long, env = "BIRDHOUSE_RELAY_PLUGIN", value_name = "COMMAND")]
    pub(crate) relay_plugin: Option<String>,
    /// What happens to events while the plugin is broken: `refuse` or `accept` [default: refuse].
    #[arg(long, env = "BIRDHOUSE_RELAY_PLUGIN_BROKEN", value_name = "WHAT")]
    pub(crate) relay_plugin_broken: Option<WhenBrokenName>,
    /// Where /metrics and /health are served over HTTP [default: nowhere].
    #[arg(long, env = "BIRDHOUSE_OPS_ADDR", value_name = "IP:PORT")]
    pub(crate) ops_addr: Option<SocketAddr>,
    /// Name given to wallets. Sparrow sends batches only to names it knows, and `ElectrumX` in it is one.
    #[arg(long, env = "BIRDHOUSE_SERVER_NAME", value_name = "TEXT")]
    pub(crate) server_name: Option<String>,
    /// Greeting that wallets show.
    #[arg(long, env = "BIRDHOUSE_BANNER", value_name = "TEXT")]
    pub(crate) banner: Option<String>,
    /// Address for donations.
    #[arg(long, env = "BIRDHOUSE_DONATION_ADDRESS", value_name = "ADDRESS")]
    pub(crate) donation_address: Option<String>,
    /// What is logged: error, warn, info, debug [default: info].
    #[arg(long, env = "BIRDHOUSE_LOG", value_name = "LEVEL")]
    pub(crate) log: Option<String>,
}

/// Networks by the names of Core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NetworkName {
    /// The main network.
    #[value(alias = "main", alias = "mainnet")]
    #[serde(alias = "main", alias = "mainnet")]
    Bitcoin,
    /// Testnet 3.
    #[value(alias = "test", alias = "testnet3")]
    #[serde(alias = "test", alias = "testnet3")]
    Testnet,
    /// Testnet 4.
    Testnet4,
    /// Signet.
    Signet,
    /// A private chain.
    Regtest,
}

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// Profiles by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProfileName {
    /// With txids.
    Full,
    /// Without.
    Lean,
}

impl From<NetworkName> for Network {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::Bitcoin => Self::Bitcoin,
            NetworkName::Testnet => Self::Testnet,
            NetworkName::Testnet4 => Self::Testnet4,
            NetworkName::Signet => Self::Signet,
            NetworkName::Regtest => Self::Regtest,
        }
    }
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Full => Self::Full,
            ProfileName::Lean => Self::Lean,
        }
    }
}

/// Takes each field from the flags, else from the file.
macro_rules! merge {
    ($flags:ident, $file:ident: $($field:ident),+) => {
        Options { config: $flags.config, $($field: $flags.$field.or($file.$field)),+ }
    };
}

impl Options {
    /// Fills in what the configuration file says where flags and variables are silent.
    pub(crate) fn with_file(self) -> Result<Self> {
        let Some(path) = self.config.clone() else { return Ok(self) };
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read --config {}", path.display()))?;
        let file = parse_file(&text).with_context(|| format!("in {}", path.display()))?;
        let flags = self;
        Ok(merge!(flags, file: node_dir, blocks_dir, network, data_dir, rpc_addr, rpc_user, rpc_password,
            zmq_sequence_addr, profile, build_memory_mib, build_temp_mib, build_reorg_blocks, build_threads, cache_mib,
            electrum_addr, electrum_tls_addr, electrum_ws_addr, electrum_wss_addr, tls_cert, tls_key, public_host, peer,
            listener, limits, relay_addr, relay_url, relay_name, relay_description, relay_search,
            relay_pubkey, relay_contact, relay_proxy_from, relay_private_messages, relay_unknown_keys, relay_compression, relay_allow_authors,
            relay_deny_authors, relay_allow_kinds, relay_deny_kinds, relay_allow_from, relay_deny_from, relay_rate,
            relay_plugin, relay_plugin_broken, bitcoin, ops_addr, server_name, banner, donation_address, log))
    }

    /// The folder of everything the server keeps.
    pub(crate) fn data_dir(&self) -> Result<PathBuf> {
        match &self.data_dir {
            Some(dir) => Ok(dir.clone()),
            None => Ok(home()?.join(".birdhouse")),
        }
    }

    /// The folder of the index of one network.
    pub(crate) fn index_dir(&self, network: Network) -> Result<PathBuf> {
        Ok(self.data_dir()?.join(network.to_string()))
    }

    /// The node's data directory.
    pub(crate) fn node_dir(&self) -> Result<PathBuf> {
        match &self.node_dir {
            Some(dir) if !dir.is_dir() => bail!("--node-dir {} is not a folder", dir.display()),
            Some(dir) => Ok(dir.clone()),
            None => Ok(home()?.join(".bitcoin")),
        }
    }
}

pub(crate) fn parse_file(text: &str) -> Result<Options> {
    Ok(toml::from_str(text)?)
}

fn home() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").context("HOME is not set: say --data-dir and --node-dir")?;
    Ok(Path::new(&home).to_path_buf())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
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
                assert!(!unknown.contains("unknown field"), "{flag}: {unknown}");
            }
        }
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "network = \"signet\"\nprofile = \"lean\"\n").unwrap();
        let flags =
            Options { config: Some(file.path().into()), network: Some(NetworkName::Regtest), ..Options::default() };
        let merged = flags.with_file().unwrap();
        assert_eq!((merged.network, merged.profile), (Some(NetworkName::Regtest), Some(ProfileName::Lean)));
    }

    #[test]
    fn a_misspelt_name_in_the_file_is_refused() {
        assert!(parse_file("netwrok = \"signet\"").unwrap_err().to_string().contains("unknown field"));
    }
}
