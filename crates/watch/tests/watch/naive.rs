//! A naive model of notices: compares two whole views of chain and mempool, which come from the node's own RPC, and
//! says what must be announced.

use std::collections::{BTreeMap, HashMap};

use birdhouse_testkit::ledger::Ledger;
use birdhouse_watch::Notice;
use bitcoin::{OutPoint, ScriptBuf, Transaction, TxOut, Txid};

/// A transaction of a script.
#[derive(Clone, PartialEq)]
struct Seen {
    /// Height and hash in hexadecimal.
    block: Option<(u32, String)>,
    received: u64,
    spent: u64,
    inputs: Vec<OutPoint>,
}

type View = BTreeMap<Txid, Seen>;

/// A transaction, and height and hash of its block.
type Placed<'a> = (Txid, &'a Transaction, Option<(u32, String)>);

/// Every transaction of chain and mempool.
pub(crate) struct All<'a> {
    transactions: Vec<Placed<'a>>,
    outputs: HashMap<OutPoint, &'a TxOut>,
    spenders: HashMap<OutPoint, Txid>,
}

impl<'a> All<'a> {
    pub(crate) fn of(ledger: &'a Ledger) -> Self {
        let mut transactions: Vec<Placed<'_>> = Vec::new();
        for (height, mined) in (0..).zip(ledger.chain()) {
            let block = || Some((height, mined.hash.to_string()));
            transactions.extend(mined.txids.iter().zip(&mined.block.txdata).map(|(txid, tx)| (*txid, tx, block())));
        }
        transactions.extend(ledger.mempool().iter().map(|(txid, waiting)| (*txid, &waiting.tx, None)));
        let (mut outputs, mut spenders) = (HashMap::new(), HashMap::new());
        for (txid, tx, _) in &transactions {
            let named = (0..).zip(&tx.output).map(|(vout, output)| (OutPoint { txid: *txid, vout }, output));
            outputs.extend(named);
            spenders.extend(tx.input.iter().map(|input| (input.previous_output, *txid)));
        }
        Self { transactions, outputs, spenders }
    }

    fn view(&self, script: &ScriptBuf) -> View {
        let is_own = |output: &&TxOut| output.script_pubkey == *script;
        let sum = |values: &mut dyn Iterator<Item = &TxOut>| values.filter(is_own).map(|it| it.value.to_sat()).sum();
        let mut view = View::new();
        for (txid, tx, block) in &self.transactions {
            let spent = || tx.input.iter().filter_map(|input| self.outputs.get(&input.previous_output).copied());
            if tx.output.iter().any(|output| is_own(&output)) || spent().any(|output| is_own(&output)) {
                let inputs = tx.input.iter().map(|input| input.previous_output).collect();
                let (received, spent) = (sum(&mut tx.output.iter()), sum(&mut spent()));
                view.insert(*txid, Seen { block: block.clone(), received, spent, inputs });
            }
        }
        view
    }
}

/// The watch of one script, and what it was announced.
#[derive(Clone)]
pub(crate) struct Model {
    /// The name of its watch.
    pub(crate) name: String,
    script: ScriptBuf,
    levels: &'static [u32],
    known: View,
    announced: HashMap<Txid, Option<u32>>,
}

impl Model {
    /// A watch with these levels of confirmations, which knows nothing.
    pub(crate) fn new(name: String, script: ScriptBuf, levels: &'static [u32]) -> Self {
        Self { name, script, levels, known: View::new(), announced: HashMap::new() }
    }

    fn level(&self, tip: u32, seen: &Seen) -> Option<u32> {
        let confirmations = seen.block.as_ref().map_or(0, |(height, _)| tip + 1 - height);
        self.levels.iter().copied().rev().find(|level| *level <= confirmations)
    }

    /// Notices of a change, in short, sorted.
    pub(crate) fn change(&mut self, all: &All<'_>, tip: u32) -> Vec<String> {
        let now = all.view(&self.script);
        let mut announced = Vec::new();
        let line = |kind: String, txid: &Txid, at: Option<u32>, seen: &Seen| {
            let at = at.map(|at| format!("@{at}")).unwrap_or_default();
            format!("{} {kind} {}{at} +{} -{}", self.name, &txid.to_string()[..8], seen.received, seen.spent)
        };
        for (txid, before) in &self.known {
            let after = now.get(txid);
            if let Some((height, _)) = &before.block
                && after.is_none_or(|after| after.block != before.block)
            {
                announced.push(line("reorganised".into(), txid, Some(*height), before));
                self.announced.insert(*txid, Some(0));
            }
            if after.is_none() {
                let by = before.inputs.iter().find_map(|input| all.spenders.get(input));
                let kind = by.map_or("dropped".into(), |by| {
                    let mut words = [by.to_string(), "replaced".into()];
                    words.sort();
                    words.join(" ")
                });
                announced.push(line(kind, txid, None, before));
                self.announced.remove(txid);
            }
        }
        for (txid, after) in &now {
            let level = self.level(tip, after);
            if level > self.announced.get(txid).copied().flatten() {
                let kind = match level {
                    Some(0) => "seen".into(),
                    Some(level) => format!("confirmed {level}"),
                    None => unreachable!("above None"),
                };
                announced.push(line(kind, txid, after.block.as_ref().map(|(height, _)| *height), after));
                self.announced.insert(*txid, level);
            }
        }
        self.known = now;
        announced.sort();
        announced
    }
}

/// A notice in short.
pub(crate) fn short(notice: &Notice) -> String {
    let kind = serde_json::to_value(&notice.kind).unwrap();
    let mut kind: Vec<String> = kind.as_object().unwrap().iter().map(|(_, value)| value.to_string()).collect();
    kind.sort();
    let txid = notice.txid.map(|txid| txid.to_string()[..8].to_owned()).unwrap_or_default();
    let height = notice.block.map(|block| format!("@{}", block.height.0)).unwrap_or_default();
    let (received, spent) = (notice.amounts.received, notice.amounts.spent);
    format!("{} {} {txid}{height} +{received} -{spent}", notice.watch, kind.join(" ").replace('"', ""))
}
