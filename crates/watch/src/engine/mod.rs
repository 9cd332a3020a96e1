//! The difference of what the watches knew and what a snapshot says, as notices.
//!
//! State-based, so that nothing is missed or announced twice: an update says which scripts to read again, and no more.
//! For these the engine reads the history from the settled height on and the mempool, and compares with the open
//! transactions. Notices and the new state are one transaction of `state`; after a failure of that the engine takes up
//! the state as it was committed. What the index cannot read is a fault of the watches that need it.
//!
//! While the tip of the index is lower than that of the last update, nothing is announced: an index that was restored,
//! or that applies a reorg, comes back to that height.

mod announced;
mod faults;
mod lines;
mod moment;
mod past;
mod place;
mod reading;
mod retry;
mod scan_key;
mod silent;
mod step;
mod stepping;
mod view;
mod watched;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use birdhouse_chain::source::{BlockId, BlockPart};
use birdhouse_chain::{ScriptHash, Snapshot, Touched, Tweaks, Update};
use bitcoin::{Network, Txid};

use crate::error::{Error, Result};
use crate::file::{WatchFile, WatchName};
use crate::limits::DROPPED_AFTER_S;
use crate::notice::Notice;
use crate::state::{Open, State, WatchRecord};
use crate::wallet::Position;
use faults::Looked;
use moment::{Moment, Scope};
use silent::Scans;
pub use view::WatchView;
use watched::Watched;

/// Blocks of one update beyond which it is a backlog.
const BACKLOG_BLOCKS: u32 = 6;

/// Follows the updates of an index.
#[derive(Debug)]
pub struct Engine {
    state: State,
    file: WatchFile,
    network: Network,
    tweaks: Option<Tweaks>,
    dropped_after_s: u64,
    loaded: Option<Loaded>,
    /// Scripts that were found and not taken yet.
    found: Vec<ScriptHash>,
}

/// Knowledge of the engine, as it is committed.
#[derive(Debug)]
struct Loaded {
    watches: Vec<Watched>,
    /// Numbers of the watches that have a script.
    owners: HashMap<ScriptHash, Vec<usize>>,
    cursor: Option<BlockId>,
    /// Watches of the state that the file no longer has.
    gone: Vec<WatchName>,
    /// True until the first update is announced.
    is_new: bool,
}

impl Engine {
    /// Takes up the watches of a file where their state ends. `tweaks` finds silent payments, where they are indexed.
    pub fn new(state: State, file: WatchFile, network: Network, tweaks: Option<Tweaks>) -> Self {
        Self { state, file, network, tweaks, dropped_after_s: DROPPED_AFTER_S, loaded: None, found: Vec::new() }
    }

    /// Sets the seconds for which a transaction must be absent before it counts as dropped.
    #[must_use]
    pub fn dropped_after(mut self, seconds: u64) -> Self {
        self.dropped_after_s = seconds;
        self
    }

    /// Replaces the watch file; from the next update on its watches are announced.
    pub fn set_file(&mut self, file: WatchFile) {
        self.file = file;
        self.loaded = None;
    }

    /// Returns the watches as of the last update.
    pub fn watches(&self) -> Vec<WatchView> {
        self.loaded.iter().flat_map(|loaded| loaded.watches.iter().map(Watched::view)).collect()
    }

    /// Returns every watched script with its first watch; `None` before the first update.
    pub(crate) fn scripts(&self) -> Option<impl Iterator<Item = (ScriptHash, &WatchName, Position)>> {
        let loaded = self.loaded.as_ref().filter(|loaded| !loaded.is_new)?;
        let owned = loaded.owners.iter().filter_map(|(script, owners)| {
            let watch = &loaded.watches[*owners.first()?];
            Some((*script, &watch.settings.name, watch.position(script)?))
        });
        Some(owned)
    }

    /// Returns parts of blocks that the node has removed, and that silent payments lie in: the next update after they
    /// are fetched announces these.
    pub fn wanted(&self) -> Vec<BlockPart> {
        self.following().flat_map(|watch| watch.silent.wanted.clone()).collect()
    }

    /// The watches, unless the last update was not taken: then nothing goes on before the next one.
    fn following(&self) -> impl Iterator<Item = &Watched> {
        self.loaded.iter().filter(|loaded| !loaded.is_new).flat_map(|loaded| &loaded.watches)
    }

    /// True if there are blocks that no update has scanned yet for silent payments: the next one goes on.
    pub fn is_scanning(&self) -> bool {
        self.following().any(|watch| watch.silent.is_behind)
    }

    /// Returns the seconds until a look or a scan that failed is repeated; `None` if none has.
    pub(crate) fn retry_in_s(&self, now: u64) -> Option<u64> {
        // A watch that rests scans nothing before its next look.
        let retries = self.following().filter_map(|watch| watch.retry.or(watch.silent.retry));
        retries.map(|retry| retry.left_s(now)).min()
    }

    /// Takes the scripts that watches at work have found since the last call: those of silent payments, and those that
    /// a window gained.
    pub(crate) fn take_found(&mut self) -> Vec<ScriptHash> {
        std::mem::take(&mut self.found)
    }

    /// Returns the block that was announced last.
    pub fn cursor(&self) -> Option<BlockId> {
        self.loaded.as_ref().and_then(|loaded| loaded.cursor)
    }

