//! The node's mempool as a value: the outputs that unconfirmed transactions fund and spend, by script.
//!
//! Pure: a transaction is inserted with the outputs it spends, and every change names the scripts whose answers may
//! differ afterwards. The maps are persistent: a copy costs a few pointers, so a [`crate::Snapshot`] keeps its own.
//!
//! Invariants: no two transactions spend one output; a transaction leaves with a parent that leaves unconfirmed.

use std::sync::Arc;

use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, TxOut, Txid};
use imbl::{HashMap, OrdMap, OrdSet};

use crate::block::{Program, is_indexed};
use crate::names::{ScriptHash, TouchedScripts};
use crate::outside::MiningRules;
use crate::state::answer::{Confirmation, ScriptStats, SpentOutput, UnconfirmedEntry};
use crate::state::replacements::{Replacements, Version};

/// The least virtual bytes of the first bin of a fee histogram, and the growth of each next bin. These are
/// `ElectrumX`'s values: ten to twenty bins for a full mempool.
const BIN_VBYTES: f64 = 100_000.0;
const BIN_GROWTH: f64 = 1.1;
/// Core's default of `bytespersigop`
/// ([`policy.h`](https://github.com/bitcoin/bitcoin/blob/master/src/policy/policy.h)).
const WEIGHT_PER_SIGOP: u64 = 20;
/// Steps of a fee rate in a satoshi per virtual byte.
const RATES_PER_SAT: u64 = 10;

/// One unconfirmed transaction.
#[derive(Debug, PartialEq, Eq)]
pub struct MempoolTransaction {
    /// Its txid.
    pub txid: Txid,
    /// Serialised with witness.
    pub raw: Box<[u8]>,
    /// Fee in satoshis.
    pub fee: u64,
    /// Virtual bytes ([BIP 141](https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki)).
    pub vsize: u64,
    /// Weight units (BIP 141).
    pub weight: u64,
    /// Cost of its signature operations (BIP 141).
    pub sigops: u64,
    /// Time at which this index first saw it, in seconds since 1970.
    pub first_seen: u64,
    /// True if it signals that it may be replaced
    /// ([BIP 125](https://github.com/bitcoin/bips/blob/master/bip-0125.mediawiki)).
    pub is_replaceable: bool,
    pub(crate) spends: Box<[Spend]>,
    pub(crate) pays: Box<[Pay]>,
    pub(crate) tweak: Option<Box<[u8; 33]>>,
}

/// An input, with the output it spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spend {
    pub(crate) outpoint: OutPoint,
    pub(crate) scripthash: ScriptHash,
    pub(crate) value: u64,
    pub(crate) program: Program,
}

/// An output; its index in the list is its vout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pay {
    /// `None` for an output that can never be spent.
    pub(crate) scripthash: Option<ScriptHash>,
    pub(crate) value: u64,
    pub(crate) program: Program,
}

/// All unconfirmed transactions at one moment.
#[derive(Debug, Clone, Default)]
pub struct Mempool {
    transactions: HashMap<Txid, Entry>,
    by_script: OrdSet<(ScriptHash, Txid)>,
    /// The spender of each output that the mempool spends.
    spenders: HashMap<OutPoint, Txid>,
    /// Txids in order of their insertion.
    arrivals: OrdMap<u64, Txid>,
    /// The number of the next arrival. No number is used twice.
    next_arrival: u64,
    /// Virtual bytes by fee rate, in tenths of sat/vB.
    rates: OrdMap<u64, u64>,
    /// The same with adjusted sizes, as changes of [`Self::rates`]: few transactions have two sizes.
    adjustments: OrdMap<u64, i64>,
    vsize: u64,
    adjusted_vsize: u64,
    fees: u64,
    replacements: Replacements,
    rules: Arc<MiningRules>,
    is_listed: bool,
}

#[derive(Debug, Clone)]
struct Entry {
    transaction: Arc<MempoolTransaction>,
    arrival: u64,
}

// === impl Pay ===

impl Pay {
    /// The output with this script.
    pub(super) fn of(script: &[u8], value: u64) -> Self {
        let scripthash = is_indexed(script).then(|| ScriptHash::of(script));
        Self { scripthash, value, program: Program::of(script) }
    }

