//! Hand-made folders, as a node leaves them after crashes, reorgs and out-of-order downloads.

mod siblings;

use std::fs;
use std::path::Path;

use birdhouse_chain::source::{SourceErrorKind, SpentBytes};
use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::transaction::Version;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};

use super::undo_pairs::undo_checksum;
use super::*;
use crate::xor::XorKey;

const KEY: XorKey = XorKey::new([0, 0x5a, 3, 0xff, 0, 6, 7, 8]);

/// A builder of a folder of block files: the plain content of each file.
struct Made {
    dir: tempfile::TempDir,
    blk: Vec<Vec<u8>>,
    rev: Vec<Vec<u8>>,
}

impl Made {
    /// Returns a folder with the genesis block in the first file.
    fn new(files: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut made = Self { dir, blk: vec![Vec::new(); files], rev: vec![Vec::new(); files] };
        made.put(0, &genesis_block(Network::Regtest));
        made
    }

    /// Appends the block's record.
    fn put(&mut self, file: usize, block: &Block) {
        push_record(&mut self.blk[file], &serialize(block), &[]);
    }

    /// Appends the block's undo record, as connecting it does.
    fn connect(&mut self, file: usize, block: &Block) {
        self.connect_with(file, block, &undo_of(block));
    }

    fn connect_with(&mut self, file: usize, block: &Block, undo: &[u8]) {
        push_record(&mut self.rev[file], undo, &undo_checksum(block.header.prev_blockhash, undo));
    }

    fn put_connected(&mut self, file: usize, blocks: &[Block]) {
        for block in blocks {
            self.put(file, block);
            self.connect(file, block);
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes what another node has written in place of the files.
    fn write_over(&mut self, other: Self) {
        (self.blk, self.rev) = (other.blk, other.rev);
        self.write();
    }

    /// Writes the files, each with preallocated raw zeros at its end.
    fn write(&self) {
        fs::write(self.path().join("xor.dat"), [0, 0x5a, 3, 0xff, 0, 6, 7, 8]).unwrap();
        for (kind, files) in [("blk", &self.blk), ("rev", &self.rev)] {
            for (number, plain) in files.iter().enumerate() {
                let mut bytes = plain.clone();
                KEY.apply(0, &mut bytes);
                bytes.resize(bytes.len() + 3000, 0);
                fs::write(self.path().join(format!("{kind}{number:05}.dat")), bytes).unwrap();
            }
        }
    }

    fn open(&self) -> BlockFiles {
        self.write();
        BlockFiles::open(self.path(), Network::Regtest).unwrap()
    }
}

#[test]
fn block_files_of_a_chain_that_is_not_served_are_refused_by_its_name() {
    let mut made = Made::new(1);
    made.blk[0][..4].copy_from_slice(b"FIVE");
    made.write();
    let error = BlockFiles::open(made.path(), Network::Testnet4).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Permanent);
    assert!(error.message.contains("the chain \"testnet5\" is not served"), "{error}");
}

fn push_record(file: &mut Vec<u8>, payload: &[u8], trailer: &[u8]) {
    file.extend(Network::Regtest.magic().to_bytes());
    file.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
    file.extend(payload);
    file.extend(trailer);
}

/// Returns undo data that fits the block and differs between spending blocks: every input spends 50 coins of block 1,
/// locked to the first bytes of the block's merkle root.
fn undo_of(block: &Block) -> Vec<u8> {
    let spending = &block.txdata[1..];
    let mut undo = vec![u8::try_from(spending.len()).unwrap()];
    for transaction in spending {
        undo.push(u8::try_from(transaction.input.len()).unwrap());
        for _ in &transaction.input {
            let (height, version, fifty_coins, pay_to_pubkey_hash) = (2, 0, 0x32, 0);
            undo.extend([height, version, fifty_coins, pay_to_pubkey_hash]);
            undo.extend(&block.header.merkle_root.to_byte_array()[..20]);
        }
    }
    undo
}

/// Mines a block of `transactions` transactions on top of `previous`; `tag` makes it differ from its siblings.
fn mine(previous: &Block, tag: u32, transactions: u32) -> Block {
    mine_of(previous, (0..transactions).map(|n| transaction(tag, n)).collect())
}

fn mine_of(previous: &Block, txdata: Vec<Transaction>) -> Block {
    let mut block = Block { header: previous.header, txdata };
    block.header.prev_blockhash = previous.block_hash();
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    while !block.header.target().is_met_by(block.block_hash()) {
        block.header.nonce += 1;
    }
    block
}

fn transaction(tag: u32, n: u32) -> Transaction {
    let previous_output = if n == 0 { OutPoint::null() } else { OutPoint::new(bitcoin::Txid::all_zeros(), n) };
    let script_sig = ScriptBuf::from_bytes([tag.to_le_bytes(), n.to_le_bytes()].concat());
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![TxIn { previous_output, script_sig, sequence: Sequence::MAX, witness: Witness::new() }],
        output: vec![TxOut { value: Amount::ONE_BTC, script_pubkey: ScriptBuf::new() }],
    }
}

