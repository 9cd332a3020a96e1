//! Block bytes and spent outputs -> what every transaction touches. Pure.
//!
//! A block is parsed once, in place: spans into its bytes, no copies but for the stripped form that
//! txids are hashed over (BIP 144). All txids and script hashes of a block are hashed together.
//!
//! Invariant: what comes out is proved by the block's own header: the txids hash to its merkle root.

use crate::bytes::{Cursor, Malformed};
use crate::sha::{Hash256, sha256_many, sha256d_many};
use crate::source::SpentBytes;
use crate::spent::SpentOutputs;

/// Why a block cannot be indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Its bytes are not a block, or the spent outputs are not such.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The transactions are not those that the header commits to.
    #[error("merkle root differs from the header's")]
    MerkleRoot,
    /// The spent outputs belong to another block.
    #[error("spent outputs do not fit the block's inputs")]
    SpentCount,
}

/// A parsed block: spans into its bytes.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8],
    pub(crate) txs: Vec<TxSpan>,
    pub(crate) inputs: Vec<Input<'a>>,
    pub(crate) outputs: Vec<Output<'a>>,
}

/// One transaction inside a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TxSpan {
    /// Offset in the block, from its header on.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Where the witness starts, for a transaction that has one.
    witness: Option<usize>,
    /// Index past its last input in the block's list.
    inputs_end: usize,
}

/// One input that spends something (all but the coinbase's).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// Index of its transaction in the block.
    pub(crate) tx: u32,
    pub(crate) prev_txid: &'a Hash256,
    pub(crate) prev_vout: u32,
}

/// One output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output<'a> {
    /// Index of its transaction in the block.
    pub(crate) tx: u32,
    pub(crate) vout: u32,
    pub(crate) value: u64,
    pub(crate) script: &'a [u8],
}

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 80;

/// `OP_RETURN`: the output can never be spent and is nobody's; it is left out of the index.
const OP_RETURN: u8 = 0x6a;

/// Whether the outputs of a script are in the index.
pub(crate) fn is_indexed(script: &[u8]) -> bool {
    script.first() != Some(&OP_RETURN)
}

impl<'a> Block<'a> {
    /// Parses a whole block; trailing bytes are an error.
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
        self.txs.push(TxSpan { start, end: cursor.position(), witness, inputs_end: self.inputs.len() });
        Ok(())
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

    /// How many inputs each transaction but the coinbase has, in block order.
    pub(crate) fn input_counts(&self) -> impl Iterator<Item = usize> {
        let ends = self.txs.iter().map(|span| span.inputs_end);
        let starts = std::iter::once(0).chain(ends.clone());
        ends.zip(starts).map(|(end, start)| end - start).skip(1)
    }

    /// Proves that these txids are what the header commits to.
    pub(crate) fn prove_merkle_root(&self, txids: &[Hash256]) -> Result<(), BlockError> {
        if crate::merkle::root(txids) == self.bytes[36..68] { Ok(()) } else { Err(BlockError::MerkleRoot) }
    }
}

/// Copies a transaction without marker, flag and witness (`witness` is where that starts in `tx`).
fn push_stripped(out: &mut Vec<u8>, tx: &[u8], witness: usize) {
    out.extend_from_slice(&tx[..4]);
    out.extend_from_slice(&tx[6..witness]);
    out.extend_from_slice(&tx[tx.len() - 4..]);
}

/// The txid of one serialised transaction.
pub(crate) fn txid_of(raw: &[u8]) -> Result<Hash256, Malformed> {
    let mut block = Block { bytes: raw, txs: Vec::with_capacity(1), inputs: Vec::new(), outputs: Vec::new() };
    let mut cursor = Cursor::new(raw);
    block.parse_tx(&mut cursor, 0)?;
    if cursor.is_at_end() { Ok(block.txids()[0]) } else { Err(cursor.malformed("end of transaction")) }
}

/// The scriptPubKey and value of one output of a serialised transaction; `None` if it has no such output.
pub(crate) fn output_of(raw: &[u8], vout: u32) -> Result<Option<(&[u8], u64)>, Malformed> {
    let mut block = Block { bytes: raw, txs: Vec::with_capacity(1), inputs: Vec::new(), outputs: Vec::new() };
    block.parse_tx(&mut Cursor::new(raw), 0)?;
    Ok(block.outputs.get(vout as usize).map(|output| (output.script, output.value)))
}

