//! Location of the node: data folder, network, RPC address and credentials, found as `bitcoin-cli` finds them.
//!
//! Parsing `bitcoin.conf` is a pure function. The command line wins over a network's section, and the section over the
//! part before all sections. Core has three rules for keys that stand twice in one part: the first wins; a negated key
//! (`norpcuser=1`) erases what stands before it; of the flags that choose the chain, the last wins.
//! Source: Core's `common/settings.cpp`, `common/config.cpp`, `common/args.cpp`, `chainparamsbase.cpp`.

mod peer_ports;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use birdhouse_chain::source::{SourceError, SourceResult};
use bitcoin::Network;

use crate::blk::{NETWORKS, TESTNET5, network_flag, unserved_chain};
use crate::error::{permanent, unreadable_conf};

/// Name of the configuration file in the data folder.
const CONF_NAME: &str = "bitcoin.conf";
/// Number of included files that are read. Includes inside them are ignored, as in Core.
const INCLUDES_MAX: usize = 16;
/// Keys that apply to the main network only when they stand before all sections.
const NETWORK_ONLY: [&str; 4] = ["bind", "port", "rpcport", "whitebind"];

/// Settings of the operator; everything else is found.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// The node's data folder; `~/.bitcoin` by default.
    pub node_dir: Option<PathBuf>,
    /// The folder with `blk*.dat` itself.
    pub blocks_dir: Option<PathBuf>,
    /// The network; that of `bitcoin.conf` by default.
    pub network: Option<Network>,
    /// `host:port` of the RPC server.
    pub rpc_address: Option<String>,
    /// RPC user and password.
    pub rpc_user: Option<(String, String)>,
    /// The cookie file.
    pub rpc_cookie: Option<PathBuf>,
    /// `host:port` of ZMQ `sequence` messages; that of `bitcoin.conf` by default.
    pub zmq_sequence: Option<String>,
}

/// Credentials for the RPC server.
#[derive(Clone, PartialEq, Eq)]
pub enum Auth {
    /// A file with `user:password` that the node rewrites at each start.
    Cookie(PathBuf),
    /// `rpcuser` and `rpcpassword`, or a pair that matches an `rpcauth` line.
    UserPassword {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
}

/// The form in messages, without the password.
impl std::fmt::Display for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cookie(path) => write!(f, "the cookie file {}", path.display()),
            Self::UserPassword { user, .. } => write!(f, "the user {user:?} and its password"),
        }
    }
}

/// The form of [`Display`](std::fmt::Display), because a derived one would show the password.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The location of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConf {
    /// Its network.
    pub network: Network,
    /// The folder of that network's data.
    pub network_dir: PathBuf,
    /// The folder with `blk*.dat`.
    pub blocks_dir: PathBuf,
    /// `host:port` of its RPC and REST server.
    pub rpc_address: String,
    /// The credentials for it.
    pub auth: Auth,
    /// `host:port` of its ZMQ `sequence` messages, if it publishes them.
    pub zmq_sequence: Option<String>,
    /// Ports at which it listens for peers, as far as its configuration says.
    pub peer_ports: Vec<u16>,
}

impl NodeConf {
    /// Finds the node from the operator's settings and the files in its data folder. `home` is the operator's home
    /// folder.
    ///
    /// # Errors
    /// No data folder is known, `bitcoin.conf` cannot be read, or it chooses no valid network.
    pub fn find(options: &NodeOptions, home: Option<&Path>) -> SourceResult<Self> {
        let given = options.node_dir.clone().or_else(|| home.map(default_dir));
        let conf_dir =
            given.ok_or_else(|| permanent("failed to find the node: no home folder is known; set --node-dir"))?;
        let conf = read_conf(&conf_dir, options.network)?;
        let network = match options.network {
            Some(network) => network,
            None => conf.network().map_err(permanent)?.unwrap_or_else(|| only_network_in(&conf_dir)),
        };
        Ok(Self::assemble(options, &conf_dir, &conf, network))
    }

    /// Returns a message if the data folder holds no blocks of the network, but those of others: then the wrong network
    /// is chosen.
    pub fn other_network(&self) -> Option<String> {
        if self.blocks_dir.is_dir() {
            return None;
        }
        let base = if subfolder(self.network).is_empty() { &*self.network_dir } else { self.network_dir.parent()? };
        let others: Vec<Network> = networks_in(base).filter(|other| *other != self.network).collect();
        let first = network_flag(*others.first()?);
        let names: Vec<&str> = others.iter().map(|network| network_flag(*network)).collect();
        Some(format!(
            "failed to find the network {} in {}: found {}; use --network {first}, or another --node-dir",
            network_flag(self.network),
            base.display(),
            names.join(" and "),
        ))
    }

