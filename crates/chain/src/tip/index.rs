//! The index: open it, build it, and take snapshots and updates of it. `follow` has the writer's loop at the tip.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use birdhouse_store::{Direction, KeyRange, PageLimit, Store};
use bitcoin::BlockHash;
use parking_lot::{Mutex, RwLock};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::build::{Build, BuildOptions, BuildReport, Progress, remove_leftovers};
use crate::derived::DerivedIndex;
use crate::error::{Error, Result};
use crate::merging::{MergeOptions, Merger, filters_of_delta, filters_of_pack};
use crate::names::{Height, Keyer, Profile, Secret, Touched};
use crate::outside::source::BlockPart;
use crate::outside::{BlockId, BlockMeta, BlockSource, Machine, Node, Runtime, Waiting};
use crate::rows::{header, stale, txid};
use crate::state::{
    ChainBlock, EarlyHeaders, Headers, HeightIndex, Manifest, Mempool, Merging, RecentTxids, Shared, Slot, Slots,
    Snapshot, State, StatusCache, Storage, Tables, TxidCache,
};
use crate::tip::bulk_read::BulkRead;
use crate::tip::following::Following;
use crate::tip::front::FrontFilters;
use crate::tip::mirror::Mirror;
use crate::tip::spool_state::SpoolState;
use crate::work::WorkBudget;

/// The error of a request for a snapshot while the index is first built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct Syncing {
    /// Progress of the build, 0 to 99.
    pub percent: u8,
    /// Estimated time to its end, once it can be estimated.
    pub left: Option<Duration>,
}

impl std::fmt::Display for Syncing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "indexing, {} %", self.percent)?;
        match self.left.map(|left| left.as_secs()) {
            None => Ok(()),
            Some(seconds @ 0..60) => write!(formatter, ", {} s left", seconds.max(1)),
            Some(seconds @ 60..7200) => write!(formatter, ", {} min left", seconds / 60),
            Some(seconds) => write!(formatter, ", {} h left", seconds / 3600),
        }
    }
}

/// A change of the tip, of the mempool, or of both.
#[derive(Debug)]
pub struct Update {
    /// The snapshot installed by the change.
    pub snapshot: Arc<Snapshot>,
    /// The scripts that the change touched.
    pub touched: Touched,
}

/// Blocks behind the newest header above which answers are of an old chain: a week.
const OLD_BLOCKS: u32 = 1000;

/// Updates that a slow receiver may lag behind. Beyond that it must treat every script as touched.
const UPDATES_HELD: usize = 64;

/// The index of one chain in one store. There is one writer; readers hold snapshots.
///
/// # Locks
/// A thread that holds one of these locks takes only those after it: `mirror`, `merger`, `writer`, then one of
/// `front_filters`, `spooling`, `ahead`, `recent_txids`, then `slots`, then `current`, then those of the caches in
/// `shared`. `mirror`, `merger` and `writer` are held over reads of the node and writes of the store, the others for
/// single values. A reader takes `current` alone.
#[derive(Debug)]
pub struct Index {
    pub(crate) shared: Arc<Shared>,
    genesis: BlockHash,
    /// The last published manifest, held by the writer. A panic meanwhile leaves it as published.
    pub(super) writer: Mutex<Manifest>,
    current: RwLock<Option<Arc<Snapshot>>>,
    /// The version of the last snapshot that was installed, set under the lock of `current`.
    last_version: AtomicU64,
    updates: broadcast::Sender<Arc<Update>>,
    progress: Progress,
    /// The chain of a build under way.
    early: RwLock<Option<Arc<Vec<BlockMeta>>>>,
    /// Held while the node is followed.
    pub(super) mirror: Mutex<Mirror>,
    pub(super) following: Following,
    pub(super) slots: Mutex<Slots>,
    pub(super) merging: MergeOptions,
    pub(super) merger: Mutex<Merger>,
    /// The bounds of the last build, and what came of appending within them.
    pub(super) spooling: Mutex<SpoolState>,
    /// Blocks that were read while those before them were written.
    pub(super) ahead: Mutex<Option<BulkRead>>,
    /// Most of what new blocks spend.
    pub(super) recent_txids: Mutex<RecentTxids>,
    /// Filters of what another process writes, in a front end.
    pub(super) front_filters: Mutex<FrontFilters>,
    /// Those that are kept beside this one, once they are set.
    pub(super) derived: OnceLock<Vec<Arc<DerivedIndex>>>,
    /// Set while the log says that the disk has no room for a merge of the oldest pack.
    pub(super) is_disk_scarce: AtomicBool,
}

