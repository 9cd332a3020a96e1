//! Siblings of the same shape: blocks after the same one whose undo data could fund either.

use super::*;

/// Siblings and their ancestors; each ancestor creates coins of one value under scripts of its own.
struct Family {
    ancestors: Vec<Block>,
    /// The siblings with their undo data.
    siblings: Vec<(Block, Vec<u8>)>,
}

impl Family {
    /// Returns siblings that spend one coin each: of the same block, of another one, at another vout.
    fn new() -> Self {
        let funding: Vec<Block> = (1..=2).fold(vec![genesis()], |mut blocks, tag| {
            let mut coinbase = transaction(tag, 0);
            coinbase.output = (0..2).map(|vout| coin(tag, vout)).collect();
            blocks.push(mine_of(&blocks[blocks.len() - 1], vec![coinbase]));
            blocks
        });
        let parent = &funding[2];
        let spend = |(tag, vout): (u32, u32)| {
            let mut spending = transaction(100 + tag, vout + 1);
            let txid = funding[tag as usize].txdata[0].compute_txid();
            spending.input[0].previous_output = OutPoint { txid, vout };
            (mine_of(parent, vec![transaction(200 + tag, vout), spending]), undo_of_coin(tag, vout))
        };
        Self { siblings: [(1, 0), (1, 1), (2, 0)].map(spend).into(), ancestors: funding }
    }

    /// Returns the files of a node that stored and connected the siblings in this order.
    fn connected(&self, order: &[usize]) -> Made {
        let mut made = Made::new(1);
        made.put_connected(0, &self.ancestors[1..]);
        for (block, undo) in order.iter().map(|&at| &self.siblings[at]) {
            made.put(0, block);
            made.connect_with(0, block, undo);
        }
        made
    }
}

fn coin(tag: u32, vout: u32) -> TxOut {
    TxOut { value: Amount::from_sat(5_000_000_000), script_pubkey: ScriptBuf::from_bytes(script(tag, vout)) }
}

fn script(tag: u32, vout: u32) -> Vec<u8> {
    [&[0x51], &tag.to_le_bytes()[..], &vout.to_le_bytes()[..]].concat()
}

/// Returns undo data of one transaction with one input that spends a [`coin`] of the block at height `tag`.
fn undo_of_coin(tag: u32, vout: u32) -> Vec<u8> {
    let script = script(tag, vout);
    let (coinbase_at_height, version, fifty_coins) = (u8::try_from(tag * 2 + 1).unwrap(), 0, 0x32);
    let special_scripts = 6;
    let script_code = special_scripts + u8::try_from(script.len()).unwrap();
    [&[1, 1, coinbase_at_height, version, fifty_coins, script_code], &script[..]].concat()
}

fn undo_read(files: &BlockFiles, chain: &[BlockMeta], height: u32) -> Vec<u8> {
    let mut read = Vec::new();
    let unit = Unit { heights: vec![Height(height)] };
    files
        .read_unit(chain, &unit, &mut |_, _, spent| {
            let SpentBytes::Undo(undo) = spent else { panic!("files give undo data") };
            read = undo.to_vec();
            Ok(())
        })
        .unwrap();
    read
}

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn each_sibling_gets_its_own_undo_data_whatever_the_order() {
    let family = Family::new();
    for order in ORDERS {
        let made = family.connected(&order);
        let files = made.open();
        for (block, undo) in &family.siblings {
            let hash = block.block_hash();
            let fetched = files.block(hash).unwrap();
            assert!(matches!(fetched.spent.as_bytes(), SpentBytes::Undo(found) if found == undo), "{order:?}");
            assert!(fetched.has_sibling);
            let chain = files.chain(Some(hash)).unwrap();
            assert_eq!(&undo_read(&files, &chain, 3), undo, "{order:?}");
            // A restarted reader knows the chain but has not scanned the files.
            assert_eq!(&undo_read(&made.open(), &chain, 3), undo, "{order:?}");
        }
    }
}

#[test]
fn sibling_stored_after_the_first_read_is_noticed() {
    let family = Family::new();
    let mut made = family.connected(&[0]);
    let files = made.open();
    let (first, second) = (&family.siblings[0], &family.siblings[2]);
    assert!(files.block(first.0.block_hash()).is_ok_and(|fetched| !fetched.has_sibling));
    made.put(0, &second.0);
    made.connect_with(0, &second.0, &second.1);
    made.write();
    // The search continues behind the last match and meets the sibling's undo data first.
    let fetched = files.block(first.0.block_hash()).unwrap();
    assert!(matches!(fetched.spent.as_bytes(), SpentBytes::Undo(found) if found == first.1));
    assert!(fetched.has_sibling);
}

