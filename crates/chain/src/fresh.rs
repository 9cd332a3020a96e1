//! New blocks as sorted records, from which a pack or the rows of a delta are written. Pure.
//!
//! Blocks are gathered in the order of the chain. Then every spent output gets the number of its funding transaction:
//! what the blocks spend of each other meets by txid, what they spend of earlier ones is looked up.

use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};

use crate::build::emit::each_record;
use crate::build::funding::Naming;
use crate::build::merge::by_key;
use crate::build::record::{Record, Side};
use crate::error::{Error, Result};
use crate::fundings::Funding;
use crate::headers::Headers;
use crate::part::Part;
use crate::prefix::{KeyLength, Keyer, ScriptKey};
use crate::rows::recent::Recent;
use crate::rows::{Coin, TxOutNum, txnum};
use crate::sha::Hash256;
use crate::touches::BlockTouches;
use crate::txnum::{Height, TxNum};

/// The records of one block.
pub(crate) struct BlockRecords {
    records: Vec<Record>,
    /// The name of each of its transactions.
    names: Vec<u64>,
}

/// Blocks in the order of the chain, before their spent outputs have numbers.
pub(crate) struct Gathered {
    first: TxNum,
    /// By txnum, from `first` on.
    pub(crate) txids: Vec<Hash256>,
    names: Vec<(u64, TxNum)>,
    records: Vec<Record>,
    spends: Vec<Spend>,
    /// The funding transaction of each spent output.
    fundings: Vec<Funding>,
}

/// A spent output. Small, for it is sorted.
#[derive(Clone, Copy)]
struct Spend {
    /// Name of the funding transaction.
    name: u64,
    /// Index in `records`.
    record: u32,
    /// Index in `fundings`.
    funding: u32,
}

/// Blocks as a merge takes them.
pub(crate) struct Fresh {
    /// By script, then in the order of the chain. A spent output has the txnum of its funding transaction.
    records: Vec<Record>,
    /// The hash of each txid, with the txnum; ascending.
    pub(crate) hashes: Vec<(u64, TxNum)>,
}

impl BlockRecords {
    /// The records of a block with this height and this first txnum.
    ///
    /// # Errors
    /// [`Error::Block`] with a number that consensus does not allow.
    pub(crate) fn of(touches: &BlockTouches, height: Height, first: TxNum, keyer: &Keyer) -> Result<Self> {
        let hashes: Vec<u64> = touches.txids.iter().map(|txid| keyer.txid(txid)).collect();
        let mut records = Vec::with_capacity(touches.funded.len() + touches.spent.len());
        each_record(touches, (height, first), &hashes, keyer, Naming::Hash, |record| {
            records.push(record);
            Ok(())
        })?;
        let names = hashes.into_iter().filter_map(|hash| Naming::Hash.name(hash, None)).collect();
        Ok(Self { records, names })
    }
}

impl Gathered {
    pub(crate) fn new(first: TxNum) -> Self {
        Self {
            first,
            txids: Vec::new(),
            names: Vec::new(),
            // Pages that no record needs are never touched.
            records: Vec::with_capacity(3 << 19),
            spends: Vec::new(),
            fundings: Vec::new(),
        }
    }

    /// First txnum of the gathered blocks.
    pub(crate) fn first(&self) -> TxNum {
        self.first
    }

    /// First txnum after the gathered blocks.
    pub(crate) fn end(&self) -> TxNum {
        TxNum(self.first.0 + self.txids.len() as u64)
    }

    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Adds the next block.
    pub(crate) fn push(&mut self, touches: &BlockTouches, of_block: BlockRecords) {
        self.names.extend(of_block.names.into_iter().zip(self.end().0..).map(|(name, txnum)| (name, TxNum(txnum))));
        self.txids.extend_from_slice(&touches.txids);
        // The records of spent outputs follow those of funded ones.
        let spent = self.records.len() + touches.funded.len();
        self.records.extend(of_block.records);
        for (spent, record) in touches.spent.iter().zip(spent..) {
            let index = |index: usize| u32::try_from(index).expect("a bound and a block are fewer");
            let (name, funding) = (self.records[record].funding(), self.fundings.len());
            self.spends.push(Spend { name, record: index(record), funding: index(funding) });
            self.fundings.push(Funding { txid: spent.prev_txid, height: spent.origin.map(|origin| origin.height) });
        }
    }

