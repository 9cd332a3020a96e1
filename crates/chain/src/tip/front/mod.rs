//! A front end: an index whose chain comes from the published states of another process, and whose mempool is the
//! mirror of a node of its own.
//!
//! Invariant: a snapshot reads one published state, whatever is published meanwhile. It writes nothing, and reads
//! blocks from the node alone. Txnums are never reused, so the blocks that two states share are those whose txnums are
//! live in both.
//!
//! So no hash is compared when a state is taken over, and only new rows of headers are read. The scripts that a new
//! state touches are found in its blocks.

mod filters;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use birdhouse_store::{MemoryStore, Replica, Store};
use bitcoin::{BlockHash, OutPoint};

pub(super) use self::filters::FrontFilters;
use self::filters::Touching;
use crate::error::{Error, Result};
use crate::merging::MergeOptions;
use crate::names::{Height, Touched, TouchedScripts, TxNum};
use crate::outside::{BlockId, BlockSource, Machine, Node, NodeUpdate};
use crate::state::{ChainBlock, Headers, Manifest, Snapshot, State, Storage};
use crate::tip::follow::{bring_back, wait_after};
use crate::tip::index::{Index, read_headers};
use crate::tip::ingest::{Advanced, NewBlock, move_mempool};
use crate::tip::mirror::Mirror;

/// The pause between two looks at the published state.
const LOOK: Duration = Duration::from_millis(100);
/// Stale and new blocks of one state that are read from the node, to tell what they touch. Beyond, every subscription
/// is checked.
const READ_BLOCKS_MAX: u32 = 64;

/// A published state of a finished index.
struct Published {
    store: Arc<dyn Store>,
    manifest: Manifest,
    tip: BlockId,
}

impl Published {
    /// The newest state; `None` while the index is first built.
    fn newest(replica: &dyn Replica) -> Result<Option<Self>> {
        let Some(store) = replica.newest()? else { return Ok(None) };
        let Some(bytes) = store.manifest()? else { return Ok(None) };
        let manifest = Manifest::decode(&bytes)?;
        let State::Ready(tip) = manifest.state else { return Ok(None) };
        Ok(Some(Self { store, manifest, tip }))
    }

    /// The headers of its chain, which begins with those that are known.
    fn headers(&self, known: Headers) -> Result<Headers> {
        read_headers(&*self.store, &self.manifest, self.tip, known)
    }
}

/// Returns true if two published manifests are of one index, perhaps at different times.
///
/// # Errors
/// [`Error::OtherFormat`] or [`Error::Damaged`] when one of them cannot be read.
pub fn is_same_index(left: &[u8], right: &[u8]) -> Result<bool> {
    Ok(Manifest::decode(left)?.is_of_same_index(&Manifest::decode(right)?))
}

/// The number of blocks, from the genesis block on, that are live in a manifest.
fn shared_blocks(headers: &Headers, manifest: &Manifest) -> u32 {
    let is_live = |block: &ChainBlock| manifest.live.iter().any(|range| range.contains(block.first_txnum));
    // Blocks below a live one are live too.
    let (mut shared, mut above) = (0, headers.len());
    while shared < above {
        let middle = shared + (above - shared) / 2;
        if headers.get(Height(middle)).is_some_and(is_live) {
            shared = middle + 1;
        } else {
            above = middle;
        }
    }
    shared
}

/// The stale and the new blocks between two states.
type Between = (Vec<NewBlock>, Vec<NewBlock>);

/// Returns each new block of a chain with its first txnum and its touches.
fn touching<'a>(new: &'a [NewBlock], headers: &Headers) -> Vec<Touching<'a>> {
    let first = |block: &NewBlock| headers.get(block.height).expect("it is of this chain").first_txnum;
    new.iter().map(|block| (first(block), &block.touches)).collect()
}

