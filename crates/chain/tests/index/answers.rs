//! All answers of an index, to be compared with those of another one. Tests of the program use this file too.

use std::collections::{BTreeMap, BTreeSet};

use birdhouse_chain::{Balance, Height, HistoryEntry, ScriptHash, Snapshot, Unspent};
use bitcoin::{ScriptBuf, Txid};

/// The headers, and the answers and raw transactions of some scripts.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) headers: Vec<[u8; 80]>,
    pub(crate) scripts: BTreeMap<ScriptBuf, OfScript>,
    pub(crate) transactions: BTreeMap<Txid, Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfScript {
    history: Vec<HistoryEntry>,
    status: Option<[u8; 32]>,
    balance: Balance,
    unspent: Vec<Unspent>,
}

impl Answers {
    /// Asks about each of these scripts and for all their transactions.
    pub(crate) fn of(snapshot: &Snapshot, scripts: &BTreeSet<ScriptBuf>) -> Self {
        let mut answers = Self {
            headers: snapshot.headers(Height(0), u32::MAX),
            scripts: BTreeMap::new(),
            transactions: BTreeMap::new(),
        };
        for script in scripts {
            let scripthash = ScriptHash::of(script.as_bytes());
            // The txid cache answers for transactions of a whole history, and rows for all others.
            let all = Height(0)..Height(u32::MAX);
            let entries = snapshot.history_between(&scripthash, all).unwrap();
            let uncached: Vec<Vec<u8>> = entries.iter().map(|entry| raw(snapshot, entry)).collect();
            let of_script = OfScript::of(snapshot, &scripthash);
            assert_eq!(of_script.history, entries);
            for (entry, uncached) in entries.iter().zip(uncached) {
                assert_eq!(raw(snapshot, entry), uncached);
                answers.transactions.insert(entry.txid, uncached);
            }
            answers.scripts.insert(script.clone(), of_script);
        }
        answers
    }

    /// Fails with the first difference, in one line.
    pub(crate) fn assert_equal(&self, other: &Self, context: &str) {
        assert_eq!(self.headers.len(), other.headers.len(), "{context}: number of headers");
        assert!(self.headers == other.headers, "{context}: headers");
        for (script, of_script) in &self.scripts {
            assert_eq!(Some(of_script), other.scripts.get(script), "{context}: script {script:x}");
        }
        assert!(self.transactions == other.transactions, "{context}: transactions");
    }
}

impl OfScript {
    pub(crate) fn of(snapshot: &Snapshot, scripthash: &ScriptHash) -> Self {
        Self {
            history: snapshot.history(scripthash).unwrap(),
            status: snapshot.status(scripthash).unwrap(),
            balance: snapshot.balance(scripthash).unwrap(),
            unspent: snapshot.unspent(scripthash).unwrap(),
        }
    }
}

fn raw(snapshot: &Snapshot, entry: &HistoryEntry) -> Vec<u8> {
    let found = snapshot.transaction(entry.txid).unwrap().expect("a history lists transactions of the chain");
    assert_eq!(found.block.height, entry.height);
    found.raw
}