    /// The outputs that the blocks spend.
    pub(crate) fn spent(&self) -> impl Iterator<Item = OutPoint> {
        self.spends.iter().map(|spend| OutPoint {
            txid: Txid::from_byte_array(self.funding(spend).txid),
            vout: self.records[spend.record as usize].vout(),
        })
    }

    fn funding(&self, spend: &Spend) -> &Funding {
        &self.fundings[spend.funding as usize]
    }

    /// Numbers the funding transactions and sorts everything. `headers` is the chain up to the last block. `look_up`
    /// finds transactions of earlier blocks, which it gets in the order of their rows.
    ///
    /// # Errors
    /// Those of `look_up`; [`Error::UnknownTransaction`] if neither these nor the earlier blocks have a transaction, in
    /// the block that undo data names.
    pub(crate) fn number(
        mut self,
        headers: &Headers,
        look_up: impl FnOnce(&[Funding]) -> Result<Vec<Option<TxNum>>>,
    ) -> Result<Fresh> {
        self.names.sort_unstable();
        let mut spends = std::mem::take(&mut self.spends);
        spends.sort_unstable_by_key(|spend| spend.name);
        let mut at = 0;
        spends.retain(|spend| {
            at += self.names[at..].iter().take_while(|(name, _)| *name < spend.name).count();
            let found = self.find(at, spend, headers);
            if let Some(funding) = found {
                self.records[spend.record as usize].set_funding(funding.0);
            }
            found.is_none()
        });
        let same = |one: &Spend, other: &Spend| one.name == other.name && self.funding(one) == self.funding(other);
        let earlier: Vec<&[Spend]> = spends.chunk_by(same).collect();
        let fundings: Vec<Funding> = earlier.iter().map(|same| *self.funding(&same[0])).collect();
        for ((same, funding), found) in earlier.into_iter().zip(&fundings).zip(look_up(&fundings)?) {
            let unknown = || Error::UnknownTransaction { txid: Txid::from_byte_array(funding.txid) };
            let found = found.ok_or_else(unknown)?;
            for spend in same {
                self.records[spend.record as usize].set_funding(found.0);
            }
        }
        Ok(Fresh { records: by_key(&self.records), hashes: self.names })
    }

    /// The transaction of these blocks that funded a spent output. Names with that of the spent output begin at `at`.
    fn find(&self, at: usize, spend: &Spend, headers: &Headers) -> Option<TxNum> {
        let (funding, spender) = (self.funding(spend), self.records[spend.record as usize].txnum());
        let txid = |txnum: TxNum| self.txids[usize::try_from(txnum.0 - self.first.0).expect("one of few")];
        // Of two with one txid (BIP 30), the last before the spender.
        let with_name = self.names[at..].iter().take_while(|(other, _)| *other == spend.name).map(|(_, txnum)| *txnum);
        with_name
            .filter(|txnum| *txnum < spender && txid(*txnum) == funding.txid && funding.may_be(*txnum, headers))
            .last()
    }
}

impl Fresh {
    /// The number of distinct scripts.
    pub(crate) fn script_count(&self) -> u64 {
        self.groups().count() as u64
    }

