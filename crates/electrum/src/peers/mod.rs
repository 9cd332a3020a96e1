//! Other servers: those that the operator names, and those that announce themselves by `server.add_peer`.
//!
//! An announcement is noted, if there is room, and answered at once; one task probes one server at a time ([`probe`]).
//! A server is listed while it answers for our chain under its own name; one that announced itself must do so at the
//! address from which it did. It is probed again and again, and forgotten once it has not answered for a day. The list
//! is in memory only.
//!
//! Off unless [`Settings::discovery`] is set.

mod features;
mod known;
mod probe;
mod talk;

use std::net::IpAddr;
use std::sync::Arc;

use bitcoin::BlockHash;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use self::features::Features;
use self::known::{Introducer, Known};
use self::probe::Prober;
use crate::protocol::Peer;
use crate::settings::Settings;

/// The list of other servers.
#[derive(Debug)]
pub(crate) struct Peers {
    /// `None`: no server is listed or noted.
    prober: Option<Prober>,
    known: Mutex<Known>,
    /// Wakes the task that probes.
    noted: Notify,
}

impl Peers {
    pub(crate) fn new(settings: &Settings, genesis_hash: BlockHash) -> Arc<Self> {
        let mut known = Known::default();
        for seed in settings.discovery.iter().flat_map(|discovery| &discovery.seeds) {
            known.note(seed.clone(), Introducer::Operator, Instant::now());
        }
        Arc::new(Self {
            prober: settings.discovery.as_ref().map(|discovery| Prober::new(discovery.scope, settings, genesis_hash)),
            known: Mutex::new(known),
            noted: Notify::new(),
        })
    }

    /// Notes a server that announces itself with its features. Returns false if it will not be probed.
    pub(crate) fn announce(&self, features: &str, from: IpAddr) -> bool {
        let Some(prober) = &self.prober else { return false };
        let Ok(features) = Features::parse(features, prober.genesis_hash) else { return false };
        let mut known = self.known.lock();
        let mut is_noted = false;
        for host in features.hosts().filter(|host| !prober.is_own(&host.name)) {
            is_noted |= known.note(host, Introducer::Itself(from.to_canonical()), Instant::now());
        }
        self.noted.notify_one();
        is_noted
    }

    /// Returns every server that works.
    pub(crate) fn list(&self) -> Vec<Peer> {
        self.known.lock().found().cloned().collect()
    }

    /// Probes one server after the other, for ever.
    pub(crate) async fn run(&self) {
        let Some(prober) = &self.prober else { return };
        loop {
            let due = self.known.lock().due();
            match due {
                Some((host, introduced_by, probe_at)) if probe_at <= Instant::now() => {
                    let found = prober.probe(&host, introduced_by).await;
                    if let Err(error) = &found {
                        debug!(%error, "a peer is not as announced");
                    }
                    self.known.lock().settle(&host.name, found.ok(), Instant::now());
                }
                Some((_, _, probe_at)) => tokio::select! {
                    () = self.noted.notified() => {}
                    () = sleep_until(probe_at) => {}
                },
                None => self.noted.notified().await,
            }
        }
    }
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
