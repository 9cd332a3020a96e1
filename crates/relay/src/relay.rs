//! The relay as a whole: what its connections share.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use birdhouse_events::Events;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::debug;

use crate::hub::Hub;
use crate::indexing::Indexing;
use crate::info::Description;
use crate::ingest::Ingest;
use crate::limits::Limits;
use crate::tidy::Tidy;
use crate::{connection, http};

/// What an operator decides.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// What the relay says of itself (NIP-11).
    pub description: Description,
    /// What clients may do.
    pub limits: Limits,
}

/// See the module.
pub struct Relay {
    pub(crate) events: Arc<Events>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) ingest: Ingest,
    _tidy: Tidy,
    _indexing: Option<Indexing>,
    pub(crate) settings: Settings,
    /// For the ids of negentropy sessions.
    pub(crate) sync_room: Arc<Semaphore>,
}

impl Relay {
    /// A relay of these events.
    pub fn new(events: Arc<Events>, settings: Settings) -> Arc<Self> {
        let hub = Arc::<Hub>::default();
        let ingest = Ingest::start(Arc::clone(&events), Arc::clone(&hub));
        let sync_room = Arc::new(Semaphore::new(settings.limits.sync_ids_all));
        let tidy = Tidy::start(Arc::clone(&events));
        let indexing = Indexing::start(Arc::clone(&events));
        Arc::new(Self { events, hub, ingest, _tidy: tidy, _indexing: indexing, settings, sync_room })
    }

    /// Serves one client until it goes, is sent away, or `shutdown` changes.
    pub async fn converse(self: Arc<Self>, socket: TcpStream, shutdown: watch::Receiver<bool>) {
        if let Some(client) = http::open(&self, socket).await {
            let ending = connection::run(&self, client, random(), shutdown).await;
            debug!(?ending, "connection ends");
        }
    }
}

/// A number that nobody can guess.
fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers: it gave some when the relay was opened");
    u128::from_be_bytes(bytes)
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the clock: the rest of the crate takes the time as an argument")]
pub(crate) fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
