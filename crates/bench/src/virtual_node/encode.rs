//! Blocks and undo data as bytes, made from the height.

use birdhouse_testkit::core_coding::{compact_size, compressed_amount, put_varint};

use super::cell::Order;
use super::epochs::Epoch;
use super::layout::Layout;
use super::numbers::keyed;
use super::places::{OutPlace, TxPlace};
use super::scripts::{Known, Noise, Rules, Segwit};

const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const SEQUENCE: [u8; 4] = 0xffff_fffd_u32.to_le_bytes();
/// `OP_RETURN` and a push of 40 bytes.
const DATA: [u8; 2] = [0x6a, 40];
/// BIP141: `OP_RETURN`, push of 36 bytes, and this.
const COMMITMENT: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// The transactions of a block, and the outputs that they spend.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The block without its header.
    pub(super) body: Vec<u8>,
    pub(super) undo: Vec<u8>,
    /// The transactions without witness, and the end of each: txids are their hashes.
    pub(super) stripped: Vec<u8>,
    pub(super) stripped_ends: Vec<usize>,
    witness: Vec<u8>,
}

/// A cell in its block.
struct InBlock<'a> {
    height: u64,
    cell: u64,
    shape: &'a Epoch,
    order: &'a Order,
}

/// Makes bytes of a chain.
#[derive(Debug)]
pub(super) struct Encoder {
    pub(super) layout: Layout,
    noise: Noise,
}

impl Made {
    /// Returns the transactions without witness.
    pub(super) fn stripped(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(0).chain(self.stripped_ends.iter().copied());
        starts.zip(&self.stripped_ends).map(|(start, end)| &self.stripped[start..*end]).collect()
    }

    fn clear(&mut self) {
        self.body.clear();
        self.undo.clear();
        self.stripped.clear();
        self.stripped_ends.clear();
    }

    /// Appends the transaction whose stripped form was appended last.
    fn end_tx(&mut self, segwit: Segwit) {
        let start = self.stripped_ends.last().copied().unwrap_or(0);
        let stripped = &self.stripped[start..];
        let lock_time = stripped.len() - 4;
        match segwit {
            Segwit::Before => self.body.extend_from_slice(stripped),
            Segwit::Active => {
                self.body.extend_from_slice(&stripped[..4]);
                self.body.extend([0, 1]);
                self.body.extend_from_slice(&stripped[4..lock_time]);
                self.body.extend_from_slice(&self.witness);
                self.body.extend_from_slice(&stripped[lock_time..]);
            }
        }
        self.stripped_ends.push(self.stripped.len());
    }
}

impl Encoder {
    pub(super) fn new(layout: Layout) -> Self {
        let noise = Noise::new(layout.seed);
        Self { layout, noise }
    }

    /// Makes a block after the genesis block.
    pub(super) fn block(&self, height: u64, made: &mut Made) {
        made.clear();
        let txs = self.layout.first_txnum(height + 1) - self.layout.first_txnum(height);
        let txs = usize::try_from(txs).expect("a block has fewer");
        compact_size(&mut made.body, txs);
        compact_size(&mut made.undo, txs - 1);
        self.coinbase(height, made);
        for cell in self.layout.cells_of(height) {
            let block = InBlock { height, cell, shape: self.layout.shape(cell), order: self.layout.order(cell) };
            (0..block.order.txs.len()).for_each(|tx| self.tx(&block, tx, made));
        }
    }

    /// Makes one transaction alone.
    pub(super) fn transaction(&self, place: TxPlace, made: &mut Made) {
        made.clear();
        match place {
            TxPlace::Coinbase(height) => self.coinbase(height, made),
            TxPlace::Cell { cell, tx } => {
                let height = self.layout.height(place);
                let block = InBlock { height, cell, shape: self.layout.shape(cell), order: self.layout.order(cell) };
                self.tx(&block, tx, made);
            }
        }
    }

