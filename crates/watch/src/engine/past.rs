//! The digest of the past, once, at the first sight of a watch that asks for it.

use std::collections::BTreeSet;

use birdhouse_chain::{Error as ChainError, Height, Snapshot};
use bitcoin::Txid;

use super::announced::{Announced, digest_of};
use super::moment::Moment;
use super::watched::Watched;
use crate::error::Result;
use crate::limits::{HISTORY_READ_MAX, SCRIPT_HISTORY_MAX};
use crate::notice::{Amounts, NoticeKind};
use crate::state::Lines;

impl Watched {
    /// The digest of the past, where the watch asks for it.
    pub(super) fn history(&mut self, moment: &Moment<'_>) -> Result<Option<Announced>> {
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
}
