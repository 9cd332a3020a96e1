//! Tagged hashes ([BIP 340](https://github.com/bitcoin/bips/blob/master/bip-0340.mediawiki)) of short messages, from
//! the state of SHA-256 after the tag.

use std::sync::LazyLock;

use sha2::block_api::compress256;
use sha2::{Digest as _, Sha256};

/// The hash of a transaction's inputs.
pub(crate) static INPUTS: LazyLock<Tag> = LazyLock::new(|| Tag::new(b"BIP0352/Inputs"));
/// The scalar of a label.
pub(crate) static LABEL: LazyLock<Tag> = LazyLock::new(|| Tag::new(b"BIP0352/Label"));
/// The scalar of an output.
pub(crate) static SHARED_SECRET: LazyLock<Tag> = LazyLock::new(|| Tag::new(b"BIP0352/SharedSecret"));

const BLOCK: usize = 64;
/// The initial state of SHA-256 ([FIPS 180-4](https://csrc.nist.gov/pubs/fips/180-4/upd1/final), 5.3.3).
const IV: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The state after the block that begins every message of one tag.
#[derive(Debug)]
pub(crate) struct Tag([u32; 8]);

impl Tag {
    fn new(name: &[u8]) -> Self {
        let digest = Sha256::digest(name);
        let mut block = [0; BLOCK];
        block[..32].copy_from_slice(&digest);
        block[32..].copy_from_slice(&digest);
        let mut state = IV;
        compress256(&mut state, &[block]);
        Self(state)
    }

    /// Hashes a message that fits two blocks together with its padding.
    pub(crate) fn hash<const LEN: usize>(&self, message: &[u8; LEN]) -> [u8; 32] {
        const { assert!(LEN + 9 <= 2 * BLOCK, "the message fits two blocks") };
        let used = (LEN + 9).div_ceil(BLOCK);
        let mut padded = [0; 2 * BLOCK];
        padded[..LEN].copy_from_slice(message);
        padded[LEN] = 0x80;
        let bits = 8 * (BLOCK + LEN) as u64;
        padded[used * BLOCK - 8..used * BLOCK].copy_from_slice(&bits.to_be_bytes());
        let mut state = self.0;
        let (blocks, _) = padded[..used * BLOCK].as_chunks();
        compress256(&mut state, blocks);
        let mut digest = [0; 32];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of BIP 340, by the library alone.
    fn defined(tag: &[u8], message: &[u8]) -> [u8; 32] {
        let tag = Sha256::digest(tag);
        Sha256::new().chain_update(tag).chain_update(tag).chain_update(message).finalize().into()
    }

    #[test]
    fn messages_of_one_and_two_blocks_hash_as_defined() {
        fn check<const LEN: usize>() {
            let message: [u8; LEN] = std::array::from_fn(|at| at.to_le_bytes()[0].wrapping_mul(37));
            assert_eq!(Tag::new(b"tag").hash(&message), defined(b"tag", &message), "{LEN} bytes");
        }
        check::<0>();
        check::<36>();
        check::<37>();
        check::<55>();
        check::<56>();
        check::<64>();
        check::<69>();
        check::<119>();
    }
}
