//! The parts of the server that the settings enable: the index and server for wallets, the relay, or both.
//!
//! May use `operator` and what that uses.

mod reload;
mod serve;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use birdhouse_dashboard::Endpoint;
use birdhouse_electrum::ServerLimits;
use birdhouse_watch::channel::{Clock, Refused, Surroundings};
use birdhouse_watch::{Paths, Watches};
use bitcoin::Network;
use tokio::runtime::Handle;

pub(crate) use self::serve::serve;
use crate::cluster::replicas;
use crate::config::{NetworkName, Options, secrets, watch_files};
use crate::index::{Setup, setup};
use crate::operator::{Part, Stores, ctl, ops, public_endpoints};
use crate::process::{Signals, file_limit};
use crate::services::{self, relay};
use crate::sockets::protocols::RELAY;
use crate::sockets::{Onion, listeners};

/// Everything opened and not served yet.
pub(crate) struct App {
    pub(crate) bitcoin: Option<Arc<Setup>>,
    pub(crate) services: services::Opened,
    /// The listeners for replicas.
    pub(crate) replicas: Option<replicas::Plans>,
    pub(crate) ops: Option<ops::Plan>,
    /// The onion service to ask Tor for.
    pub(crate) onion: Option<Onion>,
    /// Public addresses of listeners for wallets.
    pub(crate) public: Vec<Endpoint>,
    /// Public URLs of the relay.
    pub(crate) relay_urls: Vec<String>,
    /// Settings that do nothing in their combination.
    pub(crate) warnings: Vec<String>,
    /// Signals that change the running server.
    pub(crate) signals: Signals,
    /// The settings of flags and variables, without those of the file.
    pub(crate) flags: Options,
    /// Bounds that wallets and relay share.
    pub(crate) limits: ServerLimits,
    /// The file of watches, which need not exist.
    pub(crate) watch_file: PathBuf,
    /// Addresses that no channel of it may reach.
    pub(crate) refused: Refused,
    /// Folder of the control socket.
    pub(crate) ctl_dir: PathBuf,
    /// Folder of all data.
    pub(crate) data_dir: PathBuf,
    /// Names in a self-signed certificate.
    pub(crate) names: Vec<String>,
}

impl App {
    /// Opens the parts that the settings enable.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        check_halves(options)?;
        let replicas = replicas::Plans::of(options)?;
        let bitcoin = options.has_bitcoin().then(|| Setup::open(options)).transpose()?;
        let mut services = services::Opened::open(options, bitcoin.as_ref())?;
        fit_connections(file_limit::raise(), &mut services.connection_bounds());
        let ctl_dir = match &bitcoin {
            Some(setup) => setup.index_dir.clone(),
            None => relay::folder(options)?,
        };
        let hosts = options.public_host.as_deref().unwrap_or_default();
        let public = bitcoin.as_ref().map(|setup| public_endpoints(hosts, setup.network)).unwrap_or_default();
        let limits = options.limits.clone().unwrap_or_default().server();
        let refused = services::refused(options, bitcoin.as_ref());
        Ok(Self {
            bitcoin: bitcoin.map(Arc::new),
            services,
            replicas,
            ops: ops::Plan::of(options)?,
            onion: Onion::plan(options)?,
            public,
            relay_urls: options.relay_url.clone().unwrap_or_default(),
            warnings: options.warnings(),
            signals: Signals::default(),
            flags: options.clone(),
            limits,
            watch_file: options.watch_file()?,
            refused,
            ctl_dir,
            data_dir: options.data_dir()?,
            names: listeners::host_names(options),
        })
    }
}

/// Checks the settings without opening anything, as far as they do not depend on what is on the disk. A network that is
/// not known yet may be any.
///
/// # Errors
/// The first one of the settings that [`App::open`] would refuse.
pub(crate) fn check(options: &Options, network: Network) -> Result<()> {
    check_halves(options)?;
    secrets::rpc_login(options)?;
    replicas::Plans::of(options)?;
    services::check(options, network)?;
    options.data_dir().map(drop)
}

fn check_halves(options: &Options) -> Result<()> {
    if !options.has_bitcoin() && listeners::plan_of(options, &RELAY)?.is_empty() {
        bail!("nothing to serve: --bitcoin is off and --relay-addr is unset; set one of them");
    }
    Ok(())
}

