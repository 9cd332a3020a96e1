//! Two coinbases with one txid (BIP 30), and answers that are refused before their txids are read.

use std::sync::Arc;

use birdhouse_chain::{Balance, Error, Height, Index, MergeOptions, Profile, ScriptHash};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};
use bitcoin::transaction::Version;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, absolute};
use sha2::{Digest as _, Sha256};

use crate::common::{MemoryNode, built, open_merging, options};

const REWARD_SAT: u64 = 5_000_000_000;

fn transaction(previous_output: OutPoint, script: &ScriptBuf) -> Transaction {
    let input = TxIn {
        previous_output,
        script_sig: ScriptBuf::from_bytes(vec![1, 7]),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    };
    let output = TxOut { value: Amount::from_sat(REWARD_SAT), script_pubkey: script.clone() };
    Transaction { version: Version::ONE, lock_time: absolute::LockTime::ZERO, input: vec![input], output: vec![output] }
}

fn mined(blocks: &mut Vec<Block>, txdata: Vec<Transaction>) {
    let mut block = blocks.last().unwrap().clone();
    block.header.prev_blockhash = block.block_hash();
    block.txdata = txdata;
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    // No two blocks of these chains are equal: their times differ.
    block.header.time += 1;
    blocks.push(block);
}

/// The answers about a script whose coinbase at height 3 was overwritten at height 5.
fn assert_listed_once(index: &Index, script: &ScriptBuf, txid: bitcoin::Txid) {
    let (at, scripthash) = (index.snapshot().unwrap(), ScriptHash::of(script.as_bytes()));
    let history = at.history(&scripthash).unwrap();
    assert_eq!(history.iter().map(|entry| (entry.txid, entry.height)).collect::<Vec<_>>(), [(txid, Height(5))]);
    assert_eq!(at.balance(&scripthash).unwrap(), Balance { confirmed: REWARD_SAT, unconfirmed: 0 });
    assert_eq!(at.unspent(&scripthash).unwrap().len(), 1);
    let status: [u8; 32] = Sha256::digest(format!("{txid}:5:")).into();
    assert_eq!(at.status(&scripthash).unwrap(), Some(status));
    assert_eq!(at.transaction_block(txid).unwrap().unwrap().height, Height(5));
    assert!(at.history_between(&scripthash, Height(0)..Height(5)).unwrap().is_empty());
}

#[test]
fn an_overwritten_coinbase_is_listed_once_at_its_later_block() {
    for profile in [Profile::Full, Profile::Lean] {
        let script = ScriptBuf::from_bytes(vec![0x51, 0x52]);
        let other = ScriptBuf::from_bytes(vec![0x53]);
        let coinbase = transaction(OutPoint::null(), &script);
        let txid = coinbase.compute_txid();
        let mut number = 0;
        let mut own = || {
            number += 1;
            let mut coinbase = transaction(OutPoint::null(), &other);
            coinbase.input[0].sequence = Sequence(number);
            coinbase
        };
        let mut blocks = ChainBuilder::new(1).blocks().to_vec();
        mined(&mut blocks, vec![own()]);
        mined(&mut blocks, vec![own()]);
        mined(&mut blocks, vec![coinbase.clone()]);
        mined(&mut blocks, vec![own()]);
        let overwritten = vec![(Height(3), blocks[3].block_hash())];

        let node = Arc::<MemoryNode>::default();
        node.follow(&blocks);
        let following = built(&node, profile);
        following.set_overwritten_coinbases(overwritten.clone());
        mined(&mut blocks, vec![coinbase]);
        node.follow(&blocks);
        following.sync(&*node).unwrap();
        assert_listed_once(&following, &script, txid);
        let fresh = built(&node, profile);
        fresh.set_overwritten_coinbases(overwritten);
        assert_listed_once(&fresh, &script, txid);

        // The later coin is spent: nothing of the earlier one shows.
        let spend = transaction(OutPoint { txid, vout: 0 }, &other);
        mined(&mut blocks, vec![own(), spend]);
        node.follow(&blocks);
        for index in [following, fresh] {
            index.sync(&*node).unwrap();
            let (at, scripthash) = (index.snapshot().unwrap(), ScriptHash::of(script.as_bytes()));
            assert_eq!(at.balance(&scripthash).unwrap(), Balance::default());
            assert!(at.unspent(&scripthash).unwrap().is_empty());
            assert_eq!(at.history(&scripthash).unwrap().len(), 2);
        }
    }
}

