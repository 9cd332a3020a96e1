//! `HyperLogLog` values of counts ([NIP-45]): an estimate of the number of authors, which clients merge across relays.
//! Pure.
//!
//! Each author counts once, by the digits of the key from an offset on. The value of the filter's tag determines the
//! offset.
//!
//! [NIP-45]: https://github.com/nostr-protocol/nips/blob/master/45.md

use sha2::{Digest as _, Sha256};

use crate::event::{Address, Pubkey, hex};
use crate::filter::Filter;

/// Greatest value of a register, for seven bytes of zeros. Clients shift a number of 64 bits by the value (go-nostr): a
/// greater one may make their estimate wrong.
const REGISTER_MAX: u8 = 57;

/// Registers of an estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hll {
    /// Index of the key byte that selects the register.
    offset: usize,
    registers: [u8; 256],
}

impl Hll {
    /// Returns empty registers for a filter; `None` unless it has exactly one condition on tags with one value, as all
    /// filters for which NIP-45 expects an estimate. (The order of several values is not kept.)
    pub fn of(filter: &Filter) -> Option<Self> {
        let [(_, values)] = filter.tags.as_slice() else { return None };
        let [value] = values.as_slice() else { return None };
        let is_whole = filter.limit.is_none() && filter.search.is_none();
        is_whole.then(|| Self { offset: offset(value), registers: [0; 256] })
    }

    /// Counts the author of an event.
    pub fn add(&mut self, pubkey: &Pubkey) {
        let register = usize::from(pubkey.0[self.offset]);
        let rest = &pubkey.0[self.offset + 1..];
        let zero_bytes = rest.iter().take_while(|byte| **byte == 0).count();
        let zero_bits = zero_bytes * 8 + rest.get(zero_bytes).map_or(0, |byte| byte.leading_zeros() as usize);
        let seen = u8::try_from(zero_bits + 1).unwrap_or(REGISTER_MAX).min(REGISTER_MAX);
        self.registers[register] = self.registers[register].max(seen);
    }

    /// Returns the registers in hex, as on the wire.
    pub fn to_hex(&self) -> String {
        hex::string(&self.registers)
    }
}

/// Returns the offset from the 33rd hex digit of the tag's value: an event id, a key, the author of an address, or the
/// hash of any other value.
fn offset(value: &str) -> usize {
    let named = hex::parse::<32>(value).or_else(|| Address::parse(value).map(|address| address.author().0));
    let bytes: [u8; 32] = named.unwrap_or_else(|| Sha256::digest(value.as_bytes()).into());
    usize::from(bytes[16] >> 4) + 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Kind, Letter};

    fn filter(values: &[&str]) -> Filter {
        let letter = Letter::parse("e").expect("a letter");
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Filter { kinds: Some(vec![Kind(7)]), tags: vec![(letter, values)], ..Filter::default() }
    }

    #[test]
    fn the_offset_is_the_33rd_digit_of_what_is_named_and_eight() {
        let id = format!("{}a{}", "0".repeat(32), "1".repeat(31));
        assert_eq!(offset(&id), 18);
        assert_eq!(offset(&format!("30023:{id}:an article")), 18);
        // printf bitcoin | sha256sum: 6b88c087247aa2f07ee1c5956b8e1a9f4c7f892a70e324f1bb3d161e05ca107b
        assert_eq!(offset("bitcoin"), 4 + 8);
    }

    #[test]
    fn registers_keep_the_longest_run_of_zeros_behind_their_byte() {
        let id = "0".repeat(64);
        let mut hll = Hll::of(&filter(&[&id])).expect("one value");
        let key = |bytes: &[u8]| {
            let mut key = [0xff; 32];
            key[8..8 + bytes.len()].copy_from_slice(bytes);
            Pubkey(key)
        };
        for bytes in [&[3, 0xff][..], &[5, 0x10], &[5, 0xff], &[6, 0, 0x7f]] {
            hll.add(&key(bytes));
        }
        let mut expected = [0; 256];
        (expected[3], expected[5], expected[6]) = (1, 4, 10);
        assert_eq!(hll.registers, expected);
        assert_eq!((hll.to_hex().len(), &hll.to_hex()[..14]), (512, "0000000100040a"));
        hll.add(&Pubkey([0; 32]));
        assert_eq!(hll.registers[0], 57, "nothing but zeros");
    }

    #[test]
    fn only_filters_with_one_value_of_one_tag_have_one() {
        let two_values = ["a".repeat(64), "b".repeat(64)];
        assert_eq!(Hll::of(&filter(&[&two_values[0], &two_values[1]])), None);
        assert_eq!(Hll::of(&Filter::default()), None);
        assert_eq!(Hll::of(&Filter { limit: Some(5), ..filter(&["x"]) }), None);
        assert!(Hll::of(&filter(&["x"])).is_some());
    }
}
