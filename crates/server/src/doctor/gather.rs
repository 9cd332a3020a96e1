//! Gathers the facts. Nothing is created or changed: folders that do not exist are not opened.

use std::fs;
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use birdhouse_chain::source::{BlockSource, NodeError, SourceErrorKind};
use birdhouse_chain::{Height, Profile, rebuild_advice};
use birdhouse_net::Certificate as Pair;
use birdhouse_node::{
    AwaitedSource, Chosen, KeptBlocks, NodeConf, PruneMode, Rpc, check_node, forked_chain, full_peers,
};
use birdhouse_store::{SegmentOptions, SegmentStore, Store as _};
use birdhouse_watch::WatchFile;
use birdhouse_watch::channel::{Channels, Clock, Refused, Surroundings};
use bitcoin::{BlockHash, Network};
use nix::unistd::{AccessFlags, access};
use serde_json::{Value, json};

use super::facts::{
    Answer, Bitcoin, Certificate, Depth, Facts, Folder, Machine, Media, Node, Plugin, Port, PortState, Store,
};
use crate::cluster::follow;
use crate::config::{Options, ProfileName, secrets, watch_files};
use crate::index::derived::{KINDS, Kind};
use crate::index::{build_space, lean_refusal, setup};
use crate::operator::DAMAGED;
use crate::process::users::OtherUser;
use crate::process::{file_limit, log};
use crate::services::{blossom, relay};
use crate::sockets::protocols::{BLOSSOM, PROTOCOLS, Protocol, RELAY};
use crate::sockets::{CertificateFiles, Plan, Validity, listeners};
use crate::storage::index_store;
use crate::{app, commands};

const MIB: u64 = 1 << 20;
/// Time for a connection to the node's ZMQ address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Stores up to this size are read whole, because that takes seconds; larger ones only on demand. Bytes.
const SMALL_STORE_BYTES: u64 = 1 << 30;
/// Methods of every node that Birdhouse calls.
pub(crate) const METHODS: [&str; 20] = [
    "decoderawtransaction",
    "estimatesmartfee",
    "getbestblockhash",
    "getblock",
    "getblockchaininfo",
    "getblockhash",
    "getblockheader",
    "getchainstates",
    "getchaintips",
    "getmempoolinfo",
    "getnetworkinfo",
    "getprioritisedtransactions",
    "getrawmempool",
    "getrawtransaction",
    "gettxspendingprevout",
    "sendrawtransaction",
    "submitpackage",
    "testmempoolaccept",
    "validateaddress",
    "waitfornewblock",
];
/// Further methods, of a node that prunes: what brings deleted blocks back, does without them, and deletes more.
pub(crate) const PRUNED_METHODS: [&str; 4] = ["getblockfrompeer", "getpeerinfo", "gettxout", PRUNE_METHOD];
/// Only called of a node that leaves pruning to its operator.
const PRUNE_METHOD: &str = "pruneblockchain";
/// States in which a running server reports a failure of its index.
const FAILURES: [&str; 2] = ["index failed", DAMAGED];
/// More parameters than any method has: a permitted call fails before it does anything.
const ABSURD: [&str; 12] = ["?"; 12];

/// Looks at everything that the settings name.
pub(super) fn facts(flags: &Options, depth: Depth) -> Facts {
    match flags.clone().with_file() {
        Ok(options) => {
            let settings = settings_error(&options);
            let mut facts = gather(&options, depth);
            facts.settings = settings;
            facts
        }
        Err(error) => {
            let mut facts = gather(&Options { bitcoin: Some(crate::config::Switch::Off), ..Options::default() }, depth);
            facts.settings = Err(format!("{error:#}"));
            facts
        }
    }
}

/// Returns the network of the settings or of the node; the main one if neither says.
fn network(options: &Options) -> Network {
    setup::network(options).unwrap_or(Network::Bitcoin)
}

/// Returns the first error of the settings, in the words of the server.
fn settings_error(options: &Options) -> Result<(), String> {
    let checked = || -> Result<()> {
        options.log.as_deref().map(log::check).transpose()?;
        app::check(options, network(options))
    };
    checked().map_err(|error| format!("{error:#}"))
}