/// Mines `count` blocks of 1 to 3 transactions on top of `previous`.
fn branch(previous: &Block, tag: u32, count: u32) -> Vec<Block> {
    let mut blocks = vec![previous.clone()];
    for n in 0..count {
        let top = blocks.last().unwrap();
        blocks.push(mine(top, tag + n, 1 + n % 3));
    }
    blocks.split_off(1)
}

fn genesis() -> Block {
    genesis_block(Network::Regtest)
}

/// Reads the whole chain by units and compares it block by block with the expected one.
fn expect_chain(files: &BlockFiles, tip: Option<BlockHash>, expected: &[Block]) {
    let chain = files.chain(tip).unwrap();
    let hashes: Vec<BlockHash> = chain.iter().map(|meta| meta.hash).collect();
    assert_eq!(hashes, expected.iter().map(Block::block_hash).collect::<Vec<_>>());
    let mut seen = 0;
    for unit in files.units(&chain, Height(0)..Height(u32::MAX)) {
        assert!(unit.heights.is_sorted());
        files
            .read_unit(&chain, &unit, &mut |height, block, spent| {
                let wanted = &expected[height.0 as usize];
                assert_eq!(block, serialize(wanted));
                let SpentBytes::Undo(undo) = spent else { panic!("files give undo data") };
                assert_eq!(undo, expected_undo(wanted));
                assert_eq!(chain[height.0 as usize].tx_count as usize, wanted.txdata.len());
                seen += 1;
                Ok(())
            })
            .unwrap();
    }
    assert_eq!(seen, expected.len());
    for block in expected {
        let fetched = files.block(block.block_hash()).unwrap();
        assert_eq!(fetched.block, serialize(block));
        assert!(matches!(fetched.spent.as_bytes(), SpentBytes::Undo(undo) if undo == expected_undo(block)));
    }
}

fn expected_undo(block: &Block) -> Vec<u8> {
    if block.header.prev_blockhash == BlockHash::all_zeros() { vec![0] } else { undo_of(block) }
}

#[test]
fn blocks_out_of_order_over_files_with_a_gap_are_read_in_order() {
    let mut made = Made::new(3);
    let blocks = branch(&genesis(), 1, 12);
    for at in [3, 0, 1, 2, 5, 4] {
        made.put(0, &blocks[at]);
    }
    for at in [11, 6, 8, 7, 10, 9] {
        made.put(2, &blocks[at]);
    }
    for (at, block) in blocks.iter().enumerate() {
        made.connect(if at < 6 { 0 } else { 2 }, block);
    }
    let files = made.open();
    fs::remove_file(made.path().join("blk00001.dat")).unwrap();
    let all = [vec![genesis()], blocks].concat();
    expect_chain(&files, None, &all);
    expect_chain(&files, Some(all[8].block_hash()), &all[..9]);
}

