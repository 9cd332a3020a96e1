//! A watch that an operator adds to the file, by the command line or on the dashboard.

use std::fmt;
use std::fmt::Write as _;
use std::path::Path;

use bitcoin::Network;

use crate::error::{Error, Result};
use crate::file::settings::{Source, WatchFile};

/// Hexadecimal digits of a txid.
const TXID_CHARS: usize = 64;

/// Hexadecimal digits of a private key.
const KEY_CHARS: usize = 64;

/// A watch to add. Its [`Debug`](fmt::Debug) prints no key.
#[derive(Clone, PartialEq, Eq)]
pub struct NewWatch {
    /// Its name.
    pub name: String,
    /// An output descriptor, extended public key, address, script in hexadecimal, output (`txid:vout`) or scan key of
    /// silent payments.
    pub source: String,
    /// Names of channels of the file.
    pub channels: Vec<String>,
    /// Confirmations to announce; 0 is the mempool.
    pub confirmations: Vec<u32>,
    /// A spend is an alarm.
    pub is_cold: bool,
}

impl fmt::Debug for NewWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NewWatch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl NewWatch {
    /// Returns its table of the file.
    ///
    /// # Errors
    /// Its source names no scripts of the network; the reason does not repeat it.
    fn table(&self, network: Network) -> Result<String, String> {
        let source = Source::of_text(&self.source);
        // No script in use has 32 bytes; a raw private key, which must not lie in the file, has.
        if matches!(&source, Source::Script(hex) if hex.len() == KEY_CHARS) {
            return Err("32 bytes are no script, but may be a private key: never give one to a server".into());
        }
        source.check(network)?;
        let Self { name, channels, confirmations, is_cold, .. } = self;
        let mut table = format!("[[watch]]\nname = {}\n{} = {}\n", quoted(name), source.name(), quoted(source.text()));
        writeln!(table, "confirmations = {confirmations:?}").expect("writing to memory never fails");
        if *is_cold {
            table += "cold = true\n";
        }
        let channels: Vec<String> = channels.iter().map(|name| quoted(name)).collect();
        writeln!(table, "channels = [{}]", channels.join(", ")).expect("writing to memory never fails");
        Ok(table)
    }
}

impl WatchFile {
    /// Adds a watch to a file, which is made if there is none. The file then has no mistake, or is as before.
    ///
    /// # Errors
    /// The watch has a mistake, or the disk fails.
    pub fn add(path: &Path, watch: &NewWatch, network: Network) -> Result<()> {
        let table = watch.table(network);
        let table = table.map_err(|mistake| Error::File(format!("failed to add the watch: {mistake}")))?;
        Self::append(path, &table, network)
    }
}

impl Source {
    /// Returns the source that a text without its key means.
    fn of_text(text: &str) -> Self {
        let text = text.trim();
        let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let owned = text.to_owned();
        if text.starts_with("sp(") || text.contains("spscan1") || text.contains("spspend1") {
            Self::SilentPayment(owned)
        } else if text.split_once(':').is_some_and(|(txid, _)| txid.len() == TXID_CHARS) {
            Self::Outpoint(owned)
        } else if is_hex {
            Self::Script(owned)
        } else {
            Self::Descriptor(owned)
        }
    }
}

/// A text of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The second test vector of BIP 32.
    const XPRV: &str = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi";
    const ADDRESS: &str = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu";

    fn watch(name: &str, source: &str) -> NewWatch {
        let (name, source) = (name.to_owned(), source.to_owned());
        NewWatch { name, source, channels: Vec::new(), confirmations: vec![0, 6], is_cold: true }
    }

    #[test]
    fn a_watch_is_added_as_the_file_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watches.toml");
        std::fs::write(&path, "# mine\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let name = "\"Till\" of 'us' = [[watch]]";
        WatchFile::add(&path, &watch(name, &format!(" {ADDRESS}\n")), Network::Bitcoin).unwrap();
        WatchFile::add(&path, &watch("script", "51"), Network::Bitcoin).unwrap();
        let file = WatchFile::read(&path, Network::Bitcoin).unwrap().unwrap();
        let watch = &file.watches[0];
        assert_eq!((watch.name.as_str(), watch.source.text(), &watch.confirmations[..]), (name, ADDRESS, &[0, 6][..]));
        assert!(watch.is_cold && file.watches[1].source == Source::Script("51".into()));
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("# mine\n"));
        assert!(WatchFile::remove(&path, name, Network::Bitcoin).unwrap());
    }

    #[test]
    fn a_mistake_changes_nothing_and_repeats_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watches.toml");
        for (name, source, reason) in [
            ("w", XPRV, "this is a private key: never give one to a server"),
            ("w", "sp(spspend1qqq)", "this holds the private spend key"),
            ("w", "", "failed to add the watch"),
            ("w", &"0b".repeat(32), "may be a private key"),
            ("", ADDRESS, "a name has 1 to 64 characters"),
            ("a\nb", ADDRESS, "failed to add the watch: a name has 1 to 64 characters"),
        ] {
            let found = WatchFile::add(&path, &watch(name, source), Network::Bitcoin).unwrap_err().to_string();
            assert!(found.contains(reason) && !found.contains(XPRV), "{source}: {found}");
        }
        assert!(!path.exists());
        let unknown = NewWatch { channels: vec!["nobody".into()], ..watch("w", ADDRESS) };
        let found = WatchFile::add(&path, &unknown, Network::Bitcoin).unwrap_err().to_string();
        assert_eq!(found, "failed to add the watch: no channel has the name \"nobody\"", "there is no line to look at");
        assert!(!format!("{:?}", watch("w", XPRV)).contains("xprv"));
    }
}
