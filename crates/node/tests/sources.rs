//! Files, REST and RPC of one real node give the same blocks, through reorgs, restarts and kills.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod common;
mod pruned;
mod undo;

use std::collections::BTreeMap;
use std::sync::Arc;

use birdhouse_chain::Height;
use birdhouse_chain::source::{BlockMeta, BlockSource, SourceErrorKind, SourceResult, SpentBuf};
use birdhouse_node::{BlockFiles, RestSource, RpcSource, open_source};
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::consensus::serialize;
use bitcoin::{BlockHash, Network};
use serde_json::json;

use common::{address, rpc, start};
use undo::as_tx_outs;

fn files(node: &Bitcoind) -> BlockFiles {
    BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap()
}

fn rest(node: &Bitcoind) -> SourceResult<RestSource> {
    RestSource::open(&rpc(node), Network::Regtest)
}

fn rpc_source(node: &Bitcoind) -> RpcSource {
    RpcSource::open(rpc(node), Network::Regtest).unwrap()
}

/// Reads block and spent outputs of every height, by units.
fn read_all(source: &dyn BlockSource, chain: &[BlockMeta]) -> BTreeMap<u32, (Vec<u8>, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for unit in source.units(chain, Height(0)..Height(chain.len() as u32)) {
        source
            .read_unit(chain, &unit, &mut |height, block, spent| {
                assert!(all.insert(height.0, (block.to_vec(), as_tx_outs(spent))).is_none());
                Ok(())
            })
            .unwrap();
    }
    all
}

fn hashes(chain: &[BlockMeta]) -> Vec<BlockHash> {
    chain.iter().map(|meta| meta.hash).collect()
}

fn expected_hashes(chain: &ChainBuilder) -> Vec<BlockHash> {
    chain.blocks().iter().map(bitcoin::Block::block_hash).collect()
}

/// Asserts that all sources give the same for every block of the node's active chain.
fn expect_agreement(node: &Bitcoind, expected: &ChainBuilder) {
    let (files, rest, rpc) = (files(node), rest(node).unwrap(), rpc_source(node));
    let sources: [&dyn BlockSource; 3] = [&files, &rest, &rpc];
    let chains = sources.map(|source| source.chain(Some(expected.tip())).unwrap());
    let read: Vec<_> = sources.iter().zip(&chains).map(|(source, chain)| read_all(*source, chain)).collect();
    for (source, chain) in sources.iter().zip(&chains) {
        assert_eq!(hashes(chain), expected_hashes(expected), "{}", source.describe());
        assert_eq!(hashes(&source.chain(None).unwrap()), expected_hashes(expected), "{}", source.describe());
    }
    for (height, block) in expected.blocks().iter().enumerate() {
        let (bytes, hash) = (serialize(block), block.block_hash());
        let spent = &read[0][&(height as u32)].1;
        let middle = (bytes.len() / 2) as u32;
        for ((source, chain), read) in sources.iter().zip(&chains).zip(&read) {
            assert_eq!(chain[height].tx_count as usize, block.txdata.len());
            assert_eq!(chain[height].header[..], bytes[..80]);
            assert_eq!(read[&(height as u32)], (bytes.clone(), spent.clone()), "{} {height}", source.describe());
            let fetched = source.block(hash).unwrap();
            assert_eq!(fetched.block, bytes);
            assert_eq!(&as_tx_outs(fetched.spent.as_bytes()), spent);
            let part = source.read_part(hash, chain[height].position, middle, 20).unwrap();
            assert_eq!(part, bytes[middle as usize..middle as usize + 20]);
            assert!(source.read_part(hash, chain[height].position, middle, bytes.len() as u32).is_err());
        }
        assert_eq!(files.block(hash).unwrap().position, chains[0][height].position);
        assert_eq!(chains[0][height].bytes as usize, bytes.len());
    }
}

/// Returns a chain with all kinds of scripts, whose last blocks were reorganised twice.
fn reorganised(node: &Bitcoind, seed: u64) -> ChainBuilder {
    let mut chain = mix::sample(seed, Size::SMALL);
    chain.submit_to(node).unwrap();
    for depth in [3, 11] {
        chain.rollback_to(chain.height() - depth);
        for _ in 0..=depth {
            mix::random_traffic(&mut chain, 5, 20);
            chain.mine_block();
        }
        chain.submit_to(node).unwrap();
    }
    assert_eq!(node.tip().unwrap(), chain.tip());
    chain
}

#[test]
fn files_rest_and_rpc_agree_on_every_block_of_a_reorganised_chain() {
    let node = start();
    let chain = reorganised(&node, 21);
    expect_agreement(&node, &chain);
}

#[test]
fn files_without_obfuscation_are_read_too() {
    let node = Bitcoind::start(Options::default().arg("-blocksxor=0")).unwrap();
    let mut chain = ChainBuilder::new(22);
    chain.mine(120);
    chain.submit_to(&node).unwrap();
    expect_agreement(&node, &chain);
}