fn gather(options: &Options, depth: Depth) -> Facts {
    let data_dir = options.data_dir().and_then(|dir| Ok(std::path::absolute(dir)?)).ok();
    let plans = plans(options);
    let facts = Facts {
        settings: Ok(()),
        file: options.config.clone(),
        warnings: options.warnings(),
        other_user: data_dir.as_deref().and_then(OtherUser::of_data),
        bitcoin: None,
        derived: Vec::new(),
        relay: None,
        plugin: None,
        watches: None,
        media: None,
        machine: machine(options, data_dir.as_deref(), &plans),
        ports: Vec::new(),
        certificates: Vec::new(),
        data_dir: None,
    };
    if facts.other_user.is_some() {
        return facts;
    }
    let status = app::ctl_dir(options).ok().and_then(|dir| commands::ctl::status(&dir));
    Facts {
        bitcoin: options.has_bitcoin().then(|| bitcoin(options, status.as_ref(), depth)),
        derived: derived(options, status.as_ref(), depth),
        relay: relay_store(options, status.as_ref()),
        plugin: options.relay_plugin.as_deref().and_then(plugin),
        watches: watches(options),
        media: media(options),
        ports: plans.iter().map(|plan| port(plan, status.as_ref())).collect(),
        certificates: plans.iter().filter_map(|plan| certificate(plan, data_dir.as_deref())).collect(),
        data_dir: data_dir.map(folder),
        ..facts
    }
}

// === the node and the index ===

fn bitcoin(options: &Options, status: Option<&Value>, depth: Depth) -> Bitcoin {
    if let (Some(blocks), None) = (&options.blocks_dir, &options.node_dir) {
        let source = setup::without_node(options, blocks);
        let network = options.network.map(Network::from);
        let opened = source.as_ref().ok().map(|(.., source)| Arc::clone(source));
        let (index, tip) = index(options, network, opened, status, depth);
        return Bitcoin {
            node: None,
            source: source.map(|(.., source)| source.describe()).map_err(|error| format!("{error:#}")),
            skipped: Vec::new(),
            index_bytes: index_bytes(&index, status),
            prunable_bytes: None,
            blocks_bytes: build_space::block_bytes(blocks),
            index,
            other_indexes: network.and_then(|network| options.other_indexes(network)),
            index_dir: network.and_then(|network| options.index_dir(network).ok()),
            height: tip.map(|(height, _)| height),
            tip_is_known: None,
        };
    }
    let conf = match setup::node_conf(options) {
        Ok(conf) => conf,
        Err(error) => return Bitcoin::without_facts(format!("{error:#}")),
    };
    let rpc = Arc::new(Rpc::new(&conf.rpc_address, conf.auth.clone()));
    let node = node(&conf, &rpc);
    let chosen = birdhouse_node::open_source(&conf.blocks_dir, conf.network, Some(&rpc));
    let (source, skipped) = match chosen {
        Ok(Chosen { source, skipped }) => (Ok(Arc::<dyn BlockSource>::from(source)), skipped),
        Err(error) => (Err(error.to_string()), Vec::new()),
    };
    // The height of the index needs no block.
    let awaited = || Arc::new(AwaitedSource::new(&conf.blocks_dir, conf.network, Arc::clone(&rpc))) as Arc<_>;
    let of_index = source.as_ref().map_or_else(|_| awaited(), Arc::clone);
    let (index, tip) = index(options, Some(conf.network), Some(of_index), status, depth);
    let profile = options.profile.unwrap_or(ProfileName::Full).into();
    let node = with_blocks_for(profile, tip.as_ref().map(|(height, _)| Height(*height)), node);
    Bitcoin {
        tip_is_known: tip.as_ref().and_then(|(height, hash)| knows(&rpc, *height, hash)),
        node: Some(node),
        source: source.map(|source| source.describe()),
        skipped,
        index_bytes: index_bytes(&index, status),
        prunable_bytes: status.and_then(|status| status["node_prunable_bytes"].as_u64()),
        blocks_bytes: build_space::block_bytes(&conf.blocks_dir),
        index,
        other_indexes: options.other_indexes(conf.network),
        index_dir: options.index_dir(conf.network).ok(),
        height: tip.map(|(height, _)| height),
    }
}

