//! State of one script during the build: the fold of its records. Pure.
//!
//! Invariants: coins are the outputs that the records applied so far fund and do not spend, in chain order; records are
//! applied in chain order.

use std::collections::HashMap;

use crate::build::record::{Record, Side};
use crate::bytes::{Cursor, Malformed, put_leb128};
use crate::part::Tally;
use crate::prefix::ScriptKey;
use crate::rows::recent::Recent;
use crate::rows::{Coin, TxOutNum};
use crate::txnum::TxNum;

/// The transactions and coins of one script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptState {
    /// The transactions that touch the script, ascending.
    pub(crate) txnums: Vec<TxNum>,
    /// Its unspent outputs, ascending.
    pub(crate) coins: Vec<Coin>,
    /// The keyed hash of each coin's txid, because inputs name outputs by txid.
    fundings: Vec<u64>,
    /// Outputs that were spent.
    pub(crate) spent: Tally,
}

/// Treatment of an input that spends an output which none of the records funded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// An error: all records of the script are here, so block and undo data disagree.
    Refuse,
    /// Ignored: the records cover only a part of the chain.
    Ignore,
}

/// The error of an input that spends no output of its script: block and undo data disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnknownCoin {
    /// The spending transaction.
    pub(crate) txnum: TxNum,
}

impl Unknown {
    fn check(self, record: &Record) -> Result<(), UnknownCoin> {
        match self {
            Self::Refuse => Err(UnknownCoin { txnum: record.txnum() }),
            Self::Ignore => Ok(()),
        }
    }
}

/// The most coins times spends for which a plain search beats a map.
const SEARCH_MAX: usize = 1024;

impl ScriptState {
    pub(crate) fn clear(&mut self) {
        self.txnums.clear();
        self.coins.clear();
        self.fundings.clear();
        self.spent = Tally::default();
    }

    /// Applies records of this script, in chain order.
    pub(crate) fn apply(&mut self, records: &[Record], unknown: Unknown) -> Result<(), UnknownCoin> {
        let mut spends = 0;
        for record in records {
            if self.txnums.last() != Some(&record.txnum()) {
                self.txnums.push(record.txnum());
            }
            match record.side() {
                Side::Funded => {
                    let out = TxOutNum { txnum: record.txnum(), vout: record.vout() };
                    self.coins.push(Coin { out, value: record.satoshis() });
                    self.fundings.push(record.funding());
                }
                Side::Spent => spends += 1,
            }
        }
        if self.coins.len() * (spends + self.coins.len() / 8) <= SEARCH_MAX {
            self.drop_overwritten_by_search();
            if spends > 0 {
                self.spend_by_search(records, unknown)?;
            }
            Ok(())
        } else {
            self.spend_by_map(records, unknown)
        }
    }

    /// The rows of the transactions of later records, one each: spends name the outputs that this state and those
    /// records fund.
    pub(crate) fn tip_rows(&self, records: &[Record]) -> Result<Vec<(TxNum, Recent)>, UnknownCoin> {
        let spends = records.iter().filter(|record| record.side() == Side::Spent);
        // The funding transactions of the outputs that are spent; of two with one txid, the later.
        let mut funding: HashMap<(u64, u32), Option<TxNum>> =
            spends.map(|record| ((record.funding(), record.vout()), None)).collect();
        if !funding.is_empty() {
            for (coin, hash) in self.coins.iter().zip(&self.fundings) {
                if let Some(txnum) = funding.get_mut(&(*hash, coin.out.vout)) {
                    *txnum = Some(coin.out.txnum);
                }
            }
        }
        let mut rows: Vec<(TxNum, Recent)> = Vec::new();
        for record in records {
            if rows.last().is_none_or(|(txnum, _)| *txnum != record.txnum()) {
                rows.push((record.txnum(), Recent::default()));
            }
            let (_, row) = rows.last_mut().expect("just pushed");
            match record.side() {
                Side::Funded => {
                    if let Some(txnum) = funding.get_mut(&(record.funding(), record.vout())) {
                        *txnum = Some(record.txnum());
                    }
                    row.funded.push((record.vout(), record.satoshis()));
                }
                Side::Spent => {
                    let txnum = funding[&(record.funding(), record.vout())];
                    let txnum = txnum.ok_or(UnknownCoin { txnum: record.txnum() })?;
                    let out = TxOutNum { txnum, vout: record.vout() };
                    row.spent.push(Coin { out, value: record.satoshis() });
                }
            }
        }
        Ok(rows)
    }

