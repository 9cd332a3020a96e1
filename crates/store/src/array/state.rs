//! The published state of array files, as the log keeps it: lengths, written ranges, and the checksums of pages that
//! are not whole.
//!
//! ```text
//! states   arrays u8 | array each
//! array    name bytes u8 | name | length u64 LE | ranges u32 LE | range each | edges u32 LE | edge each
//! range    start u64 LE | end u64 LE, in bytes of the file
//! edge     page u64 LE | CRC-32C u32 LE
//! ```

use std::collections::BTreeMap;

use super::extents::Extents;

/// States of arrays by name.
pub(crate) type ArrayStates = BTreeMap<String, ArrayState>;

/// The state of one array's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ArrayState {
    /// Length of the file.
    pub(crate) bytes: u64,
    /// Ranges of bytes that were written. The others are zeros.
    pub(crate) written: Extents,
    /// Checksums of the written bytes of each page that has written bytes and others.
    pub(crate) edges: BTreeMap<u64, u32>,
}

pub(crate) fn encode(states: &ArrayStates) -> Vec<u8> {
    let count = |count: usize| u32::try_from(count).expect("ranges are few: callers write in order").to_le_bytes();
    let mut out = vec![u8::try_from(states.len()).expect("arrays are few")];
    for (name, state) in states {
        out.push(u8::try_from(name.len()).expect("names are short"));
        out.extend(name.as_bytes());
        out.extend(state.bytes.to_le_bytes());
        out.extend(count(state.written.iter().len()));
        for range in state.written.iter() {
            out.extend(range.start.to_le_bytes());
            out.extend(range.end.to_le_bytes());
        }
        out.extend(count(state.edges.len()));
        for (page, checksum) in &state.edges {
            out.extend(page.to_le_bytes());
            out.extend(checksum.to_le_bytes());
        }
    }
    out
}

pub(crate) fn decode(bytes: &[u8]) -> Option<ArrayStates> {
    let mut states = ArrayStates::new();
    let mut left = bytes;
    for _ in 0..take::<1>(&mut left)?[0] {
        let length = usize::from(take::<1>(&mut left)?[0]);
        let (name, rest) = left.split_at_checked(length)?;
        left = rest;
        let mut u64_next = || take(&mut left).map(u64::from_le_bytes);
        let state_bytes = u64_next()?;
        let ranges = u32::from_le_bytes(take(&mut left)?);
        let range = |left: &mut &[u8]| Some(u64::from_le_bytes(take(left)?)..u64::from_le_bytes(take(left)?));
        let ranges: Vec<_> = (0..ranges).map(|_| range(&mut left)).collect::<Option<_>>()?;
        let edges = u32::from_le_bytes(take(&mut left)?);
        let edge = |left: &mut &[u8]| Some((u64::from_le_bytes(take(left)?), u32::from_le_bytes(take(left)?)));
        let edges = (0..edges).map(|_| edge(&mut left)).collect::<Option<_>>()?;
        let state = ArrayState { bytes: state_bytes, written: Extents::of(ranges)?, edges };
        states.insert(str::from_utf8(name).ok()?.to_owned(), state);
    }
    left.is_empty().then_some(states)
}

fn take<const N: usize>(left: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = left.split_first_chunk()?;
    *left = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_and_no_part_of_them_is_taken_for_the_whole() {
        let written = Extents::of([0..10, 20..9000]).unwrap_or_default();
        let state = ArrayState { bytes: 9000, written, edges: BTreeMap::from([(0, 7), (2, 8)]) };
        let states = ArrayStates::from([("txid".to_owned(), state), ("body".to_owned(), ArrayState::default())]);
        let bytes = encode(&states);
        assert_eq!(decode(&bytes), Some(states));
        assert!((0..bytes.len()).all(|end| decode(&bytes[..end]).is_none()));
        assert_eq!(decode(&encode(&ArrayStates::new())), Some(ArrayStates::new()));
    }
}