#[test]
fn an_overwritten_coinbase_is_listed_once_where_records_of_its_blocks_lay_on_disk() {
    let (script, other) = (ScriptBuf::from_bytes(vec![0x51, 0x52]), ScriptBuf::from_bytes(vec![0x53]));
    let coinbase = transaction(OutPoint::null(), &script);
    let txid = coinbase.compute_txid();
    let mut blocks = ChainBuilder::new(1).blocks().to_vec();
    for number in 1..40 {
        let mut own = transaction(OutPoint::null(), &other);
        own.input[0].sequence = Sequence(number);
        // A spend of the later coin lies in the same pack.
        let spend = (number == 30).then(|| transaction(OutPoint { txid, vout: 0 }, &other));
        let first = if number == 3 || number == 5 { coinbase.clone() } else { own };
        mined(&mut blocks, std::iter::once(first).chain(spend).collect());
    }
    // Both coinbases are spooled; or the first one is indexed before.
    for (built, last) in [(2, 25), (5, 25), (2, 40), (5, 40)] {
        let node = Arc::<MemoryNode>::default();
        node.give_undo_data();
        node.follow(&blocks[..built]);
        let merging = MergeOptions { tip_blocks: 0, bulk_blocks: 2, spooled_blocks: 2, ..MergeOptions::DEFAULT };
        let (store, temp) = (MemoryStore::new(), tempfile::tempdir().unwrap());
        let index = open_merging(&store, &node, Profile::Full, merging);
        index.build(None, &options(temp.path())).unwrap();
        index.set_overwritten_coinbases(vec![(Height(3), blocks[3].block_hash())]);
        node.follow(&blocks[..last]);
        index.sync(&*node).unwrap();
        assert_eq!(index.spool_counts().published, 1);
        if last < 30 {
            assert_listed_once(&index, &script, txid);
            continue;
        }
        let (at, scripthash) = (index.snapshot().unwrap(), ScriptHash::of(script.as_bytes()));
        assert_eq!(at.balance(&scripthash).unwrap(), Balance::default());
        assert_eq!(at.history(&scripthash).unwrap().len(), 2);
    }
}

#[test]
fn an_answer_that_is_too_long_is_refused_before_its_txids_are_read() {
    let chain = mix::sample(6, Size::SMALL);
    let node = Arc::<MemoryNode>::default();
    node.follow(chain.blocks());
    // Of the lean profile every txid is read from its block.
    let index = built(&node, Profile::Lean);
    let at = index.snapshot().unwrap();
    let scripts = node.scripts();
    let long = scripts.iter().map(|script| ScriptHash::of(script.as_bytes()));
    let long = long.max_by_key(|hash| at.history(hash).unwrap().len()).unwrap();
    let (entries, coins) = (at.history(&long).unwrap().len(), at.unspent(&long).unwrap().len());
    assert!(entries > 3);
    assert_eq!(at.up_to(entries).history(&long).unwrap().len(), entries);
    let before = node.parts();
    let max = entries - 1;
    let refused = at.up_to(max).history(&long).unwrap_err();
    assert!(matches!(refused, Error::TooLong { entries: found, max: bound } if (found, bound) == (entries, max)));
    assert!(matches!(at.up_to(max).history_between(&long, Height(0)..Height(u32::MAX)), Err(Error::TooLong { .. })));
    if coins > 0 {
        assert!(matches!(at.up_to(coins - 1).unspent(&long), Err(Error::TooLong { .. })));
    }
    assert_eq!(node.parts(), before, "nothing was read");
    at.up_to(entries).history(&long).unwrap();
    assert!(node.parts() > before);
}