    fn spend_by_search(&mut self, records: &[Record], unknown: Unknown) -> Result<(), UnknownCoin> {
        for record in records.iter().filter(|record| record.side() == Side::Spent) {
            let mut coins = self.coins.iter().zip(&self.fundings);
            let spent =
                coins.position(|(coin, funding)| *funding == record.funding() && coin.out.vout == record.vout());
            let Some(spent) = spent else {
                unknown.check(record)?;
                continue;
            };
            self.count_spent(self.coins[spent].value);
            self.coins.remove(spent);
            self.fundings.remove(spent);
        }
        Ok(())
    }

    /// Removes outputs that a later one replaces: two coinbases of 2010 have the txids of earlier ones
    /// ([BIP 30](https://github.com/bitcoin/bips/blob/master/bip-0030.mediawiki)).
    fn drop_overwritten_by_search(&mut self) {
        let mut index = 0;
        while index + 1 < self.coins.len() {
            let same = |later: usize| {
                self.fundings[later] == self.fundings[index] && self.coins[later].out.vout == self.coins[index].out.vout
            };
            if (index + 1..self.coins.len()).any(same) {
                self.count_spent(self.coins[index].value);
                self.coins.remove(index);
                self.fundings.remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Does both of the above for long lists.
    fn spend_by_map(&mut self, records: &[Record], unknown: Unknown) -> Result<(), UnknownCoin> {
        let mut last: HashMap<(u64, u32), usize> = HashMap::with_capacity(self.coins.len());
        for (index, (coin, funding)) in self.coins.iter().zip(&self.fundings).enumerate() {
            last.insert((*funding, coin.out.vout), index);
        }
        for record in records.iter().filter(|record| record.side() == Side::Spent) {
            if last.remove(&(record.funding(), record.vout())).is_none() {
                unknown.check(record)?;
            }
        }
        let mut kept: Vec<usize> = last.into_values().collect();
        kept.sort_unstable();
        let (coins, fundings) = (std::mem::take(&mut self.coins), std::mem::take(&mut self.fundings));
        let funded_sum: u64 = coins.iter().map(|coin| coin.value).sum();
        self.coins = kept.iter().map(|&index| coins[index]).collect();
        self.fundings = kept.iter().map(|&index| fundings[index]).collect();
        self.spent.count += (coins.len() - self.coins.len()) as u64;
        self.spent.sum += funded_sum - self.coins.iter().map(|coin| coin.value).sum::<u64>();
        Ok(())
    }

    fn count_spent(&mut self, value: u64) {
        self.spent.add(Tally { count: 1, sum: value });
    }

    /// Appends the form in which a run keeps a state:
    /// `script key 9 | txnums | coins with fundings | spent outputs | their sum`, numbers LEB128, txnums as
    /// differences.
    pub(crate) fn encode(&self, key: ScriptKey, out: &mut Vec<u8>) {
        out.extend_from_slice(&key.to_bytes());
        put_leb128(out, self.txnums.len() as u64);
        let mut last = 0;
        for txnum in &self.txnums {
            put_leb128(out, txnum.0 - last);
            last = txnum.0;
        }
        put_leb128(out, self.coins.len() as u64);
        for (coin, funding) in self.coins.iter().zip(&self.fundings) {
            put_leb128(out, coin.out.txnum.0);
            put_leb128(out, coin.out.vout.into());
            put_leb128(out, coin.value);
            out.extend_from_slice(&funding.to_le_bytes());
        }
        put_leb128(out, self.spent.count);
        put_leb128(out, self.spent.sum);
    }

    /// Replaces the state by an encoded one. Returns its key.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Result<ScriptKey, Malformed> {
        self.clear();
        let mut cursor = Cursor::new(bytes);
        let key = ScriptKey::from_bytes(*cursor.array("script key")?);
        let mut last = 0_u64;
        for _ in 0..cursor.leb128("txnums")? {
            last = last.saturating_add(cursor.leb128("txnum")?);
            self.txnums.push(TxNum(last));
        }
        for _ in 0..cursor.leb128("coins")? {
            let txnum = TxNum(cursor.leb128("coin")?);
            let vout = cursor.leb128("vout")?;
            let vout = u32::try_from(vout).map_err(|_| cursor.malformed("vout"))?;
            self.coins.push(Coin { out: TxOutNum { txnum, vout }, value: cursor.leb128("amount")? });
            self.fundings.push(cursor.u64_le("funding")?);
        }
        self.spent = Tally { count: cursor.leb128("spent outputs")?, sum: cursor.leb128("spent sum")? };
        if cursor.is_at_end() { Ok(key) } else { Err(cursor.malformed("script state")) }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: ScriptKey = ScriptKey { prefix: 1, check: 2 };

    /// Random payments to one script and spends of them, with the model's answer.
    fn records(steps: Vec<(bool, u32, u64)>) -> (Vec<Record>, Vec<Coin>) {
        let (mut records, mut model) = (Vec::new(), Vec::<(Coin, u64)>::new());
        for (index, (spend, vout, value)) in steps.into_iter().enumerate() {
            let txnum = TxNum(index as u64 / 2);
            if spend && model.iter().any(|(coin, _)| coin.out.txnum < txnum) {
                let candidates = model.iter().filter(|(coin, _)| coin.out.txnum < txnum).count();
                let (coin, funding) = model.remove(usize::try_from(value).unwrap() % candidates);
                records.push(Record::new(KEY, Side::Spent, txnum, coin.out.vout, coin.value, funding).unwrap());
            } else {
                let vout = vout * 2 + u32::from(index % 2 == 1);
                let funding = txnum.0 * 7919;
                records.push(Record::new(KEY, Side::Funded, txnum, vout, value, funding).unwrap());
                model.push((Coin { out: TxOutNum { txnum, vout }, value }, funding));
            }
        }
        records.sort_by_key(Record::order);
        let mut coins: Vec<Coin> = model.into_iter().map(|(coin, _)| coin).collect();
        coins.sort_unstable();
        (records, coins)
    }

    proptest! {
        #[test]
        fn coins_are_what_was_funded_and_not_spent(
            steps in prop::collection::vec((any::<bool>(), 0..3_u32, 0..1_u64 << 50), 1..300), cut in 0.0..1.0_f64,
        ) {
            let (records, coins) = records(steps);
            let mut at_once = ScriptState::default();
            at_once.apply(&records, Unknown::Refuse).unwrap();
            prop_assert_eq!(&at_once.coins, &coins);
            let funded = records.iter().filter(|record| record.side() == Side::Funded);
            let funded = Tally { count: funded.clone().count() as u64, sum: funded.map(Record::satoshis).sum() };
            let mut all = at_once.spent;
            all.add(Tally::of(&coins));
            prop_assert_eq!(all, funded);

            // The same in two generations, with the state put away in between.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
            let mut cut = (records.len() as f64 * cut) as usize;
            while cut > 0 && records[cut - 1].txnum() == records[cut].txnum() {
                cut -= 1;
            }
            let mut first = ScriptState::default();
            first.apply(&records[..cut], Unknown::Refuse).unwrap();
            let (mut bytes, mut second) = (Vec::new(), ScriptState::default());
            first.encode(KEY, &mut bytes);
            prop_assert_eq!(second.decode(&bytes).unwrap(), KEY);
            prop_assert_eq!(&second, &first);
            second.apply(&records[cut..], Unknown::Refuse).unwrap();
            prop_assert_eq!(second, at_once);
        }
    }

    #[test]
    fn an_input_that_spends_nothing_known_is_refused() {
        let record = Record::new(KEY, Side::Spent, TxNum(5), 0, 1, 1).unwrap();
        assert_eq!(ScriptState::default().apply(&[record], Unknown::Refuse), Err(UnknownCoin { txnum: TxNum(5) }));
    }

    #[test]
    fn a_coinbase_with_an_earlier_txid_takes_its_place() {
        let record = |txnum| Record::new(KEY, Side::Funded, TxNum(txnum), 0, 50, 99).unwrap();
        let mut state = ScriptState::default();
        state.apply(&[record(1), record(2)], Unknown::Refuse).unwrap();
        assert_eq!(state.coins, [Coin { out: TxOutNum { txnum: TxNum(2), vout: 0 }, value: 50 }]);
        assert_eq!(state.txnums, [TxNum(1), TxNum(2)]);
        assert_eq!(state.spent, Tally { count: 1, sum: 50 });
    }
}
