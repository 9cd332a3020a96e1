//! Folders of measured servers.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Removes a folder if it exists.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("failed to remove {}", folder.display()))?;
    }
    Ok(())
}

/// Returns the bytes on disk of a folder's files.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64> {
    let output = Command::new("du").args(["-s", "--block-size=1"]).arg(folder).output()?;
    ensure!(output.status.success(), "du failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().next().context("failed to parse the output of du")?.parse()?)
}

/// Reads every file of a folder once into the file cache.
pub(crate) fn warm(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            std::io::copy(&mut fs::File::open(path)?, &mut std::io::sink())?;
        }
    }
    Ok(())
}