    fn assemble(options: &NodeOptions, conf_dir: &Path, conf: &Conf, network: Network) -> Self {
        let base = conf.get(network, "datadir").map_or_else(|| conf_dir.to_owned(), |dir| conf_dir.join(dir));
        let network_dir = base.join(subfolder(network));
        let blocks_base = conf.get(network, "blocksdir").map_or_else(|| base.clone(), |dir| base.join(dir));
        let found_blocks = blocks_base.join(subfolder(network)).join("blocks");
        Self {
            network,
            blocks_dir: options.blocks_dir.clone().unwrap_or(found_blocks),
            rpc_address: options.rpc_address.clone().unwrap_or_else(|| rpc_address(conf, network)),
            auth: auth(options, conf, network, &network_dir),
            zmq_sequence: options.zmq_sequence.clone().or_else(|| zmq_sequence(conf, network)),
            peer_ports: peer_ports::of_conf(conf, network),
            network_dir,
        }
    }
}

/// A parsed `bitcoin.conf`: its lines, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conf(Vec<Line>);

/// One `key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    section: String,
    key: String,
    /// `None` for a negated key.
    value: Option<String>,
}

impl Conf {
    /// Parses the text of a configuration file. Lines other than `key=value` are ignored: the node rejects them.
    pub fn parse(text: &str) -> Self {
        let mut entries = Vec::new();
        let mut section = String::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.trim().clone_into(&mut section);
            } else if let Some((key, value)) = line.split_once('=') {
                entries.push(Line::new(&section, key.trim(), value.trim()));
            }
        }
        Self(entries)
    }

    /// Returns the value that applies to `network`: that of its section, else that before all sections. `None` where
    /// the key is missing or negated.
    pub fn get(&self, network: Network, key: &str) -> Option<&str> {
        self.all(network, key).next()
    }

    /// Returns the values of a key that may stand several times, those that apply to `network`.
    fn all(&self, network: Network, key: &str) -> impl Iterator<Item = &str> {
        let (own, own_end) = self.in_section(section_name(network), key);
        let (common, _) = self.in_section("", key);
        // A key that the section negates last has no value, whatever stands before all sections.
        let is_common = (network == Network::Bitcoin || !NETWORK_ONLY.contains(&key)) && own_end == End::Value;
        own.into_iter().chain(common.into_iter().filter(move |_| is_common))
    }

    /// Returns the chosen network, if any.
    ///
    /// # Errors
    /// A message when the chosen network is not served, or several are chosen.
    pub fn network(&self) -> Result<Option<Network>, String> {
        let flag = |key: &str| self.in_section("", key).0.last().is_some_and(|value| is_true(value));
        let is_chosen = |network: &Network| match network {
            Network::Bitcoin => false,
            Network::Testnet => flag("testnet"),
            other => flag(section_name(*other)),
        };
        let refused = |name: &str| format!("failed to read {CONF_NAME}: {}", unserved_chain(name));
        if flag(TESTNET5) {
            return Err(refused(TESTNET5));
        }
        let (names, _) = self.in_section("", "chain");
        let named = names.first().map(|name| network_named(name).ok_or_else(|| refused(name)));
        let mut all = NETWORKS.into_iter().filter(is_chosen).chain(named.transpose()?);
        match (all.next(), all.next()) {
            (first, None) => Ok(first),
            _ => Err(format!("failed to read {CONF_NAME}: it chooses several networks; keep one")),
        }
    }

    /// Returns the values of a key in a section behind its last negation, and what its last line is.
    fn in_section(&self, section: &str, key: &str) -> (Vec<&str>, End) {
        let (mut values, mut end) = (Vec::new(), End::Value);
        for line in self.0.iter().filter(|line| line.section == section && line.key == key) {
            match &line.value {
                Some(value) => values.push(value.as_str()),
                None => values.clear(),
            }
            end = if line.value.is_some() { End::Value } else { End::Negated };
        }
        (values, end)
    }

    /// Returns the files to include: those of the network's section, then those before all sections.
    fn includes(&self, network: Network) -> impl Iterator<Item = &str> {
        let of = |section| self.in_section(section, "includeconf").0;
        of(section_name(network)).into_iter().chain(of(""))
    }
}

