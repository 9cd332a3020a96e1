//! The manifest: the one value whose publication makes rows visible.
//!
//! ```text
//! version 1 | profile 1 | key length 1 | secret 16 | genesis hash 32 | next txnum LEB128
//! | state 1 | height LEB128 | hash 32 | finished generations of the build LEB128
//! | in states 3 and 5: merged partitions LEB128 | their scripts LEB128
//! | in states 4 and 5: early rows: height LEB128 | hash 32 | a pack as below | slot of an empty delta 1
//! | packs 1, then each: slot 1 | script bits 1 | txnum bits 1 | txnums LEB128 | scripts LEB128
//! | deltas 1, then each: slot 1 | txnums LEB128, but not of the last
//! | stale ranges LEB128, then start and length LEB128 each | live ranges in the same form
//! ```
//! State 0: empty (height and hash are zero); 1: the runs of the build hold the blocks up to that one; 2: ready, that
//! block is the tip; 3: the runs hold all blocks up to that one, and the rows of the first partitions are in place; 4
//! and 5: as 1 and 3, with early rows, which answer until the build ends.
//!
//! Invariants: live ranges ascend, and every txnum of anything written lies below `next`. Packs, then deltas, cover the
//! txnums from 0 on without a gap, the oldest first; a ready index has at least one delta.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash as _;

use crate::block::{Cursor, Malformed, put_leb128};
use crate::error::Error;
use crate::names::{Height, KeyLength, Profile, Secret, TxNum};
use crate::outside::BlockId;
use crate::rows::{BUCKET_BITS_MAX, DELTA_SLOTS, Delta, PACK_SLOTS, Pack};

/// The version of the format of all rows. Another release wrote a store with another number.
const FORMAT_VERSION: u8 = 3;

/// The stage of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing is indexed.
    Empty,
    /// The runs of the build hold all blocks up to this one.
    Building(BlockId),
    /// The runs of the build hold the whole chain, and are merged into rows.
    Merging(Merging),
    /// All rows up to this tip are in place.
    Ready(BlockId),
}

/// Progress of the last phase of a build in several generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merging {
    /// The last block that is built.
    pub(crate) tip: BlockId,
    /// The first partitions, whose rows are in place.
    pub(crate) partitions: u32,
    /// Scripts of these partitions.
    pub(crate) scripts: u64,
}

/// Rows of the first blocks, which answer while the rest of the chain is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Early {
    /// The last of these blocks.
    pub(crate) tip: BlockId,
    /// All of their rows.
    pub(crate) pack: Pack,
    /// The slot of a delta without rows.
    pub(crate) delta: u8,
}

/// Consecutive txnums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TxNumRange {
    pub(crate) start: TxNum,
    pub(crate) end: TxNum,
}

impl TxNumRange {
    pub(crate) fn contains(self, txnum: TxNum) -> bool {
        self.start <= txnum && txnum < self.end
    }
}

/// The state of the index that a publish makes current.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) profile: Profile,
    pub(crate) key_length: KeyLength,
    pub(crate) secret: Secret,
    pub(crate) genesis: BlockHash,
    /// First txnum that was never assigned.
    pub(crate) next: TxNum,
    pub(crate) state: State,
    /// Generations that an unfinished build has finished.
    pub(crate) built: u32,
    /// Only in an unfinished build.
    pub(crate) early: Option<Early>,
    /// The oldest first.
    pub(crate) packs: Vec<Pack>,
    /// The oldest first; the last one grows.
    pub(crate) deltas: Vec<Delta>,
    /// Txnums that packs have and a reorg made stale, until a merge takes them out.
    pub(crate) stale: Vec<TxNumRange>,
    pub(crate) live: Vec<TxNumRange>,
}

/// The reason why a manifest cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Another release wrote it.
    OtherFormat { found: u8, known: u8 },
    /// It is damaged.
    Malformed(Malformed),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::OtherFormat { found, known } => Self::OtherFormat { found, known },
            Unread::Malformed(malformed) => Self::damaged_manifest(malformed),
        }
    }
}

impl From<Malformed> for Unread {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Manifest {
    /// Returns true if another manifest is of this index. An index that is built anew has another secret.
    pub(crate) fn is_of_same_index(&self, other: &Self) -> bool {
        (self.genesis, self.secret) == (other.genesis, other.secret)
    }

