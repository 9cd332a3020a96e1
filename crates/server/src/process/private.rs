//! Files, folders and memory for their owner alone: the index tells which transactions a wallet asked for, the relay
//! holds private messages, and passwords and keys are in memory.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use nix::sys::stat::{Mode, umask};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Permission bits of everyone but the owner.
const OTHERS: u32 = 0o077;
/// Mode of a folder that only its owner may list, read and change.
const OWNER_ONLY: u32 = 0o700;

/// Makes every file and folder that this process and its children create private to its user, whatever the umask of
/// the caller.
pub(crate) fn restrict_new_files() {
    umask(Mode::from_bits_truncate(OTHERS));
}

/// Keeps the memory of this process off the disk and from other processes of its user: a crash leaves no core dump, and
/// only root can attach a debugger or `perf`.
///
/// Source: `PR_SET_DUMPABLE` in `prctl(2)`.
///
/// # Errors
/// The system refuses.
pub(crate) fn forbid_dumps() -> Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("failed to forbid core dumps; set core-dumps = \"on\" to run with them")
}

/// Creates a folder of the server, or takes away the access of other users to an existing one.
///
/// # Errors
/// The folder can neither be created nor be made private.
pub(crate) fn folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("failed to create {}", path.display()))?;
    let mode = fs::metadata(path).with_context(|| format!("failed to read {}", path.display()))?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    tracing::warn!(folder = %path.display(), mode = format!("{:o}", mode & 0o7777), "made the folder private");
    fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY))
        .with_context(|| format!("failed to make {} private; run `chmod 700` on it", path.display()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_process_leaves_no_core_dump() {
        forbid_dumps().unwrap();
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }

    #[test]
    fn an_existing_folder_loses_the_access_of_others() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("open");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        folder(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, OWNER_ONLY);
    }
}
