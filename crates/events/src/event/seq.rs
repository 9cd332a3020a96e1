//! Numbers of events in the log.

use std::fmt;

/// Number of an event in the log, in order of acceptance. Below 2^48.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

// === impl Seq ===

impl Seq {
    /// Little-endian, as on disk.
    pub(crate) fn to_bytes(self) -> [u8; 6] {
        *self.0.to_le_bytes().first_chunk().expect("eight bytes are more than six")
    }

    pub(crate) fn from_bytes(bytes: [u8; 6]) -> Self {
        let mut whole = [0; 8];
        whole[..6].copy_from_slice(&bytes);
        Self(u64::from_le_bytes(whole))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
