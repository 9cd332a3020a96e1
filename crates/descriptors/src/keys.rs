//! Public keys by themselves, in hexadecimal.

use bitcoin::{PublicKey, XOnlyPublicKey};

/// Digits of a key: x-only ([BIP 340](https://github.com/bitcoin/bips/blob/master/bip-0340.mediawiki)), compressed and
/// uncompressed.
const X_ONLY: usize = 64;
const COMPRESSED: usize = 66;
const UNCOMPRESSED: usize = 130;

/// Returns descriptors of all scripts that a public key alone may have, one a line; `None` if the text is no key.
pub fn lines_of_key(hex: &str) -> Option<String> {
    match hex.len() {
        X_ONLY => {
            hex.parse::<XOnlyPublicKey>().ok()?;
            Some(format!("tr({hex})\nrawtr({hex})\ncombo(02{hex})\ncombo(03{hex})"))
        }
        COMPRESSED => {
            hex.parse::<PublicKey>().ok()?;
            Some(format!("combo({hex})\ntr({hex})\nrawtr({hex})"))
        }
        UNCOMPRESSED => {
            hex.parse::<PublicKey>().ok()?;
            Some(format!("combo({hex})"))
        }
        _ => None,
    }
}