    pub(crate) fn of_output(output: &TxOut) -> Self {
        Self::of(output.script_pubkey.as_bytes(), output.value.to_sat())
    }
}

// === impl MempoolTransaction ===

impl MempoolTransaction {
    /// Returns the weight by which nodes rank the transaction: signature operations count for 20 weight units each
    /// (Core's default of `bytespersigop`; no call tells another one).
    pub fn adjusted_weight(&self) -> u64 {
        self.weight.max(self.sigops * WEIGHT_PER_SIGOP)
    }

    /// Returns the virtual bytes by which nodes rank the transaction.
    pub fn adjusted_vsize(&self) -> u64 {
        self.adjusted_weight().div_ceil(4)
    }

    /// Returns the sum of the outputs that it spends, in satoshis.
    pub fn input_sum(&self) -> u64 {
        self.spends.iter().map(|spend| spend.value).sum()
    }

    /// Returns the sum of its outputs, in satoshis.
    pub fn output_sum(&self) -> u64 {
        self.pays.iter().map(|pay| pay.value).sum()
    }

    /// Returns the outputs that it spends, in the order of its inputs.
    pub fn spent_outpoints(&self) -> impl Iterator<Item = OutPoint> {
        self.spends.iter().map(|spend| spend.outpoint)
    }

    /// Returns the outputs that it spends, in the order of its inputs. They are known even where the node has removed
    /// their blocks.
    pub fn spent_outputs(&self) -> impl Iterator<Item = SpentOutput> {
        self.spends.iter().map(|Spend { outpoint, scripthash, value, .. }| SpentOutput {
            outpoint: *outpoint,
            scripthash: *scripthash,
            value: *value,
        })
    }

    /// Returns the number of its outputs.
    pub fn output_count(&self) -> usize {
        self.pays.len()
    }

    /// Returns its tweak, by which the holder of a scan key finds silent payments, a compressed point; `None` if it can
    /// make none, or no index of silent payments is kept
    /// ([BIP 352](https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki)).
    pub fn tweak(&self) -> Option<&[u8; 33]> {
        self.tweak.as_deref()
    }

    fn version(&self) -> Version {
        let Self { txid, fee, vsize, first_seen, is_replaceable, .. } = *self;
        Version { txid, fee, vsize, paid: self.output_sum(), first_seen, is_replaceable }
    }

    /// The scripts it pays or spends from.
    fn scripthashes(&self) -> impl Iterator<Item = ScriptHash> {
        let paid = self.pays.iter().filter_map(|pay| pay.scripthash);
        self.spends.iter().map(|spend| spend.scripthash).chain(paid)
    }

    fn outpoints(&self) -> impl Iterator<Item = OutPoint> {
        (0..).zip(&self.pays).map(|(vout, _)| OutPoint { txid: self.txid, vout })
    }

    fn rate(&self) -> u64 {
        rate_of(self.fee, self.vsize)
    }
}

/// Returns a fee rate in the unit of [`Mempool::rates`].
fn rate_of(fee: u64, vsize: u64) -> u64 {
    fee.saturating_mul(RATES_PER_SAT) / vsize.max(1)
}

// === impl Mempool: changes ===

impl Mempool {
    /// Inserts a transaction. Those that it conflicts with were replaced, and are removed.
    pub(crate) fn insert(&mut self, transaction: MempoolTransaction, touched: &mut TouchedScripts) {
        if self.transactions.contains_key(&transaction.txid) {
            return;
        }
        for spend in &transaction.spends {
            self.remove_spender(&spend.outpoint, touched);
        }
        self.replacements.came(transaction.version(), transaction.spent_outpoints());
        let txid = transaction.txid;
        for spend in &transaction.spends {
            self.spenders.insert(spend.outpoint, txid);
        }
        for scripthash in transaction.scripthashes() {
            self.by_script.insert((scripthash, txid));
            touched.insert(scripthash);
        }
        let arrival = self.next_arrival;
        self.next_arrival += 1;
        self.arrivals.insert(arrival, txid);
        *self.rates.entry(transaction.rate()).or_default() += transaction.vsize;
        self.adjust(&transaction, 1);
        self.vsize += transaction.vsize;
        self.adjusted_vsize += transaction.adjusted_vsize();
        self.fees += transaction.fee;
        let transaction = Arc::new(transaction);
        self.touch_children(&transaction, touched);
        self.transactions.insert(txid, Entry { transaction, arrival });
    }

