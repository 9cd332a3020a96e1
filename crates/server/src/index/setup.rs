//! Opens node, store and index from the settings, for every command that needs them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use birdhouse_chain::source::{BlockSource, Node, SourceErrorKind};
use birdhouse_chain::{BuildOptions, BuildReport, Height, Index, Profile, Waiting};
use birdhouse_node::{
    AwaitedSource, BlockFiles, CoreNode, FetchCounters, Fetching, KeptBlocks, NodeConf, NodeOptions, PruneBounds, Rpc,
    ZmqSequence, check_node,
};
use bitcoin::Network;
use parking_lot::Mutex;

use crate::cluster::{cql, follow};
use crate::config::{DiskSize, Options, ProfileName, secrets};
use crate::index::build_space::BuildSpace;
use crate::index::prune::{Pruner, lean_refusal};
use crate::index::{build_space, derived, progress};
use crate::process::{Shutdown, private};
use crate::storage::{IndexStore, open_files};

const MB: u64 = 1_000_000;
/// Calls to the node at a time by reads of the index.
const CALLS_OF_READS: usize = 2;
/// Pause before the next request to a node that is not ready.
const NODE_RETRY: Duration = Duration::from_secs(2);

/// Folder of transactions that the node has removed and its peers have sent, in that of the index.
const FETCHED: &str = "fetched";
/// Calls of its own for fetching them. A pruned node has no index of spenders, so the calls of reads are hardly used.
const CALLS_OF_FETCHES: usize = 2;

/// The index and its sources.
pub(crate) struct Setup {
    pub(crate) index: Arc<Index>,
    pub(crate) store: IndexStore,
    /// The derived indexes that are on.
    pub(crate) derived: Vec<derived::Opened>,
    /// `None` when a blocks directory is served without a node.
    pub(crate) node: Option<Arc<dyn Node>>,
    /// The same node, with calls for what clients ask for: the index waits for none of them.
    pub(crate) node_of_clients: Option<Arc<dyn Node>>,
    pub(crate) rpc: Option<Arc<Rpc>>,
    /// Ports of the node that nobody but its peers and this server should reach.
    pub(crate) node_ports: NodePorts,
    pub(crate) network: Network,
    pub(crate) profile: Profile,
    pub(crate) index_dir: PathBuf,
    /// The folder of the node's block files; `None` without a node.
    blocks_dir: Option<PathBuf>,
    pub(crate) build_options: BuildOptions,
    /// Deletes old blocks of the node; `None` without a node.
    pub(crate) pruner: Option<Arc<Pruner>>,
    /// Bytes of blocks that the node keeps.
    node_prune_keep: Option<u64>,
    /// Disk space of the first build; `None` if the block files are not here.
    space: Option<BuildSpace>,
}

