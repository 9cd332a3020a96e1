//! Folders of those who are measured.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Removes a folder, if it is there.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

/// Bytes that a folder's files take on disk.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64> {
    let output = Command::new("du").args(["-s", "--block-size=1"]).arg(folder).output()?;
    ensure!(output.status.success(), "du failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().next().context("du's output")?.parse()?)
}

/// Reads every file of a folder once, so that it is in the file cache.
pub(crate) fn warm(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            std::io::copy(&mut fs::File::open(path)?, &mut std::io::sink())?;
        }
    }
    Ok(())
}
