//! All watches of a server: opens the file and the state, and follows the index on one task.
//!
//! Without a watch file nothing is opened and no task runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use birdhouse_chain::source::BlockPart;
use birdhouse_chain::{Index, ScriptHash, Snapshot, Touched, Tweaks, Update, Waiting};
use birdhouse_descriptors::{Named, Steps, parse};
use bitcoin::{Network, ScriptBuf};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{Notify, broadcast, watch};

use crate::api::{Branch, BranchScripts, Following, Origin, Wallets};
use crate::channel::{Channels, Clock, Message, Outcome, Surroundings};
use crate::engine::{Engine, WatchView};
use crate::error::{Error, Result};
use crate::file::{ChannelName, ChannelSettings, InvoiceChange, Source, WatchFile, WatchName, WatchSettings};
use crate::limits::{API_STREAM_LAG_MAX, GAP_MIN};
use crate::notice::{Health, Notice, NoticeId, NoticeKind};
use crate::outbox::{ChannelStatus, OpenChannel, Outbox, Render, render};
use crate::state::{Changes, Routed, State};
use crate::wallet::Position;

/// Time after which the watches are compared without an update: a transaction that left the mempool counts as dropped
/// after a while, whether or not anything happens.
const TICK: Duration = Duration::from_mins(1);
/// Pause after a failure, and between two looks at an index that is not ready.
const PAUSE: Duration = Duration::from_secs(5);
/// Pause after removed blocks that no peer sent.
const FETCH_PAUSE: Duration = Duration::from_mins(1);
/// Watch of notices of the server itself.
const SERVER: &str = "birdhouse";

/// All watches of a server. Clones share them.
#[derive(Clone)]
pub struct Watches {
    inner: Arc<Inner>,
}

struct Inner {
    paths: Paths,
    network: Network,
    index: Arc<Index>,
    runtime: Handle,
    /// Makes the channels of the file; without it notices stay in the log.
    delivery: OnceLock<Channels>,
    /// The file of notices, once somebody needs it.
    state: Mutex<Option<State>>,
    /// Everything that runs, once the file has a watch or a channel. Held for no longer than a clone takes.
    running: Mutex<Option<Arc<Running>>>,
    /// Held while the file is read and put to work, which waits for an update under way.
    reloading: Mutex<()>,
    /// The reason why the file could not be put to work when it was read last.
    fault: Mutex<Option<String>>,
}

/// The files of watches.
#[derive(Debug, Clone)]
pub struct Paths {
    /// `watches.toml`.
    pub file: PathBuf,
    /// `watch-<network>.redb`.
    pub state: PathBuf,
}

struct Running {
    state: State,
    engine: Mutex<Engine>,
    file: RwLock<WatchFile>,
    index: Arc<Index>,
    network: Network,
    /// Wakes the task after a change of the file.
    changed: Notify,
    /// Wakes the task once blocks that the node had removed are fetched.
    fetched: Notify,
    /// True while blocks are fetched.
    is_fetching: AtomicBool,
    /// Position of the last notice.
    last: watch::Sender<u64>,
    /// The reason why nothing is announced now.
    waiting: Mutex<Option<String>>,
    views: Mutex<Vec<WatchView>>,
    /// The watched scripts; `None` until they are read for the first time.
    scripts: RwLock<Option<Arc<Scripts>>>,
    /// Everything that readers follow. Held while `scripts` changes, so that nobody begins in between.
    followed: Mutex<Followed>,
    /// The outboxes of the file's channels.
    outbox: Mutex<Option<Arc<Outbox>>>,
}

/// The chain as the engine has followed it.
struct Followed {
    /// The last snapshot; `None` while nothing is announced.
    at: Option<Arc<Snapshot>>,
    /// Scripts that were found, in this order.
    found: Vec<ScriptHash>,
    /// Updates, each after its scripts are known.
    updates: broadcast::Sender<Arc<Update>>,
}

/// The watched scripts.
#[derive(Debug)]
struct Scripts {
    origins: HashMap<ScriptHash, Origin>,
    /// Scripts of all watches; those of two watches count twice.
    watched: usize,
    branches: Vec<Branch>,
    file: WatchFile,
}

/// The state of all watches, for operators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchStatus {
    /// The watches, as of the last update.
    pub watches: Vec<WatchView>,
    /// The channels of the file.
    pub channels: Vec<ChannelStatus>,
    /// The reason why nothing is announced now.
    pub waiting: Option<String>,
    /// The reason why the watch file could not be put to work when it was read last. What it said before goes on.
    pub fault: Option<String>,
    /// Position of the last notice: their number since the log began.
    pub notices: u64,
}

