//! The keyed hashes that rows are found by.
//!
//! Every index draws a secret; script hashes and txids are hashed with it (SipHash-1-3) and rows carry a
//! prefix of the outcome. Prefixes are short, and because of the secret nobody can craft two scripts, or
//! two transactions, that share one; what meets by accident is told apart by [`ScriptKey::check`].

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128 as _, SipHasher13 as SipHasher13x128};

use crate::scripthash::ScriptHash;
use crate::sha::Hash256;

/// The secret of one index: 16 random bytes, drawn when it is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What rows know of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ScriptKey {
    /// Orders and finds rows.
    pub(crate) prefix: u64,
    /// Tells scripts with the same prefix apart; below 2^[`ScriptKey::CHECK_BITS`].
    pub(crate) check: u16,
}

impl ScriptKey {
    /// As many bits as fit beside an amount in a build record.
    pub(crate) const CHECK_BITS: u32 = 13;
    /// Bytes of a key in a row of its own: prefix and check, big-endian.
    pub(crate) const LEN: usize = 10;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.prefix.to_be_bytes());
        bytes[8..].copy_from_slice(&self.check.to_be_bytes());
        bytes
    }
}

/// Makes keys.
#[derive(Debug, Clone)]
pub(crate) struct Keyer {
    scripts: SipHasher13x128,
    txids: SipHasher13,
}

impl Keyer {
    pub(crate) fn new(secret: Secret) -> Self {
        Self { scripts: SipHasher13x128::new_with_key(&secret.0), txids: SipHasher13::new_with_key(&secret.0) }
    }

    #[inline]
    pub(crate) fn script(&self, scripthash: &ScriptHash) -> ScriptKey {
        let mut hasher = self.scripts;
        hasher.write(&scripthash.0);
        let hash = hasher.finish128();
        let check = hash.h2 >> (64 - ScriptKey::CHECK_BITS);
        ScriptKey { prefix: hash.h1, check: u16::try_from(check).expect("13 bits") }
    }

    #[inline]
    pub(crate) fn txid(&self, txid: &Hash256) -> u64 {
        let mut hasher = self.txids;
        hasher.write(txid);
        hasher.finish()
    }
}
