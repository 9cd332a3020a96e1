//! Keyed hashes: the prefixes of row keys.
//!
//! Every index draws a secret. Script hashes and txids are hashed with it (SipHash-1-3), and rows carry a prefix of the
//! result. Prefixes are short. Because of the secret nobody can craft two scripts, or two transactions, that share one;
//! [`ScriptKey::check`] distinguishes scripts that share one by accident.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128 as _, SipHasher13 as SipHasher13x128};

use crate::scripthash::ScriptHash;
use crate::sha::Hash256;

/// The secret of one index: 16 random bytes, drawn when the index is created.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The keyed hash of a script, as rows carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ScriptKey {
    /// Orders and finds rows.
    pub(crate) prefix: u64,
    /// Distinguishes scripts with the same prefix; below 2^[`ScriptKey::CHECK_BITS`].
    pub(crate) check: u16,
}

impl ScriptKey {
    /// The bits that fit beside an amount in a record of the build.
    pub(crate) const CHECK_BITS: u32 = 13;
    /// Bytes of a key: prefix and check, big-endian.
    pub(crate) const LEN: usize = 10;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.prefix.to_be_bytes());
        bytes[8..].copy_from_slice(&self.check.to_be_bytes());
        bytes
    }
}

/// Hashes script hashes and txids with the secret of an index.
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
