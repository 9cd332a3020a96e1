//! The bytes of a change: the operations between two publishes of a store, and the manifest of the second one.
//!
//! ```text
//! change     manifest | operation each | CRC-32C of all bytes before u32 LE
//! operation  kind u8 | name bytes u8 | name of the table or array | content
//! put        0 | key | value
//! delete     1 | key
//! records    2 | bytes of a record u32 LE | first number u64 LE | records
//! cut        3 | bytes of a record u32 LE | length u64 LE
//! clear      4 | nothing
//! load       5 | number of a file u64 LE | its bytes u64 LE
//! load with  6 | as 5; the file is moved in together with the one before it
//! manifest, key, value, records   length u32 LE | bytes
//! ```

use crate::cursor::{Cursor, put_bytes};
use crate::error::{Error, Result};

const PUT: u8 = 0;
const DELETE: u8 = 1;
const RECORDS: u8 = 2;
const CUT: u8 = 3;
const CLEAR: u8 = 4;
const LOAD: u8 = 5;
const LOAD_WITH: u8 = 6;

/// A file of rows that a change moves into a table. The bytes of the change only name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunFile {
    /// Number of the file among those that one [`FeedStore`](crate::FeedStore) keeps.
    pub number: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// An operation on the table or array `name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Put {
        key: &'a [u8],
        value: &'a [u8],
    },
    Delete {
        key: &'a [u8],
    },
    Records {
        record_bytes: u32,
        first: u64,
        records: &'a [u8],
    },
    Cut {
        record_bytes: u32,
        len: u64,
    },
    Clear,
    /// The key ranges of files that are moved in together do not overlap; those of others may.
    Load(RunFile),
    LoadWith(RunFile),
}

/// A decoded change.
#[derive(Debug, PartialEq, Eq)]
pub struct Change<'a> {
    pub(super) manifest: &'a [u8],
    pub(super) operations: Vec<Operation<'a>>,
}

// === impl Operation ===

impl Operation<'_> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let put_u64 = |out: &mut Vec<u8>, number: u64| out.extend(number.to_le_bytes());
        out.push(match self.kind {
            Kind::Put { .. } => PUT,
            Kind::Delete { .. } => DELETE,
            Kind::Records { .. } => RECORDS,
            Kind::Cut { .. } => CUT,
            Kind::Clear => CLEAR,
            Kind::Load(_) => LOAD,
            Kind::LoadWith(_) => LOAD_WITH,
        });
        out.push(u8::try_from(self.name.len()).expect("names are short"));
        out.extend(self.name.as_bytes());
        match self.kind {
            Kind::Put { key, value } => {
                put_bytes(out, key);
                put_bytes(out, value);
            }
            Kind::Delete { key } => put_bytes(out, key),
            Kind::Records { record_bytes, first, records } => {
                out.extend(record_bytes.to_le_bytes());
                put_u64(out, first);
                put_bytes(out, records);
            }
            Kind::Cut { record_bytes, len } => {
                out.extend(record_bytes.to_le_bytes());
                put_u64(out, len);
            }
            Kind::Clear => {}
            Kind::Load(file) | Kind::LoadWith(file) => {
                put_u64(out, file.number);
                put_u64(out, file.bytes);
            }
        }
    }

    fn decode<'a>(cursor: &mut Cursor<'a>) -> Option<Operation<'a>> {
        let [kind, length] = cursor.array()?;
        let name = str::from_utf8(cursor.cut(usize::from(length))?).ok()?;
        let kind = match kind {
            PUT => Kind::Put { key: cursor.bytes()?, value: cursor.bytes()? },
            DELETE => Kind::Delete { key: cursor.bytes()? },
            RECORDS => Kind::Records { record_bytes: cursor.u32()?, first: cursor.u64()?, records: cursor.bytes()? },
            CUT => Kind::Cut { record_bytes: cursor.u32()?, len: cursor.u64()? },
            CLEAR => Kind::Clear,
            LOAD => Kind::Load(RunFile { number: cursor.u64()?, bytes: cursor.u64()? }),
            LOAD_WITH => Kind::LoadWith(RunFile { number: cursor.u64()?, bytes: cursor.u64()? }),
            _ => return None,
        };
        Some(Operation { name, kind })
    }
}