impl std::fmt::Debug for Watches {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watches").field("paths", &self.inner.paths).finish_non_exhaustive()
    }
}

impl Watches {
    /// Returns the watches of an index, before the file is read.
    pub fn new(paths: Paths, network: Network, index: Arc<Index>, runtime: Handle) -> Self {
        Self {
            inner: Arc::new(Inner {
                paths,
                network,
                index,
                runtime,
                delivery: OnceLock::new(),
                state: Mutex::default(),
                running: Mutex::default(),
                reloading: Mutex::default(),
                fault: Mutex::default(),
            }),
        }
    }

    /// Delivers notices by the channels of the file. Called once, before the file is read.
    pub fn deliver_with(&self, surroundings: Surroundings) {
        let _ = self.inner.delivery.set(Channels::new(surroundings));
    }

    /// Returns the path of the watch file.
    pub fn path(&self) -> &Path {
        &self.inner.paths.file
    }

    /// Reads the watch file again, and begins to follow the index if there is a first watch or channel. A file with a
    /// mistake changes nothing but the [status](Self::status), which has the reason.
    ///
    /// # Errors
    /// The file has a mistake, or the state cannot be opened.
    pub fn reload(&self) -> Result<()> {
        let _one_at_a_time = self.inner.reloading.lock();
        let read = self.read_file();
        *self.inner.fault.lock() = read.as_ref().err().map(ToString::to_string);
        read
    }

    fn read_file(&self) -> Result<()> {
        let inner = &self.inner;
        let file = WatchFile::read(&inner.paths.file, inner.network)?;
        if let Some(running) = self.running() {
            // An empty file is a decision; a missing one may be a disk that is not there.
            let missing = || Error::File(format!("{} is missing; the watches go on", inner.paths.file.display()));
            let file = file.ok_or_else(missing)?;
            let channels = inner.open_channels(&file)?;
            running.set_file(file);
            return inner.deliver(&running, channels);
        }
        let file = file.unwrap_or_default();
        let channels = inner.open_channels(&file)?;
        if file == WatchFile::default() {
            return Ok(());
        }
        let state = self.open_state()?;
        let tweaks = Tweaks::among(inner.index.derived());
        let started = Arc::new(Running {
            engine: Mutex::new(Engine::new(state.clone(), file.clone(), inner.network, tweaks)),
            file: RwLock::new(file),
            index: Arc::clone(&inner.index),
            network: inner.network,
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
        });
        inner.deliver(&started, channels)?;
        inner.runtime.spawn(Arc::clone(&started).follow());
        *inner.running.lock() = Some(started);
        Ok(())
    }

