//! All that an index says, to be compared with what another one does. Tests of the program use it too.

use std::collections::{BTreeMap, BTreeSet};

use birdhouse_chain::{Balance, Height, HistoryEntry, ScriptHash, Snapshot, Unspent};
use bitcoin::{ScriptBuf, Txid};

/// The headers, and answers for every script that was asked about, and its raw transactions.
#[derive(Debug)]
pub(crate) struct Answers {
    headers: Vec<[u8; 80]>,
    pub(crate) scripts: BTreeMap<ScriptBuf, OfScript>,
    transactions: BTreeMap<Txid, Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OfScript {
    history: Vec<HistoryEntry>,
    status: Option<[u8; 32]>,
    balance: Balance,
    unspent: Vec<Unspent>,
}

impl Answers {
    /// Asks about each of these scripts, and for every transaction of theirs.
    pub(crate) fn of(snapshot: &Snapshot, scripts: &BTreeSet<ScriptBuf>) -> Self {
        let mut answers = Self {
            headers: snapshot.headers(Height(0), u32::MAX),
            scripts: BTreeMap::new(),
            transactions: BTreeMap::new(),
        };
        for script in scripts {
            let scripthash = ScriptHash::of(script.as_bytes());
            // What a whole history has named is found in another way than what nobody has asked for.
            let all = Height(0)..Height(u32::MAX);
            let entries = snapshot.history_between(&scripthash, all).unwrap();
            let unnamed: Vec<Vec<u8>> = entries.iter().map(|entry| raw(snapshot, entry)).collect();
            let of_script = OfScript {
                history: snapshot.history(&scripthash).unwrap(),
                status: snapshot.status(&scripthash).unwrap(),
                balance: snapshot.balance(&scripthash).unwrap(),
                unspent: snapshot.unspent(&scripthash).unwrap(),
            };
            assert_eq!(of_script.history, entries);
            for (entry, unnamed) in entries.iter().zip(unnamed) {
                assert_eq!(raw(snapshot, entry), unnamed);
                answers.transactions.insert(entry.txid, unnamed);
            }
            answers.scripts.insert(script.clone(), of_script);
        }
        answers
    }

    /// Fails with the first difference, in a line rather than a flood.
    pub(crate) fn assert_equal(&self, other: &Self, context: &str) {
        assert_eq!(self.headers.len(), other.headers.len(), "{context}: number of headers");
        assert!(self.headers == other.headers, "{context}: headers");
        for (script, of_script) in &self.scripts {
            assert_eq!(Some(of_script), other.scripts.get(script), "{context}: script {script:x}");
        }
        assert!(self.transactions == other.transactions, "{context}: transactions");
    }
}

fn raw(snapshot: &Snapshot, entry: &HistoryEntry) -> Vec<u8> {
    let found = snapshot.transaction(entry.txid).unwrap().expect("history names what is there");
    assert_eq!(found.block.height, entry.height);
    found.raw
}