    pub(crate) fn new(profile: Profile, secret: Secret, genesis: BlockHash) -> Self {
        Self {
            profile,
            key_length: KeyLength::of(genesis),
            secret,
            genesis,
            next: TxNum(0),
            state: State::Empty,
            built: 0,
            early: None,
            packs: Vec::new(),
            deltas: Vec::new(),
            stale: Vec::new(),
            live: Vec::new(),
        }
    }

    /// Returns the manifest of the index that readers see: of early rows while the rest is built; `None` before them.
    pub(crate) fn answering(&self) -> Option<Self> {
        if matches!(self.state, State::Ready(_)) {
            return Some(self.clone());
        }
        let Early { tip, pack, delta } = self.early?;
        let mut seen = Self::new(self.profile, self.secret, self.genesis);
        (seen.state, seen.next) = (State::Ready(tip), pack.end);
        (seen.packs, seen.deltas) = (vec![pack], vec![Delta { slot: delta, start: pack.end }]);
        seen.extend(TxNum(0), pack.end);
        Some(seen)
    }

    /// The number of live txnums of a delta, at least `txs_min`. Those that were reserved and never used do not count.
    pub(crate) fn txs_of_delta(&self, delta: &Delta, txs_min: u64) -> u64 {
        let later = self.deltas.iter().map(|other| other.start).filter(|start| *start > delta.start);
        let end = later.min().unwrap_or(self.next);
        txs_min.max(self.live_txs(TxNumRange { start: delta.start, end }))
    }

    /// The number of live txnums of a pack.
    pub(crate) fn txs_of_pack(&self, pack: &Pack) -> u64 {
        self.live_txs(TxNumRange { start: pack.start, end: pack.end })
    }

    /// The number of live txnums within `range`.
    pub(crate) fn live_txs(&self, range: TxNumRange) -> u64 {
        self.live_within(range).iter().map(|live| live.end.0 - live.start.0).sum()
    }

    /// First txnum after the packs.
    pub(super) fn packs_end(&self) -> TxNum {
        self.packs.last().map_or(TxNum(0), |pack| pack.end)
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
        let stale = self.live_within(TxNumRange { start: end, end: self.packs_end() });
        self.stale.extend(stale);
        self.live.retain(|range| range.start < end);
        if let Some(last) = self.live.last_mut() {
            last.end = last.end.min(end);
        }
    }

    /// The live ranges within `range`.
    pub(crate) fn live_within(&self, range: TxNumRange) -> Vec<TxNumRange> {
        let within = self
            .live
            .iter()
            .map(|live| TxNumRange { start: live.start.max(range.start), end: live.end.min(range.end) });
        within.filter(|range| range.start < range.end).collect()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![
            FORMAT_VERSION,
            match self.profile {
                Profile::Full => 0,
                Profile::Lean => 1,
            },
        ];
        out.push(match self.key_length {
            KeyLength::Narrow => 0,
            KeyLength::Wide => 1,
        });
        out.extend_from_slice(&self.secret.0);
        out.extend_from_slice(self.genesis.as_byte_array());
        put_leb128(&mut out, self.next.0);
        let (state, tip) = match (self.state, self.early) {
            (State::Empty, _) => (0, BlockId { height: Height(0), hash: BlockHash::all_zeros() }),
            (State::Building(tip), None) => (1, tip),
            (State::Ready(tip), _) => (2, tip),
            (State::Merging(merging), None) => (3, merging.tip),
            (State::Building(tip), Some(_)) => (4, tip),
            (State::Merging(merging), Some(_)) => (5, merging.tip),
        };
        out.push(state);
        put_block(&mut out, tip);
        put_leb128(&mut out, self.built.into());
        if let State::Merging(merging) = self.state {
            put_leb128(&mut out, merging.partitions.into());
            put_leb128(&mut out, merging.scripts);
        }
        if let (4 | 5, Some(early)) = (state, &self.early) {
            put_block(&mut out, early.tip);
            put_pack(&mut out, &early.pack);
            out.push(early.delta);
        }
        out.push(u8::try_from(self.packs.len()).expect("few packs"));
        self.packs.iter().for_each(|pack| put_pack(&mut out, pack));
        out.push(u8::try_from(self.deltas.len()).expect("few deltas"));
        for (index, delta) in self.deltas.iter().enumerate() {
            out.push(delta.slot);
            if let Some(next) = self.deltas.get(index + 1) {
                put_leb128(&mut out, next.start.0 - delta.start.0);
            }
        }
        put_ranges(&mut out, &self.stale);
        put_ranges(&mut out, &self.live);
        out
    }

