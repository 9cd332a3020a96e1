//! Private keys, wherever they stand in a line.

/// Characters of a private key in the wallet import format, at least and at most.
const WIF_CHARS: std::ops::RangeInclusive<usize> = 51..=52;

/// Returns `true` if the text has anything that looks like a private key: by itself or in a descriptor.
pub(crate) fn has_private_key(text: &str) -> bool {
    text.split(|char: char| !char.is_ascii_alphanumeric()).any(|word| is_extended(word) || is_wif(word))
}

/// Returns `true` for `xprv..` and its relatives of other versions, whole or not. In the middle of a public key the
/// letters are chance.
fn is_extended(word: &str) -> bool {
    word.get(1..4) == Some("prv") && word.starts_with(['x', 'y', 'z', 't', 'u', 'v', 'Y', 'Z', 'U', 'V'])
}

fn is_wif(word: &str) -> bool {
    WIF_CHARS.contains(&word.len()) && bitcoin::PrivateKey::from_wif(word).is_ok()
}
