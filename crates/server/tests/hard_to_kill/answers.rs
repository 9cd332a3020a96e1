//! All that an index says, read from its folder once nobody else has it open.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use birdhouse_chain::{Height, HistoryEntry, Index, Profile, ScriptHash, Secret, TABLES, Unspent};
use birdhouse_node::BlockFiles;
use birdhouse_store::{RocksOptions, RocksStore};
use birdhouse_testkit::ChainBuilder;
use bitcoin::constants::genesis_block;
use bitcoin::{Network, ScriptBuf, Txid};

/// Answers for every script of a chain, its raw transactions, and the headers.
#[derive(Debug)]
pub(crate) struct Answers {
    headers: Vec<[u8; 80]>,
    scripts: BTreeMap<ScriptBuf, OfScript>,
    transactions: BTreeMap<Txid, Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
struct OfScript {
    history: Vec<HistoryEntry>,
    status: Option<[u8; 32]>,
    balance: birdhouse_chain::Balance,
    unspent: Vec<Unspent>,
}

/// Every script that these blocks pay.
pub(crate) fn scripts_of(chain: &ChainBuilder) -> BTreeSet<ScriptBuf> {
    let outputs = chain.blocks().iter().flat_map(|block| &block.txdata).flat_map(|tx| &tx.output);
    outputs.map(|output| output.script_pubkey.clone()).collect()
}

impl Answers {
    /// Opens the index in `index_dir` and asks about all `scripts`.
    pub(crate) fn read(index_dir: &Path, blocks_dir: &Path, profile: Profile, scripts: &BTreeSet<ScriptBuf>) -> Self {
        let store = RocksStore::open(index_dir, &TABLES, RocksOptions::default()).unwrap();
        let source = BlockFiles::open(blocks_dir, Network::Regtest).unwrap();
        let genesis = genesis_block(Network::Regtest).block_hash();
        let index = Index::open(Arc::new(store), Arc::new(source), genesis, profile, Secret([0; 16])).unwrap();
        let snapshot = index.snapshot().unwrap();
        let mut answers = Self {
            headers: snapshot.headers(Height(0), u32::MAX),
            scripts: BTreeMap::new(),
            transactions: BTreeMap::new(),
        };
        for script in scripts {
            let scripthash = ScriptHash::of(script.as_bytes());
            let of_script = OfScript {
                history: snapshot.history(&scripthash).unwrap(),
                status: snapshot.status(&scripthash).unwrap(),
                balance: snapshot.balance(&scripthash).unwrap(),
                unspent: snapshot.unspent(&scripthash).unwrap(),
            };
            for entry in &of_script.history {
                let raw = || snapshot.transaction(entry.txid).unwrap().expect("history names what is there").raw;
                answers.transactions.entry(entry.txid).or_insert_with(raw);
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
