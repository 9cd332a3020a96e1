//! The manifest: the one value whose publication makes rows visible.
//!
//! ```text
//! version 1 | profile 1 | secret 16 | genesis hash 32 | next txnum LEB128
//! | generation LEB128 | script bucket bits 1 | txnum bucket bits 1 | packed txnums LEB128
//! | state 1 | height LEB128 | hash 32 | live ranges LEB128, then start and length LEB128 each
//! ```
//! State 0: empty (height and hash are zero); 1: the runs of the build hold the blocks up to that one; 2: ready, that
//! block is the tip.
//!
//! Invariant: live ranges ascend, and every txnum of anything written lies below `next`.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash as _;

use crate::bytes::{Cursor, Malformed, put_leb128};
use crate::prefix::Secret;
use crate::source::BlockId;
use crate::txnum::{Height, TxNum};

/// The version of the format of all rows. Another release wrote a store with another number.
const FORMAT_VERSION: u8 = 1;

/// Optional tables of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// With txids, 32 bytes a transaction: a history answer reads no transaction.
    #[default]
    Full,
    /// Without txids: queries hash them from the node's block files.
    Lean,
}

/// The packed rows of the last build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed {
    /// The number in the keys of the rows; a new packing has a new number.
    pub(crate) generation: u32,
    pub(crate) script_bits: u32,
    pub(crate) txnum_bits: u32,
    /// First txnum that is not packed.
    pub(crate) end: TxNum,
}

/// The stage of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing is indexed.
    Empty,
    /// The runs of the build hold all blocks up to this one.
    Building(BlockId),
    /// All rows up to this tip are in place.
    Ready(BlockId),
}

/// Consecutive txnums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TxNumRange {
    pub(crate) start: TxNum,
    pub(crate) end: TxNum,
}

/// The state of the index that a publish makes current.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) profile: Profile,
    pub(crate) secret: Secret,
    pub(crate) genesis: BlockHash,
    /// First txnum that was never assigned.
    pub(crate) next: TxNum,
    pub(crate) packed: Packed,
    pub(crate) state: State,
    pub(crate) live: Vec<TxNumRange>,
}

impl Manifest {
    pub(crate) fn new(profile: Profile, secret: Secret, genesis: BlockHash) -> Self {
        let packed = Packed { generation: 0, script_bits: 0, txnum_bits: 0, end: TxNum(0) };
        Self { profile, secret, genesis, next: TxNum(0), packed, state: State::Empty, live: Vec::new() }
    }

    /// Adds the txnums of a block to the live ranges.
    pub(crate) fn extend(&mut self, start: TxNum, end: TxNum) {
        match self.live.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.live.push(TxNumRange { start, end }),
        }
    }

    /// Removes every txnum from `end` on from the live ranges.
    pub(crate) fn cut(&mut self, end: TxNum) {
        self.live.retain(|range| range.start < end);
        if let Some(last) = self.live.last_mut() {
            last.end = last.end.min(end);
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![
            FORMAT_VERSION,
            match self.profile {
                Profile::Full => 0,
                Profile::Lean => 1,
            },
        ];
        out.extend_from_slice(&self.secret.0);
        out.extend_from_slice(self.genesis.as_byte_array());
        put_leb128(&mut out, self.next.0);
        put_leb128(&mut out, self.packed.generation.into());
        out.push(u8::try_from(self.packed.script_bits).expect("at most 24"));
        out.push(u8::try_from(self.packed.txnum_bits).expect("at most 24"));
        put_leb128(&mut out, self.packed.end.0);
        let (state, tip) = match self.state {
            State::Empty => (0, BlockId { height: Height(0), hash: BlockHash::all_zeros() }),
            State::Building(tip) => (1, tip),
            State::Ready(tip) => (2, tip),
        };
        out.push(state);
        put_leb128(&mut out, tip.height.0.into());
        out.extend_from_slice(tip.hash.as_byte_array());
        put_leb128(&mut out, self.live.len() as u64);
        for range in &self.live {
            put_leb128(&mut out, range.start.0);
            put_leb128(&mut out, range.end.0 - range.start.0);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u8("version")? != FORMAT_VERSION {
            return Err(cursor.malformed("version (the index was written by another release: build it anew)"));
        }
        let profile = match cursor.u8("profile")? {
            0 => Profile::Full,
            1 => Profile::Lean,
            _ => return Err(cursor.malformed("profile")),
        };
        let secret = Secret(*cursor.array("secret")?);
        let genesis = BlockHash::from_byte_array(*cursor.array("genesis hash")?);
        let next = TxNum(cursor.leb128("next txnum")?);
        let packed = Packed {
            generation: small(&mut cursor)?,
            script_bits: cursor.u8("bucket bits")?.into(),
            txnum_bits: cursor.u8("bucket bits")?.into(),
            end: TxNum(cursor.leb128("packed end")?),
        };
        let state = cursor.u8("state")?;
        let height = Height(small(&mut cursor)?);
        let tip = BlockId { height, hash: BlockHash::from_byte_array(*cursor.array("tip")?) };
        let state = match state {
            0 => State::Empty,
            1 => State::Building(tip),
            2 => State::Ready(tip),
            _ => return Err(cursor.malformed("state")),
        };
        let mut live = Vec::new();
        for _ in 0..cursor.leb128("ranges")? {
            let start = cursor.leb128("range start")?;
            let end = start.checked_add(cursor.leb128("range length")?).ok_or_else(|| cursor.malformed("range"))?;
            live.push(TxNumRange { start: TxNum(start), end: TxNum(end) });
        }
        Ok(Self { profile, secret, genesis, next, packed, state, live })
    }
}

fn small(cursor: &mut Cursor<'_>) -> Result<u32, Malformed> {
    let value = cursor.leb128("number")?;
    u32::try_from(value).map_err(|_| cursor.malformed("number"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest() -> Manifest {
        Manifest::new(Profile::Lean, Secret([7; 16]), BlockHash::from_byte_array([1; 32]))
    }

    #[test]
    fn a_manifest_survives_a_round_trip() {
        let mut manifest = manifest();
        assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
        manifest.extend(TxNum(0), TxNum(10));
        manifest.extend(TxNum(10), TxNum(300));
        manifest.extend(TxNum(400), TxNum(500));
        manifest.next = TxNum(600);
        manifest.packed = Packed { generation: 3, script_bits: 18, txnum_bits: 17, end: TxNum(300) };
        manifest.state = State::Ready(BlockId { height: Height(7), hash: BlockHash::from_byte_array([2; 32]) });
        assert_eq!(manifest.live.len(), 2);
        assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
    }

    #[test]
    fn a_cut_leaves_out_what_comes_after() {
        let mut manifest = manifest();
        manifest.extend(TxNum(0), TxNum(10));
        manifest.extend(TxNum(20), TxNum(30));
        manifest.cut(TxNum(25));
        assert_eq!(manifest.live.last().unwrap().end, TxNum(25));
        manifest.cut(TxNum(10));
        assert_eq!(manifest.live, [TxNumRange { start: TxNum(0), end: TxNum(10) }]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes: Vec<u8>) {
            let _ = Manifest::decode(&bytes);
            bytes.insert(0, FORMAT_VERSION);
            let _ = Manifest::decode(&bytes);
        }
    }
}
