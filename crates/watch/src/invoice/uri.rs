//! Payment requests for wallets, as URIs ([BIP 21](https://github.com/bitcoin/bips/blob/master/bip-0021.mediawiki)).

use std::fmt::Write as _;

/// Satoshis in one bitcoin.
const COIN: u64 = 100_000_000;

/// Returns the URI that asks for this amount, in satoshis, with a label that wallets show.
pub(crate) fn payment_uri(address: &str, amount: u64, label: Option<&str>) -> String {
    let mut uri = format!("bitcoin:{address}?amount={}", decimal(amount));
    if let Some(label) = label.filter(|label| !label.is_empty()) {
        uri.push_str("&label=");
        push_encoded(&mut uri, label);
    }
    uri
}

/// Returns an amount in bitcoin, without zeros at its end and without an exponent.
fn decimal(amount: u64) -> String {
    let (whole, rest) = (amount / COIN, amount % COIN);
    if rest == 0 {
        return whole.to_string();
    }
    let rest = format!("{rest:08}");
    format!("{whole}.{}", rest.trim_end_matches('0'))
}

/// Adds a text in percent encoding: all but the unreserved characters of
/// [RFC 3986](https://www.rfc-editor.org/rfc/rfc3986#section-2.3).
fn push_encoded(uri: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            write!(uri, "%{byte:02X}").expect("writing to memory never fails");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "175tWpb8K1S7NmH4Zx6rewF9WQrcZv245W";

    /// The examples of the BIP.
    #[test]
    fn uris_are_as_the_examples_of_the_bip() {
        let uri = |amount, label| payment_uri(ADDRESS, amount, label);
        assert_eq!(uri(2_030_000_000, Some("Luke-Jr")), format!("bitcoin:{ADDRESS}?amount=20.3&label=Luke-Jr"));
        assert_eq!(uri(5_000_000_000, None), format!("bitcoin:{ADDRESS}?amount=50"));
        let donation = uri(5_000_000_000, Some("Donation for project xyz"));
        assert_eq!(donation, format!("bitcoin:{ADDRESS}?amount=50&label=Donation%20for%20project%20xyz"));
    }

    #[test]
    fn amounts_are_exact() {
        for (amount, text) in [(1, "0.00000001"), (100_000_000, "1"), (123_456_789, "1.23456789"), (10, "0.0000001")] {
            assert_eq!(decimal(amount), text);
            assert_eq!(
                bitcoin::Amount::from_str_in(text, bitcoin::Denomination::Bitcoin).map(bitcoin::Amount::to_sat),
                Ok(amount)
            );
        }
    }

    #[test]
    fn labels_cannot_add_parameters() {
        let uri = payment_uri(ADDRESS, 1, Some("7&amount=9 #\u{e4}+"));
        assert!(uri.ends_with("?amount=0.00000001&label=7%26amount%3D9%20%23%C3%A4%2B"), "{uri}");
    }
}
