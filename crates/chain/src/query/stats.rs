//! Counts and sums over everything that ever paid a script or was spent from it.

use std::collections::HashMap;

use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};

use crate::block::{Block, outpoints_of};
use crate::error::{Error, Result};
use crate::names::{ScriptHash, ScriptKey, TxNum};
use crate::rows::{Found, Kind, Pack, Summary, Tally};
use crate::state::{ScriptStats, Snapshot};

impl Snapshot {
    /// Returns counts and sums of a script in blocks. Rows have them, but for scripts with few transactions, which are
    /// read: some hundred at most.
    pub fn confirmed_stats(&self, scripthash: &ScriptHash) -> Result<ScriptStats> {
        let key = self.key_of(scripthash)?;
        if !self.stale.is_empty() || self.is_paid_by_overwritten(key)? {
            return self.stats_by_transactions(scripthash, key);
        }
        let (mut txs, mut funded, mut spent) = (0, Tally::default(), Tally::default());
        for pack in &self.tables.packs {
            let Some((summary, uncounted)) = self.summary_in(pack, key)? else { continue };
            let inner = self.spent_among(scripthash, &uncounted)?;
            txs += summary.txs;
            for counted in [summary.inner, inner] {
                funded.add(counted);
                spent.add(counted);
            }
            funded.add(summary.coins);
            spent.add(summary.spends);
        }
        for (_, row) in self.recent(key, TxNum(0))? {
            txs += 1;
            let sum = row.funded.iter().map(|(_, value)| value).sum();
            funded.add(Tally { count: row.funded.len() as u64, sum });
            spent.add(Tally::of(&row.spent));
        }
        if let Some(coin) = self.genesis_output(key) {
            txs += 1;
            funded.add(Tally::of(&[coin]));
        }
        Ok(ScriptStats { txs, funded: funded.count, funded_sum: funded.sum, spent: spent.count, spent_sum: spent.sum })
    }

    /// Returns counts and sums of a script in the mempool.
    pub fn unconfirmed_stats(&self, scripthash: &ScriptHash) -> ScriptStats {
        self.mempool.stats_of(scripthash)
    }

    /// The counts and sums of a script in a pack, and the transactions whose inner outputs they leave out.
    fn summary_in(&self, pack: &Pack, key: ScriptKey) -> Result<Option<(Summary, Vec<TxNum>)>> {
        let (summary, mut txnums) = match self.found(pack, key)? {
            None => return Ok(None),
            Some(Found::Inline(part)) => (Summary::of(&part), part.txnums),
            Some(Found::Long) => match self.summary(pack, key)? {
                summary @ Summary { uncounted: 0, .. } => (summary, Vec::new()),
                summary => (summary, self.long_part(pack, key, &[Kind::History])?.txnums),
            },
        };
        txnums.truncate(usize::try_from(summary.uncounted).unwrap_or(usize::MAX));
        Ok(Some((summary, txnums)))
    }

    /// The outputs of a script that these transactions fund and spend.
    fn spent_among(&self, scripthash: &ScriptHash, txnums: &[TxNum]) -> Result<Tally> {
        let mut spent = Tally::default();
        if txnums.len() < 2 {
            return Ok(spent);
        }
        self.budget.charge_lookups(txnums.len())?;
        let mut funded: HashMap<OutPoint, u64> = HashMap::new();
        for (txid, raw) in self.raws_of(txnums)? {
            for outpoint in outpoints_of(&raw).map_err(Error::unreadable_block)? {
                if let Some(value) = funded.remove(&outpoint) {
                    spent.add(Tally { count: 1, sum: value });
                }
            }
            let paid = paid_to(scripthash, &raw)?;
            funded.extend(paid.into_iter().map(|(vout, value)| (OutPoint { txid, vout }, value)));
        }
        Ok(spent)
    }

    /// The sums of a script whose rows count too much, after a reorg of packed blocks until the next merge, or for an
    /// overwritten coinbase: funded is what its transactions pay, spent is what is left
    /// of that without the unspent outputs.
    fn stats_by_transactions(&self, scripthash: &ScriptHash, key: ScriptKey) -> Result<ScriptStats> {
        let txnums = self.listed_txnums(key, TxNum(0))?;
        self.budget.charge_lookups(txnums.len())?;
        let mut funded = Tally::default();
        for txnum in &txnums {
            for (_, raw) in self.raws_of(&[*txnum])? {
                for (_, value) in paid_to(scripthash, &raw)? {
                    funded.add(Tally { count: 1, sum: value });
                }
            }
        }
        let unspent = Tally::of(&self.listed_coins(key)?);
        Ok(ScriptStats {
            txs: txnums.len() as u64,
            funded: funded.count,
            funded_sum: funded.sum,
            spent: funded.count.saturating_sub(unspent.count),
            spent_sum: funded.sum.saturating_sub(unspent.sum),
        })
    }

    /// Txids and bytes of live transactions.
    fn raws_of(&self, txnums: &[TxNum]) -> Result<Vec<(Txid, Vec<u8>)>> {
        let txids = self.txids_of(txnums)?;
        let raws = self.proven_raws(&txids, txnums, usize::MAX)?;
        Ok(txids.into_iter().map(Txid::from_byte_array).zip(raws).collect())
    }
}

/// The outputs of a serialised transaction that pay a script: vout and satoshis.
fn paid_to(scripthash: &ScriptHash, raw: &[u8]) -> Result<Vec<(u32, u64)>> {
    let parsed = Block::of_transaction(raw).map_err(Error::unreadable_block)?;
    let paid = parsed.outputs.iter().filter(|output| ScriptHash::of(output.script) == *scripthash);
    Ok(paid.map(|output| (output.vout, output.value)).collect())
}
