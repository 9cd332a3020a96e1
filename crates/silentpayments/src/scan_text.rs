//! Scan keys as wallets export them: the private scan key and the public spend key, in Bech32m. Pure.
//!
//! Source: [BIP 392](https://github.com/bitcoin/bips/blob/master/bip-0392.mediawiki).

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32m, Fe32};
use bitcoin::Network;
use zeroize::Zeroizing;

use crate::key::ScanKey;

/// Letters before the digit 1, of the main network and of test networks.
const PREFIXES: [&str; 2] = ["spscan", "tspscan"];
/// The same with the private spend key.
const SPEND_PREFIXES: [&str; 2] = ["spspend", "tspspend"];
/// Bytes of both keys.
const BYTES: usize = 32 + 33;
/// Characters of a scan key with its prefix: more is not decoded.
const CHARS_MAX: usize = 150;

/// The reason why a text is no scan key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanTextError {
    /// It begins otherwise.
    #[error("a scan key of silent payments is sp(spscan1q..), as a wallet exports it for watching")]
    Form,
    /// It holds the private spend key.
    #[error("this holds the private spend key: never give one to a server; export the scan key, spscan1..")]
    Spend,
    /// A character is wrong, missing or added.
    #[error("the checksum of the scan key is wrong: a character was mistyped")]
    Checksum,
    /// It is of another network.
    #[error("the scan key is of another network")]
    OtherNetwork,
    /// It has a version that is not known, or another length.
    #[error("the scan key has a version or a length that this server does not know")]
    Version,
    /// One of its keys is none.
    #[error("a key of the scan key is not valid")]
    Key,
}

/// Reads `sp(spscan1q..)`, with or without a key origin, or `spscan1q..` alone.
///
/// # Errors
/// The text is none, or of another network.
pub fn scan_key(text: &str, network: Network) -> Result<ScanKey, ScanTextError> {
    let inner = text.strip_prefix("sp(").and_then(|rest| rest.split_once(')')).map_or(text, |(inner, _)| inner);
    let key = match inner.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(ScanTextError::Form)?.1,
        None => inner,
    };
    let prefix = key.split_once('1').map_or("", |(prefix, _)| prefix).to_lowercase();
    if SPEND_PREFIXES.contains(&prefix.as_str()) {
        return Err(ScanTextError::Spend);
    }
    let at = PREFIXES.iter().position(|known| *known == prefix).ok_or(ScanTextError::Form)?;
    if (at == 0) != (network == Network::Bitcoin) {
        return Err(ScanTextError::OtherNetwork);
    }
    if key.len() > CHARS_MAX {
        return Err(ScanTextError::Version);
    }
    let checked = CheckedHrpstring::new::<Bech32m>(key).map_err(|_| ScanTextError::Checksum)?;
    let mut symbols = checked.fe32_iter::<std::iter::Empty<u8>>();
    if symbols.next() != Some(Fe32::Q) {
        return Err(ScanTextError::Version);
    }
    let bytes = Zeroizing::new(bech32::primitives::iter::Fe32IterExt::fes_to_bytes(symbols).collect::<Vec<u8>>());
    if bytes.len() != BYTES {
        return Err(ScanTextError::Version);
    }
    let (scan, rest) = bytes.split_first_chunk().ok_or(ScanTextError::Version)?;
    let spend = rest.first_chunk().ok_or(ScanTextError::Version)?;
    ScanKey::new(scan, spend, &[]).map_err(|_| ScanTextError::Key)
}