    /// The part of each script, ascending by key.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = (ScriptKey, Part)> {
        self.groups().map(|records| (records[0].key(), part(records)))
    }

    /// The rows of a delta, ascending by script and transaction.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (ScriptKey, TxNum, Recent)> {
        let of_one = self.records.chunk_by(|one, other| (one.key(), one.txnum()) == (other.key(), other.txnum()));
        of_one.map(|records| (records[0].key(), records[0].txnum(), row(records)))
    }

    /// The part of each hash that packs keep, with the txnum; ascending.
    pub(crate) fn kept_hashes(&self, key_length: KeyLength) -> Vec<(u64, TxNum)> {
        let kept = self.hashes.iter().map(|(hash, txnum)| (txnum::kept(*hash, key_length), *txnum));
        let mut kept: Vec<(u64, TxNum)> = kept.collect();
        // Sorted by whole hashes so far.
        kept.sort_unstable();
        kept
    }

    fn groups(&self) -> impl Iterator<Item = &[Record]> {
        self.records.chunk_by(|one, other| one.key() == other.key())
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
    use crate::headers::ChainBlock;
    use crate::prefix::Secret;
    use crate::rows::header::HeaderRow;
    use crate::spent::Origin;
    use crate::touches::{Funded, Spent};

    const FIRST: TxNum = TxNum(1000);

    /// A block whose transactions have these txids. The first one funds a script; another spends that of `spends`.
    fn block(txids: &[u8], spends: &[(u8, Option<u32>)]) -> BlockTouches {
        let funded = Funded { scripthash: [7; 32], tx: 0, vout: 0, value: 50 };
        let spent = |(txid, height): &(u8, Option<u32>)| Spent {
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

    fn gathered(blocks: &[BlockTouches]) -> (Gathered, Headers, Keyer) {
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
            gathered.push(touches, records);
        }
        (gathered, headers, keyer)
    }

    #[test]
    fn spends_meet_outputs_of_the_same_blocks_and_the_others_are_looked_up_once() {
        let blocks = [block(&[1, 2], &[(200, Some(900)), (100, None)]), block(&[3, 4], &[(1, Some(0)), (100, None)])];
        let (gathered, headers, keyer) = gathered(&blocks);
        let fresh = gathered.number(&headers, |fundings| {
            let mut txids: Vec<u8> = fundings.iter().map(|funding| funding.txid[0]).collect();
            let hashes: Vec<u64> = fundings.iter().map(|funding| keyer.txid(&funding.txid)).collect();
            assert!(hashes.is_sorted());
            txids.sort_unstable();
            assert_eq!(txids, [100, 200]);
            Ok(fundings.iter().map(|funding| Some(TxNum(funding.txid[0].into()))).collect())
        });
        let fresh = fresh.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(fresh.script_count(), 1);
        let parts: Vec<Part> = fresh.scripts().map(|(_, part)| part).collect();
        let outs = |coins: &[Coin]| coins.iter().map(|coin| coin.out.txnum.0).collect::<Vec<_>>();
        assert_eq!(parts[0].txnums, [1000, 1001, 1002, 1003].map(TxNum));
        assert_eq!((outs(&parts[0].coins), outs(&parts[0].spends)), (vec![1002], vec![100, 100, 200]));
        let rows: Vec<(u64, usize, Vec<u64>)> =
            fresh.rows().map(|(_, txnum, row)| (txnum.0, row.funded.len(), outs(&row.spent))).collect();
        assert_eq!(rows, [(1000, 1, vec![]), (1001, 0, vec![200, 100]), (1002, 1, vec![]), (1003, 0, vec![1000, 100])]);
        let mut txnums: Vec<u64> = fresh.hashes.iter().map(|(_, txnum)| txnum.0).collect();
        assert!(fresh.hashes.is_sorted() && fresh.kept_hashes(KeyLength::Wide).is_sorted());
        txnums.sort_unstable();
        assert_eq!(txnums, [1000, 1001, 1002, 1003]);
    }

    #[test]
    fn of_two_transactions_with_one_txid_the_last_before_the_spender_counts() {
        for height in [None, Some(900)] {
            let second = height.map(|_| 1);
            // The first one lies in an earlier block, and is spent before the second.
            let blocks = [block(&[1, 2], &[(9, height)]), block(&[9, 3], &[(9, second)])];
            let (gathered, headers, _) = gathered(&blocks);
            let fresh = gathered.number(&headers, |wanted| Ok(vec![Some(TxNum(77)); wanted.len()]));
            let parts: Vec<Part> =
                fresh.unwrap_or_else(|error| panic!("{error}")).scripts().map(|item| item.1).collect();
            assert_eq!(parts[0].spends.iter().map(|coin| coin.out.txnum.0).collect::<Vec<_>>(), [77]);
            assert_eq!(parts[0].coins.iter().map(|coin| coin.out.txnum.0).collect::<Vec<_>>(), [1000]);
        }
    }

    #[test]
    fn a_transaction_that_no_block_has_at_the_height_in_undo_data_is_an_error() {
        for (spent, height) in [(1, 1), (9, 0)] {
            let (gathered, headers, _) = gathered(&[block(&[1, 2], &[]), block(&[3, 4], &[(spent, Some(height))])]);
            let error = gathered.number(&headers, |wanted| Ok(vec![None; wanted.len()])).err();
            assert!(matches!(error, Some(Error::UnknownTransaction { .. })), "{error:?}");
        }
    }
}