    /// The reverse of [`Self::encode`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unread> {
        let mut cursor = Cursor::new(bytes);
        let found = cursor.u8("version")?;
        if found != FORMAT_VERSION {
            return Err(Unread::OtherFormat { found, known: FORMAT_VERSION });
        }
        Ok(Self::decode_fields(&mut cursor)?)
    }

    /// Decodes what follows the version.
    fn decode_fields(cursor: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let profile = match cursor.u8("profile")? {
            0 => Profile::Full,
            1 => Profile::Lean,
            _ => return Err(cursor.malformed("profile")),
        };
        let key_length = match cursor.u8("key length")? {
            0 => KeyLength::Narrow,
            1 => KeyLength::Wide,
            _ => return Err(cursor.malformed("key length")),
        };
        let secret = Secret(*cursor.array("secret")?);
        let genesis = BlockHash::from_byte_array(*cursor.array("genesis hash")?);
        let next = TxNum(cursor.leb128("next txnum")?);
        let code = cursor.u8("state")?;
        let tip = block(cursor)?;
        let built = small(cursor)?;
        let state = match code {
            0 => State::Empty,
            1 | 4 => State::Building(tip),
            2 => State::Ready(tip),
            3 | 5 => {
                State::Merging(Merging { tip, partitions: small(cursor)?, scripts: cursor.leb128("merged scripts")? })
            }
            _ => return Err(cursor.malformed("state")),
        };
        let early = if code >= 4 {
            let tip = block(cursor)?;
            Some(Early { tip, pack: pack(cursor, key_length, TxNum(0))?, delta: slot(cursor, DELTA_SLOTS)? })
        } else {
            None
        };
        let mut at = TxNum(0);
        let mut packs = Vec::new();
        for _ in 0..cursor.u8("packs")? {
            let pack = pack(cursor, key_length, at)?;
            at = pack.end;
            packs.push(pack);
        }
        let mut deltas = Vec::new();
        let count = cursor.u8("deltas")?;
        for index in 1..=count {
            deltas.push(Delta { slot: slot(cursor, DELTA_SLOTS)?, start: at });
            if index < count {
                at = TxNum(at.0.saturating_add(cursor.leb128("txnums of a delta")?));
            }
        }
        if matches!(state, State::Ready(_)) && deltas.is_empty() {
            return Err(cursor.malformed("deltas"));
        }
        let (stale, live) = (ranges(cursor)?, ranges(cursor)?);
        Ok(Self { profile, key_length, secret, genesis, next, state, built, early, packs, deltas, stale, live })
    }
}

fn put_block(out: &mut Vec<u8>, block: BlockId) {
    put_leb128(out, block.height.0.into());
    out.extend_from_slice(block.hash.as_byte_array());
}

fn block(cursor: &mut Cursor<'_>) -> Result<BlockId, Malformed> {
    let height = Height(small(cursor)?);
    Ok(BlockId { height, hash: BlockHash::from_byte_array(*cursor.array("block hash")?) })
}

fn put_pack(out: &mut Vec<u8>, pack: &Pack) {
    out.push(pack.slot);
    out.push(u8::try_from(pack.script_bits).expect("at most 24"));
    out.push(u8::try_from(pack.txnum_bits).expect("at most 24"));
    put_leb128(out, pack.end.0 - pack.start.0);
    put_leb128(out, pack.scripts);
}

fn pack(cursor: &mut Cursor<'_>, key_length: KeyLength, start: TxNum) -> Result<Pack, Malformed> {
    let slot = slot(cursor, PACK_SLOTS)?;
    let (script_bits, txnum_bits) = (bits(cursor)?, bits(cursor)?);
    let end = TxNum(start.0.saturating_add(cursor.leb128("txnums of a pack")?));
    let scripts = cursor.leb128("scripts of a pack")?;
    Ok(Pack { slot, key_length, script_bits, txnum_bits, start, end, scripts })
}

fn put_ranges(out: &mut Vec<u8>, ranges: &[TxNumRange]) {
    put_leb128(out, ranges.len() as u64);
    for range in ranges {
        put_leb128(out, range.start.0);
        put_leb128(out, range.end.0 - range.start.0);
    }
}

fn ranges(cursor: &mut Cursor<'_>) -> Result<Vec<TxNumRange>, Malformed> {
    let mut ranges = Vec::new();
    for _ in 0..cursor.leb128("ranges")? {
        let start = cursor.leb128("range start")?;
        let end = start.checked_add(cursor.leb128("range length")?).ok_or_else(|| cursor.malformed("range"))?;
        ranges.push(TxNumRange { start: TxNum(start), end: TxNum(end) });
    }
    Ok(ranges)
}

