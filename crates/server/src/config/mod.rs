//! Settings: flags, then `BIRDHOUSE_*` variables, then the configuration file, then defaults. Without a file that is
//! named, that of a packaged service is read, if there is one.
//!
//! All of them use the same names: `--data-dir`, `BIRDHOUSE_DATA_DIR`, `data-dir = ".."`.
//!
//! May use `process`.

pub(crate) mod secrets;

mod command;
mod control;
mod example;
mod file;
mod located;
mod moment;
mod origin;
mod renamed;
mod sizes;
mod tables;
mod values;
mod warnings;
pub(crate) mod watch_files;

use std::env;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use bitcoin::Network;
use clap::Args;
use ipnet::IpNet;
use serde::Deserialize;

pub(crate) use self::command::{Command, CommandLine, Given, MigrateCommand, WatchCommand};
pub(crate) use self::control::{Banned, ControlCommand, Decided, Named, SyncRequest, time};
pub(crate) use self::example::example;
use self::located::Located;
pub(crate) use self::moment::Moment;
pub(crate) use self::origin::{Setting, UseInFile};
pub(crate) use self::tables::{
    LimitsName, LimitsOptions, ListenerKind, ListenerOptions, RateOf, RateOptions, RetentionOptions, StreamOptions,
};
use self::values::socket_addr;
pub(crate) use self::values::{
    DirectionName, DiskSize, InvoiceGap, Kind, KindRange, ListenAddr, MembersName, NetworkName, Preset, ProfileName,
    PubkeyText, PublicHost, Readers, RoleName, SilentPayments, Switch, TweakStreams, UnknownKeysName, UploadsName,
    WhenBrokenName,
};

/// Arguments with secrets, by their ids and flags.
const SECRETS: [(&str, &str); 2] = [("rpc_password", "--rpc-password"), ("nostream", "--nostream")];
/// Variable in which systemd names the folder of a service's `StateDirectory=`.
const STATE_DIRECTORY: &str = "STATE_DIRECTORY";
/// Prefix of the environment variables.
const VARIABLE: &str = "BIRDHOUSE_";