impl Setup {
    /// Finds the node, opens the store and the index.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        let (network, node, source) = match &options.blocks_dir {
            Some(blocks_dir) if options.node_dir.is_none() => without_node(options, blocks_dir)?,
            _ => with_node(options)?,
        };
        tracing::info!(%network, source = source.describe(), "opened the block source");
        let index_dir = options.index_dir(network)?;
        private::folder(&index_dir)?;
        // On a cluster this may wait for another process.
        let (store, index) = match (&options.follow, &options.store) {
            (Some(url), _) => {
                let (follower, index) = follow::open(options, url, network, &index_dir, &source)?;
                (IndexStore::Copied(follower), index)
            }
            (None, Some(address)) => cql::open(options, address, network, &index_dir, &source)?,
            (None, None) => open_files(options, network, &index_dir, source)?,
        };
        // Before the first build begins, which gives them the blocks that it reads.
        let rpc = node.as_ref().map(|node| &*node.rpc);
        let derived = derived::open(options, network, &index_dir, rpc)?;
        index.set_derived(derived.iter().map(|one| Arc::clone(&one.index)).collect());
        let calls = usize::from(options.limits.clone().unwrap_or_default().server().node_calls());
        let node_of_clients = node.as_ref().map(|node| node.of_clients(calls));
        // Reads of the index ask the node without a turn of it. With calls of their own they take none of those that a
        // turn promises.
        if let Some(node) = &node {
            index.set_node_of_clients(node.of_clients(CALLS_OF_READS));
        }
        let profile = index.profile();
        let index = Arc::new(index);
        let pruner = |node: &NodeAccess| {
            let (rpc, index, store) = (Arc::clone(&node.rpc), Arc::clone(&index), store.clone());
            let (bounds, fetches) = (prune_bounds(options), Arc::clone(&node.fetches));
            let (calling, blocks) = (Mutex::default(), Mutex::default());
            Arc::new(Pruner { rpc, index, store, profile, bounds, fetches, calling, blocks })
        };
        Ok(Self {
            pruner: node.as_ref().map(pruner),
            node_prune_keep: options.node_prune_keep.map(|DiskSize(bytes)| bytes),
            store,
            derived,
            rpc: node.as_ref().map(|conf| Arc::clone(&conf.rpc)),
            node_ports: node.as_ref().map(|node| node.ports.clone()).unwrap_or_default(),
            node_of_clients,
            network,
            profile,
            build_options: build_options(options, network, &index_dir),
            space: build_space(options),
            blocks_dir: node.as_ref().map(|node| node.blocks_dir.clone()),
            node: node.map(NodeAccess::into_node),
            index_dir,
            index,
        })
    }

    /// Runs the first build and reports its progress; `None` if the index was already built. Retries while the node
    /// is unreachable or reorganizes its chain.
    pub(crate) fn build(&self, shutdown: &Shutdown) -> Result<Option<BuildReport>> {
        if self.store.replica().is_some() {
            bail!("failed to build the index: another process writes it; unset follow, or set role = \"indexer\"");
        }
        if self.index.is_ready() {
            return Ok(self.index.build(None, &self.build_options)?);
        }
        self.log_disk_space();
        let report = loop {
            self.wait_for_node(shutdown)?;
            match self.build_once() {
                Err(birdhouse_chain::Error::Source(error))
                    if self.node.is_some() && error.kind != SourceErrorKind::Permanent =>
                {
                    tracing::warn!(%error, "failed to build from the node, retrying");
                    std::thread::sleep(NODE_RETRY);
                }
                Err(error) => bail!(
                    "failed to build the index, to be resumed by the next run: {}",
                    error.advised(&self.index_dir)
                ),
                Ok(built) => break built,
            }
        };
        if let Some(report) = &report {
            tracing::info!(blocks = report.blocks, txs = report.txs, scripts = report.scripts, "built the index");
        }
        Ok(report)
    }

    /// Logs how much the build needs and how much is free, with a warning if it may not suffice.
    fn log_disk_space(&self) {
        let Some(BuildSpace { index, temp, peak }) = self.space else { return };
        let temp_dir = self.build_options.temp_dir.ancestors().find(|folder| folder.exists());
        let free =
            temp_dir.and_then(birdhouse_store::disk_free_bytes).zip(birdhouse_store::disk_free_bytes(&self.index_dir));
        let Some((temp_free, index_free)) = free else { return };
        let (index_dir, temp_dir) = (self.index_dir.display(), self.build_options.temp_dir.display());
        tracing::info!(%index_dir, index_mb = index / MB, free_mb = index_free / MB, "estimated the size of the index");
        tracing::info!(%temp_dir, temp_mb = temp / MB, free_mb = temp_free / MB, "estimated the temporary files");
        let shares_disk = self.build_options.temp_dir.starts_with(&self.index_dir);
        if index_free < if shares_disk { peak } else { index } || temp_free < temp {
            tracing::warn!(
                "the disk may become full during the first build; set build-temp-dir to another disk, lower \
                 build-temp-mib, or choose profile = \"lean\""
            );
        }
    }

    fn build_once(&self) -> birdhouse_chain::Result<Option<BuildReport>> {
        let tip = self.node.as_ref().map(|node| node.best_block()).transpose()?;
        let _reporter = progress::report(&self.index);
        self.index.build(tip.map(|tip| tip.hash), &self.build_options)
    }

    /// Indexes up to the node's tip once, derived indexes as well.
    pub(crate) fn catch_up(&self, shutdown: &Shutdown) -> Result<()> {
        self.wait_for_node(shutdown)?;
        if let Some(node) = &self.node {
            self.index.catch_up(&**node, shutdown.flag())?;
        }
        Ok(self.index.catch_up_derived(shutdown.flag())?)
    }

    /// Follows the derived indexes on a thread of its own until shutdown.
    pub(crate) fn follow_derived(&self, shutdown: &Shutdown) -> Result<()> {
        if !self.derived.is_empty() {
            let (index, shutdown) = (Arc::clone(&self.index), shutdown.clone());
            let follow = move || index.follow_derived(shutdown.flag());
            std::thread::Builder::new().name("derived".into()).spawn(follow)?;
        }
        Ok(())
    }

    /// Watches the node's disk on a thread of its own until shutdown, and deletes old blocks if a setting says how many
    /// to keep.
    pub(crate) fn watch_disk(&self, shutdown: &Shutdown) -> Result<()> {
        if let Some(pruner) = &self.pruner {
            let (pruner, keep_bytes, shutdown) = (Arc::clone(pruner), self.node_prune_keep, shutdown.clone());
            let watch = move || pruner.watch(keep_bytes, &shutdown);
            std::thread::Builder::new().name("node disk".into()).spawn(watch)?;
        }
        Ok(())
    }

    /// Builds the index, then follows the node's tip until shutdown. Without a node, only waits.
    pub(crate) fn keep_indexed(&self, shutdown: &Shutdown) -> Result<()> {
        if let Some(replica) = self.store.replica() {
            let node =
                self.node.as_ref().context("failed to follow the published index: there is no node; set node-dir")?;
            let followed = self.index.follow_published(replica, &**node, shutdown.flag());
            return followed.context("failed to follow the published index");
        }
        self.build(shutdown)?;
        self.wait_for_blocks(shutdown);
        if let Some(node) = &self.node {
            return self.index.follow(&**node, shutdown.flag()).context("failed to follow the node");
        }
        while !shutdown.is_requested() {
            std::thread::park_timeout(NODE_RETRY);
        }
        Ok(())
    }

    /// Returns the height of the index's tip; `None` before the first build has finished.
    fn indexed(&self) -> Option<Height> {
        let snapshot = self.index.snapshot().ok().filter(|_| self.index.is_ready());
        snapshot.map(|snapshot| snapshot.tip().height)
    }

    /// Waits while the node lacks blocks that a finished index needs next, and says which. What is indexed is served.
    fn wait_for_blocks(&self, shutdown: &Shutdown) {
        let Some(rpc) = &self.rpc else { return };
        while !shutdown.is_requested() {
            // A node that does not answer is waited for by those who follow it.
            let Ok(kept) = KeptBlocks::of(rpc) else { return };
            if let Some(refusal) = lean_refusal(self.profile, &kept) {
                tracing::error!("{refusal}");
            }
            let Err(error) = kept.check(self.indexed()) else { return };
            self.index.set_waiting(Waiting::NodeLacksBlocks { message: error.message });
            std::thread::sleep(NODE_RETRY);
        }
    }

    /// Returns the advice for a node whose folder has no block files; `None` where there are some.
    fn without_files(&self) -> Option<String> {
        let folder = self.blocks_dir.as_ref().filter(|folder| build_space::block_bytes(folder).unwrap_or(0) == 0)?;
        Some(format!(
            "{} has no block files (blk*.dat) yet: if the node is not the one of this folder, set node-dir, and if it \
             keeps its blocks elsewhere, blocks-dir",
            folder.display()
        ))
    }

    /// Waits until the node is up and has the chain.
    fn wait_for_node(&self, shutdown: &Shutdown) -> Result<()> {
        let Some(rpc) = &self.rpc else { return Ok(()) };
        let mut last = String::new();
        while !shutdown.is_requested() {
            match check_node(rpc, self.network) {
                Ok(facts) => {
                    facts.kept.check(self.indexed())?;
                    self.index.clear_waiting();
                    return Ok(());
                }
                Err(error) if error.kind == SourceErrorKind::Permanent => bail!(error),
                Err(error) => {
                    last = match self.without_files() {
                        Some(reason) => format!("{error}; {reason}"),
                        None => error.message,
                    };
                    self.index.set_waiting(Waiting::NodeNotReady { message: last.clone() });
                    std::thread::sleep(NODE_RETRY);
                }
            }
        }
        bail!("stopped while waiting for the node: {last}")
    }
}

