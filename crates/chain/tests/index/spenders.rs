//! Spenders of outputs, of scripts with few transactions and with thousands, before and after merges and reorgs.

use std::collections::{HashMap, HashSet};

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Height, MergeOptions, Profile, ScriptHash, ScriptOutput, Snapshot, Spender};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{ChainBuilder, mix};
use bitcoin::{Block, OutPoint};

use crate::common::{MemoryNode, open_merging, options};
use crate::work_budget::{BUSY, chain};

/// Several packs, in which the busy script has many rows and few.
const MERGES: MergeOptions =
    MergeOptions { tip_blocks: 3, delta_txs: 200, bulk_blocks: 100, oldest_multiple: 16, ..MergeOptions::DEFAULT };
/// Transactions of the busy script: its unspent outputs fill several rows.
const BUSY_TXS: u32 = 1100;
/// Every outpoint of this many is asked about: each may be searched in a thousand transactions.
const STEP: usize = 23;

/// The answer to every outpoint of a chain.
fn model(blocks: &[Block]) -> HashMap<OutPoint, Option<Spender>> {
    let mut all = HashMap::new();
    for (height, block) in (0..).zip(blocks).skip(1) {
        let block_id = Some(BlockId { height: Height(height), hash: block.block_hash() });
        for tx in &block.txdata {
            let txid = tx.compute_txid();
            for (vin, input) in (0..).zip(&tx.input).filter(|_| !tx.is_coinbase()) {
                all.insert(input.previous_output, Some(Spender { txid, vin, block: block_id }));
            }
            all.extend((0..).zip(&tx.output).map(|(vout, _)| (OutPoint { txid, vout }, None)));
        }
    }
    all
}

fn assert_all_found(at: &Snapshot, chain: &ChainBuilder, context: &str) {
    let mut asked: Vec<(OutPoint, Option<Spender>)> = model(chain.blocks()).into_iter().collect();
    asked.sort_unstable_by_key(|(outpoint, _)| *outpoint);
    for (outpoint, spender) in asked.into_iter().step_by(STEP) {
        assert_eq!(at.spender_of(outpoint).unwrap(), spender, "{context}: {outpoint}");
        let soon = at.within_budget(|at| at.spender_of(outpoint)).unwrap();
        assert!(soon.is_none_or(|soon| soon == spender), "{context}: {outpoint} within the budget");
    }
    assert_outputs_of_blocks_found(at, chain, context);
}

/// Asks by places in blocks: about all outputs of some transactions.
fn assert_outputs_of_blocks_found(at: &Snapshot, chain: &ChainBuilder, context: &str) {
    let all = model(chain.blocks());
    let blocks = (0..).map(Height).zip(chain.blocks()).skip(1);
    let transactions = blocks.flat_map(|(height, block)| (0..).zip(&block.txdata).map(move |place| (height, place)));
    for (height, (index, tx)) in transactions.step_by(STEP) {
        let txid = tx.compute_txid();
        let outputs = (0..).zip(&tx.output).filter(|(_, output)| !output.script_pubkey.is_op_return());
        let outputs = outputs
            .map(|(vout, output)| ScriptOutput { vout, scripthash: ScriptHash::of(output.script_pubkey.as_bytes()) });
        let outputs: Vec<ScriptOutput> = outputs.collect();
        let spenders = outputs
            .iter()
            .filter_map(|output| all[&OutPoint { txid, vout: output.vout }].map(|spender| (output.vout, spender)));
        let spenders: HashMap<u32, Spender> = spenders.collect();
        let spent: HashSet<u32> = spenders.keys().copied().collect();
        assert_eq!(at.spent_in_blocks(height, index, &outputs).unwrap(), spent, "{context}: {txid}");
        assert_eq!(at.spenders_in_blocks(height, index, &outputs).unwrap(), spenders, "{context}: {txid}");
    }
}

#[test]
fn spenders_are_found_in_packs_deltas_and_after_reorgs() {
    let mut chain = chain(&[BUSY_TXS, 300]);
    let node = std::sync::Arc::<MemoryNode>::default();
    node.follow(chain.blocks());
    let (store, temp) = (MemoryStore::new(), tempfile::tempdir().unwrap());
    let index = open_merging(&store, &node, Profile::Full, MERGES);
    index.build(None, &options(temp.path())).unwrap();
    assert_all_found(&index.snapshot().unwrap(), &chain, "as built");

    let mut merges = 0;
    for step in 0..4 {
        mix::busy_script(&mut chain, BUSY, 150);
        mix::busy_script(&mut chain, BUSY + 1, 40);
        mix::random_traffic(&mut chain, 40, 20);
        chain.mine(3);
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
        merges += index.merge().unwrap();
        assert_all_found(&index.snapshot().unwrap(), &chain, &format!("step {step}, {merges} merges"));
    }
    assert!(merges >= 2, "{merges} merges");

    // Below the last pack's end: what stale transactions spent is unspent, or spent by others.
    chain.rollback_to(chain.height() - 8);
    mix::busy_script(&mut chain, BUSY, 60);
    chain.mine(4);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    assert_all_found(&index.snapshot().unwrap(), &chain, "after a reorg");
}

#[test]
fn an_index_of_the_node_bounds_the_reads_for_a_spender() {
    let mut chain = chain(&[]);
    let busy = Lock::new(Form::P2wpkh, BUSY);
    let txid = chain.pay(&[Payment::to_lock(busy, 5000)]);
    chain.mine_block();
    mix::busy_script(&mut chain, BUSY, 2 * BUSY_TXS);
    let coin = chain.coins().find(|coin| coin.outpoint.txid == txid && coin.lock == busy).unwrap().clone();
    chain.spend(std::slice::from_ref(&coin), &[Payment::to_lock(busy, 4000)]);
    chain.mine(2);
    let node = std::sync::Arc::<MemoryNode>::default();
    node.follow(chain.blocks());
    let (store, temp) = (MemoryStore::new(), tempfile::tempdir().unwrap());
    let index = open_merging(&store, &node, Profile::Full, MergeOptions { tip_blocks: 1, ..MERGES });
    index.build(None, &options(temp.path())).unwrap();
    index.set_node_of_clients(std::sync::Arc::clone(&node) as _);
    let (at, spender) = (index.snapshot().unwrap(), model(chain.blocks())[&coin.outpoint]);
    assert!(spender.is_some());
    let reads = |context| {
        let before = node.parts();
        assert_eq!(at.spender_of(coin.outpoint).unwrap(), spender, "{context}");
        node.parts() - before
    };
    let searched = reads("by search");
    node.keep_spender_index();
    let bounded = reads("with an index of the node");
    assert!(searched > 2 * BUSY_TXS as usize, "{searched}");
    assert!(bounded < 300, "{bounded}");
}
