//! Keyed hashes: the prefixes of row keys.
//!
//! Every index draws a secret. Script hashes and txids are hashed with it (SipHash-1-3), and rows carry a prefix of the
//! result. Prefixes are short. Because of the secret nobody can craft two scripts, or two transactions, that share one;
//! [`ScriptKey::check`] distinguishes scripts that share one by accident.

use bitcoin::BlockHash;

use crate::names::scripthash::ScriptHash;
use crate::names::sha::Hash256;

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

    /// The key as the first bits of a number.
    pub(crate) fn to_bits(self) -> u128 {
        u128::from(self.prefix) << 64 | u128::from(self.check) << 56
    }

    /// The reverse of [`Self::to_bits`].
    pub(crate) fn from_bits(bits: u128) -> Self {
        let [prefix @ .., check, _, _, _, _, _, _, _] = bits.to_be_bytes();
        Self { prefix: u64::from_be_bytes(prefix), check }
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
///
/// Every table keeps the same bytes, so packs can be merged without the scripts themselves.
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
    scripts: SipState,
    txids: SipState,
    length: KeyLength,
}

impl Keyer {
    pub(crate) fn new(secret: Secret, length: KeyLength) -> Self {
        let txids = SipState::new(secret);
        let [v0, v1, v2, v3] = txids.0;
        // The variant with a result of 128 bits.
        Self { scripts: SipState([v0, v1 ^ 0xee, v2, v3]), txids, length }
    }

    pub(crate) fn length(&self) -> KeyLength {
        self.length
    }

    #[inline]
    pub(crate) fn script(&self, scripthash: &ScriptHash) -> ScriptKey {
        let mut state = self.scripts.absorb(&scripthash.0);
        let prefix = state.finish(0xee);
        let check = match self.length {
            KeyLength::Narrow => 0,
            KeyLength::Wide => {
                state.0[1] ^= 0xdd;
                state.finish(0).to_be_bytes()[0]
            }
        };
        ScriptKey { prefix, check }
    }

    #[inline]
    pub(crate) fn txid(&self, txid: &Hash256) -> u64 {
        self.txids.absorb(txid).finish(0xff)
    }
}

/// The state of SipHash-1-3 ([paper](https://www.aumasson.jp/siphash/siphash.pdf)), for messages of 32 bytes. A build
/// hashes each script and each txid: the buffer that the crate keeps for messages of any length costs half of the time.
#[derive(Debug, Clone, Copy)]
struct SipState([u64; 4]);

impl SipState {
    fn new(secret: Secret) -> Self {
        let [k0, k1] = [0, 8].map(|at| u64::from_le_bytes(secret.0[at..at + 8].try_into().expect("eight bytes")));
        Self([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.0;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v1);
        *v0 = v0.wrapping_add(*v3);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.rotate_left(32);
    }

    #[inline]
    fn absorb(mut self, message: &[u8; 32]) -> Self {
        const LAST_WORD: u64 = 32 << 56;
        let words = message.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        for word in words.chain([LAST_WORD]) {
            self.0[3] ^= word;
            self.round();
            self.0[0] ^= word;
        }
        self
    }

    #[inline]
    fn finish(&mut self, end: u64) -> u64 {
        self.0[2] ^= end;
        self.round();
        self.round();
        self.round();
        self.0.iter().fold(0, |folded, word| folded ^ word)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher as _;

    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;
    use siphasher::sip128::{Hasher128 as _, SipHasher13 as SipHasher13x128};

    use super::*;

    proptest! {
        #[test]
        fn keys_are_those_of_siphash(secret: [u8; 16], hash: [u8; 32]) {
            let (mut of_script, mut of_txid) =
                (SipHasher13x128::new_with_key(&secret), SipHasher13::new_with_key(&secret));
            of_script.write(&hash);
            of_txid.write(&hash);
            let whole = of_script.finish128();
            for (length, check) in [(KeyLength::Narrow, 0), (KeyLength::Wide, whole.h2.to_be_bytes()[0])] {
                let keyer = Keyer::new(Secret(secret), length);
                prop_assert_eq!(keyer.script(&ScriptHash(hash)), ScriptKey { prefix: whole.h1, check });
                prop_assert_eq!(keyer.txid(&hash), of_txid.finish());
            }
        }
    }
}
