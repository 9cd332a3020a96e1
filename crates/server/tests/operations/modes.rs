//! Commands that the modes of files bind, also where the tests run as root.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

/// Arguments of setpriv(1) that take root's right to read and write every file away.
const BOUND: [&str; 2] = ["--bounding-set", "-dac_override,-dac_read_search"];

/// Returns a command that modes bind; `None`, with a note, where root cannot give its rights up.
pub(crate) fn bound_by_modes(program: &str) -> Option<Command> {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        return Some(Command::new(program));
    }
    if !Command::new("setpriv").args(BOUND).arg("true").output().is_ok_and(|output| output.status.success()) {
        eprintln!("LEFT OUT: root can read and write everywhere");
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(BOUND).arg(program);
    Some(command)
}

/// Sets the mode of a file or folder.
pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
