//! One array of a derived index, with the ends of blocks if their numbers of records differ.

use std::ops::Range;
use std::sync::Arc;

use birdhouse_store::{Array, ArraySpec, Store};

use super::DerivedArray;
use crate::error::{Error, Result};

/// Bytes of the end of a block.
const END_BYTES: usize = 8;

/// An open array. Blocks are counted from the first one that gives records.
pub(super) struct Column {
    spec: ArraySpec,
    records: Arc<dyn Array>,
    /// Where blocks have one record each, there is none.
    ends: Option<Ends>,
}

/// The array of the ends of blocks.
struct Ends {
    spec: ArraySpec,
    array: Arc<dyn Array>,
}

impl Column {
    pub(super) fn open(store: &dyn Store, array: &DerivedArray) -> Result<Self> {
        let (spec, ends) = match *array {
            DerivedArray::PerBlock(spec) => (spec, None),
            DerivedArray::PerItem { records, ends } => {
                let spec = ArraySpec { name: ends, record_bytes: END_BYTES };
                (records, Some(Ends { spec, array: store.array(spec)? }))
            }
        };
        Ok(Self { spec, records: store.array(spec)?, ends })
    }

    /// Cuts what lies above the first `blocks` blocks. Returns true if anything did.
    ///
    /// # Errors
    /// Records of these blocks are missing.
    pub(super) fn cut(&self, blocks: u32) -> Result<bool> {
        let mut has_cut = false;
        if let Some(ends) = &self.ends {
            has_cut |= cut(&*ends.array, ends.spec, blocks.into())?;
        }
        has_cut |= cut(&*self.records, self.spec, self.end(blocks)?)?;
        Ok(has_cut)
    }

    /// Writes the records of the blocks from `first` on.
    pub(super) fn append<'a>(&self, first: u32, of_blocks: impl Iterator<Item = &'a [u8]> + Clone) -> Result<()> {
        let start = self.end(first)?;
        let counts = of_blocks.clone().map(|records| (records.len() / self.spec.record_bytes) as u64);
        match &self.ends {
            None => assert!(counts.clone().all(|count| count == 1), "{}: a block has one record", self.spec.name),
            Some(ends) => {
                let mut end = start;
                let ends_of_blocks = counts.flat_map(|count| {
                    end += count;
                    end.to_le_bytes()
                });
                ends.array.write(first.into(), &ends_of_blocks.collect::<Vec<u8>>())?;
            }
        }
        let records: Vec<u8> = of_blocks.flatten().copied().collect();
        if records.is_empty() {
            return Ok(());
        }
        Ok(self.records.write(start, &records)?)
    }

    /// Reads the records of some blocks, concatenated.
    pub(super) fn read(&self, blocks: Range<u32>) -> Result<Vec<u8>> {
        let (start, count) = (self.end(blocks.start)?, self.count(blocks)?);
        if count == 0 {
            return Ok(Vec::new());
        }
        Ok(self.records.read_run(start, usize::try_from(count).expect("fewer records than bytes of memory"))?)
    }

    /// Returns the number of records of some blocks.
    pub(super) fn count(&self, blocks: Range<u32>) -> Result<u64> {
        let (start, end) = (self.end(blocks.start)?, self.end(blocks.end)?);
        end.checked_sub(start).ok_or_else(|| Error::truncated_array(self.spec, end, start))
    }

    /// Returns the number of records up to the end of each of some blocks, counted from the first one.
    pub(super) fn ends(&self, blocks: Range<u32>) -> Result<Vec<usize>> {
        let Some(ends) = &self.ends else { return Ok((1..=blocks.len()).collect()) };
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let start = self.end(blocks.start)?;
        let bytes = ends.array.read_run(blocks.start.into(), blocks.len())?;
        let (records, _) = bytes.as_chunks();
        let mut before = start;
        let ends = records.iter().map(|record| {
            let end = u64::from_le_bytes(*record);
            let is_less = std::mem::replace(&mut before, end) > end;
            let count = usize::try_from(end.wrapping_sub(start)).ok().filter(|_| !is_less);
            count.ok_or_else(|| Error::truncated_array(self.spec, end, start))
        });
        ends.collect()
    }

    /// Returns the number of records of the first `blocks` blocks.
    fn end(&self, blocks: u32) -> Result<u64> {
        match (&self.ends, blocks.checked_sub(1)) {
            (None, _) => Ok(blocks.into()),
            (Some(_), None) => Ok(0),
            (Some(ends), Some(last)) => {
                let end = ends.array.read_run(last.into(), 1)?;
                Ok(u64::from_le_bytes(end.try_into().expect("a record has 8 bytes")))
            }
        }
    }
}

fn cut(array: &dyn Array, spec: ArraySpec, needed: u64) -> Result<bool> {
    let found = array.len();
    if found < needed {
        return Err(Error::truncated_array(spec, found, needed));
    }
    if found > needed {
        array.truncate(needed)?;
    }
    Ok(found > needed)
}