fn slot(cursor: &mut Cursor<'_>, slots: usize) -> Result<u8, Malformed> {
    let slot = cursor.u8("slot")?;
    if usize::from(slot) < slots { Ok(slot) } else { Err(cursor.malformed("slot")) }
}

fn bits(cursor: &mut Cursor<'_>) -> Result<u32, Malformed> {
    let bits = u32::from(cursor.u8("bucket bits")?);
    if bits <= BUCKET_BITS_MAX { Ok(bits) } else { Err(cursor.malformed("bucket bits")) }
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
        let pack = |slot, start, end| Pack {
            slot,
            key_length: manifest.key_length,
            script_bits: 18,
            txnum_bits: 17,
            start: TxNum(start),
            end: TxNum(end),
            scripts: 200,
        };
        manifest.packs = vec![pack(2, 0, 300), pack(0, 300, 350)];
        manifest.deltas = vec![Delta { slot: 3, start: TxNum(350) }, Delta { slot: 0, start: TxNum(500) }];
        manifest.stale = vec![TxNumRange { start: TxNum(250), end: TxNum(260) }];
        manifest.built = 3;
        manifest.state = State::Ready(BlockId { height: Height(7), hash: BlockHash::from_byte_array([2; 32]) });
        assert_eq!(manifest.live.len(), 2);
        assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
        let State::Ready(tip) = manifest.state else { unreachable!("it is ready") };
        assert_eq!(manifest.answering().as_ref(), Some(&manifest));
        for state in [State::Merging(Merging { tip, partitions: 48, scripts: 1 << 40 }), State::Building(tip)] {
            manifest.state = state;
            for early in [None, Some(Early { tip, pack: pack(5, 0, 200), delta: 4 })] {
                manifest.early = early;
                assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
            }
        }
    }

    #[test]
    fn readers_of_an_unfinished_build_see_its_early_rows_alone() {
        let mut manifest = manifest();
        assert_eq!(manifest.answering(), None);
        let block = |height| BlockId { height: Height(height), hash: BlockHash::from_byte_array([2; 32]) };
        (manifest.state, manifest.next) = (State::Building(block(9)), TxNum(900));
        assert_eq!(manifest.answering(), None);
        let (key_length, start, end) = (manifest.key_length, TxNum(0), TxNum(200));
        let pack = Pack { slot: 3, key_length, script_bits: 8, txnum_bits: 8, start, end, scripts: 70 };
        manifest.early = Some(Early { tip: block(4), pack, delta: 1 });
        let seen = manifest.answering().unwrap();
        assert_eq!((seen.state, seen.next, seen.early), (State::Ready(block(4)), end, None));
        assert_eq!((seen.packs, seen.deltas), (vec![pack], vec![Delta { slot: 1, start: end }]));
        assert_eq!(seen.live, [TxNumRange { start, end }]);
    }

    #[test]
    fn the_format_of_another_release_is_no_damage() {
        let mut bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
        bytes[0] = 2;
        assert_eq!(Manifest::decode(&bytes), Err(Unread::OtherFormat { found: 2, known: FORMAT_VERSION }));
        assert!(matches!(Manifest::decode(&[]), Err(Unread::Malformed(_))));
    }

    #[test]
    fn numbers_that_were_never_used_count_for_no_delta_and_no_pack() {
        let mut manifest = manifest();
        manifest.extend(TxNum(0), TxNum(10));
        manifest.extend(TxNum(500), TxNum(530));
        let (key_length, start, end) = (manifest.key_length, TxNum(0), TxNum(510));
        let pack = Pack { slot: 0, key_length, script_bits: 1, txnum_bits: 1, start, end, scripts: 1 };
        (manifest.packs, manifest.next) = (vec![pack], TxNum(9000));
        manifest.deltas = vec![Delta { slot: 0, start: TxNum(510) }, Delta { slot: 1, start: TxNum(520) }];
        assert_eq!(manifest.txs_of_pack(&pack), 20);
        let of_deltas = |txs_min| [0, 1].map(|index: usize| manifest.txs_of_delta(&manifest.deltas[index], txs_min));
        assert_eq!((of_deltas(0), of_deltas(17)), ([10, 10], [17, 17]));
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
        assert_eq!(manifest.stale, [], "no pack has the stale txnums");
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
