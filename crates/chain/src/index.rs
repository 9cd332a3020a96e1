//! The index as its users see it: open, build, follow the tip, ask.

use std::sync::{Arc, Mutex, RwLock};

use birdhouse_store::{Direction, KeyRange, PageLimit, Store};
use bitcoin::BlockHash;
use tokio::sync::broadcast;

use crate::build::{Build, BuildOptions, BuildReport, Progress, remove_leftovers};
use crate::headers::{ChainBlock, Headers};
use crate::manifest::{Manifest, Profile, State};
use crate::mempool::Mempool;
use crate::mirror::Mirror;
use crate::prefix::{Keyer, Secret};
use crate::query::{Shared, Snapshot};
use crate::read_budget::ReadBudget;
use crate::rows::{header, txid};
use crate::scripthash::ScriptHash;
use crate::source::{BlockMeta, BlockSource};
use crate::status::Statuses;
use crate::txid_cache::TxidCache;
use crate::{Error, Result};

/// Why there is no snapshot yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("syncing, {percent} %")]
pub struct Syncing {
    /// How far, 0 to 99.
    pub percent: u8,
}

/// A change of the tip, of the mempool, or of both.
#[derive(Debug)]
pub struct Update {
    /// What is seen from now on.
    pub snapshot: Arc<Snapshot>,
    /// What came or went touched these.
    pub touched: Touched,
}

/// Scripts whose answers may be others now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// These, sorted.
    Scripts(Vec<ScriptHash>),
    /// Any: the node has lost a stale block, so nobody can say what it touched.
    Any,
}

/// Updates that a slow receiver may lag behind before it must treat every script as touched.
const UPDATES_HELD: usize = 64;

/// The index of one chain in one store. There is one writer; readers hold snapshots.
#[derive(Debug)]
pub struct Index {
    pub(crate) shared: Arc<Shared>,
    genesis: BlockHash,
    pub(crate) writer: Mutex<Manifest>,
    current: RwLock<Option<Arc<Snapshot>>>,
    updates: broadcast::Sender<Arc<Update>>,
    progress: Progress,
    /// Held by who follows the node.
    pub(crate) mirror: Mutex<Mirror>,
}

impl Index {
    /// Opens the index in `store`, or begins one. A new one draws its rows' keys from `secret`.
    ///
    /// # Errors
    /// [`Error::WrongChain`] or [`Error::WrongProfile`] when the store holds an index of another kind.
    pub fn open(
        store: Arc<dyn Store>,
        source: Arc<dyn BlockSource>,
        genesis: BlockHash,
        profile: Profile,
        secret: Secret,
    ) -> Result<Self> {
        let manifest = match store.mark()? {
            None => Manifest::new(profile, secret, genesis),
            Some(bytes) => Manifest::decode(&bytes).map_err(Error::damaged_manifest)?,
        };
        if manifest.genesis != genesis {
            return Err(Error::WrongChain { found: manifest.genesis, expected: genesis });
        }
        if manifest.profile != profile {
            return Err(Error::WrongProfile { found: manifest.profile, expected: profile });
        }
        let txids = match profile {
            Profile::Full => Some(store.array(txid::ARRAY)?),
            Profile::Lean => None,
        };
        let statuses = Statuses::default();
        let shared = Shared {
            store,
            source,
            keyer: Keyer::new(manifest.secret),
            txids,
            statuses,
            txid_cache: TxidCache::default(),
        };
        let index = Self {
            shared: Arc::new(shared),
            genesis,
            writer: Mutex::new(manifest),
            current: RwLock::new(None),
            updates: broadcast::Sender::new(UPDATES_HELD),
            progress: Progress::default(),
            mirror: Mutex::default(),
        };
        index.load()?;
        Ok(index)
    }

    /// Reads the headers of a finished index and makes it visible.
    fn load(&self) -> Result<()> {
        let manifest = self.writer.lock().expect("no writer panics").clone();
        let State::Ready(tip) = manifest.state else { return Ok(()) };
        if let Some(txids) = &self.shared.txids {
            // A shorter array would be filled with zeros by the next block, and zeros be given as txids.
            let (found, needed) = (txids.len(), manifest.live.last().map_or(0, |range| range.end.0));
            if found < needed {
                return Err(Error::short_array(txid::ARRAY, found, needed));
            }
            txids.truncate(manifest.next.0.min(found))?;
        }
        let headers = read_headers(&*self.shared.store, &manifest)?;
        if headers.tip() != Some(tip) || !headers.is_chained() {
            return Err(Error::missing(header::TABLE, "rows of the live chain"));
        }
        // Who asked before was told to wait.
        self.install(self.snapshot_of(&manifest, headers), Touched::Any);
        Ok(())
    }

