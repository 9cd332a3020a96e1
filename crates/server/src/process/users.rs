//! Users and groups of the machine, by the names that operators know.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Result, bail};
use nix::unistd::{Gid, Group, Uid, User};

/// Permission bit of the group to read.
const GROUP_MAY_READ: u32 = 0o040;
/// Permission bit of all others to write.
const OTHERS_MAY_WRITE: u32 = 0o002;

/// The user that a folder belongs to, where that is not the one of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtherUser {
    pub(crate) name: String,
    /// The user of this process.
    pub(crate) own: String,
}

impl OtherUser {
    /// Returns the owner of a folder; `None` if that is this user, or the folder cannot be looked at.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let owner = Uid::from_raw(std::fs::metadata(folder).ok()?.uid());
        (owner != Uid::effective()).then(|| Self { name: user_name(owner), own: user_name(Uid::effective()) })
    }

    /// Returns the user whose data a folder has: the owner of a store in it; without a store that of the folder, unless
    /// all may make files there, as in the image. `None` if that is this user, or nobody knows.
    pub(crate) fn of_data(folder: &Path) -> Option<Self> {
        let inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut stores = inside.filter(|inside| inside.join("VERSION").exists()).peekable();
        if stores.peek().is_none() {
            let mode = std::fs::metadata(folder).ok()?.permissions().mode();
            return if mode & OTHERS_MAY_WRITE == 0 { Self::of(folder) } else { None };
        }
        stores.find_map(|store| Self::of(&store))
    }

    /// Checks that files which this process makes in a folder of data are open to the user of its server.
    ///
    /// # Errors
    /// The data is another user's.
    pub(crate) fn refuse(folder: &Path) -> Result<()> {
        let Some(other) = Self::of_data(folder) else { return Ok(()) };
        bail!(
            "{} is of the user {}, and files that {} makes there would be closed to it: run this command by `{}`",
            folder.display(),
            other.name,
            other.own,
            other.command("..")
        )
    }

    /// Returns the command that runs one of `birdhouse` as that user.
    pub(crate) fn command(&self, of_birdhouse: &str) -> String {
        format!("sudo -u {} birdhouse {of_birdhouse}", self.name)
    }
}

/// Returns who may read a file: the members of its group, else its owner.
pub(crate) fn readers(file: &Path) -> Option<String> {
    let file = std::fs::metadata(file).ok()?;
    let of_group = file.permissions().mode() & GROUP_MAY_READ != 0;
    Some(if of_group {
        format!("members of the group {}", group_name(Gid::from_raw(file.gid())))
    } else {
        format!("its owner {}", user_name(Uid::from_raw(file.uid())))
    })
}

fn user_name(uid: Uid) -> String {
    let user = User::from_uid(uid).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

fn group_name(gid: Gid) -> String {
    let group = Group::from_gid(gid).ok().flatten();
    group.map_or_else(|| gid.to_string(), |group| group.name)
}
