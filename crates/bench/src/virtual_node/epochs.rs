//! The shape of mainnet by epoch: rounded figures of public statistics, from memory, not counted from blocks.
//!
//! A *cell* is a group of transactions in one block. All cells of an epoch have the same transactions, in different
//! orders, so everything in them can be numbered without a table. An epoch has two lists of counts for its cells, one
//! for inputs and one for outputs, by the [wait](Wait) between an output and its spend.

/// The time between an output and the transaction that spends it.
///
/// An output waits in the queue of its kind, in which a window of outputs is shuffled: windows have from some thousand
/// outputs (`Short`) to a hundred million (`Years`, at full size).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wait {
    Short,
    Days,
    Months,
    Years,
}

/// Every queue.
pub(super) const WAITS: [Wait; 4] = [Wait::Short, Wait::Days, Wait::Months, Wait::Years];

/// Inputs, or outputs, of a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    /// Those that a transaction of the same cell spends.
    pub(super) inside: usize,
    /// Those of each queue.
    pub(super) waiting: [usize; WAITS.len()],
}

/// Transactions of one shape in a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) count: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// The scripts that outputs pay: how often each is used, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    /// Each script is paid this often, by outputs among 2^`bits` consecutive ones of the class.
    Times { uses: u64, bits: u32 },
    /// This many scripts share the outputs of the whole chain.
    Always { scripts: u64 },
}

/// Every class of scripts.
pub(super) const CLASSES: [Reuse; 9] = [
    Reuse::Times { uses: 1, bits: 0 },
    Reuse::Times { uses: 2, bits: 14 },
    Reuse::Times { uses: 3, bits: 16 },
    Reuse::Times { uses: 8, bits: 18 },
    Reuse::Times { uses: 40, bits: 20 },
    Reuse::Times { uses: 300, bits: 21 },
    Reuse::Times { uses: 2000, bits: 23 },
    Reuse::Times { uses: 50_000, bits: 24 },
    Reuse::Always { scripts: 8 },
];

/// Forms of scripts, in the order of [`Epoch::forms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    P2pk,
    P2pkh,
    P2sh,
    P2wpkh,
    P2wsh,
    P2tr,
    /// One of two keys, in the open.
    Multisig,
}

/// Every form.
pub(super) const FORMS: [Form; 7] =
    [Form::P2pk, Form::P2pkh, Form::P2sh, Form::P2wpkh, Form::P2wsh, Form::P2tr, Form::Multisig];

/// A time of mainnet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    /// Blocks on mainnet.
    pub(super) blocks: u64,
    /// Transactions besides coinbases on mainnet.
    pub(super) txs: u64,
    pub(super) shapes: &'static [Shape],
    pub(super) inputs: Counts,
    pub(super) outputs: Counts,
    /// Outputs of a cell that carry data and pay no script.
    pub(super) data: usize,
    /// Outputs of a cell by class of their script; those left over pay a script once.
    pub(super) reused: [usize; CLASSES.len() - 1],
    /// New scripts by form, in percent.
    pub(super) forms: [u64; FORMS.len()],
    /// Outputs of some hundred satoshis, in percent.
    pub(super) dust_percent: u64,
    /// Spends of P2TR by a script with data, in percent.
    pub(super) inscribed_percent: u64,
}

const fn shape(count: usize, inputs: usize, outputs: usize) -> Shape {
    Shape { count, inputs, outputs }
}

