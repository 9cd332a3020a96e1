//! The chain as numbers: which cells a block has, which output an input spends, which script an output pays, and all of
//! these the other way round. Nothing is kept but the first cell of each block.
//!
//! ```text
//! height 0          the genesis block of mainnet
//! 1 to 128          coinbases with 80 outputs each, so that every queue has outputs for its first inputs
//! 129 to 228        coinbases alone, until the first may be spent
//! from 229          the epochs; the first transaction of a block also spends the coinbase of 150 blocks before
//! ```

use std::ops::Range;

use birdhouse_testkit::rng::{Rng, mix};

use super::cell::{Amount, Input, ORDERS, OfKind, Order, Output, Spends, Spent};
use super::epochs::{Epoch, Form, MAINNET};
use super::numbers::{InCell, keyed};
use super::places::{COINBASE_CLASS, FILLING_CLASS, NEVER_CLASS, OutPlace, Script, TxPlace};
use super::queues::{FILLING_BLOCKS, FILLING_OUTPUTS_ALL, Queues, Waiting, filling};
use super::reuse::Classes;

/// The first block of the first epoch.
const FIRST_BLOCK: u64 = FILLING_BLOCKS + 1 + 100;
/// Blocks between a coinbase and its spend.
const COINBASE_AGE: u64 = 150;
/// Scripts of the coinbases from the fourth epoch on: those of pools.
const POOLS: u64 = 24;
const FIRST_EPOCH_OF_POOLS: usize = 3;
/// The most by which the first cell of a block is late, in thousandths of the cells of a block.
const UNEVEN: u64 = 250;

/// A made-up chain.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(super) seed: u64,
    epochs: Vec<Times>,
    orders: Vec<Vec<Order>>,
    /// The first cell of each block from [`FIRST_BLOCK`] on, and the number of cells.
    first_cells: Vec<u32>,
    queues: Queues,
    classes: Classes,
}

/// An epoch in the numbers of this chain.
#[derive(Debug, Clone, Copy)]
struct Times {
    shape: &'static Epoch,
    first_block: u64,
    blocks: u64,
    first_cell: u64,
    cells: u64,
    first_txnum: u64,
}

impl Layout {
    /// Lays out a chain of about `txs` transactions. The same arguments give the same chain.
    pub(crate) fn new(seed: u64, txs: u64) -> Self {
        let epochs = epochs(txs);
        let orders = |(epoch, at): (&Epoch, u64)| {
            let mut rng = Rng::new(keyed(seed, at));
            (0..ORDERS).map(|_| Order::shuffled(epoch, &mut rng)).collect()
        };
        let cells: Vec<(u64, &Epoch)> = epochs.iter().map(|epoch| (epoch.cells, epoch.shape)).collect();
        Self {
            seed,
            orders: MAINNET.iter().zip(0..).map(orders).collect(),
            first_cells: first_cells(seed, &epochs),
            queues: Queues::new(seed, &cells),
            classes: Classes::new(seed, &cells),
            epochs,
        }
    }

    /// Returns the number of blocks, the genesis block included.
    pub(crate) fn blocks(&self) -> u64 {
        FIRST_BLOCK + self.first_cells.len() as u64 - 1
    }

    /// Returns the number of transactions, coinbases included.
    pub(crate) fn txs(&self) -> u64 {
        self.first_txnum(self.blocks())
    }

    /// Returns the number of cells.
    #[cfg(test)]
    pub(super) fn cells(&self) -> u64 {
        self.first_cells.last().copied().map_or(0, u64::from)
    }

    /// Returns the number of outputs of a coinbase that pay scripts.
    pub(super) fn coinbase_outputs(height: u64) -> u64 {
        if height <= FILLING_BLOCKS { FILLING_OUTPUTS_ALL } else { 1 }
    }

    /// Returns the cells of the block at a height.
    pub(super) fn cells_of(&self, height: u64) -> Range<u64> {
        let Some(at) = height.checked_sub(FIRST_BLOCK) else { return 0..0 };
        let first = |at: u64| u64::from(self.first_cells[usize::try_from(at).expect("a block of this chain")]);
        first(at)..first(at + 1)
    }