/// Settings of every command that opens the index or the relay.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Options {
    /// Configuration file: TOML with the names of these flags [default: /etc/birdhouse.toml, if it exists].
    #[arg(long, env = "BIRDHOUSE_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Data directory of the Bitcoin node [default: ~/.bitcoin].
    #[arg(long, help_heading = "Node", env = "BIRDHOUSE_NODE_DIR", value_name = "DIR")]
    pub(crate) node_dir: Option<PathBuf>,
    /// Blocks directory to index and serve without a node: no new blocks, no broadcast.
    #[arg(long, help_heading = "Node", env = "BIRDHOUSE_BLOCKS_DIR", value_name = "DIR")]
    pub(crate) blocks_dir: Option<PathBuf>,
    /// Network [default: that of bitcoin.conf, else bitcoin].
    #[arg(long, help_heading = "Node", env = "BIRDHOUSE_NETWORK", value_name = "NAME")]
    pub(crate) network: Option<NetworkName>,
    /// Address of the node's RPC [default: 127.0.0.1 and the port of bitcoin.conf or of the network].
    #[arg(long, help_heading = "Node", env = "BIRDHOUSE_RPC_ADDR", value_name = "HOST:PORT")]
    pub(crate) rpc_addr: Option<String>,
    /// RPC user, where the node writes no cookie file.
    #[arg(long, help_heading = "Node", env = "BIRDHOUSE_RPC_USER", value_name = "NAME")]
    pub(crate) rpc_user: Option<String>,
    /// RPC password; other users of the machine can read it on a command line.
    #[arg(
        long,
        help_heading = "Node",
        env = "BIRDHOUSE_RPC_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true
    )]
    pub(crate) rpc_password: Option<String>,
    /// File with the RPC password in its first line [default: the systemd credential `rpc-password`].
    #[arg(long, help_heading = "Node", env = "BIRDHOUSE_RPC_PASSWORD_FILE", value_name = "FILE")]
    pub(crate) rpc_password_file: Option<PathBuf>,
    /// Cookie file of the node [default: `.cookie` in its data directory, or `rpccookiefile` of bitcoin.conf].
    #[arg(long, help_heading = "Node", env = "BIRDHOUSE_RPC_COOKIE_FILE", value_name = "FILE")]
    pub(crate) rpc_cookie_file: Option<PathBuf>,
    /// Address of the node's ZMQ `sequence` publisher [default: `zmqpubsequence` of bitcoin.conf; without it the
    /// mempool is polled ten times a second, less often where polling takes long].
    #[arg(long, help_heading = "Node", env = "BIRDHOUSE_ZMQ_SEQUENCE_ADDR", value_name = "HOST:PORT")]
    pub(crate) zmq_sequence_addr: Option<String>,
    /// Seconds between polls of the node's chain and mempool, as electrs has them, instead of waiting for the node's
    /// notifications; SIGUSR1 polls at once.
    #[arg(long, help_heading = "Node", env = "BIRDHOUSE_RPC_POLL_SECS", value_name = "SECONDS", hide = true)]
    pub(crate) rpc_poll_secs: Option<NonZeroU32>,
    /// Folder for everything that the server stores; in a unit of systemd, that of `StateDirectory=` where this is
    /// unset [default: ~/.birdhouse].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Cluster of Apache Cassandra that holds the index, or with `--bitcoin off` the relay's events, like
    /// `cql://host,host/keyspace`; needs a program that was built with the feature `cluster` [default: files in the
    /// data folder].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_STORE", value_name = "URL")]
    pub(crate) store: Option<String>,
    /// File with the certificates (PEM) of the authorities that sign those of the cluster's nodes: connections to the
    /// cluster are encrypted, and a node's certificate must name its IP address [default: unencrypted].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_STORE_TLS_CA", value_name = "FILE")]
    pub(crate) store_tls_ca: Option<PathBuf>,
    /// Name of a role of the cluster with which this server logs in [default: no login].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_STORE_USER", value_name = "NAME")]
    pub(crate) store_user: Option<String>,
    /// File with the password of `--store-user` in its first line.
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub(crate) store_password_file: Option<PathBuf>,
    /// Role on a cluster: `indexer` writes the index or the events, or waits to take over from the process that does;
    /// `front` serves what another process writes [default: indexer].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_ROLE", value_name = "NAME")]
    pub(crate) role: Option<RoleName>,
    /// Address of a primary's `replicas-addr`, like `https://primary:3002`: this server copies the primary's index, and
    /// follows it, instead of writing one [default: none].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_FOLLOW", value_name = "URL")]
    pub(crate) follow: Option<String>,
    /// Address over HTTP for replicas, which are servers with `follow`, and for front ends of a relay on a cluster
    /// [default: none].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_REPLICAS_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) replicas_addr: Option<SocketAddr>,
    /// Address over HTTPS for replicas and front ends of a relay, with the certificate of `--tls-cert` [default: none].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_REPLICAS_TLS_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) replicas_tls_addr: Option<SocketAddr>,
    /// File with the secret that replicas and front ends of a relay show, in its first line, on both sides. Beyond
    /// loopback `replicas-addr` needs it.
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_REPLICA_SECRET_FILE", value_name = "FILE")]
    pub(crate) replica_secret_file: Option<PathBuf>,
    /// Contents of the index: `full` stores txids, 32 bytes a transaction; `lean` hashes them from the node's blocks
    /// when asked [default: full].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_PROFILE", value_name = "NAME")]
    pub(crate) profile: Option<ProfileName>,
    /// Defaults of `build-memory-mib`, `build-temp-mib` and `cache-mib`: `pi4` (320, 8192, 32) is for machines with
    /// 4 GB of memory that also run the node [default: usual].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_PRESET", value_name = "NAME")]
    pub(crate) preset: Option<Preset>,
    /// Memory for the first build, and half of it for catching up, without the file cache, in MiB [default: 1024].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_BUILD_MEMORY_MIB", value_name = "MIB")]
    pub(crate) build_memory_mib: Option<u64>,
    /// Temporary disk space for the first generation of the first build, in MiB. Later ones take as much as the
    /// sorted files of all will take. An index that lacks 1000 blocks or more uses it, too, up to 1536
    /// [default: 16384].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_BUILD_TEMP_MIB", value_name = "MIB")]
    pub(crate) build_temp_mib: Option<u64>,
    /// Folder in which the first build, and an index that lacks 1000 blocks or more, make a folder for their temporary
    /// files [default: that of the index].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_BUILD_TEMP_DIR", value_name = "DIR")]
    pub(crate) build_temp_dir: Option<PathBuf>,
    /// Transactions of the oldest blocks that answer while a long first build runs, in percent of the chain's. They
    /// cost about as many percent of its CPU time; 0: nothing answers before its end [default: 1].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_BUILD_EARLY_PERCENT", value_name = "PERCENT")]
    pub(crate) build_early_percent: Option<u32>,
    /// Blocks below the tip that only the last generation of the first build may hold [default: 1000].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_BUILD_REORG_BLOCKS", value_name = "N", hide = true)]
    pub(crate) build_reorg_blocks: Option<u32>,
    /// Threads of the first build [default: one per processor].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_BUILD_THREADS", value_name = "N")]
    pub(crate) build_threads: Option<usize>,
    /// Memory for cached index blocks, in MiB [default: 64].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_CACHE_MIB", value_name = "MIB")]
    pub(crate) cache_mib: Option<u64>,
    /// Greatest number of blocks that a reorg may take back without `birdhouse ctl accept-reorg` [default: 1000].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_REORG_DEPTH_MAX", value_name = "BLOCKS")]
    pub(crate) reorg_depth_max: Option<u32>,
    /// Disk for the node's blocks, like `30GB`: older ones are deleted once every index has them. The node needs
    /// `prune=1` [default: none is deleted].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_NODE_PRUNE_KEEP", value_name = "SIZE")]
    pub(crate) node_prune_keep: Option<DiskSize>,
    /// Fetching of deleted blocks of a pruned node as soon as a wallet asks for a history: peers of the node learn the
    /// blocks of all histories, not only those of the transactions that wallets ask for [default: off].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_PREFETCH_REMOVED_BLOCKS", value_name = "SWITCH")]
    pub(crate) prefetch_removed_blocks: Option<Switch>,
    /// Blocks below the last one that every index has which are kept [default: 1000].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_NODE_PRUNE_MARGIN", value_name = "BLOCKS", hide = true)]
    pub(crate) node_prune_margin: Option<u32>,
    /// Fewest bytes of blocks that are deleted at a time [default: 10000000000].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_NODE_PRUNE_STEP", value_name = "N", hide = true)]
    pub(crate) node_prune_step: Option<u64>,
    /// Serve wallets. `off` runs the relay alone and needs no node [default: on].
    #[arg(long, help_heading = "Index", env = "BIRDHOUSE_BITCOIN", value_name = "SWITCH")]
    pub(crate) bitcoin: Option<Switch>,
    /// Address for wallets over TCP [default: 127.0.0.1, where no other listener is set; port 50001 on bitcoin].
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_ELECTRUM_ADDR", value_name = "IP[:PORT]")]
    pub(crate) electrum_addr: Option<ListenAddr>,
    /// Address for wallets over TLS [default port: 50002 on bitcoin].
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_ELECTRUM_TLS_ADDR", value_name = "IP[:PORT]")]
    pub(crate) electrum_tls_addr: Option<ListenAddr>,
    /// Address for wallets over WebSocket [default port: 50003 on bitcoin].
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_ELECTRUM_WS_ADDR", value_name = "IP[:PORT]")]
    pub(crate) electrum_ws_addr: Option<ListenAddr>,
    /// Address for wallets over WebSocket and TLS [default port: 50004 on bitcoin].
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_ELECTRUM_WSS_ADDR", value_name = "IP[:PORT]")]
    pub(crate) electrum_wss_addr: Option<ListenAddr>,
    /// Certificate chain in PEM, reloaded when it changes [default: a self-signed one in the data folder].
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Public addresses to announce to wallets and peers, like `ssl://electrum.example.org:50002` (tcp, ssl, ws, wss).
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_PUBLIC_HOST", value_name = "URL", value_delimiter = ',')]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) public_host: Option<Vec<PublicHost>>,
    /// Electrum servers to probe and list as peers, like `ssl://electrum.example.org:50002` (tcp, ssl). With one,
    /// servers that announce themselves are probed and listed too [default: none].
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_PEER", value_name = "URL", value_delimiter = ',')]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) peer: Option<Vec<PublicHost>>,
    /// Onion service for your own wallets, made through the control port of a Tor on this machine [default: off].
    #[arg(
        long,
        help_heading = "Wallets",
        env = "BIRDHOUSE_TOR",
        value_name = "SWITCH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on"
    )]
    pub(crate) tor: Option<Switch>,
    /// Control port of that Tor [default: 127.0.0.1:9051].
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_TOR_CONTROL_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) tor_control_addr: Option<SocketAddr>,
    /// Server name for wallets. Sparrow sends batches only to servers it knows; a name with `ElectrumX` is one.
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_SERVER_NAME", value_name = "TEXT")]
    pub(crate) server_name: Option<String>,
    /// Banner that wallets show.
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_BANNER", value_name = "TEXT")]
    pub(crate) banner: Option<String>,
    /// Address for donations.
    #[arg(long, help_heading = "Wallets", env = "BIRDHOUSE_DONATION_ADDRESS", value_name = "ADDRESS")]
    pub(crate) donation_address: Option<String>,
    /// Address for Esplora's REST API over HTTP [default: none].
    #[arg(long, help_heading = "REST", env = "BIRDHOUSE_REST_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) rest_addr: Option<SocketAddr>,
    /// Address for Esplora's REST API over HTTPS, with the certificate of `--tls-cert` [default: none].
    #[arg(long, help_heading = "REST", env = "BIRDHOUSE_REST_TLS_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) rest_tls_addr: Option<SocketAddr>,
    /// Address for the REST API over HTTP with `/internal`, which mempool's back end asks. Requests there may cost
    /// much: let no strangers reach it [default: none].
    #[arg(long, help_heading = "REST", env = "BIRDHOUSE_REST_PRIVATE_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) rest_private_addr: Option<SocketAddr>,
    /// Headers of compact block filters (BIP 157), computed in the background and served with the filters by the REST
    /// API [default: off].
    #[arg(long, help_heading = "REST", env = "BIRDHOUSE_BLOCK_FILTERS", value_name = "SWITCH")]
    pub(crate) block_filters: Option<Switch>,
    /// Index of silent payments (BIP 352), computed in the background from the height of taproot on, or by the first
    /// build [default: off; an index that was made before stays on the disk].
    #[arg(long, help_heading = "Silent payments", env = "BIRDHOUSE_SILENT_PAYMENTS", value_name = "DETAIL")]
    pub(crate) silent_payments: Option<SilentPayments>,
    /// Tweaks for wallets that scan by themselves, in Cake Wallet's dialect over Electrum; needs `silent-payments` =
    /// `full`. The server's name then says that it has them: Cake asks only servers with `electrs` in it [default:
    /// off].
    #[arg(long, help_heading = "Silent payments", env = "BIRDHOUSE_TWEAK_STREAMS", value_name = "VERSION")]
    pub(crate) tweak_streams: Option<TweakStreams>,
    /// Address for the explorer over HTTP, with the REST API under `/api` [default: none].
    #[arg(long, help_heading = "Explorer", env = "BIRDHOUSE_HTTP_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) http_addr: Option<SocketAddr>,
    /// Address for the explorer over HTTPS, with the certificate of `--tls-cert` [default: none].
    #[arg(long, help_heading = "Explorer", env = "BIRDHOUSE_HTTP_TLS_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) http_tls_addr: Option<SocketAddr>,
    /// Address for Nostr clients over WebSocket [default: no relay].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) relay_addr: Option<SocketAddr>,
    /// Address for Nostr clients over WebSocket over TLS, with the certificate of `--tls-cert` [default: no listener].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_TLS_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) relay_tls_addr: Option<SocketAddr>,
    /// Public URLs of the relay, like `wss://relay.example.org`, checked in AUTH (NIP-42) and vanish requests (NIP-62)
    /// [default: none; only clients that connect to an IP address can authenticate].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_URL", value_name = "URL", value_delimiter = ',')]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_url: Option<Vec<String>>,
    /// Front end of a relay on a cluster: the `replicas-addr` of the process that stores the events, and of those that
    /// wait to take over, like `http://10.0.0.1:3002` [default: none].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_WRITER", value_name = "URL", value_delimiter = ',')]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_writer: Option<Vec<String>>,
    /// Name of the relay (NIP-11).
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_NAME", value_name = "TEXT")]
    pub(crate) relay_name: Option<String>,
    /// Description of the relay (NIP-11).
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_DESCRIPTION", value_name = "TEXT")]
    pub(crate) relay_description: Option<String>,
    /// Full-text search on the relay (NIP-50), with a search index beside the events [default: on].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_SEARCH", value_name = "SWITCH")]
    pub(crate) relay_search: Option<Switch>,
    /// Public key of the operator (NIP-11): hexadecimal or npub.
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_PUBKEY", value_name = "PUBKEY")]
    pub(crate) relay_pubkey: Option<PubkeyText>,
    /// Contact of the operator (NIP-11), like `mailto:owner@example.org`.
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_CONTACT", value_name = "URI")]
    pub(crate) relay_contact: Option<String>,
    /// Public key of the relay itself (NIP-11): hexadecimal or npub.
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_SELF", value_name = "PUBKEY")]
    pub(crate) relay_self: Option<PubkeyText>,
    /// Square picture of the relay (NIP-11).
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_ICON", value_name = "URL")]
    pub(crate) relay_icon: Option<String>,
    /// Wide picture of the relay (NIP-11).
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_BANNER", value_name = "URL")]
    pub(crate) relay_banner: Option<String>,
    /// Terms of service of the relay (NIP-11).
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_TERMS_OF_SERVICE", value_name = "URL")]
    pub(crate) relay_terms_of_service: Option<String>,
    /// Networks of reverse proxies whose `X-Forwarded-For` or `Forwarded` header gives the client's address.
    #[arg(
        long,
        help_heading = "Relay",
        env = "BIRDHOUSE_RELAY_PROXY_FROM",
        value_name = "NETWORK",
        value_delimiter = ','
    )]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_proxy_from: Option<Vec<IpNet>>,
    /// Readers of private messages (kinds 4, 1059 and 21059): `participants` are the author and the recipients
    /// [default: participants].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_PRIVATE_MESSAGES", value_name = "WHO")]
    pub(crate) relay_private_messages: Option<Readers>,
    /// Compression of messages for clients that support it (permessage-deflate) [default: on].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_COMPRESSION", value_name = "SWITCH")]
    pub(crate) relay_compression: Option<Switch>,
    /// Treatment of unknown keys in a filter: `ignore` the key or `refuse` the filter [default: ignore].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_UNKNOWN_KEYS", value_name = "WHAT")]
    pub(crate) relay_unknown_keys: Option<UnknownKeysName>,
    /// Hints in `EOSE` whether stored events were left out (NIP-67). Some clients ignore an `EOSE` with a hint, and
    /// wait for ever [default: off].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_EOSE_HINTS", value_name = "SWITCH")]
    pub(crate) relay_eose_hints: Option<Switch>,
    /// Members of the relay (NIP-43), who may invite others. `publish`: only they publish; `private`: only they publish
    /// and read; `open`: everybody does [default: off].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_MEMBERS", value_name = "WHO")]
    pub(crate) relay_members: Option<MembersName>,
    /// Authors whose events are accepted, hexadecimal or npub [default: all].
    #[arg(
        long,
        help_heading = "Relay",
        env = "BIRDHOUSE_RELAY_ALLOW_AUTHORS",
        value_name = "PUBKEY",
        value_delimiter = ','
    )]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_allow_authors: Option<Vec<PubkeyText>>,
    /// Authors whose events are refused.
    #[arg(
        long,
        help_heading = "Relay",
        env = "BIRDHOUSE_RELAY_DENY_AUTHORS",
        value_name = "PUBKEY",
        value_delimiter = ','
    )]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_deny_authors: Option<Vec<PubkeyText>>,
    /// Kinds that are accepted, like `0-9,30000-39999` [default: all].
    #[arg(
        long,
        help_heading = "Relay",
        env = "BIRDHOUSE_RELAY_ALLOW_KINDS",
        value_name = "KIND",
        value_delimiter = ','
    )]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_allow_kinds: Option<Vec<KindRange>>,
    /// Kinds that are refused.
    #[arg(
        long,
        help_heading = "Relay",
        env = "BIRDHOUSE_RELAY_DENY_KINDS",
        value_name = "KIND",
        value_delimiter = ','
    )]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_deny_kinds: Option<Vec<KindRange>>,
    /// Authors that may ban and allow over HTTP (NIP-86), hexadecimal or npub [default: none; the API is off].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_ADMINS", value_name = "PUBKEY", value_delimiter = ',')]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_admins: Option<Vec<PubkeyText>>,
    /// Networks that may connect to the relay [default: all].
    #[arg(
        long,
        help_heading = "Relay",
        env = "BIRDHOUSE_RELAY_ALLOW_FROM",
        value_name = "NETWORK",
        value_delimiter = ','
    )]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_allow_from: Option<Vec<IpNet>>,
    /// Networks that may not connect to the relay.
    #[arg(
        long,
        help_heading = "Relay",
        env = "BIRDHOUSE_RELAY_DENY_FROM",
        value_name = "NETWORK",
        value_delimiter = ','
    )]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) relay_deny_from: Option<Vec<IpNet>>,
    /// Further rates of events by kind; only in the configuration file.
    #[arg(skip)]
    pub(crate) relay_rate: Option<Vec<RateOptions>>,
    /// Rules of how long events are kept; only in the configuration file.
    #[arg(skip)]
    pub(crate) relay_retention: Option<Vec<RetentionOptions>>,
    /// Events that pass from and to other relays; only in the configuration file.
    #[arg(skip)]
    pub(crate) stream: Option<Vec<StreamOptions>>,
    /// Shell command of a program that accepts or refuses every event, in the protocol of strfry's plugins.
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_PLUGIN", value_name = "COMMAND")]
    pub(crate) relay_plugin: Option<String>,
    /// Treatment of events while the plugin is broken: `refuse` or `accept` [default: refuse].
    #[arg(long, help_heading = "Relay", env = "BIRDHOUSE_RELAY_PLUGIN_BROKEN", value_name = "WHAT")]
    pub(crate) relay_plugin_broken: Option<WhenBrokenName>,
    /// Address of the media store (Blossom) over HTTP [default: none].
    #[arg(long, help_heading = "Media", env = "BIRDHOUSE_BLOSSOM_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) blossom_addr: Option<SocketAddr>,
    /// Address of the media store over HTTPS, with the certificate of `--tls-cert` [default: none].
    #[arg(long, help_heading = "Media", env = "BIRDHOUSE_BLOSSOM_TLS_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) blossom_tls_addr: Option<SocketAddr>,
    /// Public URL of the media store, without a path. It has a host name of its own [default: that of the socket].
    #[arg(long, help_heading = "Media", env = "BIRDHOUSE_BLOSSOM_URL", value_name = "URL")]
    pub(crate) blossom_url: Option<String>,
    /// Keys that may upload: `members`, which are those of the relay with its admins and the authors that it allows,
    /// or `anyone` whom it does not ban [default: members].
    #[arg(long, help_heading = "Media", env = "BIRDHOUSE_BLOSSOM_UPLOADS", value_name = "WHO")]
    pub(crate) blossom_uploads: Option<UploadsName>,
    /// Types of files that may be uploaded, like `image/*,video/mp4` [default: all].
    #[arg(long, help_heading = "Media", env = "BIRDHOUSE_BLOSSOM_TYPES", value_name = "TYPE", value_delimiter = ',')]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) blossom_types: Option<Vec<String>>,
    /// File of watches: wallets of your own whose payments are announced, and the channels for it. It must be readable
    /// by the user of the server alone [default: watches.toml in the data folder; beside a configuration file other
    /// than /etc/birdhouse.toml].
    #[arg(long, help_heading = "Watches", env = "BIRDHOUSE_WATCH_FILE", value_name = "FILE")]
    pub(crate) watch_file: Option<PathBuf>,
    /// Address for programs that ask for watched wallets, follow their payments and make invoices, over HTTP. Requests
    /// carry the token of `--watch-api-token-file` [default: none].
    #[arg(long, help_heading = "Watches", env = "BIRDHOUSE_WATCH_API_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) watch_api_addr: Option<SocketAddr>,
    /// File with the token of `--watch-api-addr` in its first line, at least 16 characters [default: `watch-api-token`
    /// in the data folder, which is made at the first start].
    #[arg(long, help_heading = "Watches", env = "BIRDHOUSE_WATCH_API_TOKEN_FILE", value_name = "FILE")]
    pub(crate) watch_api_token_file: Option<PathBuf>,
    /// Invoices beyond the gap of their wallet: a wallet that is restored from its seed would not find their payments
    /// [default: refuse].
    #[arg(long, help_heading = "Watches", env = "BIRDHOUSE_WATCH_INVOICE_GAP", value_name = "RULE")]
    pub(crate) watch_invoice_gap: Option<InvoiceGap>,
    /// Address for the dashboard, /metrics and /health over HTTP, for the operator alone [default: none].
    #[arg(long, help_heading = "Operations", env = "BIRDHOUSE_OPS_ADDR", value_name = "IP:PORT", value_parser = socket_addr)]
    #[serde(default, deserialize_with = "file::addr")]
    pub(crate) ops_addr: Option<SocketAddr>,
    /// Names under which browsers may open the dashboard, beside IP addresses and localhost [default: none].
    #[arg(long, help_heading = "Operations", env = "BIRDHOUSE_OPS_HOST", value_name = "NAME", value_delimiter = ',')]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) ops_host: Option<Vec<String>>,
    /// Buttons on the dashboard for the commands of `birdhouse ctl`, for everyone who reaches its address [default: on
    /// where `--ops-addr` is a loopback address].
    #[arg(long, help_heading = "Operations", env = "BIRDHOUSE_OPS_CONTROL", value_name = "SWITCH")]
    pub(crate) ops_control: Option<Switch>,
    /// Origins of web pages that may open a WebSocket over loopback, like `https://client.example`, beside those of
    /// this machine [default: none].
    #[arg(
        long,
        help_heading = "Operations",
        env = "BIRDHOUSE_WEB_ORIGIN",
        value_name = "ORIGIN",
        value_delimiter = ','
    )]
    #[serde(default, deserialize_with = "file::list")]
    pub(crate) web_origin: Option<Vec<String>>,
    /// Lets the system write the memory of a crashed server to disk, and debuggers read it: passwords and keys are in
    /// it [default: off].
    #[arg(long, help_heading = "Operations", env = "BIRDHOUSE_CORE_DUMPS", value_name = "SWITCH")]
    pub(crate) core_dumps: Option<Switch>,
    /// Log level: off, error, warn, info, debug or trace, or levels of modules like `info,birdhouse_relay=debug`
    /// [default: info].
    #[arg(long, help_heading = "Operations", env = "BIRDHOUSE_LOG", value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// Further listeners; only in the configuration file.
    #[arg(skip)]
    pub(crate) listener: Option<Vec<ListenerOptions>>,
    /// Bounds that differ from their defaults; only in the configuration file.
    #[arg(skip)]
    pub(crate) limits: Option<LimitsOptions>,
}

