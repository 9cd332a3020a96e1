//! Decoding of outside bytes by a cursor that never reads past the end, and the number codings of our rows.

/// Bytes that end too early or hold an impossible value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what} at byte {offset}")]
pub struct Malformed {
    /// The field that was being read.
    pub what: &'static str,
    /// Offset from the start of the bytes.
    pub offset: usize,
}

/// A reading position in a byte slice.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { what, offset: self.at }
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else { return Err(self.malformed(what)) };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<&'a [u8; N], Malformed> {
        Ok(self.take(N, what)?.try_into().expect("take gives the length asked for"))
    }

    #[inline]
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        Ok(self.array::<1>(what)?[0])
    }

    #[inline]
    pub(crate) fn u32_le(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(|bytes| u32::from_le_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn u64_le(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Reads a `CompactSize` (Core's `serialize.h`). Non-minimal forms are accepted: the node checked them.
    #[inline]
    pub(super) fn compact_size(&mut self, what: &'static str) -> Result<u64, Malformed> {
        Ok(match self.u8(what)? {
            0xfd => u16::from_le_bytes(*self.array(what)?).into(),
            0xfe => self.u32_le(what)?.into(),
            0xff => self.u64_le(what)?,
            small => small.into(),
        })
    }

    /// Reads a `CompactSize` that counts or measures items inside these bytes. A value above the number of bytes left
    /// is an error.
    #[inline]
    pub(crate) fn length(&mut self, what: &'static str) -> Result<usize, Malformed> {
        let length = self.compact_size(what)?;
        match usize::try_from(length) {
            Ok(length) if length <= self.bytes.len() - self.at => Ok(length),
            _ => Err(self.malformed(what)),
        }
    }

    /// Reads a `VARINT` (Core's `serialize.h`): base 128, most significant first, each continuation adds one.
    #[inline]
    pub(super) fn core_varint(&mut self, what: &'static str) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        loop {
            let byte = self.u8(what)?;
            if value > u64::MAX >> 7 {
                return Err(self.malformed(what));
            }
            value = value << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            value = value.checked_add(1).ok_or_else(|| self.malformed(what))?;
        }
    }

    /// Reads LEB128: base 128, least significant first. Our own rows use it.
    #[inline]
    pub(crate) fn leb128(&mut self, what: &'static str) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed(what))
    }

    /// Reads an unsigned number of `width` bytes, least significant first.
    #[inline]
    pub(crate) fn uint_le(&mut self, width: usize, what: &'static str) -> Result<u64, Malformed> {
        // Most numbers have eight bytes after their start: a copy of a fixed length is quicker.
        let wide = self.bytes[self.at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let taken = self.take(width, what)?;
        if let Some(number) = wide.filter(|_| width < 8) {
            return Ok(number & ((1 << (8 * width)) - 1));
        }
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(taken);
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Appends a number as LEB128.
#[inline]
pub(crate) fn put_leb128(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a number in `width` bytes, least significant first. It must fit.
#[inline]
pub(crate) fn put_uint_le(out: &mut Vec<u8>, value: u64, width: usize) {
    debug_assert!(width == 8 || value >> (8 * width) == 0, "{value} does not fit {width} bytes");
    put_first(out, value.to_le_bytes(), width);
}

/// Appends the first `len` of some bytes. All are copied, then cut: a copy of a fixed length needs no call.
#[inline]
pub(crate) fn put_first<const BYTES: usize>(out: &mut Vec<u8>, bytes: [u8; BYTES], len: usize) {
    let end = out.len() + len;
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

/// The width in bytes that [`put_uint_le`] needs for numbers up to `max`.
pub(crate) fn uint_width(max: u64) -> usize {
    (64 - max.leading_zeros()).div_ceil(8).max(1) as usize
}

/// Core's `CompressAmount` (`compressor.cpp`): round amounts become small numbers.
#[inline]
pub(crate) fn compress_amount(satoshis: u64) -> u64 {
    if satoshis == 0 {
        return 0;
    }
    let (mut n, mut e) = (satoshis, 0);
    while e < 9 && n % 10 == 0 {
        n /= 10;
        e += 1;
    }
    if e < 9 {
        let digit = n % 10;
        1 + (n / 10 * 9 + digit - 1) * 10 + e
    } else {
        1 + (n - 1) * 10 + 9
    }
}

/// Core's `DecompressAmount`; `None` for numbers that no amount compresses to.
#[inline]
pub(crate) fn decompress_amount(compressed: u64) -> Option<u64> {
    let Some(x) = compressed.checked_sub(1) else { return Some(0) };
    let (e, x) = (x % 10, x / 10);
    let n = if e < 9 { (x / 9).checked_mul(10)?.checked_add(x % 9 + 1)? } else { x.checked_add(1)? };
    n.checked_mul(10_u64.pow(u32::try_from(e).expect("below ten")))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn core_varint_matches_the_examples_of_core() {
        // From the comment above `WriteVarInt` in Core's serialize.h.
        for (value, bytes) in [
            (0, vec![0x00]),
            (127, vec![0x7f]),
            (128, vec![0x80, 0x00]),
            (255, vec![0x80, 0x7f]),
            (256, vec![0x81, 0x00]),
            (16_383, vec![0xfe, 0x7f]),
            (16_384, vec![0xff, 0x00]),
            (65_535, vec![0x82, 0xfe, 0x7f]),
        ] {
            assert_eq!(Cursor::new(&bytes).core_varint("test"), Ok(value));
        }
    }

    #[test]
    fn amounts_compress_as_in_core() {
        // From Core's compress_tests.cpp.
        for (amount, compressed) in [
            (0, 0x0),
            (1, 0x1),
            (1_000_000, 0x7),
            (100_000_000, 0x9),
            (50 * 100_000_000, 0x32),
            (21_000_000 * 100_000_000, 0x01_406f40),
        ] {
            assert_eq!(compress_amount(amount), compressed);
            assert_eq!(decompress_amount(compressed), Some(amount));
        }
    }

    proptest! {
        #[test]
        fn numbers_survive_a_round_trip(value: u64, amount in 0..21_000_000_u64 * 100_000_000) {
            let mut bytes = Vec::new();
            put_leb128(&mut bytes, value);
            put_uint_le(&mut bytes, value, uint_width(value));
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.leb128("n").unwrap(), value);
            prop_assert_eq!(cursor.uint_le(uint_width(value), "n").unwrap(), value);
            prop_assert!(cursor.is_at_end());
            prop_assert_eq!(decompress_amount(compress_amount(amount)), Some(amount));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.core_varint("n").is_ok() {}
            let mut cursor = Cursor::new(&bytes);
            while cursor.leb128("n").is_ok() {}
            let mut cursor = Cursor::new(&bytes);
            while cursor.length("n").is_ok() {}
        }
    }
}
