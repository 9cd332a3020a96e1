//! Arrays of the memory engine: the bytes a file would hold.

use super::faults::Change;
use super::{MemoryStore, State};
use crate::error::past_end;
use crate::{Array, ArraySpec, Result};

/// The contents of one array; always whole records.
#[derive(Debug, Clone)]
pub(super) struct Records {
    pub(super) record_bytes: usize,
    pub(super) bytes: Vec<u8>,
}

/// A handle of one array of a store.
pub(super) struct MemoryArray {
    pub(super) store: MemoryStore,
    pub(super) spec: ArraySpec,
}

// === impl Records ===

impl Records {
    pub(super) fn new(record_bytes: usize) -> Self {
        Self { record_bytes, bytes: Vec::new() }
    }

    fn len(&self) -> u64 {
        (self.bytes.len() / self.record_bytes) as u64
    }

    /// Lays `bytes` at byte `at`; a gap becomes zeros.
    pub(super) fn lay(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
    }

    fn run(&self, name: &str, first: u64, count: usize) -> Result<&[u8]> {
        let len = self.len();
        if first.checked_add(count as u64).is_none_or(|end| end > len) {
            return Err(past_end(name, first.max(len), len));
        }
        let at = position(first, self.record_bytes);
        Ok(&self.bytes[at..at + count * self.record_bytes])
    }
}

/// The byte where record `number` begins.
fn position(number: u64, record_bytes: usize) -> usize {
    usize::try_from(number).expect("a number in memory fits") * record_bytes
}

// === impl MemoryArray ===

impl MemoryArray {
    fn records<'a>(&self, state: &'a State) -> &'a Records {
        state.data.arrays.get(self.spec.name).expect("an array stays once it is open")
    }

    /// Lays records in and notes them, so that a crash can lose them.
    fn note(&self, state: &mut State, at: usize, after: &[u8]) {
        let records = state.data.arrays.get_mut(self.spec.name).expect("it stays once it is open");
        let bytes_before = records.bytes.len();
        let overlap = at.min(bytes_before)..(at + after.len()).min(bytes_before);
        let before = records.bytes[overlap].to_vec();
        records.lay(at, after);
        state.journal.push(Change::Records { array: self.spec.name, at, bytes_before, before, after: after.to_vec() });
    }
}

impl Array for MemoryArray {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        let state = self.store.read();
        let records = self.records(&state);
        let mut bytes = Vec::with_capacity(numbers.len() * self.spec.record_bytes);
        for &number in numbers {
            bytes.extend_from_slice(records.run(self.spec.name, number, 1)?);
        }
        Ok(bytes)
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        let state = self.store.read();
        Ok(self.records(&state).run(self.spec.name, first, count)?.to_vec())
    }

    fn view_run(&self, first: u64, count: usize, view: &mut dyn FnMut(&[u8])) -> Result<()> {
        let state = self.store.read();
        view(self.records(&state).run(self.spec.name, first, count)?);
        Ok(())
    }

    fn write(&self, first: u64, records: &[u8]) -> Result<()> {
        let (record_bytes, count) = (self.spec.record_bytes, self.spec.count(records)?);
        if count == 0 {
            return Ok(());
        }
        let mut state = self.store.change();
        let spent = state.spend();
        let kept = if spent.is_ok() { count } else { count / 2 };
        if kept > 0 {
            let at = position(first, record_bytes);
            self.note(&mut state, at, &records[..kept * record_bytes]);
        }
        spent
    }

    fn len(&self) -> u64 {
        self.records(&self.store.read()).len()
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let mut state = self.store.change();
        let before = self.records(&state).len();
        if len > before {
            return Err(past_end(self.spec.name, len - 1, before));
        }
        state.spend()?;
        let at = position(len, self.spec.record_bytes);
        let records = state.data.arrays.get_mut(self.spec.name).expect("it stays once it is open");
        let tail = records.bytes.split_off(at);
        state.journal.push(Change::Cut { array: self.spec.name, at, tail });
        Ok(())
    }
}
