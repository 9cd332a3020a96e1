//! State of one script during the build: the fold of its records. Pure.
//!
//! Invariants: coins are the outputs that the records applied so far fund and do not spend, in chain order; records are
//! applied in chain order.

use std::collections::HashMap;

use crate::block::{Cursor, Malformed, put_leb128};
use crate::build::funding::{Naming, UNNAMED};
use crate::build::record::{Record, Side};
use crate::error::Error;
use crate::names::TxNum;
use crate::rows::{Coin, Recent, Tally, TxOutNum, amount, put_amount};

/// The transactions and coins of one script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptState {
    /// The transactions that touch the script, ascending.
    pub(crate) txnums: Vec<TxNum>,
    /// Its unspent outputs, ascending.
    pub(crate) coins: Vec<Coin>,
    /// The name of each coin's funding transaction ([`funding`](super::funding)); [`UNNAMED`] if its place is enough.
    fundings: Vec<u64>,
    /// Outputs that were spent.
    pub(crate) spent: Tally,
    /// Spends of outputs that were funded before the first of the records, in chain order.
    earlier: Vec<Spend>,
}

/// An output, by the name of its funding transaction, and the transaction that spends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spend {
    spender: TxNum,
    funding: u64,
    vout: u32,
}

/// Treatment of an input that spends an output which none of the records funded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// An error: all records of the script are here, so block and undo data disagree.
    Refuse,
    /// Ignored: the records cover only a part of the chain.
    Ignore,
    /// Kept: [`ScriptState::append`] finds the output in the state of earlier records.
    Keep,
}

/// The error of an input that spends no output of its script: block and undo data disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnknownCoin {
    /// The spending transaction.
    pub(super) txnum: TxNum,
}

impl From<UnknownCoin> for Error {
    fn from(unknown: UnknownCoin) -> Self {
        Self::UnknownCoin { txnum: unknown.txnum }
    }
}

/// The most coins times spends for which a plain search beats a map.
const SEARCH_MAX: usize = 1024;
/// The most coins of one block that may lack a name. It bounds the search for one of them.
const UNNAMED_MAX: usize = 16;

/// Outputs that records spend, by name and number, and the transactions that funded them.
struct Outputs(Vec<((u64, u32), Option<TxNum>)>);

impl Outputs {
    fn spent_by(records: &[Record]) -> Self {
        let spends = records.iter().filter_map(Spend::of);
        let mut outputs: Vec<_> = spends.map(|spend| ((spend.funding, spend.vout), None)).collect();
        outputs.sort_unstable();
        outputs.dedup();
        Self(outputs)
    }

    /// Notes that a transaction has funded an output; of two with one txid, the later counts.
    fn found(&mut self, name: u64, vout: u32, txnum: TxNum) {
        if let Ok(index) = self.0.binary_search_by_key(&(name, vout), |(output, _)| *output) {
            self.0[index].1 = Some(txnum);
        }
    }

    fn funding_of(&self, spend: &Spend) -> Option<TxNum> {
        let index = self.0.binary_search_by_key(&(spend.funding, spend.vout), |(output, _)| *output).ok()?;
        self.0[index].1
    }
}

impl Spend {
    fn of(record: &Record) -> Option<Self> {
        let spend = || Self { spender: record.txnum(), funding: record.funding(), vout: record.vout() };
        (record.side() == Side::Spent).then(spend)
    }
}

impl ScriptState {
    pub(crate) fn clear(&mut self) {
        self.txnums.clear();
        self.coins.clear();
        self.fundings.clear();
        self.spent = Tally::default();
        self.earlier.clear();
    }