impl Bitcoin {
    /// The facts where not even the node's place is known.
    fn without_facts(error: String) -> Self {
        Self {
            node: None,
            source: Err(error),
            skipped: Vec::new(),
            index_bytes: None,
            prunable_bytes: None,
            blocks_bytes: None,
            index: Store::Absent,
            other_indexes: None,
            index_dir: None,
            height: None,
            tip_is_known: None,
        }
    }
}

fn node(conf: &NodeConf, rpc: &Rpc) -> Node {
    let info = rpc.call::<Value>("getblockchaininfo", &json!([])).ok();
    let answer = match check_node(rpc, conf.network) {
        Ok(facts) => Answer::Ready { user_agent: facts.user_agent, height: facts.blocks, kept: facts.kept },
        Err(error) if error.kind == SourceErrorKind::Permanent => Answer::Unfit(error.message),
        Err(error) if info.is_some() => Answer::Waiting(error.message),
        Err(error) => Answer::Silent(error.message),
    };
    let has_deleted = matches!(&answer, Answer::Ready { kept, .. } if kept.first.0 > 0);
    let offset = rpc.call::<Value>("getnetworkinfo", &json!([])).ok().and_then(|info| info["timeoffset"].as_i64());
    Node {
        other_network: conf.other_network(),
        full_peers: has_deleted.then(|| full_peers(rpc).ok()).flatten(),
        forbidden: if info.is_some() { forbidden(rpc) } else { Vec::new() },
        zmq: conf.zmq_sequence.clone().map(|addr| (addr.clone(), is_open(&addr))),
        fork: forked_chain(conf.network, |height| rpc.call::<BlockHash>("getblockhash", &json!([height])).ok()),
        clear_rpc: secrets::clear_rpc(&conf.rpc_address),
        clock: info.and_then(|info| info["time"].as_u64()).zip(offset),
        answer,
    }
}

/// Returns the node, as unfit if it lacks blocks that an index of this profile with this tip needs.
fn with_blocks_for(profile: Profile, indexed: Option<Height>, node: Node) -> Node {
    let Answer::Ready { kept, .. } = &node.answer else { return node };
    let lost = kept.check(indexed).err().map(|error| error.message);
    match lost.or_else(|| lean_refusal(profile, kept)) {
        Some(refusal) => Node { answer: Answer::Unfit(refusal), ..node },
        None => node,
    }
}

/// Returns the methods that the node refuses to this login, of those that are needed.
fn forbidden(rpc: &Rpc) -> Vec<&'static str> {
    let mode = KeptBlocks::of(rpc).map_or(PruneMode::Off, |kept| kept.mode);
    let is_needed = |method: &&str| match mode {
        PruneMode::Off => false,
        PruneMode::Manual => true,
        PruneMode::Automatic => *method != PRUNE_METHOD,
    };
    let is_forbidden =
        |method: &&str| matches!(rpc.call::<Value>(method, &json!(ABSURD)), Err(NodeError::Unavailable(_)));
    METHODS.into_iter().chain(PRUNED_METHODS.into_iter().filter(is_needed)).filter(is_forbidden).collect()
}

fn is_open(addr: &str) -> bool {
    let addr = addr.to_socket_addrs().ok().and_then(|mut addrs| addrs.next());
    addr.is_some_and(|addr| TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT).is_ok())
}

/// Returns `true` if the node has this block at this height, `false` if it has another one or none.
fn knows(rpc: &Rpc, height: u32, hash: &str) -> Option<bool> {
    match rpc.call::<String>("getblockhash", &json!([height])) {
        Ok(theirs) => Some(theirs == hash),
        Err(NodeError::Rejected { .. }) => Some(false),
        Err(NodeError::Unavailable(_)) => None,
    }
}