/// Cells of the first two years: blocks had few transactions.
const EARLY: &[Shape] = &[shape(10, 1, 2), shape(3, 2, 2), shape(2, 1, 1), shape(1, 3, 1)];
/// Payments with change, payouts to many, consolidations.
const CLASSIC: &[Shape] = &[
    shape(68, 1, 2),
    shape(28, 2, 2),
    shape(8, 1, 1),
    shape(12, 4, 1),
    shape(6, 10, 2),
    shape(4, 1, 12),
    shape(1, 40, 1),
    shape(1, 1, 60),
];
/// The same with larger batches, and coinjoins.
const MODERN: &[Shape] = &[
    shape(66, 1, 2),
    shape(26, 2, 2),
    shape(14, 1, 1),
    shape(10, 4, 1),
    shape(6, 12, 2),
    shape(3, 1, 12),
    COINJOIN,
    shape(1, 50, 1),
    shape(1, 1, 55),
];
/// Inscriptions and tokens among them.
const INSCRIBED: &[Shape] = &[
    shape(40, 1, 2),
    shape(20, 2, 2),
    shape(40, 1, 1),
    shape(8, 4, 1),
    shape(5, 12, 2),
    shape(12, 2, 3),
    COINJOIN,
    shape(1, 60, 1),
    shape(1, 1, 110),
];
/// The shape of a transaction whose outputs have one value.
pub(super) const COINJOIN: Shape = shape(1, 8, 8);

const CLASSIC_REUSE: [usize; 8] = [30, 30, 40, 34, 26, 24, 30, 3];
const MODERN_REUSE: [usize; 8] = [30, 30, 40, 34, 24, 22, 20, 2];

const fn counts(inside: usize, waiting: [usize; 4]) -> Counts {
    Counts { inside, waiting }
}

/// The epochs of mainnet up to 2026.
pub(super) const MAINNET: [Epoch; 9] = [
    // 2009 and 2010.
    Epoch {
        blocks: 100_000,
        txs: 120_000,
        shapes: EARLY,
        inputs: counts(1, [20, 0, 0, 0]),
        outputs: counts(1, [20, 3, 2, 2]),
        data: 0,
        reused: [2, 0, 2, 2, 1, 0, 0, 0],
        forms: [40, 60, 0, 0, 0, 0, 0],
        dust_percent: 0,
        inscribed_percent: 0,
    },
    // 2011 and 2012.
    Epoch {
        blocks: 115_000,
        txs: 10_500_000,
        shapes: CLASSIC,
        inputs: counts(24, [200, 61, 0, 0]),
        outputs: counts(24, [200, 70, 14, 10]),
        data: 0,
        reused: CLASSIC_REUSE,
        forms: [3, 96, 0, 0, 0, 0, 1],
        dust_percent: 3,
        inscribed_percent: 0,
    },
    // 2013 and 2014.
    Epoch {
        blocks: 122_000,
        txs: 45_000_000,
        shapes: CLASSIC,
        inputs: counts(24, [185, 66, 10, 0]),
        outputs: counts(24, [185, 66, 22, 15]),
        data: 1,
        reused: CLASSIC_REUSE,
        forms: [0, 95, 4, 0, 0, 0, 1],
        dust_percent: 6,
        inscribed_percent: 0,
    },
    // 2015 to the middle of 2017.
    Epoch {
        blocks: 140_000,
        txs: 185_000_000,
        shapes: CLASSIC,
        inputs: counts(28, [165, 66, 20, 6]),
        outputs: counts(28, [165, 66, 26, 18]),
        data: 4,
        reused: CLASSIC_REUSE,
        forms: [0, 82, 18, 0, 0, 0, 0],
        dust_percent: 4,
        inscribed_percent: 0,
    },
    // From segwit to 2019.
    Epoch {
        blocks: 133_000,
        txs: 240_000_000,
        shapes: MODERN,
        inputs: counts(30, [170, 72, 24, 10]),
        outputs: counts(30, [170, 72, 25, 11]),
        data: 5,
        reused: MODERN_REUSE,
        forms: [0, 58, 36, 5, 1, 0, 0],
        dust_percent: 2,
        inscribed_percent: 0,
    },
    // 2020 and 2021.
    Epoch {
        blocks: 99_000,
        txs: 190_000_000,
        shapes: MODERN,
        inputs: counts(30, [170, 72, 24, 10]),
        outputs: counts(30, [170, 72, 25, 11]),
        data: 5,
        reused: MODERN_REUSE,
        forms: [0, 44, 33, 18, 5, 0, 0],
        dust_percent: 2,
        inscribed_percent: 0,
    },
    // From taproot to 2022.
    Epoch {
        blocks: 60_000,
        txs: 100_000_000,
        shapes: MODERN,
        inputs: counts(30, [170, 72, 24, 10]),
        outputs: counts(30, [170, 72, 25, 11]),
        data: 5,
        reused: MODERN_REUSE,
        forms: [0, 34, 25, 34, 5, 2, 0],
        dust_percent: 2,
        inscribed_percent: 2,
    },
    // 2023 and 2024.
    Epoch {
        blocks: 108_000,
        txs: 335_000_000,
        shapes: INSCRIBED,
        inputs: counts(40, [165, 65, 24, 11]),
        outputs: counts(40, [165, 65, 26, 15]),
        data: 16,
        reused: MODERN_REUSE,
        forms: [0, 14, 12, 36, 5, 33, 0],
        dust_percent: 25,
        inscribed_percent: 30,
    },
    // 2025 and 2026.
    Epoch {
        blocks: 75_000,
        txs: 194_000_000,
        shapes: MODERN,
        inputs: counts(30, [170, 72, 24, 10]),
        outputs: counts(30, [170, 72, 25, 11]),
        data: 8,
        reused: MODERN_REUSE,
        forms: [0, 10, 10, 45, 5, 30, 0],
        dust_percent: 10,
        inscribed_percent: 10,
    },
];

