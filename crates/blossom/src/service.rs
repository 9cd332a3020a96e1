//! State that all connections share, and the turns in which files are read and written.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_clients::{Buckets, ClientKey, ClientKeying, Quota};
use birdhouse_net::{Connections, Meter, Reads, Registry, SeatCounters, Turns, offload};
use parking_lot::Mutex;

use crate::access::Operator;
use crate::address::Address;
use crate::limits::{DISK_TURNS, Limits, REPORTERS, SETTLING_TURNS};
use crate::media_type::MediaTypes;
use crate::store::Store;

/// Number of the uploads under way in what the server holds for a client.
pub(crate) const UPLOADS: usize = 0;

/// Settings of the media store.
#[derive(Clone)]
pub struct Settings {
    /// Its bounds.
    pub limits: Limits,
    /// The URL by which clients know it; without one, that of the socket at hand.
    pub address: Option<Address>,
    /// Types of files that may be uploaded; `None`: all.
    pub types: Option<MediaTypes>,
    /// Returns the bytes that can still be written to the disk of the files, if they are known.
    pub disk_free_bytes: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    /// Numbers and bans of connections, shared with other servers of the process.
    pub connections: Connections,
    /// Turns of processors, shared with other servers of the process.
    pub reads: Arc<Reads>,
    /// Returns the time, in seconds since 1970.
    pub clock: fn() -> u64,
}

impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Settings")
            .field("address", &self.address)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// State behind every connection.
pub(crate) struct Service {
    pub(crate) store: Arc<Store>,
    pub(crate) operator: Arc<dyn Operator>,
    pub(crate) settings: Settings,
    pub(crate) registry: Arc<Registry>,
    /// Connections that found no seat or had to leave theirs.
    pub(crate) refused: Arc<SeatCounters>,
    pub(crate) uploads: Quota,
    /// Turns of threads that wait for the disk. They are not those of the other protocols, which uploads would fill.
    disk: Arc<Turns>,
    /// Those of threads that wait until something is durable, so that downloads do not wait for them.
    settling: Arc<Turns>,
    /// Rate of reports by client; `None` without a bound.
    pub(crate) reporters: Option<Mutex<Buckets<ClientKey>>>,
    pub(crate) counters: Counters,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    uploads: AtomicU64,
    downloads: AtomicU64,
    refused_uploads: AtomicU64,
}

/// Numbers of requests since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Uploads that were answered with a blob.
    pub uploads: u64,
    /// Answers with a blob, or a part of one.
    pub downloads: u64,
    /// Uploads that were refused, or ended early.
    pub refused_uploads: u64,
}

/// A connection's client, and the server.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) service: Arc<Service>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) address: Arc<Address>,
}

impl Service {
    pub(crate) fn new(store: Arc<Store>, operator: Arc<dyn Operator>, settings: Settings) -> Self {
        let limits = &settings.limits;
        Self {
            store,
            operator,
            registry: Registry::new(ClientKeying::default(), settings.connections.clone()),
            refused: Arc::default(),
            uploads: Quota::new(limits.uploads),
            disk: Turns::shared(DISK_TURNS),
            settling: Turns::shared(SETTLING_TURNS),
            reporters: limits.client_reports.map(|rate| Mutex::new(Buckets::new(rate, REPORTERS))),
            settings,
            counters: Counters::default(),
        }
    }
}

impl Caller {
    /// Reads or writes files, in a turn of the client, on a thread that may wait.
    pub(crate) async fn on_disk<T>(&self, work: impl FnOnce(&Store) -> T) -> T {
        let _turn = self.service.disk.take(&self.meter).await;
        offload(|| work(&self.service.store))
    }

    /// Changes what is stored, in a turn of the client, on a thread that may wait until it is durable.
    pub(crate) async fn settling<T>(&self, work: impl FnOnce(&Store) -> T) -> T {
        let _turn = self.service.settling.take(&self.meter).await;
        offload(|| work(&self.service.store))
    }

    /// Returns the time, in seconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        (self.service.settings.clock)()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.service.settings.limits
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.service.counters
    }
}

impl Counters {
    pub(crate) fn uploaded(&self) {
        self.uploads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn downloaded(&self) {
        self.downloads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused_upload(&self) {
        self.refused_uploads.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers so far.
    pub(crate) fn counts(&self) -> Counts {
        let [uploads, downloads, refused_uploads] =
            [&self.uploads, &self.downloads, &self.refused_uploads].map(|count| count.load(Ordering::Relaxed));
        Counts { uploads, downloads, refused_uploads }
    }
}