fn index_bytes(index: &Store, status: Option<&Value>) -> Option<u64> {
    match index {
        Store::Whole { bytes } => Some(*bytes),
        _ => status?["index_bytes"].as_u64(),
    }
}

/// Returns the state of the index, with the height and the hash of its tip.
fn index(
    options: &Options,
    network: Option<Network>,
    source: Option<Arc<dyn BlockSource>>,
    status: Option<&Value>,
    depth: Depth,
) -> (Store, Option<(u32, String)>) {
    if let Some(status) = status {
        let height = status["tip_height"].as_u64().and_then(|height| u32::try_from(height).ok());
        let (state, health) = (status["state"].as_str().unwrap_or_default(), status["health"].as_str());
        let failure = health.filter(|_| FAILURES.contains(&state));
        let store = failure.map_or(Store::InUse, |health| Store::Failing(health.to_owned()));
        return (store, height.zip(status["tip_hash"].as_str().map(str::to_owned)));
    }
    let Some(folder) = network.and_then(|network| options.index_dir(network).ok()) else {
        return (Store::Absent, None);
    };
    let folder = if options.follow.is_some() { follow::newest_copy(&folder).unwrap_or(folder) } else { folder };
    if !is_store(&folder) {
        return (Store::Absent, None);
    }
    let Some((network, source)) = network.zip(source) else {
        return (Store::Failing("the index is not examined: its blocks cannot be read".into()), None);
    };
    let damaged = |error: String| (Store::Damaged { folder: folder.clone(), error }, None);
    let (store, bytes) = match open_store(&folder, &birdhouse_chain::TABLES, depth) {
        Ok(opened) => opened,
        Err(error @ birdhouse_store::Error::Corrupt { .. }) => return damaged(error.to_string()),
        Err(error) => return (Store::Failing(error.to_string()), None),
    };
    let tip = || -> Result<Option<(u32, String)>> {
        let index = match &options.follow {
            Some(_) => follow::open_stopped(store, source, network)?,
            None => index_store::open_index(options, network, store, source)?,
        };
        let Ok(snapshot) = index.snapshot() else { return Ok(None) };
        let tip = snapshot.tip();
        let is_read = snapshot.header(tip.height).is_some();
        ensure!(is_read, "failed to read the tip's header; {}", rebuild_advice(&folder));
        Ok(Some((tip.height.0, tip.hash.to_string())))
    };
    match tip() {
        Ok(tip) => (Store::Whole { bytes }, tip),
        // Its message has the remedy.
        Err(error) => (Store::Failing(format!("{error:#}")), None),
    }
}

/// Returns the state of each derived index.
fn derived(options: &Options, status: Option<&Value>, depth: Depth) -> Vec<(&'static str, Store)> {
    let network = options.has_bitcoin().then(|| setup::network(options).ok()).flatten();
    let index_dir = network.and_then(|network| options.index_dir(network).ok());
    let Some((network, index_dir)) = network.zip(index_dir) else { return Vec::new() };
    let state = |kind: &Kind| match status {
        Some(status) => derived_in_use(kind.name, status),
        None => derived_store(kind, network, kind.folder(&index_dir), depth),
    };
    KINDS.iter().map(|kind| (kind.name, state(kind))).collect()
}

/// Returns the state of a derived index of a running server.
fn derived_in_use(name: &str, status: &Value) -> Store {
    let all = status["derived"].as_array();
    match all.and_then(|all| all.iter().find(|one| one["name"] == name)) {
        None => Store::Absent,
        Some(one) => one["failure"].as_str().map_or(Store::InUse, |failure| Store::Failing(failure.to_owned())),
    }
}

fn derived_store(kind: &Kind, network: Network, folder: PathBuf, depth: Depth) -> Store {
    if !is_store(&folder) {
        return Store::Absent;
    }
    match open_store(&folder, &[], depth) {
        Ok((store, bytes)) => match kind.open_in(&store, network) {
            Ok(_) => Store::Whole { bytes },
            Err(error) => Store::Failing(format!("{error:#}")),
        },
        Err(error @ birdhouse_store::Error::Corrupt { .. }) => Store::Damaged { folder, error: error.to_string() },
        Err(error) => Store::Failing(error.to_string()),
    }
}

