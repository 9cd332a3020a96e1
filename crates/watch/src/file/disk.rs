//! The file on the disk: its rights, reading, and small edits.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use bitcoin::Network;

use crate::error::{Error, Result};
use crate::file::parse::FileError;
use crate::file::settings::WatchFile;
use crate::limits::FILE_BYTES_MAX;

/// Rights of everyone but the owner.
const RIGHTS_OF_OTHERS: u32 = 0o077;
/// Rights of a new file.
const RIGHTS: u32 = 0o600;

impl WatchFile {
    /// Reads and checks a file; `None` if there is none.
    ///
    /// # Errors
    /// Others may read it, it is too large, or it has a mistake.
    pub fn read(path: &Path, network: Network) -> Result<Option<Self>> {
        let Some(text) = text(path)? else { return Ok(None) };
        check(path, &text, network).map(Some)
    }

    /// Adds a table, as TOML, to the end of a file, which is made if there is none. The file then has no mistake, or is
    /// as before.
    ///
    /// # Errors
    /// The file has a mistake, would have one, or the disk fails.
    pub(super) fn append(path: &Path, table: &str, network: Network) -> Result<()> {
        let _alone = alone(path)?;
        let before = text(path)?.unwrap_or_default();
        check(path, &before, network)?;
        let separator = if before.is_empty() || before.ends_with("\n\n") { "" } else { "\n" };
        let after = format!("{before}{separator}{table}");
        // The mistake is one of the table, whose line the caller has not written.
        let mistake = |error: FileError| Error::File(format!("failed to add the watch: {}", error.message));
        Self::parse(&after, network).map_err(mistake)?;
        replace(path, &after)
    }

    /// Removes a watch from a file, with the lines of its table. Returns false if there is none of the name.
    ///
    /// # Errors
    /// The file has a mistake, or the disk fails.
    pub fn remove(path: &Path, name: &str, network: Network) -> Result<bool> {
        let _alone = alone(path)?;
        let before = text(path)?.unwrap_or_default();
        check(path, &before, network)?;
        let Some(after) = without_watch(&before, name) else { return Ok(false) };
        check(path, &after, network)?;
        replace(path, &after)?;
        Ok(true)
    }
}

/// Waits for other edits of the file, by the server and by the command line, until the returned folder is closed.
fn alone(path: &Path) -> Result<File> {
    let folder = folder_of(path).map_err(|error| failed(path, &error))?;
    if let Err(error) = folder.lock() {
        // Network file systems may lock no folder: there nobody waits.
        tracing::debug!(%error, "failed to lock the folder of the watch file");
    }
    Ok(folder)
}

fn folder_of(path: &Path) -> std::io::Result<File> {
    File::open(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::File(format!("failed to use {}: {error}", path.display()))
}

fn text(path: &Path) -> Result<Option<String>> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    let shown = path.display();
    if meta.mode() & RIGHTS_OF_OTHERS != 0 {
        return Err(Error::File(format!(
            "failed to read {shown}: others may read it, and it names your wallets; run: chmod 600 {shown}"
        )));
    }
    if meta.len() > FILE_BYTES_MAX {
        return Err(Error::File(format!("failed to read {shown}: it has more than {FILE_BYTES_MAX} bytes")));
    }
    fs::read_to_string(path).map(Some).map_err(|error| failed(path, &error))
}

fn check(path: &Path, text: &str, network: Network) -> Result<WatchFile> {
    let parsed = WatchFile::parse(text, network);
    parsed.map_err(|error| Error::File(format!("failed to read {}: {error}", path.display())))
}

/// Replaces the file as a whole. It is the new one after a power cut, too.
fn replace(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension("toml.new");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(RIGHTS).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        if let Ok(old) = fs::metadata(path) {
            // The server's user goes on reading what another one, such as root, has changed.
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        fs::rename(&fresh, path)?;
        folder_of(path)?.sync_all()
    };
    write().map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::File(format!(
            "failed to write {}: {error}; run `birdhouse watch` as a user who may write there",
            path.display()
        )),
        _ => failed(path, &error),
    })
}

/// Returns the text without the table `[[watch]]` of this name; `None` if there is none.
fn without_watch(text: &str, name: &str) -> Option<String> {
    let starts: Vec<usize> = text
        .split_inclusive('\n')
        .scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some((start, line))
        })
        .filter(|(_, line)| line.trim_start().starts_with('['))
        .map(|(start, _)| start)
        .chain([text.len()])
        .collect();
    let is_named = |table: &str| {
        let parsed = table.parse::<toml::Table>().ok();
        let named = parsed.as_ref().and_then(|parsed| parsed.get("watch")?.as_array()?.first()?.get("name")?.as_str());
        named == Some(name)
    };
    let range = starts.windows(2).map(|ends| ends[0]..ends[1]).find(|range| is_named(&text[range.clone()]))?;
    // A comment right above the next table is that table's.
    let mut end = range.end;
    while let Some(line) = text[range.start..end].lines().next_back().filter(|line| line.starts_with('#')) {
        end -= line.len() + usize::from(text[..end].ends_with('\n'));
    }
    Some([&text[..range.start], &text[end..]].concat())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const ONE: &str = "[[watch]]\nname = \"one\"\nscript = \"51\"\n";
    const TWO: &str = "# kept\n[[watch]]\nname = \"two\" # kept too\nscript = \"52\"\n";

    #[test]
    fn a_file_of_others_rights_is_refused_with_the_command_to_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watches.toml");
        assert_eq!(WatchFile::read(&path, Network::Regtest).unwrap(), None);
        fs::write(&path, ONE).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = WatchFile::read(&path, Network::Regtest).unwrap_err().to_string();
        assert!(error.ends_with(&format!("run: chmod 600 {}", path.display())), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(WatchFile::read(&path, Network::Regtest).unwrap().unwrap().watches.len(), 1);
    }

    #[test]
    fn watches_are_added_and_removed_and_the_rest_of_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watches.toml");
        WatchFile::append(&path, ONE, Network::Regtest).unwrap();
        WatchFile::append(&path, TWO, Network::Regtest).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, RIGHTS);
        assert!(WatchFile::append(&path, ONE, Network::Regtest).is_err(), "a name twice");
        assert!(!WatchFile::remove(&path, "three", Network::Regtest).unwrap());
        assert!(WatchFile::remove(&path, "one", Network::Regtest).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), TWO.trim());
    }

    #[test]
    fn edits_at_the_same_time_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watches.toml");
        let add = |number: usize| {
            let table = format!("[[watch]]\nname = \"{number}\"\nscript = \"51\"\n");
            WatchFile::append(&path, &table, Network::Regtest).unwrap();
        };
        std::thread::scope(|scope| {
            for first in [0, 10, 20, 30] {
                scope.spawn(move || (first..first + 10).for_each(add));
            }
        });
        assert_eq!(WatchFile::read(&path, Network::Regtest).unwrap().unwrap().watches.len(), 40);
    }
}
