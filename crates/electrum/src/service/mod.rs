//! State that all connections share: index, node, settings, and the turns to use them.

mod counters;
mod known_fees;

pub use self::counters::{Counted, Histogram, Outcome};
pub(crate) use self::counters::{Counters, Silent};
pub(crate) use self::known_fees::KnownFees;

use std::net::IpAddr;
use std::sync::Arc;

use birdhouse_chain::source::{BlockPart, Node};
use birdhouse_chain::{EarlyHeaders, Index, Snapshot, Syncing};
use birdhouse_clients::OldAnswers;
use birdhouse_net::{FetchBounds, PartialMessages, Pool, Reads, Registry, SeatCounters};
use bitcoin::constants::genesis_block;
use bitcoin::{BlockHash, Network};

use crate::client::{Client, Followers};
use crate::limits::{FETCH_PATIENCE, FETCHED_PARTS_MAX};
use crate::peers::Peers;
use crate::settings::Settings;
use crate::silentpayments::{Access, SilentRegistry};

/// Bytes of the shortest entry of a history or a list of unspent outputs.
const ENTRY_BYTES_MIN: usize = r#"{"tx_hash":"","height":0}"#.len() + 64;

/// State of the server behind every connection.
pub(crate) struct Service {
    pub(crate) index: Arc<Index>,
    pub(crate) node: Option<Arc<dyn Node>>,
    pub(crate) settings: Settings,
    pub(crate) fees: KnownFees,
    pub(crate) followers: Followers,
    pub(crate) peers: Arc<Peers>,
    pub(crate) registry: Arc<Registry>,
    /// Connections that found no place or had to leave theirs.
    pub(crate) refused: Arc<SeatCounters>,
    pub(crate) counters: Counters,
    /// Scan keys that clients subscribe with.
    pub(crate) silent: SilentRegistry,
    /// Turns to read the index and to call the node.
    pub(crate) reads: Arc<Reads>,
    pub(crate) partial: PartialMessages,
    /// Bytes that wait to be written, of all clients.
    pub(crate) unsent: Pool,
}

/// View of the index that one request, or one batch, sees.
#[derive(Debug)]
pub(crate) struct View {
    /// Address of the client.
    pub(crate) from: IpAddr,
    pub(crate) snapshot: Result<Arc<Snapshot>, Syncing>,
    /// Headers of the chain that is being indexed, while there is no snapshot.
    pub(crate) early: Option<EarlyHeaders>,
    /// Access of the client to subscriptions by scan key.
    pub(crate) access: Access,
    /// Entries of a list that may fit in one reply. Longer ones are refused before they are read.
    pub(crate) entries_max: usize,
    /// Bytes of tweaks that one request may ask for.
    pub(crate) tweak_bytes_max: Option<u64>,
}

impl Service {
    pub(crate) fn new(index: Arc<Index>, node: Option<Arc<dyn Node>>, settings: Settings) -> Self {
        let limits = &settings.limits;
        Self {
            peers: Peers::new(&settings, index.genesis_hash()),
            index,
            node,
            fees: known_fees::none_known(),
            followers: Followers::default(),
            registry: Registry::new(settings.keying, settings.connections.clone()),
            refused: Arc::default(),
            counters: Counters::default(),
            silent: SilentRegistry::new(limits),
            reads: settings.reads.clone().unwrap_or_else(|| limits.reads()),
            partial: PartialMessages::new(limits.partial_message_bytes),
            unsent: Pool::new(limits.unsent_bytes),
            settings,
        }
    }

    /// Returns the network of the index.
    pub(crate) fn network(&self) -> Network {
        let is_genesis = |network: &Network| genesis_block(*network).block_hash() == self.index.genesis_hash();
        // The others have addresses of one form.
        [Network::Bitcoin, Network::Regtest].into_iter().find(is_genesis).unwrap_or(Network::Testnet)
    }

    /// Fetches parts of blocks that the node has removed, each in a turn of the client. Returns true if all came in
    /// time; they are read like other blocks then.
    pub(crate) async fn fetch_removed(&self, client: &Client, parts: &[BlockPart]) -> bool {
        let bounds = FetchBounds { parts: FETCHED_PARTS_MAX, patience: FETCH_PATIENCE };
        let index = Arc::clone(&self.index);
        let fetch = move |part| index.fetch_removed(part).is_ok();
        self.reads.fetch_within(&client.meter, parts, bounds, fetch).await
    }

    /// Returns the snapshot that a client may see.
    ///
    /// # Errors
    /// The index is being built, or its answers are too old for the client's listener.
    pub(crate) fn snapshot(&self, client: &Client) -> Result<Arc<Snapshot>, Syncing> {
        match client.limits().answer_while_building {
            OldAnswers::Refuse => self.index.downloading().map_or_else(|| self.index.snapshot(), Err),
            OldAnswers::Serve => self.index.snapshot(),
        }
    }

    /// Returns the banner, with the reason why the tip is not the newest.
    pub(crate) fn banner(&self) -> String {
        let banner = &self.settings.banner;
        self.index.waiting().map_or_else(|| banner.clone(), |reason| format!("{banner}\n\nNote: {reason}."))
    }

    /// Returns the present view of a client.
    pub(crate) fn view(&self, client: &Client) -> View {
        let snapshot = self.snapshot(client);
        let early = if snapshot.is_err() { self.index.early_headers() } else { None };
        let entries_max = client.limits().reply_bytes / ENTRY_BYTES_MIN;
        let tweak_bytes_max = client.limits().tweak_stream_bytes.map(|bytes| bytes as u64);
        View { from: client.meter.address, snapshot, early, access: client.access(), entries_max, tweak_bytes_max }
    }
}

impl View {
    /// Returns the tip of the snapshot; `None` before the index is built.
    pub(crate) fn tip_hash(&self) -> Option<BlockHash> {
        self.snapshot.as_ref().ok().map(|snapshot| snapshot.tip().hash)
    }
}