#[test]
fn stale_blocks_between_the_active_ones_are_stepped_over() {
    let mut made = Made::new(1);
    let old = branch(&genesis(), 1, 4);
    let stale = branch(&old[1], 100, 3);
    let new = branch(&old[3], 200, 3);
    made.put_connected(0, &old[..2]);
    made.put_connected(0, &stale);
    made.put_connected(0, &old[2..]);
    made.put_connected(0, &new);
    let all = [vec![genesis()], old.clone(), new].concat();
    expect_chain(&made.open(), None, &all);
    let other = [&all[..3], &stale].concat();
    expect_chain(&made.open(), Some(stale[2].block_hash()), &other);
}

#[test]
fn undo_data_in_another_order_than_height_is_still_paired() {
    let mut made = Made::new(1);
    let blocks = branch(&genesis(), 1, 9);
    for block in &blocks {
        made.put(0, block);
    }
    for at in [5, 6, 7, 8, 0, 1, 2, 3, 4] {
        made.connect(0, &blocks[at]);
    }
    expect_chain(&made.open(), None, &[vec![genesis()], blocks].concat());
}

#[test]
fn most_work_among_connected_blocks_is_the_tip() {
    let mut made = Made::new(1);
    let active = branch(&genesis(), 1, 3);
    made.put_connected(0, &active);
    let never_connected = branch(&active[2], 50, 2);
    for block in never_connected.iter().chain(&branch(&mine(&active[0], 90, 1), 60, 9)) {
        made.put(0, block);
    }
    expect_chain(&made.open(), None, &[vec![genesis()], active].concat());
}

#[test]
fn block_written_twice_is_taken_where_it_is_whole() {
    let mut made = Made::new(2);
    let blocks = branch(&genesis(), 1, 3);
    made.put_connected(0, &blocks[..2]);
    // A crash left the head of the third block in the first file, without its body.
    let bytes = serialize(&blocks[2]);
    let mut half = bytes[..100].to_vec();
    half.resize(bytes.len(), 0xee);
    push_record(&mut made.blk[0], &half, &[]);
    made.put_connected(1, &blocks[2..]);
    expect_chain(&made.open(), None, &[vec![genesis()], blocks].concat());
}

#[test]
fn a_second_copy_of_a_block_is_no_sibling_of_it() {
    let mut made = Made::new(1);
    let blocks = branch(&genesis(), 1, 3);
    made.put_connected(0, &blocks);
    // A node that was killed in its download has written it again.
    made.put(0, &blocks[1]);
    let files = made.open();
    assert!(!files.block(blocks[1].block_hash()).unwrap().has_sibling);
    made.put(0, &mine(&blocks[0], 50, 1));
    made.write();
    assert!(files.block(blocks[1].block_hash()).unwrap().has_sibling);
}

#[test]
fn a_part_that_the_files_do_not_give_is_asked_of_the_node() {
    let (mut made, mut of_node) = (Made::new(1), Made::new(1));
    let blocks = branch(&genesis(), 1, 2);
    made.put_connected(0, &blocks[..1]);
    of_node.put_connected(0, &blocks);
    let files = made.open().with_node(Arc::new(of_node.open()));
    let (hash, bytes) = (blocks[1].block_hash(), serialize(&blocks[1]));
    assert_eq!(files.read_part(hash, None, 3, 70).unwrap(), bytes[3..73]);
    let unknown = files.read_part(mine(&blocks[1], 9, 1).block_hash(), None, 0, 80).unwrap_err();
    assert_eq!(unknown.kind, SourceErrorKind::NotFound);
}

#[test]
fn block_that_arrives_later_is_found() {
    let mut made = Made::new(1);
    let blocks = branch(&genesis(), 1, 8);
    made.put_connected(0, &blocks[..3]);
    let files = made.open();
    assert_eq!(files.chain(None).unwrap().len(), 4);
    let unknown = files.block(blocks[5].block_hash()).unwrap_err();
    assert_eq!(unknown.kind, SourceErrorKind::NotFound);
    made.put_connected(0, &blocks[3..5]);
    made.blk.push(Vec::new());
    made.rev.push(Vec::new());
    made.put_connected(1, &blocks[5..]);
    made.write();
    for block in &blocks[3..] {
        assert_eq!(files.block(block.block_hash()).unwrap().block, serialize(block));
    }
}

