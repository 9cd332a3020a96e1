//! The file of an export. It is whole or as it was: lines go to `FILE.part`, which takes its name at the end.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, IntoInnerError, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::lines::STANDARD;

/// Lets `fill` write a file, or standard output.
///
/// # Errors
/// The failure of `fill` or of the file, which is then as it was.
pub(super) fn write(file: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    if file == Path::new(STANDARD) {
        return filled(io::stdout().lock(), fill).map(drop);
    }
    let failed = || format!("failed to write {}", file.display());
    let target = match fs::metadata(file) {
        // A device or a pipe has no earlier content, and must stay what it is.
        Ok(found) if !found.is_file() => {
            return filled(File::options().write(true).open(file).with_context(failed)?, fill).map(drop);
        }
        // What a link leads to is replaced, not the link.
        Ok(_) => file.canonicalize().with_context(failed)?,
        Err(error) if error.kind() == ErrorKind::NotFound => file.to_owned(),
        Err(error) => return Err(error).with_context(failed),
    };
    let part = part_of(&target);
    let made = File::create(&part).with_context(|| format!("failed to write {}", part.display()))?;
    let replaced = filled(made, fill)
        .and_then(|made| made.sync_all().and_then(|()| fs::rename(&part, &target)).with_context(failed));
    if replaced.is_err() {
        // What failed first is reported.
        let _ = fs::remove_file(&part);
    }
    replaced
}

/// Lets `fill` write, and returns what was written to.
fn filled<W: Write>(out: W, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<W> {
    let mut out = BufWriter::new(out);
    fill(&mut out)?;
    out.into_inner().map_err(IntoInnerError::into_error).context("failed to write the events")
}

fn part_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_file_is_whole_or_as_it_was_and_a_link_and_a_device_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("events"), folder.path().join("link"));
        let cut_off = |out: &mut dyn Write| -> Result<()> {
            out.write_all(b"half")?;
            bail!("no server")
        };
        assert!(write(&file, cut_off).is_err());
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        write(&file, |out| Ok(out.write_all(b"first")?)).unwrap();
        assert!(write(&file, cut_off).is_err());
        assert_eq!(fs::read(&file).unwrap(), b"first");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, |out| Ok(out.write_all(b"second")?)).unwrap();
        assert!(link.is_symlink() && fs::read(&file).unwrap() == b"second");
        write(Path::new("/dev/null"), |out| Ok(out.write_all(b"third")?)).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert_eq!(folder.path().read_dir().unwrap().count(), 2, "a part is left");
    }
}
