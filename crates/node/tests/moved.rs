//! Reads of a block that lies elsewhere than it was indexed, as after a crash of the node, counted by the system.
#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_chain::source::{BlockSource as _, FilePosition};
use birdhouse_node::BlockFiles;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, mix};
use bitcoin::Network;
use bitcoin::consensus::serialize;

/// Bytes of a record's head and of a header, by which a block is known.
const HEAD: u64 = 8 + 80;

/// Returns the bytes that this process has read from files. To ask for them is to read some more.
fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Returns the bytes that `work` reads.
fn bytes_read_by(work: impl FnOnce()) -> u64 {
    let asking = |first: u64| bytes_read() - first;
    let asked = asking(bytes_read());
    let before = bytes_read();
    work();
    bytes_read() - before - asked
}

// The only test of this process, because it counts what the process reads.
#[test]
fn a_block_that_lies_elsewhere_than_it_was_indexed_is_read_whole_once() {
    let mut chain = ChainBuilder::new(484);
    mix::mature(&mut chain);
    mix::random_traffic(&mut chain, 40, 10);
    chain.mine(3);
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    let files = BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap();
    let block = &chain.blocks()[chain.blocks().len() - 3];
    let (hash, bytes) = (block.block_hash(), serialize(block));
    let right = files.block(hash).unwrap().position.unwrap();
    let stale = FilePosition { offset: right.offset - 300, ..right };
    let read = |at: FilePosition| {
        bytes_read_by(|| assert_eq!(files.read_part(hash, Some(at), 100, 20).unwrap(), bytes[100..120]))
    };
    assert_eq!(read(right), HEAD + 20);
    assert!(read(stale) > bytes.len() as u64);
    for _ in 0..3 {
        assert_eq!(read(stale), HEAD + 20);
    }
}
