//! Comparison of a snapshot's answers with those of the model.

use std::fmt::Debug;

use birdhouse_chain::{Error, Height, MerkleBranch, Result, ScriptHash, Snapshot, sha256d};
use birdhouse_testkit::rng::Rng;
use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, ScriptBuf, Txid};

use crate::model::Model;

/// Failures that an answer may have at this moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Excused {
    /// The node may not answer, or may have lost a block.
    pub(crate) node: bool,
    /// The disk may not be readable.
    pub(crate) store: bool,
}

/// The number of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A few.
    Some,
    /// All about scripts, and many about the rest.
    Everything,
}

/// A snapshot, and the model at its tip with its mempool.
pub(crate) struct Comparison<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) model: Model<'a>,
    pub(crate) excused: Excused,
    /// False for a snapshot that somebody kept.
    pub(crate) is_current: bool,
}

/// The first difference, in one line.
pub(crate) type Difference = std::result::Result<(), String>;

impl Comparison<'_> {
    /// Compares an answer, unless an excused failure kept the index from giving one.
    fn equal<T: Debug + PartialEq>(&self, what: impl Fn() -> String, found: Result<T>, expected: &T) -> Difference {
        match found {
            Ok(found) if found == *expected => Ok(()),
            Ok(found) => Err(format!("{}: {found:?}, and the model has {expected:?}", what())),
            Err(Error::Source(_)) if self.excused.node => Ok(()),
            Err(Error::Store(_)) if self.excused.store => Ok(()),
            Err(error) => Err(format!("{}: {error}", what())),
        }
    }

    /// Compares answers.
    pub(crate) fn all(&self, extent: Extent, rng: &mut Rng) -> Difference {
        match extent {
            Extent::Some => self.some(rng),
            Extent::Everything => self.everything(rng),
        }
    }

    fn everything(&self, rng: &mut Rng) -> Difference {
        self.headers(rng)?;
        for script in self.model.tree.scripts() {
            self.script(script)?;
            if rng.per_mille(150) {
                self.pages(script, rng)?;
            }
        }
        self.some_transactions(rng, 40)
    }

    fn some(&self, rng: &mut Rng) -> Difference {
        let scripts: Vec<&ScriptBuf> = self.model.tree.scripts().collect();
        for _ in 0..3 {
            let script = *rng.pick(&scripts);
            self.script(script)?;
            if rng.per_mille(150) {
                self.pages(script, rng)?;
            }
        }
        self.headers(rng)?;
        self.some_transactions(rng, 3)
    }

    fn some_transactions(&self, rng: &mut Rng, count: usize) -> Difference {
        let tree = self.model.tree;
        for _ in 0..count {
            // The youngest are where reorgs are.
            let window = if rng.per_mille(600) { 40 } else { usize::MAX };
            let txids = tree.txids();
            let txid = txids[txids.len() - 1 - rng.index(txids.len().min(window))];
            self.transaction(&txid, rng)?;
            let outputs = tree.outputs();
            let outpoint = outputs[outputs.len() - 1 - rng.index(outputs.len().min(window))];
            self.output(outpoint)?;
        }
        Ok(())
    }

    fn headers(&self, rng: &mut Rng) -> Difference {
        let (snapshot, tree, path) = (self.snapshot, self.model.tree, &self.model.at.path);
        let height = self.model.tip_height();
        let low = height.saturating_sub(rng.below_u32(12));
        let expected: Vec<[u8; 80]> = path[low as usize..].iter().map(|block| tree.block(*block).header).collect();
        self.equal(|| format!("headers from {low}"), Ok(snapshot.headers(Height(low), u32::MAX)), &expected)?;
        let block = tree.block(path[low as usize]);
        self.equal(|| format!("block {low}"), Ok(snapshot.block_hash(Height(low))), &Some(block.hash))?;
        let txids = snapshot.txids_of_block(Height(low));
        self.equal(|| format!("txids of block {low}"), txids, &Some(block.txids.clone()))?;
        let any = rng.index(tree.len());
        if !self.is_current && tree.is_on(path, any) {
            // The table of heights may have forgotten a branch that was left.
            return Ok(());
        }
        let expected = tree.is_on(path, any).then(|| Height(tree.block(any).height));
        let found = snapshot.block_height(&tree.block(any).hash);
        self.equal(|| format!("height of block {}", tree.block(any).hash), Ok(found), &expected)
    }

    fn script(&self, script: &ScriptBuf) -> Difference {
        let (at, model, hash) = (self.snapshot, self.model.of_script(script), ScriptHash::of(script.as_bytes()));
        let what = |answer: &'static str| move || format!("{answer} of script {script:x}");
        self.equal(what("balance"), at.balance(&hash), &model.balance())?;
        self.equal(what("unspent"), at.unspent(&hash), &model.unspent())?;
        self.equal(what("history"), at.history(&hash), &model.history())?;
        self.equal(what("unconfirmed"), Ok(at.unconfirmed(&hash)), &model.unconfirmed)?;
        self.equal(what("status"), at.status(&hash), &model.status())?;
        self.equal(what("stats"), at.confirmed_stats(&hash), &model.confirmed_stats())
    }

    /// Compares pages of a script's history, newest first.
    fn pages(&self, script: &ScriptBuf, rng: &mut Rng) -> Difference {
        let (at, hash) = (self.snapshot, ScriptHash::of(script.as_bytes()));
        let history = self.model.of_script(script).history();
        let mut expected: Vec<Txid> = history.iter().map(|entry| entry.txid).collect();
        expected.reverse();
        let cursor = (!expected.is_empty() && rng.per_mille(600)).then(|| rng.index(expected.len()));
        let after = cursor.map(|cursor| expected[cursor]);
        let count = 1 + rng.index(5);
        let page = expected.split_off(cursor.map_or(0, |cursor| cursor + 1));
        let found = at.history_page(&hash, after, count);
        let found = found.map(|page| page.iter().map(|found| found.transaction.compute_txid()).collect::<Vec<Txid>>());
        let expected = page.into_iter().take(count).collect();
        self.equal(|| format!("page of script {script:x} after {after:?}"), found, &expected)?;
        let from = rng.below_u32(self.model.tip_height() + 1);
        let until = from + rng.below_u32(40);
        let mut between = history;
        between.retain(|entry| (from..until).contains(&entry.height.0));
        let found = at.history_between(&hash, Height(from)..Height(until));
        self.equal(|| format!("history of script {script:x} in {from}..{until}"), found, &between)
    }

    fn transaction(&self, txid: &Txid, rng: &mut Rng) -> Difference {
        let (at, model) = (self.snapshot, &self.model);
        let known = model.tree.tx(txid).expect("a txid of the network");
        let confirmation = model.confirmation(txid);
        self.equal(|| format!("confirmation of {txid}"), at.confirmation(*txid), &confirmation)?;
        let raw = confirmation.map(|_| known.raw.clone());
        self.equal(|| format!("bytes of {txid}"), at.transaction_bytes(*txid), &raw)?;
        let block = model.block_of(txid);
        self.equal(|| format!("block of {txid}"), at.transaction_block(*txid), &block)?;
        if let Some(block) = block {
            let root = known_root(model, block.height);
            let branch = at.merkle(*txid, block.height);
            let found = branch.map(|branch| branch.map(|branch| (folded(txid, &branch), branch.root)));
            self.equal(|| format!("merkle branch of {txid}"), found, &Some((root, root)))?;
        }
        // The parent of an unconfirmed transaction may have left the chain a moment ago.
        if rng.per_mille(300) && !model.is_orphan(txid) {
            let prevouts = at.resolved(*txid).map(|found| found.map(|found| found.prevouts));
            let expected = confirmation.map(|_| known.prevouts.clone());
            self.equal(|| format!("outputs that {txid} spends"), prevouts, &expected)?;
        }
        Ok(())
    }

    fn output(&self, outpoint: OutPoint) -> Difference {
        let model = &self.model;
        let expected = model.spender(&outpoint);
        self.equal(|| format!("spender of {outpoint}"), self.snapshot.spender_of(outpoint), &expected)?;
        let found = self.snapshot.output(outpoint);
        let found =
            found.map(|found| found.map(|found| (found.value, found.funding, found.spender.map(|(txid, _)| txid))));
        let known = model.tree.tx(&outpoint.txid).expect("an output of the network");
        let value = known.tx.output[outpoint.vout as usize].value.to_sat();
        let funding = model.confirmation(&outpoint.txid);
        let expected = funding.map(|funding| (value, funding, expected.map(|spender| spender.txid)));
        self.equal(|| format!("output {outpoint}"), found, &expected)
    }
}

/// The merkle root in the header of a block.
fn known_root(model: &Model<'_>, height: Height) -> [u8; 32] {
    let block = model.tree.block(model.at.path[height.0 as usize]);
    block.header[36..68].try_into().expect("32 bytes")
}

/// The root that a branch leads to.
fn folded(txid: &Txid, branch: &MerkleBranch) -> [u8; 32] {
    let (mut hash, mut position) = (txid.to_byte_array(), branch.position);
    for sibling in &branch.siblings {
        hash =
            if position % 2 == 0 { sha256d(&[hash, *sibling].concat()) } else { sha256d(&[*sibling, hash].concat()) };
        position /= 2;
    }
    hash
}