#[test]
fn block_is_found_in_any_file_without_a_scan_before() {
    let mut made = Made::new(7);
    let blocks = branch(&genesis(), 1, 7);
    for (file, block) in blocks.iter().enumerate() {
        made.put_connected(file, std::slice::from_ref(block));
    }
    let files = made.open();
    for block in blocks.iter().rev() {
        assert_eq!(files.block(block.block_hash()).unwrap().block, serialize(block));
    }
}

#[test]
fn missing_undo_data_is_transient_only_in_the_newest_file() {
    let mut made = Made::new(2);
    let blocks = branch(&genesis(), 1, 2);
    made.put(0, &blocks[0]);
    made.put(1, &blocks[1]);
    let files = made.open();
    let error = files.block(blocks[1].block_hash()).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Transient, "{error}");
    let error = files.block(blocks[0].block_hash()).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Permanent, "{error}");
    assert!(error.message.contains(&blocks[0].block_hash().to_string()), "{error}");
}

#[test]
fn part_of_a_block_is_read_by_position_or_without_it_and_never_beyond() {
    let mut made = Made::new(1);
    let blocks = branch(&genesis(), 1, 3);
    made.put_connected(0, &blocks);
    let files = made.open();
    let bytes = serialize(&blocks[1]);
    let len = u32::try_from(bytes.len()).unwrap();
    let hash = blocks[1].block_hash();
    let position = files.block(hash).unwrap().position;
    let elsewhere = Some(FilePosition { file: 9, offset: 4 });
    for hint in [position, None, elsewhere, Some(FilePosition { file: 0, offset: 8 })] {
        assert_eq!(files.read_part(hash, hint, 81, 40).unwrap(), bytes[81..121]);
        assert_eq!(files.read_part(hash, hint, 0, len).unwrap(), bytes);
        assert!(files.read_part(hash, hint, 1, len).is_err());
        assert!(files.read_part(hash, hint, u32::MAX, 2).is_err());
    }
}

#[test]
fn peek_returns_unverified_bytes_and_none_past_the_end() {
    let mut made = Made::new(1);
    let blocks = branch(&genesis(), 1, 3);
    made.put_connected(0, &blocks);
    let files = made.open();
    let bytes = serialize(&blocks[1]);
    let position = files.block(blocks[1].block_hash()).unwrap().position.unwrap();
    assert_eq!(files.peek(position, 81, 40).unwrap().unwrap(), bytes[81..121]);
    let shifted = FilePosition { offset: position.offset + 1, ..position };
    assert_eq!(files.peek(shifted, 81, 40).unwrap().unwrap(), bytes[82..122]);
    assert_eq!(files.peek(position, u32::MAX, 40).unwrap(), None, "beyond the end");
    assert_eq!(files.peek(FilePosition { file: 9, offset: 8 }, 0, 1).unwrap(), None, "no such file");
}

#[test]
fn missing_ancestor_is_named() {
    let mut made = Made::new(1);
    let blocks = branch(&genesis(), 1, 5);
    made.put_connected(0, &blocks[..2]);
    made.put_connected(0, &blocks[3..]);
    let files = made.open();
    let error = files.chain(Some(blocks[4].block_hash())).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Permanent);
    assert!(error.message.contains(&blocks[2].block_hash().to_string()), "{error}");
    assert_eq!(files.chain(None).unwrap().len(), 3, "files alone: the best chain that is complete");
}

#[test]
fn folder_of_another_network_or_of_none_says_so() {
    let made = Made::new(1);
    made.write();
    let error = BlockFiles::open(made.path(), Network::Bitcoin).unwrap_err();
    assert!(error.message.contains("regtest") && error.message.contains("main"), "{error}");
    fs::remove_file(made.path().join("blk00000.dat")).unwrap();
    let error = BlockFiles::open(made.path(), Network::Regtest).unwrap_err();
    assert!(error.message.contains("no block files"), "{error}");
    let error = BlockFiles::open(&made.path().join("gone"), Network::Regtest).unwrap_err();
    assert!(error.message.contains("does not exist"), "{error}");
}

