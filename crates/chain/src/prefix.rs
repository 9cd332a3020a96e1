//! Keyed hashes: the prefixes of row keys.
//!
//! Every index draws a secret. Script hashes and txids are hashed with it (SipHash-1-3), and rows carry a prefix of the
//! result. Prefixes are short. Because of the secret nobody can craft two scripts, or two transactions, that share one;
//! [`ScriptKey::check`] distinguishes scripts that share one by accident.

use std::hash::Hasher as _;

use bitcoin::BlockHash;
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
    /// Distinguishes scripts with the same prefix; 0 where keys are [narrow](KeyLength::Narrow).
    pub(crate) check: u8,
}

impl ScriptKey {
    /// Bytes of a key: the prefix, big-endian, and the check.
    pub(crate) const LEN: usize = 9;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.prefix.to_be_bytes());
        bytes[8] = self.check;
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let [prefix @ .., check] = bytes;
        Self { prefix: u64::from_be_bytes(prefix), check }
    }
}

/// The bytes of keyed hashes that packed rows keep, chosen once for an index.
///
/// Two scripts whose kept bytes are equal have one history, so the length follows from the size that the chain may
/// reach. A script that no block pays meets the history of another one with a chance of scripts / 2^(8 x bytes):
/// 2^-41 for the 1.5 billion scripts of mainnet with wide keys, 2^-37 for 134 million with narrow ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyLength {
    /// For test networks: 8 bytes of a script's key, 4 bytes of a txid's hash.
    Narrow,
    /// For mainnet: 9 and 5 bytes.
    Wide,
}

impl KeyLength {
    /// The length for the chain with this genesis block.
    pub(crate) fn of(genesis: BlockHash) -> Self {
        let mainnet = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin).block_hash();
        if genesis == mainnet { Self::Wide } else { Self::Narrow }
    }

    /// Bytes of a script's key.
    pub(crate) fn script_bytes(self) -> usize {
        match self {
            Self::Narrow => 8,
            Self::Wide => 9,
        }
    }

    /// Bytes of a txid's keyed hash.
    pub(crate) fn txid_bytes(self) -> usize {
        match self {
            Self::Narrow => 4,
            Self::Wide => 5,
        }
    }
}

/// Hashes script hashes and txids with the secret of an index.
#[derive(Debug, Clone)]
pub(crate) struct Keyer {
    scripts: SipHasher13x128,
    txids: SipHasher13,
    length: KeyLength,
}

impl Keyer {
    pub(crate) fn new(secret: Secret, length: KeyLength) -> Self {
        let scripts = SipHasher13x128::new_with_key(&secret.0);
        Self { scripts, txids: SipHasher13::new_with_key(&secret.0), length }
    }

    pub(crate) fn length(&self) -> KeyLength {
        self.length
    }

    #[inline]
    pub(crate) fn script(&self, scripthash: &ScriptHash) -> ScriptKey {
        let mut hasher = self.scripts;
        hasher.write(&scripthash.0);
        let hash = hasher.finish128();
        let check = match self.length {
            KeyLength::Narrow => 0,
            KeyLength::Wide => hash.h2.to_be_bytes()[0],
        };
        ScriptKey { prefix: hash.h1, check }
    }

    #[inline]
    pub(crate) fn txid(&self, txid: &Hash256) -> u64 {
        let mut hasher = self.txids;
        hasher.write(txid);
        hasher.finish()
    }
}