pub(super) type Parts = (Network, Option<NodeAccess>, Arc<dyn BlockSource>);

/// Ports of a node beside that of its RPC, as far as settings and its configuration say.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodePorts {
    /// Those for its peers.
    pub(crate) peers: Vec<u16>,
    /// `host:port` of its ZMQ.
    pub(crate) zmq: Option<String>,
}

impl NodePorts {
    /// Returns the ports of a node's configuration.
    pub(crate) fn of(conf: &NodeConf) -> Self {
        Self { peers: conf.peer_ports.clone(), zmq: conf.zmq_sequence.clone() }
    }
}

/// The node's interfaces.
pub(crate) struct NodeAccess {
    rpc: Arc<Rpc>,
    zmq_sequence: Option<String>,
    ports: NodePorts,
    blocks_dir: PathBuf,
    fetches: Arc<FetchCounters>,
}

impl NodeAccess {
    fn of_clients(&self, calls: usize) -> Arc<dyn Node> {
        Arc::new(CoreNode::new(Arc::new(self.rpc.with_own_calls(calls))))
    }

    fn into_node(self) -> Arc<dyn Node> {
        let node = CoreNode::new(self.rpc);
        Arc::new(match &self.zmq_sequence {
            Some(address) => node.with_zmq(ZmqSequence::subscribe(address)),
            None => node,
        })
    }
}