    /// Removes a transaction that will not be confirmed, with its descendants.
    pub(crate) fn remove(&mut self, txid: &Txid, touched: &mut TouchedScripts) {
        let mut leaving = vec![*txid];
        while let Some(txid) = leaving.pop() {
            if let Some(transaction) = self.take(&txid, touched) {
                self.replacements.left(transaction.version(), transaction.spent_outpoints());
                leaving.extend(transaction.outpoints().filter_map(|outpoint| self.spenders.get(&outpoint)));
            }
        }
    }

    /// Removes the transactions that a block confirms, and those that conflict with the outputs it spends.
    pub(crate) fn confirm(
        &mut self,
        txids: impl Iterator<Item = Txid>,
        spent: impl Iterator<Item = OutPoint>,
        touched: &mut TouchedScripts,
    ) {
        if self.is_empty() {
            return;
        }
        for txid in txids {
            self.take(&txid, touched);
        }
        for outpoint in spent {
            self.remove_spender(&outpoint, touched);
        }
    }

    /// Removes the transactions that spend these outputs of stale blocks, with their descendants.
    pub(crate) fn remove_orphans<'a>(
        &mut self,
        outputs: impl Iterator<Item = &'a OutPoint>,
        touched: &mut TouchedScripts,
    ) {
        if self.is_empty() {
            return;
        }
        for outpoint in outputs {
            self.remove_spender(outpoint, touched);
        }
    }

    fn remove_spender(&mut self, outpoint: &OutPoint, touched: &mut TouchedScripts) {
        if let Some(spender) = self.spenders.get(outpoint).copied() {
            self.remove(&spender, touched);
        }
    }

    /// Removes one transaction but not its descendants.
    fn take(&mut self, txid: &Txid, touched: &mut TouchedScripts) -> Option<Arc<MempoolTransaction>> {
        let Entry { transaction, arrival } = self.transactions.remove(txid)?;
        self.arrivals.remove(&arrival);
        for spend in &transaction.spends {
            self.spenders.remove(&spend.outpoint);
        }
        for scripthash in transaction.scripthashes() {
            self.by_script.remove(&(scripthash, *txid));
            touched.insert(scripthash);
        }
        self.vsize -= transaction.vsize;
        self.adjusted_vsize -= transaction.adjusted_vsize();
        self.fees -= transaction.fee;
        let rate = transaction.rate();
        let left = self.rates.get(&rate).map_or(0, |vsize| vsize - transaction.vsize);
        if left == 0 {
            self.rates.remove(&rate)
        } else {
            self.rates.insert(rate, left)
        };
        self.adjust(&transaction, -1);
        self.touch_children(&transaction, touched);
        Some(transaction)
    }

    /// Notes the adjusted size of a transaction that comes, once, or leaves, minus once.
    fn adjust(&mut self, transaction: &MempoolTransaction, times: i64) {
        let (plain, adjusted) = (transaction.vsize, transaction.adjusted_vsize());
        if plain == adjusted {
            return;
        }
        let changes = [
            (transaction.rate(), -times * plain.cast_signed()),
            (rate_of(transaction.fee, adjusted), times * adjusted.cast_signed()),
        ];
        for (rate, change) in changes {
            let sum = self.adjustments.get(&rate).copied().unwrap_or_default() + change;
            if sum == 0 {
                self.adjustments.remove(&rate);
            } else {
                self.adjustments.insert(rate, sum);
            }
        }
    }

    /// Touches the scripts of the children: their status includes that an input is unconfirmed.
    fn touch_children(&self, parent: &MempoolTransaction, touched: &mut TouchedScripts) {
        let children = parent.outpoints().filter_map(|outpoint| self.spenders.get(&outpoint));
        for child in children.filter_map(|txid| self.get(txid)) {
            touched.extend(child.scripthashes());
        }
    }
}