    /// Returns the number of the first transaction of a block; beyond the last block, the number of transactions.
    pub(super) fn first_txnum(&self, height: u64) -> u64 {
        if height < FIRST_BLOCK {
            return height;
        }
        let epoch = self.epochs.iter().rfind(|epoch| epoch.first_block <= height).expect("the first begins there");
        let at = usize::try_from(height - FIRST_BLOCK).expect("a block of this chain");
        let cells = u64::from(self.first_cells[at]) - epoch.first_cell;
        epoch.first_txnum + (height - epoch.first_block) + cells * epoch.shape.cell_txs() as u64
    }

    /// Returns the index of the epoch of a cell.
    fn epoch_of(&self, cell: u64) -> usize {
        self.epochs.iter().rposition(|epoch| epoch.first_cell <= cell).expect("the first epoch begins with cell 0")
    }

    /// Returns the height of the block of a cell.
    fn height_of_cell(&self, cell: u64) -> u64 {
        let Times { first_block, blocks, first_cell, cells, .. } = self.epochs[self.epoch_of(cell)];
        // Cells are spread evenly, but for some blocks.
        let about = first_block - FIRST_BLOCK + (cell - first_cell) * blocks / cells;
        let mut at = usize::try_from(about).expect("a block of this chain");
        while u64::from(self.first_cells[at]) > cell {
            at -= 1;
        }
        while u64::from(self.first_cells[at + 1]) <= cell {
            at += 1;
        }
        FIRST_BLOCK + at as u64
    }

    /// Returns the height of a transaction.
    pub(super) fn height(&self, place: TxPlace) -> u64 {
        match place {
            TxPlace::Coinbase(height) => height,
            TxPlace::Cell { cell, .. } => self.height_of_cell(cell),
        }
    }

    /// Returns the number of a transaction whose height is known.
    pub(super) fn txnum(&self, place: TxPlace, height: u64) -> u64 {
        let first = self.first_txnum(height);
        match place {
            TxPlace::Coinbase(_) => first,
            TxPlace::Cell { cell, tx } => {
                let txs = self.shape(cell).cell_txs() as u64;
                first + 1 + (cell - self.cells_of(height).start) * txs + tx as u64
            }
        }
    }

