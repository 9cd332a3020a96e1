//! A step of every transaction that an update may have changed.

use std::collections::BTreeMap;

use birdhouse_chain::{Height, Snapshot};
use bitcoin::Txid;

use super::announced::{Announced, Subject, in_order};
use super::lines::{self, Read};
use super::moment::Moment;
use super::place::place;
use super::step::{Place, Rules, Step, step, step_silently};
use super::watched::Watched;
use crate::error::Result;
use crate::notice::NoticeKind;
use crate::state::{Changes, Open};

impl Watched {
    /// Takes a step of every transaction that may have changed; returns what to tell.
    pub(super) fn step_all(
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

    /// Reads the transactions that are not open yet.
    fn read_new(&self, at: &Snapshot, found: &BTreeMap<Txid, Option<Height>>) -> Result<BTreeMap<Txid, Open>> {
        let mut fresh = BTreeMap::new();
        for txid in found.keys().filter(|txid| !self.open.contains_key(*txid)) {
            let Some(Read { lines, spends }) = self.read(at, *txid)? else { continue };
            fresh.insert(*txid, Open { block: None, announced: None, absent_since: None, spends, lines });
        }
        Ok(fresh)
    }

    /// Closes transactions below the settled height.
    pub(super) fn settle(&mut self, settled: u32, changes: &mut Changes) {
        let is_settled = |open: &Open| open.block.is_some_and(|block| block.height.0 < settled);
        let closed: Vec<Txid> = self.open.iter().filter(|(_, open)| is_settled(open)).map(|(txid, _)| *txid).collect();
        for txid in closed {
            self.open.remove(&txid);
            changes.open.push((self.settings.name.clone(), txid, None));
        }
    }
}