/// Implements what concerns every setting, but for `config` itself.
macro_rules! settings {
    ($($field:ident),+ $(,)?) => {
        impl Options {
            /// Takes each setting that is unset here from `file`.
            fn or(self, file: Self) -> Self {
                Self { config: self.config, $($field: self.$field.or(file.$field)),+ }
            }

            /// Returns the names of the settings that are set.
            fn given(&self) -> Vec<String> {
                let all = [$((stringify!($field), self.$field.is_some())),+];
                all.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name.replace('_', "-")).collect()
            }
        }
    };
}

settings! {
    node_dir, blocks_dir, network, data_dir, rpc_addr, rpc_user, rpc_password, rpc_password_file,
    rpc_cookie_file, zmq_sequence_addr, rpc_poll_secs, store, store_tls_ca, store_user, store_password_file, role, follow, replicas_addr, replicas_tls_addr, replica_secret_file, profile, preset, build_memory_mib, build_temp_mib, build_temp_dir, build_early_percent, build_reorg_blocks,
    build_threads, cache_mib, reorg_depth_max, node_prune_keep, prefetch_removed_blocks, node_prune_margin, node_prune_step, electrum_addr, electrum_tls_addr, electrum_ws_addr, electrum_wss_addr, tls_cert,
    tls_key, public_host, peer, tor, tor_control_addr, listener, limits, rest_addr, rest_tls_addr, rest_private_addr, block_filters, silent_payments, tweak_streams, http_addr, http_tls_addr, relay_addr, relay_tls_addr, relay_url, relay_writer, relay_name,
    relay_description, relay_search, relay_pubkey, relay_contact, relay_self, relay_icon, relay_banner,
    relay_terms_of_service, relay_proxy_from, relay_private_messages,
    relay_unknown_keys, relay_eose_hints, relay_compression, relay_members, relay_allow_authors, relay_deny_authors, relay_allow_kinds,
    relay_deny_kinds, relay_admins, relay_allow_from, relay_deny_from, relay_rate, relay_retention, stream, relay_plugin,
    relay_plugin_broken, blossom_addr, blossom_tls_addr, blossom_url, blossom_uploads, blossom_types, watch_file, watch_api_addr, watch_api_token_file, watch_invoice_gap, bitcoin,
    ops_addr, ops_host, ops_control, web_origin, core_dumps, server_name, banner, donation_address, log
}

