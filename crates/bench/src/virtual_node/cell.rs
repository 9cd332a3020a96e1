//! Orders of the transactions of a cell. Each epoch has some; a cell has one of them by its number.
//!
//! Invariant: all orders of an epoch have the same numbers of inputs and outputs of each kind, so running numbers do
//! not depend on the order.

use std::ops::Range;

use birdhouse_testkit::rng::Rng;

use super::epochs::{CLASSES, COINJOIN, Epoch, WAITS};

/// Orders of an epoch.
pub(super) const ORDERS: usize = 32;

/// An order of a cell's transactions, and the kinds of their inputs and outputs.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) txs: Vec<CellTx>,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<Output>,
    /// The inputs, and the outputs, of each queue.
    waiting_inputs: [Vec<u16>; WAITS.len()],
    waiting_outputs: [Vec<u16>; WAITS.len()],
    /// The outputs of each class.
    of_class: [Vec<u16>; CLASSES.len()],
}

/// A transaction by the indexes of its inputs and outputs in the cell.
#[derive(Debug, Clone)]
pub(super) struct CellTx {
    pub(super) inputs: Range<usize>,
    pub(super) outputs: Range<usize>,
}

/// An item of a queue or of a class: which, and its index among those of the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OfKind {
    pub(super) kind: usize,
    pub(super) index: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub(super) tx: usize,
    pub(super) spends: Spends,
}

/// The output that an input spends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Spends {
    /// One of the cell, by its index.
    Inside(usize),
    /// One of a queue.
    Waiting(OfKind),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    pub(super) tx: usize,
    pub(super) vout: u32,
    pub(super) spent: Spent,
    /// The class of its script; `None` for data.
    pub(super) class: Option<OfKind>,
    pub(super) amount: Amount,
}

/// The input that spends an output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Spent {
    Never,
    /// One of the cell, by its index.
    Inside(usize),
    Waiting(OfKind),
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    /// Data has no value.
    Zero,
    Dust,
    /// That of all outputs of a coinjoin.
    Equal,
    /// A round one, as people choose.
    Round,
    Any,
}

impl Order {
    /// Shuffles the transactions of a cell, and the kinds of their inputs and outputs.
    pub(super) fn shuffled(epoch: &Epoch, rng: &mut Rng) -> Self {
        let mut shapes: Vec<_> = epoch.shapes.iter().flat_map(|shape| vec![*shape; shape.count]).collect();
        shuffle(&mut shapes, rng);
        let (mut txs, mut inputs, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
        for (tx, shape) in shapes.into_iter().enumerate() {
            let (first_input, first_output) = (inputs.len(), outputs.len());
            inputs.extend((0..shape.inputs).map(|_| tx));
            let is_coinjoin = (shape.inputs, shape.outputs) == (COINJOIN.inputs, COINJOIN.outputs);
            outputs.extend((0..shape.outputs).map(|vout| (tx, vout, is_coinjoin)));
            txs.push(CellTx { inputs: first_input..inputs.len(), outputs: first_output..outputs.len() });
        }
        let pairs = inner_pairs(epoch.inputs.inside, &inputs, &txs, rng);
        let spends = kinds_of_inputs(epoch, &pairs, inputs.len(), rng);
        let spent = kinds_of_outputs(epoch, &pairs, outputs.len(), rng);
        let classes = classes_of(epoch, &spent, rng);
        let inputs: Vec<Input> = inputs.into_iter().zip(spends).map(|(tx, spends)| Input { tx, spends }).collect();
        let outputs = outputs.into_iter().zip(spent.into_iter().zip(classes));
        let outputs: Vec<Output> = outputs
            .map(|((tx, vout, is_coinjoin), (spent, class))| {
                let amount = match class {
                    None => Amount::Zero,
                    Some(_) if is_coinjoin => Amount::Equal,
                    Some(_) if rng.below(100) < epoch.dust_percent => Amount::Dust,
                    Some(_) if rng.per_mille(300) => Amount::Round,
                    Some(_) => Amount::Any,
                };
                Output { tx, vout: u32::try_from(vout).expect("few outputs"), spent, class, amount }
            })
            .collect();
        Self::indexed(txs, inputs, outputs)
    }

    fn indexed(txs: Vec<CellTx>, inputs: Vec<Input>, outputs: Vec<Output>) -> Self {
        let mut waiting_inputs = <[Vec<u16>; WAITS.len()]>::default();
        let mut waiting_outputs = <[Vec<u16>; WAITS.len()]>::default();
        let mut of_class = <[Vec<u16>; CLASSES.len()]>::default();
        for (at, input) in (0..).zip(&inputs) {
            if let Spends::Waiting(of) = input.spends {
                put(&mut waiting_inputs, of, at);
            }
        }
        for (at, output) in (0..).zip(&outputs) {
            if let Spent::Waiting(of) = output.spent {
                put(&mut waiting_outputs, of, at);
            }
            if let Some(of) = output.class {
                put(&mut of_class, of, at);
            }
        }
        Self { txs, inputs, outputs, waiting_inputs, waiting_outputs, of_class }
    }

    /// Returns the input of a queue by its index among those of the cell.
    pub(super) fn waiting_input(&self, of: OfKind) -> usize {
        self.waiting_inputs[of.kind][of.index].into()
    }

    /// Returns the output of a queue by its index among those of the cell.
    pub(super) fn waiting_output(&self, of: OfKind) -> usize {
        self.waiting_outputs[of.kind][of.index].into()
    }

    /// Returns the output that pays a script of a class, by its index among those of the cell.
    pub(super) fn of_class(&self, of: OfKind) -> usize {
        self.of_class[of.kind][of.index].into()
    }
}

/// Notes where an item is. Items come in the order of their indexes.
fn put(lists: &mut [Vec<u16>], of: OfKind, at: u16) {
    assert_eq!(lists[of.kind].len(), of.index, "the items of a kind are numbered in order");
    lists[of.kind].push(at);
}

/// An input and the output of the same cell that it spends.
#[derive(Debug, Clone, Copy)]
struct Pair {
    input: usize,
    output: usize,
}

/// Chooses inputs that spend outputs of earlier transactions of the cell.
fn inner_pairs(count: usize, inputs: &[usize], txs: &[CellTx], rng: &mut Rng) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::with_capacity(count);
    while pairs.len() < count {
        let input = rng.index(inputs.len());
        let earlier = txs[inputs[input]].outputs.start;
        if earlier == 0 {
            continue;
        }
        let output = rng.index(earlier);
        if pairs.iter().all(|pair| pair.input != input && pair.output != output) {
            pairs.push(Pair { input, output });
        }
    }
    pairs
}