    /// Returns the shape of a cell.
    pub(super) fn shape(&self, cell: u64) -> &'static Epoch {
        self.epochs[self.epoch_of(cell)].shape
    }

    /// Returns the order of the transactions of a cell.
    pub(super) fn order(&self, cell: u64) -> &Order {
        let order = usize::try_from(keyed(self.seed ^ 0x006f_7264, cell) % ORDERS as u64).expect("few orders");
        &self.orders[self.epoch_of(cell)][order]
    }

    fn output(&self, cell: u64, output: usize) -> Output {
        self.order(cell).outputs[output]
    }

    fn in_cell(&self, cell: u64, index: usize) -> InCell {
        InCell { epoch: self.epoch_of(cell), cell, index }
    }

    /// Returns the output that an input of a cell spends.
    pub(super) fn spent_by(&self, cell: u64, input: &Input) -> OutPlace {
        let OfKind { kind, index } = match input.spends {
            Spends::Inside(output) => return OutPlace::Cell { cell, output },
            Spends::Waiting(of) => of,
        };
        match self.queues.spent_by(kind, self.in_cell(cell, index)) {
            Waiting::OfCoinbase(place) => place,
            Waiting::InCell(InCell { cell, index, .. }) => {
                OutPlace::Cell { cell, output: self.order(cell).waiting_output(OfKind { kind, index }) }
            }
        }
    }

    /// Returns the coinbase that the first transaction of a block spends.
    pub(super) fn coinbase_spent_by(&self, height: u64) -> Option<OutPlace> {
        let spent = height.checked_sub(COINBASE_AGE).filter(|spent| *spent > FILLING_BLOCKS)?;
        (!self.cells_of(height).is_empty()).then_some(OutPlace::Coinbase { height: spent, vout: 0 })
    }

    /// Returns the transaction that spends an output; `None` if none does until the end of the chain.
    pub(super) fn spender(&self, place: OutPlace) -> Option<TxPlace> {
        let queued = match place {
            OutPlace::Coinbase { height, vout } if height <= FILLING_BLOCKS => filling(height, vout),
            OutPlace::Coinbase { height, .. } => {
                let spender = Some(height + COINBASE_AGE).filter(|spender| *spender < self.blocks())?;
                let cell = self.cells_of(spender).next()?;
                return Some(TxPlace::Cell { cell, tx: 0 });
            }
            OutPlace::Cell { cell, output } => match self.output(cell, output).spent {
                Spent::Never => return None,
                Spent::Inside(input) => {
                    return Some(TxPlace::Cell { cell, tx: self.order(cell).inputs[input].tx });
                }
                Spent::Waiting(OfKind { kind, index }) => self.queues.queued(kind, self.in_cell(cell, index)),
            },
        };
        let (kind, InCell { cell, index, .. }) = self.queues.spender(queued)?;
        let order = self.order(cell);
        Some(TxPlace::Cell { cell, tx: order.inputs[order.waiting_input(OfKind { kind, index })].tx })
    }

    /// Returns the transaction of an output.
    pub(super) fn funding(&self, place: OutPlace) -> TxPlace {
        match place {
            OutPlace::Coinbase { height, .. } => TxPlace::Coinbase(height),
            OutPlace::Cell { cell, output } => TxPlace::Cell { cell, tx: self.output(cell, output).tx },
        }
    }

    /// Returns the index of an output among those of its transaction.
    pub(super) fn vout(&self, place: OutPlace) -> u32 {
        match place {
            OutPlace::Coinbase { vout, .. } => u32::try_from(vout).expect("few outputs"),
            OutPlace::Cell { cell, output } => self.output(cell, output).vout,
        }
    }

    /// Returns the script that an output pays; `None` for data.
    pub(super) fn script(&self, place: OutPlace) -> Option<Script> {
        match place {
            OutPlace::Coinbase { height, vout } if height <= FILLING_BLOCKS => {
                Some(Script { class: FILLING_CLASS, number: height * FILLING_OUTPUTS_ALL + vout })
            }
            OutPlace::Coinbase { height, .. } => Some(self.coinbase_script(height)),
            OutPlace::Cell { cell, output } => {
                let OfKind { kind, index } = self.output(cell, output).class?;
                let number = self.classes.script(kind, self.in_cell(cell, index));
                Some(Script { class: u8::try_from(kind).expect("few classes"), number })
            }
        }
    }

    fn coinbase_script(&self, height: u64) -> Script {
        let has_pools = height >= self.epochs[FIRST_EPOCH_OF_POOLS].first_block;
        let number = if has_pools { mix(self.seed ^ height) % POOLS } else { POOLS + height };
        Script { class: COINBASE_CLASS, number }
    }

    /// Returns the outputs that pay a script, in no order.
    pub(super) fn outputs_of(&self, script: Script) -> Vec<OutPlace> {
        match script.class {
            FILLING_CLASS => {
                let (height, vout) = (script.number / FILLING_OUTPUTS_ALL, script.number % FILLING_OUTPUTS_ALL);
                vec![OutPlace::Coinbase { height, vout }]
            }
            COINBASE_CLASS => {
                let heights = FILLING_BLOCKS + 1..self.blocks();
                let of = heights.filter(|height| self.coinbase_script(*height) == script);
                of.map(|height| OutPlace::Coinbase { height, vout: 0 }).collect()
            }
            NEVER_CLASS => Vec::new(),
            class => {
                let kind = class.into();
                let place = |InCell { cell, index, .. }: InCell| OutPlace::Cell {
                    cell,
                    output: self.order(cell).of_class(OfKind { kind, index }),
                };
                self.classes.outputs_of(kind, script.number).into_iter().map(place).collect()
            }
        }
    }

    /// Returns a random script of a class; one in some has no output.
    pub(super) fn random_script(&self, class: usize, rng: &mut Rng) -> Script {
        Script { class: u8::try_from(class).expect("few classes"), number: self.classes.random(class, rng) }
    }

    /// Returns the form of a script: one of those that were new when it was first used.
    pub(super) fn form(&self, script: Script) -> Form {
        let epoch = match script.class {
            COINBASE_CLASS if script.number < POOLS => FIRST_EPOCH_OF_POOLS,
            COINBASE_CLASS | FILLING_CLASS | NEVER_CLASS => 0,
            class => self.classes.first_epoch(class.into(), script.number),
        };
        MAINNET[epoch].form(keyed(self.seed ^ 0x666f_726d ^ u64::from(script.class) << 40, script.number))
    }

    /// Returns the value of an output, in satoshis.
    pub(super) fn value(&self, place: OutPlace) -> u64 {
        match place {
            OutPlace::Coinbase { height, vout } => {
                2_500_000_000 + keyed(self.seed ^ 0x6665_6573, height << 8 | vout) % 50_000_000
            }
            OutPlace::Cell { cell, output } => {
                let random = keyed(self.seed ^ 0x7661_6c75, cell << 12 | output as u64);
                amount(self.output(cell, output).amount, random, keyed(self.seed ^ 0x6571_7561, cell))
            }
        }
    }
}

