//! The house: what wallets use, the relay, or both, as the operator has it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use birdhouse_electrum::ServerLimits;

use crate::config::{Options, Switch};
use crate::relay;
use crate::setup::{self, Setup};

/// What is opened and not yet served.
pub(crate) struct House {
    pub(crate) bitcoin: Option<Arc<Setup>>,
    pub(crate) relay: Option<relay::Opened>,
    pub(crate) ops_addr: Option<SocketAddr>,
    /// What both halves share.
    pub(crate) limits: ServerLimits,
    /// The folder of the operator's socket.
    pub(crate) ctl_dir: PathBuf,
}

impl House {
    /// Opens the halves that the options ask for.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        if !has_bitcoin(options) && options.relay_addr.is_none() {
            bail!("nothing is to be served: with --bitcoin off, say --relay-addr");
        }
        let bitcoin = has_bitcoin(options).then(|| Setup::open(options)).transpose()?.map(Arc::new);
        let ctl_dir = match &bitcoin {
            Some(setup) => setup.index_dir.clone(),
            None => relay::folder(options)?,
        };
        let limits = options.limits.clone().unwrap_or_default().of_server();
        Ok(Self { bitcoin, relay: relay::open(options)?, ops_addr: options.ops_addr, limits, ctl_dir })
    }
}

/// The folder of the operator's socket of a house with these options, without opening anything.
pub(crate) fn ctl_dir(options: &Options) -> Result<PathBuf> {
    if has_bitcoin(options) { setup::index_dir(options) } else { relay::folder(options) }
}

fn has_bitcoin(options: &Options) -> bool {
    options.bitcoin != Some(Switch::Off)
}