#[test]
fn each_new_block_is_readable_at_once_and_stale_ones_stay_so() {
    let node = start();
    let files = files(&node);
    let mut chain = ChainBuilder::new(23);
    mix::mature(&mut chain);
    chain.submit_to(&node).unwrap();
    let mut seen = vec![chain.tip()];
    for _ in 0..30 {
        mix::random_traffic(&mut chain, 3, 10);
        let block = chain.mine_block().clone();
        node.submit(chain.height(), &block).unwrap();
        let fetched = files.block(block.block_hash()).unwrap();
        assert_eq!(fetched.block, serialize(&block));
        assert!(matches!(fetched.spent, SpentBuf::Undo(undo) if undo.len() > 1 || block.txdata.len() == 1));
        seen.push(block.block_hash());
    }
    let fork = node.block_hash(chain.height() - 4).unwrap();
    node.invalidate(fork).unwrap();
    let mined = node.rpc("generatetodescriptor", json!([6, "raw(51)"])).unwrap();
    seen.extend(mined.as_array().unwrap().iter().map(|hash| hash.as_str().unwrap().parse::<BlockHash>().unwrap()));
    for hash in seen {
        assert!(files.block(hash).is_ok(), "{hash}");
    }
    let active = files.chain(Some(node.tip().unwrap())).unwrap();
    assert_eq!(active.len() as u32, node.height().unwrap() + 1);
    read_all(&files, &active);
}

#[test]
fn killed_nodes_files_give_a_complete_chain() {
    let mut node = start();
    let mut chain = ChainBuilder::new(24);
    chain.mine(50);
    chain.submit_to(&node).unwrap();
    node.kill9();
    let files = files(&node);
    assert_eq!(hashes(&files.chain(None).unwrap()), expected_hashes(&chain));
    node.restart().unwrap();
    chain.mine(10);
    chain.submit_to(&node).unwrap();
    expect_agreement(&node, &chain);
}

#[test]
fn unknown_or_stale_tip_is_not_found() {
    let node = start();
    let mut chain = ChainBuilder::new(25);
    chain.mine(10);
    chain.submit_to(&node).unwrap();
    node.invalidate(chain.blocks()[8].block_hash()).unwrap();
    let unknown: BlockHash = "00000000000000000000000000000000000000000000000000000000000000aa".parse().unwrap();
    let (files, rest, rpc) = (files(&node), rest(&node).unwrap(), rpc_source(&node));
    let sources: [&dyn BlockSource; 3] = [&files, &rest, &rpc];
    for source in sources {
        for error in [source.chain(Some(unknown)).unwrap_err(), source.block(unknown).unwrap_err()] {
            assert_eq!(error.kind, SourceErrorKind::NotFound, "{} {error}", source.describe());
        }
        assert_eq!(source.read_part(unknown, None, 0, 10).unwrap_err().kind, SourceErrorKind::NotFound);
    }
    for source in [&rest as &dyn BlockSource, &rpc] {
        let stale = source.chain(Some(chain.tip())).unwrap_err();
        assert_eq!(stale.kind, SourceErrorKind::NotFound, "{} {stale}", source.describe());
    }
}

#[test]
fn first_source_that_works_is_opened() {
    let node = start();
    let nowhere = node.datadir().join("nowhere");
    let rpc_client = rpc(&node);
    let open = |dir: &std::path::Path| {
        let chosen = open_source(dir, Network::Regtest, Some(&rpc_client)).unwrap();
        (chosen.source.describe(), chosen.skipped)
    };
    let (files, skipped) = open(&node.blocks_dir());
    assert!(files.starts_with("block files in") && skipped.is_empty(), "{files} {skipped:?}");
    let (rest, skipped) = open(&nowhere);
    assert!(rest.starts_with("REST interface at"), "{rest}");
    assert!(skipped.len() == 1 && skipped[0].starts_with("files: failed to read"), "{skipped:?}");
    let without_rest = Bitcoind::start(Options::default().arg("-rest=0")).unwrap();
    let by_rpc = open_source(&nowhere, Network::Regtest, Some(&rpc(&without_rest))).unwrap();
    assert!(by_rpc.source.describe().starts_with("RPC at"));
    assert!(by_rpc.skipped.len() == 2 && by_rpc.skipped[1].contains("set rest=1"), "{:?}", by_rpc.skipped);
    let error = open_source(&nowhere, Network::Regtest, None).err().unwrap();
    assert!(error.message.contains("does not exist"), "{error}");
    let error = open_source(&nowhere, Network::Signet, Some(&rpc_client)).err().unwrap();
    assert_eq!(error.kind, SourceErrorKind::Permanent);
    assert!(error.message.contains("not of the network signet"), "{error}");
}

#[test]
fn source_errors_give_advice() {
    let node = Bitcoind::start(Options::default().arg("-rest=0")).unwrap();
    let error = rest(&node).unwrap_err();
    assert!(error.message.contains("set rest=1"), "{error}");
    let error = BlockFiles::open(&node.blocks_dir(), Network::Testnet4).unwrap_err();
    assert!(error.message.contains("--network regtest"), "{error}");
    let (address, rpc) = (address(&node), rpc(&node));
    drop(node);
    let error = RestSource::open(&rpc, Network::Regtest).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Transient);
    assert!(error.message.contains(&address) && error.message.contains("is bitcoind running"), "{error}");
}

#[test]
fn parts_are_read_from_many_threads() {
    let node = start();
    let mut chain = ChainBuilder::new(26);
    chain.mine(40);
    chain.submit_to(&node).unwrap();
    let source = Arc::new(files(&node));
    let metas = source.chain(None).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for (meta, block) in metas.iter().zip(chain.blocks()).cycle().take(2000) {
                    assert_eq!(source.read_part(meta.hash, meta.position, 0, 81).unwrap(), serialize(block)[..81]);
                }
            });
        }
    });
}
