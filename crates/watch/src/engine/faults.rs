//! Faults of single watches: what cannot be read silences the watch that needs it, and no other one.
//!
//! The others and the cursor go on. Of a watch that failed, what is committed stays, with the block that was announced
//! last of it. After a pause it reads all its scripts, and announces everything since that block.

use std::collections::BTreeSet;

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Error as ChainError, ScriptHash};
use bitcoin::Txid;

use super::moment::{Moment, Scope};
use super::retry::Retry;
use super::silent::Scans;
use super::watched::Watched;
use crate::error::Result;
use crate::state::{Changes, Open, Routed, WatchRecord};

/// The result of a look at one watch.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) routed: Vec<Routed>,
    pub(super) changes: Changes,
}

impl Looked {
    /// Adds the result of another watch.
    pub(super) fn extend(&mut self, other: Self) {
        self.routed.extend(other.routed);
        self.changes.extend(other.changes);
    }
}

impl Watched {
    /// Takes steps of all transactions that an update may have changed. After an error nothing of the watch is as it
    /// was committed: [`Self::fail`] sees to that.
    pub(super) fn look(
        &mut self,
        scans: &Scans<'_>,
        moment: &Moment<'_>,
        touched: BTreeSet<ScriptHash>,
    ) -> Result<Looked> {
        let moment = &self.own_moment(moment);
        let is_all = moment.scope == Scope::All || self.is_behind() || self.record.is_none();
        let mut scripts = if is_all { self.scripts() } else { touched };
        self.scan(scans, moment, &mut scripts);
        let mut changes = Changes::default();
        let routed = if self.awaits_scan() { Vec::new() } else { self.tell(moment, scripts, &mut changes)? };
        self.retry = None;
        Ok(Looked { routed, changes })
    }

    /// Keeps a failure as the fault of the watch until a later look ends well. `open` are its open transactions as they
    /// are committed, and `cursor` is the block that was announced last. Returns the record that is to be committed.
    pub(super) fn fail(
        &mut self,
        error: &ChainError,
        moment: &Moment<'_>,
        cursor: Option<BlockId>,
        open: Vec<(Txid, Open)>,
    ) -> Option<WatchRecord> {
        let fault = format!("{error}; what comes is announced once this can be read");
        if self.retry.is_none() || self.fault.as_ref() != Some(&fault) {
            tracing::warn!(%error, "failed to look for payments of a watch; trying again");
        }
        self.fault = Some(fault);
        self.retry = Some(Retry::after(self.retry, moment.now));
        self.open = open.into_iter().collect();
        self.silent.is_behind = false;
        let record = self.record.as_mut().filter(|record| record.behind.is_none())?;
        record.behind = cursor;
        Some(record.clone())
    }

    /// True if there are updates that the watch has not seen.
    fn is_behind(&self) -> bool {
        self.retry.is_some() || self.record.as_ref().is_some_and(|record| record.behind.is_some())
    }

    /// The moment as it is for this watch: one that is behind has not seen what was announced of the others.
    fn own_moment<'a>(&self, moment: &Moment<'a>) -> Moment<'a> {
        match self.record.as_ref().and_then(|record| record.behind) {
            Some(seen) => moment.since(seen),
            None => *moment,
        }
    }
}
