//! New blocks as sorted records, from which a pack or the rows of a delta are written. Pure.
//!
//! Blocks are gathered in the order of the chain. Then every spent output gets the number of its funding transaction:
//! what the blocks spend of each other meets by txid ([`Gathered::settle`]), what they spend of earlier ones is looked
//! up ([`Settled::number`]).

use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};

use crate::block::{BlockTouches, SpendingInput};
use crate::build::{Naming, NumberedBlock, Record, Side, by_key, each_record};
use crate::error::{Error, Result};
use crate::names::{Hash256, Height, KeyLength, Keyer, ScriptKey, TxNum};
use crate::query::Funding;
use crate::rows::{Coin, Part, Recent, Share, TxOutNum, txnum};
use crate::state::Headers;

/// The records of one block.
pub(crate) struct BlockRecords {
    first: TxNum,
    txids: Vec<Hash256>,
    /// The keyed hash of each txid.
    hashes: Vec<u64>,
    /// Those of funded outputs, then those of spent ones.
    records: Vec<Record>,
    /// The funding transaction of each spent output.
    fundings: Vec<Funding>,
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
}

/// Blocks as a merge takes them.
pub(crate) struct Fresh {
    /// By script, then in the order of the chain. A spent output has the txnum of its funding transaction.
    records: Vec<Record>,
    /// The hash of each txid, with the txnum; ascending.
    hashes: Vec<(u64, TxNum)>,
}

impl BlockRecords {
    /// The records of a block with this height and this first txnum.
    ///
    /// # Errors
    /// [`Error::Block`] with a number that consensus does not allow.
    pub(crate) fn of(touches: &BlockTouches, height: Height, first: TxNum, keyer: &Keyer) -> Result<Self> {
        let hashes: Vec<u64> = touches.txids.iter().map(|txid| keyer.txid(txid)).collect();
        let mut records = Vec::with_capacity(touches.funded.len() + touches.spent.len());
        let numbered = NumberedBlock { touches, height, first, hashes: &hashes };
        each_record(numbered, keyer, Naming::Hash, |record| {
            records.push(record);
            Ok(())
        })?;
        let funding =
            |spent: &SpendingInput| Funding { txid: spent.prev_txid, height: spent.origin.map(|origin| origin.height) };
        let fundings = touches.spent.iter().map(funding).collect();
        Ok(Self { first, txids: touches.txids.clone(), hashes, records, fundings })
    }

    fn spent_records(&self) -> &[Record] {
        &self.records[self.records.len() - self.fundings.len()..]
    }

    fn set_funding(&mut self, spent: u32, funding: TxNum) {
        let first_spent = self.records.len() - self.fundings.len();
        self.records[first_spent + spent as usize].set_funding(funding.0);
    }

