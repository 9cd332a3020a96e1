//! Parser of blocks and transactions. Pure.
//!
//! A block is parsed once, in place: the result is spans into its bytes. Only the stripped form that txids are hashed
//! over ([BIP 144](https://github.com/bitcoin/bips/blob/master/bip-0144.mediawiki)) is a copy. All txids of a block are
//! hashed together.

use std::ops::Range;

use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};

use crate::block::bytes::{Cursor, Malformed};
use crate::names::{Hash256, sha256d_many};

/// A contradiction that keeps a block from being indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The bytes are not a block, or not its spent outputs.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The transactions are not those that the header commits to.
    #[error("the transactions do not hash to the merkle root of the header")]
    MerkleRoot,
    /// The spent outputs belong to another block.
    #[error("the spent outputs do not fit the inputs of the block")]
    SpentCount,
}

/// A parsed block: spans into its bytes.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) txs: Vec<TxSpan>,
    pub(crate) inputs: Vec<Input<'a>>,
    pub(crate) outputs: Vec<Output<'a>>,
}

/// One transaction inside a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct TxSpan {
    /// Offset in the block, counted from the start of its header.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Offset of the witness in the block, if the transaction has one.
    witness: Option<usize>,
    /// Index past its last input in the block's list.
    inputs_end: usize,
    /// Index past its last output in the block's list.
    outputs_end: usize,
}

/// One transaction inside a block, with what lies in the block's lists.
#[derive(Debug)]
pub(super) struct TransactionSpans<'a> {
    /// Its index in the block.
    pub(super) index: usize,
    pub(super) raw: &'a [u8],
    /// Its inputs in the block's list; none of a coinbase.
    pub(super) inputs: Range<usize>,
    pub(super) outputs: &'a [Output<'a>],
}

/// One input, except the coinbase's, which spends nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// Index of its transaction in the block.
    pub(crate) tx: u32,
    pub(super) prev_txid: &'a Hash256,
    pub(super) prev_vout: u32,
}

/// One output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output<'a> {
    /// Index of its transaction in the block.
    pub(super) tx: u32,
    pub(crate) vout: u32,
    pub(crate) value: u64,
    pub(crate) script: &'a [u8],
}

/// Size of a header in bytes.
pub(super) const HEADER_BYTES: usize = 80;

/// Returns the txids of a block; `None` if these bytes are not one block, or its transactions do not hash to the merkle
/// root of its header.
pub fn proved_txids(bytes: &[u8]) -> Option<Vec<Hash256>> {
    let block = Block::parse(bytes).ok()?;
    let txids = block.txids();
    block.prove_merkle_root(&txids).ok().map(|()| txids)
}

/// `OP_RETURN`: the output can never be spent, so the index leaves it out.
const OP_RETURN: u8 = 0x6a;

/// True if the index holds the outputs of a script.
pub(crate) fn is_indexed(script: &[u8]) -> bool {
    script.first() != Some(&OP_RETURN)
}