/// The last line of a key in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Value,
    Negated,
}

impl Line {
    /// `regtest.rpcport=1` before all sections means `rpcport=1` in `[regtest]`; `norest=1` negates `rest`, and
    /// `norest=0` means `rest=1`.
    fn new(section: &str, key: &str, value: &str) -> Self {
        let (section, key) = match key.split_once('.') {
            Some((prefix, rest)) if section.is_empty() => (prefix, rest),
            _ => (section, key),
        };
        let (key, value) = match key.strip_prefix("no") {
            Some(positive) => (positive, if is_true(value) { None } else { Some("1") }),
            None => (key, Some(value)),
        };
        Self { section: section.into(), key: key.into(), value: value.map(Into::into) }
    }
}

/// Reads a flag as Core does: an empty value is true, any other is true when it begins with a number that is not zero.
fn is_true(value: &str) -> bool {
    let digits = value.trim_start().trim_start_matches(['+', '-']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    value.is_empty() || digits[..end].bytes().any(|digit| digit != b'0')
}

fn section_name(network: Network) -> &'static str {
    match network {
        Network::Bitcoin => "main",
        Network::Testnet => "test",
        Network::Testnet4 => "testnet4",
        Network::Signet => "signet",
        Network::Regtest => "regtest",
    }
}

/// Returns the network of a name that Core uses (`chain=`, `getblockchaininfo`).
pub(crate) fn network_named(name: &str) -> Option<Network> {
    NETWORKS.into_iter().find(|network| section_name(*network) == name)
}

fn subfolder(network: Network) -> &'static str {
    match network {
        Network::Bitcoin => "",
        Network::Testnet => "testnet3",
        Network::Testnet4 => "testnet4",
        Network::Signet => "signet",
        Network::Regtest => "regtest",
    }
}

fn default_rpc_port(network: Network) -> u16 {
    match network {
        Network::Bitcoin => 8332,
        Network::Testnet => 18332,
        Network::Testnet4 => 48332,
        Network::Signet => 38332,
        Network::Regtest => 18443,
    }
}

fn default_dir(home: &Path) -> PathBuf {
    home.join(if cfg!(target_os = "macos") { "Library/Application Support/Bitcoin" } else { ".bitcoin" })
}

/// Returns `host:port` of the RPC server. The port is that of `rpcport`, else that of `rpcconnect`, as for
/// `bitcoin-cli`.
fn rpc_address(conf: &Conf, network: Network) -> String {
    let (host, own_port) = rpc_host(conf, network);
    let port = conf.get(network, "rpcport").and_then(|port| port.parse().ok()).or(own_port);
    format!("{host}:{}", port.unwrap_or(default_rpc_port(network)))
}

/// Returns the host of `rpcconnect`, an IPv6 address in brackets, and its port.
fn rpc_host(conf: &Conf, network: Network) -> (String, Option<u16>) {
    let text = conf.get(network, "rpcconnect").unwrap_or("127.0.0.1");
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address without brackets has colons, and no port.
        Some((host, port)) if !host.contains(':') || (host.starts_with('[') && host.ends_with(']')) => {
            (host, port.parse().ok().filter(|port| *port != 0))
        }
        _ => (text, None),
    };
    let is_bare = host.contains(':') && !host.starts_with('[');
    (if is_bare { format!("[{host}]") } else { host.to_owned() }, port)
}

/// Returns the address of `zmqpubsequence`. A wildcard such as `tcp://*:28332` is replaced by the host of the RPC
/// server.
fn zmq_sequence(conf: &Conf, network: Network) -> Option<String> {
    let published = conf.all(network, "zmqpubsequence").find_map(|address| address.strip_prefix("tcp://"))?;
    let (host, port) = published.rsplit_once(':')?;
    let host = match host {
        "*" | "0.0.0.0" | "[::]" => rpc_host(conf, network).0,
        host => host.to_owned(),
    };
    Some(format!("{host}:{port}"))
}

fn auth(options: &NodeOptions, conf: &Conf, network: Network, network_dir: &Path) -> Auth {
    if let Some((user, password)) = &options.rpc_user {
        return Auth::UserPassword { user: user.clone(), password: password.clone() };
    }
    if let Some(cookie) = &options.rpc_cookie {
        return Auth::Cookie(cookie.clone());
    }
    if let Some(password) = conf.get(network, "rpcpassword").filter(|password| !password.is_empty()) {
        let user = conf.get(network, "rpcuser").unwrap_or_default().to_owned();
        return Auth::UserPassword { user, password: password.to_owned() };
    }
    Auth::Cookie(network_dir.join(conf.get(network, "rpccookiefile").unwrap_or(".cookie")))
}

