//! Everything that runs once there is a watch or a channel, and one update of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use birdhouse_chain::source::BlockPart;
use birdhouse_chain::{Index, ScriptHash, Snapshot, Touched, Tweaks, Update};
use bitcoin::Network;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, broadcast, watch};

use super::scripts::{Scripts, branches_of};
use crate::api::{Following, Origin};
use crate::channel::Clock;
use crate::engine::{Engine, WatchView};
use crate::error::Result;
use crate::file::{ChannelName, WatchFile, WatchName};
use crate::limits::API_STREAM_LAG_MAX;
use crate::notice::{Health, Notice, NoticeKind};
use crate::outbox::{ChannelStatus, Outbox};
use crate::state::{Routed, State};
use crate::wallet::Position;

/// Watch of notices of the server itself.
pub(super) const SERVER: &str = "birdhouse";

pub(super) struct Running {
    pub(super) state: State,
    pub(super) engine: Mutex<Engine>,
    pub(super) file: RwLock<WatchFile>,
    pub(super) index: Arc<Index>,
    pub(super) network: Network,
    /// Wakes the task after a change of the file.
    pub(super) changed: Notify,
    /// Wakes the task once blocks that the node had removed are fetched.
    pub(super) fetched: Notify,
    /// True while blocks are fetched.
    pub(super) is_fetching: AtomicBool,
    /// Position of the last notice.
    pub(super) last: watch::Sender<u64>,
    /// The reason why nothing is announced now.
    pub(super) waiting: Mutex<Option<String>>,
    pub(super) views: Mutex<Vec<WatchView>>,
    /// The watched scripts; `None` until they are read for the first time.
    pub(super) scripts: RwLock<Option<Arc<Scripts>>>,
    /// Everything that readers follow. Held while `scripts` changes, so that nobody begins in between.
    pub(super) followed: Mutex<Followed>,
    /// The outboxes of the file's channels.
    pub(super) outbox: Mutex<Option<Arc<Outbox>>>,
}

/// The chain as the engine has followed it.
pub(super) struct Followed {
    /// The last snapshot; `None` while nothing is announced.
    pub(super) at: Option<Arc<Snapshot>>,
    /// Scripts that were found, in this order.
    pub(super) found: Vec<ScriptHash>,
    /// Updates, each after its scripts are known.
    pub(super) updates: broadcast::Sender<Arc<Update>>,
}

/// Work that an update has left.
#[derive(Default)]
pub(super) struct Left {
    /// Parts of blocks that the node has removed.
    pub(super) wanted: Vec<BlockPart>,
    /// True if the next update goes on to scan.
    pub(super) is_scanning: bool,
    /// Time until a watch that failed is tried again.
    pub(super) retry_in: Option<Duration>,
}

/// The next thing to do.
pub(super) enum Next {
    Tell(Arc<Update>),
    /// Only what time changes, and what a scan or a fetched block brings.
    Tick,
}

impl Running {
    /// Takes up the watches of a file where their state ends, before the first update.
    pub(super) fn new(state: State, file: WatchFile, index: Arc<Index>, network: Network) -> Result<Self> {
        let tweaks = Tweaks::among(index.derived());
        Ok(Self {
            engine: Mutex::new(Engine::new(state.clone(), file.clone(), network, tweaks)),
            file: RwLock::new(file),
            index,
            network,
            changed: Notify::new(),
            fetched: Notify::new(),
            is_fetching: AtomicBool::new(false),
            last: watch::Sender::new(state.next_seq()?.saturating_sub(1)),
            waiting: Mutex::default(),
            views: Mutex::default(),
            scripts: RwLock::default(),
            followed: Mutex::new(Followed {
                at: None,
                found: Vec::new(),
                updates: broadcast::Sender::new(API_STREAM_LAG_MAX),
            }),
            outbox: Mutex::default(),
            state,
        })
    }

    pub(super) fn set_file(&self, file: WatchFile) {
        if *self.file.read() == file {
            return;
        }
        // In this order: what is announced meanwhile is of the old file, and shown as such.
        let mut engine = self.engine.lock();
        engine.set_file(file.clone());
        *self.file.write() = file;
        drop(engine);
        self.changed.notify_one();
    }

    /// Appends a notice of the server's own state, and keeps what it is about until its end.
    pub(super) fn append(&self, about: &str, health: &Health, channels: Vec<ChannelName>) -> Result<()> {
        let notice = Notice::apart(WatchName::new(SERVER), NoticeKind::Health(health.clone()), now());
        let mut routed = Routed { notice, channels };
        self.state.commit_warning(&mut routed, about, health)?;
        self.announce(routed.notice.seq);
        Ok(())
    }

