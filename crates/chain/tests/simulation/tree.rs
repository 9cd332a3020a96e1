//! Every block and every transaction that a simulated network ever saw, in all branches.
//!
//! The tree keeps what a naive model asks for: which transactions touch a script, which spend an output, and which
//! blocks hold a transaction. A [`Path`] is one branch; nothing here is an index of one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::{Block, BlockHash, Network, OutPoint, ScriptBuf, Transaction, TxOut, Txid};
use foldhash::HashMap;

use crate::undo::{self, Spent};

/// The number of a block in its [`Tree`].
pub(crate) type BlockNumber = usize;

/// The genesis block.
pub(crate) const GENESIS: BlockNumber = 0;

/// The blocks of one branch; index = height.
pub(crate) type Path = Arc<Vec<BlockNumber>>;

/// A block with what its spenders undo.
#[derive(Debug)]
pub(crate) struct Mined {
    pub(crate) parent: BlockNumber,
    pub(crate) height: u32,
    pub(crate) hash: BlockHash,
    pub(crate) header: [u8; 80],
    pub(crate) bytes: Vec<u8>,
    /// Core's undo data.
    pub(crate) undo: Vec<u8>,
    /// The spent outputs as REST sends them.
    pub(crate) tx_outs: Vec<u8>,
    pub(crate) txids: Vec<Txid>,
    /// Work of the block and all before it.
    pub(crate) work: u128,
}

/// A transaction with the outputs that it spends.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) txid: Txid,
    /// The txid in hexadecimal, as it is displayed.
    pub(crate) hex: String,
    pub(crate) tx: Transaction,
    pub(crate) raw: Vec<u8>,
    pub(crate) prevouts: Vec<TxOut>,
    pub(crate) fee: u64,
}

impl Known {
    pub(crate) fn is_coinbase(&self) -> bool {
        self.tx.is_coinbase()
    }

    /// The outpoints that it spends; none for a coinbase.
    pub(crate) fn spends(&self) -> impl Iterator<Item = OutPoint> {
        let inputs = if self.is_coinbase() { &[][..] } else { &self.tx.input };
        inputs.iter().map(|input| input.previous_output)
    }

    /// The scripts that it pays or spends from, each once. Outputs that begin with `OP_RETURN` have no history.
    fn scripts(&self) -> HashSet<&ScriptBuf> {
        let paid = self.tx.output.iter().chain(&self.prevouts);
        paid.map(|output| &output.script_pubkey).filter(|script| is_indexed(script)).collect()
    }
}

/// True for a script that can have a history.
pub(crate) fn is_indexed(script: &ScriptBuf) -> bool {
    script.as_bytes().first() != Some(&0x6a)
}