/// Returns the networks whose blocks lie in a data folder.
fn networks_in(dir: &Path) -> impl Iterator<Item = Network> {
    NETWORKS.into_iter().filter(|network| dir.join(subfolder(*network)).join("blocks").is_dir())
}

/// Returns the network when none is chosen: main, unless the folder holds the blocks of one other network only.
fn only_network_in(dir: &Path) -> Network {
    let mut with_blocks = networks_in(dir);
    match (with_blocks.next(), with_blocks.next()) {
        (Some(only), None) => only,
        _ => Network::Bitcoin,
    }
}

fn read_conf(dir: &Path, network: Option<Network>) -> SourceResult<Conf> {
    let mut conf = match fs::read_to_string(dir.join(CONF_NAME)) {
        Ok(text) => Conf::parse(&text),
        Err(e) => return absent_conf(dir, &e),
    };
    let chosen = network.or_else(|| conf.network().ok().flatten()).unwrap_or(Network::Bitcoin);
    let includes: Vec<PathBuf> = conf.includes(chosen).take(INCLUDES_MAX).map(|name| dir.join(name)).collect();
    for path in includes {
        let text = fs::read_to_string(&path).map_err(|e| unreadable_conf(&path, &e))?;
        conf.0.extend(Conf::parse(&text).0);
    }
    Ok(conf)
}

