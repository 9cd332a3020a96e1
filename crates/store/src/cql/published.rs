//! The state that one publish makes current, as the bytes of its row. Pure.
//!
//! ```text
//! version 1 | tables 2 | table.. | arrays 2 | array.. | retired 4 | retired.. | has manifest 1 | manifest
//! table     name | generation 8 | bytes 8
//! array     name | record bytes 4 | records 8 | cuts 4 | freed ranges 4 | (first byte 8 | end 8)..
//! retired   name | generation 8
//! name      bytes 1 | ASCII                                                        (numbers are big-endian)
//! ```
//!
//! `version` is 2. In version 1, which is read, arrays have no `cuts`.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::array::extents::Extents;
use crate::error::{Error, Result};

const VERSION: u8 = 2;
/// The version before, in which arrays did not count their cuts.
const VERSION_1: u8 = 1;

/// Everything that a reader must know to read what one publish covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) tables: BTreeMap<String, TableState>,
    pub(super) arrays: BTreeMap<String, ArrayState>,
    /// Generations that no manifest names any more, and whose rows are still there.
    pub(super) retired: Vec<(String, i64)>,
    /// The caller's manifest.
    pub(super) manifest: Option<Vec<u8>>,
}

/// One table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableState {
    pub(super) generation: i64,
    /// Bytes of keys and values written into the generation.
    pub(super) bytes: u64,
}

/// One array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ArrayState {
    pub(super) record_bytes: usize,
    pub(super) len: u64,
    /// The times that records were cut off: a cut leads to other records with the same numbers.
    pub(super) cuts: u32,
    /// Bytes of chunks that were discarded.
    pub(super) freed: Extents,
}

impl ArrayState {
    /// Bytes that take space.
    pub(super) fn used_bytes(&self) -> u64 {
        let bytes = self.len * self.record_bytes as u64;
        bytes - self.freed.within(0..bytes).map(|range| range.end - range.start).sum::<u64>()
    }
}

impl Published {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_count::<2>(&mut out, self.tables.len());
        for (name, table) in &self.tables {
            put_name(&mut out, name);
            out.extend_from_slice(&table.generation.to_be_bytes());
            out.extend_from_slice(&table.bytes.to_be_bytes());
        }
        put_count::<2>(&mut out, self.arrays.len());
        for (name, array) in &self.arrays {
            put_name(&mut out, name);
            put_count::<4>(&mut out, array.record_bytes);
            out.extend_from_slice(&array.len.to_be_bytes());
            out.extend_from_slice(&array.cuts.to_be_bytes());
            put_count::<4>(&mut out, array.freed.iter().len());
            for range in array.freed.iter() {
                out.extend_from_slice(&range.start.to_be_bytes());
                out.extend_from_slice(&range.end.to_be_bytes());
            }
        }
        put_count::<4>(&mut out, self.retired.len());
        for (name, generation) in &self.retired {
            put_name(&mut out, name);
            out.extend_from_slice(&generation.to_be_bytes());
        }
        out.push(u8::from(self.manifest.is_some()));
        out.extend_from_slice(self.manifest.as_deref().unwrap_or_default());
        out
    }

    /// # Errors
    /// [`Error::Corrupt`] for bytes that encoding cannot produce.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        Fields { bytes, version: VERSION }.published().ok_or_else(|| Error::Corrupt {
            table: "manifest".to_owned(),
            reason: "the state of the store cannot be read; it may be that of a later release".to_owned(),
        })
    }
}

fn put_count<const BYTES: usize>(out: &mut Vec<u8>, count: usize) {
    let wide = (count as u64).to_be_bytes();
    debug_assert!(wide[..8 - BYTES].iter().all(|byte| *byte == 0), "{count} is too large");
    out.extend_from_slice(&wide[8 - BYTES..]);
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    put_count::<1>(out, name.len());
    out.extend_from_slice(name.as_bytes());
}

/// The fields of a state that are still to be read.
struct Fields<'a> {
    bytes: &'a [u8],
    version: u8,
}