    /// Returns the states of the channels. One that cannot be read is shown by the reason.
    pub(super) fn channels(&self) -> Vec<ChannelStatus> {
        let Some(outbox) = self.outbox.lock().clone() else { return Vec::new() };
        outbox.status().unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to read the states of the channels");
            Vec::new()
        })
    }

    /// Makes a position known; one that is committed later may come first.
    pub(super) fn announce(&self, seq: u64) {
        self.last.send_if_modified(|last| {
            let is_later = seq > *last;
            *last = seq.max(*last);
            is_later
        });
        if let Some(outbox) = &*self.outbox.lock() {
            outbox.wake();
        }
    }

    /// Shows the watched scripts, if there are others than before.
    fn publish_scripts(&self, engine: &Engine, views: &[WatchView]) {
        let file = self.file.read().clone();
        let known = self.scripts.read().clone();
        let count: usize = views.iter().map(|view| view.scripts).sum();
        let is_same = |known: &Arc<Scripts>| known.file == file && known.watched == count;
        if known.as_ref().is_some_and(is_same) {
            return;
        }
        let Some(scripts) = engine.scripts() else { return };
        let origin = |(script, watch, Position { branch, index }): (ScriptHash, &WatchName, Position)| {
            (script, Origin { watch: watch.clone(), branch, index })
        };
        let origins = scripts.map(origin).collect();
        let branches = file.watches.iter().flat_map(|settings| branches_of(settings, self.network)).collect();
        *self.scripts.write() = Some(Arc::new(Scripts { origins, watched: count, branches, file }));
    }

    /// Begins to follow the chain as the watches know it, or the index while they announce nothing.
    pub(super) fn begin_to_follow(&self, of_index: impl FnOnce() -> Option<Following>) -> Option<Following> {
        let followed = self.followed.lock();
        if let Some(following) = followed.begin() {
            return Some(following);
        }
        let found = followed.found.len();
        // The engine takes the lock after each update, and the index may be busy.
        drop(followed);
        let of_index = of_index();
        // Scripts that were found meanwhile count as found later.
        self.followed.lock().begin().or_else(|| Some(Following { found, ..of_index? }))
    }

    /// Returns the update of a tick: the snapshot of the last one, and no script. The index may have installed blocks
    /// and transactions that are announced later, and only the announcement says which scripts they touched: a newer
    /// snapshot without these would count as read.
    fn again(&self) -> Option<Arc<Update>> {
        let last = self.followed.lock().at.clone();
        let newest = self.index.snapshot().ok();
        let update = match last {
            Some(last) => {
                let snapshot = newest.filter(|newest| is_same_state(&last, newest)).unwrap_or(last);
                Update { snapshot, touched: Touched::Scripts(Vec::new()) }
            }
            None => Update { snapshot: newest?, touched: Touched::Any },
        };
        Some(Arc::new(update))
    }

    /// True if the index has another tip than the last update.
    pub(super) fn is_behind(&self) -> bool {
        let last = self.followed.lock().at.as_ref().map(|last| last.tip());
        last != self.index.snapshot().ok().map(|newest| newest.tip())
    }

    pub(super) fn tell(&self, next: &Next) -> Result<Left> {
        let mut engine = self.engine.lock();
        let update = match next {
            Next::Tell(update) => Some(Arc::clone(update)),
            Next::Tick => self.again(),
        };
        let Some(update) = update else { return Ok(Left::default()) };
        let now = now();
        let announced = engine.update(&update, now);
        let (views, found) = (engine.watches(), engine.take_found());
        let mut followed = self.followed.lock();
        self.publish_scripts(&engine, &views);
        followed.found.extend(found);
        followed.at = Some(Arc::clone(&update.snapshot));
        // Nobody may listen. Streams go on while notices cannot be written.
        let _ = followed.updates.send(update);
        drop(followed);
        let announced = announced?;
        *self.views.lock() = views;
        if let Some(last) = announced.last() {
            self.announce(last.seq);
        }
        let retry_in = engine.retry_in_s(now).map(Duration::from_secs);
        Ok(Left { wanted: engine.wanted(), is_scanning: engine.is_scanning(), retry_in })
    }
}

impl Followed {
    /// Begins after the last update; `None` while nothing is announced.
    fn begin(&self) -> Option<Following> {
        let at = Arc::clone(self.at.as_ref()?);
        Some(Following { at, updates: self.updates.subscribe(), found: self.found.len() })
    }
}

/// True for snapshots with the same chain and the same unconfirmed transactions: numbers of arrivals only grow, so that
/// equal ones of as many transactions are those of the same. They may differ in files, and in whether the mempool is
/// known.
fn is_same_state(last: &Snapshot, newest: &Snapshot) -> bool {
    let state = |at: &Snapshot| (at.tip(), at.mempool().next_arrival(), at.mempool().len());
    state(last) == state(newest)
}

/// Returns the seconds since 1970.
pub(super) fn now() -> u64 {
    Clock::system().seconds()
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
