//! Users and groups of the machine, by the names that operators know.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};

/// Permission bit of the group to read.
const GROUP_MAY_READ: u32 = 0o040;

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
