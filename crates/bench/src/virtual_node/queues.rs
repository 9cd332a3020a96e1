//! Spends as a function: the output of each input, and the input of each output.
//!
//! The input number `i` of a queue spends the output whose number is `i` after a shuffle inside of its window. A window
//! is no longer than the queue ever is, so the output comes first. Before those of cells each queue has outputs of
//! coinbases, for its first inputs.

use super::epochs::{Epoch, WAITS};
use super::numbers::{InCell, Permutation, Running, keyed};
use super::places::OutPlace;

/// Blocks from height 1 on whose coinbases fill the queues, and their outputs in each queue.
pub(super) const FILLING_BLOCKS: u64 = 128;
const FILLING_OUTPUTS: [u64; WAITS.len()] = [32, 16, 16, 16];
/// Outputs of the coinbase of such a block.
pub(super) const FILLING_OUTPUTS_ALL: u64 = 80;

/// The queues of a chain.
#[derive(Debug)]
pub(super) struct Queues {
    seed: u64,
    inputs: Vec<Running>,
    outputs: Vec<Running>,
    /// Bits of the window of each.
    window_bits: Vec<u32>,
}

/// An output of a queue, by its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queued {
    kind: usize,
    number: u64,
}

/// The place of an output of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waiting {
    OfCoinbase(OutPlace),
    InCell(InCell),
}

impl Queues {
    /// Makes the queues of a chain with these epochs, by their numbers of cells.
    pub(super) fn new(seed: u64, epochs: &[(u64, &Epoch)]) -> Self {
        let running = |first, in_cell: &dyn Fn(&Epoch) -> usize| {
            Running::over(first, epochs.iter().map(|(cells, epoch)| (*cells, in_cell(epoch) as u64)))
        };
        let kinds = 0..WAITS.len();
        let inputs: Vec<_> = kinds.clone().map(|kind| running(0, &|epoch| epoch.inputs.waiting[kind])).collect();
        let first = |kind: usize| FILLING_BLOCKS * FILLING_OUTPUTS[kind];
        let outputs: Vec<_> = kinds.map(|kind| running(first(kind), &|epoch| epoch.outputs.waiting[kind])).collect();
        let window_bits = inputs.iter().zip(&outputs).map(|(inputs, outputs)| window_bits(inputs, outputs)).collect();
        Self { seed, inputs, outputs, window_bits }
    }

    /// Returns the output that an input of a queue spends.
    pub(super) fn spent_by(&self, kind: usize, input: InCell) -> Waiting {
        let number = self.shuffled(kind, self.inputs[kind].number(input), Permutation::apply);
        let in_cell = self.outputs[kind].place(number).map(Waiting::InCell);
        in_cell.unwrap_or_else(|| Waiting::OfCoinbase(filling_place(kind, number)))
    }

    /// Returns an output of a cell as one of a queue.
    pub(super) fn queued(&self, kind: usize, output: InCell) -> Queued {
        Queued { kind, number: self.outputs[kind].number(output) }
    }

    /// Returns queue and place of the input that spends an output; `None` if there is none until the end of the chain.
    pub(super) fn spender(&self, Queued { kind, number }: Queued) -> Option<(usize, InCell)> {
        let number = self.shuffled(kind, number, Permutation::invert);
        Some((kind, self.inputs[kind].place(number)?))
    }

    /// Shuffles a number of a queue in its window, or back.
    fn shuffled(&self, kind: usize, number: u64, way: fn(Permutation, u64) -> u64) -> u64 {
        let bits = self.window_bits[kind];
        let window = number >> bits;
        let permutation = Permutation::new(bits, keyed(self.seed ^ 0x7175_6575 ^ (kind as u64) << 40, window));
        window << bits | way(permutation, number & ((1 << bits) - 1))
    }
}

/// The bits of the longest window that a queue always has outputs for.
fn window_bits(inputs: &Running, outputs: &Running) -> u32 {
    // No queue becomes shorter within an epoch. The outputs of the cell itself are not there yet.
    let epochs = inputs.epochs().iter().zip(outputs.epochs()).filter(|(inputs, _)| inputs.in_cell > 0);
    let lengths = epochs.map(|(inputs, outputs)| outputs.first - inputs.first - inputs.in_cell);
    lengths.min().map_or(0, u64::ilog2)
}

/// An output of a coinbase that fills queues, as one of a queue.
pub(super) fn filling(height: u64, vout: u64) -> Queued {
    let mut left = vout;
    for (kind, outputs) in FILLING_OUTPUTS.into_iter().enumerate() {
        match left.checked_sub(outputs) {
            Some(rest) => left = rest,
            None => return Queued { kind, number: (height - 1) * outputs + left },
        }
    }
    unreachable!("a coinbase of these blocks has 80 outputs")
}

/// The reverse of [`filling`].
fn filling_place(kind: usize, number: u64) -> OutPlace {
    let (outputs, before) = (FILLING_OUTPUTS[kind], FILLING_OUTPUTS[..kind].iter().sum::<u64>());
    OutPlace::Coinbase { height: 1 + number / outputs, vout: before + number % outputs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_filling_blocks_are_found_by_their_numbers() {
        assert_eq!(FILLING_OUTPUTS.iter().sum::<u64>(), FILLING_OUTPUTS_ALL);
        for height in [1, 2, FILLING_BLOCKS] {
            for vout in 0..FILLING_OUTPUTS_ALL {
                let Queued { kind, number } = filling(height, vout);
                assert_eq!(filling_place(kind, number), OutPlace::Coinbase { height, vout });
            }
        }
    }
}
