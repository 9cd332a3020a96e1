//! Names of blobs.

use std::fmt;

use birdhouse_events::hex;

/// The SHA-256 of a blob's bytes, which is its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobHash(pub [u8; 32]);

/// Hexadecimal digits of a hash.
pub(crate) const HASH_DIGITS: usize = 64;

impl BlobHash {
    /// Parses 64 hexadecimal digits.
    pub fn parse(digits: &str) -> Option<Self> {
        if digits.len() != HASH_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::string(&self.0))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_64_hexadecimal_digits() {
        let digits = "b1674191a88ec5cdd733e4240a81803105dc412d6c6708d53ab94fc248f4f553";
        assert_eq!(BlobHash::parse(digits).unwrap().to_string(), digits);
        assert_eq!(BlobHash::parse(&digits.to_uppercase()).unwrap().to_string(), digits);
        for wrong in ["", &digits[1..], &format!("{digits}0"), &digits.replace('b', "g"), &digits.replace("b1", "+1")] {
            assert_eq!(BlobHash::parse(wrong), None, "{wrong}");
        }
    }
}