fn relay_store(options: &Options, status: Option<&Value>) -> Option<Store> {
    if listeners::plan_of(options, &RELAY).is_ok_and(|plans| plans.is_empty()) {
        return None;
    }
    let folder = relay::folder(options).ok()?;
    Some(match is_store(&folder) {
        _ if status.is_some() => Store::InUse,
        false => Store::Absent,
        true => match open_store(&folder, birdhouse_events::TABLES, Depth::Quick) {
            Ok((_, bytes)) => Store::Whole { bytes },
            Err(error @ birdhouse_store::Error::Corrupt { .. }) => Store::Damaged { folder, error: error.to_string() },
            Err(error) => Store::Failing(error.to_string()),
        },
    })
}

fn is_store(folder: &Path) -> bool {
    ["VERSION", "segments"].iter().any(|part| folder.join(part).exists())
}

/// Opens a store and reads it whole if it is small or `depth` demands it.
fn open_store(
    folder: &Path,
    tables: &[birdhouse_store::Table],
    depth: Depth,
) -> birdhouse_store::Result<(Arc<SegmentStore>, u64)> {
    let store = SegmentStore::open(folder, tables, SegmentOptions { cache_bytes: MIB, ..SegmentOptions::default() })?;
    let bytes = store.sizes()?.into_iter().map(|(_, bytes)| bytes).sum();
    if depth == Depth::Checksums || bytes < SMALL_STORE_BYTES {
        store.verify_checksums()?;
    }
    Ok((Arc::new(store), bytes))
}

/// Reads and checks the watch file, its rights and its channels included; connects to nobody.
fn watches(options: &Options) -> Option<Result<String, String>> {
    let (path, network) = (options.watch_file().ok()?, app::network(options).ok()?);
    match WatchFile::read(&path, network) {
        Ok(None) => None,
        Ok(Some(file)) => {
            let key_file = options.data_dir().ok()?.join(watch_files::KEY);
            let surroundings = Surroundings {
                refused: Refused::default(),
                key_file,
                relay: None,
                relay_sockets: Vec::new(),
                clock: Clock::system(),
            };
            if let Err(error) = Channels::new(surroundings).open_all(&file) {
                return Some(Err(format!("failed to read {}: {error}", path.display())));
            }
            let (watches, channels) = (file.watches.len(), file.channels.len());
            Some(Ok(format!("{watches} watches and {channels} channels, readable for this user alone")))
        }
        Err(error) => Some(Err(error.to_string())),
    }
}

/// Returns the program of a plugin's command: its first word, if that is one which a shell takes as it is.
fn plugin(command: &str) -> Option<Plugin> {
    let program = command.split_whitespace().next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !program.chars().all(is_plain) {
        return None;
    }
    let is_program = |path: &Path| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    let can_run = if program.contains('/') {
        is_program(Path::new(program))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_builtin = ["exec", "cd", "command"].contains(&program);
        is_builtin || std::env::split_paths(&path).any(|folder| is_program(&folder.join(program)))
    };
    Some(Plugin { program: program.to_owned(), can_run })
}

/// Looks at the folder of the media store, if that is on.
fn media(options: &Options) -> Option<Media> {
    if listeners::plan_of(options, &BLOSSOM).ok()?.is_empty() {
        return None;
    }
    let path = blossom::folder(options).ok()?;
    let on_disk = nearest_existing(&path);
    Some(Media {
        folder: folder(path),
        disk_free_bytes: on_disk.and_then(|folder| birdhouse_store::disk_free_bytes(&folder)),
        floor_bytes: options.limits.clone().unwrap_or_default().blossom().disk_free_bytes,
    })
}

// === the machine ===

