//! The index, or the events of a relay, on a cluster, by role.
//!
//! An indexer waits for the lease, a front end for a finished index. Nothing else of the server knows the engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Error as Failure, Result, anyhow, bail};
use birdhouse_chain::source::BlockSource;
use birdhouse_chain::{Error, Index};
use birdhouse_store::{AccessFault, CqlAccess, CqlOptions, CqlReplica, CqlStore};
use bitcoin::Network;
use bitcoin::blockdata::constants::genesis_block;

use crate::config::{Options, RoleName, secrets};
use crate::sockets::protocols::RELAY;
use crate::storage::index_store::open_index;
use crate::storage::{EventStore, IndexStore};

/// The pause between two looks at a store that has no finished index yet.
const LOOK: Duration = Duration::from_secs(2);
/// Name of the store of the relay's events; that of an index is its network.
const RELAY_PLACE: &str = "relay";
/// Folder of bulk runs in the folder of the index.
const SPOOL: &str = "spool";

/// Opens the index on a cluster. An indexer waits for the lease, a front end until the index is built; a signal ends
/// the process meanwhile.
pub(crate) fn open(
    options: &Options,
    address: &str,
    network: Network,
    folder: &Path,
    source: &Arc<dyn BlockSource>,
) -> Result<(IndexStore, Index)> {
    if !crate::sockets::listeners::plan_of(options, &RELAY)?.is_empty() {
        bail!(
            "failed to open {address}: one process serves the index of a cluster or its relay; run the relay in a process \
             with --bitcoin off"
        );
    }
    let settings = settings(options, address, &network.to_string(), folder)?;
    match options.role.unwrap_or(RoleName::Indexer) {
        RoleName::Indexer => open_writer(options, settings, network, Arc::clone(source)),
        RoleName::Front => open_front(&settings, network, source),
    }
}

/// Opens the events of a relay on a cluster. A writer waits for the lease; a signal ends the process meanwhile.
pub(crate) fn open_events(options: &Options, address: &str, folder: &Path) -> Result<EventStore> {
    let settings = settings(options, address, RELAY_PLACE, folder)?;
    if options.role == Some(RoleName::Front) {
        if options.relay_writer.as_ref().is_none_or(Vec::is_empty) {
            bail!("a front end of a relay passes events on; set --relay-writer to the replicas-addr of the writer");
        }
        return Ok(EventStore::Followed(Arc::new(open_replica(&settings)?)));
    }
    let store = open_store(settings)?;
    let fenced = Arc::clone(&store);
    Ok(EventStore::Written { store, is_fenced: Box::new(move || fenced.is_fenced()) })
}

fn settings(options: &Options, address: &str, place: &str, folder: &Path) -> Result<CqlOptions> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(CqlOptions {
        address: address.parse()?,
        access: access(options)?,
        place: place.to_owned(),
        owner: format!("{} pid {}", host.trim(), std::process::id()),
        spool: folder.join(SPOOL),
        lease: CqlOptions::LEASE,
        grace: CqlOptions::GRACE,
        cache_bytes: CqlOptions::CACHE_BYTES,
    })
}

fn access(options: &Options) -> Result<CqlAccess> {
    let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("failed to read {}", path.display()));
    let access = CqlAccess {
        authorities: options.store_tls_ca.as_ref().map(read).transpose()?,
        login: secrets::store_login(options)?,
    };
    if access.login.is_some() && access.authorities.is_none() {
        tracing::warn!("the password of the cluster crosses the network unencrypted; set store-tls-ca");
    }
    Ok(access)
}

/// Connects to the cluster and waits for the lease.
fn open_store(settings: CqlOptions) -> Result<Arc<CqlStore>> {
    let opened = CqlStore::open(settings, &AtomicBool::new(false)).map_err(advised)?;
    Ok(Arc::new(opened.context("nothing ends the wait for the lease")?))
}

/// Adds to an error what the operator can do about it.
fn advised(error: birdhouse_store::Error) -> Failure {
    let birdhouse_store::Error::Access { fault, .. } = &error else { return error.into() };
    let advice = match fault {
        AccessFault::NoLogin => "set store-user and store-password-file",
        AccessFault::WrongLogin => "check store-user and the first line of store-password-file",
        AccessFault::WrongCertificate => {
            "store-tls-ca must have the authority that signed the certificates of the nodes, and each of these must \
             name the IP address of its node"
        }
        AccessFault::NotEncrypted => {
            "turn on client_encryption_options of the nodes, name the port of encrypted connections, or unset \
             store-tls-ca"
        }
        AccessFault::Closed => "if the nodes want encrypted connections, set store-tls-ca",
    };
    anyhow!("{error}; {advice}")
}

fn open_writer(
    options: &Options,
    settings: CqlOptions,
    network: Network,
    source: Arc<dyn BlockSource>,
) -> Result<(IndexStore, Index)> {
    let store = open_store(settings)?;
    let index = open_index(options, network, Arc::clone(&store) as _, source)?;
    Ok((IndexStore::Written(store), index))
}

fn open_front(settings: &CqlOptions, network: Network, source: &Arc<dyn BlockSource>) -> Result<(IndexStore, Index)> {
    let replica = open_replica(settings)?;
    let genesis = genesis_block(network).block_hash();
    loop {
        match Index::open_front(&replica, Arc::clone(source), genesis) {
            Ok(index) => return Ok((IndexStore::Followed(Arc::new(replica)), index)),
            Err(Error::NotReady) => {
                tracing::info!(place = settings.place, "waiting for an indexer to build the index");
                std::thread::sleep(LOOK);
            }
            Err(error) => return Err(anyhow!(error).context("failed to open the published index")),
        }
    }
}

/// Connects to the cluster; waits while it does not answer, or until an indexer has created the tables.
fn open_replica(settings: &CqlOptions) -> Result<CqlReplica> {
    loop {
        match CqlReplica::open(settings) {
            Err(error @ birdhouse_store::Error::Cluster { .. }) => {
                tracing::warn!(%error, "failed to open the index on the cluster, trying again");
                std::thread::sleep(LOOK);
            }
            opened => return opened.map_err(advised),
        }
    }
}
