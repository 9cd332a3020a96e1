//! Decoder of the outputs that a block spends: Core's undo data, or the answer of `/rest/spenttxouts`.
//!
//! Sources: Core's `undo.h`, `compressor.cpp` (scripts and amounts), `rest.cpp` (`SerializeBlockUndo`).

use bitcoin::secp256k1::PublicKey;

use crate::block::bytes::{Cursor, Malformed, decompress_amount};
use crate::block::parse::BlockError;
use crate::names::Height;
use crate::outside::SpentBytes;

/// The outputs that a block spends, in the order of its inputs.
#[derive(Debug, Default)]
pub(crate) struct SpentOutputs {
    values: Vec<u64>,
    /// The blocks that funded them. Only undo data has them; REST does not.
    origins: Vec<Origin>,
    /// The scripts, concatenated, and the end of each.
    scripts: Vec<u8>,
    ends: Vec<usize>,
}

/// The place of a funding transaction, from undo data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) height: Height,
    pub(crate) is_coinbase: bool,
}

/// One output that a block spends, from undo data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpentOutput<'a> {
    /// Height of the block that funded it.
    pub(super) height: Height,
    pub(super) value: u64,
    pub(super) script: &'a [u8],
}

/// Scripts longer than this can never run (Core's `MAX_SCRIPT_SIZE`); undo data holds `OP_RETURN` for them.
const SCRIPT_BYTES_MAX: usize = 10_000;

/// Codes 0 to 5 stand for the usual forms; other scripts are stored as they are, behind their length.
const SPECIAL_SCRIPTS: u64 = 6;

impl SpentOutputs {
    /// Decodes the spent outputs of a block. `input_counts` holds the number of inputs of each transaction except the
    /// coinbase; `inputs` is their sum.
    pub(crate) fn decode(
        bytes: SpentBytes<'_>,
        input_counts: impl Iterator<Item = usize>,
        inputs: usize,
    ) -> Result<Self, BlockError> {
        let mut spent = Self {
            values: Vec::with_capacity(inputs),
            origins: Vec::with_capacity(inputs),
            scripts: Vec::with_capacity(inputs * 34),
            ends: Vec::with_capacity(inputs),
        };
        let (mut cursor, rest) = match bytes {
            SpentBytes::Undo(bytes) => (Cursor::new(bytes), false),
            SpentBytes::TxOuts(bytes) => (Cursor::new(bytes), true),
        };
        let mut entries = cursor.length("spent transaction count")?;
        if rest {
            // The coinbase has an empty entry here, and none in undo data.
            if entries == 0 || cursor.length("spent output count")? != 0 {
                return Err(BlockError::SpentCount);
            }
            entries -= 1;
        }
        for expected in input_counts {
            if entries == 0 || cursor.length("spent output count")? != expected {
                return Err(BlockError::SpentCount);
            }
            entries -= 1;
            for _ in 0..expected {
                if rest { spent.push_tx_out(&mut cursor)? } else { spent.push_undo(&mut cursor)? }
            }
        }
        if entries == 0 && cursor.is_at_end() { Ok(spent) } else { Err(BlockError::SpentCount) }
    }

    /// The scriptPubKeys, in the order of the inputs.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.scripts[start..end])
    }

    /// The values in satoshis, in the order of the inputs.
    pub(crate) fn values(&self) -> impl Iterator<Item = u64> {
        self.values.iter().copied()
    }

    /// The place of the transaction that funded the output of input number `at`; `None` from REST.
    pub(super) fn origin(&self, at: usize) -> Option<Origin> {
        self.origins.get(at).copied()
    }

    /// The scriptPubKey of the output that input number `at` spends.
    pub(super) fn script(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.scripts[start..self.ends[at]]
    }

    /// The output that input number `at` spends. Only for undo data, which has heights.
    pub(super) fn output(&self, at: usize) -> SpentOutput<'_> {
        SpentOutput { height: self.origins[at].height, value: self.values[at], script: self.script(at) }
    }

    fn push_tx_out(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        self.values.push(cursor.u64_le("spent value")?);
        let len = cursor.length("spent script length")?;
        self.scripts.extend_from_slice(cursor.take(len, "spent script")?);
        self.ends.push(self.scripts.len());
        Ok(())
    }

    fn push_undo(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        let height_and_coinbase = cursor.core_varint("spent height")?;
        let height = u32::try_from(height_and_coinbase >> 1).map_err(|_| cursor.malformed("spent height"))?;
        self.origins.push(Origin { height: Height(height), is_coinbase: height_and_coinbase & 1 == 1 });
        if height_and_coinbase > 1 {
            cursor.core_varint("spent version")?; // written by old versions of Core; zero now
        }
        let compressed = cursor.core_varint("spent value")?;
        let value = decompress_amount(compressed).ok_or_else(|| cursor.malformed("spent value"))?;
        self.values.push(value);
        self.push_compressed_script(cursor)?;
        self.ends.push(self.scripts.len());
        Ok(())
    }

    fn push_compressed_script(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        let what = "spent script";
        match cursor.core_varint(what)? {
            0 => self.push_script(&[&[0x76, 0xa9, 20], cursor.take(20, what)?, &[0x88, 0xac]]),
            1 => self.push_script(&[&[0xa9, 20], cursor.take(20, what)?, &[0x87]]),
            2 => self.push_script(&[&[33, 2], cursor.take(32, what)?, &[0xac]]),
            3 => self.push_script(&[&[33, 3], cursor.take(32, what)?, &[0xac]]),
            parity @ (4 | 5) => {
                let x = cursor.take(32, what)?;
                let mut key = [0; 33];
                key[0] = if parity == 4 { 2 } else { 3 };
                key[1..].copy_from_slice(x);
                let key = PublicKey::from_slice(&key).map_err(|_| cursor.malformed("spent public key"))?;
                self.push_script(&[&[65], &key.serialize_uncompressed(), &[0xac]]);
            }
            length => {
                let length = usize::try_from(length - SPECIAL_SCRIPTS).map_err(|_| cursor.malformed(what))?;
                let script = cursor.take(length, what)?;
                self.push_script(&[if length > SCRIPT_BYTES_MAX { &[0x6a] } else { script }]);
            }
        }
        Ok(())
    }

    fn push_script(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.scripts.extend_from_slice(part);
        }
    }
}
