//! The sources of one real node that prunes, beside its blocks as they were made.

use std::fs;

use birdhouse_chain::Height;
use birdhouse_chain::source::{BlockSource, SourceErrorKind};
use birdhouse_node::{BlockFiles, KeptBlocks, PruneMode, RestSource, open_source};
use birdhouse_testkit::block::subsidy_sat;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::{Rng, rounds};
use birdhouse_testkit::tx::{Coin, Payment};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::consensus::encode::{serialize, serialize_hex};
use bitcoin::{Block, Network};
use serde_json::json;

use crate::common::rpc;
use crate::undo::as_tx_outs;

/// A node with files of 64 KiB, which prunes by hand.
fn pruned_by_hand(rest: &str) -> Bitcoind {
    Bitcoind::start(Options::default().arg("-prune=1").arg("-fastprune").arg(rest)).unwrap()
}

/// A chain that fills several such files.
fn chain() -> ChainBuilder {
    let mut chain = mix::sample(61, Size { blocks: 5, block_txs: 3, scripts_per_form: 5, busy: &[] });
    grow(&mut chain, 420);
    chain
}

fn grow(chain: &mut ChainBuilder, blocks: u32) {
    for _ in 0..blocks {
        mix::random_traffic(chain, 4, 30);
        chain.mine_block();
    }
}

/// Prunes up to this height as far as Core does, and returns the lowest height that it keeps.
fn prune(node: &Bitcoind, height: u32) -> u32 {
    node.rpc("pruneblockchain", json!([height])).unwrap();
    let kept = KeptBlocks::of(&rpc(node)).unwrap();
    assert_eq!(kept.mode, PruneMode::Manual);
    kept.first.0
}

fn deleted_files_open(node: &Bitcoind) -> usize {
    let folder = node.blocks_dir().display().to_string();
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    links.filter(|to| to.to_string_lossy().starts_with(&folder) && to.to_string_lossy().ends_with(" (deleted)")).count()
}

fn assert_pruned(source: &dyn BlockSource, block: &Block) {
    let hash = block.block_hash();
    for error in [source.block(hash).map(drop).unwrap_err(), source.read_part(hash, None, 0, 80).unwrap_err()] {
        assert_eq!(error.kind, SourceErrorKind::NotFound, "{}: {error}", source.describe());
    }
}

#[test]
fn every_source_gives_the_blocks_that_are_left_and_calls_the_others_missing() {
    let (node, mut chain) = (pruned_by_hand("-rest=1"), chain());
    chain.submit_to(&node).unwrap();
    let client = rpc(&node);
    let before = BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap();
    let metas = before.chain(Some(chain.tip())).unwrap();
    let old = &chain.blocks()[3].clone();
    before.read_part(old.block_hash(), metas[3].position, 0, 80).unwrap();
    let first = prune(&node, 230);
    assert!(100 < first && first <= 231 && !node.blocks_dir().join("blk00000.dat").exists(), "{first}");

    // A file that is open is read until it is closed.
    before.read_part(old.block_hash(), metas[3].position, 0, 80).unwrap();
    assert_eq!(deleted_files_open(&node), 1);
    chain.mine(1);
    chain.submit_to(&node).unwrap();
    before.block(chain.tip()).unwrap();
    assert_eq!(deleted_files_open(&node), 0);
    let gone = before.read_part(old.block_hash(), metas[3].position, 0, 80).unwrap_err();
    assert_eq!(gone.kind, SourceErrorKind::NotFound, "{gone}");

    let after = open_source(&node.blocks_dir(), Network::Regtest, Some(&client)).unwrap();
    assert!(after.skipped.is_empty(), "{:?}", after.skipped);
    let rest = RestSource::open(&rpc(&node), Network::Regtest).unwrap();
    let by_rpc = birdhouse_node::RpcSource::open(client, Network::Regtest).unwrap();
    let sources: [&dyn BlockSource; 4] = [&before, &*after.source, &rest, &by_rpc];
    for source in sources {
        assert_pruned(source, old);
        for block in &chain.blocks()[first as usize..] {
            assert_eq!(source.block(block.block_hash()).unwrap().block, serialize(block));
        }
    }
    let all = after.source.chain(Some(chain.tip())).unwrap_err();
    assert!(all.message.contains("a pruned node"), "{all}");
    let unit = before.units(&metas, Height(0)..Height(10)).remove(0);
    let gone = before.read_unit(&metas, &unit, &mut |_, _, _| Ok(())).unwrap_err();
    assert!(gone.kind == SourceErrorKind::NotFound && gone.message.contains("pruned"), "{gone}");
}