    /// Opens the file of notices, which is made without a watch file, too.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open_state(&self) -> Result<State> {
        let mut state = self.inner.state.lock();
        if let Some(state) = &*state {
            return Ok(state.clone());
        }
        Ok(state.insert(State::open(&self.inner.paths.state)?).clone())
    }

    /// Copies the file of notices for a backup, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or the copy cannot be written.
    pub fn back_up(&self, target: &Path) -> Result<()> {
        if self.inner.paths.state.exists() { self.open_state()?.back_up(target) } else { Ok(()) }
    }

    fn running(&self) -> Option<Arc<Running>> {
        self.inner.running.lock().clone()
    }

    /// Returns the file that is in effect; empty if none is.
    pub fn file(&self) -> WatchFile {
        self.running().map(|running| running.file.read().clone()).unwrap_or_default()
    }

    /// Returns the state, for readers of the log; `None` without a watch file.
    pub fn state(&self) -> Option<State> {
        self.running().map(|running| running.state.clone())
    }

    /// Receives the position of the last notice whenever it changes; `None` without a watch file.
    pub fn subscribe(&self) -> Option<watch::Receiver<u64>> {
        self.running().map(|running| running.last.subscribe())
    }

    /// Returns notices of the log from a position on, ascending, at most `count`.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub fn notices(&self, from_seq: u64, count: usize) -> Result<Vec<Notice>> {
        self.running().map_or(Ok(Vec::new()), |running| running.state.notices(from_seq, count))
    }

    /// Appends a change of the server's own state, for the channels that the file names for it.
    ///
    /// # Errors
    /// Failures of the file of notices.
    pub fn tell_health(&self, health: Health) -> Result<()> {
        let Some(running) = self.running() else { return Ok(()) };
        let channels = running.file.read().health.clone();
        if channels.is_empty() { Ok(()) } else { running.append(NoticeKind::Health(health), channels) }
    }

    /// Sends a test message to a channel now, before what waits in its outbox. Waits for the other side, so it may not
    /// be called by a task of the runtime.
    ///
    /// # Errors
    /// No channel has the name, or the reason why the message was not delivered.
    pub fn test(&self, channel: &str) -> Result<()> {
        let running = self.running().ok_or_else(|| Error::File("there is no watch file".into()))?;
        let outbox = running.outbox.lock().clone();
        let unknown = || Error::File(format!("no channel has the name \"{channel}\""));
        let outbox = outbox.ok_or_else(unknown)?;
        // Each is another message, which receivers tell apart by its id.
        let id = NoticeId::of(&[&now().to_be_bytes(), &getrandom::u64().unwrap_or_default().to_be_bytes()]);
        let message =
            message(&Notice { id, ..Notice::apart(WatchName::new(SERVER), NoticeKind::Test, now()) }, &running.file);
        let outcome = self.inner.runtime.block_on(outbox.test(&ChannelName::new(channel), &message))?;
        let why = match outcome.ok_or_else(unknown)? {
            Outcome::Delivered => return Ok(()),
            Outcome::Retry { why, .. }
            | Outcome::Rejected { why }
            | Outcome::Disable { why }
            | Outcome::Refused { why } => why,
        };
        Err(Error::Undelivered { channel: channel.to_owned(), why })
    }

    /// Returns the state of all watches.
    pub fn status(&self) -> WatchStatus {
        let fault = self.inner.fault.lock().clone();
        let Some(running) = self.running() else { return WatchStatus { fault, ..WatchStatus::default() } };
        WatchStatus {
            watches: running.views.lock().clone(),
            channels: running.channels(),
            waiting: running.waiting.lock().clone(),
            fault,
            notices: *running.last.borrow(),
        }
    }
}

impl Wallets for Watches {
    fn branches(&self) -> Vec<Branch> {
        let Some(running) = self.running() else { return Vec::new() };
        let Some(scripts) = running.scripts.read().clone() else { return Vec::new() };
        let views = running.views.lock();
        let mut branches = scripts.branches.clone();
        for branch in &mut branches {
            let view = views.iter().find(|view| view.name == branch.watch);
            let used = view.and_then(|view| view.used.get(branch.number as usize)).copied().unwrap_or(0);
            branch.used = used.checked_sub(1);
            if branch.is_ranged() {
                let window = used.saturating_add(branch.gap.max(GAP_MIN));
                let derived = view.and_then(|view| view.derived.get(branch.number as usize)).copied();
                branch.watched = derived.unwrap_or(window).min(window);
                branch.is_full = branch.watched < window;
            }
        }
        branches
    }

    fn origin(&self, scripthash: &ScriptHash) -> Option<Origin> {
        self.running()?.scripts.read().as_ref()?.origins.get(scripthash).cloned()
    }

    fn scripthashes(&self) -> Vec<ScriptHash> {
        let Some(running) = self.running() else { return Vec::new() };
        let scripts = running.scripts.read().clone();
        scripts.map(|scripts| scripts.origins.keys().copied().collect()).unwrap_or_default()
    }

    fn are_known(&self) -> bool {
        match self.running() {
            Some(running) => running.scripts.read().is_some(),
            // Without a watch file there is nothing to know; of one with a mistake nothing is known.
            None => self.inner.fault.lock().is_none(),
        }
    }

    fn channels_for(&self, watch: &WatchName, change: InvoiceChange) -> Vec<ChannelName> {
        let file = self.file();
        let settings = file.watches.into_iter().find(|settings| settings.name == *watch);
        settings
            .filter(|settings| settings.invoices.contains(&change))
            .map(|settings| settings.channels)
            .unwrap_or_default()
    }

    fn appended(&self, seq: u64) {
        if let Some(running) = self.running() {
            running.announce(seq);
        }
    }

    fn follow(&self) -> Option<Following> {
        let of_index = || Following::of_index(&self.inner.index);
        let Some(running) = self.running() else { return of_index() };
        let followed = running.followed.lock();
        let found = followed.found.len();
        match &followed.at {
            Some(at) => Some(Following { at: Arc::clone(at), updates: followed.updates.subscribe(), found }),
            None => of_index().map(|following| Following { found, ..following }),
        }
    }

