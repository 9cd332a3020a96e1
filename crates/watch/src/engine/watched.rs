//! One watch: what it knows, and what an update tells of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Balance, Confirmation, Error as ChainError, Height, ScriptHash, Snapshot};
use bitcoin::{Network, OutPoint, Txid};

use super::lines::{self, Own, Read};
use super::scan_key::Silent;
use super::step::{Place, Rules, Step, step, step_silently};
use super::view::WatchView;
use crate::error::Result;
use crate::file::{Directions, Source, WatchSettings};
use crate::limits::{BACKLOG_MAX, GAP_MIN, HISTORY_READ_MAX, SCRIPT_HISTORY_MAX, SCRIPTS_MAX, SETTLED_DEPTH};
use crate::notice::{Amounts, Notice, NoticeId, NoticeKind};
use crate::state::{Changes, Lines, Open, Routed, WatchRecord};
use crate::wallet::{Position, Wallet};

/// Notices of one watch in one update beyond which parents are not put before their children.
const ORDERED_MAX: usize = 1_000;

/// One watch.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) settings: WatchSettings,
    pub(super) wallet: Wallet,
    /// Scripts with their positions.
    positions: HashMap<ScriptHash, Position>,
    /// Scripts that the engine does not know yet.
    fresh: Vec<ScriptHash>,
    balances: HashMap<ScriptHash, Balance>,
    balance: Balance,
    open: BTreeMap<Txid, Open>,
    /// As it is committed; `None` before the first sight.
    pub(super) record: Option<WatchRecord>,
    pub(super) silent: Silent,
    /// The reason why the watch has no scripts.
    broken: Option<String>,
    pub(super) fault: Option<String>,
}