impl Epoch {
    /// Returns the transactions of a cell.
    pub(super) fn cell_txs(&self) -> usize {
        self.shapes.iter().map(|shape| shape.count).sum()
    }

    /// Returns the outputs of a cell.
    pub(super) fn cell_outputs(&self) -> usize {
        self.shapes.iter().map(|shape| shape.count * shape.outputs).sum()
    }

    /// Returns the outputs of a cell that pay scripts of a class.
    pub(super) fn of_class(&self, class: usize) -> usize {
        let reused: usize = self.reused.iter().sum();
        class.checked_sub(1).map_or_else(|| self.cell_outputs() - self.data - reused, |reused| self.reused[reused])
    }

    /// Returns the form of a new script by a random number.
    pub(super) fn form(&self, random: u64) -> Form {
        let mut left = random % 100;
        for (form, percent) in FORMS.into_iter().zip(self.forms) {
            match left.checked_sub(percent) {
                Some(rest) => left = rest,
                None => return form,
            }
        }
        Form::P2pkh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(counts: &Counts) -> usize {
        counts.inside + counts.waiting.iter().sum::<usize>()
    }

    #[test]
    fn every_input_has_an_output_and_the_chain_has_the_size_of_mainnet() {
        for epoch in MAINNET {
            let inputs: usize = epoch.shapes.iter().map(|shape| shape.count * shape.inputs).sum();
            assert_eq!(sum(&epoch.inputs), inputs);
            assert!(sum(&epoch.outputs) + epoch.data <= epoch.cell_outputs());
            assert_eq!(epoch.inputs.inside, epoch.outputs.inside);
            // No queue becomes shorter.
            assert!(epoch.inputs.waiting.iter().zip(epoch.outputs.waiting).all(|(spent, funded)| *spent <= funded));
            assert_eq!(epoch.forms.iter().sum::<u64>(), 100);
            let classes: usize = (0..CLASSES.len()).map(|class| epoch.of_class(class)).sum();
            assert_eq!(classes + epoch.data, epoch.cell_outputs());
        }
        let sum = |number: fn(&Epoch) -> u64| MAINNET.iter().map(number).sum::<u64>();
        assert_eq!((sum(|epoch| epoch.blocks), sum(|epoch| epoch.txs)), (952_000, 1_299_620_000));
    }
}