    fn found_since(&self, known: usize) -> Vec<ScriptHash> {
        let Some(running) = self.running() else { return Vec::new() };
        let followed = running.followed.lock();
        followed.found.get(known..).unwrap_or_default().to_vec()
    }
}

impl Inner {
    /// Opens the channels of a file.
    fn open_channels(&self, file: &WatchFile) -> Result<Vec<OpenChannel>> {
        let Some(channels) = self.delivery.get() else { return Ok(Vec::new()) };
        let open = |settings: &ChannelSettings| match channels.open(settings) {
            Ok(channel) => Ok(OpenChannel { name: settings.name.clone(), channel }),
            Err(why) => Err(Error::File(format!("channel \"{}\": {why}", settings.name))),
        };
        file.channels.iter().map(open).collect()
    }

    /// Replaces the outboxes. A channel that was disabled is tried again.
    fn deliver(&self, running: &Arc<Running>, channels: Vec<OpenChannel>) -> Result<()> {
        if self.delivery.get().is_none() {
            return Ok(());
        }
        let _entered = self.runtime.enter();
        let mut outbox = running.outbox.lock();
        // Its tasks end before others begin with the same entries.
        *outbox = None;
        let of_file = Arc::downgrade(running);
        let render: Render = Arc::new(move |notice: &Notice| match of_file.upgrade() {
            Some(running) => message(notice, &running.file),
            None => render(notice, None),
        });
        *outbox = Some(Arc::new(Outbox::start(running.state.clone(), channels, &render, Clock::system())?));
        Ok(())
    }
}

/// Returns the message of a notice.
fn message(notice: &Notice, file: &RwLock<WatchFile>) -> Message {
    render(notice, file.read().explorer.as_deref())
}

/// Returns the branches of a watch that have a descriptor, or one script, of which none is used yet.
fn branches_of(settings: &WatchSettings, network: Network) -> Vec<Branch> {
    let named = match &settings.source {
        Source::Descriptor(text) => parse(text.trim(), network, &mut Steps::default()).ok(),
        Source::Script(hex) => ScriptBuf::from_hex(hex).ok().map(Named::One),
        // Their scripts are found on the chain.
        Source::Outpoint(_) | Source::SilentPayment(_) => None,
    };
    let scripts: Vec<BranchScripts> = match named {
        Some(Named::One(script)) => vec![BranchScripts::Script(script)],
        Some(Named::Many(described)) => {
            described.into_iter().map(|described| BranchScripts::Descriptor(Box::new(described))).collect()
        }
        None => Vec::new(),
    };
    let branch = |(number, scripts): (u32, BranchScripts)| Branch {
        watch: settings.name.clone(),
        number,
        scripts,
        gap: settings.gap,
        watched: 1,
        is_full: false,
        used: None,
    };
    (0..).zip(scripts).map(branch).collect()
}

/// Work that an update has left.
#[derive(Default)]
struct Left {
    /// Parts of blocks that the node has removed.
    wanted: Vec<BlockPart>,
    /// True if the next update goes on to scan.
    is_scanning: bool,
}

/// The next thing to do.
enum Next {
    /// Read everything.
    Look,
    Tell(Arc<Update>),
    /// Only what time changes.
    Tick,
}

