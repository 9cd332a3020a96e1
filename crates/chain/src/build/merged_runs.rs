//! The runs of all generations as one: whole scripts, ascending by key.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::build::record::Record;
use crate::build::runs::RunReader;
use crate::build::script_state::ScriptState;
use crate::error::Result;
use crate::prefix::ScriptKey;
use crate::rows::recent::Recent;
use crate::txnum::TxNum;

/// A merge of the runs of one partition.
#[derive(Default)]
pub(crate) struct MergedRuns<'a> {
    /// First txnum of every block.
    first_txnums: &'a [TxNum],
    /// In the order of the chain.
    runs: Vec<RunReader>,
    /// The next script of each run.
    states: Vec<ScriptState>,
    /// Its key, with the number of the run.
    next: BinaryHeap<Reverse<(ScriptKey, usize)>>,
}

impl<'a> MergedRuns<'a> {
    /// Begins to merge runs, given in the order of the chain.
    pub(crate) fn new(runs: Vec<RunReader>, first_txnums: &'a [TxNum]) -> Result<Self> {
        let states = runs.iter().map(|_| ScriptState::default()).collect();
        let mut merged = Self { first_txnums, next: BinaryHeap::with_capacity(runs.len()), runs, states };
        (0..merged.runs.len()).try_for_each(|run| merged.read(run))?;
        Ok(merged)
    }

    /// Reads the next script into `state`; `None` at the end.
    ///
    /// # Errors
    /// [`Error::UnknownCoin`](crate::error::Error::UnknownCoin) when the script spends an output that no run has.
    pub(crate) fn next(&mut self, state: &mut ScriptState) -> Result<Option<ScriptKey>> {
        let Some(Reverse((key, run))) = self.next.pop() else { return Ok(None) };
        std::mem::swap(state, &mut self.states[run]);
        self.read(run)?;
        state.check_whole()?;
        // Equal keys leave the heap in the order of the chain.
        while let Some(&Reverse((_, run))) = self.next.peek().filter(|Reverse((other, _))| *other == key) {
            self.next.pop();
            state.append(&mut self.states[run], self.first_txnums)?;
            self.read(run)?;
        }
        Ok(Some(key))
    }

    /// The rows of later records of a script that [`next`](Self::next) read.
    pub(crate) fn tip_rows(&self, state: &ScriptState, records: &[Record]) -> Result<Vec<(TxNum, Recent)>> {
        Ok(state.tip_rows(records, self.first_txnums)?)
    }

    fn read(&mut self, run: usize) -> Result<()> {
        if let Some(key) = self.runs[run].next(&mut self.states[run])? {
            self.next.push(Reverse((key, run)));
        }
        Ok(())
    }
}
