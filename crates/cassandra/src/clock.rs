//! Clocks that are wrong: a small library that a program is started with.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the library into a folder. A program with it in `LD_PRELOAD` has a clock that is some seconds ahead, or
/// behind.
///
/// # Errors
/// There is no C compiler, or it fails.
pub fn clock_library(folder: &Path, ahead_s: i64) -> io::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clock.c");
    let library = folder.join(format!("clock{ahead_s}.so"));
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", &format!("-DAHEAD_S=({ahead_s})"), "-o"])
        .args([&library, &source])
        .output()?;
    if compiled.status.success() {
        return Ok(library);
    }
    Err(io::Error::other(format!(
        "failed to compile {}: {}",
        source.display(),
        String::from_utf8_lossy(&compiled.stderr)
    )))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn seconds(with: Option<&Path>) -> i64 {
        let mut date = Command::new("date");
        date.arg("+%s").envs(with.map(|library| ("LD_PRELOAD", library)));
        String::from_utf8(date.output().unwrap().stdout).unwrap().trim().parse().unwrap()
    }

    #[test]
    fn a_program_with_the_library_has_another_time() {
        let folder = tempfile::tempdir().unwrap();
        for ahead_s in [-300, 300] {
            let library = clock_library(folder.path(), ahead_s).unwrap();
            let apart = seconds(Some(&library)) - seconds(None);
            assert!((apart - ahead_s).abs() < 30, "{apart} instead of {ahead_s}");
        }
    }
}
