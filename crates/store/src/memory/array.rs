//! Arrays of the memory engine: the bytes a file would hold.

use std::sync::Arc;

use parking_lot::RwLock;

use super::data::{Records, position};
use super::faults::Change;
use super::state::State;
use crate::error::{Result, past_end, written_after_cut};
use crate::store::Array;
use crate::table::ArraySpec;

/// A handle of one array of a store.
pub(super) struct MemoryArray {
    pub(super) state: Arc<RwLock<State>>,
    pub(super) spec: ArraySpec,
    pub(super) is_remote: bool,
}

// === impl MemoryArray ===

impl MemoryArray {
    fn records<'a>(&self, state: &'a State) -> &'a Records {
        state.data.arrays.get(self.spec.name).expect("an array stays once it is open")
    }

    /// Writes records and notes the change, so that a crash can lose it.
    fn note(&self, state: &mut State, at: usize, after: &[u8]) {
        let records = state.data.arrays.get_mut(self.spec.name).expect("an array stays once it is open");
        let bytes_before = records.bytes.len();
        let overlap = at.min(bytes_before)..(at + after.len()).min(bytes_before);
        let before = records.bytes[overlap].to_vec();
        records.write(at, after);
        state.journal.push(Change::Records { array: self.spec.name, at, bytes_before, before, after: after.to_vec() });
    }
}

impl Array for MemoryArray {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        let state = self.state.read();
        let records = self.records(&state);
        let mut bytes = Vec::with_capacity(numbers.len() * self.spec.record_bytes);
        for &number in numbers {
            bytes.extend_from_slice(records.run(self.spec.name, number, 1)?);
        }
        Ok(bytes)
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        let state = self.state.read();
        Ok(self.records(&state).run(self.spec.name, first, count)?.to_vec())
    }

    fn visit_run(&self, first: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        let state = self.state.read();
        visit(self.records(&state).run(self.spec.name, first, count)?);
        Ok(())
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }

    fn write(&self, first: u64, records: &[u8]) -> Result<()> {
        let (record_bytes, count) = (self.spec.record_bytes, self.spec.count(records)?);
        if count == 0 {
            return Ok(());
        }
        let mut state = self.state.write();
        let is_cut = |change: &Change| matches!(change, Change::Cut { array, .. } if *array == self.spec.name);
        if state.journal.iter().any(is_cut) {
            return Err(written_after_cut(self.spec.name));
        }
        let spent = state.spend();
        let kept = if spent.is_ok() { count } else { count / 2 };
        if kept > 0 {
            let at = position(first, record_bytes);
            self.note(&mut state, at, &records[..kept * record_bytes]);
        }
        spent
    }

    fn discard(&self, first: u64, count: u64) -> Result<()> {
        let offset = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(self.spec.record_bytes);
        let range = offset(first)..offset(first.saturating_add(count));
        self.state.write().discarded.push((self.spec.name, range));
        Ok(())
    }

    fn len(&self) -> u64 {
        self.records(&self.state.read()).len()
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let mut state = self.state.write();
        let before = self.records(&state).len();
        if len > before {
            return Err(past_end(self.spec.name, len - 1, before));
        }
        if len == before {
            return Ok(());
        }
        state.spend()?;
        let at = position(len, self.spec.record_bytes);
        let records = state.data.arrays.get_mut(self.spec.name).expect("an array stays once it is open");
        let removed = records.bytes.split_off(at);
        state.journal.push(Change::Cut { array: self.spec.name, at, removed });
        Ok(())
    }
}
