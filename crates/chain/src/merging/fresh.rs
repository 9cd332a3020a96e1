//! New blocks as sorted records, from which a pack or the rows of a delta are written. Pure.
//!
//! Blocks are gathered in the order of the chain. Then every spent output gets the number of its funding transaction:
//! what the blocks spend of each other meets by txid ([`Gathered::settle`]), what they spend of earlier ones is looked
//! up ([`Settled::number`]).
//!
//! The records of each block lie by partition of their keys, as in the first build. Those of all blocks are sorted one
//! partition at a time, when its rows are written: they fit the nearest caches, and memory never holds them twice.

use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};

use crate::block::{BlockTouches, SpendingInput};
use crate::build::{
    Naming, NumberedBlock, PARTITION_BITS, Partitioned, Record, Side, by_key, each_record, partitioned, sorted,
};
use crate::error::{Error, Result};
use crate::names::{Hash256, Height, KeyLength, Keyer, ScriptKey, TxNum};
use crate::query::Funding;
use crate::rows::{Coin, Part, Recent, Share, TxOutNum, txnum};
use crate::state::Headers;

/// Partitions of the records of a block.
pub(super) const PARTITIONS: usize = 1 << PARTITION_BITS;
/// Scripts of more records are counted in one partition of [`COUNTED_STEP`]: keyed hashes are spread evenly, so the
/// count of a sixteenth of a hundred thousand scripts errs by about one in a hundred.
const COUNTED_RECORDS_MAX: usize = 1 << 17;
const COUNTED_STEP: usize = 16;
/// Funding transactions of earlier blocks that are looked up at a time: some megabytes.
const LOOKED_UP: usize = 1 << 16;

/// The records of one block.
pub(crate) struct BlockRecords {
    first: TxNum,
    txids: Vec<Hash256>,
    /// The keyed hash of each txid.
    hashes: Vec<u64>,
    /// Those of spent outputs have the index in `spent` in place of a funding transaction.
    records: Partitioned<Record>,
    spent: Vec<Spent>,
    /// The number of the funding transaction of each spent output, once it is known.
    found: Vec<TxNum>,
}

/// An output that a block spends.
struct Spent {
    /// Name of the funding transaction.
    name: u64,
    funding: Funding,
    vout: u32,
    /// Index of the spending transaction in the block.
    tx: u32,
}

/// Blocks in the order of the chain, before their spent outputs have numbers.
pub(crate) struct Gathered {
    first: TxNum,
    end: TxNum,
    blocks: Vec<BlockRecords>,
    records: usize,
}

/// Blocks whose spends of each other have numbers.
pub(crate) struct Settled {
    first: TxNum,
    end: TxNum,
    blocks: Vec<BlockRecords>,
    /// The hash of each txid, with the txnum; ascending.
    hashes: Vec<(u64, TxNum)>,
    /// Spends of earlier blocks, ascending by name.
    earlier: Vec<Spend>,
}

/// A spent output. Small, for it is sorted.
#[derive(Clone, Copy)]
struct Spend {
    /// Name of the funding transaction.
    name: u64,
    /// Index of the block.
    block: u32,
    /// Index among the spent outputs of the block.
    spent: u32,
    /// Height of the funding transaction, where undo data tells.
    height: Option<Height>,
}

/// Blocks as a merge takes them.
pub(crate) struct Fresh {
    blocks: Vec<FreshBlock>,
    /// The hash of each txid, with the txnum; ascending.
    hashes: Vec<(u64, TxNum)>,
}

/// The records of one block, whose spent outputs have numbers.
struct FreshBlock {
    records: Partitioned<Record>,
    found: Vec<TxNum>,
}

