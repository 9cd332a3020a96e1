//! The server's own account at Nostr: a secret key in a file of its own, made at first use.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use birdhouse_dial::relay::keys;
use parking_lot::Mutex;
use secp256k1::{Keypair, SECP256K1, SecretKey};
use zeroize::Zeroizing;

use super::address;

/// The server's account.
#[derive(Debug)]
pub(crate) struct Identity {
    path: PathBuf,
    keys: Mutex<Option<Keypair>>,
}

impl Identity {
    /// The account whose secret key, `nsec1..`, lies in a file, or will.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, keys: Mutex::new(None) }
    }

    /// Returns the keys. Makes the file if there is none.
    ///
    /// # Errors
    /// The file cannot be read or made, others may read it, or it holds no key.
    pub(super) fn keys(&self) -> Result<Keypair, String> {
        let mut keys = self.keys.lock();
        if let Some(keys) = *keys {
            return Ok(keys);
        }
        let made = read(&self.path).and_then(|found| found.map_or_else(|| make(&self.path), Ok))?;
        *keys = Some(made);
        Ok(made)
    }
}

fn read(path: &Path) -> Result<Option<Keypair>, String> {
    let Some(text) = keys::read_secret_file(path)? else { return Ok(None) };
    let secret = address::secret(&text).ok_or_else(|| keys::no_key(path))?;
    Ok(Some(Keypair::from_secret_key(SECP256K1, &secret)))
}

/// Makes a key and its file. The file is whole or absent, whenever the process ends.
fn make(path: &Path) -> Result<Keypair, String> {
    let failed = |error: io::Error| format!("failed to write {}: {error}", path.display());
    let secret = random_secret().map_err(|error| format!("failed to get random bytes from the system: {error}"))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let unfinished = path.with_file_name(name);
    let _ = fs::remove_file(&unfinished);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
    let mut file = file.map_err(failed)?;
    let text = address::write_secret(&secret);
    file.write_all(text.as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    fs::rename(&unfinished, path).map_err(failed)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(Keypair::from_secret_key(SECP256K1, &secret))
}

/// Returns a new secret key.
pub(super) fn random_secret() -> Result<SecretKey, getrandom::Error> {
    let mut bytes = Zeroizing::new([0; 32]);
    loop {
        getrandom::fill(&mut *bytes)?;
        if let Ok(secret) = SecretKey::from_slice(&*bytes) {
            return Ok(secret);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watch.nsec");
        let first = Identity::new(path.clone());
        let keys = first.keys().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Identity::new(path.clone()).keys().unwrap().secret_bytes(), keys.secret_bytes());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("nsec1") && text.ends_with('\n'));
        assert!(!format!("{first:?}").contains(text.trim()));
        let shown = const_hex::encode(keys.secret_bytes());
        assert!(!format!("{first:?}").contains(&shown));
    }

    #[test]
    fn a_file_that_others_may_read_and_one_without_a_key_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watch.nsec");
        Identity::new(path.clone()).keys().unwrap();
        let secret = fs::read_to_string(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Identity::new(path.clone()).keys().unwrap_err();
        assert!(error.contains("chmod 600") && !error.contains(secret.trim()), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "nsec1nonsense").unwrap();
        assert!(Identity::new(path).keys().unwrap_err().contains("no secret key"));
    }
}
