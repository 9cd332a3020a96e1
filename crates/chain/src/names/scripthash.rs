//! Script hashes: the subject of most Electrum requests.

use std::fmt;
use std::str::FromStr;

use bitcoin::hashes::{Hash as _, sha256};

/// SHA-256 of a scriptPubKey, in the byte order of the hash function.
///
/// Displayed byte-reversed, as in the Electrum protocol
/// ([script hashes](https://electrumx.readthedocs.io/en/latest/protocol-basics.html#script-hashes)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptHash(pub [u8; 32]);

/// The error of text that is not 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid script hash")]
pub struct InvalidScriptHash;

impl ScriptHash {
    /// Hashes a scriptPubKey.
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

/// A script hash is a client's secret, so debug output hides it.
impl fmt::Debug for ScriptHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptHash(..)")
    }
}