    /// Commits the differences that an update makes, as notices and state, then returns the notices. `now` is in
    /// seconds since 1970.
    ///
    /// # Errors
    /// Failures of the file of notices; nothing is committed then. Where the index fails, the watches that need it have
    /// a fault, and announce what they missed once it can be read.
    pub fn update(&mut self, update: &Update, now: u64) -> Result<Vec<Notice>> {
        let Update { snapshot: at, touched } = update;
        // Taken, so that a failure in between leaves nothing that is not committed.
        let mut loaded = match self.loaded.take() {
            Some(loaded) => loaded,
            None => self.load()?,
        };
        if loaded.cursor.is_some_and(|cursor| at.tip().height < cursor.height) {
            loaded.is_new = true;
            self.loaded = Some(loaded);
            return Ok(Vec::new());
        }
        let moment = self.moment(&loaded, update, now);
        let cursor = loaded.cursor.replace(at.tip());
        let mut all = Looked::default();
        all.changes.cursor = moment.has_new_tip.then(|| at.tip());
        all.changes.watches.extend(loaded.gone.drain(..).map(|name| (name, None)));
        let mut touched_of = loaded.touched(touched);
        let mut found = Vec::new();
        for (number, watch) in loaded.watches.iter_mut().enumerate() {
            // What is touched meanwhile is read then.
            if moment.is_too_early_for(watch.retry) {
                watch.silent.wanted.clear();
                continue;
            }
            let is_at_work = watch.record.is_some();
            let known = watch.take_fresh();
            all.extend(self.look(watch, &moment, cursor, touched_of.remove(&number).unwrap_or_default())?);
            let fresh = watch.take_fresh();
            for script in known.iter().chain(&fresh) {
                loaded.owners.entry(*script).or_default().push(number);
            }
            if is_at_work {
                found.extend(fresh);
            }
        }
        let Looked { mut routed, changes } = all;
        if !routed.is_empty() || !changes.is_empty() {
            self.state.commit(&mut routed, &changes)?;
        }
        loaded.is_new = false;
        self.loaded = Some(loaded);
        self.found.extend(found);
        Ok(routed.into_iter().map(|one| one.notice).collect())
    }

    fn moment<'a>(&self, loaded: &Loaded, update: &'a Update, now: u64) -> Moment<'a> {
        let Update { snapshot: at, touched } = update;
        Moment {
            at,
            now,
            network: self.network,
            dropped_after_s: self.dropped_after_s,
            scope: if loaded.is_new || *touched == Touched::Any { Scope::All } else { Scope::Touched },
            is_backlog: loaded.is_backlog(at, touched),
            has_new_tip: loaded.cursor != Some(at.tip()),
            is_reorg: loaded.cursor.is_some_and(|cursor| at.block_hash(cursor.height) != Some(cursor.hash)),
        }
    }

    /// Looks at one watch. A failure of the index is its fault; the block that was announced last is its own then.
    fn look(
        &self,
        watch: &mut Watched,
        moment: &Moment<'_>,
        cursor: Option<BlockId>,
        touched: BTreeSet<ScriptHash>,
    ) -> Result<Looked> {
        match watch.look(&Scans { tweaks: self.tweaks.as_ref() }, moment, touched) {
            Err(Error::Chain(error)) => {
                let open = self.open_of(&watch.settings.name, watch.record.as_ref())?;
                let mut looked = Looked::default();
                let record = watch.fail(&error, moment, cursor, open);
                looked.changes.watches.extend(record.map(|record| (watch.settings.name.clone(), Some(record))));
                Ok(looked)
            }
            looked => looked,
        }
    }

    /// The open transactions of a watch, as they are committed.
    fn open_of(&self, name: &WatchName, record: Option<&WatchRecord>) -> Result<Vec<(Txid, Open)>> {
        // Before its first sight the state may have those of another source.
        if record.is_some() { self.state.open_transactions(name) } else { Ok(Vec::new()) }
    }

    /// Reads the state.
    fn load(&self) -> Result<Loaded> {
        let mut records: BTreeMap<_, _> = self.state.watches()?.into_iter().collect();
        let mut loaded = Loaded {
            watches: Vec::new(),
            owners: HashMap::new(),
            cursor: self.state.cursor()?,
            gone: Vec::new(),
            is_new: true,
        };
        for settings in &self.file.watches {
            let record = records.remove(&settings.name);
            let record = match record {
                Some(record) if settings.source.is_marked_by(&record.source) => Some(record),
                Some(_) => {
                    loaded.gone.push(settings.name.clone());
                    None
                }
                None => None,
            };
            let open = self.open_of(&settings.name, record.as_ref())?;
            loaded.watches.push(Watched::new(settings.clone(), self.network, record, open));
        }
        loaded.gone.extend(records.into_keys());
        Ok(loaded)
    }
}

impl Loaded {
    /// True if an update tells more than the usual change of a tip or a mempool.
    fn is_backlog(&self, at: &Snapshot, touched: &Touched) -> bool {
        let height = self.cursor.map_or(0, |cursor| cursor.height.0);
        self.is_new || *touched == Touched::Any || at.tip().height.0 > height + BACKLOG_BLOCKS
    }

    /// The touched scripts of each watch: one lookup for each script.
    fn touched(&self, touched: &Touched) -> BTreeMap<usize, BTreeSet<ScriptHash>> {
        let mut of: BTreeMap<usize, BTreeSet<ScriptHash>> = BTreeMap::new();
        let Touched::Scripts(scripts) = touched else { return of };
        for script in scripts {
            for owner in self.owners.get(script).into_iter().flatten() {
                of.entry(*owner).or_default().insert(*script);
            }
        }
        of
    }
}
