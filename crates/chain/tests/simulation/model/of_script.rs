//! The model's answers about one script, made of its transactions and outputs.

use birdhouse_chain::{Balance, Confirmation, Height, HistoryEntry, ScriptStats, UnconfirmedEntry, Unspent};
use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::{OutPoint, ScriptBuf};

use super::{Model, Placed, paid, signed, spent};

/// A confirmed output that pays a script.
pub(super) struct Coin {
    pub(super) height: Height,
    pub(super) outpoint: OutPoint,
    pub(super) value: u64,
    pub(super) is_spent: bool,
}

/// The transactions and outputs of one script at one moment: each answer about the script is made of them.
pub(crate) struct OfScript<'a> {
    pub(super) model: Model<'a>,
    pub(super) script: &'a ScriptBuf,
    /// In chain order.
    pub(super) placed: Vec<Placed<'a>>,
    pub(super) coins: Vec<Coin>,
    pub(crate) unconfirmed: Vec<UnconfirmedEntry>,
}

impl OfScript<'_> {
    pub(crate) fn history(&self) -> Vec<HistoryEntry> {
        let entry = |(height, _, known): &Placed<'_>| HistoryEntry { txid: known.txid, height: Height(*height) };
        self.placed.iter().map(entry).collect()
    }

    /// Electrum's status as the text that is hashed; empty without a history.
    fn status_text(&self) -> String {
        let confirmed = self.placed.iter().map(|(height, _, known)| format!("{}:{height}:", known.hex));
        let height = |entry: &UnconfirmedEntry| if entry.has_unconfirmed_inputs { -1 } else { 0 };
        let hex = |entry: &UnconfirmedEntry| &self.model.at.pool[&entry.txid].hex;
        let unconfirmed = self.unconfirmed.iter().map(|entry| format!("{}:{}:", hex(entry), height(entry)));
        confirmed.chain(unconfirmed).collect()
    }

    pub(crate) fn status(&self) -> Option<[u8; 32]> {
        let text = self.status_text();
        (!text.is_empty()).then(|| sha256::Hash::hash(text.as_bytes()).to_byte_array())
    }

    pub(crate) fn balance(&self) -> Balance {
        let confirmed = self.coins.iter().filter(|coin| !coin.is_spent).map(|coin| coin.value).sum();
        let mut unconfirmed = 0;
        for known in self.model.waiting(self.script) {
            unconfirmed += paid(known, self.script).map(|(_, value)| signed(value)).sum::<i64>();
            unconfirmed -= spent(known, self.script).map(signed).sum::<i64>();
        }
        Balance { confirmed, unconfirmed }
    }

    pub(crate) fn unspent(&self) -> Vec<Unspent> {
        let mut unspent = Vec::new();
        for Coin { height, outpoint, value, is_spent } in &self.coins {
            if !is_spent && self.model.pool_spender(outpoint).is_none() {
                let confirmation = Confirmation::Confirmed(*height);
                unspent.push(Unspent { txid: outpoint.txid, vout: outpoint.vout, confirmation, value: *value });
            }
        }
        for entry in &self.unconfirmed {
            let confirmation = Confirmation::Unconfirmed { has_unconfirmed_inputs: entry.has_unconfirmed_inputs };
            for (outpoint, value) in paid(&self.model.at.pool[&entry.txid], self.script) {
                if self.model.pool_spender(&outpoint).is_none() {
                    unspent.push(Unspent { txid: entry.txid, vout: outpoint.vout, confirmation, value });
                }
            }
        }
        unspent
    }

    pub(crate) fn confirmed_stats(&self) -> ScriptStats {
        let mut stats = ScriptStats { txs: self.placed.len() as u64, ..ScriptStats::default() };
        for coin in &self.coins {
            stats.funded += 1;
            stats.funded_sum += coin.value;
            if coin.is_spent {
                stats.spent += 1;
                stats.spent_sum += coin.value;
            }
        }
        stats
    }
}