impl Options {
    /// Returns the settings with those of the configuration file where flags and variables are unset; `config` is then
    /// the file that was read.
    pub(crate) fn with_file(self) -> Result<Self> {
        let Some(Located { path, text }) = located::read(self.config.as_deref())? else { return Ok(self) };
        let file =
            parse_file(&text).with_context(|| format!("failed to read configuration file {}", path.display()))?;
        Ok(Self { config: Some(path), ..self }.or(file))
    }

    /// Returns the folder of everything that the server stores.
    pub(crate) fn data_dir(&self) -> Result<PathBuf> {
        match &self.data_dir {
            Some(dir) => Ok(dir.clone()),
            None => match state_directory(env::var_os(STATE_DIRECTORY)) {
                Some(dir) => Ok(dir),
                None => Ok(home()?.join(".birdhouse")),
            },
        }
    }

    /// Returns the path of the watch file. Beside the file of a packaged service the user of the service may make none,
    /// and no backup of its data would have it.
    pub(crate) fn watch_file(&self) -> Result<PathBuf> {
        if let Some(file) = &self.watch_file {
            return Ok(file.clone());
        }
        let own = self.config.as_deref().filter(|file| !located::is_packaged(file));
        let beside = own.and_then(Path::parent).map(Path::to_path_buf);
        Ok(beside.map_or_else(|| self.data_dir(), Ok)?.join(watch_files::FILE))
    }

