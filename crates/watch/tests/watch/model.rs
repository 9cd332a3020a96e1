//! A naive model: compares two whole views of chain and mempool, which come from the node's own RPC, and says what must
//! be announced. Random changes, restarts at any moment, reorgs.

use std::collections::{BTreeMap, HashMap};

use birdhouse_testkit::ledger::Ledger;
use birdhouse_testkit::rng::Rng;
use birdhouse_testkit::script::{Form, Lock};
use bitcoin::{OutPoint, ScriptBuf, Transaction, TxOut, Txid};

use crate::world::{World, shorts};

const LEVELS: [u32; 3] = [0, 1, 3];
const MOVES: u32 = 150;

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
struct All<'a> {
    transactions: Vec<Placed<'a>>,
    outputs: HashMap<OutPoint, &'a TxOut>,
    spenders: HashMap<OutPoint, Txid>,
}

impl<'a> All<'a> {
    fn of(ledger: &'a Ledger) -> Self {
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
struct Model {
    name: String,
    script: ScriptBuf,
    known: View,
    announced: HashMap<Txid, Option<u32>>,
}

impl Model {
    fn level(tip: u32, seen: &Seen) -> Option<u32> {
        let confirmations = seen.block.as_ref().map_or(0, |(height, _)| tip + 1 - height);
        LEVELS.into_iter().rev().find(|level| *level <= confirmations)
    }

    /// Notices of a change, in short, sorted.
    fn change(&mut self, all: &All<'_>, tip: u32) -> Vec<String> {
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
            let level = Self::level(tip, after);
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

fn run(seed: u64) {
    let mut world = World::start(seed);
    let forms = [Form::P2wpkh, Form::P2tr, Form::P2wsh, Form::P2pkh];
    let mut models: Vec<Model> = Vec::new();
    for (form, number) in forms.into_iter().flat_map(|form| (0..3).map(move |number| (form, number))) {
        let script = world.live.wallet().script_pubkey(Lock::new(form, number));
        let name = format!("{form:?}-{number}");
        world.watch(&name, &format!("script = \"{script:x}\"\nconfirmations = [0, 1, 3]"));
        models.push(Model { name, script, known: View::new(), announced: HashMap::new() });
    }
    let ledger = world.live.ledger();
    let all = All::of(ledger);
    for model in &mut models {
        model.change(&all, ledger.height());
    }
    assert_eq!(shorts(&world.restart()), [""; 0], "the past is not announced");
    let (mut rng, mut height, mut logged) = (Rng::new(seed), world.live.ledger().height(), Vec::new());
    let mut count = 0;
    for round in 0..MOVES {
        let made = world.live.random_move().unwrap();
        let is_killed = rng.per_mille(200);
        let mut announced = if is_killed { Vec::new() } else { world.sync() };
        if is_killed {
            world.index.sync(world.core()).unwrap();
            announced = world.restart();
        }
        // Below the height that was announced last nothing is announced: blocks are on their way.
        let expected: Vec<String> = if world.live.ledger().height() < height {
            Vec::new()
        } else {
            height = world.live.ledger().height();
            let all = All::of(world.live.ledger());
            models.iter_mut().flat_map(|model| model.change(&all, height)).collect()
        };
        let mut expected = expected;
        let mut found = shorts(&announced);
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "seed {seed}, round {round}, after {made:?}");
        count += announced.len();
        logged.extend(announced.iter().map(|notice| notice.id));
    }
    assert!(count > 100, "seed {seed}: {count} notices");
    let log: Vec<_> = world.log().iter().map(|notice| notice.id).collect();
    assert_eq!(log, logged, "the log has each notice once and in order");
    let mut ids = log;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), logged.len(), "no two notices have one id");
}

#[test]
fn random_changes_are_told_as_a_naive_model_says_across_restarts() {
    for seed in [901, 902] {
        run(seed);
    }
}