fn kinds_of_inputs(epoch: &Epoch, pairs: &[Pair], len: usize, rng: &mut Rng) -> Vec<Spends> {
    let mut waiting = numbered(&shuffled_kinds(&epoch.inputs.waiting, rng)).into_iter();
    let of = |at| match pairs.iter().find(|pair| pair.input == at) {
        Some(pair) => Spends::Inside(pair.output),
        None => Spends::Waiting(waiting.next().expect("the counts have every input")),
    };
    (0..len).map(of).collect()
}

fn kinds_of_outputs(epoch: &Epoch, pairs: &[Pair], len: usize, rng: &mut Rng) -> Vec<Spent> {
    let mut kinds: Vec<Option<usize>> = shuffled_kinds(&epoch.outputs.waiting, rng).into_iter().map(Some).collect();
    kinds.resize(len - pairs.len(), None);
    shuffle(&mut kinds, rng);
    let mut next = [0; WAITS.len()];
    let mut kinds = kinds.into_iter();
    let of = |at| {
        if let Some(pair) = pairs.iter().find(|pair| pair.output == at) {
            return Spent::Inside(pair.input);
        }
        let Some(kind) = kinds.next().expect("the counts have every output") else { return Spent::Never };
        next[kind] += 1;
        Spent::Waiting(OfKind { kind, index: next[kind] - 1 })
    };
    (0..len).map(of).collect()
}

/// Chooses the class of each output. Data is never spent.
fn classes_of(epoch: &Epoch, spent: &[Spent], rng: &mut Rng) -> Vec<Option<OfKind>> {
    let mut unspent: Vec<usize> = (0..spent.len()).filter(|at| matches!(spent[*at], Spent::Never)).collect();
    shuffle(&mut unspent, rng);
    let data = &unspent[..epoch.data];
    let counts: Vec<usize> = (0..CLASSES.len()).map(|class| epoch.of_class(class)).collect();
    let mut classes = numbered(&shuffled_kinds(&counts, rng)).into_iter();
    let of = |at: usize| if data.contains(&at) { None } else { classes.next() };
    (0..spent.len()).map(of).collect()
}

/// Returns each kind as often as its count says, shuffled.
fn shuffled_kinds(counts: &[usize], rng: &mut Rng) -> Vec<usize> {
    let mut kinds: Vec<usize> = counts.iter().enumerate().flat_map(|(kind, count)| vec![kind; *count]).collect();
    shuffle(&mut kinds, rng);
    kinds
}

/// Numbers the items of each kind.
fn numbered(kinds: &[usize]) -> Vec<OfKind> {
    let mut next = vec![0; kinds.iter().max().map_or(0, |most| most + 1)];
    let number = |kind: &usize| {
        next[*kind] += 1;
        OfKind { kind: *kind, index: next[*kind] - 1 }
    };
    kinds.iter().map(number).collect()
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for at in (1..items.len()).rev() {
        items.swap(at, rng.index(at + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::epochs::MAINNET;
    use super::*;

    #[test]
    fn every_order_has_the_counts_of_its_epoch_and_spends_what_comes_before() {
        for epoch in &MAINNET {
            let mut rng = Rng::new(epoch.blocks);
            for order in (0..ORDERS).map(|_| Order::shuffled(epoch, &mut rng)) {
                assert_eq!(order.txs.len(), epoch.cell_txs());
                assert_eq!(order.waiting_inputs.each_ref().map(Vec::len), epoch.inputs.waiting);
                assert_eq!(order.waiting_outputs.each_ref().map(Vec::len), epoch.outputs.waiting);
                let classes = (0..CLASSES.len()).map(|class| epoch.of_class(class));
                assert!(order.of_class.iter().map(Vec::len).eq(classes));
                for (at, input) in order.inputs.iter().enumerate() {
                    let Spends::Inside(output) = input.spends else { continue };
                    assert!(matches!(order.outputs[output].spent, Spent::Inside(input) if input == at));
                    assert!(order.outputs[output].tx < input.tx);
                }
                let data = order.outputs.iter().filter(|output| output.class.is_none());
                assert!(data.clone().all(|output| matches!(output.spent, Spent::Never)));
                assert_eq!(data.count(), epoch.data);
            }
        }
    }
}
