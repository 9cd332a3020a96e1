//! Heads: the fields of an event that are known without its body.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Fields of an event that are known without its body.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    pub(crate) id: [u8; 32],
    offset: U64,
    bytes: U32,
    expiration: U32,
}

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = size_of::<Head>();
const _: () = assert!(HEAD_BYTES == 48);

// === impl Head ===

impl Head {
    /// Returns the head of an event whose body lies at `offset`. `expiration` is 0 without one.
    pub(super) fn new(id: [u8; 32], offset: u64, bytes: u32, expiration: u32) -> Self {
        Self { id, offset: offset.into(), bytes: bytes.into(), expiration: expiration.into() }
    }

    /// Returns the offset of the body.
    pub(super) fn offset(&self) -> u64 {
        self.offset.get()
    }

    /// Returns the bytes of the body.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes.get()
    }

    /// Returns the same head with the body at another offset.
    pub(super) fn at(self, offset: u64) -> Self {
        Self { offset: offset.into(), ..self }
    }

    /// Returns the same head for the first bytes of the body.
    pub(crate) fn cut(self, bytes: u32) -> Self {
        Self { bytes: self.bytes().min(bytes).into(), ..self }
    }

    /// Returns the time at which the event expires (NIP-40), seconds since 1970; 0 for never.
    pub(crate) fn expiration(&self) -> u32 {
        self.expiration.get()
    }

    /// Returns true if the event has expired (NIP-40).
    pub(crate) fn is_expired(&self, now: u32) -> bool {
        self.expiration() != 0 && self.expiration() <= now
    }
}