/// Whether a serialised transaction spends an output. Reads no further than its inputs.
pub(crate) fn spends(raw: &[u8], txid: &Hash256, vout: u32) -> Result<bool, Malformed> {
    let mut cursor = Cursor::new(raw);
    cursor.take(4, "version")?;
    let mut inputs = cursor.length("input count")?;
    if inputs == 0 {
        cursor.u8("segwit flag")?;
        inputs = cursor.length("input count")?;
    }
    for _ in 0..inputs {
        let (prev_txid, prev_vout) = (cursor.array::<32>("previous txid")?, cursor.u32_le("previous vout")?);
        if prev_txid == txid && prev_vout == vout {
            return Ok(true);
        }
        let script_bytes = cursor.length("scriptSig length")?;
        cursor.take(script_bytes, "scriptSig")?;
        cursor.take(4, "sequence")?;
    }
    Ok(false)
}

/// What the transactions of one block touch.
#[derive(Debug, Default)]
pub(crate) struct BlockTouches {
    /// In block order.
    pub(crate) txids: Vec<Hash256>,
    /// Offset of each transaction in the block, and the block's end.
    pub(crate) offsets: Vec<u32>,
    pub(crate) funded: Vec<Funded>,
    pub(crate) spent: Vec<Spent>,
}

/// An output that pays a script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Funded {
    pub(crate) scripthash: Hash256,
    pub(crate) tx: u32,
    pub(crate) vout: u32,
    pub(crate) value: u64,
}

/// An input that spends an output of a script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) scripthash: Hash256,
    pub(crate) tx: u32,
    pub(crate) prev_txid: Hash256,
    pub(crate) prev_vout: u32,
    pub(crate) value: u64,
}

impl BlockTouches {
    /// Parses, hashes and proves one block.
    pub(crate) fn of(block: &[u8], spent: SpentBytes<'_>) -> Result<Self, BlockError> {
        let block = Block::parse(block)?;
        let txids = block.txids();
        block.prove_merkle_root(&txids)?;
        let offsets = block.txs.iter().map(|span| span.start).chain([block.bytes.len()]);
        let offsets = offsets
            .map(|offset| u32::try_from(offset).map_err(|_| Malformed { what: "block size", offset }))
            .collect::<Result<_, _>>()?;
        if is_genesis(block.bytes) {
            // Its output cannot be spent and is not indexed (Electrum protocol basics).
            return Ok(Self { txids, offsets, ..Self::default() });
        }
        let spent = SpentOutputs::decode(spent, block.input_counts(), block.inputs.len())?;
        Ok(Self { txids, offsets, funded: funded(&block), spent: spent_of(&block, &spent) })
    }
}

fn is_genesis(block: &[u8]) -> bool {
    block[4..36] == [0; 32]
}

fn funded(block: &Block<'_>) -> Vec<Funded> {
    let indexed: Vec<&Output<'_>> = block.outputs.iter().filter(|output| is_indexed(output.script)).collect();
    let scripts: Vec<&[u8]> = indexed.iter().map(|output| output.script).collect();
    let mut hashes = Vec::new();
    sha256_many(&scripts, &mut hashes);
    let funded = indexed.iter().zip(hashes);
    funded
        .map(|(output, scripthash)| Funded { scripthash, tx: output.tx, vout: output.vout, value: output.value })
        .collect()
}

fn spent_of(block: &Block<'_>, spent: &SpentOutputs) -> Vec<Spent> {
    let scripts: Vec<&[u8]> = spent.scripts().collect();
    let mut hashes = Vec::new();
    sha256_many(&scripts, &mut hashes);
    let inputs = block.inputs.iter().zip(hashes).zip(spent.values());
    inputs
        .map(|((input, scripthash), value)| Spent {
            scripthash,
            tx: input.tx,
            prev_txid: *input.prev_txid,
            prev_vout: input.prev_vout,
            value,
        })
        .collect()
}
