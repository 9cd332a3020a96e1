//! Keys as people write them (NIP-19), and the files of secret ones.
//!
//! Source: <https://github.com/nostr-protocol/nips/blob/master/19.md>.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, Hrp};
use zeroize::Zeroizing;

const PUBLIC: Hrp = Hrp::parse_unchecked("npub");
const SECRET: Hrp = Hrp::parse_unchecked("nsec");
/// Permission bits of everyone but the owner.
const OTHERS: u32 = 0o077;
/// Bytes of the file of a secret key that are read; a key has 64.
const FILE_BYTES_MAX: u64 = 1024;

/// Reads a public key, `npub1..`; `None` if the text is none.
pub fn read_npub(text: &str) -> Option<[u8; 32]> {
    decode(PUBLIC, text).map(|bytes| *bytes)
}

/// Writes a public key.
pub fn write_npub(key: &[u8; 32]) -> String {
    bech32::encode::<Bech32>(PUBLIC, key).expect("it is short")
}

/// Reads a secret key, `nsec1..`; `None` if the text is none.
pub fn read_nsec(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    decode(SECRET, text)
}

/// Writes a secret key.
pub fn write_nsec(key: &[u8; 32]) -> Zeroizing<String> {
    Zeroizing::new(bech32::encode::<Bech32>(SECRET, key).expect("it is short"))
}

/// Returns the text of the file of a secret key, without white space around it; `None` if there is no file.
///
/// # Errors
/// It cannot be read, others may read it, or it is too long for a key.
pub fn read_secret_file(path: &Path) -> Result<Option<Zeroizing<String>>, String> {
    let failed = |error: std::io::Error| format!("failed to read {}: {error}", path.display());
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(failed)?,
    };
    if metadata.permissions().mode() & OTHERS != 0 {
        return Err(format!("others may read the secret key in {0}; run `chmod 600 {0}`", path.display()));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(no_key(path));
    }
    let text = Zeroizing::new(fs::read_to_string(path).map_err(failed)?);
    Ok(Some(Zeroizing::new(text.trim().to_owned())))
}

/// Returns the message about a file that holds no secret key.
pub fn no_key(path: &Path) -> String {
    format!("{} holds no secret key, nsec1..", path.display())
}

fn decode(hrp: Hrp, text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let checked = CheckedHrpstring::new::<Bech32>(text).ok().filter(|checked| checked.hrp() == hrp)?;
    let bytes = Zeroizing::new(checked.byte_iter().collect::<Vec<u8>>());
    bytes[..].try_into().ok().map(Zeroizing::new)
}