#[test]
fn folder_whose_first_files_are_deleted_gives_what_is_left() {
    let mut made = Made::new(3);
    let blocks = branch(&genesis(), 1, 9);
    for (file, part) in blocks.chunks(3).enumerate() {
        made.put_connected(file, part);
    }
    made.write();
    let delete = |number: u32| {
        for kind in ["blk", "rev"] {
            fs::remove_file(made.path().join(format!("{kind}{number:05}.dat"))).unwrap();
        }
    };
    let before = BlockFiles::open(made.path(), Network::Regtest).unwrap();
    let metas = before.chain(Some(blocks[8].block_hash())).unwrap();
    delete(0);
    let after = BlockFiles::open(made.path(), Network::Regtest).unwrap();
    for files in [&before, &after] {
        for block in &blocks[3..] {
            assert_eq!(files.block(block.block_hash()).unwrap().block, serialize(block));
        }
        let error = files.block(blocks[2].block_hash()).unwrap_err();
        assert_eq!(error.kind, SourceErrorKind::NotFound, "{error}");
        let error = files.chain(None).unwrap_err();
        assert!(error.kind == SourceErrorKind::Permanent && error.message.contains("pruned"), "{error}");
        let error = files.chain(Some(blocks[8].block_hash())).unwrap_err();
        assert!(error.kind == SourceErrorKind::Permanent && error.message.contains("pruned"), "{error}");
    }
    // Deleted while they are read.
    for unit in before.units(&metas, Height(1)..Height(4)) {
        let error = before.read_unit(&metas, &unit, &mut |_, _, _| Ok(())).unwrap_err();
        assert!(error.kind == SourceErrorKind::NotFound && error.message.contains("pruned"), "{error}");
    }
    delete(1);
    assert_eq!(before.block(blocks[8].block_hash()).unwrap().block, serialize(&blocks[8]));
    assert!(BlockFiles::open(made.path(), Network::Bitcoin).unwrap_err().message.contains("regtest"));
}

#[test]
fn files_that_are_made_anew_under_their_names_are_scanned_again() {
    let mut made = Made::new(6);
    let blocks = branch(&genesis(), 1, 12);
    for (file, part) in blocks.chunks(2).enumerate() {
        made.put_connected(file, part);
    }
    let files = made.open();
    files.chain(None).unwrap();
    for number in 0..6 {
        fs::remove_file(made.path().join(format!("blk{number:05}.dat"))).unwrap();
        fs::remove_file(made.path().join(format!("rev{number:05}.dat"))).unwrap();
    }
    // The same key and names; longer records, at other positions, in files that end before.
    let mut again = Made { blk: vec![Vec::new(); 6], rev: vec![Vec::new(); 6], dir: made.dir };
    again.put(0, &genesis());
    let others = branch(&genesis(), 2, 6);
    for (file, block) in others.iter().enumerate() {
        again.put_connected(file, std::slice::from_ref(block));
    }
    again.write();
    assert_eq!(files.block(others[0].block_hash()).unwrap().block, serialize(&others[0]));
    expect_chain(&files, Some(others[5].block_hash()), &[&[genesis()], &others[..]].concat());
}

#[test]
fn few_files_are_split_and_many_are_not() {
    let meta = |file: u32| BlockMeta {
        hash: BlockHash::all_zeros(),
        header: [0; 80],
        tx_count: 1,
        bytes: 4_000_000,
        position: Some(FilePosition { file, offset: 8 }),
    };
    let few: Vec<BlockMeta> = (0..30).map(|n| meta(n % 2)).collect();
    let made = Made::new(1);
    let files = made.open();
    let units = files.units(&few, Height(0)..Height(30));
    assert_eq!(units.len(), 6);
    let of_one_file = |unit: &Unit| unit.heights.iter().all(|h| h.0 % 2 == unit.heights[0].0 % 2);
    assert!(units.iter().all(of_one_file));
    let many: Vec<BlockMeta> = (0..320).map(|n| meta(n / 10)).collect();
    assert_eq!(files.units(&many, Height(5)..Height(1000)).len(), 32);
    let heights: usize = files.units(&many, Height(5)..Height(1000)).iter().map(|u| u.heights.len()).sum();
    assert_eq!(heights, 315);
}