// === impl Mempool: answers ===

impl Mempool {
    /// Returns an unconfirmed transaction.
    pub fn get(&self, txid: &Txid) -> Option<&Arc<MempoolTransaction>> {
        self.transactions.get(txid).map(|entry| &entry.transaction)
    }

    /// Returns the number of transactions.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    /// True if there is no transaction.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// True once this process has read the whole mempool of its node: until then a transaction that is missing here may
    /// be in the node's. A node that starts again changes nothing of that, for what was read stays until it answers.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Notes that the whole mempool of the node was read.
    pub(crate) fn set_listed(&mut self) {
        self.is_listed = true;
    }

    /// Returns the sum of virtual bytes.
    pub fn vsize(&self) -> u64 {
        self.vsize
    }

    /// Returns the sum of virtual bytes by which nodes rank the transactions: `bytes` of Core's `getmempoolinfo`.
    pub fn adjusted_vsize(&self) -> u64 {
        self.adjusted_vsize
    }

    /// Returns the sum of fees, in satoshis.
    pub fn fees(&self) -> u64 {
        self.fees
    }

    /// Returns what decides how the node mines it, besides its transactions.
    pub fn rules(&self) -> &MiningRules {
        &self.rules
    }

    /// Sets the rules by which the node mines.
    pub(crate) fn set_rules(&mut self, rules: &Arc<MiningRules>) {
        self.rules = Arc::clone(rules);
    }

    /// Returns the newest replacements.
    pub fn replacements(&self) -> &Replacements {
        &self.replacements
    }

    /// Returns the txids of a script, in no order.
    pub fn txids_of_script(&self, scripthash: &ScriptHash) -> impl Iterator<Item = Txid> {
        self.transactions_of(scripthash).map(|transaction| transaction.txid)
    }

    /// Returns all txids, in no order.
    pub fn txids(&self) -> impl Iterator<Item = &Txid> {
        self.transactions.keys()
    }

    /// Returns all transactions, in no order.
    pub fn transactions(&self) -> impl Iterator<Item = &Arc<MempoolTransaction>> {
        self.transactions.values().map(|entry| &entry.transaction)
    }

    /// Returns the unconfirmed transactions whose outputs a transaction spends, once for each such output.
    pub fn parents<'a>(&'a self, transaction: &'a MempoolTransaction) -> impl Iterator<Item = Txid> + 'a {
        let txids = transaction.spends.iter().map(|spend| spend.outpoint.txid);
        txids.filter(|txid| self.transactions.contains_key(txid))
    }

    /// Returns the unconfirmed transactions that spend outputs of a transaction, once for each such output.
    pub fn children<'a>(&'a self, transaction: &'a MempoolTransaction) -> impl Iterator<Item = Txid> + 'a {
        transaction.outpoints().filter_map(|outpoint| self.spenders.get(&outpoint).copied())
    }

    /// Returns the `count` transactions inserted last, newest first.
    pub fn recent(&self, count: usize) -> Vec<Arc<MempoolTransaction>> {
        self.newest().take(count).cloned().collect()
    }

    /// Returns transactions, those inserted last first.
    pub fn newest(&self) -> impl Iterator<Item = &Arc<MempoolTransaction>> {
        self.arrivals.values().rev().filter_map(|txid| self.get(txid))
    }

    /// Returns the number that the next transaction gets, for [`Self::arrived_since`].
    pub fn next_arrival(&self) -> u64 {
        self.next_arrival
    }

    /// Returns the transactions that were inserted since an earlier state of this mempool, whose
    /// [`Self::next_arrival`] is given, and are still here, in the order of their insertion.
    pub fn arrived_since(&self, arrival: u64) -> impl Iterator<Item = &Arc<MempoolTransaction>> {
        self.arrivals.range(arrival..).filter_map(|(_, txid)| self.get(txid))
    }

    /// Returns fee rates in sat/vB, strictly decreasing, each with the virtual bytes that pay at least this rate and
    /// less than the rate before.
    pub fn fee_histogram(&self) -> Vec<(f64, u64)> {
        histogram(&self.rates)
    }