// === impl Change ===

/// Returns the bytes of the change that publishes `manifest` after encoded operations.
pub(super) fn sealed(manifest: &[u8], operations: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(manifest.len() + operations.len() + 8);
    put_bytes(&mut out, manifest);
    out.extend_from_slice(operations);
    let checksum = crc32c::crc32c(&out);
    out.extend(checksum.to_le_bytes());
    out
}

impl<'a> Change<'a> {
    /// Reads the bytes of a change.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when they are damaged, or not those of a change.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let damaged = || Error::Corrupt { table: "(change)".to_owned(), reason: "its bytes are damaged".to_owned() };
        Self::decoded(bytes).ok_or_else(damaged)
    }

    fn decoded(bytes: &'a [u8]) -> Option<Self> {
        let (proved, checksum) = bytes.split_last_chunk()?;
        if crc32c::crc32c(proved) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let mut cursor = Cursor::new(proved);
        let mut change = Self { manifest: cursor.bytes()?, operations: Vec::new() };
        while !cursor.is_empty() {
            change.operations.push(Operation::decode(&mut cursor)?);
        }
        Some(change)
    }

    /// Returns the manifest that it publishes.
    pub fn manifest(&self) -> &'a [u8] {
        self.manifest
    }

    /// Returns the files that it moves in. They must be there before it is applied.
    pub fn files(&self) -> impl Iterator<Item = RunFile> {
        self.operations.iter().filter_map(|operation| match operation.kind {
            Kind::Load(file) | Kind::LoadWith(file) => Some(file),
            _ => None,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn all_kinds() -> [Operation<'static>; 7] {
        let kinds = [
            Kind::Put { key: b"key", value: b"" },
            Kind::Delete { key: b"gone" },
            Kind::Records { record_bytes: 2, first: 7, records: b"aabb" },
            Kind::Cut { record_bytes: 2, len: 8 },
            Kind::Clear,
            Kind::Load(RunFile { number: 3, bytes: 4096 }),
            Kind::LoadWith(RunFile { number: 4, bytes: 4096 }),
        ];
        kinds.map(|kind| Operation { name: "name", kind })
    }

    fn encoded() -> Vec<u8> {
        let mut operations = Vec::new();
        for operation in all_kinds() {
            operation.encode(&mut operations);
        }
        sealed(b"manifest", &operations)
    }

    #[test]
    fn a_change_comes_back_and_every_flipped_bit_or_cut_is_damage() {
        let bytes = encoded();
        let change = Change::decode(&bytes).unwrap();
        assert_eq!((change.manifest(), &change.operations[..]), (&b"manifest"[..], &all_kinds()[..]));
        assert_eq!(change.files().collect::<Vec<_>>(), [3, 4].map(|number| RunFile { number, bytes: 4096 }));
        for bit in 0..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Change::decode(&bytes).is_err(), "bit {bit}");
        }
        assert!((0..bytes.len()).all(|end| Change::decode(&bytes[..end]).is_err()));
    }

    #[test]
    fn bytes_of_a_small_change() {
        let mut operations = Vec::new();
        Operation { name: "t", kind: Kind::Put { key: b"k", value: b"v" } }.encode(&mut operations);
        let bytes = sealed(b"m", &operations);
        let (proved, checksum) = bytes.split_at(bytes.len() - 4);
        assert_eq!(proved, b"\x01\0\0\0m\0\x01t\x01\0\0\0k\x01\0\0\0v");
        assert_eq!(checksum, crc32c::crc32c(proved).to_le_bytes());
    }
}