/// Returns the folder of the index without opening anything.
pub(crate) fn index_dir(options: &Options) -> Result<PathBuf> {
    options.index_dir(network(options)?)
}

/// Returns the network of the settings, else of the node's configuration.
pub(crate) fn network(options: &Options) -> Result<Network> {
    match options.network {
        Some(network) => Ok(network.into()),
        None => Ok(node_conf(options)?.network),
    }
}

/// Finds the node.
pub(crate) fn node_conf(options: &Options) -> Result<NodeConf> {
    let found = NodeOptions {
        node_dir: Some(options.node_dir()?),
        blocks_dir: options.blocks_dir.clone(),
        network: options.network.map(Network::from),
        rpc_address: options.rpc_addr.clone(),
        rpc_user: secrets::rpc_login(options)?,
        rpc_cookie: options.rpc_cookie_file.clone(),
        zmq_sequence: options.zmq_sequence_addr.clone(),
    };
    Ok(NodeConf::find(&found, None)?)
}

fn with_node(options: &Options) -> Result<Parts> {
    let conf = node_conf(options)?;
    if let Some(warning) = secrets::clear_rpc(&conf.rpc_address) {
        tracing::warn!("{warning}");
    }
    let rpc = Arc::new(Rpc::new(&conf.rpc_address, conf.auth.clone()));
    ask_first(&rpc, &conf, options)?;
    let folder = options.index_dir(conf.network)?.join(FETCHED);
    let blocks_dir = conf.blocks_dir.clone();
    let source = Fetching::new(source_of(&rpc, &conf, options)?, rpc.with_own_calls(CALLS_OF_FETCHES), &folder)
        .with_free_bytes(move || birdhouse_store::disk_free_bytes(&blocks_dir));
    // Nobody waits for the messages of a node that is polled.
    let ports = NodePorts::of(&conf);
    let zmq_sequence = conf.zmq_sequence.filter(|_| options.rpc_poll_secs.is_none());
    let access = NodeAccess { rpc, zmq_sequence, ports, blocks_dir: conf.blocks_dir, fetches: source.counters() };
    Ok((conf.network, Some(access), Arc::new(source)))
}

