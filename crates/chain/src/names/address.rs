//! Addresses as people type them.

use bitcoin::Address;
use bitcoin::address::NetworkUnchecked;

/// Characters of an address: bech32 has at most 90
/// ([BIP 173](https://github.com/bitcoin/bips/blob/master/bip-0173.mediawiki)).
const ADDRESS_CHARS_MAX: usize = 90;

/// Reads an address of any network; `None` if the text is none. The time to decode base58 grows with the square of its
/// length, so a longer text is not decoded.
pub fn read_address(text: &str) -> Option<Address<NetworkUnchecked>> {
    if text.len() > ADDRESS_CHARS_MAX { None } else { text.parse().ok() }
}