#[test]
fn siblings_whose_funding_block_is_deleted_get_their_undo_data_from_the_node() {
    let (node, mut chain) = (pruned_by_hand("-rest=1"), ChainBuilder::new(62));
    chain.mine(900);
    chain.submit_to(&node).unwrap();
    let files = open_source(&node.blocks_dir(), Network::Regtest, Some(&rpc(&node))).unwrap().source;
    let fork = chain.height();
    // Blocks on the same one that spend one coin of the same value each, out of blocks that will be deleted.
    let coins: Vec<Coin> = chain.coins().filter(|coin| coin.sat() == subsidy_sat(1)).take(3).cloned().collect();
    let siblings = coins.into_iter().map(|coin| {
        let script = chain.wallet().foreign_address(1).script_pubkey();
        chain.spend(&[coin], &[Payment::to_script(script, 1000)]);
        let block = chain.mine_block().clone();
        chain.submit_to(&node).unwrap();
        node.invalidate(chain.tip()).unwrap();
        chain.rollback_to(fork);
        block
    });
    let siblings: Vec<Block> = siblings.collect();
    // The first 149 blocks have this subsidy.
    assert!(prune(&node, 600) > 149);
    let alone = BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap();
    for block in siblings {
        let hash = block.block_hash();
        node.reconsider(hash).unwrap();
        assert_eq!(alone.block(hash).unwrap_err().kind, SourceErrorKind::NotFound);
        let found = files.block(hash).unwrap();
        assert_eq!((&found.block, found.has_sibling), (&serialize(&block), false));
        let expected = node.rest(&format!("spenttxouts/{hash}.bin")).unwrap();
        assert_eq!(as_tx_outs(found.spent.as_bytes()), expected);
        node.invalidate(hash).unwrap();
    }
}

#[test]
fn a_sibling_is_no_doubt_beside_a_node_that_has_deleted_other_files_than_the_first() {
    let (node, mut chain) = (pruned_by_hand("-rest=1"), ChainBuilder::new(63));
    chain.mine(900);
    // Blocks of a download come out of order, so the first file has a late one.
    for block in &chain.blocks()[1..] {
        node.rpc("submitheader", json!([serialize_hex(&block.header)])).unwrap();
    }
    node.submit(850, &chain.blocks()[850]).unwrap();
    chain.submit_to(&node).unwrap();
    let fork = chain.height();
    chain.mine(1);
    chain.submit_to(&node).unwrap();
    node.invalidate(chain.tip()).unwrap();
    chain.rollback_to(fork);
    let coin = chain.coins().find(|coin| coin.sat() == subsidy_sat(1)).unwrap().clone();
    let script = chain.wallet().foreign_address(1).script_pubkey();
    chain.spend(&[coin], &[Payment::to_script(script, 1000)]);
    chain.mine(1);
    chain.submit_to(&node).unwrap();
    assert!(prune(&node, 600) > 149);
    let is_there = |file| node.blocks_dir().join(file).exists();
    assert!(is_there("blk00000.dat") && !is_there("blk00001.dat"));

    let hash = chain.tip();
    let alone = BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap();
    assert!(alone.block(hash).unwrap().has_sibling, "the file has another block on the same one");
    // To prove its undo data otherwise, the index would need blocks that are deleted.
    let files = open_source(&node.blocks_dir(), Network::Regtest, Some(&rpc(&node))).unwrap().source;
    let found = files.block(hash).unwrap();
    assert_eq!((&found.block, found.has_sibling), (&serialize(chain.blocks().last().unwrap()), false));
}

#[test]
fn every_block_that_is_left_is_found_after_kills_reorgs_and_prunings() {
    let (mut node, mut chain) = (pruned_by_hand("-rest=1"), chain());
    chain.submit_to(&node).unwrap();
    let client = rpc(&node);
    let files = open_source(&node.blocks_dir(), Network::Regtest, Some(&client)).unwrap().source;
    for round in rounds(6) {
        let mut rng = Rng::new(round);
        let mut done = Vec::new();
        for _ in 0..6 {
            let more = 1 + u32::try_from(rng.below(30)).unwrap();
            match rng.below(4) {
                0 => {
                    chain.rollback_to(chain.height() - more);
                    grow(&mut chain, more + 1);
                    done.push(format!("reorg {more}"));
                }
                1 => {
                    let asked = chain.height() - 288 - more;
                    done.push(format!("prune {asked}: {}", prune(&node, asked)));
                }
                2 => {
                    node.kill9();
                    node.restart().unwrap();
                    done.push(format!("kill, at {} of {}", node.height().unwrap(), chain.height()));
                }
                _ => {
                    grow(&mut chain, more);
                    done.push(format!("grow {more}"));
                }
            }
            chain.submit_to(&node).unwrap();
        }
        let context = format!("round {round}: {}", done.join(", "));
        let fresh = open_source(&node.blocks_dir(), Network::Regtest, Some(&client)).unwrap().source;
        let first = KeptBlocks::of(&client).unwrap().first.0;
        for (height, block) in chain.blocks().iter().enumerate().skip(first as usize) {
            for (name, source) in [("open", &files), ("fresh", &fresh)] {
                let found =
                    source.block(block.block_hash()).unwrap_or_else(|e| panic!("{context}: {name} {height}: {e}"));
                assert_eq!(found.block, serialize(block), "{context}");
            }
        }
    }
}