/// Every block and every transaction.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    blocks: Vec<Arc<Mined>>,
    by_hash: HashMap<BlockHash, BlockNumber>,
    txs: HashMap<Txid, Arc<Known>>,
    /// All txids in the order in which they appeared.
    order: Vec<Txid>,
    in_blocks: HashMap<Txid, Vec<(BlockNumber, u32)>>,
    of_script: BTreeMap<ScriptBuf, Vec<Txid>>,
    spenders: HashMap<OutPoint, Vec<(Txid, u32)>>,
    outputs: Vec<OutPoint>,
    /// Blocks whose coinbase a later one repeats (BIP 30).
    pub(crate) overwritten: Vec<BlockNumber>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let mut tree = Self {
            blocks: Vec::new(),
            by_hash: HashMap::default(),
            txs: HashMap::default(),
            order: Vec::new(),
            in_blocks: HashMap::default(),
            of_script: BTreeMap::new(),
            spenders: HashMap::default(),
            outputs: Vec::new(),
            overwritten: Vec::new(),
        };
        tree.add_block(GENESIS, &genesis_block(Network::Regtest));
        tree
    }

    /// Adds a block on top of `parent`; its transactions may be known already.
    pub(crate) fn add_block(&mut self, parent: BlockNumber, block: &Block) -> BlockNumber {
        let number = self.blocks.len();
        let below = self.blocks.get(parent).cloned();
        let height = below.as_ref().map_or(0, |below| below.height + 1);
        // The genesis block's output can never be spent, and no server indexes it.
        if height > 0 {
            for tx in &block.txdata {
                self.add_tx(tx);
            }
        }
        let txids: Vec<Txid> = block.txdata.iter().map(Transaction::compute_txid).collect();
        for (position, txid) in (0..).zip(&txids) {
            self.in_blocks.entry(*txid).or_default().push((number, position));
        }
        let path = if height == 0 { Path::default() } else { self.path(parent) };
        let funded_at = |txid: &Txid| {
            // The last of several with one txid (BIP 30).
            let mut blocks = self.in_blocks.get(txid).into_iter().flatten().rev();
            let funding = blocks.find(|(block, _)| *block == number || self.is_on(&path, *block));
            let height = funding.map_or(0, |(block, _)| self.blocks.get(*block).map_or(height, |block| block.height));
            (height, funding.is_some_and(|(_, position)| *position == 0))
        };
        let spent_by = |tx: &Transaction| -> Vec<Spent> {
            let fundings = tx.input.iter().map(|input| funded_at(&input.previous_output.txid));
            let spent = fundings.zip(self.spent_by(tx));
            spent.map(|((height, is_coinbase), output)| Spent { height, is_coinbase, output }).collect()
        };
        let spent: Vec<Vec<Spent>> = block.txdata[1..].iter().map(spent_by).collect();
        let bytes = serialize(block);
        let mined = Mined {
            parent,
            height,
            hash: block.block_hash(),
            header: *bytes.first_chunk().expect("a block has a header"),
            undo: undo::core(&spent),
            tx_outs: undo::rest(&spent),
            bytes,
            txids,
            work: below.map_or(0, |below| below.work) + work_of(block),
        };
        self.by_hash.insert(mined.hash, number);
        self.blocks.push(Arc::new(mined));
        number
    }

    /// Adds a transaction whose parents are known. Returns it.
    pub(crate) fn add_tx(&mut self, tx: &Transaction) -> Arc<Known> {
        let txid = tx.compute_txid();
        if let Some(known) = self.txs.get(&txid) {
            return Arc::clone(known);
        }
        let prevouts = self.spent_by(tx);
        let sum = |outputs: &[TxOut]| outputs.iter().map(|output| output.value.to_sat()).sum::<u64>();
        let fee = sum(&prevouts).saturating_sub(sum(&tx.output));
        let known = Arc::new(Known { txid, hex: txid.to_string(), tx: tx.clone(), raw: serialize(tx), prevouts, fee });
        for script in known.scripts() {
            self.of_script.entry(script.clone()).or_default().push(txid);
        }
        for (vin, outpoint) in (0..).zip(known.spends()) {
            self.spenders.entry(outpoint).or_default().push((txid, vin));
        }
        let outputs = (0..).zip(&tx.output).filter(|(_, output)| is_indexed(&output.script_pubkey));
        self.outputs.extend(outputs.map(|(vout, _)| OutPoint { txid, vout }));
        self.order.push(txid);
        self.txs.insert(txid, Arc::clone(&known));
        known
    }

    /// The outputs that a transaction spends.
    fn spent_by(&self, tx: &Transaction) -> Vec<TxOut> {
        let inputs = if tx.is_coinbase() { &[][..] } else { &tx.input };
        let spent = inputs.iter().map(|input| {
            let OutPoint { txid, vout } = input.previous_output;
            self.txs[&txid].tx.output[vout as usize].clone()
        });
        spent.collect()
    }

    pub(crate) fn block(&self, number: BlockNumber) -> &Arc<Mined> {
        &self.blocks[number]
    }

    /// True if another block has the same parent.
    pub(crate) fn has_sibling(&self, number: BlockNumber) -> bool {
        let parent = self.block(number).parent;
        (0..self.len()).any(|other| other != number && self.block(other).parent == parent)
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn find(&self, hash: &BlockHash) -> Option<BlockNumber> {
        self.by_hash.get(hash).copied()
    }

    pub(crate) fn tx(&self, txid: &Txid) -> Option<&Arc<Known>> {
        self.txs.get(txid)
    }

    /// All txids in the order in which they appeared.
    pub(crate) fn txids(&self) -> &[Txid] {
        &self.order
    }

    /// All outputs that can have a history, in the order in which they appeared.
    pub(crate) fn outputs(&self) -> &[OutPoint] {
        &self.outputs
    }

    pub(crate) fn scripts(&self) -> impl Iterator<Item = &ScriptBuf> {
        self.of_script.keys()
    }

    /// The transactions that touch a script, in the order in which they appeared.
    pub(crate) fn of_script(&self, script: &ScriptBuf) -> &[Txid] {
        self.of_script.get(script).map_or(&[], Vec::as_slice)
    }

    /// The inputs that spend an output, in all branches.
    pub(crate) fn spenders(&self, outpoint: &OutPoint) -> &[(Txid, u32)] {
        self.spenders.get(outpoint).map_or(&[], Vec::as_slice)
    }

    /// The branch that ends with a block.
    pub(crate) fn path(&self, tip: BlockNumber) -> Path {
        let mut path = vec![tip];
        let mut at = tip;
        while at != GENESIS {
            at = self.blocks[at].parent;
            path.push(at);
        }
        path.reverse();
        Arc::new(path)
    }

    pub(crate) fn is_on(&self, path: &[BlockNumber], block: BlockNumber) -> bool {
        path.get(self.blocks[block].height as usize) == Some(&block)
    }

    /// The blocks of a branch that hold a transaction, with its position in each.
    pub(crate) fn confirmed<'a>(
        &'a self,
        path: &'a [BlockNumber],
        txid: &Txid,
    ) -> impl Iterator<Item = (BlockNumber, u32)> + 'a {
        let blocks = self.in_blocks.get(txid).map_or(&[][..], Vec::as_slice);
        blocks.iter().copied().filter(|(block, _)| self.is_on(path, *block))
    }

    pub(crate) fn is_confirmed(&self, path: &[BlockNumber], txid: &Txid) -> bool {
        self.confirmed(path, txid).next().is_some()
    }

    /// True if a block of the branch spends the output.
    pub(crate) fn is_spent(&self, path: &[BlockNumber], outpoint: &OutPoint) -> bool {
        self.spenders(outpoint).iter().any(|(txid, _)| self.is_confirmed(path, txid))
    }
}

fn work_of(block: &Block) -> u128 {
    let bytes = block.header.work().to_be_bytes();
    u128::from_be_bytes(*bytes.last_chunk().expect("32 bytes"))
}