/// Returns what changes from `before` to a snapshot, with the blocks between them.
fn advanced(before: &Snapshot, mut snapshot: Snapshot, blocks: Option<Between>) -> Advanced {
    let mut touched = TouchedScripts::new();
    let Some((stale, new)) = blocks else {
        // The next listing brings the mempool back.
        return Advanced { snapshot, touched, touched_known: false };
    };
    snapshot.mempool = before.mempool.clone();
    touched.extend(stale.iter().chain(&new).flat_map(NewBlock::scripthashes));
    let stale_outputs: Vec<OutPoint> = stale.iter().flat_map(NewBlock::outpoints).collect();
    move_mempool(&mut snapshot.mempool, &stale_outputs, &new, &mut touched);
    Advanced { snapshot, touched, touched_known: true }
}

impl Index {
    /// Opens the index that another process writes, for reading. [`Self::follow_published`] keeps it at the newest
    /// published state.
    ///
    /// # Errors
    /// [`Error::NotReady`] while the other process first builds the index; [`Error::WrongChain`] when it is that of
    /// another chain.
    pub fn open_front(replica: &dyn Replica, source: Arc<dyn BlockSource>, genesis: BlockHash) -> Result<Self> {
        let published = Published::newest(replica)?.ok_or(Error::NotReady)?;
        let manifest = published.manifest.clone();
        if manifest.genesis != genesis {
            return Err(Error::WrongChain { found: manifest.genesis, expected: genesis });
        }
        // An empty store: whoever keeps a published state for ever keeps all of its tables.
        let storage = Storage::open(Arc::new(MemoryStore::new()), source, manifest.profile, Arc::default())?;
        let index = Self::unloaded(Arc::new(Machine::new()), manifest, storage, MergeOptions::default());
        let headers = published.headers(Headers::default())?;
        index.install(index.snapshot_at(&published, headers, TxNum(0), None)?, Touched::Any);
        Ok(index)
    }

    /// Follows the published states, and the node's mempool, until `stop`. Serves the last state after every failure,
    /// and tries again.
    ///
    /// # Errors
    /// [`Error::Replaced`] when the other process has begun another index: this one must be opened anew.
    pub fn follow_published(&self, replica: &dyn Replica, node: &dyn Node, stop: &AtomicBool) -> Result<()> {
        let mut listed_at = None;
        self.in_rounds(stop, |update| {
            self.front_round(replica, node, update, &mut listed_at)?;
            self.following.go_on();
            self.wait_as_front(node, stop)
        })
    }

    /// Brings chain and mempool up to date once. Returns true if anything changed.
    ///
    /// # Errors
    /// Failures of the store or the node.
    pub fn sync_published(&self, replica: &dyn Replica, node: &dyn Node) -> Result<bool> {
        self.front_round(replica, node, &NodeUpdate::Unknown, &mut None)
    }

    fn front_round(
        &self,
        replica: &dyn Replica,
        node: &dyn Node,
        update: &NodeUpdate,
        listed_at: &mut Option<Duration>,
    ) -> Result<bool> {
        let mut mirror = self.mirror.lock();
        let moved = self.adopt_published(replica, node, &mut mirror)?;
        let at = self.snapshot().map_err(|_| Error::NotReady)?;
        let mut touched = TouchedScripts::new();
        let applied = match update {
            // Changes of a mempool on another tip.
            NodeUpdate::Changes { .. } if moved => None,
            NodeUpdate::Changes { mempool, .. } => mirror.apply(node, &at, mempool, &mut touched)?,
            NodeUpdate::Unknown if !moved && !mirror.is_filling() && !self.is_listing_due(&mut mirror, *listed_at) => {
                return Ok(false);
            }
            NodeUpdate::Unknown => None,
        };
        let mempool = match applied {
            None => mirror.poll(node, &at, &mut touched)?.inspect(|_| *listed_at = Some(self.shared.runtime.now())),
            applied => applied,
        };
        Ok(mempool.is_some_and(|mempool| self.install_mempool(&at, mempool, touched)) || moved)
    }

    fn is_listing_due(&self, mirror: &mut Mirror, listed_at: Option<Duration>) -> bool {
        let pause = wait_after(mirror.listing_cost());
        listed_at.is_none_or(|at| self.shared.runtime.now().saturating_sub(at) >= pause)
    }