/// Fetches a block with its own undo data.
fn own_undo_fetched(files: &BlockFiles, (block, undo): &(Block, Vec<u8>)) -> FetchedBlock {
    let fetched = files.block(block.block_hash()).unwrap();
    assert!(matches!(fetched.spent.as_bytes(), SpentBytes::Undo(found) if found == undo), "that of a sibling");
    fetched
}

/// Returns a block of another chain.
fn stranger(tag: u32, like: &(Block, Vec<u8>)) -> Block {
    mine_of(&mine(&genesis(), tag, 1), like.0.txdata.clone())
}

/// Puts a block of another chain, of which block and undo data are as long as these.
fn put_stranger(made: &mut Made, tag: u32, like: &(Block, Vec<u8>)) -> Block {
    let stranger = stranger(tag, like);
    made.put(0, &stranger);
    made.connect_with(0, &stranger, &like.1);
    stranger
}

#[test]
fn sibling_that_a_killed_node_wrote_over_other_blocks_is_noticed() {
    let family = Family::new();
    let mut made = family.connected(&[]);
    let stranger = put_stranger(&mut made, 99, &family.siblings[1]);
    let files = made.open();
    for block in [&stranger, &family.ancestors[2]] {
        assert!(!files.block(block.block_hash()).unwrap().has_sibling);
    }
    // Killed before it noted the stranger, it writes a block of the same size there, and then the sibling of that.
    let written = family.connected(&[0, 2]);
    made.write_over(written);
    assert!(own_undo_fetched(&files, &family.siblings[2]).has_sibling);
}

#[test]
fn undo_data_that_a_killed_node_has_left_behind_its_newest_is_not_taken() {
    let family = Family::new();
    let mut made = family.connected(&[]);
    let stranger = put_stranger(&mut made, 99, &family.siblings[1]);
    let files = made.open();
    assert!(files.block(stranger.block_hash()).is_ok());
    // Another sibling came, which nobody has read. Killed, the node has written over it and the stranger.
    let written = family.connected(&[2, 0]);
    let lost = serialize(&family.siblings[0].0).len();
    (made.blk, made.rev) = (written.blk, written.rev);
    let kept = made.blk[0].len() - lost;
    made.blk[0][kept..].fill(0xee);
    made.write();
    own_undo_fetched(&files, &family.siblings[2]);
}

#[test]
fn undo_data_behind_the_newest_is_not_taken_where_only_older_blocks_were_written_over() {
    let family = Family::new();
    let mut made = family.connected(&[]);
    let stranger = put_stranger(&mut made, 99, &family.siblings[1]);
    let last = put_stranger(&mut made, 98, &family.siblings[1]);
    let files = made.open();
    for block in [&last, &stranger] {
        assert!(files.block(block.block_hash()).is_ok());
    }
    let mut written = family.connected(&[2]);
    written.put(0, &last);
    written.connect_with(0, &family.siblings[0].0, &family.siblings[0].1);
    made.write_over(written);
    own_undo_fetched(&files, &family.siblings[2]);
}

#[test]
fn undo_data_behind_the_newest_is_not_taken_for_a_block_that_was_known_before_the_kill() {
    let family = Family::new();
    let mut made = family.connected(&[]);
    made.put(0, &family.siblings[2].0);
    let last = put_stranger(&mut made, 99, &family.siblings[1]);
    let files = made.open();
    assert!(files.block(last.block_hash()).is_ok());
    let mut written = family.connected(&[2]);
    written.put(0, &stranger(98, &family.siblings[1]));
    written.connect_with(0, &family.siblings[0].0, &family.siblings[0].1);
    made.write_over(written);
    own_undo_fetched(&files, &family.siblings[2]);
}

#[test]
fn undo_data_of_a_sibling_is_never_taken() {
    let family = Family::new();
    let mut made = family.connected(&[0, 1]);
    // This block is stored but never connected.
    let (block, _) = &family.siblings[2];
    made.put(0, block);
    let error = made.open().block(block.block_hash()).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Transient, "{error}");
}
