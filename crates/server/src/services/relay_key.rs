//! The secret key by which this relay proves its identity to others (NIP-42), in a file of its own.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use birdhouse_dial::relay::keys;
use birdhouse_events::{Keys, hex};

/// Reads a secret key, `nsec1..` or 64 hexadecimal digits.
///
/// # Errors
/// The file cannot be read, others may read it, or it holds no key.
pub(crate) fn read(path: &Path) -> Result<Keys> {
    let text = keys::read_secret_file(path).map_err(|why| anyhow!(why))?;
    let text = text.with_context(|| format!("failed to read the key in {}: there is no such file", path.display()))?;
    secret(&text).and_then(Keys::from_secret).with_context(|| keys::no_key(path))
}

fn secret(text: &str) -> Option<[u8; 32]> {
    let of_hex = || hex::read(text.as_bytes())?.collect::<Vec<u8>>().try_into().ok();
    keys::read_nsec(text).map(|key| *key).or_else(of_hex)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

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
