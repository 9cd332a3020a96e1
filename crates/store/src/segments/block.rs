//! A block: sorted rows as they lie in a file, the unit that is read and proved.
//!
//! ```text
//! block   kind u8 | payload | CRC-32C of kind and payload, u32 LE
//! kind 0  payload: entries
//! kind 1  payload: bytes of the entries LEB128 | entries, compressed by LZ4
//! entry   shared LEB128 | rest LEB128 | value LEB128 | rest of the key | value
//! ```
//! `shared` counts the leading bytes that a key has in common with the key before, `rest` the bytes that follow them.
//! `value` is 0 for a deleted row, else one more than the value's length.
//!
//! Invariant: keys ascend strictly. Reading proves the checksum and every length: damage is an error, never a missing
//! row.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

const PLAIN: u8 = 0;
const LZ4: u8 = 1;
pub(super) const CHECKSUM_BYTES: usize = 4;
/// No block inflates to more: one holds a single row if that is large, and callers' rows are far smaller.
const INFLATED_BYTES_MAX: u64 = 1 << 30;
const SHARES_MORE: Damage = "a key shares more bytes than the key before it has";

/// The reason why bytes are no block.
pub(super) type Damage = &'static str;

/// A row's value, or `None` where the row was deleted.
pub(super) type Value<'a> = Option<&'a [u8]>;

/// The copy of a [`Value`].
pub(super) type OwnedValue = Option<Vec<u8>>;

/// The form of a block's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    /// LZ4, if that is shorter.
    Lz4,
}

/// Collects the rows of one block.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    entries: Vec<u8>,
    last_key: Vec<u8>,
}

/// The entries of a block: proved, and inflated where they were compressed.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries(pub(super) Arc<[u8]>);

/// A place among the rows of one block, for walks in both directions.
///
/// A walk forward decodes rows as it meets them. The first step back decodes the whole block, because an entry does not
/// say where the one before it begins.
#[derive(Debug, Default)]
pub(super) struct BlockCursor {
    entries: Entries,
    /// Offset of the entry after the current one.
    next: usize,
    key: Vec<u8>,
    value: Option<Range<usize>>,
    is_valid: bool,
    /// Once a step went back: all rows, and the number of the current one.
    decoded: Option<Box<(Block, usize)>>,
}

/// The decoded rows of one block.
#[derive(Debug)]
pub(super) struct Block {
    /// All keys, one after the other.
    keys: Vec<u8>,
    entries: Entries,
    rows: Vec<RowPlace>,
}

#[derive(Debug)]
struct RowPlace {
    /// Within `keys`.
    key: Range<usize>,
    /// Within `entries`; `None` for a deleted row.
    value: Option<Range<usize>>,
}

// === impl BlockBuilder ===

impl BlockBuilder {
    /// Adds a row. Keys must ascend strictly.
    pub(super) fn push(&mut self, key: &[u8], value: Value<'_>) {
        let shared = key.iter().zip(&self.last_key).take_while(|(left, right)| left == right).count();
        put_leb128(&mut self.entries, shared as u64);
        put_leb128(&mut self.entries, (key.len() - shared) as u64);
        put_leb128(&mut self.entries, value.map_or(0, |value| value.len() as u64 + 1));
        self.entries.extend_from_slice(&key[shared..]);
        self.entries.extend_from_slice(value.unwrap_or_default());
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
    }

    /// Bytes of the entries before compression.
    pub(super) fn bytes(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends the block to `out` and begins the next one.
    pub(super) fn finish(&mut self, coding: Coding, out: &mut Vec<u8>) {
        let start = out.len();
        let compressed = (coding == Coding::Lz4).then(|| lz4_flex::block::compress(&self.entries));
        match compressed {
            Some(compressed) if compressed.len() < self.entries.len() => {
                out.push(LZ4);
                put_leb128(out, self.entries.len() as u64);
                out.extend_from_slice(&compressed);
            }
            _ => {
                out.push(PLAIN);
                out.extend_from_slice(&self.entries);
            }
        }
        let checksum = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        self.entries.clear();
        self.last_key.clear();
    }
}

// === impl BlockCursor ===

impl BlockCursor {
    /// The place at the first row.
    pub(super) fn first(entries: Entries) -> Result<Self, Damage> {
        let mut cursor = Self { entries, ..Self::default() };
        cursor.next()?;
        Ok(cursor)
    }

