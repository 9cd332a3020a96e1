//! Inputs of a transaction as spans of bytes that others hold.

/// Bytes of an outpoint: the txid in internal byte order, then the number of the output, little-endian.
pub const OUTPOINT_BYTES: usize = 36;

/// One input of a transaction, as spans of its bytes and of the output that it spends.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The outpoint as it is serialised.
    pub outpoint: &'a [u8; OUTPOINT_BYTES],
    /// The scriptSig.
    pub script_sig: &'a [u8],
    /// The witness.
    pub witness: Witness<'a>,
    /// The scriptPubKey of the output that it spends.
    pub spent_script: &'a [u8],
}

/// The parts of a witness that the rules read: the number of its items and the last two of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Witness<'a> {
    items: usize,
    last: &'a [u8],
    before: &'a [u8],
}

impl<'a> Witness<'a> {
    /// Appends an item.
    pub fn push(&mut self, item: &'a [u8]) {
        self.items += 1;
        self.before = std::mem::replace(&mut self.last, item);
    }

    /// The last item.
    pub(crate) fn last(&self) -> Option<&'a [u8]> {
        (self.items > 0).then_some(self.last)
    }

    /// The witness of a taproot input without its annex
    /// ([BIP 341](https://github.com/bitcoin/bips/blob/master/bip-0341.mediawiki)).
    pub(crate) fn without_annex(self) -> Self {
        const ANNEX: u8 = 0x50;
        let has_annex = self.items > 1 && self.last.first() == Some(&ANNEX);
        if has_annex { Self { items: self.items - 1, last: self.before, before: &[] } } else { self }
    }

    /// The control block of a spend by script, if this is one; the annex must be gone.
    pub(crate) fn control_block(&self) -> Option<&'a [u8]> {
        (self.items > 1).then_some(self.last)
    }
}

impl<'a> FromIterator<&'a [u8]> for Witness<'a> {
    fn from_iter<Items: IntoIterator<Item = &'a [u8]>>(items: Items) -> Self {
        let mut witness = Self::default();
        items.into_iter().for_each(|item| witness.push(item));
        witness
    }
}