fn machine(options: &Options, data_dir: Option<&Path>, plans: &[Listening]) -> Machine {
    let profile = options.profile.unwrap_or(ProfileName::Full);
    let index_percent = build_space::index_percent(profile);
    let existing = data_dir.and_then(nearest_existing);
    let sizes = options.sizes();
    Machine {
        disk_free_bytes: existing.and_then(|folder| birdhouse_store::disk_free_bytes(&folder)),
        memory_free_bytes: memory_available(),
        memory_wanted_bytes: sizes.build_memory + sizes.cache,
        index_percent,
        build_temp_bytes: sizes.build_temp,
        files_max: file_limit::raise(),
        connections_max: plans.iter().map(|plan| plan.connections as u64).sum(),
        now: now(),
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock is what is examined")]
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Reads `MemAvailable` of `/proc/meminfo`.
fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

fn folder(path: PathBuf) -> Folder {
    let writable = nearest_existing(&path).is_some_and(|folder| access(&folder, AccessFlags::W_OK).is_ok());
    let mode = fs::metadata(&path).ok().map(|folder| folder.permissions().mode() & 0o777);
    Folder { path, mode, is_writable: writable }
}

fn nearest_existing(path: &Path) -> Option<PathBuf> {
    let found = path.ancestors().find(|folder| folder.exists())?;
    Some(if found.as_os_str().is_empty() { PathBuf::from(".") } else { found.to_owned() })
}

// === listeners ===

/// A listener of any protocol.
struct Listening {
    name: String,
    addr: std::net::SocketAddr,
    connections: usize,
    /// `None` without TLS.
    tls: Option<CertificateFiles>,
}

/// Returns every listener of the settings; none if they are wrong, which the settings' check reports.
fn plans(options: &Options) -> Vec<Listening> {
    let network = network(options);
    let wallets =
        if options.has_bitcoin() { listeners::plan(options, network).unwrap_or_default() } else { Vec::new() };
    let wallets = wallets.iter().map(|plan| Listening::of(plan, plan.limits.connections));
    let mut others: Vec<Listening> = Vec::new();
    let mut counted: Vec<&Protocol> = Vec::new();
    for protocol in PROTOCOLS {
        for plan in listeners::plan_of(options, protocol).unwrap_or_default() {
            // Listeners that share a bound count once.
            let is_counted = counted.iter().any(|other| other.shares_bound(protocol));
            others.push(Listening::of(&plan, if is_counted { 0 } else { protocol.connections_max(options) }));
            counted.push(protocol);
        }
    }
    let operator = options.ops_addr.map(|addr| Listening { name: "ops".into(), addr, connections: 0, tls: None });
    wallets.chain(others).chain(operator).collect()
}

impl Listening {
    fn of<L>(plan: &Plan<L>, connections: usize) -> Self {
        Self { name: plan.name.clone(), addr: plan.addr, connections, tls: plan.tls() }
    }
}

fn port(plan: &Listening, status: Option<&Value>) -> Port {
    let state = match TcpListener::bind(plan.addr) {
        Ok(_) => PortState::Free,
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && status.is_some() => PortState::Ours,
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => PortState::Taken,
        Err(error) => PortState::Refused(error.to_string()),
    };
    Port { name: plan.name.clone(), addr: plan.addr, state }
}

fn certificate(plan: &Listening, data_dir: Option<&Path>) -> Option<Certificate> {
    let read = |chain: &Path, key: &Path| Validity::of(&Pair::open(chain, key)?.leaf()?).map(Some);
    let open = |chain: &Path, key: &Path| read(chain, key).map_err(|error| format!("{error:#}"));
    let validity = match (plan.tls.as_ref()?, data_dir.map(|dir| dir.join(Pair::SELF_SIGNED))) {
        (CertificateFiles::Own(chain, key), _) => open(chain, key),
        (CertificateFiles::SelfSigned, Some(pair)) if pair.exists() => open(&pair, &pair),
        (CertificateFiles::SelfSigned, _) => Ok(None),
    };
    Some(Certificate { listener: plan.name.clone(), validity })
}