impl App {
    /// Returns the watches, before their file is read; `None` without an index of this process's own.
    pub(crate) fn watches(&self, runtime: &Handle) -> Option<Watches> {
        let setup = self.bitcoin.as_ref()?;
        let paths = Paths { file: self.watch_file.clone(), state: watch_files::state(&setup.index_dir) };
        Some(Watches::new(paths, setup.network, Arc::clone(&setup.index), runtime.clone()))
    }

    /// Returns everything that the channels of the watch file need.
    fn surroundings(&self, bound: &services::Bound) -> Surroundings {
        let listeners = bound.list.iter().flat_map(|service| service.listeners());
        let of_relay = listeners.filter(|listener| listener.serves == RELAY.serves);
        Surroundings {
            refused: self.refused.clone(),
            key_file: self.data_dir.join(watch_files::KEY),
            relay: bound.relay.as_ref().map(|relay| Arc::new(services::WatchRelay(Arc::clone(relay))) as _),
            relay_sockets: of_relay.map(|listener| listener.addr).collect(),
            clock: Clock::system(),
        }
    }

    /// Returns the open stores.
    pub(crate) fn stores(&self, watches: Option<&Watches>) -> Stores {
        let of_files =
            |setup: &Arc<Setup>| Some((Part::Index, setup.index_dir.clone(), Arc::clone(setup.store.files()?)));
        let index = self.bitcoin.iter().filter_map(of_files);
        let derived = self.bitcoin.iter().flat_map(|setup| &setup.derived);
        let derived = derived.map(|one| (Part::Derived(one.name), one.folder.clone(), Arc::clone(&one.store)));
        let relay = self
            .services
            .relay
            .iter()
            .filter_map(|relay| Some((Part::Relay, self.data_dir.join(relay::FOLDER), Arc::clone(relay.files()?))));
        let open = index.chain(derived).chain(relay).collect();
        let (data_dir, watch_file) = (self.data_dir.clone(), self.watch_file.clone());
        let media = self.services.blossom.as_ref().map(|blossom| Arc::clone(blossom.store()));
        Stores { data_dir, open, watch_file, watches: watches.cloned(), media }
    }
}

/// Reduces the bounds on connections to what the limit of open files allows.
fn fit_connections(files_max: u64, bounds: &mut [&mut usize]) {
    if let Some(connections) = file_limit::fit(files_max, bounds) {
        tracing::warn!(
            files_max,
            connections,
            "fitted the bounds on connections to the limit of open files; raise it (LimitNOFILE=, `ulimit -n`) for more"
        );
    }
}

/// Returns the folder of the control socket without opening anything. Where the settings name no network, it is that of
/// the server that runs: the node's configuration, which would say the network, may be closed to this user.
///
/// # Errors
/// Several servers run in the data folder, it is another user's, or no server runs and the network is unknown.
pub(crate) fn ctl_dir(options: &Options) -> Result<PathBuf> {
    let relay = relay::folder(options)?;
    if !options.has_bitcoin() {
        return Ok(relay);
    }
    if options.network.is_some() {
        return setup::index_dir(options);
    }
    match served(options)? {
        Some(network) => options.index_dir(network),
        None if ctl::is_served(&relay)? => Ok(relay),
        None => setup::index_dir(options),
    }
}

/// Returns the folder of the control socket of the server whose relay has its data in this data folder; `None` if none
/// runs.
///
/// # Errors
/// Several servers run in the data folder, or this user may not ask.
pub(crate) fn relay_ctl_dir(options: &Options) -> Result<Option<PathBuf>> {
    let relay = relay::folder(options)?;
    if ctl::is_served(&relay)? {
        return Ok(Some(relay));
    }
    let dir = match options.network {
        Some(_) => Some(setup::index_dir(options)?),
        None => served(options)?.map(|network| options.index_dir(network)).transpose()?,
    };
    Ok(match dir {
        Some(dir) if ctl::is_served(&dir)? => Some(dir),
        _ => None,
    })
}

/// Returns the network of the settings, else of the server that runs, else of the node's configuration.
///
/// # Errors
/// The node's configuration cannot be read.
pub(crate) fn network(options: &Options) -> Result<Network> {
    match (options.network, served(options)) {
        (None, Ok(Some(network))) => Ok(network),
        _ => setup::network(options),
    }
}

/// Returns the network of the server that runs in the data folder.
fn served(options: &Options) -> Result<Option<Network>> {
    let mut served = None;
    for network in NetworkName::all() {
        if ctl::is_served(&options.index_dir(network)?)? && served.replace(network).is_some() {
            bail!("several servers run in {}; choose one by --network", options.data_dir()?.display());
        }
    }
    Ok(served)
}
