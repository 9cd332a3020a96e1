//! Script hashes: what an Electrum client asks about.

use std::fmt;
use std::str::FromStr;

use bitcoin::hashes::{Hash as _, sha256};

/// SHA-256 of a scriptPubKey, in the order the hash function gives it.
///
/// Shown byte-reversed, as the Electrum protocol does (protocol basics, "Script Hashes").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptHash(pub [u8; 32]);

/// Not 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid script hash")]
pub struct InvalidScriptHash;

impl ScriptHash {
    /// The hash of a scriptPubKey.
    pub fn of(script_pubkey: &[u8]) -> Self {
        Self(sha256::Hash::hash(script_pubkey).to_byte_array())
    }
}

impl FromStr for ScriptHash {
    type Err = InvalidScriptHash;

    fn from_str(hex: &str) -> Result<Self, InvalidScriptHash> {
        // `sha256d::Hash` reads its 64 digits byte-reversed, which is Electrum's order.
        let hash: bitcoin::hashes::sha256d::Hash = hex.parse().map_err(|_| InvalidScriptHash)?;
        Ok(Self(hash.to_byte_array()))
    }
}

impl fmt::Display for ScriptHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Script hashes are a client's secret: even a debug print shows only that there is one.
impl fmt::Debug for ScriptHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptHash(..)")
    }
}