    /// Returns the name by which inputs know the transaction with this number, in place of its txid.
    pub(super) fn name(&self, txnum: u64) -> [u8; 32] {
        let mut name = [0; 32];
        for (word, bytes) in (0..).zip(name.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&keyed(self.layout.seed ^ 0x6e61_6d65, txnum << 2 | word).to_le_bytes());
        }
        name
    }

    fn coinbase(&self, height: u64, made: &mut Made) {
        let out = &mut made.stripped;
        out.extend(VERSION);
        out.push(1);
        out.extend([0; 32]);
        out.extend([0xff; 4]);
        out.push(4 + 20);
        // The height in three bytes (BIP34), and what miners write.
        out.push(3);
        out.extend_from_slice(&height.to_le_bytes()[..3]);
        out.extend_from_slice(self.noise.piece(keyed(self.layout.seed, height), 20));
        out.extend([0xff; 4]);
        let outputs = Layout::coinbase_outputs(height);
        compact_size(out, usize::try_from(outputs).expect("few outputs") + 1);
        for vout in 0..outputs {
            self.output(OutPlace::Coinbase { height, vout }, out);
        }
        out.extend([0; 8]);
        out.push(38);
        out.extend(COMMITMENT);
        out.extend_from_slice(self.noise.piece(keyed(self.layout.seed ^ 1, height), 32));
        out.extend([0; 4]);
        made.end_tx(Segwit::Before);
    }

    fn output(&self, place: OutPlace, out: &mut Vec<u8>) {
        out.extend(self.layout.value(place).to_le_bytes());
        if let Some(script) = self.layout.script(place) {
            let known = Known::of(&self.layout, script);
            out.push(known.script_pubkey_len());
            known.put_script_pubkey(out);
        } else {
            out.push(42);
            out.extend(DATA);
            let random = if let OutPlace::Cell { cell, output } = place { (cell << 12) | output as u64 } else { 0 };
            out.extend_from_slice(self.noise.piece(keyed(self.layout.seed ^ 2, random), 40));
        }
    }

    fn tx(&self, block: &InBlock<'_>, tx: usize, made: &mut Made) {
        let InBlock { height, cell, shape, order } = *block;
        let place = &order.txs[tx];
        made.stripped.extend(VERSION);
        made.witness.clear();
        let is_first = tx == 0 && cell == self.layout.cells_of(height).start;
        let coinbase = if is_first { self.layout.coinbase_spent_by(height) } else { None };
        let inputs = place.inputs.len() + usize::from(coinbase.is_some());
        compact_size(&mut made.stripped, inputs);
        compact_size(&mut made.undo, inputs);
        let rules = Rules {
            has_segwit: if shape.forms[3] > 0 { Segwit::Active } else { Segwit::Before },
            inscribed_percent: shape.inscribed_percent,
        };
        let mut segwit = Segwit::Before;
        let spent = order.inputs[place.inputs.clone()].iter().map(|input| self.layout.spent_by(cell, input));
        for (at, spent) in (place.inputs.start..).zip(spent.chain(coinbase)) {
            let random = keyed(self.layout.seed ^ 3, cell << 12 | at as u64);
            if self.input(spent, rules, random, made) == Segwit::Active {
                segwit = Segwit::Active;
            }
        }
        compact_size(&mut made.stripped, place.outputs.len());
        for output in place.outputs.clone() {
            self.output(OutPlace::Cell { cell, output }, &mut made.stripped);
        }
        made.stripped.extend([0; 4]);
        made.end_tx(segwit);
    }

    /// Appends an input, and its entry in undo data (Core's `undo.h`).
    fn input(&self, spent: OutPlace, rules: Rules, random: u64, made: &mut Made) -> Segwit {
        let layout = &self.layout;
        let funding = layout.funding(spent);
        let height = layout.height(funding);
        let txnum = layout.txnum(funding, height);
        let script = layout.script(spent).expect("data is never spent");
        let known = Known::of(layout, script);
        made.stripped.extend(self.name(txnum));
        made.stripped.extend(layout.vout(spent).to_le_bytes());
        let segwit = known.put_spend(rules, &self.noise, random, &mut made.stripped, &mut made.witness);
        made.stripped.extend(SEQUENCE);
        let is_coinbase = matches!(funding, TxPlace::Coinbase(_));
        put_varint(&mut made.undo, height << 1 | u64::from(is_coinbase));
        // The version of the transaction, which Core no longer uses.
        made.undo.push(0);
        put_varint(&mut made.undo, compressed_amount(layout.value(spent)));
        known.put_compressed(&mut made.undo);
        segwit
    }
}
