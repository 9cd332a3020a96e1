//! Reading of the scripts that an update touched, and of those that the window gains.

use std::collections::{BTreeMap, BTreeSet};

use birdhouse_chain::{Balance, Error as ChainError, Height, ScriptHash, Snapshot};
use bitcoin::Txid;

use super::moment::Moment;
use super::watched::Watched;
use crate::error::Result;
use crate::limits::SCRIPT_HISTORY_MAX;

impl Watched {
    pub(super) fn resolve_outpoint(&mut self, at: &Snapshot) -> Result<()> {
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
    pub(super) fn read_scripts(
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
        let from = self.silent.since.get(script).map_or(settled, |found| settled.min(*found));
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
}