    /// Applies records of this script, in chain order, to a state whose coins have names.
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
        self.spend(records.iter().filter_map(Spend::of), spends, unknown, &[])
    }

    /// Applies the state of later records, which it leaves empty. `first_txnums` has the first txnum of each block.
    ///
    /// # Errors
    /// [`UnknownCoin`] when the later records spend an output that neither of the two states has.
    pub(super) fn append(&mut self, later: &mut Self, first_txnums: &[TxNum]) -> Result<(), UnknownCoin> {
        self.txnums.append(&mut later.txnums);
        self.coins.append(&mut later.coins);
        self.fundings.append(&mut later.fundings);
        self.spent.add(std::mem::take(&mut later.spent));
        let spends = later.earlier.len();
        self.spend(later.earlier.drain(..), spends, Unknown::Refuse, first_txnums)
    }

    /// Checks that the records fund every output that they spend.
    pub(super) fn check_whole(&self) -> Result<(), UnknownCoin> {
        self.check_whole_but(|_| false)
    }

    /// Checks that the records fund every output that they spend, but for transactions with names that are `known`.
    pub(crate) fn check_whole_but(&self, known: impl Fn(u64) -> bool) -> Result<(), UnknownCoin> {
        let unknown = self.earlier.iter().find(|spend| !known(spend.funding));
        unknown.map_or(Ok(()), |spend| Err(UnknownCoin { txnum: spend.spender }))
    }

    /// The rows of the transactions of later records, one each: spends name the outputs that this state and those
    /// records fund.
    pub(super) fn tip_rows(
        &self,
        records: &[Record],
        first_txnums: &[TxNum],
    ) -> Result<Vec<(TxNum, Recent)>, UnknownCoin> {
        let mut outputs = Outputs::spent_by(records);
        if !outputs.0.is_empty() {
            for (coin, name) in self.coins.iter().zip(&self.fundings) {
                outputs.found(*name, coin.out.vout, coin.out.txnum);
            }
        }
        let mut rows: Vec<(TxNum, Recent)> = Vec::new();
        for record in records {
            if rows.last().is_none_or(|(txnum, _)| *txnum != record.txnum()) {
                rows.push((record.txnum(), Recent::default()));
            }
            let (_, row) = rows.last_mut().expect("just pushed");
            match Spend::of(record) {
                None => {
                    outputs.found(record.funding(), record.vout(), record.txnum());
                    row.funded.push((record.vout(), record.satoshis()));
                }
                Some(spend) => {
                    let unnamed = || Some(self.coins[self.find_unnamed(&spend, first_txnums)?].out.txnum);
                    let txnum = outputs.funding_of(&spend).or_else(unnamed);
                    let txnum = txnum.ok_or(UnknownCoin { txnum: record.txnum() })?;
                    let out = TxOutNum { txnum, vout: record.vout() };
                    row.spent.push(Coin { out, value: record.satoshis() });
                }
            }
        }
        Ok(rows)
    }

    /// Takes `count` spends off the coins.
    fn spend(
        &mut self,
        spends: impl Iterator<Item = Spend>,
        count: usize,
        unknown: Unknown,
        first_txnums: &[TxNum],
    ) -> Result<(), UnknownCoin> {
        if self.coins.len() * (count + self.coins.len() / 8) <= SEARCH_MAX {
            self.drop_overwritten_by_search();
            self.spend_by_search(spends, unknown, first_txnums)
        } else {
            self.spend_by_map(spends, unknown, first_txnums)
        }
    }

    fn spend_by_search(
        &mut self,
        spends: impl Iterator<Item = Spend>,
        unknown: Unknown,
        first_txnums: &[TxNum],
    ) -> Result<(), UnknownCoin> {
        for spend in spends {
            let mut coins = self.coins.iter().zip(&self.fundings);
            let spent = coins.position(|(coin, funding)| *funding == spend.funding && coin.out.vout == spend.vout);
            let Some(spent) = spent.or_else(|| self.find_unnamed(&spend, first_txnums)) else {
                self.miss(spend, unknown)?;
                continue;
            };
            self.count_spent(self.coins[spent].value);
            self.coins.remove(spent);
            self.fundings.remove(spent);
        }
        Ok(())
    }

    /// The coin without a name that is spent: the one of that block and output number.
    fn find_unnamed(&self, spend: &Spend, first_txnums: &[TxNum]) -> Option<usize> {
        let height = Naming::Place.height(spend.funding)?.0 as usize;
        let (start, end) = (*first_txnums.get(height)?, *first_txnums.get(height + 1)?);
        let first = self.coins.partition_point(|coin| coin.out.txnum < start);
        let coins = self.coins[first..].iter().zip(&self.fundings[first..]).take(UNNAMED_MAX);
        let mut of_block = coins.take_while(|(coin, _)| coin.out.txnum < end);
        let found = of_block.position(|(coin, name)| *name == UNNAMED && coin.out.vout == spend.vout);
        found.map(|index| first + index)
    }

    fn miss(&mut self, spend: Spend, unknown: Unknown) -> Result<(), UnknownCoin> {
        match unknown {
            Unknown::Refuse => return Err(UnknownCoin { txnum: spend.spender }),
            Unknown::Ignore => {}
            Unknown::Keep => self.earlier.push(spend),
        }
        Ok(())
    }

    /// Removes outputs that a later one replaces: two coinbases of 2010 have the txids of earlier ones
    /// ([BIP 30](https://github.com/bitcoin/bips/blob/master/bip-0030.mediawiki)).
    fn drop_overwritten_by_search(&mut self) {
        let mut index = 0;
        while index + 1 < self.coins.len() {
            let same = |later: usize| {
                let name = self.fundings[index];
                name != UNNAMED
                    && self.fundings[later] == name
                    && self.coins[later].out.vout == self.coins[index].out.vout
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
    fn spend_by_map(
        &mut self,
        spends: impl Iterator<Item = Spend>,
        unknown: Unknown,
        first_txnums: &[TxNum],
    ) -> Result<(), UnknownCoin> {
        let mut last: HashMap<(u64, u32), usize> = HashMap::with_capacity(self.coins.len());
        let mut is_spent = vec![false; self.coins.len()];
        for (index, (coin, funding)) in self.coins.iter().zip(&self.fundings).enumerate() {
            if *funding != UNNAMED
                && let Some(overwritten) = last.insert((*funding, coin.out.vout), index)
            {
                is_spent[overwritten] = true;
            }
        }
        for spend in spends {
            let by_name = last.remove(&(spend.funding, spend.vout));
            match by_name.or_else(|| self.find_unnamed(&spend, first_txnums)).filter(|index| !is_spent[*index]) {
                Some(index) => is_spent[index] = true,
                None => self.miss(spend, unknown)?,
            }
        }
        let (coins, fundings) = (std::mem::take(&mut self.coins), std::mem::take(&mut self.fundings));
        for ((coin, funding), is_spent) in coins.into_iter().zip(fundings).zip(is_spent) {
            if is_spent {
                self.count_spent(coin.value);
            } else {
                self.coins.push(coin);
                self.fundings.push(funding);
            }
        }
        Ok(())
    }

    fn count_spent(&mut self, value: u64) {
        self.spent.add(Tally { count: 1, sum: value });
    }

    /// Appends the form in which a run keeps a state, with txnums counted from `base`. It is not empty. A coin loses
    /// its name where its place tells it from the other coins.
    ///
    /// ```text
    /// head LEB128: transactions << 4 | min(coins, 3) << 2 | earlier << 1 | spent
    /// [coins - 3 LEB128]  when the head has 3      [spends of earlier outputs LEB128]  when earlier
    /// [spent outputs LEB128 | their sum LEB128]  when spent
    /// first txnum - base LEB128 | differences to the next ones LEB128
    /// coins:   output | [funding 8 LE]  when named | amount
    /// spends of earlier outputs: output, with the spending transaction | funding 8 LE
    /// output:  steps in the list of txnums << 3 | named << 2 | min(vout, 3) LEB128 [vout - 3 LEB128]
    /// ```
    pub(super) fn encode(&self, base: TxNum, naming: Naming, out: &mut Vec<u8>) {
        let few = (self.coins.len() as u64).min(COINS_MASK);
        let flags = u64::from(!self.earlier.is_empty()) << 1 | u64::from(self.spent.count > 0);
        put_leb128(out, (self.txnums.len() as u64) << 4 | few << 2 | flags);
        if few == COINS_MASK {
            put_leb128(out, self.coins.len() as u64 - COINS_MASK);
        }
        if flags & EARLIER != 0 {
            put_leb128(out, self.earlier.len() as u64);
        }
        if flags & SPENT != 0 {
            put_leb128(out, self.spent.count);
            put_leb128(out, self.spent.sum);
        }
        let mut last = base;
        for txnum in &self.txnums {
            put_leb128(out, txnum.0 - last.0);
            last = *txnum;
        }
        let mut steps = Steps { txnums: &self.txnums, at: 0 };
        for (index, (coin, funding)) in self.coins.iter().zip(&self.fundings).enumerate() {
            let step = Step { out: coin.out, is_named: !self.is_known_by_place(index, naming) };
            steps.put(out, step);
            if step.is_named {
                out.extend_from_slice(&funding.to_le_bytes());
            }
            put_amount(out, coin.value);
        }
        let mut steps = Steps { txnums: &self.txnums, at: 0 };
        for spend in &self.earlier {
            let spender = TxOutNum { txnum: spend.spender, vout: spend.vout };
            steps.put(out, Step { out: spender, is_named: true });
            out.extend_from_slice(&spend.funding.to_le_bytes());
        }
    }

    /// True if no other coin has the height and the output number of this one, of the few of its block.
    fn is_known_by_place(&self, index: usize, naming: Naming) -> bool {
        let Some(height) = naming.height(self.fundings[index]) else { return false };
        let of_block = |name: &&u64| naming.height(**name) == Some(height);
        let (before, after) = (&self.fundings[..index], &self.fundings[index + 1..]);
        let before = before.iter().rev().take(UNNAMED_MAX).take_while(of_block).count();
        let after = after.iter().take(UNNAMED_MAX).take_while(of_block).count();
        let mut others = (index - before..index).chain(index + 1..=index + after);
        before + after < UNNAMED_MAX && others.all(|other| self.coins[other].out.vout != self.coins[index].out.vout)
    }

    /// Replaces the state by an encoded one.
    pub(super) fn decode(&mut self, base: TxNum, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        self.clear();
        let head = cursor.leb128("head")?;
        let mut coins = head >> 2 & COINS_MASK;
        if coins == COINS_MASK {
            coins = coins.saturating_add(cursor.leb128("coins")?);
        }
        let spends = if head & EARLIER != 0 { cursor.leb128("spends")? } else { 0 };
        if head & SPENT != 0 {
            self.spent = Tally { count: cursor.leb128("spent outputs")?, sum: cursor.leb128("spent sum")? };
        }
        let mut last = base.0;
        for _ in 0..head >> 4 {
            last = last.saturating_add(cursor.leb128("txnum")?);
            self.txnums.push(TxNum(last));
        }
        let mut steps = Steps { txnums: &self.txnums, at: 0 };
        for _ in 0..coins {
            let Step { out, is_named } = steps.take(cursor)?;
            self.fundings.push(if is_named { cursor.u64_le("funding")? } else { UNNAMED });
            self.coins.push(Coin { out, value: amount(cursor)? });
        }
        let mut steps = Steps { txnums: &self.txnums, at: 0 };
        for _ in 0..spends {
            let TxOutNum { txnum: spender, vout } = steps.take(cursor)?.out;
            self.earlier.push(Spend { spender, funding: cursor.u64_le("funding")?, vout });
        }
        Ok(())
    }
}

const COINS_MASK: u64 = 3;
const EARLIER: u64 = 2;
const SPENT: u64 = 1;

/// Ascending transactions of a script, as positions in the list of all of them.
struct Steps<'a> {
    txnums: &'a [TxNum],
    at: usize,
}

/// An output of one of these transactions.
#[derive(Debug, Clone, Copy)]
struct Step {
    out: TxOutNum,
    /// The name of the transaction that funded it follows.
    is_named: bool,
}

impl Steps<'_> {
    fn put(&mut self, out: &mut Vec<u8>, Step { out: TxOutNum { txnum, vout }, is_named }: Step) {
        let steps = self.txnums[self.at..].iter().position(|other| *other == txnum);
        let steps = steps.expect("the transaction touches the script, and they ascend");
        self.at += steps;
        put_leb128(out, (steps as u64) << 3 | u64::from(is_named) << 2 | u64::from(vout.min(3)));
        if vout >= 3 {
            put_leb128(out, u64::from(vout - 3));
        }
    }

    fn take(&mut self, cursor: &mut Cursor<'_>) -> Result<Step, Malformed> {
        let code = cursor.leb128("output")?;
        let vout = if code & 3 < 3 { code & 3 } else { cursor.leb128("vout")?.saturating_add(3) };
        let at = usize::try_from(code >> 3).ok().and_then(|steps| self.at.checked_add(steps));
        match (at.and_then(|at| self.txnums.get(at)), u32::try_from(vout)) {
            (Some(&txnum), Ok(vout)) => {
                self.at = at.expect("it has a txnum");
                Ok(Step { out: TxOutNum { txnum, vout }, is_named: code & 4 != 0 })
            }
            _ => Err(cursor.malformed("output")),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block::Origin;
    use crate::names::{Height, ScriptKey};

    const KEY: ScriptKey = ScriptKey { prefix: 1, check: 2 };

    /// First txnums of the blocks of tests: each has three transactions.
    fn first_txnums() -> Vec<TxNum> {
        (0..200).map(|height| TxNum(3 * height)).collect()
    }

    /// The name of a transaction. Every third block begins with a coinbase.
    fn name(txnum: TxNum, naming: Naming) -> u64 {
        let height = u32::try_from(txnum.0 / 3).unwrap();
        let origin = Origin { height: Height(height), is_coinbase: txnum.0.is_multiple_of(9) };
        naming.name(((txnum.0 + 1) * 7919) << 24, Some(origin)).unwrap()
    }

    fn without_names(state: &ScriptState) -> (&[TxNum], &[Coin], Tally) {
        (&state.txnums, &state.coins, state.spent)
    }

    /// Random payments to one script and spends of them, with the model's answer.
    fn records(steps: Vec<(bool, u32, u64)>, naming: Naming) -> (Vec<Record>, Vec<Coin>) {
        let (mut records, mut model) = (Vec::new(), Vec::<(Coin, u64)>::new());
        for (index, (spend, vout, value)) in steps.into_iter().enumerate() {
            let txnum = TxNum(index as u64 / 2);
            if spend && model.iter().any(|(coin, _)| coin.out.txnum < txnum) {
                let candidates = model.iter().filter(|(coin, _)| coin.out.txnum < txnum).count();
                let (coin, funding) = model.remove(usize::try_from(value).unwrap() % candidates);
                records.push(Record::new(KEY, Side::Spent, txnum, coin.out.vout, coin.value, funding).unwrap());
            } else {
                let vout = vout * 2 + u32::from(index % 2 == 1);
                let funding = name(txnum, naming);
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
            by_place: bool,
        ) {
            let naming = if by_place { Naming::Place } else { Naming::Hash };
            let (records, coins) = records(steps, naming);
            let mut at_once = ScriptState::default();
            at_once.apply(&records, Unknown::Refuse).unwrap();
            prop_assert_eq!(&at_once.coins, &coins);
            let funded = records.iter().filter(|record| record.side() == Side::Funded);
            let funded = Tally { count: funded.clone().count() as u64, sum: funded.map(Record::satoshis).sum() };
            let mut all = at_once.spent;
            all.add(Tally::of(&coins));
            prop_assert_eq!(all, funded);

            // The same in two generations, each put away.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
            let mut cut = (records.len() as f64 * cut) as usize;
            while cut > 0 && records[cut - 1].txnum() == records[cut].txnum() {
                cut -= 1;
            }
            let mut parts = [&records[..cut], &records[cut..]].into_iter().filter(|part| !part.is_empty()).map(|part| {
                let (base, mut state, mut again) = (part[0].txnum(), ScriptState::default(), ScriptState::default());
                state.apply(part, Unknown::Keep).unwrap();
                let mut bytes = Vec::new();
                state.encode(base, naming, &mut bytes);
                let mut cursor = Cursor::new(&bytes);
                again.decode(base, &mut cursor).unwrap();
                assert!(cursor.is_at_end());
                assert_eq!(without_names(&again), without_names(&state));
                assert_eq!(again.earlier, state.earlier);
                assert!(by_place || again == state);
                again
            });
            let mut appended = parts.next().unwrap();
            let rows = appended.tip_rows(&records[cut..], &first_txnums());
            prop_assert!(cut == 0 || rows.is_ok());
            parts.try_for_each(|mut later| appended.append(&mut later, &first_txnums())).unwrap();
            prop_assert_eq!(appended.check_whole(), Ok(()));
            prop_assert_eq!(without_names(&appended), without_names(&at_once));
        }
    }

    #[test]
    fn an_input_that_spends_nothing_known_is_refused() {
        let record = Record::new(KEY, Side::Spent, TxNum(5), 0, 1, 1).unwrap();
        let unknown = Err(UnknownCoin { txnum: TxNum(5) });
        assert_eq!(ScriptState::default().apply(&[record], Unknown::Refuse), unknown);
        let mut kept = ScriptState::default();
        kept.apply(&[record], Unknown::Keep).unwrap();
        assert_eq!(kept.check_whole(), unknown);
        assert_eq!(ScriptState::default().append(&mut kept, &[]), unknown);
    }

    #[test]
    fn a_coinbase_with_an_earlier_txid_takes_its_place() {
        let record = |txnum| Record::new(KEY, Side::Funded, TxNum(txnum), 0, 50, 99).unwrap();
        let state = |records: &[Record]| {
            let mut state = ScriptState::default();
            state.apply(records, Unknown::Keep).unwrap();
            state
        };
        let at_once = state(&[record(1), record(2)]);
        assert_eq!(at_once.coins, [Coin { out: TxOutNum { txnum: TxNum(2), vout: 0 }, value: 50 }]);
        assert_eq!(at_once.txnums, [TxNum(1), TxNum(2)]);
        assert_eq!(at_once.spent, Tally { count: 1, sum: 50 });
        let mut appended = state(&[record(1)]);
        appended.append(&mut state(&[record(2)]), &[]).unwrap();
        assert_eq!(appended, at_once);
    }
}
