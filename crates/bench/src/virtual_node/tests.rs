//! The chain beside a naive reader of its blocks, and an index beside the chain.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use birdhouse_chain::source::{BlockSource as _, SpentBuf};
use birdhouse_chain::{
    BuildOptions, Confirmation, Height, HistoryEntry, Index, Profile, ScriptHash, Secret, TABLES, Unspent,
};
use birdhouse_store::{SegmentOptions, SegmentStore};
use birdhouse_testkit::core_coding::{compressed_amount, put_varint};
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::{Block, Network, OutPoint, TxOut, Txid, consensus};

use super::answers::Answer;
use super::places::{OutPlace, Script};
use super::{Layout, VirtualNode};

fn node(seed: u64, txs: u64) -> VirtualNode {
    VirtualNode::make(Layout::new(seed, txs), 2)
}

/// Every script of a chain, by its outputs.
fn scripts(node: &VirtualNode) -> BTreeSet<Script> {
    let layout = node.layout();
    let coinbases = (1..layout.blocks())
        .flat_map(|height| (0..Layout::coinbase_outputs(height)).map(move |vout| OutPlace::Coinbase { height, vout }));
    let cells = (0..layout.cells()).flat_map(|cell| {
        let outputs = layout.order(cell).outputs.len();
        (0..outputs).map(move |output| OutPlace::Cell { cell, output })
    });
    coinbases.chain(cells).filter_map(|place| layout.script(place)).collect()
}

/// An output that a reader of blocks has found.
struct Coin {
    txid: Txid,
    output: TxOut,
    height: u32,
    is_coinbase: bool,
}

/// A reader of blocks with a table of coins, by the names that inputs have.
#[derive(Default)]
struct Reader {
    coins: HashMap<OutPoint, Coin>,
    answers: BTreeMap<ScriptHash, Answer>,
    inputs: u64,
}

impl Reader {
    fn read(&mut self, node: &VirtualNode, height: u32, block: &Block, undo: &[u8]) {
        let names = node.outpoint_txids(Height(height)).expect("inputs have names of their own");
        let mut expected_undo = vec![u8::try_from(block.txdata.len() - 1).unwrap_or(0xfd)];
        if block.txdata.len() > 0xfd {
            expected_undo.extend(u16::try_from(block.txdata.len() - 1).expect("a small block").to_le_bytes());
        }
        for (tx, name) in block.txdata.iter().zip(names) {
            let (txid, is_coinbase) = (tx.compute_txid(), tx.is_coinbase());
            let entry = HistoryEntry { txid, height: Height(height) };
            if !is_coinbase {
                expected_undo.push(u8::try_from(tx.input.len()).expect("few inputs"));
            }
            for input in tx.input.iter().filter(|_| !is_coinbase) {
                let coin = self.coins.remove(&input.previous_output).expect("each input has an output, once");
                put_undo(&mut expected_undo, &coin);
                self.inputs += 1;
                let answer = self.answers.get_mut(&hash(&coin.output)).expect("it was paid");
                answer.balance -= coin.output.value.to_sat();
                touch(answer, entry);
                let spent = (coin.txid, input.previous_output.vout);
                answer.unspent.retain(|unspent| (unspent.txid, unspent.vout) != spent);
            }
            for (vout, output) in (0..).zip(&tx.output) {
                if output.script_pubkey.is_op_return() {
                    continue;
                }
                let outpoint = OutPoint { txid: Txid::from_byte_array(name), vout };
                self.coins.insert(outpoint, Coin { txid, output: output.clone(), height, is_coinbase });
                let answer = self.answers.entry(hash(output)).or_default();
                answer.balance += output.value.to_sat();
                touch(answer, entry);
                let confirmation = Confirmation::Confirmed(Height(height));
                answer.unspent.push(Unspent { txid, vout, confirmation, value: output.value.to_sat() });
            }
        }
        assert_eq!(undo, expected_undo, "undo data of block {height}");
    }
}

fn hash(output: &TxOut) -> ScriptHash {
    ScriptHash::of(output.script_pubkey.as_bytes())
}