    /// The place at the last row.
    pub(super) fn last(entries: Entries) -> Result<Self, Damage> {
        let block = Block::decode(entries)?;
        let last = block.len().checked_sub(1);
        Ok(Self { is_valid: last.is_some(), decoded: Some(Box::new((block, last.unwrap_or(0)))), ..Self::default() })
    }

    /// The place at the first row whose key is not below `key`.
    pub(super) fn seek(entries: Entries, key: &[u8]) -> Result<Self, Damage> {
        let mut cursor = Self::default();
        if let Some(found) = entries.find(key)? {
            cursor.key.extend_from_slice(&key[..found.entry.shared]);
            cursor.key.extend_from_slice(&entries.0[found.entry.rest]);
            cursor.value = found.entry.value;
            cursor.next = found.next;
            cursor.is_valid = true;
        }
        cursor.entries = entries;
        Ok(cursor)
    }

    /// The row at this place; `None` past either end.
    pub(super) fn row(&self) -> Option<(&[u8], Value<'_>)> {
        self.is_valid.then(|| match &self.decoded {
            Some(decoded) => decoded.0.row(decoded.1),
            None => (&*self.key, self.value.clone().map(|value| &self.entries.0[value])),
        })
    }

    /// Moves to the next row. Returns `false`, and is past the end, when there is none.
    pub(super) fn next(&mut self) -> Result<bool, Damage> {
        if let Some(decoded) = &mut self.decoded {
            let (block, number) = &mut **decoded;
            *number += 1;
            self.is_valid = *number < block.len();
            return Ok(self.is_valid);
        }
        let Some(entry) = Entry::at(&self.entries.0, &mut self.next)? else {
            self.is_valid = false;
            return Ok(false);
        };
        if entry.shared > self.key.len() {
            return Err(SHARES_MORE);
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(&self.entries.0[entry.rest]);
        self.value = entry.value;
        self.is_valid = true;
        Ok(true)
    }

    /// Moves to the row before the current one. Returns `false`, and is past the end, when there is none.
    pub(super) fn previous(&mut self) -> Result<bool, Damage> {
        if self.decoded.is_none() {
            let block = Block::decode(std::mem::take(&mut self.entries))?;
            let number = block.lower_bound(&self.key);
            self.decoded = Some(Box::new((block, number)));
        }
        let (_, number) = &mut **self.decoded.as_mut().expect("decoded just now");
        let before = number.checked_sub(1).filter(|_| self.is_valid);
        self.is_valid = before.is_some();
        *number = before.unwrap_or(0);
        Ok(self.is_valid)
    }
}

// === impl Block ===

impl Block {
    pub(super) fn decode(entries: Entries) -> Result<Self, Damage> {
        let (mut keys, mut rows) = (Vec::new(), Vec::<RowPlace>::new());
        let mut left = 0;
        while let Some(entry) = Entry::at(&entries.0, &mut left)? {
            let before = rows.last().map_or(0..0, |row| row.key.clone());
            if entry.shared > before.len() {
                return Err(SHARES_MORE);
            }
            let start = keys.len();
            keys.extend_from_within(before.start..before.start + entry.shared);
            keys.extend_from_slice(&entries.0[entry.rest]);
            rows.push(RowPlace { key: start..keys.len(), value: entry.value });
        }
        Ok(Self { keys, entries, rows })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn row(&self, number: usize) -> (&[u8], Value<'_>) {
        let RowPlace { key, value } = &self.rows[number];
        (&self.keys[key.clone()], value.clone().map(|value| &self.entries.0[value]))
    }

    /// The number of the first row whose key is not below `key`.
    pub(super) fn lower_bound(&self, key: &[u8]) -> usize {
        self.rows.partition_point(|row| &self.keys[row.key.clone()] < key)
    }
}

// === impl Entries ===

impl Entries {
    /// Proves a block's checksum and inflates its entries.
    pub(super) fn prove(bytes: &[u8]) -> Result<Self, Damage> {
        let (proved, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or("a block is too short")?;
        if crc32c::crc32c(proved) != u32::from_le_bytes(*checksum) {
            return Err("the checksum of a block is wrong");
        }
        let (kind, payload) = proved.split_first().ok_or("a block is too short")?;
        match *kind {
            PLAIN => Ok(Self(payload.into())),
            LZ4 => {
                let mut at = 0;
                let inflated = leb128(payload, &mut at).filter(|bytes| *bytes <= INFLATED_BYTES_MAX);
                let inflated = inflated.and_then(|bytes| usize::try_from(bytes).ok());
                let inflated = inflated.ok_or("the size of a compressed block is wrong")?;
                let entries = lz4_flex::block::decompress(&payload[at..], inflated);
                entries.map(|entries| Self(entries.into())).map_err(|_| "a compressed block cannot be inflated")
            }
            _ => Err("a block is of an unknown kind"),
        }
    }

    /// The value of a key's row: `None` where there is no such row, `Some(None)` where it was deleted.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>, Damage> {
        let found = self.find(key)?.filter(|found| found.is_equal);
        Ok(found.map(|found| found.entry.value.map(|value| &self.0[value])))
    }

