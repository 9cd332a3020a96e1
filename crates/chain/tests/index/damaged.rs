//! Truncated files: an error when the index is opened, never zeros in an answer. A damaged page that a read meets: an
//! error that the index keeps.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use birdhouse_chain::{Error, Index, Profile, ScriptHash, Secret};
use birdhouse_store::{ArraySpec, MemoryStore, SegmentOptions, SegmentStore, Store};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};
use bitcoin::Network;
use bitcoin::constants::genesis_block;

use crate::common::{MemoryNode, open, options};

const TXIDS: ArraySpec = ArraySpec { name: "txid", record_bytes: 32 };

fn node() -> (Arc<MemoryNode>, ChainBuilder) {
    let chain = mix::sample(3, Size::SMALL);
    let node = Arc::<MemoryNode>::default();
    node.follow(chain.blocks());
    (node, chain)
}

fn open_in(folder: &Path, node: &Arc<MemoryNode>) -> Result<Index, Error> {
    let store = SegmentStore::open(folder, &birdhouse_chain::TABLES, SegmentOptions::default())?;
    let genesis = genesis_block(Network::Regtest).block_hash();
    Index::open(Arc::new(store), Arc::clone(node) as _, genesis, Profile::Full, Secret([7; 16]))
}

#[test]
fn an_array_of_txids_that_is_shorter_than_the_chain_is_damage() {
    let (node, _) = node();
    let store = MemoryStore::new();
    let temp = tempfile::tempdir().unwrap();
    let index = open(&store, &node, Profile::Full);
    index.build(None, &options(temp.path())).unwrap();
    drop(index);
    let txids = store.array(TXIDS).unwrap();
    let whole = txids.read_run(0, usize::try_from(txids.len()).unwrap()).unwrap();
    let genesis = genesis_block(Network::Regtest).block_hash();
    let again =
        || Index::open(Arc::new(store.clone()), Arc::clone(&node) as _, genesis, Profile::Full, Secret([7; 16]));
    for records in [0, 1, txids.len() / 5, txids.len() - 1] {
        txids.truncate(records).unwrap();
        let error = again().unwrap_err();
        assert!(matches!(&error, Error::Damaged { place, .. } if place == "array txid"), "{records}: {error}");
        store.publish(&store.manifest().unwrap().unwrap()).unwrap();
        txids.write(0, &whole).unwrap();
    }
    assert!(again().unwrap().is_ready());
}

#[test]
fn a_file_of_txids_that_was_cut_is_damage_before_and_after_blocks_at_the_tip() {
    for blocks_at_tip in [0, 1, 3] {
        let (node, mut chain) = node();
        let (folder, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let index = open_in(folder.path(), &node).unwrap();
        index.build(None, &options(temp.path())).unwrap();
        drop(index);
        // The journal has all that a small build writes; the first publish after opening syncs the arrays instead.
        let store = SegmentStore::open(folder.path(), &birdhouse_chain::TABLES, SegmentOptions::default()).unwrap();
        store.publish(&store.manifest().unwrap().unwrap()).unwrap();
        drop(store);
        let index = open_in(folder.path(), &node).unwrap();
        for _ in 0..blocks_at_tip {
            mix::random_traffic(&mut chain, 3, 30);
            chain.mine_block();
            node.follow(chain.blocks());
            // The journal has what this writes, and would write it again beyond the end of a shorter file.
            index.sync(&*node).unwrap();
        }
        drop(index);
        let file = OpenOptions::new().write(true).open(folder.path().join("arrays/txid")).unwrap();
        let bytes = file.metadata().unwrap().len();
        assert!(bytes > 5 * 32);
        file.set_len(bytes / 5 / 32 * 32).unwrap();
        let error = open_in(folder.path(), &node).map(drop).unwrap_err();
        assert!(error.to_string().contains("txid"), "{blocks_at_tip}: {error}");
        // The attempt filled nothing with zeros.
        assert_eq!(file.metadata().unwrap().len(), bytes / 5 / 32 * 32, "{blocks_at_tip}");
    }
}

#[test]
fn damage_that_a_read_meets_is_kept_with_its_remedy() {
    let (node, chain) = node();
    let (folder, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Without a cache: pages are read from the disk.
    let uncached = SegmentOptions { cache_bytes: 0, ..SegmentOptions::default() };
    let store = SegmentStore::open(folder.path(), &birdhouse_chain::TABLES, uncached).unwrap();
    let genesis = genesis_block(Network::Regtest).block_hash();
    let index = Index::open(Arc::new(store), Arc::clone(&node) as _, genesis, Profile::Full, Secret([7; 16])).unwrap();
    index.set_folder(folder.path());
    index.build(None, &options(temp.path())).unwrap();
    let script = ScriptHash::of(chain.blocks()[1].txdata[0].output[0].script_pubkey.as_bytes());
    let history = || index.snapshot().unwrap().history(&script);
    assert!(!history().unwrap().is_empty());
    assert_eq!(index.damage(), None);

    for segment in std::fs::read_dir(folder.path().join("segments")).unwrap() {
        let segment = segment.unwrap().path();
        let inverted: Vec<u8> = std::fs::read(&segment).unwrap().into_iter().map(|byte| !byte).collect();
        std::fs::write(&segment, inverted).unwrap();
    }
    let error = history().unwrap_err().to_string();
    let kept = index.damage().unwrap();
    assert!(kept.starts_with(&error), "{kept}: {error}");
    assert!(kept.contains(&format!("remove the folder {} and nothing else", folder.path().display())), "{kept}");
    assert!(index.waiting().is_none());
}