/// A value of a kind by a random number, and by that of a coinjoin.
fn amount(kind: Amount, random: u64, of_cell: u64) -> u64 {
    match kind {
        Amount::Zero => 0,
        Amount::Dust => [546, 330, 294, 600, 1000, 10_000][usize::try_from(random % 6).expect("below six")],
        Amount::Equal => [100_000, 1_000_000, 5_000_000, 50_000_000][usize::try_from(of_cell % 4).expect("below four")],
        Amount::Round => (1 + random % 999) * 10_u64.pow(3 + u32::try_from((random >> 32) % 5).expect("below five")),
        // From some hundred satoshis to some hundred coins; each power of two is as likely.
        Amount::Any => 546 + (random & ((1 << (10 + (random >> 58) % 26)) - 1)),
    }
}

fn epochs(txs: u64) -> Vec<Times> {
    let all: u128 = MAINNET.iter().map(|epoch| u128::from(epoch.txs)).sum();
    let scaled = |number: u64| u64::try_from(u128::from(number) * u128::from(txs) / all).expect("a share of the chain");
    let (mut first_block, mut first_cell, mut first_txnum) = (FIRST_BLOCK, 0, FIRST_BLOCK);
    let mut epochs = Vec::new();
    for shape in &MAINNET {
        let cells = scaled(shape.txs).div_ceil(shape.cell_txs() as u64).max(1);
        let blocks = scaled(shape.blocks).max(1);
        epochs.push(Times { shape, first_block, blocks, first_cell, cells, first_txnum });
        first_block += blocks;
        first_cell += cells;
        first_txnum += blocks + cells * shape.cell_txs() as u64;
    }
    epochs
}

/// The first cell of each block: as many for each, but for a random share, and the end.
fn first_cells(seed: u64, epochs: &[Times]) -> Vec<u32> {
    let mut firsts = Vec::new();
    for Times { first_block, blocks, first_cell, cells, .. } in epochs {
        for block in 0..*blocks {
            let late = if block == 0 { 0 } else { keyed(seed ^ 0x626c_6f63, first_block + block) % UNEVEN };
            let thousandths = u128::from(block * 1000 + late) * u128::from(*cells);
            let within = u64::try_from(thousandths / (u128::from(*blocks) * 1000)).expect("at most the cells");
            firsts.push(u32::try_from(first_cell + within).expect("a chain has fewer than 2^32 cells"));
        }
    }
    let end = epochs.last().map_or(0, |last| last.first_cell + last.cells);
    firsts.push(u32::try_from(end).expect("a chain has fewer than 2^32 cells"));
    firsts
}