    /// Returns `true` if the settings enable the index and the server for wallets.
    pub(crate) fn has_bitcoin(&self) -> bool {
        self.bitcoin != Some(Switch::Off)
    }

    /// Returns the folder of the index of one network.
    pub(crate) fn index_dir(&self, network: Network) -> Result<PathBuf> {
        Ok(self.data_dir()?.join(network.to_string()))
    }

    /// Returns the other networks of which the data folder holds an index, as one text.
    pub(crate) fn other_indexes(&self, network: Network) -> Option<String> {
        let has_index = |other: &Network| {
            *other != network && self.index_dir(*other).is_ok_and(|folder| folder.join("VERSION").exists())
        };
        let names: Vec<String> = NetworkName::all().filter(has_index).map(|network| network.to_string()).collect();
        (!names.is_empty()).then(|| names.join(" and "))
    }

    /// Returns the node's data directory.
    pub(crate) fn node_dir(&self) -> Result<PathBuf> {
        match &self.node_dir {
            Some(dir) if !dir.is_dir() => bail!("failed to open --node-dir {}: not a directory", dir.display()),
            Some(dir) => Ok(dir.clone()),
            None => Ok(home()?.join(".bitcoin")),
        }
    }
}

/// Parses the text of a configuration file.
pub(crate) fn parse_file(text: &str) -> Result<Options> {
    file::parse(text)
}

