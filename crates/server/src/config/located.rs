//! The configuration file: the one that is named, else that of a packaged service.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::process::users;

/// The file of a packaged service, below the root.
const PACKAGED: &str = "etc/birdhouse.toml";
/// Folder in place of the root, below which tests have a packaged file, or none.
pub(super) const ROOT: &str = "BIRDHOUSE_ROOT";

/// A configuration file.
pub(super) struct Located {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// Reads the file that is `named`, else that of a packaged service; `None` if there is none.
///
/// # Errors
/// The file is named and missing, or this user may not read it: settings are never those of another file silently.
pub(super) fn read(named: Option<&Path>) -> Result<Option<Located>> {
    let path = named.map_or_else(packaged, Path::to_owned);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(Located { path, text })),
        Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let readers = users::readers(&path).unwrap_or_else(|| "root".to_owned());
            bail!(
                "failed to read configuration file {}: permission denied; {readers} may read it: run this command as \
                 such a user (`sudo -u USER birdhouse ..`), or name another file by --config",
                path.display()
            )
        }
        Err(error) => bail!("failed to read configuration file {}: {error}", path.display()),
    }
}

/// Returns true for the file of a packaged service, whether it was named or not.
pub(super) fn is_packaged(path: &Path) -> bool {
    path == packaged()
}

fn packaged() -> PathBuf {
    env::var_os(ROOT).map_or_else(|| PathBuf::from("/"), PathBuf::from).join(PACKAGED)
}