impl BlockRecords {
    /// The records of a block with this height and this first txnum.
    ///
    /// # Errors
    /// [`Error::Block`] with a number that consensus does not allow.
    pub(crate) fn of(touches: &BlockTouches, height: Height, first: TxNum, keyer: &Keyer) -> Result<Self> {
        let hashes: Vec<u64> = touches.txids.iter().map(|txid| keyer.txid(txid)).collect();
        let mut records = Vec::with_capacity(touches.funded.len() + touches.spent.len());
        let mut spent = Vec::with_capacity(touches.spent.len());
        let mut inputs = touches.spent.iter();
        let numbered = NumberedBlock { touches, height, first, hashes: &hashes };
        each_record(numbered, keyer, Naming::Hash, |mut record| {
            if record.side() == Side::Spent {
                let input = inputs.next().expect("a record for each spent output");
                let index = spent.len() as u64;
                spent.push(Spent::of(input, record.funding()));
                record.set_funding(index);
            }
            records.push(record);
            Ok(())
        })?;
        let (records, found) = (partitioned(&[&records], PARTITION_BITS, Record::prefix), vec![TxNum(0); spent.len()]);
        Ok(Self { first, txids: touches.txids.clone(), hashes, records, spent, found })
    }

    /// The outputs that the block spends.
    fn spent(&self) -> impl Iterator<Item = OutPoint> {
        let outpoint = |spent: &Spent| OutPoint { txid: Txid::from_byte_array(spent.funding.txid), vout: spent.vout };
        self.spent.iter().map(outpoint)
    }

    /// The number of the transaction that spends an output.
    fn spender(&self, spent: &Spent) -> TxNum {
        TxNum(self.first.0 + u64::from(spent.tx))
    }
}

impl Spent {
    fn of(input: &SpendingInput, name: u64) -> Self {
        let funding = Funding { txid: input.prev_txid, height: input.origin.map(|origin| origin.height) };
        Self { name, funding, vout: input.prev_vout, tx: input.tx }
    }
}

impl Gathered {
    pub(crate) fn new(first: TxNum) -> Self {
        Self { first, end: first, blocks: Vec::new(), records: 0 }
    }

    /// First txnum after the gathered blocks.
    pub(crate) fn end(&self) -> TxNum {
        self.end
    }

    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.records
    }

    /// Adds the next block, which begins at [`Self::end`].
    pub(crate) fn push(&mut self, block: BlockRecords) {
        self.end.0 += block.txids.len() as u64;
        self.records += block.records.len();
        self.blocks.push(block);
    }

    /// Sorts the transactions, and numbers those that the blocks spend of each other. `headers` is the chain up to the
    /// last block.
    pub(crate) fn settle(self, headers: &Headers) -> Settled {
        let Self { first, end, mut blocks, .. } = self;
        let mut hashes = Vec::with_capacity(blocks.iter().map(|block| block.hashes.len()).sum());
        for block in &blocks {
            hashes.extend(block.hashes.iter().copied().zip((block.first.0..).map(TxNum)));
        }
        let hashes = sorted(&[&hashes], 0, |(hash, txnum)| (*hash, txnum.0));
        let mut earlier: Vec<Spend> = Vec::with_capacity(blocks.iter().map(|block| block.spent.len()).sum());
        for (block, of_block) in (0..).zip(&blocks) {
            let spends = (0..).zip(&of_block.spent);
            earlier.extend(spends.map(|(index, Spent { name, funding, .. })| Spend {
                name: *name,
                block,
                spent: index,
                height: funding.height,
            }));
        }
        let mut earlier = sorted(&[&earlier], 0, |spend| (spend.name, u64::from(spend.block)));
        let mut at = 0;
        earlier.retain(|spend| {
            at += hashes[at..].iter().take_while(|(hash, _)| *hash < spend.name).count();
            let same = hashes[at..].iter().take_while(|(hash, _)| *hash == spend.name).count();
            let with_name = &hashes[at..at + same];
            let found = if same == 0 { None } else { find(&blocks, spend, with_name, headers) };
            if let Some(funding) = found {
                blocks[spend.block as usize].found[spend.spent as usize] = funding;
            }
            found.is_none()
        });
        Settled { first, end, blocks, hashes, earlier }
    }
}