/// Returns the first folder that systemd names to a service whose unit has `StateDirectory=`.
///
/// Source: `systemd.exec(5)`, where several folders are separated by colons.
fn state_directory(named: Option<OsString>) -> Option<PathBuf> {
    let named = named?.into_string().ok()?;
    named.split(':').find(|folder| !folder.is_empty()).map(PathBuf::from)
}

fn home() -> Result<PathBuf> {
    let home = env::var_os("HOME").context("HOME is not set; set --data-dir and --node-dir")?;
    Ok(Path::new(&home).to_path_buf())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of files, so that random ones get beyond the first line.
    const PIECES: [&str; 24] = [
        "network",
        "profile",
        "relay-url",
        "electrum-addr",
        "relay-rate",
        "[limits.public]",
        "[limits.rest]",
        "[[listener]]",
        "[[stream]]",
        "\n",
        "\n",
        " = ",
        " = ",
        "=",
        "\"signet\"",
        "'127.0.0.1:1'",
        "[",
        "]",
        ",",
        "1e9",
        "-1",
        "true",
        "`",
        "\"\"\"",
    ];

    proptest! {
        #[test]
        fn any_file_is_read_or_refused_with_a_reason(
            mut pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..30),
            noise in ".{0,12}",
            at: prop::sample::Index,
        ) {
            pieces.insert(at.index(pieces.len() + 1), &noise);
            if let Err(error) = parse_file(&pieces.concat()) {
                prop_assert!(!error.to_string().is_empty());
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
    fn systemd_names_the_folder_of_a_service() {
        let folder = |text: &str| state_directory(Some(text.into()));
        assert_eq!(folder("/var/lib/birdhouse"), Some("/var/lib/birdhouse".into()));
        assert_eq!(folder("/var/lib/birdhouse:/var/lib/other"), Some("/var/lib/birdhouse".into()));
        assert_eq!((folder(""), state_directory(None)), (None, None));
    }

    #[test]
    fn a_misspelt_name_in_the_file_is_refused() {
        let error = parse_file("netwrok = \"signet\"").unwrap_err().to_string();
        assert_eq!(error, "line 1: unknown setting \"netwrok\"; did you mean \"network\"?");
    }
}