impl Running {
    fn set_file(&self, file: WatchFile) {
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

    /// Appends a notice that is about no transaction.
    fn append(&self, kind: NoticeKind, channels: Vec<ChannelName>) -> Result<()> {
        let notice = Notice::apart(WatchName::new(SERVER), kind, now());
        let mut routed = [Routed { notice, channels }];
        self.state.commit(&mut routed, &Changes::default())?;
        let [Routed { notice, .. }] = routed;
        self.announce(notice.seq);
        Ok(())
    }

    /// Returns the states of the channels. One that cannot be read is shown by the reason.
    fn channels(&self) -> Vec<ChannelStatus> {
        let Some(outbox) = self.outbox.lock().clone() else { return Vec::new() };
        outbox.status().unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to read the states of the channels");
            Vec::new()
        })
    }

    /// Makes a position known; one that is committed later may come first.
    fn announce(&self, seq: u64) {
        self.last.send_if_modified(|last| {
            let is_later = seq > *last;
            *last = seq.max(*last);
            is_later
        });
        if let Some(outbox) = &*self.outbox.lock() {
            outbox.wake();
        }
    }

    /// Follows the index for as long as the runtime lives.
    async fn follow(self: Arc<Self>) {
        let mut updates = self.index.updates();
        let mut next = Next::Look;
        loop {
            if let Some(reason) = held_back(&self.index, self.network) {
                *self.waiting.lock() = Some(reason);
                // A snapshot keeps replaced files on the disk.
                self.followed.lock().at = None;
                tokio::time::sleep(PAUSE).await;
                // What came meanwhile is in the next snapshot.
                updates = self.index.updates();
                next = Next::Look;
                continue;
            }
            if matches!(next, Next::Look) {
                // What waits is older than the snapshot.
                updates = self.index.updates();
            }
            let running = Arc::clone(&self);
            let announced = tokio::task::spawn_blocking(move || running.tell(&next)).await;
            next = match announced {
                Ok(Ok(left)) => {
                    *self.waiting.lock() = None;
                    self.fetch(left.wanted);
                    if left.is_scanning { next_of(&mut updates) } else { self.next(&mut updates).await }
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "failed to look for payments of the watches; trying again");
                    *self.waiting.lock() = Some(error.to_string());
                    tokio::time::sleep(PAUSE).await;
                    Next::Look
                }
                Err(error) => {
                    tracing::error!(%error, "failed to look for payments of the watches; they are announced no more");
                    *self.waiting.lock() = Some("the task of the watches has ended; see the log".into());
                    return;
                }
            };
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

    async fn next(&self, updates: &mut Receiver<Arc<Update>>) -> Next {
        tokio::select! {
            update = self.index.next_update(updates) => match update {
                Some(update) => Next::Tell(update),
                // The index lives as long as this.
                None => std::future::pending().await,
            },
            () = self.changed.notified() => Next::Look,
            () = self.fetched.notified() => Next::Tick,
            () = tokio::time::sleep(TICK) => Next::Tick,
        }
    }

    /// Fetches blocks that the node has removed, unless some are under way, and then looks again.
    fn fetch(self: &Arc<Self>, parts: Vec<BlockPart>) {
        if parts.is_empty() || self.is_fetching.swap(true, Ordering::Relaxed) {
            return;
        }
        let running = Arc::clone(self);
        tokio::spawn(async move {
            let index = Arc::clone(&running.index);
            let fetch = move || parts.into_iter().filter(|part| index.fetch_removed(*part).is_ok()).count();
            if tokio::task::spawn_blocking(fetch).await.unwrap_or(0) == 0 {
                tokio::time::sleep(FETCH_PAUSE).await;
            }
            running.is_fetching.store(false, Ordering::Relaxed);
            running.fetched.notify_one();
        });
    }

    fn tell(&self, next: &Next) -> Result<Left> {
        let mut engine = self.engine.lock();
        let of_now = |touched| self.index.snapshot().ok().map(|snapshot| Arc::new(Update { snapshot, touched }));
        let update = match next {
            Next::Tell(update) => Some(Arc::clone(update)),
            Next::Look => of_now(Touched::Any),
            Next::Tick => of_now(Touched::Scripts(Vec::new())),
        };
        let Some(update) = update else { return Ok(Left::default()) };
        let announced = engine.update(&update, now());
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
        Ok(Left { wanted: engine.wanted(), is_scanning: engine.is_scanning() })
    }
}

/// The next thing to do at once.
fn next_of(updates: &mut Receiver<Arc<Update>>) -> Next {
    match updates.try_recv() {
        Ok(update) => Next::Tell(update),
        Err(TryRecvError::Lagged(_)) => Next::Look,
        Err(TryRecvError::Empty | TryRecvError::Closed) => Next::Tick,
    }
}

/// The reason why the index is not announced of: what it has is of the past.
fn held_back(index: &Index, network: Network) -> Option<String> {
    if !index.is_ready() {
        return Some("waiting for the first build of the index".into());
    }
    match index.waiting() {
        // A private chain may have an old tip for ever.
        Some(Waiting::NodeDownloads { node, best_header }) if network == Network::Regtest && node == best_header => {
            None
        }
        Some(waiting @ Waiting::NodeDownloads { .. }) => Some(waiting.to_string()),
        _ => index.downloading().map(|progress| progress.to_string()),
    }
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    Clock::system().seconds()
}
