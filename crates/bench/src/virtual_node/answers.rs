//! Answers about scripts, from the numbers of the chain alone: what an index must answer.

use std::collections::BTreeMap;

use birdhouse_chain::{Confirmation, Height, HistoryEntry, Result, ScriptHash, Snapshot, Unspent};
use birdhouse_testkit::rng::Rng;
use bitcoin::Txid;
use bitcoin::hashes::{Hash as _, sha256, sha256d};

use super::encode::{Encoder, Made};
use super::epochs::CLASSES;
use super::places::{COINBASE_CLASS, FILLING_CLASS, NEVER_CLASS, OutPlace, Script, TxPlace};
use super::scripts::Known;

/// The history of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The transactions that touch it, in the order of the chain.
    pub(crate) history: Vec<HistoryEntry>,
    /// Its unspent outputs, in the order of the chain.
    pub(crate) unspent: Vec<Unspent>,
    /// Their sum, in satoshis.
    pub(crate) balance: u64,
}

impl Answer {
    /// Returns what an index says.
    ///
    /// # Errors
    /// Those of the index.
    pub(crate) fn of(snapshot: &Snapshot, script: &ScriptHash) -> Result<Self> {
        Ok(Self {
            history: snapshot.history(script)?,
            unspent: snapshot.unspent(script)?,
            balance: snapshot.balance(script)?.confirmed,
        })
    }
}

/// Scripts of one class.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// The class in words.
    pub(crate) name: String,
    pub(crate) scripts: Vec<Script>,
}

/// Height and number of a transaction: its order in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Numbered {
    txnum: u64,
    height: u64,
    place: TxPlace,
}

impl Encoder {
    /// Returns the hash of a script.
    pub(super) fn scripthash(&self, script: Script) -> ScriptHash {
        let mut bytes = Vec::new();
        Known::of(&self.layout, script).put_script_pubkey(&mut bytes);
        ScriptHash(sha256::Hash::hash(&bytes).to_byte_array())
    }

    /// Returns everything about a script.
    pub(super) fn answer(&self, script: Script) -> Answer {
        let mut touching: BTreeMap<Numbered, Vec<(u32, OutPlace)>> = BTreeMap::new();
        for output in self.layout.outputs_of(script) {
            let unspent = touching.entry(self.numbered(self.layout.funding(output))).or_default();
            match self.layout.spender(output) {
                None => unspent.push((self.layout.vout(output), output)),
                Some(spender) => drop(touching.entry(self.numbered(spender)).or_default()),
            }
        }
        let (mut answer, mut made) = (Answer::default(), Made::default());
        for (Numbered { height, place, .. }, mut unspent) in touching {
            let height = Height(u32::try_from(height).expect("heights fit"));
            let txid = self.txid(place, &mut made);
            answer.history.push(HistoryEntry { txid, height });
            unspent.sort_unstable();
            for (vout, output) in unspent {
                let value = self.layout.value(output);
                answer.balance += value;
                answer.unspent.push(Unspent { txid, vout, confirmation: Confirmation::Confirmed(height), value });
            }
        }
        answer
    }

    fn numbered(&self, place: TxPlace) -> Numbered {
        let height = self.layout.height(place);
        Numbered { txnum: self.layout.txnum(place, height), height, place }
    }

    /// Returns the txid of a transaction, hashed by another library than the index's.
    fn txid(&self, place: TxPlace, made: &mut Made) -> Txid {
        self.transaction(place, made);
        Txid::from_raw_hash(sha256d::Hash::hash(&made.stripped))
    }

    /// Returns random scripts of every length, `count` in all, about; a few of those with the longest histories.
    pub(super) fn samples(&self, count: usize, seed: u64) -> Vec<Sample> {
        let mut rng = Rng::new(seed);
        let classes = (0..CLASSES.len()).map(|class| {
            let scripts = count * PER_MILLE[class] / 1000;
            let mut scripts: Vec<_> =
                (0..scripts.min(MOST[class])).map(|_| self.layout.random_script(class, &mut rng)).collect();
            scripts.sort_unstable();
            scripts.dedup();
            Sample { name: NAMES[class].to_owned(), scripts }
        });
        let mut samples: Vec<_> = classes.collect();
        let coinbases = (0..POOLS_ASKED).map(|number| Script { class: COINBASE_CLASS, number });
        samples.push(Sample { name: "of a miner".to_owned(), scripts: coinbases.collect() });
        let filling = (80..80 + FILLING_ASKED).map(|number| Script { class: FILLING_CLASS, number });
        samples.push(Sample { name: "of the first blocks".to_owned(), scripts: filling.collect() });
        let never = (0..NEVER_ASKED).map(|number| Script { class: NEVER_CLASS, number });
        samples.push(Sample { name: "never paid".to_owned(), scripts: never.collect() });
        samples
    }
}

/// The scripts of a sample by class, in thousandths, and the most of them.
const PER_MILLE: [usize; CLASSES.len()] = [400, 150, 150, 150, 100, 30, 10, 5, 5];
const MOST: [usize; CLASSES.len()] = [usize::MAX, usize::MAX, usize::MAX, usize::MAX, usize::MAX, 2000, 200, 8, 2];
const NAMES: [&str; CLASSES.len()] = [
    "paid once",
    "paid twice",
    "paid 3 times",
    "paid 8 times",
    "paid 40 times",
    "paid 300 times",
    "paid 2000 times",
    "paid 50 000 times",
    "paid all the time",
];
const POOLS_ASKED: u64 = 2;
const FILLING_ASKED: u64 = 100;
const NEVER_ASKED: u64 = 100;