/// The transaction of some blocks that funded a spent output of theirs, among those with its name. Where undo data
/// tells the block, the only candidate is not compared with the txid, as in
/// [`find_txnums_in`](crate::state::Snapshot::find_txnums_in).
fn find(blocks: &[BlockRecords], spend: &Spend, with_name: &[(u64, TxNum)], headers: &Headers) -> Option<TxNum> {
    if let ([(_, txnum)], Some(height)) = (with_name, spend.height) {
        return headers.get(height).is_some_and(|block| block.has(*txnum)).then_some(*txnum);
    }
    let of_block = &blocks[spend.block as usize];
    let spent = &of_block.spent[spend.spent as usize];
    let is_of_block = |txnum: &TxNum| spent.funding.may_be(*txnum, headers);
    let has_txid = |txnum: &TxNum| {
        let block = &blocks[blocks.partition_point(|block| block.first <= *txnum) - 1];
        let position = usize::try_from(txnum.0 - block.first.0).expect("one of few");
        block.txids[position] == spent.funding.txid
    };
    // Of two with one txid (BIP 30), the last before the spender.
    let is_before = |txnum: &TxNum| *txnum < of_block.spender(spent);
    let mut with_name = with_name.iter().map(|(_, txnum)| *txnum);
    with_name.rfind(|txnum| is_before(txnum) && has_txid(txnum) && is_of_block(txnum))
}

impl Settled {
    /// First txnum of the blocks.
    pub(crate) fn first(&self) -> TxNum {
        self.first
    }

    /// First txnum after the blocks.
    pub(crate) fn end(&self) -> TxNum {
        self.end
    }

    /// The txids of each block, with the first txnum.
    pub(crate) fn txids(&self) -> impl Iterator<Item = (TxNum, &[Hash256])> {
        self.blocks.iter().map(|block| (block.first, block.txids.as_slice()))
    }

    /// The outputs that the blocks spend.
    pub(crate) fn spent(&self) -> impl Iterator<Item = OutPoint> {
        self.blocks.iter().flat_map(BlockRecords::spent)
    }

    /// Numbers what the blocks spend of earlier ones. `look_up` finds some funding transactions, which it gets in the
    /// order of their rows; it is called until all are found.
    ///
    /// # Errors
    /// Those of `look_up`; [`Error::UnknownTransaction`] if neither these nor the earlier blocks have a transaction, in
    /// the block that undo data names.
    pub(crate) fn number(self, mut look_up: impl FnMut(&[Funding]) -> Result<Vec<Option<TxNum>>>) -> Result<Fresh> {
        let Self { mut blocks, earlier, hashes, .. } = self;
        let mut left = earlier.as_slice();
        while !left.is_empty() {
            let funding = |spend: &Spend| blocks[spend.block as usize].spent[spend.spent as usize].funding;
            let same = |one: &Spend, other: &Spend| one.name == other.name && funding(one) == funding(other);
            let some: Vec<&[Spend]> = left.chunk_by(same).take(LOOKED_UP).collect();
            let fundings: Vec<Funding> = some.iter().map(|same| funding(&same[0])).collect();
            left = &left[some.iter().map(|same| same.len()).sum()..];
            for ((same, funding), found) in some.into_iter().zip(&fundings).zip(look_up(&fundings)?) {
                let unknown = || Error::UnknownTransaction { txid: Txid::from_byte_array(funding.txid) };
                let found = found.ok_or_else(unknown)?;
                for spend in same {
                    blocks[spend.block as usize].found[spend.spent as usize] = found;
                }
            }
        }
        let fresh = |BlockRecords { records, found, .. }: BlockRecords| FreshBlock { records, found };
        Ok(Fresh { blocks: blocks.into_iter().map(fresh).collect(), hashes })
    }
}

