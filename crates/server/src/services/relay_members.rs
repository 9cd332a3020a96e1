//! Members of the relay (NIP-43) as the settings have them, and the relay's own secret key, in a file of its folder.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use birdhouse_events::{Keys, hex};
use birdhouse_relay::{Members, MembersAlone, replace_file};

use super::relay_key;
use crate::config::{MembersName, Options, PubkeyText};
use crate::process::random;

/// Name of the key's file.
pub(crate) const KEY: &str = "self-key";

/// Returns the members of the settings. Without a key in its folder the relay gets a random one.
///
/// # Errors
/// The settings contradict themselves, or the key cannot be read or written.
pub(super) fn members(options: &Options, folder: &Path) -> Result<Option<Members>> {
    let Some(alone) = alone(options)? else { return Ok(None) };
    let path = folder.join(KEY);
    // A link to a secret that is not there yet is no missing key.
    if matches!(std::fs::symlink_metadata(&path), Err(error) if error.kind() == ErrorKind::NotFound) {
        make(&path).with_context(|| format!("failed to write the relay's key to {}", path.display()))?;
    }
    let keys = relay_key::read(&path)?;
    if let Some(PubkeyText(named)) = options.relay_self {
        ensure!(
            named == keys.pubkey(),
            "relay-self is not the public key of {}, which is {}; correct it, or remove it",
            path.display(),
            keys.pubkey()
        );
    }
    Ok(Some(Members { keys: Arc::new(keys), alone }))
}

/// Returns the actions that are for members alone; `None` without members.
///
/// # Errors
/// The events lie in a cluster, where several processes serve and each has rules of its own.
pub(super) fn alone(options: &Options) -> Result<Option<MembersAlone>> {
    let alone = match options.relay_members {
        None | Some(MembersName::Off) => return Ok(None),
        Some(MembersName::Open) => MembersAlone::Nothing,
        Some(MembersName::Publish) => MembersAlone::Publish,
        Some(MembersName::Private) => MembersAlone::PublishAndRead,
    };
    if options.store.is_some() && !options.has_bitcoin() {
        bail!("relay-members is for a relay whose events lie in files; remove it, or --store");
    }
    Ok(Some(alone))
}

/// Writes a random key for its owner alone.
fn make(path: &Path) -> Result<()> {
    let mut secret = random::bytes()?;
    while Keys::from_secret(secret).is_none() {
        secret = random::bytes()?;
    }
    replace_file(path, format!("{}\n", hex::string(&secret)).as_bytes())?;
    tracing::info!(path = %path.display(), "made a key for the relay");
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::parse_file;

    #[test]
    fn the_relay_has_one_key_of_its_own_which_the_settings_cannot_contradict() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| members(&parse_file(text).unwrap(), folder.path());
        assert!(read("").unwrap().is_none() && read("relay-members = \"off\"").unwrap().is_none());
        let key = folder.path().join(KEY);
        assert!(!key.exists());
        let first = read("relay-members = \"private\"").unwrap().unwrap();
        assert_eq!(first.alone, MembersAlone::PublishAndRead);
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        let again = read("relay-members = \"open\"").unwrap().unwrap();
        assert_eq!((again.alone, again.keys.pubkey()), (MembersAlone::Nothing, first.keys.pubkey()));
        let own = first.keys.pubkey();
        assert!(read(&format!("relay-members = \"publish\"\nrelay-self = \"{own}\"")).unwrap().is_some());
        let other = Keys::from_secret([1; 32]).unwrap().pubkey();
        let error = read(&format!("relay-members = \"publish\"\nrelay-self = \"{other}\"")).unwrap_err().to_string();
        assert!(error.contains("relay-self is not the public key"), "{error}");
        std::fs::remove_file(&key).unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), &key).unwrap();
        assert!(read("relay-members = \"open\"").unwrap_err().to_string().contains(KEY));
        assert!(std::fs::symlink_metadata(&key).unwrap().is_symlink());
        let cluster = "relay-members = \"publish\"\nstore = \"cql://127.0.0.1\"\nbitcoin = \"off\"";
        assert!(read(cluster).unwrap_err().to_string().contains("events lie in files"));
    }
}