impl<'a> Fields<'a> {
    fn published(mut self) -> Option<Published> {
        self.version = *self.take(1)?.first().filter(|version| [VERSION_1, VERSION].contains(version))?;
        let tables = self.many::<2, _>(Self::table)?;
        let arrays = self.many::<2, _>(Self::array)?;
        let retired = self.many::<4, _>(|fields| Some((fields.name()?, fields.i64()?)))?;
        let manifest = match self.take(1)? {
            [0] if self.bytes.is_empty() => None,
            [1] => Some(self.bytes.to_vec()),
            _ => return None,
        };
        let (tables, arrays) = (tables.into_iter().collect(), arrays.into_iter().collect());
        Some(Published { tables, arrays, retired, manifest })
    }

    fn table(&mut self) -> Option<(String, TableState)> {
        Some((self.name()?, TableState { generation: self.i64()?, bytes: self.count::<8>()? }))
    }

    fn array(&mut self) -> Option<(String, ArrayState)> {
        let name = self.name()?;
        let record_bytes = usize::try_from(self.count::<4>()?).ok().filter(|bytes| *bytes > 0)?;
        let len = self.count::<8>()?;
        let cuts = if self.version == VERSION_1 { 0 } else { u32::try_from(self.count::<4>()?).ok()? };
        let freed: Vec<Range<u64>> = self.many::<4, _>(|fields| Some(fields.count::<8>()?..fields.count::<8>()?))?;
        Some((name, ArrayState { record_bytes, len, cuts, freed: Extents::of(freed)? }))
    }

    fn many<const BYTES: usize, T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.count::<BYTES>()?).map(|_| one(self)).collect()
    }

    fn name(&mut self) -> Option<String> {
        let bytes = usize::try_from(self.count::<1>()?).ok()?;
        String::from_utf8(self.take(bytes)?.to_vec()).ok()
    }

    fn i64(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(*self.take(8)?.first_chunk()?))
    }

    fn count<const BYTES: usize>(&mut self) -> Option<u64> {
        Some(self.take(BYTES)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(bytes)?;
        self.bytes = rest;
        Some(taken)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn published() -> Published {
        let freed = Extents::of([4096..8192, 12_288..20_480]).unwrap();
        Published {
            tables: [("rows".to_owned(), TableState { generation: 7 << 24 | 1, bytes: 1 << 40 })].into(),
            arrays: [("txid".to_owned(), ArrayState { record_bytes: 32, len: 99, cuts: 5, freed })].into(),
            retired: vec![("recent.0".to_owned(), 3)],
            manifest: Some(b"manifest".to_vec()),
        }
    }

    #[test]
    fn a_state_survives_a_round_trip() {
        for manifest in [None, Some(vec![]), Some(b"manifest".to_vec())] {
            let state = Published { manifest, ..published() };
            assert_eq!(Published::decode(&state.encode()).unwrap(), state);
        }
        assert_eq!(Published::decode(&Published::default().encode()).unwrap(), Published::default());
    }

    #[test]
    fn a_state_of_version_1_is_read() {
        let mut state = published();
        let mut bytes = state.encode();
        bytes[0] = VERSION_1;
        let cuts = bytes.windows(4).position(|four| four == [0, 0, 0, 5]).unwrap();
        bytes.drain(cuts..cuts + 4);
        state.arrays.values_mut().for_each(|array| array.cuts = 0);
        assert_eq!(Published::decode(&bytes).unwrap(), state);
    }

    #[test]
    fn a_state_that_is_cut_off_is_refused() {
        let state = Published { manifest: None, ..published() }.encode();
        assert!((0..state.len()).all(|len| Published::decode(&state[..len]).is_err()));
        assert!(Published::decode(&[&state[..], &[0]].concat()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes: Vec<u8>) {
            let _ = Published::decode(&bytes);
            bytes.insert(0, VERSION);
            if let Ok(state) = Published::decode(&bytes) {
                prop_assert_eq!(Published::decode(&state.encode()).unwrap(), state);
            }
        }
    }
}