impl<'a> Block<'a> {
    /// Parses a whole block. Trailing bytes are an error.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes);
        cursor.take(HEADER_BYTES, "header")?;
        let count = cursor.length("transaction count")?;
        let mut block = Self {
            bytes,
            txs: Vec::with_capacity(bytes.len() / 240),
            inputs: Vec::with_capacity(bytes.len() / 180),
            outputs: Vec::with_capacity(bytes.len() / 120),
        };
        let count = u32::try_from(count).map_err(|_| cursor.malformed("transaction count"))?;
        for tx in 0..count {
            block.parse_tx(&mut cursor, tx)?;
        }
        if cursor.is_at_end() { Ok(block) } else { Err(cursor.malformed("end of block")) }
    }

    fn parse_tx(&mut self, cursor: &mut Cursor<'a>, tx: u32) -> Result<(), Malformed> {
        let start = cursor.position();
        cursor.take(4, "version")?;
        let mut inputs = cursor.length("input count")?;
        let segwit = inputs == 0;
        if segwit {
            if cursor.u8("segwit flag")? != 1 {
                return Err(cursor.malformed("segwit flag"));
            }
            inputs = cursor.length("input count")?;
        }
        for _ in 0..inputs {
            let prev_txid = cursor.array::<32>("previous txid")?;
            let prev_vout = cursor.u32_le("previous vout")?;
            let script_bytes = cursor.length("scriptSig length")?;
            cursor.take(script_bytes, "scriptSig")?;
            cursor.take(4, "sequence")?;
            if tx > 0 {
                self.inputs.push(Input { tx, prev_txid, prev_vout });
            }
        }
        let outputs = cursor.length("output count")?;
        for vout in 0..outputs {
            let value = cursor.u64_le("value")?;
            let script_bytes = cursor.length("scriptPubKey length")?;
            let script = cursor.take(script_bytes, "scriptPubKey")?;
            let vout = u32::try_from(vout).map_err(|_| cursor.malformed("output count"))?;
            self.outputs.push(Output { tx, vout, value, script });
        }
        let witness = segwit.then_some(cursor.position());
        if segwit {
            for _ in 0..inputs {
                for _ in 0..cursor.length("witness count")? {
                    let item = cursor.length("witness item length")?;
                    cursor.take(item, "witness item")?;
                }
            }
        }
        cursor.take(4, "locktime")?;
        self.txs.push(TxSpan {
            start,
            end: cursor.position(),
            witness,
            inputs_end: self.inputs.len(),
            outputs_end: self.outputs.len(),
        });
        Ok(())
    }

    /// The bytes, inputs and outputs of each transaction, in block order.
    pub(super) fn spans(&self) -> impl Iterator<Item = TransactionSpans<'_>> {
        let (mut input, mut output) = (0, 0);
        self.txs.iter().enumerate().map(move |(index, span)| {
            let inputs = input..span.inputs_end;
            let outputs = &self.outputs[output..span.outputs_end];
            (input, output) = (span.inputs_end, span.outputs_end);
            TransactionSpans { index, raw: &self.bytes[span.start..span.end], inputs, outputs }
        })
    }

    /// The txids, in block order.
    pub(crate) fn txids(&self) -> Vec<Hash256> {
        let mut stripped = Vec::with_capacity(self.bytes.len());
        let ends: Vec<usize> = self
            .txs
            .iter()
            .map(|span| {
                if let Some(witness) = span.witness {
                    push_stripped(&mut stripped, &self.bytes[span.start..span.end], witness - span.start);
                }
                stripped.len()
            })
            .collect();
        let mut from = 0;
        let messages: Vec<&[u8]> = self
            .txs
            .iter()
            .zip(ends)
            .map(|(span, end)| {
                let message =
                    if span.witness.is_some() { &stripped[from..end] } else { &self.bytes[span.start..span.end] };
                from = end;
                message
            })
            .collect();
        let mut txids = Vec::new();
        sha256d_many(&messages, &mut txids);
        txids
    }

    /// Weight of the block: four units for each byte, one for each byte of witness data, the marker and the flag of a
    /// transaction included ([BIP 141](https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki)).
    pub(super) fn weight(&self) -> u32 {
        const MARKER_AND_FLAG: usize = 2;
        const LOCKTIME: usize = 4;
        let witness = |span: &TxSpan| span.witness.map_or(0, |start| span.end - LOCKTIME - start + MARKER_AND_FLAG);
        let witness: usize = self.txs.iter().map(witness).sum();
        u32::try_from(4 * self.bytes.len() - 3 * witness).unwrap_or(u32::MAX)
    }

    /// The number of inputs of each transaction except the coinbase, in block order.
    pub(crate) fn input_counts(&self) -> impl Iterator<Item = usize> {
        let ends = self.txs.iter().map(|span| span.inputs_end);
        let starts = std::iter::once(0).chain(ends.clone());
        ends.zip(starts).map(|(end, start)| end - start).skip(1)
    }

    /// Proves that these txids are what the header commits to.
    pub(super) fn prove_merkle_root(&self, txids: &[Hash256]) -> Result<(), BlockError> {
        if crate::block::merkle::root(txids) == self.bytes[36..68] { Ok(()) } else { Err(BlockError::MerkleRoot) }
    }
}

impl<'a> Block<'a> {
    /// Parses one serialised transaction as the only one of a block without a header. Its inputs are left out.
    pub(crate) fn of_transaction(raw: &'a [u8]) -> Result<Self, Malformed> {
        let mut block = Self { bytes: raw, txs: Vec::with_capacity(1), inputs: Vec::new(), outputs: Vec::new() };
        let mut cursor = Cursor::new(raw);
        block.parse_tx(&mut cursor, 0)?;
        if cursor.is_at_end() { Ok(block) } else { Err(cursor.malformed("end of transaction")) }
    }
}

/// Appends a transaction without marker, flag and witness; `witness` is the offset of the witness in `tx`.
fn push_stripped(out: &mut Vec<u8>, tx: &[u8], witness: usize) {
    out.extend_from_slice(&tx[..4]);
    out.extend_from_slice(&tx[6..witness]);
    out.extend_from_slice(&tx[tx.len() - 4..]);
}

/// The txid of one serialised transaction.
pub(crate) fn txid_of(raw: &[u8]) -> Result<Hash256, Malformed> {
    Ok(Block::of_transaction(raw)?.txids()[0])
}

/// The scriptPubKey and value of one output of a serialised transaction; `None` if it has no such output.
pub(crate) fn output_of(raw: &[u8], vout: u32) -> Result<Option<(&[u8], u64)>, Malformed> {
    let transaction = Block::of_transaction(raw)?;
    Ok(transaction.outputs.get(vout as usize).map(|output| (output.script, output.value)))
}

/// The outputs that a serialised transaction spends, in the order of its inputs. Reads no further than these.
pub(crate) fn outpoints_of(raw: &[u8]) -> Result<Vec<OutPoint>, Malformed> {
    let mut cursor = Cursor::new(raw);
    cursor.take(4, "version")?;
    let mut inputs = cursor.length("input count")?;
    if inputs == 0 {
        cursor.u8("segwit flag")?;
        inputs = cursor.length("input count")?;
    }
    let mut outpoints = Vec::with_capacity(inputs);
    for _ in 0..inputs {
        let (txid, vout) = (Txid::from_byte_array(*cursor.array("previous txid")?), cursor.u32_le("previous vout")?);
        outpoints.push(OutPoint { txid, vout });
        let script_bytes = cursor.length("scriptSig length")?;
        cursor.take(script_bytes, "scriptSig")?;
        cursor.take(4, "sequence")?;
    }
    Ok(outpoints)
}
