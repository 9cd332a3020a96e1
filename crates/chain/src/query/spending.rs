//! Search for the transactions that spend outputs of one script.
//!
//! No table names a spender. A row of a delta has the outputs that its transaction spends. Packs tell which of them
//! holds the spender: an output is spent in the pack that funds it if it is not among that pack's coins, and in a later
//! pack if it is among its spends. Only transactions of the script in that pack, after the funding one, are read, the
//! earliest first. An unspent output costs one row of each pack. Where the first few hundred are in vain, the node is
//! asked, which may keep an index of spenders: without one, the search goes on.
//!
//! The node answers at once if it runs with `txospenderindex=1`. An index of our own would need an entry for each spent
//! output.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use birdhouse_store::{Direction, KeyRange};
use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};

use crate::block::outpoints_of;
use crate::error::{Error, Result};
use crate::names::{ScriptKey, TxNum};
use crate::rows::{Coin, Found, Kind, Pack, TxOutNum, long, txnum_bytes};
use crate::state::Snapshot;

/// Candidates that are listed together: few at first, because most outputs are spent soon.
const FIRST_CANDIDATES: usize = 8;
const CANDIDATES_MAX: usize = 1024;
/// The most candidates that are read before the node is asked.
const READ_BEFORE_ASKING: usize = 256;

/// A transaction with outputs of one script.
#[derive(Debug, Clone, Copy)]
pub(super) struct Funding {
    pub(super) txid: Txid,
    pub(super) txnum: TxNum,
    pub(super) key: ScriptKey,
}

/// An input that spends an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spending {
    /// The output.
    pub(super) vout: u32,
    /// The spending transaction.
    pub(super) txnum: TxNum,
    /// Index of the input in it.
    pub(super) vin: u32,
}

/// Proof of the transactions that a search reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Only those that seem to spend a wanted output are proved: hashing takes most of the time.
    Lean,
    /// All are proved.
    Proved,
}

