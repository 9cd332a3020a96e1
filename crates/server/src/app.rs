//! The parts of the server that the settings enable: the index and server for wallets, the relay, or both.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use birdhouse_electrum::ServerLimits;

use crate::config::{Options, Switch};
use crate::listeners;
use crate::relay;
use crate::rest;
use crate::setup::{self, Setup};

/// Everything opened and not served yet.
pub(crate) struct App {
    pub(crate) bitcoin: Option<Arc<Setup>>,
    pub(crate) relay: Option<relay::Opened>,
    pub(crate) rest: Option<rest::Opened>,
    pub(crate) ops_addr: Option<SocketAddr>,
    /// Bounds that wallets and relay share.
    pub(crate) limits: ServerLimits,
    /// Folder of the control socket.
    pub(crate) ctl_dir: PathBuf,
}

impl App {
    /// Opens the parts that the settings enable.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        if !has_bitcoin(options) && listeners::plan_relay(options)?.is_empty() {
            bail!("nothing to serve: --bitcoin is off and --relay-addr is unset; set one of them");
        }
        let bitcoin = has_bitcoin(options).then(|| Setup::open(options)).transpose()?.map(Arc::new);
        let ctl_dir = match &bitcoin {
            Some(setup) => setup.index_dir.clone(),
            None => relay::folder(options)?,
        };
        let limits = options.limits.clone().unwrap_or_default().server();
        let rest = rest::open(options, bitcoin.is_some())?;
        Ok(Self { bitcoin, rest, relay: relay::open(options)?, ops_addr: options.ops_addr, limits, ctl_dir })
    }
}

/// Returns the folder of the control socket without opening anything.
pub(crate) fn ctl_dir(options: &Options) -> Result<PathBuf> {
    if has_bitcoin(options) { setup::index_dir(options) } else { relay::folder(options) }
}

fn has_bitcoin(options: &Options) -> bool {
    options.bitcoin != Some(Switch::Off)
}