    pub(crate) fn snapshot_of(&self, manifest: &Manifest, headers: Headers) -> Snapshot {
        let cut_into_packed = manifest.live.first().is_none_or(|first| first.end < manifest.packed.end);
        Snapshot {
            shared: Arc::clone(&self.shared),
            headers: Arc::new(headers),
            packed: manifest.packed,
            cut_into_packed,
            mempool: Mempool::default(),
            serial: 0,
            budget: ReadBudget::Unlimited,
        }
    }

    /// Makes a published manifest, or another mempool, visible to readers.
    pub(crate) fn install(&self, mut snapshot: Snapshot, touched: Touched) {
        let mut current = self.current.write().expect("no writer panics");
        snapshot.serial = current.as_ref().map_or(0, |before| before.serial) + 1;
        let snapshot = Arc::new(snapshot);
        self.shared.statuses.advance(snapshot.serial, &touched);
        *current = Some(Arc::clone(&snapshot));
        drop(current);
        // Nobody listening is fine.
        let _ = self.updates.send(Arc::new(Update { snapshot, touched }));
    }

    /// Whether the first build is done.
    pub fn is_ready(&self) -> bool {
        self.current.read().expect("no writer panics").is_some()
    }

    /// What is published now; an error while the index is first built.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Syncing> {
        let current = self.current.read().expect("no writer panics");
        current.clone().ok_or_else(|| Syncing { percent: self.progress.percent() })
    }

    /// Every publish from now on. A receiver that lags must treat every script as touched.
    pub fn updates(&self) -> broadcast::Receiver<Arc<Update>> {
        self.updates.subscribe()
    }

    /// Hash of the block at height 0.
    pub fn genesis_hash(&self) -> BlockHash {
        self.genesis
    }

    /// How far the first build is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The first build, to `tip` (`None`: to the block with most work that the source holds). Resumes what an
    /// earlier call began. To an index that is ready it does nothing but remove what a killed build left behind.
    ///
    /// # Errors
    /// What the source, the store or the file system refuse; [`Error::Cancelled`]. Calling it again resumes.
    pub fn build(&self, tip: Option<BlockHash>, options: &BuildOptions) -> Result<Option<BuildReport>> {
        if self.is_ready() {
            if options.temp_dir.is_dir() {
                remove_leftovers(&options.temp_dir, u32::MAX)?;
            }
            return Ok(None);
        }
        let mut writer = self.writer.lock().expect("no writer panics");
        // A build that failed earlier in this process may have finished generations.
        if let Some(bytes) = self.shared.store.mark()? {
            *writer = Manifest::decode(&bytes).map_err(Error::damaged_manifest)?;
        }
        let chain = self.shared.source.chain(tip)?;
        self.check_genesis(&chain)?;
        let build = Build {
            store: &*self.shared.store,
            source: &*self.shared.source,
            chain: &chain,
            options,
            progress: &self.progress,
        };
        let (manifest, report) = build.run(writer.clone())?;
        *writer = manifest;
        drop(writer);
        self.load()?;
        Ok(Some(report))
    }

    fn check_genesis(&self, chain: &[BlockMeta]) -> Result<()> {
        match chain.first() {
            Some(genesis) if genesis.hash == self.genesis => Ok(()),
            other => Err(Error::WrongChain {
                found: other.map_or_else(bitcoin::hashes::Hash::all_zeros, |genesis| genesis.hash),
                expected: self.genesis,
            }),
        }
    }
}

/// The live blocks, by the rows of `header` that start in a live range.
fn read_headers(store: &dyn Store, manifest: &Manifest) -> Result<Headers> {
    let mut headers = Headers::default();
    let limit = PageLimit { rows: 4096, bytes: 1 << 20 };
    for range in &manifest.live {
        let (start, end) = (header::key(range.start).to_vec(), header::key(range.end).to_vec());
        let mut next = Some(KeyRange { start, end, direction: Direction::Forward });
        while let Some(range) = next {
            let page = store.scan_many(header::TABLE, &[range], limit)?.pop().unwrap_or_default();
            for (key, value) in &page.rows {
                let row = header::decode(key, value).map_err(Error::malformed(header::TABLE))?;
                if !headers.accepts(&row.header) || row.height.0 != headers.len() {
                    return Err(Error::missing(header::TABLE, "rows of the live chain"));
                }
                headers.push(ChainBlock::of(&row));
            }
            next = page.rest;
        }
    }
    Ok(headers)
}