    /// The value of the first row whose key is not below `key`.
    pub(super) fn value_from(&self, key: &[u8]) -> Result<Option<Value<'_>>, Damage> {
        Ok(self.find(key)?.map(|found| found.entry.value.map(|value| &self.0[value])))
    }

    /// The first entry whose key is not below `key`.
    ///
    /// No key is put together: it is enough to know how many bytes the last key, which was below `key`, has in common
    /// with it. An entry that shares more with the last key is below `key` for the same reason, one that shares less is
    /// above it, and only one that shares as much is compared.
    fn find(&self, key: &[u8]) -> Result<Option<FoundEntry>, Damage> {
        let (mut next, mut last_bytes, mut common) = (0, 0, 0);
        while let Some(entry) = Entry::at(&self.0, &mut next)? {
            if entry.shared > last_bytes {
                return Err(SHARES_MORE);
            }
            last_bytes = entry.shared + entry.rest.len();
            if entry.shared > common {
                continue;
            }
            if entry.shared < common {
                return Ok(Some(FoundEntry { entry, next, is_equal: false }));
            }
            let (rest, wanted) = (&self.0[entry.rest.clone()], &key[common..]);
            let same = rest.iter().zip(wanted).take_while(|(left, right)| left == right).count();
            match rest[same..].cmp(&wanted[same..]) {
                Ordering::Less => common += same,
                order => return Ok(Some(FoundEntry { entry, next, is_equal: order == Ordering::Equal })),
            }
        }
        Ok(None)
    }
}

/// An entry that a search ended at.
struct FoundEntry {
    entry: Entry,
    /// Offset of the entry after it.
    next: usize,
    is_equal: bool,
}

/// One entry, by places within the entries.
struct Entry {
    shared: usize,
    rest: Range<usize>,
    value: Option<Range<usize>>,
}

impl Entry {
    /// Reads the entry at `left` and moves on; `None` at the end.
    fn at(entries: &[u8], left: &mut usize) -> Result<Option<Self>, Damage> {
        const SHORT: Damage = "a block ends within a row";
        if *left == entries.len() {
            return Ok(None);
        }
        let mut number = || leb128(entries, left).and_then(|number| usize::try_from(number).ok()).ok_or(SHORT);
        let (shared, rest, value) = (number()?, number()?, number()?);
        let rest = *left..left.checked_add(rest).filter(|end| *end <= entries.len()).ok_or(SHORT)?;
        let value_end =
            rest.end.checked_add(value.saturating_sub(1)).filter(|end| *end <= entries.len()).ok_or(SHORT)?;
        let value = (value > 0).then_some(rest.end..value_end);
        *left = value_end;
        Ok(Some(Self { shared, rest, value }))
    }
}

/// Appends a number, seven bits a byte, the lowest first; the high bit says that more follow.
pub(super) fn put_leb128(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Reads a number at `at` and moves on; `None` when there is none.
pub(super) fn leb128(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    fn rows() -> impl Strategy<Value = Rows> {
        let key = prop::collection::vec(prop::sample::select(vec![0_u8, 1, 127, 255]), 0..6);
        prop::collection::btree_map(key, prop::option::weighted(0.8, prop::collection::vec(any::<u8>(), 0..200)), 0..40)
    }

    fn coding() -> impl Strategy<Value = Coding> {
        prop::sample::select(vec![Coding::Plain, Coding::Lz4])
    }

    fn block(rows: &Rows, coding: Coding) -> Vec<u8> {
        let (mut builder, mut bytes) = (BlockBuilder::default(), Vec::new());
        for (key, value) in rows {
            builder.push(key, value.as_deref());
        }
        builder.finish(coding, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn rows_come_back_and_are_found(
            rows in rows(), coding in coding(), asked in prop::collection::vec(any::<u8>(), 0..3),
        ) {
            let bytes = block(&rows, coding);
            let entries = Entries::prove(&bytes).unwrap();
            let decoded = Block::decode(entries.clone()).unwrap();
            let seen: Rows =
                (0..decoded.len()).map(|row| decoded.row(row)).map(|(k, v)| (k.to_vec(), v.map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(&seen, &rows);
            for key in rows.keys().chain([&asked]) {
                let expected = rows.range(key.clone()..).next();
                prop_assert_eq!(entries.value_from(key).unwrap(), expected.map(|(_, value)| value.as_deref()));
                prop_assert_eq!(entries.get(key).unwrap(), rows.get(key).map(Option::as_deref));
                let place = BlockCursor::seek(entries.clone(), key).unwrap();
                prop_assert_eq!(place.row(), expected.map(|(key, value)| (&**key, value.as_deref())));
                prop_assert_eq!(decoded.lower_bound(key), rows.range(..key.clone()).count());
            }
        }

        #[test]
        fn a_cursor_walks_both_ways(rows in rows(), start: prop::sample::Index, steps in prop::collection::vec(any::<bool>(), 0..60)) {
            let entries = Entries::prove(&block(&rows, Coding::Plain)).unwrap();
            let all: Vec<_> = rows.iter().map(|(key, value)| (&**key, value.as_deref())).collect();
            let mut number = if all.is_empty() { 0 } else { start.index(all.len()) };
            let mut cursor = match all.get(number) {
                Some((key, _)) => BlockCursor::seek(entries.clone(), key).unwrap(),
                None => BlockCursor::first(entries.clone()).unwrap(),
            };
            let (first, last) = (BlockCursor::first(entries.clone()).unwrap(), BlockCursor::last(entries).unwrap());
            prop_assert_eq!(first.row(), all.first().copied());
            prop_assert_eq!(last.row(), all.last().copied());
            for forward in steps {
                prop_assert_eq!(cursor.row(), all.get(number).copied());
                let next = if forward { Some(number + 1) } else { number.checked_sub(1) };
                let moved = if forward { cursor.next() } else { cursor.previous() }.unwrap();
                let Some(next) = next.filter(|next| *next < all.len()) else {
                    prop_assert!(!moved && cursor.row().is_none());
                    break;
                };
                prop_assert!(moved);
                number = next;
            }
        }

        #[test]
        fn a_flipped_bit_is_damage(rows in rows(), coding in coding(), place: prop::sample::Index, bit in 0..8_u8) {
            let mut bytes = block(&rows, coding);
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            prop_assert!(Entries::prove(&bytes).is_err());
        }

        #[test]
        fn any_bytes_with_a_right_checksum_are_read_or_refused(mut bytes: Vec<u8>) {
            let checksum = crc32c::crc32c(&bytes);
            bytes.extend(checksum.to_le_bytes());
            if let Ok(entries) = Entries::prove(&bytes) {
                let _ = entries.get(b"key");
                let _ = BlockCursor::seek(entries.clone(), b"key").map(|mut cursor| while cursor.next() == Ok(true) {});
                let _ = BlockCursor::last(entries).map(|mut cursor| while cursor.previous() == Ok(true) {});
            }
        }
    }
}
