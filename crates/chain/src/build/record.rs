//! Records that pass 1 of the build writes and pass 2 sorts.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::names::{ScriptKey, TxNum};

/// One output funded or spent, under its script. 32 bytes, in the machine's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Record {
    prefix: u64,
    /// Touching txnum << 24 | vout << 1 | 1 when spent. The vout is that of the output, funded or spent.
    position: u64,
    /// Satoshis << 8 | check of the script's key.
    amount: u64,
    /// Name of the funding transaction ([`funding`](super::funding)).
    funding: u64,
}

/// Bits of the prefix that choose a record's partition.
pub(crate) const PARTITION_BITS: u32 = 8;
/// Amounts fit above the check: no consensus allows more than 21 million coins.
const AMOUNT_LIMIT: u64 = 1 << 56;
/// An output takes at least nine bytes, and a block at most four million.
const VOUT_LIMIT: u32 = 1 << 23;

/// Funding or spending side of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Funded,
    Spent,
}

impl Record {
    /// `None` when consensus does not allow a number.
    #[inline]
    pub(super) fn new(
        key: ScriptKey,
        side: Side,
        txnum: TxNum,
        vout: u32,
        satoshis: u64,
        funding: u64,
    ) -> Option<Self> {
        if txnum.0 >= TxNum::LIMIT || vout >= VOUT_LIMIT || satoshis >= AMOUNT_LIMIT {
            return None;
        }
        let position = txnum.0 << 24 | u64::from(vout) << 1 | u64::from(side == Side::Spent);
        let amount = satoshis << 8 | u64::from(key.check);
        Some(Self { prefix: key.prefix, position, amount, funding })
    }

    /// The sort key: by script, then in chain order.
    #[inline]
    pub(super) fn order(&self) -> (u64, u64) {
        (self.prefix, self.position)
    }

    #[inline]
    pub(crate) fn prefix(&self) -> u64 {
        self.prefix
    }

    pub(crate) fn key(&self) -> ScriptKey {
        ScriptKey { prefix: self.prefix, check: self.check() }
    }

    #[inline]
    pub(super) fn check(&self) -> u8 {
        self.amount.to_le_bytes()[0]
    }

    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    #[inline]
    pub(crate) fn side(&self) -> Side {
        if self.position & 1 == 0 { Side::Funded } else { Side::Spent }
    }

    #[inline]
    pub(crate) fn txnum(&self) -> TxNum {
        TxNum(self.position >> 24)
    }

    #[inline]
    pub(crate) fn vout(&self) -> u32 {
        u32::try_from(self.position >> 1 & u64::from(VOUT_LIMIT - 1)).expect("23 bits")
    }

    #[inline]
    pub(crate) fn satoshis(&self) -> u64 {
        self.amount >> 8
    }

    #[inline]
    pub(crate) fn funding(&self) -> u64 {
        self.funding
    }

    pub(crate) fn set_funding(&mut self, funding: u64) {
        self.funding = funding;
    }
}

/// One transaction: keyed hash of its txid, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct TxRecord {
    pub(crate) hash: u64,
    pub(crate) txnum: u64,
}

impl TxRecord {
    /// The sort key.
    #[inline]
    pub(crate) fn order(&self) -> (u64, u64) {
        (self.hash, self.txnum)
    }
}

const _: () = assert!(size_of::<Record>() == 32 && size_of::<TxRecord>() == 16);

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_what_it_was_made_of_and_refuses_what_does_not_fit() {
        let key = ScriptKey { prefix: u64::MAX - 1, check: 0xff };
        let (txnum, vout, satoshis) = (TxNum(TxNum::LIMIT - 1), VOUT_LIMIT - 1, AMOUNT_LIMIT - 1);
        let record = Record::new(key, Side::Spent, txnum, vout, satoshis, 5).unwrap();
        assert_eq!(
            (record.key(), record.side(), record.txnum(), record.vout(), record.satoshis(), record.funding()),
            (key, Side::Spent, txnum, vout, satoshis, 5)
        );
        assert!(Record::new(key, Side::Spent, TxNum(TxNum::LIMIT), 0, 0, 0).is_none());
        assert!(Record::new(key, Side::Spent, TxNum(0), VOUT_LIMIT, 0, 0).is_none());
        assert!(Record::new(key, Side::Spent, TxNum(0), 0, AMOUNT_LIMIT, 0).is_none());
    }
}
