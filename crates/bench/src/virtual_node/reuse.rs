//! Payments as a function: the script of each output, and the outputs of each script.
//!
//! The outputs of a class are numbered over the chain. In a window of them, a shuffle gives each output a place, and
//! neighbouring places pay one script.

use birdhouse_testkit::rng::Rng;

use super::epochs::{CLASSES, Epoch, Reuse};
use super::numbers::{InCell, Permutation, Running, keyed};

/// Bits of a window of scripts that are always used.
const ALWAYS_BITS: u32 = 10;

/// The classes of a chain's scripts.
#[derive(Debug)]
pub(super) struct Classes {
    seed: u64,
    classes: Vec<Class>,
}

#[derive(Debug)]
struct Class {
    reuse: Reuse,
    outputs: Running,
}

impl Classes {
    /// Makes the classes of a chain with these epochs, by their numbers of cells.
    pub(super) fn new(seed: u64, epochs: &[(u64, &Epoch)]) -> Self {
        let class = |(class, reuse): (usize, &Reuse)| {
            let in_cells = epochs.iter().map(|(cells, epoch)| (*cells, epoch.of_class(class) as u64));
            let outputs = Running::over(0, in_cells);
            Class { reuse: reuse.fitting(outputs.end()), outputs }
        };
        Self { seed, classes: CLASSES.iter().enumerate().map(class).collect() }
    }

    /// Returns the number of the script that an output of a class pays.
    pub(super) fn script(&self, class: usize, output: InCell) -> u64 {
        let Class { reuse, outputs } = &self.classes[class];
        let number = outputs.number(output);
        let place = |bits| self.permutation(class, bits, number >> bits).apply(number & ((1 << bits) - 1));
        match *reuse {
            Reuse::Times { uses: 1, .. } => number,
            Reuse::Times { uses, bits } => (number >> bits << bits) | (place(bits) / uses),
            Reuse::Always { scripts } => place(ALWAYS_BITS) % scripts,
        }
    }

    /// Returns the outputs that pay a script of a class, in no order.
    pub(super) fn outputs_of(&self, class: usize, script: u64) -> Vec<InCell> {
        let Class { reuse, outputs } = &self.classes[class];
        match *reuse {
            Reuse::Times { uses: 1, .. } => outputs.place(script).into_iter().collect(),
            Reuse::Times { uses, bits } => {
                let (window, group) = (script >> bits, script & ((1 << bits) - 1));
                let permutation = self.permutation(class, bits, window);
                let places = (group * uses).min(1 << bits)..((group + 1) * uses).min(1 << bits);
                places.filter_map(|place| outputs.place(window << bits | permutation.invert(place))).collect()
            }
            Reuse::Always { scripts } => {
                let mut found = Vec::new();
                for window in 0..outputs.end().div_ceil(1 << ALWAYS_BITS) {
                    let permutation = self.permutation(class, ALWAYS_BITS, window);
                    let places = (0..1 << ALWAYS_BITS).filter(|place| place % scripts == script);
                    let number = |place| window << ALWAYS_BITS | permutation.invert(place);
                    found.extend(places.filter_map(|place| outputs.place(number(place))));
                }
                found
            }
        }
    }

    /// Returns the number of a random script of a class. In the last window some have no output.
    pub(super) fn random(&self, class: usize, rng: &mut Rng) -> u64 {
        let Class { reuse, outputs } = &self.classes[class];
        match *reuse {
            Reuse::Times { uses: 1, .. } => rng.below(outputs.end().max(1)),
            Reuse::Times { uses, bits } => {
                let window = rng.below((outputs.end() >> bits) + 1);
                window << bits | rng.below((1 << bits) / uses)
            }
            Reuse::Always { scripts } => rng.below(scripts),
        }
    }

    /// Returns the epoch in which a script may first be paid; the second for those that are always used.
    pub(super) fn first_epoch(&self, class: usize, script: u64) -> usize {
        let Class { reuse, outputs } = &self.classes[class];
        match *reuse {
            Reuse::Times { bits, .. } => outputs.place(script >> bits << bits).map_or(0, |place| place.epoch),
            Reuse::Always { .. } => 1,
        }
    }

    fn permutation(&self, class: usize, bits: u32, window: u64) -> Permutation {
        Permutation::new(bits, keyed(self.seed ^ 0x7573_6564 ^ (class as u64) << 40, window))
    }
}

impl Reuse {
    /// Returns it with windows of which a chain with this number of outputs of the class has some.
    fn fitting(self, outputs: u64) -> Self {
        match self {
            Self::Times { uses, bits } if uses > 1 => {
                let bits = bits.min((outputs / 4).max(2).ilog2());
                Self::Times { uses: uses.min(1 << bits), bits }
            }
            other => other,
        }
    }
}