/// Asks the node before its block files are read, so that a wrong password, port or network is the first and only
/// message. A node that does not answer yet is waited for later.
fn ask_first(rpc: &Rpc, conf: &NodeConf, options: &Options) -> Result<()> {
    let Err(error) = check_node(rpc, conf.network) else { return Ok(()) };
    if error.kind == SourceErrorKind::Permanent {
        bail!(error);
    }
    if options.blocks_dir.is_none()
        && let Some(message) = conf.other_network()
    {
        bail!("{message}");
    }
    tracing::warn!(%error, "the node does not answer yet");
    Ok(())
}

/// Opens the node's blocks, or returns a source that opens once there are some. A folder in which no node has started
/// is an error of the settings.
fn source_of(rpc: &Arc<Rpc>, conf: &NodeConf, options: &Options) -> Result<Box<dyn BlockSource>> {
    let error = match birdhouse_node::open_source(&conf.blocks_dir, conf.network, Some(rpc)) {
        Ok(chosen) => return Ok(chosen.source),
        Err(error) => error,
    };
    let advice = match options.relay_addr {
        Some(_) => ". To run the relay alone, without a node, set bitcoin = \"off\" (--bitcoin off)",
        None => "",
    };
    if error.kind == SourceErrorKind::Permanent || !conf.network_dir.exists() {
        bail!("{error}{advice}");
    }
    tracing::warn!("the node has no blocks that can be read yet; they are waited for: {error}{advice}");
    Ok(Box::new(AwaitedSource::new(&conf.blocks_dir, conf.network, Arc::clone(rpc))))
}

/// Opens the block files of no running node.
pub(crate) fn without_node(options: &Options, blocks_dir: &Path) -> Result<Parts> {
    let network = options.network.context("--network is not set; --blocks-dir without --node-dir needs it")?.into();
    let source = BlockFiles::open(blocks_dir, network)?;
    Ok((network, None, Arc::new(source)))
}

/// Estimates the disk space of the first build.
fn build_space(options: &Options) -> Option<BuildSpace> {
    let blocks_dir = match &options.blocks_dir {
        Some(blocks_dir) => blocks_dir.clone(),
        None => node_conf(options).ok()?.blocks_dir,
    };
    let percent = build_space::index_percent(options.profile.unwrap_or(ProfileName::Full));
    let temp_max = options.sizes().build_temp;
    Some(BuildSpace::estimate(build_space::block_bytes(&blocks_dir)?, percent, temp_max))
}

/// Returns the folder of temporary files: one of its own, because the build removes leftovers in it.
fn temp_dir(options: &Options, network: Network, index_dir: &Path) -> PathBuf {
    match &options.build_temp_dir {
        Some(folder) => folder.join(format!("birdhouse-build-{network}")),
        None => index_dir.join("build"),
    }
}

fn prune_bounds(options: &Options) -> PruneBounds {
    let default = PruneBounds::default();
    PruneBounds {
        margin_blocks: options.node_prune_margin.unwrap_or(default.margin_blocks),
        step_bytes: options.node_prune_step.unwrap_or(default.step_bytes),
    }
}

fn build_options(options: &Options, network: Network, index_dir: &Path) -> BuildOptions {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let sizes = options.sizes();
    BuildOptions {
        temp_dir: temp_dir(options, network, index_dir),
        threads: options.build_threads.unwrap_or(processors).max(1),
        memory_bytes: sizes.build_memory,
        temp_bytes: sizes.build_temp,
        early_percent: options.build_early_percent.unwrap_or(BuildOptions::EARLY_PERCENT),
        reorg_blocks: options.build_reorg_blocks.unwrap_or(BuildOptions::REORG_BLOCKS),
    }
}
