//! The obfuscation of Core's block and undo files: byte `i` of the file is combined by XOR with `key[i % 8]`.
//!
//! Core preallocates the end of a file as raw zeros, which are not obfuscated, so a reader must search for zeros before
//! de-obfuscation ([`XorKey::is_raw_zero`]).
//! Source: Core's `util/obfuscation.h`, `InitBlocksdirXorKey` in `node/blockstorage.cpp`.

/// The key in `xor.dat`; all zero when Core does not obfuscate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct XorKey([u8; Self::LEN]);

impl XorKey {
    /// Bytes of `xor.dat`.
    pub const LEN: usize = 8;

    /// Returns the key with these bytes.
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns `true` when the key changes nothing.
    pub fn is_zero(self) -> bool {
        self.0 == [0; Self::LEN]
    }

    /// Obfuscates or de-obfuscates the bytes at `offset` of a file.
    pub fn apply(self, offset: u64, bytes: &mut [u8]) {
        if self.is_zero() {
            return;
        }
        let key = self.at(offset);
        let word = u64::from_le_bytes(key);
        let (words, rest) = bytes.as_chunks_mut::<{ Self::LEN }>();
        for chunk in words {
            *chunk = (u64::from_le_bytes(*chunk) ^ word).to_le_bytes();
        }
        for (byte, k) in rest.iter_mut().zip(key) {
            *byte ^= k;
        }
    }

    /// Returns `true` when these de-obfuscated bytes from `offset` on are zeros in the file itself.
    pub fn is_raw_zero(self, offset: u64, bytes: &[u8]) -> bool {
        let key = self.at(offset);
        bytes.iter().zip(key.iter().cycle()).all(|(byte, k)| byte == k)
    }

    /// Returns the key rotated to begin at `offset`.
    fn at(self, offset: u64) -> [u8; Self::LEN] {
        let mut key = self.0;
        key.rotate_left((offset % 8) as usize);
        key
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn byte_i_of_the_file_meets_key_i_mod_8() {
        let key = XorKey::new([1, 2, 3, 4, 5, 6, 7, 8]);
        let mut bytes = [0; 11];
        key.apply(6, &mut bytes);
        assert_eq!(bytes, [7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1]);
        assert!(key.is_raw_zero(6, &bytes));
        assert!(!key.is_raw_zero(5, &bytes));
    }

    proptest! {
        #[test]
        fn words_give_what_single_bytes_give(
            key in any::<[u8; 8]>(),
            offset in any::<u32>(),
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let offset = u64::from(offset);
            let expected: Vec<u8> =
                (offset..).zip(&bytes).map(|(at, byte)| byte ^ key[(at % 8) as usize]).collect();
            let mut got = bytes.clone();
            XorKey::new(key).apply(offset, &mut got);
            prop_assert_eq!(&got, &expected);
            XorKey::new(key).apply(offset, &mut got);
            prop_assert_eq!(got, bytes);
        }
    }
}