    /// Returns [`Self::fee_histogram`] by the sizes and rates by which nodes rank transactions.
    pub fn adjusted_fee_histogram(&self) -> Vec<(f64, u64)> {
        let mut rates = self.rates.clone();
        for (rate, change) in &self.adjustments {
            let vsize = rates.get(rate).copied().unwrap_or_default().saturating_add_signed(*change);
            if vsize == 0 {
                rates.remove(rate);
            } else {
                rates.insert(*rate, vsize);
            }
        }
        histogram(&rates)
    }

    /// Returns fee rates in sat/vB, strictly decreasing, each with the virtual bytes that pay at least this rate and
    /// less than the rate before. A bin ends beyond `bin_vsize` virtual bytes.
    pub fn fee_bins(&self, bin_vsize: u64) -> Vec<(f64, u64)> {
        let (mut bins, mut vsize) = (Vec::new(), 0);
        let mut rates = self.rates.iter().rev().peekable();
        while let Some((rate, more)) = rates.next() {
            vsize += more;
            if vsize > bin_vsize || rates.peek().is_none() {
                bins.push((sat_vb(*rate), std::mem::take(&mut vsize)));
            }
        }
        bins
    }

    /// The transactions of a script in the order of Electrum protocol 1.6: those with confirmed inputs first, then by
    /// txid as displayed.
    pub(crate) fn of_script(&self, scripthash: &ScriptHash) -> Vec<UnconfirmedEntry> {
        let mut entries: Vec<UnconfirmedEntry> = self
            .transactions_of(scripthash)
            .map(|transaction| UnconfirmedEntry {
                txid: transaction.txid,
                fee: transaction.fee,
                has_unconfirmed_inputs: self.has_unconfirmed_inputs(transaction),
            })
            .collect();
        entries.sort_unstable_by_key(|entry| {
            let mut displayed = entry.txid.to_byte_array();
            displayed.reverse();
            (entry.has_unconfirmed_inputs, displayed)
        });
        entries
    }

    /// The change of a script's balance, in satoshis.
    pub(crate) fn balance_change(&self, scripthash: &ScriptHash) -> i64 {
        let sat = |value: u64| i64::try_from(value).expect("all bitcoin together are below 2^51 satoshis");
        let change = |transaction: &Arc<MempoolTransaction>| {
            let paid = transaction.pays.iter().filter(|pay| pay.scripthash == Some(*scripthash));
            let spent = transaction.spends.iter().filter(|spend| spend.scripthash == *scripthash);
            paid.map(|pay| sat(pay.value)).sum::<i64>() - spent.map(|spend| sat(spend.value)).sum::<i64>()
        };
        self.transactions_of(scripthash).map(change).sum()
    }

    /// The unspent outputs of a script in the mempool, with their values: in the order of [`Self::of_script`], then by
    /// vout.
    pub(crate) fn unspent_of(&self, scripthash: &ScriptHash) -> Vec<(OutPoint, u64, Confirmation)> {
        let mut unspent = Vec::new();
        for entry in self.of_script(scripthash) {
            let transaction = self.get(&entry.txid).expect("listed under its script");
            let confirmation = Confirmation::Unconfirmed { has_unconfirmed_inputs: entry.has_unconfirmed_inputs };
            let own = transaction.outpoints().zip(&transaction.pays);
            let own = own
                .filter(|(outpoint, pay)| pay.scripthash == Some(*scripthash) && !self.spenders.contains_key(outpoint));
            unspent.extend(own.map(|(outpoint, pay)| (outpoint, pay.value, confirmation)));
        }
        unspent
    }

    /// Counts and sums of a script.
    pub(crate) fn stats_of(&self, scripthash: &ScriptHash) -> ScriptStats {
        let mut stats = ScriptStats::default();
        for transaction in self.transactions_of(scripthash) {
            stats.txs += 1;
            for pay in transaction.pays.iter().filter(|pay| pay.scripthash == Some(*scripthash)) {
                stats.funded += 1;
                stats.funded_sum += pay.value;
            }
            for spend in transaction.spends.iter().filter(|spend| spend.scripthash == *scripthash) {
                stats.spent += 1;
                stats.spent_sum += spend.value;
            }
        }
        stats
    }

