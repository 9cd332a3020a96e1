//! The protocols that clients speak: opened, bound, served and ended. Each is a [`Service`]; the rest of the server
//! knows them by this trait, and by the list that [`Opened::bind`] makes.
//!
//! May use `index` and what that uses.

pub(crate) mod blossom;
mod electrum;
mod metrics_writer;
mod own_relay;
mod rates;
mod refused;
pub(crate) mod relay;
pub(crate) mod relay_key;
pub(crate) mod relay_members;
mod relay_overview;
mod relay_settings;
mod rest;
pub(crate) mod rules;
mod service;
mod stream_overview;
pub(crate) mod streams;
mod watch_api;

use std::sync::Arc;

use anyhow::Result;
use birdhouse_dial::Guard;
use birdhouse_net::{Certificate, Connections, Reads};
use birdhouse_relay::{Ending, Relay, RuleBook};
use birdhouse_watch::Watches;
use bitcoin::Network;

pub(crate) use self::metrics_writer::{MetricsWriter, count_of};
pub(crate) use self::own_relay::WatchRelay;
pub(crate) use self::rates::{Counts, PerSecond, Rates, SAMPLE_INTERVAL};
pub(crate) use self::refused::refused;
pub(crate) use self::relay_settings::retention;
pub(crate) use self::service::{OnPanic, Overview, Service};
#[cfg(test)]
pub(crate) use self::service::{Serving, Stopped};
use crate::config::Options;
use crate::index::Setup;

/// The services that the settings enable: opened, and not bound yet.
pub(crate) struct Opened {
    electrum: Option<electrum::Opened>,
    rest: Option<rest::Opened>,
    watch_api: Option<watch_api::Opened>,
    pub(crate) blossom: Option<blossom::Opened>,
    pub(crate) relay: Option<relay::Opened>,
    /// The operator's rules.
    rules: Arc<RuleBook>,
    /// Ends rules whose time is over, where no relay does.
    _ending: Option<Ending>,
}

/// Values of the process that it lends to each of them.
pub(crate) struct Shared {
    /// Numbers and bans of connections.
    pub(crate) connections: Connections,
    /// Turns of processors, of the disk and of the node.
    pub(crate) reads: Arc<Reads>,
    /// Connections to other relays.
    pub(crate) dial: Arc<Guard>,
    /// The watches; `None` without an index of this process's own.
    pub(crate) watches: Option<Watches>,
}

/// The services that are bound.
pub(crate) struct Bound {
    /// All of them, in the order of status and metrics.
    pub(crate) list: Vec<Arc<dyn Service>>,
    /// The relay among them, for commands about its events.
    pub(crate) relay: Option<Arc<Relay>>,
    /// The operator's rules; without a relay, those about clients.
    pub(crate) rules: Arc<RuleBook>,
}

impl Opened {
    /// Opens the services that the settings enable.
    pub(crate) fn open(options: &Options, index: Option<&Setup>) -> Result<Self> {
        let rules = Arc::new(rules::open(options, index)?);
        let relay = relay::open(options, Arc::clone(&rules))?;
        let ending = relay.is_none().then(|| Ending::start(&rules));
        Ok(Self {
            electrum: index.map(|setup| electrum::open(options, setup.network)).transpose()?,
            relay,
            rest: rest::open(options)?,
            watch_api: watch_api::open(options)?,
            blossom: blossom::open(options)?,
            rules,
            _ending: ending,
        })
    }

    /// Returns their bounds on connections.
    pub(crate) fn connection_bounds(&mut self) -> Vec<&mut usize> {
        let Self { electrum, rest, relay, watch_api: _, blossom, rules: _, _ending: _ } = self;
        let electrum = electrum.iter_mut().flat_map(electrum::Opened::connection_bounds);
        let relay = relay.iter_mut().map(relay::Opened::connections);
        let blossom = blossom.iter_mut().map(blossom::Opened::connections);
        electrum.chain(relay).chain(rest.iter_mut().map(rest::Opened::connections)).chain(blossom).collect()
    }

    /// Returns the largest number of threads that their requests keep busy, beyond those that all share.
    pub(crate) fn blocking_threads(&self) -> usize {
        // The shared ones are for the others.
        let Self { electrum: _, rest, relay: _, watch_api: _, blossom, rules: _, _ending: _ } = self;
        let blossom = blossom.as_ref().map_or(0, blossom::Opened::blocking_threads);
        rest.as_ref().map_or(0, rest::Opened::blocking_threads) + blossom
    }

    /// Binds them, and starts their tasks in the current runtime.
    pub(crate) async fn bind(&self, index: Option<&Arc<Setup>>, shared: &Shared) -> Result<Bound> {
        let Self { electrum, rest, relay, watch_api, blossom, rules, _ending: _ } = self;
        rules.govern(&shared.connections);
        let electrum = match electrum.as_ref().zip(index) {
            None => None,
            Some((electrum, setup)) => Some(electrum.bind(setup, shared).await?),
        };
        let relay = match relay {
            None => None,
            Some(relay) => Some(relay.bind(shared).await?),
        };
        let rest = match rest.as_ref().zip(index) {
            None => None,
            Some((rest, setup)) => Some(rest.bind(setup, shared).await?),
        };
        let watch_api = match watch_api.as_ref().zip(index) {
            None => None,
            Some((watch_api, setup)) => Some(watch_api.bind(setup, shared).await?),
        };
        let relay_of_commands = relay.as_ref().map(|relay| Arc::clone(&relay.relay));
        let blossom = match blossom.as_ref().zip(relay_of_commands.as_ref()) {
            None => None,
            Some((blossom, relay)) => Some(blossom.bind(relay, shared).await?),
        };
        let mut list: Vec<Arc<dyn Service>> = Vec::new();
        list.extend(electrum.map(|electrum| Arc::new(electrum) as _));
        list.extend(rest.map(|rest| Arc::new(rest) as _));
        list.extend(relay.map(|relay| Arc::new(relay) as _));
        list.extend(watch_api.map(|watch_api| Arc::new(watch_api) as _));
        list.extend(blossom.map(|blossom| Arc::new(blossom) as _));
        Ok(Bound { list, relay: relay_of_commands, rules: Arc::clone(rules) })
    }
}

/// Checks the settings of every service without opening anything. A network that is not known yet may be any.
///
/// # Errors
/// The first one of the settings that [`Opened::open`] would refuse.
pub(crate) fn check(options: &Options, network: Network) -> Result<()> {
    if options.has_bitcoin() {
        electrum::check(options, network)?;
    }
    relay::check(options)?;
    rest::check(options)?;
    blossom::check(options)?;
    watch_api::check(options)
}

/// Checks the streams, which may be read again while the relay runs.
///
/// # Errors
/// The first mistake.
pub(crate) fn check_streams(options: &Options) -> Result<()> {
    streams::plan(options).map(drop)
}

/// Returns the certificates of all listeners.
pub(crate) fn certificates(services: &[Arc<dyn Service>]) -> impl Iterator<Item = &Arc<Certificate>> {
    services.iter().flat_map(|service| service.listeners()).filter_map(|listener| listener.transport.certificate())
}