/// Returns an empty configuration when there is no file, because a node needs none.
fn absent_conf(dir: &Path, error: &io::Error) -> Result<Conf, SourceError> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(Conf::default()),
        _ => Err(unreadable_conf(&dir.join(CONF_NAME), error)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const TEXT: &str = "
        # a comment
        rest=1
        rpcuser = alice   # trailing
        rpcport=9000
        norest=1
        regtest.rpcuser=dotted
        [regtest]
        rpcport=19000
        rpcpassword=secret
        nonsense
        [test]
        rpccookiefile=my.cookie
        rest=0
    ";

    #[test]
    fn section_wins_over_top_and_first_over_later_and_a_negated_key_erases_those_before_it() {
        let conf = Conf::parse(TEXT);
        assert_eq!(conf.get(Network::Bitcoin, "rest"), None);
        assert_eq!(conf.get(Network::Testnet, "rest"), Some("0"));
        assert_eq!(conf.get(Network::Bitcoin, "rpcuser"), Some("alice"));
        assert_eq!(conf.get(Network::Regtest, "rpcuser"), Some("dotted"));
        assert_eq!(conf.get(Network::Regtest, "rpcport"), Some("19000"));
        assert_eq!(conf.get(Network::Bitcoin, "rpcport"), Some("9000"));
    }

    #[test]
    fn port_before_all_sections_is_of_the_main_network_only() {
        assert_eq!(Conf::parse(TEXT).get(Network::Testnet, "rpcport"), None);
        assert_eq!(rpc_address(&Conf::parse(TEXT), Network::Testnet), "127.0.0.1:18332");
    }

    #[test]
    fn rpc_is_where_rpcconnect_and_rpcport_say() {
        // Core's `SplitHostPort` and the preference of ports in `bitcoin-cli.cpp`.
        for (text, address) in [
            ("rpcconnect=::1", "[::1]:8332"),
            ("rpcconnect=[::1]", "[::1]:8332"),
            ("rpcconnect=[::1]:9", "[::1]:9"),
            ("rpcconnect=node.lan:9", "node.lan:9"),
            ("rpcconnect=node.lan:9\nrpcport=7", "node.lan:7"),
            ("rpcconnect=::1\nrpcport=7", "[::1]:7"),
        ] {
            assert_eq!(rpc_address(&Conf::parse(text), Network::Bitcoin), address, "{text}");
        }
        let wildcard = Conf::parse("rpcconnect=::1\nzmqpubsequence=ipc:///a\nzmqpubsequence=tcp://*:28332");
        assert_eq!(zmq_sequence(&wildcard, Network::Bitcoin).as_deref(), Some("[::1]:28332"));
    }

    #[test]
    fn network_is_chosen_by_chain_or_by_its_flag() {
        assert_eq!(Conf::parse("").network(), Ok(None));
        assert_eq!(Conf::parse("chain=test").network(), Ok(Some(Network::Testnet)));
        for text in ["chain=testnet5", "testnet5=1", "testnet5=1\nregtest=1"] {
            let error = Conf::parse(text).network().unwrap_err();
            assert!(
                error.contains("chain \"testnet5\" is not served") && error.contains("testnet4, signet"),
                "{error}"
            );
        }
        assert_eq!(Conf::parse("testnet5=0\n[testnet5]\nrpcport=1").network(), Ok(None));
        assert_eq!(Conf::parse("testnet4=1\nsignet=0").network(), Ok(Some(Network::Testnet4)));
        assert_eq!(Conf::parse("[regtest]\nregtest=1").network(), Ok(None));
        assert_eq!(Conf::parse("nosignet=0").network(), Ok(Some(Network::Signet)));
        assert!(Conf::parse("chain=liquid").network().is_err());
        assert!(Conf::parse("signet=1\nregtest=1").network().is_err());
        assert!(Conf::parse("chain=main\nregtest=1").network().is_err());
        assert_eq!(Conf::parse("regtest=1\nregtest=0\nsignet=1").network(), Ok(Some(Network::Signet)));
    }

    #[test]
    fn node_is_found_in_a_home_folder_with_includes_and_moved_data() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join(".bitcoin");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(CONF_NAME), "regtest=1\nincludeconf=more.conf\n").unwrap();
        fs::write(dir.join("more.conf"), "datadir=/data\n[regtest]\nblocksdir=/big\nrpcport=7\n").unwrap();
        let found = NodeConf::find(&NodeOptions::default(), Some(home.path())).unwrap();
        assert_eq!(
            found,
            NodeConf {
                network: Network::Regtest,
                network_dir: "/data/regtest".into(),
                blocks_dir: "/big/regtest/blocks".into(),
                rpc_address: "127.0.0.1:7".into(),
                auth: Auth::Cookie("/data/regtest/.cookie".into()),
                zmq_sequence: None,
                peer_ports: vec![18_444, 18_445],
            }
        );
    }

    #[test]
    fn zmq_address_is_that_of_the_publisher() {
        let found = |text: &str| zmq_sequence(&Conf::parse(text), Network::Regtest);
        assert_eq!(found(""), None);
        assert_eq!(found("zmqpubsequence=tcp://127.0.0.1:28332").as_deref(), Some("127.0.0.1:28332"));
        assert_eq!(found("zmqpubsequence=tcp://*:28332").as_deref(), Some("127.0.0.1:28332"));
        let elsewhere = "rpcconnect=node.lan\n[regtest]\nzmqpubsequence=tcp://0.0.0.0:28332";
        assert_eq!(found(elsewhere).as_deref(), Some("node.lan:28332"));
        assert_eq!(found("zmqpubsequence=ipc:///tmp/socket"), None);
    }

    #[test]
    fn only_network_with_blocks_is_taken_where_nothing_chooses() {
        let dir = tempfile::tempdir().unwrap();
        let options = NodeOptions { node_dir: Some(dir.path().into()), ..NodeOptions::default() };
        assert_eq!(NodeConf::find(&options, None).unwrap().network, Network::Bitcoin);
        fs::create_dir_all(dir.path().join("signet/blocks")).unwrap();
        assert_eq!(NodeConf::find(&options, None).unwrap().network, Network::Signet);
        fs::create_dir_all(dir.path().join("blocks")).unwrap();
        assert_eq!(NodeConf::find(&options, None).unwrap().network, Network::Bitcoin);
    }

    #[test]
    fn settings_of_the_operator_win() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(CONF_NAME), TEXT).unwrap();
        let options = NodeOptions {
            node_dir: Some(dir.path().into()),
            blocks_dir: Some("/blocks".into()),
            network: Some(Network::Regtest),
            rpc_address: Some("node:1".into()),
            ..NodeOptions::default()
        };
        let found = NodeConf::find(&options, None).unwrap();
        assert_eq!(found.blocks_dir, Path::new("/blocks"));
        assert_eq!(found.rpc_address, "node:1");
        let password = Auth::UserPassword { user: "dotted".into(), password: "secret".into() };
        assert_eq!(found.auth, password);
        assert!(!format!("{password:?}").contains("secret"));
        let cookie = NodeOptions { rpc_cookie: Some("/c".into()), ..options };
        assert_eq!(NodeConf::find(&cookie, None).unwrap().auth, Auth::Cookie("/c".into()));
    }
}