    /// The transactions of scripts, each once, those that came last first.
    pub(crate) fn newest_of_all(&self, scripthashes: &[ScriptHash]) -> Vec<Txid> {
        let of_all = scripthashes.iter().flat_map(|scripthash| self.transactions_of(scripthash));
        let arrived = of_all.filter_map(|transaction| self.transactions.get(&transaction.txid));
        let mut arrived: Vec<(u64, Txid)> = arrived.map(|entry| (entry.arrival, entry.transaction.txid)).collect();
        arrived.sort_unstable_by_key(|(arrival, _)| std::cmp::Reverse(*arrival));
        arrived.dedup();
        arrived.into_iter().map(|(_, txid)| txid).collect()
    }

    /// Returns the transaction that spends an output, and the index of its input.
    pub fn spending_input(&self, outpoint: &OutPoint) -> Option<(Txid, u32)> {
        let txid = *self.spenders.get(outpoint)?;
        let vin = self.get(&txid)?.spends.iter().position(|spend| spend.outpoint == *outpoint)?;
        Some((txid, u32::try_from(vin).expect("a transaction has fewer than 2^32 inputs")))
    }

    /// The transaction that spends an output.
    pub(crate) fn spender(&self, outpoint: &OutPoint) -> Option<(Txid, Confirmation)> {
        let txid = *self.spenders.get(outpoint)?;
        Some((txid, self.confirmation(&txid)?))
    }

    /// Script hash and value of an output of an unconfirmed transaction.
    pub(crate) fn output(&self, outpoint: &OutPoint) -> Option<&Pay> {
        self.get(&outpoint.txid)?.pays.get(outpoint.vout as usize)
    }

    pub(crate) fn confirmation(&self, txid: &Txid) -> Option<Confirmation> {
        let has_unconfirmed_inputs = self.has_unconfirmed_inputs(self.get(txid)?);
        Some(Confirmation::Unconfirmed { has_unconfirmed_inputs })
    }

    fn transactions_of(&self, scripthash: &ScriptHash) -> impl Iterator<Item = &Arc<MempoolTransaction>> {
        let first = (*scripthash, Txid::from_byte_array([0; 32]));
        let last = (*scripthash, Txid::from_byte_array([0xff; 32]));
        self.by_script.range(first..=last).filter_map(|(_, txid)| self.get(txid))
    }

    /// The number of inputs and outputs of a script's transactions. Counting stops beyond `max`.
    pub(crate) fn size_of_script(&self, scripthash: &ScriptHash, max: usize) -> usize {
        let mut size = 0;
        for transaction in self.transactions_of(scripthash) {
            size += transaction.spends.len() + transaction.pays.len();
            if size > max {
                break;
            }
        }
        size
    }

    fn has_unconfirmed_inputs(&self, transaction: &MempoolTransaction) -> bool {
        transaction.spends.iter().any(|spend| self.transactions.contains_key(&spend.outpoint.txid))
    }
}

/// Gathers virtual bytes by fee rate in bins that grow.
fn histogram(rates: &OrdMap<u64, u64>) -> Vec<(f64, u64)> {
    let mut bins = Vec::new();
    let (mut vsize, mut bin_vsize) = (0, BIN_VBYTES);
    let mut lowest = None;
    for (rate, more) in rates.iter().rev() {
        vsize += more;
        lowest = Some(*rate);
        #[expect(clippy::cast_precision_loss, reason = "a mempool is far below 2^52 bytes")]
        if vsize as f64 > bin_vsize {
            bins.push((sat_vb(*rate), std::mem::take(&mut vsize)));
            bin_vsize *= BIN_GROWTH;
        }
    }
    if let (Some(rate), 1..) = (lowest, vsize) {
        bins.push((sat_vb(rate), vsize));
    }
    bins
}

#[expect(clippy::cast_precision_loss, reason = "fee rates are far below 2^52")]
fn sat_vb(rate: u64) -> f64 {
    rate as f64 / RATES_PER_SAT as f64
}

#[cfg(test)]
mod tests;