impl Snapshot {
    /// Finds the confirmed inputs that spend some outputs of a transaction, all of one script.
    pub(super) fn spendings(&self, funding: Funding, mut vouts: HashSet<u32>) -> Result<Vec<Spending>> {
        let mut found = Vec::new();
        for (txnum, row) in self.recent(funding.key, funding.txnum)? {
            let is_wanted = |coin: &Coin| coin.out.txnum == funding.txnum && vouts.contains(&coin.out.vout);
            if row.spent.iter().any(is_wanted) {
                self.note_inputs(funding.txid, txnum, &mut vouts, &mut found)?;
            }
        }
        for (range, mut vouts) in self.spending_ranges(funding.key, funding.txnum, &vouts)? {
            let range = TxNum(range.0)..TxNum(range.1);
            self.search(funding, range.clone(), Reading::Lean, &mut vouts, &mut found)?;
            if !vouts.is_empty() {
                // Damaged bytes may have hidden the input. (A coinbase that a later one replaced has no spender.)
                self.search(funding, range, Reading::Proved, &mut vouts, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Returns those of some outputs of a transaction, all of one script, that blocks spend. No spender is read.
    pub(super) fn spent_vouts(&self, key: ScriptKey, txnum: TxNum, mut vouts: HashSet<u32>) -> Result<HashSet<u32>> {
        let mut spent = HashSet::new();
        for (_, row) in self.recent(key, txnum)? {
            let of_transaction = row.spent.iter().filter(|coin| coin.out.txnum == txnum);
            spent.extend(of_transaction.filter_map(|coin| vouts.take(&coin.out.vout)));
        }
        spent.extend(self.spending_ranges(key, txnum, &vouts)?.into_values().flatten());
        Ok(spent)
    }

    /// The ranges of txnums in which packed transactions spend outputs; unspent ones are in none.
    fn spending_ranges(
        &self,
        key: ScriptKey,
        txnum: TxNum,
        vouts: &HashSet<u32>,
    ) -> Result<BTreeMap<(u64, u64), HashSet<u32>>> {
        let mut ranges: BTreeMap<_, HashSet<u32>> = BTreeMap::new();
        if !self.stale.is_empty() && !vouts.is_empty() {
            // Packs tell what stale transactions spent, too.
            let mut vouts = vouts.clone();
            for coin in self.script_coins(key)? {
                if coin.out.txnum == txnum {
                    vouts.remove(&coin.out.vout);
                }
            }
            ranges.insert((txnum.0 + 1, self.packs_end().0), vouts);
            return Ok(ranges);
        }
        for vout in vouts {
            if let Some(range) = self.spending_range(key, TxOutNum { txnum, vout: *vout })? {
                ranges.entry((range.start.0, range.end.0)).or_default().insert(*vout);
            }
        }
        Ok(ranges)
    }

    fn spending_range(&self, key: ScriptKey, out: TxOutNum) -> Result<Option<Range<TxNum>>> {
        for pack in self.packs_with(key).filter(|pack| out.txnum < pack.end) {
            let is_funded_here = pack.start <= out.txnum;
            let is_spent_here = if is_funded_here {
                !self.has_output(pack, key, Kind::Coins, out)?
            } else {
                self.has_output(pack, key, Kind::Spends, out)?
            };
            if is_spent_here {
                return Ok(Some(pack.start.max(TxNum(out.txnum.0 + 1))..pack.end));
            }
        }
        Ok(None)
    }

    /// True if a script has an output among its coins, or its spends, in a pack.
    fn has_output(&self, pack: &Pack, key: ScriptKey, kind: Kind, out: TxOutNum) -> Result<bool> {
        Ok(self.packed_output(pack, key, kind, out)?.is_some())
    }

    /// An output among the coins, or the spends, of a script in a pack. Of a long script, one row is read.
    pub(super) fn packed_output(&self, pack: &Pack, key: ScriptKey, kind: Kind, out: TxOutNum) -> Result<Option<Coin>> {
        let outputs = match self.found(pack, key)? {
            None => Vec::new(),
            Some(Found::Inline(part)) if kind == Kind::Coins => part.coins,
            Some(Found::Inline(part)) => part.spends,
            Some(Found::Long) => self.outputs_about(pack, key, kind, out)?,
        };
        Ok(outputs.into_iter().find(|coin| coin.out == out))
    }

    /// The outputs of the one row of a long script that can have an output.
    fn outputs_about(&self, pack: &Pack, key: ScriptKey, kind: Kind, out: TxOutNum) -> Result<Vec<Coin>> {
        let (table, prefix) = (long::table(pack), long::key_prefix(key, kind));
        // The row that has it begins with it or before it.
        let mut range = KeyRange::prefix(&prefix, Direction::Backward);
        range.end = [&prefix[..], &txnum_bytes(out.txnum), &out.vout.to_be_bytes(), &[0]].concat();
        let mut outputs = Vec::new();
        for (key, value) in self.reader().page(table, range, 1)?.0 {
            long::decode_coins(&key, &value, &mut outputs).map_err(Error::malformed(table))?;
        }
        Ok(outputs)
    }

    /// Reads the script's transactions in a range until all outputs are found.
    fn search(
        &self,
        funding: Funding,
        range: Range<TxNum>,
        reading: Reading,
        vouts: &mut HashSet<u32>,
        found: &mut Vec<Spending>,
    ) -> Result<()> {
        let (mut from, mut together, mut read) = (range.start, FIRST_CANDIDATES, 0);
        let mut is_asked = false;
        while !vouts.is_empty() {
            if read + together > READ_BEFORE_ASKING && !std::mem::replace(&mut is_asked, true) {
                self.ask_node(funding.txid, &range, vouts, found)?;
                continue;
            }
            let mut candidates = self.oldest_txnums(funding.key, from, together)?;
            let is_last = candidates.len() < together;
            candidates.retain(|txnum| *txnum < range.end);
            let Some(last) = candidates.last().copied() else { return Ok(()) };
            read += candidates.len();
            self.budget.charge_lookups(read)?;
            for txnum in candidates {
                if reading == Reading::Proved || self.seems_to_spend(funding.txid, txnum, vouts)? {
                    self.note_inputs(funding.txid, txnum, vouts, found)?;
                }
            }
            if is_last {
                return Ok(());
            }
            (from, together) = (TxNum(last.0 + 1), (2 * together).min(CANDIDATES_MAX));
        }
        Ok(())
    }

    /// Adds the inputs that the node finds in an index of its own. What it says is read and proved like a candidate.
    fn ask_node(
        &self,
        txid: Txid,
        range: &Range<TxNum>,
        vouts: &mut HashSet<u32>,
        found: &mut Vec<Spending>,
    ) -> Result<()> {
        let Some(node) = self.shared.node_of_clients.get() else { return Ok(()) };
        let wanted: Vec<OutPoint> = vouts.iter().map(|vout| OutPoint { txid, vout: *vout }).collect();
        // The search goes on without a node that does not answer, or does not know the call (Core before 24).
        let spending = node.spending_txids(&wanted).unwrap_or_default();
        for spending in spending.into_iter().collect::<BTreeSet<_>>() {
            if let Some(txnum) = self.find_txnum(&spending.to_byte_array())?
                && range.contains(&txnum)
            {
                self.note_inputs(txid, txnum, vouts, found)?;
            }
        }
        Ok(())
    }

    /// True if a transaction spends one of the outputs, by bytes that are not proved, or if these cannot be read.
    fn seems_to_spend(&self, txid: Txid, txnum: TxNum, vouts: &HashSet<u32>) -> Result<bool> {
        let Some(raw) = self.unproven_raw(txnum)? else { return Ok(true) };
        let is_wanted = |spent: &bitcoin::OutPoint| spent.txid == txid && vouts.contains(&spent.vout);
        Ok(outpoints_of(&raw).map_or(true, |spent| spent.iter().any(is_wanted)))
    }

    /// Adds the inputs of a transaction that spend outputs of `txid`, and removes their vouts.
    fn note_inputs(&self, txid: Txid, txnum: TxNum, vouts: &mut HashSet<u32>, found: &mut Vec<Spending>) -> Result<()> {
        let raw = self.proven_raw(&self.txids_of(&[txnum])?[0], txnum)?;
        for (vin, spent) in (0..).zip(outpoints_of(&raw).map_err(Error::unreadable_block)?) {
            if spent.txid == txid && vouts.remove(&spent.vout) {
                found.push(Spending { vout: spent.vout, txnum, vin });
            }
        }
        Ok(())
    }
}