fn touch(answer: &mut Answer, entry: HistoryEntry) {
    if answer.history.last() != Some(&entry) {
        answer.history.push(entry);
    }
}

/// Writes a coin as Core's `undo.h` and `compressor.cpp` do.
fn put_undo(out: &mut Vec<u8>, coin: &Coin) {
    put_varint(out, u64::from(coin.height) * 2 + u64::from(coin.is_coinbase));
    out.push(0);
    put_varint(out, compressed_amount(coin.output.value.to_sat()));
    let (script, bytes) = (&coin.output.script_pubkey, coin.output.script_pubkey.as_bytes());
    if script.is_p2pkh() {
        out.push(0);
        out.extend_from_slice(&bytes[3..23]);
    } else if script.is_p2sh() {
        out.push(1);
        out.extend_from_slice(&bytes[2..22]);
    } else if bytes.len() == 35 && bytes[0] == 33 {
        out.extend_from_slice(&bytes[1..34]);
    } else {
        put_varint(out, bytes.len() as u64 + 6);
        out.extend_from_slice(bytes);
    }
}

#[test]
fn a_naive_reader_of_the_blocks_finds_what_the_chain_says_of_every_script() {
    let node = node(3, 20_000);
    let chain = node.chain(None).unwrap();
    let (mut reader, mut prev) = (Reader::default(), genesis_block(Network::Bitcoin).block_hash());
    for (height, meta) in (1..).zip(&chain[1..]) {
        let fetched = node.block(meta.hash).unwrap();
        let block: Block = consensus::deserialize(&fetched.block).unwrap();
        assert!(block.check_merkle_root() && block.header.prev_blockhash == prev, "block {height}");
        assert_eq!((block.block_hash(), block.txdata.len()), (meta.hash, meta.tx_count as usize));
        assert_eq!(fetched.block.len(), meta.bytes as usize);
        let SpentBuf::Undo(undo) = fetched.spent else { panic!("undo data") };
        reader.read(&node, height, &block, &undo);
        prev = meta.hash;
    }
    assert!(reader.inputs > 40_000);
    let scripts = scripts(&node);
    assert_eq!(scripts.len(), reader.answers.len());
    let mut lengths = BTreeSet::new();
    for script in scripts {
        let answer = node.answer(script);
        assert_eq!(reader.answers.get(&node.scripthash(script)), Some(&answer), "{script:?}");
        lengths.insert(answer.history.len().ilog2());
    }
    assert_eq!(lengths, (0..10).collect());
}

#[test]
fn an_index_answers_as_the_chain_for_every_script() {
    // A lean index reads transactions from blocks, which are made for each of them.
    for (profile, txs) in [(Profile::Full, 100_000), (Profile::Lean, 2_000)] {
        let node = Arc::new(node(1, txs));
        let folder = tempfile::tempdir().unwrap();
        let store = SegmentStore::open(&folder.path().join("index"), &TABLES, SegmentOptions::default()).unwrap();
        let genesis = genesis_block(Network::Bitcoin).block_hash();
        let index = Index::open(Arc::new(store), node.clone(), genesis, profile, Secret([1; 16])).unwrap();
        let options = BuildOptions {
            // Several generations.
            temp_bytes: txs * 40,
            reorg_blocks: 20,
            ..BuildOptions::modest(folder.path().join("temp"))
        };
        let report = index.build(None, &options).unwrap().unwrap();
        let scripts: Vec<Script> = scripts(&node).into_iter().collect();
        assert_eq!((report.txs, report.scripts), (node.layout().txs(), scripts.len() as u64));
        let snapshot = index.snapshot().unwrap();
        let compare = |scripts: &[Script]| {
            for script in scripts {
                let answer = Answer::of(&snapshot, &node.scripthash(*script)).unwrap();
                assert_eq!(answer, node.answer(*script), "{script:?}");
            }
        };
        let compare = &compare;
        std::thread::scope(|scope| {
            for some in scripts.chunks(scripts.len().div_ceil(4)) {
                scope.spawn(move || compare(some));
            }
        });
    }
}
