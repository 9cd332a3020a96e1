//! One watch: what it knows, and what an update tells of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use birdhouse_chain::{Balance, ScriptHash, Snapshot};
use bitcoin::{Network, Txid};

use super::announced::{Announced, digest};
use super::lines::{self, Own};
use super::moment::Moment;
use super::retry::Retry;
use super::scan_key::Silent;
use super::view::WatchView;
use crate::error::Result;
use crate::file::{Directions, Source, WatchSettings};
use crate::limits::{BACKLOG_MAX, GAP_MIN, SCRIPTS_MAX, SETTLED_DEPTH};
use crate::notice::{Amounts, Notice, NoticeId};
use crate::state::{Changes, Lines, Open, Routed, WatchRecord};
use crate::wallet::{Position, Wallet};

/// One watch.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) settings: WatchSettings,
    pub(super) wallet: Wallet,
    /// Scripts with their positions.
    pub(super) positions: HashMap<ScriptHash, Position>,
    /// Scripts that the engine does not know yet.
    fresh: Vec<ScriptHash>,
    pub(super) balances: HashMap<ScriptHash, Balance>,
    pub(super) balance: Balance,
    pub(super) open: BTreeMap<Txid, Open>,
    /// As it is committed; `None` before the first sight.
    pub(super) record: Option<WatchRecord>,
    pub(super) silent: Silent,
    /// The reason why the watch has no scripts.
    broken: Option<String>,
    pub(super) fault: Option<String>,
    /// The pause after the last look failed.
    pub(super) retry: Option<Retry>,
}

impl Watched {
    pub(super) fn new(
        settings: WatchSettings,
        network: Network,
        record: Option<WatchRecord>,
        open: Vec<(Txid, Open)>,
    ) -> Self {
        let (wallet, broken) = match Wallet::of(&settings, network) {
            Ok(wallet) => (wallet, None),
            Err(message) => (Wallet::empty(), Some(message)),
        };
        let mut watched = Self {
            settings,
            wallet,
            positions: HashMap::new(),
            fresh: Vec::new(),
            balances: HashMap::new(),
            balance: Balance::default(),
            open: open.into_iter().collect(),
            record,
            silent: Silent::default(),
            broken,
            fault: None,
            retry: None,
        };
        if let Some(record) = watched.record.clone() {
            watched.wallet.set_used(&record.used);
            watched.take_up_found(&record);
            watched.extend();
        }
        watched
    }

    /// All its scripts.
    pub(super) fn scripts(&self) -> BTreeSet<ScriptHash> {
        self.positions.keys().copied().collect()
    }

    /// The position of one of its scripts.
    pub(super) fn position(&self, script: &ScriptHash) -> Option<Position> {
        self.positions.get(script).copied()
    }

    /// Takes the scripts that were added since the last call.
    pub(super) fn take_fresh(&mut self) -> Vec<ScriptHash> {
        std::mem::take(&mut self.fresh)
    }

    pub(super) fn view(&self) -> WatchView {
        WatchView {
            name: self.settings.name.clone(),
            kind: self.settings.source.name(),
            scripts: self.positions.len(),
            used: self.wallet.used(),
            derived: self.wallet.derived(),
            balance: self.balance,
            open: self.open.len(),
            fault: [&self.broken, &self.silent.fault, &self.fault].into_iter().flatten().next().cloned(),
        }
    }

    /// Derives what the window lacks; returns the new scripts.
    pub(super) fn extend(&mut self) -> Vec<ScriptHash> {
        let fresh = self.wallet.extend(self.settings.gap.max(GAP_MIN));
        let mut scripts = Vec::with_capacity(fresh.len());
        for (script, position) in fresh {
            self.positions.entry(script).or_insert(position);
            self.fresh.push(script);
            scripts.push(script);
        }
        scripts
    }