/// The snapshot of an update, and what the update means for all watches.
pub(super) struct Moment<'a> {
    pub(super) at: &'a Snapshot,
    pub(super) now: u64,
    pub(super) network: Network,
    pub(super) dropped_after_s: u64,
    pub(super) is_backlog: bool,
    pub(super) has_new_tip: bool,
    /// True if the block that was announced last is not in the chain.
    pub(super) is_reorg: bool,
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
            source: self.settings.source.text().to_owned(),
            used: self.wallet.used(),
            settled,
            found: self.silent.found.clone(),
            scanned: self.silent.scanned.unwrap_or(0),
            unread: self.silent.unread.clone(),
        };
        // The next block to scan is not worth a row for each block: some are scanned twice after a restart.
        let is_worth = self.record.as_ref().is_none_or(|old| {
            let is_scan_far = record.scanned.abs_diff(old.scanned) >= SETTLED_DEPTH / 2;
            let is_same = (&old.used, &old.found, &old.unread, old.settled)
                == (&record.used, &record.found, &record.unread, record.settled);
            is_scan_far || !is_same
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

    fn resolve_outpoint(&mut self, at: &Snapshot) -> Result<()> {
        let Some(outpoint) = self.wallet.outpoint else { return Ok(()) };
        if !self.positions.is_empty() {
            return Ok(());
        }
        match at.output(outpoint) {
            Ok(Some(output)) => self.wallet.add_hash(output.scripthash),
            Ok(None) => self.fault = Some("neither chain nor mempool has this output yet".into()),
            Err(ChainError::Removed { .. }) => {
                self.fault = Some("the node has removed the block of this output; watch its address".into());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Reads the scripts, and those that the window gains, until it gains none. Returns their transactions.
    fn read_scripts(
        &mut self,
        moment: &Moment<'_>,
        scripts: BTreeSet<ScriptHash>,
        settled: u32,
    ) -> Result<BTreeMap<Txid, Option<Height>>> {
        let mut found = BTreeMap::new();
        let mut waiting: Vec<ScriptHash> = scripts.into_iter().collect();
        waiting.extend(self.extend());
        while !waiting.is_empty() {
            for script in std::mem::take(&mut waiting) {
                if self.read_script(moment.at, &script, settled, &mut found)?
                    && let Some(position) = self.positions.get(&script)
                {
                    self.wallet.note_used(*position);
                }
            }
            waiting = self.extend();
        }
        Ok(found)
    }

    /// Reads one script; returns true if it is used.
    fn read_script(
        &mut self,
        at: &Snapshot,
        script: &ScriptHash,
        settled: u32,
        found: &mut BTreeMap<Txid, Option<Height>>,
    ) -> Result<bool> {
        self.set_balance(*script, at.balance(script)?);
        let unconfirmed = at.mempool().txids_of_script(script).take(SCRIPT_HISTORY_MAX);
        let mut count = 0;
        for txid in unconfirmed {
            found.entry(txid).or_insert(None);
            count += 1;
        }
        // A script that was found late has a history that no update has read.
        let from = self.silent.since.remove(script).map_or(settled, |found| found.min(settled));
        match at.up_to(SCRIPT_HISTORY_MAX).history_between(script, Height(from)..Height(u32::MAX)) {
            Ok(history) => {
                count += history.len();
                found.extend(history.into_iter().map(|entry| (entry.txid, Some(entry.height))));
            }
            Err(ChainError::TooLong { entries, max }) => {
                self.fault = Some(format!(
                    "a script has {entries} transactions in the last blocks, more than {max}: none of them is announced"
                ));
                count += entries;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(count > 0 || at.first_use(script)?.is_some())
    }

    fn set_balance(&mut self, script: ScriptHash, balance: Balance) {
        let old = self.balances.insert(script, balance).unwrap_or_default();
        self.balance.confirmed = self.balance.confirmed + balance.confirmed - old.confirmed;
        self.balance.unconfirmed += balance.unconfirmed - old.unconfirmed;
        if balance == Balance::default() {
            self.balances.remove(&script);
        }
    }

    /// Takes a step of every transaction that may have changed; returns what to tell.
    fn step_all(
        &mut self,
        moment: &Moment<'_>,
        found: &BTreeMap<Txid, Option<Height>>,
        changes: &mut Changes,
    ) -> Result<Vec<Announced>> {
        let mut fresh = self.read_new(moment.at, found)?;
        let is_first = self.record.is_none();
        let name = self.settings.name.clone();
        let levels = self.settings.confirmations.clone();
        let rules = Rules {
            levels: &levels,
            tip: moment.at.tip().height.0,
            now: moment.now,
            dropped_after_s: moment.dropped_after_s,
            is_mempool_known: moment.at.mempool().is_listed(),
        };
        let (mut gone, mut here) = (Vec::new(), Vec::new());
        let known: Vec<Txid> = self.open.keys().copied().collect();
        for txid in known.iter().chain(fresh.keys()) {
            let known = self.open.get(txid);
            let open = known.cloned().or_else(|| fresh.get(txid).cloned()).expect("known or fresh");
            if known.is_some_and(|open| open.block.is_some()) && !moment.has_new_tip {
                continue;
            }
            let place = place(moment.at, *txid, &open)?;
            let open = self.read_again(moment.at, *txid, open, place)?;
            let lines = open.lines.clone();
            let spends = open.spends.clone();
            let subject = if open.announced.is_none() { Subject::Payment } else { Subject::OfKnown };
            let next = if is_first {
                Step { open: step_silently(open, place, rules), announced: Vec::new() }
            } else {
                step(open, place, rules)
            };
            for (kind, block) in next.announced {
                let is_gone =
                    matches!(kind, NoticeKind::Reorganised | NoticeKind::Replaced { .. } | NoticeKind::Dropped);
                let announced =
                    Announced { txid: Some(*txid), kind, subject, block, lines: lines.clone(), spends: spends.clone() };
                if is_gone { gone.push(announced) } else { here.push(announced) }
            }
            if known != next.open.as_ref() {
                changes.open.push((name.clone(), *txid, next.open.clone()));
            }
            match next.open {
                Some(open) => self.open.insert(*txid, open),
                None => self.open.remove(txid),
            };
        }
        fresh.clear();
        let announced = gone.into_iter().chain(in_order(here));
        Ok(announced.filter(|announced| self.is_asked(announced)).collect())
    }

    /// Reads a transaction again of which a part was unknown, once it is in another block.
    fn read_again(&self, at: &Snapshot, txid: Txid, mut open: Open, place: Place) -> Result<Open> {
        let is_moved = matches!(place, Place::Block(block) if open.block != Some(block));
        if open.lines.is_partial
            && is_moved
            && let Some(Read { lines, spends }) = lines::read(at, txid, self.own())?
            && !lines.is_partial
        {
            (open.lines, open.spends) = (lines, spends);
        }
        Ok(open)
    }

    fn own(&self) -> Own<'_> {
        Own { positions: &self.positions, wallet: &self.wallet }
    }

    /// Reads the transactions that are not open yet.
    fn read_new(&self, at: &Snapshot, found: &BTreeMap<Txid, Option<Height>>) -> Result<BTreeMap<Txid, Open>> {
        let mut fresh = BTreeMap::new();
        for txid in found.keys().filter(|txid| !self.open.contains_key(*txid)) {
            let Some(lines::Read { lines, spends }) = self.read(at, *txid)? else { continue };
            fresh.insert(*txid, Open { block: None, announced: None, absent_since: None, spends, lines });
        }
        Ok(fresh)
    }

    /// Closes transactions below the settled height.
    fn settle(&mut self, settled: u32, changes: &mut Changes) {
        let is_settled = |open: &Open| open.block.is_some_and(|block| block.height.0 < settled);
        let closed: Vec<Txid> = self.open.iter().filter(|(_, open)| is_settled(open)).map(|(txid, _)| *txid).collect();
        for txid in closed {
            self.open.remove(&txid);
            changes.open.push((self.settings.name.clone(), txid, None));
        }
    }

    /// True if the watch wants to be announced.
    fn is_asked(&self, announced: &Announced) -> bool {
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

    /// The digest of the past, where the watch asks for it.
    fn history(&mut self, moment: &Moment<'_>) -> Result<Option<Announced>> {
        let Some(from) = self.settings.history_from else { return Ok(None) };
        let mut past = self.past(moment.at, Height(from))?;
        // Sums of whole scripts are kept by the index; a part of them is read.
        let lines = if from == 0 && self.wallet.outpoint.is_none() {
            self.sums_of_scripts(moment.at)?
        } else {
            self.sums_of(moment.at, &mut past)?
        };
        if past.is_empty() {
            return Ok(None);
        }
        let transactions = u32::try_from(past.len()).unwrap_or(u32::MAX);
        Ok(Some(digest_of(NoticeKind::Digest { transactions, is_past: true }, lines)))
    }

    /// The confirmed transactions of all scripts from a height on.
    fn past(&mut self, at: &Snapshot, from: Height) -> Result<BTreeSet<Txid>> {
        let mut past = BTreeSet::new();
        for script in self.positions.keys() {
            match at.up_to(SCRIPT_HISTORY_MAX).history_between(script, from..Height(u32::MAX)) {
                Ok(history) => past.extend(history.into_iter().map(|entry| entry.txid)),
                Err(ChainError::TooLong { entries, max }) => {
                    self.fault = Some(format!("a script has {entries} transactions, more than {max}: not counted"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(past)
    }

    fn sums_of_scripts(&self, at: &Snapshot) -> Result<Lines> {
        let mut amounts = Amounts::default();
        for script in self.positions.keys() {
            let stats = at.confirmed_stats(script)?;
            amounts.received += stats.funded_sum;
            amounts.spent += stats.spent_sum;
        }
        Ok(Lines { amounts, ..Lines::default() })
    }

    /// Sums up transactions, and leaves out those that are not the watch's: of a watched outpoint, all but two. Beyond
    /// [`HISTORY_READ_MAX`] the sums say less.
    fn sums_of(&self, at: &Snapshot, txids: &mut BTreeSet<Txid>) -> Result<Lines> {
        let mut sums = Lines { is_partial: txids.len() > HISTORY_READ_MAX, ..Lines::default() };
        let mut others = BTreeSet::new();
        for txid in txids.iter().take(HISTORY_READ_MAX) {
            match self.read(at, *txid)? {
                Some(read) => {
                    sums.amounts.received += read.lines.amounts.received;
                    sums.amounts.spent += read.lines.amounts.spent;
                    sums.is_partial |= read.lines.is_partial;
                }
                None => drop(others.insert(*txid)),
            }
        }
        txids.retain(|txid| !others.contains(txid));
        Ok(sums)
    }

    /// Reads a transaction; `None` if it is gone, or has nothing of a watched outpoint.
    fn read(&self, at: &Snapshot, txid: Txid) -> Result<Option<lines::Read>> {
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

/// The part of an update that a notice tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// A payment of which nothing was announced before.
    Payment,
    /// One that was announced before.
    OfKnown,
}

/// A notice in the making.
#[derive(Debug)]
struct Announced {
    txid: Option<Txid>,
    kind: NoticeKind,
    subject: Subject,
    block: Option<BlockId>,
    lines: Lines,
    spends: Vec<OutPoint>,
}

/// One notice for many. Its sums are of payments that are new: of those that were announced before, the balance has not
/// changed.
fn digest(all: &[Announced]) -> Announced {
    let txids: BTreeSet<Txid> = all.iter().filter_map(|announced| announced.txid).collect();
    let mut amounts = Amounts::default();
    let mut counted = BTreeSet::new();
    let is_here = |announced: &&Announced| matches!(announced.kind, NoticeKind::Seen | NoticeKind::Confirmed { .. });
    let is_new = |announced: &&Announced| announced.subject == Subject::Payment && is_here(announced);
    for announced in all.iter().filter(is_new).filter(|announced| counted.insert(announced.txid)) {
        amounts.received += announced.lines.amounts.received;
        amounts.spent += announced.lines.amounts.spent;
    }
    let transactions = u32::try_from(txids.len()).unwrap_or(u32::MAX);
    let is_partial = all.iter().any(|announced| announced.lines.is_partial);
    let lines = Lines { amounts, is_partial, ..Lines::default() };
    digest_of(NoticeKind::Digest { transactions, is_past: false }, lines)
}

fn digest_of(kind: NoticeKind, lines: Lines) -> Announced {
    Announced { txid: None, kind, subject: Subject::Payment, block: None, lines, spends: Vec::new() }
}

/// The place of a transaction in a snapshot.
fn place(at: &Snapshot, txid: Txid, open: &Open) -> Result<Place> {
    if let Some(block) = open.block
        && at.block_hash(block.height) == Some(block.hash)
    {
        return Ok(Place::Block(block));
    }
    if at.mempool().get(&txid).is_some() {
        return Ok(Place::Mempool);
    }
    if let Some(Confirmation::Confirmed(height)) = at.confirmation(txid)?
        && let Some(hash) = at.block_hash(height)
    {
        return Ok(Place::Block(BlockId { height, hash }));
    }
    for outpoint in &open.spends {
        if let Some((by, _)) = at.mempool().spending_input(outpoint) {
            return Ok(Place::Replaced { by });
        }
    }
    for outpoint in &open.spends {
        match at.spender_of(*outpoint) {
            Ok(Some(spender)) => return Ok(Place::Replaced { by: spender.txid }),
            Ok(None) | Err(ChainError::Removed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Place::Absent)
}

/// Orders notices as their transactions follow each other: by height, the mempool last, and parents first.
fn in_order(mut announced: Vec<Announced>) -> Vec<Announced> {
    announced.sort_by_key(|announced| announced.block.map_or(u32::MAX, |block| block.height.0));
    if announced.len() > ORDERED_MAX {
        return announced;
    }
    let mut waiting: BTreeSet<Option<Txid>> = announced.iter().map(|announced| announced.txid).collect();
    let mut ordered = Vec::with_capacity(announced.len());
    while !announced.is_empty() {
        let has_parent = |announced: &Announced| {
            announced
                .spends
                .iter()
                .any(|spent| Some(spent.txid) != announced.txid && waiting.contains(&Some(spent.txid)))
        };
        let next = announced.iter().position(|announced| !has_parent(announced)).unwrap_or(0);
        let next = announced.remove(next);
        waiting.remove(&next.txid);
        ordered.push(next);
    }
    ordered
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash as _;

    use super::*;

    fn announced(number: u8, kind: NoticeKind, received: u64) -> Announced {
        let lines = Lines { amounts: Amounts { received, spent: 0 }, ..Lines::default() };
        let txid = Some(Txid::from_byte_array([number; 32]));
        Announced { txid, kind, subject: Subject::Payment, block: None, lines, spends: Vec::new() }
    }

    #[test]
    fn a_digest_counts_what_came_and_not_what_is_gone() {
        let by = Txid::from_byte_array([2; 32]);
        let all = [
            announced(1, NoticeKind::Replaced { by }, 50),
            announced(2, NoticeKind::Seen, 50),
            announced(2, NoticeKind::Confirmed { confirmations: 1 }, 50),
            announced(3, NoticeKind::Dropped, 7),
            Announced { subject: Subject::OfKnown, ..announced(4, NoticeKind::Confirmed { confirmations: 1 }, 9) },
        ];
        let Announced { kind, lines, .. } = digest(&all);
        assert_eq!((kind, lines.amounts.received), (NoticeKind::Digest { transactions: 4, is_past: false }, 50));
    }
}