    /// The outputs that the block spends.
    fn spent(&self) -> impl Iterator<Item = OutPoint> {
        let spent = self.spent_records().iter().zip(&self.fundings);
        spent.map(|(record, funding)| OutPoint { txid: Txid::from_byte_array(funding.txid), vout: record.vout() })
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
        let numbered = |block: &BlockRecords| (block.first.0..).map(TxNum);
        let hashes = blocks.iter().flat_map(|block| block.hashes.iter().copied().zip(numbered(block)));
        let mut hashes: Vec<(u64, TxNum)> = hashes.collect();
        hashes.sort_unstable();
        let mut earlier = Vec::with_capacity(blocks.iter().map(|block| block.fundings.len()).sum());
        for (block, of_block) in (0..).zip(&blocks) {
            let spends = (0..).zip(of_block.spent_records());
            earlier.extend(spends.map(|(spent, record)| Spend { name: record.funding(), block, spent }));
        }
        earlier.sort_unstable_by_key(|spend: &Spend| spend.name);
        let mut at = 0;
        earlier.retain(|spend| {
            at += hashes[at..].iter().take_while(|(hash, _)| *hash < spend.name).count();
            let same = hashes[at..].iter().take_while(|(hash, _)| *hash == spend.name).count();
            let with_name = &hashes[at..at + same];
            let found = if same == 0 { None } else { find(&blocks, spend, with_name, headers) };
            if let Some(funding) = found {
                blocks[spend.block as usize].set_funding(spend.spent, funding);
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
    let (of_block, index) = (&blocks[spend.block as usize], spend.spent as usize);
    let is_of_block = |txnum: &TxNum| of_block.fundings[index].may_be(*txnum, headers);
    if let [(_, txnum)] = with_name
        && of_block.fundings[index].height.is_some()
    {
        return Some(*txnum).filter(is_of_block);
    }
    let has_txid = |txnum: &TxNum| {
        let block = &blocks[blocks.partition_point(|block| block.first <= *txnum) - 1];
        let position = usize::try_from(txnum.0 - block.first.0).expect("one of few");
        block.txids[position] == of_block.fundings[index].txid
    };
    // Of two with one txid (BIP 30), the last before the spender.
    let is_before = |txnum: &TxNum| *txnum < of_block.spent_records()[index].txnum();
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

    /// Numbers what the blocks spend of earlier ones, and sorts all records. `look_up` finds the funding transactions,
    /// which it gets in the order of their rows.
    ///
    /// # Errors
    /// Those of `look_up`; [`Error::UnknownTransaction`] if neither these nor the earlier blocks have a transaction, in
    /// the block that undo data names.
    pub(crate) fn number(mut self, look_up: impl FnOnce(&[Funding]) -> Result<Vec<Option<TxNum>>>) -> Result<Fresh> {
        let funding = |spend: &Spend| self.blocks[spend.block as usize].fundings[spend.spent as usize];
        let same = |one: &Spend, other: &Spend| one.name == other.name && funding(one) == funding(other);
        let earlier: Vec<&[Spend]> = self.earlier.chunk_by(same).collect();
        let fundings: Vec<Funding> = earlier.iter().map(|same| funding(&same[0])).collect();
        for ((same, funding), found) in earlier.into_iter().zip(&fundings).zip(look_up(&fundings)?) {
            let unknown = || Error::UnknownTransaction { txid: Txid::from_byte_array(funding.txid) };
            let found = found.ok_or_else(unknown)?;
            for spend in same {
                self.blocks[spend.block as usize].set_funding(spend.spent, found);
            }
        }
        let records: Vec<&[Record]> = self.blocks.iter().map(|block| block.records.as_slice()).collect();
        Ok(Fresh { records: by_key(&records), hashes: self.hashes })
    }
}

impl Fresh {
    /// The number of distinct scripts.
    pub(crate) fn script_count(&self) -> u64 {
        self.groups(Share::ALL).count() as u64
    }

    /// The part of each script of a share, ascending by key.
    pub(super) fn scripts(&self, share: Share) -> impl Iterator<Item = (ScriptKey, Part)> {
        self.groups(share).map(|records| (records[0].key(), part(records)))
    }

    /// The rows of a delta for a share of the scripts, ascending by script and transaction.
    pub(crate) fn rows(&self, share: Share) -> impl Iterator<Item = (ScriptKey, TxNum, Recent)> {
        let records = &self.records[share.range_in(&self.records, Record::prefix)];
        let of_one = records.chunk_by(|one, other| (one.key(), one.txnum()) == (other.key(), other.txnum()));
        of_one.map(|records| (records[0].key(), records[0].txnum(), row(records)))
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

    fn groups(&self, share: Share) -> impl Iterator<Item = &[Record]> {
        self.records[share.range_in(&self.records, Record::prefix)].chunk_by(|one, other| one.key() == other.key())
    }
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

fn coin(record: &Record, funding: TxNum) -> Coin {
    Coin { out: TxOutNum { txnum: funding, vout: record.vout() }, value: record.satoshis() }
}

/// The sums of one script's records.
fn part(records: &[Record]) -> Part {
    let (mut part, mut spent) = (Part::default(), Vec::new());
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
    part
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::block::{Funded, Origin};
    use crate::names::Secret;
    use crate::rows::HeaderRow;
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
        assert_eq!(fresh.script_count(), 1);
        let parts: Vec<Part> = fresh.scripts(Share::ALL).map(|(_, part)| part).collect();
        let outs = |coins: &[Coin]| coins.iter().map(|coin| coin.out.txnum.0).collect::<Vec<_>>();
        assert_eq!(parts[0].txnums, [1000, 1001, 1002, 1003].map(TxNum));
        assert_eq!((outs(&parts[0].coins), outs(&parts[0].spends)), (vec![1002], vec![100, 100, 200]));
        let rows: Vec<(u64, usize, Vec<u64>)> =
            fresh.rows(Share::ALL).map(|(_, txnum, row)| (txnum.0, row.funded.len(), outs(&row.spent))).collect();
        assert_eq!(rows, [(1000, 1, vec![]), (1001, 0, vec![200, 100]), (1002, 1, vec![]), (1003, 0, vec![1000, 100])]);
        let mut txnums: Vec<u64> = fresh.hashes.iter().map(|(_, txnum)| txnum.0).collect();
        assert!(fresh.hashes.is_sorted() && fresh.kept_hashes(KeyLength::Wide, Share::ALL).is_sorted());
        txnums.sort_unstable();
        assert_eq!(txnums, [1000, 1001, 1002, 1003]);
    }

    #[test]
    fn of_two_transactions_with_one_txid_the_last_before_the_spender_counts() {
        for height in [None, Some(900)] {
            let second = height.map(|_| 1);
            // The first one lies in an earlier block, and is spent before the second.
            let blocks = [block(&[1, 2], &[(9, height)]), block(&[9, 3], &[(9, second)])];
            let (settled, _) = settled(&blocks);
            let fresh = settled.number(|wanted| Ok(vec![Some(TxNum(77)); wanted.len()]));
            let parts: Vec<Part> =
                fresh.unwrap_or_else(|error| panic!("{error}")).scripts(Share::ALL).map(|item| item.1).collect();
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