    /// Takes steps of all transactions that these scripts and the tip may have changed; returns their notices.
    pub(super) fn tell(
        &mut self,
        moment: &Moment<'_>,
        scripts: BTreeSet<ScriptHash>,
        changes: &mut Changes,
    ) -> Result<Vec<Routed>> {
        let is_first = self.record.is_none();
        let has_unconfirmed = self.open.values().any(|open| open.block.is_none());
        if !is_first && scripts.is_empty() && !moment.has_new_tip && !has_unconfirmed {
            return Ok(Vec::new());
        }
        self.fault = None;
        self.resolve_outpoint(moment.at)?;
        let settled = self.record.as_ref().map_or_else(|| self.settled_at(moment), |record| record.settled);
        let found = self.read_scripts(moment, scripts, settled)?;
        self.note_beyond();
        let mut announced = self.step_all(moment, &found, changes)?;
        let settled = self.next_settled(moment, settled);
        self.settle(settled, changes);
        if is_first {
            announced = self.history(moment)?.into_iter().collect();
        } else if moment.is_backlog && announced.len() > BACKLOG_MAX {
            announced = vec![digest(&announced)];
        }
        let record = WatchRecord {
            source: self.settings.source.mark(),
            used: self.wallet.used(),
            settled,
            found: self.silent.found.clone(),
            scanned: self.silent.scanned.unwrap_or(0),
            unread: self.silent.unread.clone(),
            behind: None,
        };
        // The histories of all scripts that were found are read.
        self.silent.since.clear();
        // The next block to scan is not worth a row for each block: some are scanned twice after a restart.
        let is_worth = self.record.as_ref().is_none_or(|old| {
            let is_scan_far = record.scanned.abs_diff(old.scanned) >= SETTLED_DEPTH / 2;
            is_scan_far || WatchRecord { scanned: old.scanned, ..record.clone() } != *old
        });
        if is_worth {
            changes.watches.push((self.settings.name.clone(), Some(record.clone())));
            self.record = Some(record);
        }
        Ok(announced.into_iter().map(|announced| self.routed(moment, announced)).collect())
    }

    /// The height below which nothing is announced any more.
    fn settled_at(&self, moment: &Moment<'_>) -> u32 {
        let depth = self.settings.confirmations.iter().copied().max().unwrap_or(0).max(SETTLED_DEPTH);
        (moment.at.tip().height.0 + 1).saturating_sub(depth)
    }

    /// The settled height from now on. It moves in large steps, each of which writes a row.
    fn next_settled(&self, moment: &Moment<'_>, settled: u32) -> u32 {
        let next = self.settled_at(moment);
        if next >= settled + SETTLED_DEPTH / 2 { next } else { settled }
    }

    /// Sets a fault if the window needs more scripts than are watched.
    fn note_beyond(&mut self) {
        if let Some(Position { branch, index }) = self.wallet.first_beyond(self.settings.gap.max(GAP_MIN)) {
            self.fault = Some(format!(
                "{SCRIPTS_MAX} scripts of one watch are watched, and this one needs more: payments to branch {branch} are \
                 not announced from number {index} on"
            ));
        }
    }

    pub(super) fn own(&self) -> Own<'_> {
        Own { positions: &self.positions, wallet: &self.wallet }
    }

    /// True if the watch wants to be announced.
    pub(super) fn is_asked(&self, announced: &Announced) -> bool {
        if announced.lines.is_partial {
            return true;
        }
        let Amounts { received, spent } = announced.lines.amounts;
        let is_asked = match self.settings.directions {
            Directions::In => received > spent,
            Directions::Out => spent > 0,
            Directions::Both => true,
        };
        is_asked && received.abs_diff(spent) >= self.settings.least_amount
    }

    /// Reads a transaction; `None` if it is gone, or has nothing of a watched outpoint.
    pub(super) fn read(&self, at: &Snapshot, txid: Txid) -> Result<Option<lines::Read>> {
        let only = self.wallet.outpoint;
        let read = lines::read(at, txid, self.own())?;
        let is_other = |lines: &Lines| lines.outputs.is_empty() && lines.inputs.is_empty() && !lines.is_partial;
        Ok(read.filter(|read| only.is_none() || !is_other(&read.lines)))
    }

    fn routed(&self, moment: &Moment<'_>, announced: Announced) -> Routed {
        let Announced { txid, kind, block, lines, .. } = announced;
        let notice = Notice {
            id: NoticeId::of(&[]),
            seq: 0,
            watch: self.settings.name.clone(),
            kind,
            txid,
            amounts: lines.amounts,
            balance: Some(self.balance).filter(|_| self.settings.source.has_balance()),
            block,
            at: moment.now,
            is_partial: lines.is_partial,
            is_cold: self.settings.is_cold,
            outputs: lines.outputs,
            inputs: lines.inputs,
        };
        Routed { notice, channels: self.settings.channels.clone() }
    }
}

impl Source {
    /// True if the balance of its scripts is that of the watch.
    fn has_balance(&self) -> bool {
        !matches!(self, Self::Outpoint(_))
    }
}
