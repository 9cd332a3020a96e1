//! Reasons why a text cannot be read, as far as its form tells. Core's `getdescriptorinfo` and `validateaddress` tell
//! the same ones apart.

use birdhouse_silentpayments::{Address, AddressNetwork};
use bitcoin::base58;

use crate::unnamed::Unnamed;

/// Forms that are known and not served, by their names.
const NOT_SERVED: [(&str, &str); 4] =
    [("musig", "musig()"), ("sortedmulti_a", "sortedmulti_a()"), ("sp", "sp()"), ("unused", "unused()")];
/// Forms with which a descriptor begins.
const FORMS: [&str; 11] = ["pk", "pkh", "wpkh", "sh", "wsh", "tr", "multi", "addr", "raw", "combo", "rawtr"];
/// Characters of the checksum of a descriptor.
const CHECKSUM_CHARS: usize = 8;
/// Beginnings of addresses of witness programs.
const SEGWIT: [&str; 3] = ["bc1", "tb1", "bcrt1"];
/// Characters of such an address, at least.
const SEGWIT_CHARS_MIN: usize = 14;
/// Characters of other addresses, and of extended keys with one too few or too many.
const BASE58_CHARS: std::ops::RangeInclusive<usize> = 26..=36;
const EXTENDED_CHARS: std::ops::RangeInclusive<usize> = 100..=120;

/// Returns the reason why a text is neither an address nor a key nor a descriptor.
pub fn unreadable(text: &str) -> Unnamed {
    if let Some(address) = silent_payment_address(text) {
        return address.err().unwrap_or(Unnamed::SilentPayment);
    }
    let words = || text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let is_there =
        |(name, form): &(&str, &str)| text.contains(form.trim_end_matches(')')) && words().any(|word| word == *name);
    if let Some((_, form)) = NOT_SERVED.into_iter().find(is_there) {
        return Unnamed::NotServed(form);
    }
    if words().any(is_mistyped_key) {
        return Unnamed::Mistyped("extended key");
    }
    if words().any(|word| is_extended(word) && !word.starts_with(['x', 't'])) {
        return Unnamed::KeyVersion;
    }
    let Some((form, _)) = text.split_once('(') else {
        return if is_mistyped_address(text) { Unnamed::Mistyped("address") } else { Unnamed::Unknown };
    };
    if text.matches('(').count() != text.matches(')').count() {
        return Unnamed::Brackets;
    }
    if form.trim() == "sortedmulti" {
        return Unnamed::NotServed("sortedmulti() outside of sh() and wsh()");
    }
    if FORMS.contains(&form.trim()) { Unnamed::Unreadable } else { Unnamed::NoForm }
}

/// Reads a text that begins as a silent payment address does; `None` for others.
pub fn silent_payment_address(text: &str) -> Option<Result<Address, Unnamed>> {
    AddressNetwork::of_text(text)?;
    Some(text.parse().map_err(Unnamed::SilentPaymentAddress))
}

/// Returns the reason why the checksum of a descriptor is wrong.
pub(crate) fn of_checksum(text: &str) -> Unnamed {
    let checksum = text.rsplit('#').next().unwrap_or_default();
    if checksum.len() == CHECKSUM_CHARS { Unnamed::Checksum } else { Unnamed::ChecksumLength }
}

fn is_extended(word: &str) -> bool {
    word.get(1..4) == Some("pub") && EXTENDED_CHARS.contains(&word.len())
}

fn is_mistyped_key(word: &str) -> bool {
    is_extended(word) && base58::decode_check(word).is_err()
}

/// True for what has the form of an address, but is none.
fn is_mistyped_address(text: &str) -> bool {
    let lowercase = text.to_lowercase();
    let is_segwit = text.len() >= SEGWIT_CHARS_MIN && SEGWIT.iter().any(|begin| lowercase.starts_with(begin));
    let is_base58 = BASE58_CHARS.contains(&text.len()) && text.starts_with(['1', '3', 'm', 'n', '2']);
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word && (is_segwit || is_base58)
}
