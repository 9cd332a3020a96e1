//! The secret key by which this relay proves its identity to others (NIP-42), in a file of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use birdhouse_events::{Keys, hex};
use bitcoin::bech32::primitives::decode::CheckedHrpstring;
use bitcoin::bech32::{Bech32, Hrp};

const SECRET: Hrp = Hrp::parse_unchecked("nsec");
/// Permission bits of everyone but the owner.
const OTHERS: u32 = 0o077;
/// Bytes of the file that are read; a key has 64.
const FILE_BYTES_MAX: u64 = 1024;

/// Reads a secret key, `nsec1..` or 64 hexadecimal digits.
///
/// # Errors
/// The file cannot be read, others may read it, or it holds no key.
pub(super) fn read(path: &Path) -> Result<Keys> {
    let failed = || format!("failed to read the key in {}", path.display());
    let metadata = fs::metadata(path).with_context(failed)?;
    if metadata.permissions().mode() & OTHERS != 0 {
        bail!("others may read the secret key in {0}; run `chmod 600 {0}`", path.display());
    }
    let text =
        if metadata.len() > FILE_BYTES_MAX { String::new() } else { fs::read_to_string(path).with_context(failed)? };
    let keys = secret(text.trim()).and_then(Keys::from_secret);
    keys.with_context(|| format!("{} holds no secret key, nsec1..", path.display()))
}

fn secret(text: &str) -> Option<[u8; 32]> {
    let of_nsec = || {
        let checked = CheckedHrpstring::new::<Bech32>(text).ok().filter(|checked| checked.hrp() == SECRET)?;
        checked.byte_iter().collect::<Vec<u8>>().try_into().ok()
    };
    let of_hex = || hex::read(text.as_bytes())?.collect::<Vec<u8>>().try_into().ok();
    of_nsec().or_else(of_hex)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The example of NIP-19.
    #[test]
    fn a_key_is_read_from_a_file_of_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let hex = "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92ffa";
        let expected = Keys::from_secret(secret(hex).unwrap()).unwrap().pubkey();
        for text in ["nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5\n", hex] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert_eq!(read(&path).unwrap().pubkey(), expected);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = format!("{:#}", read(&path).err().unwrap());
        assert!(error.contains("chmod 600") && !error.contains(hex), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "nonsense").unwrap();
        assert!(read(&path).is_err());
    }
}
