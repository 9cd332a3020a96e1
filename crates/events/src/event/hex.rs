//! Lowercase hexadecimal, the only form of bytes in NIP-01. Other digits and other lengths are refused, because the
//! same bytes must not have two names.

const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Marks a byte that is not a digit.
const NO_DIGIT: u8 = 0xff;
/// Value of each byte as a digit.
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0_u8;
    while value < 16 {
        values[DIGITS[value as usize] as usize] = value;
        value += 1;
    }
    values
};

/// Decodes exactly `2 * N` lowercase digits.
pub(crate) fn parse<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let pairs: &[[u8; 2]; N] = pairs.try_into().ok()?;
    let mut bytes = [0; N];
    let mut worst = 0; // a digit's value has no high bits, so one look at the end finds what is no digit
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let (high, low) = (VALUES[usize::from(*high)], VALUES[usize::from(*low)]);
        worst |= high | low;
        *byte = high << 4 | low;
    }
    (worst < 16).then_some(bytes)
}

/// Decodes lowercase digits; `None` if one of them is not a digit or their number is odd.
pub fn read(digits: &[u8]) -> Option<impl Iterator<Item = u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let are_digits = rest.is_empty() && digits.iter().all(|digit| VALUES[usize::from(*digit)] != NO_DIGIT);
    are_digits.then(|| pairs.iter().map(|[high, low]| VALUES[usize::from(*high)] << 4 | VALUES[usize::from(*low)]))
}

/// Appends two lowercase digits for each byte.
pub(crate) fn write(out: &mut Vec<u8>, bytes: &[u8]) {
    let before = out.len();
    out.resize(before + 2 * bytes.len(), 0);
    write_at(&mut out[before..], bytes);
}

/// Writes two lowercase digits for each byte to the start of `out`, which must have room for them.
pub(super) fn write_at(out: &mut [u8], bytes: &[u8]) {
    const_hex::encode_to_slice(bytes, &mut out[..2 * bytes.len()]).expect("there is room for two digits a byte");
}

/// Returns two lowercase digits for each byte.
pub fn string(bytes: &[u8]) -> String {
    const_hex::encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lowercase_digits_of_the_exact_length_are_bytes() {
        assert_eq!(parse::<2>("09af"), Some([0x09, 0xaf]));
        for other in ["", "09a", "09af0", "09af00", "09AF", "09ag", "09a ", "0xaf", "09a\u{e9}"] {
            assert_eq!(parse::<2>(other), None, "{other:?}");
        }
    }

    #[test]
    fn digits_of_any_length_are_bytes_and_nothing_else_is() {
        assert!(read(b"09af00").expect("digits").eq([0x09, 0xaf, 0]));
        for other in ["09a", "09AF", "09ag", "09a ", "0xaf"] {
            assert!(read(other.as_bytes()).is_none(), "{other:?}");
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let mut out = Vec::new();
        write(&mut out, &bytes);
        assert_eq!(out, string(&bytes).into_bytes());
        assert_eq!(parse::<256>(&string(&bytes)).expect("our own digits"), *bytes);
        assert!(read(&out).expect("our own digits").eq(bytes.iter().copied()));
    }
}