impl Fresh {
    /// About the number of distinct scripts: of many records, it is counted in some of the partitions.
    pub(crate) fn scripts_about(&self) -> u64 {
        let records: usize = self.blocks.iter().map(|block| block.records.len()).sum();
        let step = if records < COUNTED_RECORDS_MAX { 1 } else { COUNTED_STEP };
        let counted = (0..PARTITIONS).step_by(step).map(|number| groups(&self.partition(number)).count() as u64);
        counted.sum::<u64>() * step as u64
    }

    /// The rows of a delta for a share of the scripts, ascending by script and transaction.
    pub(crate) fn rows(&self, share: Share) -> impl Iterator<Item = (ScriptKey, TxNum, Recent)> {
        share.partitions(PARTITION_BITS).flat_map(|number| rows(&self.partition(number)))
    }

    /// The records of a partition by script, then in the order of the chain. A spent output has the txnum of its
    /// funding transaction.
    pub(super) fn partition(&self, number: usize) -> Vec<Record> {
        let mut records = Vec::with_capacity(self.blocks.iter().map(|block| block.records.part(number).len()).sum());
        for FreshBlock { records: of_block, found } in &self.blocks {
            records.extend(of_block.part(number).iter().map(|record| numbered(*record, found)));
        }
        by_key(&records)
    }