    fn wait_as_front(&self, node: &dyn Node, stop: &AtomicBool) -> Result<NodeUpdate> {
        let tip = self.snapshot().map_err(|_| Error::NotReady)?.tip();
        if node.best_block()?.hash == tip.hash {
            return Ok(node.wait_for_update(tip.hash, LOOK)?);
        }
        // The writer has not indexed the node's tip yet, or the node lacks the writer's.
        self.shared.runtime.sleep(LOOK, stop);
        Ok(NodeUpdate::Unknown)
    }

    /// Installs the newest published state if it is another one than that of the current snapshot.
    fn adopt_published(&self, replica: &dyn Replica, node: &dyn Node, mirror: &mut Mirror) -> Result<bool> {
        let before = self.snapshot().map_err(|_| Error::NotReady)?;
        let Some(published) = Published::newest(replica)? else { return Ok(false) };
        if Arc::ptr_eq(&published.store, &before.storage.store) {
            return Ok(false);
        }
        if !published.manifest.is_of_same_index(&self.writer.lock()) {
            return Err(Error::Replaced);
        }
        let kept = shared_blocks(&before.headers, &published.manifest);
        let mut known = Headers::clone(&before.headers);
        known.truncate(kept);
        let kept_end = known.end_txnum();
        let headers = published.headers(known)?;
        let blocks = self.blocks_between(&before.headers, kept, &headers);
        let new = blocks.as_ref().map(|(_, new)| &new[..]);
        let snapshot = self.snapshot_at(&published, headers, kept_end, new)?;
        let mut advanced = advanced(&before, snapshot, blocks);
        if kept < before.headers.len() || !advanced.touched_known {
            mirror.list_next();
            bring_back(node, mirror, &mut advanced);
        }
        self.advance_derived(&before, &advanced.snapshot);
        let touched = self.install_advanced(advanced);
        self.announce(touched);
        *self.writer.lock() = published.manifest;
        Ok(true)
    }

    /// Returns the snapshot of a state that keeps the blocks below `kept_end` of the one before it, and has `new`
    /// blocks after these; `None` if they could not be read.
    fn snapshot_at(
        &self,
        published: &Published,
        headers: Headers,
        kept_end: TxNum,
        new: Option<&[NewBlock]>,
    ) -> Result<Snapshot> {
        let source = Arc::clone(&self.shared.storage.source);
        let storage = Storage::open(
            Arc::clone(&published.store),
            source,
            published.manifest.profile,
            Arc::clone(&self.shared.storage.damage),
        )?;
        let manifest = &published.manifest;
        // Of a block with a sibling, the node may have the sibling's undo data, and so name other scripts.
        let new = new.filter(|new| new.iter().all(|block| !block.has_sibling)).map(|new| touching(new, &headers));
        let mut filters = self.front_filters.lock();
        filters.follow(manifest, kept_end, new.as_deref(), &self.shared.keyer, self.merging.delta_txs);
        filters.begin(manifest, self.merging.delta_txs);
        let tables = Arc::new(filters.tables(manifest));
        let snapshot = Snapshot { storage: Arc::new(storage), tables, ..self.snapshot_of(manifest, headers) };
        filters.scan(&snapshot);
        Ok(snapshot)
    }

    /// Reads the stale and the new blocks; `None` if they are too many, or if the node lacks one.
    fn blocks_between(&self, before: &Headers, kept: u32, after: &Headers) -> Option<Between> {
        if (before.len() - kept) + (after.len() - kept) > READ_BLOCKS_MAX {
            return None;
        }
        let read = |headers: &Headers| -> Result<Vec<NewBlock>> {
            let heights = (kept..headers.len()).map(Height);
            heights
                .map(|height| {
                    let hash = headers.get(height).expect("below the length").block_hash();
                    NewBlock::of(self.shared.storage.source.block(hash)?, height)
                })
                .collect()
        };
        let blocks = read(before).and_then(|stale| Ok((stale, read(after)?)));
        let failed = |error: &Error| tracing::warn!(%error, "failed to read a block; checking every subscription");
        blocks.inspect_err(failed).ok()
    }
}
