//! Numbers as Core writes them into blocks and undo data.
//!
//! Source: Core's `serialize.h` (`VARINT`), `compressor.cpp`.

/// Special forms of scripts in Core's compression. A script in none of them has its length plus this number before it;
/// that form is allowed for every script.
pub const SPECIAL_SCRIPTS: u64 = 6;

/// Core's `VARINT`: base 128, most significant group first, one added to each group but the last.
pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    let mut groups = [number.to_le_bytes()[0] & 0x7f; 10];
    let mut first = groups.len() - 1;
    groups[first] = number.to_le_bytes()[0] & 0x7f;
    while number > 0x7f {
        number = (number >> 7) - 1;
        first -= 1;
        groups[first] = number.to_le_bytes()[0] & 0x7f | 0x80;
    }
    out.extend_from_slice(&groups[first..]);
}

/// Core's `WriteCompactSize`, up to 32 bits: a length.
#[expect(clippy::cast_possible_truncation, reason = "the length fits in each arm")]
pub fn compact_size(out: &mut Vec<u8>, length: usize) {
    match length {
        0..253 => out.push(length as u8),
        253..0x1_0000 => {
            out.push(253);
            out.extend((length as u16).to_le_bytes());
        }
        _ => {
            out.push(254);
            out.extend(u32::try_from(length).expect("every list has fewer than 2^32 entries").to_le_bytes());
        }
    }
}

/// Core's `CompressAmount`: trailing zeros in decimal become an exponent.
pub fn compressed_amount(satoshis: u64) -> u64 {
    if satoshis == 0 {
        return 0;
    }
    let (mut rest, mut exponent) = (satoshis, 0);
    while rest.is_multiple_of(10) && exponent < 9 {
        rest /= 10;
        exponent += 1;
    }
    if exponent < 9 {
        let digit = rest % 10;
        1 + (rest / 10 * 9 + digit - 1) * 10 + exponent
    } else {
        1 + (rest - 1) * 10 + 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of Core's `compress_tests.cpp` and `serialize_tests.cpp`.
    #[test]
    fn numbers_are_coded_as_core_codes_them() {
        for (satoshis, code) in [(0, 0), (1, 1), (1_000_000, 7), (100_000_000, 9), (5_000_000_000, 50)] {
            assert_eq!(compressed_amount(satoshis), code);
        }
        let coded = |number| {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            bytes
        };
        assert_eq!(coded(0x7f), [0x7f]);
        assert_eq!(coded(0x80), [0x80, 0x00]);
        assert_eq!(coded(0x1234), [0xa3, 0x34]);
        assert_eq!(coded(0xffff), [0x82, 0xfe, 0x7f]);
    }
}