    /// The number of transactions.
    pub(crate) fn txs(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// The hashes of a share, with the txnums; ascending.
    pub(crate) fn hashes(&self, share: Share) -> &[(u64, TxNum)] {
        &self.hashes[share.range_in(&self.hashes, |(hash, _)| *hash)]
    }

    /// The part of each hash of a share that packs keep, with the txnum; ascending.
    pub(super) fn kept_hashes(&self, key_length: KeyLength, share: Share) -> Vec<(u64, TxNum)> {
        let kept = self.hashes(share).iter().map(|(hash, txnum)| (txnum::kept(*hash, key_length), *txnum));
        let mut kept: Vec<(u64, TxNum)> = kept.collect();
        // Sorted by whole hashes so far.
        kept.sort_unstable();
        kept
    }
}

/// The record, where a spent output has the number of its funding transaction instead of its index in `found`.
fn numbered(mut record: Record, found: &[TxNum]) -> Record {
    if record.side() == Side::Spent {
        record.set_funding(found[usize::try_from(record.funding()).expect("an index")].0);
    }
    record
}

/// The records of each script.
pub(super) fn groups(by_key: &[Record]) -> impl Iterator<Item = &[Record]> {
    by_key.chunk_by(|one, other| one.key() == other.key())
}

/// The rows of a delta, ascending by script and transaction.
fn rows(by_key: &[Record]) -> Vec<(ScriptKey, TxNum, Recent)> {
    let of_one = by_key.chunk_by(|one, other| (one.key(), one.txnum()) == (other.key(), other.txnum()));
    of_one.map(|records| (records[0].key(), records[0].txnum(), row(records))).collect()
}

/// The outputs of one script that one transaction funds and spends.
fn row(records: &[Record]) -> Recent {
    let mut row = Recent::default();
    for record in records {
        match record.side() {
            Side::Funded => row.funded.push((record.vout(), record.satoshis())),
            Side::Spent => row.spent.push(coin(record, TxNum(record.funding()))),
        }
    }
    row
}

pub(super) fn coin(record: &Record, funding: TxNum) -> Coin {
    Coin { out: TxOutNum { txnum: funding, vout: record.vout() }, value: record.satoshis() }
}

/// Adds later records of a script to its part.
pub(super) fn add(records: &[Record], part: &mut Part) {
    let mut spent = Vec::new();
    for record in records {
        if part.txnums.last() != Some(&record.txnum()) {
            part.txnums.push(record.txnum());
        }
        match record.side() {
            Side::Funded => part.coins.push(coin(record, record.txnum())),
            Side::Spent => spent.push(coin(record, TxNum(record.funding()))),
        }
    }
    part.spend(spent);
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::block::{Funded, Origin};
    use crate::merging::new_blocks::NewBlocks;
    use crate::names::{ScriptHash, Secret};
    use crate::rows::{HeaderRow, SHARE_BITS_MAX};
    use crate::state::ChainBlock;

    const FIRST: TxNum = TxNum(1000);

    /// A block whose transactions have these txids. The first one funds a script; another spends that of `spends`.
    fn block(txids: &[u8], spends: &[(u8, Option<u32>)]) -> BlockTouches {
        let funded = Funded { scripthash: [7; 32], tx: 0, vout: 0, value: 50 };
        let spent = |(txid, height): &(u8, Option<u32>)| SpendingInput {
            scripthash: [7; 32],
            tx: 1,
            prev_txid: [*txid; 32],
            prev_vout: 0,
            value: 50,
            origin: height.map(|height| Origin { height: Height(height), is_coinbase: true }),
        };
        BlockTouches {
            txids: txids.iter().map(|txid| [*txid; 32]).collect(),
            funded: vec![funded],
            spent: spends.iter().map(spent).collect(),
            ..BlockTouches::default()
        }
    }

    fn settled(blocks: &[BlockTouches]) -> (Settled, Keyer) {
        let keyer = Keyer::new(Secret([1; 16]), KeyLength::Wide);
        let (mut gathered, mut headers) = (Gathered::new(FIRST), Headers::default());
        for (touches, height) in blocks.iter().zip(0..) {
            let first = gathered.end();
            let mut row = HeaderRow {
                first_txnum: first,
                header: [0; 80],
                height: Height(height),
                tx_count: u32::try_from(touches.txids.len()).unwrap(),
                bytes: 0,
                weight: 0,
                position: None,
            };
            let previous = headers.tip().map(|tip| bitcoin::hashes::Hash::to_byte_array(tip.hash));
            row.header[4..36].copy_from_slice(&previous.unwrap_or_default());
            headers.push(ChainBlock::of(&row));
            let records = BlockRecords::of(touches, Height(height), first, &keyer).unwrap();
            gathered.push(records);
        }
        (gathered.settle(&headers), keyer)
    }

    /// The part of each script.
    fn parts(fresh: Fresh) -> Vec<Part> {
        let blocks = NewBlocks::Fresh(fresh);
        let (mut parts, mut scripts) = (Vec::new(), blocks.scripts(Share::ALL).unwrap());
        while let Some(key) = scripts.key() {
            let mut part = Part::default();
            scripts.add_to(key, &mut part).unwrap();
            parts.push(part);
        }
        parts
    }

    #[test]
    fn spends_meet_outputs_of_the_same_blocks_and_the_others_are_looked_up_once() {
        let blocks = [block(&[1, 2], &[(200, Some(900)), (100, None)]), block(&[3, 4], &[(1, Some(0)), (100, None)])];
        let (settled, keyer) = settled(&blocks);
        let fresh = settled.number(|fundings| {
            let mut txids: Vec<u8> = fundings.iter().map(|funding| funding.txid[0]).collect();
            let hashes: Vec<u64> = fundings.iter().map(|funding| keyer.txid(&funding.txid)).collect();
            assert!(hashes.is_sorted());
            txids.sort_unstable();
            assert_eq!(txids, [100, 200]);
            Ok(fundings.iter().map(|funding| Some(TxNum(funding.txid[0].into()))).collect())
        });
        let fresh = fresh.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(fresh.scripts_about(), 1);
        let outs = |coins: &[Coin]| coins.iter().map(|coin| coin.out.txnum.0).collect::<Vec<_>>();
        let rows: Vec<(u64, usize, Vec<u64>)> =
            fresh.rows(Share::ALL).map(|(_, txnum, row)| (txnum.0, row.funded.len(), outs(&row.spent))).collect();
        assert_eq!(rows, [(1000, 1, vec![]), (1001, 0, vec![200, 100]), (1002, 1, vec![]), (1003, 0, vec![1000, 100])]);
        let mut txnums: Vec<u64> = fresh.hashes.iter().map(|(_, txnum)| txnum.0).collect();
        assert!(fresh.hashes.is_sorted() && fresh.kept_hashes(KeyLength::Wide, Share::ALL).is_sorted());
        txnums.sort_unstable();
        assert_eq!(txnums, [1000, 1001, 1002, 1003]);
        let parts = parts(fresh);
        assert_eq!(parts[0].txnums, [1000, 1001, 1002, 1003].map(TxNum));
        assert_eq!((outs(&parts[0].coins), outs(&parts[0].spends)), (vec![1002], vec![100, 100, 200]));
    }

    #[test]
    fn the_scripts_of_all_shares_ascend_and_many_are_counted_about() {
        let funded = |vout: u32| {
            let mut scripthash = [0; 32];
            scripthash[..4].copy_from_slice(&vout.to_le_bytes());
            Funded { scripthash, tx: 0, vout, value: 50 }
        };
        let of_outputs = |txid: u8, outputs: Range<u32>| BlockTouches {
            txids: vec![[txid; 32]],
            funded: outputs.map(funded).collect(),
            ..BlockTouches::default()
        };
        // Some are funded in both blocks.
        let (settled, keyer) = settled(&[of_outputs(1, 0..100_000), of_outputs(2, 60_000..150_000)]);
        let fresh = settled.number(|_| panic!("nothing is spent")).unwrap_or_else(|error| panic!("{error}"));
        let mut expected: Vec<ScriptKey> =
            (0..150_000).map(|vout| keyer.script(&ScriptHash(funded(vout).scripthash))).collect();
        expected.sort_unstable();
        assert!((147_000..153_000).contains(&fresh.scripts_about()), "{} scripts", fresh.scripts_about());
        let rows: Vec<(ScriptKey, TxNum)> = fresh.rows(Share::ALL).map(|(key, txnum, _)| (key, txnum)).collect();
        assert!(rows.len() == 190_000 && rows.is_sorted());
        let (mut found, blocks) = (Vec::new(), NewBlocks::Fresh(fresh));
        for share in Share::each(SHARE_BITS_MAX) {
            let mut scripts = blocks.scripts(share).unwrap();
            while let Some(key) = scripts.key() {
                let mut part = Part::default();
                scripts.add_to(key, &mut part).unwrap();
                assert_eq!(part.coins.len(), part.txnums.len());
                found.push((key, part.coins.len()));
            }
        }
        assert!(found.iter().map(|(key, _)| key).eq(&expected));
        assert_eq!(found.iter().map(|(_, coins)| coins).sum::<usize>(), 190_000);
    }

    #[test]
    fn of_two_transactions_with_one_txid_the_last_before_the_spender_counts() {
        for height in [None, Some(900)] {
            let second = height.map(|_| 1);
            // The first one lies in an earlier block, and is spent before the second.
            let blocks = [block(&[1, 2], &[(9, height)]), block(&[9, 3], &[(9, second)])];
            let (settled, _) = settled(&blocks);
            let fresh = settled.number(|wanted| Ok(vec![Some(TxNum(77)); wanted.len()]));
            let parts = parts(fresh.unwrap_or_else(|error| panic!("{error}")));
            assert_eq!(parts[0].spends.iter().map(|coin| coin.out.txnum.0).collect::<Vec<_>>(), [77]);
            assert_eq!(parts[0].coins.iter().map(|coin| coin.out.txnum.0).collect::<Vec<_>>(), [1000]);
        }
    }

    #[test]
    fn a_transaction_that_no_block_has_at_the_height_in_undo_data_is_an_error() {
        for (spent, height) in [(1, 1), (9, 0)] {
            let (settled, _) = settled(&[block(&[1, 2], &[]), block(&[3, 4], &[(spent, Some(height))])]);
            let error = settled.number(|wanted| Ok(vec![None; wanted.len()])).err();
            assert!(matches!(error, Some(Error::UnknownTransaction { .. })), "{error:?}");
        }
    }
}