impl Index {
    /// Default of [`Self::set_reorg_depth_max`]: a week of blocks. The deepest reorg of mainnet took back 53.
    pub const REORG_DEPTH_MAX: u32 = 1000;

    /// Opens the index in `store`, or creates one. A new one derives the keys of its rows from `secret`.
    ///
    /// # Errors
    /// [`Error::WrongChain`], [`Error::WrongProfile`] or [`Error::OtherFormat`] when the store holds an index of
    /// another chain, profile or release; [`Error::Damaged`] when its manifest or headers are damaged.
    pub fn open(
        store: Arc<dyn Store>,
        source: Arc<dyn BlockSource>,
        genesis: BlockHash,
        profile: Profile,
        secret: Secret,
    ) -> Result<Self> {
        Self::open_with(store, source, genesis, profile, secret, MergeOptions::default())
    }

    /// [`Self::open`] with other bounds of the merges at the tip.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_with(
        store: Arc<dyn Store>,
        source: Arc<dyn BlockSource>,
        genesis: BlockHash,
        profile: Profile,
        secret: Secret,
        merging: MergeOptions,
    ) -> Result<Self> {
        Self::open_on(Arc::new(Machine::new()), store, source, genesis, profile, secret, merging)
    }

    /// [`Self::open_with`] on another clock and other threads than those of this machine.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_on(
        runtime: Arc<dyn Runtime>,
        store: Arc<dyn Store>,
        source: Arc<dyn BlockSource>,
        genesis: BlockHash,
        profile: Profile,
        secret: Secret,
        merging: MergeOptions,
    ) -> Result<Self> {
        let manifest = match store.manifest()? {
            None => Manifest::new(profile, secret, genesis),
            Some(bytes) => Manifest::decode(&bytes)?,
        };
        if manifest.genesis != genesis {
            return Err(Error::WrongChain { found: manifest.genesis, expected: genesis });
        }
        if manifest.profile != profile {
            return Err(Error::WrongProfile { found: manifest.profile, expected: profile });
        }
        let index = Self::unloaded(runtime, manifest, Storage::open(store, source, profile, Arc::default())?, merging);
        index.load()?;
        Ok(index)
    }

    /// Returns an index that has no snapshot yet.
    pub(super) fn unloaded(
        runtime: Arc<dyn Runtime>,
        manifest: Manifest,
        storage: Storage,
        merging: MergeOptions,
    ) -> Self {
        let shared = Shared {
            runtime,
            storage: Arc::new(storage),
            node_of_clients: OnceLock::new(),
            keyer: Keyer::new(manifest.secret, manifest.key_length),
            status_cache: StatusCache::default(),
            txid_cache: TxidCache::default(),
            overwritten: OnceLock::new(),
            overwritten_scripts: Mutex::default(),
            genesis_output: OnceLock::new(),
            heights: HeightIndex::default(),
            has_tweaks: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
            genesis: manifest.genesis,
            writer: Mutex::new(manifest),
            current: RwLock::new(None),
            last_version: AtomicU64::new(0),
            updates: broadcast::Sender::new(UPDATES_HELD),
            progress: Progress::default(),
            early: RwLock::default(),
            mirror: Mutex::default(),
            following: Following::new(Self::REORG_DEPTH_MAX),
            slots: Mutex::default(),
            merging,
            merger: Mutex::default(),
            spooling: Mutex::default(),
            ahead: Mutex::default(),
            recent_txids: Mutex::default(),
            front_filters: Mutex::default(),
            derived: OnceLock::new(),
            is_disk_scarce: AtomicBool::new(false),
        }
    }

    /// Reads the headers of a finished index and installs its first snapshot.
    fn load(&self) -> Result<()> {
        let manifest = self.writer.lock().clone();
        let State::Ready(tip) = manifest.state else { return Ok(()) };
        if let Some(txids) = &self.shared.storage.txids {
            // The next block would fill a shorter array with zeros, and answers would have zeros as txids.
            let (found, needed) = (txids.len(), manifest.live.last().map_or(0, |range| range.end.0));
            if found < needed {
                return Err(Error::truncated_array(txid::ARRAY, found, needed));
            }
            txids.truncate(manifest.next.0.min(found))?;
        }
        self.clear_unread(&manifest)?;
        let headers = read_headers(&*self.shared.storage.store, &manifest, tip, Headers::default())?;
        self.read_filters(&manifest, &headers)?;
        // Requests before this one were refused as `Syncing`, so every script counts as touched.
        self.install(self.snapshot_of(&manifest, headers), Touched::Any);
        Ok(())
    }

    /// Reads the keys of young packs and of deltas into filters.
    fn read_filters(&self, manifest: &Manifest, headers: &Headers) -> Result<()> {
        let mut unfiltered = self.snapshot_of(manifest, headers.clone());
        unfiltered.tables = Arc::new(Tables::unfiltered(manifest));
        for pack in &manifest.packs {
            if let Some(filters) = filters_of_pack(&unfiltered, pack, manifest.txs_of_pack(pack))? {
                self.slots.lock().set_filters(Slot::Pack(pack.slot), Arc::new(filters));
            }
        }
        for delta in &manifest.deltas {
            let filters = filters_of_delta(&unfiltered, delta, manifest.txs_of_delta(delta, self.merging.delta_txs))?;
            self.slots.lock().set_filters(Slot::Delta(delta.slot), Arc::new(filters));
        }
        Ok(())
    }

    /// Empties the slots that neither the manifest names nor a snapshot reads: a process ended before it could.
    fn clear_unread(&self, manifest: &Manifest) -> Result<()> {
        let store = &self.shared.storage.store;
        let empty = self.slots.lock().take_empty(manifest).into_iter().flat_map(Slot::tables);
        for table in empty.chain(manifest.stale.is_empty().then_some(stale::TABLE)) {
            let any = KeyRange::prefix(&[], Direction::Forward);
            let first = store.scan_many(table, &[any], PageLimit { rows: 1, bytes: 1 })?;
            if first.iter().any(|page| !page.rows.is_empty()) {
                store.clear(table)?;
            }
        }
        Ok(())
    }

    pub(super) fn snapshot_of(&self, manifest: &Manifest, headers: Headers) -> Snapshot {
        Snapshot {
            shared: Arc::clone(&self.shared),
            storage: Arc::clone(&self.shared.storage),
            headers: Arc::new(headers),
            tables: self.slots.lock().tables(manifest),
            stale: manifest.stale.clone(),
            mempool: Mempool::default(),
            version: 0,
            budget: WorkBudget::Paced,
            genesis: None,
        }
    }

    /// Makes a snapshot the current one, a published manifest or another mempool, and announces it.
    pub(super) fn install(&self, snapshot: Snapshot, touched: Touched) {
        self.replace(snapshot, &touched);
        self.announce(touched);
    }

    /// Makes a snapshot the current one without an update.
    pub(super) fn replace(&self, mut snapshot: Snapshot, touched: &Touched) {
        self.shared.heights.cover(&snapshot.headers);
        let mut current = self.current.write();
        snapshot.version = self.last_version.fetch_add(1, Ordering::Relaxed) + 1;
        self.shared.status_cache.advance(snapshot.version, touched);
        *current = Some(Arc::new(snapshot));
    }

    /// Sends an update with the current snapshot.
    pub(super) fn announce(&self, touched: Touched) {
        let Ok(snapshot) = self.snapshot() else { return };
        // An error means that there is no receiver.
        let _ = self.updates.send(Arc::new(Update { snapshot, touched }));
    }

    /// True once the first build has finished. Early rows of a build may answer before.
    pub fn is_ready(&self) -> bool {
        self.early.read().is_none() && self.current.read().is_some()
    }

    /// Returns the current snapshot of an index that is built.
    ///
    /// # Errors
    /// [`Error::NotReady`] while the index is first built.
    pub(super) fn built(&self) -> Result<Arc<Snapshot>> {
        if !self.is_ready() {
            return Err(Error::NotReady);
        }
        self.snapshot().map_err(|_| Error::NotReady)
    }

    /// Returns the height of the chain that the first build indexes, while its early rows answer.
    fn answers_early(&self) -> Option<Height> {
        let chain_tip = self.early_headers()?.tip().height;
        self.current.read().is_some().then_some(chain_tip)
    }

    /// Returns the current snapshot: of the first blocks while early rows of the first build answer.
    ///
    /// # Errors
    /// [`Syncing`] before that.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Syncing> {
        self.current.read().clone().ok_or_else(|| self.syncing())
    }

    /// The progress of the first build.
    fn syncing(&self) -> Syncing {
        Syncing { percent: self.progress.percent(), left: self.progress.left() }
    }

    /// Returns the number of packs and deltas of the current snapshot whose keys are in filters in memory, so that a
    /// lookup need not ask them.
    pub fn filter_count(&self) -> usize {
        self.current.read().as_ref().map_or(0, |snapshot| snapshot.tables.filtered())
    }

    /// Returns the headers of the chain that the first build indexes; `None` before and after it.
    pub fn early_headers(&self) -> Option<EarlyHeaders> {
        self.early.read().as_ref().and_then(EarlyHeaders::of)
    }

    /// Receives every update from now on. A receiver that lags must treat every script as touched, and what it then
    /// receives may be older than the current snapshot; [`Index::next_update`] does both.
    pub fn updates(&self) -> broadcast::Receiver<Arc<Update>> {
        self.updates.subscribe()
    }

    /// Waits for the next update; `None` once the index has ended. Where a slow receiver has missed some, one stands
    /// for these and all until now: it touches every script, and none that comes after it is older.
    pub async fn next_update(&self, updates: &mut broadcast::Receiver<Arc<Update>>) -> Option<Arc<Update>> {
        loop {
            match updates.recv().await {
                Ok(update) => return Some(update),
                Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(_)) => {
                    // In this order: what happens in between comes again.
                    *updates = updates.resubscribe();
                    if let Ok(snapshot) = self.snapshot() {
                        return Some(Arc::new(Update { snapshot, touched: Touched::Any }));
                    }
                }
            }
        }
    }

    /// Returns the reason why the tip of the index is not the newest: why it stays although the node has another one,
    /// that the node itself downloads the chain, that the first build has not reached it, or, where the node is
    /// watched and there is no other reason, that it is silent.
    pub fn waiting(&self) -> Option<Waiting> {
        let waiting = self.following.waiting().or_else(|| self.following.download());
        let waiting = waiting.or_else(|| {
            let chain = self.answers_early()?;
            Some(Waiting::Building { ours: self.snapshot().ok()?.tip().height, chain })
        });
        // Last, so that it hides no reason that says more.
        waiting.or_else(|| self.following.is_node_silent(self.shared.runtime.now()).then_some(Waiting::NodeSilent))
    }

    /// Notes that the node is watched from now on: asked for its tip about once a second. The follower itself waits
    /// for minutes in a call to a node that hangs.
    pub fn begin_node_watch(&self) {
        self.following.begin_node_watch(self.shared.runtime.now());
    }

    /// Notes an answer of the node that is watched.
    pub fn note_node_answer(&self) {
        self.following.note_node_answer(self.shared.runtime.now());
    }

    /// Returns the progress of an index whose answers are of an old chain: its early rows answer while it is first
    /// built, or it is more than 1000 blocks behind the newest header of a node that downloads the chain.
    pub fn downloading(&self) -> Option<Syncing> {
        if self.answers_early().is_some() {
            return Some(self.syncing());
        }
        let Some(Waiting::NodeDownloads { best_header, .. }) = self.following.download() else { return None };
        let ours = self.snapshot().ok()?.tip().height.0;
        let percent = u64::from(ours) * 100 / u64::from(best_header.0.max(1));
        let percent = u8::try_from(percent.min(99)).expect("at most 99");
        (best_header.0.saturating_sub(ours) > OLD_BLOCKS).then_some(Syncing { percent, left: None })
    }

    /// Brings back a part of a block that the node has removed, from one of its peers. Blocks its caller, for
    /// milliseconds to some tens of seconds.
    ///
    /// # Errors
    /// No peer sent it, or the source has no such way.
    pub fn fetch_removed(&self, part: BlockPart) -> Result<()> {
        Ok(self.shared.storage.source.fetch_removed(part)?)
    }

    /// Reports that the first build waits, for [`Self::waiting`] and the log.
    pub fn set_waiting(&self, reason: Waiting) {
        self.following.wait(reason);
    }

    /// Closes files that the node has deleted, so that their space on disk is free.
    pub fn close_deleted_blocks(&self) {
        self.shared.storage.source.close_deleted();
    }

    /// Reports that the first build goes on.
    pub fn clear_waiting(&self) {
        self.following.go_on();
    }

    /// Declares blocks whose coinbase a later one with the same txid overwrote (BIP 30), before the first
    /// question to a snapshot. Those of mainnet are known.
    pub fn set_overwritten_coinbases(&self, blocks: Vec<(Height, BlockHash)>) {
        // The first call counts.
        let _ = self.shared.overwritten.set(blocks);
    }

    /// Returns the first damage of the index that the read of an answer has met, with its remedy. It stays until the
    /// index is opened again.
    pub fn damage(&self) -> Option<&str> {
        self.shared.storage.damage.first()
    }

    /// Sets the folder of the index, which messages name.
    pub fn set_folder(&self, folder: &Path) {
        self.shared.storage.damage.set_folder(folder);
    }

    /// Sets the node that is asked for spenders of outputs, on behalf of clients. The first one counts.
    pub fn set_node_of_clients(&self, node: Arc<dyn Node>) {
        drop(self.shared.node_of_clients.set(node));
    }

    /// Sets the greatest number of blocks that a reorg may take back without the operator's approval.
    pub fn set_reorg_depth_max(&self, blocks: u32) {
        self.following.set_depth_max(blocks);
    }

    /// Looks at the node once in this time, at the latest, instead of waiting for its announcements. [`Self::sync`]
    /// looks at once.
    pub fn set_look_interval(&self, interval: Duration) {
        self.following.set_look_interval(interval);
    }

    /// Follows the node's chain through the reorg that [`Waiting::DeepReorg`] describes. Returns it; `None` if there is
    /// none.
    pub fn accept_reorg(&self) -> Option<Waiting> {
        self.following.accept()
    }

    /// Returns the profile with which the index was built.
    pub fn profile(&self) -> Profile {
        self.writer.lock().profile
    }

    /// Returns the hash of the block at height 0.
    pub fn genesis_hash(&self) -> BlockHash {
        self.genesis
    }

    /// Returns the progress of the first build.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Builds the index up to `tip`; `None` chooses the block with most work that the source holds. Resumes a build
    /// that an earlier call began. Of an index that is ready it only removes the files that a killed build left behind,
    /// and returns `None`.
    ///
    /// # Errors
    /// Failures of the source, the store or the file system; [`Error::Cancelled`]. Another call resumes the build.
    pub fn build(&self, tip: Option<BlockHash>, options: &BuildOptions) -> Result<Option<BuildReport>> {
        self.spooling.lock().options = Some(options.clone());
        if self.is_ready() {
            if options.temp_dir.is_dir() {
                remove_leftovers(&options.temp_dir, u32::MAX)?;
            }
            return Ok(None);
        }
        let mut writer = self.writer.lock();
        // A build that failed earlier in this process may have published generations.
        if let Some(bytes) = self.shared.storage.store.manifest()? {
            *writer = Manifest::decode(&bytes)?;
        }
        let chain = Arc::new(self.chain_to_build(&writer, tip)?);
        self.check_genesis(&chain)?;
        *self.early.write() = Some(Arc::clone(&chain));
        let answer = |manifest: &Manifest| self.answer_early(manifest);
        let build = Build {
            store: &*self.shared.storage.store,
            source: &*self.shared.storage.source,
            chain: &chain,
            options,
            tip_blocks: self.merging.tip_blocks,
            progress: &self.progress,
            derived: self.derived(),
            slots: &self.slots,
            answer: &answer,
        };
        let (manifest, report) = build.run(writer.clone())?;
        *writer = manifest;
        drop(writer);
        self.load()?;
        *self.early.write() = None;
        // The last early rows, unless a reader still has them.
        self.empty_unread()?;
        Ok(Some(report))
    }

    /// Installs a snapshot of the early rows that a manifest names; none if it names none.
    fn answer_early(&self, manifest: &Manifest) -> Result<()> {
        let Some(early) = manifest.answering() else {
            *self.current.write() = None;
            return Ok(());
        };
        let State::Ready(tip) = early.state else { return Ok(()) };
        let headers = read_headers(&*self.shared.storage.store, &early, tip, Headers::default())?;
        // Readers of blocks before these ones saw less, so every script counts as touched.
        self.install(self.snapshot_of(&early, headers), Touched::Any);
        Ok(())
    }

    /// The chain to `tip`; where an earlier call has read all blocks, the chain that it read, if the source still has
    /// it. Other blocks are followed after the build.
    fn chain_to_build(&self, manifest: &Manifest, tip: Option<BlockHash>) -> Result<Vec<BlockMeta>> {
        let source = &self.shared.storage.source;
        let mut chain = source.chain(tip)?;
        let State::Merging(Merging { tip: read, .. }) = manifest.state else { return Ok(chain) };
        let height = read.height.0 as usize;
        if chain.get(height).is_none_or(|block| block.hash != read.hash) {
            chain = source.chain(Some(read.hash)).unwrap_or(chain);
        }
        chain.truncate(height + 1);
        Ok(chain)
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

/// Reads the live blocks up to `tip` that follow those of `headers`: the rows of `header` that start in a live range.
pub(super) fn read_headers(
    store: &dyn Store,
    manifest: &Manifest,
    tip: BlockId,
    mut headers: Headers,
) -> Result<Headers> {
    let incomplete = || Error::missing(header::TABLE, "rows of the live chain");
    let limit = PageLimit { rows: 4096, bytes: 1 << 20 };
    let known = headers.end_txnum();
    for range in manifest.live.iter().filter(|range| range.end > known) {
        let (start, end) = (header::key(range.start.max(known)).to_vec(), header::key(range.end).to_vec());
        let mut next = Some(KeyRange { start, end, direction: Direction::Forward });
        while let Some(range) = next {
            let page = store.scan_many(header::TABLE, &[range], limit)?.pop().unwrap_or_default();
            for (key, value) in &page.rows {
                let row = header::decode(key, value).map_err(Error::malformed(header::TABLE))?;
                if !headers.accepts(&row.header) || row.height.0 != headers.len() {
                    return Err(incomplete());
                }
                headers.push(ChainBlock::of(&row));
            }
            next = page.rest;
        }
    }
    if headers.tip() == Some(tip) && headers.is_chained() { Ok(headers) } else { Err(incomplete()) }
}
