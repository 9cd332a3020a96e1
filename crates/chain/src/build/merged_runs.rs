//! The runs of all generations as one: whole scripts, ascending by key.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::build::record::Record;
use crate::build::runs::RunReader;
use crate::build::script_state::ScriptState;
use crate::error::Result;
use crate::names::{ScriptKey, TxNum};
use crate::rows::Recent;

/// A merge of the runs of one partition.
#[derive(Default)]
pub(super) struct MergedRuns<'a> {
    /// First txnum of every block.
    first_txnums: &'a [TxNum],
    /// In the order of the chain.
    runs: Vec<RunReader>,
    /// The next script of each run.
    states: Vec<ScriptState>,
    /// Its key, with the number of the run.
    next: BinaryHeap<Reverse<KeyInRun>>,
}

/// The key of a script, then the number of a run, as one number: quicker to compare than their pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct KeyInRun(u128);

impl KeyInRun {
    fn new(key: ScriptKey, run: usize) -> Self {
        Self(key.to_bits() | run as u128)
    }

    fn key(self) -> ScriptKey {
        ScriptKey::from_bits(self.0)
    }

    fn run(self) -> usize {
        (self.0 & u128::from(u32::MAX)) as usize
    }
}

impl<'a> MergedRuns<'a> {
    /// Begins to merge runs, given in the order of the chain.
    pub(super) fn new(mut runs: Vec<RunReader>, first_txnums: &'a [TxNum]) -> Result<Self> {
        let mut states: Vec<_> = runs.iter().map(|_| ScriptState::default()).collect();
        let mut next = BinaryHeap::with_capacity(runs.len());
        for (number, (run, state)) in runs.iter_mut().zip(&mut states).enumerate() {
            next.extend(run.next(state)?.map(|key| Reverse(KeyInRun::new(key, number))));
        }
        Ok(Self { first_txnums, runs, states, next })
    }

    /// Reads the next script into `state`; `None` at the end.
    ///
    /// # Errors
    /// [`Error::UnknownCoin`](crate::error::Error::UnknownCoin) when the script spends an output that no run has.
    pub(super) fn next(&mut self, state: &mut ScriptState) -> Result<Option<ScriptKey>> {
        let Some((key, run)) = self.lowest() else { return Ok(None) };
        std::mem::swap(state, &mut self.states[run]);
        self.replace_lowest()?;
        state.check_whole()?;
        // Equal keys leave the heap in the order of the chain.
        while let Some((_, run)) = self.lowest().filter(|(other, _)| *other == key) {
            state.append(&mut self.states[run], self.first_txnums)?;
            self.replace_lowest()?;
        }
        Ok(Some(key))
    }

    /// The rows of later records of a script that [`next`](Self::next) read.
    pub(super) fn tip_rows(&self, state: &ScriptState, records: &[Record]) -> Result<Vec<(TxNum, Recent)>> {
        Ok(state.tip_rows(records, self.first_txnums)?)
    }

    /// The lowest key of all runs, with its run.
    fn lowest(&self) -> Option<(ScriptKey, usize)> {
        self.next.peek().map(|Reverse(next)| (next.key(), next.run()))
    }

    /// Reads the next script of the run with the lowest key.
    fn replace_lowest(&mut self) -> Result<()> {
        let mut lowest = self.next.peek_mut().expect("a run has the lowest key");
        let run = lowest.0.run();
        match self.runs[run].next(&mut self.states[run])? {
            Some(key) => *lowest = Reverse(KeyInRun::new(key, run)),
            None => drop(PeekMut::pop(lowest)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_runs_order_as_their_pairs() {
        let keys = [(0, 0), (0, 255), (1, 0), (u64::MAX, 1)].map(|(prefix, check)| ScriptKey { prefix, check });
        let mut pairs: Vec<_> = keys.iter().flat_map(|key| [0, 1, 255].map(|run| (*key, run))).collect();
        pairs.reverse();
        pairs.sort_by_key(|(key, run)| KeyInRun::new(*key, *run));
        assert!(pairs.is_sorted());
        for (key, run) in pairs {
            let both = KeyInRun::new(key, run);
            assert_eq!((both.key(), both.run()), (key, run));
        }
    }
}
