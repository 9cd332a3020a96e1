//! CPU time of a process and its children. PostgreSQL has a child for each connection and for each helper of a query.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use birdhouse_testkit::usage::time_of_ticks;

use crate::machine::process::cpu_time;

// Fields of `/proc/PID/stat` after the name.
const PARENT: usize = 1;
const CHILDREN_USER: usize = 13;
const CHILDREN_SYSTEM: usize = 14;

/// Returns the CPU time of a process, of its children, and (to 10 ms) of children that have ended.
pub(super) fn cpu_of_tree(root: u32) -> Result<Duration> {
    let mut total = cpu_time(root)?;
    let ended = stat(root, CHILDREN_USER)
        .zip(stat(root, CHILDREN_SYSTEM))
        .context("failed to read a process that has ended")?;
    total += time_of_ticks(ended.0 + ended.1);
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if stat(pid, PARENT) == Some(root.into()) {
            // A child that ends now counts among the ended ones next time.
            total += cpu_time(pid).unwrap_or_default();
        }
    }
    Ok(total)
}

/// Returns the parent of a process.
pub(super) fn parent(pid: u32) -> Option<u32> {
    stat(pid, PARENT)?.try_into().ok()
}

/// Returns the name of a process.
pub(super) fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

fn stat(pid: u32, field: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(field)?.parse().ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_time_of_children_counts_while_they_run_and_after() {
        let this = std::process::id();
        let before = cpu_of_tree(this).unwrap();
        let work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo; read -r end";
        let mut child =
            Command::new("sh").args(["-c", work]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(parent(child.id()), Some(this));
        let mut line = [0];
        std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut line).unwrap();
        let running = cpu_of_tree(this).unwrap().saturating_sub(before);
        assert_eq!(name(child.id()).as_deref(), Some("sh"));
        drop(child.stdin.take());
        child.wait().unwrap();
        let ended = cpu_of_tree(this).unwrap().saturating_sub(before);
        let least = Duration::from_millis(30);
        assert!(running > least && ended > least, "{running:?} {ended:?}");
    }
}
